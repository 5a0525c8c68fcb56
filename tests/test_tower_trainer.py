"""Towers: nothing is stale, the mean of small batches is the big batch, everyone has a device."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu import Constant, Digits, Quadratic, Straggler, TowerTrainer
from asyncsgd_edu.engines.tower_trainer import average_gradients

pytestmark = pytest.mark.usefixtures("eight_devices")


def test_every_gradient_is_fresh_and_every_update_has_one_of_each_tower():
    trace = TowerTrainer(Digits("linear"), towers=4).fit(updates=50)
    assert trace.audit() == []
    assert len(trace) == 200
    assert trace.updates == 50
    assert (trace.staleness == 0).all()
    assert trace.worker.reshape(50, 4).tolist() == [[0, 1, 2, 3]] * 50
    assert trace.apply_version.reshape(50, 4).tolist() == [[v] * 4 for v in range(50)]


@pytest.mark.parametrize("model", ["linear", "mlp", "cnn"])
def test_four_towers_are_one_worker_with_a_batch_four_times_as_large(model):
    problem = Digits(model, batch_size=16)
    trainer = TowerTrainer(problem, towers=4, seed=1, optimizer=keras.optimizers.SGD(0.05))
    trainer.fit(updates=10)
    plain = [keras.Variable(value) for value in problem.initial(1)]
    optimizer = keras.optimizers.SGD(0.05)
    for number in range(10):
        parts = [problem.batch(tower, number, 1) for tower in range(4)]
        joined = tuple(tf.concat(part, 0) for part in zip(*parts, strict=True))
        assert len(joined[0]) == 64
        _, gradient = problem.gradient([v.value for v in plain], joined)
        optimizer.apply(gradient, plain)
    for ours, theirs in zip(trainer.parameters, plain, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-6, rtol=0)


def test_one_tower_is_plain_sgd_bit_for_bit():
    problem = Digits("linear")
    trainer = TowerTrainer(problem, towers=1, seed=2)
    trainer.fit(updates=20)
    plain, optimizer = [keras.Variable(value) for value in problem.initial(2)], keras.optimizers.SGD(0.05)
    for number in range(20):
        optimizer.apply(problem.gradient([v.value for v in plain], problem.batch(0, number, 2))[1], plain)
    for ours, theirs in zip(trainer.parameters, plain, strict=True):
        assert np.array_equal(ours, theirs.numpy())


def test_gradients_are_averaged_not_summed():
    towers = [[tf.constant([1.0, 2.0])], [tf.constant([3.0, 6.0])]]
    assert average_gradients(towers)[0].numpy().tolist() == [2.0, 4.0]


def test_each_tower_is_pinned_to_its_own_device(eight_devices):
    trainer = TowerTrainer(Digits("mlp"), towers=3)
    assert trainer.trace.header.devices == tuple(eight_devices[:3])
    for tower, place in enumerate(eight_devices[:3]):
        ops = [op for op in trainer._steps.graph.get_operations() if op.name.startswith(f"tower_{tower}/")]
        work = [op for op in ops if op.type == "MatMul"]
        assert work
        assert {tf.DeviceSpec.from_string(op.device).device_index for op in work} == {
            tf.DeviceSpec.from_string(place.replace("/device", "/device")).device_index
        }


def test_an_injected_straggler_makes_every_update_wait():
    trace = TowerTrainer(Quadratic(), towers=2, durations=Straggler(Constant(0.002), worker=1, factor=10)).fit(5)
    duration = (trace.ready_time - trace.read_time).reshape(5, 2)
    assert (duration[:, 1] - duration[:, 0] > 0.015).all()
    assert (trace.apply_time.reshape(5, 2) >= trace.ready_time.reshape(5, 2)[:, 1:] - 1e-4).all()
    assert trace.audit() == []


def test_more_towers_than_devices_say_what_to_do():
    with pytest.raises(
        ValueError, match=r"9 towers need 9 logical devices, this process has 8.*configure_devices\(9\)"
    ):
        TowerTrainer(Quadratic(), towers=9)
    with pytest.raises(ValueError, match="2 towers need 2 logical devices, this process has 1"):
        TowerTrainer(Quadratic(), towers=2, devices=["cpu:0"])
    with pytest.raises(ValueError, match="3 devices for 2 towers"):
        TowerTrainer(Quadratic(), towers=2, devices=["cpu:0", "cpu:1", "cpu:2"])
    with pytest.raises(ValueError, match="device of its own"):
        TowerTrainer(Quadratic(), towers=2, devices=["cpu:0", "cpu:0"])


@pytest.mark.parametrize(("towers", "error"), [(0, ValueError), (-1, ValueError), (2.5, TypeError), ("4", TypeError)])
def test_bad_towers_are_named(towers, error):
    with pytest.raises(error, match="towers must be a whole number from 1 to 256") as told:
        TowerTrainer(Quadratic(), towers=towers)
    assert repr(towers) in str(told.value)


def test_a_loss_that_is_not_finite_ends_the_run():
    trainer = TowerTrainer(Quadratic(noise=0.0), towers=2, optimizer=keras.optimizers.SGD(3.0))
    trace = trainer.fit(updates=2000)
    assert trainer.state == trace.header.ended.how == "diverged"
    assert trace.header.ended.version == trace.updates
    assert all(np.isfinite(value).all() for value in trainer.parameters)
    assert trace.audit() == []


@pytest.mark.parametrize("updates", [1, 8, 20])
def test_many_updates_in_a_call_are_the_same_updates(updates):
    one, many = (TowerTrainer(Digits("mlp"), towers=3, seed=1, steps_per_call=steps) for steps in (1, 8))
    single, several = one.fit(updates), many.fit(updates)
    assert several.header.steps_per_call == 8
    assert several.audit() == []
    assert (several.header.ended.how, several.header.ended.in_flight) == ("finished", ())
    for name in ("worker", "batch", "read_version", "read_spread", "apply_version", "loss"):
        assert several.columns[name].tolist() == single.columns[name].tolist()
    assert (np.diff(several.apply_time.reshape(updates, 3)[:, 0]) > 0).all()
    assert all(np.array_equal(a, b) for a, b in zip(one.parameters, many.parameters, strict=True))
    assert many.fit(3).columns["batch"].reshape(-1, 3)[:, 0].tolist() == list(range(updates + 3))


def test_many_updates_in_a_call_end_at_the_first_loss_that_is_not_finite():
    one, many = (
        TowerTrainer(Quadratic(noise=0.0), towers=2, optimizer=keras.optimizers.SGD(3.0), steps_per_call=steps)
        for steps in (1, 50)
    )
    single, several = one.fit(updates=2000), many.fit(updates=2000)
    assert several.header.ended == single.header.ended
    assert several.header.ended.how == "diverged"
    assert len(several) == len(single)


def test_a_pause_between_calls_and_single_steps_lose_nothing():
    trainer = TowerTrainer(Digits("linear"), towers=2, steps_per_call=10)
    trainer.start(updates=10**6)
    trainer.pause()
    before = trainer.version
    trainer.step()
    assert trainer.version == before + 1
    trainer.resume()
    trainer.stop()
    trace = trainer.trace
    assert trace.audit() == []
    assert trace.batch.reshape(-1, 2)[:, 0].tolist() == list(range(trace.updates))


def test_updates_that_have_to_wait_are_made_one_a_call():
    with pytest.raises(ValueError, match="steps_per_call must be 1 where a worker waits or sleeps.*got 5"):
        TowerTrainer(Quadratic(), towers=2, steps_per_call=5, durations=Constant(0.01))
