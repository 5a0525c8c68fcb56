"""The life of a run: it stops, pauses, fails and goes on as it says, and leaves no thread behind."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu import (
    AsyncTrainer,
    Constant,
    Digits,
    DropAbove,
    Exponential,
    KBatchAsync,
    KSync,
    Quadratic,
    ScriptedGate,
    SessionTrainer,
    TowerTrainer,
    Trace,
    WorkerError,
)

pytestmark = pytest.mark.usefixtures("eight_devices")
ENDLESS = 10_000_000


def workers_alive():
    return [t.name for t in threading.enumerate() if t.name.startswith("asyncsgd-worker")]


@pytest.fixture(params=["async", "lock_free", "towers", "session"])
def trainer(request):
    if request.param == "towers":
        made = TowerTrainer(Quadratic(), towers=2)
    elif request.param == "session":
        made = SessionTrainer(Digits("linear"), workers=3)
    else:
        made = AsyncTrainer(
            Quadratic(), workers=3, access="lock_free" if request.param == "lock_free" else "consistent"
        )
    yield made
    made.stop()


def until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


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
    trainer.stop()
    assert trainer.state == "stopped"
    assert trainer.trace.header.ended.how == "stopped"
    assert trainer.trace.audit() == []
    assert trainer.trace.updates == trainer.version
    assert workers_alive() == []


def test_nothing_is_applied_while_paused(trainer):
    trainer.start(ENDLESS)
    until(lambda: trainer.version > 5)
    trainer.pause()
    before = trainer.parameters
    assert not trainer._crew.over.wait(0.1)
    assert all(np.array_equal(a, b) for a, b in zip(before, trainer.parameters, strict=True))


def test_steps_keep_the_other_gradients_in_flight():
    trainer = AsyncTrainer(Quadratic(), workers=3, durations=Constant(0.001))
    trainer.start(ENDLESS)
    trainer.pause()
    for _ in range(12):
        trainer.step()
    trainer.stop()
    assert trainer.trace.staleness[-6:].max() >= 1
    assert trainer.trace.audit() == []


def test_a_second_fit_goes_on_and_reset_starts_over(trainer):
    first = trainer.fit(updates=20)
    second = trainer.fit(updates=15)
    assert (first.updates, second.updates, trainer.version) == (20, 35, 35)
    assert second.audit() == []
    assert np.array_equal(second.loss[: len(first)], first.loss)
    assert (np.diff(second.apply_time) > -1e-3).all()
    trainer.reset()
    assert (trainer.state, trainer.version, len(trainer.trace)) == ("ready", 0, 0)
    for now, start in zip(trainer.parameters, trainer.problem.initial(0), strict=True):
        assert np.array_equal(now, start)
    assert trainer.fit(updates=20).updates == 20


def test_the_same_seed_is_the_same_run_after_a_reset():
    trainer = AsyncTrainer(Digits("mlp"), workers=1, seed=7)
    first = trainer.fit(updates=25)
    trainer.reset()
    second = trainer.fit(updates=25)
    assert first.loss.tolist() == second.loss.tolist()
    assert all(np.array_equal(a, b) for a, b in zip(first.parameters, second.parameters, strict=True))


def test_gradients_left_in_flight_are_dropped_when_the_run_goes_on():
    trainer = AsyncTrainer(Quadratic(), workers=4, durations=Exponential(0.005))
    first = trainer.fit(updates=12)
    left = first.header.ended.in_flight
    assert left
    second = trainer.fit(updates=12)
    dropped = second.columns["worker"][~second.applied].tolist()
    assert sorted(dropped) == sorted(g.worker for g in left)
    assert second.updates == 24
    assert second.audit() == []


def test_conservation_counts_what_is_in_flight_at_the_end():
    trace = AsyncTrainer(Quadratic(), workers=8, durations=Exponential(0.003)).fit(updates=200)
    assert trace.audit() == []
    ages = [trace.updates - g.read_version for g in trace.header.ended.in_flight]
    total = int(trace.staleness.sum()) + sum(ages)
    assert 0 < total <= 7 * 200  # Less where a thread was late to read again.


def test_stop_ends_sixteen_sleeping_threads():
    trainer = AsyncTrainer(Quadratic(), workers=16, durations=Constant(1000.0))
    trainer.start(ENDLESS)
    until(lambda: len(trainer._log.left_in_flight()) == 16)
    trainer.stop()
    assert trainer.state == "stopped"
    assert workers_alive() == []
    assert len(trainer.trace.header.ended.in_flight) == 16
    assert trainer.trace.audit() == []


class Blocked(Quadratic):
    """A problem whose gradients hang, once `go` is cleared, until it is set again."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()
        self.go.set()  # A trainer rehearses when it is made.

    def batch(self, worker, number, seed):
        def hang(value):
            self.go.wait(30)
            return value

        (noise,) = super().batch(worker, number, seed)
        return (tf.ensure_shape(tf.numpy_function(hang, [noise], tf.float32), [1, 20]),)


