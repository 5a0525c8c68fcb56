"""Races: what holds of every way, how reads are judged, the order from the safest to the fastest, and what goes wrong.

No race's outcome is asserted but those that no order of events can change. Where chance
decides what is counted, the reads are scripted.
"""

import math
import threading
from collections.abc import Sequence
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from race_runs import TIME, failing, race, some

from asyncsgd_edu.engines.race_ways import Built, Way
from asyncsgd_edu.engines.races import DAMAGE, ROUND, WAYS, Race, RaceError, ladder, races
from asyncsgd_edu.rules.intervals import Count

# TensorFlow starts here, and its devices are made before it does.
pytestmark = pytest.mark.usefixtures("eight_devices")


# --- laws that hold whatever the threads do


@pytest.mark.parametrize("row", WAYS)
def test_one_thread_loses_nothing_so_each_step_adds_exactly_one(row: str) -> None:
    size = 100 if WAYS[row].kind == "ladder" else None
    found = race(row, threads=1, elements=size, updates=30)
    assert (found.steps, found.parts.count, found.worst, found.damage) == (30, 0, 0, "none seen")
    assert (found.torn is None, found.mixed is None) == (size is None, size is None)
    assert (found.duplicates is None) == (WAYS[row].kind != "ticket")


@pytest.mark.parametrize("row", WAYS)
def test_totals_add_up_with_many_threads(row: str) -> None:
    size = 64 if WAYS[row].kind == "ladder" else None
    found = race(row, threads=5, elements=size, updates=40)
    assert (found.way, found.steps, found.updates) == (row, 200, 200 if size is None else 400)
    assert (found.lost.trials, found.parts.trials) == (found.updates, found.updates * found.elements)
    assert found.lost.count * found.elements <= found.parts.count
    assert found.worst <= found.steps
    if found.torn is not None and found.mixed is not None:
        assert found.mixed.trials >= 200 - found.torn.count


def test_more_updates_than_a_round_has_are_all_counted() -> None:
    found = race("keras_momentum", threads=1, elements=10, updates=2 * ROUND + 1)
    assert (found.steps, found.parts.count) == (2 * ROUND + 1, 0)


def test_without_time_each_thread_does_one_step() -> None:
    (found,) = races(["assign_sub"], [3], [10], seconds=1e-9)
    assert (found.steps, found.lost) == (3, Count(0, 6))


def test_each_row_is_raced_at_each_number_of_threads_and_elements() -> None:
    watched: list[Race] = []
    found = races(["assign_sub", "ticket_count_up_to"], [1, 2], [2, 3], 5, TIME, watched.append)
    cells = [(r.way, r.threads, r.elements) for r in found]
    assert cells == [
        (way, threads, elements)
        for threads in (1, 2)
        for way, elements in (("assign_sub", 2), ("assign_sub", 3), ("ticket_count_up_to", 1))
    ]
    assert watched == found
    with pytest.raises(FrozenInstanceError):
        found[0].worst = 3  # type: ignore[misc]


# --- how reads are judged


def scripted(monkeypatch: pytest.MonkeyPatch, seen: Sequence[Any], values: Sequence[Any], kind: str = "ladder") -> Race:
    """The race of one thread whose steps see `seen`, after which the variables hold `values`."""
    steps = iter([seen[0], *seen])  # One step warms up.
    built = Built(lambda: next(steps), lambda: [np.array(v) for v in values], lambda: None)
    monkeypatch.setitem(WAYS, "scripted", Way("scripted", "a script", lambda _: built, kind))
    elements = len(values[0]) if kind == "ladder" else None
    return race("scripted", threads=1, elements=elements, updates=len(seen))


def test_a_read_of_two_versions_is_torn_and_not_mixed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [[[0, 0, 0], [0, 0, 0]], [[1, 0, 0], [1, 1, 1]], [[2, 2, 2], [2, 3, 3]], [[3, 3, 3], [2, 2, 2]]]
    found = scripted(monkeypatch, seen, [[4, 4, 4], [4, 4, 4]])
    assert (found.torn, found.mixed) == (Count(2, 8), Count(1, 2))
    assert (found.lost, found.damage) == (Count(0, 8), "torn reads")


