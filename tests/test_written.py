"""A schedule as text: what is refused, what it makes, a run written down, and all this in the dashboard."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import dashboards
import numpy as np
import pytest
from dashboards import Puppet, curve

from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.rules.durations import Exponential
from asyncsgd_edu.rules.policies import Asynchronous, KBatchSync, KSync, Policy
from asyncsgd_edu.rules.remedies import DropAbove
from asyncsgd_edu.trace import COLUMNS, Header, Trace
from asyncsgd_edu.view.lab import Lab
from asyncsgd_edu.view.written import EXAMPLE, MOST_EVENTS, WRITTEN, schedule_from, up_to, written_down

puppets = dashboards.puppets


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "at least one update, as in '0r 0a'; got 0 events"),
        ("0r 0d 1r", "at least one update, as in '0r 0a'; got 3 events"),
        ("0r 1a", r"event 1 \('1a', line 1, column 4\): worker 1 has no gradient"),
        ("0r 0a\n 0r 0r", r"event 3 \('0r', line 2, column 5\): worker 0 has a gradient since event 2"),
        ("1000r 1000a", "a worker's number here must be a whole number from 0 to 999, got 1000"),
        ("0r 0a " * 5001, f"at most {MOST_EVENTS} events, got 10002"),
    ],
)
def test_a_text_that_cannot_be_run_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        schedule_from(text)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="a schedule is text such as '0r 1r 1a 0a', got 5"):
        schedule_from(5)  # type: ignore[arg-type]


def test_the_example_is_a_race_and_then_turns() -> None:
    made = schedule_from(EXAMPLE, seed=4)
    assert made.staleness.tolist() == [0, 1, 0, 0]
    assert (made.header.policy, made.header.clock, made.header.seed) == (WRITTEN, "virtual", 4)
    assert made.audit() == []


def test_drop_above_drops_of_a_written_schedule() -> None:
    made = schedule_from("0r 1r 2r 0a 1a 2a", remedy=DropAbove(1))
    assert made.apply_version.tolist() == [0, 1, -1]
    assert made.header.policy == WRITTEN


@pytest.mark.parametrize("policy", [Asynchronous(), KSync(3), KBatchSync(3)])
def test_what_is_written_down_is_the_beginning_of_the_run(policy: Policy[object]) -> None:
    trace = simulate(4, policy, Exponential(1.0), 50, seed=2)
    text, count = written_down(trace, 10)
    again = schedule_from(text)
    assert count == len(again) >= 10
    assert again.version == trace[:count].version
    for column in ("worker", "batch", "read_version", "apply_version"):
        assert getattr(again, column).tolist() == getattr(trace, column)[:count].tolist()


def test_an_update_is_written_down_whole() -> None:
    trace = simulate(7, KSync(7), Exponential(1.0), 5, seed=2)
    assert written_down(trace, 3)[1] == 7
    assert written_down(trace, 8)[1] == 14


def test_gradients_dropped_at_first_are_no_reason_to_write_down_nothing() -> None:
    text, count = written_down(Trace.from_schedule("0r 1r 0d 1d 0r 0a 1r 1a"), 2)
    assert (text, count) == ("0r 1r 0d 1d 0r 0a", 3)


def test_a_short_run_is_written_down_whole() -> None:
    trace = Trace.from_schedule("0r 1r 1a 0a 1r")
    assert written_down(trace) == ("0r 1r 1a 0a 1r", 2)
    assert up_to(trace, 2) is trace


def test_without_an_update_there_is_nothing_to_write_down() -> None:
    with pytest.raises(ValueError, match="there is no update to write down yet: run something first"):
        written_down(Trace(Header("simulate", 2), {name: [] for name in COLUMNS}))


def test_it_loads_no_tensorflow() -> None:
    code = "import sys; from asyncsgd_edu.view import written as w; w.schedule_from('0r 0a'); "
    done = subprocess.run(
        [sys.executable, "-c", code + "print('tensorflow' in sys.modules)"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"]


@pytest.fixture
def writing() -> Iterator[Lab]:
    with closing(Lab(mode="written", problem="quadratic", learning_rate=0.01, schedule="0r 1r 1a 0a 0r 0a")) as made:
        yield made


def test_a_written_schedule_is_run_and_marked(eight_devices: list[str], writing: Lab) -> None:
    writing.run(wait=True)
    assert writing.trace is not None
    assert writing.trace.staleness.tolist() == [0, 1, 0]
    assert np.isfinite(writing.trace.loss).all()
    assert "<b>finished</b> · version 3 of 3 · mean staleness 0.33" in writing.status
    assert "N - 1" not in writing.status
    assert "written by hand · virtual time" in writing.status
    assert "written by hand · virtual time" in writing._view.figure.layout.annotations[0].text
    assert "mean staleness of the schedule = 0.3333" in writing.prediction
    assert curve(writing)[-1] == 3
    (law,) = [line for line in writing._view.figure.data if line.name == "geometric law, memoryless"]
    assert len(law.x) == 0


def test_a_written_schedule_begins_anew_each_time(eight_devices: list[str], writing: Lab) -> None:
    writing.run(wait=True)
    first = writing.trace
    writing.run(wait=True)
    assert first is not None
    assert writing.trace is not None
    assert writing.trace.loss.tolist() == first.loss.tolist()
    assert [(run.how, run.updates, run.after) for run in writing.runs] == [("finished", 3, None)] * 2


def test_a_wrong_token_is_pointed_at_and_nothing_starts(writing: Lab, puppets: list[Puppet]) -> None:
    writing._controls["schedule"].value = "0r 1r\n1a 2a"
    wrong = "event 3 (&#x27;2a&#x27;, line 2, column 4): worker 2 has no gradient, allowed for it here is 2r"
    assert wrong in writing.prediction
    writing._run.click()
    assert "<b>not started</b>" in writing.status
    assert f"Error: {wrong}" in writing.status
    assert puppets == []


def test_a_run_is_written_down_edited_and_run(eight_devices: list[str]) -> None:
    with closing(Lab(problem="quadratic", threads=3, updates=60, learning_rate=0.01)) as lab:
        lab._write.click()
        assert "<b>not written down</b>" in lab.status
        assert "Error: there is no run to write down yet: run something first" in lab.status
        with pytest.raises(ValueError, match="no run to write down yet"):
            lab.write_down()
        lab.run(wait=True)
        first = lab.trace
        lab._write.click()
        assert "<b>written down</b>" in lab.status
        assert "the first 40 of 60 gradients of the last run; press Run" in lab.status
        assert lab._controls["schedule"].value == first[:40].schedule()
        lab._controls["mode"].value = "written"
        lab.run(wait=True)
        assert lab.trace is not None
        # The same arithmetic, bit for bit; and what was edited is run as edited.
        assert lab.trace.loss.tolist() == first.loss[:40].tolist()
        lab._controls["schedule"].value += " 7r 7a"
        lab.run(wait=True)
        assert (lab.trace.version, lab.trace.worker[-1]) == (41, 7)
