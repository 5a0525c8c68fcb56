"""The same race but for one thing: versions are counted anew, and every law still holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trainers import same

from asyncsgd_edu import (
    Asynchronous,
    AsyncTrainer,
    Constant,
    DivideByStaleness,
    DropAbove,
    Exponential,
    KAsync,
    KBatchAsync,
    KBatchSync,
    KSync,
    Quadratic,
    ScriptedGate,
    StaleSynchronous,
    Synchronous,
    Trace,
    replay,
    simulate,
)
from asyncsgd_edu.engines.counterfactual import drop, fresh, present, without

pytestmark = pytest.mark.usefixtures("eight_devices")
policies = st.sampled_from(
    [Asynchronous(), Synchronous(), KSync(2), KAsync(2), StaleSynchronous(1), KBatchAsync(2), KBatchSync(2)]
)


@given(policy=policies, seed=st.integers(0, 100), workers=st.integers(2, 8), bound=st.integers(0, 5))
def test_what_comes_out_is_a_sound_race(policy, seed, workers, bound):
    trace = simulate(workers, policy, Exponential(1.0), 40, seed)
    for made in (without(trace, [0]), fresh(trace, [workers - 1]), drop(trace, DropAbove(bound))):
        assert made.audit() == []
        assert made.staleness.min(initial=0) >= 0


@given(seed=st.integers(0, 50), workers=st.integers(2, 6))
def test_a_worker_less_is_the_schedule_of_the_others(seed, workers):
    trace = simulate(workers, Asynchronous(), Exponential(1.0), 60, seed)
    made = without(trace, [0])
    others = trace.worker != 0
    assert made.worker.tolist() == trace.worker[others].tolist()
    assert made.batch.tolist() == trace.batch[others].tolist()
    assert made.apply_version.tolist() == list(range(int(others.sum())))
    # An old version is now the number of the others' updates in it.
    before = np.concatenate([[0], np.cumsum(others)])
    assert made.read_version.tolist() == before[trace.read_version[others]].tolist()
    assert 0 not in present(made)


def test_a_fresh_worker_is_never_stale_and_the_others_are_as_before():
    trace = simulate(6, Asynchronous(), Exponential(1.0), 200, 0)
    made = fresh(trace, [2, 4])
    mine = np.isin(made.worker, [2, 4])
    assert made.staleness[mine].max() == 0
    assert made.staleness[~mine].tolist() == trace.staleness[~mine].tolist()
    assert made.header.ended.in_flight == tuple(g for g in trace.header.ended.in_flight if g.worker not in (2, 4))
    assert (made.read_time <= made.ready_time).all()
    assert (made.ready_time <= made.apply_time).all()


@given(seed=st.integers(0, 100), bound=st.integers(0, 8))
def test_above_the_bound_nothing_is_applied_and_below_it_everything(seed, bound):
    trace = simulate(5, Asynchronous(), Exponential(1.0), 100, seed)
    made = drop(trace, DropAbove(bound))
    assert len(made) == len(trace)
    assert made.staleness.max() <= bound
    dropped = ~made.applied
    assert (made.flights.age[: len(made)][dropped] > bound).all()


def test_dropping_is_worked_out_in_turn():
    # Worker 1 is three behind in the record. Of worker 0's updates one is dropped, so then it is only two behind.
    trace = Trace.from_delays([0, 0, 0, 3, 1])
    assert drop(trace, DropAbove(3)).staleness.tolist() == [0, 0, 0, 3, 1]
    assert drop(trace, DropAbove(2)).apply_version.tolist() == [0, 1, 2, -1, 3]
    assert drop(trace, DropAbove(2)).staleness.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("change", [fresh, without])
@pytest.mark.parametrize(
    ("workers", "kind", "sentence"),
    [
        ([3], ValueError, "names worker 3, the run has workers [0, 1, 2]"),
        ([0, -1], ValueError, "names worker -1, the run has workers [0, 1, 2]"),
        ([True], ValueError, "names worker True"),
        (["0"], ValueError, "names worker '0'"),
        (3, TypeError, "must be a list of workers such as [3], got 3"),
    ],
)
def test_workers_who_are_not_there_are_told(change, workers, kind, sentence):
    trace = simulate(3, Asynchronous(), Exponential(1.0), 30, 0)
    with pytest.raises(kind) as caught:
        change(trace, workers)
    assert sentence in str(caught.value)
    assert change.__name__ in str(caught.value)


def test_somebody_must_be_left():
    trace = simulate(3, Asynchronous(), Exponential(1.0), 30, 0)
    with pytest.raises(ValueError, match="no update is left"):
        without(trace, [0, 1, 2])
    with pytest.raises(ValueError, match=r"worker 1, the run has workers \[0, 2\]"):
        without(without(trace, [1]), [1])


def test_what_if_is_a_trace_that_says_so():
    order = "0r 1r 2r 3r" + 15 * " 0a 0r 1a 1r 2a 2r 3a 3r"
    trace = AsyncTrainer(Quadratic(), workers=4, gate=ScriptedGate(order)).fit(updates=60)
    fresh = replay(trace, Quadratic(), fresh=[3])
    assert fresh.header.counterfactual == {"fresh": [3]}
    assert fresh.staleness[fresh.worker == 3].max() == 0
    less = replay(fresh, Quadratic(), without=[0], remedy=DivideByStaleness())
    assert less.header.counterfactual == {"fresh": [3], "without": [0]}
    assert less.header.remedy == {"name": "divide-by-staleness"}
    assert set(less.worker.tolist()) == {1, 2, 3}
    assert less.updates == int((trace.worker != 0).sum())
    assert less.audit() == []
    assert "what if: fresh [3], without [0]" in less.summary()
    with pytest.raises(ValueError, match=r"without names worker 0, the run has workers \[1, 2, 3\]"):
        replay(less, Quadratic(), without=[0])
    with pytest.raises(ValueError, match="worker 1 cannot be both fresh and away"):
        replay(less, Quadratic(), fresh=[1], without=[1])


def test_the_run_without_a_worker_is_the_run_of_the_others():
    order = [(0, "read"), (1, "read"), (2, "read"), (1, "apply"), (0, "apply"), (1, "read"), (2, "apply"), (1, "apply")]
    whole = AsyncTrainer(Quadratic(), workers=3, gate=ScriptedGate(order)).fit(updates=4)
    left = [event for event in order if event[0] != 0]
    others = AsyncTrainer(Quadratic(), workers=3, gate=ScriptedGate(left)).fit(updates=3)
    made = replay(whole, Quadratic(), without=[0])
    assert np.array_equal(others.loss, made.loss)
    assert same(others.parameters, made.parameters)


def test_a_saved_counterfactual_says_what_it_is(tmp_path):
    trace = simulate(3, Asynchronous(), Constant(1.0), 20, 0)
    made = replay(trace, Quadratic(), fresh=[1], remedy=DivideByStaleness())
    made.save(tmp_path / "made.jsonl")
    found = Trace.load(tmp_path / "made.jsonl")
    assert found.header.counterfactual == {"fresh": [1]}
    assert found.header.remedy == {"name": "divide-by-staleness"}
