"""Gradients a second of `simulate`, beside the same models written for SimPy; and how the time grows.

    python benchmarks/simulator.py [--workers 100] [--gradients 100000] [--no-growth] [--repeats 5] [--json]

Needs SimPy, which the package does not. Equal on both sides: the policy, the workers, exponential durations of mean 1,
the updates, and what is logged of each gradient (worker, batch, versions, three times). They take turns, a new seed
each turn. The draws come from different generators, so both sides must have simulated the same in the mean: their
seconds per update have to agree, or the comparison is refused. No bar is set here.
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import simpy
from turns import Row, Table, at_least_one, command, medians, rate, ratio, seconds, show, take_turns

from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.rules.durations import Exponential
from asyncsgd_edu.rules.policies import (
    Asynchronous,
    Averaging,
    KAsync,
    KBatchAsync,
    KBatchSync,
    KSync,
    Policy,
    StaleSynchronous,
)

MEAN = 1.0  # Seconds of a gradient.
# Relative difference of the two sides' seconds that may be, apart from what chance makes of few gradients.
AGREE = 0.02
GROWING = ("asynchronous", "k-sync", "stale-synchronous", "k-async")


class Model:
    """A SimPy model of training: what all policies share."""

    def __init__(self, workers: int, updates: int, seed: int) -> None:
        self.env = simpy.Environment()
        self.over = self.env.event()
        self.chance = random.Random(seed)
        self.workers, self.updates = workers, updates
        self.version = 0
        self.rows: list[tuple[int, int, int, int, float, float, float]] = []

    def run(self) -> float:
        """Run to the last update; return its time."""
        self.people = [self.env.process(self.work(worker)) for worker in range(self.workers)]
        self.env.run(until=self.over)
        return float(self.env.now)

    def work(self, worker: int) -> Iterator[Any]:
        """One worker's life."""
        raise NotImplementedError

    def gradient(self) -> Any:
        """A timeout as long as a gradient takes."""
        return self.env.timeout(self.chance.expovariate(1 / MEAN))

    def update(self, gradients: list[tuple[int, int, int, float, float]]) -> None:
        """Apply gradients (worker, batch, read version, read and ready time) together."""
        now = self.env.now
        self.rows.extend(
            (w, number, read, self.version, since, until, now) for w, number, read, since, until in gradients
        )
        self.version += 1
        if self.version == self.updates:
            self.over.succeed()


class NobodyWaits(Model):
    """Asynchronous, and K-batch-async for more than one gradient in an update."""

    def __init__(self, workers: int, updates: int, seed: int, k: int = 1) -> None:
        super().__init__(workers, updates, seed)
        self.k = k
        self.arrived: list[tuple[int, int, int, float, float]] = []

    def work(self, worker: int) -> Iterator[Any]:
        """Read, compute, deliver."""
        env, number = self.env, 0
        while True:
            read, since = self.version, env.now
            yield self.gradient()
            self.arrived.append((worker, number, read, since, env.now))
            if len(self.arrived) == self.k:
                self.update(self.arrived)
                self.arrived = []
            number += 1


class FirstWorkers(NobodyWaits):
    """K-async: deliver, then wait for the update that uses it."""

    def work(self, worker: int) -> Iterator[Any]:
        """Read, compute, deliver, wait."""
        env, number = self.env, 0
        self.updated = env.event()
        while True:
            read, since = self.version, env.now
            yield self.gradient()
            self.arrived.append((worker, number, read, since, env.now))
            if len(self.arrived) == self.k:
                self.update(self.arrived)
                self.arrived = []
                waited, self.updated = self.updated, env.event()
                waited.succeed()
            else:
                yield self.updated
            number += 1


class Cancelling(NobodyWaits):
    """K-sync, and with `goes_on` K-batch-sync: whoever makes the update interrupts the others."""

    goes_on = False

    def work(self, worker: int) -> Iterator[Any]:
        """Read, compute, deliver; start again when interrupted."""
        env, number = self.env, 0
        while True:
            read, since = self.version, env.now
            try:
                yield self.gradient()
                self.arrived.append((worker, number, read, since, env.now))
                if len(self.arrived) == self.k:
                    self.update(self.arrived)
                    self.arrived = []
                    for other, person in enumerate(self.people):
                        if other != worker:
                            person.interrupt()
                elif not self.goes_on:
                    yield env.event()
            except simpy.Interrupt:
                self.rows.append((worker, number, read, -1, since, float("nan"), env.now))
            number += 1


class CancellingBatch(Cancelling):
    """K-batch-sync."""

    goes_on = True


class BoundedLead(Model):
    """Stale-synchronous: wait while too far ahead of the slowest."""

    def __init__(self, workers: int, updates: int, seed: int, bound: int) -> None:
        super().__init__(workers, updates, seed)
        self.bound, self.slowest = bound, 0
        self.at = Counter({0: workers})
        self.advanced = self.env.event()

    def work(self, worker: int) -> Iterator[Any]:
        """Wait, read, compute, apply."""
        env, number = self.env, 0
        while True:
            while number - self.slowest > self.bound:
                yield self.advanced
            read, since = self.version, env.now
            yield self.gradient()
            self.update([(worker, number, read, since, env.now)])
            self.at[number] -= 1
            number += 1
            self.at[number] += 1
            if not self.at[self.slowest]:
                self.slowest += 1
                waited, self.advanced = self.advanced, env.event()
                waited.succeed()


