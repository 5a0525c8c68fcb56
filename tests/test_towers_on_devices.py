"""Each worker's arithmetic ran on its own device: told by the graphs that ran, not by what was asked for.

The number of threads and the number of devices are free of each other. TensorFlow reports what it ran,
after it has placed, split and optimised it: a session for every call, op by op, and a function when it runs for the
first time. Which function a thread calls is watched while the run goes on.
"""

import threading
from collections import defaultdict

import pytest
import tensorflow as tf
from tensorflow.python.eager import context  # The only way to the graphs of functions as they ran.

from asyncsgd_edu import AsyncTrainer, Constant, Digits, SessionTrainer

v1 = tf.compat.v1
PATIENCE = 60  # Seconds until a worker that does not come is missed.
# Workers, and devices: two threads each, one each, and one more here than there.
SHAPES = [(8, 4), (4, 4), (5, 2)]


class Marked(Digits):
    """Digits whose gradient has a name of its own in each graph that it is put into."""

    def __init__(self):
        super().__init__("mlp")
        self.marks = {}  # Of each graph.

    def gradient(self, parameters, batch):
        mark = f"gradient_{len(self.marks)}"
        self.marks[v1.get_default_graph()] = mark
        with tf.name_scope(mark):
            return super().gradient(parameters, batch)


class Watch:
    """Keeps what each worker has called, and lets nobody go on before all have come."""

    def __init__(self, workers):
        self.called = defaultdict(list)
        self._everybody = threading.Barrier(workers)

    def call(self, what):
        worker = int(threading.current_thread().name.removeprefix("asyncsgd-worker-"))
        self.called[worker].append(what)
        if len(self.called[worker]) == 1:
            self._everybody.wait(PATIENCE)


def device(name):
    return "/device:" + name.split("/device:")[-1]


def round_robin(places, workers):
    """What must have come out: for each worker its device and no other."""
    return {worker: {places[worker % len(places)]} for worker in range(workers)}


def sound(trace, updates):
    return trace.audit() == [] and trace.apply_version.tolist() == list(range(updates))


# --- functions


def watched_functions(workers, places, access, **settings):
    """A trainer, what it calls under watch, and where the matrix products of each gradient ran in its rehearsal."""
    problem = Marked()
    context.enable_run_metadata()
    try:
        trainer = AsyncTrainer(problem, workers, places, access=access, **settings)
        ran = context.export_run_metadata()
    finally:
        context.disable_run_metadata()
    products = defaultdict(set)
    for node in (node for graph in ran.partition_graphs for node in graph.node):
        if "MatMul" in node.op:
            products[node.name.split("/")[0]].add(device(node.device))
    watch = Watch(workers)
    for tower in set(trainer._towers):
        for name in ("steps", "compute"):
            function = getattr(tower, name)

            def under_watch(batch, function=function):
                watch.call(problem.marks[function.graph])
                return function(batch)

            setattr(tower, name, under_watch)
    return trainer, watch, products


def used(watch, products):
    """The devices of the matrix products in what each worker has called."""
    assert all(products[mark] for marks in watch.called.values() for mark in marks)
    return {worker: set().union(*(products[mark] for mark in set(marks))) for worker, marks in watch.called.items()}


@pytest.mark.parametrize(
    ("access", "durations"), [("consistent", None), ("lock_free", None), ("lock_free", Constant(0.0002))]
)
@pytest.mark.parametrize(("workers", "count"), SHAPES)
def test_each_thread_of_functions_has_computed_on_its_own_device(eight_devices, workers, count, access, durations):
    places = eight_devices[1 : 1 + count]
    trainer, watch, products = watched_functions(workers, places, access, durations=durations)
    trace = trainer.fit(updates=20 * workers)
    assert used(watch, products) == round_robin(places, workers)
    assert trace.header.devices == tuple(places)
    assert sound(trace, 20 * workers)


def test_this_test_sees_threads_that_share_a_tower(eight_devices):
    trainer, watch, products = watched_functions(4, eight_devices[1:5], "consistent")
    trainer._towers = trainer._towers[:1] * 4
    assert sound(trainer.fit(updates=80), 80)
    assert trainer.trace.header.devices == tuple(eight_devices[1:5])  # What was asked for; and what was done:
    assert used(watch, products) == {worker: {eight_devices[1]} for worker in range(4)}


def test_this_test_sees_towers_that_are_not_pinned(eight_devices, monkeypatch):
    pin = tf.device
    monkeypatch.setattr(tf, "device", lambda name: pin("/device:CPU:0" if "CPU" in name else name))
    trainer, watch, products = watched_functions(4, eight_devices[1:5], "lock_free")
    assert sound(trainer.fit(updates=80), 80)
    assert used(watch, products) == {worker: {eight_devices[0]} for worker in range(4)}


# --- a session


def watched_session(workers, places, **settings):
    """A trainer, and under watch where the matrix products of each call in its run have run."""
    trainer = SessionTrainer(Digits("mlp"), workers, places, **settings)
    watch, run = Watch(workers), trainer._session.run
    computing = [fetches for step in trainer._steps for fetches in (step.train_op, step.compute)]

    def under_watch(fetches, feeds=None, options=None):
        if not any(fetches is one for one in computing):
            return run(fetches, feeds, options=options)
        # As the trainer would have it, and told op by op. (More than that one session at a time may ask for.)
        told = v1.RunOptions(trace_level=v1.RunOptions.SOFTWARE_TRACE)
        told.MergeFrom(options)
        seen = v1.RunMetadata()
        result = run(fetches, feeds, options=told, run_metadata=seen)
        stats = [(device(one.device), op) for one in seen.step_stats.dev_stats for op in one.node_stats]
        watch.call({place for place, op in stats if "MatMul" in op.timeline_label})
        return result

    trainer._session.run = under_watch
    return trainer, watch


@pytest.mark.parametrize("durations", [None, Constant(0.0002)], ids=["whole steps", "halves"])
@pytest.mark.parametrize(("workers", "count"), SHAPES)
def test_each_thread_of_a_session_has_computed_on_its_own_device(eight_devices, workers, count, durations):
    places = eight_devices[1 : 1 + count]
    trainer, watch = watched_session(workers, places, durations=durations)
    trace = trainer.fit(updates=20 * workers)
    assert {worker: set().union(*calls) for worker, calls in watch.called.items()} == round_robin(places, workers)
    assert all(all(calls) for calls in watch.called.values())  # No call without a matrix product.
    assert trace.header.devices == tuple(places)
    assert sound(trace, 20 * workers)


def test_this_test_sees_sessions_steps_that_are_not_pinned(eight_devices, monkeypatch):
    pin = tf.device
    monkeypatch.setattr(tf, "device", lambda _name: pin("/device:CPU:0"))
    trainer, watch = watched_session(4, eight_devices[1:5])
    assert sound(trainer.fit(updates=80), 80)
    assert {worker: set().union(*calls) for worker, calls in watch.called.items()} == {
        worker: {eight_devices[0]} for worker in range(4)
    }
