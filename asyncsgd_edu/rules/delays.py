"""A list of delays as a schedule: who could have made these updates.

Delays alone do not say which worker made an update, or how many there were. Here
gradients are given to as few workers as could have had them in flight.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def check_delays(delays: Any) -> Ints:
    """Return `delays` as int64 of shape [updates] when they can have happened.

    Update t uses parameters that are delays[t] updates old, so a delay is a whole
    number from 0 to t. Raises TypeError for what is no list of numbers and ValueError, naming
    the index, for a delay that cannot be.

    >>> check_delays([0, 1, 3])
    Traceback (most recent call last):
    ValueError: delay 2 is 3, but before update 2 there were only 2 updates: allowed are 0 to 2
    """
    try:
        given = np.asarray(delays, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"delays must be a list of whole numbers, got {delays!r}") from None
    if given.ndim != 1 or not len(given):
        raise ValueError(f"delays must be one row of at least one whole number, got shape {given.shape}")
    index = np.arange(len(given))
    wrong = np.flatnonzero(~(np.isfinite(given) & (given >= 0) & (given == np.floor(given))))
    if len(wrong):
        raise ValueError(f"delay {wrong[0]} must be a finite whole number not below 0, got {given[wrong[0]]:g}")
    wrong = np.flatnonzero(given > index)
    if len(wrong):
        at = wrong[0]
        raise ValueError(
            f"delay {at} is {given[at]:.0f}, but before update {at} there were only {at} updates: allowed are 0 to {at}"
        )
    return given.astype(np.int64)


def assign_workers(delays: Ints) -> Ints:
    """A worker for each update, shape [updates], so that nobody has two gradients in flight.

    Gradient t is in flight from version t - delays[t] to t. In order of their reads each goes
    to the worker that was free for the shortest time, or to a new one: the fewest that can be.

    >>> assign_workers(np.array([0, 1, 1, 0])).tolist()
    [0, 1, 0, 0]
    """
    version = np.arange(len(delays))
    read = version - delays
    reads = np.split(np.lexsort((version, read)), np.searchsorted(np.sort(read), version[1:]))
    worker = np.empty(len(delays), np.int64)
    free: list[int] = []  # The last to become free is at the end.
    workers = 0
    for now, gradients in enumerate(reads):  # At version `now`, just after update now - 1.
        if now:
            free.append(int(worker[now - 1]))
        for gradient in gradients:
            if not free:
                free.append(workers)
                workers += 1
            worker[gradient] = free.pop()
    return worker


def columns_of(delays: Any) -> dict[str, Any]:
    """The columns of a trace that has these delays: one update a virtual second, no idle time at its end.

    `batch` counts each worker's gradients. Raises as `check_delays` does.
    """
    checked = check_delays(delays)
    worker = assign_workers(checked)
    version = np.arange(len(checked))
    order = np.argsort(worker, kind="stable")
    batch = np.empty_like(version)
    counts = np.bincount(worker)
    batch[order] = version - np.repeat(np.cumsum(counts) - counts, counts)
    applied = version + 1.0
    return {
        "worker": worker,
        "batch": batch,
        "read_version": version - checked,
        "apply_version": version,
        "read_spread": np.zeros(len(version), np.int32),
        "read_time": (version - checked).astype(np.float64),
        "ready_time": applied,
        "apply_time": applied,
        "loss": np.full(len(version), np.nan, np.float32),
    }
