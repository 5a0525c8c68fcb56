"""Pictures of what a replay measured: where the parameters went, and what staleness did to gradients.

The numbers are those in `trace.measured`; the loss of a place is what the problem itself says
of it. Nothing here replays or trains.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from asyncsgd_edu.trace import Trace
from asyncsgd_edu.view import panels, plane, titles
from asyncsgd_edu.view.law_figures import held_words, learning_rate_words
from asyncsgd_edu.view.thinning import Floats, kept

if TYPE_CHECKING:
    from asyncsgd_edu.problems.problem import Problem

FAR = 10.0  # Times the loss at the start: a path that climbs higher has left the picture.
MOST_DRAWN = 2000  # Gradients in a cloud of points; more would only cover one another.
TALL = 470
PATH = (panels.GREY, "solid", "circle")
VIEWS = tuple(look for look in panels.LOOKS if look[0] != panels.BLACK)
MOST_MARKS = 80  # On a line: with more it is no line any longer.


# --- the path in the plane


def trajectory(
    traces: Trace | Sequence[Trace], problem: "Problem | None" = None, labels: Sequence[str] | None = None
) -> go.Figure:
    """Where the two parameters of a problem went, over the contour of its loss without noise.

    Traces are from `replay(..., measure_path=True)`. The path goes through the parameters of every version. For a
    single trace a thinner line for each of the first six workers goes through those that it read, in order:
    places on the path, but older ones. `problem` is that of the traces; without it a `Quadratic` or
    `Rosenbrock` is made as their headers say. A path that climbs above ten times the loss at its start leaves the
    picture and ends there: a cross stands at the last version before, and the title says which left.

    Raises TypeError for what is no trace, and ValueError for a trace without a path, traces of several
    problems, a problem that has not two parameters, and a number of `labels` other than that of traces.
    """
    found = [titles.checked(trace) for trace in ([traces] if isinstance(traces, Trace) else traces)]
    if not found:
        raise ValueError("a trajectory needs at least one trace, got none")
    if labels is not None and len(labels) != len(found):
        raise ValueError(f"labels must be one for each of the {len(found)} traces, got {list(labels)!r}")
    names, problem = _names(found, labels), _problem(found, problem)
    paths = [_path(problem, trace, name) for trace, name in zip(found, names, strict=True)]
    stays = [_stay(problem, path, trace.header.seed) for path, trace in zip(paths, found, strict=True)]
    sides = plane.frame([path[:stay] for path, stay in zip(paths, stays, strict=True)])
    figure = go.Figure(plane.contour(problem, sides, found[0].header.seed))
    left = [
        f"{name + ': ' if len(found) > 1 else ''}out of the picture from version {stay} on"
        for name, path, stay in zip(names, paths, stays, strict=True)
        if stay < len(path)
    ]
    _add_paths(figure, names, paths, stays)
    if len(found) == 1:
        _add_views(figure, found[0], stays[0])
    _add_ends(figure, paths, stays)
    titles.title(figure, "Where the parameters went", found, *_path_words(found), *left, names=names)
    figure.update_layout(plane.layout(sides))
    return titles.or_empty(figure, found)


def _names(traces: Sequence[Trace], labels: Sequence[str] | None) -> list[str]:
    """What the paths are called."""
    if labels is not None or len(traces) == 1:
        return list(labels) if labels is not None else ["parameters, by version"]
    subjects = [panels.subject(trace.header) for trace in traces]
    alike = len(set(subjects)) < len(subjects)
    return [f"{number}. {name}" if alike else name for number, name in enumerate(subjects, 1)]


def _problem(traces: Sequence[Trace], problem: "Problem | None") -> "Problem":
    """The problem of all traces, made as their headers say if it is not given."""
    described = [dict(trace.header.problem) for trace in traces]
    if any(one != described[0] for one in described):
        raise ValueError("a trajectory needs traces of one problem, got " + ", ".join(map(str, described)))
    about = described[0]
    if problem is None:
        problem = _made(about)
    plane.check_plane(problem, traces[0].header.seed)
    if about != problem.describe():
        raise ValueError(f"problem must be that of the traces, {about}, got {problem.describe()}")
    return problem


def _made(about: dict[str, Any]) -> "Problem":
    from asyncsgd_edu.problems.quadratic import Quadratic  # Here: what draws no contour loads no TensorFlow.
    from asyncsgd_edu.problems.rosenbrock import Rosenbrock

    kinds = {kind.name: kind for kind in (Quadratic, Rosenbrock)}
    kind = kinds.get(str(about.get("name")))
    if kind is None:
        raise ValueError(
            f"problem must be given for traces of {about.get('name', 'no problem')}: only those of "
            f"{' and '.join(kinds)} say all of it, so trajectory(trace, problem)"
        )
    return kind(**{name: value for name, value in about.items() if name not in ("name", "batch_size")})


def _path(problem: "Problem", trace: Trace, name: str) -> Floats:
    """The parameters of each version, the first included; float64 [versions, 2]."""
    missing = [column for column in ("read", "written") if column not in trace.measured]
    if missing:
        raise ValueError(
            f"a trace without a path ({name}: no {' and no '.join(missing)} in its measured) has no trajectory: "
            f"draw what replay(trace, problem, measure_path=True) returns, whole"
        )
    rows = np.flatnonzero(trace.applied)
    closing = rows[np.flatnonzero(np.diff(trace.apply_version[rows], append=-1))]
    first = np.concatenate([value.reshape(-1) for value in problem.initial(trace.header.seed)])
    return np.concatenate([first[None], trace.measured["written"][closing]]).astype(np.float64)


def _stay(problem: "Problem", path: Floats, seed: int) -> int:
    """For how many versions, at least one, the path has not left the picture."""
    loss = plane.losses(problem, path, seed)
    # Written so that what is not a number has left.
    out = np.flatnonzero(~(loss <= FAR * loss[0])) if loss[0] > 0 else np.flatnonzero(~np.isfinite(loss))
    return max(1, int(out[0])) if len(out) else len(path)


def _add_paths(figure: go.Figure, names: Sequence[str], paths: Sequence[Floats], stays: Sequence[int]) -> None:
    """A line for each path, as far as it stays in the picture; a single one is broad, for views to lie on it."""
    for look, (name, path, stay) in enumerate(zip(names, paths, stays, strict=True)):
        line = panels.LOOKS[look % len(panels.LOOKS)]
        if len(paths) == 1:
            figure.add_trace(_line(name, path[: stay + 1], PATH, "version", 6, 5))
        else:
            figure.add_trace(_line(name, path[: stay + 1], line, "version", 2.5, 6))


def _add_ends(figure: go.Figure, paths: Sequence[Floats], stays: Sequence[int]) -> None:
    """Where the paths start, where they end, and where they were last before they left the picture."""
    both = list(zip(paths, stays, strict=True))
    last = [path[stay - 1] for path, stay in both if stay < len(path)]
    ends = [path[-1] for path, stay in both if stay == len(path)]
    starts = np.unique([path[0] for path in paths], axis=0)
    for name, places, colour, symbol in (
        ("start", starts, "white", "circle"), ("end", ends, panels.YELLOW, "star"),
        ("last before it left", last, panels.VERMILLION, "x"),
    ):  # fmt: skip
        if len(places):
            figure.add_trace(plane.mark(name, np.array(places), colour, symbol, 15))


def _add_views(figure: go.Figure, trace: Trace, stay: int) -> None:
    """A line for each of the first workers, through the parameters that it read, those of the first `stay` versions."""
    for worker, look in zip(range(trace.header.workers), VIEWS, strict=False):
        rows = (trace.worker == worker) & (trace.read_version < stay)
        if rows.any():
            read = trace.measured["read"][rows].astype(np.float64)
            figure.add_trace(_line(f"read by worker {worker}", read, look, "read", 1.5, 7))


def _line(name: str, places: Floats, look: tuple[str, str, str], what: str, width: float, size: int) -> dict[str, Any]:
    """The plotly trace of a line through places of shape [places, 2], thinned so that its extremes stay."""
    colour, dash, symbol = look
    order = np.arange(len(places))
    finite = np.where(np.isfinite(places), places, 0.0)  # A place that is none gives no mark anyway.
    keep = np.union1d(kept(order, finite[:, 0]), kept(order, finite[:, 1]))
    return {
        "type": "scatter", "mode": "lines+markers", "x": places[keep, 0], "y": places[keep, 1], "name": name,
        "line": {"color": colour, "dash": dash, "width": width}, "customdata": keep,
        "marker": {"color": colour, "symbol": symbol, "size": size, "maxdisplayed": MOST_MARKS},
        "hovertemplate": f"{name}<br>{what} %{{customdata}}: %{{x:.4g}}, %{{y:.4g}}<extra></extra>",
    }  # fmt: skip


def _path_words(traces: Sequence[Trace]) -> list[str]:
    """How the paths came about, and what they have in common."""
    if len(traces) > 1:
        return [learning_rate_words(traces), held_words(traces)]
    (trace,) = traces
    shown = min(trace.header.workers, len(VIEWS))
    rate = learning_rate_words(traces).replace("one learning rate for all,", "learning rate")
    views = f"the views of workers 0 to {shown - 1} of {trace.header.workers}" if shown < trace.header.workers else ""
    return [" · ".join(filter(None, [f"{trace.updates} updates", rate, f"seed {trace.header.seed}", views]))]


# --- what staleness does to a gradient


def staleness_against_gap(trace: Trace) -> go.Figure:
    """What predicts the error of a stale gradient: its staleness, or how far the parameters moved meanwhile?

    A trace from `replay(..., measure_gap=True)`. A point is an applied gradient: its error, the root mean square
    of its difference from the gradient of the same batch at the parameters it was applied to, against staleness on
    the left, and on the right against the gap, the root mean square of the parameters' way since the read
    (Barkai et al. 2019, arXiv 1909.10802). Above each, the rank correlation (Spearman 1904) of all of them, of which
    at most 2,000, evenly taken, are drawn. Gap and error are logarithmic if they span more than a factor of ten; then
    zeros have no place, and the title counts them.

    Raises TypeError for what is no trace and ValueError for one without these measurements.
    """
    missing = [name for name in ("gap", "gradient_error") if name not in titles.checked(trace).measured]
    if missing:
        raise ValueError(
            f"a trace without {' and '.join(missing)} in its measured has nothing to compare: "
            f"draw what replay(trace, problem, measure_gap=True) returns, whole"
        )
    gap, error = (trace.measured[name][trace.applied].astype(np.float64) for name in ("gap", "gradient_error"))
    fine = np.isfinite(gap) & np.isfinite(error)
    gap, error, staleness = gap[fine], error[fine], trace.staleness[fine]
    across, up = _axis(gap), _axis(error)
    drawn = np.flatnonzero(((gap > 0) | (across["type"] == "linear")) & ((error > 0) | (up["type"] == "linear")))
    step = max(1, -(-len(drawn) // MOST_DRAWN))
    figure = go.Figure()
    panes = (("staleness", staleness, panels.BLUE, "circle"), ("gap", gap, panels.VERMILLION, "diamond"))
    for place, (name, values, colour, symbol) in zip(("", "2"), panes, strict=True):
        figure.add_scatter(
            x=values[drawn][::step], y=error[drawn][::step], name=name, mode="markers", xaxis=f"x{place}",
            marker={"color": colour, "symbol": symbol, "size": 6, "opacity": 0.45},
            hovertemplate=f"{name} %{{x:.4g}}: error %{{y:.4g}}<extra></extra>",
        )  # fmt: skip
        figure.add_annotation(
            text=f"<b>{name}</b>: {_correlation(values, error)}", xref=f"x{place} domain", yref="paper",
            x=0.5, y=1.01, yanchor="bottom", showarrow=False, font={"size": 14},
        )  # fmt: skip
    titles.title(
        figure, "What predicts the error of a stale gradient?", [trace], *_cloud_words(len(gap), len(drawn), step)
    )
    figure.layout.margin.t += 14  # For what stands above the panels.
    figure.update_layout(
        height=TALL, showlegend=False,
        xaxis={"domain": [0, 0.48], "title": "staleness (updates between read and apply)", "rangemode": "tozero"},
        xaxis2={"domain": [0.52, 1], "title": "gap (distance moved, root mean square)", **across},
        yaxis={"title": "error of the gradient<br>(root mean square)", **up},
    )  # fmt: skip
    return titles.or_empty(figure, [trace])


def _axis(values: Floats) -> dict[str, Any]:
    """Logarithmic for values that span more than a factor of ten, those above 0 alone; linear from 0 otherwise."""
    above = values[values > 0]
    if len(above) and above.max() > 10 * above.min():
        return {"type": "log", **panels.log_ticks(float(above.min()), float(above.max()))}
    return {"type": "linear", "rangemode": "tozero"}


def _correlation(values: np.ndarray, error: Floats) -> str:
    """The rank correlation in words; there is none with what is always the same."""
    if len(error) < 2 or np.ptp(values) == 0 or np.ptp(error) == 0:
        return "no rank correlation, one of them is always the same"
    from scipy import stats  # type: ignore[import-untyped]  # Here: it takes long to load.

    return f"rank correlation {float(stats.spearmanr(values, error).statistic):.2f}"


def _cloud_words(measured: int, drawn: int, step: int) -> list[str]:
    """What the points are, and which of them are drawn."""
    words = []
    if measured > drawn:
        words.append(f"{measured - drawn} without any gap or error are not on logarithmic axes")
    if step > 1:
        words.append(f"one in {step} is drawn, all are in the correlations")
    first = f"{measured} applied gradients, each against that of its batch at the parameters it was applied to"
    return [first, " · ".join(words)] if words else [first]