def test_an_element_that_lost_an_update_does_not_make_later_reads_torn(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [[[0, 0, 0], [0, 0, 0]], [[0, 1, 1], [1, 1, 1]], [[1, 2, 2], [2, 2, 2]], [[2, 3, 2], [3, 3, 3]]]
    found = scripted(monkeypatch, seen, [[3, 4, 4], [4, 4, 4]])
    assert (found.torn, found.mixed) == (Count(1, 8), Count(0, 3))
    assert (found.lost, found.parts, found.worst) == (Count(0, 8), Count(1, 24), 1)
    assert found.damage == "lost elements"


def test_after_a_lost_update_nothing_is_mixed_for_nothing_has_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    found = scripted(monkeypatch, [[[0, 0], [0, 0]], [[0, 0], [1, 1]], [[1, 1], [2, 2]]], [[2, 2], [3, 3]])
    assert (found.lost, found.parts, found.worst) == (Count(1, 6), Count(2, 12), 1)
    assert (found.torn, found.mixed, found.damage) == (Count(0, 6), None, "lost updates")


def test_where_too_few_elements_are_intact_no_tear_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = scripted(monkeypatch, [[[0, 0], [0, 0]], [[0, 1], [1, 1]]], [[1, 2], [2, 2]])
    assert found.torn == Count(0, 2)  # The reads of the second variable only.


def test_a_ticket_that_comes_again_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = scripted(monkeypatch, [1, 2, 2, 2, 5, 5], [6], kind="ticket")
    assert (found.duplicates, found.lost, found.damage) == (Count(3, 6), Count(0, 6), "duplicate tickets")


# --- what goes wrong


def test_a_thread_that_fails_fails_the_race_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, ZeroDivisionError("on purpose"))
    said = "failing, 1 threads, 2 elements: thread 0 failed: ZeroDivisionError: on purpose"
    with pytest.raises(RaceError, match=said) as caught:
        race("failing", threads=1, elements=2)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"rows": ["magic"]}, "row must be one of 'critical_section'"),
        ({"rows": ["assign"], "threads": [0]}, "threads must be a whole number from 1 to 64, got 0"),
        ({"rows": ["assign"], "elements": [1]}, "elements must be a whole number from 2"),
        ({"rows": ["assign"], "updates": 0}, "updates must be a whole number from 1"),
        ({"rows": ["assign"], "seconds": 0}, "seconds must be a finite number above 0"),
        ({"rows": ["assign"], "seconds": math.inf}, "seconds must be a finite number above 0"),
        ({"rows": ["ticket_count_up_to"], "elements": [5]}, "elements does nothing for ticket_count_up_to"),
    ],
)
def test_what_cannot_be_raced_is_told(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        races(**arguments)


# --- the ladder


def test_the_ladder_goes_from_the_safest_to_the_fastest() -> None:
    given = [(damage, speed) for damage in reversed(DAMAGE[:5]) for speed in (25.0, 10.0, 20.0)]
    sorted_ = ladder([some(damage=damage, speed=speed) for damage, speed in given])
    assert [(r.damage, r.updates_per_second) for r in sorted_] == [
        (damage, speed) for damage in DAMAGE[:5] for speed in (10.0, 20.0, 25.0)
    ]


def test_an_interrupt_stops_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[int] = []
    interrupted = threading.Event()

    def step() -> None:
        reached.append(1)
        if len(reached) > 1:  # The first one warms up.
            interrupted.wait(60)

    def join(*_: Any) -> None:
        raise KeyboardInterrupt

    endless = Way("endless", "counts", lambda _: Built(step, lambda: [np.zeros(1)], lambda: None), "counter")
    monkeypatch.setitem(WAYS, "endless", endless)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "join", join)
        with pytest.raises(KeyboardInterrupt):
            race("endless", threads=2, updates=10**6)
    interrupted.set()
    for thread in threading.enumerate():
        if thread.name.startswith("asyncsgd-race"):
            thread.join(60)
            assert not thread.is_alive()
    assert len(reached) == 3  # Each thread's present step was its last.
