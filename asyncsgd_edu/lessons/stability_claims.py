"""Laws 8 to 11, 17 and 19 against simulated schedules on a quadratic: how far the learning rate goes.

Each function yields the claims of one law. Nothing is predicted here (that is in
`rules.stability`) and nothing is judged here (that is in `claim`).
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from asyncsgd_edu.engines.recursion import trajectory, windows
from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.lessons import assumptions
from asyncsgd_edu.lessons.claim import Claim, another, named, within
from asyncsgd_edu.rules import stability
from asyncsgd_edu.rules.durations import Constant, Duration, Exponential, Uniform
from asyncsgd_edu.rules.policies import Asynchronous
from asyncsgd_edu.trace import Trace

CHUNK = 500_000  # Updates simulated at a time, for their trace to stay small.


def largest_stable(trace: Trace, remedy: str | None = None) -> float:
    """The learning rate from which on this schedule's |w| grows, curvature 1; to about 0.1 %."""
    low, high = 0.005, 4.0
    for _ in range(3):
        rates = np.geomspace(low, high, 100)
        runs = trajectory(trace.read_version, trace.apply_version, rates, remedy=remedy)
        first = int(np.argmax(runs.growth > 1)) if (runs.growth > 1).any() else len(rates) - 1
        low, high = rates[max(first - 1, 0)], rates[first]
    return float(np.sqrt(low * high))


def law_8(seed: int) -> Iterator[Claim]:
    """The limit of a constant delay, and how it does not speak of memoryless workers."""
    for workers in (1, 2, 3, 4, 8, 16):
        trace = simulate(workers, Asynchronous(), Constant(1.0), 6000, seed)
        yield _limit_8(f"N = {workers}, constant durations", trace)
    trace = simulate(8, Asynchronous(), Uniform(0.99, 1.01), 6000, seed)
    outside = assumptions.varying_delay(trace)
    for rate, relation in ((0.20, "<="), (0.23, ">=")):
        runs = trajectory(trace.read_version, trace.apply_version, rate)
        way = "dies out (growth below 1)" if relation == "<=" else "explodes (growth above 1)"
        what = f"N = 8, nearly constant durations, learning rate {rate}: {way}"
        yield Claim(what, 1.0, float(runs.growth), relation=relation, outside=outside)
    yield _limit_8("N = 8, memoryless durations", simulate(8, Asynchronous(), Exponential(1.0), 6000, seed))


def _limit_8(what: str, trace: Trace) -> Claim:
    predicted = stability.stability_limit(trace.header.workers - 1)
    tolerance = within(0.01, predicted)
    outside = assumptions.varying_delay(trace)
    return Claim(f"limit of learning rate, {what}", predicted, largest_stable(trace), tolerance, outside=outside)


