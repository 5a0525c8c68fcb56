"""AsyncTrainer's own: one worker as plain training, devices, optimizers, many steps a call.

What it has in common with every trainer is in test_trainer.py and test_trainer_life.py.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from trainers import ACCESS, ENDLESS, refuses

from asyncsgd_edu import (
    AsyncTrainer,
    Constant,
    Digits,
    DropAbove,
    Exponential,
    KBatchAsync,
    KSync,
    Quadratic,
    ScriptedGate,
    Synchronous,
    WorkerError,
)

pytestmark = pytest.mark.usefixtures("eight_devices")


def sgd(rate=0.05, **settings_):
    return keras.optimizers.SGD(rate, **settings_)


def test_a_scripted_race_has_the_staleness_that_its_order_gives():
    order = [(0, "read"), (1, "read"), (1, "apply"), (0, "apply")]
    trace = AsyncTrainer(Quadratic(), workers=2, gate=ScriptedGate(order)).fit(updates=2)
    assert trace.worker.tolist() == [1, 0]
    assert trace.staleness.tolist() == [0, 1]
    assert trace.audit() == []


@pytest.mark.slow
@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("problem", [Quadratic(), Digits("linear"), Digits("mlp")], ids=lambda p: p.name)
@pytest.mark.parametrize(
    "optimizer",
    [lambda: sgd(), lambda: sgd(momentum=0.9), lambda: keras.optimizers.Adam(0.01)],
    ids=["sgd", "momentum", "adam"],
)
def test_one_worker_is_plain_training_bit_for_bit(access, problem, optimizer):
    trainer = AsyncTrainer(problem, workers=1, optimizer=optimizer(), access=access, seed=3)
    trace = trainer.fit(updates=30)
    plain = [keras.Variable(value) for value in problem.initial(3)]
    own, losses = optimizer(), []
    own.build(plain)
    for number in range(30):
        loss, gradient = problem.gradient([v.value for v in plain], problem.batch(0, number, 3))
        own.apply(gradient, plain)
        losses.append(np.float32(loss))
    assert trace.staleness.tolist() == [0] * 30
    assert trace.loss.tolist() == losses
    for ours, theirs in zip(trainer.parameters, plain, strict=True):
        assert np.array_equal(ours, theirs.numpy())


def test_conservation_is_exact_when_workers_read_again_at_once():
    # Round robin: everyone has read before anyone applies, and each reads again right after its apply.
    workers, rounds = 5, 4
    order = [(w, "read") for w in range(workers)]
    order += [(w, action) for _ in range(rounds) for w in range(workers) for action in ("apply", "read")]
    order = order[:-1]  # The last read would come after the end.
    updates = workers * rounds
    trace = AsyncTrainer(Quadratic(), workers=workers, gate=ScriptedGate(order)).fit(updates)
    ages = [updates - r for r in reads_left(order, updates)]
    assert int(trace.staleness.sum()) + sum(ages) == (workers - 1) * updates
    assert trace.staleness[workers:].tolist() == [workers - 1] * (updates - workers)


def reads_left(order, updates):
    version, read = 0, {}
    for worker, action in order:
        if action == "read":
            read[worker] = version
        else:
            del read[worker]
            version += 1
    assert version == updates
    return read.values()


def test_a_trainer_leaves_the_callers_optimizer_alone():
    optimizer = sgd(0.1, momentum=0.9)
    before = int(optimizer.iterations)
    AsyncTrainer(Quadratic(), workers=2, optimizer=optimizer).fit(updates=20)
    assert int(optimizer.iterations) == before
    assert not optimizer.built


def test_workers_are_pinned_round_robin(eight_devices):
    places = eight_devices[:2]
    trainer = AsyncTrainer(Quadratic(), workers=4, devices=["cpu:0", "CPU:1"])
    assert trainer.trace.header.devices == tuple(places)
    assert [trainer._towers[w] is trainer._towers[w - 2] for w in (2, 3)] == [True, True]
    used = {op.device.rsplit("/device:")[-1] for op in trainer._towers[1].steps.graph.get_operations() if op.device}
    assert "CPU:1" in used
    assert trainer.fit(updates=40).audit() == []


@pytest.mark.parametrize(
    ("settings_", "error", "names"),
    [
        ({"access": "locked"}, ValueError, ["access", "'locked'", "consistent", "lock_free"]),
        ({"optimizer": "sgd"}, TypeError, ["optimizer", "'sgd'", "Keras"]),
        ({"steps_per_call": 0}, ValueError, ["steps_per_call", "1 to 10000", "0"]),
        (
            {"steps_per_call": 5, "durations": Constant(0.01)},
            ValueError,
            ["steps_per_call must be 1", "sleeps"],
        ),
        ({"steps_per_call": 5, "policy": Synchronous()}, ValueError, ["steps_per_call must be 1", "5"]),
    ],
)
def test_bad_arguments_of_its_own_are_named_before_anything_starts(settings_, error, names):
    refuses(AsyncTrainer, settings_, error, names)


@pytest.mark.parametrize("rate", [float("nan"), -1.0, float("inf"), 0.0])
def test_a_bad_learning_rate_is_named(rate):
    with pytest.raises(ValueError, match="learning_rate must be a finite number above 0") as told:
        AsyncTrainer(Quadratic(), optimizer=sgd(rate))
    assert str(rate) in str(told.value)


def test_a_negative_duration_is_named():
    for make in (Constant, Exponential):
        with pytest.raises(ValueError, match="-0.01"):
            make(-0.01)


def test_a_learning_rate_may_be_a_schedule_or_a_function():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)

    def steady():
        return 0.1

    for rate in (schedule, steady):
        trace = AsyncTrainer(Quadratic(), workers=2, optimizer=sgd(rate)).fit(updates=20)
        assert trace.audit() == []


def test_the_header_says_the_learning_rate_as_it_was_given():
    header = AsyncTrainer(Quadratic(), optimizer=sgd(0.05)).trace.header
    assert (header.optimizer["name"], header.optimizer["learning_rate"]) == ("SGD", 0.05)
    assert not [name for name in header.optimizer if name.startswith("ema_")]


@pytest.mark.parametrize("access", ACCESS)
def test_many_steps_a_call_are_logged_one_by_one(access):
    trainer = AsyncTrainer(Quadratic(), workers=3, access=access, steps_per_call=7)
    trace = trainer.fit(updates=100)
    assert (len(trace), trainer.version, trace.audit()) == (100, 100, [])
    assert trace.header.steps_per_call == 7
    for worker in range(3):
        batches = trace.batch[trace.worker == worker]
        assert batches.tolist() == list(range(len(batches)))
    assert trainer.fit(updates=1).apply_version[trainer.trace.applied].tolist() == list(range(101))


def test_the_result_does_not_depend_on_the_steps_a_call():
    one = AsyncTrainer(Quadratic(), workers=1).fit(updates=50)
    many = AsyncTrainer(Quadratic(), workers=1, steps_per_call=8).fit(updates=50)
    assert many.loss.tolist() == one.loss.tolist()
    assert many.parameters[0].tolist() == one.parameters[0].tolist()


def test_a_loss_that_is_not_finite_ends_a_call_where_it_is():
    trainer = AsyncTrainer(Quadratic(noise=0.0), workers=2, optimizer=sgd(3.0), steps_per_call=50)
    trace = trainer.fit(updates=3000)
    assert trace.header.ended.how == "diverged"
    assert np.isfinite(trace.loss[trace.applied]).all()
    assert not np.isfinite(trace.loss).all()


def test_a_pause_lets_single_steps_through_whatever_the_steps_a_call():
    trainer = AsyncTrainer(Quadratic(), workers=2, steps_per_call=10)
    trainer.start(updates=10**6)
    trainer.pause()
    before = trainer.version
    trainer.step()
    assert trainer.version == before + 1
    trainer.resume()
    trainer.stop()
    assert trainer.trace.audit() == []


@pytest.mark.filterwarnings("ignore:The object being serialized includes a")
def test_a_function_as_learning_rate_is_not_written_into_the_header():
    trace = AsyncTrainer(Quadratic(), workers=1, optimizer=sgd(lambda: 0.1)).fit(updates=3)
    assert trace.header.optimizer["learning_rate"] == "a function"


@pytest.mark.parametrize(
    "more",
    [{"remedy": DropAbove(1)}, {"policy": KSync(3)}, {"policy": KBatchAsync(3)}, {"steps_per_call": 5}],
    ids=str,
)
def test_a_step_is_one_update_whatever_becomes_of_single_gradients(more):
    trainer = AsyncTrainer(Quadratic(), workers=6, **more)
    trainer.start(ENDLESS)
    trainer.pause()
    for _ in range(5):
        before = trainer.version
        trainer.step()
        assert trainer.version == before + 1
    trainer.stop()
    assert trainer.trace.audit() == []


def test_a_call_that_fails_in_the_middle_says_what_the_log_lacks():
    class Fails(Quadratic):
        fail = False

        def batch(self, worker, number, seed):
            def look(number):
                if self.fail and number == 21:
                    raise ValueError("no such batch")
                return number

            number = tf.py_function(look, [number], tf.int64)
            return super().batch(worker, tf.reshape(number, []), seed)

    problem = Fails()
    trainer = AsyncTrainer(problem, workers=1, steps_per_call=8)
    problem.fail = True
    with pytest.raises(WorkerError, match="no such batch"):
        trainer.fit(updates=100)
    trace = trainer.trace
    assert (trace.version, trainer.version) == (16, 21)
    assert "5 updates of its last call are not in the log" in trace.header.ended.error
    assert trace.parameters is None
    with pytest.raises(RuntimeError, match=r"5 updates of a failed call are not in the log: reset\(\) first"):
        trainer.start(updates=10)
    problem.fail = False
    trainer.reset()
    assert trainer.fit(updates=30).audit() == []
