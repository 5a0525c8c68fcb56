"""Schedules as text: what is read is what was written, and what cannot be is told where it stands."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from orders import orders

from asyncsgd_edu import ScriptedGate
from asyncsgd_edu.rules.events import ACTIONS, as_text, events_of, for_gate, parse


@given(orders())
def test_events_come_back_from_their_text(events):
    assert parse(as_text(events)) == events == events_of(events) == events_of(as_text(events))


@given(orders(), st.lists(st.sampled_from([" ", "\n", ",", ", ", "\t", " ,\n "]), min_size=1, max_size=5))
def test_what_stands_between_tokens_does_not_matter(events, gaps):
    tokens = as_text(events).split()
    text = "".join(gaps[i % len(gaps)] + token for i, token in enumerate(tokens)) + gaps[0]
    assert parse(text) == events


def test_tokens_need_nothing_between_them():
    assert parse("0r1r0+1a") == parse("0r 1r 0+ 1a")
    assert parse("") == parse(" ,\n") == ()


def test_a_batch_is_named_only_where_it_is_not_the_next():
    assert parse("0r#7 0a 0r") == ((0, "read", 7), (0, "apply"), (0, "read"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0a", ["event 0 ('0a', line 1, column 1)", "worker 0 has no gradient", "allowed for it here is 0r"]),
        ("0r 1r\n 0r", ["event 2 ('0r', line 2, column 2)", "a gradient since event 0", "0a, 0+ and 0d"]),
        ("0r 1r,1a 0a 1a", ["event 4 ('1a', line 1, column 13)", "worker 1 has no gradient"]),
        ("0r 0+ 0+", ["event 2 ('0+'", "worker 0 has no gradient"]),
        ("0r 0d 0d", ["event 2 ('0d'"]),
        ("0r 0w", ["event 1 ('0w', line 1, column 4)", "r (read), a (apply), + (add", "d (drop)"]),
        ("0r 0", ["event 1 ('0'", "a worker's number"]),
        ("read", ["event 0 ('read'"]),
        ("0r 0a#3", ["event 2 ('#3'", "an event is"]),
        ("-1r", ["event 0 ('-1r'"]),
        ("1234567r", ["event 0 ('1234567r'"]),
        ("0r 0r x", ["event 1 ('0r'"]),  # The first thing that is wrong.
    ],
)
def test_the_first_wrong_token_is_named_with_its_place(text, words):
    with pytest.raises(ValueError, match="event") as told:
        parse(text)
    for word in words:
        assert word in str(told.value)


@given(orders(), st.data())
def test_a_token_that_is_doubled_is_found_where_it_stands(events, data):
    tokens = as_text(events).split()
    if tokens:
        at = data.draw(st.integers(0, len(tokens) - 1))
        # Twice the same by one worker: the second can never follow.
        with pytest.raises(ValueError, match=rf"event {at + 1} \('") as told:
            parse("\n".join([*tokens[: at + 1], *tokens[at:]]))
        assert f"line {at + 2}, column 1" in str(told.value)


@pytest.mark.parametrize("given_", [None, 3, b"0r", ["0r", 1], [(0, "read", 1, 2)], [(0,)], [(0, 3)], [(0.5, "read")]])
def test_what_is_no_schedule_is_a_type_error(given_):
    with pytest.raises(TypeError, match="event|a schedule is text"):
        events_of(given_)
    with pytest.raises(TypeError, match="a schedule is text such as"):
        parse(given_)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([(0, "write")], ["event 0", "'read', 'apply', 'add', 'drop'", "'write'"]),
        ([(0, "read"), (-1, "read")], ["event 1: a worker must be a whole number from 0", "-1"]),
        ([(0, "read"), (0, "apply", 3)], ["event 1: only a read has a batch"]),
        ([(0, "read", -3)], ["event 0: a batch must be", "-3"]),
        ([(0, "read"), (1, "drop")], ["event 1 (1, 'drop')", "worker 1 has no gradient"]),
    ],
)
def test_wrong_events_are_named(events, words):
    with pytest.raises(ValueError, match="event") as told:
        events_of(events)
    for word in words:
        assert word in str(told.value)


def test_events_may_be_lists_of_numpy_numbers():
    assert events_of([[np.int64(1), "read"], [np.int32(1), "apply"]]) == ((1, "read"), (1, "apply"))


@given(orders(actions=("apply",), batches=False))
def test_a_gate_takes_reads_and_applies_as_they_are(events):
    assert ScriptedGate(for_gate(as_text(events))).order == events == for_gate(events)


@pytest.mark.parametrize(("text", "word"), [("0r 0d", "drop"), ("0r 1r 0+ 1a", "add"), ("0r#4 0a", "choose a batch")])
def test_a_gate_is_not_given_what_it_cannot_do(text, word):
    with pytest.raises(ValueError, match=f"a gate lets workers read and apply, it cannot {word}"):
        for_gate(text)


@given(orders())
def test_each_action_has_a_letter_of_its_own(events):
    letters = Counter(token.split("#")[0].lstrip("0123456789") for token in as_text(events).split())
    assert {ACTIONS[letter]: count for letter, count in letters.items()} == Counter(event[1] for event in events)
