"""The recipe of 2016: forced orders, the laws of every run, one thread as plain SGD, a proper end."""

import gc
import threading
import time
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsgd_edu import (
    AsyncTrainer,
    Constant,
    Digits,
    Exponential,
    Quadratic,
    Rosenbrock,
    ScriptedGate,
    Straggler,
    Trace,
    WorkerError,
)
from asyncsgd_edu.engines.plain import train_plainly
from asyncsgd_edu.engines.session_trainer import SessionTrainer

pytestmark = pytest.mark.usefixtures("eight_devices", "no_worker_is_left")
v1 = tf.compat.v1
ENDLESS = 10_000_000


def workers_alive():
    return [t.name for t in threading.enumerate() if t.name.startswith("asyncsgd-worker")]


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


@pytest.fixture
def no_worker_is_left():
    yield
    until(lambda: not workers_alive())


def descent(rate=0.05):
    return v1.train.GradientDescentOptimizer(rate)


def same(ours, theirs):
    return all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


# --- forced orders


@st.composite
def orders(draw):
    workers = draw(st.integers(1, 4))
    holding, order = set(), []
    for worker in draw(st.lists(st.integers(0, workers - 1), min_size=2, max_size=24)):
        order.append((worker, "apply" if worker in holding else "read"))
        holding ^= {worker}
    order += [(worker, "apply") for worker in sorted(holding)]
    return workers, order


@settings(max_examples=15)
@given(orders(), st.sampled_from([Quadratic(), Digits("linear", batch_size=4)]))
def test_any_forced_order_gives_the_versions_that_counting_gives(script, problem):
    workers, order = script
    updates = sum(action == "apply" for _, action in order)
    trace = SessionTrainer(problem, workers=workers, gate=ScriptedGate(order)).fit(updates)
    version, read, expected = 0, {}, []
    for worker, action in order:
        if action == "read":
            read[worker] = version
        else:
            expected.append((worker, read[worker], version))
            version += 1
    found = list(zip(trace.worker.tolist(), trace.read_version.tolist(), trace.apply_version.tolist(), strict=True))
    assert found == expected
    assert trace.read_spread.max() == 0  # Nothing was let in during a read.
    assert trace.audit() == []


def test_a_stale_gradient_is_that_of_the_old_parameters():
    # Loss w^2/2 with rate 1/2: each worker read w = 1, so both subtract 1/2; a fresh second one would subtract 1/4.
    order = [(0, "read"), (1, "read"), (0, "apply"), (1, "apply")]
    problem = Quadratic(noise=0.0, dimension=1)
    trainer = SessionTrainer(problem, workers=2, optimizer=descent(0.5), gate=ScriptedGate(order))
    trace = trainer.fit(updates=2)
    assert trace.staleness.tolist() == [0, 1]
    assert trainer.parameters[0].tolist() == [0.0]
    assert trace.loss.tolist() == [0.5, 0.5]


def test_a_gradient_that_was_slept_on_is_that_of_the_old_parameters_too():
    # Worker 0 reads first and sleeps; meanwhile 1 makes all the other updates.
    problem = Quadratic(noise=0.0, dimension=1)
    naps = Straggler(Constant(0.001), worker=0, factor=300)
    trainer = SessionTrainer(problem, workers=2, optimizer=descent(0.01), durations=naps)
    trace = trainer.fit(updates=400)
    assert trace.staleness.max() > 0
    weights = 1.0  # As the rows say, in double precision; each read may be of an update more than it says.
    values = [weights]
    for row in range(400):
        weights -= 0.01 * values[trace.read_version[row]]
        values.append(weights)
    assert trainer.parameters[0][0] == pytest.approx(weights, rel=0.05)
    expected = [0.5 * values[version] ** 2 for version in trace.read_version]
    np.testing.assert_allclose(trace.loss, expected, rtol=0.05)


# --- the laws of every run


