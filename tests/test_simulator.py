"""The simulator: the same schedule by every way, sound logs, and the laws that a schedule alone can show.

Figures come from the laws, computed by other programs; tolerances are stated, seeds are fixed.
"""

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import same

from asyncsgd_edu.engines import shortcuts
from asyncsgd_edu.engines.schedule import Schedule
from asyncsgd_edu.engines.simulator import by_events, schedule, simulate
from asyncsgd_edu.rules.durations import Constant, Duration, Exponential, ShiftedExponential, Straggler, Uniform
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
from asyncsgd_edu.rules.skewed_durations import Gamma, LogNormal, Measured, Pareto
from asyncsgd_edu.staleness import ends
from asyncsgd_edu.trace import Trace

ONE = Exponential(1.0)


@st.composite
def runs(draw: st.DrawFn, most: int = 64) -> tuple[int, Policy[Any], Duration, int, int]:
    """Arguments of `simulate`: workers, policy, durations, updates, seed."""
    workers = draw(st.integers(1, most))
    k, bound = draw(st.integers(1, workers)), draw(st.integers(0, 6) | st.just(10**6))
    policies: list[Policy[Any]] = [Asynchronous(), Synchronous(), KSync(k), KBatchSync(k), KAsync(k), KBatchAsync(k)]
    policies += [BackupWorkers(workers - k), StaleSynchronous(bound)]
    slow = draw(st.integers(0, workers - 1))
    durations: list[Duration] = [ONE, Constant(1.0), Constant(0.0), Uniform(0.0, 1.0), ShiftedExponential(1.0, 0.2)]
    durations += [Gamma(4, 0.25), LogNormal(1.0, 2.0), Pareto(0.5, 1.0), Measured([0.0, 0.0, 1.0, 2.0])]
    durations += [Straggler(ONE, slow, 100), Straggler(Constant(1.0), slow, 0.01)]
    return (
        workers,
        draw(st.sampled_from(policies)),
        draw(st.sampled_from(durations)),
        draw(st.integers(1, 120)),
        draw(st.integers(0, 2**31 - 1)),
    )


def equal(one: Schedule, other: Schedule) -> bool:
    """Bit by bit, NaN equal to NaN."""
    return one.in_flight == other.in_flight and all(
        a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in zip(one[:-1], other[:-1], strict=True)
    )


# --- every run


@settings(max_examples=300)
@given(runs())
def test_the_short_way_gives_what_asking_the_policy_gives(run: tuple[int, Policy[Any], Duration, int, int]) -> None:
    asked = by_events(*run)
    assert equal(schedule(*run), asked)
    workers, policy, *rest = run
    if isinstance(policy, StaleSynchronous) and policy.bound < 10:
        assert equal(shortcuts.in_waves(workers, policy.bound, *rest), asked)


@settings(max_examples=300)
@given(runs())
def test_every_run_is_sound(run: tuple[int, Policy[Any], Duration, int, int]) -> None:
    workers, policy, _, updates, _ = run
    trace = simulate(*run)
    assert trace.audit() == []
    assert trace.updates == updates
    assert (np.unique(trace.apply_version[trace.applied]) == np.arange(updates)).all()
    if workers == 1 or isinstance(policy, Synchronous | KSync | KBatchSync | BackupWorkers):
        assert not trace.staleness.any()
    if isinstance(policy, StaleSynchronous):
        assert trace.staleness.max() <= (2 * policy.bound + 1) * (workers - 1)
    if isinstance(policy, Asynchronous | KBatchAsync):
        # Everybody reads again at once, so the law holds with N - 1 exactly.
        assert int(trace.flights.age.sum()) == (workers - 1) * updates
    number = [np.concatenate([trace.batch[trace.worker == w], in_flight(trace, w)]) for w in range(workers)]
    assert all((found == np.arange(len(found))).all() for found in number)  # Nobody skips a minibatch.


def in_flight(trace: Trace, worker: int) -> list[int]:
    """Minibatch numbers that the worker had in flight at the end."""
    return [flight.batch for flight in trace.header.ended.in_flight if flight.worker == worker]


@given(runs(most=12))
def test_the_versions_follow_from_the_times(run: tuple[int, Policy[Any], Duration, int, int]) -> None:
    trace = simulate(*run)
    _, first = np.unique(trace.apply_version[trace.applied], return_index=True)
    updated = trace.apply_time[trace.applied][first]
    # At the instant of an update a read may come just before it or just after.
    assert (np.searchsorted(updated, trace.read_time, side="left") <= trace.read_version).all()
    assert (trace.read_version <= np.searchsorted(updated, trace.read_time, side="right")).all()
    assert (updated[ends(trace.apply_version)[trace.applied]] == trace.apply_time[trace.applied]).all()


@given(runs(most=8))
def test_the_same_seed_gives_the_same_trace_and_another_seed_another(
    run: tuple[int, Policy[Any], Duration, int, int],
) -> None:
    assert same(simulate(*run), simulate(*run))


