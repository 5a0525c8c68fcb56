"""Purity: graphs that do the same every time pass, all others are refused, and the node is named."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu.problems.purity import check_pure

pytestmark = pytest.mark.usefixtures("eight_devices")


def tracing(function):
    """As `check_pure` wants it: a new graph of `function` of a vector each time."""
    return lambda: tf.function(function, autograph=False).get_concrete_function(tf.TensorSpec([3], tf.float32)).graph


def looped(body):
    """`body` in a loop, so that it lies in a graph that the graph calls."""
    return lambda x: tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, body(v)), (0, x))[1]


def branching(body):
    return lambda x: tf.switch_case(tf.cast(x[0], tf.int32), [lambda: x, lambda: body(x)])


@pytest.fixture(scope="module")
def kept(eight_devices):
    """What a graph may find outside of it."""
    return {"variable": tf.Variable(2.0), "generator": tf.random.Generator.from_seed(1)}


@pytest.mark.parametrize("within", [lambda body: body, looped, branching])
def test_what_only_computes_passes(within):
    check_pure("it", tracing(within(lambda x: tf.random.stateless_normal([3], [1, 2]) + x)))
    check_pure("it", tracing(within(lambda x: tf.debugging.assert_all_finite(x, "not finite"))))


@pytest.mark.parametrize("within", [lambda body: body, looped, branching])
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            lambda x, _: x + tf.random.normal([3], name="dice"),
            r"dice/RandomStandardNormal \(RandomStandardNormal\) draws",
        ),
        (lambda x, kept: x + kept["generator"].normal([3]), r"\(RngReadAndSkip\) draws or keeps"),
        (lambda x, kept: x * kept["variable"], "reads a variable"),
        (lambda x, kept: x * kept["variable"].assign_add(1.0), "changes a variable"),
        (lambda x, _: x + keras.random.normal([3]), "Keras's global random state"),
        (lambda x, _: tf.ensure_shape(tf.py_function(lambda v: v, [x], tf.float32), [3]), "calls Python"),
        (lambda x, _: tf.ensure_shape(tf.numpy_function(np.sin, [x], tf.float32, stateful=False), [3]), "calls Python"),
        (lambda x, _: tf.cast(tf.cast(x, tf.float16), tf.float32), "is of float16; everything has to be float32"),
    ],
)
def test_what_cannot_be_repeated_is_named(within, body, says, kept):
    with pytest.raises(ValueError, match=f"^it cannot be computed again.*{says}"):
        check_pure("it", tracing(within(lambda x: body(x, kept))))


@pytest.mark.parametrize("within", [lambda body: body, looped, branching])
def test_what_python_remembers_is_found(within):
    numbers = iter(range(100))
    with pytest.raises(ValueError, match="is another one each time that the graph is built"):
        check_pure("it", tracing(within(lambda x: x + float(next(numbers)))))
    calls = []

    def longer_each_time(x):
        calls.append(1)
        for _ in calls:
            x = tf.sin(x)
        return x

    with pytest.raises(ValueError, match="another one each time"):
        check_pure("it", tracing(within(longer_each_time)))


def test_what_is_different_the_first_time_only_passes():
    made = []

    def lazily(x):
        if not made:
            made.append(1)
            return x + 1.0
        return x + 2.0

    check_pure("it", tracing(lazily))
    assert made
