"""The bent valley: gradients against the formula, a run that reaches the minimum, bad arguments."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu import AsyncTrainer, Constant, Synchronous, Trace, replay, simulate
from asyncsgd_edu.problems.rosenbrock import Rosenbrock

pytestmark = pytest.mark.usefixtures("eight_devices")
POINTS = [(-1.2, 1.0), (0.0, 0.0), (1.0, 1.0), (0.5, -2.0)]


@pytest.mark.parametrize("point", POINTS)
def test_gradient_is_its_formula(point):
    problem = Rosenbrock(a=1.5, b=20.0, noise=0.3)
    x, y = point
    batch = problem.batch(1, 2, 3)
    noise = batch[0].numpy()[0]
    loss, (gradient,) = problem.gradient([np.array(point, np.float32)], batch)
    valley = y - x**2
    expected = [-2 * (1.5 - x) - 80 * x * valley + 0.3 * noise[0], 40 * valley + 0.3 * noise[1]]
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(loss, (1.5 - x) ** 2 + 20 * valley**2 + 0.3 * noise @ point, rtol=1e-5)


@pytest.mark.parametrize("point", POINTS)
def test_curvature_is_the_diagonal_of_the_hessian(point):
    problem = Rosenbrock(b=7.0)
    at = tf.constant(point, tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(at)
        with tf.GradientTape() as inner:
            inner.watch(at)
            loss = problem.loss([at], (tf.zeros([1, 2], tf.float64),))
        gradient = inner.gradient(loss, at)
    hessian = outer.jacobian(gradient, at).numpy()
    np.testing.assert_allclose(problem.curvature([np.array(point)])[0], np.diag(hessian))
    # In a graph, as a remedy asks for it.
    inside = tf.function(lambda p: problem.curvature([p]))(tf.constant(point, tf.float32))
    np.testing.assert_allclose(inside[0], np.diag(hessian), rtol=1e-6)


def test_a_batch_is_named_by_seed_worker_and_number():
    problem = Rosenbrock()
    first = problem.batch(1, 2, 3)[0].numpy()
    assert first.shape == (1, 2)
    assert np.array_equal(first, problem.batch(1, 2, 3)[0].numpy())
    for other in ((2, 2, 3), (1, 3, 3), (1, 2, 4)):
        assert not np.array_equal(first, problem.batch(*other)[0].numpy())


def test_evaluation_is_zero_at_the_minimum_only():
    problem = Rosenbrock(a=2.0)
    assert problem.evaluate([np.array([2.0, 4.0])]) == {"loss": 0.0, "distance": 0.0}
    start = problem.evaluate(problem.initial(0))
    assert start["loss"] == pytest.approx(3.2**2 + 100 * 0.44**2)
    assert start["distance"] == pytest.approx(math.hypot(3.2, 3.0))
    assert math.isinf(problem.evaluate([np.array([1e200, 0.0])])["loss"])


@pytest.mark.parametrize(("b", "learning_rate", "updates"), [(100.0, 0.001, 12_000), (1.0, 0.05, 400)])
def test_plain_sgd_reaches_the_minimum_at_the_learning_rate_that_is_stated(b, learning_rate, updates):
    one = simulate(1, Synchronous(), Constant(1.0), updates)
    ended = replay(one, Rosenbrock(b=b), learning_rate=learning_rate)
    assert ended.header.ended.how == "finished"
    assert Rosenbrock(b=b).evaluate(ended.parameters)["distance"] < 0.02


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a_race_is_replayed_bit_for_bit(noise):
    problem = Rosenbrock(noise=noise)
    race = AsyncTrainer(problem, workers=3, optimizer=keras.optimizers.SGD(0.0003), seed=2).fit(updates=200)
    again = replay(race, problem, learning_rate=0.0003)
    assert np.array_equal(again.parameters[0], race.parameters[0])
    assert np.array_equal(again.loss, race.loss)


def test_too_large_a_learning_rate_diverges():
    trace = replay(Trace.from_schedule("0r 0a " * 40), Rosenbrock(), learning_rate=0.05)
    assert trace.header.ended.how == "diverged"


def test_it_says_what_it_is():
    assert Rosenbrock(2, 50, noise=0.1, start=[0, 1]).describe() == {
        "name": "rosenbrock",
        "batch_size": 1,
        "a": 2.0,
        "b": 50.0,
        "noise": 0.1,
        "start": [0.0, 1.0],
    }
    assert Rosenbrock(start=np.array([3.0, 4.0])).initial(5)[0].tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"a": float("nan")}, ValueError, ["a must be a number", "nan"]),
        ({"a": "1"}, TypeError, ["a must be", "'1'"]),
        ({"b": 0}, ValueError, ["b must be a finite number above 0, got 0"]),
        ({"b": 1e31}, ValueError, ["b must be", "1e+30"]),
        ({"noise": -1}, ValueError, ["noise", "-1"]),
        ({"start": (1.0,)}, TypeError, ["start must be two numbers (x, y)", "(1.0,)"]),
        ({"start": 1.0}, TypeError, ["start must be two numbers"]),
        ({"start": "ab"}, TypeError, ["x of start", "'a'"]),
        ({"start": (0, float("inf"))}, ValueError, ["y of start", "inf"]),
        ({"start": (1e10, 0.0)}, ValueError, ["loss and curvature at the start", "b 100", "1e+42"]),
    ],
)
def test_bad_arguments_are_named(arguments, error, words):
    with pytest.raises(error) as told:
        Rosenbrock(**arguments)
    for word in words:
        assert word in str(told.value)
