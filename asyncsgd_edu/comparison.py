"""What a comparison of runs holds equal, and what differs: read from their traces, before anyone looks at a curve.

Settings come from the headers, field by field, whatever fields there are; results come from the
columns. Nothing here knows which result is the better one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsgd_edu.fairness import NAMING, Quantity, described, listed, plain, title, unfair, word
from asyncsgd_edu.header import Header
from asyncsgd_edu.trace import Trace

if TYPE_CHECKING:
    import pandas

LAST = 100  # Gradients whose mean loss is the final one, as in a trace's summary.
SCHEDULE = ("worker", "batch", "read_version", "apply_version")
UNTOLD = ("packages",)  # Not said in words where they are equal.
WIDTH = 90  # Characters in a line: a notebook beside its file list has room for so many.


@dataclass(frozen=True, repr=False)
class Comparison:
    """What some traces have in common, and what they have not.

    `equal` has the value of each quantity that is the same in all of them. `differs` has those that are not,
    with a value for each trace in the order of `names`. `warnings` are sentences about what makes the
    comparison unfair; empty if nothing was found.
    """

    names: tuple[str, ...]
    equal: Mapping[str, Any]
    differs: Mapping[str, tuple[Any, ...]]
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        same = [f"{k} {word(v)}" for k, v in self.equal.items() if k not in UNTOLD and word(v) != "-"]
        held = fill(f"held equal: {', '.join(same) or 'nothing'}", WIDTH, subsequent_indent="  ")
        others = [f"  {name}: {listed(values)}" for name, values in self.differs.items()]
        warnings = [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(
            [" / ".join(self.names), held, "differs:" if others else "differs: nothing", *others, *warnings]
        )

    def to_frame(self) -> "pandas.DataFrame":
        """A pandas DataFrame: a row for each quantity, a column for each trace, and whether they are `equal`."""
        import pandas as pd

        rows = {name: [*values, False] for name, values in self.differs.items()}
        rows |= {name: [*[value] * len(self.names), True] for name, value in self.equal.items()}
        # As objects: a column holds names, numbers and versions.
        return pd.DataFrame(list(rows.values()), index=list(rows), columns=[*self.names, "equal"], dtype=object)


def compare(traces: Sequence[Trace], names: Sequence[str] | None = None) -> Comparison:
    """Say what at least two `traces` hold equal, what differs, and what is unfair about comparing them.

    Settings are those of the headers. Results are updates, gradients, samples (gradients applied times
    batch size), seconds, mean staleness, the schedule (worker, batch and both versions, row for row), the mean
    loss of the last 100 gradients and, where all traces have them, the final parameters. `names` are
    what the traces are called, "run 1", "run 2", ... by default.

    Raises TypeError for what are no traces, ValueError for less than two and for names that do not fit.

    >>> one = Trace.from_schedule("0r 1r 0a 1a")
    >>> print(compare([one, Trace.from_schedule("0r 0a 1r 1a")], ["race", "in turn"]).differs["mean staleness"])
    (0.5, 0.0)
    """
    traces, called = _checked(traces, names)
    quantities = [*_settings([trace.header for trace in traces]), *_results(traces)]
    return Comparison(
        called,
        {quantity.name: quantity.values[0] for quantity in quantities if quantity.same},
        {quantity.name: quantity.values for quantity in quantities if not quantity.same},
        tuple(unfair({quantity.name: quantity for quantity in quantities}, called)),
    )


def _checked(traces: object, names: object) -> tuple[list[Trace], tuple[str, ...]]:
    if isinstance(traces, Trace) or not isinstance(traces, Sequence):
        raise TypeError(f"traces must be a list of traces, like [one, other], got {traces!r}")
    for trace in traces:
        if not isinstance(trace, Trace):
            raise TypeError(f"traces must be traces such as trainer.trace, got {trace!r}")
    if len(traces) < 2:
        raise ValueError(f"a comparison needs at least 2 traces, got {len(traces)}")
    called = [f"run {number}" for number in range(1, len(traces) + 1)] if names is None else names
    if isinstance(called, str) or not isinstance(called, Sequence) or not all(isinstance(n, str) for n in called):
        raise TypeError(f"names must be a list of texts, got {names!r}")
    if len(called) != len(traces) or len(set(called)) != len(called) or "equal" in called:
        raise ValueError(f"names must be {len(traces)} different ones, a name for each trace, got {names!r}")
    return list(traces), tuple(called)


# --- what was chosen


def _settings(headers: Sequence[Header]) -> Iterator[Quantity]:
    """The fields of the headers but for how the runs ended, which is a result."""
    for name in (field.name for field in fields(Header) if field.name != "ended"):
        values = [getattr(header, name) for header in headers]
        if not any(isinstance(value, Mapping) for value in values):
            yield Quantity(plain(name), tuple(values))
            continue
        parts = [{**(value or {})} for value in values]
        if name == "problem":
            for part in parts:
                part.pop("batch_size", None)  # The header has it too.
        if name == "optimizer":
            yield Quantity("learning rate", tuple(part.pop("learning_rate", None) for part in parts))
        if all(part == parts[0] for part in parts):
            yield Quantity(plain(name), (described(parts[0]),) * len(parts))
        elif len({title(part) for part in parts}) > 1 or not all(map(title, parts)):
            yield Quantity(plain(name), tuple(map(described, parts)))
        else:
            yield Quantity(plain(name), tuple(map(title, parts)))
            keys = dict.fromkeys(key for part in parts for key in part if key not in NAMING)
            yield from (Quantity(f"{plain(name)} {plain(k)}", tuple(part.get(k) for part in parts)) for k in keys)


# --- what came out


def _results(traces: Sequence[Trace]) -> Iterator[Quantity]:
    def result(name: str, of: Callable[[Trace], Any]) -> Quantity:
        return Quantity(name, tuple(map(of, traces)), chosen=False)

    yield result("ended", lambda trace: trace.header.ended.how)
    yield result("updates", lambda trace: trace.updates)
    yield result("gradients applied", _gradients)
    yield result("gradients dropped", lambda trace: len(trace) - _gradients(trace))
    yield result("samples", lambda t: _gradients(t) * t.header.batch_size if t.header.batch_size else None)
    yield result("seconds", lambda trace: trace.seconds)
    yield result("mean staleness", lambda trace: trace.mean_staleness)
    if any(trace.header.access != "consistent" for trace in traces):
        yield result("torn reads", lambda trace: int((trace.read_spread > 0).sum()))
        yield result("updates lost", lambda trace: max(trace.header.ended.lost, default=None))
    yield _against_first("schedule", [_schedule(trace, traces[0]) for trace in traces])
    yield result("final loss", _final_loss)
    if all(trace.parameters is not None for trace in traces):
        first = traces[0].parameters or []
        yield _against_first("final parameters", [_apart(trace.parameters or [], first) for trace in traces])


def _against_first(name: str, words: list[str]) -> Quantity:
    """A quantity that is told as a difference from the first trace's, which has its own."""
    quantity = Quantity(name, tuple(words), chosen=False)
    return quantity if quantity.same else quantity._replace(values=("its own", *words[1:]))


