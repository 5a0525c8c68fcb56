"""Several steps of one thread in one call of TensorFlow: a loop in the graph, around the same step.

A call from Python costs more than a small step. In a loop it is paid once, and nothing else changes: each step
reads, computes and applies by itself, other threads' updates fall in between as before, and each is reported.
"""

from collections.abc import Callable, Sequence

from asyncsgd_edu.engines.log import FROM_END
from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.arguments import whole_number

MOST_STEPS = 10_000  # In one call: a stop has to wait for them.


def check_steps(steps_per_call: int, waits: bool) -> int:
    """Return `steps_per_call`, 1 to 10000; 1 where a worker `waits` for others or sleeps between its steps.

    Raises TypeError or ValueError for what is not.

    >>> check_steps(50, waits=False)
    50
    """
    steps_per_call = whole_number("steps_per_call", steps_per_call, 1, MOST_STEPS)
    if steps_per_call > 1 and waits:
        raise ValueError(
            f"steps_per_call must be 1 where a worker waits or sleeps between its steps, got {steps_per_call}"
        )
    return steps_per_call


def one_by_one(
    step: Callable[[tf.Tensor], tf.Tensor], count: int | tf.Tensor, shape: Sequence[int], hurried: tf.Variable
) -> tf.Tensor:
    """Reports of step(0), step(1), ..., each begun when the last is done: float64 of shape [n, *shape] (graph op).

    They are `count` in all, or fewer: the first that is not applied ends them and is reported too, and once `hurried`
    is true no further one begins. A report ends with a TAIL, that of its last gradient if it is of several.
    """

    def another(i: tf.Tensor, _: tf.Tensor, reports: tf.TensorArray) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        report = step(i)
        return i + 1, tf.reshape(report, [-1])[FROM_END["applied"]] > 0, reports.write(tf.cast(i, tf.int32), report)

    reports = tf.TensorArray(tf.float64, size=tf.cast(count, tf.int32), element_shape=shape)
    start = (tf.zeros([], tf.int64), tf.constant(True), reports)
    last = tf.cast(count, tf.int64)

    def goes_on(i: tf.Tensor, going: tf.Tensor, _: tf.TensorArray) -> tf.Tensor:
        return (i < last) & going & ((i < 1) | ~hurried.read_value())

    done, _, reports = tf.while_loop(goes_on, another, start, parallel_iterations=1)
    return reports.stack()[:done]
