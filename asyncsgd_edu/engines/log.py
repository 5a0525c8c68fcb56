"""The version log while it is being written.

Each worker appends to a buffer of its own, so the log is not what makes
workers wait. Whoever reads merges what has been published so far into order,
up to the first update whose row has not arrived: a consistent prefix.
"""

import threading
from collections.abc import Sequence
from typing import Any

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
CHUNK = 4096


class Buffer:
    """Rows that one thread writes and others read: a list of filled arrays and a count."""

    def __init__(self) -> None:
        self.chunks: list[np.ndarray] = []
        self.published = 0

    def append(self, rows: np.ndarray) -> None:
        """Add rows of shape [n, len(ROW)]; they become visible together."""
        filled = self.published
        while len(rows):
            place = filled % CHUNK
            if place == 0:
                self.chunks.append(np.empty((CHUNK, len(ROW))))
            part, rows = rows[: CHUNK - place], rows[CHUNK - place :]
            self.chunks[-1][place : place + len(part)] = part
            filled += len(part)
        self.published = filled  # Last, so that a reader never sees a half-written row.

    def since(self, first: int) -> np.ndarray:
        """The published rows from number `first` on, shape [n, len(ROW)]."""
        last = self.published
        parts = [
            self.chunks[k][max(first - k * CHUNK, 0) : min(last - k * CHUNK, CHUNK)]
            for k in range(first // CHUNK, -(-last // CHUNK))
        ]
        return np.concatenate(parts) if parts else np.empty((0, len(ROW)))


class VersionLog:
    """Buffers of `threads` threads, merged on demand into the columns of a trace."""

    def __init__(self, threads: int, clock: RunClock) -> None:
        self._buffers = [Buffer() for _ in range(threads)]
        self._clock = clock
        self._in_flight: dict[tuple[float, float], np.ndarray] = {}  # By worker and batch.
        self._merging = threading.Lock()
        self._taken = [0] * threads
        self._early = np.empty((0, len(ROW)))  # Rows that wait for an earlier update's row.
        self._columns = {name: np.empty(CHUNK, dtype) for name, dtype in COLUMNS.items()}
        self._length = 0
        self._version = 0

    def append(self, thread: int, rows: np.ndarray) -> None:
        """Log gradients that were applied together or dropped, shape [n, len(ROW)]."""
        self._buffers[thread].append(rows)
        if self._in_flight:
            for row in rows:
                self._in_flight.pop((row[0], row[1]), None)

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
        fresh = [self._early]
        for thread, buffer in enumerate(self._buffers):
            rows = buffer.since(self._taken[thread])
            self._taken[thread] += len(rows)
            fresh.append(rows)
        rows = np.concatenate(fresh)
        if not len(rows):
            return
        rows[:, AT["applied"]] = rows[:, AT["applied"]] > 0
        end, applied = rows[:, AT["end_version"]], rows[:, AT["applied"]]
        order = np.lexsort((applied, end))
        rows, end, applied = rows[order], end[order], applied[order]
        reached = np.maximum.accumulate(np.concatenate([[self._version], end + applied]))
        beyond = np.flatnonzero(end > reached[:-1])
        ready = int(beyond[0]) if len(beyond) else len(rows)
        self._early = rows[ready:]
        self._version = int(reached[ready])
        self._store(rows[:ready])

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


def as_rows(worker: Sequence[int], batch: int, report: Any) -> np.ndarray:
    """Log rows of gradients from what a graph reported of each.

    `report` is a tensor of float64 numbers, HEAD or HEAD and TAIL of each gradient in turn: of one gradient
    of each of the given workers, number `batch`, then of the next of each, and so on.
    Without the tail the gradients are in flight, until `landed` adds it.
    """
    numbers = report.numpy()
    numbers = numbers.reshape(-1, len(worker), numbers.shape[-1])
    rows = np.zeros((*numbers.shape[:2], len(ROW)))
    rows[..., 0] = worker
    rows[..., 1] = batch if len(rows) == 1 else np.arange(batch, batch + len(rows))[:, None]
    rows[..., 2 : 2 + numbers.shape[-1]] = numbers
    return rows.reshape(-1, len(ROW))


def landed(rows: np.ndarray, report: Any) -> np.ndarray:
    """The rows with their TAIL, a tensor that holds for all of them: they went into one update."""
    rows[:, -len(TAIL) :] = report.numpy()
    return rows
