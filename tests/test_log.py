"""The log while it is written: prefixes without gaps, nothing lost, old prefixes untouched."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsgd_edu.engines.clock import RunClock
from asyncsgd_edu.engines.log import AT, CHUNK, ROW, Buffer, VersionLog


def row(worker, version, applied=1, batch=0):
    values = np.zeros((1, len(ROW)))
    values[0, [AT["worker"], AT["batch"], AT["read_version"], AT["end_version"], AT["applied"]]] = (
        worker,
        batch,
        version,
        version,
        applied,
    )
    return values


def test_a_prefix_ends_before_the_first_missing_update():
    log = VersionLog(2, RunClock())
    log.append(0, row(0, 0))
    log.append(0, row(0, 2))
    assert log.columns()["apply_version"].tolist() == [0]
    log.append(1, row(1, 1))
    assert log.columns()["apply_version"].tolist() == [0, 1, 2]


def test_a_dropped_gradient_waits_for_the_updates_before_it():
    log = VersionLog(2, RunClock())
    log.append(0, row(0, 1, applied=0))
    assert log.columns()["apply_version"].tolist() == []
    log.append(1, row(1, 0))
    assert log.columns()["apply_version"].tolist() == [0, -1]


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_any_arrival_order_gives_the_same_columns_and_prefixes_stay(data):
    total = data.draw(st.integers(1, 60))
    threads = data.draw(st.integers(1, 5))
    owner = data.draw(st.lists(st.integers(0, threads - 1), min_size=total, max_size=total))
    queues = [[v for v in range(total) if owner[v] == t] for t in range(threads)]
    log, prefixes = VersionLog(threads, RunClock()), []
    while any(queues):
        thread = data.draw(st.sampled_from([t for t in range(threads) if queues[t]]))
        log.append(thread, row(thread, queues[thread].pop(0)))
        columns = log.columns()
        assert columns["apply_version"].tolist() == list(range(len(columns["apply_version"])))
        prefixes.append((columns["worker"], columns["worker"].copy()))
    assert log.columns()["worker"].tolist() == owner
    assert all(np.array_equal(view, kept) for view, kept in prefixes)


def test_a_log_outgrows_its_first_arrays():
    log = VersionLog(1, RunClock())
    rows = np.concatenate([row(0, v, batch=v) for v in range(2 * CHUNK + 7)])
    for part in np.array_split(rows, 5):
        for one in part:
            log.append(0, one[None])
        log.columns()
    columns = log.columns()
    assert columns["apply_version"].tolist() == columns["batch"].tolist() == list(range(2 * CHUNK + 7))


def test_a_buffer_publishes_a_whole_update_at_once():
    buffer = Buffer()
    buffer.append(np.concatenate([row(w, 0) for w in range(3)]))
    assert buffer.since(0).shape == (3, len(ROW))
    assert buffer.since(2)[:, AT["worker"]].tolist() == [2]
    assert len(buffer.since(3)) == 0


def test_what_is_in_flight_is_dropped_when_the_run_goes_on():
    log = VersionLog(2, RunClock())
    log.append(0, row(0, 0))
    log.in_flight(row(1, 0, batch=4))
    assert [(g.worker, g.batch, g.read_version) for g in log.left_in_flight()] == [(1, 4, 0)]
    log.drop_in_flight(version=1, wall=0.0)
    assert log.left_in_flight() == ()
    assert log.columns()["apply_version"].tolist() == [0, -1]


def test_the_clock_stands_still_in_a_halt():
    clock = RunClock()
    clock._origin, clock._halts = 100.0, [[110.0, 130.0]]
    assert clock.seconds(105.0) == 5.0
    assert clock.seconds(np.array([110.0, 120.0, 130.0, 131.0])).tolist() == [10.0, 10.0, 10.0, 11.0]
