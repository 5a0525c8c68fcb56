"""The dashboard, pressed from code: what its buttons do, what it says, which thread does it."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from test_series import make_trace, prefix

from asyncsgd_edu.trace import Trace
from asyncsgd_edu.view.conductor import Conductor
from asyncsgd_edu.view.configuration import Configuration
from asyncsgd_edu.view.lab import Lab
from asyncsgd_edu.view.virtual import VirtualRun

LONG = 60.0  # Seconds that nothing here takes.


class Puppet:
    """A trainer that does an update when the test says so."""

    def __init__(self, workers: int = 4) -> None:
        self.whole = make_trace(400, workers=workers)
        self.workers, self.rows, self.target, self.state = workers, 0, 0, "ready"
        self.header, self.error, self.started = self.whole.header, None, threading.Event()

    @property
    def trace(self) -> Trace:
        return prefix(self.whole, self.rows)

    def start(self, updates: int) -> None:
        self.target, self.state = self.rows + updates, "running"
        self.started.set()

    def go(self, updates: int) -> None:
        self.rows += updates
        if self.rows >= self.target:
            self.state = "finished"

    def wait(self, timeout: float | None = None) -> Trace:
        if self.error is not None:
            raise self.error
        return self.trace

    def fail(self, error: Exception) -> None:
        self.error, self.state = error, "failed"

    def stop(self) -> None:
        self.state = "stopped"

    def pause(self) -> None:
        self.state = "paused"

    def resume(self) -> None:
        self.state = "running"

    def step(self) -> None:
        self.rows += 1

    def reset(self) -> None:
        self.rows, self.state = 0, "ready"

    def evaluate(self) -> dict[str, float]:
        return {"loss": 0.25, "accuracy": 0.875}


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab(problem="quadratic", threads=2, updates=60)
    yield made
    made.close()


@pytest.fixture
def puppets(monkeypatch: pytest.MonkeyPatch) -> list[Puppet]:
    """The trainers that are built from now on, in order: puppets, each in a run until told."""
    made: list[Puppet] = []

    def trainer(configuration: Configuration) -> Puppet:
        made.append(Puppet(configuration.workers))
        return made[-1]

    monkeypatch.setattr(Configuration, "trainer", trainer)
    return made


def says(lab: Lab, words: str) -> bool:
    """Wait until the status line says so."""
    heard = threading.Event()

    def listen(_: object) -> None:
        if words in lab.status:
            heard.set()

    lab._status.observe(listen, "value")
    listen(None)
    return heard.wait(LONG)


def begin(lab: Lab, puppets: list[Puppet]) -> Puppet:
    """Press Run and return the puppet once it runs and the status says so."""
    lab._run.click()
    assert says(lab, "<b>running</b>")
    return puppets[-1]


def curve(lab: Lab) -> list[float]:
    """Horizontal positions of the present run's curve."""
    (line,) = [t for t in lab._view.figure.data if t.name and t.name.startswith("this run<br>")]
    return list(line.x)


def behind(lab: Lab) -> list[str]:
    """Names of the finished runs that are drawn."""
    return sorted(t.name for t in lab._view.figure.data if t.name and t.name.startswith("run ") and len(t.x))


def test_making_and_showing_it_loads_no_tensorflow() -> None:
    code = (
        "import sys; from asyncsgd_edu import Lab; "
        "Lab(threads=8)._repr_mimebundle_(); print('tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_every_control_is_an_argument() -> None:
    controls = {
        "mode": "towers", "threads": 3, "gpus": 5, "learning_rate": 0.0123, "problem": "digits-mlp",
        "duration_law": "exponential", "duration": 0.007, "updates": 77, "seed": 9, "by": "seconds",
        "policy": "k-sync", "constant": 5, "access": "lock_free", "remedy": "drop-above", "drop_bound": 7,
        "strength": 0.25, "schedule": "0r 0a",
    }  # fmt: skip
    lab = Lab(**controls)  # type: ignore[arg-type]
    assert lab.configuration == Configuration(**controls)  # type: ignore[arg-type]
    assert lab._controls["threads"].disabled
    assert not lab._controls["duration"].disabled
    lab.close()


@pytest.mark.parametrize(
    "bad", [{"threads": 0}, {"threads": "4"}, {"updates": 0}, {"learning_rate": float("nan")}, {"problem": "mnist"}]
)
def test_a_bad_argument_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError), match=f"{next(iter(bad))} must be"):
        Lab(**bad)  # type: ignore[arg-type]


