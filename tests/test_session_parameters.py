"""The shared variables of a session: what each read and apply promises, one after the other and forced to overlap."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu.engines.session_parameters import CPU, HERE, SessionParameters

pytestmark = pytest.mark.usefixtures("eight_devices")
v1 = tf.compat.v1
PATIENCE = 60  # Seconds after which a test that waits for a thread gives up.
SHAPES = [(3,), (2, 2)]


class Bench:
    """Parameters with a graph that reads them, and one that adds 1 to each element if fed a finite loss."""

    def __init__(self, shapes, hold=None):
        with tf.Graph().as_default():
            optimizer = v1.train.GradientDescentOptimizer(1.0)
            self.shared = SessionParameters([np.zeros(shape, np.float32) for shape in shapes], optimizer, CPU)
            if hold is not None:
                self.hold_between_two_variables(hold)
            self.reading = self.shared.read()
            vars(self.shared).pop("variables", None)
            self.loss = v1.placeholder(tf.float32, [])
            self.applying = self.shared.apply([-tf.ones(shape) for shape in shapes], self.loss)
            self.session = self.shared.open()

    def hold_between_two_variables(self, hold):
        """Let `hold` run in the next reads, after the first variable and before those that follow."""
        variables, read = self.shared.variables(), []

        def after_holding(variable):
            with tf.control_dependencies([tf.numpy_function(hold, [read[0]], tf.float32)]):
                return type(variable).read_value(variable)

        def first():
            read.append(tf.identity(type(variables[0]).read_value(variables[0])))
            return read[0]

        variables[0].read_value = first
        for variable in variables[1:]:
            variable.read_value = lambda variable=variable: after_holding(variable)
        self.shared.variables = lambda: variables

    def read(self):
        return self.session.run(self.reading, options=HERE)

    def apply(self, loss=1.0):
        return self.session.run(self.applying, {self.loss: loss}, options=HERE)


def largest(values):
    return [float(value.max()) for value in values]


def test_one_after_the_other_counts():
    bench = Bench(SHAPES)
    bench.shared.allow(10)
    for number in range(5):
        read = bench.read()
        assert (read.version, read.spread) == (number, 0)
        assert largest(read.values) == [number, number]
        applied = bench.apply()
        assert (applied.version, applied.done) == (number, True)
        assert applied.time >= read.time
    assert bench.shared.version == 5
    assert largest(bench.shared.values()) == [5, 5]


def test_updates_that_land_in_the_middle_of_a_read_are_its_spread():
    bench = Bench(SHAPES, hold=lambda value: [bench.apply() for _ in range(3)] and value)
    bench.shared.allow(10)
    read = bench.read()
    assert (read.version, read.spread) == (0, 3)
    assert largest(read.values) == [0, 3]


def test_one_that_was_refused_is_in_no_read():
    bench = Bench(SHAPES, hold=lambda value: [bench.apply() for _ in range(5)] and value)
    bench.shared.allow(2)
    read = bench.read()
    assert (read.version, read.spread) == (0, 2)
    assert largest(read.values) == [0, 2]


def test_an_update_that_is_half_done_is_in_the_spread_of_who_reads_it():
    begun, free, first = threading.Event(), threading.Event(), []

    def hold(value):
        begun.set()
        free.wait(PATIENCE)
        return value

    class InTwo(v1.train.GradientDescentOptimizer):
        """Updates the first variable, is held, and updates the second."""

        def _resource_apply_dense(self, grad, handle):
            with tf.control_dependencies(first):
                if first:
                    grad = tf.ensure_shape(tf.numpy_function(hold, [grad], tf.float32), grad.shape)
                first.append(super()._resource_apply_dense(grad, handle))
            return first[-1]

    with tf.Graph().as_default():
        shared = SessionParameters([np.zeros(shape, np.float32) for shape in SHAPES], InTwo(1.0), CPU)
        reading = shared.read()
        applying = shared.apply([-tf.ones(shape) for shape in SHAPES], tf.constant(1.0))
        session = shared.open()
    shared.allow(1)
    worker = threading.Thread(target=lambda: session.run(applying, options=HERE))
    worker.start()
    try:
        assert begun.wait(PATIENCE)
        read = session.run(reading, options=HERE)
    finally:
        free.set()
        worker.join(PATIENCE)
    assert (read.version, read.spread) == (0, 1)
    assert largest(read.values) == [1, 0]


def test_a_single_variable_is_read_as_a_whole():
    bench = Bench([(1000,)])
    bench.shared.allow(2000)
    seen = []

    def watch():
        while not seen or seen[-1].version < 2000:
            seen.append(bench.read())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    for _ in range(2000):
        bench.apply()
    watcher.join(PATIENCE)
    assert not watcher.is_alive()
    for read in seen:
        assert read.spread == 0
        assert len(set(read.values[0].tolist())) == 1
        assert read.values[0][0] >= read.version  # At least so many updates are in it.


@pytest.mark.parametrize("threads", [1, 4])
def test_so_many_are_let_in_and_no_two_get_the_same_version(threads):
    bench = Bench(SHAPES)
    bench.shared.allow(300)
    found = [[] for _ in range(threads)]

    def work(mine):
        while not mine or mine[-1].done:
            mine.append(bench.apply())

    crew = [threading.Thread(target=work, args=(mine,)) for mine in found]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join(PATIENCE)
    assert sorted(a.version for mine in found for a in mine if a.done) == list(range(300))
    assert [sum(not a.done for a in mine) for mine in found] == [1] * threads
    assert largest(bench.shared.values()) == [300, 300]


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_not_finite_changes_nothing(loss):
    bench = Bench(SHAPES)
    bench.shared.allow(1)
    assert not bench.apply(loss).done
    assert largest(bench.shared.values()) == [0, 0]
    assert bench.apply().done  # Nor has it used up the update that is allowed.


def test_nobody_is_let_in_before_they_are_allowed_or_once_it_is_closed():
    bench = Bench(SHAPES)
    assert not bench.apply().done
    bench.shared.allow(2)
    assert bench.apply().done
    bench.shared.close()
    assert not bench.apply().done
    bench.shared.allow(2)
    assert [bench.apply().done, bench.apply().done] == [True, False]
    assert bench.shared.version == 2


def test_a_reset_takes_everything_back():
    bench = Bench(SHAPES)
    bench.shared.allow(5)
    bench.apply()
    bench.shared.reset()
    assert bench.shared.version == 0
    assert largest(bench.shared.values()) == [0, 0]
    assert not bench.apply().done


def test_values_are_copies():
    bench = Bench(SHAPES)
    values = bench.shared.values()
    values[0][:] = 7
    bench.shared.allow(1)
    bench.apply()
    assert largest(bench.shared.values()) == [1, 1]
    assert largest(values) == [7, 0]


def test_the_counters_answer_while_every_thread_of_the_pool_is_held():
    free, held = threading.Event(), threading.Semaphore(0)

    def hold(value):
        held.release()
        free.wait(PATIENCE)
        return value

    with tf.Graph().as_default():
        shared = SessionParameters([np.zeros(2, np.float32)], v1.train.GradientDescentOptimizer(1.0), CPU)
        stuck = tf.stack([tf.numpy_function(hold, [tf.ones(2) * k], tf.float32) for k in range(64)])
        session = shared.open()
    holder = threading.Thread(target=lambda: session.run(stuck))  # In the pool: by default.
    holder.start()
    try:
        assert held.acquire(timeout=PATIENCE)
        while held.acquire(timeout=0.2):  # As many as the pool has threads, a machine's own number.
            pass
        shared.allow(3)
        shared.close()
        assert shared.version == 0
        assert largest(shared.values()) == [0]
        assert holder.is_alive()
    finally:
        free.set()
        holder.join(PATIENCE)
