"""Remedies at work: threads and replay correct alike, and what each is for can be seen."""

import keras
import numpy as np
import pytest

from asyncsgd_edu import (
    Asynchronous,
    AsyncTrainer,
    Constant,
    DelayCompensation,
    Digits,
    DivideByStaleness,
    DropAbove,
    Exponential,
    GapAware,
    KAsync,
    KBatchAsync,
    Quadratic,
    ScriptedGate,
    StaleSynchronous,
    replay,
    simulate,
)

pytestmark = pytest.mark.usefixtures("eight_devices")
REMEDIES = [DivideByStaleness(), DropAbove(1), DelayCompensation(0.5), DelayCompensation(exact=True), GapAware()]
ONE_STALE = [(0, "read"), (1, "read"), (0, "apply"), (1, "apply")]


def bowl(curvature=1.0):
    return Quadratic(curvatures=curvature, noise=0.0, dimension=1)


@pytest.mark.parametrize(
    ("remedy", "left"),
    [
        (None, 0.0),  # 1 - 1/2 - 1/2: both gradients are those of w = 1.
        (DivideByStaleness(), 0.0),  # Divided by 1.
        (DropAbove(0), 0.25),  # Thrown away; a fresh one is made instead.
        (DelayCompensation(exact=True), 0.25),  # As if it were fresh.
        (DelayCompensation(0.5), 0.125),  # 1 + 1/2 * 1 * 1 * (-1/2) = 3/4.
        (GapAware(), 0.25),  # It moved by one step: half of it counts.
    ],
    ids=str,
)
def test_what_becomes_of_one_stale_gradient(remedy, left):
    # Where the stale one is thrown away, worker 1 makes another, and that is applied.
    gate = ScriptedGate([*ONE_STALE, (1, "read"), (1, "apply")])
    trainer = AsyncTrainer(bowl(), workers=2, optimizer=keras.optimizers.SGD(0.5), remedy=remedy, gate=gate)
    trace = trainer.fit(updates=2)
    assert trace.apply_version.tolist() == ([0, -1, 1] if remedy == DropAbove(0) else [0, 1])
    assert trainer.parameters[0].tolist() == pytest.approx([left])
    again = replay(trace, bowl(), learning_rate=0.5, remedy=None if remedy == DropAbove(0) else remedy)
    assert again.parameters[0].tolist() == trainer.parameters[0].tolist()


@pytest.mark.parametrize("remedy", REMEDIES, ids=str)
@pytest.mark.parametrize("policy", [Asynchronous(), KAsync(2), StaleSynchronous(2)], ids=str)
def test_a_corrected_race_is_replayed_bit_for_bit(remedy, policy):
    exact = isinstance(remedy, DelayCompensation) and remedy.exact
    problem = Quadratic(curvatures=[1.0, 0.3, 2.0]) if exact else Digits("linear")
    trainer = AsyncTrainer(problem, workers=4, policy=policy, durations=Exponential(0.001), remedy=remedy)
    trace = trainer.fit(updates=40)
    assert trace.audit() == []
    assert trace.header.remedy == remedy.describe()
    # What a bound drops is dropped in the trace.
    again = replay(trace, problem, remedy=None if isinstance(remedy, DropAbove) else remedy)
    assert np.array_equal(trace.loss, again.loss)
    assert all(np.array_equal(a, b) for a, b in zip(trace.parameters, again.parameters, strict=True))


def test_a_bound_holds_in_threads():
    trace = AsyncTrainer(Quadratic(), workers=8, durations=Exponential(0.001), remedy=DropAbove(2)).fit(updates=100)
    assert trace.staleness.max() <= 2
    assert (~trace.applied).any()
    assert trace.updates == 100


def test_exact_compensation_undoes_staleness_on_a_bowl():
    schedule = simulate(8, Asynchronous(), Exponential(1.0), 12, 0)
    problem = Quadratic(curvatures=[1.0, 0.2], noise=0.0)
    plain = replay(simulate(1, Asynchronous(), Constant(1.0), 12, 0), problem, learning_rate=0.3)
    stale = replay(schedule, problem, learning_rate=0.3, remedy=DelayCompensation(exact=True))
    assert np.allclose(plain.parameters[0], stale.parameters[0], atol=1e-6)
    assert not np.allclose(plain.parameters[0], replay(schedule, problem, learning_rate=0.3).parameters[0], atol=1e-3)


def test_division_makes_a_rate_stable_that_was_not():
    schedule = simulate(8, Asynchronous(), Constant(1.0), 3000, 0)
    assert replay(schedule, bowl(), learning_rate=0.5).header.ended.how == "diverged"
    helped = replay(schedule, bowl(), learning_rate=0.5, remedy=DivideByStaleness())
    assert helped.header.ended.how == "finished"
    assert abs(helped.parameters[0][0]) < 1e-3


def test_a_curvature_that_is_not_known_is_told():
    for make in (
        lambda: AsyncTrainer(Digits("linear"), remedy=DelayCompensation(exact=True)),
        lambda: replay(simulate(2, Asynchronous(), Constant(1.0), 2, 0), Digits("linear"),
                       remedy=DelayCompensation(exact=True)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="needs the diagonal of the Hessian, digits-linear does not know its own"):
            make()


def test_no_remedy_by_another_name():
    with pytest.raises(TypeError, match="remedy must be None or a remedy such as"):
        AsyncTrainer(Quadratic(), remedy="divide")
    with pytest.raises(TypeError, match="remedy must be None or a remedy such as"):
        replay(simulate(2, Asynchronous(), Constant(1.0), 2, 0), Quadratic(), remedy="divide")


@pytest.mark.parametrize("policy", [KAsync(4), KBatchAsync(2), KBatchAsync(4)], ids=str)
def test_what_a_remedy_drops_of_an_average_is_dropped_in_the_log(policy):
    trace = AsyncTrainer(Quadratic(), workers=6, policy=policy, remedy=DropAbove(0)).fit(updates=30)
    assert trace.audit() == []
    assert trace.staleness.max() == 0
    flights = [(g.worker, g.read_version) for g in trace.header.ended.in_flight]
    assert all(version <= 30 for _, version in flights)
    again = replay(trace, Quadratic())
    kept = trace.applied
    assert np.array_equal(again.loss[kept], trace.loss[kept])
    assert np.array_equal(again.parameters[0], trace.parameters[0])
