"""The log while it is written: prefixes without gaps, nothing lost, old prefixes untouched."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsgd_edu.engines.clock import RunClock
from asyncsgd_edu.engines.log import AT, CHUNK, HEAD, ROW, TAIL, Buffer, Call, VersionLog, rows_of


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


def call(worker, batch, versions, applied=1, towers=1):
    """Whole steps from gradient number `batch` on, whose updates are at `versions`."""
    numbers = np.zeros((len(versions), towers, len(HEAD) + len(TAIL)))
    numbers[..., 0] = numbers[..., -3] = np.array(versions)[:, None]
    numbers[..., -2] = 1
    numbers[-1, :, -2] = applied
    return Call(range(worker, worker + towers), batch, numbers if len(versions) > 1 or towers > 1 else numbers[0, 0])


def test_a_buffer_hands_over_a_whole_update_at_once_and_only_once():
    buffer = Buffer()
    buffer.append(np.concatenate([row(w, 0) for w in range(3)]))
    buffer.append(call(7, 4, [1]))
    buffer.append(call(7, 5, [2, 3]))
    assert len(buffer) == 3
    rows = np.concatenate(buffer.take())
    assert rows[:, AT["worker"]].tolist() == [0, 1, 2, 7, 7, 7]
    assert rows[:, AT["batch"]].tolist() == [0, 0, 0, 4, 5, 6]
    assert rows[:, AT["end_version"]].tolist() == [0, 0, 0, 1, 2, 3]
    assert (len(buffer), buffer.take()) == (0, [])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.integers(1, 4), st.integers(0, 3))
def test_calls_of_any_lengths_become_the_rows_of_their_steps(lengths, towers, worker):
    calls, done = [], 0
    for length in lengths:
        calls.append(call(worker, done, list(range(done, done + length)), towers=towers))
        assert calls[-1].steps == length
        done += length
    rows = rows_of(calls)
    assert rows.shape == (done * towers, len(ROW))
    assert rows[:, AT["worker"]].tolist() == [*range(worker, worker + towers)] * done
    assert (
        rows[:, AT["batch"]].tolist() == rows[:, AT["end_version"]].tolist() == np.repeat(range(done), towers).tolist()
    )
    assert (rows[:, AT["applied"]] == 1).all()


@pytest.mark.parametrize(
    ("steps", "limit", "below"),
    [(call(0, 0, [6]), 8, True), (call(0, 0, [6]), 7, False), (call(0, 0, [5, 6]), 8, True)]
    + [(call(0, 0, [5, 6]), 7, False), (call(0, 0, [5, 6], towers=3), 8, True)]
    + [(call(0, 0, [6], applied=given), 9, False) for given in (0, -1)]
    + [(call(0, 0, [5, 6], applied=0), 9, False), (call(0, 0, [5, 6], applied=-1, towers=2), 9, False)],
)
def test_a_call_says_whether_the_run_goes_on_after_it(steps, limit, below):
    assert steps.ends_below(limit) is below


def test_a_log_that_nobody_reads_keeps_little_unmerged():
    log = VersionLog(2, RunClock())
    for version in range(3 * CHUNK):
        log.append(version % 2, call(version % 2, version // 2, [version]))
        assert all(len(buffer) <= CHUNK for buffer in log._buffers)
    columns = log.columns()
    assert columns["apply_version"].tolist() == list(range(3 * CHUNK))
    assert columns["batch"].tolist() == [version // 2 for version in range(3 * CHUNK)]


def test_a_reader_and_writers_at_once_lose_nothing():
    log, prefixes = VersionLog(4, RunClock()), []

    def write(thread):
        for number in range(3000):
            version = 4 * number + thread
            log.append(thread, call(thread, number, [version]) if number % 3 else row(thread, version, batch=number))

    writers = [threading.Thread(target=write, args=(thread,)) for thread in range(4)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        prefixes.append(log.columns()["apply_version"])
    assert log.columns()["apply_version"].tolist() == list(range(12_000))
    assert all(np.array_equal(prefix, np.arange(len(prefix))) for prefix in prefixes)


def test_what_is_logged_while_the_log_is_read_keeps_its_place(monkeypatch):
    """Worker 0 drops a gradient at version 0, worker 1 makes updates 0 and 1, after the buffer of 0 was looked into."""
    log = VersionLog(2, RunClock())
    take = log._buffers[0].take

    def and_then():
        monkeypatch.undo()
        found = take()
        log.append(0, row(0, 0, applied=-1))
        log.append(1, np.concatenate([row(1, 0), row(1, 1)]))
        return found

    monkeypatch.setattr(log._buffers[0], "take", and_then)
    assert log.columns()["apply_version"].tolist() == [-1, 0, 1]


def test_what_comes_during_the_second_look_waits_for_the_next(monkeypatch):
    """What came before it may be in a buffer that is not looked into again."""
    log, looks = VersionLog(2, RunClock()), []
    take = log._buffers[1].take

    def count():
        looks.append(None)
        if len(looks) == 2:
            log.append(0, row(0, 1, applied=-1))
            log.append(1, row(1, 1))
        return take()

    monkeypatch.setattr(log._buffers[1], "take", count)
    log.append(0, row(0, 0))
    assert log.columns()["apply_version"].tolist() == [0]
    assert log.columns()["apply_version"].tolist() == [0, -1, 1]


def test_what_is_in_flight_is_dropped_when_the_run_goes_on():
    log = VersionLog(2, RunClock())
    log.append(0, row(0, 0))
    log.in_flight(row(1, 0, batch=4))
    assert [(g.worker, g.batch, g.read_version) for g in log.left_in_flight()] == [(1, 4, 0)]
    log.drop_in_flight(version=1, wall=0.0)
    assert log.left_in_flight() == ()
    assert log.columns()["apply_version"].tolist() == [0, -1]


def test_a_gradient_that_has_landed_is_no_longer_in_flight(monkeypatch):
    log, seen = VersionLog(1, RunClock()), []
    log.in_flight(row(0, 0))
    monkeypatch.setattr(Buffer, "append", lambda *_: seen.append(log.left_in_flight()))
    log.append(0, row(0, 0))
    assert seen == [()]


def test_the_clock_stands_still_in_a_halt():
    clock = RunClock()
    clock._origin, clock._halts = 100.0, [[110.0, 130.0]]
    assert clock.seconds(105.0) == 5.0
    assert clock.seconds(np.array([110.0, 120.0, 130.0, 131.0])).tolist() == [10.0, 10.0, 10.0, 11.0]
