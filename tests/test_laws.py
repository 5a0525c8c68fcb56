"""The formulas against something that is not a formula: matrices, roots and dice."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsgd_edu.rules import laws, stability


def radius(matrix: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def limit_of(radius_at: Callable[[float], float], high: float) -> float:
    """Where a spectral radius first reaches 1, by bisection between almost 0 and `high`."""
    low = 0.0
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if radius_at(middle) < 1 else (low, middle)
    return low


# --- laws 8 to 11: stability


def companion(delay: int, step: float) -> np.ndarray:
    """w(t+1) = w(t) - step w(t - delay) as one matrix on the last delay + 1 values."""
    matrix = np.eye(delay + 1, k=-1)
    matrix[0, 0] = 1.0
    matrix[0, delay] -= step
    return matrix


@pytest.mark.parametrize(
    ("delay", "figure"), [(0, 2), (1, 1), (2, 0.618), (3, 0.445), (7, 0.2091), (15, 0.1013), (40, None)]
)
def test_law_8_is_where_the_companion_matrix_reaches_the_unit_circle(delay: int, figure: float | None) -> None:
    found = limit_of(lambda step: radius(companion(delay, step)), 2.5)
    assert stability.stability_limit(delay) == pytest.approx(found, rel=1e-6)
    if figure is not None:
        assert stability.stability_limit(delay) == pytest.approx(figure, abs=5e-4)


@pytest.mark.parametrize(("delay", "figure"), [(0, 2), (1, 1), (2, 1.24), (3, 1.34), (5, 1.42), (7, 1.463), (10, 1.49)])
def test_law_10_is_the_limit_of_steps_divided_by_the_delay(delay: int, figure: float) -> None:
    found = limit_of(lambda step: radius(companion(delay, step / max(delay, 1))), 2.5)
    assert stability.stability_limit_with_division(delay) == pytest.approx(found, rel=1e-6)
    assert stability.stability_limit_with_division(delay) == pytest.approx(figure, abs=6e-3)


@given(st.integers(1, 10**6))
def test_law_10_never_passes_half_of_pi_and_always_allows_1(delay: int) -> None:
    assert 1 - 1e-12 <= stability.stability_limit_with_division(delay) < math.pi / 2


def worker_matrices(workers: int, step: float) -> list[np.ndarray]:
    """For each worker, the update that it makes, on (w, what each worker has read)."""
    matrices = []
    for worker in range(1, workers + 1):
        matrix = np.eye(workers + 1)
        matrix[0, worker] = -step
        matrix[worker] = matrix[0]
        matrices.append(matrix)
    return matrices


def moments(workers: int, step: float, order: int) -> np.ndarray:
    """The mean over workers of an update on first moments, or on all (N + 1)^2 second moments."""
    each = worker_matrices(workers, step)
    return np.mean([matrix if order == 1 else np.kron(matrix, matrix) for matrix in each], axis=0)


@pytest.mark.parametrize(("workers", "figure"), [(1, 2), (2, 1.281), (3, 1), (4, 0.843), (6, 0.667), (8, 0.566)])
def test_law_9_is_where_the_operator_on_all_second_moments_reaches_1(workers: int, figure: float) -> None:
    found = limit_of(lambda step: radius(moments(workers, step, order=2)), 2.5)
    assert stability.mean_square_limit(workers) == pytest.approx(found, rel=1e-6)
    assert stability.mean_square_limit(workers) == pytest.approx(figure, abs=5e-4)


@pytest.mark.parametrize("workers", [2, 4, 8])
@pytest.mark.parametrize(("share", "grows"), [(0.9, False), (1.1, True)])
def test_law_9_by_dice(workers: int, share: float, grows: bool) -> None:
    random, runs = np.random.default_rng(3), 50_000
    step = share * stability.mean_square_limit(workers)
    w, read = np.ones(runs), np.ones((workers, runs))
    at, squares = np.arange(runs), []
    for _ in range(12 * workers):
        worker = random.integers(workers, size=runs)
        w = w - step * read[worker, at]
        read[worker, at] = w
        squares.append((w**2).mean())
    early, late = np.mean(squares[4 * workers : 6 * workers]), np.mean(squares[10 * workers :])
    assert (late > early) == grows


@pytest.mark.parametrize("workers", [1, 2, 5, 8])
def test_the_expected_trajectory_is_stable_far_above(workers: int) -> None:
    # On (w, the mean of what the workers have read): the differences between them do not reach w.
    spread = np.zeros((workers + 1, 2))
    spread[0, 0] = spread[1:, 1] = 1.0
    found = limit_of(lambda step: radius(np.linalg.pinv(spread) @ moments(workers, step, order=1) @ spread), 100.0)
    assert stability.expected_trajectory_limit(workers) == pytest.approx(found, rel=1e-6)
    assert stability.expected_trajectory_limit(workers) >= stability.mean_square_limit(workers)


@pytest.mark.parametrize("workers", [1, 2, 8, 30])
def test_law_11_is_exact_for_the_mean_over_all_runs(workers: int) -> None:
    step = 0.3
    mean, once = [np.ones(workers + 1)], moments(workers, step, order=1)
    for _ in range(50):
        mean.append(once @ mean[-1])
    w = np.array(mean)[:, 0]
    momentum, share = stability.implicit_momentum(workers)
    predicted = momentum * (w[1:-1] - w[:-2]) - share * step * w[1:-1]
    # In units of w's own size: it decays.
    assert np.abs((w[2:] - w[1:-1] - predicted) / np.maximum.accumulate(np.abs(w[::-1]))[::-1][1:-1]).max() < 1e-13


# --- law 19: elastic averaging


def elastic_radius(workers: int, eta: float, alpha: float) -> float:
    """Of one round in which each worker takes its turn, on (center, workers)."""
    product = np.eye(workers + 1)
    for worker in range(1, workers + 1):
        turn = np.eye(workers + 1)
        turn[worker, worker] -= eta + alpha
        turn[worker, 0] += alpha
        turn[0, 0] -= alpha
        turn[0, worker] += alpha
        product = turn @ product
    return radius(product)


@pytest.mark.parametrize("eta", [0.1, 0.5, 1.0, 1.5, 1.9])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 8, 9])
def test_law_19_is_exact_for_odd_and_safe_for_even_numbers_of_workers(workers: int, eta: float) -> None:
    limit = stability.elastic_averaging_limit(eta)
    assert elastic_radius(workers, eta, 0.999 * limit) < 1
    found = limit_of(lambda alpha: elastic_radius(workers, eta, alpha), 4.0)
    if workers % 2:
        assert found == pytest.approx(limit, rel=1e-6)
    else:
        assert found > limit


# --- laws 1, 16, 20


def test_law_16_bound() -> None:
    assert laws.stale_synchronous_bound(8, 0) == 7
    assert laws.stale_synchronous_bound(1, 5) == 0


@given(st.lists(st.frozensets(st.integers(0, 12), max_size=4), min_size=2, max_size=12))
def test_law_20_counts_pairs_that_meet(examples: list[frozenset[int]]) -> None:
    n = len(examples)
    shares = [sum(bool(a & b) for j, b in enumerate(examples) if i != j) / (n - 1) for i, a in enumerate(examples)]
    assert laws.conflict_rate(examples) == pytest.approx(np.mean(shares))
    assert laws.conflict_rate(examples, largest=True) == pytest.approx(max(shares))
    matrix = np.array([[0.5 * (n in example) for n in range(13)] for example in examples])
    assert laws.conflict_rate(matrix) == pytest.approx(np.mean(shares))


# --- laws 12, 13 and 15: time


@pytest.mark.parametrize("n", [0, 1, 2, 8, 100])
def test_harmonic_numbers(n: int) -> None:
    assert laws.harmonic(n) == pytest.approx(sum(1 / i for i in range(1, n + 1)))


@pytest.mark.parametrize(("k", "figure"), [(1, 0.125), (2, 0.268), (4, 0.635), (8, 2.716)])
def test_law_12_waits_for_the_kth_of_p(k: int, figure: float) -> None:
    drawn = np.sort(np.random.default_rng(0).exponential(size=(200_000, 8)), axis=1)[:, k - 1].mean()
    for policy in ("k-sync", "k-async"):
        assert laws.time_per_update(policy, 8, k) == pytest.approx(drawn, rel=0.01)
        assert laws.time_per_update(policy, 8, k) == pytest.approx(figure, rel=0.03)
        assert laws.time_per_update(policy, 8, k, mean=3.0) == pytest.approx(3 * drawn, rel=0.01)
        assert laws.time_per_update(policy, 8, k, order_statistic=drawn) == drawn


@pytest.mark.parametrize(("k", "figure"), [(1, 0.124), (2, 0.248), (4, 0.504), (8, 1.0)])
def test_law_12_counts_k_of_a_stream(k: int, figure: float) -> None:
    finished = np.random.default_rng(1).exponential(size=(8, 100_000)).cumsum(axis=1)
    stream = np.sort(finished[finished < finished[:, -1].min()])
    for policy in ("k-batch-sync", "k-batch-async"):
        assert laws.time_per_update(policy, 8, k) == pytest.approx(k * stream[-1] / len(stream), rel=0.01)
        assert laws.time_per_update(policy, 8, k) == pytest.approx(figure, rel=0.03)


def test_law_12_the_plain_policies_are_its_corners() -> None:
    assert laws.time_per_update("synchronous", 8) == laws.time_per_update("k-sync", 8, 8)
    assert laws.time_per_update("asynchronous", 8) == laws.time_per_update("k-batch-async", 8, 1)
    assert laws.time_per_update("backup-workers", 8, 3) == laws.time_per_update("k-sync", 8, 5)


def test_law_13_figures() -> None:
    exponential = laws.time_to_target_ratio(8, laws.exponential_order_statistic(8, 8))
    assert exponential == pytest.approx(21.7, abs=0.05)
    shifted = laws.time_to_target_ratio(8, 1 + laws.exponential_order_statistic(8, 8, mean=0.2), mean=1.2)
    assert shifted == pytest.approx(10.3, abs=0.05)


def test_law_15_figure() -> None:
    ratio = laws.time_per_update("backup-workers", 100, 4) / laws.time_per_update("synchronous", 100)
    drawn = np.sort(np.random.default_rng(2).exponential(size=(20_000, 100)), axis=1).mean(axis=0)
    assert ratio == pytest.approx(0.598, abs=5e-4)
    assert ratio == pytest.approx(drawn[95] / drawn[99], rel=0.01)


# --- what is refused

WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: stability.stability_limit(-1), "delay must be a whole number from 0 to 1000000, got -1"),
    (lambda: stability.stability_limit_with_division(1.5), "delay must be a whole number from 0 .* got 1.5"),  # type: ignore[arg-type]
    (lambda: stability.mean_square_limit(0), "workers must be a whole number from 1 .* got 0"),
    (lambda: stability.expected_trajectory_limit(0), "workers must be .* got 0"),
    (lambda: stability.implicit_momentum(True), "workers must be .* got True"),
    (
        lambda: stability.elastic_averaging_limit(2.1),
        "eta, learning rate times curvature, must be from 0 to 2, got 2.1",
    ),
    (lambda: stability.elastic_averaging_limit(math.nan), "eta must be a finite number .* got nan"),
    (lambda: laws.stale_synchronous_bound(4, -1), "slack must be a whole number from 0 .* got -1"),
    (lambda: laws.conflict_rate([{1}]), "examples must be at least 2 sets"),
    (lambda: laws.conflict_rate([1, 2, 3]), "examples must be at least 2 sets"),
    (lambda: laws.conflict_rate([{1}, {"a"}]), "a parameter's number must be a whole number .* got 'a'"),  # type: ignore[list-item]
    (lambda: laws.harmonic(-1), "n must be a whole number from 0 .* got -1"),
    (lambda: laws.exponential_order_statistic(4, 5), "k must be a whole number from 1 to 4, got 5"),
    (lambda: laws.time_per_update("k-sync", 8, 9), "k must be a whole number from 1 to 8, got 9"),
    (lambda: laws.time_per_update("k-sync", 8), "k must be a whole number from 1 to 8, got None"),
    (lambda: laws.time_per_update("backup-workers", 8, 8), "k, the spare workers, must be .* from 0 to 7, got 8"),
    (lambda: laws.time_per_update("synchronous", 8, 8), "k must be None for synchronous, got 8"),
    (lambda: laws.time_per_update("ksync", 8, 8), "policy must be one of 'asynchronous', .* got 'ksync'"),
    (lambda: laws.time_per_update("k-batch-async", 8, 2, order_statistic=1.0), "order_statistic must be None"),
    (lambda: laws.time_per_update("k-sync", 8, 2, mean=math.inf), "mean must be a finite number above 0, got inf"),
    (lambda: laws.time_to_target_ratio(8, 0.5), "largest must be at least the mean 1.0, got 0.5"),
    (lambda: laws.time_to_target_ratio(8, math.inf), "largest must be a finite number above 0, got inf"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_bad_input_is_named_with_what_is_allowed(case: int) -> None:
    call, sentence = WRONG[case]
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
