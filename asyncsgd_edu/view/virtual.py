"""A run in virtual time with the buttons of a real one: first the schedule, then its arithmetic.

The schedule is simulated, or was written. Nothing runs in the background: `start` has the
schedule made, `advance` replays it, both on the thread that calls them. Every number is from
`simulate` and `replay`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsgd_edu.engines.counterfactual import drop
from asyncsgd_edu.rules.arguments import MAX_SEED, positive_number, whole_number
from asyncsgd_edu.rules.durations import Duration, check_durations
from asyncsgd_edu.rules.policies import MOST_WORKERS, Policy, check_policy
from asyncsgd_edu.rules.remedies import DropAbove, Remedy, check_remedy
from asyncsgd_edu.trace import COLUMNS, Ended, Header, Trace
from asyncsgd_edu.view.choices import check_gradients
from asyncsgd_edu.view.written import schedule_from, up_to

if TYPE_CHECKING:
    from asyncsgd_edu.problems.problem import Problem


class VirtualRun(ABC):
    """A run in virtual time on `problem`, its gradients corrected by `remedy`.

    It is asked like a trainer. `state` is `running` (or `paused`) from `start` until `advance` has
    given the schedule its losses, or until `stop`; meanwhile `trace` grows. A second `start` goes on: the
    longer schedule begins like the shorter one. Its arithmetic is done again from version 0.

    `header` says what is run, but for problem and remedy. Raises TypeError or ValueError for an argument that is
    not allowed or does not fit the others.
    """

    def __init__(self, problem: "Problem", header: Header, learning_rate: float, remedy: Remedy | None = None) -> None:
        from asyncsgd_edu.problems.problem import check_problem  # Here, because it loads TensorFlow.

        check_problem(problem)
        self._problem, self._remedy = problem, check_remedy(remedy)
        self._rate = positive_number("learning_rate", learning_rate)
        self._about: dict[str, Any] = {
            "problem": problem.describe(), "batch_size": problem.batch_size,
            "remedy": remedy.describe() if remedy else None,
        }  # fmt: skip
        self._blank = Trace(replace(header, **self._about), {name: [] for name in COLUMNS})
        self._done = self._trace = self._schedule = self._blank
        self._state = "ready"

    @abstractmethod
    def _up_to(self, version: int) -> Trace:
        """The schedule up to that version. Raises ValueError for one that cannot be had."""

    @property
    def state(self) -> str:
        """ready, running, paused, stopped, finished or diverged."""
        return self._state

    @property
    def trace(self) -> Trace:
        """What there is so far: the rows whose arithmetic is done."""
        return self._trace

    @property
    def header(self) -> Header:
        """What is run."""
        return self._trace.header

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return self.header.workers

    def start(self, updates: int) -> None:
        """Have the schedule of `updates` updates more than there are. Raises ValueError for more than there can be."""
        made = self._up_to(self._done.version + updates)
        self._schedule = Trace(replace(made.header, **self._about), made.columns)
        self._state = "running"

    def advance(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Give the schedule its losses; no effect unless running or paused.

        `stop` is asked a few times a second, and may take its time (a pause). Once it says so the run
        ends as `stopped` with the updates whose arithmetic is done.
        """
        from asyncsgd_edu.engines.replay import replay

        if self._state not in ("running", "paused"):
            return
        seen = self._grow(len(self._schedule))
        made = replay(
            self._schedule, self._problem, learning_rate=self._rate, remedy=self._remedy, stop=stop, seen=seen
        )
        if made.header.ended.how == "stopped":
            self._keep(made if len(made) > len(self._done) else self._done, "stopped")
        else:
            self._keep(made, made.header.ended.how)

    def pause(self) -> None:
        """Be `paused`; who answers `advance` has to wait. No effect unless running."""
        if self._state == "running":
            self._state = "paused"

    def resume(self) -> None:
        """Be `running` again. No effect unless paused."""
        if self._state == "paused":
            self._state = "running"

    def stop(self) -> None:
        """Before the arithmetic: leave the schedule, and end with what had been done. No effect unless running."""
        if self._state in ("running", "paused"):
            self._keep(self._done, "stopped")

    def wait(self) -> Trace:
        """The trace, at once."""
        return self._trace

    def reset(self) -> None:
        """Back to version 0."""
        self._done = self._trace = self._schedule = self._blank
        self._state = "ready"

    def _grow(self, rows: int) -> Callable[[np.ndarray], None]:
        """What takes the losses of one stretch of rows after the other, and puts them into `trace`."""
        loss, done = np.full(rows, np.nan, np.float32), 0
        header = replace(self._schedule.header, ended=Ended())

        def seen(losses: np.ndarray) -> None:
            nonlocal done
            loss[done : done + len(losses)] = losses
            done += len(losses)
            if done > len(self._done):  # Not what had been there before.
                columns = {**self._schedule.columns, "loss": loss}
                self._trace = Trace(header, {name: column[:done] for name, column in columns.items()})

        return seen

    def _keep(self, trace: Trace, how: str) -> None:
        header = replace(trace.header, ended=replace(trace.header.ended, how=how))
        self._schedule = self._blank  # A million rows need not be kept twice.
        self._done = self._trace = Trace(header, trace.columns, trace.parameters)
        self._state = how

    def evaluate(self) -> dict[str, float]:
        """The problem's evaluation of the parameters; a NaN loss where no arithmetic was done."""
        values = self._trace.parameters
        return {"loss": float("nan")} if values is None else self._problem.evaluate(values)


class SimulatedRun(VirtualRun):
    """`workers` workers under `policy`, each gradient of which takes one of the `durations`."""

    def __init__(
        self,
        problem: "Problem",
        workers: int,
        policy: Policy[Any],
        durations: Duration,
        learning_rate: float,
        seed: int = 0,
        remedy: Remedy | None = None,
    ) -> None:
        whole_number("workers", workers, 1, MOST_WORKERS)
        self.seed = whole_number("seed", seed, 0, MAX_SEED)
        self._policy, self._durations = check_policy(policy), durations
        if check_durations(durations, workers) is None:
            raise TypeError("a simulation needs durations such as Constant(0.01) or Exponential(0.01), got None")
        self._policy.begin(workers)
        header = Header(
            "simulate", workers, str(policy), seed=self.seed, clock="virtual", durations=durations.describe()
        )
        super().__init__(problem, header, learning_rate, remedy)

    def _up_to(self, version: int) -> Trace:
        """Simulated; where a remedy drops gradients, for long enough that so many updates are left."""
        asked = version
        while True:
            made = self._simulated(asked)
            if not isinstance(self._remedy, DropAbove):
                return made
            made = drop(made, self._remedy)
            if made.version >= version:
                return up_to(made, version)
            asked = 1 + math.ceil(1.05 * asked * version / made.version)

    def _simulated(self, updates: int) -> Trace:
        from asyncsgd_edu.engines.simulator import simulate

        check_gradients(self._policy, self.workers, updates)
        return simulate(self.workers, self._policy, self._durations, updates, self.seed)


class WrittenRun(VirtualRun):
    """The `schedule` that somebody wrote, one event a virtual second."""

    def __init__(
        self, problem: "Problem", schedule: str, learning_rate: float, seed: int = 0, remedy: Remedy | None = None
    ) -> None:
        self._written = schedule_from(schedule, seed, remedy)
        super().__init__(problem, replace(self._written.header, ended=Ended()), learning_rate, remedy)

    def _up_to(self, version: int) -> Trace:
        return up_to(self._written, version)
