"""Randomness without state: (seed, purpose, worker, number) names a draw.

The same four numbers give the same draw on any thread, in any order, as often
as it is asked for. There is no generator to share, and so none to race for.
"""

import numpy as np

from asyncsgd_edu.quiet import tf

INITIAL, BATCH = 0, 1  # Purposes; durations use 2, see rules/durations.py.


def initial_generator(seed: int) -> np.random.Generator:
    """The generator of a run's initial parameters."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, INITIAL))))


def batch_seed(seed: int, worker: tf.Tensor | int, number: tf.Tensor | int) -> tf.Tensor:
    """The seed, int64 of shape [2], of a worker's batch `number`, for `tf.random.stateless_*`."""
    base = tf.constant([seed, BATCH], tf.int64)
    for part in (worker, number):
        base = tf.random.experimental.stateless_fold_in(base, tf.cast(part, tf.int64))
    return base
