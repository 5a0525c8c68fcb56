"""Arguments of `simulate`, drawn at random: every policy, and durations of every kind."""

from typing import Any

from hypothesis import strategies as st

from asyncsgd_edu.rules.durations import Constant, Duration, Exponential, ShiftedExponential, Straggler, Uniform
from asyncsgd_edu.rules.policies import (
    Asynchronous,
    BackupWorkers,
    KAsync,
    KBatchAsync,
    KBatchSync,
    KSync,
    Policy,
    StaleSynchronous,
    Synchronous,
)
from asyncsgd_edu.rules.skewed_durations import Gamma, LogNormal, Measured, Pareto

ONE = Exponential(1.0)


@st.composite
def runs(draw: st.DrawFn, most: int = 64) -> tuple[int, Policy[Any], Duration, int, int]:
    """Arguments of `simulate`: workers, policy, durations, updates, seed."""
    workers = draw(st.integers(1, most))
    k, bound = draw(st.integers(1, workers)), draw(st.integers(0, 6) | st.just(10**6))
    policies: list[Policy[Any]] = [Asynchronous(), Synchronous(), KSync(k), KBatchSync(k), KAsync(k), KBatchAsync(k)]
    policies += [BackupWorkers(workers - k), StaleSynchronous(bound)]
    slow = draw(st.integers(0, workers - 1))
    durations: list[Duration] = [ONE, Constant(1.0), Constant(0.0), Uniform(0.0, 1.0), ShiftedExponential(1.0, 0.2)]
    durations += [Gamma(4, 0.25), LogNormal(1.0, 2.0), Pareto(0.5, 1.0), Measured([0.0, 0.0, 1.0, 2.0])]
    durations += [Straggler(ONE, slow, 100), Straggler(Constant(1.0), slow, 0.01)]
    return (
        workers,
        draw(st.sampled_from(policies)),
        draw(st.sampled_from(durations)),
        draw(st.integers(1, 120)),
        draw(st.integers(0, 2**31 - 1)),
    )
