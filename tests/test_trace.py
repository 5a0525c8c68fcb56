"""The version log: sound ones pass the audit, damaged ones are named; its numbers, its cuts; it never changes."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedules import HEADER, Plan, async_plans, changed, plans, simulate, small, trace_of

from asyncsgd_edu import Trace, TraceError
from asyncsgd_edu.trace import COLUMNS, Ended

# --- the audit


@given(plans)
def test_a_schedule_that_can_have_happened_is_sound(plan: Plan) -> None:
    assert simulate(plan).audit() == []


@given(plans, st.integers(0, 80), st.integers(0, 80))
def test_a_stretch_of_a_sound_log_is_sound(plan: Plan, low: int, high: int) -> None:
    trace = simulate(plan)
    assert trace[low:high].audit() == []
    assert trace[low:].audit() == []


@given(plans)
def test_staleness_ages_and_others_agree_when_counted_the_slow_way(plan: Plan) -> None:
    plan = dataclasses.replace(plan, per_update=1)
    trace = simulate(plan)
    rows = trace.to_frame()
    flights = [(w, r, a if a >= 0 else None, i) for i, (w, r, a) in enumerate(rows[_WRA].itertuples(index=False))]
    others, versions = 0, 0
    for i, (worker, _, applied, _) in enumerate(flights):
        if applied is None:
            continue
        versions += 1
        # A gradient is in flight at this update if it was read before it and ends after it in the log.
        others += sum(1 for w, r, _, j in flights if j > i and r <= applied and w != worker)
        others += sum(1 for g in trace.header.ended.in_flight if g.read_version <= applied and g.worker != worker)
    assert versions == trace.updates
    assert int(trace.flights.age.sum()) == others


_WRA = ["worker", "read_version", "apply_version"]


@given(async_plans, st.data())
def test_a_version_written_twice_is_named(plan: Plan, data: st.DataObject) -> None:
    trace = simulate(plan)
    row = data.draw(st.integers(1, len(trace) - 1))
    columns = {name: values.copy() for name, values in trace.columns.items()}
    columns["apply_version"][row:] -= 1
    columns["read_version"] = np.minimum(columns["read_version"], columns["apply_version"])
    assert _laws(Trace(trace.header, columns)) >= {"versions"}


@given(async_plans, st.data())
def test_a_lost_version_is_named(plan: Plan, data: st.DataObject) -> None:
    trace = simulate(plan)
    row = data.draw(st.integers(0, len(trace) - 1))
    columns = {name: values.copy() for name, values in trace.columns.items()}
    columns["apply_version"][row:] += 1
    broken = Trace(trace.header, columns).audit()
    assert any(b.startswith("versions") and str(int(trace.apply_version[row]) + 1) in b for b in broken), broken


@given(async_plans, st.data())
def test_a_read_after_its_apply_is_named_with_its_row(plan: Plan, data: st.DataObject) -> None:
    trace = simulate(plan)
    row = data.draw(st.integers(0, len(trace) - 1))
    broken = changed(trace, "read_version", row, trace.apply_version[row] + 1).audit()
    assert any(b.startswith(f"staleness: row {row} ") for b in broken), broken


@given(async_plans, st.data(), st.sampled_from(["read_time", "ready_time", "apply_time"]))
def test_times_out_of_order_are_named_with_their_row(plan: Plan, data: st.DataObject, column: str) -> None:
    trace = simulate(plan)
    row = data.draw(st.integers(0, len(trace) - 1))
    value = -1.0 if column != "read_time" else 1e6
    broken = changed(trace, column, row, value).audit()
    assert [b for b in broken if b.startswith(f"times: row {row} ")], broken


@given(async_plans, st.data())
def test_a_worker_with_two_gradients_at_once_breaks_conservation(plan: Plan, data: st.DataObject) -> None:
    trace = simulate(plan)
    second = [i for i in range(len(trace)) if trace.batch[i] > 0 and trace.apply_version[i] > trace.batch[i]]
    # Its second gradient claims to have been read with the first one still out: at an earlier version.
    rows = [i for i in second if trace.read_version[i] >= 2 and _before(trace, i) > 0]
    if rows:
        row = data.draw(st.sampled_from(rows))
        assert "conservation" in _laws(changed(trace, "read_version", row, _before(trace, row) - 1))


def test_one_worker_cannot_be_stale() -> None:
    fresh = small(workers=1)
    assert fresh.audit() == []
    stale = np.maximum(0, fresh.read_version - 1)
    # Its own update is in the parameters before it reads again, so a read just before it cannot be.
    assert _laws(Trace(fresh.header, {**fresh.columns, "read_version": stale})) >= {"conservation"}


def test_a_forgotten_gradient_in_flight_leaves_the_law_intact() -> None:
    trace = small(workers=4)
    ended = dataclasses.replace(trace.header.ended, in_flight=())
    assert Trace(dataclasses.replace(trace.header, ended=ended), trace.columns).audit() == []


@pytest.mark.parametrize("worker", [-1, 2, 99])
def test_a_stranger_is_named(worker: int) -> None:
    assert any(f"row 7 names worker {worker} of 2" in b for b in changed(small(), "worker", 7, worker).audit())


def test_a_negative_read_version_is_named() -> None:
    assert any("row 0" in b and "negative read_version" in b for b in changed(small(), "read_version", 0, -1).audit())


def _laws(trace: Trace) -> set[str]:
    return {sentence.partition(":")[0] for sentence in trace.audit()}


def _before(trace: Trace, row: int) -> int:
    """Version at which the worker of `row` applied its gradient before that one."""
    return int(trace.apply_version[:row][trace.worker[:row] == trace.worker[row]].max(initial=0))


# --- numbers


def test_numbers_of_a_log_that_was_counted_by_hand() -> None:
    rows = [
        # worker batch read apply spread read ready apply loss
        [0, 0, 0, 0, 0, 0.0, 0.4, 0.5, 4.0],
        [1, 0, 0, 1, 0, 0.0, 0.7, 0.8, 3.0],
        [2, 0, 0, -1, 0, 0.0, 0.8, 0.9, 9.0],
        [0, 1, 1, 2, 0, 0.5, 0.9, 1.0, 2.0],
    ]
    trace = trace_of(rows, workers=3)
    assert trace.staleness.tolist() == [0, 1, 1]
    assert (len(trace), trace.updates, trace.version, trace.seconds) == (4, 3, 3, 1.0)
    assert trace.mean_staleness == pytest.approx(2 / 3)
    assert trace.flights.age.tolist() == [0, 1, 2, 1]
    assert trace.audit() == []


def test_averaged_gradients_count_as_one_update() -> None:
    rows = [[w, v, v, v, 0, float(v), v + 0.5, v + 0.75, 1.0] for v in range(3) for w in range(4)]
    trace = trace_of(rows, workers=4, policy="synchronous")
    assert (len(trace), trace.updates, trace.staleness.max()) == (12, 3, 0)
    assert trace.audit() == []
    # A cut between two gradients of one update is still part of a sound log.
    assert trace[2:7].audit() == []


def test_an_empty_log_has_no_updates_and_a_summary() -> None:
    trace = trace_of([], workers=2)
    assert (len(trace), trace.updates, trace.seconds, trace.audit()) == (0, 0, 0.0, [])
    assert np.isnan(trace.mean_staleness)
    assert "after 0 updates" in trace.summary()


def test_a_log_of_dropped_gradients_only_has_a_summary() -> None:
    trace = trace_of([[0, 0, 0, -1, 0, 0.0, 0.5, float("nan"), 1.0]], workers=1)
    assert "1 dropped" in trace.summary()


def test_summary_says_what_the_columns_say() -> None:
    trace = small(workers=4, updates=40)
    text = trace.summary()
    assert "finished after 40 updates" in text
    assert f"mean {trace.mean_staleness:.2f} (N - 1 = 3)" in text
    assert text.endswith("audit: sound")
    assert "audit: times: row 3" in changed(trace, "read_time", 3, 1e9).summary()


def test_summary_says_how_a_run_failed_and_what_was_injected() -> None:
    header = dataclasses.replace(
        HEADER,
        durations={"law": "Exponential", "scale": 0.01},
        ended=Ended("failed", version=3, worker=2, error="ValueError: no"),
    )
    text = Trace(header, dict.fromkeys(COLUMNS, ())).summary()
    assert "worker 2 failed: ValueError: no" in text
    assert "Exponential durations injected (scale 0.01; seconds)" in text


def test_to_frame_has_the_columns_and_the_staleness() -> None:
    trace = changed(small(), "apply_version", 19, -1)
    frame = trace.to_frame()
    assert set(frame.columns) == {*COLUMNS, "staleness"}
    assert frame["staleness"].dropna().tolist() == trace.staleness.tolist()
    assert frame["staleness"].isna().tolist() == (~trace.applied).tolist()
    frame.loc[0, "worker"] = 1  # The frame is the reader's own.
    assert trace.worker[0] == 0


# --- a trace never changes


@pytest.mark.parametrize("column", COLUMNS)
def test_columns_are_read_only(column: str) -> None:
    trace = small()
    with pytest.raises(ValueError, match="read-only"):
        getattr(trace, column)[0] = 1


def test_columns_have_the_documented_types() -> None:
    assert {name: values.dtype for name, values in small().columns.items()} == COLUMNS


@pytest.mark.parametrize("rows", [3, "a", slice(0, 10, 2), (1, 2)])
def test_a_trace_is_cut_only_in_one_stretch(rows: object) -> None:
    with pytest.raises(TypeError, match="slice without step"):
        small()[rows]  # type: ignore[index]


def test_a_slice_keeps_what_it_holds() -> None:
    trace = small(workers=3, updates=20)
    assert trace[:5].updates == 5
    assert trace[5:15].apply_version.tolist() == list(range(5, 15))
    assert trace[5:15].version == 15
    assert trace[:5].header.ended.in_flight == ()
    assert trace[5:].header.ended.in_flight == trace.header.ended.in_flight
    assert len(trace[:0]) == len(trace[15:5]) == 0
    assert trace[-3:].updates == 3


def test_columns_that_are_missing_or_of_unequal_length_are_refused() -> None:
    columns = small().columns
    with pytest.raises(TraceError, match="columns"):
        Trace(HEADER, {k: v for k, v in columns.items() if k != "loss"})
    with pytest.raises(TraceError, match="one shape"):
        Trace(HEADER, {**columns, "loss": columns["loss"][:3]})


def test_a_row_takes_at_most_100_bytes_in_memory() -> None:
    rows = 50_000
    version = np.arange(rows)
    values = [version % 8, version // 8, np.maximum(0, version - 7), version, 0 * version]
    values += [version + t for t in (0.0, 0.5, 0.75)] + [np.ones(rows)]
    tracemalloc.start()
    columns = dict(zip(COLUMNS, [np.array(v, d) for v, d in zip(values, COLUMNS.values(), strict=True)], strict=True))
    trace = Trace(dataclasses.replace(HEADER, workers=8), columns)
    del columns
    trace.audit(), trace.summary()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(v.nbytes for v in trace.columns.values()) <= held <= 100 * rows + 100_000


def test_a_list_of_delays_is_a_trace() -> None:
    trace = Trace.from_delays([0, 1, 0, 2, 3])
    assert trace.staleness.tolist() == [0, 1, 0, 2, 3]
    assert trace.apply_version.tolist() == list(range(5))
    assert trace.audit() == []
    assert trace.header.clock == "virtual"
    with pytest.raises(ValueError, match="delay 2 is 3"):
        Trace.from_delays([0, 1, 3])