def test_a_real_run_goes_on_and_starts_over(eight_devices: list[str], lab: Lab) -> None:
    lab.run(wait=True)
    assert lab.trace is not None
    assert lab.trace.updates == 60
    assert lab.trace.audit() == []
    assert "<b>finished</b> · version 60 of 60" in lab.status
    assert f"mean staleness {lab.trace.mean_staleness:.2f} (N - 1 = 1)" in lab.status
    assert curve(lab)[-1] == 60
    first = lab.trainer
    lab.run(wait=True)
    assert lab.trainer is first
    assert lab.trace.updates == 120
    assert [run.after for run in lab.runs] == [None, 1]
    lab.reset()
    assert lab.wait(LONG)
    assert len(lab.trace) == 0
    assert curve(lab) == []


def test_reset_gives_the_same_start(eight_devices: list[str]) -> None:
    lab = Lab(problem="quadratic", threads=1, updates=20, seed=3)
    lab.run(wait=True)
    first = lab.trace.loss.tolist()
    lab.reset()
    lab.run(wait=True)
    assert lab.trace.loss.tolist() == first
    assert [run.after for run in lab.runs] == [None, None]
    lab.close()


def test_real_towers_have_no_staleness(eight_devices: list[str]) -> None:
    lab = Lab(mode="towers", gpus=4, problem="quadratic", updates=20)
    lab.run(wait=True)
    assert "every staleness is 0" in lab.status
    assert lab.runs[0].mean_staleness == 0
    assert "every staleness 0" in lab.prediction
    lab.close()


def test_a_real_divergence_is_said_in_words(eight_devices: list[str]) -> None:
    lab = Lab(problem="quadratic", threads=1, learning_rate=1e6, updates=500)
    lab.run(wait=True)
    assert lab.runs[0].how == "diverged"
    assert "Error: the loss was not finite at version" in lab.status
    lab.close()


def test_progress_counts_updates_and_buttons_follow_the_state(lab: Lab, puppets: list[Puppet]) -> None:
    assert (lab._run.disabled, lab._stop.disabled, lab._pause.disabled, lab._step.disabled) == (False, True, True, True)
    puppet = begin(lab, puppets)
    assert (lab._run.disabled, lab._stop.disabled, lab._pause.disabled, lab._step.disabled) == (
        True,
        False,
        False,
        True,
    )
    assert (lab._progress.value, lab._progress.max) == (0, 60)
    puppet.go(25)
    assert says(lab, "version 25 of 60")
    assert lab._progress.value == 25
    puppet.go(35)
    assert lab.wait(LONG)
    assert (lab._progress.value, lab._run.disabled, lab._stop.disabled) == (60, False, True)
    assert "held-out accuracy 0.875" in lab.status


def test_pause_step_and_resume(lab: Lab, puppets: list[Puppet]) -> None:
    puppet = begin(lab, puppets)
    puppet.go(10)
    lab._pause.click()
    assert says(lab, "<b>paused</b> · version 10")
    assert (lab._pause.description, lab._step.disabled) == ("Resume", False)
    lab._step.click()
    assert says(lab, "version 11 of 60")
    lab._pause.click()
    assert says(lab, "<b>running</b>")
    assert lab._pause.description == "Pause"


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


