"""A run in virtual time: who would apply what to which version, without any arithmetic.

Discrete events, seeded: the same arguments give the same trace, bit for bit, and two
simulations know nothing of each other. The rules are asked of the policy; where a
whole run can be had at once in arrays, `shortcuts` does that.

What is modelled: reading and applying take no time, and a cancelled gradient stops at
the moment of the update, so its worker reads the new version at once. (A thread
cannot be stopped in the middle: it delivers late, and then reads.)
"""

import heapq
import math
from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from asyncsgd_edu.engines import shortcuts
from asyncsgd_edu.engines.schedule import Schedule, each_duration
from asyncsgd_edu.header import Ended, Header, InFlight
from asyncsgd_edu.rules.arguments import MAX_SEED, MAX_UPDATES, whole_number
from asyncsgd_edu.rules.durations import Duration, check_durations
from asyncsgd_edu.rules.policies import (
    MOST_WORKERS,
    Asynchronous,
    Averaging,
    BackupWorkers,
    KAsync,
    KBatchAsync,
    KBatchSync,
    KSync,
    Policy,
    StaleSynchronous,
    Synchronous,
    check_policy,
)
from asyncsgd_edu.trace import COLUMNS, Trace

SHORTCUTS: dict[type, Callable[[int, int, Duration, int, int], Schedule]] = {
    Asynchronous: shortcuts.never_waiting,
    KBatchAsync: shortcuts.never_waiting,
    Synchronous: shortcuts.in_rounds,
    KSync: shortcuts.in_rounds,
    BackupWorkers: shortcuts.in_rounds,
    KAsync: shortcuts.in_groups,
    KBatchSync: shortcuts.in_restarts,
}


def simulate(workers: int, policy: Policy[Any], durations: Duration, updates: int, seed: int = 0) -> Trace:
    """The trace of `updates` updates by `workers` workers under `policy`, in virtual seconds.

    No gradient is computed: `loss` is NaN (`replay` fills it). A cancelled gradient is a
    row with apply_version -1 at the time of its cancellation, its ready_time NaN; one still
    being computed after the last update is in `header.ended.in_flight`. The run ends
    with its last update: nobody reads after it.

    Raises TypeError or ValueError for an argument that is not allowed or does not fit the others.

    >>> from asyncsgd_edu.rules.durations import Constant
    >>> simulate(4, Asynchronous(), Constant(1.0), updates=8).staleness.tolist()
    [0, 1, 2, 3, 3, 3, 3, 3]
    """
    workers = whole_number("workers", workers, 1, MOST_WORKERS)
    updates = whole_number("updates", updates, 1, MAX_UPDATES)
    seed = whole_number("seed", seed, 0, MAX_SEED)
    policy = check_policy(policy)
    policy.begin(workers)  # Says what does not fit.
    if check_durations(durations) is None:
        raise TypeError("a simulation needs durations such as Constant(0.01) or Exponential(0.01), got None")
    durations.check_workers(workers)
    header = Header(
        trainer="simulate",
        workers=workers,
        policy=str(policy),
        seed=seed,
        clock="virtual",
        durations=durations.describe(),
        packages={"numpy": np.__version__},
    )
    made = schedule(workers, policy, durations, updates, seed)
    if not np.isfinite(made.apply_time[-1]):
        raise ValueError(f"the durations {durations!r} add up to more seconds than a float can hold")
    return as_trace(header, made)


def schedule(workers: int, policy: Policy[Any], durations: Duration, updates: int, seed: int) -> Schedule:
    """The schedule by the fastest way that there is for the policy."""
    kind = type(policy)  # Not isinstance: a subclass may have changed the rule, and then only asking it is right.
    if kind in SHORTCUTS and isinstance(policy, Averaging):
        return SHORTCUTS[kind](workers, policy.gradients(workers), durations, updates, seed)
    if isinstance(policy, StaleSynchronous) and kind is StaleSynchronous and policy.bound <= updates // workers + 8:
        # A looser bound would have the others' whole lead computed for the slowest worker too.
        return shortcuts.in_waves(workers, policy.bound, durations, updates, seed)
    return by_events(workers, policy, durations, updates, seed)


def as_trace(header: Header, made: Schedule) -> Trace:
    """The trace of a finished run with that header and schedule."""
    rows = len(made.worker)
    columns = {**made._asdict(), "read_spread": np.zeros(rows, np.int32), "loss": np.full(rows, np.nan, np.float32)}
    header = replace(header, ended=Ended("finished", in_flight=made.in_flight))
    return Trace(header, {name: columns[name] for name in COLUMNS})


def by_events(workers: int, policy: Policy[Any], durations: Duration, updates: int, seed: int) -> Schedule:
    """The schedule by playing the run, gradient by gradient, with the policy itself; any policy.

    A heap holds when each gradient will be ready; of those ready in the same instant
    the one with the lower number goes first, then the one of the lower worker.
    """
    state, version, now = policy.begin(workers), 0, 0.0
    spent = [each_duration(durations, seed, worker) for worker in range(workers)]
    batch = [0] * workers
    computing = [(0, 0.0)] * workers  # Read version and time of the gradient that each works on.
    idle = [False] * workers
    ready: list[list[tuple[int, int, float, float]]] = [[] for _ in range(workers)]  # Delivered, not yet applied.
    log = array("d")  # Seven numbers a row: as small as the trace.
    events = [(next(spent[worker]), 0, worker) for worker in range(workers)]
    heapq.heapify(events)
    while True:
        now, number, worker = heapq.heappop(events)
        if idle[worker] or number != batch[worker]:
            continue  # Cancelled meanwhile.
        idle[worker] = True
        ready[worker].append((number, *computing[worker], now))
        state, (applied, dropped, reading) = policy.ready(state, worker)
        for w in applied:
            at, read, since, until = ready[w].pop(0)
            log.extend((w, at, read, version, since, until, now))
        if applied:
            version += 1
        for w in dropped:
            read, since = computing[w]
            log.extend((w, batch[w], read, -1, since, math.nan, now))
            idle[w] = True
        if version == updates:
            break
        for w in reading:
            idle[w] = False
            batch[w] += 1
            computing[w] = version, now
            heapq.heappush(events, (now + next(spent[w]), batch[w], w))
    flights = tuple(InFlight(w, batch[w], *computing[w]) for w in range(workers) if not idle[w])
    return _from_log(log, flights)


def _from_log(log: "array[float]", in_flight: tuple[InFlight, ...]) -> Schedule:
    columns = np.frombuffer(log).reshape(-1, 7).T
    numbers, times = columns[:4].astype(np.int64), columns[4:].copy()
    return Schedule(numbers[0], numbers[1], numbers[2], numbers[3], times[0], times[1], times[2], in_flight)
