"""What a run should show, written down before it is run.

Each function is one formula with its source; a figure draws it beside the
trace, so that the eye can compare a prediction with a measurement.
"""

import numpy as np

from asyncsgd_edu.rules.arguments import MAX_WORKERS, whole_number


def mean_staleness(workers: int, gradients_per_update: int = 1) -> float:
    """Mean staleness when every worker reads again at once.

    A gradient waits while the other workers' gradients are applied, and each of
    the N workers always has one under way, so the mean is (N - 1) / c with c
    gradients in an update: staleness can be moved about but never removed. A
    run's own mean is lower where workers idle between an apply and the next read.

    >>> mean_staleness(8)
    7.0
    >>> round(mean_staleness(30, gradients_per_update=30), 3)
    0.967
    """
    workers = whole_number("workers", workers, 1, 10**6)
    return (workers - 1) / whole_number("gradients_per_update", gradients_per_update, 1, 10**6)


def geometric_staleness(workers: int, largest: int) -> np.ndarray:
    """Probability of staleness 0..`largest` when durations are memoryless.

    With exponential durations the next to finish is any of the N workers alike,
    so P(staleness = k) = (1/N) (1 - 1/N)^k, of mean N - 1 and variance N (N - 1).
    Other durations of the same mean keep the mean and change the shape.

    Returns float64 of shape [largest + 1].

    >>> geometric_staleness(2, 3).tolist()
    [0.5, 0.25, 0.125, 0.0625]
    """
    workers = whole_number("workers", workers, 1, MAX_WORKERS * 10**4)
    k = np.arange(whole_number("largest", largest, 0, 10**9) + 1)
    return (1 / workers) * (1 - 1 / workers) ** k
