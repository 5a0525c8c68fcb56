"""Pictures of traces: each function takes traces and returns a plotly `Figure`.

A picture says what its trace says and nothing else; whatever was injected, or ran in
virtual time, is in its title. Nothing here waits, runs or remembers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from asyncsgd_edu.rules.arguments import one_of
from asyncsgd_edu.trace import Trace
from asyncsgd_edu.view import panels, renderers, series, titles  # noqa: F401 - renderers: before plotly does
from asyncsgd_edu.view.end_figures import reachable
from asyncsgd_edu.view.law_figures import duration_histogram, error_against_time, momentum, stability_map
from asyncsgd_edu.view.path_figures import staleness_against_gap, trajectory
from asyncsgd_edu.view.race_figures import race_ladder
from asyncsgd_edu.view.thinning import WINDOW

MOST_ARROWS = 100  # From version to version: more of them are a tangle.
TALL = 520  # Pixels.

__all__ = [
    "convergence",
    "duration_histogram",
    "error_against_time",
    "momentum",
    "race_ladder",
    "reachable",
    "stability_map",
    "staleness_against_gap",
    "staleness_histogram",
    "timeline",
    "trajectory",
    "worker_table",
]


def timeline(trace: Trace, last: int = 60) -> go.Figure:
    """When each worker read, computed and applied, in seconds, for the `last` gradients.

    A lane for each worker. A bar from read to ready ("compute"), one from ready to
    apply ("waiting"), a mark at the apply, and a thin arrow to each read from the update
    that wrote the version it read. A star marks a read that was torn: some of the
    variables had updates that others had not.

    Above the lanes stand the versions, when each was written, and an arrow for each gradient from
    the version that it read to the one that it wrote: an arrow passes over one version for each update that
    it is stale by. Of more than 100 gradients the last 100 have one, and the title says so.
    Raises ValueError or TypeError for a bad `last`.
    """
    bars = series.bars(titles.checked(trace), last)
    figure = go.Figure([layer.trace for layer in map(_nested, panels.timeline_panel(bars, trace.header.workers))])
    words = [_torn(figure, trace, len(bars.worker)), _arrows(figure, trace, len(bars.worker))]
    titles.title(figure, f"The last {len(bars.worker)} gradients", [trace], *filter(None, words))
    figure.update_layout(barmode="overlay", height=TALL)
    figure.update_xaxes(title=panels.axis_title("seconds", trace.header))
    figure.update_yaxes(title="worker", **_lanes(trace))
    return titles.or_empty(figure, [trace])


def _torn(figure: go.Figure, trace: Trace, last: int) -> str:
    """Mark the torn reads of the `last` gradients; says how many there are."""
    rows = np.flatnonzero(trace.read_spread[len(trace) - last :] > 0) + len(trace) - last
    if not len(rows):
        return ""
    spread = trace.read_spread[rows]
    text = [
        f"worker {w}: torn read of version {r}: variables up to {s} versions apart"
        for w, r, s in zip(trace.worker[rows], trace.read_version[rows], spread, strict=True)
    ]
    figure.add_scatter(
        x=trace.read_time[rows], y=trace.worker[rows], mode="markers", name="torn read", text=text, hoverinfo="text",
        marker={"color": panels.YELLOW, "symbol": "star", "size": 14, "line": {"color": panels.BLACK, "width": 1.2}},
    )  # fmt: skip
    return f"torn reads: {len(rows)}, of variables up to {spread.max()} versions apart"


def _arrows(figure: go.Figure, trace: Trace, last: int) -> str:
    """Draw the versions, and an arrow from the one read to the one written; says how many if not all.

    Gradients of one update that read the same version share an arrow.
    """
    rows = np.flatnonzero(trace.applied[len(trace) - last :]) + len(trace) - last
    if not len(rows):
        return ""
    drawn = rows[-MOST_ARROWS:]
    read, written = np.unique(np.stack([trace.read_version[drawn], trace.apply_version[drawn] + 1]), axis=1)
    start, end = _written(trace, read), _written(trace, written)
    whole = np.isfinite(start)  # A trace may begin later than the version that was read.
    base, height = _above(trace.header.workers)
    x, y = _arcs(start[whole], end[whole])
    style = {"color": panels.PURPLE, "width": 1.3}
    sizes = np.tile([*[0.0] * (x.shape[1] - 2), 9.0, 0.0], len(x))
    figure.add_scatter(
        x=x.ravel(), y=-base - height * y.ravel(), mode="lines+markers", line=style, hoverinfo="skip",
        marker={"symbol": "arrow", "angleref": "previous", "color": panels.PURPLE, "size": sizes},
        name="from version read<br>to version written",
    )  # fmt: skip
    versions, at = np.unique(np.concatenate([read[whole], written]), return_index=True)
    seconds = np.concatenate([start[whole], end])[at]
    width = np.ptp(np.concatenate([seconds, trace.read_time[rows]]))
    figure.add_scatter(
        x=seconds, y=np.full(len(seconds), -base), name="version", mode="markers+text", textposition="bottom center",
        text=_numbers(versions, seconds, 0.04 * float(width)), textfont={"size": 11}, hoverinfo="text",
        hovertext=[f"version {version}" for version in versions.tolist()], marker={"color": panels.BLACK, "size": 6},
    )  # fmt: skip
    return f"arrows from version to version: those of the last {len(drawn)}" if len(drawn) < len(rows) else ""


def _arcs(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bows from start to end, NaN behind each; of shape [arrows, points]. The longest is 1 high."""
    part = np.linspace(0, 1, 17)
    x = start[:, None] + (end - start)[:, None] * part
    span = np.abs(end - start)
    y = 4 * part * (1 - part) * np.sqrt(span / (span.max(initial=0.0) or 1.0))[:, None]
    gap = np.full((len(start), 1), np.nan)
    return np.concatenate([x, gap], axis=1), np.concatenate([y, gap], axis=1)