def _gradients(trace: Trace) -> int:
    return int(trace.applied.sum())


def _final_loss(trace: Trace) -> float:
    """Mean minibatch loss of the last gradients that were applied; NaN where none was computed."""
    last = trace.loss[trace.applied][-LAST:].astype(np.float64)
    return float(last.mean()) if len(last) else float("nan")


def _schedule(trace: Trace, first: Trace) -> str:
    """Where a schedule begins to be another than that of `first`."""
    rows = min(len(trace), len(first))
    other = np.zeros(rows, bool)
    for name in SCHEDULE:
        other |= getattr(trace, name)[:rows] != getattr(first, name)[:rows]
    if other.any():
        return f"another from row {int(other.argmax())} on"
    if len(trace) != len(first):
        return f"the same up to row {rows}, then {'longer' if len(trace) > rows else 'shorter'}"
    return "the same, row for row"


def _apart(values: Sequence[np.ndarray], first: Sequence[np.ndarray]) -> str:
    """How far parameters are from those of `first`."""
    if [v.shape for v in values] != [f.shape for f in first]:
        return "of other shapes"
    if all(v.dtype == f.dtype and v.tobytes() == f.tobytes() for v, f in zip(values, first, strict=True)):
        return "the same, bit for bit"
    with np.errstate(invalid="ignore"):
        largest = [np.abs(v.astype(np.float64) - f).max(initial=0.0) for v, f in zip(values, first, strict=True)]
    return f"up to {np.max(largest):.3g} apart"
