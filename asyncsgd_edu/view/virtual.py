"""A simulated run with the buttons of a real one: first the schedule, then its arithmetic.

Nothing runs in the background: `start` simulates, `advance` replays, both on the
thread that calls them. Every number is from `simulate` and `replay`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsgd_edu.rules.arguments import MAX_SEED, positive_number, whole_number
from asyncsgd_edu.rules.durations import Duration, check_durations
from asyncsgd_edu.rules.policies import MOST_WORKERS, Policy, check_policy
from asyncsgd_edu.trace import COLUMNS, Ended, Header, Trace
from asyncsgd_edu.view.choices import check_gradients

if TYPE_CHECKING:
    from asyncsgd_edu.problems.problem import Problem


class VirtualRun:
    """`workers` workers under `policy` in virtual time, on `problem`.

    It is asked like a trainer. `state` is `running` (or `paused`) from `start` until `advance` has
    given the schedule its losses, or until `stop`; meanwhile `trace` grows. A second `start` goes on: the same
    seed begins the same way, so the longer run contains the shorter one. Its
    arithmetic is done again from version 0.

    Raises TypeError or ValueError for an argument that is not allowed or does not fit the others.
    """

    def __init__(
        self,
        problem: "Problem",
        workers: int,
        policy: Policy[Any],
        durations: Duration,
        learning_rate: float,
        seed: int = 0,
    ) -> None:
        from asyncsgd_edu.problems.problem import check_problem  # Here, because it loads TensorFlow.

        check_problem(problem)
        self.workers = whole_number("workers", workers, 1, MOST_WORKERS)
        self.seed = whole_number("seed", seed, 0, MAX_SEED)
        self._problem, self._policy, self._durations = problem, check_policy(policy), durations
        if check_durations(durations, self.workers) is None:
            raise TypeError("a simulation needs durations such as Constant(0.01) or Exponential(0.01), got None")
        self._policy.begin(self.workers)
        self._rate = positive_number("learning_rate", learning_rate)
        self._about: dict[str, Any] = {"problem": problem.describe(), "batch_size": problem.batch_size}
        self._done = self._trace = self._schedule = self._blank()
        self._state = "ready"

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

    def start(self, updates: int) -> None:
        """Simulate `updates` updates more than there are. Raises ValueError for more than memory is allowed for."""
        from asyncsgd_edu.engines.simulator import simulate

        total = self._done.version + updates
        check_gradients(self._policy, self.workers, total)
        made = simulate(self.workers, self._policy, self._durations, total, self.seed)
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
        made = replay(self._schedule, self._problem, learning_rate=self._rate, stop=stop, seen=seen)
        if made.header.ended.how == "stopped":
            made = whole_updates(made, self._schedule)
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
        self._done = self._trace = self._schedule = self._blank()
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
        self._schedule = self._blank()  # A million rows need not be kept twice.
        self._done = self._trace = Trace(header, trace.columns, trace.parameters)
        self._state = how

    def evaluate(self) -> dict[str, float]:
        """The problem's evaluation of the parameters; a NaN loss where no arithmetic was done."""
        values = self._trace.parameters
        return {"loss": float("nan")} if values is None else self._problem.evaluate(values)

    def _blank(self) -> Trace:
        header = Header(
            "simulate", self.workers, str(self._policy), seed=self.seed, clock="virtual",
            durations=self._durations.describe(), **self._about,
        )  # fmt: skip
        return Trace(header, {name: [] for name in COLUMNS})


def whole_updates(part: Trace, schedule: Trace) -> Trace:
    """The rows of `part`, the beginning of `schedule`, without those of an update that lacks some of its gradients.

    They are not in the parameters yet: an update is applied with its last gradient.
    """
    after = schedule.apply_version[len(part) :]
    following = after[after >= 0][:1]
    rows = np.flatnonzero(np.isin(part.apply_version, following))
    whole = int(rows[0]) if len(rows) else len(part)
    return Trace(part.header, {name: column[:whole] for name, column in part.columns.items()}, part.parameters)