def _numbers(versions: np.ndarray, seconds: np.ndarray, apart: float) -> list[str]:
    """The number of each version, but of none that would stand on another's, that is less than `apart` from it."""
    words, last = [], -np.inf
    for version, second in zip(versions.tolist(), seconds.tolist(), strict=True):
        free = second - last >= apart
        words.append(str(version) if free else "")
        last = second if free else last
    return words


def _written(trace: Trace, versions: np.ndarray) -> np.ndarray:
    """When each version was written, seconds, of a trace with updates; NaN where it does not say. 0 for version 0."""
    rows = np.flatnonzero(trace.applied)
    made = trace.apply_version[rows] + 1
    at = np.searchsorted(made, versions, side="right") - 1
    found = (at >= 0) & (made[at] == versions)
    return np.where(found, trace.apply_time[rows[at]], np.where(versions == 0, 0.0, np.nan))


def _above(workers: int) -> tuple[float, float]:
    """How far above lane 0 the versions stand, and how high above them their arrows go; in lanes."""
    height = 0.9 + 0.22 * workers
    return 0.35 + 0.06 * (workers + height), height


def _lanes(trace: Trace) -> dict[str, Any]:
    """The axis of workers, with room for the versions above it."""
    lanes = panels.lanes(trace)
    shown = list(range(0, trace.header.workers, lanes["dtick"]))
    base, height = _above(trace.header.workers)
    return {
        "range": [lanes["range"][0], -base - 1.08 * height], "zeroline": False, "tickvals": [-base, *shown],
        "ticktext": ["version", *map(str, shown)],
    }  # fmt: skip


