"""The live view: what it shows and says of a trace, what it is given, and when the pump ends."""

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from test_live_figure import Page, messages, named
from test_series import make_trace, prefix, with_columns

from asyncsgd_edu.trace import COLUMNS, Ended, Header, Trace
from asyncsgd_edu.view import figures
from asyncsgd_edu.view.live import LiveView

LONG = 60.0  # Seconds that nothing here takes.


class Scripted:
    """A trainer whose trace is one row longer at each look, and whose run ends when there are no more."""

    def __init__(self, whole: Trace, how: str = "finished") -> None:
        self.whole, self.how, self.rows = whole, how, 0

    @property
    def state(self) -> str:
        return "running" if self.rows < len(self.whole) else self.how

    @property
    def trace(self) -> Trace:
        self.rows = min(self.rows + 1, len(self.whole))
        return prefix(self.whole, self.rows)


@pytest.fixture
def view(monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveView]:
    monkeypatch.setattr("asyncsgd_edu.view.live.INTERVAL", 0.001)
    made = LiveView()
    yield made
    made.close()


def test_a_frame_shows_what_the_static_figures_show(view: LiveView) -> None:
    trace = make_trace(3000)
    view.draw(trace)
    assert named(view, "this run<br>").y.tolist() == figures.convergence(trace).data[0].y.tolist()
    static = {layer.name: layer for layer in figures.staleness_histogram(trace).data}
    for name in ("measured", "geometric law, memoryless", "N - 1"):
        assert np.asarray(named(view, name).y).tolist() == np.asarray(static[name].y).tolist()
    static = {layer.name: layer for layer in figures.timeline(trace).data}
    for name in ("compute", "waiting", "apply"):
        assert named(view, name).x.tolist() == static[name].x.tolist()


def test_the_text_says_the_numbers(view: LiveView) -> None:
    trace = make_trace(1000, durations={"law": "Constant", "value": 0.01})
    view.draw(trace)
    for words in (
        "version 1000", f"mean staleness {trace.mean_staleness:.2f} (N - 1 = 3)", "mean of 50 updates",
        "Constant durations injected (value 0.01; seconds)",
    ):  # fmt: skip
        assert words in view.text.value


def test_towers_have_no_law(view: LiveView) -> None:
    view.draw(make_trace(100))
    assert len(named(view, "geometric law, memoryless").x) > 0
    view.draw(make_trace(100, policy="synchronous"))
    assert len(named(view, "geometric law, memoryless").x) == 0
    assert "every staleness is 0" in view.text.value


def test_the_axis_can_change(view: LiveView) -> None:
    trace = make_trace(100)
    view.draw(trace)
    view.by = "samples"
    assert named(view, "this run<br>").x[-1] == 3200
    assert "samples" in view.figure.layout.xaxis.title.text
    with pytest.raises(ValueError, match="by must be one of 'updates', 'samples', 'seconds', got 'epochs'"):
        view.by = "epochs"
    with pytest.raises(ValueError, match="by must be one of"):
        LiveView(by="epochs")


def test_empty_diverged_and_uncomputed_traces_have_a_frame(view: LiveView) -> None:
    view.draw(Trace(Header("AsyncTrainer", 3), {name: [] for name in COLUMNS}))
    assert view.text.value == "no updates yet"
    loss = np.append(np.ones(99), np.inf)
    view.draw(with_columns(make_trace(100, ended=Ended("diverged", version=99)), loss=loss))
    assert "not finite at version 99" in view.text.value
    assert named(view, "this run: not finite<br>at version 99").x.tolist() == [99]
    view.draw(with_columns(make_trace(100, workers=3), loss=np.full(100, np.nan)))
    assert "no finite loss" in view.text.value


@pytest.mark.parametrize("bad", ["x", 4, [], object()])
def test_what_is_not_a_trainer_is_refused_at_once(view: LiveView, bad: object) -> None:
    for use in (LiveView, view.watch):
        with pytest.raises(TypeError, match=r"trainer must be a trainer such as AsyncTrainer\(...\), or None, got "):
            use(bad)  # type: ignore[operator]
    with pytest.raises(TypeError, match="a figure is drawn from a Trace such as trainer.trace, got"):
        view.draw(bad)  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError), match="by must be one of"):
        LiveView(by=bad)  # type: ignore[arg-type]
    assert "asyncsgd-live" not in [thread.name for thread in threading.enumerate()]


def test_a_trace_in_place_of_its_trainer_gets_a_hint() -> None:
    with pytest.raises(TypeError, match=r"a trace is shown by LiveView\(\).draw\(trace\)"):
        LiveView(make_trace(5))  # type: ignore[arg-type]


def test_a_run_that_is_shown_is_not_disturbed_by_what_is_expected_next(view: LiveView) -> None:
    view.draw(make_trace(500))
    view.expect(Header("", 50))
    assert list(named(view, "N - 1").x) == [3, 3]
    view.clear()
    assert list(named(view, "N - 1").x) == [49, 49]


def test_the_bound_stays_beside_what_is_measured(view: LiveView) -> None:
    trace = make_trace(200)
    view.draw(Trace(Header("AsyncTrainer", 4, policy="stale-synchronous (bound 1)"), trace.columns))
    assert list(named(view, "bound").x) == [9, 9]
    assert f"mean staleness {trace.mean_staleness:.2f}, each at most 9" in view.text.value


