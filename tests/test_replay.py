"""Replay: the same race, bit for bit, and what it refuses."""

import warnings
from dataclasses import dataclass

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import Plan, changed, simulate, small

import asyncsgd_edu
from asyncsgd_edu import (
    Asynchronous,
    AsyncTrainer,
    Constant,
    DelayCompensation,
    Digits,
    DivideByStaleness,
    DropAbove,
    Exponential,
    Quadratic,
    ScriptedGate,
    TowerTrainer,
    replay,
)
from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.remedies import Remedy

pytestmark = pytest.mark.usefixtures("eight_devices")
OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.05),
    "momentum": lambda: keras.optimizers.SGD(0.02, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.005),
}


def same(one, other):
    return np.array_equal(one.loss, other.loss) and all(
        np.array_equal(a, b) for a, b in zip(one.parameters, other.parameters, strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("problem", [Quadratic(), Digits("linear"), Digits("mlp"), Digits("cnn")], ids=lambda p: p.name)
def test_a_consistent_race_is_replayed_bit_for_bit(problem, optimizer):
    make = OPTIMIZERS[optimizer]
    for workers in (1, 5):
        trace = AsyncTrainer(problem, workers=workers, optimizer=make(), seed=workers).fit(updates=60)
        again = replay(trace, problem, make())
        assert same(trace, again)
        assert np.array_equal(again.apply_version, trace.apply_version)
        assert again.header.trainer == "replay"


def test_towers_are_replayed_bit_for_bit():
    trace = TowerTrainer(Digits("mlp"), towers=4).fit(updates=30)
    assert same(trace, replay(trace, Digits("mlp")))


def test_a_run_that_dropped_gradients_is_replayed():
    trainer = AsyncTrainer(Quadratic(), workers=4, durations=Exponential(0.002))
    trainer.fit(updates=20)
    trace = trainer.fit(updates=20)
    assert (~trace.applied).any()
    again = replay(trace, Quadratic())
    kept = trace.applied
    assert np.array_equal(again.loss[kept], trace.loss[kept])
    assert np.array_equal(again.parameters[0], trace.parameters[0])


def test_a_stale_gradient_is_computed_at_the_old_parameters():
    # Loss w^2/2, rate 1/2, both read w = 1: 1 - 1/2 - 1/2 = 0. With a fresh second gradient it would be 1/4.
    order = [(0, "read"), (1, "read"), (0, "apply"), (1, "apply")]
    bowl = Quadratic(noise=0.0, dimension=1)
    trace = AsyncTrainer(bowl, workers=2, gate=ScriptedGate(order)).fit(updates=2)
    assert replay(trace, bowl, learning_rate=0.5).parameters[0].tolist() == [0.0]


@pytest.mark.filterwarnings("ignore:the trace is of none")
@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(5, 60), st.integers(1, 3), st.booleans(), st.integers(0, 10**6))
def test_any_schedule_gives_what_plain_python_gives(workers, steps, per_update, dropping, seed):
    trace = simulate(Plan(workers, steps, per_update=per_update, dropping=dropping, seed=seed))
    if trace.updates == 0:
        return
    bowl, rate = Quadratic(curvatures=[1.0, 0.3], noise=0.2), 0.1
    again = replay(trace, bowl, learning_rate=rate)
    versions = [bowl.initial(0)[0].astype(np.float64)]
    total, count = 0.0, 0
    for row in range(len(trace)):
        noise = bowl.batch(int(trace.worker[row]), int(trace.batch[row]), 0)[0].numpy()[0]
        gradient = bowl.curvatures * versions[trace.read_version[row]] + 0.2 * noise
        if trace.apply_version[row] < 0:
            continue
        total, count = total + gradient, count + 1
        rest = trace.apply_version[row + 1 :]
        if trace.apply_version[row] not in rest:
            versions.append(versions[-1] - rate * total / count)
            total, count = 0.0, 0
    np.testing.assert_allclose(again.parameters[0], versions[-1], atol=1e-5)


def test_another_learning_rate_is_another_result_of_the_same_race():
    trace = AsyncTrainer(Quadratic(), workers=3).fit(updates=50)
    other = replay(trace, Quadratic(), learning_rate=0.01)
    assert np.array_equal(other.read_version, trace.read_version)
    assert not np.array_equal(other.loss, trace.loss)
    assert other.header.optimizer["learning_rate"] == pytest.approx(0.01)


def test_a_replay_that_diverges_says_where_and_keeps_finite_parameters():
    trace = AsyncTrainer(Quadratic(noise=0.0), workers=2).fit(updates=3000)
    again = replay(trace, Quadratic(noise=0.0), learning_rate=3.0)
    assert again.header.ended.how == "diverged"
    assert again.header.ended.version == again.read_version[-1]
    assert not np.isfinite(again.loss[-1])
    assert np.isfinite(again.loss[:-1]).all()
    assert np.isfinite(again.parameters[0]).all()


def test_another_problem_is_replayed_with_a_warning(tmp_path):
    trace = AsyncTrainer(Quadratic(), workers=2).fit(updates=5)
    with pytest.warns(UserWarning, match="of quadratic, replayed on digits-linear"):
        replay(trace, Digits("linear"))
    with pytest.warns(UserWarning, match=r"of quadratic with noise 0.1, replayed with noise 0.5"):
        replay(trace, Quadratic(noise=0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replay(trace, Quadratic())
        trace.save(tmp_path / "race.jsonl")
        replay(asyncsgd_edu.Trace.load(tmp_path / "race.jsonl"), Quadratic())


def test_what_cannot_be_replayed_is_refused():
    with pytest.raises(ValueError, match="without rows"):
        replay(small()[:0], Quadratic())
    with pytest.raises(ValueError, match="from version 0"):
        replay(small(updates=10)[4:], Quadratic())
    with pytest.raises(ValueError, match="breaks a law"):
        replay(changed(small(), "read_version", 3, 9), Quadratic())
    with pytest.raises(ValueError, match="learning_rate must be a finite number above 0, got -1"):
        replay(small(), Quadratic(), learning_rate=-1)
    with pytest.raises(TypeError, match="problem"):
        replay(small(), "quadratic")


def test_a_replay_that_is_told_to_stop_keeps_what_it_has_done():
    trace = asyncsgd_edu.simulate(4, Asynchronous(), Constant(1.0), 20_000, 0)
    answers = iter([False, False, True])
    part = replay(trace, Quadratic(), stop=lambda: next(answers))
    assert part.header.ended.how == "stopped"
    assert 0 < len(part) < len(trace)
    assert part.loss.tolist() == replay(trace, Quadratic()).loss[: len(part)].tolist()
    nothing = replay(trace, Quadratic(), stop=lambda: True)
    assert len(nothing) == 0
    assert nothing.header.ended.how == "stopped"


def test_what_if_is_a_trace_that_says_so():
    trace = AsyncTrainer(Quadratic(), workers=4, durations=Exponential(0.001)).fit(updates=60)
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
    assert same(others, replay(whole, Quadratic(), without=[0]))


def test_the_gap_is_the_distance_moved_since_the_read():
    # Rate 1/2, w = 1 read by both: after the first update w = 1/2, so the second gradient is 1/2 away, and so is it.
    bowl = Quadratic(noise=0.0, dimension=1)
    trace = asyncsgd_edu.simulate(2, Asynchronous(), Constant(1.0), 2, 0)
    again = replay(trace, bowl, learning_rate=0.5, measure_gap=True)
    assert again.measured["gap"].tolist() == [0.0, 0.5]
    assert again.measured["gradient_error"].tolist() == [0.0, 0.5]
    assert replay(trace, bowl).measured == {}


def test_a_saved_counterfactual_says_what_it_is(tmp_path):
    trace = asyncsgd_edu.simulate(3, Asynchronous(), Constant(1.0), 20, 0)
    made = replay(trace, Quadratic(), fresh=[1], remedy=DivideByStaleness())
    made.save(tmp_path / "made.jsonl")
    found = asyncsgd_edu.Trace.load(tmp_path / "made.jsonl")
    assert found.header.counterfactual == {"fresh": [1]}
    assert found.header.remedy == {"name": "divide-by-staleness"}


def test_the_path_is_what_was_read_and_what_was_written():
    bowl = Quadratic(noise=0.0, dimension=2)
    trace = asyncsgd_edu.simulate(2, Asynchronous(), Constant(1.0), 3, 0)
    assert trace.read_version.tolist() == [0, 0, 1]
    path = replay(trace, bowl, learning_rate=0.5, measure_path=True).measured
    assert path["read"].tolist() == [[1.0, 1.0], [1.0, 1.0], [0.5, 0.5]]
    assert path["written"].tolist() == [[0.5, 0.5], [0.0, 0.0], [-0.25, -0.25]]
    with pytest.raises(ValueError, match="measure_path is for at most 1000 parameters, digits-mlp has"):
        replay(trace, Digits("mlp"), measure_path=True)


def test_who_looks_on_sees_every_loss_once_in_order():
    trace = asyncsgd_edu.simulate(4, Asynchronous(), Constant(1.0), 500, 0)
    seen, asked = [], []
    whole = replay(trace, Quadratic(), seen=seen.append, stop=lambda: bool(asked.append(len(seen))))
    assert np.concatenate(seen).tolist() == whole.loss.tolist()
    assert asked == list(range(len(seen)))


def test_a_stopped_replay_ends_with_a_whole_update():
    trace = asyncsgd_edu.simulate(5, asyncsgd_edu.Synchronous(), Constant(1.0), 4000, 0)
    answers = iter([False, True])
    part = replay(trace, Quadratic(), learning_rate=0.01, stop=lambda: next(answers))
    assert len(part) == 15  # Of 16 rows that a first stretch has.
    whole = replay(part, Quadratic(), learning_rate=0.01)
    assert whole.parameters[0].tolist() == part.parameters[0].tolist()


@pytest.mark.parametrize("workers", [3, 5, 11])
def test_averages_of_any_number_are_replayed_bit_for_bit(workers):
    for policy in (asyncsgd_edu.Synchronous(), asyncsgd_edu.KSync(3), asyncsgd_edu.KBatchAsync(3)):
        trace = AsyncTrainer(Quadratic(), workers=workers, policy=policy).fit(updates=40)
        again = replay(trace, Quadratic())
        kept = trace.applied
        assert np.array_equal(again.loss[kept], trace.loss[kept])
        assert np.array_equal(again.parameters[0], trace.parameters[0])
    towers = min(workers, 7)
    trace = TowerTrainer(Quadratic(), towers=towers).fit(updates=40)
    assert same(trace, replay(trace, Quadratic()))


def test_what_a_dropped_gradient_is_plays_no_part():
    class Steep(Quadratic):
        def loss(self, parameters, batch):
            return super().loss(parameters, batch) * batch[1]

        def batch(self, worker, number, seed):
            # Worker 1's loss is finite, its gradient squared is not.
            return *super().batch(worker, number, seed), tf.where(tf.cast(worker, tf.int64) == 1, 1e25, 1.0)

    trace = asyncsgd_edu.Trace.from_schedule("0r 1r 0a 0r 0a 1d 0r 0a")
    again = replay(trace, Steep(), remedy=DelayCompensation(0.04))
    assert again.header.ended.how == "finished"
    assert np.isfinite(again.parameters[0]).all()


def test_a_replay_ends_in_its_own_way():
    broken = AsyncTrainer(Quadratic(), workers=2, optimizer=keras.optimizers.SGD(50.0)).fit(updates=500)
    assert broken.header.ended.how == "diverged"
    assert replay(broken, Quadratic(), learning_rate=0.05).header.ended.how == "finished"
    whole = asyncsgd_edu.simulate(4, asyncsgd_edu.KSync(2), Constant(1.0), 300, 0)
    again = replay(whole, Quadratic([1.0, 0.5]), learning_rate=50.0)
    assert again.header.ended.how == "diverged"
    assert again.apply_version[-1] == -1  # The update was not made.
    assert np.isfinite(again.loss[again.applied]).all()
    assert again.audit() == []


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"fresh": 1}, TypeError, "fresh must be a list of workers such as [3], got 1"),
        ({"without": None}, TypeError, "without must be a list of workers such as [3], got None"),
        ({"stop": True}, TypeError, "stop must be a function, got True"),
        ({"seen": 3}, TypeError, "seen must be a function, got 3"),
        ({"trace": "x"}, TypeError, "trace must be a Trace such as trainer.trace, got 'x'"),
        ({"trace": None}, TypeError, "trace must be a Trace such as trainer.trace, got None"),
        ({"learning_rate": -1}, ValueError, "learning_rate must be a finite number above 0, got -1"),
    ],
)
def test_bad_arguments_of_a_replay_are_named(arguments, kind, sentence):
    trace = asyncsgd_edu.simulate(2, Asynchronous(), Constant(1.0), 5, 0)
    with pytest.raises(kind) as told:
        replay(**{"trace": trace, "problem": Quadratic(), **arguments})
    assert sentence in str(told.value)


def test_a_rate_takes_the_place_of_a_schedule():
    trace = asyncsgd_edu.simulate(2, Asynchronous(), Constant(1.0), 5, 0)
    falling = keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5))
    again = replay(trace, Quadratic(), falling, learning_rate=0.2)
    assert again.header.optimizer["learning_rate"] == pytest.approx(0.2)


def test_a_remedy_of_ones_own_drops_in_a_replay_too():
    @dataclass(frozen=True)
    class Fussy(Remedy):
        name = "fussy"

        def keeps(self, staleness):
            return staleness <= 1

    trace = asyncsgd_edu.simulate(5, Asynchronous(), Exponential(1.0), 60, 0)
    again = replay(trace, Quadratic(), remedy=Fussy())
    assert again.staleness.max() == 1
    assert again.apply_version.tolist() == replay(trace, Quadratic(), remedy=DropAbove(1)).apply_version.tolist()
