"""What the dashboard's controls say, as one frozen value.

It is checked when it is made, before anything has been started. Nothing here knows
a widget, and TensorFlow is loaded only when a trainer is built.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from asyncsgd_edu.problems.catalogue import PROBLEMS
from asyncsgd_edu.rules.arguments import MAX_SEED, MAX_UPDATES, one_of, positive_number, whole_number
from asyncsgd_edu.rules.durations import Constant, Duration, Exponential
from asyncsgd_edu.view.series import AXES

if TYPE_CHECKING:
    from asyncsgd_edu.engines.trainer import Trainer

MODES = ("threads", "towers")
LAWS = ("none", "constant", "exponential")
MOST_THREADS = 16
MOST_GPUS = 8


@dataclass(frozen=True)
class Configuration:
    """What to run: the dashboard's controls by name.

    `threads` run asynchronously, spread round robin over `gpus` devices; in mode
    `towers` there is one synchronous tower on each of `gpus` devices and `threads`
    waits for the other mode. `duration` is in seconds, the mean of `duration_law`.
    Raises ValueError or TypeError naming what was given and what is allowed.

    >>> Configuration(threads=0)
    Traceback (most recent call last):
    ValueError: threads must be a whole number from 1 to 16, got 0
    """

    mode: str = "threads"
    threads: int = 4
    gpus: int = 1
    learning_rate: float = 0.05
    problem: str = "digits-cnn"
    duration_law: str = "none"
    duration: float = 0.01
    updates: int = 2000
    seed: int = 0
    by: str = "updates"

    def __post_init__(self) -> None:
        one_of("mode", self.mode, MODES)
        whole_number("threads", self.threads, 1, MOST_THREADS)
        whole_number("gpus", self.gpus, 1, MOST_GPUS)
        if self.mode == "threads" and self.gpus > self.threads:
            raise ValueError(f"gpus must be at most the number of threads, {self.threads}, got {self.gpus}")
        positive_number("learning_rate", self.learning_rate)
        one_of("problem", self.problem, PROBLEMS)
        one_of("duration_law", self.duration_law, LAWS)
        positive_number("duration", self.duration)
        whole_number("updates", self.updates, 1, MAX_UPDATES)
        whole_number("seed", self.seed, 0, MAX_SEED)
        one_of("by", self.by, AXES)

    @property
    def workers(self) -> int:
        """How many workers compute gradients."""
        return self.threads if self.mode == "threads" else self.gpus

    @property
    def durations(self) -> Duration | None:
        """The duration injected into each gradient, None where there is none."""
        if self.duration_law == "none":
            return None
        return Constant(self.duration) if self.duration_law == "constant" else Exponential(self.duration)

    @property
    def injected(self) -> str:
        """The injected duration in words."""
        return "none" if self.durations is None else f"{self.duration_law}, {1000 * self.duration:g} ms"

    @property
    def label(self) -> str:
        """Mode and size in a few words, for a legend or a table."""
        if self.mode == "towers":
            return f"{self.gpus} tower" + "s" * (self.gpus > 1)
        over = f" on {self.gpus} GPUs" if self.gpus > 1 else ""
        return f"{self.threads} thread" + "s" * (self.threads > 1) + over

    @property
    def of_trainer(self) -> "Configuration":
        """The part that makes a trainer: two configurations that differ only in how long
        to run or how to look at it have equal ones.

        >>> Configuration(updates=10).of_trainer == Configuration(by="seconds").of_trainer
        True
        """
        plain = replace(self, updates=1, by="updates")
        if self.mode == "towers":
            plain = replace(plain, threads=1)
        return replace(plain, duration=1.0) if self.duration_law == "none" else plain

    def trainer(self) -> "Trainer":
        """Build the trainer, loading TensorFlow if that has not happened yet: seconds, not milliseconds.

        Raises ValueError if this process has fewer devices than `gpus`.
        """
        from asyncsgd_edu.engines.devices import available, configure_devices
        from asyncsgd_edu.problems.catalogue import make_problem

        try:
            devices = configure_devices(MOST_GPUS)
        except RuntimeError:
            devices = available(self.gpus)  # TensorFlow already runs: use what it has.
        if len(devices) < self.gpus:
            raise ValueError(
                f"gpus must be at most {len(devices)}, the devices of this process, got {self.gpus}: "
                f"restart the kernel and press Run before anything else of TensorFlow runs"
            )
        from asyncsgd_edu.engines.optimizers import sgd

        shared: dict[str, Any] = {
            "devices": list(devices[: self.gpus]),
            "optimizer": sgd(self.learning_rate),
            "durations": self.durations,
            "seed": self.seed,
        }
        problem = make_problem(self.problem)
        if self.mode == "towers":
            from asyncsgd_edu.engines.tower_trainer import TowerTrainer

            return TowerTrainer(problem, towers=self.gpus, **shared)
        from asyncsgd_edu.engines.async_trainer import AsyncTrainer

        return AsyncTrainer(problem, workers=self.threads, **shared)
