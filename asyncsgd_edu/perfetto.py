"""A version log as Chrome trace events, for Perfetto or chrome://tracing.

Format: "Trace Event Format" (Google, 2016), JSON object form. One track a worker:
a slice for each gradient's computation, one for its wait, and a flow arrow from
the update that wrote a version to each read of it.
"""

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from asyncsgd_edu.trace import Trace

MICROSECONDS = 1e6  # Times in the format are microseconds.


def write(path: str | os.PathLike[str], trace: "Trace") -> None:
    """Write the events of `trace` to `path`, one a line."""
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        file.write(",\n".join(json.dumps(event, separators=(",", ":")) for event in events(trace)))
        file.write("\n]}\n")


def events(trace: "Trace") -> Iterator[dict[str, Any]]:
    """The events of a trace, times in microseconds from the run's start."""
    label = f"{trace.header.trainer}, {trace.header.clock} time"
    yield _event("M", "process_name", 0, args={"name": f"{label}; {trace.header.injected}".rstrip("; ")})
    for worker in range(trace.header.workers):
        yield _event("M", "thread_name", worker, args={"name": f"worker {worker}"})
    # Row of the update that wrote each version; of gradients averaged into one update, the last.
    writer = {int(version) + 1: row for row, version in enumerate(trace.apply_version) if version >= 0}
    for row in range(len(trace)):
        worker, read = int(trace.worker[row]), int(trace.read_version[row])
        times = np.array([trace.read_time[row], trace.ready_time[row], trace.apply_time[row]]) * MICROSECONDS
        if not np.isfinite(times).all():
            continue  # A gradient that never became ready has no slice.
        applied = int(trace.apply_version[row])
        facts = {"batch": int(trace.batch[row]), "read_version": read, "apply_version": applied}
        if applied >= 0:
            facts["staleness"] = applied - read
        begin, ready, end = times.tolist()
        yield _event("X", "compute", worker, ts=begin, dur=ready - begin, args=facts)
        yield _event("X", "wait" if applied >= 0 else "wait, dropped", worker, ts=ready, dur=end - ready, args=facts)
        if read in writer:
            source = writer[read]
            wrote = float(trace.apply_time[source]) * MICROSECONDS
            yield _event("s", "version", int(trace.worker[source]), ts=wrote, id=row, cat="version")
            yield _event("f", "version", worker, ts=begin, id=row, cat="version", bp="e")


def _event(phase: str, name: str, worker: int, **more: Any) -> dict[str, Any]:
    return {"ph": phase, "name": name, "pid": 0, "tid": worker, **more}
