"""What the dashboard's controls say, as one frozen value.

It is checked when it is made, before anything has been started. Nothing here knows
a widget, and TensorFlow is loaded only when a trainer is built.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from asyncsgd_edu.problems.catalogue import PROBLEMS
from asyncsgd_edu.rules.arguments import MAX_SEED, MAX_UPDATES, one_of, positive_number, whole_number
from asyncsgd_edu.rules.durations import Duration
from asyncsgd_edu.rules.policies import Policy
from asyncsgd_edu.trace import Header
from asyncsgd_edu.view.choices import LAWS, POLICIES, check_gradients, constant_of, duration_of, policy_of
from asyncsgd_edu.view.predictions import Prediction, predict
from asyncsgd_edu.view.series import AXES

if TYPE_CHECKING:
    from asyncsgd_edu.engines.trainer import Trainer
    from asyncsgd_edu.view.virtual import VirtualRun

MODES = ("threads", "towers", "simulated")
MOST_THREADS = 16
MOST_SIMULATED = 1000
MOST_GPUS = 8
MOST_CONSTANT = 1000


@dataclass(frozen=True)
class Configuration:
    """What to run: the dashboard's controls by name.

    `threads` run under `policy`, whose k, bound or spare is `constant`, spread round
    robin over `gpus` devices. In mode `towers` there is one synchronous tower on each of
    `gpus` devices, and threads and policy wait for the other modes. In mode `simulated`
    the threads are workers in virtual time, up to a thousand, and `gpus` waits.
    `duration` is in seconds, the mean of `duration_law`.
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
    policy: str = "asynchronous"
    constant: int = 2

    def __post_init__(self) -> None:
        one_of("mode", self.mode, MODES)
        whole_number("threads", self.threads, 1, most_threads(self.mode))
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
        one_of("policy", self.policy, POLICIES)
        whole_number("constant", self.constant, 0, MOST_CONSTANT)
        if self.mode != "towers":
            self.rule.begin(self.threads)  # Says what does not fit so many workers.
        if self.mode == "simulated":
            self._check_simulated()

    def _check_simulated(self) -> None:
        if self.duration_law == "none":
            raise ValueError(f"a simulation needs durations: duration_law must be one of {LAWS[1:]}, got 'none'")
        check_gradients(self.rule, self.threads, self.updates)

    @property
    def workers(self) -> int:
        """How many workers compute gradients."""
        return self.gpus if self.mode == "towers" else self.threads

    @property
    def rule(self) -> Policy[Any]:
        """The policy of threads and of simulated workers. Raises ValueError if it cannot have that constant."""
        return policy_of(self.policy, self.constant)

    @property
    def durations(self) -> Duration | None:
        """The duration of each gradient, injected or virtual; None where there is none."""
        return duration_of(self.duration_law, self.duration)

    @property
    def injected(self) -> str:
        """The injected duration in words."""
        return "none" if self.durations is None else f"{self.duration_law}, {1000 * self.duration:g} ms"

    @property
    def policy_words(self) -> str:
        """The policy in words, with its constant."""
        return "synchronous" if self.mode == "towers" else str(self.rule)

    @property
    def label(self) -> str:
        """Mode and size in a few words, for a legend."""
        if self.mode == "towers":
            return f"{self.gpus} tower" + "s" * (self.gpus > 1)
        rule = "" if self.policy == "asynchronous" else f", {self.rule}"
        if self.mode == "simulated":
            return f"{self.threads} simulated{rule}"
        over = f" on {self.gpus} GPUs" if self.gpus > 1 else ""
        return f"{self.threads} thread" + "s" * (self.threads > 1) + over + rule

    @property
    def header(self) -> Header:
        """What will be run, as far as a prediction needs it."""
        durations = self.durations.describe() if self.durations else None
        policy = "synchronous" if self.mode == "towers" else str(self.rule)
        clock = "virtual" if self.mode == "simulated" else "real"
        return Header("", self.workers, policy=policy, durations=durations, clock=clock)

    @property
    def prediction(self) -> Prediction:
        """What the laws say of it."""
        towers, simulated = self.mode == "towers", self.mode == "simulated"
        policy = "synchronous" if towers else self.policy
        constant = None if constant_of(policy) is None else self.constant
        return predict(policy, constant, self.workers, self.durations, virtual=simulated)

    @property
    def of_trainer(self) -> "Configuration":
        """The part that makes a trainer: two configurations that differ only in how long
        to run or how to look at it have equal ones.

        >>> Configuration(updates=10).of_trainer == Configuration(by="seconds").of_trainer
        True
        """
        plain = replace(self, updates=1, by="updates")
        if self.mode == "towers":
            plain = replace(plain, threads=1, policy="asynchronous")
        if self.mode == "simulated":
            plain = replace(plain, gpus=1)
        if constant_of(plain.policy) is None:
            plain = replace(plain, constant=2)
        return replace(plain, duration=1.0) if self.duration_law == "none" else plain

    def trainer(self) -> "Trainer | VirtualRun":
        """Build the trainer, or what simulates one.

        That loads TensorFlow if it has not happened yet: seconds, not milliseconds. ValueError if
        this process has fewer devices than `gpus`.
        """
        from asyncsgd_edu.engines.devices import available, configure_devices
        from asyncsgd_edu.problems.catalogue import make_problem

        try:
            devices = configure_devices(MOST_GPUS)
        except RuntimeError:
            devices = available(self.gpus)  # TensorFlow already runs: use what it has.
        if self.mode == "simulated":
            return self._virtual()
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

        return AsyncTrainer(problem, workers=self.threads, policy=self.rule, **shared)

    def _virtual(self) -> "VirtualRun":
        from asyncsgd_edu.problems.catalogue import make_problem
        from asyncsgd_edu.view.virtual import VirtualRun

        durations = self.durations
        assert durations is not None  # Checked when this was made.
        return VirtualRun(make_problem(self.problem), self.threads, self.rule, durations, self.learning_rate, self.seed)


def most_threads(mode: str) -> int:
    """How many threads there may be, or workers where they are simulated."""
    return MOST_SIMULATED if mode == "simulated" else MOST_THREADS
