"""A simulated run with the buttons of a real one: first the schedule, then its arithmetic.

Nothing runs in the background: `start` simulates, `advance` replays, both on the
thread that calls them. Every number is from `simulate` and `replay`.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from asyncsgd_edu.rules.durations import Duration
from asyncsgd_edu.rules.policies import Policy
from asyncsgd_edu.trace import COLUMNS, Ended, Header, Trace

if TYPE_CHECKING:
    from asyncsgd_edu.problems.problem import Problem


class VirtualRun:
    """`workers` workers under `policy` in virtual time, on `problem`.

    It is asked like a trainer. `state` is `running` from `start` until `advance` has
    given the schedule its losses, or until `stop`. A second `start` goes on: the same
    seed begins the same way, so the longer run contains the shorter one.
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
        self.workers, self.seed = workers, seed
        self._problem, self._policy, self._durations, self._rate = problem, policy, durations, learning_rate
        self._about: dict[str, Any] = {"problem": problem.describe(), "batch_size": problem.batch_size}
        self._trace = self._blank()
        self._state = "ready"

    @property
    def state(self) -> str:
        """ready, running, stopped, finished or diverged."""
        return self._state

    @property
    def trace(self) -> Trace:
        """What there is so far: nothing, the schedule without losses, or with them."""
        return self._trace

    @property
    def header(self) -> Header:
        """What is run."""
        return self._trace.header

    def start(self, updates: int) -> None:
        """Simulate `updates` updates more than there are."""
        from asyncsgd_edu.engines.simulator import simulate

        total = self._trace.version + updates
        made = simulate(self.workers, self._policy, self._durations, total, self.seed)
        self._trace = Trace(replace(made.header, **self._about), made.columns)
        self._state = "running"

    def advance(self) -> None:
        """Give the schedule its losses. No effect unless running."""
        from asyncsgd_edu.engines.replay import replay

        if self._state != "running":
            return
        self._trace = replay(self._trace, self._problem, learning_rate=self._rate)
        self._state = self._trace.header.ended.how

    def stop(self) -> None:
        """Leave the schedule without losses. No effect unless running."""
        if self._state == "running":
            self._trace = Trace(replace(self.header, ended=Ended("stopped")), self._trace.columns)
            self._state = "stopped"

    def wait(self) -> Trace:
        """The trace, at once."""
        return self._trace

    def reset(self) -> None:
        """Back to version 0."""
        self._trace, self._state = self._blank(), "ready"

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