@pytest.mark.parametrize("problem", [Quadratic(), Digits("linear"), Digits("mlp", batch_size=8)], ids=lambda p: p.name)
@pytest.mark.parametrize("workers", range(1, 9))
def test_every_race_is_sound_and_ends_exactly_at_its_limit(workers, problem):
    trace = SessionTrainer(problem, workers=workers).fit(updates=150)
    assert trace.audit() == []
    assert trace.header.ended.how == "finished"
    assert trace.apply_version.tolist() == list(range(150))
    assert trace.staleness.min() >= 0
    assert trace.read_spread.min() >= 0
    assert len(set(zip(trace.worker.tolist(), trace.batch.tolist(), strict=True))) == 150
    assert np.isfinite(trace.loss).all()
    if problem.name == "quadratic" or workers == 1:  # One variable is read as a whole; one worker reads undisturbed.
        assert trace.read_spread.max() == 0


@settings(max_examples=10)
@given(st.integers(1, 12), st.lists(st.integers(1, 80), min_size=1, max_size=3))
def test_runs_go_on_exactly(workers, runs):
    trainer = SessionTrainer(Quadratic(dimension=3), workers=workers)
    for updates in runs:
        trace = trainer.fit(updates)
        assert trace.audit() == []
    assert trainer.version == trace.updates == sum(runs)
    assert trace.apply_version[trace.applied].tolist() == list(range(sum(runs)))


def test_the_header_says_what_was_run():
    header = SessionTrainer(Digits("linear"), workers=3, seed=5).fit(updates=3).header
    assert (header.trainer, header.policy, header.access, header.clock) == (
        "SessionTrainer",
        "asynchronous",
        "lock_free",
        "real",
    )
    assert (header.workers, header.seed, header.batch_size) == (3, 5, 64)
    assert header.problem["name"] == "digits-linear"
    assert header.optimizer == {"name": "GradientDescentOptimizer", "learning_rate": 0.05}
    assert not header.ended.lost


def test_an_injected_duration_is_part_of_the_gradients_duration():
    trace = SessionTrainer(Quadratic(), workers=2, durations=Constant(0.02)).fit(updates=6)
    assert (trace.ready_time - trace.read_time >= 0.02 - 1e-4).all()
    assert "Constant" in trace.header.injected
    assert trace.audit() == []


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 8])
def test_injected_durations_give_the_staleness_of_that_many_workers(workers):
    trace = SessionTrainer(Quadratic(), workers=workers, durations=Exponential(0.01)).fit(updates=150 * workers)
    assert 0.85 * (workers - 1) <= trace.mean_staleness <= workers - 1
    assert trace.audit() == []


@pytest.mark.slow
def test_eight_threads_on_four_devices_learn_the_digits(eight_devices):
    trainer = SessionTrainer(Digits("cnn"), workers=8, devices=eight_devices[:4])
    trace = trainer.fit(updates=2000)
    assert trace.audit() == []
    assert trainer.evaluate()["accuracy"] > 0.95


# --- one thread is plain SGD


PROBLEMS = [Quadratic(), Rosenbrock(b=1.0), Digits("linear"), Digits("mlp")]


