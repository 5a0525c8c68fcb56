"""Predictions and exercises: a learner's number beside the one that came out.

An answer of None is "not yet", so that a notebook with open exercises runs
through. Nothing here raises because an answer is wrong.
"""

import math
from dataclasses import dataclass

from asyncsgd_edu.rules.arguments import positive_number


@dataclass(frozen=True)
class Verdict:
    """What is said to an answer; `right` is None where there was none."""

    right: bool | None
    text: str

    def __repr__(self) -> str:
        return self.text


def compare(guess: float | None, measured: float, what: str) -> Verdict:
    """Set a prediction beside what a run measured, without calling it wrong.

    >>> compare(3, 6.8, "mean staleness")
    mean staleness: you said 3, the run gave 6.8
    >>> compare(None, 6.8, "mean staleness")
    mean staleness: no prediction; the run gave 6.8
    """
    shown = _short(measured)
    if guess is None:
        return Verdict(None, f"{what}: no prediction; the run gave {shown}")
    return Verdict(None, f"{what}: you said {_short(_number(guess))}, the run gave {shown}")


def check(answer: float | None, expected: float, hint: str, tolerance: float = 0.05) -> Verdict:
    """Say whether an exercise's answer is right, to a relative `tolerance` (absolute near 0).

    >>> check(7, 7.0, hint="count the other workers")
    right: 7
    >>> check(8, 7.0, hint="count the other workers")
    not yet: 8 is too large. Hint: count the other workers
    >>> check(None, 7.0, hint="count the other workers")
    not answered yet. Hint: count the other workers
    """
    tolerance = positive_number("tolerance", tolerance, zero=True)
    if answer is None:
        return Verdict(None, f"not answered yet. Hint: {hint}")
    number = _number(answer)
    if math.isclose(number, expected, rel_tol=tolerance, abs_tol=tolerance):
        return Verdict(True, f"right: {_short(number)}")
    way = "large" if number > expected else "small"
    return Verdict(False, f"not yet: {_short(number)} is too {way}. Hint: {hint}")


def _number(answer: object) -> float:
    if isinstance(answer, bool) or not isinstance(answer, int | float) or not math.isfinite(answer):
        raise TypeError(f"an answer is a number, or None for not yet, got {answer!r}")
    return float(answer)


def _short(number: float) -> str:
    return f"{number:.3g}"
