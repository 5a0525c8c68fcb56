"""What a simulated run decides: its columns but for the arithmetic, and the parts they are made of.

Arrays only; nothing here knows a policy.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsgd_edu.header import InFlight
from asyncsgd_edu.rules.durations import Duration

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Schedule(NamedTuple):
    """The columns of a trace that a schedule decides, shape [gradients], and who was in flight at the end."""

    worker: Ints
    batch: Ints
    read_version: Ints
    apply_version: Ints
    read_time: Floats
    ready_time: Floats
    apply_time: Floats
    in_flight: tuple[InFlight, ...]


def each_duration(durations: Duration, seed: int, worker: int, at_least: int = 1) -> Iterator[float]:
    """One worker's durations, one after the other, without end; it will be asked for `at_least` so many."""
    known = 0
    while True:
        # From the beginning again, since a rule keeps no state; doubling makes that cheap.
        more = max(16, at_least + math.isqrt(at_least) * 3, 2 * known)
        yield from durations.series(seed, worker, more)[known:].tolist()
        known = more


def versions(updates: int, rows: int) -> Ints:
    """Number of the update of each row, when each has so many; shape [updates * rows]."""
    return np.repeat(np.arange(updates), rows)


def numbered(worker: Ints, workers: int) -> tuple[Ints, Ints]:
    """Number of each gradient among its worker's, and the row of the one before it, or -1; shape [gradients]."""
    order = np.argsort(worker.astype(np.int16), kind="stable")  # 16 bits: then it is a radix sort.
    counts = np.bincount(worker, minlength=workers)
    batch, before = np.empty_like(order), np.empty_like(order)
    batch[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    before[order] = np.roll(order, 1)
    before[batch == 0] = -1
    return batch, before


def all_applied(
    workers: int, per_update: int, worker: Ints, ready: Floats, next_version: Ints, next_time: Floats
) -> Schedule:
    """The schedule of gradients in order of arrival, each `per_update` of them an update, none dropped.

    After each gradient its worker reads `next_version` at `next_time`.
    """
    updates = len(worker) // per_update
    batch, before = numbered(worker, workers)
    first = before < 0
    delivered = np.bincount(worker, minlength=workers)
    last = np.full(workers, -1)
    last[worker] = np.arange(len(worker))
    in_flight = tuple(
        InFlight(w, int(delivered[w]), int(next_version[at]), float(next_time[at]))
        if at >= 0
        else InFlight(w, 0, 0, 0.0)
        for w, at in enumerate(last)
        if at < 0 or next_version[at] < updates  # The run ends with its last update: nobody reads after it.
    )
    return Schedule(
        worker,
        batch,
        np.where(first, 0, next_version[before]),
        versions(updates, per_update),
        np.where(first, 0.0, next_time[before]),
        ready,
        np.repeat(ready[per_update - 1 :: per_update], per_update),
        in_flight,
    )
