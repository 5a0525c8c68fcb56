"""How near the optimum a run stays that goes on for ever, when gradients are noisy.

Formulas for the quadratic 1/2 h w^2 whose gradients are h w plus independent noise of
standard deviation s: w settles around 0, and its floor is the root of the mean of w^2 once the
start is forgotten. Nothing here runs a recursion. With x = a h, learning rate times
curvature, each floor is finite where its learning rate is stable (`stability`), and only there.
"""

import math

from asyncsgd_edu.rules.arguments import positive_number, whole_number
from asyncsgd_edu.rules.stability import MOST, mean_square_limit, stability_limit


def synchronous_floor(workers: int, learning_rate: float, noise: float, curvature: float = 1.0) -> float:
    """Root mean square of w when each update averages one gradient of each of N workers.

    w' = (1 - x) w - a s z / sqrt(N), so E[w^2] = a^2 s^2 / (N x (2 - x)).

    >>> round(synchronous_floor(8, learning_rate=0.15, noise=0.1), 4)
    0.0101
    """
    workers = whole_number("workers", workers, 1, MOST)
    x, step = _checked(learning_rate, noise, curvature, stability_limit(0))
    return step / math.sqrt(workers * x * (2 - x))


def constant_delay_floor(delay: int, learning_rate: float, noise: float, curvature: float = 1.0) -> float:
    """Root mean square of w when every gradient is `delay` updates old.

    Let r(k) = E[w(t) w(t - k)]. The recursion w(t+1) = w(t) - x w(t - delay) - a s z gives
    r(k+1) - r(k) = -x r(delay - k) for k from 0 to delay, which r(k) = c cos(omega k + phi)
    solves with 2 sin(omega / 2) = x and phi = pi/4 - omega (2 delay + 1) / 4. Squaring the
    recursion gives 2 x r(delay) = x^2 r(0) + a^2 s^2, which fixes c:

        E[w^2] = a^2 s^2 tan(pi/4 + omega (2 delay + 1) / 4) / (2 sin(omega))

    It grows without bound where the tangent does, and that is at `stability_limit(delay)`.

    >>> round(constant_delay_floor(0, 0.15, 0.1), 4), round(constant_delay_floor(7, 0.15, 0.1), 4)
    (0.0285, 0.0577)
    """
    delay = whole_number("delay", delay, 0, MOST)
    x, step = _checked(learning_rate, noise, curvature, stability_limit(delay))
    omega = 2 * math.asin(x / 2)
    return step * math.sqrt(math.tan(math.pi / 4 + omega * (2 * delay + 1) / 4) / (2 * math.sin(omega)))


def memoryless_floor(workers: int, learning_rate: float, noise: float, curvature: float = 1.0) -> float:
    """Root mean square of w when N workers of memoryless durations never wait.

    Each update takes the gradient of a worker chosen at random, which then reads again. The
    second moments of `mean_square_limit` with the noise added are at rest where
    E[w x_i] = E[w^2] (1 + x) / (1 + N x), and so

        E[w^2] = a^2 s^2 (1 + N x) / (x (2 + x - N x^2))

    whose denominator vanishes at `mean_square_limit(N)`.

    >>> round(memoryless_floor(8, learning_rate=0.15, noise=0.1), 4)
    0.0409
    """
    workers = whole_number("workers", workers, 1, MOST)
    x, step = _checked(learning_rate, noise, curvature, mean_square_limit(workers))
    return step * math.sqrt((1 + workers * x) / (x * (2 + x - workers * x**2)))


def _checked(learning_rate: float, noise: float, curvature: float, limit: float) -> tuple[float, float]:
    """Learning rate times curvature, and times noise. Raises ValueError from the `limit` on."""
    rate = positive_number("learning_rate", learning_rate)
    x = rate * positive_number("curvature", curvature)
    if not x < limit:
        raise ValueError(f"learning_rate times curvature must be below {limit:.4g}, where w explodes, got {x:.4g}")
    return x, rate * positive_number("noise", noise, zero=True)
