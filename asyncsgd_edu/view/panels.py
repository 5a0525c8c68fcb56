"""The marks of each picture: which lines and bars, in which colours, over which range.

A panel is a fixed list of layers. A static figure makes a plotly trace of each; the
live view makes the same ones once and later sends only their data. Nothing here
makes a figure or a widget.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from asyncsgd_edu.trace import Header, Trace
from asyncsgd_edu.view import predictions
from asyncsgd_edu.view.series import Bars, Curve, Digest, Histogram, histogram
from asyncsgd_edu.view.thinning import WINDOW

# Okabe and Ito's colours can be told apart by colour-blind eyes, and each comes with its own dash and marker.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
GREY = "#666666"
LOOKS = (
    (BLUE, "solid", "circle"), (VERMILLION, "dash", "square"), (GREEN, "dot", "diamond"),
    (PURPLE, "dashdot", "triangle-up"), (ORANGE, "longdash", "cross"), (BLACK, "longdashdot", "star"),
    (SKY, "5px,2px", "triangle-down"),
)  # fmt: skip
MOST_LANES = 60
FARTHEST = 5  # Times the number of workers: a bound beyond that is said, but not drawn.
NOTHING: dict[str, Any] = {"x": [], "y": []}


class Layer(NamedTuple):
    """One plotly trace: `style` never changes, `data` is what a frame sends."""

    style: dict[str, Any]
    data: dict[str, Any]

    @property
    def trace(self) -> dict[str, Any]:
        """The whole plotly trace."""
        return {**self.style, **self.data}


def marks_law(header: Header) -> bool:
    """Whether the geometric law says anything about such a run."""
    return header.policy == "asynchronous" and predictions.of_header(header).value is not None


def timing(header: Header) -> str:
    """Where the seconds of a run come from; empty where nothing is special."""
    return " · ".join(part for part in (header.injected, "virtual time" if header.clock == "virtual" else "") if part)


def conditions(header: Header) -> str:
    """What a reader must know of how the numbers came about; empty where nothing is special."""
    access = "" if header.access == "consistent" else f"{header.access} access"
    what_if = "; ".join(f"{name} {', '.join(map(str, who))}" for name, who in (header.counterfactual or {}).items())
    remedy = str(header.remedy.get("name")) if header.remedy else ""
    parts = (timing(header), access, remedy, f"what if: {what_if}" if what_if else "")
    return " · ".join(part for part in parts if part)


def subject(header: Header) -> str:
    """Who ran, in a few words."""
    kind = "towers" if header.policy == "synchronous" else "workers"
    name = str(header.problem.get("name", ""))
    return ", ".join(part for part in (header.trainer, f"{header.workers} {kind}", name) if part)


def staleness_words(header: Header, digest: Digest) -> str:
    """Measured staleness in a phrase, beside what the laws say of it."""
    law = predictions.of_header(header)
    if not digest.applied:
        return "no updates yet"
    if not marks_law(header) and digest.largest_staleness == 0:
        return "every staleness is 0"
    words = f"mean staleness {digest.mean_staleness:.2f}"
    if law.bound:
        return f"{words}, each at most {law.value:g}"
    if not law.formula:
        return words
    return (
        f"{words} ({predictions.equation(law)})" if law.formula[0] != "(" else f"{words} [{predictions.equation(law)}]"
    )


def loss_words(header: Header, digest: Digest) -> str:
    """Loss in a phrase, with what was left out of the curve."""
    if not len(digest.curve):
        none = "no loss computed" if header.trainer == "simulate" else "no finite loss"
        return none if digest.version else ""
    words = f"loss {digest.loss:.4g} (mean of {min(WINDOW, digest.version)} updates)"
    version = diverged_at(header, digest)
    return words if version is None else f"{words}, not finite at version {version}"


@dataclass(frozen=True)
class StalenessPanel:
    """Bars of what was measured, the geometric law, and a line at the mean, or the bound, that is predicted."""

    layers: tuple[Layer, ...]
    top: float
    right: float


def staleness_bars(header: Header, digest: Digest) -> Histogram:
    """The bars of a run, and of the law as far as it reaches where it is drawn."""
    return histogram(digest.counts, header.workers if marks_law(header) else 1)


def staleness_panel(header: Header, digest: Digest, shape: Histogram) -> StalenessPanel:
    """Bars as shares of the gradients; each law only where its assumptions can hold."""
    law = marks_law(header)
    peak = max(shape.share.max(initial=0.0), shape.law.max(initial=0.0) if law else 0.0)
    top = next((step for step in (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8) if 1.15 * peak <= step), 1.1)
    mark = _predicted(header, digest)
    reach = 1.1 * mark.value if mark and mark.value is not None else 0.0
    right = float(shape.law_at[-1] if law else max(4, digest.largest_staleness, reach)) + shape.width / 2
    bars = Layer(
        {"type": "bar", "marker": {"color": SKY, "line": {"color": BLUE, "width": 1}}, "name": "measured",
         "hovertemplate": "staleness %{x}: %{y:.1%}<extra>measured</extra>"},
        {"x": shape.middle, "y": shape.share if digest.applied else 0 * shape.share, "width": 0.9 * shape.width},
    )  # fmt: skip
    curve = Layer(
        {"type": "scatter", "mode": "lines+markers", "line": {"color": VERMILLION, "dash": "dot", "width": 2},
         "marker": {"symbol": "circle-open", "size": 6}, "name": "geometric law, memoryless",
         "hovertemplate": "staleness %{x}: %{y:.1%}<extra>geometric law</extra>"},
        {"x": shape.law_at, "y": shape.law} if law else NOTHING,
    )  # fmt: skip
    return StalenessPanel((bars, curve, _mark(mark, top, right)), top, right)


def _predicted(header: Header, digest: Digest) -> predictions.Law | None:
    """The law to be marked in the picture, if there is one and it is not too far out."""
    law = predictions.of_header(header)
    if law.value is None or (law.bound and law.value > FARTHEST * header.workers):
        return None
    # Where nothing is stale the one bar says so; before there is a bar, a line does.
    return law if law.formula or not digest.applied else None


def _mark(law: predictions.Law | None, top: float, right: float) -> Layer:
    """A line upwards from what is predicted, with its formula."""
    style = {
        "type": "scatter", "mode": "lines+text", "line": {"color": BLACK, "dash": "dash", "width": 2},
        "hoverinfo": "skip",
    }  # fmt: skip
    if law is None or law.value is None:
        return Layer(style, {**NOTHING, "text": [], "name": "predicted", "textposition": "middle right"})
    value = float(law.value)
    words = f"at most {value:g}" if law.bound else predictions.equation(law) if law.formula else "all at 0"
    name = "bound" if law.bound else law.formula or "no staleness"
    left = value > 0.6 * right  # Where there is room for the words.
    return Layer(style, {
        "x": [value, value], "y": [0, 0.96 * top], "text": ["", f"{words} " if left else f" {words}"], "name": name,
        "textposition": "middle left" if left else "middle right",
    })  # fmt: skip


def timeline_panel(bars: Bars, lanes: int) -> tuple[Layer, ...]:
    """A bar for computing and one for waiting, a mark at the apply, an arrow from the version read.

    With more than `MOST_LANES` lanes a bar is as wide as several, to be seen at all.
    """
    scale = max(1.0, lanes / MOST_LANES)
    used = bars.applied
    text = [
        f"worker {w}: read version {r}, " + (f"applied to {a}, staleness {a - r}" if a >= 0 else "dropped")
        for w, r, a in zip(bars.worker.tolist(), bars.read_version.tolist(), bars.apply_version.tolist(), strict=True)
    ]
    lane = bars.worker.astype(np.float64)
    hover = {"hovertemplate": "%{text}<br>%{base:.4f} s, %{x:.4f} s long<extra></extra>", "textposition": "none"}

    def spans(name: str, colour: str, width: float, start: np.ndarray, end: np.ndarray) -> Layer:
        # Thick and thin rather than hatched: a hatching for each bar slows the browser.
        look = {"color": colour, "line": {"width": 0}}
        style = {"type": "bar", "orientation": "h", "name": name, "marker": look, **hover}
        return Layer(style, {"base": start, "x": end - start, "y": lane, "text": text, "width": width * scale})

    def marks(name: str, colour: str, symbol: str, rows: np.ndarray) -> Layer:
        look = {"color": colour, "symbol": symbol, "size": 8, "line": {"color": "white", "width": 1}}
        style = {"type": "scatter", "mode": "markers", "name": name, "marker": look, "hoverinfo": "text"}
        data = {"x": bars.apply[rows], "y": lane[rows], "text": [t for t, r in zip(text, rows, strict=True) if r]}
        return Layer(style, data)

    gap = np.full(len(bars.to_time), np.nan)
    arrow = Layer(
        {"type": "scatter", "mode": "lines+markers", "name": "version read", "hoverinfo": "skip",
         "line": {"color": GREY, "width": 1},
         "marker": {"symbol": "arrow", "angleref": "previous", "color": GREY}},
        {"x": np.stack([bars.from_time, bars.to_time, gap], axis=1).ravel(),
         "y": np.stack([bars.from_worker, bars.to_worker, gap], axis=1).ravel(),
         "marker.size": np.tile([0.0, 7.0, 0.0], len(gap))},
    )  # fmt: skip
    return (
        spans("compute", BLUE, 0.65, bars.read, bars.ready),
        spans("waiting", ORANGE, 0.25, bars.ready, bars.apply),
        arrow,
        marks("apply", GREEN, "diamond", used),
        marks("dropped", VERMILLION, "x", ~used),
    )


def loss_layer(label: str, curve: Curve, by: str, batch_size: int | None, look: int, *, thin: bool = False) -> Layer:
    """One loss curve. `thin` draws it behind the others: a finished run."""
    colour, dash, symbol = LOOKS[look % len(LOOKS)]
    count = len(curve)
    style = {
        "type": "scatter", "mode": "lines+markers",
        "line": {"color": colour, "dash": dash, "width": 1.2 if thin else 2.5}, "opacity": 0.75 if thin else 1.0,
        "marker": {"color": colour, "symbol": symbol, "maxdisplayed": 8, "size": 6 if thin else 8},
        "hovertemplate": f"%{{x}} {by}: loss %{{y:.4g}}<extra>%{{fullData.name}}</extra>",
    }  # fmt: skip
    data = {"x": curve.x(by, batch_size).astype(np.float64), "y": curve.loss, "name": label, "showlegend": count > 0}
    return Layer(style, data)


def loss_end(label: str, header: Header, digest: Digest, by: str) -> Layer:
    """A cross at the last point of a curve whose loss stopped being finite; empty otherwise."""
    style = {
        "type": "scatter", "mode": "markers", "hoverinfo": "name",
        "marker": {"color": VERMILLION, "symbol": "x", "size": 13, "line": {"color": BLACK, "width": 1}},
    }  # fmt: skip
    version = diverged_at(header, digest)
    stop = [-1] if version is not None and len(digest.curve) else []
    x, name = digest.curve.x(by, header.batch_size), f"{label}: not finite at version {version}"
    return Layer(
        style, {"x": x[stop].astype(np.float64), "y": digest.curve.loss[stop], "name": name, "showlegend": bool(stop)}
    )


def diverged_at(header: Header, digest: Digest) -> int | None:
    """The version whose loss was not finite, None where all were or none was computed."""
    if header.ended.how == "diverged" and header.ended.version is not None:
        return header.ended.version
    return digest.first_not_finite if digest.not_finite < digest.version else None


def loss_axis(curves: Sequence[Curve]) -> dict[str, Any]:
    """Type and range of a loss axis that neither a long descent nor a divergence breaks.

    Logarithmic when every loss is above 0 and they span more than a factor of ten. A
    linear axis ends at ten times the first losses, so that a divergence leaves it
    rather than flattening all that came before.
    """
    values = np.concatenate([np.zeros(0), *(c.loss for c in curves)])
    linear: dict[str, Any] = {"type": "linear", "tickmode": "auto", "tickvals": None, "ticktext": None}
    if not len(values):
        return {**linear, "range": [0, 1], "autorange": False}
    low, high = float(values.min()), float(values.max())
    if low > 0 and high > 10 * low:
        return {"type": "log", **log_ticks(low, high), "range": None, "autorange": True}
    start = max(float(np.abs(c.loss[:WINDOW]).max()) for c in curves if len(c))
    if high <= 10 * start:
        return {**linear, "range": None, "autorange": True}
    room = 0.05 * (10 * start - low) or 0.5
    return {**linear, "range": [low - room, 10 * start + room], "autorange": False}


def log_ticks(low: float, high: float) -> dict[str, Any]:
    """Whole numbers beside a logarithmic axis: plotly's own say 2 where they mean 0.2."""
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    step = -(-(last - first) // 8)
    leads = (1, 2, 5) if last - first <= 3 else (1,)
    ticks = [float(f"{lead}e{k}") for k in range(first, last + 1, step) for lead in leads]
    return {"tickmode": "array", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def axis_title(by: str, header: Header | None = None) -> str:
    """The name of a horizontal axis, with its unit."""
    if by == "seconds":
        return "seconds of virtual time" if header is not None and header.clock == "virtual" else "seconds"
    if by == "samples":
        unknown = header is not None and header.batch_size is None
        return "gradients (batch size unknown)" if unknown else "samples (gradients times batch size)"
    return "updates"


def lanes(trace: Trace) -> dict[str, Any]:
    """The axis of workers: one lane each, worker 0 on top."""
    return {"range": [trace.header.workers - 0.5, -0.5], "dtick": -(-trace.header.workers // 10)}
