"""Arithmetic copied into a session's graph: the same results, the same side effects, constants where it was placed."""

import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu import Digits, Quadratic
from asyncsgd_edu.engines.session_graph import Copied, copied_gradient
from asyncsgd_edu.problems.problem import Problem

pytestmark = pytest.mark.usefixtures("eight_devices")
v1 = tf.compat.v1
NUMBER = tf.TensorSpec([], tf.float32)


def run(copied, *values):
    """What a copy in a new graph gives for numbers."""
    values = [np.asarray(value, np.int64 if isinstance(value, list) else np.float32) for value in values]
    with tf.Graph().as_default() as graph:
        # Fed: what is constant a session works out beforehand.
        inputs = [v1.placeholder(value.dtype, value.shape) for value in values]
        results = copied(*inputs, name="here")
        with v1.Session(graph=graph) as session:
            return session.run(results, dict(zip(inputs, values, strict=True)))


def test_a_copy_gives_what_the_function_gives():
    copied = Copied(lambda x, y: [x + y, x * y], NUMBER, NUMBER)
    assert run(copied, 2.0, 5.0) == [7.0, 10.0]
    assert run(copied, 3.0, 4.0) == [7.0, 12.0]  # A second graph.


def test_what_is_captured_becomes_a_constant_on_the_device_of_the_copy():
    kept = tf.range(1000.0)  # TensorFlow makes constants of small ones itself.
    copied = Copied(lambda x: [x * kept], NUMBER)
    assert run(copied, 3.0)[0].tolist() == [3.0 * k for k in range(1000)]
    with tf.Graph().as_default() as graph, tf.device("/device:CPU:3"):
        copied(tf.constant(1.0), name="here")
    constants = [op for op in graph.get_operations() if op.type == "Const" and op.outputs[0].shape == [1000]]
    assert [op.device for op in constants] == ["/device:CPU:3"]
    assert [op.device for op in graph.get_operations() if op.type == "Mul"] == ["/device:CPU:3"]


def test_what_is_done_on_the_side_comes_first():
    seen = []

    def asserted(x):
        tf.debugging.assert_positive(x, message="not above 0")  # Nothing depends on it.
        tf.numpy_function(lambda value: seen.append(float(value)), [x], [])
        return [x + 1]

    copied = Copied(asserted, NUMBER)
    assert run(copied, 1.0) == [2.0]
    assert seen == [1.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="not above 0"):
        run(copied, -1.0)


def test_branches_loops_and_functions_are_copied_too():
    @tf.function
    def twice(x):
        return 2 * x

    def grown(x):
        y = tf.cond(x > 0, lambda: twice(x), lambda: -x)
        return [tf.while_loop(lambda z: z < 100, lambda z: [z * 3], [y])[0]]

    copied = Copied(grown, NUMBER)
    assert run(copied, 1.0) == [162.0]
    assert run(copied, -1.0) == [243.0]


def test_a_variable_is_refused_by_what_it_is():
    variable = tf.Variable(1.0)
    with pytest.raises(TypeError, match=r"the problem keeps a variable or a table \(resource\)"):
        Copied(lambda x: [x * variable], NUMBER)


@pytest.mark.parametrize("problem", [Quadratic(), Digits("linear"), Digits("cnn")], ids=lambda p: p.name)
def test_the_gradient_of_a_batch_is_that_of_the_problem(problem):
    values = problem.initial(1)
    loss, *gradient = run(copied_gradient(problem, 1), [2, 7], *values)
    expected, parts = problem.gradient([tf.constant(v) for v in values], problem.batch(2, 7, 1))
    assert loss == pytest.approx(float(expected), rel=1e-6)
    for ours, theirs in zip(gradient, parts, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-6)


class Rows(Problem):
    """A problem whose gradient TensorFlow gives as the rows that were looked up."""

    name, batch_size = "rows", 1

    def initial(self, seed):
        return [np.ones((4, 2), np.float32)]

    def batch(self, worker, number, seed):
        return (tf.cast(number, tf.int64),)

    def loss(self, parameters, batch):
        return tf.reduce_sum(tf.gather(parameters[0], batch[0]))

    def evaluate(self, parameters):
        return {"loss": float(parameters[0].sum())}


def test_a_gradient_of_a_few_rows_is_made_whole():
    problem = Rows()
    _, gradient = run(copied_gradient(problem, 0), [0, 2], *problem.initial(0))
    assert gradient.tolist() == [[0, 0], [0, 0], [1, 1], [0, 0]]