def test_the_pump_draws_to_the_last_row_and_ends(view: LiveView) -> None:
    trainer = Scripted(make_trace(40))
    view.watch(trainer)
    assert view.wait(LONG)
    assert named(view, "this run<br>").x[-1] == 40
    assert view.frames > 2
    assert "asyncsgd-live" not in [thread.name for thread in threading.enumerate()]


def test_a_frame_waits_for_the_page_and_the_last_does_not(view: LiveView, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1e9]  # Later than the frame that the view was made with.
    monkeypatch.setattr("asyncsgd_edu.view.live_figure.monotonic", lambda: now[0])
    page, trainer = Page(view.figure), Scripted(make_trace(10))
    drawn = []
    for answering in (False, False, True, False, False, True, False):
        assert view.look(trainer) == "running"
        drawn.append(len(named(view, "this run<br>").x))
        if answering:
            page.answer()
    assert drawn == [1, 1, 1, 4, 4, 4, 7]
    assert view.digest.version == 7  # The words are of the same rows as the picture.
    trainer.rows = 10
    assert view.look(trainer) == "finished"
    view.finish()
    assert len(named(view, "this run<br>").x) == 10


def test_without_an_answer_a_frame_goes_after_two_seconds(view: LiveView, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1e9]  # Later than the frame that the view was made with.
    monkeypatch.setattr("asyncsgd_edu.view.live_figure.monotonic", lambda: now[0])
    Page(view.figure)
    trainer, drawn = Scripted(make_trace(100)), []
    for _ in range(12):
        view.look(trainer)
        now[0] += 0.5
        drawn.append(len(named(view, "this run<br>").x))
    assert drawn == [1, 1, 1, 1, 5, 5, 5, 5, 9, 9, 9, 9]


def test_no_frame_goes_before_the_first_row(view: LiveView) -> None:
    class Slow(Scripted):
        state = "running"

        @property
        def trace(self) -> Trace:
            return prefix(self.whole, 0)

    view.look(Slow(make_trace(5)))
    assert view.frames == 0
    assert view.shown is None


def test_a_paused_run_is_watched_but_not_drawn_again(view: LiveView) -> None:
    looks = threading.Semaphore(0)

    class Paused(Scripted):
        state = "paused"

        @property
        def trace(self) -> Trace:
            looks.release()
            return self.whole

    trainer = Paused(make_trace(10))
    view.watch(trainer)
    for _ in range(5):
        assert looks.acquire(timeout=LONG)
    assert view.frames == 1
    Paused.state = "stopped"
    assert view.wait(LONG)
    assert view.frames == 2


def test_a_pump_waits_for_a_trainer_that_has_not_started(view: LiveView) -> None:
    asked = threading.Event()

    class Ready(Scripted):
        begun = False

        @property
        def state(self) -> str:
            asked.set()
            return super().state if self.begun else "ready"

    trainer = Ready(make_trace(10))
    view.watch(trainer)
    assert asked.wait(LONG)
    trainer.begun = True
    assert view.wait(LONG)
    assert named(view, "this run<br>").x[-1] == 10


def test_watching_again_replaces(view: LiveView) -> None:
    class Endless(Scripted):
        state = "running"

    view.watch(Endless(make_trace(5)))
    view.watch(Scripted(make_trace(30, workers=2)))
    assert view.wait(LONG)
    assert "2 workers" in view.text.value
    assert [t.name for t in threading.enumerate()].count("asyncsgd-live") == 0


def test_an_error_in_the_pump_is_shown(view: LiveView) -> None:
    class Broken(Scripted):
        @property
        def trace(self) -> Trace:
            raise RuntimeError("the log <broke>")

    view.watch(Broken(make_trace(5)))
    assert view.wait(LONG)
    assert "the view failed: RuntimeError: the log &lt;broke&gt;" in view.text.value


def test_the_last_frame_goes_whole_and_once(view: LiveView, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsgd_edu.view.live_figure.monotonic", lambda: 1e9)
    Page(view.figure)
    trainer = Scripted(make_trace(60))
    trainer.rows = 58
    sent = messages(view.figure)
    assert [view.look(trainer) for _ in range(3)] == ["running", "running", "finished"]
    assert len(named(view, "this run<br>").x) == 59  # The page has not drawn it yet.
    for _ in range(2):  # Also where nothing has changed since.
        before = len(sent)
        view.finish()
        (curves,) = [
            state["_py2js_update"]["style_data"]["y"]  # type: ignore[index]
            for state in sent[before:]
            if state.get("_py2js_update")
        ]
        assert len(curves) == len(view.figure.data)
        assert max(len(curve["shape"]) and curve["shape"][0] for curve in curves if isinstance(curve, dict)) >= 60
        assert any("_widget_data" in state for state in sent[before:])


def test_it_shows_itself_with_the_present_picture(view: LiveView) -> None:
    view.draw(make_trace(70))
    bundle = view._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in str(bundle)
    assert any(len(trace.get("x", ())) == 70 for trace in view.figure._widget_data)


@pytest.mark.slow
def test_a_frame_of_a_million_rows_costs_a_few_milliseconds(view: LiveView) -> None:
    trace = make_trace(1_000_000, workers=8)
    view.draw(prefix(trace, 999_000))
    costs = []
    for rows in range(999_100, 1_000_001, 100):
        part = prefix(trace, rows)
        began = time.thread_time()
        view.draw(part)
        costs.append(time.thread_time() - began)
    assert min(costs) < 0.2  # Seconds; one that goes through all rows takes more on any machine.


def test_the_view_says_which_trace_it_shows() -> None:
    view, trace = LiveView(), make_trace(30)
    assert view.shown is None
    view.draw(trace)
    assert view.shown is trace
