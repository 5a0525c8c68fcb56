"""The figure of the live view: its places, what a frame puts there, and that no message of the browser spoils one."""

import threading

import pytest
from test_series import make_trace, prefix

from asyncsgd_edu.trace import Header
from asyncsgd_edu.view import series
from asyncsgd_edu.view.live import LiveView
from asyncsgd_edu.view.live_figure import (
    COLUMN,
    MOST_FINISHED,
    MOST_LINES,
    Finished,
    LiveFigure,
    fitted,
    frame,
    wrapped,
)
from asyncsgd_edu.view.pace import PATIENCE


@pytest.fixture
def view() -> LiveView:
    return LiveView()


def named(view: LiveView, name: str) -> object:
    """The one plotly trace of the figure whose name begins so."""
    (found,) = [trace for trace in view.figure.data if (trace.name or "").startswith(name)]
    return found


def messages(figure: LiveFigure) -> list[dict[str, object]]:
    """From now on, the states that the figure sends."""
    sent: list[dict[str, object]] = []
    figure._send = lambda msg, buffers=None: sent.append(dict(msg.get("state", {})))  # noqa: ARG005
    return sent


class Page:
    """A page on a figure that answers when the test says so, as plotly's does after it has drawn."""

    def __init__(self, figure: LiveFigure) -> None:
        self.figure = figure
        self.answer()  # As it opens.

    @property
    def newest(self) -> int:
        """The number of the last frame that was sent."""
        return int(self.figure._last_trace_edit_id)

    def answer(self, number: int | None = None) -> None:
        """Say that the newest frame has been drawn, or frame `number`."""
        edit = self.newest if number is None else number
        self.figure.set_state({"_js2py_traceDeltas": {"trace_deltas": [], "trace_edit_id": edit}})


def test_the_figure_says_what_was_injected(view: LiveView) -> None:
    view.draw(make_trace(100, durations={"law": "Constant", "value": 0.01}))
    assert any("Constant durations injected" in note.text for note in view.figure.layout.annotations)
    view.draw(make_trace(100, workers=3))
    assert not any("injected" in note.text for note in view.figure.layout.annotations)


def test_one_figure_serves_all_frames(view: LiveView) -> None:
    figure, layers = view.figure, [trace.uid for trace in view.figure.data]
    for rows in (10, 500, 5):
        view.draw(make_trace(rows))
    assert view.figure is figure
    assert [trace.uid for trace in figure.data] == layers


EXPECTED = [
    ("asynchronous", 8, "N - 1", 7, "predicted: mean N - 1 = 7"),
    ("k-batch-async (k 10)", 100, "(N - 1)/k", 9.9, "predicted: mean (N - 1)/k = 9.9"),
    ("k-async (k 2)", 8, "(N - k)/k", 3, "predicted: mean (N - k)/k = 3"),
    ("stale-synchronous (bound 2)", 8, "bound", 35, "predicted: each staleness at most 35"),
    ("synchronous", 4, "no staleness", 0, "predicted: every staleness 0"),
]


@pytest.mark.parametrize(("policy", "workers", "name", "at", "words"), EXPECTED)
def test_what_is_predicted_is_drawn_before_the_run(
    view: LiveView, policy: str, workers: int, name: str, at: float, words: str
) -> None:
    view.expect(Header("", workers, policy=policy))
    line = named(view, name)
    assert list(line.x) == [at, at]
    assert line.text[1].strip()
    assert view.figure.layout.xaxis2.range[1] > at
    assert view.figure.layout.annotations[1].text == f"<b>Staleness</b><br>{words}"
    assert (len(named(view, "geometric law, memoryless").x) > 0) == (policy == "asynchronous")


def test_a_bound_that_is_far_out_is_said_and_not_drawn(view: LiveView) -> None:
    view.expect(Header("", 8, policy="stale-synchronous (bound 1000)"))
    assert len(named(view, "predicted").x) == 0
    assert "each staleness at most 14007" in view.figure.layout.annotations[1].text


def test_where_there_is_no_law_the_figure_says_so(view: LiveView) -> None:
    view.expect(Header("", 8, policy="hope"))
    assert len(named(view, "predicted").x) == 0
    assert "no law under this policy" in view.figure.layout.annotations[1].text


def test_a_legend_label_fits_a_narrow_column() -> None:
    lines = wrapped("run 12: 16 threads on 8 GPUs, stale-synchronous (bound 999)").split("<br>")
    assert max(map(len, lines)) <= COLUMN
    assert lines[-1] == "(bound\u00a0999)"


