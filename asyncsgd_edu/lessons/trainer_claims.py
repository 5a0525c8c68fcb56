"""Laws 2, 3 and 4 against the real trainers: threads, towers and TensorFlow's arithmetic.

Each function yields the claims of one law, and loads TensorFlow only when it is run.
Threads race, so no claim here is about how they raced: only about what must come out
however they did. Everything is done on processors, whose bits compare.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsgd_edu.lessons import assumptions
from asyncsgd_edu.lessons.claim import Claim
from asyncsgd_edu.rules.durations import Exponential
from asyncsgd_edu.rules.policies import Synchronous
from asyncsgd_edu.trace import Trace

if TYPE_CHECKING:
    from asyncsgd_edu.engines.trainer import Trainer

MOST_TOWERS = 4
ROUNDING = 1e-6  # A few roundings of float32, for parameters not above 1.
# Optimizers without state and with, by the names of `engines.optimizers`.
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"name": "SGD", "learning_rate": 0.05},
    "momentum": {"name": "SGD", "learning_rate": 0.02, "momentum": 0.9},
    "Adam": {"name": "Adam", "learning_rate": 0.005},
}


def law_2(seed: int) -> Iterator[Claim]:
    """Towers, and threads that all wait: nothing stale, and the mean of small batches is the joined batch."""
    from asyncsgd_edu.engines import devices, optimizers
    from asyncsgd_edu.engines.async_trainer import AsyncTrainer
    from asyncsgd_edu.engines.tower_trainer import TowerTrainer
    from asyncsgd_edu.problems.digits import Digits

    problem = Digits("mlp", batch_size=16)
    # More than any machine has of GPUs, so these are the processor's.
    places = devices.available(at_least=10_000)[:MOST_TOWERS]
    # With a learning rate of 1 the first update is the gradient itself.
    towers = TowerTrainer(problem, len(places), places, optimizers.make("SGD", 1.0), seed=seed)
    yield from _together(towers, f"TowerTrainer, {len(places)} tower{'s' * (len(places) > 1)}")
    rate = optimizers.make("SGD", 1.0)
    threads = AsyncTrainer(problem, 4, places[:1], rate, policy=Synchronous(), seed=seed)
    yield from _together(threads, "AsyncTrainer, 4 threads, synchronous")
    whole, values = problem.batch(0, 0, seed), problem.initial(seed)
    for sizes in ((4, 4, 4, 4), (10, 6)):
        ends = np.cumsum(sizes)
        parts = [tuple(part[end - size : end] for part in whole) for size, end in zip(sizes, ends, strict=True)]
        away = _mean_away(problem, values, parts, whole)
        outside = assumptions.uneven_batches(sizes)
        yield Claim(f"mean gradient of batches of {_listed(sizes)} - joined batch", 0, away, ROUNDING, outside=outside)


def _together(trainer: "Trainer", what: str) -> Iterator[Claim]:
    """The claims of law 2 on a trainer whose `workers` wait for each other, learning rate 1."""
    from asyncsgd_edu.engines import optimizers, plain

    seed, workers = trainer.header.seed, trainer.workers
    trainer.fit(updates=1)
    joined, _ = plain.train_plainly(trainer.problem, optimizers.make("SGD", 1.0), 1, seed, workers)
    away = _furthest(trainer.parameters, joined)
    yield Claim(f"first mean gradient - gradient of the joined batch, {what}", 0, away, ROUNDING)
    trace = trainer.fit(updates=49)
    yield Claim(f"largest staleness, {what}", 0, int(trace.staleness.max()))
    rounds = np.sort(trace.worker[trace.applied].reshape(-1, workers), axis=1)
    complete = int((rounds == np.arange(workers)).all(axis=1).sum())
    yield Claim(f"updates that average one gradient of each, {what}", 50, complete)


def _mean_away(problem: Any, values: Sequence[Any], parts: Sequence[Any], whole: Any) -> float:
    """How far the mean over `parts` of a batch's gradients is from the gradient of the `whole` batch, at most."""
    from asyncsgd_edu.engines import plain

    each = [plain.gradient(problem, values, part) for part in parts]
    means = [np.mean(same, axis=0) for same in zip(*each, strict=True)]
    return _furthest(means, plain.gradient(problem, values, whole))


