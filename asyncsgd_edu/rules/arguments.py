"""What an argument may be, said in one sentence when it is not.

Every check names the argument, what is allowed and what was given, and runs
before anything has been started or changed.
"""

import math
import numbers
from collections.abc import Iterable

MAX_WORKERS = 256
MAX_UPDATES = 10**9
MAX_SEED = 2**31 - 1


def whole_number(name: str, value: object, low: int, high: int) -> int:
    """Return `value` as an int when it is a whole number from `low` to `high`.

    Raises TypeError for anything that is not a whole number (2.5, "4", True) and
    ValueError for one that is out of range.

    >>> whole_number("workers", 4, 1, 256)
    4
    >>> whole_number("workers", 0, 1, 256)
    Traceback (most recent call last):
    ValueError: workers must be a whole number from 1 to 256, got 0
    """
    sentence = f"{name} must be a whole number from {low} to {high}, got {value!r}"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(sentence)
    number = int(value)
    if not low <= number <= high:
        raise ValueError(sentence)
    return number


def positive_number(name: str, value: object, *, zero: bool = False) -> float:
    """Return `value` as a float when it is finite and above 0 (or, with `zero`, not below it).

    >>> positive_number("learning_rate", 0.05)
    0.05
    >>> positive_number("learning_rate", float("nan"))
    Traceback (most recent call last):
    ValueError: learning_rate must be a finite number above 0, got nan
    """
    allowed = "not below 0" if zero else "above 0"
    sentence = f"{name} must be a finite number {allowed}, got {value!r}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(sentence)
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(sentence) from None
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise ValueError(sentence)
    return number


def one_of(name: str, value: object, allowed: Iterable[str]) -> str:
    """Return `value` when it is one of the `allowed` words.

    >>> one_of("access", "locked", ["consistent", "lock_free"])
    Traceback (most recent call last):
    ValueError: access must be one of 'consistent', 'lock_free', got 'locked'
    """
    words = list(allowed)
    if not isinstance(value, str) or value not in words:
        listed = ", ".join(map(repr, words))
        kind = ValueError if isinstance(value, str) else TypeError
        raise kind(f"{name} must be one of {listed}, got {value!r}")
    return value
