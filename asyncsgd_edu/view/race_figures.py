"""A picture of races: how fast the ways to update a variable are, and what each of them loses.

Every count comes with what it leaves open. Nothing here races or counts.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from asyncsgd_edu.rules.intervals import CONFIDENCE, Count
from asyncsgd_edu.view import panels, titles

if TYPE_CHECKING:
    from asyncsgd_edu.engines.races import Race

RUNG = 25  # Pixels.
HEAD, FOOT, BETWEEN = 150, 62, 96  # Pixels above, below and between ladders.
ROOM = 1.5  # Times the fastest, so that its number has a place beside its bar.


class Damage(NamedTuple):
    """A kind of damage: what a race calls it, its words, its mark, and where on a rung that stands."""

    field: str
    words: str
    colour: str
    symbol: str
    place: float


KINDS = (
    Damage("lost", "lost updates", panels.VERMILLION, "x", -0.25),
    Damage("torn", "torn reads", panels.BLUE, "square", 0.0),
    Damage("mixed", "mixed versions", panels.GREEN, "circle", 0.25),
    Damage("duplicates", "duplicate tickets", panels.PURPLE, "diamond", 0.25),
)
WORST = Damage("worst", "worst element (no interval)", panels.ORANGE, "star", -0.25)
NOTES = (
    "Each step reads two variables and adds exactly 1 to every element of both, or counts by 1. Equal in a ladder: "
    "threads, elements, the work of a step.",
    f"Lines: {CONFIDENCE:.0%} intervals (Clopper and Pearson), which take trials for independent: rather too narrow. "
    "Open triangles: none seen, at most so many.",
    "Down from the least damage to the worst, then from slow to fast. Speeds are those of one machine at one hour: "
    "compare them within a ladder.",
)


def race_ladder(races: "Sequence[Race]") -> go.Figure:
    """From the safest way to update to the fastest: updates a second, and the damage with what chance leaves open.

    What `races()` returns: a ladder for each number of threads and elements, a rung for each way. Left
    its speed, right the shares of updates that were lost, of reads that were torn or mixed versions and of tickets
    drawn twice, on a logarithmic axis with their 95 % intervals. What was never seen is an open triangle at
    the highest share that this leaves possible, not a zero. A star is the share of steps missing in the element
    that lost most, where no whole update was lost; as the worst of many it has no interval.

    Raises TypeError for anything but races, and ValueError for none.
    """
    from asyncsgd_edu.engines.races import Race, ladder  # Here: other figures load no TensorFlow.

    found = list(races)
    for race in found:
        if not isinstance(race, Race):
            raise TypeError(f"a ladder is drawn from what races() returns, got {race!r}")
    if not found:
        raise ValueError("a ladder needs at least one race, got none")
    sizes = list(dict.fromkeys((race.threads, race.elements) for race in found))
    ladders = [ladder([race for race in found if (race.threads, race.elements) == size]) for size in sizes]
    height = HEAD + FOOT + BETWEEN * (len(ladders) - 1) + RUNG * sum(map(len, ladders))
    figure = go.Figure()
    titles.title(figure, "What an update costs, and what it loses", [], *NOTES)
    least = _decade(found)
    tops = np.cumsum([0, *(RUNG * len(rungs) + BETWEEN for rungs in ladders)])
    inside = height - HEAD - FOOT
    for number, (rungs, top) in enumerate(zip(ladders, tops, strict=False)):
        domain = [max(0.0, 1 - (top + RUNG * len(rungs)) / inside), 1 - top / inside]
        _add_ladder(figure, rungs, number, domain, least)
    figure.update_layout(
        height=height, bargap=0.25, margin={"l": 350, "r": 112, "t": HEAD, "b": FOOT},
        title={"y": 1 - 14 / height}, legend=_above(height),
    )  # fmt: skip
    return figure


def _decade(races: "Sequence[Race]") -> int:
    """The power of ten that the axis of shares begins at: below every mark."""
    counts = [getattr(race, kind.field) for race in races for kind in KINDS]
    marks = [c.share if c.count else c.interval[1] for c in counts if c is not None and c.trials]
    return int(np.floor(np.log10(min(marks, default=0.1)))) - 1


def _above(height: int) -> dict[str, Any]:
    """A legend between title and ladders, to the right of what a ladder is called."""
    return {
        "orientation": "h", "x": 0, "xanchor": "left", "yref": "container",
        "y": 1 - 96 / height, "yanchor": "top", "itemsizing": "constant",
    }  # fmt: skip


def _add_ladder(figure: go.Figure, rungs: "Sequence[Race]", number: int, domain: Sequence[float], least: int) -> None:
    """Add a ladder, in its own two panels between the heights of `domain`."""
    speed, share = (str(2 * number + k) for k in (1, 2))
    where = {"yaxis": f"y{speed}"}
    speeds = np.array([race.updates_per_second for race in rungs])
    figure.add_bar(
        x=speeds, y=np.arange(len(rungs)), orientation="h", marker={"color": panels.SKY}, showlegend=False,
        text=[f"{value:,.0f}" for value in speeds], textposition="outside", cliponaxis=False, name="updates a second",
        hovertemplate="%{x:,.0f} updates a second<extra></extra>", xaxis=f"x{speed}", **where,
    )  # fmt: skip
    for kind in KINDS:
        _add_counts(figure, rungs, kind, 10.0**least, {**where, "xaxis": f"x{share}"})
    _add_worst(figure, rungs, {**where, "xaxis": f"x{share}"})
    _add_bands(figure, rungs, f"y{speed}")
    race, last = rungs[0], len(rungs) - 0.5
    of = "one number" if race.elements == 1 else f"{race.elements:,} elements a variable"
    figure.add_annotation(
        text=f"<b>{race.threads} threads, {of}</b>", x=0, xref="paper", y=domain[1], yref="paper", yanchor="bottom",
        xanchor="right", showarrow=False, yshift=2, xshift=-6,
    )  # fmt: skip
    figure.update_layout({
        f"xaxis{speed}": {"domain": [0, 0.27], "anchor": f"y{speed}", "range": [0, ROOM * float(speeds.max())],
                          "title": {"text": "updates a second", "standoff": 6}, "nticks": 3, "zeroline": False},
        f"xaxis{share}": {"domain": [0.3, 1], "anchor": f"y{speed}", "type": "log", "range": [least, 0.08],
                          "tickvals": [10.0**k for k in range(least, 1)],
                          "ticktext": ["", *(f"{100 * 10.0**k:g}" for k in range(least + 1, 1))], "tickangle": 0,
                          "title": {"text": "% of updates, reads or tickets", "standoff": 6}},
        f"yaxis{speed}": {"domain": domain, "anchor": f"x{speed}", "range": [last, -0.5], "showgrid": False,
                          "tickvals": list(range(len(rungs))), "ticktext": [race.title for race in rungs],
                          "zeroline": False, "tickfont": {"size": 12}},
    })  # fmt: skip


def _add_counts(figure: go.Figure, rungs: "Sequence[Race]", kind: Damage, least: float, where: dict[str, str]) -> None:
    """Marks with intervals where the damage was seen; an open triangle at the upper end where it was not."""
    counts = [(place, getattr(race, kind.field)) for place, race in enumerate(rungs)]
    for seen in (True, False):
        some = [(place + kind.place, c) for place, c in counts if c is not None and c.trials and (c.count > 0) == seen]
        if not some:
            continue
        ends = np.array([count.interval for _, count in some])
        middle = np.array([count.share for _, count in some]) if seen else ends[:, 1]
        low = np.maximum(ends[:, 0], least) if seen else np.full(len(some), least)
        look = {"color": kind.colour, "symbol": kind.symbol if seen else "triangle-left-open", "size": 8}
        line = {"symmetric": False, "color": kind.colour, "thickness": 1.6 if seen else 0.6, "width": 3 if seen else 0}
        figure.add_scatter(
            x=middle, y=[place for place, _ in some], mode="markers", marker=look, **where,
            error_x={"type": "data", "array": ends[:, 1] - middle, "arrayminus": middle - low, **line},
            name=kind.words, legendgroup=kind.field, showlegend=_new(figure, kind.field),
            text=[f"{kind.words}: {_chance(count)}" for _, count in some], hoverinfo="text",
        )  # fmt: skip


def _add_worst(figure: go.Figure, rungs: "Sequence[Race]", where: dict[str, str]) -> None:
    """Stars where elements lost what no whole update did."""
    some = [(n + WORST.place, race) for n, race in enumerate(rungs) if race.worst and not race.lost.count]
    edge = {"color": panels.BLACK, "width": 0.8}
    if some:
        figure.add_scatter(
            x=[race.worst / race.steps for _, race in some], y=[place for place, _ in some], mode="markers",
            marker={"color": WORST.colour, "symbol": WORST.symbol, "size": 11, "line": edge},
            text=[f"worst element: {race.worst:,} of {race.steps:,} steps are missing" for _, race in some],
            name=WORST.words, legendgroup=WORST.field, hoverinfo="text", showlegend=_new(figure, WORST.field), **where,
        )  # fmt: skip


def _new(figure: go.Figure, group: str) -> bool:
    return all(trace.legendgroup != group for trace in figure.data)


def _chance(count: Count) -> str:
    from asyncsgd_edu.engines.race_table import chance

    return chance(count)


def _add_bands(figure: go.Figure, rungs: "Sequence[Race]", y: str) -> None:
    """The worst damage seen, beside the rungs that have it; every second such group is shaded."""
    first = 0
    for number, (damage, group) in enumerate(groupby(rungs, key=lambda race: race.damage)):
        last = first + len(list(group))
        figure.add_annotation(
            text=f"<b>{damage}</b>", x=1, xref="paper", xanchor="left", xshift=6, y=(first + last - 1) / 2, yref=y,
            showarrow=False, font={"size": 12},
        )  # fmt: skip
        if number % 2 == 0:
            figure.add_shape(
                type="rect", xref="paper", x0=0, x1=1, yref=y, y0=first - 0.5, y1=last - 0.5, layer="below",
                fillcolor="#eef1f3", line={"width": 0},
            )  # fmt: skip
        first = last
