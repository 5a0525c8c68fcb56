"""The ladder of races, looked at as data; the races are made up, since none of a real one is sure."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from test_figures import said

from asyncsgd_edu.engines.races import Race, races
from asyncsgd_edu.rules.intervals import Count, binomial_interval
from asyncsgd_edu.view import figures

pytestmark = pytest.mark.usefixtures("eight_devices")

CLEAN = Race(
    way="clean", title="v.assign_sub(g)", threads=4, elements=1000, steps=1000, updates=2000, seconds=2.0,
    lost=Count(0, 2000), parts=Count(0, 2_000_000), worst=0, torn=Count(0, 2000), mixed=Count(0, 1000),
)  # fmt: skip
MIXED = replace(CLEAN, way="mixed", title="mixed", seconds=1.0, mixed=Count(30, 1000))
TORN = replace(MIXED, way="torn", title="torn", torn=Count(900, 2000), parts=Count(7, 2_000_000), worst=4)
LOST = replace(CLEAN, way="lost", title="v.assign(v - g)", lost=Count(500, 2000), worst=250, mixed=None)
TICKET = replace(CLEAN, way="ticket", title="ticket", elements=1, torn=None, mixed=None, duplicates=Count(3, 1000))


def marks(figure: go.Figure, kind: str, seen: bool) -> list[Any]:
    """The plotly traces of a kind of damage, those where it was seen or those where it was not."""
    return [t for t in figure.data if t.legendgroup == kind and (t.marker.symbol != "triangle-left-open") == seen]


def test_rungs_go_from_the_safest_down_with_their_speed() -> None:
    figure = figures.race_ladder([LOST, TORN, MIXED, CLEAN])
    (bars,) = [trace for trace in figure.data if trace.type == "bar"]
    assert list(figure.layout.yaxis.ticktext) == ["v.assign_sub(g)", "mixed", "torn", "v.assign(v - g)"]
    assert bars.x.tolist() == [1000, 2000, 2000, 1000]
    assert list(bars.text) == ["1,000", "2,000", "2,000", "1,000"]
    low, high = figure.layout.yaxis.range
    assert low > high  # The first rung is on top.
    words = ["none seen", "mixed versions", "lost elements", "lost updates"]
    assert [note.text for note in figure.layout.annotations if note.x == 1] == [f"<b>{word}</b>" for word in words]
    assert figure.layout.xaxis.title.text == "updates a second"
    assert "%" in figure.layout.xaxis2.title.text


def test_what_was_seen_is_a_share_with_its_interval() -> None:
    (torn,) = marks(figures.race_ladder([CLEAN, TORN]), "torn", seen=True)
    low, high = binomial_interval(900, 2000)
    assert torn.x == pytest.approx([0.45])
    assert torn.error_x.array == pytest.approx([high - 0.45])
    assert torn.error_x.arrayminus == pytest.approx([0.45 - low])
    assert list(torn.text) == ["torn reads: 900 of 2,000 (43 to 47 %)"]


def test_none_seen_is_an_upper_bound_and_not_a_zero() -> None:
    figure = figures.race_ladder([CLEAN])
    for kind, trials in (("lost", 2000), ("torn", 2000), ("mixed", 1000)):
        assert marks(figure, kind, seen=True) == []
        (bound,) = marks(figure, kind, seen=False)
        assert bound.x == pytest.approx([binomial_interval(0, trials)[1]])
        assert bound.x[0] - bound.error_x.arrayminus[0] == pytest.approx(10.0 ** figure.layout.xaxis2.range[0])
        assert "0 of" in bound.text[0]
        assert "at most" in bound.text[0]


def test_what_cannot_be_counted_has_no_mark() -> None:
    figure = figures.race_ladder([LOST])
    assert marks(figure, "mixed", seen=True) == marks(figure, "mixed", seen=False) == []
    assert marks(figure, "duplicates", seen=True) == []


def test_the_worst_element_is_marked_where_no_whole_update_was_lost() -> None:
    figure = figures.race_ladder([TORN, LOST])
    (star,) = [trace for trace in figure.data if trace.legendgroup == "worst"]
    assert list(star.x) == [0.004]
    assert star.error_x.array is None
    assert "4 of 1,000 steps" in star.text[0]


def test_each_number_of_threads_and_elements_has_a_ladder_of_its_own() -> None:
    small, large = [CLEAN, TORN], [replace(CLEAN, elements=200_000), replace(LOST, elements=200_000, threads=8)]
    figure = figures.race_ladder([*small, *large, TICKET])
    headings = [note.text for note in figure.layout.annotations if note.xanchor == "right"]
    assert headings == [
        "<b>4 threads, 1,000 elements a variable</b>", "<b>4 threads, 200,000 elements a variable</b>",
        "<b>8 threads, 200,000 elements a variable</b>", "<b>4 threads, one number</b>",
    ]  # fmt: skip
    domains = [figure.layout[f"yaxis{n}"].domain for n in ("", 3, 5, 7)]
    assert all(0 <= low < high <= 1 for low, high in domains)
    assert all(above[0] > below[1] for above, below in pairwise(domains))
    heights = np.array([high - low for low, high in domains]) / [2, 1, 1, 1]
    assert np.allclose(heights, heights[0])  # A rung is as high in each.
    shown = [trace.legendgroup for trace in figure.data if trace.showlegend]
    assert len(shown) == len(set(shown)) == 5
    assert marks(figure, "duplicates", seen=True)[0].x == pytest.approx([0.003])


def test_kinds_of_damage_differ_in_colour_and_symbol() -> None:
    figure = figures.race_ladder([TORN, LOST, TICKET])
    looks = {t.legendgroup: (t.marker.color, t.marker.symbol) for t in figure.data if t.legendgroup and t.showlegend}
    assert all(len(set(some)) == len(looks) for some in zip(*looks.values(), strict=True))


def test_what_is_equal_and_how_sure_the_intervals_are_is_said() -> None:
    words = said(figures.race_ladder([CLEAN]))
    for part in ("Equal in a ladder: threads, elements", "95% intervals (Clopper and Pearson)", "none seen, at most"):
        assert part in words


def test_a_real_race_can_be_drawn() -> None:
    figure = figures.race_ladder(races(["assign_sub", "keras_sgd_iterations"], threads=[2], elements=[10], updates=20))
    assert len([trace for trace in figure.data if trace.type == "bar"]) == 2


def test_only_races_are_drawn() -> None:
    with pytest.raises(ValueError, match="at least one race, got none"):
        figures.race_ladder([])
    with pytest.raises(TypeError, match=r"drawn from what races\(\) returns, got 'assign'"):
        figures.race_ladder(["assign"])  # type: ignore[list-item]