@pytest.mark.parametrize("durations", [None, Constant(1e-6)], ids=["one call", "two calls"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_one_worker_is_plain_sgd_and_async_trainer_bit_for_bit(problem, durations):
    trainer = SessionTrainer(problem, workers=1, seed=3, durations=durations)
    trace = trainer.fit(updates=30)
    assert trace.staleness.tolist() == [0] * 30
    plain, losses = train_plainly(problem, keras.optimizers.SGD(0.05), 30, seed=3)
    assert same(trainer.parameters, plain)
    assert np.array_equal(trace.loss, losses)
    other = AsyncTrainer(problem, workers=1, seed=3)
    assert np.array_equal(trace.loss, other.fit(updates=30).loss)
    assert same(trainer.parameters, other.parameters)


def test_one_worker_is_plain_sgd_on_the_cnn():
    # Not bit for bit: a graph does some of its operations in one, and adds up in another order.
    trainer = SessionTrainer(Digits("cnn"), workers=1, seed=3)
    trace = trainer.fit(updates=20)
    plain, losses = train_plainly(Digits("cnn"), keras.optimizers.SGD(0.05), 20, seed=3)
    np.testing.assert_allclose(trace.loss, losses, rtol=1e-4)
    for ours, theirs in zip(trainer.parameters, plain, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=0)


def as_it_was_written(problem, optimizer, updates):
    """The recipe with no log, no second thread, and batches that come from outside; the parameters at its end."""
    batches = [[part.numpy() for part in problem.batch(0, number, 0)] for number in range(updates)]
    with tf.Graph().as_default():
        batch = [v1.placeholder(part.dtype, part.shape) for part in batches[0]]
        variables = [v1.get_variable(f"w{i}", initializer=value) for i, value in enumerate(problem.initial(0))]
        made = optimizer()
        train_op = made.minimize(problem.loss(variables, batch), global_step=v1.train.get_global_step())
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for data in batches:
                session.run(train_op, dict(zip(batch, data, strict=True)))
            return session.run(variables)


SETTINGS = {
    "MomentumOptimizer": lambda c: c(0.05, momentum=0.9),
    "AdagradDAOptimizer": lambda c: c(0.05, v1.train.get_or_create_global_step()),
    "FtrlOptimizer": lambda c: c(0.05, l1_regularization_strength=0.001),
    "AdamOptimizer": lambda c: c(0.01),
}
# All that there are, but for the one that is abstract and the one that makes workers wait.
CLASSES = [
    c for n in dir(v1.train) if n.endswith("Optimizer") and n not in ("Optimizer", "SyncReplicasOptimizer")
    for c in [getattr(v1.train, n)]
]  # fmt: skip


def make(kind):
    return lambda: SETTINGS.get(kind.__name__, lambda c: c(0.05))(kind)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda c: c.__name__)
def test_every_optimizer_of_2016_does_what_it_did(kind):
    problem = Digits("linear", batch_size=16)
    alone = SessionTrainer(problem, workers=1, optimizer=make(kind))
    alone.fit(updates=20)
    assert same(alone.parameters, as_it_was_written(problem, make(kind), 20))
    together = SessionTrainer(problem, workers=4, optimizer=make(kind))
    trace = together.fit(updates=120)
    assert trace.audit() == []
    assert trace.header.optimizer["name"] == kind.__name__
    assert trace.updates == 120
    assert not same(together.parameters, problem.initial(0))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda c: c.__name__)
def test_a_reset_takes_the_slots_back_as_well(kind):
    trainer = SessionTrainer(Digits("linear", batch_size=4), workers=1, optimizer=make(kind))
    first, losses = trainer.fit(updates=12).parameters, trainer.trace.loss
    trainer.reset()
    assert same(trainer.parameters, trainer.problem.initial(0))
    second = trainer.fit(updates=12)
    assert same(first, second.parameters)
    assert np.array_equal(losses, second.loss)


def test_a_learning_rate_can_decay_by_the_global_step():
    def decaying():
        step = v1.train.get_or_create_global_step()
        return descent(v1.train.exponential_decay(0.5, step, 1, 0.5, staircase=True))

    trainer = SessionTrainer(Quadratic(noise=0.0, dimension=1), workers=1, optimizer=decaying)
    trainer.fit(updates=3)
    assert trainer.parameters[0].tolist() == [0.5 * 0.75 * 0.875]


# --- devices


