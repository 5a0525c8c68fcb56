"""How long the k-th fastest of n takes, on average.

The expected order statistics E[X_{k:n}] that the time laws of the policies are
written in; that of exponential durations is in `laws`. Plain functions of numbers;
SciPy is loaded only where an integral needs it.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from asyncsgd_edu.rules.arguments import whole_number

Floats = NDArray[np.float64]


def check_place(k: object, n: object) -> tuple[int, int]:
    """Return k and n as ints when k is a place among n: from 1, the fastest, to n, the slowest."""
    n = whole_number("n", n, 1, 10**6)
    return whole_number("k", k, 1, n), n


def pareto_place(k: int, n: int, shape: float) -> float:
    """E[X_{k:n}] of Pareto durations of least value 1; infinite unless n - k + 1 > 1 / shape.

    It is n! / (n-k)! times gamma(n-k+1 - 1/shape) / gamma(n+1 - 1/shape), from the beta
    function of the uniform order statistics.

    >>> round(pareto_place(1, 1, 3.0), 12)  # The mean, shape / (shape - 1).
    1.5
    """
    slower = n - k + 1 - 1 / shape
    if slower <= 0:
        return math.inf
    return math.exp(math.lgamma(n + 1) - math.lgamma(n - k + 1) + math.lgamma(slower) - math.lgamma(n + 1 - 1 / shape))


def gamma_place(k: int, n: int, shape: float) -> float:
    """E[X_{k:n}] of gamma durations of that shape and scale 1, by quadrature.

    >>> round(gamma_place(8, 8, 1.0), 3)
    2.718
    """
    from scipy import special  # type: ignore[import-untyped]  # Here: only these integrals need it.

    return _by_quantile(k, n, lambda u: special.gammaincinv(shape, u))


def lognormal_place(k: int, n: int, sigma: float) -> float:
    """E[X_{k:n}] of log-normal durations of median 1, by quadrature.

    >>> round(lognormal_place(1, 1, 0.5), 4)  # The mean, exp(sigma^2 / 2).
    1.1331
    """
    from scipy import special

    return _by_quantile(k, n, lambda u: math.exp(sigma * special.ndtri(u)))


def observed_place(k: int, n: int, observed: Floats) -> float:
    """E[X_{k:n}] of n draws, with replacement, from the observed values; exact.

    >>> observed_place(1, 2, np.array([1.0, 3.0]))
    1.5
    """
    from scipy import special

    share = np.arange(len(observed) + 1) / len(observed)
    return float(np.diff(special.betainc(k, n - k + 1, share)) @ np.sort(observed))


def _by_quantile(k: int, n: int, quantile: Callable[[float], float]) -> float:
    # X_{k:n} is the quantile of a Beta(k, n-k+1) number, the k-th smallest of n uniform ones.
    from scipy import integrate, special

    found, _ = integrate.quad(lambda p: quantile(special.betaincinv(k, n - k + 1, p)), 0, 1, limit=200)
    return float(found)
