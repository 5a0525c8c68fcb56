"""How large a learning rate may be when gradients are late.

Formulas for the quadratic 1/2 h w^2, whose gradient is h w: everything here is
a statement on the recursion w(t+1) = w(t) - a h w(t - staleness), and none of it
runs one. Limits are on a h, learning rate times curvature.
"""

import math

from asyncsgd_edu.rules.arguments import positive_number, whole_number

MOST = 10**6  # Workers, or updates of delay: beyond any machine, and far from where floats run out.


def stability_limit(delay: int) -> float:
    """Largest stable a h of gradient descent whose every gradient is `delay` updates old.

    w(t+1) = w(t) - a h w(t - delay) is stable iff 0 < a h < limit = 2 sin(pi / (2 (2 delay + 1))):
    there the roots of z^(delay + 1) - z^delay + a h reach the unit circle (Levin & May 1976).

    >>> [round(stability_limit(delay), 4) for delay in (0, 1, 2, 3, 7, 15)]
    [2.0, 1.0, 0.618, 0.445, 0.2091, 0.1013]
    """
    delay = whole_number("delay", delay, 0, MOST)
    return 2 * math.sin(math.pi / (2 * (2 * delay + 1)))


def stability_limit_with_division(delay: int) -> float:
    """Largest stable a h under a constant `delay` when each learning rate is divided by its staleness.

    The step is a / max(delay, 1), so the limit is that much larger: `delay` times
    `stability_limit(delay)`, which rises from 1 towards pi / 2. So a h <= 1 is
    stable at every constant delay above 1. A gradient that is not stale is not
    touched. (The remedy: Zhang et al. 2015, arXiv 1511.05950.)

    >>> [round(stability_limit_with_division(delay), 3) for delay in (0, 1, 2, 3, 4, 7, 1000)]
    [2.0, 1.0, 1.236, 1.335, 1.389, 1.463, 1.57]
    """
    return stability_limit(delay) * max(whole_number("delay", delay, 0, MOST), 1)


def mean_square_limit(workers: int) -> float:
    """Largest a h for which E[w^2] dies out when durations are memoryless.

    Each update takes the gradient of one of the N workers at random, w' = w - a h x_i,
    and that worker reads again, x_i' = w'. Four second moments follow each other
    linearly: E[w^2], E[w x_i], E[x_i^2], E[x_i x_j]. The operator that carries
    them preserves positive matrices, so it first loses stability where it has an
    eigenvalue of exactly 1, which gives

        E[w x] = (a h / 2) E[w^2],  E[x_i x_j] = E[w x] / (1 + a h),  N (a h)^2 - a h - 2 = 0

    and the limit (1 + sqrt(1 + 8 N)) / (2 N), about sqrt(2 / N) for many workers.
    Twice as many workers cost a factor sqrt(2); under a constant delay, a factor 2.

    >>> [round(mean_square_limit(workers), 3) for workers in (1, 2, 3, 4, 6, 8)]
    [2.0, 1.281, 1.0, 0.843, 0.667, 0.566]
    """
    workers = whole_number("workers", workers, 1, MOST)
    return (1 + math.sqrt(1 + 8 * workers)) / (2 * workers)


def expected_trajectory_limit(workers: int) -> float:
    """Largest a h for which E[w], the mean over many runs, dies out when durations are memoryless.

    E[w] is gradient descent with momentum (`implicit_momentum`), whose roots leave the
    unit circle at (a / N) h = 2 (1 + 1 - 1/N). That is far above `mean_square_limit`: single
    runs explode while their mean, positive and negative, still cancels.

    >>> [expected_trajectory_limit(workers) for workers in (1, 2, 8)]
    [2.0, 6.0, 30.0]
    """
    return 2.0 * (2 * whole_number("workers", workers, 1, MOST) - 1)


def implicit_momentum(workers: int) -> tuple[float, float]:
    """Momentum that nobody set, and the share of the learning rate that is left beside it.

    With memoryless durations, in expectation,
    E[w(t+1) - w(t)] = (1 - 1/N) E[w(t) - w(t-1)] - (a / N) E[gradient at w(t)]:
    momentum 1 - 1/N and effective learning rate a / N. Exact on a quadratic from
    the second update on (Mitliagkas et al. 2016, arXiv 1605.09774).

    Returns (momentum, effective learning rate / a).

    >>> implicit_momentum(8)
    (0.875, 0.125)
    """
    workers = whole_number("workers", workers, 1, MOST)
    return 1 - 1 / workers, 1 / workers


def elastic_averaging_limit(eta: float) -> float:
    """Largest stable elastic step alpha of round-robin elastic averaging, for learning rate times curvature `eta`.

    A worker in its turn does x' = x - eta x - alpha (x - center) and the center
    moves by alpha (x - center). Stable for 0 <= eta <= 2 and
    0 <= alpha <= (4 - 2 eta) / (4 - eta) (Zhang, Choromanska & LeCun 2015, arXiv
    1412.6651): exact for an odd number of workers, on the safe side for an even one.

    >>> [round(elastic_averaging_limit(eta), 3) for eta in (0, 1, 2)]
    [1.0, 0.667, 0.0]
    """
    eta = positive_number("eta", eta, zero=True)
    if eta > 2:
        raise ValueError(f"eta, learning rate times curvature, must be from 0 to 2, got {eta!r}")
    return (4 - 2 * eta) / (4 - eta)
