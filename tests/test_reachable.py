"""Where a small world can end: by pencil, by real threads, and by other means than the one graph."""

import dataclasses

import keras
import numpy as np
import pytest

from asyncsgd_edu import AsyncTrainer, DelayCompensation, Digits, DropAbove, Quadratic, ScriptedGate, Trace, replay
from asyncsgd_edu.engines.reachable import reachable
from asyncsgd_edu.problems.rosenbrock import Rosenbrock
from asyncsgd_edu.rules.events import parse
from asyncsgd_edu.rules.interleavings import count_classes, count_interleavings

pytestmark = pytest.mark.usefixtures("eight_devices")


OPTIMIZERS = {  # Made within a test: the first one starts TensorFlow.
    "sgd": lambda: keras.optimizers.SGD(0.4),
    "adam": lambda: keras.optimizers.Adam(0.1),
    "slow": lambda: keras.optimizers.SGD(0.001),
}
BOWL = Quadratic(curvatures=[1.0, 0.3], noise=0.2)


@pytest.mark.parametrize(
    ("problem", "name"),
    [(BOWL, "sgd"), (BOWL, "adam"), (Rosenbrock(noise=0.5), "slow")],
    ids=["quadratic-sgd", "quadratic-adam", "rosenbrock-sgd"],
)
def test_real_threads_land_where_it_is_said(problem, name):
    optimizer = OPTIMIZERS[name]()
    found = reachable(problem, workers=2, steps=2, optimizer=optimizer, seed=3)
    trainer = AsyncTrainer(problem, workers=2, optimizer=optimizer, seed=3)
    for index, schedule in enumerate(found.schedules):
        trainer.reset()
        trainer.gate = ScriptedGate(parse(schedule))
        race = trainer.fit(updates=4)
        assert race.read_version.tolist() == Trace.from_schedule(schedule).read_version.tolist()
        assert np.array_equal(race.parameters[0], found.parameters[0][index]), schedule
        assert trainer.evaluate()["loss"] == found.loss[index]
    assert found.distinct > 20


def test_orders_of_one_class_come_to_the_same():
    one, other = (replay(Trace.from_schedule(text), Quadratic()) for text in ("0r 1r 1a 0a", "1r 0r 1a 0a"))
    assert np.array_equal(one.parameters[0], other.parameters[0])
    found = reachable(Quadratic(), workers=2, steps=1)
    at = found.schedules.index("0r 1r 1a 0a")
    assert found.multiplicity[at] == 2
    assert np.array_equal(found.parameters[0][at], one.parameters[0])


def test_a_bowl_by_pencil():
    # w = 1, each gradient is the w that was read, rate 3/2. In turn: 1 -> -1/2 -> 1/4. Both from 1: 1 -> -1/2 -> -2.
    found = reachable(Quadratic(noise=0.0, dimension=1), workers=2, steps=1, learning_rate=1.5)
    ends = dict(zip(found.schedules, found.points[:, 0].tolist(), strict=True))
    assert ends == {"0r 0a 1r 1a": 0.25, "0r 1r 0a 1a": -2.0, "0r 1r 1a 0a": -2.0, "1r 1a 0r 0a": 0.25}
    assert found.sequential.tolist() == [True, False, False, True]
    assert found.loss.tolist() == [0.03125, 2.0, 2.0, 0.03125]
    assert (found.best, found.worst, found.distinct) == (0, 1, 2)
    assert found.ends[0] == found.ends[3] != found.ends[1] == found.ends[2]
    assert repr(found).splitlines() == [
        "workers 2, steps 1: 6 orders in 4 classes, 2 different ends",
        "loss 0.03125 at best (0r 0a 1r 1a)",
        "loss 2 at worst (0r 1r 0a 1a)",
        "one after the other, without overlap: 0.03125 to 0.03125",
    ]


