"""Every order of a few workers: counted, listed, and sorted into classes that come to the same."""

import itertools
import math
from collections import Counter

import pytest

from asyncsgd_edu import Trace
from asyncsgd_edu.rules.events import as_text
from asyncsgd_edu.rules.interleavings import (
    count_classes,
    count_interleavings,
    distinct_interleavings,
    interleavings,
)

SMALL = [(1, 1), (1, 4), (2, 1), (2, 2), (2, 3), (3, 1), (4, 1)]


def outcome(events):
    """What arithmetic depends on: who applied, and what it had read."""
    trace = Trace.from_schedule(events)
    return tuple(zip(trace.worker.tolist(), trace.read_version.tolist(), strict=True))


@pytest.mark.parametrize(("workers", "steps"), SMALL)
def test_every_order_is_listed_once(workers, steps):
    listed = list(interleavings(workers, steps))
    # The slow way: all permutations of who moves, doubles left out.
    if 2 * workers * steps <= 8:
        moves = itertools.permutations([w for w in range(workers) for _ in range(2 * steps)])
        assert {tuple(w for w, _ in events) for events in listed} == set(moves)
    assert len(set(listed)) == len(listed) == count_interleavings(workers, steps)
    for events in listed[:: max(1, len(listed) // 50)]:
        trace = Trace.from_schedule(events)
        assert trace.audit() == []
        assert Counter(trace.worker.tolist()) == dict.fromkeys(range(workers), steps)
        assert trace.header.ended.in_flight == ()


@pytest.mark.parametrize(("workers", "steps"), SMALL)
def test_classes_are_what_sorting_all_orders_gives(workers, steps):
    sorted_out = Counter(outcome(events) for events in interleavings(workers, steps))
    classes = {outcome(order.events): order.multiplicity for order in distinct_interleavings(workers, steps)}
    assert classes == sorted_out
    assert len(classes) == count_classes(workers, steps)


def test_numbers_that_can_be_had_by_hand():
    assert count_interleavings(2, 3) == math.comb(12, 6)
    # One step each: any order of applies, and the n-th of them may have read any of n versions.
    assert [count_classes(workers, 1) for workers in (1, 2, 3, 4)] == [1, 2**2, 6**2, 24**2]
    assert [as_text(order.events) for order in distinct_interleavings(2, 1)] == [
        "0r 0a 1r 1a",
        "0r 1r 0a 1a",
        "0r 1r 1a 0a",
        "1r 1a 0r 0a",
    ]


def test_more_than_most_are_refused_before_the_first():
    with pytest.raises(ValueError, match="3 workers with 2 steps have 34650 interleavings, most is 20000: take fewer"):
        interleavings(3, 2)
    with pytest.raises(ValueError, match="have 924 interleavings, most is 923"):
        interleavings(2, 3, most=923)
    assert next(interleavings(3, 2, most=34650))[0] == (0, "read")
    with pytest.raises(ValueError, match="have 328 classes of interleavings, most is 327"):
        distinct_interleavings(2, 3, most=327)
    assert sum(1 for _ in distinct_interleavings(2, 3, most=328)) == 328


def test_what_nobody_could_count_is_refused_at_once():
    with pytest.raises(ValueError, match=r"256 workers with 100 steps have about 10\^\d+ interleavings"):
        interleavings(256, 100)
    for refused in (lambda: distinct_interleavings(256, 100), lambda: count_classes(256, 100)):
        with pytest.raises(ValueError, match=r"at least about 10\^\d+ classes"):
            refused()


@pytest.mark.parametrize("make", [interleavings, distinct_interleavings])
def test_arguments_are_checked(make):
    for arguments, error in (((0, 1), ValueError), ((2, 0), ValueError), ((2.0, 1), TypeError), ((2, "3"), TypeError)):
        with pytest.raises(error, match="must be a whole number"):
            make(*arguments)
    with pytest.raises(ValueError, match="most must be a whole number from 1"):
        make(2, 1, most=0)
