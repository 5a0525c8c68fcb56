"""Assumptions, by traces that keep and break them."""

import pytest

from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.lessons import assumptions
from asyncsgd_edu.rules.durations import Constant, Duration, Exponential, ShiftedExponential, Straggler, Uniform
from asyncsgd_edu.rules.policies import Asynchronous, KAsync, KBatchSync, KSync, StaleSynchronous, Synchronous
from asyncsgd_edu.rules.skewed_durations import Gamma
from asyncsgd_edu.trace import Trace


def run(durations: Duration, policy: object = None, workers: int = 8) -> Trace:
    return simulate(workers, policy or Asynchronous(), durations, 8000, seed=5)  # type: ignore[arg-type]


SLOW = Straggler(Exponential(1.0), worker=3, factor=5)


@pytest.mark.parametrize(
    "policy", [Asynchronous(), Synchronous(), KSync(1), KSync(3), KBatchSync(2), KAsync(4)], ids=str
)
def test_memoryless_durations_are_found_so_under_every_policy(policy: object) -> None:
    assert assumptions.with_memory(run(Exponential(0.3), policy)) == ""
    assert assumptions.with_memory(run(ShiftedExponential(0.3, 0.3), policy))
    assert assumptions.with_memory(run(Uniform(0.0, 1.0), policy))
    assert assumptions.unlike_workers(run(Uniform(0.0, 1.0), policy)) == ""
    assert "worker 3" in assumptions.unlike_workers(run(SLOW, policy))


def test_a_worker_that_never_delivers_is_unlike() -> None:
    assert assumptions.unlike_workers(run(Straggler(Constant(1.0), 2, 1e6))) == "worker 2 made no gradient"


def test_what_is_constant_and_what_varies() -> None:
    assert assumptions.varying_delay(run(Constant(1.0))) == ""
    assert assumptions.varying_delay(run(Constant(1.0), workers=1)) == ""
    assert "7.0 +-" in assumptions.varying_delay(run(Exponential(1.0)))
    assert assumptions.varying_durations(run(Uniform(0.8, 1.2))) == ""
    assert assumptions.varying_durations(run(Straggler(Constant(1.0), 0, 5)))
    assert assumptions.varying_durations(run(Exponential(1.0)))


def test_who_waits() -> None:
    assert assumptions.idle_workers(run(Exponential(1.0))) == ""
    assert assumptions.idle_workers(run(Exponential(1.0), StaleSynchronous(0)))
    assert assumptions.idle_workers(run(Exponential(1.0), Synchronous()))


@pytest.mark.parametrize("updates", [2000, 20_000])
@pytest.mark.parametrize("workers", [2, 8])
def test_delays_tell_who_is_memoryless(workers: int, updates: int) -> None:
    def delays(durations: Duration, seed: int) -> Trace:
        return Trace.from_delays(simulate(workers, Asynchronous(), durations, updates, seed).staleness)

    for seed in range(10):
        assert assumptions.aging(delays(Exponential(1.0), seed)) == ""
        for durations in (Uniform(0.8, 1.2), Gamma(3, 1.0), ShiftedExponential(1.0, 1.0)):
            assert "from geometric" in assumptions.aging(delays(durations, seed))


def test_a_single_worker_is_never_stale_and_so_memoryless() -> None:
    assert assumptions.aging(Trace.from_delays([0] * 50)) == ""


def test_batches_of_one_size_are_even() -> None:
    assert assumptions.uneven_batches([16, 16]) == ""
    assert assumptions.uneven_batches([40, 24]) == "batches have from 24 to 40 examples"
