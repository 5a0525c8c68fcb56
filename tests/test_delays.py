"""Delays as schedules: which workers could have made them, and which delays cannot be."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.rules.delays import check_delays
from asyncsgd_edu.rules.durations import Exponential
from asyncsgd_edu.rules.policies import Asynchronous, StaleSynchronous
from asyncsgd_edu.trace import COLUMNS, Trace

LOGS = Path(__file__).parents[1] / ".." / "shared" / "data" / "delays"


possible = st.integers(1, 80).flatmap(lambda n: st.tuples(*(st.integers(0, t) for t in range(n))))


@given(possible)
def test_a_schedule_has_its_delays_and_is_sound(delays: tuple[int, ...]) -> None:
    trace = Trace.from_delays(delays)
    assert trace.staleness.tolist() == list(delays)
    assert trace.audit() == []
    assert list(trace.columns) == list(COLUMNS)
    for worker in range(trace.header.workers):
        mine = trace.worker == worker
        assert trace.batch[mine].tolist() == list(range(mine.sum()))
        assert (trace.read_version[mine][1:] > trace.apply_version[mine][:-1]).all()


@given(possible)
def test_no_more_workers_are_needed_than_gradients_were_in_flight_at_once(delays: tuple[int, ...]) -> None:
    end = np.arange(len(delays))
    start = end - np.array(delays)
    at_once = max(int(((start <= version) & (version <= end)).sum()) for version in end)
    assert Trace.from_delays(delays).header.workers == at_once


@pytest.mark.parametrize("policy", [Asynchronous(), StaleSynchronous(1)])
def test_the_delays_of_a_run_give_its_workers_back(policy: Any) -> None:
    run = simulate(8, policy, Exponential(1.0), 2000, seed=1)
    found = Trace.from_delays(run.staleness)
    assert found.header.workers == 8
    assert np.array_equal(found.read_version, run.read_version)


def test_it_does_not_matter_what_holds_the_numbers() -> None:
    for given_ in ([0, 1, 2], (0.0, 1.0, 2.0), np.array([0, 1, 2], np.int8), np.array([0, 1, 2], np.float32)):
        assert check_delays(given_).tolist() == [0, 1, 2]
        assert check_delays(given_).dtype == np.int64


@pytest.mark.parametrize(
    ("delays", "kind", "sentence"),
    [
        ([], ValueError, "at least one whole number, got shape"),
        ([[0, 1]], ValueError, r"one row of at least one whole number, got shape \(1, 2\)"),
        (3, ValueError, "one row"),
        ([0, -1], ValueError, "delay 1 must be a finite whole number not below 0, got -1"),
        ([0, 0.5], ValueError, "delay 1 must be a finite whole number not below 0, got 0.5"),
        ([0, math.nan], ValueError, "delay 1 must be .* got nan"),
        ([0, 1, math.inf], ValueError, "delay 2 must be .* got inf"),
        ([1], ValueError, "delay 0 is 1, but before update 0 there were only 0 updates"),
        ([0, 1, 7], ValueError, "delay 2 is 7, but before update 2 there were only 2 updates: allowed are 0 to 2"),
        ("fast", TypeError, "delays must be a list of whole numbers, got 'fast'"),
        (None, ValueError, "one row"),
        ([0, "1x"], TypeError, "delays must be a list of whole numbers"),
    ],
    ids=str,
)
def test_delays_that_cannot_be_are_told(delays: Any, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        Trace.from_delays(delays)


@pytest.mark.skipif(not LOGS.is_dir(), reason="no public delay logs beside the repository (shared/data/delays)")
def test_law_6_real_machines_are_not_memoryless() -> None:
    files = sorted(LOGS.glob("BCD_*.csv"))
    assert files
    for file in files:
        trace = Trace.from_delays(np.loadtxt(file))
        assert trace.audit() == []
        assert trace.header.workers == 8
        assert 6.98 <= trace.mean_staleness <= 6.99
        assert 1.3 < trace.staleness.std() < 1.8  # The geometric law would say 7.5.
