"""Schedules as logs: what a text says is what the columns say, and a log's text is its arithmetic again."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from orders import orders
from schedules import Plan, changed, plans, simulate, small, trace_of

import asyncsgd_edu
from asyncsgd_edu import (
    Asynchronous,
    AsyncTrainer,
    BackupWorkers,
    Constant,
    Exponential,
    KAsync,
    KBatchAsync,
    KBatchSync,
    KSync,
    Quadratic,
    StaleSynchronous,
    Synchronous,
    Trace,
    replay,
)
from asyncsgd_edu.rules.event_columns import events_of_columns
from asyncsgd_edu.rules.events import as_text, parse

ARITHMETIC = ("worker", "batch", "read_version", "apply_version")
POLICIES = [
    Asynchronous(),
    Synchronous(),
    KSync(2),
    KBatchSync(3),
    KAsync(2),
    KBatchAsync(3),
    StaleSynchronous(1),
    BackupWorkers(1),
]


def same_arithmetic(one: Trace, other: Trace) -> bool:
    flights = [
        sorted((g.worker, g.batch, g.read_version) for g in trace.header.ended.in_flight) for trace in (one, other)
    ]
    return flights[0] == flights[1] and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ARITHMETIC
    )


# --- from text to a log


def test_a_race_as_text_is_the_log_that_one_would_write_by_hand() -> None:
    trace = Trace.from_schedule("0r 1r 1a 0a 1r")
    # worker batch read apply spread read ready apply loss
    rows = [[1, 0, 0, 0, 0, 1.0, 2.0, 2.0, np.nan], [0, 0, 0, 1, 0, 0.0, 3.0, 3.0, np.nan]]
    for name, values in trace_of(rows, workers=2).columns.items():
        np.testing.assert_array_equal(getattr(trace, name), values)
    h = trace.header
    assert (h.trainer, h.workers, h.clock, h.seed, h.policy) == ("from_schedule", 2, "virtual", 0, "asynchronous")
    assert h.ended.how == "finished"
    assert [dataclasses.astuple(g) for g in h.ended.in_flight] == [(1, 1, 2, 4.0)]


def test_gradients_of_one_update_stand_together_and_dropped_ones_before_them() -> None:
    trace = Trace.from_schedule("0r 1r 2r 0+ 2d 1a 0r#5 0a")
    assert trace.worker.tolist() == [2, 0, 1, 0]
    assert trace.apply_version.tolist() == [-1, 0, 0, 1]
    assert trace.batch.tolist() == [0, 0, 0, 5]
    assert trace.ready_time[1:3].tolist() == [3.0, 5.0]
    assert trace.apply_time[1:3].tolist() == [5.0, 5.0]
    assert np.isnan(trace.ready_time[0])
    assert trace.header.policy == "averaging"
    assert trace.audit() == []


@given(orders())
def test_the_log_of_any_schedule_is_sound(events: Any) -> None:
    trace = Trace.from_schedule(events, workers=4)
    assert trace.audit() == []
    assert trace.header.workers == 4


@given(orders())
def test_versions_are_the_applies_so_far(events: Any) -> None:
    trace = Trace.from_schedule(events, workers=4)
    applies = np.cumsum([0, *(action == "apply" for _, action, *_ in events)])
    for row in range(len(trace)):
        read, ready, end = (t[row] for t in (trace.read_time, trace.ready_time, trace.apply_time))
        assert events[int(read)][:2] == (trace.worker[row], "read")
        assert applies[int(read)] == trace.read_version[row]
        if trace.apply_version[row] < 0:
            assert events[int(end)] == (trace.worker[row], "drop")
        else:
            assert events[int(ready)][1] == ("apply" if ready == end else "add")
            assert events[int(end)][1] == "apply"
            assert applies[int(end)] == trace.apply_version[row]
            assert "apply" not in [action for _, action, *_ in events[int(ready) : int(end)]]
    reads = sum(action == "read" for _, action, *_ in events)
    assert len(trace) + len(trace.header.ended.in_flight) == reads
    assert trace.updates == applies[-1]


def test_workers_are_as_many_as_are_named_or_more() -> None:
    assert Trace.from_schedule("2r 2a").header.workers == 3
    assert Trace.from_schedule("2r 2a", workers=8).header.workers == 8
    assert Trace.from_schedule("0r 0a", seed=7).header.seed == 7
    with pytest.raises(ValueError, match="workers must be a whole number from 3 to 1000000, got 2"):
        Trace.from_schedule("2r 2a", workers=2)
    with pytest.raises(TypeError, match="workers must be"):
        Trace.from_schedule("2r 2a", workers=3.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed must be"):
        Trace.from_schedule("2r 2a", seed=-1)


# --- from a log to text


@given(orders(actions=("apply", "add"), batches=False))
def test_text_comes_back_from_its_log(events: Any) -> None:
    waiting = {worker for worker, action, *_ in _after_last_apply(events) if action == "add"}
    text = Trace.from_schedule(events, workers=4).schedule()
    # One that waits for an update that never comes is in flight like one that is still computed.
    if not waiting:
        assert text == as_text(events)


def _after_last_apply(events: Any) -> Any:
    last = max((at for at, event in enumerate(events) if event[1] == "apply"), default=-1)
    return events[last + 1 :]


@given(orders())
def test_a_log_comes_back_from_its_text(events: Any) -> None:
    trace = Trace.from_schedule(events, workers=4)
    text = trace.schedule()
    again = Trace.from_schedule(text, workers=4)
    assert same_arithmetic(trace, again)
    assert again.schedule() == text


@given(plans)
def test_a_log_made_elsewhere_comes_back_from_its_text(plan: Plan) -> None:
    trace = simulate(plan)
    again = Trace.from_schedule(trace.schedule(), trace.header.workers)
    assert same_arithmetic(trace, again)
    assert again.audit() == []


@given(plans, st.integers(0, 80))
def test_a_prefix_comes_back_from_its_text(plan: Plan, high: int) -> None:
    trace = simulate(plan)
    while 0 < high < len(trace) and trace.apply_version[high - 1] == trace.apply_version[high] >= 0:
        high -= 1  # Whole updates only.
    part = trace[:high]
    assert same_arithmetic(part, Trace.from_schedule(part.schedule(), part.header.workers))


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("durations", [Exponential(1.0), Constant(1.0)], ids=["exponential", "constant"])
def test_a_simulated_run_comes_back_from_its_text(policy: Any, durations: Any) -> None:
    run = asyncsgd_edu.simulate(5, policy, durations, updates=200, seed=1)
    assert same_arithmetic(run, Trace.from_schedule(run.schedule(), 5))


def test_reads_of_one_version_stand_in_the_order_of_their_times() -> None:
    trace = small(workers=3, updates=6)
    late = changed(changed(trace, "read_time", 0, 0.3), "read_time", 1, 0.2)
    assert late.schedule().startswith("2r 1r 0r 0a ")
    # But not out of its version, however late its clock says it was.
    assert changed(trace, "read_time", 0, 0.6).schedule().startswith("1r 2r 0r 0a ")


def test_times_that_are_unknown_do_not_matter() -> None:
    trace = small(workers=3, updates=9)
    unknown = Trace(trace.header, {**trace.columns, "read_time": np.full(9, np.nan), "apply_time": np.full(9, np.nan)})
    assert same_arithmetic(trace, Trace.from_schedule(unknown.schedule(), 3))


def test_a_skipped_batch_is_named() -> None:
    trace = changed(small(workers=1, updates=3), "batch", 1, 4)
    assert trace.schedule() == "0r 0a 0r#4 0a 0r#2 0a 0r"


def test_a_long_run_comes_back_too() -> None:
    run = asyncsgd_edu.simulate(50, KBatchAsync(4), Exponential(1.0), updates=5_000, seed=2)
    assert same_arithmetic(run, Trace.from_schedule(run.schedule(), 50))


@pytest.mark.parametrize(
    ("trace", "sentence"),
    [
        (small()[4:], "begins at version 0, this log begins at version 4"),
        (changed(small(), "apply_version", 6, 9), "row 6 makes version 9 out of order"),
        (changed(small(), "read_version", 6, -1), "row 6 was read at version -1, there are 0 to 20"),
        (changed(small(), "read_version", 6, 7), "row 6 was read at version 7, after its end"),
        (changed(small(), "read_version", 6, 4), "row 6 was read at version 4, .* while its worker had another"),
    ],
)
def test_a_log_that_cannot_have_happened_is_refused(trace: Trace, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        trace.schedule()


def test_a_gradient_that_ends_within_an_update_is_refused() -> None:
    rows = [[w, 0, 0, a, 0, 0.0, 1.0, 1.0, 0.0] for w, a in ((0, 0), (1, -1), (2, 0))]
    with pytest.raises(ValueError, match="row 1 ends between two gradients of one update"):
        trace_of(rows, workers=3, policy="averaging").schedule()


def test_a_flight_that_cannot_be_is_named_by_its_worker() -> None:
    trace = small()
    with pytest.raises(ValueError, match="worker 1's gradient in flight was read at version 30"):
        events_of_columns(trace.columns, [(1, 10, 30, 0.0)])


def test_an_empty_log_has_no_events() -> None:
    assert trace_of([], workers=2).schedule() == ""
    assert parse("") == events_of_columns(trace_of([], workers=2).columns)


# --- real races


@pytest.mark.usefixtures("eight_devices")
@pytest.mark.parametrize("policy", [Asynchronous(), KBatchAsync(2), KBatchSync(2), StaleSynchronous(1)], ids=str)
def test_a_real_race_lands_where_its_text_does(policy: Any) -> None:
    trainer = AsyncTrainer(Quadratic(), workers=3, policy=policy, durations=Exponential(0.0005), seed=4)
    trainer.fit(updates=15)
    race = trainer.fit(updates=15)
    written = Trace.from_schedule(race.schedule(), workers=3, seed=4)
    assert same_arithmetic(race, written)
    again = replay(written, Quadratic())
    assert np.array_equal(again.parameters[0], race.parameters[0])
    assert np.array_equal(again.loss[again.applied], race.loss[race.applied])
