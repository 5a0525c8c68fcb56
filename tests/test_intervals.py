"""What a count of trials leaves open: exact ends, and an interval that covers."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsgd_edu.rules.intervals import MOST_TRIALS, Count, binomial_interval

CONFIDENCES = st.floats(0.5, 0.999)


def at_least(count: int, trials: int, probability: float) -> float:
    """Probability of `count` or more in `trials`, in whole numbers until the end: an independent way."""
    p = Fraction(probability)
    terms = (math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(count, trials + 1))
    return float(sum(terms, Fraction(0)))


@st.composite
def counts(draw: st.DrawFn, most: int = 40) -> tuple[int, int]:
    """A count and its trials."""
    trials = draw(st.integers(1, most))
    return draw(st.integers(0, trials)), trials


@given(counts(), CONFIDENCES)
def test_at_either_end_the_tail_is_half_of_what_may_be_missed(counted: tuple[int, int], confidence: float) -> None:
    count, trials = counted
    low, high = binomial_interval(count, trials, confidence)
    if count:
        assert at_least(count, trials, low) == pytest.approx((1 - confidence) / 2, rel=1e-6)
    if count < trials:
        assert 1 - at_least(count + 1, trials, high) == pytest.approx((1 - confidence) / 2, rel=1e-6)


@given(st.integers(1, 30), st.floats(0, 1), CONFIDENCES)
def test_it_covers_whatever_the_probability(trials: int, probability: float, confidence: float) -> None:
    covered = 0.0
    for count in range(trials + 1):
        low, high = binomial_interval(count, trials, confidence)
        if low <= probability <= high:
            covered += math.comb(trials, count) * probability**count * (1 - probability) ** (trials - count)
    assert covered >= confidence - 1e-9


@given(counts(10**6))
def test_it_holds_the_share_and_grows_with_the_count_and_the_confidence(counted: tuple[int, int]) -> None:
    count, trials = counted
    low, high = binomial_interval(count, trials)
    assert 0 <= low <= count / trials <= high <= 1
    if count < trials:
        more_low, more_high = binomial_interval(count + 1, trials)
        assert low < more_low
        assert high < more_high or more_high == 1
    wider_low, wider_high = binomial_interval(count, trials, 0.99)
    assert wider_low <= low
    assert high <= wider_high


@given(counts())
def test_failures_are_successes_seen_from_the_other_side(counted: tuple[int, int]) -> None:
    count, trials = counted
    low, high = binomial_interval(count, trials)
    assert binomial_interval(trials - count, trials) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@pytest.mark.parametrize("trials", [1, 10, 40_000, 10**9, MOST_TRIALS])
def test_none_seen_has_an_end_in_closed_form(trials: int) -> None:
    low, high = binomial_interval(0, trials)
    assert low == 0.0
    assert high == pytest.approx(-math.expm1(math.log(0.025) / trials), rel=1e-9)
    assert binomial_interval(trials, trials)[1] == 1.0


def test_values_that_tables_of_the_binomial_interval_have() -> None:
    assert binomial_interval(1, 10) == pytest.approx((0.0025, 0.4450), abs=5e-5)
    assert binomial_interval(5, 10) == pytest.approx((0.1871, 0.8129), abs=5e-5)
    assert binomial_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((3, 2), "count must be a whole number from 0 to 2, got 3"),
        ((-1, 2), "got -1"),
        ((0, -1), "trials must be a whole number from 0"),
        ((0, 2, 0.0), "confidence must be a finite number above 0, got 0.0"),
        ((0, 2, 1.0), "confidence must be a number between 0 and 1, got 1.0"),
        ((0, 2, math.nan), "confidence must be a finite number"),
    ],
)
def test_what_is_no_count_is_told(arguments: tuple[float, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        binomial_interval(*arguments)  # type: ignore[arg-type]


def test_a_count_knows_its_share_and_interval_and_cannot_exceed_its_trials() -> None:
    count = Count(5, 10)
    assert (str(count), count.share, count.interval) == ("5 of 10", 0.5, binomial_interval(5, 10))
    assert Count(0, 0).share == 0.0
    with pytest.raises(ValueError, match="count must be a whole number from 0 to 10, got 11"):
        Count(11, 10)
    with pytest.raises(AttributeError):
        count.count = 6  # type: ignore[misc]
