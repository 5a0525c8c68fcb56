"""What the dashboard's controls say, as one frozen value.

It is checked when it is made, before anything has been started. Nothing here knows
a widget, and TensorFlow is loaded only when a trainer is built.
"""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from asyncsgd_edu.problems.catalogue import PROBLEMS
from asyncsgd_edu.rules.arguments import MAX_SEED, MAX_UPDATES, one_of, positive_number, whole_number
from asyncsgd_edu.rules.durations import Duration
from asyncsgd_edu.rules.policies import Policy
from asyncsgd_edu.rules.remedies import DropAbove, Remedy
from asyncsgd_edu.trace import Header, Trace
from asyncsgd_edu.view.choices import (
    ACCESS,
    LAWS,
    MOST_STAMPED,
    POLICIES,
    REMEDIES,
    check_gradients,
    constant_of,
    duration_of,
    idle,
    policy_of,
    remedy_of,
)
from asyncsgd_edu.view.predictions import Prediction, predict, read_off
from asyncsgd_edu.view.series import AXES
from asyncsgd_edu.view.written import EXAMPLE, WRITTEN, schedule_from

if TYPE_CHECKING:
    from asyncsgd_edu.engines.trainer import Trainer
    from asyncsgd_edu.view.virtual import VirtualRun

MODES = ("threads", "towers", "simulated", "written")
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
    the threads are workers in virtual time, up to a thousand, and `gpus` waits. In mode `written`
    the text of `schedule` says who reads and applies, and threads, gpus, policy, durations and `updates` wait.
    `duration` is in seconds, the mean of `duration_law`. `access` is for mode `threads`. `remedy` is for all but
    towers, which have nothing stale; `drop_bound` is drop-above's, `strength` delay-compensation's.
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
    access: str = "consistent"
    remedy: str = "none"
    drop_bound: int = 4
    strength: float = 0.04
    schedule: str = EXAMPLE

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
        one_of("access", self.access, ACCESS)
        one_of("remedy", self.remedy, REMEDIES)
        whole_number("drop_bound", self.drop_bound, 0, MOST_CONSTANT)
        positive_number("strength", self.strength, zero=True)
        if self.mode == "threads" and self.access != "consistent":
            whole_number(f"updates under {self.access} access", self.updates, 1, MOST_STAMPED)
        if self.mode in ("threads", "simulated"):
            self.rule.begin(self.threads)  # Says what does not fit so many workers.
        if self.mode == "simulated":
            self._check_simulated()
        if self.mode == "written":
            _ = self.written  # Says what is wrong in the text.
        elif not isinstance(self.schedule, str):
            raise TypeError(f"schedule must be text such as '0r 1r 1a 0a', got {self.schedule!r}")

    def _check_simulated(self) -> None:
        if self.duration_law == "none":
            raise ValueError(f"a simulation needs durations: duration_law must be one of {LAWS[1:]}, got 'none'")
        check_gradients(self.rule, self.threads, self.updates)

    @property
    def workers(self) -> int:
        """How many workers compute gradients."""
        if self.mode == "written":
            return self.written.header.workers
        return self.gpus if self.mode == "towers" else self.threads

    @property
    def written(self) -> Trace:
        """The schedule of mode `written`, without losses. Raises TypeError or ValueError as `schedule_from` does."""
        return schedule_from(self.schedule, self.seed, self.correction)

    @property
    def target(self) -> int:
        """How many updates a run is to make."""
        return self.written.version if self.mode == "written" else self.updates

    @property
    def correction(self) -> Remedy | None:
        """The remedy for stale gradients; None where there is none, as in towers."""
        return None if self.mode == "towers" else remedy_of(self.remedy, self.drop_bound, self.strength)

    @property
    def special(self) -> tuple[str, ...]:
        """Access and remedy in words, each only where it is not the usual one."""
        access = (f"{self.access} access",) if self.mode == "threads" and self.access != "consistent" else ()
        return access if self.correction is None else (*access, str(self.correction))

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
        if self.mode == "written":
            return WRITTEN
        return "synchronous" if self.mode == "towers" else str(self.rule)

    @property
    def label(self) -> str:
        """Mode and size in a few words, for a legend."""
        several = "s" * (self.workers != 1)
        if self.mode == "towers":
            return f"{self.gpus} tower{several}"
        if self.mode == "written":
            words = [f"{WRITTEN}, {self.workers} worker{several}"]
        elif self.mode == "simulated":
            words = [f"{self.threads} simulated"]
        else:
            words = [f"{self.threads} thread{several}" + (f" on {self.gpus} GPUs" if self.gpus > 1 else "")]
        if self.mode != "written" and self.policy != "asynchronous":
            words.append(str(self.rule))
        return ", ".join([*words, *self.special])

    @property
    def header(self) -> Header:
        """What will be run, as far as a prediction needs it."""
        if self.mode == "written":
            return self.written.header
        correction, towers = self.correction, self.mode == "towers"
        return Header(
            "",
            self.workers,
            policy="synchronous" if towers else str(self.rule),
            access=self.access if self.mode == "threads" else "consistent",
            durations=self.durations.describe() if self.durations else None,
            clock="virtual" if self.mode == "simulated" else "real",
            remedy=correction.describe() if correction else None,
        )

    @property
    def prediction(self) -> Prediction:
        """What the laws say of it, or the schedule itself."""
        if self.mode == "written":
            return read_off(self.written)
        towers, simulated = self.mode == "towers", self.mode == "simulated"
        policy = "synchronous" if towers else self.policy
        constant = None if constant_of(policy) is None else self.constant
        dropping = isinstance(self.correction, DropAbove)
        return predict(policy, constant, self.workers, self.durations, virtual=simulated, dropping=dropping)

    @property
    def of_trainer(self) -> "Configuration":
        """The part that makes a trainer: two configurations that differ only in how long
        to run or how to look at it have equal ones.

        >>> Configuration(updates=10).of_trainer == Configuration(by="seconds").of_trainer
        True
        """
        usual: dict[str, Any] = {field.name: field.default for field in fields(self)}
        unused: dict[str, Any] = {
            name: usual[name] for name in idle(self.mode, self.policy, self.duration_law, self.remedy)
        }
        return replace(self, **{**unused, "updates": 1, "by": "updates"})

    def goes_on_from(self, made_of: "Configuration | None") -> bool:
        """Whether a trainer made of that one goes on with this; a schedule that was written begins anew each time."""
        return made_of is not None and self.mode != "written" and self.of_trainer == made_of.of_trainer

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
        if self.mode in ("simulated", "written"):
            return self._virtual()
        if len(devices) < self.gpus:
            raise ValueError(
                f"gpus must be at most {len(devices)}, the devices of this process, got {self.gpus}: "
                f"restart the kernel and press Run before anything else of TensorFlow runs"
            )
        from asyncsgd_edu.engines import optimizers

        shared: dict[str, Any] = {
            "devices": list(devices[: self.gpus]),
            "optimizer": optimizers.make("SGD", self.learning_rate),
            "durations": self.durations,
            "seed": self.seed,
        }
        problem = make_problem(self.problem)
        if self.mode == "towers":
            from asyncsgd_edu.engines.tower_trainer import TowerTrainer

            return TowerTrainer(problem, towers=self.gpus, **shared)
        from asyncsgd_edu.engines.async_trainer import AsyncTrainer

        return AsyncTrainer(
            problem, workers=self.threads, policy=self.rule, access=self.access, remedy=self.correction, **shared
        )

    def _virtual(self) -> "VirtualRun":
        from asyncsgd_edu.problems.catalogue import make_problem
        from asyncsgd_edu.view.virtual import SimulatedRun, WrittenRun

        problem, rate, correction = make_problem(self.problem), self.learning_rate, self.correction
        if self.mode == "written":
            return WrittenRun(problem, self.schedule, rate, self.seed, correction)
        durations = self.durations
        assert durations is not None  # Checked when this was made.
        return SimulatedRun(problem, self.threads, self.rule, durations, rate, self.seed, correction)


def most_threads(mode: str) -> int:
    """How many threads there may be, or workers in virtual time."""
    return MOST_SIMULATED if mode in ("simulated", "written") else MOST_THREADS
