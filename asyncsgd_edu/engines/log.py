"""The version log while it is being written.

Each worker puts what TensorFlow reported into a buffer of its own, as it is, so the log is
not what makes workers wait. Whoever reads makes rows of it and merges them into order,
up to the first update whose row has not arrived: a consistent prefix.
"""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from asyncsgd_edu.engines.clock import RunClock
from asyncsgd_edu.header import InFlight
from asyncsgd_edu.trace import COLUMNS

# What a graph reports of a gradient. `end_version` is the version just before the
# update that used it or, where `applied` is not 1, the version at which it ended unused: 0 for one that was
# refused, as it came too late or its loss was not finite, -1 for one that a policy or a remedy threw away.
HEAD = ("read_version", "read_spread", "read_time", "ready_time", "loss")
TAIL = ("end_version", "applied", "apply_time")
ROW = ("worker", "batch", *HEAD, *TAIL)
AT = {name: place for place, name in enumerate(ROW)}
FROM_END = {name: place - len(ROW) for name, place in AT.items()}  # In a report too, which lacks worker and batch.
WIDTH = len(HEAD) + len(TAIL)  # Of the report of one gradient that has ended.
CHUNK = 4096  # What a thread has logged is merged at the latest when there is so much of it.


class Call(NamedTuple):
    """What a call of TensorFlow reported: gradient number `batch` of each of `workers`, the next of each, and so on.

    `numbers` are float64, HEAD and TAIL of each gradient in turn; HEAD alone while they are in flight.
    """

    workers: Sequence[int]
    batch: int
    numbers: np.ndarray

    @property
    def steps(self) -> int:
        """How many gradients of each worker."""
        return self.numbers.size // (len(self.workers) * self.numbers.shape[-1])

    def ends_below(self, limit: int) -> bool:
        """Whether all of these whole steps were applied, and the version after them is below `limit`."""
        applied, version = (self.numbers.item(FROM_END[name]) for name in ("applied", "end_version"))
        return bool(applied > 0 and version + 1 < limit)  # One that was not applied ends a call, so the last tells.


def rows_of(calls: Sequence[Call]) -> np.ndarray:
    """Log rows, float64 of shape [gradients, len(ROW)], of at least one call of one thread.

    >>> rows_of([Call([5], 0, np.ones(8)), Call([5], 1, np.ones((2, 8)))])[:, :3].tolist()
    [[5.0, 0.0, 1.0], [5.0, 1.0, 1.0], [5.0, 2.0, 1.0]]
    """
    workers, width = calls[0].workers, calls[0].numbers.shape[-1]
    numbers = np.concatenate([call.numbers.reshape(-1) for call in calls]).reshape(-1, len(workers), width)
    steps = np.array([call.steps for call in calls])
    first = np.repeat([call.batch for call in calls], steps)
    nth = np.arange(len(numbers)) - np.repeat(np.cumsum(steps) - steps, steps)
    rows = np.zeros((len(numbers), len(workers), len(ROW)))
    rows[..., 0] = workers
    rows[..., 1] = (first + nth)[:, None]
    rows[..., 2 : 2 + width] = numbers
    return rows.reshape(-1, len(ROW))


def landed(rows: np.ndarray, report: Any) -> np.ndarray:
    """The rows with their TAIL, a tensor that holds for all of them: they went into one update."""
    rows[:, -len(TAIL) :] = report.numpy()
    return rows


def sorted_out(rows: np.ndarray, limit: int, over: bool) -> tuple[np.ndarray, np.ndarray, bool]:
    """Of rows that have ended: those to log, the rest, and whether the last update of the run is among them.

    The rest came too late to be let in, or had a loss that was not finite. What is thrown away once the run is `over`,
    or has all of its `limit` updates, came too late as well.
    """
    applied, end = rows[:, AT["applied"]] > 0, rows[:, AT["end_version"]]
    thrown = (rows[:, AT["applied"]] < 0) & (end < limit) & (not over)
    return rows[applied | thrown], rows[~(applied | thrown)], bool((applied & (end + 1 >= limit)).any())


class Buffer:
    """What one thread has logged and nobody has taken yet.

    One thread appends while another takes: what is appended at once is taken at once.
    """

    def __init__(self) -> None:
        self._calls: deque[Call] = deque()
        self._rows: deque[np.ndarray] = deque()

    def __len__(self) -> int:
        return len(self._calls) + len(self._rows)

    def append(self, ended: Call | np.ndarray) -> None:
        """Add a call, or rows of shape [n, len(ROW)]."""
        if isinstance(ended, Call):
            self._calls.append(ended)
        else:
            self._rows.append(ended)

    def take(self) -> list[np.ndarray]:
        """All that is there, as arrays of rows; calls and rows may have changed places."""
        calls = [self._calls.popleft() for _ in range(len(self._calls))]
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        return [*rows, rows_of(calls)] if calls else rows


