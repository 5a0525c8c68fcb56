"""The plain loop: one thread, one batch after the other; no workers, no log, no lock.

What a trainer must come to where nothing is concurrent. Made of nothing that trainers
are made of, else a comparison would be one of a thing with itself.
"""

from collections.abc import Sequence

import numpy as np

from asyncsgd_edu.engines import devices
from asyncsgd_edu.problems.problem import Batch, Problem, check_problem
from asyncsgd_edu.quiet import keras, tf
from asyncsgd_edu.rules.arguments import MAX_SEED, MAX_UPDATES, MAX_WORKERS, whole_number

PLACE = "/device:CPU:0"  # Bits compare only where the arithmetic was done on a device of the same kind.


def train_plainly(
    problem: Problem, optimizer: keras.optimizers.Optimizer, updates: int, seed: int = 0, workers: int = 1
) -> tuple[list[np.ndarray], np.ndarray]:
    """Parameters after `updates` updates, and the losses before each, float32 of shape [updates].

    `optimizer` must be new: it is used, not copied. The batch of an update is made of
    the batches of that number of all `workers`, joined in order.
    """
    check_problem(problem)
    updates = whole_number("updates", updates, 1, MAX_UPDATES)
    seed = whole_number("seed", seed, 0, MAX_SEED)
    workers = whole_number("workers", workers, 1, MAX_WORKERS)
    devices.prepare()
    losses = []
    with tf.device(PLACE):
        parameters = [tf.Variable(value) for value in problem.initial(seed)]
        optimizer.build(parameters)
        for number in range(updates):
            batch = problem.batch(0, number, seed) if workers == 1 else joined(problem, number, seed, workers)
            loss, step = problem.gradient([value.read_value() for value in parameters], batch)
            optimizer.apply(step, parameters)
            losses.append(loss.numpy())
    return [np.array(value.numpy()) for value in parameters], np.array(losses, np.float32)


def gradient(problem: Problem, parameters: Sequence[np.ndarray], batch: Batch) -> list[np.ndarray]:
    """Gradient of the batch's loss with respect to each parameter, of the same shapes."""
    with tf.device(PLACE):
        return [part.numpy() for part in problem.gradient(parameters, batch)[1]]


def joined(problem: Problem, number: int, seed: int, workers: int) -> Batch:
    """Batch `number` of each of `workers`, one after the other: each tensor of shape [workers * batch_size, ...]."""
    parts = [problem.batch(worker, number, seed) for worker in range(workers)]
    return tuple(tf.concat(same, axis=0) for same in zip(*parts, strict=True))