def test_stop_works_while_it_builds(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    building, may_go_on, puppet = threading.Event(), threading.Event(), Puppet()

    def trainer(_: Configuration) -> Puppet:
        building.set()
        assert may_go_on.wait(LONG)
        return puppet

    monkeypatch.setattr(Configuration, "trainer", trainer)
    lab._run.click()
    assert building.wait(LONG)
    assert "building" in lab.status
    assert not lab._stop.disabled
    lab._stop.click()
    may_go_on.set()
    assert lab.wait(LONG)
    assert not puppet.started.is_set()
    assert "<b>stopped</b>" in lab.status
    assert not lab._run.disabled


def test_changed_controls_make_another_trainer_and_updates_do_not(lab: Lab, puppets: list[Puppet]) -> None:
    begin(lab, puppets).go(60)
    assert lab.wait(LONG)
    lab._controls["updates"].value = 5
    begin(lab, puppets).go(5)
    assert lab.wait(LONG)
    assert len(puppets) == 1
    assert behind(lab) == []
    lab._controls["threads"].value = 8
    begin(lab, puppets).go(5)
    assert lab.wait(LONG)
    assert len(puppets) == 2
    assert "N - 1 = 7" in lab.status
    assert behind(lab) == ["run 1: 2 threads", "run 2: 2 threads"]


def test_the_table_compares_the_runs(lab: Lab, puppets: list[Puppet]) -> None:
    assert "Finished runs are listed here" in lab._table.value
    begin(lab, puppets).go(60)
    assert lab.wait(LONG)
    assert "threads · 2 workers · asynchronous · quadratic · learning rate 0.05 · durations none" in lab._table.value
    run = lab.runs[0]
    pace = f"{1000 * run.seconds / 60:.3g}"
    cells = ["finished", "60", f"{run.seconds:.2f}", f"{run.mean_staleness:.2f}", "1", pace, "-", "0.25", "0.875"]
    assert re.findall(r"<td [^>]*>([^<]*)</td>", lab._table.value)[1:] == cells


def test_the_axis_changes_without_a_run_under_way(lab: Lab, puppets: list[Puppet]) -> None:
    begin(lab, puppets).go(60)
    assert lab.wait(LONG)
    lab._controls["by"].value = "samples"
    assert lab.wait(LONG)
    assert curve(lab)[-1] == 60 * 32


def test_a_bad_control_is_said_and_nothing_starts(lab: Lab, puppets: list[Puppet]) -> None:
    lab._controls["learning_rate"].value = -1.0
    lab._run.click()
    assert "Error: learning_rate must be a finite number above 0, got -1.0" in lab.status
    with pytest.raises(ValueError, match="learning_rate must be a finite number above 0, got -1.0"):
        lab.run()
    assert puppets == []


def test_a_workers_error_is_said_and_raised(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Puppet):
        def start(self, updates: int) -> None:
            self.fail(RuntimeError("worker 3 failed: ValueError: <no>"))

    monkeypatch.setattr(Configuration, "trainer", lambda _: Failing())
    with pytest.raises(RuntimeError, match="worker 3 failed"):
        lab.run(wait=True)
    assert "Error: worker 3 failed: ValueError: &lt;no&gt;" in lab.status
    assert not lab._run.disabled


def test_an_error_while_building_is_said(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def trainer(_: Configuration) -> Puppet:
        raise ValueError("gpus must be at most 1")

    monkeypatch.setattr(Configuration, "trainer", trainer)
    with pytest.raises(ValueError, match="gpus must be at most 1"):
        lab.run(wait=True)
    assert "gpus must be at most 1" in lab.status
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
    assert "asyncsgd-lab" not in [thread.name for thread in threading.enumerate()]


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


def test_at_most_six_finished_runs_are_drawn(lab: Lab, puppets: list[Puppet]) -> None:
    for _ in range(8):
        begin(lab, puppets).go(60)
        assert lab.wait(LONG)
        lab.reset()
        assert lab.wait(LONG)
    assert behind(lab) == [f"run {n}: 2 threads" for n in range(3, 9)]
    assert len(lab.runs) == 8


@pytest.fixture
def virtual() -> Iterator[Lab]:
    made = Lab(
        mode="simulated", threads=200, problem="quadratic", duration_law="exponential", learning_rate=0.01, updates=300
    )
    yield made
    made.close()


def test_a_simulated_run_is_shown_like_a_real_one(eight_devices: list[str], virtual: Lab) -> None:
    virtual.run(wait=True)
    trace = virtual.trace
    assert trace is not None
    assert (trace.updates, trace.header.workers, trace.header.clock) == (300, 200, "virtual")
    assert "virtual time" in virtual.status
    assert f"mean staleness {trace.mean_staleness:.2f} (N - 1 = 199)" in virtual.status
    assert "not finite" not in virtual.status
    assert curve(virtual)[-1] == 300
    (law,) = [line for line in virtual._view.figure.data if line.name == "geometric law, memoryless"]
    assert len(law.x)
    assert "simulated · 200 workers · asynchronous · quadratic" in virtual._table.value
    assert "durations exponential, 10 ms" in virtual._table.value
    (run,) = virtual.runs
    assert f"{1000 * run.seconds / 300:.3g} ms per update (predicted 0.05 ms)" in virtual.status
    assert "mean staleness N - 1 = 199 · 0.05 ms per update" in virtual.prediction


def test_a_simulated_run_goes_on_as_one_long_run(eight_devices: list[str], virtual: Lab) -> None:
    virtual.run(wait=True)
    first = virtual.trace
    virtual.run(wait=True)
    assert first is not None
    assert virtual.trace is not None
    assert virtual.trace.updates == 600
    assert virtual.trace.loss[:300].tolist() == first.loss.tolist()
    assert [run.after for run in virtual.runs] == [None, 1]
    virtual.reset()
    assert virtual.wait(LONG)
    assert len(virtual.trace) == 0


def test_a_policy_that_is_not_asynchronous_has_no_law(eight_devices: list[str], virtual: Lab) -> None:
    virtual._controls["policy"].value = "k-batch-sync"
    virtual._controls["constant"].value = 3
    virtual._controls["updates"].value = 20
    virtual.run(wait=True)
    assert "every staleness is 0" in virtual.status
    assert "every staleness 0 · 0.15 ms per update" in virtual.prediction
    assert virtual.trace is not None
    assert len(virtual.trace) > 20 * 3


def test_stop_comes_before_the_arithmetic(
    eight_devices: list[str], virtual: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulating, may_go_on = threading.Event(), threading.Event()
    start = VirtualRun.start

    def held(run: VirtualRun, updates: int) -> None:
        simulating.set()
        assert may_go_on.wait(LONG)
        start(run, updates)

    monkeypatch.setattr(VirtualRun, "start", held)
    virtual._run.click()
    assert simulating.wait(LONG)
    virtual._stop.click()
    may_go_on.set()
    assert virtual.wait(LONG)
    assert "<b>stopped</b> · version 0 of 300" in virtual.status
    assert [(run.how, run.updates) for run in virtual.runs] == [("stopped", 0)]
    assert not virtual._run.disabled


class Held:
    """Holds a replay where it asks for the third time: some of its rows are done, and not all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.reached, self.may_go_on = 0, threading.Event(), threading.Event()
        between = Conductor._between

        def held(conductor: Conductor) -> bool:
            self.asked += 1
            if self.asked == 3:
                self.reached.set()
                assert self.may_go_on.wait(LONG)
            return between(conductor)

        monkeypatch.setattr(Conductor, "_between", held)

    def press(self, lab: Lab, *buttons: str) -> None:
        """Run, and press these buttons in the middle of the replay."""
        lab._run.click()
        assert self.reached.wait(LONG)
        assert "<b>replaying</b>" in lab.status
        for button in buttons:
            getattr(lab, button).click()
        self.may_go_on.set()


def lab_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("asyncsgd")]


def test_a_long_replay_is_stopped_with_the_losses_done_so_far(
    eight_devices: list[str], virtual: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    virtual._controls["updates"].value = 500_000
    Held(monkeypatch).press(virtual, "_stop")
    assert virtual.wait(LONG)
    trace = virtual.trace
    assert trace is not None
    assert 0 < len(trace) < 1000
    assert np.isfinite(trace.loss).all()
    assert trace.audit() == []
    assert trace.header.ended.how == virtual.trainer.state == "stopped"
    assert f"<b>stopped</b> · version {len(trace)} of 500000" in virtual.status
    assert curve(virtual)[-1] == len(trace)
    (run,) = virtual.runs
    assert (run.how, run.updates) == ("stopped", len(trace))
    assert run.loss == virtual.trainer.evaluate()["loss"]
    assert lab_threads() == []


def test_a_run_that_was_stopped_in_its_replay_goes_on(
    eight_devices: list[str], virtual: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    virtual._controls["updates"].value = 500_000
    Held(monkeypatch).press(virtual, "_stop")
    assert virtual.wait(LONG)
    first = virtual.trace
    assert first is not None
    virtual._controls["updates"].value = 50
    virtual.run(wait=True)
    assert virtual.trace is not None
    assert virtual.trace.version == first.version + 50
    assert virtual.trace.loss[: len(first)].tolist() == first.loss.tolist()
    assert [(run.how, run.after) for run in virtual.runs] == [("stopped", None), ("finished", 1)]


def test_a_replay_is_paused_and_resumed(
    eight_devices: list[str], virtual: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
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


def done(lab: Lab) -> bool:
    """Wait until the conductor has done all that was posted before."""
    reached = threading.Event()
    lab._conductor.post(reached.set)
    return reached.wait(LONG)


def test_a_paused_replay_is_stopped(eight_devices: list[str], virtual: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    Held(monkeypatch).press(virtual, "_pause")
    assert says(virtual, "<b>replay paused</b>")
    virtual._stop.click()
    assert virtual.wait(LONG)
    (run,) = virtual.runs
    assert run.how == "stopped"
    assert 0 < run.updates < 300
    assert lab_threads() == []


@pytest.mark.parametrize("buttons", [("_reset",), ("_pause", "_reset")])
def test_reset_ends_a_replay(
    eight_devices: list[str], virtual: Lab, monkeypatch: pytest.MonkeyPatch, buttons: tuple[str, ...]
) -> None:
    virtual._controls["updates"].value = 500_000
    Held(monkeypatch).press(virtual, *buttons)
    assert virtual.wait(LONG)
    assert "<b>ready</b> · version 0" in virtual.status
    assert virtual.trace is not None
    assert len(virtual.trace) == 0
    assert [run.how for run in virtual.runs] == ["stopped"]
    assert curve(virtual) == []
    assert lab_threads() == []


def test_a_replay_is_shown_while_it_grows(
    eight_devices: list[str], virtual: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsgd_edu.view.conductor.INTERVAL", 0.0)
    held = Held(monkeypatch)
    virtual._run.click()
    assert held.reached.wait(LONG)
    drawn = curve(virtual)[-1]
    assert 0 < drawn < 300
    assert virtual._progress.value == drawn
    assert f"<b>replaying</b> · version {drawn:.0f} of 300 · mean staleness" in virtual.status
    held.may_go_on.set()
    assert virtual.wait(LONG)
    assert virtual._progress.value == 300


def test_the_arithmetic_is_done_on_the_one_thread_and_counts_as_nothing_before(
    eight_devices: list[str], virtual: Lab, monkeypatch: pytest.MonkeyPatch
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


def test_the_prediction_follows_the_controls(lab: Lab) -> None:
    assert "mean staleness N - 1 = 1 · no law for the time per update: real durations" in lab.prediction
    lab._controls["threads"].value = 8
    lab._controls["duration_law"].value = "exponential"
    assert "mean staleness N - 1 = 7 · 1.25 ms per update + arithmetic" in lab.prediction
    lab._controls["policy"].value = "stale-synchronous"
    assert "each staleness at most 35 · no law for the time per update under this policy" in lab.prediction
    lab._controls["mode"].value = "towers"
    lab._controls["gpus"].value = 4
    assert "every staleness 0 · 20.8 ms per update + arithmetic" in lab.prediction
    lab._controls["updates"].value = 0
    assert "cannot be run: updates must be a whole number from 1 to 1000000000, got 0" in lab.prediction


def test_what_is_predicted_is_drawn_before_the_run_and_stays(lab: Lab, puppets: list[Puppet]) -> None:
    def line() -> list[float]:
        (found,) = [t for t in lab._view.figure.data if t.name == "N - 1"]
        return list(found.x)

    assert line() == [1, 1]
    lab._controls["threads"].value = 6
    assert lab.wait(LONG)
    assert line() == [5, 5]
    puppet = begin(lab, puppets)
    assert line() == [5, 5]
    lab._controls["threads"].value = 9  # Of the next run: this one keeps its own.
    assert done(lab)
    assert line() == [5, 5]
    puppet.go(60)
    assert lab.wait(LONG)
    lab._reset.click()
    assert lab.wait(LONG)
    assert line() == [8, 8]


def test_a_control_that_would_do_nothing_is_disabled(lab: Lab) -> None:
    def off() -> set[str]:
        return {name for name, control in lab._controls.items() if control.disabled}

    always = {"drop_bound", "strength", "schedule"}
    assert off() == {"constant", "duration"} | always
    lab._controls["policy"].value = "stale-synchronous"
    assert off() == {"duration"} | always
    assert lab._controls["constant"].description == "bound"
    lab._controls["mode"].value = "towers"
    assert off() == {"duration", "threads", "policy", "constant", "access", "remedy"} | always
    lab._controls["mode"].value = "simulated"
    assert off() == {"duration", "gpus", "access"} | always
    lab._controls["remedy"].value = "delay-compensation"
    assert off() == {"duration", "gpus", "access", "drop_bound", "schedule"}
    lab._controls["mode"].value = "written"
    unused = {"threads", "gpus", "policy", "constant", "duration_law", "duration", "updates", "access", "drop_bound"}
    assert off() == unused
    assert lab._writing.layout.display is None
    lab._controls["mode"].value = "threads"
    assert lab._writing.layout.display == "none"


def test_the_workers_follow_the_mode(lab: Lab) -> None:
    threads = lab._controls["threads"]
    lab._controls["mode"].value = "simulated"
    threads.value = 1000
    assert (threads.value, threads.description) == (1000, "Workers")
    lab._controls["mode"].value = "threads"
    assert (threads.value, threads.description) == (16, "Threads")


def test_a_simulation_without_durations_is_said(lab: Lab) -> None:
    lab._controls["mode"].value = "simulated"
    lab._run.click()
    assert "Error: a simulation needs durations" in lab.status
    assert lab.trainer is None


def test_access_and_remedy_are_named_wherever_a_run_is(eight_devices: list[str]) -> None:
    lab = Lab(problem="digits-linear", threads=2, updates=30, access="lock_free", remedy="drop-above", drop_bound=3)
    lab.run(wait=True)
    trace = lab.trace
    assert trace is not None
    assert (trace.header.access, trace.header.remedy) == ("lock_free", {"name": "drop-above", "bound": 3})
    lost, torn = max(trace.header.ended.lost), np.mean(trace.read_spread > 0)
    assert f"drop-above (bound 3) · lock_free: lost {lost} of 30, {torn:.1%} of reads torn" in lab.status
    assert "no law for staleness and time: gradients are dropped" in lab.prediction
    assert " · lock_free access · drop-above (bound 3) · " in lab._table.value
    lab._controls["remedy"].value = "none"
    lab.run(wait=True)
    assert behind(lab) == ["run 1: 2 threads<br>lock_free access<br>drop-above (bound\u00a03)"]
    assert lab.trace is not None
    assert lab.trace.header.remedy is None
    lab.close()


def test_a_remedy_of_simulated_workers_drops_and_the_bar_still_fills(eight_devices: list[str], virtual: Lab) -> None:
    virtual._controls["remedy"].value = "drop-above"
    virtual.run(wait=True)
    assert virtual.trace is not None
    assert virtual.trace.staleness.max() <= 4
    assert "<b>finished</b> · version 300 of 300" in virtual.status
    assert virtual._progress.value == 300


@pytest.fixture
def writing() -> Iterator[Lab]:
    made = Lab(mode="written", problem="quadratic", learning_rate=0.01, schedule="0r 1r 1a 0a 0r 0a")
    yield made
    made.close()


def test_a_written_schedule_is_run_and_marked(eight_devices: list[str], writing: Lab) -> None:
    writing.run(wait=True)
    assert writing.trace is not None
    assert writing.trace.staleness.tolist() == [0, 1, 0]
    assert np.isfinite(writing.trace.loss).all()
    assert "<b>finished</b> · version 3 of 3 · mean staleness 0.33" in writing.status
    assert "N - 1" not in writing.status
    assert "written by hand · virtual time" in writing.status
    assert "written by hand · virtual time" in writing._view.figure.layout.annotations[0].text
    assert "mean staleness of the schedule = 0.3333" in writing.prediction
    assert curve(writing)[-1] == 3
    (law,) = [line for line in writing._view.figure.data if line.name == "geometric law, memoryless"]
    assert len(law.x) == 0


def test_a_written_schedule_begins_anew_each_time(eight_devices: list[str], writing: Lab) -> None:
    writing.run(wait=True)
    first = writing.trace
    writing.run(wait=True)
    assert first is not None
    assert writing.trace is not None
    assert writing.trace.loss.tolist() == first.loss.tolist()
    assert [(run.how, run.updates, run.after) for run in writing.runs] == [("finished", 3, None)] * 2


def test_a_wrong_token_is_pointed_at_and_nothing_starts(writing: Lab, puppets: list[Puppet]) -> None:
    writing._controls["schedule"].value = "0r 1r\n1a 2a"
    wrong = "event 3 (&#x27;2a&#x27;, line 2, column 4): worker 2 has no gradient, allowed for it here is 2r"
    assert wrong in writing.prediction
    writing._run.click()
    assert "<b>not started</b>" in writing.status
    assert f"Error: {wrong}" in writing.status
    assert puppets == []


def test_a_run_is_written_down_edited_and_run(eight_devices: list[str]) -> None:
    lab = Lab(problem="quadratic", threads=3, updates=60, learning_rate=0.01)
    lab._write.click()
    assert "<b>not written down</b>" in lab.status
    assert "Error: there is no run to write down yet: run something first" in lab.status
    with pytest.raises(ValueError, match="no run to write down yet"):
        lab.write_down()
    lab.run(wait=True)
    first = lab.trace
    lab._write.click()
    assert "<b>written down</b>" in lab.status
    assert "the first 40 of 60 gradients of the last run; press Run" in lab.status
    assert lab._controls["schedule"].value == first[:40].schedule()
    lab._controls["mode"].value = "written"
    lab.run(wait=True)
    assert lab.trace is not None
    # The same arithmetic, bit for bit; and what was edited is run as edited.
    assert lab.trace.loss.tolist() == first.loss[:40].tolist()
    lab._controls["schedule"].value += " 7r 7a"
    lab.run(wait=True)
    assert (lab.trace.version, lab.trace.worker[-1]) == (41, 7)
    lab.close()
