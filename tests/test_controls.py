"""The widgets of the controls: each has a label and a configuration's field, and is disabled where it does nothing."""

from dataclasses import fields

import dashboards
import pytest

from asyncsgd_edu.view.choices import idle
from asyncsgd_edu.view.configuration import MODES, Configuration
from asyncsgd_edu.view.controls import HOW, Controls
from asyncsgd_edu.view.lab import Lab

lab = dashboards.lab


@pytest.fixture
def controls() -> Controls:
    return Controls(Configuration())


def off(controls: Controls) -> set[str]:
    return {name for name, control in controls.items() if control.disabled}


def test_there_is_one_for_each_field_and_each_has_a_place(controls: Controls) -> None:
    names = {field.name for field in fields(Configuration)}
    assert controls.keys() == names
    placed = [name for group in HOW for name in group]
    assert sorted([*placed, "mode", "threads", "gpus", "schedule"]) == sorted(names)
    assert controls.configuration == Configuration()


def test_each_has_a_label(controls: Controls) -> None:
    for name in controls.keys() - {"mode"}:  # Its label is a widget of its own.
        assert controls[name].description


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("remedy", ["none", "drop-above", "delay-compensation"])
def test_what_is_disabled_makes_no_difference(controls: Controls, mode: str, remedy: str) -> None:
    controls["duration_law"].value = "exponential"
    controls["mode"].value, controls["remedy"].value = mode, remedy
    controls.adapt()
    assert off(controls) == idle(mode, "asynchronous", "exponential", remedy)
    before = controls.configuration
    other = {
        "threads": 3, "gpus": 2, "policy": "stale-synchronous", "duration_law": "uniform", "duration": 0.5,
        "constant": 1, "access": "lock_free", "remedy": "gap-aware", "drop_bound": 7, "strength": 0.5, "updates": 9,
        "schedule": "0r 0a",
    }  # fmt: skip
    for name in off(controls):
        controls[name].value = other[name]
    after = controls.configuration
    assert after != before
    assert (after.of_trainer, after.label, after.target) == (before.of_trainer, before.label, before.target)
    assert after.prediction == before.prediction


def test_the_constant_of_the_remedy_stands_in_one_place(controls: Controls) -> None:
    shown = {}
    for remedy in ("none", "drop-above", "delay-compensation", "gap-aware"):
        controls["remedy"].value = remedy
        controls.adapt()
        shown[remedy] = [n for n in ("drop_bound", "strength") if controls[n].layout.display != "none"]
    assert shown == {
        "none": ["drop_bound"], "drop-above": ["drop_bound"], "delay-compensation": ["strength"],
        "gap-aware": ["drop_bound"],
    }  # fmt: skip
    assert controls["drop_bound"].layout.width == controls["strength"].layout.width


def test_a_control_that_would_do_nothing_is_disabled(lab: Lab) -> None:
    always = {"drop_bound", "strength", "schedule"}
    assert off(lab._controls) == {"constant", "duration"} | always
    lab._controls["policy"].value = "stale-synchronous"
    assert off(lab._controls) == {"duration"} | always
    assert lab._controls["constant"].description == "bound"
    lab._controls["mode"].value = "towers"
    assert off(lab._controls) == {"duration", "threads", "policy", "constant", "access", "remedy"} | always
    lab._controls["mode"].value = "simulated"
    assert off(lab._controls) == {"duration", "gpus", "access"} | always
    lab._controls["remedy"].value = "delay-compensation"
    assert off(lab._controls) == {"duration", "gpus", "access", "drop_bound", "schedule"}
    lab._controls["mode"].value = "written"
    unused = {"threads", "gpus", "policy", "constant", "duration_law", "duration", "updates", "access", "drop_bound"}
    assert off(lab._controls) == unused
    assert lab._writing.layout.display is None
    lab._controls["mode"].value = "threads"
    assert lab._writing.layout.display == "none"


def test_the_workers_follow_the_mode(lab: Lab) -> None:
    threads = lab._controls["threads"]
    lab._controls["mode"].value = "simulated"
    threads.value = 1000
    assert (threads.value, threads.description) == (1000, "Workers")
    lab._controls["mode"].value = "threads"
    assert (threads.value, threads.description) == (16, "Threads")
