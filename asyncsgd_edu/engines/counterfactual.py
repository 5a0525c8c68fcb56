"""The same race, but for one thing: schedules made from a schedule.

Each function takes a trace and returns one in which the order of events is kept and the
versions are counted anew. Integers only: the arithmetic is done by `replay`.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from asyncsgd_edu.rules.remedies import Remedy
from asyncsgd_edu.trace import Trace

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


def without(trace: Trace, workers: Iterable[int]) -> Trace:
    """The race without these workers: the others read and apply as they did, and what they read lacks those updates.

    Raises ValueError naming the workers there are if one is not among them, or if none would be left.
    """
    gone = check_present("without", workers, trace)
    kept = ~np.isin(trace.worker, gone)
    if not trace.applied[kept].any():
        raise ValueError(f"without {gone} no update is left: the run has workers {present(trace)}")
    return _recounted(trace, kept, trace.applied & kept)


def fresh(trace: Trace, workers: Iterable[int]) -> Trace:
    """The race as if these workers were never stale: each of their gradients is read just before it is applied.

    Raises ValueError naming the workers there are if one is not among them.
    """
    mine = np.isin(trace.worker, check_present("fresh", workers, trace))
    end = trace.flights.end[: len(trace)]
    visible = np.zeros(trace.version + 1)
    np.maximum.at(visible, trace.apply_version[trace.applied] + 1, trace.apply_time[trace.applied])
    now = np.minimum(np.maximum(trace.read_time, visible[end]), trace.apply_time)
    columns = {
        **trace.columns,
        "read_version": np.where(mine, end, trace.read_version),
        "read_spread": np.where(mine, 0, trace.read_spread),
        "read_time": np.where(mine, now, trace.read_time),
        "ready_time": np.where(mine, np.maximum(now, trace.ready_time), trace.ready_time),
    }
    ended = trace.header.ended
    late = tuple(g for g in ended.in_flight if g.worker not in set(trace.worker[mine].tolist()))
    return Trace(replace(trace.header, ended=replace(ended, in_flight=late)), columns)


def drop(trace: Trace, remedy: Remedy | None) -> Trace:
    """The race in which gradients that the remedy does not keep are dropped; their workers read on as they did."""
    if remedy is None or type(remedy).keeps is Remedy.keeps:
        return trace
    read, end, applied = trace.read_version, trace.flights.end[: len(trace)], trace.applied
    counted = np.zeros(trace.version + 1, np.int64)  # Of each version, how many updates are still before it.
    used = np.zeros(len(trace), bool)
    first = np.flatnonzero(np.diff(end, prepend=-1))
    for low, high in zip(first, [*first[1:], len(trace)], strict=True):
        version = int(end[low])
        staleness = counted[version] - counted[read[low:high]]
        used[low:high] = applied[low:high] & np.asarray(remedy.keeps(staleness))
        if applied[low:high].any():
            counted[version + 1] = counted[version] + used[low:high].any()
    return _recounted(trace, np.ones(len(trace), bool), used)


def check_present(name: str, workers: Iterable[int], trace: Trace) -> list[int]:
    """Workers of a trace as a sorted list. Raises TypeError or ValueError naming those there are."""
    try:
        given = list(workers)
    except TypeError:
        raise TypeError(f"{name} must be a list of workers such as [3], got {workers!r}") from None
    there = present(trace)
    for worker in given:
        if isinstance(worker, bool) or worker not in there:
            raise ValueError(f"{name} names worker {worker!r}, the run has workers {there}")
    return sorted({int(worker) for worker in given})


def present(trace: Trace) -> list[int]:
    """Numbers of the workers that the trace has gradients of."""
    flights = [g.worker for g in trace.header.ended.in_flight]
    return sorted({*np.unique(trace.worker).tolist(), *flights})


def _recounted(trace: Trace, kept: Bools, used: Bools) -> Trace:
    """Only the `kept` rows, those not `used` dropped, with versions that count the updates left."""
    end = trace.flights.end[: len(trace)]
    left = np.zeros(trace.version + 1, np.int64)
    left[end[used]] = 1
    counted = np.concatenate([[0], np.cumsum(left)])[: trace.version + 1]
    columns = {
        **trace.columns,
        "read_version": counted[trace.read_version],
        "apply_version": np.where(used, counted[end], -1),
    }
    # What is dropped at a version stands before what is applied to it.
    order = np.lexsort((used, end))
    order = order[kept[order]]
    ended, gone = trace.header.ended, set(trace.worker.tolist()) - set(trace.worker[kept].tolist())
    flights = tuple(
        replace(g, read_version=int(counted[g.read_version])) for g in ended.in_flight if g.worker not in gone
    )
    header = replace(trace.header, ended=replace(ended, in_flight=flights))
    return Trace(header, {name: column[order] for name, column in columns.items()})
