"""A stop or a pause in the middle of a call of many steps: it ends after the present one, and its rows are kept."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu import AsyncTrainer, OpenGate, Quadratic, TowerTrainer, Trace

pytestmark = pytest.mark.usefixtures("eight_devices")
LONG = 60
DEEP = 5  # The gradient at which the run is met.


class Met(Quadratic):
    """Gradient number DEEP says that it has come and waits until the run has been told to make haste."""

    def __init__(self):
        super().__init__(noise=0.0)
        self.come, self.go_on = threading.Event(), threading.Event()
        self.count, self.met = 0, False

    def loss(self, parameters, batch):
        def meet(value):
            self.count += self.met
            if self.count == DEEP:
                self.come.set()
                assert self.go_on.wait(LONG)
            return value

        return tf.py_function(meet, [super().loss(parameters, batch)], tf.float32)

    def gradient(self, parameters, batch):
        loss = self.loss(parameters, batch)
        with tf.control_dependencies([loss]):
            return loss, [tf.identity(parameters[0])]


def met(make):
    """A run of a trainer with fifty steps a call that is deep in its first, and is let go when it is in a hurry."""
    problem = Met()
    trainer = make(problem)
    hurry, problem.met = trainer._shared.hurry, True

    def let_go(wanted):
        hurry(wanted)
        if wanted:
            problem.go_on.set()

    trainer._shared.hurry = let_go
    return trainer, problem


MAKERS = [
    lambda problem: AsyncTrainer(problem, workers=1, steps_per_call=50),
    lambda problem: AsyncTrainer(problem, workers=1, steps_per_call=50, access="lock_free"),
    lambda problem: TowerTrainer(problem, towers=1, steps_per_call=50),
]


@pytest.mark.parametrize("make", MAKERS)
def test_a_stop_ends_a_call_of_many_steps_and_keeps_its_rows(make, tmp_path):
    trainer, problem = met(make)
    trainer.start(updates=500, record=tmp_path / "run.jsonl")
    assert problem.come.wait(LONG)
    trainer.stop()
    trace = trainer.wait(LONG)
    assert trace.audit() == []
    assert trainer.version == trace.updates == len(trace) == DEEP
    kept = Trace.load(tmp_path / "run.jsonl")
    assert kept.header.ended == trace.header.ended
    assert all(np.array_equal(kept.columns[name], column) for name, column in trace.columns.items())
    trainer.fit(3)
    assert trainer.trace.batch.tolist() == list(range(DEEP + 3))


@pytest.mark.parametrize("make", MAKERS)
def test_a_pause_ends_a_call_of_many_steps_and_the_run_goes_on_after_it(make):
    trainer, problem = met(make)
    trainer.start(updates=120)
    assert problem.come.wait(LONG)
    trainer.pause()
    assert trainer.version == DEEP
    trainer.resume()
    trace = trainer.wait(LONG)
    assert trace.audit() == []
    assert trace.batch.tolist() == list(range(120))


def test_a_gate_that_serves_one_trainer_after_another_hurries_the_one_that_runs():
    gate = OpenGate()
    first, second = (AsyncTrainer(Quadratic(), workers=1, steps_per_call=5, gate=gate) for _ in range(2))
    first.fit(20)
    assert (bool(first._shared.hurried), bool(second._shared.hurried)) == (True, False)
    second.fit(20)
    first.fit(20)
    assert first.trace.batch.tolist() == list(range(40))
