"""A simulated run as the dashboard drives it: stopped, paused, gone on with."""

from collections.abc import Callable

import numpy as np
import pytest

from asyncsgd_edu.engines.replay import replay
from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.problems.quadratic import Quadratic
from asyncsgd_edu.rules.durations import Constant, Exponential
from asyncsgd_edu.rules.policies import Asynchronous, KAsync, KSync, Policy, Synchronous
from asyncsgd_edu.rules.remedies import DropAbove, GapAware
from asyncsgd_edu.view.choices import MOST_GRADIENTS
from asyncsgd_edu.view.virtual import SimulatedRun, WrittenRun


def made(policy: Policy[object] | None = None, workers: int = 4) -> SimulatedRun:
    return SimulatedRun(Quadratic(), workers, policy or Asynchronous(), Exponential(0.01), 0.01, seed=3)


def after(asked: int) -> Callable[[], bool]:
    """Says stop when it is asked that often."""
    answers = iter([False] * asked + [True])
    return lambda: next(answers)


def test_a_stop_during_the_arithmetic_keeps_what_is_done() -> None:
    run, whole = made(), made()
    run.start(5000)
    run.advance(after(3))
    whole.start(5000)
    whole.advance()
    done = len(run.trace)
    assert (run.state, run.header.ended.how) == ("stopped", "stopped")
    assert 0 < done < 5000
    assert run.trace.loss.tolist() == whole.trace.loss[:done].tolist()
    assert run.trace.audit() == []
    assert np.isfinite(run.evaluate()["loss"])


def test_an_update_that_lacks_gradients_is_not_done() -> None:
    # 16 gradients are done first: 2 updates of 7, and 2 gradients of the next.
    run = made(Synchronous(), workers=7)
    run.start(50)
    run.advance(after(1))
    assert (len(run.trace), run.trace.version) == (14, 2)
    assert run.trace.audit() == []
    # The parameters are those of that version.
    again = replay(run.trace, Quadratic(), learning_rate=0.01)
    assert run.trace.parameters is not None
    assert again.parameters is not None
    assert np.array_equal(run.trace.parameters[0], again.parameters[0])


def test_gradients_that_were_thrown_away_come_with_their_update() -> None:
    run = made(KSync(2), workers=5)
    run.start(50)
    run.advance(after(1))
    assert run.trace.version == 3
    assert len(run.trace) == 15
    assert run.trace.audit() == []


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been() -> None:
    run, whole = made(), made()
    run.start(5000)
    run.advance(after(3))
    first = run.trace.version
    run.start(100)
    assert run.state == "running"
    run.advance()
    whole.start(first + 100)
    whole.advance()
    assert (run.state, run.trace.version) == ("finished", first + 100)
    assert run.trace.loss.tolist() == whole.trace.loss.tolist()
    assert run.evaluate() == whole.evaluate()


def test_the_trace_grows_with_the_arithmetic() -> None:
    run, lengths = made(), []

    def ask() -> bool:
        lengths.append(len(run.trace))
        assert np.isfinite(run.trace.loss).all()
        assert run.trace.header.ended.how == "running"
        return False

    run.start(3000)
    run.advance(ask)
    assert lengths[0] == 0
    assert lengths == sorted(set(lengths))
    assert len(lengths) > 3
    assert len(run.trace) == 3000


def test_what_had_been_done_stays_until_it_is_done_again() -> None:
    run, lengths = made(), []
    run.start(300)
    run.advance()
    run.start(3000)
    run.advance(lambda: bool(lengths.append(len(run.trace))))  # type: ignore[func-returns-value]
    assert lengths[:2] == [300, 300]
    assert lengths == sorted(lengths)


def test_a_stop_never_takes_back_what_had_been_done() -> None:
    run = made()
    run.start(300)
    run.advance()
    before = run.trace
    run.start(300)
    run.advance(after(1))
    assert run.state == "stopped"
    assert run.trace.version == 300
    assert run.trace.loss.tolist() == before.loss.tolist()
    assert run.trace.parameters is before.parameters


def test_a_stop_before_the_arithmetic_leaves_the_schedule() -> None:
    run = made()
    run.start(300)
    assert (run.state, run.trace.version) == ("running", 0)
    run.stop()
    assert (run.state, run.trace.version, run.trace.header.ended.how) == ("stopped", 0, "stopped")
    run.advance()
    assert run.state == "stopped"
    run.start(20)
    run.advance()
    assert (run.state, run.trace.version) == ("finished", 20)


def test_a_paused_run_is_resumed_while_it_is_asked() -> None:
    run, seen = made(), []

    def ask() -> bool:
        seen.append(run.state)
        (run.pause if len(seen) % 2 else run.resume)()
        return False

    run.start(3000)
    run.advance(ask)
    assert run.state == "finished"
    assert seen[:3] == ["running", "paused", "running"]
    for press in (run.pause, run.resume, run.stop):
        press()
        assert run.state == "finished"


