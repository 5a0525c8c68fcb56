"""Races for the tests of races: short ones, one that fails, and one that was never run."""

from typing import Any

import numpy as np
import pytest

from asyncsgd_edu.engines.race_ways import Built, Way
from asyncsgd_edu.engines.races import DAMAGE, WAYS, Race, races
from asyncsgd_edu.rules.intervals import Count

TIME = 100.0  # Seconds, more than any of these takes: what ends a race is its number of updates.


def race(row: str, threads: int = 4, elements: int | None = None, updates: int = 250) -> Race:
    """One race, to the end of its updates."""
    sizes = None if elements is None else [elements]
    (found,) = races([row], [threads], sizes, updates, TIME)
    return found


def loses_nothing(row: str, *, torn: bool = True) -> None:
    """Check that four threads lose nothing; `torn` says whether their reads are sure as well."""
    found = race(row, elements=1000)
    assert (found.steps, found.updates, found.threads, found.elements) == (1000, 2000, 4, 1000)
    assert (found.lost, found.parts, found.worst) == (Count(0, 2000), Count(0, 2_000_000), 0)
    assert found.updates_per_second > 0
    if torn:
        assert found.torn == Count(0, 2000)


def some(way: str = "a", *, speed: float = 1.0, damage: str = "none seen", **more: Any) -> Race:
    """A race with a damage and a speed."""
    counts = {name: Count(int(damage == word), 1000) for name, word in zip(
        ("mixed", "torn", "parts", "lost"), DAMAGE[1:5], strict=True)}  # fmt: skip
    facts = {"way": way, "title": f"title of {way}", "threads": 4, "elements": 500, "steps": 500, "updates": 1000}
    return Race(**{**facts, "seconds": 1000 / speed, "worst": 0, **counts, **more})


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make a row whose second step fails."""

    def build(_: int) -> Built:
        calls = iter([np.zeros([2, 2], np.float32)])

        def step() -> Any:
            for seen in calls:
                return seen
            raise error

        return Built(step, lambda: [np.zeros(2), np.zeros(2)], lambda: None)

    monkeypatch.setitem(WAYS, "failing", Way("failing", "fails", build))