def test_seeds_differ_and_a_longer_run_begins_like_the_shorter() -> None:
    for policy in (Asynchronous(), KSync(3), KBatchSync(3), KAsync(3), KBatchAsync(3), StaleSynchronous(2)):
        one, other = simulate(8, policy, ONE, 200, seed=1), simulate(8, policy, ONE, 200, seed=2)
        assert not np.array_equal(one.worker, other.worker)
        long = simulate(8, policy, ONE, 400, seed=1)
        rows = int(one.applied.sum()) if one.applied.all() else len(one)
        assert all(
            np.array_equal(a[:rows], b[:rows], equal_nan=a.dtype.kind == "f")
            for a, b in zip(one.columns.values(), long.columns.values(), strict=True)
        )


def test_two_simulations_do_not_influence_each_other() -> None:
    alone = {seed: simulate(16, KAsync(4), Gamma(4, 0.25), 2000, seed) for seed in range(2)}
    together: dict[int, Trace] = {}

    def run(seed: int) -> None:
        together[seed] = simulate(16, KAsync(4), Gamma(4, 0.25), 2000, seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(alone[seed], together[seed]) for seed in alone)


def test_a_policy_of_ones_own_is_asked() -> None:
    class Pairs(KSync):
        name = "pairs"

        def gradients(self, workers: int) -> int:
            return 2

    trace = simulate(4, Pairs(3), ONE, 50)
    assert trace.audit() == []
    assert (np.bincount(trace.apply_version[trace.applied]) == 2).all()
    assert trace.header.policy == "pairs (k 3)"


def test_the_header_says_what_was_run_and_the_file_keeps_it(tmp_path: Any) -> None:
    trace = simulate(8, KSync(3), Straggler(ONE, 2, 10), 50, seed=7)
    header = trace.header
    assert (header.trainer, header.clock, header.policy, header.seed) == ("simulate", "virtual", "k-sync (k 3)", 7)
    assert header.durations == {"law": "Straggler", "base": ONE.describe(), "worker": 2, "factor": 10}
    assert (header.problem, header.optimizer, header.devices, header.access) == ({}, {}, (), "consistent")
    assert header.ended.how == "finished"
    assert np.isnan(trace.loss).all()
    assert np.isnan(trace.ready_time[~trace.applied]).all()
    assert np.isfinite(trace.ready_time[trace.applied]).all()
    assert "k-sync (k 3)" in trace.summary()
    trace.save(tmp_path / "run.jsonl")
    assert same(Trace.load(tmp_path / "run.jsonl"), trace)


def test_constant_durations_take_turns() -> None:
    trace = simulate(4, Asynchronous(), Constant(1.0), 12)
    assert trace.worker.tolist() == [0, 1, 2, 3] * 3
    assert trace.staleness.tolist() == [0, 1, 2] + [3] * 9
    assert trace.seconds == 3.0
    instant = simulate(4, Asynchronous(), Constant(0), 12)
    assert instant.worker.tolist() == [0, 1, 2, 3] * 3


def test_ten_thousand_workers() -> None:
    trace = simulate(10_000, Asynchronous(), ONE, 30_000)
    assert trace.audit() == []
    assert int(trace.flights.age.sum()) == 9_999 * 30_000


@pytest.mark.parametrize(
    ("changed", "kind", "sentence"),
    [
        ({"workers": 0}, ValueError, "workers must be a whole number from 1 to 10000, got 0"),
        ({"workers": 10_001}, ValueError, "from 1 to 10000, got 10001"),
        ({"workers": 2.5}, TypeError, "workers must be a whole number from 1 to 10000, got 2.5"),
        ({"updates": 0}, ValueError, "updates must be a whole number from 1 to 1000000000, got 0"),
        ({"updates": True}, TypeError, "updates must be a whole number"),
        ({"seed": -1}, ValueError, "seed must be a whole number from 0 to 2147483647, got -1"),
        ({"policy": "asynchronous"}, TypeError, "policy must be a policy such as"),
        ({"policy": KSync(9)}, ValueError, "got k 9, workers 8"),
        ({"policy": BackupWorkers(8)}, ValueError, "got spare 8, workers 8"),
        ({"durations": None}, TypeError, "a simulation needs durations such as"),
        ({"durations": 0.1}, TypeError, "durations must be None or a duration"),
        ({"durations": Straggler(ONE, 8, 10)}, ValueError, "the straggler must be a worker from 0 to 7, got 8"),
    ],
    ids=str,
)
def test_what_cannot_be_simulated_is_told(changed: dict[str, Any], kind: type[Exception], sentence: str) -> None:
    arguments: dict[str, Any] = {"workers": 8, "policy": Asynchronous(), "durations": ONE, "updates": 10}
    with pytest.raises(kind, match=sentence):
        simulate(**{**arguments, **changed})


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("policy", [Asynchronous(), KSync(2), KAsync(2), StaleSynchronous(0)])
def test_more_seconds_than_a_float_can_hold_are_told(policy: Policy[Any]) -> None:
    with pytest.raises(ValueError, match="more seconds than a float can hold"):
        simulate(2, policy, Pareto(0.001, 1.0), 50)


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


# --- laws 12, 15, 16: seconds per update

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
