"""The simulator: every run is sound and the same again, its header and file, what cannot be simulated.

The laws that a schedule alone can show are in test_simulator_laws.py.
"""

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from schedules import same
from simulations import ONE, runs

from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.rules.durations import Constant, Duration, Straggler
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
from asyncsgd_edu.rules.skewed_durations import Gamma, Pareto
from asyncsgd_edu.staleness import ends
from asyncsgd_edu.trace import Trace


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