def placed(trainer, step):
    """Names of the devices that did the matrix products of a step, and that of the variables' update; as they ran."""
    seen = v1.RunMetadata()
    options = v1.RunOptions(output_partition_graphs=True)
    trainer._session.run(step.train_op, {trainer._batch: (0, 0)}, options=options, run_metadata=seen)
    # Branches are functions, laid out in the whole graph: their updates are nodes of the partitions too.
    nodes = [node for graph in seen.partition_graphs for node in graph.node]
    products = {node.device for node in nodes if "MatMul" in node.op}
    updates = {node.device for node in nodes if node.op == "ResourceApplyGradientDescent"}
    counts = {node.device for node in nodes if node.op == "ResourceCountUpTo"}
    assert products
    assert updates
    assert counts
    return [{device.split("/task:0")[-1] for device in found} for found in (products, updates, counts)]


def test_each_device_has_a_step_of_its_own_over_the_same_variables(eight_devices):
    cpu, places = eight_devices[0], [eight_devices[k] for k in (3, 1, 6)]
    trainer = SessionTrainer(Digits("mlp"), workers=6, devices=places)
    assert trainer.trace.header.devices == tuple(places)
    for place, step in zip(places, trainer._steps, strict=True):
        assert placed(trainer, step) == [{place}, {cpu}, {cpu}]
    assert len(trainer._session.graph.get_collection("trainable_variables")) == 4


def test_a_single_device_has_the_variables_too(eight_devices):
    trainer = SessionTrainer(Digits("mlp"), workers=2, devices=[eight_devices[2]])
    assert placed(trainer, trainer._steps[0]) == [{eight_devices[2]}, {eight_devices[2]}, {eight_devices[0]}]


@pytest.mark.parametrize(("workers", "devices"), [(4, 4), (8, 4), (5, 3), (8, 8)])
def test_threads_and_devices_vary_independently(eight_devices, workers, devices):
    trainer = SessionTrainer(Digits("linear"), workers, eight_devices[:devices], durations=Constant(0.0005))
    run, used = trainer._run, {}

    def watched(fetches, feeds):
        if fetches is not trainer._apply:
            worker = int(threading.current_thread().name.rsplit("-")[-1])
            used.setdefault(worker, set()).add(id(fetches))
        return run(fetches, feeds)

    trainer._run = watched
    trace = trainer.fit(updates=40 * workers)
    assert trace.audit() == []
    assert set(trace.worker) == set(used) == set(range(workers))
    # The same step for every so many workers, and no other.
    assert [used[w] for w in range(workers)] == [{id(trainer._steps[w % devices].compute)} for w in range(workers)]
    assert len({id(step.compute) for step in trainer._steps}) == devices


# --- a life and its end


def test_the_states_of_a_life():
    trainer = SessionTrainer(Digits("linear"), workers=3)
    assert trainer.state == "ready"
    trainer.start(ENDLESS)
    until(lambda: trainer.version > 5)
    trainer.pause()
    assert trainer.state == "paused"
    version, before = trainer.version, trainer.parameters
    assert not trainer._crew.over.wait(0.05)
    assert same(before, trainer.parameters)
    trainer.step()
    trainer.step()
    assert trainer.version == version + 2
    trainer.resume()
    until(lambda: trainer.version > version + 10)
    assert trainer.trace.audit() == []  # Of a run that goes on.
    trainer.stop()
    assert trainer.state == trainer.trace.header.ended.how == "stopped"
    assert trainer.trace.audit() == []
    assert trainer.trace.updates == trainer.version
    assert workers_alive() == []


def test_stop_ends_sixteen_sleeping_threads():
    trainer = SessionTrainer(Quadratic(), workers=16, durations=Constant(1000.0))
    trainer.start(ENDLESS)
    until(lambda: len(trainer._log.left_in_flight()) == 16)
    trainer.stop()
    assert trainer.state == "stopped"
    assert workers_alive() == []
    assert len(trainer.trace.header.ended.in_flight) == 16
    assert trainer.trace.audit() == []


