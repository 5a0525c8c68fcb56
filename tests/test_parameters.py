"""Three ways to touch shared parameters: what each promises, and what the log says of the rest."""

import threading

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsgd_edu import AsyncTrainer, Digits, Quadratic, ScriptedGate, replay
from asyncsgd_edu.engines.parameters import ACCESS, SharedParameters
from asyncsgd_edu.engines.stamps import Stamped
from asyncsgd_edu.quiet import tf

pytestmark = pytest.mark.usefixtures("eight_devices")
PATIENCE = 60  # Seconds after which a test that waits for a thread gives up.


def shared(access, workers=2):
    initial = [np.zeros(3, np.float32), np.zeros((2, 2), np.float32)]
    parameters = SharedParameters(initial, keras.optimizers.SGD(1.0), access, "/device:CPU:0", workers)
    parameters.allow(100)
    return parameters


def update(parameters, worker):
    return parameters.apply([-tf.ones(3), -tf.ones((2, 2))], tf.constant(True), worker)


@pytest.mark.parametrize("access", ACCESS)
def test_one_after_the_other_nothing_is_torn_or_lost(access):
    parameters = shared(access)
    for number, worker in enumerate((0, 1, 1, 0, 1)):
        read = parameters.read()
        assert (int(read.version), int(read.spread)) == (number, 0)
        assert [float(v.numpy().max()) for v in read.values] == [number, number]
        assert int(update(parameters, worker).version) == number
    assert not any(parameters.lost())


@pytest.mark.parametrize("between", [1, 4])
def test_updates_that_land_in_the_middle_of_a_read_are_its_spread(between):
    parameters = shared("lock_free")
    later = parameters._stamped[1]
    read_later = later.read

    def read_after_updates():
        later.read = read_later
        for _ in range(between):
            update(parameters, 1)
        return read_later()

    later.read = read_after_updates
    read = parameters.read()
    assert int(read.version) == 0
    assert int(read.spread) == between
    assert [float(v.numpy().max()) for v in read.values] == [0, between]


def test_a_torn_read_of_a_thread_is_in_its_row(monkeypatch):
    """Worker A is held between its first variable and its second, while B makes three updates."""
    calls, counting = [], threading.Lock()
    three_landed, a_is_back = threading.Event(), threading.Event()
    armed = threading.Event()

    def hold(values):
        if not armed.is_set():
            return values
        with counting:
            calls.append(threading.current_thread())
            number = len(calls)
        if number == 1:
            assert three_landed.wait(PATIENCE)
        elif number == 5:  # B would read a fourth time.
            three_landed.set()
            assert a_is_back.wait(PATIENCE)
        elif number == 6:
            a_is_back.set()
        return values

    read, before = Stamped.read, []

    def read_held(self):
        # The second variable of two, in every graph that is built: its read waits for the hook,
        # and the hook for the first variable, or the two could be read in the other order.
        if tf.executing_eagerly():
            return read(self)
        if not before:
            before.append(read(self))
            return before[0]
        gate = tf.py_function(hold, [before.pop()[0]], tf.float32)
        with tf.control_dependencies([gate]):
            return read(self)

    class Two(Quadratic):
        def initial(self, seed):
            return [np.ones(20, np.float32), np.ones(1, np.float32)]

        def loss(self, parameters, batch):
            return super().loss(parameters[:1], batch) + tf.reduce_sum(tf.square(parameters[1]))

        def curvature(self, parameters):
            return None

        def evaluate(self, parameters):
            return super().evaluate(parameters[:1])

    monkeypatch.setattr(Stamped, "read", read_held)
    trainer = AsyncTrainer(Two(), workers=2, access="lock_free")
    armed.set()
    trainer.start(updates=5)
    trace = trainer.wait(timeout=PATIENCE)
    held, last = np.argsort(trace.apply_version)[3:]
    assert trace.read_version[held] == 0
    assert trace.read_spread[held] == 3
    # B read its first variable before A's update and its second one after; A, if it comes first again, in quiet.
    assert trace.read_spread[last] == (trace.worker[last] != trace.worker[held])
    assert np.delete(trace.read_spread, [held, last]).tolist() == [0, 0, 0]
    assert trace.audit() == []


@settings(max_examples=10, deadline=None)
@given(access=st.sampled_from(ACCESS), workers=st.sampled_from([1, 2, 3, 8, 32]), seed=st.integers(0, 1000))
def test_whatever_the_access_versions_are_unique_and_staleness_is_conserved(access, workers, seed):
    trace = AsyncTrainer(Quadratic(), workers=workers, access=access, seed=seed).fit(updates=300)
    assert trace.audit() == []
    assert trace.apply_version[trace.applied].tolist() == list(range(300))
    assert (trace.read_spread >= 0).all()
    assert len(trace.header.ended.lost) == (0 if access == "consistent" else 1)


