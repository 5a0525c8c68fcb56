"""The life of a run, the same for every trainer: it starts, pauses, steps, stops, fails or diverges.

Whatever happens, it ends as it says and leaves no thread behind. What it computes meanwhile is in test_trainer.py.
"""

import threading

import numpy as np
import pytest
import trainers
from trainers import (
    ASYNCHRONOUS,
    ENDLESS,
    EVERY,
    PATIENCE,
    Blocked,
    Broken,
    Doorkeeper,
    make,
    same,
    until,
    workers_alive,
)

from asyncsgd_edu import Constant, Quadratic, WorkerError

built, trainer, no_worker_is_left = trainers.built, trainers.trainer, trainers.no_worker_is_left
asynchronous = pytest.mark.parametrize("kind", ASYNCHRONOUS)
calls = pytest.mark.parametrize("durations", [None, Constant(1e-6)], ids=["one call", "two calls"])
pytestmark = pytest.mark.usefixtures("eight_devices", "no_worker_is_left")


# --- start, pause, step, stop


def test_the_states_of_a_life(trainer):
    assert trainer.state == "ready"
    trainer.start(ENDLESS)
    assert trainer.state == "running"
    until(lambda: trainer.version > 5)
    trainer.pause()
    assert trainer.state == "paused"
    version = trainer.version
    trainer.step()
    assert trainer.version == version + 1
    trainer.step()
    assert trainer.version == version + 2
    trainer.resume()
    until(lambda: trainer.version > version + 10)
    assert trainer.trace.audit() == []  # Of a run that goes on.
    trainer.stop()
    assert trainer.state == "stopped"
    assert trainer.trace.header.ended.how == "stopped"
    assert trainer.trace.audit() == []
    assert trainer.trace.updates == trainer.version
    until(lambda: not workers_alive())  # A thread that has said that it is done may still be on its way out.


def test_nothing_is_applied_while_paused(trainer):
    trainer.start(ENDLESS)
    until(lambda: trainer.version > 5)
    trainer.pause()
    before = trainer.parameters
    assert not trainer._crew.over.wait(0.1)
    assert same(before, trainer.parameters)


@asynchronous
def test_steps_keep_the_other_gradients_in_flight(kind):
    trainer = make(kind, Quadratic(), 3, durations=Constant(0.001))

    def in_flight():
        return {(g.worker, g.batch): g.read_version for g in trainer._log.left_in_flight()}

    def ages():
        return sum(trainer.version - read for read in in_flight().values())

    trainer.start(ENDLESS)
    trainer.pause()
    until(lambda: len(in_flight()) == 3)
    first = ages()
    for _ in range(12):
        before = in_flight()
        trainer.step()
        trace = trainer.trace
        applied = trace.worker[-1], trace.batch[-1]
        until(lambda: len(in_flight()) == 3 and applied not in in_flight())  # noqa: B023
        assert before.pop(applied) == trace.read_version[-1]
        assert before.items() <= in_flight().items()
    # Each step made the two others one version older, whoever was the one.
    assert trainer.trace.staleness[-12:].sum() + ages() - first == 2 * 12
    trainer.stop()
    assert trainer.trace.audit() == []


@asynchronous
def test_a_pause_waits_for_an_update_that_is_being_made_and_then_nothing_moves(kind):
    problem = Blocked()
    trainer = make(kind, problem, 1)
    problem.go.clear()
    trainer.start(ENDLESS)
    until(lambda: problem.held)
    pauser = threading.Thread(target=trainer.pause, daemon=True)
    pauser.start()
    until(lambda: trainer.gate._paused)
    pauser.join(0.05)
    assert pauser.is_alive()  # The gradient hangs, so the pause is not there yet.
    problem.go.set()
    pauser.join(PATIENCE)
    assert trainer.state == "paused"
    version = trainer.version
    assert not trainer._crew.over.wait(0.05)
    assert trainer.version == version
    trainer.step()
    assert trainer.version == version + 1
    trainer.stop()


