"""What every trainer does with a race: forced orders, the laws of every run, the same run again, bad arguments.

The life of a run, from its start to a proper end, is in test_trainer_life.py.
"""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from orders import forced_orders
from trainers import ACCESS, ASYNCHRONOUS, EVERY, Doorkeeper, descent, make, refuses, same

from asyncsgd_edu import Constant, Digits, Exponential, Quadratic, ScriptedGate, Straggler, Trace

pytestmark = pytest.mark.usefixtures("eight_devices")
asynchronous = pytest.mark.parametrize("kind", ASYNCHRONOUS)
BOWL = Quadratic(dimension=3)
made_once = functools.cache(make)  # To build a trainer takes longer than a short run.

# --- forced orders


@asynchronous
@settings(max_examples=25)
@given(forced_orders(), st.sampled_from([Quadratic(), Digits("linear", batch_size=4)]))
def test_any_forced_order_gives_the_versions_that_counting_gives(kind, script, problem):
    workers, order = script
    updates = sum(action == "apply" for _, action in order)
    trainer = made_once(kind, problem, workers)
    trainer.reset()
    trainer.gate = ScriptedGate(order)
    trace = trainer.fit(updates)
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


@asynchronous
def test_a_stale_gradient_is_that_of_the_old_parameters(kind):
    # Loss w^2/2 with rate 1/2: each worker read w = 1, so both subtract 1/2; a fresh second one would subtract 1/4.
    order = [(0, "read"), (1, "read"), (0, "apply"), (1, "apply")]
    problem = Quadratic(noise=0.0, dimension=1)
    trainer = make(kind, problem, 2, optimizer=descent(kind, 0.5), gate=ScriptedGate(order))
    trace = trainer.fit(updates=2)
    assert trace.staleness.tolist() == [0, 1]
    assert trainer.parameters[0].tolist() == [0.0]
    assert trace.loss.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("kind", ["consistent", "lock_free", "session"])  # The other loses updates.
def test_a_gradient_that_was_slept_on_is_that_of_the_old_parameters_too(kind):
    # Worker 0 reads first and sleeps; meanwhile 1 makes other updates, and has more to make when 0 wakes up.
    problem = Quadratic(noise=0.0, dimension=1)
    naps = Straggler(Constant(0.001), worker=0, factor=100)
    gate = Doorkeeper({0}, lambda: trainer._log.left_in_flight())
    trainer = make(kind, problem, 2, optimizer=descent(kind, 0.002), durations=naps, gate=gate)
    trace = trainer.fit(updates=400)
    assert trace.staleness.max() > 0
    weights = 1.0  # As the rows say, in double precision; each read may be of an update more than it says.
    values = [weights]
    for row in range(400):
        weights -= 0.002 * values[trace.read_version[row]]
        values.append(weights)
    assert trainer.parameters[0][0] == pytest.approx(weights, rel=0.05)
    expected = [0.5 * values[version] ** 2 for version in trace.read_version]
    np.testing.assert_allclose(trace.loss, expected, rtol=0.05)


@asynchronous
def test_a_script_that_is_too_short_is_refused_before_the_start(kind):
    trainer = make(kind, Quadratic(), 1, gate=ScriptedGate([(0, "read"), (0, "apply")]))
    with pytest.raises(ValueError, match="1 applies left"):
        trainer.fit(updates=2)
    assert trainer.state == "ready"
    assert trainer.fit(updates=1).updates == 1


@asynchronous
def test_a_reset_rewinds_the_script(kind):
    order = [(0, "read"), (1, "read"), (1, "apply"), (0, "apply")]
    trainer = make(kind, Quadratic(), 2, gate=ScriptedGate(order))
    first = trainer.fit(updates=2)
    trainer.reset()
    assert trainer.fit(updates=2).loss.tolist() == first.loss.tolist()


# --- the laws of every run


@pytest.mark.parametrize("problem", [Quadratic(), Digits("linear"), Digits("mlp", batch_size=8)], ids=lambda p: p.name)
@pytest.mark.parametrize(
    ("kind", "workers"), [*itertools.product(ACCESS, (1, 2, 5, 8)), *(("session", n) for n in range(1, 9))]
)
def test_every_race_is_sound_and_ends_exactly_at_its_limit(kind, workers, problem):
    trace = make(kind, problem, workers).fit(updates=150)
    assert trace.audit() == []
    assert trace.header.ended.how == "finished"
    assert trace.apply_version.tolist() == list(range(150))
    assert trace.staleness.min() >= 0
    assert trace.read_spread.min() >= 0
    assert len(set(zip(trace.worker.tolist(), trace.batch.tolist(), strict=True))) == 150
    assert np.isfinite(trace.loss).all()
    if problem.name == "quadratic" or workers == 1:  # One variable is read as a whole; one worker reads undisturbed.
        assert trace.read_spread.max() == 0


@asynchronous
@settings(max_examples=10)
@given(st.sampled_from([1, 2, 3, 7, 12]), st.lists(st.integers(1, 150), min_size=1, max_size=3))
def test_runs_go_on_exactly(kind, workers, runs):
    trainer = made_once(kind, BOWL, workers)
    trainer.reset()
    for updates in runs:
        trace = trainer.fit(updates)
        assert trace.audit() == []
        assert trace.header.ended.how == "finished"
    assert trainer.version == trace.updates == sum(runs)
    assert trace.apply_version[trace.applied].tolist() == list(range(sum(runs)))
    pairs = zip(trace.worker[trace.applied].tolist(), trace.batch[trace.applied].tolist(), strict=True)
    assert len(set(pairs)) == sum(runs)