def test_read_modify_write_loses_updates_and_lock_free_does_not():
    # Large enough that two of 800 subtractions by 8 threads overlap: of 800 some 200 do, so none is beyond belief.
    bowl = Quadratic(dimension=200_000, noise=0.0)
    lost = {}
    for access in ("lock_free", "read_modify_write"):
        trace = AsyncTrainer(bowl, workers=8, access=access, optimizer=keras.optimizers.SGD(1e-3)).fit(updates=800)
        (lost[access],) = trace.header.ended.lost
        assert trace.audit() == []
    assert lost["lock_free"] == 0
    assert lost["read_modify_write"] > 0


def test_a_lost_update_is_counted_where_it_is_made_to_happen():
    """W = 1, rate 1/2, no noise: worker 0 writes over what worker 1 has subtracted."""
    parameters = SharedParameters([np.ones(1, np.float32)], keras.optimizers.SGD(0.5), "read_modify_write", "cpu:0", 2)
    parameters.allow(2)
    stamped = parameters._stamped[0]
    assign, others = stamped.whole.assign, []

    def assign_late(value):
        if not others:
            others.append(True)
            parameters.apply([tf.ones(1)], tf.constant(True), 1)
        return assign(value)

    stamped.whole.assign = assign_late
    parameters.apply([tf.ones(1)], tf.constant(True), 0)
    assert parameters.version == 2
    assert parameters.values()[0].tolist() == [0.5]  # One of two halves is gone.
    assert parameters.lost() == (1,)


@pytest.mark.slow
@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("optimizer", [keras.optimizers.SGD, keras.optimizers.Adam, keras.optimizers.AdamW])
def test_one_worker_is_the_replay_of_its_own_run(access, optimizer):
    for problem in (Quadratic(), Digits("mlp")):
        trace = AsyncTrainer(problem, workers=1, access=access, optimizer=optimizer(0.01)).fit(updates=30)
        again = replay(trace, problem, optimizer(0.01))
        assert np.array_equal(trace.loss, again.loss)
        assert all(np.array_equal(a, b) for a, b in zip(trace.parameters, again.parameters, strict=True))
        assert not any(trace.header.ended.lost)


def test_stamps_start_over_with_a_reset():
    trainer = AsyncTrainer(Quadratic(), workers=2, access="read_modify_write")
    first = trainer.fit(updates=50)
    trainer.reset()
    trainer._shared.allow(0)
    assert trainer._shared.lost() == (0,)
    assert trainer.fit(updates=50).updates == first.updates


def test_more_updates_than_stamps_can_count_are_refused():
    trainer = AsyncTrainer(Quadratic(), workers=1, access="lock_free")
    with pytest.raises(ValueError, match="under lock_free access must be at most 16777216 in all, got 16777217"):
        trainer.start(updates=2**24 + 1)
    assert trainer.state == "ready"
    assert len(trainer.fit(updates=3)) == 3


def test_a_forced_order_under_any_access_has_no_spread():
    order = [(0, "read"), (1, "read"), (1, "apply"), (0, "apply")]
    for access in ACCESS:
        trace = AsyncTrainer(Quadratic(), workers=2, access=access, gate=ScriptedGate(order)).fit(updates=2)
        assert trace.staleness.tolist() == [0, 1]
        assert trace.read_spread.tolist() == [0, 0]
        assert not any(trace.header.ended.lost)


def test_an_optimizer_that_saves_up_gradients_leaves_no_stamps():
    optimizer = keras.optimizers.SGD(0.05, gradient_accumulation_steps=4)
    for access in ("lock_free", "read_modify_write"):
        with pytest.raises(ValueError, match=f"gradient_accumulation_steps must be None under {access} access.*got 4"):
            AsyncTrainer(Quadratic(), access=access, optimizer=optimizer)
    assert AsyncTrainer(Quadratic(), workers=1, optimizer=optimizer).fit(updates=8).audit() == []


def test_muon_finds_what_it_asks_a_variable_for():
    for access in ACCESS:
        make = lambda: keras.optimizers.Muon(0.01)  # noqa: E731
        trace = AsyncTrainer(Digits("linear"), workers=1, access=access, optimizer=make()).fit(updates=5)
        assert np.array_equal(replay(trace, Digits("linear"), make()).loss, trace.loss)
