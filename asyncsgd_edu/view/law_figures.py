"""Pictures that set traces against a law: how far the learning rate goes, momentum, time, durations.

Measured from the traces alone, by the recursion on a quadratic where parameters are
needed; the law drawn is the one whose assumptions the traces' headers meet, and where
there is none the title says so. Nothing here simulates or trains.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from asyncsgd_edu.engines.recursion import trajectory, windows
from asyncsgd_edu.rules.arguments import one_of, positive_number, whole_number
from asyncsgd_edu.rules.stability import implicit_momentum, mean_square_limit, stability_limit
from asyncsgd_edu.trace import Trace
from asyncsgd_edu.view import panels, series, titles
from asyncsgd_edu.view.thinning import Floats

BINS = 60
SHARE = 0.3  # Of the mean-square limit: the learning rate at which momentum is measured.
LAW_LINE = {"mode": "lines", "line": {"color": panels.BLACK, "width": 2.5}}


# --- learning rate against workers


def stability_map(traces: Sequence[Trace], rates: ArrayLike) -> go.Figure:
    """For each trace's number of workers and each learning rate, whether the quadratic 1/2 w^2 dies out.

    A trace of memoryless workers is cut into many short runs, whose mean square is looked
    at; any other is one long run. Over it the limit of learning rate times curvature:
    `stability_limit` for constant durations, `mean_square_limit` for memoryless ones, none
    for others or for a policy other than asynchronous. Raises TypeError or ValueError for
    traces that cannot be compared, or are too short, and for bad rates.
    """
    traces = _alike(traces, "a stability map")
    steps = np.unique([positive_number("a learning rate", rate) for rate in np.ravel(np.asarray(rates)).tolist()])
    if len(steps) == 0:
        raise ValueError("rates must be at least one learning rate, got none")
    name, law = _limit(traces[0])
    memoryless = name == "mean-square limit"
    grows = np.array([_grow_in_square(t, steps) if memoryless else _grow(t, steps) for t in traces])
    workers = np.array([trace.header.workers for trace in traces], np.float64)
    figure = go.Figure()
    for words, wanted, colour, symbol in (
        ("converges", False, panels.BLUE, "circle"), ("diverges", True, panels.VERMILLION, "x")
    ):  # fmt: skip
        at, step = np.nonzero(grows == wanted)
        figure.add_scatter(
            x=workers[at], y=steps[step], name=words, mode="markers",
            marker={"color": colour, "symbol": symbol, "size": 9},
            hovertemplate=f"%{{x}} workers, learning rate %{{y:.4g}}: {words}<extra></extra>",
        )  # fmt: skip
    if law is not None:
        order = np.argsort(workers)
        limits = [law(n) for n in workers[order].astype(int).tolist()]
        figure.add_scatter(x=workers[order], y=limits, name=name, **LAW_LINE)
    measured = "mean square of many short runs" if memoryless else "growth of one run"
    titles.title(figure, "Which learning rates converge", traces, f"{measured} on 1/2 w² · line: {name}")
    figure.update_xaxes(title="workers", **_log(workers))
    figure.update_yaxes(title="learning rate times curvature", type="log", **panels.log_ticks(steps[0], steps[-1]))
    return figure


def _limit(trace: Trace) -> tuple[str, Callable[[int], float] | None]:
    """The limit that speaks of such a trace, in words and as a function of the workers."""
    law = _law(trace)
    if not panels.marks_law(trace.header):
        return f"none, the laws do not speak of {trace.header.policy}", None
    if law == "Constant":
        return "limit for a constant delay", lambda workers: stability_limit(workers - 1)
    if law == "Exponential":
        return "mean-square limit", mean_square_limit
    return f"none, there is no law for {law or 'unknown'} durations", None


def _grow(trace: Trace, rates: Floats) -> np.ndarray:
    """Whether |w| grows at each learning rate, along the whole trace; bool of shape [rates]."""
    runs = trajectory(trace.read_version, trace.apply_version, rates)
    return np.asarray(runs.growth > 1)


def _grow_in_square(trace: Trace, rates: Floats) -> np.ndarray:
    """Whether the mean of w^2 over short runs grows at each learning rate; bool of shape [rates]."""
    read = _short_runs(trace, 8 * trace.header.workers + 8)
    quarter = read.shape[1] // 4
    grows = []
    for rate in rates:
        square = (trajectory(read, np.arange(read.shape[1]), rate).w ** 2).mean(axis=0)
        # Written so that what diverged, and is not a number, grows.
        grows.append(not square[-quarter:].sum() <= square[-2 * quarter : -quarter].sum())
    return np.array(grows)


# --- momentum that nobody set


def momentum(traces: Sequence[Trace]) -> go.Figure:
    """Momentum in the mean of many short runs on the quadratic 1/2 w^2, against 1 - 1/N.

    Each asynchronous trace of N workers is cut into runs of 3 N + 8 updates; the momentum is the one
    that fits the steps of their mean best. The law assumes memoryless durations: where
    they are others the title says so. Raises TypeError or ValueError for traces that
    cannot be compared, are not asynchronous, are too short or are of a single worker.
    """
    traces = _alike(traces, "momentum")
    if not panels.marks_law(traces[0].header):
        raise ValueError(f"momentum is measured of asynchronous traces, got policy {traces[0].header.policy!r}")
    workers = np.array([trace.header.workers for trace in traces])
    if workers[0] < 2:
        raise ValueError("momentum needs traces of at least 2 workers, got 1: a single worker's steps fit any momentum")
    figure = go.Figure()
    figure.add_scatter(
        x=workers, y=[_fit(trace) for trace in traces], name="measured", mode="markers",
        marker={"color": panels.BLUE, "symbol": "circle", "size": 11},
    )  # fmt: skip
    line = np.arange(workers.min(), workers.max() + 1)
    figure.add_scatter(x=line, y=[implicit_momentum(int(n))[0] for n in line], name="1 - 1/N", **LAW_LINE)
    law = _law(traces[0])
    outside = f"{law or 'unknown'} durations are outside the law's assumptions, which are memoryless ones"
    about = "fitted to the mean of many short runs" + ("" if law == "Exponential" else f" · {outside}")
    titles.title(figure, "Momentum that nobody set", traces, about)
    figure.update_xaxes(title="workers N", **_log(workers))
    figure.update_yaxes(title="momentum")
    return figure


def _fit(trace: Trace) -> float:
    """The momentum that fits the mean of short runs best, by least squares."""
    workers = trace.header.workers
    read, rate = _short_runs(trace, 3 * workers + 8), SHARE * mean_square_limit(workers)
    mean = trajectory(read, np.arange(read.shape[1]), rate).w.mean(axis=0)
    moved, gradient = np.diff(mean), mean[1:-1]
    fitted, *_ = np.linalg.lstsq(np.stack([moved[:-1], -rate * gradient], axis=1), moved[1:])
    return float(fitted[0])


# --- error against time


def error_against_time(*traces: Trace, labels: Sequence[str] | None = None, by: str = "seconds") -> go.Figure:
    """Loss of runs under several policies, by seconds, updates or samples, and what they have in common.

    The lines below the title say which of updates, samples, workers, seed and batch size
    are equal and which are not, and how the learning rates were chosen: a comparison is
    as fair as they are. Raises as `figures.convergence` does.
    """
    from asyncsgd_edu.view.figures import convergence

    one_of("by", by, series.AXES)
    policies = [titles.checked(trace).header.policy for trace in traces]
    figure = convergence(*traces, by=by, labels=policies if labels is None else labels)
    if traces:
        titles.title(figure, f"Error against {by}", traces, learning_rate_words(traces), held_words(traces))
    return figure


def held_words(traces: Sequence[Trace]) -> str:
    """What is the same in all of these traces, and what is not.

    Of updates, samples (gradients times batch size), workers, seed and batch size.
    """
    facts: dict[str, list[int | None]] = {
        "updates": [t.updates for t in traces],
        "samples": [len(t) * (t.header.batch_size or 1) for t in traces],
        "workers": [t.header.workers for t in traces],
        "seed": [t.header.seed for t in traces],
        "batch size": [t.header.batch_size for t in traces],
    }
    equal = [f"{name} {values[0]}" for name, values in facts.items() if len(set(values)) == 1]
    other = [name for name, values in facts.items() if len(set(values)) > 1]
    parts = [("equal: ", equal), ("not equal: ", other)]
    return " · ".join(start + ", ".join(names) for start, names in parts if names)


def learning_rate_words(traces: Sequence[Trace]) -> str:
    """How the learning rates of these traces go together: one for all, or in proportion to something, or not."""
    rates = [trace.header.optimizer.get("learning_rate") for trace in traces]
    if not all(isinstance(rate, int | float) and rate > 0 for rate in rates):
        return "learning rates unknown"
    numbers = np.array(rates, np.float64)
    if np.allclose(numbers, numbers[0], rtol=1e-5):
        return f"one learning rate for all, {numbers[0]:.4g}"
    averaged = np.array([np.count_nonzero(trace.applied) / max(1, trace.updates) for trace in traces])
    shown = "learning rates " + ", ".join(f"{rate:.4g}" for rate in numbers)
    if np.allclose(numbers / averaged, numbers[0] / averaged[0], rtol=1e-3):
        return f"{shown}: in proportion to the gradients averaged in an update"
    return f"{shown}, by no rule that the traces tell"


# --- durations


def duration_histogram(trace: Trace) -> go.Figure:
    """How long gradients took from read to ready, in seconds, with the mean marked.

    A gradient that was cancelled before it was ready has no duration and is counted in the
    title only, so what is drawn is then shorter than the law. The slowest 0.5 % are
    gathered in the last bar when they would leave no room for the others.
    """
    seconds = titles.checked(trace).ready_time - trace.read_time
    ready = np.isfinite(seconds)
    cancelled, seconds = int(np.count_nonzero(~ready)), seconds[ready]
    words = f"Durations of {len(seconds)} gradients"
    figure = go.Figure()
    if len(seconds):
        mean = float(seconds.mean())
        words += f": mean {mean:.4g} s" + (f" ({cancelled} cancelled)" if cancelled else "")
        middle, share, width, gathered = _bars(seconds)
        figure.add_bar(
            x=middle, y=share, width=width, name="measured",
            marker={"color": panels.SKY, "line": {"color": panels.BLUE, "width": 1}},
        )  # fmt: skip
        top = 1.1 * float(share.max())
        figure.add_scatter(x=[mean, mean], y=[0, top], name=f"mean {mean:.4g} s", **_dashed())
        if gathered:
            words += f"; last bar: {gathered} up to {seconds.max():.4g} s"
    titles.title(figure, words, [trace])
    figure.update_xaxes(title="seconds from read to ready" + (", virtual" if trace.header.clock == "virtual" else ""))
    figure.update_yaxes(title="share of gradients", tickformat=".0%", rangemode="tozero")
    return figure if len(seconds) else titles.say(figure, "no gradient is ready yet")


def _bars(seconds: Floats) -> tuple[Floats, Floats, float, int]:
    """Middles and shares of bars, their width, and how many gradients beyond were put in the last."""
    low, high, most = float(seconds.min()), float(np.quantile(seconds, 0.995)), float(seconds.max())
    gathered = int(np.count_nonzero(seconds > high)) if most - low > 2 * (high - low) else 0
    high = high if gathered else most
    if high - low <= 1e-9 * max(1.0, high):  # All alike: one bar that can be seen.
        return np.array([low]), np.ones(1), 0.1 * low or 0.1, 0
    counts, edges = np.histogram(np.minimum(seconds, high), BINS, (low, high))
    return (edges[1:] + edges[:-1]) / 2, counts / len(seconds), float(edges[1] - edges[0]), gathered


# --- what several of them need


def _dashed() -> dict[str, Any]:
    return {"mode": "lines", "line": {"color": panels.VERMILLION, "dash": "dash", "width": 2.5}}


def _alike(traces: Sequence[Trace], what: str) -> list[Trace]:
    """The traces, if they differ in the number of workers only; by that number."""
    found = [titles.checked(trace) for trace in traces]
    if not found:
        raise ValueError(f"{what} needs at least one trace, got none")
    for name, values in (("policy", [t.header.policy for t in found]), ("durations", [_law(t) for t in found])):
        if len(set(values)) > 1:
            raise ValueError(f"{what} needs traces of one {name}, got {', '.join(map(str, dict.fromkeys(values)))}")
    for trace in found:
        whole_number(f"{what} needs traces with updates: updates", trace.updates, 3, 10**9)
    return sorted(found, key=lambda trace: trace.header.workers)


def _law(trace: Trace) -> str:
    """The name of the durations' law, empty where none is known."""
    return str((trace.header.durations or {}).get("law", ""))


def _short_runs(trace: Trace, length: int) -> np.ndarray:
    """Versions read in runs of that many updates, cut from the trace; shape [runs, length]."""
    if trace.updates < length:
        raise ValueError(
            f"{trace.header.workers} workers need a trace of at least {length} updates to be cut into short runs, "
            f"better a thousand times as many, got {trace.updates}"
        )
    return windows(trace.read_version[trace.applied], length)


def _log(workers: np.ndarray) -> dict[str, Any]:
    """A logarithmic axis with a tick at each number of workers that there is."""
    ticks = np.unique(workers).astype(int)
    return {"type": "log", "tickmode": "array", "tickvals": ticks.tolist(), "ticktext": [str(n) for n in ticks]}
