"""The loss of a problem with two parameters, as a plane to draw in: its contour, its frame, what lies outside.

Every loss is the problem's own evaluation, without noise. Nothing here knows whose places are drawn.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsgd_edu.view import panels
from asyncsgd_edu.view.thinning import Floats

if TYPE_CHECKING:
    from asyncsgd_edu.problems.problem import Problem

SIDE = 121  # Places on each side of the grid that a contour is drawn from.
LINES = 14
TALL = 620  # Pixels.
FLOOR = 0.005  # Share of the places, the lowest, that a logarithmic scale shows as one: it would end nowhere.
AXES = ("first parameter (no unit)", "second parameter (no unit)")
BELOW = {"orientation": "h", "x": 0, "y": -0.13, "yanchor": "top"}  # No colour bar there.
PALE = ((0.0, "#ffffff"), (1.0, "#b4c4cf"))  # The marks of Okabe and Ito stand out on it.


def check_plane(problem: "Problem", seed: int = 0) -> "Problem":
    """Return `problem` when it is one with two parameters. Raises TypeError or ValueError otherwise."""
    from asyncsgd_edu.problems.problem import check_problem  # Here: a figure without a plane loads no TensorFlow.

    check_problem(problem)
    size = sum(value.size for value in problem.initial(seed))
    if size != 2:
        raise ValueError(f"a plane needs a problem with 2 parameters, {problem.name} has {size}")
    return problem


def losses(problem: "Problem", places: np.ndarray, seed: int = 0) -> Floats:
    """What the problem says of each of the places, of shape [places, 2]; float64 [places]."""
    shapes = [value.shape for value in problem.initial(seed)]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    parts = np.split(np.asarray(places, np.float64), ends, axis=1)
    with np.errstate(over="ignore", invalid="ignore"):  # What has diverged is infinitely high, and no fault.
        return problem.losses([part.reshape(len(places), *shape) for part, shape in zip(parts, shapes, strict=True)])


def frame(places: Sequence[np.ndarray]) -> list[tuple[float, float]]:
    """Lowest and highest of each axis, with room around the places, each of shape [any, 2]."""
    every = np.concatenate([np.asarray(some, np.float64) for some in places])
    low, high = every.min(axis=0), every.max(axis=0)
    # A path along one axis still wants a plane.
    room = 0.08 * np.maximum(high - low, 0.25 * max(float((high - low).max()), 1e-3 * float(np.abs(every).max()), 1e-9))
    return list(zip((low - room).tolist(), (high + room).tolist(), strict=True))


def contour(problem: "Problem", sides: Sequence[tuple[float, float]], seed: int = 0) -> dict[str, Any]:
    """The plotly trace of the loss over a frame.

    On a logarithmic scale if it is nowhere below 0 and spans more than a factor of ten; of that the lowest
    0.5 % of the places are shown as one.
    """
    x, y = (np.linspace(low, high, SIDE) for low, high in sides)
    loss = losses(problem, np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2), seed).reshape(SIDE, SIDE)
    bar: dict[str, Any] = {"title": {"text": "loss", "side": "top"}, "thickness": 14, "tickformat": ".3g"}
    finite = loss[np.isfinite(loss)]
    above, highest = finite[finite > 0], float(finite.max(initial=0.0))
    low = float(np.quantile(above, FLOOR)) if len(above) else 0.0
    height, shown = loss, finite
    if finite.min(initial=0.0) >= 0 and highest > 10 * low > 0:
        height, shown = np.log10(np.maximum(loss, low)), np.log10([low, highest])
        ticks = panels.log_ticks(low, highest)
        bar |= {**ticks, "tickvals": np.log10(ticks["tickvals"]).tolist()}
    bottom, top = (float(shown.min()), float(shown.max())) if len(shown) else (0.0, 1.0)
    apart = (top - bottom) / LINES or 1.0
    return {
        "type": "contour", "x": x, "y": y, "z": height, "customdata": loss, "colorscale": PALE,
        "contours": {"start": bottom + apart, "end": top, "size": apart},
        "line": {"width": 0.6, "color": panels.GREY}, "colorbar": bar, "name": "loss without noise",
        "hovertemplate": "%{x:.4g}, %{y:.4g}: loss %{customdata:.4g}<extra></extra>",
    }  # fmt: skip


def layout(sides: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Axes over the frame, and a legend below them."""
    plain = {"showgrid": False, "zeroline": False}
    return {
        "height": TALL, "xaxis": {**plain, "title": AXES[0], "range": list(sides[0])},
        "yaxis": {**plain, "title": AXES[1], "range": list(sides[1])},
        "legend": BELOW,
    }  # fmt: skip


def mark(name: str, places: np.ndarray, colour: str, symbol: str, size: int = 13) -> dict[str, Any]:
    """The plotly trace of marks at some places, of shape [places, 2] or [2]."""
    x, y = np.asarray(places, np.float64).reshape(-1, 2).T
    edge = {"color": panels.BLACK, "width": 1.5 if size > 10 else 0.8}
    look = {"color": colour, "symbol": symbol, "size": size, "line": edge}
    return {
        "type": "scatter", "mode": "markers", "x": x, "y": y, "name": name, "marker": look,
        "hovertemplate": f"{name}: %{{x:.4g}}, %{{y:.4g}}<extra></extra>",
    }  # fmt: skip
