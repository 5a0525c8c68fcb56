"""Every optimizer that Keras has: it runs, it is itself where nothing is concurrent, and it is replayed.

The classes are found, not listed: one that a new Keras brings is tested on arrival.
"""

import ast
import functools
import inspect
import re

import keras
import numpy as np
import pytest

from asyncsgd_edu import AsyncTrainer, OpenGate, Quadratic, ScriptedGate, TowerTrainer, replay
from asyncsgd_edu.engines import optimizers, slots
from asyncsgd_edu.engines.gates import Stopped
from asyncsgd_edu.engines.parameters import ACCESS, SharedParameters
from asyncsgd_edu.engines.plain import train_plainly
from asyncsgd_edu.quiet import tf

pytestmark = pytest.mark.usefixtures("eight_devices")
RATE, SEED, ALONE = 0.05, 2, 8
# The base class, which has no rule of its own; and one that divides each gradient by a scale that the loss must have
# been multiplied by, which no trainer here does: `test_optimizers` says that it is refused.
LEFT_OUT = {"Optimizer", "LossScaleOptimizer"}
CLASSES = sorted(
    name
    for name, found in vars(keras.optimizers).items()
    if inspect.isclass(found) and issubclass(found, keras.optimizers.Optimizer) and name not in LEFT_OUT
)
# What TensorFlow does to a graph before it runs: of x / sqrt(y) it makes x * rsqrt(y), of x / 0.9 it makes
# x * 1.1111112. Each rounds otherwise.
REWRITING = ("arithmetic_optimization", "constant_folding")
# Four read before anyone applies; then each reads again at once. Then nobody is fresh: staleness is 3.
SCRIPT = " ".join(["0r 1r 2r 3r", *(f"{worker}a {worker}r" for worker in (0, 1, 2, 3, 1, 0, 3, 2))]).removesuffix(" 2r")


class Bowl(Quadratic):
    """A vector and a matrix, as some optimizers treat them differently."""

    def initial(self, seed):
        (flat,) = super().initial(seed)
        return [flat[:3], flat[3:].reshape(2, 2)]

    def loss(self, parameters, batch):
        return super().loss([tf.concat([tf.reshape(part, [-1]) for part in parameters], 0)], batch)

    def curvature(self, parameters):
        return None


class Averaged(Bowl):
    """Of a batch that two were joined into, the mean of both gradients: what towers do, line by line."""

    def gradient(self, parameters, batch):
        losses, gradients = zip(
            *(super(Averaged, self).gradient(parameters, (z[None],)) for z in batch[0]), strict=True
        )
        return losses[0], [(a + b) / 2.0 for a, b in zip(*gradients, strict=True)]


class Compiled:
    """An optimizer whose update is a graph, as in Keras's own `fit`."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def build(self, parameters):
        optimizers.build(self.optimizer, parameters)
        self.update = tf.function(lambda *step: self.optimizer.apply(list(step), parameters), autograph=False)

    def apply(self, step, parameters):
        self.update(*step)


class ByHand(Compiled):
    """The same without a graph."""

    def apply(self, step, parameters):
        self.optimizer.apply(step, parameters)


class Alone(OpenGate):
    """Lets only worker 0 in; the others go home."""

    def free_pass(self, worker):
        if worker:
            raise Stopped
        return super().free_pass(worker)


BOWL = Bowl([1.0, 0.7, 0.4, 0.9, 0.3, 0.5, 0.8])


def make(name, **settings):
    """A new optimizer, by its class's name."""
    found = getattr(keras.optimizers, name)
    if "optimizer_map" in inspect.signature(found).parameters:
        each = keras.optimizers.OptimizerMap(make("SGD", **settings), {"parameter_1": make("Adam", **settings)})
        return found(each)
    return found(RATE, **settings)


def same(some, others):
    return all(np.array_equal(a, b) for a, b in zip(some, others, strict=True))


@functools.cache
def plain(name, how=Compiled, **settings):
    """Parameters and losses of the plain loop, made once."""
    return train_plainly(BOWL, how(make(name, **settings)), ALONE, SEED)


def check_races(name, access, **settings):
    """One trainer, three runs in one trace: worker 0 alone, then a forced order, then whoever comes."""
    parameters, losses = plain(name, **settings)
    trainer = AsyncTrainer(BOWL, 4, optimizer=make(name, **settings), access=access, seed=SEED, gate=Alone())
    trace = trainer.fit(ALONE)
    assert same(trace.parameters, parameters)
    assert np.array_equal(trace.loss, losses)
    trainer.gate = ScriptedGate(SCRIPT)
    assert trainer.fit(8).staleness[-8:].tolist() == [0, 1, 2, 3, 2, 4, 2, 4]
    trainer.gate = OpenGate()
    trace = trainer.fit(12)
    assert (trace.header.ended.how, trace.updates, trace.audit()) == ("finished", ALONE + 20, [])
    assert np.isfinite(np.concatenate([value.ravel() for value in trace.parameters])).all()
    trainer.reset()
    trainer.gate = Alone()
    assert same(trainer.fit(ALONE).parameters, parameters)  # Nothing of the slots was left.
    return trace


def check_replay(trace, name, **settings):
    again, kept = replay(trace, BOWL, make(name, **settings)), trace.applied
    assert trace.staleness.max() > 0
    assert np.array_equal(again.loss[kept], trace.loss[kept])
    assert same(again.parameters, trace.parameters)


@pytest.mark.parametrize("access", ["lock_free", "read_modify_write"])
@pytest.mark.parametrize("name", CLASSES)
def test_it_races_and_alone_is_the_plain_loop_bit_for_bit(name, access):
    check_races(name, access)


