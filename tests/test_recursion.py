"""The recursion against one written out by hand, and its limits against the formulas."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsgd_edu.engines.recursion import FAR, trajectory, windows
from asyncsgd_edu.rules import stability


def memoryless(workers: int, updates: int, seed: int = 0) -> np.ndarray:
    """Versions read when the next to finish is any worker alike."""
    chosen = np.random.default_rng(seed).integers(workers, size=updates)
    last, read = [0] * workers, []
    for version, worker in enumerate(chosen.tolist()):
        read.append(last[worker])
        last[worker] = version + 1
    return np.array(read)


def constant(workers: int, updates: int) -> np.ndarray:
    return np.maximum(np.arange(updates) - (workers - 1), 0)


def by_hand(read: list[int], apply: list[int], step: float, remedy: str | None = None) -> list[float]:
    w = [1.0]
    for version in range(max(apply, default=-1) + 1):
        used = [r for r, a in zip(read, apply, strict=True) if a == version]
        gradients = []
        for r in used:
            gradient = w[r]
            if remedy == "divide":
                gradient /= max(version - r, 1)
            if remedy == "compensate":
                gradient += w[version] - w[r]
            gradients.append(gradient)
        w.append(w[version] - step * sum(gradients) / len(gradients))
    return w


@st.composite
def schedules(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    read, apply = [], []
    for version in range(draw(st.integers(0, 12))):
        for _ in range(draw(st.integers(1, 3))):
            read.append(draw(st.integers(0, version)))
            apply.append(version)
            if draw(st.booleans()):
                read.append(version)
                apply.append(-1)
    return read, apply


@given(schedules(), st.sampled_from([None, "divide", "compensate"]))
def test_any_schedule_as_by_hand(schedule: tuple[list[int], list[int]], remedy: str | None) -> None:
    read, apply = schedule
    expected = by_hand(read, apply, 0.3, remedy)
    assert trajectory(read, apply, 0.3, remedy=remedy).w == pytest.approx(expected)
    assert trajectory(read, apply, 0.15, curvature=2.0, start=5.0, remedy=remedy).w / 5 == pytest.approx(expected)


@given(schedules())
def test_many_runs_are_the_single_runs(schedule: tuple[list[int], list[int]]) -> None:
    read, apply = schedule
    rates = [0.1, 0.5, 1.5]
    together = trajectory(read, apply, rates)
    each = trajectory([read] * 3, apply, rates)
    for run, rate in enumerate(rates):
        assert np.array_equal(together.w[run], trajectory(read, apply, rate).w)
        assert np.array_equal(each.w[run], together.w[run])


def test_a_single_run_has_no_axis_for_runs_and_nothing_can_be_written() -> None:
    single, several = trajectory([0], [0], 0.5), trajectory([0], [0], [0.5])
    assert single.w.shape == (2,)
    assert several.w.shape == (1, 2)
    assert single.diverged.shape == ()
    with pytest.raises(ValueError, match="read-only"):
        single.w[0] = 3.0


def test_fresh_gradients_are_gradient_descent_bit_for_bit() -> None:
    w, updates = 1.0, 200
    for version in range(updates):
        assert trajectory(range(updates), range(updates), 0.1).w[version] == w
        w = w - 0.1 * w


def test_compensation_with_the_true_curvature_undoes_staleness() -> None:
    read = memoryless(8, 500)
    plain = trajectory(range(500), range(500), 0.2, curvature=3.0).w
    assert trajectory(read, range(500), 0.2, curvature=3.0, remedy="compensate").w == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize(
    ("rate", "remedy", "diverges"),
    [
        (0.20, None, False),
        (0.23, None, True),
        (0.23, "divide", False),
        (0.5, "divide", False),
        (1.0, "divide", False),
        (1.4, "divide", False),
        (1.6, "divide", True),
    ],
)
def test_eight_workers_of_constant_duration(rate: float, remedy: str | None, diverges: bool) -> None:
    updates = 6000
    end = trajectory(constant(8, updates), range(updates), rate, remedy=remedy)
    assert bool(end.diverged) == diverges
    assert (float(end.growth) > 1) == diverges
    if not diverges:
        assert abs(end.w[-1]) < 1e-6


@pytest.mark.parametrize("workers", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("remedy", [None, "divide"])
def test_where_growth_begins_is_the_limit(workers: int, remedy: str | None) -> None:
    limit = stability.stability_limit if remedy is None else stability.stability_limit_with_division
    rates = np.linspace(0.9, 1.1, 201) * limit(workers - 1)
    growth = trajectory(constant(workers, 8000), range(8000), rates, remedy=remedy).growth
    assert rates[growth < 1].max() == pytest.approx(limit(workers - 1), rel=2e-3)
    assert rates[growth > 1].min() == pytest.approx(limit(workers - 1), rel=2e-3)


def test_what_diverged_is_reported_and_ends_there() -> None:
    runs = trajectory(constant(4, 100_000), range(100_000), [0.4, 0.6, 3.0])
    assert runs.diverged.tolist() == [False, True, True]
    assert runs.diverged_at[0] == -1
    for run in (1, 2):
        at = runs.diverged_at[run]
        assert np.isnan(runs.w[run, at + 1 :]).all()
        assert abs(runs.w[run, at]) > FAR > abs(runs.w[run, at - 1])
    assert trajectory(range(1000), range(1000), 1e300).diverged


def test_a_run_that_diverges_stops_early() -> None:
    long = np.arange(300_000)
    run = trajectory(constant(8, 300_000), long, 0.5)
    assert run.diverged
    at = int(np.ravel(run.diverged_at)[0])
    assert at < 5_000
    assert np.isnan(np.ravel(run.w)[at + 1 :]).all()  # Nothing was computed after it.


def test_windows_of_a_memoryless_schedule_are_fresh_runs_of_it() -> None:
    cut = windows(memoryless(4, 4001), 100)
    assert cut.shape == (40, 100)
    assert (cut[:, 0] == 0).all()
    assert (cut <= np.arange(100)).all()
    with pytest.raises(ValueError, match="length must be a whole number from 1 to 3, got 4"):
        windows([0, 0, 1], 4)


def test_law_11_by_100_000_runs() -> None:
    updates, rate = 40, 0.2
    runs = trajectory(windows(memoryless(8, 100_000 * updates), updates), range(updates), rate)
    mean = runs.w.mean(axis=0)
    before, after = np.diff(mean)[:-1], np.diff(mean)[1:]
    (momentum, share), *_ = np.linalg.lstsq(np.stack([before, -rate * mean[1:-1]], axis=1), after, rcond=None)
    assert momentum == pytest.approx(0.875, abs=0.002)
    assert share == pytest.approx(0.125, abs=0.002)


def test_noise_is_added_to_each_gradient() -> None:
    read, apply, rate, noise = [0, 0, 1, 1, 2], [0, 0, 1, -1, 2], 0.3, 0.7
    tilted = trajectory(read, apply, rate, curvature=2.0, noise=noise, seed=5)
    key = (5 << 64) | (3 << 32)
    z = iter(np.random.Generator(np.random.Philox(key=key)).standard_normal(4) * noise)
    w = [1.0]
    w.append(w[0] - rate * (2 * w[0] + next(z) + 2 * w[0] + next(z)) / 2)
    w.append(w[1] - rate * (2 * w[1] + next(z)))
    w.append(w[2] - rate * (2 * w[2] + next(z)))
    assert tilted.w == pytest.approx(w)


@pytest.mark.parametrize("remedy", ["divide", "compensate"])
def test_a_remedy_acts_on_the_noisy_gradient(remedy: str) -> None:
    z = np.random.Generator(np.random.Philox(key=(5 << 64) | (3 << 32))).standard_normal(3)
    w = trajectory([0, 0, 0], [0, 1, 2], 0.3, remedy=remedy, noise=1.0, seed=5).w
    if remedy == "divide":
        assert w[3] == pytest.approx(w[2] - 0.3 * (w[0] + z[2]) / 2)
    else:
        assert w[3] == pytest.approx(w[2] - 0.3 * (w[2] + z[2]))


def test_each_run_has_noise_of_its_own_and_keeps_it() -> None:
    read = constant(4, 50)
    few = trajectory(read, range(50), [0.1, 0.1], noise=0.5, seed=1)
    many = trajectory([read] * 3, range(50), 0.1, noise=0.5, seed=1)
    assert np.array_equal(few.w, many.w[:2])
    assert np.array_equal(few.w[0], trajectory(read, range(50), 0.1, noise=0.5, seed=1).w)
    assert not (few.w[0, 1:] == few.w[1, 1:]).any()
    other = trajectory(read, range(50), 0.1, noise=0.5, seed=2).w
    assert not (few.w[0, 1:] == other[1:]).any()


def test_noise_alone_is_no_divergence() -> None:
    # From 0, any step is infinitely many times the start.
    run = trajectory(constant(4, 5000), range(5000), 0.1, start=0.0, noise=1.0, seed=0)
    assert not run.diverged
    assert np.abs(run.w).max() < 10
    assert trajectory(constant(4, 5000), range(5000), 0.6, start=0.0, noise=1.0, seed=0).diverged


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: trajectory([0, 0], [0], 0.1), r"read_version must have shape .*, got \(2,\) and \(1,\)"),
    (lambda: trajectory([0], [[0]], 0.1), "read_version must have shape"),
    (lambda: trajectory([0.5], [0], 0.1), "read_version must be whole numbers, got float64"),
    (lambda: trajectory([0, 0], [0, 2], 0.1), "apply_version must go up from 0 without a gap"),
    (lambda: trajectory([0, 2], [0, 1], 0.1), "read_version must be from 0 to apply_version, got 2 in applied row 1"),
    (lambda: trajectory([[0, 0], [0, -1]], [0, 1], 0.1), "got -1 in applied row 1, where apply_version is 1"),
    (lambda: trajectory([0], [0], 0.0), "learning_rate must be finite and above 0"),
    (lambda: trajectory([0], [0], np.nan), "learning_rate must be finite"),
    (lambda: trajectory([[0], [0]], [0], [0.1, 0.2, 0.3]), "got 3 for 2 runs"),
    (lambda: trajectory([0], [0], 0.1, curvature=-1), "curvature must be a finite number above 0, got -1"),
    (lambda: trajectory([0], [0], 0.1, start=np.inf), "start must be a finite number, got inf"),
    (lambda: trajectory([0], [0], 0.1, remedy="magic"), "remedy must be one of 'divide', 'compensate', got 'magic'"),
    (lambda: trajectory([0], [0], 0.1, noise=-1.0, seed=0), "noise must be a finite number not below 0, got -1.0"),
    (lambda: trajectory([0], [0], 0.1, noise=1.0), "seed, which noise needs, must be a whole number from 0"),
    (lambda: trajectory([0], [0], 0.1, seed=0), "seed must be None where there is no noise, got 0"),
    (lambda: trajectory([0], [0], 0.1).growth, "growth needs at least 3 updates, got 1"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_bad_input_is_named_with_what_is_allowed(case: int) -> None:
    call, sentence = WRONG[case]
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
