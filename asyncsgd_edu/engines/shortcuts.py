"""Schedules of whole runs at once, for the policies whose arithmetic allows it.

Each function does in arrays what `simulator.by_events` does gradient by gradient
with the policy itself, and gives the same schedule bit for bit: a test holds them
equal. Where two gradients are ready in the same instant, the one with the lower
number goes first, then the one of the lower worker.
"""

import heapq
import math
from array import array

import numpy as np

from asyncsgd_edu.engines.schedule import Floats, Ints, Schedule, all_applied, each_duration, numbered, versions
from asyncsgd_edu.header import InFlight
from asyncsgd_edu.rules.durations import Duration


def never_waiting(workers: int, per_update: int, durations: Duration, updates: int, seed: int) -> Schedule:
    """Asynchronous, and K-batch-async with `per_update` gradients averaged: nobody ever waits.

    So each worker's gradients are ready at the running sums of its own durations,
    whatever the others do, and sorting all of them gives the order of arrival.
    """
    needed = updates * per_update
    worker, number, ready = _first_arrivals(workers, durations, needed, seed)
    order = np.argsort(ready, kind="stable")
    if (
        ready[order][1:] == ready[order][:-1]
    ).any():  # Chance hardly ever ties, and sorting by three keys takes longer.
        order = np.lexsort((worker, number, ready))
    order = order[:needed]
    ready = ready[order]
    return all_applied(workers, per_update, worker[order], ready, np.arange(1, needed + 1) // per_update, ready)


def in_groups(workers: int, per_update: int, durations: Duration, updates: int, seed: int) -> Schedule:
    """K-async: whoever is among the first `per_update` waits for the last of them, then all of them read.

    Each update depends on the one before, so this is a loop, but one that keeps no
    more than who came when.
    """
    share = math.ceil(updates * per_update / workers)
    spent = [each_duration(durations, seed, w, share).__next__ for w in range(workers)]
    events = [(spent[w](), 0, w) for w in range(workers)]
    heapq.heapify(events)
    who, when = array("q"), array("d")
    for _ in range(updates):
        group = [heapq.heappop(events) for _ in range(per_update)]
        now = group[-1][0]
        for time, number, w in group:
            who.append(w)
            when.append(time)
            heapq.heappush(events, (now + spent[w](), number + 1, w))
    ready = np.array(when)
    together = np.repeat(ready[per_update - 1 :: per_update], per_update)
    return all_applied(workers, per_update, np.array(who), ready, versions(updates, per_update) + 1, together)


def in_restarts(workers: int, per_update: int, durations: Duration, updates: int, seed: int) -> Schedule:
    """K-batch-sync: all start together, whoever delivers starts again, until `per_update` have been delivered.

    All are then cancelled but the last, which has not started again.
    """
    arrived, ready = _restarts(workers, per_update, durations, updates, seed)
    others = np.arange(workers - 1)
    cancelled = others + (others >= arrived[:, -1:])
    rows = per_update + workers - 1
    worker = np.concatenate([arrived, cancelled], axis=1).ravel()
    batch, before = numbered(worker, workers)
    version = versions(updates, rows)
    until = np.pad(ready, ((0, 0), (0, workers - 1)), constant_values=np.nan).ravel()
    start = np.repeat(np.concatenate([[0.0], ready[:-1, -1]]), rows)
    again = (before >= 0) & (before // rows == version)  # It has delivered since the update.
    return Schedule(
        worker,
        batch,
        version,
        np.where(np.tile(np.arange(rows) < per_update, updates), version, -1),
        np.where(again, until[before], start),
        until,
        np.repeat(ready[:, -1], rows),
        (),
    )


def _restarts(workers: int, per_update: int, durations: Duration, updates: int, seed: int) -> tuple[Ints, Floats]:
    """Who delivers to each update, and when; in order of arrival, each of shape [updates, per_update]."""
    spent = [each_duration(durations, seed, w, updates).__next__ for w in range(workers)]
    number = [0] * workers
    who, when, now = array("q"), array("d"), 0.0
    for _ in range(updates):
        events = [(now + spent[w](), number[w], w) for w in range(workers)]
        heapq.heapify(events)
        for _ in range(per_update - 1):
            now, at, w = events[0]
            heapq.heapreplace(events, (now + spent[w](), at + 1, w))
            who.append(w)
            when.append(now)
        now, _, w = events[0]
        who.append(w)
        when.append(now)
        for _, at, w in events:
            number[w] = at + 1
    return np.array(who).reshape(updates, per_update), np.array(when).reshape(updates, per_update)


def _first_arrivals(workers: int, durations: Duration, needed: int, seed: int) -> tuple[Ints, Ints, Floats]:
    """Worker, number and time of at least the first `needed` gradients to be ready; worker by worker."""
    share = needed / workers
    guess = min(needed, math.ceil(share + 4 * math.sqrt(share)) + 8)
    counts = np.full(workers, guess)
    times = list(np.cumsum([durations.series(seed, w, guess) for w in range(workers)], axis=1))
    while True:
        ready, worker = np.concatenate(times), np.repeat(np.arange(workers), counts)
        number = np.arange(len(ready)) - np.repeat(np.cumsum(counts) - counts, counts)
        # The horizon can only come nearer as more is known, so who is beyond it need not be asked again.
        horizon = np.partition(ready, needed - 1)[needed - 1]
        tied = np.sort(number[ready == horizon])[needed - 1 - np.count_nonzero(ready < horizon)]
        last = ready[np.cumsum(counts) - 1]
        unknown = (last < horizon) | ((last == horizon) & (counts <= tied + 1))
        short = np.flatnonzero(unknown & (counts < needed))
        if not len(short):
            known = ready <= horizon
            return worker[known], number[known], ready[known]
        counts[short] = np.minimum(needed, 2 * counts[short])
        for w in short:
            times[w] = np.cumsum(durations.series(seed, int(w), int(counts[w])))


def in_rounds(workers: int, per_update: int, durations: Duration, updates: int, seed: int) -> Schedule:
    """K-sync, synchronous and backup workers: all start together, the fastest `per_update` are averaged.

    The rest are cancelled at the moment of the update.
    """
    spent = np.stack([durations.series(seed, w, updates) for w in range(workers)], axis=1)
    slowest = np.partition(spent, per_update - 1, axis=1)[:, per_update - 1]
    end = np.cumsum(slowest)
    start = np.concatenate([[0.0], end[:-1]])
    ready = start[:, None] + spent
    order = np.argsort(ready, axis=1, kind="stable")
    order[:, per_update:].sort(axis=1)  # Cancelled together: in order of worker.
    ready = np.take_along_axis(ready, order, axis=1)
    ready[:, per_update:] = np.nan  # They never were.
    version = versions(updates, workers)
    applied = np.tile(np.arange(workers) < per_update, updates)
    return Schedule(
        order.ravel(),
        version,
        version,
        np.where(applied, version, -1),
        np.repeat(start, workers),
        ready.ravel(),
        np.repeat(end, workers),
        (),
    )


def in_waves(workers: int, bound: int, durations: Duration, updates: int, seed: int) -> Schedule:
    """Stale-synchronous: a worker starts iteration i once everybody has done iteration i - bound - 1."""
    share = updates / workers
    rounds = int(share + min(bound, 4 * math.sqrt(share))) + 8
    enough = (updates + (workers - 1) * (1 + bound)) // workers + 1  # By then somebody must be past the end.
    while True:
        rounds = min(rounds, enough, updates + 1)
        start, ready = _waves(workers, bound, durations, rounds, seed)
        # Row by row is by number, then by worker: a stable sort keeps that among equal times.
        order = np.argsort(ready, axis=None, kind="stable")
        batch, worker = np.divmod(order[:updates], workers)
        done = np.bincount(worker, minlength=workers)
        if done.max() < rounds:
            break
        rounds *= 2
    arrival = np.empty((rounds, workers), np.int64)
    arrival.flat[order] = np.arange(len(order))
    read = np.zeros((rounds, workers), np.int64)
    read[1:] = arrival[:-1] + 1
    everybody = arrival.max(axis=1, keepdims=True)[: max(0, rounds - bound - 1)] + 1
    read[bound + 1 :] = np.maximum(read[bound + 1 :], everybody)
    in_flight = tuple(
        InFlight(w, int(done[w]), int(read[done[w], w]), float(start[done[w], w]))
        for w in range(workers)
        if read[done[w], w] < updates  # Else it waits, or made the last update.
    )
    cut, time = (batch, worker), ready[batch, worker]
    return Schedule(worker, batch, read[cut], np.arange(updates), start[cut], time, time, in_flight)


def _waves(workers: int, bound: int, durations: Duration, rounds: int, seed: int) -> tuple[Floats, Floats]:
    """When each worker starts and ends its first so many iterations; each of shape [rounds, workers]."""
    ready = np.stack([durations.series(seed, w, rounds) for w in range(workers)], axis=1)
    start = np.zeros_like(ready)
    for i in range(1, rounds):
        start[i] = ready[i - 1]
        if i > bound:
            np.maximum(start[i], ready[i - bound - 1].max(), out=start[i])
        ready[i] += start[i]
    return start, ready
