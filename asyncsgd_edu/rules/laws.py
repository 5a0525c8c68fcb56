"""What a run should show, written down before it is run: staleness, conflicts, time.

Each function is one formula with its source; a figure draws it beside the
trace, so that the eye can compare a prediction with a measurement. How large a
learning rate may be is in `stability`.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import ArrayLike

from asyncsgd_edu.rules.arguments import MAX_WORKERS, one_of, positive_number, whole_number

MOST = 10**6  # Workers, gradients: beyond any machine.
# Law 12's rows: whose time is that of the k-th of N gradients, and whose is that of k gradients in a stream.
ORDERED = ("k-sync", "k-async")
STREAMED = ("k-batch-sync", "k-batch-async")


# --- staleness


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
    workers = whole_number("workers", workers, 1, MOST)
    return (workers - 1) / whole_number("gradients_per_update", gradients_per_update, 1, MOST)


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


def stale_synchronous_bound(workers: int, slack: int) -> int:
    """Largest staleness, in versions, that a stale-synchronous run can show.

    No worker may be more than `slack` gradients ahead of the slowest. While one
    gradient is under way each of the N - 1 others can come from `slack` behind
    to `slack` ahead and deliver the one it is at: (2 slack + 1) (N - 1) (after Ho
    et al. 2013, who bound it in clocks).

    >>> stale_synchronous_bound(8, 2)
    35
    """
    workers = whole_number("workers", workers, 1, MOST)
    return (2 * whole_number("slack", slack, 0, MOST) + 1) * (workers - 1)


def conflict_rate(examples: Sequence[AbstractSet[int]] | ArrayLike, *, largest: bool = False) -> float:
    """Share of the other examples that touch a parameter which a given example touches.

    `examples` is a list of sets of parameter numbers, or a matrix of shape
    [examples, parameters] whose non-zero entries say what is touched. The mean over
    the given examples: the chance that two gradients of different examples
    conflict. With `largest=True` the worst example's, which is the rho of Hogwild!
    (Niu et al. 2011, arXiv 1106.5730).

    >>> conflict_rate([{0, 1}, {1, 2}, {3}])
    0.3333333333333333
    >>> conflict_rate([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]], largest=True)
    0.5
    """
    touched = _touched(examples).astype(np.float32)
    meets = touched @ touched.T > 0
    np.fill_diagonal(meets, False)
    shares = meets.sum(axis=1) / (len(touched) - 1)
    return float(shares.max() if largest else shares.mean())


def _touched(examples: Sequence[AbstractSet[int]] | ArrayLike) -> np.ndarray:
    """A 0/1 matrix [examples, parameters] of sets, or of a matrix."""
    sets = [e for e in examples if isinstance(e, set | frozenset)] if isinstance(examples, Sequence) else []
    if isinstance(examples, Sequence) and len(sets) == len(examples):
        numbers = [whole_number("a parameter's number", number, 0, 10**9) for example in sets for number in example]
        place = {number: at for at, number in enumerate(sorted(set(numbers)))}
        touched = np.zeros((len(sets), len(place)), bool)
        for row, example in enumerate(sets):
            touched[row, [place[number] for number in example]] = True
    else:
        touched = np.asarray(examples) != 0
    if touched.ndim != 2 or len(touched) < 2:
        raise ValueError(f"examples must be at least 2 sets, or a matrix of at least 2 rows, got shape {touched.shape}")
    return touched


# --- time


def harmonic(n: int) -> float:
    """H_n = 1 + 1/2 + ... + 1/n, and 0 for n = 0.

    The last of N exponential durations of mean m is expected after m H_N, the K-th
    after m (H_N - H_(N-K)).

    >>> harmonic(3)
    1.8333333333333333
    """
    return float((1 / np.arange(1, whole_number("n", n, 0, 10**8) + 1)).sum())


def exponential_order_statistic(workers: int, k: int, mean: float = 1.0) -> float:
    """Expected seconds until the `k`-th of N exponential durations is over, mean (H_N - H_(N-k)).

    >>> exponential_order_statistic(2, 1), exponential_order_statistic(2, 2)
    (0.5, 1.5)
    """
    workers = whole_number("workers", workers, 1, MOST)
    k = whole_number("k", k, 1, workers)
    return positive_number("mean", mean) * (harmonic(workers) - harmonic(workers - k))


def time_per_update(
    policy: str, workers: int, k: int | None = None, *, mean: float = 1.0, order_statistic: float | None = None
) -> float:
    """Expected seconds between two updates, every worker's durations alike and independent.

    | policy | exponential of that mean | any durations |
    |---|---|---|
    | k-sync, k-async | mean (H_N - H_(N-k)) | the k-th of N durations; k-async: at most that |
    | k-batch-sync | mean k / N | - |
    | k-batch-async | mean k / N | mean k / N |
    | synchronous, asynchronous | k-sync with k = N, k-batch-async with k = 1 | |
    | backup-workers | k-sync with k = N - spare | |

    `policy` is the policy's name and `k` its number (for backup-workers the spare
    ones; none for synchronous and asynchronous). `order_statistic` is the expected
    k-th smallest of N durations where they are not exponential. For k-async the
    value is then a bound, if durations are new-longer-than-used (what is under way
    is expected to end sooner than what begins). Dutta et al. 2018, arXiv 1803.01113.

    >>> [round(time_per_update("k-sync", 8, k), 3) for k in (1, 2, 4, 8)]
    [0.125, 0.268, 0.635, 2.718]
    >>> time_per_update("k-batch-async", 8, 4), time_per_update("asynchronous", 8)
    (0.5, 0.125)
    """
    workers = whole_number("workers", workers, 1, MOST)
    mean = positive_number("mean", mean)
    policy, k = _row_of_law_12(policy, workers, k)
    if policy in ORDERED:
        if order_statistic is not None:
            return positive_number("order_statistic", order_statistic)
        return exponential_order_statistic(workers, k, mean)
    if order_statistic is not None:
        raise ValueError(
            f"order_statistic must be None for {policy}, whose time is mean k / workers, got {order_statistic!r}"
        )
    return mean * k / workers


def _row_of_law_12(policy: str, workers: int, k: int | None) -> tuple[str, int]:
    """One of the four rows, and its k, for a policy's name and number."""
    policy = one_of("policy", policy, ("asynchronous", "backup-workers", *STREAMED, *ORDERED, "synchronous"))
    if policy in ("synchronous", "asynchronous"):
        if k is not None:
            raise ValueError(f"k must be None for {policy}, got {k!r}")
        return ("k-sync", workers) if policy == "synchronous" else ("k-batch-async", 1)
    if policy == "backup-workers":
        return "k-sync", workers - whole_number("k, the spare workers,", k, 0, workers - 1)
    return policy, whole_number("k", k, 1, workers)


def time_to_target_ratio(workers: int, largest: float, mean: float = 1.0) -> float:
    """Seconds to a target error, synchronous over asynchronous, at equal learning rate.

    Both need about the same number of updates; a synchronous one takes the
    `largest` of N durations, expected E[X_(N:N)], an asynchronous one mean / N: ratio
    N E[X_(N:N)] / E[X]. It holds while the learning rate is small enough for staleness not
    to matter, and it leaves out that synchronous averages N gradients (so it may
    take a larger learning rate, and ends nearer the optimum).

    >>> round(time_to_target_ratio(8, exponential_order_statistic(8, 8)), 1)
    21.7
    """
    workers = whole_number("workers", workers, 1, MOST)
    mean, largest = positive_number("mean", mean), positive_number("largest", largest)
    if largest < mean:
        raise ValueError(f"largest must be at least the mean {mean}, got {largest}")
    return workers * largest / mean
