"""The one figure of the live view: its places, its frames, and the lock around it.

Three plots in fixed places, made once; a frame sends their data. Nothing here looks
at a trainer or starts a thread.
"""

import re
import textwrap
import threading
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.basedatatypes import Undefined

from asyncsgd_edu.trace import COLUMNS, Header, Trace
from asyncsgd_edu.view import panels, predictions, renderers, series  # noqa: F401 - renderers: before plotly does
from asyncsgd_edu.view.pace import Pace
from asyncsgd_edu.view.thinning import WINDOW
from asyncsgd_edu.view.written import WRITTEN

HEIGHT = 566
COLUMN = 20  # Characters that the legend has room for where the page is narrow.
LINE = 86  # Characters that a line across the figure has room for.
MOST_FINISHED = 6
MOST_LINES = 9  # Of the legend, for the finished runs: more would reach into the plot below.
# After each frame the browser sends the settings that plotly.js filled in, with the number of the edit that it has
# drawn. The number is its answer. Taking the settings over would erase names and widths from what a reloaded page
# starts with, and ipywidgets would send them back.
ANSWER = "_js2py_traceDeltas"
DEFAULTS = (ANSWER, "_js2py_layoutDelta")


@dataclass(frozen=True)
class Finished:
    """A run that has ended, to be drawn thinly behind the present one; `number` picks its colour."""

    number: int
    label: str
    curve: series.Curve
    batch_size: int | None


class LiveFigure(go.FigureWidget):
    """A figure that another thread may update while the browser talks to it.

    plotly sends by setting a trait and then None. A message from the browser that is
    handled between the two merges them away, and the frame is lost. So one lock is
    held around either. `free` says whether the browser has drawn what it was sent.
    """

    def __init__(self) -> None:
        self._writing = threading.RLock()
        self._shown: dict[int, Mapping[str, Any]] = {}
        self._asked: dict[str, Any] = {}
        self._new_view = self._whole = False
        self._pace = Pace()
        super().__init__(_skeleton(), _layout())
        self._config = {"responsive": True, "displaylogo": False}

    def set_state(self, sync_data: Mapping[str, Any]) -> None:
        """Take what the browser sends, between two frames and never within one."""
        with self._writing:
            super().set_state({name: value for name, value in sync_data.items() if name not in DEFAULTS})
            self._new_view |= "_view_count" in sync_data
            answer = sync_data.get(ANSWER)
            if answer:
                self._pace.answered(answer["trace_edit_id"], monotonic())
            if self._new_view and answer:
                # A new view draws itself before it has its place on the page: have it fit its width again.
                self._new_view = False
                self._send_relayout_msg({"autosize": True})

    @property
    def free(self) -> bool:
        """Whether the next frame may go: see `Pace.free`."""
        return self._pace.free(monotonic())

    def show_frame(self, data: Sequence[Mapping[str, Any]], layout: Mapping[str, Any], *, whole: bool = False) -> None:
        """Show new data for each plotly trace, in one message: what has changed, or `whole`, all of it."""
        # Only what has changed since this method last asked for it: it is less work, and a zoom made by hand stays.
        asked = {name: value for name, value in layout.items() if self._asked.get(name, Undefined) != value}
        with self._writing:
            old, self._shown, self._whole = self._shown, dict(enumerate(data)), whole
            number_before = self._last_trace_edit_id
            with self.batch_update():
                for number, (trace, properties) in enumerate(zip(self.data, data, strict=True)):
                    before = old.get(number, {})
                    for name, value in properties.items():
                        if not _same(before.get(name, Undefined), value):
                            trace[name] = value
                for name, value in asked.items():
                    self.layout[name] = value
            if whole and self._last_trace_edit_id == number_before:
                self._send_update_msg({}, {})  # Where nothing has changed plotly sends nothing.
            if self._last_trace_edit_id != number_before:
                self._pace.sent(self._last_trace_edit_id, monotonic())
            self._asked.update(asked)
            self._whole = False

    def _send_update_msg(
        self,
        restyle_data: Mapping[str, Any],
        relayout_data: Mapping[str, Any],
        trace_indexes: Sequence[int] | None = None,
        source_view_id: str | None = None,
    ) -> None:
        if self._whole:
            names = sorted({name for properties in self._shown.values() for name in properties})
            restyle_data = {name: [p.get(name, Undefined) for p in self._shown.values()] for name in names}
            trace_indexes = list(self._shown)
        super()._send_update_msg(restyle_data, relayout_data, trace_indexes, source_view_id)

    def introduce(self) -> None:
        """Before it is shown: have the new view start from the present picture."""
        with self._writing:
            self._new_view = True
            self.settle()

    def settle(self) -> None:
        """Put the present picture into the state that a new view of this widget starts from."""
        with self._writing:
            self._widget_layout = deepcopy(self._layout_obj._props)
            self._widget_data = deepcopy(self._data)


