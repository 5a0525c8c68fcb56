"""The dashboard, pressed from code: what its controls and buttons do, and what it says and draws of a run."""

import re
import subprocess
import sys
from contextlib import closing

import dashboards
import pytest
from dashboards import LONG, Puppet, begin, behind, curve, says

from asyncsgd_edu.view.configuration import Configuration
from asyncsgd_edu.view.lab import Lab

lab, virtual, puppets = dashboards.lab, dashboards.virtual, dashboards.puppets


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
    with closing(Lab(**controls)) as lab:  # type: ignore[arg-type]
        assert lab.configuration == Configuration(**controls)  # type: ignore[arg-type]
        assert lab._controls["threads"].disabled
        assert not lab._controls["duration"].disabled


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
    with closing(Lab(problem="quadratic", threads=1, updates=20, seed=3)) as lab:
        lab.run(wait=True)
        first = lab.trace.loss.tolist()
        lab.reset()
        lab.run(wait=True)
        assert lab.trace.loss.tolist() == first
        assert [run.after for run in lab.runs] == [None, None]


def test_real_towers_have_no_staleness(eight_devices: list[str]) -> None:
    with closing(Lab(mode="towers", gpus=4, problem="quadratic", updates=20)) as lab:
        lab.run(wait=True)
        assert "every staleness is 0" in lab.status
        assert lab.runs[0].mean_staleness == 0
        assert "every staleness 0" in lab.prediction


def test_a_real_divergence_is_said_in_words(eight_devices: list[str]) -> None:
    with closing(Lab(problem="quadratic", threads=1, learning_rate=1e6, updates=500)) as lab:
        lab.run(wait=True)
        assert lab.runs[0].how == "diverged"
        assert "Error: the loss was not finite at version" in lab.status


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


def test_at_most_six_finished_runs_are_drawn(lab: Lab, puppets: list[Puppet]) -> None:
    for _ in range(8):
        begin(lab, puppets).go(60)
        assert lab.wait(LONG)
        lab.reset()
        assert lab.wait(LONG)
    assert behind(lab) == [f"run {n}: 2 threads" for n in range(3, 9)]
    assert len(lab.runs) == 8


def test_a_simulated_run_is_shown_like_a_real_one(virtual: Lab) -> None:
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


def test_a_simulated_run_goes_on_as_one_long_run(virtual: Lab) -> None:
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


def test_a_policy_that_is_not_asynchronous_has_no_law(virtual: Lab) -> None:
    virtual._controls["policy"].value = "k-batch-sync"
    virtual._controls["constant"].value = 3
    virtual._controls["updates"].value = 20
    virtual.run(wait=True)
    assert "every staleness is 0" in virtual.status
    assert "every staleness 0 · 0.15 ms per update" in virtual.prediction
    assert virtual.trace is not None
    assert len(virtual.trace) > 20 * 3


def test_a_simulation_without_durations_is_said(lab: Lab) -> None:
    lab._controls["mode"].value = "simulated"
    lab._run.click()
    assert "Error: a simulation needs durations" in lab.status
    assert lab.trainer is None


def test_a_remedy_of_simulated_workers_drops_and_the_bar_still_fills(virtual: Lab) -> None:
    virtual._controls["remedy"].value = "drop-above"
    virtual.run(wait=True)
    assert virtual.trace is not None
    assert virtual.trace.staleness.max() <= 4
    assert "<b>finished</b> · version 300 of 300" in virtual.status
    assert virtual._progress.value == 300