@pytest.mark.parametrize("name", CLASSES)
def test_a_consistent_race_is_replayed_bit_for_bit(name):
    check_replay(check_races(name, "consistent"), name)


@pytest.mark.parametrize("name", CLASSES)
def test_two_towers_are_the_plain_loop_on_the_mean_gradient(name):
    trace = TowerTrainer(BOWL, 2, optimizer=make(name), seed=SEED).fit(ALONE)
    assert (trace.header.ended.how, trace.updates, trace.audit()) == ("finished", ALONE, [])
    expected, _ = train_plainly(Averaged(BOWL.curvatures), Compiled(make(name)), ALONE, SEED, workers=2)
    assert same(trace.parameters, expected)


@pytest.fixture
def as_written():
    """Graphs made meanwhile run as they were written."""
    tf.config.optimizer.set_experimental_options(dict.fromkeys(REWRITING, False))
    yield
    tf.config.optimizer.set_experimental_options(dict.fromkeys(REWRITING, True))


@pytest.mark.parametrize("name", CLASSES)
def test_run_line_by_line_it_differs_by_no_more_than_what_tensorflow_rewrites(name, as_written):
    lines, losses = train_plainly(BOWL, ByHand(make(name)), ALONE, SEED)
    graph, losses_of_graph = train_plainly(BOWL, Compiled(make(name)), ALONE, SEED)
    assert same([*graph, losses_of_graph], [*lines, losses])
    for one, other in zip(plain(name)[0], lines, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("access", ACCESS)
def test_decay_clipping_and_averages_change_none_of_that(access):
    settings = {
        "weight_decay": 0.1,
        "clipnorm": 0.2,
        "use_ema": True,
        "ema_momentum": 0.5,
        "ema_overwrite_frequency": 3,
    }
    trace = check_races("Adam", access, **settings)
    assert not same(plain("Adam", **settings)[0], plain("Adam")[0])
    if access == "consistent":
        check_replay(trace, "Adam", **settings)


def test_nor_does_saving_up_gradients():
    settings = {"gradient_accumulation_steps": 3, "clipvalue": 0.2}
    check_replay(check_races("Adam", "consistent", **settings), "Adam", **settings)


# --- what an update writes


def told():
    """The table in the module's docstring: of each class with settings, what it writes and how."""
    table = {}
    for line in re.findall(r"^    (\w.*?)  +(.*)$", inspect.getdoc(slots), re.MULTILINE):
        name, *settings = line[0].split(" ")
        settings = {key: ast.literal_eval(value) for key, value in (each.split("=") for each in settings)}
        ways = {slot: way for way, those in re.findall(r"(\w+): ([\w, ]+)", line[1]) for slot in those.split(", ")}
        table[line[0]] = (name, settings, ways)
    return table


TOLD = told()


@functools.cache
def written(name, **settings):
    """What an update of a class is found to write, found once."""
    return slots.slots_written(make(name, **settings))


@pytest.mark.skipif(tuple(map(int, keras.__version__.split(".")[:2])) < (3, 15), reason="the table is of Keras 3.15")
@pytest.mark.parametrize("row", TOLD)
def test_the_table_of_slots_says_what_is_written(row):
    name, settings, ways = TOLD[row]
    assert written(name, **settings) == {**ways, "iterations": "overwritten"}


def test_the_table_of_slots_has_every_class():
    assert set(CLASSES) - {"MultiOptimizer"} <= {name for name, settings, _ in TOLD.values() if not settings}


@pytest.mark.parametrize("name", CLASSES)
def test_every_slot_has_a_name(name):
    own = make(name)
    optimizers.build(own, [tf.Variable(value) for value in BOWL.initial(0)])
    assert {id(slot.value.handle) for slot in own.variables} <= set(slots.slot_names(own))


def test_several_optimizers_write_what_each_does():
    if "MultiOptimizer" in CLASSES:
        found = written("MultiOptimizer")
        each = {f"Adam.{name}": way for name, way in written("Adam").items()}
        each |= {"SGD.iterations": "overwritten", "iterations": "overwritten", "parameter": each.pop("Adam.parameter")}
        assert found == each


@pytest.mark.parametrize("name", ["Adam", "Adafactor", "Ftrl"])
def test_lock_free_workers_write_as_the_optimizer_does(name):
    """The graph that the threads run, with its stamps and conditions, given a gradient: against the optimizer's own."""
    trainer = AsyncTrainer(BOWL, 2, optimizer=make(name), access="lock_free")
    shared = trainer._shared
    names = {id(stamped.whole.handle): "parameter" for stamped in shared._stamped}
    names |= slots.slot_names(shared.optimizer)
    assert slots.writes(trainer._towers[0].land, names) == written(name)


@pytest.mark.parametrize("name", CLASSES)
def test_a_parameter_that_is_overwritten_loses_updates_without_a_lock_and_no_other_does(name):
    """Worker 1's update lands between what worker 0 works out and what it writes."""
    shared = SharedParameters([np.eye(2, dtype=np.float32)], make(name), "lock_free", "/device:CPU:0", 2)
    shared.allow(2)
    (stamped,) = shared._stamped
    assign, late = stamped.whole.assign, []

    def update(worker):
        shared.apply([tf.ones((2, 2))], tf.constant(True), worker)

    def assign_late(value):
        if not late:
            late.append(True)
            update(1)
        return assign(value)

    stamped.whole.assign = assign_late
    update(0)
    if not late:
        update(1)
    assert shared.version == 2
    assert shared.lost() == (int(written(name)["parameter"] == "overwritten"),)
