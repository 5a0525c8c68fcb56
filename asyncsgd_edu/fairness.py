"""What makes a comparison of runs unfair, in sentences, and how its quantities are put in words.

A quantity is something that each run has, chosen or come out; nothing here looks at a trace.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

# What says how a run was made or goes on beside it, and cannot be the cause of another result.
NO_CAUSE = ("trainer", "devices", "clock", "packages", "seed", "steps")
# These have no value where no arithmetic was done, which is not another value; they do not decide who applies when.
ARITHMETIC = ("problem", "optimizer", "learning rate", "batch size")
NAMING = ("name", "law")  # The key of a description that says what is described.


class Quantity(NamedTuple):
    """Something that each of the traces has, and whether it was chosen or came out."""

    name: str
    values: tuple[Any, ...]
    chosen: bool = True

    @property
    def same(self) -> bool:
        """Whether all have the same."""
        return all(value == self.values[0] or both_nan(value, self.values[0]) for value in self.values)


# --- what is unfair


def unfair(found: Mapping[str, Quantity], names: Sequence[str]) -> Iterator[str]:
    """Sentences about what a reader of the results must know first."""
    causes = [quantity.name for quantity in found.values() if _is_cause(quantity)]
    problem = [name for name in causes if _kind(name) == "problem"]
    if problem:
        parts = [f"{name.removeprefix('problem').lstrip()} {listed(found[name].values)}".lstrip() for name in problem]
        yield f"not the same problem ({', '.join(parts)}): the losses are of different things"
    yield from _unequal_data(found)
    if "learning rate" in causes and len(causes) > 1:
        rates = listed(found["learning rate"].values)
        yield f"the learning rate per update is not the same ({rates}): was it chosen in the same way for each?"
    if len(causes) > 1:
        yield f"{len(causes)} settings differ at once ({', '.join(causes)}): a result may come from any of them"
    if not found["seed"].same:
        yield f"other seeds ({listed(found['seed'].values)}): a part of each difference is chance"
    elif (
        causes and set(map(_kind, causes)) <= set(ARITHMETIC) and any("another" in s for s in found["schedule"].values)
    ):
        yield "the schedules differ by chance, not by what was chosen: replay one schedule with each setting"
    yield from raced(found)
    if not found["clock"].same:
        yield f"seconds are of different clocks ({listed(found['clock'].values)})"
    for name, how in zip(names, found["ended"].values, strict=True):
        if how != "finished":
            yield f"{name} is {how}, it has not come to the end" if how == "running" else f"{name} {how} before its end"


def raced(found: Mapping[str, Quantity]) -> Iterator[str]:
    """Why runs of one schedule ended elsewhere, where access was not consistent: a run and its replay, say."""
    free = {access for access in found["access"].values if access != "consistent"}
    apart = "final parameters" in found and not found["final parameters"].same
    if free and apart and found["schedule"].same and "replay" in found["trainer"].values:
        torn, lost = max(found["torn reads"].values), max(count or 0 for count in found["updates lost"].values)
        causes = [f"{torn} reads mixed versions"] if torn else []
        causes += [f"up to {lost} updates were lost"] if lost else []
        causes += ["additions came in another order"]
        yield f"access was {', '.join(sorted(free))}, which a replay does not do again: {', '.join(causes)}"


def _is_cause(quantity: Quantity) -> bool:
    """Whether results may differ because of it."""
    if quantity.name in ARITHMETIC:
        values = tuple(value for value in quantity.values if value is not None)
        quantity = quantity._replace(values=values or (None,))
    return quantity.chosen and not quantity.same and _kind(quantity.name) not in NO_CAUSE


def _kind(name: str) -> str:
    """The field that a quantity is of: "optimizer" for "optimizer momentum"."""
    return name if name in ARITHMETIC else name.split(" ")[0]


def _unequal_data(found: Mapping[str, Quantity]) -> Iterator[str]:
    """Whether one has seen more data than another."""
    updates = found["updates"]
    samples = found["samples"] if None not in found["samples"].values else found["gradients applied"]
    if samples.same:
        return
    seen = f"{listed(samples.values)} {samples.name.split(' ')[0]}"
    if not updates.same:
        yield f"neither updates ({listed(updates.values)}) nor {seen} are equal: a smaller loss may be a longer run"
        return
    rates, gradients = found["learning rate"].values, found["gradients applied"].values
    each = ""
    if updates.values[0] and not found["gradients applied"].same and all(isinstance(r, int | float) for r in rates):
        per_gradient = [rate * updates.values[0] / count for rate, count in zip(rates, gradients, strict=True)]
        each = f", the learning rate per gradient is {listed(per_gradient)}"
    yield f"at equal updates ({updates.values[0]}) they have seen {seen}{each}: look at the curves by samples too"


# --- words


def plain(name: str) -> str:
    """A field's name in words."""
    return name.replace("_", " ")


def title(part: Mapping[str, Any]) -> str | None:
    """What a description from a header is of, None if it does not say."""
    return next((str(part[key]) for key in NAMING if key in part), None)


def described(part: Mapping[str, Any]) -> str | None:
    """A description from a header in words, like "Straggler (base Constant (value 1.0), worker 0)"; None if empty."""
    rest = ", ".join(f"{plain(key)} {word(value)}" for key, value in part.items() if key not in NAMING)
    called = title(part)
    return (f"{called} ({rest})" if rest else called) if called else rest or None


def listed(values: Sequence[Any]) -> str:
    """A value for each run."""
    return " / ".join(map(word, values))


def word(value: Any) -> str:
    """A value in words; - for none."""
    if value is None or both_nan(value, value):
        return "-"
    if isinstance(value, Mapping):
        return described(value) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(word, value)) or "-"
    if isinstance(value, str):
        return value.removeprefix("/device:")
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def both_nan(one: Any, other: Any) -> bool:
    """Whether both are NaN, which is not equal to itself."""
    return isinstance(one, float) and isinstance(other, float) and one != one and other != other