@pytest.mark.parametrize("kind", EVERY)
def test_after_a_pause_all_that_has_landed_is_in_the_log(kind, monkeypatch):
    trainer = make(kind, Quadratic(), 1, durations=Constant(1e-6))
    note, go = trainer._note, threading.Event()
    monkeypatch.setattr(trainer, "_note", lambda *round: (go.wait(PATIENCE), note(*round)))
    trainer.start(ENDLESS)
    until(lambda: trainer.version == 1)
    pauser = threading.Thread(target=trainer.pause, daemon=True)
    pauser.start()
    until(lambda: trainer.gate._paused)
    assert pauser.is_alive()  # The update has landed, and its thread is still to say so.
    go.set()
    pauser.join(PATIENCE)
    assert (trainer.state, trainer.trace.updates) == ("paused", 1)


def test_a_second_fit_goes_on_and_reset_starts_over(trainer):
    first = trainer.fit(updates=20)
    second = trainer.fit(updates=15)
    assert (first.updates, second.updates, trainer.version) == (20, 35, 35)
    assert second.audit() == []
    assert np.array_equal(second.loss[: len(first)], first.loss)
    # Only where an update is made in a critical section, that also holds its moment, do moments come in order.
    alone = second.header.access == "consistent"
    for rows in [second.worker >= 0] if alone else [second.worker == worker for worker in range(trainer.workers)]:
        assert (np.diff(second.apply_time[rows]) > -1e-3).all()
    assert second.apply_time[len(first) :].min() > first.apply_time.max() - 1e-3
    trainer.reset()
    assert (trainer.state, trainer.version, len(trainer.trace)) == ("ready", 0, 0)
    assert same(trainer.parameters, trainer.problem.initial(0))
    assert trainer.fit(updates=20).updates == 20


def test_a_running_trace_is_a_consistent_prefix(trainer):
    trainer.start(ENDLESS)
    seen = []
    until(lambda: seen.append(trainer.trace) or len(seen) > 40)
    trainer.stop()
    whole = trainer.trace
    for trace in seen:
        assert trace.audit() == []
        assert trace.header.ended.how == "running"
        assert np.array_equal(trace.apply_version, whole.apply_version[: len(trace)])
        assert np.array_equal(trace.loss, whole.loss[: len(trace)])


def test_a_worker_that_leaves_late_does_not_end_the_next_run(trainer):
    trainer.fit(updates=5)
    before = trainer._crew
    trainer.start(ENDLESS)
    trainer._end(before)
    assert trainer.state == "running"


def test_what_needs_another_state_says_so(trainer):
    for action in (trainer.pause, trainer.resume, trainer.step, trainer.wait):
        with pytest.raises(RuntimeError):
            action()
    trainer.start(ENDLESS)
    with pytest.raises(RuntimeError, match="running"):
        trainer.start(1)
    with pytest.raises(TimeoutError, match="still running"):
        trainer.wait(timeout=0.01)


@pytest.mark.parametrize(("updates", "error"), [(0, ValueError), (-5, ValueError), (1.5, TypeError), ("9", TypeError)])
def test_bad_updates_are_named(trainer, updates, error):
    with pytest.raises(error, match="updates must be a whole number from 1") as told:
        trainer.fit(updates)
    assert repr(updates) in str(told.value)
    assert trainer.state == "ready"


