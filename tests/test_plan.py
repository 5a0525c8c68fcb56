"""The layout of a replay: each gradient finds the version it was read at, in few slots."""

from hypothesis import given
from hypothesis import strategies as st

from asyncsgd_edu import Asynchronous, Exponential, KAsync, KSync, Straggler, Synchronous, Trace, simulate
from asyncsgd_edu.engines.plan import NOWHERE, ROW, Plan

AT = {name: place for place, name in enumerate(ROW)}


def versions_found(plan):
    """Version in the slot that each row reads from, when versions are put where the plan says."""
    slots, version, found = {NOWHERE: None}, 0, []
    first = [row[AT["slot_read"]] for row in plan.rows]
    slots[first[0]] = 0
    for row in plan.rows.tolist():
        found.append(slots.get(row[AT["slot_read"]]))
        if row[AT["closes"]]:
            version += 1
            slots[row[AT["slot_made"]]] = version
    return found


policies = st.sampled_from([Asynchronous(), Synchronous(), KSync(2), KAsync(3)])


@given(policy=policies, seed=st.integers(0, 200), workers=st.integers(3, 8))
def test_each_row_finds_the_version_it_was_read_at(policy, seed, workers):
    trace = simulate(workers, policy, Exponential(1.0), 50, seed)
    plan = Plan.of(trace)
    assert versions_found(plan) == trace.read_version.tolist()
    assert plan.slots <= workers + 2


@given(seed=st.integers(0, 50))
def test_the_size_of_an_update_is_the_number_of_its_gradients(seed):
    trace = simulate(5, KSync(3), Exponential(1.0), 30, seed)
    plan = Plan.of(trace)
    assert (plan.size[trace.applied] == 3).all()
    assert (plan.size[~trace.applied] == 0).all()
    assert int(plan.rows[:, AT["closes"]].sum()) == trace.updates


def test_a_straggler_needs_one_slot_however_stale_it_is():
    trace = simulate(4, Asynchronous(), Straggler(Exponential(1.0), worker=0, factor=1000), 5000, 0)
    assert trace.staleness.max() > 500
    assert Plan.of(trace).slots <= 6


def test_single_updates_are_seen():
    assert Plan.of(Trace.from_delays([0, 1, 0])).single
    assert not Plan.of(simulate(3, Synchronous(), Exponential(1.0), 3, 0)).single
