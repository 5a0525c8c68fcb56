"""The version log of one run: one row a gradient.

A run makes a Trace and everything else reads one. A trace never changes: its
columns are read-only arrays, and a longer run gives a new trace.
"""

import os
from collections.abc import Mapping
from dataclasses import astuple, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asyncsgd_edu import perfetto, tracefile
from asyncsgd_edu import staleness as laws
from asyncsgd_edu.header import Ended, Header, InFlight, ended_from, header_dict, header_from
from asyncsgd_edu.rules.arguments import MAX_SEED, whole_number
from asyncsgd_edu.rules.delays import columns_of
from asyncsgd_edu.rules.event_columns import columns_of_events, policy_of, schedule_of, workers_of
from asyncsgd_edu.rules.events import events_of
from asyncsgd_edu.tracefile import TraceError

if TYPE_CHECKING:
    import pandas

__all__ = ["COLUMNS", "Ended", "Header", "InFlight", "Trace", "TraceError"]

COLUMNS: dict[str, np.dtype[Any]] = {
    "worker": np.dtype(np.int32),
    "batch": np.dtype(np.int64),
    "read_version": np.dtype(np.int64),
    "apply_version": np.dtype(np.int64),
    "read_spread": np.dtype(np.int32),
    "read_time": np.dtype(np.float64),
    "ready_time": np.dtype(np.float64),
    "apply_time": np.dtype(np.float64),
    "loss": np.dtype(np.float32),
}


