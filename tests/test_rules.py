"""The rules: what arguments may be, how long gradients take, what the laws say."""

import ast
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncsgd_edu
from asyncsgd_edu import Constant, Exponential, Straggler, geometric_staleness, mean_staleness
from asyncsgd_edu.rules.arguments import one_of, positive_number, whole_number
from asyncsgd_edu.rules.durations import Duration, check_durations

# --- arguments


@given(st.integers(1, 256))
def test_a_whole_number_in_range_comes_back(value: int) -> None:
    assert whole_number("workers", value, 1, 256) == value
    assert type(whole_number("workers", np.int32(value), 1, 256)) is int


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0, ValueError),
        (-1, ValueError),
        (257, ValueError),
        (10**6, ValueError),
        (2.5, TypeError),
        (2.0, TypeError),
        ("4", TypeError),
        (True, TypeError),
        (None, TypeError),
        (math.nan, TypeError),
    ],
)
def test_what_is_no_whole_number_in_range_is_told(value: object, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        whole_number("workers", value, 1, 256)
    assert str(caught.value) == f"workers must be a whole number from 1 to 256, got {value!r}"


@pytest.mark.parametrize("value", [0.05, 1, np.float32(0.5), Fraction(1, 3), 5e-324])
def test_a_positive_number_comes_back_as_a_float(value: float) -> None:
    assert positive_number("learning_rate", value) == float(value)
    assert type(positive_number("learning_rate", value)) is float


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0, ValueError),
        (-1, ValueError),
        (math.nan, ValueError),
        (math.inf, ValueError),
        (-math.inf, ValueError),
        ("0.1", TypeError),
        (False, TypeError),
        (None, TypeError),
        (1j, TypeError),
    ],
)
def test_what_is_no_positive_number_is_told(value: object, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="learning_rate must be a finite number above 0") as caught:
        positive_number("learning_rate", value)
    assert str(caught.value).endswith(f"got {value!r}")


def test_zero_is_allowed_where_it_is_asked_for() -> None:
    assert positive_number("wait", 0, zero=True) == 0.0
    with pytest.raises(ValueError, match="not below 0, got -1"):
        positive_number("wait", -1, zero=True)


def test_a_number_too_large_for_a_float_is_refused() -> None:
    with pytest.raises(ValueError, match="finite number"):
        positive_number("learning_rate", 10**400)


@pytest.mark.parametrize(
    ("value", "kind"), [("c", ValueError), ("", ValueError), (None, TypeError), (["a"], TypeError)]
)
def test_a_word_that_is_not_offered_is_told(value: object, kind: type[Exception]) -> None:
    assert one_of("access", "a", ["a", "b"]) == "a"
    with pytest.raises(kind, match="access must be one of 'a', 'b', got"):
        one_of("access", value, ["a", "b"])


# --- durations

LAWS = [Constant(0.02), Exponential(0.02), Straggler(Exponential(0.02), worker=1, factor=3)]


@pytest.mark.parametrize("law", LAWS)
def test_the_same_seed_worker_and_number_take_the_same_seconds(law: Duration) -> None:
    asked = [(seed, worker, number) for seed in range(3) for worker in range(3) for number in range(5)]
    first = [law.seconds(*a) for a in asked]
    again = [law.seconds(*a) for a in reversed(asked)][::-1]
    assert first == again
    assert all(seconds >= 0 for seconds in first)


def test_seed_worker_and_number_each_change_the_seconds() -> None:
    law = Exponential(0.02)
    drawn = {law.seconds(s, w, n) for s in range(4) for w in range(4) for n in range(4)}
    assert len(drawn) == 64


@pytest.mark.parametrize("worker", [0, 1])
def test_exponential_draws_follow_their_law(worker: int) -> None:
    draws = np.sort([Exponential(0.02).seconds(7, worker, n) for n in range(4000)])
    # Kolmogorov-Smirnov: for these fixed seeds, far inside 1.63 / sqrt(n), the 1 % bound.
    law = 1 - np.exp(-draws / 0.02)
    steps = np.arange(len(draws) + 1) / len(draws)
    distance = max(np.abs(law - steps[1:]).max(), np.abs(law - steps[:-1]).max())
    assert distance < 1.63 / np.sqrt(len(draws))
    assert abs(draws.mean() - Exponential(0.02).mean) < 3 * 0.02 / np.sqrt(len(draws))


