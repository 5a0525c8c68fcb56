"""Laws 12 to 15 against simulated runs: how long an update takes, and how long a target.

Each function yields the claims of one law. Nothing is predicted here (that is in
`rules.laws` and `rules.stragglers`) and nothing is judged here (that is in `claim`).
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from asyncsgd_edu.engines.recursion import trajectory
from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.lessons import assumptions
from asyncsgd_edu.lessons.claim import Claim, another, named, within
from asyncsgd_edu.rules import laws, stragglers
from asyncsgd_edu.rules.durations import Duration, Exponential, ShiftedExponential, Straggler, Uniform
from asyncsgd_edu.rules.policies import (
    Asynchronous,
    BackupWorkers,
    KAsync,
    KBatchAsync,
    KBatchSync,
    KSync,
    Policy,
    Synchronous,
)
from asyncsgd_edu.trace import Trace

# A learning rate at which staleness does not matter yet, so that a target takes the same number of updates.
SMALL = 0.002


def law_12(seed: int) -> Iterator[Claim]:
    """Seconds per update under each policy."""
    for rule in (KSync, KBatchSync, KAsync, KBatchAsync):
        for k in (1, 2, 4, 8):
            trace = simulate(8, rule(k), Exponential(1.0), 20_000, seed)
            predicted = laws.time_per_update(rule.name, 8, k)
            yield _pace(f"{rule.name}, k = {k} of 8, exponential", trace, predicted, assumptions.with_memory(trace))
    for durations in (ShiftedExponential(1.0, 0.2), Uniform(0.5, 1.5)):
        for k in (2, 8):
            known = durations.order_statistic(k, 8)
            for rule, relation in ((KSync, "="), (KAsync, "<=")):
                trace = simulate(8, rule(k), durations, 10_000, seed)
                predicted = laws.time_per_update(rule.name, 8, k, order_statistic=known)
                what = f"{rule.name}, k = {k} of 8, {named(durations)}"
                yield _pace(what, trace, predicted, assumptions.unlike_workers(trace), relation)
            trace = simulate(8, KBatchAsync(k), durations, 10_000, seed)
            predicted = laws.time_per_update("k-batch-async", 8, k, mean=durations.mean)
            yield _pace(
                f"k-batch-async, k = {k} of 8, {named(durations)}", trace, predicted, assumptions.unlike_workers(trace)
            )
    slow = Straggler(Exponential(1.0), worker=0, factor=20)
    trace = simulate(8, Synchronous(), slow, 2000, seed)
    predicted = laws.time_per_update("synchronous", 8)
    yield _pace("synchronous, one of 8 workers 20 times as slow", trace, predicted, assumptions.with_memory(trace))


def _pace(what: str, trace: Trace, predicted: float, outside: str, relation: str = "=") -> Claim:
    """Seconds per update of a trace against what was predicted, to 3 %."""
    measured = trace.seconds / trace.updates
    return Claim(f"seconds/update, {what}", predicted, measured, within(0.03, predicted), relation, outside)


def time_to(
    target: float, policy: Policy[Any], durations: Duration, seed: int, rate: float = SMALL, runs: int = 8
) -> float:
    """Seconds until |w| is `target` times the start, by 8 workers at a small learning rate; mean of so many runs."""
    updates = int(1.2 * stragglers.updates_to_target(target, rate))
    times = []
    for run in range(runs):
        trace = simulate(8, policy, durations, updates, another(seed, run))
        w = trajectory(trace.read_version, trace.apply_version, rate).w
        version = int(np.flatnonzero(np.abs(w) <= target)[0])
        times.append(trace.apply_time[trace.apply_version == version - 1].max())
    return float(np.mean(times))


def law_13(seed: int) -> Iterator[Claim]:
    """Synchronous over asynchronous, in seconds to a target, at equal learning rate and at one scaled with workers."""
    for durations in (Exponential(1.0), ShiftedExponential(1.0, 0.2)):
        slowest = durations.order_statistic(8, 8)
        free = time_to(0.02, Asynchronous(), durations, seed, runs=32)
        # An eighth of the updates are left, each of the slowest of 8: H_8 of memoryless ones.
        for scale, ratio in (
            (1, laws.time_to_target_ratio(8, slowest, durations.mean)),
            (8, slowest / durations.mean),
        ):
            measured = time_to(0.02, Synchronous(), durations, seed, scale * SMALL, runs=32) / free
            how = "equal learning rates" if scale == 1 else "8 times the learning rate"
            what = f"time to a target, synchronous ({how}) / asynchronous, {named(durations)}"
            # Staleness makes asynchronous sooner by about SMALL times its mean: 1.4 %.
            yield Claim(what, ratio, measured, within(0.04, ratio))


def law_14(seed: int) -> Iterator[Claim]:
    """A worker 100 times as slow: little lost if nobody waits, everything if all do, however stale it is."""
    even, slow = Exponential(1.0), Straggler(Exponential(1.0), worker=0, factor=100)
    rules: tuple[tuple[Policy[Any], float, str], ...] = (
        # Seven workers and a hundredth are left of eight.
        (Asynchronous(), stragglers.updates_per_second(8) / stragglers.updates_per_second(8, slow.factor), "="),
        # Every update waits for the slow one, at least 100 seconds where H_8 were enough.
        (Synchronous(), 100 / laws.harmonic(8), ">="),
    )
    for policy, predicted, relation in rules:
        measured = time_to(0.02, policy, slow, seed) / time_to(0.02, policy, even, seed)
        what = f"time to a target with / without a 100 times slower worker, {policy}"
        yield Claim(what, predicted, measured, within(0.05, predicted), relation)
    rate = 0.004
    updates = stragglers.updates_to_target(0.5, rate)
    for durations, factor in ((even, 1.0), (slow, slow.factor)):
        predicted = updates / stragglers.updates_per_second(8, factor)
        # Within what staleness makes it sooner: a h times its mean, which is 7.
        tolerance = within(rate * 7 + 0.03, predicted)
        measured = time_to(0.5, Asynchronous(), durations, seed, rate, runs=200)
        yield Claim(f"seconds to half the error, asynchronous, {named(durations)}", predicted, measured, tolerance)
    yield from _largest_staleness(slow, seed)


def _largest_staleness(slow: Straggler, seed: int) -> Iterator[Claim]:
    """The largest staleness is enormous, and does no harm: at that of every gradient, the same run explodes."""
    traces = [simulate(8, Asynchronous(), slow, 20_000, another(seed, run)) for run in range(200)]
    predicted = stragglers.largest_staleness(8, slow.factor, 20_000)
    measured = float(np.mean([trace.staleness.max() for trace in traces]))
    what = f"largest staleness in 20,000 updates, mean of 200 runs, {named(slow)}"
    yield Claim(what, predicted, measured, within(0.12, predicted))
    trace = traces[0]
    versions = np.arange(trace.updates)
    stalest = np.maximum(versions - trace.staleness.max(), 0)
    for read, relation, whose in (
        (trace.read_version, "<=", f"{named(slow)}: dies out"),
        (stalest, ">=", "every gradient as stale as the stalest there: explodes"),
    ):
        growth = float(trajectory(read, versions, 0.1).growth)
        yield Claim(f"growth at learning rate 0.1, {whose}", 1.0, growth, relation=relation)


def law_15(seed: int) -> Iterator[Claim]:
    """Waiting for 96 of 100 takes 0.6 of the time of waiting for all."""
    some = simulate(100, BackupWorkers(4), Exponential(1.0), 2000, seed)
    everybody = simulate(100, Synchronous(), Exponential(1.0), 2000, seed)
    predicted = laws.time_per_update("backup-workers", 100, 4) / laws.time_per_update("synchronous", 100)
    measured = (some.seconds / some.updates) / (everybody.seconds / everybody.updates)
    what = "time of 96 of 100 exponential workers / time of all"
    yield Claim(what, predicted, measured, within(0.03, predicted), outside=assumptions.with_memory(everybody))


CLAIMS: dict[int, Callable[[int], Iterator[Claim]]] = {12: law_12, 13: law_13, 14: law_14, 15: law_15}