@asynchronous
def test_conservation_counts_what_is_in_flight_at_the_end(kind):
    trace = make(kind, Quadratic(), 8, durations=Exponential(0.003)).fit(updates=200)
    assert trace.audit() == []
    ages = [trace.updates - g.read_version for g in trace.header.ended.in_flight]
    total = int(trace.staleness.sum()) + sum(ages)
    assert 0 < total <= 7 * 200  # Less where a thread was late to read again.


@asynchronous
def test_gradients_left_in_flight_are_dropped_when_the_run_goes_on(kind):
    # Worker 3 reads first, and sleeps until the run is over.
    naps = Straggler(Constant(0.001), worker=3, factor=1e6)
    gate = Doorkeeper({3}, lambda: trainer._log.left_in_flight())
    trainer = make(kind, Quadratic(), 4, durations=naps, gate=gate)
    first = trainer.fit(updates=12)
    left = first.header.ended.in_flight
    assert 3 in [g.worker for g in left]
    second = trainer.fit(updates=12)
    dropped = second.columns["worker"][~second.applied].tolist()
    assert sorted(dropped) == sorted(g.worker for g in left)
    assert second.updates == 24
    assert second.audit() == []


@pytest.mark.parametrize("kind", EVERY)
def test_an_injected_duration_is_part_of_the_gradients_duration(kind):
    trace = make(kind, Quadratic(), 2, durations=Constant(0.02)).fit(updates=6)
    assert (trace.ready_time - trace.read_time >= 0.02 - 1e-4).all()
    assert "Constant" in trace.header.injected
    assert trace.audit() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "workers"), [*(("consistent", n) for n in (1, 2, 4, 8, 16)), ("session", 2), ("session", 8)]
)
def test_injected_durations_give_the_staleness_of_that_many_workers(kind, workers):
    trace = make(kind, Quadratic(), workers, durations=Exponential(0.02)).fit(updates=150 * workers)
    print(f"{workers} workers: mean staleness {trace.mean_staleness:.2f}, N - 1 = {workers - 1}")
    # N - 1 on a machine that keeps up; on a busy one threads wait between an apply and the next read, and it is less.
    assert (workers - 1) / 2 <= trace.mean_staleness <= workers - 1
    # Seen by the clock alone: the updates that fell between a gradient's read and its own. In a session the clock is
    # looked at a moment after the version, and what lands meanwhile is on either side.
    near = 0.05 if kind == "consistent" else 0.5
    updates_by = np.searchsorted(np.sort(trace.apply_time), [trace.read_time, trace.apply_time])
    assert trace.mean_staleness == pytest.approx((updates_by[1] - updates_by[0]).mean(), abs=near)
    assert trace.audit() == []
    assert "Exponential" in trace.header.injected


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "devices"), [*((kind, 1) for kind in ASYNCHRONOUS[:3]), ("session", 4)])
def test_eight_threads_learn_the_digits(eight_devices, kind, devices):
    trainer = make(kind, Digits("cnn"), 8, seed=0, devices=eight_devices[:devices])
    trace = trainer.fit(updates=2000)
    assert trace.audit() == []
    assert trace.apply_version.tolist() == list(range(2000))
    assert trainer.evaluate()["accuracy"] > 0.95


# --- the same again


@pytest.mark.parametrize("kind", EVERY)
def test_the_same_seed_is_the_same_run_after_a_reset(kind):
    trainer = make(kind, Digits("mlp"), 1, seed=7)
    first = trainer.fit(updates=25)
    trainer.reset()
    second = trainer.fit(updates=25)
    assert first.loss.tolist() == second.loss.tolist()
    assert same(first.parameters, second.parameters)


@pytest.mark.parametrize("kind", EVERY)
def test_numpy_numbers_can_be_saved(kind, tmp_path):
    law = Constant(np.float32(0.001))
    trace = make(kind, Quadratic(np.float32(0.5)), np.int64(2), durations=law).fit(np.int64(4))
    trace.save(tmp_path / "run.jsonl")
    assert Trace.load(tmp_path / "run.jsonl").header == trace.header


# --- bad arguments


@pytest.mark.parametrize("kind", ["consistent", "session"])
@pytest.mark.parametrize(
    ("settings_", "error", "names"),
    [
        ({"workers": 0}, ValueError, ["workers", "1 to 256", "0"]),
        ({"workers": -1}, ValueError, ["workers", "-1"]),
        ({"workers": 2.5}, TypeError, ["workers", "2.5"]),
        ({"workers": "4"}, TypeError, ["workers", "'4'"]),
        ({"workers": 10**6}, ValueError, ["workers", "1000000", "256"]),
        ({"workers": True}, TypeError, ["workers", "True"]),
        ({"seed": -1}, ValueError, ["seed", "-1"]),
        ({"durations": 0.01}, TypeError, ["durations", "0.01", "Constant"]),
        ({"durations": Straggler(Constant(0.01), 9, 2.0)}, ValueError, ["9", "0 to 3"]),
        ({"devices": ["tpu:0"]}, ValueError, ["'tpu:0'", "CPU:0"]),
        ({"devices": "cpu:0"}, TypeError, ["devices", "list"]),
        ({"devices": []}, TypeError, ["devices", "[]"]),
        ({"devices": ["cpu:0"] * 5}, ValueError, ["5 devices", "workers 4"]),
        ({"problem": "digits"}, TypeError, ["problem", "'digits'", "Digits"]),
        ({"gate": "open"}, TypeError, ["gate", "'open'", "ScriptedGate"]),
    ],
)
def test_bad_arguments_are_named_before_anything_starts(kind, settings_, error, names):
    refuses(lambda **given_: make(kind, **given_), settings_, error, names)
