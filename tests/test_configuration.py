"""The dashboard's controls as a value: what is refused, and what is built."""

import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from asyncsgd_edu.rules import policies
from asyncsgd_edu.rules.durations import Constant, Exponential
from asyncsgd_edu.trace import Trace
from asyncsgd_edu.view.configuration import Configuration

BAD = [
    ("threads", 0, "threads must be a whole number from 1 to 16, got 0"),
    ("threads", -1, "threads must be a whole number from 1 to 16, got -1"),
    ("threads", 2.5, "threads must be a whole number from 1 to 16, got 2.5"),
    ("threads", "4", "threads must be a whole number from 1 to 16, got '4'"),
    ("threads", 10**6, "threads must be a whole number from 1 to 16, got 1000000"),
    ("gpus", 9, "gpus must be a whole number from 1 to 8, got 9"),
    ("gpus", 0, "gpus must be a whole number from 1 to 8, got 0"),
    ("updates", 0, "updates must be a whole number from 1 to 1000000000, got 0"),
    ("learning_rate", float("nan"), "learning_rate must be a finite number above 0, got nan"),
    ("learning_rate", -1, "learning_rate must be a finite number above 0, got -1"),
    ("learning_rate", float("inf"), "learning_rate must be a finite number above 0, got inf"),
    ("duration", -0.01, "duration must be a finite number above 0, got -0.01"),
    ("seed", -1, "seed must be a whole number from 0 to 2147483647, got -1"),
    ("mode", "processes", "mode must be one of 'threads', 'towers', 'simulated', 'written', got 'processes'"),
    ("constant", -1, "constant must be a whole number from 0 to 1000, got -1"),
    (
        "policy",
        "hope",
        "policy must be one of 'asynchronous', 'synchronous', 'k-sync', 'k-batch-sync', 'k-async', 'k-batch-async', "
        "'stale-synchronous', 'backup-workers', got 'hope'",
    ),
    (
        "problem",
        "mnist",
        "problem must be one of 'quadratic', 'digits-linear', 'digits-mlp', 'digits-cnn', got 'mnist'",
    ),
    (
        "duration_law",
        "gamma",
        "duration_law must be one of 'none', 'constant', 'exponential', 'shifted exponential', 'uniform', 'pareto', "
        "'straggler', got 'gamma'",
    ),
    ("access", "locked", "access must be one of 'consistent', 'lock_free', 'read_modify_write', got 'locked'"),
    (
        "remedy",
        "hope",
        "remedy must be one of 'none', 'divide-by-staleness', 'drop-above', 'delay-compensation', 'gap-aware', "
        "got 'hope'",
    ),
    ("drop_bound", -1, "drop_bound must be a whole number from 0 to 1000, got -1"),
    ("strength", -0.5, "strength must be a finite number not below 0, got -0.5"),
    ("schedule", 7, "schedule must be text such as '0r 1r 1a 0a', got 7"),
    ("by", "epochs", "by must be one of 'updates', 'samples', 'seconds', got 'epochs'"),
]


@pytest.mark.parametrize(("name", "value", "sentence"), BAD)
def test_a_bad_control_is_named_with_what_is_allowed(name: str, value: object, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError)) as error:
        Configuration(**{name: value})  # type: ignore[arg-type]
    assert str(error.value) == sentence


def test_more_gpus_than_threads_would_do_nothing() -> None:
    with pytest.raises(ValueError, match="gpus must be at most the number of threads, 2, got 4"):
        Configuration(threads=2, gpus=4)
    assert Configuration(mode="towers", threads=2, gpus=4).workers == 4


def test_it_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Configuration().threads = 3  # type: ignore[misc]


def test_durations_follow_the_law() -> None:
    assert Configuration().durations is None
    assert Configuration(duration_law="constant", duration=0.02).durations == Constant(0.02)
    assert Configuration(duration_law="exponential", duration=0.02).durations == Exponential(0.02)


@pytest.mark.parametrize("change", [{"updates": 7}, {"by": "seconds"}, {"duration": 5.0}])
def test_the_same_trainer_serves_controls_that_do_not_make_it(change: dict[str, object]) -> None:
    assert Configuration(**change).of_trainer == Configuration().of_trainer  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change", [{"threads": 5}, {"seed": 1}, {"learning_rate": 0.1}, {"problem": "quadratic"}, {"mode": "towers"}]
)
def test_another_trainer_is_needed_for_controls_that_make_it(change: dict[str, object]) -> None:
    assert Configuration(**change).of_trainer != Configuration().of_trainer  # type: ignore[arg-type]