class Blocked(Quadratic):
    """A problem whose gradients hang, those of workers from `first` on, once `go` is cleared, until it is set again."""

    def __init__(self, first=0):
        super().__init__()
        self.first, self.go = first, threading.Event()
        self.go.set()  # A trainer rehearses when it is made.

    def batch(self, worker, number, seed):
        def hang(value, who):
            if who >= self.first:
                self.go.wait(30)
            return value

        (noise,) = super().batch(worker, number, seed)
        return (tf.ensure_shape(tf.numpy_function(hang, [noise, worker], tf.float32), [1, 20]),)


@pytest.mark.parametrize("count", [1, 4], ids=["one device", "four devices"])
def test_stop_returns_although_every_worker_is_deep_in_a_gradient(eight_devices, count):
    problem = Blocked()
    trainer = SessionTrainer(problem, workers=4, devices=eight_devices[:count])
    problem.go.clear()
    trainer.start(5)
    trainer.stop()
    assert trainer.state == "stopped"
    with pytest.raises(RuntimeError, match="asyncsgd-worker-. .*last gradient"):
        trainer.start(5)
    problem.go.set()
    until(lambda: not workers_alive())
    assert trainer.version == 0  # What came back late was refused, and the header knows of it after all.
    assert sorted(g.worker for g in trainer.trace.header.ended.in_flight) == [0, 1, 2, 3]
    assert trainer.fit(updates=5).updates == 5
    assert trainer.trace.audit() == []


def test_workers_that_hang_hold_up_no_other():
    problem = Blocked(first=1)
    trainer = SessionTrainer(problem, workers=8)  # Seven hang, more than there are cores in most classrooms.
    problem.go.clear()
    trace = trainer.fit(updates=20)
    assert not problem.go.is_set()
    assert trace.worker.tolist() == [0] * 20
    problem.go.set()
    until(lambda: not workers_alive())
    assert trainer.version == 20
    assert trainer.trace.audit() == []


class Broken(Quadratic):
    """A problem whose worker 1 raises at its third batch."""

    def batch(self, worker, number, seed):
        bad = tf.logical_and(tf.equal(worker, 1), tf.equal(number, 2))
        tf.debugging.assert_equal(bad, False, message="the data ran out")
        return super().batch(worker, number, seed)


@pytest.mark.parametrize("durations", [None, Constant(1e-6)], ids=["one call", "two calls"])
def test_a_failing_worker_fails_the_run_by_number(durations):
    trainer = SessionTrainer(Broken(), workers=3, durations=durations)
    with pytest.raises(WorkerError, match="worker 1 failed: InvalidArgumentError") as told:
        trainer.fit(updates=ENDLESS)
    assert told.value.worker == trainer.trace.header.ended.worker == 1
    assert "the data ran out" in trainer.trace.header.ended.error
    assert trainer.state == "failed"
    assert trainer.trace.audit() == []


@pytest.mark.parametrize("durations", [None, Constant(1e-6)], ids=["one call", "two calls"])
def test_a_loss_that_is_not_finite_ends_the_run_with_its_version(durations):
    trainer = SessionTrainer(Quadratic(curvatures=61.0, noise=0.0), workers=2, durations=durations)  # 0.05 > 2 / 61.
    trace = trainer.fit(updates=10_000)
    assert trainer.state == trace.header.ended.how == "diverged"
    bad = np.flatnonzero(~np.isfinite(trace.loss))
    assert trace.header.ended.version in trace.read_version[bad]
    assert (trace.apply_version[bad] == -1).all()
    assert trace.audit() == []
    trainer.reset()
    assert same(trainer.parameters, trainer.problem.initial(0))


class SlowToLand(v1.train.GradientDescentOptimizer):
    """Its updates hang once `go` is cleared."""

    go = threading.Event()

    def _resource_apply_dense(self, grad, handle):
        def hang(value):
            self.go.wait(30)
            return value

        late = tf.ensure_shape(tf.numpy_function(hang, [grad], tf.float32), grad.shape)
        return super()._resource_apply_dense(late, handle)


