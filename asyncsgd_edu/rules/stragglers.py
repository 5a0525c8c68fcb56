"""What one slow worker does to a run in which nobody waits.

Of N workers, memoryless and alike, one takes `factor` times as long. Nothing
here runs anything: each function is one formula with its reason.
"""

import math

import numpy as np

from asyncsgd_edu.rules.arguments import positive_number, whole_number
from asyncsgd_edu.rules.laws import MOST

MOST_UPDATES = 10**7


def updates_per_second(workers: int, factor: float = 1.0, mean: float = 1.0) -> float:
    """Updates a second of asynchronous workers of that `mean` duration, one of them `factor` times as slow.

    Nobody waits, so rates add up: (N - 1 + 1 / factor) / mean.

    >>> updates_per_second(8), updates_per_second(8, factor=100)
    (8.0, 7.01)
    """
    workers = whole_number("workers", workers, 1, MOST)
    return (workers - 1 + 1 / _slower(factor)) / positive_number("mean", mean)


def updates_to_target(target: float, learning_rate: float, curvature: float = 1.0) -> float:
    """Updates until |w| is `target` times the start on 1/2 h w^2, at a small learning rate a.

    w falls as exp(-a h t), so they are ln(1 / target) / (a h). Staleness comes in only with the next power of a h:
    a mean staleness of m makes it about a h m sooner, as a share.

    >>> round(updates_to_target(0.5, learning_rate=0.004), 1)
    173.3
    """
    if not 0 < positive_number("target", target) < 1:
        raise ValueError(f"target must be a share of the start between 0 and 1, got {target!r}")
    step = positive_number("learning_rate", learning_rate) * positive_number("curvature", curvature)
    return math.log(1 / target) / step


def largest_staleness(workers: int, factor: float, updates: int) -> float:
    """Expected largest staleness of the slow worker's gradients among so many updates.

    Whose gradient comes next does not depend on the past: it is the slow worker's with
    probability p = (1 / factor) / (N - 1 + 1 / factor). If it makes n of T updates, the others'
    T - n fall into n + 1 gaps, all divisions alike; the longest of the first n gaps is expected to hold
    about (T - n) H_n / (n + 1) of them, as with the largest of n exponential durations. This is its mean over n,
    which is binomial.

    >>> round(largest_staleness(8, factor=100, updates=20_000))
    2724
    """
    slow = 1 / _slower(factor)
    workers = whole_number("workers", workers, 1, MOST)
    updates = whole_number("updates", updates, 1, MOST_UPDATES)
    if workers == 1:
        return 0.0
    from scipy import stats  # type: ignore[import-untyped]  # Here: nothing else needs it.

    n = np.arange(updates + 1)
    chance = stats.binom.pmf(n, updates, slow / (workers - 1 + slow))
    harmonic = np.concatenate([[0.0], np.cumsum(1 / n[1:])])
    return float((chance * (updates - n) * harmonic / (n + 1)).sum())


def _slower(factor: float) -> float:
    factor = positive_number("factor", factor)
    if factor < 1:
        raise ValueError(f"factor says how many times as slow, so it must be at least 1, got {factor!r}")
    return factor