def _furthest(one: Sequence[Any], other: Sequence[Any]) -> float:
    """The largest difference of two lists of arrays."""
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


def _listed(sizes: Sequence[int]) -> str:
    return f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"


def law_3(seed: int) -> Iterator[Claim]:
    """One worker, a thread or a tower, is plain SGD bit for bit."""
    from asyncsgd_edu.engines import optimizers, plain
    from asyncsgd_edu.engines.async_trainer import AsyncTrainer
    from asyncsgd_edu.engines.tower_trainer import TowerTrainer
    from asyncsgd_edu.problems.digits import Digits
    from asyncsgd_edu.problems.quadratic import Quadratic

    for problem, called in ((Quadratic(), "SGD"), (Digits("mlp"), "momentum")):
        settings, place, name = OPTIMIZERS[called], [plain.PLACE], f"{problem.name}, {called}"
        parameters, losses = plain.train_plainly(problem, optimizers.make(**settings), 50, seed)
        for access in ("consistent", "lock_free"):
            thread = AsyncTrainer(problem, 1, place, optimizers.make(**settings), access, seed=seed)
            yield _plain(thread.fit(updates=50), parameters, losses, f"one thread, {access}, {name}")
        tower = TowerTrainer(problem, 1, place, optimizers.make(**settings), seed=seed)
        yield _plain(tower.fit(updates=50), parameters, losses, f"one tower, {name}")


def _plain(trace: Trace, parameters: Sequence[Any], losses: Any, what: str) -> Claim:
    return Claim(f"values that differ from a plain loop, {what}", 0, differing(_values(trace), [losses, *parameters]))


def _values(trace: Trace) -> list[Any]:
    """What arithmetic there is in a trace: losses and final parameters."""
    return [trace.loss, *(trace.parameters or ())]


def law_4(seed: int) -> Iterator[Claim]:
    """A race of real threads, done again on one thread from its log, is the same to the last bit."""
    from asyncsgd_edu.engines import optimizers, plain
    from asyncsgd_edu.engines.async_trainer import AsyncTrainer
    from asyncsgd_edu.engines.replay import replay
    from asyncsgd_edu.problems.digits import Digits
    from asyncsgd_edu.problems.quadratic import Quadratic

    # As fast as they can, or with sleeps in which the others are sure to come first.
    bare, slept = None, Exponential(0.001)
    linear, mlp, stale = Digits("linear"), Digits("mlp"), []
    for problem, called, durations in (
        (Quadratic(), "SGD", bare),
        (Quadratic(), "Adam", slept),
        (linear, "SGD", slept),
        (linear, "momentum", bare),
        (mlp, "momentum", slept),
        (mlp, "Adam", bare),
    ):
        settings = OPTIMIZERS[called]
        optimizer = optimizers.make(**settings)
        run = AsyncTrainer(problem, 4, [plain.PLACE], optimizer, "consistent", durations=durations, seed=seed)
        trace = run.fit(updates=400)
        again = replay(trace, problem, optimizers.make(**settings))
        if durations is slept:
            stale.append(int((trace.staleness > 0).sum()))
        what = f"{problem.name}, {called}, 4 threads, {'1 ms' if durations else 'nothing'} injected"
        yield Claim(f"values that differ after replay, {what}", 0, differing(_values(trace), _values(again)))
    # Else there was no race to do again.
    yield Claim("stale gradients of 400 in each of these runs with 1 ms injected", 1, min(stale), relation=">=")


def differing(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Numbers that are not the same bits in two lists of arrays; a number without a partner counts.

    >>> differing([np.array([1.0, 2.0])], [np.array([1.0, 2.5, 3.0])])
    2
    """
    count = sum(np.size(array) for array in [*one[len(other) :], *other[len(one) :]])
    for a, b in zip(one, other, strict=False):
        # As whole numbers: 0 and -0 differ, and a NaN is like itself.
        left, right = (np.ravel(array).view(f"i{array.itemsize}") for array in (a, b))
        both = min(len(left), len(right))
        count += max(len(left), len(right)) - both + int((left[:both] != right[:both]).sum())
    return count


CLAIMS: dict[int, Callable[[int], Iterator[Claim]]] = {2: law_2, 3: law_3, 4: law_4}
