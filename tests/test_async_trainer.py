"""Real threads: forced orders, the identities that every run obeys, one worker as plain SGD."""

import threading

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsgd_edu import AsyncTrainer, Constant, Digits, Exponential, Quadratic, ScriptedGate, Straggler, Synchronous

pytestmark = pytest.mark.usefixtures("eight_devices")
ACCESS = ("consistent", "lock_free", "read_modify_write")


def sgd(rate=0.05, **settings_):
    return keras.optimizers.SGD(rate, **settings_)


def test_a_scripted_race_has_the_staleness_that_its_order_gives():
    order = [(0, "read"), (1, "read"), (1, "apply"), (0, "apply")]
    trace = AsyncTrainer(Quadratic(), workers=2, gate=ScriptedGate(order)).fit(updates=2)
    assert trace.worker.tolist() == [1, 0]
    assert trace.staleness.tolist() == [0, 1]
    assert trace.audit() == []


@st.composite
def orders(draw):
    workers = draw(st.integers(1, 4))
    holding, order = set(), []
    for worker in draw(st.lists(st.integers(0, workers - 1), min_size=2, max_size=24)):
        order.append((worker, "apply" if worker in holding else "read"))
        holding ^= {worker}
    order += [(worker, "apply") for worker in sorted(holding)]
    return workers, order


@settings(max_examples=25, deadline=None)
@given(orders(), st.sampled_from(ACCESS))
def test_any_forced_order_gives_the_versions_that_counting_gives(script, access):
    workers, order = script
    updates = sum(action == "apply" for _, action in order)
    trace = AsyncTrainer(Quadratic(), workers=workers, access=access, gate=ScriptedGate(order)).fit(updates)
    version, read, expected = 0, {}, []
    for worker, action in order:
        if action == "read":
            read[worker] = version
        else:
            expected.append((worker, read[worker], version))
            version += 1
    found = list(zip(trace.worker.tolist(), trace.read_version.tolist(), trace.apply_version.tolist(), strict=True))
    assert found == expected
    assert trace.read_spread.max() == 0
    assert trace.audit() == []


def test_a_stale_gradient_is_that_of_the_old_parameters():
    # Loss w^2/2 with rate 1/2: each worker read w = 1, so both subtract 1/2; a fresh second one would subtract 1/4.
    order = [(0, "read"), (1, "read"), (0, "apply"), (1, "apply")]
    trainer = AsyncTrainer(Quadratic(noise=0.0, dimension=1), workers=2, optimizer=sgd(0.5), gate=ScriptedGate(order))
    trace = trainer.fit(updates=2)
    assert trainer.parameters[0].tolist() == [0.0]
    assert trace.loss.tolist() == [0.5, 0.5]


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


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 12), st.integers(1, 150), st.sampled_from(ACCESS))
def test_every_race_is_sound_and_ends_exactly_at_its_limit(workers, updates, access):
    trace = AsyncTrainer(Quadratic(dimension=3), workers=workers, access=access).fit(updates)
    assert trace.audit() == []
    assert trace.apply_version.tolist() == list(range(updates))
    assert trace.header.ended.how == "finished"
    pairs = list(zip(trace.worker.tolist(), trace.batch.tolist(), strict=True))
    assert len(set(pairs)) == updates


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


@pytest.mark.slow
@pytest.mark.parametrize("access", ACCESS)
def test_eight_threads_learn_the_digits(access):
    trainer = AsyncTrainer(Digits("cnn"), workers=8, seed=0, access=access)
    trace = trainer.fit(updates=2000)
    assert trace.audit() == []
    assert trace.apply_version.tolist() == list(range(2000))
    assert trainer.evaluate()["accuracy"] > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4, 8, 16])
def test_injected_durations_give_the_staleness_of_that_many_workers(workers):
    trace = AsyncTrainer(Quadratic(), workers=workers, durations=Exponential(0.02)).fit(updates=150 * workers)
    print(f"{workers} workers: mean staleness {trace.mean_staleness:.2f}, N - 1 = {workers - 1}")
    # N - 1 on a machine that keeps up; on a busy one threads wait between an apply and the next read, and it is less.
    assert (workers - 1) / 2 <= trace.mean_staleness <= workers - 1
    # Seen by the clock alone: the updates that fell between a gradient's read and its own.
    updates_by = np.searchsorted(np.sort(trace.apply_time), [trace.read_time, trace.apply_time])
    assert trace.mean_staleness == pytest.approx((updates_by[1] - updates_by[0]).mean(), abs=0.05)
    assert trace.audit() == []
    assert "Exponential" in trace.header.injected


def test_an_injected_duration_is_part_of_the_gradients_duration():
    trace = AsyncTrainer(Quadratic(), workers=2, durations=Constant(0.02)).fit(updates=6)
    assert (trace.ready_time - trace.read_time >= 0.02 - 1e-4).all()


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
        ({"workers": 0}, ValueError, ["workers", "1 to 256", "0"]),
        ({"workers": -1}, ValueError, ["workers", "-1"]),
        ({"workers": 2.5}, TypeError, ["workers", "2.5"]),
        ({"workers": "4"}, TypeError, ["workers", "'4'"]),
        ({"workers": 10**6}, ValueError, ["workers", "1000000", "256"]),
        ({"workers": True}, TypeError, ["workers", "True"]),
        ({"access": "locked"}, ValueError, ["access", "'locked'", "consistent", "lock_free"]),
        ({"seed": -1}, ValueError, ["seed", "-1"]),
        ({"durations": 0.01}, TypeError, ["durations", "0.01", "Constant"]),
        ({"optimizer": "sgd"}, TypeError, ["optimizer", "'sgd'", "Keras"]),
        ({"devices": ["tpu:0"]}, ValueError, ["'tpu:0'", "CPU:0"]),
        ({"devices": "cpu:0"}, TypeError, ["devices", "list"]),
        ({"devices": []}, TypeError, ["devices", "[]"]),
        ({"devices": ["cpu:0"] * 5}, ValueError, ["5 devices", "workers 4"]),
        ({"steps_per_call": 0}, ValueError, ["steps_per_call", "1 to 10000", "0"]),
        (
            {"steps_per_call": 5, "durations": Constant(0.01)},
            ValueError,
            ["steps_per_call must be 1", "sleeps"],
        ),
        ({"steps_per_call": 5, "policy": Synchronous()}, ValueError, ["steps_per_call must be 1", "5"]),
        ({"problem": "digits"}, TypeError, ["problem", "'digits'", "Digits"]),
        ({"gate": "open"}, TypeError, ["gate", "'open'", "ScriptedGate"]),
        ({"durations": Straggler(Constant(0.01), 9, 2.0)}, ValueError, ["9", "0 to 3"]),
    ],
)
def test_bad_arguments_are_named_before_anything_starts(settings_, error, names):
    before = threading.active_count()
    with pytest.raises(error) as told:
        AsyncTrainer(**{"problem": Quadratic(), **settings_})
    for name in names:
        assert name in str(told.value)
    assert threading.active_count() == before


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
    assert not np.isfinite(trace.loss[-1])


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
