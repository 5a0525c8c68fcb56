"""Random schedules that can have happened, as a Trace, without an engine.

A tiny simulator of its own, so that the tests of the log do not lean on the
code that makes logs.
"""

import dataclasses
import random

import numpy as np
from hypothesis import strategies as st

from asyncsgd_edu.trace import COLUMNS, Ended, Header, InFlight, Trace

HEADER = Header("AsyncTrainer", 1, problem={"name": "none"}, optimizer={"name": "SGD"})


@dataclasses.dataclass(frozen=True)
class Plan:
    """What to simulate: so many steps of so many workers, `per_update` gradients averaged into an update."""

    workers: int
    steps: int
    per_update: int = 1
    dropping: bool = False
    idling: bool = False
    seed: int = 0


plans = st.builds(
    Plan,
    workers=st.integers(1, 7),
    steps=st.integers(0, 80),
    per_update=st.integers(1, 3),
    dropping=st.booleans(),
    idling=st.booleans(),
    seed=st.integers(0, 10**6),
)
async_plans = st.builds(Plan, workers=st.integers(2, 7), steps=st.integers(30, 80), seed=st.integers(0, 10**6))


def simulate(plan: Plan) -> Trace:
    """Play the plan: at each step one worker delivers its gradient, then reads again or idles."""
    chance = random.Random(plan.seed)
    version = 0
    reading = {worker: InFlight(worker, 0, 0, 0.0) for worker in range(plan.workers)}
    numbers = dict.fromkeys(reading, 0)
    waiting: list[tuple[InFlight, float]] = []
    rows: list[list[object]] = []
    for now in map(float, range(1, plan.steps + 1)):
        worker = chance.randrange(plan.workers)
        if worker in reading:
            delivered = (reading.pop(worker), now - 0.5)
            numbers[worker] += 1
            if plan.dropping and chance.random() < 0.2:
                rows.append(_row(*delivered, -1, now, chance))
            else:
                waiting.append(delivered)
        if len(waiting) == plan.per_update:
            rows += [_row(read, ready, version, now, chance) for read, ready in waiting]
            version += 1
            waiting.clear()
        if worker not in reading and not (plan.idling and chance.random() < 0.5):
            reading[worker] = InFlight(worker, numbers[worker], version, now)
    still = (*(read for read, _ in waiting), *reading.values())
    policy = "asynchronous" if plan.per_update == 1 else "k-batch-async"
    return trace_of(rows, plan.workers, Ended("stopped", in_flight=still), policy)


def _row(read: InFlight, ready: float, apply_version: int, now: float, chance: random.Random) -> list[object]:
    loss = chance.choice([float("nan"), float("inf"), 0.1, 2.5])
    return [read.worker, read.batch, read.read_version, apply_version, 0, read.read_time, ready, now, loss]


def trace_of(rows: list[list[object]], workers: int, ended: Ended | None = None, policy: str = "asynchronous") -> Trace:
    """A trace of literal rows, each in the order of COLUMNS."""
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(COLUMNS, ())
    header = dataclasses.replace(HEADER, workers=workers, policy=policy, ended=ended or Ended("finished"))
    return Trace(header, columns)


def small(workers: int = 2, updates: int = 20) -> Trace:
    """Workers that take turns: after the first round every staleness is workers - 1."""
    rows: list[list[object]] = []
    for version in range(updates):
        turn, worker = divmod(version, workers)
        read = version - workers + 1 if turn else 0
        rows.append([worker, turn, read, version, 0, float(read), version + 0.5, version + 0.75, 0.1 * version])
    # Each worker reads again right after its own update.
    again = range(max(1, updates - workers + 1), updates + 1)
    flights = [InFlight((v - 1) % workers, (v - 1) // workers + 1, v, float(v)) for v in again]
    flights += [InFlight(w, 0, 0, 0.0) for w in range(updates, workers)]
    return trace_of(rows, workers, Ended("finished", in_flight=tuple(flights)))


def changed(trace: Trace, column: str, row: int, value: object) -> Trace:
    """The trace with one entry replaced."""
    columns = {name: values.copy() for name, values in trace.columns.items()}
    columns[column][row] = value
    return Trace(trace.header, columns)


def same(one: Trace, other: Trace) -> bool:
    """Equal bit by bit: header, dtypes and columns, NaN equal to NaN."""
    pairs = zip(one.columns.values(), other.columns.values(), strict=True)
    return one.header == other.header and all(
        a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs
    )