def test_stop_returns_although_a_worker_is_deep_in_a_gradient():
    problem = Blocked()
    trainer = AsyncTrainer(problem, workers=2)
    problem.go.clear()
    trainer.start(5)
    trainer.stop()
    assert trainer.state == "stopped"
    with pytest.raises(RuntimeError, match="asyncsgd-worker-. .*last gradient"):
        trainer.start(5)
    problem.go.set()
    until(lambda: not workers_alive())
    assert trainer.version == 0  # What came back late was refused.
    assert trainer.fit(updates=5).updates == 5
    assert trainer.trace.audit() == []


class Broken(Quadratic):
    """A problem whose worker 1 raises at its third batch."""

    def batch(self, worker, number, seed):
        bad = tf.logical_and(tf.equal(worker, 1), tf.equal(number, 2))
        with tf.control_dependencies([tf.debugging.assert_equal(bad, False, message="the data ran out")]):
            return super().batch(worker, number, seed)


MAKERS = [
    lambda p: AsyncTrainer(p, workers=3),
    lambda p: TowerTrainer(p, towers=3),
    lambda p: SessionTrainer(p, workers=3),
]


@pytest.mark.parametrize("make", MAKERS, ids=["async", "towers", "session"])
def test_a_failing_worker_fails_the_run_by_number(make):
    trainer = make(Broken())
    with pytest.raises(WorkerError, match="worker 1 failed: InvalidArgumentError") as told:
        trainer.fit(updates=ENDLESS)
    assert told.value.worker == 1
    assert "the data ran out" in str(told.value.__cause__)
    assert trainer.state == "failed"
    assert trainer.trace.header.ended.worker == 1
    assert "the data ran out" in trainer.trace.header.ended.error
    assert "worker 1 failed" in trainer.trace.summary()
    assert trainer.trace.audit() == []
    until(lambda: not workers_alive())


def test_a_loss_that_is_not_finite_ends_the_run_with_its_version():
    trainer = AsyncTrainer(Quadratic(curvatures=61.0, noise=0.0), workers=2)  # Rate 0.05: beyond the limit of 2 / h.
    trace = trainer.fit(updates=10_000)
    assert trainer.state == trace.header.ended.how == "diverged"
    bad = np.flatnonzero(~np.isfinite(trace.loss))
    assert len(bad)
    assert trace.header.ended.version in trace.read_version[bad]
    assert (trace.apply_version[bad] == -1).all()
    with np.errstate(over="raise"):  # Losses near the largest float32 have a mean as well.
        assert f"version {trace.header.ended.version}" in trace.summary()
    assert trace.audit() == []


