"""From a trace to the numbers that a picture draws.

Pure NumPy: curves, counts and bars, thinned so that a picture of a long run
costs no more than one of a short run. Static figures and the live view both draw
from here, so they cannot disagree. Nothing here knows plotly or widgets.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from asyncsgd_edu.rules.arguments import one_of, whole_number
from asyncsgd_edu.rules.laws import geometric_staleness
from asyncsgd_edu.trace import Trace
from asyncsgd_edu.view.thinning import WINDOW, Floats, Ints, kept, trailing_mean

AXES = ("updates", "samples", "seconds")
MOST_BARS = 100


def _ints() -> Ints:
    return np.zeros(0, np.int64)


def _floats() -> Floats:
    return np.zeros(0, np.float64)


@dataclass(frozen=True)
class Curve:
    """Loss along a run; arrays of shape [points], thinned to at most `thinning.MOST_POINTS`.

    `updates` is the version after an update, `gradients` how many had been computed
    by then (dropped ones included), `seconds` when it was applied, and `loss` the
    mean minibatch loss of the last `WINDOW` updates. Updates whose own loss was not
    finite have no point.
    """

    updates: Ints = field(default_factory=_ints)
    gradients: Ints = field(default_factory=_ints)
    seconds: Floats = field(default_factory=_floats)
    loss: Floats = field(default_factory=_floats)

    def x(self, by: str, batch_size: int | None = None) -> NDArray[np.generic]:
        """The horizontal axis: updates, samples (gradients times `batch_size`) or seconds."""
        one_of("by", by, AXES)
        if by == "samples":
            return self.gradients * (batch_size or 1)
        return self.seconds if by == "seconds" else self.updates

    def __len__(self) -> int:
        return len(self.loss)


@dataclass(frozen=True)
class Digest:
    """What the pictures need of the first `rows` rows of a trace.

    `counts[k]` is the number of applied gradients of staleness k. `not_finite` counts
    the updates without a finite loss and `first_not_finite` is the version of the
    first (None: all finite). `recent` holds the losses that the next mean needs.
    """

    rows: int = 0
    version: int = 0
    applied: int = 0
    seconds: float = 0.0
    counts: Ints = field(default_factory=_ints)
    curve: Curve = field(default_factory=Curve)
    not_finite: int = 0
    first_not_finite: int | None = None
    recent: Floats = field(default_factory=_floats)

    @property
    def mean_staleness(self) -> float:
        """Mean staleness of the applied gradients, NaN before the first."""
        return float(self.counts @ np.arange(len(self.counts)) / self.applied) if self.applied else float("nan")

    @property
    def largest_staleness(self) -> int:
        """Largest staleness so far, 0 before the first update."""
        return max(0, len(self.counts) - 1)

    @property
    def loss(self) -> float:
        """The last point of the curve, NaN where there is none."""
        return float(self.curve.loss[-1]) if len(self.curve) else float("nan")


def digest(trace: Trace) -> Digest:
    """Everything that the pictures of a whole trace need."""
    return _fold(Digest(), trace, len(trace))


class Growing:
    """The digest of a trace that grows: each call reads only the rows that are new.

    The answer is the one that `digest` gives for the whole trace. A trace that does
    not go on from the one before it (another run) is read from its start.
    """

    def __init__(self) -> None:
        self._settled = Digest()
        self._mark: tuple[float | str, ...] = ()

    def __call__(self, trace: Trace) -> Digest:
        """The digest of the trace as it is now."""
        rows = self._settled.rows
        if rows > len(trace) or (rows and self._row(trace, rows - 1) != self._mark):
            self._settled = Digest()
        # The last update stays open: more gradients averaged into it may follow.
        self._settled = _fold(self._settled, trace, _open_update(trace, self._settled.rows))
        if self._settled.rows:
            self._mark = self._row(trace, self._settled.rows - 1)
        return _fold(self._settled, trace, len(trace))

    @staticmethod
    def _row(trace: Trace, at: int) -> tuple[float | str, ...]:
        # The trainer too: a simulated schedule and its replay differ in their losses only.
        run = trace.header.trainer, trace.header.seed
        return float(trace.worker[at]), float(trace.batch[at]), float(trace.apply_time[at]), *run


def _open_update(trace: Trace, start: int) -> int:
    """First row of the last update at or after row `start`."""
    versions = trace.apply_version[start:]
    applied = np.flatnonzero(versions >= 0)
    if len(applied) == 0:
        return start
    return start + int(applied[np.searchsorted(versions[applied], versions[applied[-1]])])


def _fold(before: Digest, trace: Trace, stop: int) -> Digest:
    """`before` and the rows from there to `stop`; `before` ends between two updates."""
    start = before.rows
    versions = trace.apply_version[start:stop]
    rows = np.flatnonzero(versions >= 0)
    if len(rows) == 0:
        return replace(before, rows=stop)
    versions = versions[rows]
    first = np.flatnonzero(np.diff(versions, prepend=versions[0] - 1))
    sizes = np.diff(np.append(first, len(rows)))
    last = rows[first + sizes - 1] + start
    losses = np.add.reduceat(trace.loss[start:stop][rows].astype(np.float64), first) / sizes
    finite = np.isfinite(losses)
    bad = versions[first][~finite]
    tau = versions - trace.read_version[start:stop][rows]
    counts = np.bincount(tau[tau >= 0])
    counts[: len(before.counts)] += before.counts[: len(counts)]
    counts = np.concatenate([counts, before.counts[len(counts) :]])
    history = np.concatenate([before.recent, losses])
    means = trailing_mean(history)[len(before.recent) :]
    new = (versions[first] + 1, last + 1, trace.apply_time[last], means)
    return Digest(
        rows=stop,
        version=int(versions[-1]) + 1,
        applied=before.applied + len(rows),
        seconds=max(before.seconds, float(trace.apply_time[last[-1]])),
        counts=counts,
        curve=_joined(before.curve, [column[finite] for column in new]),
        not_finite=before.not_finite + len(bad),
        first_not_finite=int(bad[0]) if before.first_not_finite is None and len(bad) else before.first_not_finite,
        recent=history[-(WINDOW - 1) :],
    )


def _joined(curve: Curve, new: list[NDArray[np.generic]]) -> Curve:
    old = (curve.updates, curve.gradients, curve.seconds, curve.loss)
    columns = [np.concatenate(pair) for pair in zip(old, new, strict=True)]
    keep = kept(columns[0], columns[3])
    return Curve(*(column[keep] for column in columns))


@dataclass(frozen=True)
class Histogram:
    """Staleness as shares of the applied gradients; arrays of shape [bars].

    `middle` is the middle of a bar, `width` the whole numbers that it covers, `share`
    what was measured. `law_at` and `law` are the geometric law over the same bars,
    which go on to where it has faded.
    """

    middle: Floats
    width: int
    share: Floats
    law_at: Floats
    law: Floats


def histogram(counts: Ints, workers: int) -> Histogram:
    """Bars of at most `MOST_BARS`, from the number of gradients of each staleness."""
    span = max(len(counts), 3 * workers)
    width = -(-span // MOST_BARS)
    bars = -(-max(1, len(counts)) // width)
    share = np.pad(counts, (0, bars * width - len(counts))).reshape(bars, width).sum(axis=1) / max(1, counts.sum())
    law = geometric_staleness(workers, -(-span // width) * width - 1).reshape(-1, width).sum(axis=1)
    middles = np.arange(len(law), dtype=np.float64) * width + (width - 1) / 2
    return Histogram(middles[:bars], width, share, middles, law)


@dataclass(frozen=True)
class Bars:
    """The last gradients in seconds; arrays of shape [gradients], arrows of shape [arrows].

    An arrow goes from the update that wrote a version (`from_worker` at `from_time`)
    to the read of that version (`to_worker` at `to_time`).
    """

    worker: Ints
    read: Floats
    ready: Floats
    apply: Floats
    read_version: Ints
    apply_version: Ints
    from_time: Floats
    from_worker: Ints
    to_time: Floats
    to_worker: Ints

    @property
    def applied(self) -> NDArray[np.bool_]:
        """Whether each gradient was applied."""
        return self.apply_version >= 0


def bars(trace: Trace, last: int = 60) -> Bars:
    """Reads, computations and applies of the `last` gradients."""
    low = max(0, len(trace) - whole_number("last", last, 1, 10_000))
    read_version = trace.read_version[low:]
    written, at = _writers(trace, read_version - 1, low)
    worker, read = trace.worker[low:].astype(np.int64), trace.read_time[low:]
    return Bars(
        worker, read, trace.ready_time[low:], trace.apply_time[low:], read_version, trace.apply_version[low:],
        trace.apply_time[at], trace.worker[at].astype(np.int64), read[written], worker[written],
    )  # fmt: skip


def _writers(trace: Trace, wanted: Ints, low: int) -> tuple[NDArray[np.bool_], Ints]:
    """Which of the `wanted` updates are in the trace, and the (last) row of each of those."""
    need = wanted[wanted >= 0].min(initial=np.iinfo(np.int64).max)
    start, back = low, 64
    # Whoever wrote a version is a few rows back: look there first, not through a million rows.
    while start > 0 and not (((tail := trace.apply_version[start:]) >= 0) & (tail <= need)).any():
        start, back = max(0, start - back), back * 2
    rows = np.flatnonzero(trace.apply_version[start:] >= 0) + start
    versions = trace.apply_version[rows]
    at = np.searchsorted(versions, wanted, side="right") - 1
    found = (wanted >= 0) & (at >= 0)
    found[found] = versions[at[found]] == wanted[found]
    return found, rows[at[found]]
