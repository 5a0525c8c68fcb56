"""The one thread behind the dashboard: how it stops, goes on, resets, fails and replays, whoever pressed."""

import threading
from collections.abc import Callable

import dashboards
import pytest
from dashboards import LONG, Gate, Puppet, begin, behind, curve, done, says

from asyncsgd_edu.trace import Header, Trace
from asyncsgd_edu.view.conductor import Conductor
from asyncsgd_edu.view.configuration import Configuration
from asyncsgd_edu.view.lab import Lab
from asyncsgd_edu.view.live import LiveView
from asyncsgd_edu.view.live_figure import LiveFigure

lab, puppets, gate = dashboards.lab, dashboards.puppets, dashboards.gate


@pytest.mark.parametrize(("view", "report"), [(None, print), ("view", print), (LiveView(), None)])
def test_a_conductor_wants_a_view_and_somebody_to_tell(view: object, report: object) -> None:
    with pytest.raises(TypeError, match="a conductor needs a LiveView and what takes a Report, got"):
        Conductor(view, report)  # type: ignore[arg-type]


def test_stop_in_the_middle_and_run_again(lab: Lab, puppets: list[Puppet]) -> None:
    puppet = begin(lab, puppets)
    puppet.go(10)
    lab._stop.click()
    assert lab.wait(LONG)
    assert "<b>stopped</b> · version 10 of 60" in lab.status
    assert begin(lab, puppets) is puppet
    assert says(lab, "version 10 of 70")
    puppet.go(60)
    assert lab.wait(LONG)
    assert [(run.how, run.updates) for run in lab.runs] == [("stopped", 10), ("finished", 70)]


