"""A picture of where a small world can end: the results of every order in which its workers read and apply.

Orders are counted and not called chances. Nothing here replays.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import plotly.graph_objects as go

from asyncsgd_edu.view import panels, plane, titles
from asyncsgd_edu.view.thinning import Floats, Ints

if TYPE_CHECKING:
    from asyncsgd_edu.engines.reachable import Reachable
    from asyncsgd_edu.problems.problem import Problem

FAR = 1000.0  # Times the worst loss where nothing was stale: an end that is higher lies outside the picture.
BINS = 40
CELL = 1e-4  # Of a side: ends that are apart by their rounding only must not hide how many they are.
TALL = 480  # Pixels, of the histogram.
BIGGEST = 30  # Pixels across, for the end of most orders.
KINDS = (
    ("something stale in each", False, panels.ORANGE, "circle"),
    ("nothing stale in some", True, panels.BLUE, "square"),
)


class Marks(NamedTuple):
    """The ends that can be told apart in a picture; arrays of shape [marks].

    The first class of orders that ends there, how many orders do, and whether in one of them nothing was stale.
    """

    first: Ints
    orders: Ints
    fresh: np.ndarray

    @classmethod
    def of(cls, reached: "Reachable", near: np.ndarray, sides: Sequence[tuple[float, float]]) -> "Marks":
        """Those of the classes that are `near`, bool [classes]; ends in one cell of a fine grid are one mark."""
        low, high = np.array(sides).T
        cell = np.rint((reached.points[near] - low) / (high - low) / CELL)
        _, first, mark = np.unique(cell, axis=0, return_index=True, return_inverse=True)
        mark = mark.reshape(-1)
        orders = np.bincount(mark, weights=reached.multiplicity[near])
        fresh = np.bincount(mark, weights=reached.sequential[near]) > 0
        return cls(np.flatnonzero(near)[first], orders.astype(np.int64), fresh)


def reachable(reached: "Reachable", problem: "Problem | None" = None) -> go.Figure:
    """Where a small world can end: the final parameters, or losses, of every order of its reads and applies.

    What `reachable(...)` returns. Two parameters are drawn in the plane, the area of a mark in proportion to the
    orders that end there, over the contour of the loss if the `problem` is given; ends less than a ten-thousandth
    of the picture apart are one mark. More are drawn as a histogram of their final losses, in shares of all orders.
    Marked are the best, the worst, and where no gradient was stale: where workers took turns. Orders are
    counted: nothing says that a run takes each as often.

    Raises TypeError for anything else, and ValueError for a problem that is not the one whose ends these are or
    has not two parameters.
    """
    from asyncsgd_edu.engines.reachable import Reachable  # Here: other figures load no TensorFlow.

    if not isinstance(reached, Reachable):
        raise TypeError(f"this figure is drawn from what reachable() returns, got {reached!r}")
    if problem is not None:
        _check_same(reached, problem)
    flat = reached.points.shape[1] == 2
    figure = go.Figure()
    told = _draw_plane(figure, reached, problem) if flat else _draw_losses(figure, reached)
    height = figure.layout.height or titles.HEIGHT
    several = "s" * (reached.workers != 1), "s" * (reached.steps != 1)
    words = f"Where {reached.workers} worker{several[0]} with {reached.steps} step{several[1]} each can end"
    about = "Orders are counted: nothing says that a run takes each as often."
    titles.title(figure, words, [], _counted(reached), " ".join([*told[:1], about]), *told[1:])
    figure.update_layout(height=height)
    return figure


def _check_same(reached: "Reachable", problem: "Problem") -> None:
    """Raise ValueError unless the problem has two parameters, and the loss that was reached at the first end."""
    plane.check_plane(problem)
    if reached.points.shape[1] == 2:
        (loss,) = plane.losses(problem, reached.points[:1])
        if np.isclose(loss, reached.loss[0], rtol=1e-4, equal_nan=True):
            return
    raise ValueError(f"problem must be the one whose ends these are, got {problem.describe()} with other losses there")


def _counted(reached: "Reachable") -> str:
    """Orders and ends, and the losses from best to worst, and those where nothing was stale."""
    loss = np.where(np.isnan(reached.loss), np.inf, reached.loss)
    fresh = loss[reached.sequential]
    taken = f"{fresh.min():.4g}" + (f" to {fresh.max():.4g}" if fresh.max() > fresh.min() else "")
    return (
        f"{int(reached.multiplicity.sum()):,} orders of reads and applies, {reached.distinct:,} ends that differ in "
        f"any bit: final loss {loss.min():.4g} to {loss.max():.4g}, where nothing was stale {taken}"
    )


def _draw_plane(figure: go.Figure, reached: "Reachable", problem: "Problem | None") -> list[str]:
    """Draw the ends as places; says what the marks are, and how many orders end outside."""
    loss = reached.loss
    limit = FAR * float(np.where(np.isnan(loss), np.inf, loss)[reached.sequential].max())
    near = np.isfinite(loss) & (loss <= limit) if limit > 0 else np.isfinite(loss)
    if not near.any():
        titles.say(figure, "every order ends with a loss that is not finite")
        return []
    sides = plane.frame([reached.points[near]])
    marks = Marks.of(reached, near, sides)
    if problem is not None:
        figure.add_trace(plane.contour(problem, sides))
    for name, fresh, colour, symbol in KINDS:
        at, orders = marks.first[marks.fresh == fresh], marks.orders[marks.fresh == fresh]
        mark = plane.mark(name, reached.points[at], colour, symbol, 10)
        area = {"sizemode": "area", "sizeref": 2 * float(marks.orders.max()) / BIGGEST**2, "sizemin": 3}
        mark["marker"] |= {"size": orders, **area, "opacity": 0.75}
        text = [
            f"{n} orders, such as {reached.schedules[k]}: loss {loss[k]:.4g}" for n, k in zip(orders, at, strict=True)
        ]
        figure.add_trace({**mark, "text": text, "hovertemplate": "%{text}<extra></extra>"})
    for name, at, colour, symbol in _extremes(reached):
        if near[at]:
            figure.add_trace(plane.mark(f"{name}: {reached.schedules[at]}", reached.points[at], colour, symbol, 17))
    figure.update_layout({**plane.layout(sides), "legend": {**plane.BELOW, "itemsizing": "constant"}})
    figure.update_xaxes(showgrid=problem is None)
    figure.update_yaxes(showgrid=problem is None)
    outside = int(reached.multiplicity[~near].sum())
    told = f"Area: how many orders end there, at {len(marks.first):,} places that can be told apart."
    return [told] + [f"{outside:,} orders end outside the picture, with a loss above {limit:.4g}"] * (outside > 0)


def _extremes(reached: "Reachable") -> tuple[tuple[str, int, str, str], ...]:
    """The best and the worst class, with their marks."""
    return ("best", reached.best, panels.GREEN, "star"), ("worst", reached.worst, panels.VERMILLION, "x")


def _draw_losses(figure: go.Figure, reached: "Reachable") -> list[str]:
    """Draw the final losses as a histogram; says how many orders have none that is finite."""
    finite = np.isfinite(reached.loss)
    loss, orders = reached.loss[finite], reached.multiplicity[finite]
    if not len(loss):
        titles.say(figure, "every order ends with a loss that is not finite")
        return []
    low, high = float(loss.min()), float(loss.max())
    logarithmic = low > 0 and high > 10 * low
    place = np.log10(reached.loss, where=finite, out=np.full(len(finite), np.nan)) if logarithmic else reached.loss
    room = 0.5 * (np.ptp(place[finite]) or max(1e-9, 0.02 * abs(low))) / BINS
    counts, edges = np.histogram(
        place[finite], BINS, (place[finite].min() - room, place[finite].max() + room), weights=orders
    )
    some, share = counts > 0, counts / reached.multiplicity.sum()
    figure.add_bar(
        x=((edges[1:] + edges[:-1]) / 2)[some], y=share[some], width=np.diff(edges)[some], name="orders",
        marker={"color": panels.SKY, "line": {"color": panels.BLUE, "width": 1}},
        customdata=counts[some], hovertemplate="%{customdata:.0f} orders<extra></extra>",
    )  # fmt: skip
    _mark_losses(figure, reached, place, float(share.max()))
    ticks = panels.log_ticks(low, high) if logarithmic else {}
    if logarithmic:
        ticks["tickvals"] = np.log10(ticks["tickvals"]).tolist()
    figure.update_xaxes(title="final loss, as the problem evaluates it", **ticks)
    figure.update_yaxes(title="share of all orders", tickformat=".0%", range=[0, 1.3 * float(share.max())])
    figure.update_layout(height=TALL, legend={**plane.BELOW, "y": -0.22})
    lost = int(reached.multiplicity[~finite].sum())
    return [f"{lost:,} orders end with a loss that is not finite."] if lost else []


def _mark_losses(figure: go.Figure, reached: "Reachable", place: Floats, top: float) -> None:
    """Mark, above bars that are `top` high, the best, the worst and where nothing was stale; at `place` [classes]."""
    finite = np.isfinite(place)
    rows = [("nothing stale", np.flatnonzero(reached.sequential & finite), panels.BLUE, "square", 9, 1.08 * top)]
    rows += [
        (f"{name}: {reached.schedules[at]}", np.array([at]), colour, symbol, 15, 1.2 * top)
        for name, at, colour, symbol in _extremes(reached)
        if finite[at]
    ]
    for name, at, colour, symbol, size, height in rows:
        mark = plane.mark(name, np.stack([place[at], np.full(len(at), height)], axis=1), colour, symbol, size)
        text = [f"{reached.schedules[k]}: loss {reached.loss[k]:.4g}" for k in at]
        figure.add_trace({**mark, "text": text, "hovertemplate": "%{text}<extra></extra>"})
