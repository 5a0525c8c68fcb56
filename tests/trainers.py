"""Every trainer by a name, made alike, and problems whose gradients hang or fail: for what all trainers must do.

The fixtures are taken by a test file that needs them: `built, trainer = trainers.built, trainers.trainer`.
"""

import threading
import time
from contextlib import contextmanager

import keras
import leftovers
import numpy as np
import pytest
import tensorflow as tf
from leftovers import workers_alive

from asyncsgd_edu import AsyncTrainer, Digits, OpenGate, Quadratic, SessionTrainer, TowerTrainer

ENDLESS = 10_000_000
PATIENCE = 60  # Seconds after which a test that waits for something gives up.
ACCESS = ("consistent", "lock_free", "read_modify_write")
ASYNCHRONOUS = (*ACCESS, "session")
EVERY = (*ASYNCHRONOUS, "towers")


def make(kind, problem, workers=4, **more):
    """A trainer of that kind; those of AsyncTrainer go by their access."""
    if kind == "towers":
        return TowerTrainer(problem, towers=workers, **more)
    if kind == "session":
        return SessionTrainer(problem, workers=workers, **more)
    return AsyncTrainer(problem, workers=workers, access=kind, **more)


def descent(kind, rate):
    """Plain gradient descent, as such a trainer takes it."""
    return tf.compat.v1.train.GradientDescentOptimizer(rate) if kind == "session" else keras.optimizers.SGD(rate)


def refuses(made, settings, error, names):
    """Check that `made` with these settings raises that error, names all these, and starts nothing."""
    before = set(threading.enumerate())
    with pytest.raises(error) as told:
        made(**{"problem": Quadratic(), **settings})
    for name in names:
        assert name in str(told.value)
    assert set(threading.enumerate()) <= before  # One of a run before this may have gone meanwhile.


def until(condition):
    """Wait for what is sure to come, however long a busy machine takes."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


@pytest.fixture
def no_worker_is_left():
    """After a test, threads that have said that they are done get the moment that they need to go."""
    yield
    leftovers.stop_all()
    until(lambda: not workers_alive())


@pytest.fixture(scope="module", params=EVERY)
def built(request, eight_devices):
    """One of every kind, three workers or two towers; to build one takes longer than most of what is done with it."""
    problem = Digits("linear") if request.param == "session" else Quadratic()
    return make(request.param, problem, 2 if request.param == "towers" else 3)


@pytest.fixture
def trainer(built, no_worker_is_left):
    """One of every kind, as if it were new; stopped in the end."""
    yield built
    built.reset()


def same(ours, theirs):
    """Whether two lists of arrays are equal bit for bit."""
    return all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


class Doorkeeper(OpenGate):
    """Holds back all workers but the `first` ones, until `begun`; `admitted` are those that may do a step in one go."""

    def __init__(self, first=range(256), begun=None):
        super().__init__()
        self._first, self._begun, self.admitted = first, begun, set()

    @contextmanager
    def free_pass(self, worker):
        if worker not in self._first:
            until(lambda: self._begun() or self.stopped)
        with super().free_pass(worker) as free:
            if free:
                self.admitted.add(worker)
            yield free


class Blocked(Quadratic):
    """A problem whose gradients hang, those of the `hanging` workers, once `go` is cleared, until it is set again.

    `held` are those who have come to where they hang. Not all may: TensorFlow calls a function that is written
    in Python from threads of its own, as many as there are cores, unless a session is told to use the caller's.
    """

    def __init__(self, hanging=range(256)):
        super().__init__()
        self.hanging, self.held, self.go = set(hanging), set(), threading.Event()
        self.go.set()  # A trainer rehearses when it is made.

    def batch(self, worker, number, seed):
        def hang(value, who):
            if int(who) in self.hanging and not self.go.is_set():
                self.held.add(int(who))
                self.go.wait(PATIENCE)
            return value

        (noise,) = super().batch(worker, number, seed)
        return (tf.ensure_shape(tf.numpy_function(hang, [noise, worker], tf.float32), [1, 20]),)


class Broken(Quadratic):
    """A problem whose worker 1 raises at its third batch, which depends on that only if `tied`."""

    def __init__(self, *, tied):
        super().__init__()
        self.tied = tied

    def batch(self, worker, number, seed):
        bad = tf.logical_and(tf.equal(worker, 1), tf.equal(number, 2))
        check = tf.debugging.assert_equal(bad, False, message="the data ran out")
        with tf.control_dependencies([check] if self.tied else []):
            return super().batch(worker, number, seed)
