"""Events as the columns of a version log, and back.

The n-th event happens at virtual second n, so a schedule has times and can be drawn. Back
again what counts is the arithmetic: which version each gradient was read at, which update it
went into, in which order. Times only say where a read stands among events that leave its
version as it is. Tuples and arrays; nothing here knows a trace.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsgd_edu.rules.arguments import whole_number
from asyncsgd_edu.rules.events import MOST_WORKERS, Event, as_text

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Reading(NamedTuple):
    """A gradient in flight: whose, of which batch, read at which version and when (seconds)."""

    worker: int
    batch: int
    read_version: int
    read_time: float


def workers_of(events: Sequence[Event], workers: int | None = None) -> int:
    """How many workers a schedule has: `workers` if given, else one more than its highest number.

    Raises ValueError if `workers` are too few.

    >>> workers_of([(2, "read"), (2, "apply")])
    3
    """
    least = max((event[0] for event in events), default=0) + 1
    return least if workers is None else whole_number("workers", workers, least, MOST_WORKERS)


def policy_of(events: Sequence[Event]) -> str:
    """The policy that a schedule shows: "asynchronous" if each gradient is an update, else "averaging".

    >>> policy_of([(0, "read"), (0, "apply")])
    'asynchronous'
    """
    return "averaging" if any(event[1] == "add" for event in events) else "asynchronous"


def columns_of_events(events: Sequence[Event]) -> tuple[dict[str, Any], tuple[Reading, ...]]:
    """The columns of a trace, by name and of shape [gradients], and the gradients in flight at its end.

    `events` are what `events_of` returns. The gradients of one update stand together, in the
    order in which they were added. One that is dropped was never ready (its ready_time is NaN).

    >>> columns, in_flight = columns_of_events([(0, "read"), (1, "read"), (1, "apply"), (0, "apply"), (1, "read")])
    >>> columns["worker"].tolist(), columns["read_version"].tolist(), columns["apply_version"].tolist()
    ([1, 0], [0, 0], [0, 1])
    >>> in_flight
    (Reading(worker=1, batch=1, read_version=2, read_time=4.0),)
    """
    rows: list[tuple[Reading, int, float, float]] = []  # And apply_version, ready_time, apply_time.
    reading: dict[int, Reading] = {}
    following: dict[int, int] = {}  # Each worker's next batch.
    added: list[tuple[Reading, float]] = []  # Wait for the next apply.
    version = 0
    for second, event in enumerate(events):
        worker, action, now = event[0], event[1], float(second)
        if action == "read":
            batch = event[2] if len(event) == 3 else following.get(worker, 0)
            following[worker] = batch + 1
            reading[worker] = Reading(worker, batch, version, now)
        elif action == "drop":
            rows.append((reading.pop(worker), -1, np.nan, now))
        else:
            added.append((reading.pop(worker), now))
        if action == "apply":
            rows += [(gradient, version, ready, now) for gradient, ready in added]
            added.clear()
            version += 1
    in_flight = [*(gradient for gradient, _ in added), *reading.values()]
    return _columns(rows), tuple(sorted(in_flight, key=lambda gradient: (gradient.worker, gradient.read_time)))


def _columns(rows: Sequence[tuple[Reading, int, float, float]]) -> dict[str, Any]:
    """What is known of each gradient, column by column, in the order of a trace."""
    return {
        "worker": np.array([row[0].worker for row in rows], np.int32),
        "batch": np.array([row[0].batch for row in rows], np.int64),
        "read_version": np.array([row[0].read_version for row in rows], np.int64),
        "apply_version": np.array([row[1] for row in rows], np.int64),
        "read_spread": np.zeros(len(rows), np.int32),
        "read_time": np.array([row[0].read_time for row in rows], np.float64),
        "ready_time": np.array([row[2] for row in rows], np.float64),
        "apply_time": np.array([row[3] for row in rows], np.float64),
        "loss": np.full(len(rows), np.nan, np.float32),
    }


def schedule_of(columns: Mapping[str, Any], in_flight: Sequence[Sequence[Any]] = ()) -> str:
    """A log as the text of its events. Arguments and errors as of `events_of_columns`.

    >>> columns, in_flight = columns_of_events([(0, "read"), (1, "read"), (1, "apply"), (0, "apply"), (1, "read")])
    >>> schedule_of(columns, in_flight)
    '0r 1r 1a 0a 1r'
    """
    return as_text(events_of_columns(columns, in_flight))


def events_of_columns(columns: Mapping[str, Any], in_flight: Sequence[Sequence[Any]] = ()) -> tuple[Event, ...]:
    """The events of a log that has these columns: the inverse of `columns_of_events` in all that arithmetic needs.

    Equal come back worker, batch, read_version and apply_version, row for row. Within a version a
    read stands by its `read_time`, if its worker was free then. `in_flight` are the gradients in flight
    at the end, each in the order of a `Reading`. Takes time in proportion to the rows, but for sorting them.

    Raises ValueError, naming the row, for a log that no order of events can have.
    """
    log, closing = _log(columns, in_flight)
    gap = _gaps(log, closing, rows=len(columns["worker"]))
    order = np.lexsort((log.worker, log.time, gap))
    ahead = np.searchsorted(gap[order], np.arange(-1, len(gap)), side="right")
    return tuple(_merged(log, order.tolist(), ahead.tolist()))


class _Log(NamedTuple):
    """Gradients in the order in which they ended, those in flight last; each column of shape [gradients].

    `action` is how it ended, empty in flight, and `ended` when; `before` is the place of the same worker's
    gradient before it, or -1; `row` its row in the log.
    """

    worker: Ints
    batch: Ints
    read: Ints
    time: Floats
    action: NDArray[np.object_]
    ended: Floats
    before: Ints
    row: Ints


def _log(columns: Mapping[str, Any], in_flight: Sequence[Sequence[Any]]) -> tuple[_Log, Ints]:
    """The gradients of a log, and the place of the one that makes each update."""
    last = sorted((tuple(gradient) for gradient in in_flight), key=lambda gradient: (gradient[0], *gradient[2:]))
    tail = np.array(last, np.float64).reshape(len(last), 4).T
    names = ("worker", "batch", "read_version", "read_time")
    worker, batch, read, time = (np.append(columns[name], more) for name, more in zip(names, tail, strict=True))
    applied, ended = columns["apply_version"], np.append(columns["apply_time"], np.full(len(last), np.inf))
    closing, (before, after) = _closing(applied), _neighbours(worker, read, time)
    action = np.where(np.append(applied, np.zeros(len(last))) < 0, "drop", "add").astype(object)
    action[closing] = "apply"
    # In flight: still computed, or delivered and waiting if its worker has read again.
    action[len(applied) :][after[len(applied) :] < 0] = ""
    added = np.flatnonzero(action[: len(applied)] == "add")
    ended[added] = columns["ready_time"][added]
    places = _in_order(action == "add", after)
    rank = np.append(np.argsort(places), -1)  # The last one is the rank of gradient -1, which is none.
    worker, batch, read = (column.astype(np.int64)[places] for column in (worker, batch, read))
    before = rank[before[places]]
    return _Log(worker, batch, read, time[places], action[places], ended[places], before, places), rank[closing]


def _in_order(added: NDArray[np.bool_], after: Ints) -> Ints:
    """The rows in the order in which gradients ended.

    It is the order of the log, but a log shows a gradient that was added to a mean only with
    the update; it had ended by the time that one read later by its worker did.
    """
    own = np.arange(len(added))
    latest = np.where(added & (after >= 0) & (after < own), after - 0.5, own)
    # Gradients are added in the order of their rows, so one that comes early takes along those before it.
    latest = np.where(added, np.minimum.accumulate(latest[::-1])[::-1], own)
    return np.lexsort((own, latest))


def _neighbours(worker: Ints, read: Ints, time: Floats) -> tuple[Ints, Ints]:
    """The row of the gradient that the same worker read before each, and of that after it; -1 for none."""
    order = np.lexsort((time, read, worker))
    before, after = np.full((2, len(worker)), -1)
    again = worker[order][1:] == worker[order][:-1]
    before[order[1:][again]] = order[:-1][again]
    after[order[:-1][again]] = order[1:][again]
    return before, after


def _closing(applied: Ints) -> Ints:
    """The row that makes each update, the last of its gradients; shape [updates]."""
    rows = np.flatnonzero(applied >= 0)
    steps = np.diff(applied[rows], prepend=-1)
    if len(rows) and steps[0] != 1:
        raise ValueError(f"a schedule begins at version 0, this log begins at version {applied[rows[0]]}")
    wrong = np.flatnonzero((steps < 0) | (steps > 1))
    if len(wrong):
        row = rows[wrong[0]]
        raise ValueError(f"row {row} makes version {applied[row]} out of order: no schedule can be written of it")
    apart = np.flatnonzero((steps == 0) & (np.diff(rows, prepend=-1) != 1))
    if len(apart):
        raise ValueError(f"row {rows[apart[0]] - 1} ends between two gradients of one update: no schedule has that")
    return rows[np.append(steps[1:] == 1, True)] if len(rows) else rows


def _gaps(log: _Log, closing: Ints, rows: int) -> Ints:
    """After which place each gradient was read, -1 for before all of them; shape [gradients].

    After the end of its worker's gradient before and the update that made its version, before the
    next update and its own end; between these by its time.
    """
    own, updates = np.arange(len(log.read)), len(closing)

    def named(place: int) -> str:
        row = log.row[place]
        return f"row {row}" if row < rows else f"worker {log.worker[place]}'s gradient in flight"

    strange = np.flatnonzero((log.read < 0) | (log.read > updates))
    if len(strange):
        at = strange[0]
        raise ValueError(f"{named(at)} was read at version {log.read[at]}, there are 0 to {updates}")
    earliest = np.maximum(log.before, np.append(closing, -1)[log.read - 1])
    latest = np.minimum(own, np.append(closing, len(own))[log.read]) - 1
    wrong = np.flatnonzero(earliest > latest)
    if len(wrong):
        at = wrong[0]
        raise ValueError(
            f"{named(at)} was read at version {log.read[at]}, after its end or while its worker had another: "
            f"no schedule can be written of it"
        )
    reached = np.fmax.accumulate(np.append(-np.inf, log.ended))[1:]
    return np.clip(np.searchsorted(reached, log.time, side="right") - 1, earliest, latest)


def _merged(log: _Log, order: list[int], ahead: list[int]) -> Iterator[Event]:
    """The ends of the gradients, one by one, and after each the reads in its gap: those up to `ahead` in `order`."""
    worker, batch, action = log.worker.tolist(), log.batch.tolist(), log.action.tolist()
    following: dict[int, int] = {}
    low = 0
    for place, high in enumerate(ahead, start=-1):
        if place >= 0 and action[place]:
            yield worker[place], action[place]
        for gradient in order[low:high]:
            who, number = worker[gradient], batch[gradient]
            yield (who, "read") if number == following.get(who, 0) else (who, "read", number)
            following[who] = number + 1
        low = high