def fresh_runs(workers: int, durations: Duration, runs: int, length: int, seed: int) -> tuple[NDArray[np.int64], Trace]:
    """Versions read in `runs` runs of `length` updates, shape [runs, length], and one trace they were cut from."""
    each = CHUNK // length
    found = []
    for part in range(-(-runs // each)):
        trace = simulate(workers, Asynchronous(), durations, each * length, another(seed, part))
        found.append(windows(trace.read_version, length))
    return np.concatenate(found)[:runs], trace


def law_9(seed: int) -> Iterator[Claim]:
    """The limit in mean square of memoryless workers, which a constant delay of the same mean does not have."""
    for workers in (1, 2, 3, 4, 6, 8):
        length = 8 * workers + 8
        read, trace = fresh_runs(workers, Exponential(1.0), 40_000, length, seed)
        outside = assumptions.with_memory(trace)
        yield _limit_9(f"N = {workers}, memoryless durations", workers, _mean_square_limit(read), outside)
    constant = simulate(8, Asynchronous(), Constant(1.0), 6000, seed)
    outside = assumptions.with_memory(constant)
    yield _limit_9("N = 8, constant durations", 8, largest_stable(constant), outside)


def _limit_9(what: str, workers: int, measured: float, outside: str) -> Claim:
    predicted = stability.mean_square_limit(workers)
    tolerance = within(0.03, predicted)
    return Claim(f"limit of learning rate in mean square, {what}", predicted, measured, tolerance, outside=outside)


def _mean_square_limit(read: NDArray[np.int64]) -> float:
    """Where the mean square over runs, in the last quarter of the updates, reaches that of the quarter before it."""
    length = read.shape[1]
    quarter = length // 4
    low, high = 0.0, 4.0
    for _ in range(11):
        rate = (low + high) / 2
        square = (trajectory(read, np.arange(length), rate).w ** 2).mean(axis=0)
        # Written so that what diverged, and is not a number, grows.
        grows = not square[-quarter:].sum() <= square[-2 * quarter : -quarter].sum()
        low, high = (low, rate) if grows else (rate, high)
    return (low + high) / 2


def law_10(seed: int) -> Iterator[Claim]:
    """Learning rate / staleness makes one learning rate stable at every constant delay."""
    for workers in (2, 4, 8, 16):
        trace = simulate(workers, Asynchronous(), Constant(1.0), 6000, seed)
        predicted = stability.stability_limit_with_division(workers - 1)
        measured = largest_stable(trace, remedy="divide")
        what = f"limit of learning rate / staleness, N = {workers}, constant durations"
        yield Claim(what, predicted, measured, within(0.01, predicted), outside=assumptions.varying_delay(trace))
    trace = simulate(8, Asynchronous(), Constant(1.0), 6000, seed)
    for rate, remedy, relation in (
        (0.23, None, ">="),
        (0.5, "divide", "<="),
        (1.0, "divide", "<="),
        (1.4, "divide", "<="),
    ):
        growth = float(trajectory(trace.read_version, trace.apply_version, rate, remedy=remedy).growth)
        what = f"growth at learning rate {rate}{' / staleness' if remedy else ''}, 8 workers, constant durations"
        yield Claim(what, 1.0, growth, relation=relation, outside=assumptions.varying_delay(trace))


def law_11(seed: int) -> Iterator[Claim]:
    """Momentum that nobody set, in the mean over runs of memoryless workers, not of constant ones."""
    momentum, share = stability.implicit_momentum(8)
    for durations in (Exponential(1.0), Constant(1.0)):
        read, trace = fresh_runs(8, durations, 100_000, 40, seed)
        outside = assumptions.with_memory(trace)
        fitted = fit_momentum(read, 0.2)
        what = f"N = 8, {named(durations)}, fitted to 100,000 runs"
        yield Claim(f"momentum, {what}", momentum, fitted[0], within(0.01, momentum), outside=outside)
        yield Claim(f"learning rate's share, {what}", share, fitted[1], within(0.03, share), outside=outside)


def fit_momentum(read: NDArray[np.int64], rate: float) -> tuple[float, float]:
    """Momentum and share of the learning rate that fit the mean of runs best, by least squares."""
    mean = trajectory(read, np.arange(read.shape[1]), rate).w.mean(axis=0)
    moved, gradient = np.diff(mean), mean[1:-1]
    (momentum, share), *_ = np.linalg.lstsq(np.stack([moved[:-1], -rate * gradient], axis=1), moved[1:])
    return float(momentum), float(share)


def law_17(seed: int) -> Iterator[Claim]:
    """Delay compensation with the true curvature undoes staleness on a quadratic."""
    trace = simulate(8, Asynchronous(), Exponential(1.0), 1000, seed)
    plain = trajectory(np.arange(1000), np.arange(1000), 0.3).w
    w = trajectory(trace.read_version, trace.apply_version, 0.3, remedy="compensate").w
    yield Claim("largest distance from plain descent, compensated", 0, float(np.abs(w - plain).max()), 1e-12)


def law_19(seed: int) -> Iterator[Claim]:
    """Elastic averaging in turns: exact for odd numbers of workers, on the safe side for even ones."""
    for workers, relation in ((3, "="), (5, "="), (4, ">=")):
        for eta in (0.5, 1.5):
            predicted = stability.elastic_averaging_limit(eta)
            measured = _elastic_limit(workers, eta, seed)
            what = f"limit of the elastic step, {workers} workers in turns, eta {eta}"
            yield Claim(what, predicted, measured, within(0.01, predicted), relation)


def _elastic_limit(workers: int, eta: float, seed: int) -> float:
    """The elastic step from which on workers and center, from random places, move apart."""
    alphas = np.linspace(0.01, 2.0, 2000)
    x = np.random.default_rng((seed, 19)).normal(size=(workers, 1)) * np.ones_like(alphas)
    center, sizes = np.zeros_like(alphas), []
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(1200):
            for worker in range(workers):
                pull = alphas * (x[worker] - center)
                x[worker] = x[worker] - eta * x[worker] - pull
                center = center + pull
            sizes.append(np.abs(x).max(axis=0) + np.abs(center))
        size = np.array(sizes)
        grows = ~(size[900:].max(axis=0) < size[300:600].max(axis=0))
    return float(alphas[np.argmax(grows)])


CLAIMS: dict[int, Callable[[int], Iterator[Claim]]] = {
    8: law_8,
    9: law_9,
    10: law_10,
    11: law_11,
    17: law_17,
    19: law_19,
}