def test_stop_works_while_it_builds(lab: Lab, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    puppet = Puppet()

    def trainer(_: Configuration) -> Puppet:
        gate.hold()
        return puppet

    monkeypatch.setattr(Configuration, "trainer", trainer)
    lab._run.click()
    assert gate.reached.wait(LONG)
    assert "building" in lab.status
    assert not lab._stop.disabled
    lab._stop.click()
    gate.opened.set()
    assert lab.wait(LONG)
    assert not puppet.started.is_set()
    assert "<b>stopped</b>" in lab.status
    assert not lab._run.disabled


class Failing(Puppet):
    """One whose worker fails as soon as it starts."""

    def start(self, updates: int) -> None:
        self.fail(RuntimeError("worker 3 failed: ValueError: <no>"))


def refused(_: Configuration) -> Puppet:
    raise ValueError("gpus must be at most 1")


@pytest.mark.parametrize(
    ("trainer", "kind", "sentence", "said"),
    [
        (lambda _: Failing(), RuntimeError, "worker 3 failed", "Error: worker 3 failed: ValueError: &lt;no&gt;"),
        (refused, ValueError, "gpus must be at most 1", "gpus must be at most 1"),
    ],
    ids=["of a worker", "while building"],
)
def test_an_error_is_said_and_raised(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    trainer: Callable[[Configuration], Puppet],
    kind: type[Exception],
    sentence: str,
    said: str,
) -> None:
    monkeypatch.setattr(Configuration, "trainer", trainer)
    with pytest.raises(kind, match=sentence):
        lab.run(wait=True)
    assert said in lab.status
    assert not lab._run.disabled


def test_an_error_while_drawing_stops_the_run_and_is_said(
    lab: Lab, puppets: list[Puppet], monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet = begin(lab, puppets)

    def draw(_: Trace) -> None:
        raise RuntimeError("no ink")

    monkeypatch.setattr(lab._view, "draw", draw)
    puppet.go(1)
    assert lab.wait(LONG)
    assert "Error: RuntimeError: no ink" in lab.status
    assert puppet.state == "stopped"


@pytest.mark.parametrize("button", ["_stop", "_reset"])
def test_a_step_that_takes_long_does_not_hold_up(
    lab: Lab, gate: Gate, monkeypatch: pytest.MonkeyPatch, button: str
) -> None:
    class Slow(Puppet):
        def step(self) -> None:
            gate.hold()

    puppet = Slow()
    monkeypatch.setattr(Configuration, "trainer", lambda _: puppet)
    lab._run.click()
    assert says(lab, "<b>running</b>")
    lab._pause.click()
    lab._step.click()
    assert gate.reached.wait(LONG)
    getattr(lab, button).click()
    assert lab.wait(LONG)
    assert [run.how for run in lab.runs] == ["stopped"]  # And the gate is still shut.


@pytest.mark.parametrize("button", ["pause", "resume", "step"])
def test_a_button_that_comes_when_the_run_has_just_ended_does_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, button: str
) -> None:
    class Ending(Puppet):
        """One whose last update lands between the look at its state and the press."""

    def too_late(puppet: Puppet) -> None:
        puppet.state = "finished"
        raise RuntimeError(f"{button} needs a trainer that is otherwise")

    monkeypatch.setattr(Ending, button, too_late)
    monkeypatch.setattr(Configuration, "trainer", lambda _: Ending())
    lab._run.click()
    assert says(lab, "<b>running</b>")
    lab._pause.click()
    if button == "resume":
        lab._pause.click()
    elif button == "step":
        lab._step.click()
    assert lab.wait(LONG)
    assert [run.how for run in lab.runs] == ["finished"]
    assert lab._conductor.error is None


def test_a_second_run_at_once_is_refused(lab: Lab, puppets: list[Puppet]) -> None:
    begin(lab, puppets)
    with pytest.raises(RuntimeError, match="a run is under way"):
        lab.run()
    lab._run.click()
    assert len(puppets) == 1


def test_callbacks_work_on_another_thread_and_all_is_done_on_one(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()

    class Watching(Puppet):
        @property
        def trace(self) -> Trace:
            seen.add(threading.current_thread().name)
            return super().trace

    puppet = Watching()
    monkeypatch.setattr(Configuration, "trainer", lambda _: puppet)
    for press in (lab._run.click, lab._pause.click, lab._step.click, lab._stop.click):
        subshell = threading.Thread(target=press, name="subshell")
        subshell.start()
        subshell.join(LONG)
        assert not subshell.is_alive()
    assert lab.wait(LONG)
    assert "<b>stopped</b>" in lab.status
    assert seen == {"asyncsgd-lab"}
    assert "asyncsgd-lab" not in dashboards.lab_threads()


def test_reset_ends_a_run_and_clears_its_curve(lab: Lab, puppets: list[Puppet]) -> None:
    puppet = begin(lab, puppets)
    puppet.go(30)
    assert says(lab, "version 30 of 60")
    lab._reset.click()
    assert lab.wait(LONG)
    assert (puppet.rows, puppet.state) == (0, "ready")
    assert "<b>ready</b> · version 0" in lab.status
    assert (curve(lab), lab._progress.value) == ([], 0)
    assert behind(lab) == ["run 1: 2 threads"]


def test_what_is_expected_is_drawn_when_the_page_is_ready_and_only_the_last(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, asked = threading.Event(), threading.Event()

    def ready(_: LiveFigure) -> bool:
        asked.set()
        return free.is_set()

    monkeypatch.setattr(LiveFigure, "free", property(ready))
    drawn: list[int] = []
    expect = LiveView.expect

    def noted(view: LiveView, coming: Header) -> None:
        drawn.append(coming.workers)
        expect(view, coming)

    monkeypatch.setattr(LiveView, "expect", noted)
    for threads in (3, 5, 7):
        lab._controls["threads"].value = threads
    assert asked.wait(LONG)
    assert f"N - 1 = {threads - 1}" in lab.prediction  # The words do not wait.
    assert drawn == []
    free.set()
    assert lab.wait(LONG)
    assert drawn == [7]


def test_no_frame_while_the_page_is_drawing_and_the_last_one_all_the_same(
    lab: Lab, puppets: list[Puppet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LiveFigure, "free", property(lambda _: False))
    puppet = begin(lab, puppets)
    puppet.go(25)
    assert done(lab)
    assert curve(lab) == []
    lab._stop.click()
    assert lab.wait(LONG)
    assert "<b>stopped</b> · version 25 of 60" in lab.status
    assert curve(lab)[-1] == 25