def wrapped(label: str, width: int = COLUMN) -> str:
    """A label in lines for a narrow column; a comma ends a line too, and what is in brackets stays together.

    >>> wrapped("run 3: 16 threads on 8 GPUs, synchronous")
    'run 3: 16 threads on<br>8 GPUs<br>synchronous'
    """
    whole = re.sub(r"\((\w+) ([\d.]+)\)", "(\\1\u00a0\\2)", label)
    return "<br>".join(
        line for part in whole.split(", ") for line in textwrap.wrap(part, width, break_on_hyphens=False)
    )


def fitted(labels: Sequence[str], lines: int = MOST_LINES) -> list[str]:
    """Labels of lines, shortened to their first one, from the oldest on, where all would not have room.

    >>> fitted(["run 1: 4 threads<br>k-sync (k 2)", "run 2: 4 threads<br>k-sync (k 3)"], lines=3)
    ['run 1: 4 threads …', 'run 2: 4 threads<br>k-sync (k 3)']
    """
    room, shown = lines - len(labels), []
    for label in reversed(labels):
        first, *more = label.split("<br>")
        room -= len(more)
        shown.append(label if room >= 0 else f"{first} …" if more else first)
    return shown[::-1]


def _same(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return type(one) is type(other) and one == other


def _layers(
    trace: Trace, digest: series.Digest, by: str, finished: Sequence[Finished], panel: panels.StalenessPanel
) -> list[panels.Layer]:
    """All layers in the fixed order of the figure, each with its place."""
    header = trace.header
    slots = {k: Finished(k, "", series.Curve(), None) for k in range(MOST_FINISHED)}
    last = finished[-MOST_FINISHED:]
    labels = fitted([run.label for run in last])
    slots |= {run.number % MOST_FINISHED: replace(run, label=words) for run, words in zip(last, labels, strict=True)}
    loss = [
        panels.loss_layer(run.label, run.curve, by, run.batch_size, slot + 1, thin=True) for slot, run in slots.items()
    ]
    present = f"this run<br>(mean of {WINDOW} updates)"
    loss.append(panels.loss_layer(present, digest.curve, by, header.batch_size, 0))
    end = panels.loss_end("this run", header, digest, by)
    loss.append(panels.Layer(end.style, {**end.data, "name": wrapped(end.data["name"])}))
    timeline = panels.timeline_panel(series.bars(trace), header.workers)
    placed = []
    for place, layers in (("", loss), ("2", panel.layers), ("3", timeline)):
        where = {"xaxis": f"x{place}", "yaxis": f"y{place}", "legend": f"legend{place}"}
        placed += [panels.Layer({**layer.style, **where}, layer.data) for layer in layers]
    return placed


def frame(
    trace: Trace, digest: series.Digest, by: str, finished: Sequence[Finished]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Data of every layer, and those parts of the layout that depend on the trace."""
    header = trace.header
    panel = panels.staleness_panel(header, digest, panels.staleness_bars(header, digest))
    layers = _layers(trace, digest, by, finished, panel)
    axes = {
        "yaxis": panels.loss_axis([digest.curve, *(g.curve for g in finished)]),
        "xaxis2": {"range": [-0.7, panel.right]},
        "yaxis2": {"range": [0, panel.top]},
        "yaxis3": panels.lanes(trace),
    }
    layout = {f"{axis}.{name}": value for axis, some in axes.items() for name, value in some.items()}
    layout["xaxis.title.text"] = panels.axis_title(by, header)
    layout["xaxis3.title.text"] = panels.axis_title("seconds", header)
    written = f"{WRITTEN} · " if header.policy == WRITTEN else ""
    special = textwrap.wrap(written + panels.conditions(header), LINE)
    layout["annotations[0].text"] = "<br>".join(["<b>Convergence</b>", *special])
    layout["annotations[1].text"] = f"<b>Staleness</b><br>{_staleness(header, digest)}"
    return [layer.data for layer in layers], layout


NO_RUN = Header("", 1, policy="")


def _staleness(header: Header, digest: series.Digest) -> str:
    if digest.applied or not header.policy:
        words = panels.staleness_words(header, digest)
    else:
        law = predictions.of_header(header)
        words = f"{'predicted: ' * (law.value is not None)}{predictions.expected_staleness(law)}"
    # The title has said of what.
    return words.replace("mean staleness", "mean").replace("no law for the staleness", "no law")


def _blank(header: Header = NO_RUN) -> Trace:
    return Trace(header, {name: [] for name in COLUMNS})


def empty_frame(
    by: str, finished: Sequence[Finished], coming: Header = NO_RUN
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The frame before a run: what the laws say of the one to come, and the finished ones."""
    return frame(_blank(coming), series.Digest(), by, finished)


def _skeleton() -> list[dict[str, Any]]:
    empty = _blank()
    panel = panels.staleness_panel(empty.header, series.Digest(), panels.staleness_bars(empty.header, series.Digest()))
    return [layer.style for layer in _layers(empty, series.Digest(), "updates", (), panel)]


def _layout() -> dict[str, Any]:
    """Fixed places for everything, so that nothing jumps while the numbers change."""
    title = {"showarrow": False, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom",
             "align": "left"}  # fmt: skip
    row = {"orientation": "h", "yanchor": "top", "font": {"size": 11}, "tracegroupgap": 0}
    # Labels have room: to look in each frame for those that have not takes a fifth of its time.
    axis = {"automargin": False, "title": {"standoff": 4}, "ticklabeloverflow": "allow"}
    return {
        "template": "plotly_white", "height": HEIGHT, "autosize": True, "barmode": "overlay", "uirevision": "kept",
        "font": {"size": 12}, "margin": {"l": 64, "r": 12, "t": 50, "b": 92, "autoexpand": False},
        "hovermode": "closest",
        "xaxis": {**axis, "domain": [0, 0.69], "anchor": "y", "rangemode": "tozero"},
        "yaxis": {**axis, "domain": [0.58, 1], "anchor": "x", "title": {"text": "minibatch loss", "standoff": 4}},
        "xaxis2": {**axis, "domain": [0, 0.42], "anchor": "y2",
                   "title": {"text": "updates between read and apply", "standoff": 4, "font": {"size": 12}}},
        "yaxis2": {**axis, "domain": [0, 0.38], "anchor": "x2", "tickformat": ".0%",
                   "title": {"text": "share of gradients", "standoff": 4}},
        "xaxis3": {**axis, "domain": [0.5, 1], "anchor": "y3", "nticks": 6,
                   "title": {"text": "seconds", "standoff": 4}},
        "yaxis3": {**axis, "domain": [0, 0.38], "anchor": "x3", "title": {"text": "worker", "standoff": 4},
                   "zeroline": False},
        "legend": {"x": 0.7, "y": 1, "xanchor": "left", "yanchor": "top", "font": {"size": 11}},
        # One below the other: side by side they would not fit a narrow page.
        "legend2": {**row, "x": 0, "xanchor": "left", "y": -0.1},
        "legend3": {**row, "x": 1, "xanchor": "right", "y": -0.15},
        "annotations": [
            {**title, "x": 0, "y": 1.005, "text": "<b>Convergence</b>"}, {**title, "x": 0, "y": 0.385, "text": ""},
            {**title, "x": 0.5, "y": 0.385, "text": "<b>The last 60 gradients</b><br>an arrow from the version read"},
        ],
    }  # fmt: skip
