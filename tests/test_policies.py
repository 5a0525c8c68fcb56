"""The policies as state machines: scripts of arrivals, and what must follow."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsgd_edu.rules.policies import (
    Asynchronous,
    BackupWorkers,
    Decision,
    KAsync,
    KBatchAsync,
    KBatchSync,
    KSync,
    Policy,
    StaleSynchronous,
    Synchronous,
    check_policy,
)

ALL = (0, 1, 2)
WAIT = Decision()


def play(policy: Policy[Any], workers: int, arrivals: list[int]) -> list[Decision]:
    """What the policy decides as these workers deliver, one after the other."""
    state, decisions = policy.begin(workers), []
    for worker in arrivals:
        state, decision = policy.ready(state, worker)
        decisions.append(decision)
    return decisions


SCRIPTS: list[tuple[Policy[Any], list[int], list[Decision]]] = [
    (Asynchronous(), [1, 1, 0], [Decision((w,), (), (w,)) for w in (1, 1, 0)]),
    (Synchronous(), [1, 0, 2], [WAIT, WAIT, Decision((1, 0, 2), (), ALL)]),
    (KSync(2), [1, 0, 0, 1], [WAIT, Decision((1, 0), (2,), ALL), WAIT, Decision((0, 1), (2,), ALL)]),
    (KSync(1), [1, 0], [Decision((1,), (0, 2), ALL), Decision((0,), (1, 2), ALL)]),
    (KBatchSync(2), [1, 1], [Decision(read=(1,)), Decision((1, 1), (0, 2), ALL)]),
    (KBatchSync(2), [1, 0], [Decision(read=(1,)), Decision((1, 0), (1, 2), ALL)]),
    (KAsync(2), [1, 0, 2, 1], [WAIT, Decision((1, 0), (), (1, 0)), WAIT, Decision((2, 1), (), (2, 1))]),
    (KBatchAsync(2), [1, 1, 0], [Decision(read=(1,)), Decision((1, 1), (), (1,)), Decision(read=(0,))]),
    (BackupWorkers(1), [1, 0], [WAIT, Decision((1, 0), (2,), ALL)]),
    (BackupWorkers(0), [1, 0, 2], [WAIT, WAIT, Decision((1, 0, 2), (), ALL)]),
    (
        StaleSynchronous(1),
        [0, 0, 1, 2],
        [Decision((0,), (), (0,)), Decision((0,)), Decision((1,), (), (1,)), Decision((2,), (), (0, 2))],
    ),
    (
        StaleSynchronous(0),
        [2, 0, 1, 1],
        [Decision((2,)), Decision((0,)), Decision((1,), (), (2, 0, 1)), Decision((1,))],
    ),
]


@pytest.mark.parametrize(("policy", "arrivals", "expected"), SCRIPTS, ids=lambda value: str(value)[:24])
def test_a_script_of_arrivals_is_decided_as_the_table_says(
    policy: Policy[Any], arrivals: list[int], expected: list[Decision]
) -> None:
    assert play(policy, 3, arrivals) == expected
    assert play(policy, 3, arrivals) == expected  # A policy remembers nothing of an earlier run.


def test_a_state_does_not_change_when_it_is_asked() -> None:
    for policy in (KSync(2), KBatchAsync(2), StaleSynchronous(0)):
        state: Any = policy.begin(3)
        kept, _ = policy.ready(state, 1)
        assert state == policy.begin(3)
        assert kept != state
        with pytest.raises(AttributeError):
            state.ready = ()
        with pytest.raises(AttributeError):
            policy.name2 = 3  # type: ignore[attr-defined]


@st.composite
def policies(draw: st.DrawFn, workers: int) -> Policy[Any]:
    """Any policy that fits so many workers."""
    k = draw(st.integers(1, workers))
    return draw(
        st.sampled_from(
            [
                Asynchronous(),
                Synchronous(),
                KSync(k),
                KBatchSync(k),
                KAsync(k),
                KBatchAsync(k),
                BackupWorkers(workers - k),
                StaleSynchronous(draw(st.integers(0, 5))),
            ]
        )
    )


@given(st.data(), st.integers(1, 64))
def test_whoever_computes_may_deliver_and_nobody_is_asked_to_do_two_things(data: st.DataObject, workers: int) -> None:
    policy = data.draw(policies(workers))
    state, computing, ready = policy.begin(workers), set(range(workers)), []
    for _ in range(data.draw(st.integers(1, 100))):
        assert computing, "everybody waits for everybody"
        worker = data.draw(st.sampled_from(sorted(computing)))
        computing.remove(worker)
        ready.append(worker)
        state, decision = policy.ready(state, worker)
        for w in decision.apply:
            ready.remove(w)  # Raises unless it has delivered.
        assert set(decision.drop) <= computing
        computing -= set(decision.drop)
        assert len(set(decision.read)) == len(decision.read)
        assert not set(decision.read) & computing
        computing |= set(decision.read)
        if len(decision.apply):
            assert not ready or isinstance(policy, StaleSynchronous)
    assert sorted({*computing, *ready}) == list(range(workers)) or isinstance(policy, StaleSynchronous)


@pytest.mark.parametrize("kind", [KSync, KBatchSync, KAsync, KBatchAsync])
def test_more_gradients_than_workers_are_refused(kind: type[KSync]) -> None:
    with pytest.raises(ValueError, match=r"k from 1 to the number of workers, got k 9, workers 8"):
        kind(9).begin(8)
    for k in (0, -1):
        with pytest.raises(ValueError, match=f"k must be a whole number from 1 to 10000, got {k}"):
            kind(k)
    for wrong in (2.0, "2", True, None):
        with pytest.raises(TypeError, match="k must be a whole number"):
            kind(wrong)  # type: ignore[arg-type]


def test_a_bound_below_zero_and_too_many_spare_workers_are_refused() -> None:
    with pytest.raises(ValueError, match="bound must be a whole number from 0 to 1000000000, got -1"):
        StaleSynchronous(-1)
    with pytest.raises(TypeError, match="bound must be a whole number"):
        StaleSynchronous(0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="spare below the number of workers, got spare 4, workers 4"):
        BackupWorkers(4).begin(4)
    with pytest.raises(ValueError, match="spare must be a whole number from 0 to 9999, got -1"):
        BackupWorkers(-1)


@pytest.mark.parametrize("policy", [Asynchronous(), Synchronous(), KAsync(1), BackupWorkers(0), StaleSynchronous(1)])
def test_nobody_is_no_crowd(policy: Policy[Any]) -> None:
    with pytest.raises(ValueError, match="workers must be a whole number from 1 to 10000, got 0"):
        policy.begin(0)


def test_a_policy_says_what_it_is() -> None:
    named = {type(policy).__name__: policy.name for policy, _, _ in SCRIPTS}
    assert named == {
        "Asynchronous": "asynchronous",
        "Synchronous": "synchronous",
        "KSync": "k-sync",
        "KBatchSync": "k-batch-sync",
        "KAsync": "k-async",
        "KBatchAsync": "k-batch-async",
        "BackupWorkers": "backup-workers",
        "StaleSynchronous": "stale-synchronous",
    }
    assert json.loads(json.dumps(KSync(3).describe())) == {"policy": "k-sync", "k": 3}
    assert str(StaleSynchronous(3)) == "stale-synchronous (bound 3)"
    assert str(Asynchronous()) == "asynchronous"
    assert KSync(3) == KSync(3)
    assert KSync(3) != KSync(4)
    assert KSync(3) != KAsync(3)


@pytest.mark.parametrize("value", [None, "asynchronous", KSync, 3])
def test_what_is_no_policy_is_refused(value: object) -> None:
    assert check_policy(KSync(3)) == KSync(3)
    with pytest.raises(TypeError, match=r"policy must be a policy such as Asynchronous\(\) or KSync\(4\)"):
        check_policy(value)
