"""What can be done about a stale gradient before it is applied.

A remedy is a pure rule on arrays: what a gradient is made into, given how stale it is
and how far the parameters have moved since. It is written in operators that NumPy
arrays and TensorFlow tensors both have, so threads, replay and a reader with a pencil
use the same lines. Nothing here knows who trains what.

| remedy | what becomes of a gradient g of staleness tau | source |
|---|---|---|
| `DivideByStaleness()` | g / max(1, tau) | Zhang et al. 2015, arXiv 1511.05950 |
| `DropAbove(bound)` | dropped if tau > bound, else g | |
| `DelayCompensation(strength)` | g + strength g g (w - w_read) | Zheng et al. 2017, arXiv 1609.08326 |
| `DelayCompensation(exact=True)` | g + h (w - w_read), h the Hessian's diagonal | the same, before it is approximated |
| `GapAware()` | g / (1 + abs(w - w_read) / step) | Barkai et al. 2019, arXiv 1909.10802 |
"""

from abc import ABC
from dataclasses import asdict, dataclass
from typing import Any

from asyncsgd_edu.rules.arguments import positive_number, whole_number

DEFAULT_STRENGTH = 0.04


@dataclass(frozen=True)
class Late:
    """What is known of one parameter's gradient when its turn comes.

    `gradient` and `moved` (parameters now less those read) have the parameter's shape;
    `staleness` is a scalar of the gradient's type; `step` is the root mean square, over all
    parameters and the updates so far, of what one update changed (1 before there was one);
    `curvature` is the Hessian's diagonal. What a remedy does not need may be left out.
    """

    gradient: Any
    staleness: Any
    moved: Any = None
    step: Any = None
    curvature: Any = None


class Remedy(ABC):
    """A rule for stale gradients; `needs` says which fields of `Late` it looks at beside the first two."""

    name: str
    needs: frozenset[str] = frozenset()

    def keeps(self, staleness: Any) -> Any:
        """Whether a gradient of this staleness is used at all."""
        return staleness >= 0

    def amend(self, late: Late) -> Any:
        """What is applied in place of the gradient; same shape."""
        return late.gradient

    def describe(self) -> dict[str, Any]:
        """Name and constants, for a trace's header."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]

    def __str__(self) -> str:
        constants = {k: v for k, v in self.describe().items() if k != "name" and v is not None and v is not False}
        return self.name + (f" ({', '.join(f'{k} {v}' for k, v in constants.items())})" if constants else "")


@dataclass(frozen=True)
class DivideByStaleness(Remedy):
    """Learning rate / staleness: the later a gradient comes, the less it counts.

    >>> DivideByStaleness().amend(Late(gradient=6.0, staleness=3))
    2.0
    >>> DivideByStaleness().amend(Late(gradient=6.0, staleness=0))
    6.0
    """

    name = "divide-by-staleness"

    def amend(self, late: Late) -> Any:
        """The gradient over its staleness, or as it is if that is 0."""
        return late.gradient / _at_least_one(late.staleness)


@dataclass(frozen=True)
class DropAbove(Remedy):
    """Throw away a gradient that is more than `bound` updates old: its worker reads again.

    >>> DropAbove(2).keeps(2), DropAbove(2).keeps(3)
    (True, False)
    """

    bound: int
    name = "drop-above"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", whole_number("bound", self.bound, 0, 10**9))

    def keeps(self, staleness: Any) -> Any:
        """Whether the staleness is at most the bound."""
        return staleness <= self.bound


@dataclass(frozen=True)
class DelayCompensation(Remedy):
    """Guess what the gradient would be here, from what it was there and how far that is.

    The first term of a Taylor series: gradient + Hessian (w - w_read), the Hessian's diagonal
    guessed as `strength` g g, 0.04 by default and to be tuned. With `exact` it is the
    problem's own diagonal, where it has one: then the remedy is perfect on a quadratic.

    >>> DelayCompensation(0.5).amend(Late(gradient=2.0, staleness=1, moved=-0.25))
    1.5
    >>> DelayCompensation(exact=True).amend(Late(gradient=2.0, staleness=1, moved=-0.25, curvature=4.0))
    1.0
    """

    strength: float | None = None
    exact: bool = False
    name = "delay-compensation"

    def __post_init__(self) -> None:
        if not isinstance(self.exact, bool):
            raise TypeError(f"exact must be True or False, got {self.exact!r}")
        if self.strength is not None:
            if self.exact:
                raise ValueError(f"with exact=True strength does nothing: leave it out, got {self.strength}")
            object.__setattr__(self, "strength", positive_number("strength", self.strength, zero=True))

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        """How far the parameters moved, and the curvature if that is to be exact."""
        return frozenset({"moved", "curvature"} if self.exact else {"moved"})

    def amend(self, late: Late) -> Any:
        """The gradient as it is guessed to be at the parameters of now."""
        if self.exact:
            return late.gradient + late.curvature * late.moved
        strength = DEFAULT_STRENGTH if self.strength is None else self.strength
        return late.gradient + strength * late.gradient * late.gradient * late.moved


@dataclass(frozen=True)
class GapAware(Remedy):
    """Divide by the distance moved since the read, in steps: what counts is how far, not how often.

    Element by element. The distance is in units of the mean step so far, so one step away halves a gradient.

    >>> GapAware().amend(Late(gradient=6.0, staleness=9, moved=-0.5, step=0.25))
    2.0
    """

    name = "gap-aware"
    needs = frozenset({"moved", "step"})

    def amend(self, late: Late) -> Any:
        """The gradient over 1 + gap."""
        return late.gradient / (1 + abs(late.moved) / late.step)


def check_remedy(remedy: object) -> Remedy | None:
    """Raise TypeError unless `remedy` is None or a remedy."""
    if remedy is not None and not isinstance(remedy, Remedy):
        raise TypeError(f"remedy must be None or a remedy such as DivideByStaleness(), got {remedy!r}")
    return remedy


def _at_least_one(staleness: Any) -> Any:
    """The larger of a whole number and 1, in operators that arrays and tensors both have."""
    return (staleness + 1 + abs(staleness - 1)) / 2