def test_an_interrupt_stops_the_run_and_is_passed_on(monkeypatch):
    trainer = AsyncTrainer(Quadratic(), workers=2)

    def interrupted(timeout=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(updates=ENDLESS)
    assert trainer.state == "stopped"
    assert workers_alive() == []


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


def test_a_script_that_is_too_short_is_refused_before_the_start():
    trainer = AsyncTrainer(Quadratic(), workers=1, gate=ScriptedGate([(0, "read"), (0, "apply")]))
    with pytest.raises(ValueError, match="1 applies left"):
        trainer.fit(updates=2)
    assert trainer.state == "ready"
    assert trainer.fit(updates=1).updates == 1


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_a_recorded_run_is_the_trace(trainer, tmp_path, name):
    trace = trainer.fit(updates=60, record=tmp_path / name)
    loaded = Trace.load(tmp_path / name)
    assert loaded.header == trace.header
    for column, values in trace.columns.items():
        assert np.array_equal(values, loaded.columns[column]), column


def test_a_run_records_while_it_goes(trainer, tmp_path):
    path = tmp_path / "run.jsonl"
    trainer.start(ENDLESS, record=path)
    until(lambda: path.read_text().count("\n") > 20)
    prefix = Trace.load(path, prefix=True)
    assert prefix.header.ended.how == "running"
    assert prefix.updates > 3
    assert prefix.audit() == []
    trainer.stop()
    assert np.array_equal(trainer.trace.loss[: len(prefix)], prefix.loss)


def test_a_path_that_cannot_be_written_stops_the_run_before_it_starts(trainer, tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        trainer.fit(updates=5, record=tmp_path / "nowhere" / "run.jsonl")
    assert trainer.state == "ready"


def test_a_recording_that_fails_is_told_although_the_run_went_well(trainer, tmp_path, monkeypatch):
    def full(columns):
        raise OSError("no space left on device")

    monkeypatch.setattr("asyncsgd_edu.tracefile.row_lines", full)
    with pytest.raises(OSError, match=r"was not recorded in .*run.jsonl: no space left"):
        trainer.fit(updates=10, record=tmp_path / "run.jsonl")
    assert trainer.state == "finished"
    assert trainer.trace.updates == 10


class OneHangs(Blocked):
    """Worker 1 hangs in its first gradient until it is let go; the others do not."""

    def batch(self, worker, number, seed):
        (noise,) = Quadratic.batch(self, worker, number, seed)

        def hang(value, who):
            if who == 1:
                self.go.wait(30)
            return value

        return (tf.ensure_shape(tf.numpy_function(hang, [noise, worker], tf.float32), [1, 20]),)


def test_a_run_that_is_complete_does_not_wait_for_a_worker_that_hangs():
    problem = OneHangs()
    trainer = AsyncTrainer(problem, workers=3)
    problem.go.clear()
    trace = trainer.fit(updates=20)
    assert trace.header.ended.how == "finished"
    assert not problem.go.is_set()
    assert trace.updates == 20
    assert 1 not in trace.worker
    problem.go.set()
    until(lambda: not workers_alive())
    # What the late one brings is not applied, and the header knows of it after all.
    assert trainer.version == 20
    late = trainer.trace.header.ended.in_flight
    assert [g.worker for g in late].count(1) == 1
    assert trainer.trace.audit() == []


def test_a_pause_waits_for_an_update_that_is_being_made_and_then_nothing_moves():
    problem = Blocked()
    trainer = AsyncTrainer(problem, workers=1)
    problem.go.clear()
    trainer.start(ENDLESS)
    pauser = threading.Thread(target=trainer.pause)
    pauser.start()
    pauser.join(0.05)
    assert pauser.is_alive()  # The gradient hangs, so the pause is not there yet.
    problem.go.set()
    pauser.join(10)
    assert trainer.state == "paused"
    version = trainer.version
    assert not trainer._crew.over.wait(0.05)
    assert trainer.version == version
    trainer.step()
    assert trainer.version == version + 1
    trainer.stop()


def test_a_reset_rewinds_the_script():
    order = [(0, "read"), (1, "read"), (1, "apply"), (0, "apply")]
    trainer = AsyncTrainer(Quadratic(), workers=2, gate=ScriptedGate(order))
    first = trainer.fit(updates=2)
    trainer.reset()
    assert trainer.fit(updates=2).loss.tolist() == first.loss.tolist()


def test_numpy_numbers_can_be_saved(tmp_path):
    law = Constant(np.float32(0.001))
    trace = AsyncTrainer(Quadratic(np.float32(0.5)), workers=np.int64(2), durations=law).fit(np.int64(4))
    trace.save(tmp_path / "run.jsonl")
    assert Trace.load(tmp_path / "run.jsonl").header == trace.header


@pytest.mark.parametrize(
    "more",
    [{"remedy": DropAbove(1)}, {"policy": KSync(3)}, {"policy": KBatchAsync(3)}, {"steps_per_call": 5}],
    ids=str,
)
def test_a_step_is_one_update_whatever_becomes_of_single_gradients(more):
    trainer = AsyncTrainer(Quadratic(), workers=6, **more)
    trainer.start(ENDLESS)
    trainer.pause()
    for _ in range(5):
        before = trainer.version
        trainer.step()
        assert trainer.version == before + 1
    trainer.stop()
    assert trainer.trace.audit() == []


def test_a_call_that_fails_in_the_middle_says_what_the_log_lacks():
    class Fails(Quadratic):
        fail = False

        def batch(self, worker, number, seed):
            def look(number):
                if self.fail and number == 21:
                    raise ValueError("no such batch")
                return number

            number = tf.py_function(look, [number], tf.int64)
            return super().batch(worker, tf.reshape(number, []), seed)

    problem = Fails()
    trainer = AsyncTrainer(problem, workers=1, steps_per_call=8)
    problem.fail = True
    with pytest.raises(WorkerError, match="no such batch"):
        trainer.fit(updates=100)
    trace = trainer.trace
    assert (trace.version, trainer.version) == (16, 21)
    assert "5 updates of its last call are not in the log" in trace.header.ended.error
    assert trace.parameters is None
    with pytest.raises(RuntimeError, match=r"5 updates of a failed call are not in the log: reset\(\) first"):
        trainer.start(updates=10)
    problem.fail = False
    trainer.reset()
    assert trainer.fit(updates=30).audit() == []
