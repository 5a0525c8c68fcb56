"""Simulated runs in the dashboard: their arithmetic is stopped, goes on, is paused and reset like any run."""

import threading
from collections.abc import Callable

import dashboards
import numpy as np
import pytest
from dashboards import LONG, Gate, Held, curve, done, says

from asyncsgd_edu.trace import Trace
from asyncsgd_edu.view.lab import Lab
from asyncsgd_edu.view.virtual import VirtualRun

virtual, gate, held = dashboards.virtual, dashboards.gate, dashboards.held


def test_stop_comes_before_the_arithmetic(virtual: Lab, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    start = VirtualRun.start

    def held(run: VirtualRun, updates: int) -> None:
        gate.hold()
        start(run, updates)

    monkeypatch.setattr(VirtualRun, "start", held)
    virtual._run.click()
    assert gate.reached.wait(LONG)
    virtual._stop.click()
    gate.opened.set()
    assert virtual.wait(LONG)
    assert "<b>stopped</b> · version 0 of 300" in virtual.status
    assert [(run.how, run.updates) for run in virtual.runs] == [("stopped", 0)]
    assert not virtual._run.disabled


@pytest.fixture
def stopped(virtual: Lab, held: Held) -> tuple[Lab, Trace]:
    """A long run that was stopped in the middle of its replay, and what it had done by then."""
    virtual._controls["updates"].value = 500_000
    held.press(virtual, "_stop")
    assert virtual.wait(LONG)
    assert virtual.trace is not None
    return virtual, virtual.trace


def test_a_long_replay_is_stopped_with_the_losses_done_so_far(stopped: tuple[Lab, Trace]) -> None:
    virtual, trace = stopped
    assert 0 < len(trace) < 1000
    assert np.isfinite(trace.loss).all()
    assert trace.audit() == []
    assert trace.header.ended.how == virtual.trainer.state == "stopped"
    assert f"<b>stopped</b> · version {len(trace)} of 500000" in virtual.status
    assert curve(virtual)[-1] == len(trace)
    (run,) = virtual.runs
    assert (run.how, run.updates) == ("stopped", len(trace))
    assert run.loss == virtual.trainer.evaluate()["loss"]
    assert dashboards.lab_threads() == []


def test_a_run_that_was_stopped_in_its_replay_goes_on(stopped: tuple[Lab, Trace]) -> None:
    virtual, first = stopped
    virtual._controls["updates"].value = 50
    virtual.run(wait=True)
    assert virtual.trace is not None
    assert virtual.trace.version == first.version + 50
    assert virtual.trace.loss[: len(first)].tolist() == first.loss.tolist()
    assert [(run.how, run.after) for run in virtual.runs] == [("stopped", None), ("finished", 1)]


def test_a_replay_is_paused_and_resumed(virtual: Lab, held: Held) -> None:
    held.press(virtual, "_pause")
    assert says(virtual, "<b>replay paused</b>")
    buttons = (virtual._run, virtual._stop, virtual._pause, virtual._step, virtual._reset)
    assert [button.disabled for button in buttons] == [True, False, False, True, False]
    assert virtual._pause.description == "Resume"
    asked = held.asked
    # Work goes on being done while it is paused, but not this run's.
    virtual._controls["by"].value = "seconds"
    assert done(virtual)
    assert virtual._view.by == "seconds"
    assert (held.asked, virtual.trainer.state) == (asked, "paused")
    virtual._pause.click()
    assert virtual.wait(LONG)
    assert "<b>finished</b> · version 300 of 300" in virtual.status
    assert virtual._pause.description == "Pause"


def test_a_paused_replay_is_stopped(virtual: Lab, held: Held) -> None:
    held.press(virtual, "_pause")
    assert says(virtual, "<b>replay paused</b>")
    virtual._stop.click()
    assert virtual.wait(LONG)
    (run,) = virtual.runs
    assert run.how == "stopped"
    assert 0 < run.updates < 300
    assert dashboards.lab_threads() == []


@pytest.mark.parametrize("buttons", [("_reset",), ("_pause", "_reset")])
def test_reset_ends_a_replay(virtual: Lab, held: Held, buttons: tuple[str, ...]) -> None:
    virtual._controls["updates"].value = 500_000
    held.press(virtual, *buttons)
    assert virtual.wait(LONG)
    assert "<b>ready</b> · version 0" in virtual.status
    assert virtual.trace is not None
    assert len(virtual.trace) == 0
    assert [run.how for run in virtual.runs] == ["stopped"]
    assert curve(virtual) == []
    assert dashboards.lab_threads() == []


def test_reset_ends_a_replay_that_waits_in_a_pause(virtual: Lab, held: Held) -> None:
    held.press(virtual, "_pause")
    assert says(virtual, "<b>replay paused</b>")
    virtual._reset.click()
    assert virtual.wait(LONG)
    assert "<b>ready</b> · version 0" in virtual.status
    assert virtual.trace is not None
    assert len(virtual.trace) == 0
    (run,) = virtual.runs
    assert (run.how, run.after) == ("stopped", None)
    assert 0 < run.updates < 300
    assert np.isfinite(run.loss)


def test_a_replay_is_shown_while_it_grows(virtual: Lab, held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsgd_edu.view.conductor.INTERVAL", 0.0)
    virtual._run.click()
    assert held.reached.wait(LONG)
    drawn = curve(virtual)[-1]
    assert 0 < drawn < 300
    assert virtual._progress.value == drawn
    assert f"<b>replaying</b> · version {drawn:.0f} of 300 · mean staleness" in virtual.status
    held.opened.set()
    assert virtual.wait(LONG)
    assert virtual._progress.value == 300


def test_the_arithmetic_is_done_on_the_one_thread_and_counts_as_nothing_before(
    virtual: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    advance = VirtualRun.advance

    def noted(run: VirtualRun, stop: Callable[[], bool]) -> None:
        names.append((threading.current_thread().name, virtual._progress.value, virtual._count.value))
        advance(run, stop)

    monkeypatch.setattr(VirtualRun, "advance", noted)
    virtual.run(wait=True)
    assert names == [("asyncsgd-lab", 0, "0 of 300")]
    assert (virtual._progress.value, virtual._count.value) == (300, "300 of 300")