def cases(workers: int) -> dict[str, tuple[Policy[Any], Callable[[int, int], Model]]]:
    """Each policy and its SimPy model, a function of updates and seed."""
    k = max(1, workers // 2)
    return {
        "asynchronous": (Asynchronous(), lambda t, s: NobodyWaits(workers, t, s)),
        "k-batch-async": (KBatchAsync(k), lambda t, s: NobodyWaits(workers, t, s, k)),
        "k-sync": (KSync(k), lambda t, s: Cancelling(workers, t, s, k)),
        "stale-synchronous": (StaleSynchronous(3), lambda t, s: BoundedLead(workers, t, s, 3)),
        "k-async": (KAsync(k), lambda t, s: FirstWorkers(workers, t, s, k)),
        "k-batch-sync": (KBatchSync(k), lambda t, s: CancellingBatch(workers, t, s, k)),
    }


def updates_for(policy: Policy[Any], workers: int, gradients: int) -> int:
    """Updates that take about so many gradients, cancelled ones included."""
    each = 1
    if isinstance(policy, Averaging):
        each = policy.gradients(workers) + (workers if policy.cancels and policy.goes_on else 0)
        each = workers if policy.cancels and not policy.goes_on else each
    return max(1, gradients // each)


def side_by_side(name: str, workers: int, gradients: int, repeats: int) -> Row:
    """Gradients a second of both sides for the same runs of a policy, and the ratio."""
    policy, model = cases(workers)[name]
    updates = updates_for(policy, workers, gradients)
    ends: dict[str, list[float]] = {"simulate": [], "SimPy": []}
    rows: list[int] = []
    seeds = {side: itertools.count() for side in ends}  # Each turn another seed, the same one for both.

    def ours() -> None:
        trace = simulate(workers, policy, Exponential(MEAN), updates, next(seeds["simulate"]))
        ends["simulate"].append(trace.seconds)
        rows.append(len(trace))

    def theirs() -> None:
        ends["SimPy"].append(model(updates, next(seeds["SimPy"])).run())

    ours(), theirs()  # How many rows there are is known after a run.
    found = take_turns({"simulate": rate(ours, rows[0]), "SimPy": rate(theirs, rows[0])}, repeats, warm_up=0)
    simulated = [sum(seconds) for seconds in ends.values()]
    if abs(simulated[1] / simulated[0] - 1) > AGREE + 3 * (workers / sum(rows)) ** 0.5:
        raise SystemExit(f"{name}: {simulated[0]} s simulated, SimPy {simulated[1]} s: not the same model")
    ratios = {"simulate / SimPy": ratio(found, "simulate", "SimPy")}
    return {"policy": name, "workers": workers, "gradients": rows[0], **medians(found), **ratios}


def growth(name: str, sizes: list[tuple[int, int]], repeats: int) -> list[Row]:
    """Seconds of `simulate` for each number of workers and gradients, and seconds a gradient beside the first."""
    seeds = itertools.count()

    def run(workers: int, gradients: int) -> float:
        policy, _ = cases(workers)[name]
        updates = updates_for(policy, workers, gradients)
        return seconds(lambda: simulate(workers, policy, Exponential(MEAN), updates, next(seeds))) / gradients

    keys = {str(size): size for size in sizes}
    found = take_turns({key: lambda s=size: run(*s) for key, size in keys.items()}, repeats)
    first, middle = next(iter(keys)), medians(found)
    return [
        {
            "policy": name,
            "workers": workers,
            "gradients": gradients,
            "seconds": middle[key] * gradients,
            "a gradient / first": ratio(found, key, first),
        }
        for key, (workers, gradients) in keys.items()
    ]


def main() -> None:
    """Measure and show."""
    parser = command(__doc__, repeats=5)
    parser.add_argument("--workers", type=at_least_one, default=100, metavar="N", help="workers beside SimPy (100)")
    parser.add_argument(
        "--gradients", type=at_least_one, default=100_000, metavar="N", help="gradients in a run (100000)"
    )
    parser.add_argument("--no-growth", action="store_true", help="leave out how the time grows")
    given = parser.parse_args()
    beside = [side_by_side(name, given.workers, given.gradients, given.repeats) for name in cases(given.workers)]
    tables = [Table("gradients a second", beside)]
    if not given.no_growth:
        repeats = min(given.repeats, 3)
        longer = [(1000, given.gradients * m) for m in (1, 2, 4, 8)]
        wider = [(workers, given.gradients * 4) for workers in (10, 100, 1000, 10_000)]
        tables += [
            Table(words, [row for name in GROWING for row in growth(name, sizes, repeats)])
            for words, sizes in (("growth with gradients", longer), ("growth with workers", wider))
        ]
        tables.append(Table("a million updates", growth("asynchronous", [(1000, 10**6)], repeats)))
    show(tables, given.json)


if __name__ == "__main__":
    main()
