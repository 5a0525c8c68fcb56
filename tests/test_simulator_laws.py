"""The simulator against the laws: those that a schedule alone can show.

Figures come from the laws, computed by other programs; tolerances are stated, seeds are fixed.
"""

from typing import Any

import numpy as np
import pytest
from simulations import ONE

from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.rules.durations import Duration, ShiftedExponential, Straggler, Uniform
from asyncsgd_edu.rules.laws import geometric_staleness, harmonic
from asyncsgd_edu.rules.policies import (
    Asynchronous,
    BackupWorkers,
    KAsync,
    KBatchAsync,
    KBatchSync,
    KSync,
    Policy,
    StaleSynchronous,
    Synchronous,
)
from asyncsgd_edu.rules.skewed_durations import Gamma, LogNormal, Pareto

# --- laws 1, 5, 7: staleness


@pytest.mark.parametrize(("c", "mean"), [(30, 0.967), (15, 1.933), (2, 14.5), (1, 29.0)])
@pytest.mark.parametrize(
    "law", [ONE, Uniform(0.9, 1.1), LogNormal(1.0, 1.0), Pareto(1.5, 1.0), Straggler(ONE, 0, 100)], ids=str
)
def test_law_1_conservation_of_staleness(c: int, mean: float, law: Duration) -> None:
    trace = simulate(30, KBatchAsync(c), law, 60_000 // c, seed=1)
    left = sum(trace.version - flight.read_version for flight in trace.header.ended.in_flight)
    assert int(trace.staleness.sum()) + left == 29 * trace.updates
    if not isinstance(law, Straggler | Pareto):  # Those keep much of it in flight.
        assert trace.mean_staleness == pytest.approx(mean, rel=0.03)


@pytest.mark.parametrize(
    ("law", "variance"), [(Uniform(0.8, 1.2), 1.5), (Gamma(16, 1 / 16), 4.6), (Gamma(4, 0.25), 15), (ONE, 56)], ids=str
)
def test_law_5_the_spread_follows_the_durations(law: Duration, variance: float) -> None:
    tau = simulate(8, Asynchronous(), law, 1_000_000, seed=1).staleness
    assert tau.mean() == pytest.approx(7, rel=0.001)
    # The first two figures are given to two digits.
    assert tau.var() == pytest.approx(variance, rel=0.03)


def test_law_5_memoryless_staleness_is_geometric() -> None:
    tau = simulate(8, Asynchronous(), ONE, 1_000_000, seed=2).staleness
    found = np.bincount(tau) / len(tau)
    assert np.abs(found[:60] - geometric_staleness(8, 59)).max() < 0.001


@pytest.mark.parametrize("n", [1, 2, 15, 30])
def test_law_7_softsync_needs_workers_that_are_alike(n: int) -> None:
    policy = KBatchAsync(30 // n)
    even = simulate(30, policy, Uniform(0.9, 1.1), 200_000 * n // 30, seed=1).staleness
    chance = simulate(30, policy, ONE, 200_000 * n // 30, seed=1).staleness
    assert (even > 2 * n).mean() == 0
    assert 0.08 < (chance > 2 * n).mean() < 0.135


# --- laws 12, 14, 15, 16: seconds per update

TIMES = [
    (KSync, [0.125, 0.268, 0.635, 2.716]),
    (KBatchSync, [0.124, 0.248, 0.504, 1.009]),
    (KAsync, [0.126, 0.267, 0.633, 2.729]),
    (KBatchAsync, [0.124, 0.249, 0.504, 1.000]),
]


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [(kind(k), s) for kind, row in TIMES for k, s in zip((1, 2, 4, 8), row, strict=True)],
    ids=str,
)
def test_law_12_seconds_per_update(policy: Policy[Any], seconds: float) -> None:
    trace = simulate(8, policy, ONE, 40_000, seed=1)
    assert trace.seconds / trace.updates == pytest.approx(seconds, rel=0.03)


@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_law_12_the_formulas(k: int) -> None:
    def per_update(policy: Policy[Any], law: Duration) -> float:
        return simulate(8, policy, law, 40_000, seed=3).seconds / 40_000

    waiting = harmonic(8) - harmonic(8 - k)
    assert per_update(KSync(k), ONE) == pytest.approx(waiting, rel=0.03)
    assert per_update(KAsync(k), ONE) == pytest.approx(waiting, rel=0.03)
    assert per_update(KBatchSync(k), ONE) == pytest.approx(k / 8, rel=0.03)
    for law in (ONE, Gamma(4, 0.25), ShiftedExponential(1.0, 0.2), Pareto(3, 1.0)):
        assert per_update(KSync(k), law) == pytest.approx(law.order_statistic(k, 8), rel=0.03)
        assert per_update(KBatchAsync(k), law) == pytest.approx(k * law.mean / 8, rel=0.03)
    new_longer_than_used = ShiftedExponential(1.0, 0.2)
    assert per_update(KAsync(k), new_longer_than_used) <= new_longer_than_used.order_statistic(k, 8) * 1.005


def test_law_14_a_straggler_makes_a_huge_staleness_and_costs_little_time() -> None:
    trace = simulate(8, Asynchronous(), Straggler(ONE, 0, 100), 20_000, seed=1)
    plain = simulate(8, Asynchronous(), ONE, 20_000, seed=1)
    assert trace.staleness.max() > 1000
    assert trace.seconds / plain.seconds == pytest.approx(8 / 7.01, rel=0.03)  # It is one worker less, no more.
    slow = simulate(8, Synchronous(), Straggler(ONE, 0, 100), 2000, seed=1)
    assert slow.seconds / 2000 == pytest.approx(100, rel=0.05)


def test_law_15_backup_workers() -> None:
    all_of_them = simulate(100, Synchronous(), ONE, 5000, seed=1).seconds
    without = simulate(100, BackupWorkers(4), ONE, 5000, seed=1).seconds
    assert without / all_of_them == pytest.approx(0.598, rel=0.01)
    assert BackupWorkers(4).gradients(100) == 96


@pytest.mark.parametrize("bound", [0, 1, 2, 5, 20])
def test_law_16_slack_buys_nothing_against_a_permanently_slow_worker(bound: int) -> None:
    trace = simulate(4, StaleSynchronous(bound), Straggler(Uniform(0.9, 1.1), 0, 10), 4000, seed=1)
    assert trace.staleness.max() <= (2 * bound + 1) * 3
    # Of the last half, without the lead that the others are given once.
    late = trace[2000:]
    assert 2000 / (late.apply_time[-1] - late.apply_time[0]) == pytest.approx(0.4, rel=0.03)
