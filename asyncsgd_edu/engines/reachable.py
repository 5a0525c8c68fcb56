"""Where a small world can end: the arithmetic of every order that its workers can get into.

One order of each class is replayed, since all of a class come to the same. No thread is
started; a run of real threads with a `ScriptedGate` lands, bit for bit, where it is said here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsgd_edu.engines import devices, optimizers
from asyncsgd_edu.engines.arithmetic import Replayer
from asyncsgd_edu.engines.counterfactual import drop
from asyncsgd_edu.engines.plan import Plan
from asyncsgd_edu.problems.problem import Problem, check_problem
from asyncsgd_edu.rules.arguments import MAX_SEED, whole_number
from asyncsgd_edu.rules.events import as_text
from asyncsgd_edu.rules.interleavings import distinct_interleavings
from asyncsgd_edu.rules.remedies import Remedy, check_remedy
from asyncsgd_edu.trace import Trace

MOST = 5_000  # Classes: a replay of each takes a few milliseconds.

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reachable:
    """The ends of all orders in which some workers can read and apply, one entry for each class of orders.

    `schedules` are texts, one order of each class. `multiplicity` says how many orders there are in
    it, int64 [classes]. `parameters` are the final ones, an array [classes, ...] for each of the problem's,
    and `loss` their evaluation, float64 [classes]. `sequential` says where workers took turns without
    overlap: every gradient was applied to what it was computed from; bool [classes].
    """

    workers: int
    steps: int
    schedules: tuple[str, ...]
    multiplicity: Ints
    parameters: tuple[np.ndarray, ...]
    loss: Floats
    sequential: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.schedules)

    @cached_property
    def points(self) -> np.ndarray:
        """The final parameters as points, float32 [classes, size]: all of a problem's arrays in one row."""
        return _kept(np.concatenate([values.reshape(len(self), -1) for values in self.parameters], axis=1))

    @cached_property
    def ends(self) -> Ints:
        """Numbers the places where classes end, from 0; int64 [classes]. Equal only where all bits are."""
        bits = np.ascontiguousarray(self.points).view(np.uint32)
        return _kept(np.unique(bits, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64))

    @property
    def distinct(self) -> int:
        """In how many different places, bit for bit, a run can end."""
        return int(self.ends.max()) + 1

    @property
    def best(self) -> int:
        """The class with the smallest loss, the first of several."""
        return int(np.argmin(_or_infinite(self.loss)))

    @property
    def worst(self) -> int:
        """The class with the largest loss, the first of several."""
        return int(np.argmax(_or_infinite(self.loss)))

    def __repr__(self) -> str:
        turns = _or_infinite(self.loss[self.sequential])
        return (
            f"workers {self.workers}, steps {self.steps}: {int(self.multiplicity.sum())} orders in "
            f"{len(self)} classes, {self.distinct} different ends\n"
            f"loss {self.loss[self.best]:.4g} at best ({self.schedules[self.best]})\n"
            f"loss {self.loss[self.worst]:.4g} at worst ({self.schedules[self.worst]})\n"
            f"one after the other, without overlap: {turns.min():.4g} to {turns.max():.4g}"
        )


def reachable(
    problem: Problem,
    workers: int = 2,
    steps: int = 3,
    optimizer: Any = None,
    learning_rate: float | None = None,
    most: int = MOST,
    seed: int = 0,
    *,
    remedy: Remedy | None = None,
) -> Reachable:
    """Where `workers` workers that each do `steps` times (read, apply) can end on `problem`; exact.

    `optimizer`, `learning_rate` and `remedy` are as for `replay`; start and batches come from `seed`. In a class whose
    loss stops being finite the parameters are those before. Raises ValueError, before anything
    is computed, if there are more than `most` classes of orders, and as `replay` does.

    >>> from asyncsgd_edu.problems.quadratic import Quadratic
    >>> found = reachable(Quadratic(noise=0.0), workers=2, steps=1, learning_rate=1.5)
    >>> found.distinct, found.schedules[found.worst]
    (2, '0r 1r 0a 1a')
    """
    check_problem(problem)
    check_remedy(remedy)
    seed = whole_number("seed", seed, 0, MAX_SEED)
    orders = list(distinct_interleavings(workers, steps, most))
    devices.prepare()
    own = optimizers.own_copy(optimizer, learning_rate)
    traces = [Trace.from_schedule(order.events, workers, seed) for order in orders]
    ended = _ended(problem, own, seed, [drop(trace, remedy) for trace in traces], remedy)
    return Reachable(
        workers=workers,
        steps=steps,
        schedules=tuple(as_text(order.events) for order in orders),
        multiplicity=_kept(np.array([order.multiplicity for order in orders], np.int64)),
        parameters=tuple(_kept(np.stack(values)) for values in zip(*ended, strict=True)),
        loss=_kept(np.array([problem.evaluate(values)["loss"] for values in ended])),
        sequential=_kept(np.array([not trace.staleness.any() for trace in traces])),
    )


def _ended(
    problem: Problem, optimizer: Any, seed: int, traces: Sequence[Trace], remedy: Remedy | None
) -> list[list[np.ndarray]]:
    """The final parameters of each trace, all done by one graph."""
    plans = [Plan.of(trace) for trace in traces]
    slots, single = max(plan.slots for plan in plans), all(plan.single for plan in plans)
    replayer = Replayer(problem, optimizer, seed, slots, single=single, remedy=remedy)
    return [replayer.run(plan).parameters for plan in plans]


def _or_infinite(loss: Floats) -> Floats:
    """A loss that is no number counts as infinite: its parameters are lost."""
    return np.where(np.isnan(loss), np.inf, loss)


def _kept(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values