class VersionLog:
    """Buffers of `threads` threads, merged on demand into the columns of a trace."""

    def __init__(self, threads: int, clock: RunClock) -> None:
        self._buffers = [Buffer() for _ in range(threads)]
        self._clock = clock
        self._in_flight: dict[tuple[float, float], np.ndarray] = {}  # By worker and batch.
        self._merging = threading.Lock()
        self._early = np.empty((0, len(ROW)))  # Rows that wait for an earlier update's row.
        self._columns = {name: np.empty(CHUNK, dtype) for name, dtype in COLUMNS.items()}
        self._length = 0
        self._version = 0

    def append(self, thread: int, ended: Call | np.ndarray) -> None:
        """Log a call of whole steps, or rows of gradients that were applied together or dropped, [n, len(ROW)]."""
        buffer = self._buffers[thread]
        if self._in_flight and not isinstance(ended, Call):  # A call reads and applies: nothing is left in flight.
            for row in ended:
                self._in_flight.pop((row[0], row[1]), None)
        buffer.append(ended)  # Only now: nobody may see a gradient that has landed and is in flight as well.
        if len(buffer) >= CHUNK:  # A run that nobody watches: merged rows take less room.
            with self._merging:
                self._merge()

    def in_flight(self, rows: np.ndarray) -> None:
        """Remember gradients that have been read and are not yet applied (their tail is not used)."""
        for row in rows:
            self._in_flight[row[0], row[1]] = row

    @property
    def version(self) -> int:
        """Version up to which the log has no gap."""
        with self._merging:
            self._merge()
            return self._version

    def left_in_flight(self) -> tuple[InFlight, ...]:
        """The gradients that are in flight now, in order of worker."""
        rows = [row for _, row in sorted(self._in_flight.items(), key=lambda item: item[0])]
        return tuple(
            InFlight(
                int(row[AT["worker"]]),
                int(row[AT["batch"]]),
                int(row[AT["read_version"]]),
                float(self._clock.seconds(row[AT["read_time"]])),
            )
            for row in rows
        )

    def drop_in_flight(self, version: int, wall: float) -> None:
        """Log what is still in flight as dropped at `version`: the run goes on without it."""
        if self._in_flight:
            rows = np.stack(list(self._in_flight.values()))
            rows[:, -len(TAIL) :] = version, 0, wall
            self.append(0, rows)

    def columns(self) -> dict[str, np.ndarray]:
        """The columns of a consistent prefix: views that later rows do not change."""
        with self._merging:
            self._merge()
            return {name: values[: self._length] for name, values in self._columns.items()}

    def _merge(self) -> None:
        rows = np.concatenate([self._early, *self._taken()])
        if not len(rows):
            return
        # A worker that dropped a gradient may have read again, and an update landed, since its buffer was looked into.
        # Up to the last update that is here, a second look has all that came before it.
        known = max(self._version, int((rows[:, AT["end_version"]] + (rows[:, AT["applied"]] > 0)).max()))
        rows = np.concatenate([rows, *self._taken()])
        rows[:, AT["applied"]] = rows[:, AT["applied"]] > 0
        end, applied = rows[:, AT["end_version"]], rows[:, AT["applied"]]
        order = np.lexsort((applied, end))
        rows, end, applied = rows[order], end[order], applied[order]
        reached = np.maximum.accumulate(np.concatenate([[self._version], end + applied]))
        beyond = np.flatnonzero((end > reached[:-1]) | (end + applied > known))
        ready = int(beyond[0]) if len(beyond) else len(rows)
        self._early = rows[ready:]
        self._version = int(reached[ready])
        self._store(rows[:ready])

    def _taken(self) -> list[np.ndarray]:
        return [rows for buffer in self._buffers for rows in buffer.take()]

    def _store(self, rows: np.ndarray) -> None:
        low, high = self._length, self._length + len(rows)
        capacity = len(self._columns["worker"])
        if high > capacity:
            # Doubling into new arrays: prefixes handed out before keep the old ones.
            for name, values in self._columns.items():
                self._columns[name] = np.concatenate(
                    [values[:low], np.empty(max(capacity, len(rows)) + capacity - low, values.dtype)]
                )
        for name, values in self._columns.items():
            if name == "apply_version":
                found = np.where(rows[:, AT["applied"]] > 0, rows[:, AT["end_version"]], -1)
            else:
                found = rows[:, AT[name]]
                if name.endswith("_time"):
                    found = self._clock.seconds(found)
            values[low:high] = found
        self._length = high
