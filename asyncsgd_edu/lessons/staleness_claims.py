"""Laws 1, 2, 3, 5, 7, 16 and 20 against simulated runs: how stale, and who meets whom.

Each function yields the claims of one law. Nothing is predicted here (that is in
`rules.laws`) and nothing is judged here (that is in `claim`).
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from asyncsgd_edu.engines.recursion import trajectory
from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.lessons import assumptions
from asyncsgd_edu.lessons.claim import Claim, named, within
from asyncsgd_edu.rules import laws
from asyncsgd_edu.rules.durations import Duration, Exponential, ShiftedExponential, Straggler, Uniform
from asyncsgd_edu.rules.policies import (
    Asynchronous,
    BackupWorkers,
    KAsync,
    KBatchAsync,
    KBatchSync,
    KSync,
    Policy,
    StaleSynchronous,
    Synchronous,
)

DURATIONS: tuple[Duration, ...] = (
    Exponential(1.0),
    Uniform(0.8, 1.2),
    ShiftedExponential(1.0, 0.2),
    Straggler(Exponential(1.0), worker=0, factor=100),
)


def every_policy(k: int) -> tuple[Policy[Any], ...]:
    """One of each, waiting for `k` gradients where it waits for some."""
    first = (KSync(k), KBatchSync(k), KAsync(k), KBatchAsync(k))
    return (Asynchronous(), Synchronous(), *first, StaleSynchronous(k), BackupWorkers(k - 1))


def law_1(seed: int) -> Iterator[Claim]:
    """Conservation: staleness can be moved about, never removed."""
    for durations in DURATIONS:
        trace = simulate(8, Asynchronous(), durations, 5000, seed)
        total = int(trace.flights.age.sum())
        what = f"(N - 1) T = staleness + ages at the end, 8 workers, {named(durations)}"
        yield Claim(what, laws.mean_staleness(8) * 5000, total, outside=assumptions.idle_workers(trace))
    broken = [len(simulate(8, p, d, 500, seed).audit()) for p in every_policy(3) for d in DURATIONS]
    yield Claim(f"laws that {len(broken)} logs of every policy break", 0, sum(broken))
    for gradients in (30, 15, 2, 1):
        trace = simulate(30, KBatchAsync(gradients), Exponential(1.0), 60_000 // gradients, seed)
        mean = laws.mean_staleness(30, gradients)
        what = f"mean staleness, 30 workers, updates of {gradients}"
        yield Claim(what, mean, trace.mean_staleness, within(0.03, mean), outside=assumptions.idle_workers(trace))
    trace = simulate(8, StaleSynchronous(0), Exponential(1.0), 5000, seed)
    yield Claim(
        "mean staleness, 8 workers that wait for the slowest",
        laws.mean_staleness(8),
        trace.mean_staleness,
        within(0.03, 7),
        outside=assumptions.idle_workers(trace),
    )


def law_2(seed: int) -> Iterator[Claim]:
    """Synchronous: nothing is stale, and an update has one gradient of every worker."""
    trace = simulate(8, Synchronous(), Exponential(1.0), 1000, seed)
    yield Claim("largest staleness, synchronous", 0, int(trace.staleness.max()))
    rounds = np.sort(trace.worker[trace.applied].reshape(-1, 8), axis=1)
    complete = int((rounds == np.arange(8)).all(axis=1).sum())
    yield Claim("updates that average one gradient of each of 8 workers", trace.updates, complete)


def law_3(seed: int) -> Iterator[Claim]:
    """One worker is plain gradient descent, bit for bit."""
    plain = trajectory(np.arange(300), np.arange(300), 0.1).w
    for policy in every_policy(1):
        trace = simulate(1, policy, Exponential(1.0), 300, seed)
        w = trajectory(trace.read_version, trace.apply_version, 0.1).w
        yield Claim(f"values that differ from plain descent, one worker, {policy}", 0, int((w != plain).sum()))


def law_5(seed: int) -> Iterator[Claim]:
    """The geometric distribution of memoryless workers, and no other's."""
    for durations in (Exponential(1.0), Uniform(0.8, 1.2)):
        trace = simulate(8, Asynchronous(), durations, 200_000, seed)
        tau, outside = trace.staleness, assumptions.with_memory(trace)
        law = laws.geometric_staleness(8, int(tau.max()))
        what = f"8 workers, {named(durations)}"
        yield Claim(f"variance of staleness, {what}", 56, tau.var(), within(0.05, 56), outside=outside)
        away = np.abs(np.bincount(tau) / len(tau) - law).sum() / 2
        yield Claim(f"distance of staleness from geometric, {what}", 0, away, 0.02, outside=outside)


def law_7(seed: int) -> Iterator[Claim]:
    """Staleness under n-softsync hardly ever passes 2 n, if workers vary little."""
    for durations in (Uniform(0.9, 1.1), Exponential(1.0)):
        for n in (1, 2, 15, 30):
            trace = simulate(30, KBatchAsync(30 // n), durations, 2000 * n, seed)
            share = float((trace.staleness > 2 * n).mean())
            what = f"P(staleness > 2 n), {n}-softsync of 30 workers, {named(durations)}"
            yield Claim(what, 1e-4, share, relation="<=", outside=assumptions.varying_durations(trace))


def law_16(seed: int) -> Iterator[Claim]:
    """Stale-synchronous: a bound on staleness, and no speed against a worker that stays slow."""
    slow = Straggler(Exponential(1.0), worker=0, factor=20)
    for slack in (0, 1, 4):
        bound = laws.stale_synchronous_bound(8, slack)
        largest = max(
            int(simulate(8, StaleSynchronous(slack), d, 8000, seed).staleness.max()) for d in (Exponential(1.0), slow)
        )
        yield Claim(f"largest staleness, 8 workers, slack {slack}", bound, largest, relation="<=")
    for slack in (0, 1, 4, 16):
        trace = simulate(8, StaleSynchronous(slack), slow, 160_000, seed)
        # All wait for the slow one, in the end: 8 updates in each of its 20 seconds.
        what = f"updates/s, one of 8 workers 20 times as slow, slack {slack}"
        yield Claim(what, 8 / 20, trace.updates / trace.seconds, within(0.1, 8 / 20))


def law_20(seed: int) -> Iterator[Claim]:
    """Gradients under way together conflict as often as two examples share a parameter."""
    random = np.random.default_rng((seed, 20))
    trace = simulate(8, Asynchronous(), Exponential(1.0), 100_000, seed)
    overlapped = np.flatnonzero(trace.staleness > 0)
    for touched in (2, 6, 20):
        examples = np.zeros((400, 500), bool)
        np.put_along_axis(examples, random.random(examples.shape).argsort(axis=1)[:, :touched], True, axis=1)
        drawn = random.integers(len(examples), size=len(trace))
        # A gradient that was under way during the update just before its own.
        mine, other = drawn[overlapped], drawn[overlapped - 1]
        mine, other = mine[mine != other], other[mine != other]
        rate = float((examples[mine] & examples[other]).any(axis=1).mean())
        rho = laws.conflict_rate(examples)
        what = f"conflicts, examples touch {touched} of 500 parameters"
        yield Claim(what, rho, rate, within(0.05, rho) + 0.001)


CLAIMS: dict[int, Callable[[int], Iterator[Claim]]] = {
    1: law_1,
    2: law_2,
    3: law_3,
    5: law_5,
    7: law_7,
    16: law_16,
    20: law_20,
}
