"""What a straggler does, against draws made here and against simulated runs."""

import numpy as np
import pytest

from asyncsgd_edu.engines.recursion import trajectory
from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.rules.durations import Exponential, Straggler
from asyncsgd_edu.rules.policies import Asynchronous
from asyncsgd_edu.rules.stragglers import largest_staleness, updates_per_second, updates_to_target


def test_rates_add_up() -> None:
    assert updates_per_second(8, mean=0.5) == 16
    assert updates_per_second(1, factor=4) == 0.25
    trace = simulate(4, Asynchronous(), Straggler(Exponential(0.1), 2, 5), 40_000, seed=3)
    assert trace.updates / trace.seconds == pytest.approx(updates_per_second(4, 5, mean=0.1), rel=0.03)


@pytest.mark.parametrize(("rate", "curvature"), [(1e-3, 1.0), (2e-4, 5.0)])
def test_updates_to_a_target_are_those_of_gradient_descent(rate: float, curvature: float) -> None:
    predicted = updates_to_target(0.3, rate, curvature)
    versions = range(2000)
    w = trajectory(versions, versions, rate, curvature).w
    assert int(np.argmax(w <= 0.3)) == pytest.approx(predicted, abs=2)


def drawn(workers: int, factor: float, updates: int, runs: int = 4000) -> float:
    """Mean largest number of others' updates before one of the slow worker's, whoever is next being drawn."""
    random = np.random.default_rng(6)
    chance = (1 / factor) / (workers - 1 + 1 / factor)
    largest = []
    for _ in range(runs):
        mine = np.flatnonzero(random.random(updates) < chance)
        largest.append(np.diff(mine, prepend=-1).max(initial=1) - 1)
    return float(np.mean(largest))


@pytest.mark.parametrize(
    ("workers", "factor", "updates"), [(8, 100, 20_000), (8, 10, 2000), (2, 30, 500), (4, 50, 100)]
)
def test_the_largest_staleness_is_that_of_draws(workers: int, factor: float, updates: int) -> None:
    assert largest_staleness(workers, factor, updates) == pytest.approx(drawn(workers, factor, updates), rel=0.04)


def test_a_run_too_short_for_the_straggler_has_hardly_any() -> None:
    assert largest_staleness(8, 1e9, 100) < 1e-3
    assert largest_staleness(1, 100, 1000) == 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: updates_per_second(0), "workers must be a whole number from 1"),
        (lambda: updates_per_second(8, factor=0.5), "factor says how many times as slow, .* at least 1, got 0.5"),
        (lambda: updates_per_second(8, mean=0), "mean must be a finite number above 0"),
        (lambda: updates_to_target(1.0, 0.1), "target must be a share of the start between 0 and 1, got 1.0"),
        (lambda: updates_to_target(0.0, 0.1), "target must be a finite number above 0"),
        (lambda: updates_to_target(0.5, -1), "learning_rate must be a finite number above 0"),
        (lambda: largest_staleness(8, 0.9, 10), "factor says"),
        (lambda: largest_staleness(8, 2, 0), "updates must be a whole number from 1"),
    ],
)
def test_bad_arguments_are_told(call, sentence) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=sentence):
        call()
