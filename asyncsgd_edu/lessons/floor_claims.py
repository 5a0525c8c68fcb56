"""Law 13's other half: how near the optimum each way of training stays when gradients are noisy.

Nothing is predicted here (that is in `rules.error_floor`) and nothing is judged here
(that is in `claim`).
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from asyncsgd_edu.engines.recursion import trajectory
from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.lessons import assumptions
from asyncsgd_edu.lessons.claim import Claim, within
from asyncsgd_edu.lessons.stability_claims import fresh_runs
from asyncsgd_edu.rules import error_floor
from asyncsgd_edu.rules.durations import Constant, Exponential
from asyncsgd_edu.rules.policies import Asynchronous, Synchronous

RATE, NOISE = 0.15, 0.1  # Below every limit, and so large that staleness doubles the mean square.
RUNS, UPDATES = 1000, 600  # The second half of the updates is looked at: by then the start is forgotten.


def law_13(seed: int) -> Iterator[Claim]:
    """Asynchronous keeps the higher floor, unless synchronous takes N times the learning rate."""
    everyone = simulate(8, Synchronous(), Exponential(1.0), UPDATES, seed)
    for scale in (1, 8):
        rate = scale * RATE
        predicted = error_floor.synchronous_floor(8, rate, NOISE)
        measured = floor(everyone.read_version, everyone.apply_version, rate, seed)
        yield _claim(f"synchronous, learning rate {rate:g}", predicted, measured)
    read, trace = fresh_runs(8, Exponential(1.0), RUNS, UPDATES, seed)
    predicted = error_floor.memoryless_floor(8, RATE, NOISE)
    measured = floor(read, np.arange(UPDATES), RATE, seed)
    outside = assumptions.with_memory(trace)
    yield _claim(f"asynchronous, learning rate {RATE:g}, memoryless durations", predicted, measured, outside)
    alike = simulate(8, Asynchronous(), Constant(1.0), UPDATES, seed)
    predicted = error_floor.constant_delay_floor(7, RATE, NOISE)
    measured = floor(alike.read_version, alike.apply_version, RATE, seed)
    outside = assumptions.varying_delay(alike)
    yield _claim(f"asynchronous, learning rate {RATE:g}, constant durations", predicted, measured, outside)


def floor(read_version: ArrayLike, apply_version: ArrayLike, rate: float, seed: int) -> float:
    """Root mean square of w over many runs of a schedule (or of one each) and their later half, curvature 1."""
    w = trajectory(read_version, apply_version, np.full(RUNS, rate), noise=NOISE, seed=seed).w
    return float(np.sqrt((w[:, w.shape[1] // 2 :] ** 2).mean()))


def _claim(what: str, predicted: float, measured: float, outside: str = "") -> Claim:
    what = f"error floor (root mean square), 8 workers, {what}, noise {NOISE:g}"
    return Claim(what, predicted, measured, within(0.05, predicted), outside=outside)


CLAIMS: dict[int, Callable[[int], Iterator[Claim]]] = {13: law_13}
