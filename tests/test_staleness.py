"""The numbers of a log, on logs small enough to count on fingers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedules import Plan, simulate, small

from asyncsgd_edu import mean_staleness
from asyncsgd_edu.staleness import Flights, broken_laws, ends


def flights(*spans: tuple[int, int, int]) -> Flights:
    worker, start, end = np.array(spans, np.int64).reshape(-1, 3).T
    return Flights(worker, start, end)


@pytest.mark.parametrize(
    ("applied", "first", "expected"),
    [
        ([], 0, []),
        ([0, 1, 2], 0, [0, 1, 2]),
        ([-1, 0, -1, -1, 1], 0, [0, 0, 1, 1, 1]),
        ([-1, 5, -1], 5, [5, 5, 6]),
        ([0, 0, 0, -1], 0, [0, 0, 0, 1]),
    ],
)
def test_a_dropped_gradient_ends_at_the_version_that_was_there(
    applied: list[int], first: int, expected: list[int]
) -> None:
    assert ends(np.array(applied, np.int64), first).tolist() == expected


def test_age_is_the_updates_between_read_and_end() -> None:
    assert flights((0, 2, 5), (1, 4, 4)).age.tolist() == [3, 0]


@given(st.integers(1, 12), st.integers(1, 12))
def test_workers_that_take_turns_have_the_mean_of_the_law(workers: int, rounds: int) -> None:
    trace = small(workers, workers * (rounds + 1))
    ages = int(trace.flights.age.sum())
    # Law 1 as exact integers: each update sees the other N - 1 workers in flight.
    assert ages == (workers - 1) * trace.updates
    assert trace.staleness[workers:].mean() == mean_staleness(workers)


@given(st.integers(1, 7), st.integers(0, 80), st.integers(0, 10**6))
def test_workers_that_reread_at_once_conserve_staleness(workers: int, steps: int, seed: int) -> None:
    trace = simulate(Plan(workers, steps, seed=seed))
    assert int(trace.flights.age.sum()) == (workers - 1) * trace.updates


@given(st.integers(1, 7), st.integers(1, 80), st.integers(0, 10**6))
def test_workers_that_idle_have_less_in_flight(workers: int, steps: int, seed: int) -> None:
    trace = simulate(Plan(workers, steps, idling=True, seed=seed))
    assert int(trace.flights.age.sum()) <= (workers - 1) * trace.updates


def check(applied: list[int], read: list[int], worker: list[int] | None = None, first: int = 0) -> list[str]:
    """The laws that a log of these versions breaks; its times are in order."""
    a, r = np.array(applied, np.int64), np.array(read, np.int64)
    w = np.array(worker if worker is not None else range(len(applied)), np.int64)
    times = np.arange(len(a))[:, None] + np.array([0.0, 0.5, 1.0])
    return broken_laws(a, r, times, Flights(w, r, ends(a, first)), first)


def test_sound_logs_break_nothing() -> None:
    assert check([], []) == []
    assert check([0, 1, 2], [0, 0, 0]) == []
    assert check([7, 8], [7, 7], first=7) == []
    assert check([0, 0, 1, 1], [0, 0, 1, 1], [0, 1, 0, 1]) == []
    # A worker whose gradient was dropped reads the same version again.
    assert check([-1, 0], [0, 0], [0, 0]) == []


@pytest.mark.parametrize(
    ("applied", "read", "sentence"),
    [
        ([1], [0], "versions: applied gradient 0 has apply_version 1, expected 0"),
        ([0, 2], [0, 0], "versions: applied gradient 1 has apply_version 2, expected 0 or 1"),
        ([0, 1, 0], [0, 0, 0], "versions: applied gradient 2 has apply_version 0, expected 1 or 2"),
        ([0, 1], [0, 2], "staleness: row 1 was read at version 2, after 1"),
        ([0, 1], [-1, 1], "versions: row 0 has a negative read_version"),
    ],
)
def test_a_broken_log_is_named_in_a_sentence(applied: list[int], read: list[int], sentence: str) -> None:
    assert sentence in check(applied, read)


@pytest.mark.parametrize(
    ("applied", "read", "worker"),
    [
        ([0, 1, 2], [0, 0, 0], [0, 0, 1]),  # Worker 0 read its second gradient before its own first update.
        ([0, 1, 2], [0, 0, 1], [0, 1, 1]),  # Worker 1 held two at once, from 1 to 1 and on.
        ([0, 1], [0, 0], [0, 0]),  # One worker cannot be stale.
        ([0, 1, 2, 3], [0, 1, 1, 3], [0, 0, 0, 0]),
    ],
)
def test_what_one_worker_cannot_have_done_breaks_conservation(
    applied: list[int], read: list[int], worker: list[int]
) -> None:
    assert any(sentence.startswith("conservation") for sentence in check(applied, read, worker))


def test_the_law_does_not_depend_on_the_order_of_a_workers_rows() -> None:
    # Worker 0 has one gradient from 0 to 2 waiting for update 2; meanwhile another is read and dropped at 2.
    assert check([0, 1, -1, 2, 2], [0, 0, 2, 1, 0], [1, 2, 0, 1, 0]) == []
