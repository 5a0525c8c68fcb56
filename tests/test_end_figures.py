"""The figure of where a small world can end, looked at as data."""

import dataclasses

import numpy as np
import plotly.graph_objects as go
import pytest
from test_figures import named, said

from asyncsgd_edu.engines.reachable import Reachable
from asyncsgd_edu.engines.reachable import reachable as reach
from asyncsgd_edu.problems.quadratic import Quadratic
from asyncsgd_edu.problems.rosenbrock import Rosenbrock
from asyncsgd_edu.view import figures

pytestmark = pytest.mark.usefixtures("eight_devices")
BOWL = Quadratic(curvatures=[1.0, 0.3], noise=0.3)
KINDS = ("something stale in each", "nothing stale in some")


@pytest.fixture(scope="module")
def ends() -> Reachable:
    return reach(BOWL, workers=2, steps=2, learning_rate=0.8)


@pytest.fixture(scope="module")
def wide() -> Reachable:
    return reach(Quadratic(noise=0.0), workers=2, steps=2, learning_rate=1.5)


def begins(figure: go.Figure, name: str) -> object:
    """The one plotly trace whose name begins so."""
    (found,) = [trace for trace in figure.data if trace.name.startswith(name)]
    return found


def test_each_end_is_one_mark_as_large_as_its_orders_are_many(ends: Reachable) -> None:
    figure = figures.reachable(ends, BOWL)
    stale, fresh = (named(figure, name) for name in KINDS)
    assert 10 < len(stale.x) + len(fresh.x) <= ends.distinct
    assert sum(stale.marker.size) + sum(fresh.marker.size) == ends.multiplicity.sum() == 70
    assert stale.marker.sizemode == fresh.marker.sizemode == "area"
    assert stale.marker.sizeref == fresh.marker.sizeref
    for place in ends.points:
        same = np.abs(ends.points - place).max(axis=1) < 1e-5
        mark = fresh if ends.sequential[same].any() else stale
        (at,) = np.flatnonzero((np.abs(mark.x - place[0]) < 1e-5) & (np.abs(mark.y - place[1]) < 1e-5))
        assert mark.marker.size[at] == ends.multiplicity[same].sum()
    assert (stale.marker.color, stale.marker.symbol) != (fresh.marker.color, fresh.marker.symbol)


def test_ends_that_are_apart_by_their_rounding_only_are_one_mark() -> None:
    found = reach(Quadratic(curvatures=[1.0, 0.4], noise=0.0), workers=2, steps=2, learning_rate=0.7)
    places = np.unique(found.points.round(4), axis=0)
    assert len(places) < found.distinct
    figure = figures.reachable(found)
    assert sum(len(named(figure, name).x) for name in KINDS) == len(places)
    assert f"at {len(places)} places that can be told apart" in said(figure)
    assert sum(sum(named(figure, name).marker.size) for name in KINDS) == 70


def test_best_and_worst_are_marked_with_an_order_that_leads_there(ends: Reachable) -> None:
    figure = figures.reachable(ends)
    for name, at in (("best", ends.best), ("worst", ends.worst)):
        mark = named(figure, f"{name}: {ends.schedules[at]}")
        assert [mark.x[0], mark.y[0]] == ends.points[at].tolist()
    assert f"final loss {ends.loss.min():.4g} to {ends.loss.max():.4g}" in said(figure)
    assert f"70 orders of reads and applies, {ends.distinct} ends that differ in any bit" in said(figure)
    assert "nothing says that a run takes each as often" in said(figure)


def test_the_contour_is_of_the_problem_if_it_is_given(ends: Reachable) -> None:
    assert all(trace.type == "scatter" for trace in figures.reachable(ends).data)
    loss = named(figures.reachable(ends, BOWL), "loss without noise")
    x, y = np.meshgrid(loss.x, loss.y)
    assert np.allclose(loss.customdata, 0.5 * (x**2 + 0.3 * y**2))
    assert loss.x[0] < ends.points[:, 0].min() < ends.points[:, 0].max() < loss.x[-1]


def test_ends_far_away_are_counted_and_leave_the_picture_readable() -> None:
    valley = Rosenbrock()
    found = reach(valley, workers=2, steps=3, learning_rate=0.004)
    limit = 1000 * found.loss[found.sequential].max()
    figure = figures.reachable(found, valley)
    outside = int(found.multiplicity[found.loss > limit].sum())
    assert outside > 0
    assert f"{outside} orders end outside the picture, with a loss above {limit:.4g}" in said(figure)
    assert sum(sum(named(figure, name).marker.size) for name in KINDS) == 924 - outside
    assert not [trace for trace in figure.data if trace.name.startswith("worst")]


def test_other_problems_have_a_histogram_of_all_orders(wide: Reachable) -> None:
    figure = figures.reachable(wide)
    bars = named(figure, "orders")
    assert sum(bars.y) == pytest.approx(1)
    assert sum(bars.customdata) == wide.multiplicity.sum()
    assert np.ptp(np.log10(wide.loss)) > 1  # So the axis is logarithmic.
    low, high = np.array(bars.x) - np.array(bars.width) / 2, np.array(bars.x) + np.array(bars.width) / 2
    for loss, orders in zip(wide.loss, wide.multiplicity, strict=True):
        (at,) = np.flatnonzero((low <= np.log10(loss)) & (np.log10(loss) < high))
        assert bars.customdata[at] >= orders
    fresh = named(figure, "nothing stale")
    assert np.allclose(10 ** np.array(fresh.x), wide.loss[wide.sequential])
    assert begins(figure, "best").x[0] == pytest.approx(np.log10(wide.loss.min()))
    assert begins(figure, "worst").x[0] == pytest.approx(np.log10(wide.loss.max()))
    assert figure.layout.xaxis.title.text.startswith("final loss")


def test_one_end_is_one_bar() -> None:
    bars = named(figures.reachable(reach(Quadratic(), workers=1, steps=2)), "orders")
    assert list(bars.y) == [1.0]


def test_ends_that_are_lost_are_counted(wide: Reachable) -> None:
    loss = np.where(np.arange(len(wide)) == 3, np.nan, wide.loss)
    figure = figures.reachable(dataclasses.replace(wide, loss=loss))
    assert f"{wide.multiplicity[3]} orders end with a loss that is not finite" in said(figure)
    assert sum(named(figure, "orders").y) < 1
    assert not [trace for trace in figure.data if trace.name.startswith("worst")]
    nothing = dataclasses.replace(wide, loss=np.full(len(wide), np.nan))
    assert "every order ends with a loss that is not finite" in said(figures.reachable(nothing))


def test_in_the_plane_too_everything_may_be_lost(ends: Reachable) -> None:
    nothing = dataclasses.replace(ends, loss=np.full(len(ends), np.inf))
    assert "every order ends with a loss that is not finite" in said(figures.reachable(nothing, None))


def test_a_problem_that_is_not_the_one_is_refused(ends: Reachable, wide: Reachable) -> None:
    with pytest.raises(ValueError, match="problem must be the one whose ends these are"):
        figures.reachable(ends, Rosenbrock())
    with pytest.raises(ValueError, match="problem must be the one whose ends these are"):
        figures.reachable(wide, BOWL)
    with pytest.raises(ValueError, match="2 parameters, quadratic has 20"):
        figures.reachable(wide, Quadratic(noise=0.0))
    with pytest.raises(TypeError, match=r"drawn from what reachable\(\) returns, got 3"):
        figures.reachable(3)  # type: ignore[arg-type]
