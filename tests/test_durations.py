"""The laws of how long a gradient takes: means, order statistics, and draws that follow them."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsgd_edu.rules.durations import Constant, Duration, Exponential, ShiftedExponential, Straggler, Uniform
from asyncsgd_edu.rules.laws import harmonic
from asyncsgd_edu.rules.skewed_durations import Gamma, LogNormal, Measured, Pareto

LAWS: list[Duration] = [
    Constant(0.5),
    Exponential(0.5),
    ShiftedExponential(1.0, 0.2),
    Uniform(0.8, 1.2),
    Gamma(4, 0.25),
    Gamma(0.5, 2.0),
    LogNormal(1.0, 0.5),
    Pareto(3, 0.5),
    Measured([0.1, 0.1, 0.3, 0.7]),
]
named = pytest.mark.parametrize("law", LAWS, ids=str)


@named
def test_draws_have_the_mean_that_the_law_says(law: Duration) -> None:
    drawn = law.series(seed=1, worker=0, count=100_000)
    assert drawn.dtype == np.float64
    assert drawn.mean() == pytest.approx(law.mean, rel=0.01)
    assert (drawn >= 0).all()


@named
@pytest.mark.parametrize(("k", "n"), [(1, 1), (1, 8), (4, 8), (8, 8)])
def test_the_kth_of_n_takes_as_long_as_the_law_says(law: Duration, k: int, n: int) -> None:
    drawn = np.sort(law.series(seed=2, worker=0, count=40_000 * n).reshape(-1, n), axis=1)
    assert law.order_statistic(k, n) == pytest.approx(drawn[:, k - 1].mean(), rel=0.02)


@named
def test_the_order_statistics_of_n_add_up_to_n_means(law: Duration) -> None:
    assert sum(law.order_statistic(k, 16) for k in range(1, 17)) == pytest.approx(16 * law.mean, rel=1e-6)
    assert law.order_statistic(1, 1) == pytest.approx(law.mean, rel=1e-6)


@named
@given(seed=st.integers(0, 2**31 - 1), worker=st.integers(0, 9999), few=st.integers(0, 40), more=st.integers(0, 40))
def test_a_longer_series_begins_with_the_shorter(law: Duration, seed: int, worker: int, few: int, more: int) -> None:
    drawn = law.series(seed, worker, few + more)
    assert drawn.shape == (few + more,)
    assert (drawn[:few] == law.series(seed, worker, few)).all()


@named
def test_each_seed_and_worker_draws_its_own(law: Duration) -> None:
    if isinstance(law, Constant):
        return
    drawn = {tuple(law.series(seed, worker, 20)) for seed in range(3) for worker in range(5)}
    assert len(drawn) == 15


@named
def test_a_law_describes_itself_in_json(law: Duration) -> None:
    described = json.loads(json.dumps(law.describe()))
    assert described.pop("law") == type(law).__name__
    assert described


def test_exact_order_statistics() -> None:
    assert Exponential(2.0).order_statistic(3, 8) == pytest.approx(2 * (1 / 8 + 1 / 7 + 1 / 6))
    assert ShiftedExponential(1.0, 0.2).order_statistic(8, 8) == pytest.approx(1 + 0.2 * harmonic(8))
    assert Uniform(1.0, 2.0).order_statistic(1, 4) == pytest.approx(1.2)
    assert Gamma(1, 2.0).order_statistic(3, 8) == pytest.approx(Exponential(2.0).order_statistic(3, 8))
    assert Pareto(2, 1.0).order_statistic(1, 4) == pytest.approx(8 / 7)  # The least of n is Pareto(n * shape).
    assert harmonic(0) == 0
    assert harmonic(8) == pytest.approx(2.717857, abs=1e-6)


def test_a_pareto_without_a_mean_says_so() -> None:
    law = Pareto(1, 0.5)
    with pytest.raises(ValueError, match="has a mean when its shape is above 1, got shape 1"):
        _ = law.mean
    with pytest.raises(ValueError, match=r"gradient 8 of 8 has a mean when the Pareto shape is above 1, got shape 1"):
        law.order_statistic(8, 8)
    assert law.order_statistic(7, 8) == pytest.approx(4.0)  # All but the last have one: 0.5 * 8! / 7! / 1.
    assert len(law.series(0, 0, 5)) == 5


def test_a_straggler_is_slow_alone_and_has_no_order_statistics() -> None:
    base = Gamma(4, 0.25)
    law = Straggler(base, worker=2, factor=100)
    assert (law.series(0, 2, 9) == 100 * base.series(0, 2, 9)).all()
    assert (law.series(0, 1, 9) == base.series(0, 1, 9)).all()
    assert (law.draws(np.random.default_rng(0), 9) == base.draws(np.random.default_rng(0), 9)).all()
    with pytest.raises(ValueError, match="ask its base"):
        law.order_statistic(1, 8)
    law.check_workers(3)
    with pytest.raises(ValueError, match="the straggler must be a worker from 0 to 1, got 2"):
        law.check_workers(2)
    with pytest.raises(ValueError, match="from 0 to 1, got 2"):
        Straggler(law, worker=0, factor=3).check_workers(2)


def test_measured_durations_come_from_a_trace_or_an_array() -> None:
    trace = SimpleNamespace(read_time=np.array([0.0, 1.0, 2.0]), ready_time=np.array([0.5, np.nan, 2.25]))
    law = Measured(trace)
    assert law.source.tolist() == [0.5, 0.25]  # What was cancelled was never ready.
    assert set(law.series(0, 0, 100)) == {0.5, 0.25}
    with pytest.raises(ValueError, match="read-only"):
        law.source[0] = 3.0
    assert law.describe() == {"law": "Measured", "gradients": 2, "mean": 0.375, "from": 0.25, "to": 0.5}


@pytest.mark.parametrize(
    ("values", "kind", "sentence"),
    [
        ([], ValueError, "at least one number"),
        ([[0.1]], ValueError, "one row"),
        ([0.1, -0.2], ValueError, r"not below 0, got -0.2 at 1"),
        ([0.1, math.nan], ValueError, "got nan at 1"),
        ("fast", TypeError, "a trace or an array of seconds, got 'fast'"),
        (None, ValueError, "measured duration"),
    ],
)
def test_what_was_not_measured_is_refused(values: object, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        Measured(values)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "1", None, True])
def test_constants_that_are_no_duration_are_refused(value: object) -> None:
    for kind in (ShiftedExponential, Uniform, Gamma, LogNormal, Pareto):
        for given_ in ((value, 1.0), (1.0, value)):
            with pytest.raises((ValueError, TypeError), match=r"duration must be a finite number .*, got "):
                kind(*given_)


def test_the_ends_of_a_uniform_duration_are_in_order() -> None:
    with pytest.raises(ValueError, match=r"low up to high, got low 2.0, high 1.0"):
        Uniform(2.0, 1.0)
    assert Uniform(1.0, 1.0).mean == 1.0


@pytest.mark.parametrize(("k", "n"), [(0, 8), (9, 8), (1, 0)])
def test_a_place_that_is_not_among_n_is_refused(k: int, n: int) -> None:
    with pytest.raises(ValueError, match="must be a whole number from 1 to"):
        Exponential(1.0).order_statistic(k, n)