def test_one_refused_while_the_last_update_lands_was_too_late_not_thrown_away():
    trainer = SessionTrainer(Quadratic(), workers=2, optimizer=lambda: SlowToLand(0.05))
    SlowToLand.go.clear()
    trainer.start(1)
    until(lambda: trainer._session.run(trainer._shared._started) == 2)  # One was let in, the other refused.
    SlowToLand.go.set()
    trace = trainer.wait()
    assert (len(trace), trace.updates) == (1, 1)
    until(lambda: not workers_alive())
    assert [g.worker for g in trainer.trace.header.ended.in_flight] == [1 - trace.worker[0]]
    assert trainer.trace.audit() == []


def test_a_run_can_be_recorded(tmp_path):
    trainer = SessionTrainer(Quadratic(), workers=2, optimizer=v1.train.MomentumOptimizer(np.float32(0.05), 0.9))
    trace = trainer.fit(updates=30, record=tmp_path / "run.jsonl")
    loaded = Trace.load(tmp_path / "run.jsonl")
    assert loaded.header == trace.header
    assert np.array_equal(loaded.loss, trace.loss)


def test_the_graph_is_complete_before_a_worker_starts():
    trainer = SessionTrainer(Quadratic(), workers=2)
    graph = trainer._session.graph
    assert graph.finalized
    operations = len(graph.get_operations())
    trainer.fit(updates=20)
    trainer.reset()
    assert trainer.evaluate()["distance"] == pytest.approx(20**0.5)
    assert len(graph.get_operations()) == operations


def test_a_trainer_that_is_forgotten_leaves_no_session():
    trainer = SessionTrainer(Digits("linear"), workers=2)
    trainer.fit(updates=10)
    session, graph = weakref.ref(trainer._session), weakref.ref(trainer._session.graph)
    del trainer
    gc.collect()
    assert session() is None
    assert graph() is None


def test_a_problem_can_be_given_to_the_other_trainers_afterwards():
    problem = Digits("linear")  # It keeps its data from the first time that it is asked.
    SessionTrainer(problem, workers=1).fit(updates=2)
    assert AsyncTrainer(problem, workers=1).fit(updates=2).audit() == []


# --- bad arguments


@pytest.mark.parametrize(
    ("settings_", "error", "names"),
    [
        ({"workers": 0}, ValueError, ["workers", "1 to 256", "0"]),
        ({"workers": 2.5}, TypeError, ["workers", "2.5"]),
        ({"workers": "4"}, TypeError, ["workers", "'4'"]),
        ({"workers": True}, TypeError, ["workers", "True"]),
        ({"seed": -1}, ValueError, ["seed", "-1"]),
        ({"durations": 0.01}, TypeError, ["durations", "0.01", "Constant"]),
        ({"durations": Straggler(Constant(0.01), 9, 2.0)}, ValueError, ["9", "0 to 3"]),
        ({"optimizer": "sgd"}, TypeError, ["optimizer", "'sgd'", "tf.compat.v1.train"]),
        ({"optimizer": keras.optimizers.SGD}, TypeError, ["tf.compat.v1.train", "which made", "SGD"]),
        ({"optimizer": lambda: descent(-1.0)}, ValueError, ["learning_rate", "-1.0"]),
        ({"devices": ["tpu:0"]}, ValueError, ["'tpu:0'", "CPU:0"]),
        ({"devices": "cpu:0"}, TypeError, ["devices", "list"]),
        ({"devices": []}, TypeError, ["devices", "[]"]),
        ({"devices": ["cpu:0"] * 5}, ValueError, ["5 devices", "workers 4"]),
        ({"problem": "digits"}, TypeError, ["problem", "'digits'", "Digits"]),
        ({"gate": "open"}, TypeError, ["gate", "'open'", "ScriptedGate"]),
    ],
)
def test_bad_arguments_are_named_before_anything_starts(settings_, error, names):
    before = threading.active_count()
    with pytest.raises(error) as told:
        SessionTrainer(**{"problem": Quadratic(), **settings_})
    for name in names:
        assert name in str(told.value)
    assert threading.active_count() == before
