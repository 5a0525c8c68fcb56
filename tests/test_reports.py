"""The phrase that says how a run's numbers came about: nothing special is hidden, nothing usual is said."""

from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from dashboards import behind

from asyncsgd_edu.rules.durations import Exponential
from asyncsgd_edu.rules.remedies import DelayCompensation, DropAbove, GapAware
from asyncsgd_edu.trace import Ended, Header, Trace
from asyncsgd_edu.view.lab import Lab
from asyncsgd_edu.view.reports import conditions
from asyncsgd_edu.view.written import schedule_from

SOME = Trace.from_schedule("0r 1r 1a 0a 0r 0a 1r 1a")


def of(spread: int = 0, **header: Any) -> str:
    """The phrase for four gradients, the first of which had that read_spread."""
    columns = {**SOME.columns, "read_spread": np.array([spread, 0, 0, 0], np.int32)}
    return conditions(Trace(Header("AsyncTrainer", 2, **header), columns))


def test_what_is_usual_is_not_named() -> None:
    assert of() == "real durations, nothing injected"
    assert of(durations=Exponential(0.01).describe()) == "Exponential durations injected (scale 0.01; seconds)"


def test_a_remedy_is_named_with_its_constant() -> None:
    assert of(remedy=DropAbove(3).describe()).endswith("nothing injected · drop-above (bound 3)")
    assert of(remedy=DelayCompensation(0.5).describe()).endswith(" · delay-compensation (strength 0.5)")
    assert of(remedy=GapAware().describe()).endswith(" · gap-aware")


def test_lost_updates_are_said_of_the_variable_that_lost_most_once_they_are_counted() -> None:
    going = of(spread=2, access="read_modify_write")
    assert going.endswith(" · read_modify_write: 25.0% of reads torn")
    ended = of(spread=2, access="read_modify_write", ended=Ended("finished", lost=(1, 3, 2)))
    assert ended.endswith(" · read_modify_write: lost 3 of 4, 25.0% of reads torn")
    assert of(access="lock_free", ended=Ended("finished", lost=(0, 0))).endswith(
        " · lock_free: lost 0 of 4, 0.0% of reads torn"
    )


def test_before_the_first_gradient_only_the_access_is_said() -> None:
    empty = SOME[:0]
    assert conditions(Trace(replace(empty.header, access="lock_free"), empty.columns)) == "virtual time · lock_free"


def test_a_written_run_says_so() -> None:
    assert conditions(schedule_from("0r 0a")) == "written by hand · virtual time"


def test_access_and_remedy_are_named_wherever_a_run_is(eight_devices: list[str]) -> None:
    with closing(
        Lab(problem="digits-linear", threads=2, updates=30, access="lock_free", remedy="drop-above", drop_bound=3)
    ) as lab:
        lab.run(wait=True)
        trace = lab.trace
        assert trace is not None
        assert (trace.header.access, trace.header.remedy) == ("lock_free", {"name": "drop-above", "bound": 3})
        lost, torn = max(trace.header.ended.lost), np.mean(trace.read_spread > 0)
        assert f"drop-above (bound 3) · lock_free: lost {lost} of 30, {torn:.1%} of reads torn" in lab.status
        assert "no law for staleness and time: gradients are dropped" in lab.prediction
        assert " · lock_free access · drop-above (bound 3) · " in lab._table.value
        lab._controls["remedy"].value = "none"
        lab.run(wait=True)
        assert behind(lab) == ["run 1: 2 threads<br>lock_free access<br>drop-above (bound\u00a03)"]
        assert lab.trace is not None
        assert lab.trace.header.remedy is None