def simulated(**change: object) -> Configuration:
    """A simulated run of a hundred workers, but for some controls."""
    first = {"mode": "simulated", "threads": 100, "problem": "quadratic", "duration_law": "exponential"}
    return Configuration(**{**first, **change})  # type: ignore[arg-type]


def test_only_simulated_workers_may_be_a_thousand() -> None:
    assert simulated(threads=1000).workers == 1000
    with pytest.raises(ValueError, match="threads must be a whole number from 1 to 1000, got 1001"):
        simulated(threads=1001)
    with pytest.raises(ValueError, match="threads must be a whole number from 1 to 16, got 17"):
        Configuration(threads=17)


def test_a_simulation_needs_durations() -> None:
    with pytest.raises(ValueError, match="a simulation needs durations: duration_law must be one of .*, got 'none'"):
        simulated(duration_law="none")


@pytest.mark.parametrize(
    ("mode", "policy", "constant", "sentence"),
    [
        ("threads", "k-sync", 5, "k-sync needs k from 1 to the number of workers, got k 5, workers 4"),
        ("simulated", "k-async", 0, "k must be a whole number from 1 to 10000, got 0"),
        ("simulated", "backup-workers", 4, "backup-workers needs spare below the number of workers, got spare 4"),
    ],
)
def test_a_constant_that_does_not_fit_is_refused(mode: str, policy: str, constant: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        simulated(mode=mode, policy=policy, constant=constant, threads=4)
    assert Configuration(mode="towers", policy=policy, constant=constant).workers == 1


def test_what_a_mode_does_not_use_makes_no_other_trainer() -> None:
    assert simulated(constant=7).of_trainer == simulated(constant=3).of_trainer
    assert simulated(gpus=7).of_trainer == simulated().of_trainer
    assert simulated(policy="k-sync", constant=7).of_trainer != simulated(policy="k-sync").of_trainer
    assert simulated().of_trainer != simulated(mode="threads", threads=16).of_trainer


def test_threads_do_not_make_towers() -> None:
    towers = Configuration(mode="towers", threads=3, gpus=2)
    assert towers.of_trainer == Configuration(mode="towers", threads=9, gpus=2).of_trainer


def written(schedule: str = "0r 1r 2r 2a 1a 0a", **change: object) -> Configuration:
    """A written run on the quadratic."""
    return Configuration(mode="written", problem="quadratic", schedule=schedule, **change)  # type: ignore[arg-type]


def test_a_written_schedule_says_how_many_work_and_for_how_long() -> None:
    made = written()
    assert (made.workers, made.target, made.policy_words) == (3, 3, "written by hand")
    assert (made.header.clock, made.header.policy) == ("virtual", "written by hand")
    assert written(remedy="drop-above", drop_bound=0).target == 1


def test_an_error_in_the_text_names_the_token() -> None:
    with pytest.raises(ValueError, match=r"event 2 \('0q', line 2, column 1\)"):
        written("0r 1r\n0q")
    assert Configuration(schedule="0r 0q").schedule == "0r 0q"  # Only a schedule that is to be run has to be one.


@pytest.mark.parametrize(
    "change",
    [
        {"threads": 9}, {"gpus": 4}, {"policy": "k-sync"}, {"duration_law": "uniform"}, {"updates": 7},
        {"access": "lock_free"}, {"drop_bound": 9}, {"strength": 1.0},
    ],
)  # fmt: skip
def test_a_written_run_is_the_same_whatever_the_other_modes_use(change: dict[str, object]) -> None:
    assert written(**change).of_trainer == written().of_trainer
    assert written(**change).label == written().label


@pytest.mark.parametrize("change", [{"remedy": "gap-aware"}, {"seed": 3}, {"schedule": "0r 0a"}])
def test_another_written_run_has_another_text_remedy_or_seed(change: dict[str, object]) -> None:
    assert written(**change).of_trainer != written().of_trainer  # type: ignore[arg-type]


def test_a_written_run_begins_anew_and_others_go_on() -> None:
    assert not written().goes_on_from(written())
    assert not Configuration().goes_on_from(None)
    assert Configuration(updates=7).goes_on_from(Configuration())
    assert not Configuration(remedy="gap-aware").goes_on_from(Configuration())


def test_towers_have_no_remedy_and_only_threads_have_access() -> None:
    towers = Configuration(mode="towers", remedy="gap-aware", access="lock_free")
    assert (towers.correction, towers.special) == (None, ())
    assert towers.of_trainer == Configuration(mode="towers").of_trainer
    assert simulated(access="lock_free").of_trainer == simulated().of_trainer
    assert (simulated(access="lock_free").special, simulated(access="lock_free").header.access) == ((), "consistent")


def test_label_and_header_name_access_and_remedy_that_are_not_the_usual() -> None:
    made = Configuration(policy="k-async", access="lock_free", remedy="drop-above", drop_bound=3)
    assert made.label == "4 threads, k-async (k 2), lock_free access, drop-above (bound 3)"
    assert made.header.access == "lock_free"
    assert made.header.remedy == {"name": "drop-above", "bound": 3}
    assert simulated(remedy="delay-compensation", strength=0.5).label == (
        "100 simulated, delay-compensation (strength 0.5)"
    )
    assert written(remedy="gap-aware").label == "written by hand, 3 workers, gap-aware"
    assert Configuration().label == "4 threads"


def test_updates_that_stamps_cannot_count_are_refused() -> None:
    with pytest.raises(ValueError, match="updates under lock_free access must be a whole number from 1 to 16777216"):
        Configuration(access="lock_free", updates=2**24 + 1)


def test_it_loads_no_tensorflow() -> None:
    code = "import sys, asyncsgd_edu.view.configuration as c; c.Configuration(); print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_threads_are_spread_over_the_gpus(eight_devices: list[str]) -> None:
    trainer = Configuration(threads=3, gpus=2, problem="quadratic", duration_law="constant", seed=5).trainer()
    header = trainer.trace.header
    assert (trainer.workers, header.policy, header.seed) == (3, "asynchronous", 5)
    assert set(header.devices) == set(eight_devices[:2])
    assert header.injected == "Constant durations injected (value 0.01; seconds)"


def test_threads_follow_the_policy(eight_devices: list[str]) -> None:
    made = Configuration(threads=3, problem="quadratic", policy="k-async", constant=2).trainer()
    assert made.header.policy == "k-async (k 2)"


def test_access_and_remedy_reach_the_threads(eight_devices: list[str]) -> None:
    controls = {"access": "read_modify_write", "remedy": "delay-compensation", "strength": 0.5}
    header = Configuration(threads=3, problem="quadratic", **controls).trainer().header  # type: ignore[arg-type]
    assert header.access == "read_modify_write"
    assert header.remedy == {"name": "delay-compensation", "strength": 0.5, "exact": False}


def test_a_written_run_is_the_replay_of_its_text(eight_devices: list[str]) -> None:
    from asyncsgd_edu.engines.replay import replay
    from asyncsgd_edu.problems.quadratic import Quadratic
    from asyncsgd_edu.rules.remedies import GapAware

    made = written(remedy="gap-aware", learning_rate=0.125, seed=5).trainer()
    made.start(3)
    made.advance()  # type: ignore[union-attr]
    schedule = Trace.from_schedule("0r 1r 2r 2a 1a 0a", seed=5)
    wanted = replay(schedule, Quadratic(), learning_rate=0.125, remedy=GapAware())
    assert made.trace.loss.tolist() == wanted.loss.tolist()
    assert made.header.remedy == {"name": "gap-aware"}


def test_a_simulated_run_has_the_virtual_trace_of_its_controls(eight_devices: list[str]) -> None:
    from asyncsgd_edu.engines.simulator import simulate

    made = simulated(policy="k-async", constant=4, learning_rate=0.125, seed=5).trainer()
    made.start(30)
    assert made.trace.header.clock == "virtual"
    assert np.isnan(made.trace.loss).all()
    made.advance()  # type: ignore[union-attr]
    wanted = simulate(100, policies.KAsync(4), Exponential(0.01), 30, seed=5)
    assert made.state == "finished"
    assert made.trace.read_version.tolist() == wanted.read_version.tolist()
    assert made.header.optimizer["learning_rate"] == 0.125
    assert np.isfinite(made.trace.loss).all()
    assert made.evaluate()["loss"] < 10
    ended = made.trace
    made.advance()  # type: ignore[union-attr]
    assert made.trace is ended


def test_towers_have_a_gpu_each(eight_devices: list[str]) -> None:
    header = Configuration(mode="towers", gpus=4, problem="quadratic", learning_rate=0.125).trainer().trace.header
    assert (header.workers, header.policy) == (4, "synchronous")
    assert list(header.devices) == eight_devices[:4]
    assert header.optimizer["learning_rate"] == 0.125


def test_more_gpus_than_devices_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from asyncsgd_edu.engines import devices

    def started(count: int) -> list[str]:
        raise RuntimeError

    monkeypatch.setattr(devices, "configure_devices", started)
    monkeypatch.setattr(devices, "available", lambda _: ["/device:CPU:0"])
    with pytest.raises(ValueError, match="gpus must be at most 1, the devices of this process, got 4: restart"):
        Configuration(mode="towers", gpus=4).trainer()