def staleness_histogram(trace: Trace) -> go.Figure:
    """Shares of the gradients by staleness, beside the geometric law and N - 1.

    The law assumes independent workers with memoryless durations. For synchronous
    traces it says nothing, so neither it nor N - 1 is drawn.
    """
    digest = series.digest(titles.checked(trace))
    shape = panels.staleness_bars(trace.header, digest)
    panel = panels.staleness_panel(trace.header, digest, shape)
    shown = [layer for layer in panel.layers if len(layer.data["x"])]
    figure = go.Figure([layer.trace for layer in shown])
    words = panels.staleness_words(trace.header, digest)
    titles.title(figure, f"Staleness of {digest.applied} gradients: {words}", [trace])
    figure.update_xaxes(title="staleness (updates between read and apply)", range=[-0.7, panel.right])
    figure.update_yaxes(title="share of gradients", tickformat=".0%", range=[0, panel.top])
    return titles.or_empty(figure, [trace])


def convergence(*traces: Trace, by: str = "updates", labels: Sequence[str] | None = None) -> go.Figure:
    """Loss of one or more runs, by updates, samples (gradients times batch size) or seconds.

    A line is the mean of the last 50 updates' minibatch losses, thinned so that its
    extremes survive. A cross marks where a run's loss stopped being finite. Raises
    ValueError for an unknown `by` or a number of `labels` other than that of traces.
    """
    one_of("by", by, series.AXES)
    for trace in traces:
        titles.checked(trace)
    if labels is not None and len(labels) != len(traces):
        raise ValueError(f"labels must be one for each of the {len(traces)} traces, got {list(labels)!r}")
    digests = [series.digest(trace) for trace in traces]
    names = list(labels) if labels is not None else [panels.subject(trace.header) for trace in traces]
    figure = go.Figure()
    for look, (name, trace, digest) in enumerate(zip(names, traces, digests, strict=True)):
        batch_size = trace.header.batch_size
        label = f"{name}<br>mean of {WINDOW} updates"
        figure.add_trace(panels.loss_layer(label, digest.curve, by, batch_size, look).trace)
        end = panels.loss_end(name, trace.header, digest, by)
        if len(end.data["x"]):
            figure.add_trace(end.trace)
    titles.title(figure, f"Loss by {by}", traces, names=names)
    figure.update_xaxes(title=panels.axis_title(by, traces[0].header if traces else None))
    figure.update_yaxes(title="minibatch loss", **panels.loss_axis([d.curve for d in digests]))
    if any(d.version for d in digests) and not any(len(d.curve) for d in digests):
        return titles.say(figure, "no loss to draw: none was computed, or none was finite")
    return titles.or_empty(figure, traces)


def worker_table(trace: Trace) -> go.Figure:
    """What each worker did: gradients, staleness, and mean seconds computing and waiting."""
    titles.checked(trace)
    workers = trace.header.workers
    computed = np.bincount(trace.worker, minlength=workers)
    owner = trace.worker[trace.applied]
    applied = np.bincount(owner, minlength=workers)

    def mean(values: np.ndarray, of: np.ndarray, counts: np.ndarray) -> list[str]:
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.bincount(of, weights=values, minlength=workers) / counts
        return ["-" if np.isnan(m) else f"{m:.4g}" for m in means]

    columns = {
        "worker": [str(w) for w in range(workers)],
        "gradients": [str(n) for n in computed],
        "dropped": [str(n) for n in computed - applied],
        "mean staleness": mean(trace.staleness.astype(np.float64), owner, applied),
        "computing, s": mean(trace.ready_time - trace.read_time, trace.worker, computed),
        "waiting, s": mean(trace.apply_time - trace.ready_time, trace.worker, computed),
    }
    table = go.Table(
        header={"values": list(columns), "align": "right"},
        cells={"values": list(columns.values()), "align": "right", "height": 24},
    )
    figure = go.Figure(table)
    titles.title(figure, "What each worker did (means per gradient)", [trace])
    figure.update_layout(height=190 + 26 * min(workers, 24))
    return figure


def _nested(layer: panels.Layer) -> panels.Layer:
    """The layer with `marker.size` put inside its marker, as a new plotly trace wants it."""
    data = dict(layer.data)
    if "marker.size" not in data:
        return layer
    marker = {**layer.style["marker"], "size": data.pop("marker.size")}
    return panels.Layer({**layer.style, "marker": marker}, data)
