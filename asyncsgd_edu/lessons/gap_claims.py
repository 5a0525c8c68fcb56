"""Law 18 on replayed runs: how far the parameters moved says more about harm than how often.

Harm is the gradient error: how far a stale gradient is from the one that the same batch
gives at the parameters it is applied to.
"""

from collections.abc import Callable, Iterator

from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.lessons.claim import Claim
from asyncsgd_edu.rules.durations import Exponential
from asyncsgd_edu.rules.policies import Asynchronous


def law_18(seed: int) -> Iterator[Claim]:
    """The gap predicts the error of a gradient better than its staleness does."""
    from scipy.stats import spearmanr  # type: ignore[import-untyped]  # Here: nothing else needs it.

    from asyncsgd_edu.engines.replay import replay
    from asyncsgd_edu.problems.digits import Digits
    from asyncsgd_edu.problems.quadratic import Quadratic

    schedule = simulate(8, Asynchronous(), Exponential(1.0), 2000, seed)
    for problem in (Quadratic(), Digits("linear"), Digits("mlp")):
        run = replay(schedule, problem, learning_rate=0.05, measure_gap=True)
        gap, error = run.measured["gap"], run.measured["gradient_error"]
        by_gap, by_count = float(spearmanr(gap, error)[0]), float(spearmanr(run.staleness, error)[0])
        if problem.name == "quadratic":
            what = "rank correlation of gap and gradient error, quadratic of one curvature"
            yield Claim(what, 1.0, by_gap, 0.001)
        what = f"rank correlation with the gradient error: gap against staleness, {problem.name}"
        yield Claim(what, by_count, by_gap, relation=">=")


CLAIMS: dict[int, Callable[[int], Iterator[Claim]]] = {18: law_18}
