"""Pictures of traces: each function takes traces and returns a plotly `Figure`.

A picture says what its trace says and nothing else; whatever was injected, or ran in
virtual time, is in its title. Nothing here waits, runs or remembers.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from asyncsgd_edu.rules.arguments import one_of
from asyncsgd_edu.trace import Trace
from asyncsgd_edu.view import panels, series, titles
from asyncsgd_edu.view.law_figures import duration_histogram, error_against_time, momentum, stability_map
from asyncsgd_edu.view.thinning import WINDOW

__all__ = [
    "convergence",
    "duration_histogram",
    "error_against_time",
    "momentum",
    "stability_map",
    "staleness_histogram",
    "timeline",
    "worker_table",
]


def timeline(trace: Trace, last: int = 60) -> go.Figure:
    """When each worker read, computed and applied, in seconds, for the `last` gradients.

    A lane for each worker. A bar from read to ready ("compute"), one from ready to
    apply ("waiting"), a mark at the apply, and an arrow to each read from the update
    that wrote the version it read. Raises ValueError or TypeError for a bad `last`.
    """
    bars = series.bars(titles.checked(trace), last)
    figure = go.Figure([layer.trace for layer in map(_nested, panels.timeline_panel(bars, trace.header.workers))])
    titles.title(figure, f"The last {len(bars.worker)} gradients", [trace])
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(title=panels.axis_title("seconds", trace.header))
    figure.update_yaxes(title="worker", **panels.lanes(trace))
    return titles.or_empty(figure, [trace])


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