class Trace:
    """One row a gradient, in the order in which gradients were applied or dropped.

    Columns are read-only NumPy arrays of shape [rows], by name (`trace.apply_version`):
    worker, batch, read_version, apply_version (-1: dropped), read_spread (updates that some
    of the variables read had and others had not; the most there can be, where nothing vouches for a whole),
    read_time, ready_time and apply_time (seconds from the run's start) and loss (NaN where none was computed).
    In memory only: `parameters`, the final values where arithmetic was done, and `measured`, further numbers
    of each row by name where a replay was asked for them.
    """

    worker: NDArray[np.int32]
    batch: NDArray[np.int64]
    read_version: NDArray[np.int64]
    apply_version: NDArray[np.int64]
    read_spread: NDArray[np.int32]
    read_time: NDArray[np.float64]
    ready_time: NDArray[np.float64]
    apply_time: NDArray[np.float64]
    loss: NDArray[np.float32]

    def __init__(
        self,
        header: Header,
        columns: Mapping[str, Any],
        parameters: list[np.ndarray] | None = None,
        *,
        first_version: int = 0,
        measured: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        if list(columns) != list(COLUMNS):
            raise TraceError(f"a trace has the columns {', '.join(COLUMNS)}, got {', '.join(columns)}")
        arrays = {name: np.asarray(values, COLUMNS[name]).view() for name, values in columns.items()}
        if len({array.shape for array in arrays.values()}) != 1 or arrays["worker"].ndim != 1:
            shapes = {name: array.shape for name, array in arrays.items()}
            raise TraceError(f"the columns of a trace have one shape [rows], got {shapes}")
        self.header = header
        self.parameters = parameters
        self.measured = dict(measured or {})
        self._first_version = first_version
        for name, array in arrays.items():
            array.flags.writeable = False
            setattr(self, name, array)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The columns by name, in the order of the file."""
        return {name: getattr(self, name) for name in COLUMNS}

    def __len__(self) -> int:
        return len(self.worker)

    def __getitem__(self, rows: slice) -> "Trace":
        """Some rows in a stretch, `trace[:100]`, as a trace."""
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise TypeError(f"a trace is cut with a slice without step, like trace[:100], got {rows!r}")
        low, high, _ = rows.indices(len(self))
        before = self.apply_version[:low].max(initial=self._first_version - 1) + 1
        part = {name: values[low : max(low, high)] for name, values in self.columns.items()}
        # A stretch may begin between two gradients of one update.
        applied = part["apply_version"][part["apply_version"] >= 0]
        first = min(int(before), int(applied[0])) if len(applied) else int(before)
        if high >= len(self):
            return Trace(self.header, part, self.parameters, first_version=first)
        ended = replace(self.header.ended, in_flight=())
        return Trace(replace(self.header, ended=ended), part, first_version=first)

    def __repr__(self) -> str:
        h = self.header
        return f"<Trace of {h.trainer}, {h.workers} workers, {self.updates} updates, {h.ended.how}>"

    @cached_property
    def applied(self) -> NDArray[np.bool_]:
        """Whether each gradient was applied; shape [rows]."""
        return self.apply_version >= 0

    @cached_property
    def staleness(self) -> NDArray[np.int64]:
        """apply_version - read_version of the applied gradients, in order; shape [applied]."""
        return (self.apply_version - self.read_version)[self.applied]

    @property
    def updates(self) -> int:
        """Number of updates that the rows hold."""
        return int(self.apply_version.max(initial=self._first_version - 1)) + 1 - self._first_version

    @property
    def version(self) -> int:
        """Version of the parameters after the last row."""
        return self._first_version + self.updates

    @property
    def mean_staleness(self) -> float:
        """Mean of `staleness`, NaN before the first update."""
        return float(self.staleness.mean()) if len(self.staleness) else float("nan")

    @property
    def seconds(self) -> float:
        """Seconds from the run's start to its last apply."""
        known = self.apply_time[np.isfinite(self.apply_time)]
        return float(known.max(initial=0.0))

    @cached_property
    def flights(self) -> laws.Flights:
        """From which version to which each gradient was in flight, those at the end included."""
        last = self.header.ended.in_flight
        worker = np.concatenate([self.worker.astype(np.int64), [g.worker for g in last]])
        start = np.concatenate([self.read_version, [g.read_version for g in last]])
        end = np.concatenate([laws.ends(self.apply_version, self._first_version), [self.version] * len(last)])
        return laws.Flights(worker.astype(np.int64), start.astype(np.int64), end.astype(np.int64))

    def audit(self) -> list[str]:
        """The laws that this log breaks, in sentences; empty when it is sound.

        See `asyncsgd_edu.staleness.broken_laws` for the laws.
        """
        times = np.stack([self.read_time, self.ready_time, self.apply_time], axis=1)
        policy = self.header.policy.split(" (")[0]
        alone, waiting = policy in laws.ALONE, policy in laws.WAITING
        broken = laws.broken_laws(
            self.apply_version,
            self.read_version,
            times,
            self.flights,
            self._first_version,
            alone=alone,
            waiting=waiting,
        )
        strangers = np.flatnonzero((self.worker < 0) | (self.worker >= self.header.workers))
        if len(strangers):
            at = strangers[0]
            broken.append(f"workers: row {at} names worker {self.worker[at]} of {self.header.workers}")
        return broken

    def summary(self) -> str:
        """What happened, in a few lines of text."""
        h, tau = self.header, self.staleness
        lines = [
            f"{h.trainer}: {h.workers} workers, {h.policy}, {h.access} access, seed {h.seed}",
            f"problem {h.problem.get('name', '-')}, batch size {h.batch_size or '-'}, "
            f"optimizer {h.optimizer.get('name', '-')}, learning rate {h.optimizer.get('learning_rate', '-')}",
            f"{h.ended.how} after {self.updates} updates ({int(self.applied.sum())} gradients applied, "
            f"{int((~self.applied).sum())} dropped) in {self.seconds:.3f} s ({h.clock} time)",
        ]
        if h.ended.version is not None:
            lines.append(f"the loss was not finite at version {h.ended.version}")
        if h.ended.error is not None:
            lines.append(f"worker {h.ended.worker} failed: {h.ended.error}")
        if len(tau):
            law = f" (N - 1 = {h.workers - 1})" if h.policy == "asynchronous" else ""
            lines.append(
                f"staleness: mean {tau.mean():.2f}{law}, standard deviation {tau.std():.2f}, largest {tau.max()}"
            )
            tail = self.loss[self.applied][-100:]
            if not np.isnan(tail).all():
                mean = np.nanmean(tail, dtype=np.float64)
                lines.append(f"minibatch loss: {mean:.4f} (mean of the last {len(tail)} gradients)")
        lines += h.changes
        if any(h.ended.lost):
            lines.append(f"updates lost in each parameter, of {self.version}: {', '.join(map(str, h.ended.lost))}")
        if h.injected:
            lines.append(h.injected)
        if h.devices_note:
            lines.append(h.devices_note)
        broken = self.audit()
        lines.append("audit: sound" if not broken else "audit: " + "; ".join(broken))
        return "\n".join(lines)

    def to_frame(self) -> "pandas.DataFrame":
        """The columns as a pandas DataFrame, with the staleness (missing where dropped)."""
        import pandas as pd

        frame = pd.DataFrame({name: values.copy() for name, values in self.columns.items()})
        stale = pd.Series(self.apply_version - self.read_version, dtype="Int64")
        frame.insert(4, "staleness", stale.mask(~self.applied))
        return frame

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as JSON lines, header first; compressed when the name ends in `.gz`."""
        header, ended = header_dict(self.header)
        if self._first_version:
            header["first_version"] = self._first_version
        tracefile.write(path, header, self.columns, ended)

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as Chrome trace events, to be opened in Perfetto."""
        perfetto.write(path, self)

    @classmethod
    def from_delays(cls, delays: Any) -> "Trace":
        """The schedule in which update t used parameters that were `delays[t]` updates old.

        Delays do not say who made an update: gradients are given to as few workers as could
        have had them in flight, one update a virtual second. No loss is known; `replay` gives one.
        Raises TypeError or ValueError, naming the index, for delays that cannot have happened.

        >>> Trace.from_delays([0, 1, 1, 0]).staleness.tolist()
        [0, 1, 1, 0]
        """
        columns = columns_of(delays)
        workers = int(columns["worker"].max()) + 1
        return cls(Header("from_delays", workers, clock="virtual", ended=Ended("finished")), columns)

    @classmethod
    def from_schedule(cls, schedule: Any, workers: int | None = None, seed: int = 0) -> "Trace":
        """The trace of reads and applies written down as text (see `rules.events`) or as events, one a virtual second.

        >>> Trace.from_schedule("0r 1r 1a 0a").staleness.tolist()
        [0, 1]
        """
        events = events_of(schedule)
        columns, in_flight = columns_of_events(events)
        ended = Ended("finished", in_flight=tuple(InFlight(*flight) for flight in in_flight))
        workers, policy, seed = workers_of(events, workers), policy_of(events), whole_number("seed", seed, 0, MAX_SEED)
        return cls(Header("from_schedule", workers, policy, seed=seed, clock="virtual", ended=ended), columns)

    def schedule(self) -> str:
        """Its reads and applies as text, with nothing left out that arithmetic needs; `from_schedule` reads it."""
        return schedule_of(self.columns, [astuple(flight) for flight in self.header.ended.in_flight])

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, prefix: bool = False) -> "Trace":
        """Read a trace that `save` or a recording run wrote.

        A file cut short (a killed run) loads with `prefix=True`, up to its last whole
        row, as `running`. Raises TraceError with line and reason for anything else
        that is not a trace, and OSError if there is no such file.
        """
        header, columns, closing = tracefile.read(path, COLUMNS, prefix=prefix)
        first, line = header.pop("first_version", 0), 1
        try:
            if type(first) is not int or not 0 <= first <= 2**53:
                raise TraceError(f"header.first_version: {first!r} is not a version")
            made = header_from(header)
            line = len(columns["worker"]) + 2
            ended = Ended() if closing is None else ended_from(closing["ended"])
        except TraceError as error:
            raise TraceError(f"{path}: line {line}: {error}") from error
        trace = cls(replace(made, ended=ended), columns, first_version=first)
        trace._check_ranges(path)
        return trace

    def _check_ranges(self, path: object) -> None:
        """Raise TraceError for numbers that no run of so many rows can have; the laws are left to `audit`."""
        last = self._first_version + len(self)
        flights = self.header.ended.in_flight
        workers, end = self.header.workers - 1, len(self) + 2
        for name, values, low, high, line in (
            ("worker", self.worker, 0, workers, 0),
            ("read_version", self.read_version, 0, last, 0),
            ("apply_version", self.apply_version, -1, last, 0),
            ("in_flight.worker", np.array([g.worker for g in flights]), 0, workers, end),
            ("in_flight.read_version", np.array([g.read_version for g in flights]), 0, last, end),
        ):
            wrong = np.flatnonzero((values < low) | (values > high))
            if len(wrong):
                found, at = values[wrong[0]], line or wrong[0] + 2
                raise TraceError(f"{path}: line {at}: {name} is {found}, a run of so many rows has {low} to {high}")
