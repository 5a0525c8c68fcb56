"""A loop in the graph is the steps, one after the other, and ends with the first that is not applied."""

import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu.engines.log import AT, HEAD, TAIL
from asyncsgd_edu.engines.steps import check_steps, one_by_one

pytestmark = pytest.mark.usefixtures("eight_devices")
WIDTH = len(HEAD) + len(TAIL)
APPLIED = AT["applied"] - AT["read_version"]


def reports(count, refused_at=10**6, gradients=(), hurried_at=10**6):
    """Reports of steps that say their number everywhere but in `applied`; step `hurried_at` asks for haste."""
    hurried = tf.Variable(False)

    @tf.function(autograph=False)
    def call(count):
        def step(i):
            row = tf.tensor_scatter_nd_update(
                tf.fill([WIDTH], tf.cast(i, tf.float64)), [[APPLIED]], [tf.cast(i < refused_at, tf.float64)]
            )
            with tf.control_dependencies([hurried.assign(hurried.read_value() | (i >= hurried_at))]):
                row = tf.identity(row)
            return tf.tile(row[None], [*gradients, 1]) if gradients else row

        return one_by_one(step, count, [*gradients, WIDTH], hurried)

    return call(tf.constant(count, tf.int64)).numpy()


@pytest.mark.parametrize("gradients", [(), (3,)])
@pytest.mark.parametrize(
    ("count", "refused_at", "made"), [(1, 9, 1), (5, 9, 5), (5, 5, 5), (5, 4, 5), (5, 2, 3), (5, 0, 1)]
)
def test_the_first_step_that_is_not_applied_is_the_last(gradients, count, refused_at, made):
    found = reports(count, refused_at, gradients)
    assert found.shape == (made, *gradients, WIDTH)
    first = found.reshape(made, -1, WIDTH)[:, -1]
    assert first[:, 0].tolist() == list(range(made))
    assert first[:, APPLIED].tolist() == [float(i < refused_at) for i in range(made)]


@pytest.mark.parametrize("at", [0, 2, 4])
def test_once_in_haste_no_further_step_begins(at):
    assert reports(5, hurried_at=at).shape == (at + 1, WIDTH)


def test_a_step_begins_when_the_last_is_done():
    total, calm = tf.Variable(1.0, dtype=tf.float64), tf.Variable(False)

    @tf.function(autograph=False)
    def call():
        def step(i):
            seen = total.read_value()
            with tf.control_dependencies([total.assign(2 * seen + tf.cast(i, tf.float64))]):
                return seen * tf.ones([WIDTH], tf.float64)

        return one_by_one(step, 6, [WIDTH], calm)

    expected = [1.0]
    for i in range(5):
        expected.append(2 * expected[-1] + i)
    assert np.array_equal(call().numpy()[:, 0], expected)


@pytest.mark.parametrize(
    ("given", "error"), [(0, ValueError), (10_001, ValueError), (True, TypeError), (1.5, TypeError)]
)
def test_numbers_of_steps_that_are_not_are_told(given, error):
    with pytest.raises(error, match="steps_per_call"):
        check_steps(given, waits=False)
