"""Replay: the same race, bit for bit, how it ends, and what it refuses."""

import warnings
from dataclasses import dataclass

import keras
import numpy as np
import pytest
from schedules import changed, small
from trainers import Doorkeeper

import asyncsgd_edu
from asyncsgd_edu import (
    Asynchronous,
    AsyncTrainer,
    Constant,
    Digits,
    DropAbove,
    Exponential,
    Quadratic,
    Straggler,
    TowerTrainer,
    replay,
)
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
    # Worker 3 reads first, and sleeps until the run is over: what it has read is dropped when it goes on.
    naps = Straggler(Exponential(0.002), worker=3, factor=1e6)
    gate = Doorkeeper({3}, lambda: trainer._log.left_in_flight())
    trainer = AsyncTrainer(Quadratic(), workers=4, durations=naps, gate=gate)
    trainer.fit(updates=20)
    trace = trainer.fit(updates=20)
    assert (~trace.applied).any()
    again = replay(trace, Quadratic())
    kept = trace.applied
    assert np.array_equal(again.loss[kept], trace.loss[kept])
    assert np.array_equal(again.parameters[0], trace.parameters[0])


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
