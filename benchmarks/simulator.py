"""Gradients a second of `simulate`, beside the same models written for SimPy; and how the time grows.

    python benchmarks/simulator.py --workers 100 --gradients 100000 --json

Needs SimPy, which the package does not. Each ratio is the median of pairs of runs
that follow each other. Both sides draw exponential durations and log the same of each
gradient. Prints figures and asserts none, except that both sides must have
simulated the same: their seconds per update have to agree.
"""

import argparse
import json
import platform
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import simpy

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
AGREE = (
    0.02  # Relative difference of the two sides' seconds that may be, apart from what chance makes of few gradients.
)


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


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """How long `work` takes, and what it returns."""
    start = time.perf_counter()
    made = work()
    return time.perf_counter() - start, made


def side_by_side(workers: int, gradients: int, repeats: int) -> list[dict[str, Any]]:
    """For each policy: seconds of both sides for the same run, gradients a second, and the ratio."""
    found = []
    for name, (policy, model) in cases(workers).items():
        updates = updates_for(policy, workers, gradients)
        ours, theirs, rows, simulated = [], [], 0, [0.0, 0.0]
        for seed in range(repeats):
            spent, trace = seconds(lambda p=policy, u=updates, s=seed: simulate(workers, p, Exponential(MEAN), u, s))
            ours.append(spent)
            other = model(updates, seed)
            spent, end = seconds(other.run)
            theirs.append(spent)
            rows = len(trace)
            simulated = [simulated[0] + trace.seconds, simulated[1] + end]
        if abs(simulated[1] / simulated[0] - 1) > AGREE + 3 * (workers / (rows * repeats)) ** 0.5:
            raise SystemExit(f"{name}: {simulated[0]} s simulated, SimPy {simulated[1]} s: not the same model")
        found.append(
            {
                "policy": name,
                "gradients": rows,
                "gradients/s": rows / statistics.median(ours),
                "SimPy gradients/s": rows / statistics.median(theirs),
                "ratio": statistics.median(b / a for a, b in zip(ours, theirs, strict=True)),
            }
        )
    return found


def growth(gradients: int, repeats: int) -> list[dict[str, Any]]:
    """Best seconds of `repeats` runs for more and more updates, and for more and more workers."""
    sizes = [(1000, gradients * m) for m in (1, 2, 4, 8)] + [(p, gradients * 4) for p in (10, 100, 1000, 10_000)]
    found = []
    for name in ("asynchronous", "k-sync", "stale-synchronous", "k-async"):
        for workers, rows in sizes:
            policy, _ = cases(workers)[name]
            updates = updates_for(policy, workers, rows)
            runs = (
                seconds(lambda p=policy, u=updates, w=workers, s=s: simulate(w, p, Exponential(MEAN), u, s))[0]
                for s in range(repeats)
            )
            found.append({"policy": name, "workers": workers, "gradients": rows, "seconds": min(runs)})
    return found


def main() -> None:
    """Measure and print, as text or as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=100, metavar="N", help="workers beside SimPy (100)")
    parser.add_argument("--gradients", type=int, default=100_000, metavar="N", help="gradients in a run (100000)")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="pairs of runs (5)")
    parser.add_argument("--no-growth", action="store_true", help="leave out how the time grows")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    for name in ("workers", "gradients", "repeats"):
        if getattr(given, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(given, name)}")
    beside = side_by_side(given.workers, given.gradients, given.repeats)
    million, _ = seconds(lambda: simulate(1000, Asynchronous(), Exponential(MEAN), 10**6))
    grown = [] if given.no_growth else growth(given.gradients, min(given.repeats, 3))
    if given.json:
        versions = {"python": platform.python_version(), "numpy": np.__version__, "simpy": simpy.__version__}
        print(json.dumps({"side by side": beside, "million (s)": million, "growth": grown, **versions}))
        return
    print(f"{'policy':>18}  {'gradients/s':>12}  {'SimPy':>10}  {'ratio':>6}   ({given.workers} workers)")
    for row in beside:
        ours, theirs = f"{row['gradients/s']:>12,.0f}", f"{row['SimPy gradients/s']:>10,.0f}"
        print(f"{row['policy']:>18}  {ours}  {theirs}  {row['ratio']:>6.1f}")
    print(f"\na million asynchronous updates of 1,000 workers: {million:.2f} s\n")
    for row in grown:
        size = f"{row['workers']:>6,} workers  {row['gradients']:>9,} gradients"
        print(f"{row['policy']:>18}  {size}  {row['seconds']:.3f} s")


if __name__ == "__main__":
    main()
