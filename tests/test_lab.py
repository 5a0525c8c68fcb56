"""The dashboard, pressed from code: what its buttons do, what it says, which thread does it."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from test_series import make_trace, prefix

from asyncsgd_edu.trace import Trace
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
        "policy": "k-sync", "constant": 5,
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
    assert lab.runs[0].expected is None
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
    row = lab._table.value.split("<tbody>")[1]
    for cell in ("threads", "quadratic", "finished", "60", f"{lab.runs[0].mean_staleness:.2f}", "0.25", "0.875"):
        assert f">{cell}</td>" in row


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
    row = virtual._table.value.split("<tbody>")[1]
    for cell in ("simulated", "200", "asynchronous", "exponential, 10 ms", "finished", "300"):
        assert f">{cell}</td>" in row


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
    assert virtual.runs[0].expected is None
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
    assert "<b>stopped</b> · version 300 of 300" in virtual.status
    assert "no loss computed" in virtual.status
    assert [(run.how, run.updates) for run in virtual.runs] == [("stopped", 300)]
    assert not virtual._run.disabled


def test_nothing_can_be_pressed_while_the_arithmetic_is_done(
    eight_devices: list[str], virtual: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaying, may_go_on, names = threading.Event(), threading.Event(), []

    def held(run: VirtualRun) -> None:
        names.append(threading.current_thread().name)
        replaying.set()
        assert may_go_on.wait(LONG)
        run.stop()

    monkeypatch.setattr(VirtualRun, "advance", held)
    virtual._run.click()
    assert replaying.wait(LONG)
    buttons = (virtual._run, virtual._stop, virtual._pause, virtual._step, virtual._reset)
    assert [button.disabled for button in buttons] == [True] * 5
    assert "doing the arithmetic" in virtual.status
    may_go_on.set()
    assert virtual.wait(LONG)
    assert names == ["asyncsgd-lab"]


def test_a_control_that_would_do_nothing_is_disabled(lab: Lab) -> None:
    def off() -> set[str]:
        return {name for name, control in lab._controls.items() if control.disabled}

    assert off() == {"constant", "duration"}
    lab._controls["policy"].value = "stale-synchronous"
    assert off() == {"duration"}
    assert lab._controls["constant"].description == "bound"
    lab._controls["mode"].value = "towers"
    assert off() == {"duration", "threads", "policy", "constant"}
    lab._controls["mode"].value = "simulated"
    assert off() == {"duration", "gpus"}


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