def test_an_interrupt_stops_the_run_and_is_passed_on(trainer, monkeypatch):
    def interrupted(timeout=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(updates=ENDLESS)
    assert trainer.state == "stopped"
    until(lambda: not workers_alive())  # A thread that has said that it is done may still be on its way out.


@asynchronous
def test_stop_ends_sixteen_sleeping_threads(kind):
    trainer = make(kind, Quadratic(), 16, durations=Constant(1000.0))
    trainer.start(ENDLESS)
    until(lambda: len(trainer._log.left_in_flight()) == 16)
    trainer.stop()
    assert trainer.state == "stopped"
    until(lambda: not workers_alive())  # A thread that has said that it is done may still be on its way out.
    assert len(trainer.trace.header.ended.in_flight) == 16
    assert trainer.trace.audit() == []


# --- workers that hang, fail or diverge


HUNG = [*((kind, workers, 1) for kind in ASYNCHRONOUS for workers in (2, 4)), ("session", 4, 4)]


@pytest.mark.parametrize(("kind", "workers", "devices"), HUNG)
def test_stop_returns_although_every_worker_is_deep_in_a_gradient(eight_devices, kind, workers, devices):
    problem, gate = Blocked(), Doorkeeper()
    trainer = make(kind, problem, workers, devices=eight_devices[:devices], gate=gate)
    problem.go.clear()
    trainer.start(5)
    until(lambda: problem.held and len(gate.admitted) == workers)
    trainer.stop()
    assert trainer.state == "stopped"
    with pytest.raises(RuntimeError, match="asyncsgd-worker-. .*last gradient"):
        trainer.start(5)
    problem.go.set()
    until(lambda: not workers_alive())
    assert trainer.version == 0  # What came back late was refused, and the header knows of it after all.
    assert sorted(g.worker for g in trainer.trace.header.ended.in_flight) == list(range(workers))
    assert trainer.fit(updates=5).updates == 5
    assert trainer.trace.audit() == []


# Seven are more than there are cores in most classrooms.
@pytest.mark.parametrize(
    ("kind", "workers", "hanging"), [*((k, 3, {1}) for k in ASYNCHRONOUS), ("session", 8, {*range(1, 8)})]
)
def test_a_run_that_is_complete_does_not_wait_for_workers_that_hang(kind, workers, hanging):
    problem = Blocked(hanging)
    trainer = make(kind, problem, workers, gate=Doorkeeper(hanging, lambda: problem.held == hanging))
    problem.go.clear()
    trace = trainer.fit(updates=20)
    assert trace.header.ended.how == "finished"
    assert not problem.go.is_set()
    assert len(trace) == trace.updates == 20
    assert set(trace.worker.tolist()) <= set(range(workers)) - hanging
    problem.go.set()
    until(lambda: not workers_alive())
    # What the late ones bring is not applied, and the header knows of it after all.
    assert trainer.version == 20
    late = [g.worker for g in trainer.trace.header.ended.in_flight]
    assert [late.count(worker) for worker in hanging] == [1] * len(hanging)
    assert trainer.trace.audit() == []


@pytest.mark.parametrize("kind", EVERY)
@calls
@pytest.mark.parametrize("tied", [False, True])
def test_a_failing_worker_fails_the_run_by_number(kind, durations, tied):
    trainer = make(kind, Broken(tied=tied), 3, durations=durations)
    with pytest.raises(WorkerError, match="worker 1 failed: InvalidArgumentError") as told:
        trainer.fit(updates=ENDLESS)
    assert told.value.worker == trainer.trace.header.ended.worker == 1
    assert "the data ran out" in str(told.value.__cause__)
    assert trainer.state == "failed"
    assert "the data ran out" in trainer.trace.header.ended.error
    assert "worker 1 failed" in trainer.trace.summary()
    assert trainer.trace.audit() == []


@asynchronous
@calls
def test_a_loss_that_is_not_finite_ends_the_run_with_its_version(kind, durations):
    problem = Quadratic(curvatures=61.0, noise=0.0)  # Rate 0.05: beyond the limit of 2 / h.
    trainer = make(kind, problem, 2, durations=durations)
    trace = trainer.fit(updates=10_000)
    assert trainer.state == trace.header.ended.how == "diverged"
    bad = np.flatnonzero(~np.isfinite(trace.loss))
    assert len(bad)
    assert trace.header.ended.version in trace.read_version[bad]
    assert (trace.apply_version[bad] == -1).all()
    with np.errstate(over="raise"):  # Losses near the largest float32 have a mean as well.
        assert f"version {trace.header.ended.version}" in trace.summary()
    assert trace.audit() == []
    trainer.reset()
    assert same(trainer.parameters, problem.initial(0))
