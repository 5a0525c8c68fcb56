"""Error floors against the stationary covariance of the whole state, solved numerically."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from asyncsgd_edu.rules.error_floor import constant_delay_floor, memoryless_floor, synchronous_floor
from asyncsgd_edu.rules.stability import mean_square_limit, stability_limit


def delayed(delay: int, rate: float, noise: float, curvature: float) -> float:
    """The floor from the covariance of (w(t), ..., w(t - delay))."""
    step = np.eye(delay + 1, k=-1)
    step[0, 0] = 1.0
    step[0, delay] -= rate * curvature
    driven = np.zeros((delay + 1, delay + 1))
    driven[0, 0] = (rate * noise) ** 2
    return float(np.sqrt(solve_discrete_lyapunov(step, driven)[0, 0]))


def random_worker(workers: int, rate: float, noise: float, curvature: float) -> float:
    """The floor from the covariance of (w, x_1, ..., x_N), one worker in N at each update."""
    maps, size = [], workers + 1
    for worker in range(1, size):
        step = np.eye(size)
        step[0, worker] = -rate * curvature
        step[worker] = step[0]
        maps.append(np.kron(step, step))
    kicks = np.zeros((size, size))
    for worker in range(1, size):
        kick = np.zeros(size)
        kick[[0, worker]] = rate * noise
        kicks += np.outer(kick, kick) / workers
    covariance = np.linalg.solve(np.eye(size**2) - sum(maps) / workers, kicks.ravel())
    return float(np.sqrt(covariance[0]))


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.95])
@pytest.mark.parametrize("curvature", [1.0, 2.5])
def test_the_formulas_are_the_stationary_covariances(share: float, curvature: float) -> None:
    for delay in (0, 1, 2, 3, 7, 12):
        rate = share * stability_limit(delay) / curvature
        expected = delayed(delay, rate, 0.3, curvature)
        assert constant_delay_floor(delay, rate, 0.3, curvature) == pytest.approx(expected, rel=1e-6)
    for workers in (1, 2, 3, 5, 8):
        rate = share * mean_square_limit(workers) / curvature
        expected = random_worker(workers, rate, 0.3, curvature)
        assert memoryless_floor(workers, rate, 0.3, curvature) == pytest.approx(expected, rel=1e-6)
        rate = share * 2 / curvature
        expected = delayed(0, rate, 0.3 / math.sqrt(workers), curvature)
        assert synchronous_floor(workers, rate, 0.3, curvature) == pytest.approx(expected, rel=1e-6)


def test_one_worker_has_one_floor() -> None:
    for rate in (0.01, 0.5, 1.9):
        floor = synchronous_floor(1, rate, 0.2)
        assert constant_delay_floor(0, rate, 0.2) == pytest.approx(floor)
        assert memoryless_floor(1, rate, 0.2) == pytest.approx(floor)


def test_a_small_learning_rate_leaves_only_what_averaging_saves() -> None:
    alone = memoryless_floor(8, 1e-5, 1.0) / synchronous_floor(8, 1e-5, 1.0)
    assert alone == pytest.approx(math.sqrt(8), rel=1e-3)
    assert constant_delay_floor(7, 1e-5, 1.0) == pytest.approx(memoryless_floor(8, 1e-5, 1.0), rel=1e-3)


def test_without_noise_there_is_no_floor() -> None:
    assert synchronous_floor(8, 0.1, 0.0) == memoryless_floor(8, 0.1, 0.0) == constant_delay_floor(7, 0.1, 0.0) == 0


@pytest.mark.parametrize(
    ("floor", "number", "limit"),
    [(synchronous_floor, 8, 2.0), (constant_delay_floor, 7, 0.2091), (memoryless_floor, 8, 0.5664)],
)
def test_from_the_limit_on_there_is_none(floor: Callable[..., float], number: int, limit: float) -> None:
    assert floor(number, 0.999 * limit, 1.0) > 3 * floor(number, 0.9 * limit, 1.0)
    with pytest.raises(ValueError, match=f"learning_rate times curvature must be below {limit:.4g}.*, got"):
        floor(number, 1.001 * limit / 4, 1.0, curvature=4.0)


@pytest.mark.parametrize("floor", [synchronous_floor, constant_delay_floor, memoryless_floor])
def test_bad_arguments_are_told(floor: Callable[..., float]) -> None:
    with pytest.raises(ValueError, match="learning_rate must be a finite number above 0, got 0"):
        floor(1, 0, 1.0)
    with pytest.raises(ValueError, match="noise must be a finite number not below 0, got -1"):
        floor(1, 0.1, -1)
    with pytest.raises(ValueError, match="curvature must be a finite number above 0"):
        floor(1, 0.1, 1.0, curvature=math.inf)
    with pytest.raises(ValueError, match="must be a whole number from"):
        floor(-1, 0.1, 1.0)
