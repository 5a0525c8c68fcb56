"""A version log in numbers, and the laws that every log must obey.

Everything is a function of a log's columns (NumPy arrays, one entry a
gradient, in the order in which gradients were applied or dropped). Nothing
here knows where a log came from.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
# Policies under which each gradient is an update, and under which one may wait while its worker reads on.
ALONE = ("asynchronous", "stale-synchronous")
WAITING = ("k-batch-sync", "k-batch-async", "averaging")


@dataclass(frozen=True)
class Flights:
    """When, counted in updates, each gradient was in flight: from its read to its end.

    `start` is the version read. `end` is the version just before the update that
    used the gradient or, for one that was not used, the version at which it was
    dropped or the run ended. All of shape [gradients], in order.
    """

    worker: Ints
    start: Ints
    end: Ints

    @property
    def age(self) -> Ints:
        """Updates that happened while the gradient was in flight; its staleness if it was applied."""
        return self.end - self.start


def ends(apply_version: Ints, first_version: int = 0) -> Ints:
    """Version at which each gradient was applied or dropped; shape [gradients].

    >>> ends(np.array([0, 1, -1, 2])).tolist()
    [0, 1, 2, 2]
    """
    landed = np.maximum.accumulate(np.concatenate([[first_version - 1], apply_version])) + 1
    return np.where(apply_version < 0, landed[1:], apply_version)


def others_in_flight(flights: Flights, makers: Ints, first_version: int = 0, *, waiting: bool = False) -> int:
    """Sum over updates of the number of other workers with a gradient in flight.

    `makers` is the worker whose gradient completed each update, shape [updates].
    Counted worker by worker, as the length of time (in updates) that each of them
    had at least one gradient out, less the updates that it made itself. A worker
    that claimed two at once counts once, and one that claims to have been in flight
    during its own update does not count, which is how the conservation law finds a
    log that cannot have happened. With `waiting` gradients may wait for others: then their worker may
    have read again by the time of the update, and is one of the others.
    """
    if len(flights.worker) == 0:
        return 0
    versions = np.arange(first_version, first_version + len(makers))
    out, busy = _out(flights, makers, versions)
    return out if waiting else out - int(busy.sum())


def _out(flights: Flights, workers: Ints, versions: Ints) -> tuple[int, NDArray[np.bool_]]:
    """How long, in updates, all workers together had a gradient out; and whether each of some had one at a version.

    `workers` and `versions` have one shape, that of the answer.
    """
    order = np.lexsort((flights.end, flights.start, flights.worker))
    worker, start, end = flights.worker[order], flights.start[order], flights.end[order]
    # Shift each worker onto its own stretch of one line, so that one running maximum serves them all.
    low = min(0, int(start.min()))
    width = max(int(end.max()), int(versions.max(initial=0))) + 1 - low + 1
    start, end = start + worker * width, end + worker * width
    reach = np.maximum.accumulate(end)
    covered = np.concatenate([[start[0]], reach[:-1]])
    out = int(np.maximum(0, end - np.maximum(start, covered)).sum())
    at = versions + workers * width
    before = np.searchsorted(start, at, side="right") - 1
    return out, (before >= 0) & (reach[before] > at)


def broken_laws(
    apply_version: Ints,
    read_version: Ints,
    times: NDArray[np.float64],
    flights: Flights,
    first_version: int = 0,
    *,
    alone: bool = False,
    waiting: bool = False,
) -> list[str]:
    """Sentences for the laws that a log breaks; empty when it is sound.

    `times` is read, ready and apply time, shape [gradients, 3]. `flights` also
    holds the gradients that were still in flight at the end. `alone` says that every
    gradient is an update of its own, as under the asynchronous policy; `waiting` that one may
    wait for others while its worker reads on, as under the k-batch policies.

    1. Updates are numbered without a gap, in order: each version is written once.
    2. A gradient is read before it is applied, in versions and in seconds.
    3. Conservation: the staleness of all applied gradients, plus the age of those
       that were not, is the sum over updates of the other gradients in flight.
    """
    broken = []
    applied = apply_version[apply_version >= 0]
    steps = np.diff(applied, prepend=first_version - 1)
    # A step of 0 is a further gradient averaged into the same update, where there can be one.
    wrong = np.flatnonzero((steps != 1) & ((steps != 0) | alone | (np.arange(len(steps)) == 0)))
    if len(wrong):
        at = wrong[0]
        before = applied[at - 1] + 1
        expected = first_version if at == 0 else before if alone else f"{before - 1} or {before}"
        broken.append(f"versions: applied gradient {at} has apply_version {applied[at]}, expected {expected}")
    stale = np.flatnonzero((apply_version >= 0) & (read_version > apply_version))
    if len(stale):
        at = stale[0]
        broken.append(f"staleness: row {at} was read at version {read_version[at]}, after {apply_version[at]}")
    if (read_version < 0).any():
        broken.append(f"versions: row {np.flatnonzero(read_version < 0)[0]} has a negative read_version")
    with np.errstate(invalid="ignore"):
        late = np.flatnonzero((np.diff(times, axis=1) < 0).any(axis=1))
    if len(late):
        broken.append(f"times: row {late[0]} is not read, ready, applied in that order: {times[late[0]].tolist()}")
    last = np.flatnonzero(np.diff(apply_version[apply_version >= 0], append=-1))
    makers = flights.worker[: len(apply_version)][apply_version >= 0][last]
    total, others = int(flights.age.sum()), others_in_flight(flights, makers, first_version, waiting=waiting)
    if total != others or (flights.age < 0).any():
        broken.append(f"conservation: staleness and ages sum to {total}, other gradients in flight to {others}")
    return broken
