"""The dashboard's controls as a value: what is refused, and what is built."""

import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest

from asyncsgd_edu.rules.durations import Constant, Exponential
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
    ("mode", "processes", "mode must be one of 'threads', 'towers', got 'processes'"),
    (
        "problem",
        "mnist",
        "problem must be one of 'quadratic', 'digits-linear', 'digits-mlp', 'digits-cnn', got 'mnist'",
    ),
    ("duration_law", "gamma", "duration_law must be one of 'none', 'constant', 'exponential', got 'gamma'"),
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


def test_threads_do_not_make_towers() -> None:
    towers = Configuration(mode="towers", threads=3, gpus=2)
    assert towers.of_trainer == Configuration(mode="towers", threads=9, gpus=2).of_trainer


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
