"""The arithmetic of a schedule: each gradient at the version it was read at, what is measured, what is left out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import Plan, simulate

import asyncsgd_edu
from asyncsgd_edu import (
    Asynchronous,
    AsyncTrainer,
    Constant,
    DelayCompensation,
    Digits,
    Quadratic,
    ScriptedGate,
    replay,
)
from asyncsgd_edu.quiet import tf

pytestmark = pytest.mark.usefixtures("eight_devices")


@pytest.mark.filterwarnings("ignore:the trace is of none")
@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(5, 60), st.integers(1, 3), st.booleans(), st.integers(0, 10**6))
def test_any_schedule_gives_what_plain_python_gives(workers, steps, per_update, dropping, seed):
    trace = simulate(Plan(workers, steps, per_update=per_update, dropping=dropping, seed=seed))
    if trace.updates == 0:
        return
    bowl, rate = Quadratic(curvatures=[1.0, 0.3], noise=0.2), 0.1
    again = replay(trace, bowl, learning_rate=rate)
    versions = [bowl.initial(0)[0].astype(np.float64)]
    total, count = 0.0, 0
    for row in range(len(trace)):
        noise = bowl.batch(int(trace.worker[row]), int(trace.batch[row]), 0)[0].numpy()[0]
        gradient = bowl.curvatures * versions[trace.read_version[row]] + 0.2 * noise
        if trace.apply_version[row] < 0:
            continue
        total, count = total + gradient, count + 1
        rest = trace.apply_version[row + 1 :]
        if trace.apply_version[row] not in rest:
            versions.append(versions[-1] - rate * total / count)
            total, count = 0.0, 0
    np.testing.assert_allclose(again.parameters[0], versions[-1], atol=1e-5)


def test_the_gap_is_the_distance_moved_since_the_read():
    # Rate 1/2, w = 1 read by both: after the first update w = 1/2, so the second gradient is 1/2 away, and so is it.
    bowl = Quadratic(noise=0.0, dimension=1)
    trace = asyncsgd_edu.simulate(2, Asynchronous(), Constant(1.0), 2, 0)
    again = replay(trace, bowl, learning_rate=0.5, measure_gap=True)
    assert again.measured["gap"].tolist() == [0.0, 0.5]
    assert again.measured["gradient_error"].tolist() == [0.0, 0.5]
    assert replay(trace, bowl).measured == {}


def test_the_path_is_what_was_read_and_what_was_written():
    bowl = Quadratic(noise=0.0, dimension=2)
    trace = asyncsgd_edu.simulate(2, Asynchronous(), Constant(1.0), 3, 0)
    assert trace.read_version.tolist() == [0, 0, 1]
    path = replay(trace, bowl, learning_rate=0.5, measure_path=True).measured
    assert path["read"].tolist() == [[1.0, 1.0], [1.0, 1.0], [0.5, 0.5]]
    assert path["written"].tolist() == [[0.5, 0.5], [0.0, 0.0], [-0.25, -0.25]]
    with pytest.raises(ValueError, match="measure_path is for at most 1000 parameters, digits-mlp has"):
        replay(trace, Digits("mlp"), measure_path=True)


def test_who_looks_on_sees_every_loss_once_in_order():
    trace = asyncsgd_edu.simulate(4, Asynchronous(), Constant(1.0), 500, 0)
    seen, asked = [], []
    whole = replay(trace, Quadratic(), seen=seen.append, stop=lambda: bool(asked.append(len(seen))))
    assert np.concatenate(seen).tolist() == whole.loss.tolist()
    assert asked == list(range(len(seen)))


def test_a_stale_gradient_is_computed_at_the_old_parameters():
    # Loss w^2/2, rate 1/2, both read w = 1: 1 - 1/2 - 1/2 = 0. With a fresh second gradient it would be 1/4.
    order = [(0, "read"), (1, "read"), (0, "apply"), (1, "apply")]
    bowl = Quadratic(noise=0.0, dimension=1)
    trace = AsyncTrainer(bowl, workers=2, gate=ScriptedGate(order)).fit(updates=2)
    assert replay(trace, bowl, learning_rate=0.5).parameters[0].tolist() == [0.0]


def test_what_a_dropped_gradient_is_plays_no_part():
    class Steep(Quadratic):
        def loss(self, parameters, batch):
            return super().loss(parameters, batch) * batch[1]

        def batch(self, worker, number, seed):
            # Worker 1's loss is finite, its gradient squared is not.
            return *super().batch(worker, number, seed), tf.where(tf.cast(worker, tf.int64) == 1, 1e25, 1.0)

    trace = asyncsgd_edu.Trace.from_schedule("0r 1r 0a 0r 0a 1d 0r 0a")
    again = replay(trace, Steep(), remedy=DelayCompensation(0.04))
    assert again.header.ended.how == "finished"
    assert np.isfinite(again.parameters[0]).all()