def test_a_long_legend_keeps_out_of_the_plot_below() -> None:
    labels = [wrapped(f"run {n}: 8 threads, lock_free access, delay-compensation (strength 0.04)") for n in range(1, 7)]
    assert labels[0].endswith("<br>delay-compensation<br>(strength\u00a00.04)")
    shown = fitted(labels)
    assert shown[-1] == labels[-1]
    assert shown[:-1] == [f"run {n}: 8 threads …" for n in range(1, 6)]
    assert sum(1 + label.count("<br>") for label in shown) <= MOST_LINES
    assert fitted(["run 1: 4 threads"] * 6) == ["run 1: 4 threads"] * 6


def test_finished_runs_are_drawn_behind_thinner(view: LiveView) -> None:
    curve = series.digest(make_trace(60)).curve
    view.finished = tuple(Finished(n, f"run {n}", curve, 32) for n in range(1, 9))
    view.draw(make_trace(100))
    shown = [trace for trace in view.figure.data if (trace.name or "").startswith("run ")]
    assert {trace.name for trace in shown} == {f"run {n}" for n in range(3, 9)}
    assert len(shown) == MOST_FINISHED
    assert all(trace.line.width < named(view, "this run<br>").line.width for trace in shown)
    assert len({(t.line.color, t.line.dash, t.marker.symbol) for t in [*shown, named(view, "this run<br>")]}) == 7


def test_no_frame_is_lost_to_messages_from_the_browser() -> None:
    view = LiveView()
    trace = make_trace(400)
    frames = [frame(part, series.digest(part), "updates", ()) for part in (prefix(trace, n) for n in range(1, 400))]
    sent = messages(view.figure)
    done = threading.Event()

    def browser() -> None:
        while not done.is_set():
            view.figure.set_state({"_js2py_pointsCallback": None, "_view_count": 1})

    thread = threading.Thread(target=browser, daemon=True)
    thread.start()
    try:
        for one in frames:
            view.figure.show_frame(*one)
    finally:
        done.set()
        thread.join(60)
    assert not thread.is_alive()
    assert sum(state.get("_py2js_update") is not None for state in sent) == len(frames)


def test_a_frame_is_one_update() -> None:
    view = LiveView()
    sent = messages(view.figure)
    view.draw(make_trace(100))
    assert sum(state.get("_py2js_update") is not None for state in sent) == 1
    assert not any(state.get("_py2js_restyle") or state.get("_py2js_relayout") for state in sent)
    assert len(sent) <= 4


def test_a_zoom_by_hand_survives_the_next_frame(view: LiveView) -> None:
    view.draw(make_trace(100))
    view.figure.layout.xaxis.range = [10, 20]
    view.draw(make_trace(200))
    assert tuple(view.figure.layout.xaxis.range) == (10, 20)


def test_what_the_browser_filled_in_erases_nothing(view: LiveView) -> None:
    view.draw(make_trace(50))
    bars = named(view, "measured")
    filled_in = [{"uid": bars.uid, "name": "measured", "width": 0.9}]
    edit = view.figure._last_trace_edit_id
    view.figure.set_state({"_js2py_traceDeltas": {"trace_deltas": filled_in, "trace_edit_id": edit}})
    view.figure.settle()
    assert any(trace.get("name") == "measured" for trace in view.figure._widget_data)


def test_a_new_view_is_fitted_to_its_width_once(view: LiveView) -> None:
    sent = messages(view.figure)
    view.figure.set_state({"_view_count": 1})
    for _ in range(2):
        view.figure.set_state({"_js2py_traceDeltas": {"trace_deltas": [], "trace_edit_id": 0}})
    fits = [state["_py2js_relayout"] for state in sent if state.get("_py2js_relayout")]
    assert [fit["relayout_data"] for fit in fits] == [{"autosize": True}]  # type: ignore[index]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The one second that the figure's clock shows; the test moves it."""
    now = [100.0]
    monkeypatch.setattr("asyncsgd_edu.view.live_figure.monotonic", lambda: now[0])
    return now


def test_a_figure_is_free_once_its_page_has_drawn_the_last_frame(view: LiveView, clock: list[float]) -> None:
    for rows in (10, 20, 30):
        view.draw(make_trace(rows))
        assert view.figure.free  # Nobody is there.
    page = Page(view.figure)
    view.draw(make_trace(40))
    first = page.newest
    assert not view.figure.free
    clock[0] += PATIENCE
    assert view.figure.free
    view.draw(make_trace(50))
    page.answer(first)
    assert not view.figure.free
    page.answer()
    clock[0] += 2 * PATIENCE
    assert view.figure.free


def test_a_frame_in_which_nothing_has_changed_needs_no_answer(view: LiveView, clock: list[float]) -> None:
    trace = make_trace(40)
    view.draw(trace)
    Page(view.figure)
    view.draw(trace)
    assert view.figure.free


def test_what_the_page_answers_is_not_sent_back(view: LiveView) -> None:
    page, sent = Page(view.figure), messages(view.figure)
    page.answer()
    assert sent == []
