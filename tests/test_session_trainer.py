"""The recipe of 2016: one thread as plain SGD, its optimizers, devices and graph, and an end that it alone can have.

What it has in common with every trainer is in test_trainer.py and test_trainer_life.py.
"""

import gc
import threading
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
import trainers
from trainers import ENDLESS, PATIENCE, refuses, same, until, workers_alive

from asyncsgd_edu import (
    AsyncTrainer,
    Constant,
    Digits,
    Quadratic,
    Rosenbrock,
    Trace,
)
from asyncsgd_edu.engines.plain import train_plainly
from asyncsgd_edu.engines.session_trainer import SessionTrainer

no_worker_is_left = trainers.no_worker_is_left
pytestmark = pytest.mark.usefixtures("eight_devices", "no_worker_is_left")
v1 = tf.compat.v1


def descent(rate=0.05):
    return v1.train.GradientDescentOptimizer(rate)


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
    trainer.start(ENDLESS)
    until(lambda: set(trainer.trace.worker) == set(range(workers)))
    trainer.stop()
    assert trainer.trace.audit() == []
    assert set(trainer.trace.worker) == set(used) == set(range(workers))
    # The same step for every so many workers, and no other.
    assert [used[w] for w in range(workers)] == [{id(trainer._steps[w % devices].compute)} for w in range(workers)]
    assert len({id(step.compute) for step in trainer._steps}) == devices


# --- the graph, and a proper end


class SlowToLand(v1.train.GradientDescentOptimizer):
    """Its updates hang once `go` is cleared."""

    go = threading.Event()

    def _resource_apply_dense(self, grad, handle):
        def hang(value):
            self.go.wait(PATIENCE)
            return value

        late = tf.ensure_shape(tf.numpy_function(hang, [grad], tf.float32), grad.shape)
        return super()._resource_apply_dense(late, handle)


def test_one_refused_while_the_last_update_lands_was_too_late_not_thrown_away():
    trainer = SessionTrainer(Quadratic(), workers=2, optimizer=lambda: SlowToLand(0.05))
    SlowToLand.go.clear()
    trainer.start(1)
    try:
        until(lambda: trainer._session.run(trainer._shared._started) == 2)  # One was let in, the other refused.
    finally:
        SlowToLand.go.set()
    trace = trainer.wait()
    assert (len(trace), trace.updates) == (1, 1)
    until(lambda: not workers_alive())
    assert [g.worker for g in trainer.trace.header.ended.in_flight] == [1 - trace.worker[0]]
    assert trainer.trace.audit() == []


def test_an_update_that_lands_after_a_stop_gave_it_up_is_in_the_log_and_no_longer_in_flight():
    trainer = SessionTrainer(Quadratic(), workers=1, optimizer=lambda: SlowToLand(0.05), durations=Constant(1e-6))
    SlowToLand.go.clear()
    trainer.start(5)
    try:
        until(lambda: trainer._session.run(trainer._shared._started) == 1)
        trainer.stop()
        assert [g.worker for g in trainer.trace.header.ended.in_flight] == [0]
    finally:
        SlowToLand.go.set()
    until(lambda: not workers_alive())
    trace = trainer.trace
    assert (trace.updates, trace.header.ended.in_flight, trace.audit()) == (1, (), [])


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

    def gone():
        gc.collect()
        return session() is None and graph() is None

    until(gone)  # A thread that is on its way out holds them a moment longer.


def test_a_problem_can_be_given_to_the_other_trainers_afterwards():
    problem = Digits("linear")  # It keeps its data from the first time that it is asked.
    SessionTrainer(problem, workers=1).fit(updates=2)
    assert AsyncTrainer(problem, workers=1).fit(updates=2).audit() == []


# --- bad arguments


@pytest.mark.parametrize(
    ("settings_", "error", "names"),
    [
        ({"optimizer": "sgd"}, TypeError, ["optimizer", "'sgd'", "tf.compat.v1.train"]),
        ({"optimizer": keras.optimizers.SGD}, TypeError, ["tf.compat.v1.train", "which made", "SGD"]),
        ({"optimizer": lambda: descent(-1.0)}, ValueError, ["learning_rate", "-1.0"]),
    ],
)
def test_a_bad_optimizer_is_named_before_anything_starts(settings_, error, names):
    refuses(SessionTrainer, settings_, error, names)
