"""How races are laid out: a count with its trials and interval, as text, as a page, as plain values."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from race_runs import some

from asyncsgd_edu.engines.race_table import chance, page, plain, text
from asyncsgd_edu.engines.races import Race
from asyncsgd_edu.rules.intervals import Count

# TensorFlow starts here, and its devices are made before it does.
pytestmark = pytest.mark.usefixtures("eight_devices")


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (Count(0, 40_000), "0 of 40,000 (at most 0.0092 %)"),
        (Count(40_000, 40_000), "40,000 of 40,000 (at least 99.991 %)"),
        (Count(10, 10), "10 of 10 (at least 69 %)"),
        (None, "-"),
    ],
)
def test_a_count_is_said_with_its_trials_and_what_they_leave_open(count: Count | None, said: str) -> None:
    assert chance(count) == said


@pytest.mark.parametrize("layout", [text, page])
def test_every_race_is_laid_out_with_its_counts(layout: Callable[[list[Race]], str]) -> None:
    shown = [
        some("slow", speed=5),
        some("other", threads=7, damage="torn reads"),
        some("ticket", elements=1, torn=None, mixed=None, duplicates=Count(3, 1500)),
    ]
    laid_out = layout(shown)
    for race_ in shown:
        assert race_.title in laid_out
    assert laid_out.count("0 of 1,000 (at most 0.37 %)") == 6  # Of both variables, and of the ticket
    assert "3 of 1,500 (0.041 to 0.58 %)" in laid_out
    assert "4 threads, 500 elements a variable" in laid_out
    assert "7 threads, 500 elements a variable" in laid_out
    assert "4 threads, one number" in laid_out
    assert "never" not in laid_out.replace("None seen is not never", "")


def test_a_page_needs_no_network_and_escapes_what_it_shows() -> None:
    shown = page([replace(some(), title="<a & b>")])
    assert "&lt;a &amp; b&gt;" in shown
    assert "http" not in shown


def test_plain_values_are_json_with_every_interval() -> None:
    shown = some(damage="torn reads", mixed=None)
    values = json.loads(json.dumps(plain([shown])))
    (row,) = values["races"]
    assert row["torn"] == {"count": 1, "trials": 1000, "interval": list(Count(1, 1000).interval)}
    assert (row["mixed"], row["damage"], row["updates_per_second"]) == (None, "torn reads", 1.0)
    assert set(values["packages"]) >= {"tensorflow", "keras"}