def test_every_class_is_there_once():
    found = reachable(Quadratic(dimension=3), workers=3, steps=1)
    assert len(found) == len(set(found.schedules)) == count_classes(3, 1)
    assert found.multiplicity.sum() == count_interleavings(3, 1)
    assert found.parameters[0].shape == found.points.shape == (len(found), 3)
    assert found.sequential.sum() == 6  # 3! ways to take turns.
    assert (found.multiplicity[found.sequential] == 1).all()


def test_each_end_is_what_replay_gives_alone():
    problem = Digits("mlp", batch_size=8)
    found = reachable(problem, workers=2, steps=2, optimizer=keras.optimizers.SGD(0.1, momentum=0.9), seed=1)
    for at in (0, found.best, found.worst, len(found) - 1):
        alone = replay(
            Trace.from_schedule(found.schedules[at], seed=1), problem, keras.optimizers.SGD(0.1, momentum=0.9)
        )
        assert all(np.array_equal(a[at], b) for a, b in zip(found.parameters, alone.parameters, strict=True))
        assert problem.evaluate(alone.parameters)["loss"] == found.loss[at]
    assert found.loss[found.best] == found.loss.min()
    assert [values.shape[1:] for values in found.parameters] == [value.shape for value in problem.initial(1)]


def test_one_worker_has_one_end():
    found = reachable(Quadratic(), workers=1, steps=5)
    assert (len(found), found.distinct, found.sequential.tolist()) == (1, 1, [True])
    alone = AsyncTrainer(Quadratic(), workers=1).fit(updates=5)
    assert np.array_equal(found.parameters[0][0], alone.parameters[0])


def test_an_end_that_is_lost_is_the_worst():
    found = reachable(Rosenbrock(), workers=2, steps=3, learning_rate=2.0)
    assert found.loss[found.worst] == found.loss.max() > 1e12
    lost = dataclasses.replace(found, loss=np.where(np.arange(len(found)) == 5, np.nan, 1.0))
    assert (lost.worst, lost.best) == (5, 0)


def test_the_result_cannot_be_changed():
    found = reachable(Quadratic(), workers=2, steps=1)
    for values in (found.loss, found.multiplicity, found.sequential, found.points, found.ends, *found.parameters):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.loss = found.loss


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("quadratic",), TypeError, "problem must be a problem"),
        ((Quadratic(), 3, 3), ValueError, "3 workers with 3 steps have 1824912 classes of interleavings, most is 5000"),
        ((Quadratic(), 2, 2, None, -1.0), ValueError, "learning_rate must be"),
        ((Quadratic(), 2, 2, "sgd"), TypeError, "optimizer must be"),
        ((Quadratic(), 2, 2, None, None, 30), ValueError, "34 classes of interleavings, most is 30"),
        ((Quadratic(), 2, 2, None, None, 40, -1), ValueError, "seed must be"),
    ],
)
def test_bad_arguments_are_named(arguments, error, words):
    with pytest.raises(error, match=words):
        reachable(*arguments)


def test_a_remedy_brings_the_ends_together():
    bowl = Quadratic(noise=0.0, dimension=1)
    plain = reachable(bowl, 2, 2, learning_rate=0.5)
    helped = reachable(bowl, 2, 2, learning_rate=0.5, remedy=DelayCompensation(exact=True))
    assert helped.parameters[0].tolist() == pytest.approx(np.full((len(helped), 1), 0.5**4))
    assert plain.distinct > helped.distinct
    dropped = reachable(bowl, 2, 2, learning_rate=0.5, remedy=DropAbove(0))
    # What is stale is thrown away, so only the number of updates that are left decides.
    assert set(dropped.parameters[0].reshape(-1).tolist()) <= {0.5**n for n in range(1, 5)}


def test_what_is_sequential_does_not_depend_on_what_is_dropped():
    bowl = Quadratic([1.0, 0.5])
    assert reachable(bowl, 2, 1, remedy=DropAbove(0)).sequential.tolist() == reachable(bowl, 2, 1).sequential.tolist()
