"""Real threads under every policy: they do what the simulator says, because they ask the same object."""

import numpy as np
import pytest

from asyncsgd_edu import AsyncTrainer, Exponential, Quadratic, ScriptedGate, replay
from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.rules.policies import (
    Asynchronous,
    BackupWorkers,
    KAsync,
    KBatchAsync,
    KBatchSync,
    KSync,
    StaleSynchronous,
    Synchronous,
)

pytestmark = pytest.mark.usefixtures("eight_devices")
WORKERS = 4
KEEPING = (Asynchronous(), Synchronous(), KAsync(2), KBatchAsync(3), StaleSynchronous(0), StaleSynchronous(2))
CANCELLING = (KSync(2), KBatchSync(3), BackupWorkers(1))
VERSIONS = ("worker", "batch", "read_version", "apply_version")


def order_of(trace):
    """The script that makes threads do what a simulated trace did.

    At one moment gradients arrive first, then those that were cancelled by it, then there is reading.
    """
    events = []
    for row in range(len(trace)):
        worker, cancelled = int(trace.worker[row]), bool(np.isnan(trace.ready_time[row]))
        arrival = trace.apply_time[row] if cancelled else trace.ready_time[row]
        events.append((trace.read_time[row], 2, worker, "read"))
        events.append((arrival, int(cancelled), worker, "apply"))
    left = [flight for flight in trace.header.ended.in_flight if flight.read_time < trace.seconds]
    events += [(flight.read_time, 2, flight.worker, "read") for flight in left]
    return [(worker, action) for *_, worker, action in sorted(events)]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("policy", KEEPING + CANCELLING, ids=str)
def test_a_scripted_run_is_the_simulated_one(policy, seed):
    plan = simulate(WORKERS, policy, Exponential(1.0), updates=12, seed=seed)
    trainer = AsyncTrainer(Quadratic(), workers=WORKERS, policy=policy, gate=ScriptedGate(order_of(plan)))
    trace = trainer.fit(updates=12)
    assert trace.audit() == []
    applied, planned = trace.applied, plan.applied
    for name in VERSIONS:
        if policy in CANCELLING and name == "batch":
            continue  # A cancelled gradient has a number in both, but not at the same place.
        assert trace.columns[name][applied].tolist() == plan.columns[name][planned].tolist(), name
    if policy in KEEPING:
        assert len(trace) == len(plan)


@pytest.mark.parametrize("policy", KEEPING + CANCELLING, ids=str)
def test_a_free_run_keeps_the_rules(policy):
    trainer = AsyncTrainer(Quadratic(), workers=WORKERS, policy=policy, durations=Exponential(0.002))
    trace = trainer.fit(updates=40)
    assert trace.audit() == []
    assert trace.updates == 40
    assert trace.header.policy == str(policy)
    sizes = np.bincount(trace.apply_version[trace.applied])
    expected = policy.gradients(WORKERS) if hasattr(policy, "gradients") else 1
    assert sizes.tolist() == [expected] * 40
    if isinstance(policy, Synchronous) or policy in CANCELLING:
        assert trace.staleness.max() == 0
    if isinstance(policy, StaleSynchronous):
        assert trace.staleness.max() <= (2 * policy.bound + 1) * (WORKERS - 1)
        done = np.zeros(WORKERS, int)
        for worker in trace.worker:
            done[worker] += 1
            assert done.max() - done.min() <= policy.bound + 1
    again = trainer.fit(updates=5)
    assert again.updates == 45
    assert again.audit() == []


@pytest.mark.parametrize("policy", [KAsync(2), KSync(2), Synchronous()], ids=str)
def test_averaged_gradients_are_the_replayed_ones(policy):
    trace = AsyncTrainer(Quadratic(), workers=WORKERS, policy=policy, durations=Exponential(0.001)).fit(updates=30)
    again = replay(trace, Quadratic())
    np.testing.assert_array_equal(again.loss[trace.applied], trace.loss[trace.applied])
    np.testing.assert_allclose(again.parameters[0], trace.parameters[0], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [*KEEPING, KSync(1), KBatchSync(1), BackupWorkers(0)], ids=str)
def test_one_worker_is_plain_sgd_under_every_policy(policy):
    if isinstance(policy, KAsync | KBatchAsync):
        policy = type(policy)(1)
    plain = AsyncTrainer(Quadratic(), workers=1).fit(updates=20)
    ruled = AsyncTrainer(Quadratic(), workers=1, policy=policy).fit(updates=20)
    assert np.array_equal(plain.loss, ruled.loss)
    assert np.array_equal(plain.parameters[0], ruled.parameters[0])


def test_a_policy_that_does_not_fit_is_refused_before_anything_starts():
    with pytest.raises(ValueError, match="k 5, workers 4"):
        AsyncTrainer(Quadratic(), workers=4, policy=KSync(5))
    with pytest.raises(TypeError, match=r"policy must be a policy.*'async'"):
        AsyncTrainer(Quadratic(), policy="async")


def test_a_script_that_ends_before_the_run_is_an_error():
    # Two deliveries, but this policy needs two for each of the two updates.
    order = [(0, "read"), (1, "read"), (0, "apply"), (1, "apply")]
    trainer = AsyncTrainer(Quadratic(), workers=2, policy=KAsync(2), gate=ScriptedGate(order))
    with pytest.raises(RuntimeError, match="the script ended after 4 events"):
        trainer.fit(updates=2)
    assert trainer.state == "failed"