def test_a_constant_is_constant_and_may_be_zero() -> None:
    assert {Constant(0.02).seconds(s, w, n) for s in range(3) for w in range(3) for n in range(3)} == {0.02}
    assert Constant(0).seconds(0, 0, 0) == 0.0
    assert Constant(0.02).mean == 0.02


def test_a_straggler_slows_one_worker_only() -> None:
    base = Exponential(0.02)
    law = Straggler(base, worker=2, factor=10)
    for number in range(5):
        assert law.seconds(0, 1, number) == base.seconds(0, 1, number)
        assert law.seconds(0, 2, number) == 10 * base.seconds(0, 2, number)
    assert law.mean == base.mean


@pytest.mark.parametrize("law", LAWS)
def test_a_duration_is_frozen_and_describes_itself(law: Duration) -> None:
    described = law.describe()
    assert described["law"] == type(law).__name__
    assert len(described) > 1
    with pytest.raises(AttributeError):
        law.scale = 3.0  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", [-0.01, math.nan, math.inf, "0.1", None, True])
def test_a_duration_that_cannot_be_slept_is_refused(value: object) -> None:
    for law in (Constant, Exponential):
        with pytest.raises((ValueError, TypeError), match="duration"):
            law(value)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="above 0, got 0"):
        Exponential(0)


def test_what_is_no_duration_is_refused() -> None:
    assert check_durations(None) is None
    assert check_durations(LAWS[0]) is LAWS[0]
    for value in (0.01, "exponential", Exponential):
        with pytest.raises(TypeError, match="durations must be None or a duration"):
            check_durations(value)
    with pytest.raises(TypeError, match="duration"):
        Straggler(0.01, worker=0, factor=2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="straggler"):
        Straggler(Constant(0.01), worker=-1, factor=2)
    with pytest.raises(ValueError, match="factor"):
        Straggler(Constant(0.01), worker=0, factor=0)


def test_a_straggler_of_nothing_is_refused() -> None:
    with pytest.raises(TypeError, match="duration"):
        Straggler(None, worker=0, factor=2)  # type: ignore[arg-type]


# --- laws


@given(st.integers(1, 64))
def test_memoryless_staleness_has_the_mean_and_variance_of_law_5(workers: int) -> None:
    p = geometric_staleness(workers, 60 * workers)
    k = np.arange(len(p))
    assert p.dtype == np.float64
    assert p.sum() == pytest.approx(1)
    assert (p * k).sum() == pytest.approx(workers - 1, abs=1e-9)
    assert (p * (k - (workers - 1)) ** 2).sum() == pytest.approx(workers * (workers - 1), abs=1e-6)


@pytest.mark.parametrize(("gradients", "mean"), [(30, 0.967), (15, 1.933), (2, 14.5), (1, 29.0)])
def test_mean_staleness_of_law_1(gradients: int, mean: float) -> None:
    assert mean_staleness(30, gradients) == pytest.approx(mean, abs=5e-4)


@pytest.mark.parametrize("workers", [0, -1, 2.5, "4"])
def test_laws_refuse_what_is_no_number_of_workers(workers: object) -> None:
    for law in (lambda: mean_staleness(workers), lambda: geometric_staleness(workers, 3)):  # type: ignore[arg-type]
        with pytest.raises((ValueError, TypeError), match="workers must be a whole number"):
            law()


def test_rules_know_nothing_of_clocks() -> None:
    for path in (Path(asyncsgd_edu.__file__).parent / "rules").glob("*.py"):
        imports = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text()))
            for name in (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert not imports & {"time", "datetime", "threading", "random", "asyncio", "tensorflow"}, path.name