def test_a_remedy_is_that_of_the_replay() -> None:
    run = SimulatedRun(Quadratic(), 4, Asynchronous(), Exponential(0.01), 0.01, 3, GapAware())
    run.start(100)
    assert run.header.remedy is not None  # While the schedule has no losses yet.
    run.advance()
    schedule = simulate(4, Asynchronous(), Exponential(0.01), 100, 3)
    assert run.trace.loss.tolist() == replay(schedule, Quadratic(), learning_rate=0.01, remedy=GapAware()).loss.tolist()


@pytest.mark.parametrize("policy", [Asynchronous(), KSync(2), KAsync(3)])
def test_where_gradients_are_dropped_there_are_as_many_updates_as_asked_for(policy: Policy[object]) -> None:
    run = SimulatedRun(Quadratic(), 8, policy, Exponential(0.01), 0.01, 3, DropAbove(1))
    run.start(300)
    run.advance()
    assert run.trace.version == 300
    assert run.trace.staleness.max() <= 1
    assert run.trace.audit() == []
    dropped = int((~run.trace.applied).sum())
    whole = SimulatedRun(Quadratic(), 8, policy, Exponential(0.01), 0.01, 3)
    whole.start(300)
    whole.advance()
    assert (dropped > int((~whole.trace.applied).sum())) == (policy != KSync(2))  # Of K-sync nothing is stale.


def test_a_run_that_drops_gradients_goes_on_as_one_long_run() -> None:
    run, lengths = SimulatedRun(Quadratic(), 8, Asynchronous(), Exponential(0.01), 0.01, 3, DropAbove(1)), []
    run.start(200)
    run.advance()
    first = run.trace
    run.start(100)
    run.advance(lambda: bool(lengths.append(len(run.trace))))  # type: ignore[func-returns-value]
    assert run.trace.version == 300
    assert run.trace.loss[: len(first)].tolist() == first.loss.tolist()
    assert run.trace.apply_version[: len(first)].tolist() == first.apply_version.tolist()
    assert lengths == sorted(lengths)


def test_a_written_run_is_run_to_its_end_and_no_further() -> None:
    run = WrittenRun(Quadratic(), "0r 1r 1a 0a 0r 0a 1r", 0.01, seed=3)
    run.start(2)
    run.advance()
    assert (run.state, run.trace.version) == ("finished", 2)
    run.start(1)
    run.advance()
    assert run.trace.version == 3
    assert np.isfinite(run.trace.loss).all()
    assert run.trace.schedule() == "0r 1r 1a 0a 0r 0a 1r"
    with pytest.raises(ValueError, match="the schedule ends at version 3, got 4"):
        run.start(1)
    assert (run.header.clock, run.header.policy, run.workers) == ("virtual", "written by hand", 2)


def test_a_written_run_drops_what_its_remedy_says() -> None:
    run = WrittenRun(Quadratic(), "0r 1r 2r 0a 1a 2a", 0.01, remedy=DropAbove(1))
    run.start(2)
    run.advance()
    assert run.trace.apply_version.tolist() == [0, 1, -1]
    assert run.trace.audit() == []


def test_reset_forgets_everything() -> None:
    run = made()
    run.start(100)
    run.advance()
    run.reset()
    assert (run.state, len(run.trace)) == ("ready", 0)
    assert np.isnan(run.evaluate()["loss"])


def test_a_run_that_would_grow_too_long_is_refused_and_stays_as_it_was() -> None:
    run = made(Synchronous(), workers=100)
    run.start(10)
    run.advance()
    with pytest.raises(ValueError, match=f"at most {MOST_GRADIENTS} gradients, got .* updates of up to 100: .* reset"):
        run.start(MOST_GRADIENTS // 100)
    assert (run.state, run.trace.version) == ("finished", 10)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("quadratic", 4, Asynchronous(), Constant(1.0), 0.1), "problem must be a problem such as"),
        ((Quadratic(), "4", Asynchronous(), Constant(1.0), 0.1), "workers must be a whole number from 1 to 10000"),
        ((Quadratic(), 4, "asynchronous", Constant(1.0), 0.1), "policy must be a policy such as"),
        ((Quadratic(), 4, Asynchronous(), 0.01, 0.1), "durations must be None or a duration such as"),
        ((Quadratic(), 4, Asynchronous(), None, 0.1), "a simulation needs durations such as"),
        ((Quadratic(), 4, Asynchronous(), Constant(1.0), "0.1"), "learning_rate must be a finite number above 0"),
        ((Quadratic(), 4, Asynchronous(), Constant(1.0), 0.1, "0"), "seed must be a whole number"),
    ],
)
def test_what_cannot_be_run_is_refused_at_once(arguments: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        SimulatedRun(*arguments)  # type: ignore[arg-type]
