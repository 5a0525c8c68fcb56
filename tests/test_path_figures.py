"""The figures of what a replay measured, looked at as data."""

from typing import Any

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]
from test_figures import named, said

from asyncsgd_edu.engines.replay import replay
from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.problems.digits import Digits
from asyncsgd_edu.problems.quadratic import Quadratic
from asyncsgd_edu.problems.rosenbrock import Rosenbrock
from asyncsgd_edu.rules.durations import Constant, Exponential
from asyncsgd_edu.rules.policies import Asynchronous, KSync
from asyncsgd_edu.trace import Trace
from asyncsgd_edu.view import figures

pytestmark = pytest.mark.usefixtures("eight_devices")
MEMORYLESS = Exponential(1.0)
BOWL = Quadratic(curvatures=[1.0, 0.2], noise=0.05)


def path_of(problem: Any = BOWL, workers: int = 3, updates: int = 40, rate: float = 0.1, **more: Any) -> Trace:
    schedule = simulate(workers, more.pop("policy", Asynchronous()), Exponential(1.0), updates, seed=1)
    return replay(schedule, problem, learning_rate=rate, measure_path=True, **more)


def measured(name: str, trace: Trace, values: Any) -> Trace:
    return Trace(trace.header, trace.columns, measured={**trace.measured, name: values})


# --- trajectory


def test_the_path_goes_through_every_version_and_views_through_what_was_read() -> None:
    trace = path_of()
    figure = figures.trajectory(trace)
    path = named(figure, "parameters, by version")
    points = np.stack([path.x, path.y], axis=1)
    assert len(points) == trace.version + 1
    assert points[0].tolist() == [1.0, 1.0]
    assert np.array_equal(points[trace.read_version], trace.measured["read"])
    for worker in range(3):
        view = named(figure, f"read by worker {worker}")
        assert np.array_equal(np.stack([view.x, view.y], axis=1), trace.measured["read"][trace.worker == worker])
    assert (named(figure, "start").x[0], named(figure, "end").x[0]) == (1.0, path.x[-1])
    looks = [(line.line.color, line.line.dash, line.marker.symbol) for line in figure.data if "read by" in line.name]
    assert all(len(set(some)) == 3 for some in zip(*looks, strict=True))


def test_averaged_and_dropped_gradients_make_one_version_an_update() -> None:
    trace = path_of(policy=KSync(2), updates=10)
    assert (~trace.applied).any()
    path = named(figures.trajectory(trace), "parameters, by version")
    assert len(path.x) == 11
    assert path.x[-1] == pytest.approx(float(trace.parameters[0][0]))  # type: ignore[index]


def test_the_contour_is_of_the_problem_that_the_header_tells() -> None:
    valley = Rosenbrock(b=3.0, noise=0.1, start=(0.5, 2.0))
    figure = figures.trajectory(path_of(valley, rate=0.01))
    loss = named(figure, "loss without noise")
    x, y = np.meshgrid(loss.x, loss.y)
    assert np.allclose(loss.customdata, (1 - x) ** 2 + 3 * (y - x**2) ** 2)
    path = named(figure, "parameters, by version")
    assert loss.x[0] < min(path.x) < max(path.x) < loss.x[-1]
    assert "(no unit)" in figure.layout.xaxis.title.text
    assert "Exponential durations (scale 1.0; seconds) · virtual time" in said(figure)
    assert "40 updates · learning rate 0.01 · seed 1" in said(figure)


def test_several_runs_have_a_path_each_and_say_what_is_equal() -> None:
    pair = [path_of(workers=n) for n in (1, 4)]
    figure = figures.trajectory(pair, BOWL, labels=["one", "four"])
    one, four = named(figure, "one"), named(figure, "four")
    assert (one.line.color, one.line.dash, one.marker.symbol) != (four.line.color, four.line.dash, four.marker.symbol)
    assert not [line for line in figure.data if "read by" in line.name]
    assert "one learning rate for all, 0.1" in said(figure)
    assert "equal: updates 40, samples 40, seed 1, batch size 1 · not equal: workers" in said(figure)
    names = [line.name for line in figures.trajectory([pair[0], pair[0]]).data]
    assert "1. replay, 1 workers, quadratic" in names
    assert "2. replay, 1 workers, quadratic" in names


def test_a_path_that_climbs_leaves_the_picture_and_says_when() -> None:
    trace = path_of(Rosenbrock(), workers=6, updates=300, rate=0.003)
    figure = figures.trajectory(trace)
    loss, path = named(figure, "loss without noise"), named(figure, "parameters, by version")
    version = len(path.x) - 1
    assert f"<sub>out of the picture from version {version} on</sub>" in said(figure)
    two = said(figures.trajectory([trace, trace], labels=["a", "b"]))
    assert f"b: out of the picture from version {version} on" in two
    height = (1 - np.array(path.x)) ** 2 + 100 * (np.array(path.y) - np.array(path.x) ** 2) ** 2
    assert (height[:-1] <= 10 * height[0]).all()
    assert height[-1] > 10 * height[0]
    assert named(figure, "last before it left").x[0] == path.x[-2]
    assert np.isfinite(loss.customdata).all()
    assert not [mark for mark in figure.data if mark.name == "end"]


def test_views_end_where_the_path_leaves_the_picture() -> None:
    trace = path_of(workers=4, updates=200, rate=1.2)
    figure = figures.trajectory(trace)
    version = len(named(figure, "parameters, by version").x) - 1
    assert np.count_nonzero(trace.read_version == version) == 1  # Somebody reads what is outside, and goes on.
    views = sum(len(line.x) for line in figure.data if "read by" in line.name)
    assert views == np.count_nonzero(trace.read_version < version)


def test_more_workers_than_can_be_told_apart_are_counted() -> None:
    figure = figures.trajectory(path_of(workers=9))
    assert sum("read by" in line.name for line in figure.data) == 6
    assert "the views of workers 0 to 5 of 9" in said(figure)


def test_a_long_path_is_thinned_and_keeps_its_extremes() -> None:
    trace = path_of(updates=9000)
    places = trace.measured["written"].copy()
    places[4321] = [-7.0, 8.0]
    path = named(figures.trajectory(measured("written", trace, places)), "parameters, by version")
    assert len(path.x) < 4001
    assert min(path.x) == -7.0
    assert max(path.y) == 8.0


@pytest.mark.parametrize(
    ("given", "problem", "error", "sentence"),
    [
        (list, None, ValueError, "at least one trace, got none"),
        (lambda: ["run.jsonl"], None, TypeError, "drawn from a Trace"),
        (lambda: path_of()[:5], None, ValueError, "no read and no written in its measured.*measure_path=True"),
        (lambda: path_of(Quadratic()), None, ValueError, "2 parameters, quadratic has 20"),
        (lambda: path_of(), "bowl", TypeError, "problem must be a problem"),
        (lambda: path_of(), Quadratic(curvatures=[1.0, 2.0]), ValueError, "problem must be that of the traces"),
        (lambda: [path_of(), path_of(Rosenbrock(), rate=1e-4)], None, ValueError, "needs traces of one problem"),
        (lambda: simulate(2, Asynchronous(), Constant(1.0), 5), None, ValueError, "must be given for traces of no"),
        (
            lambda: replay(simulate(2, Asynchronous(), Constant(1.0), 3), Digits("linear")),
            None,
            ValueError,
            "must be given for traces of digits-linear: only those of quadratic and rosenbrock",
        ),
    ],
)
def test_what_has_no_trajectory_is_named(given: Any, problem: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        figures.trajectory(given(), problem)


def test_labels_are_one_for_each() -> None:
    with pytest.raises(ValueError, match="labels must be one for each of the 1 traces"):
        figures.trajectory(path_of(), labels=["a", "b"])


def test_a_replay_stopped_at_once_says_that_there_is_nothing() -> None:
    assert "no updates yet" in said(figures.trajectory(path_of(stop=lambda: True)))


# --- staleness against gap


def gap_of(problem: Any, updates: int = 400, durations: Any = MEMORYLESS) -> Trace:
    return replay(
        simulate(4, Asynchronous(), durations, updates, seed=1), problem, learning_rate=0.05, measure_gap=True
    )


def test_both_panels_share_the_error_and_state_their_rank_correlation() -> None:
    trace = gap_of(Digits("linear"))
    figure = figures.staleness_against_gap(trace)
    staleness, gap = named(figure, "staleness"), named(figure, "gap")
    some = (trace.measured["gap"] > 0) & (trace.measured["gradient_error"] > 0)
    assert np.array_equal(staleness.x, trace.staleness[some])
    assert np.allclose(gap.x, trace.measured["gap"][some])
    assert np.array_equal(staleness.y, gap.y)
    assert np.allclose(gap.y, trace.measured["gradient_error"][some])
    assert (staleness.yaxis, gap.xaxis) == (None, "x2")
    assert gap.yaxis is None
    for name, values in (("staleness", trace.staleness), ("gap", trace.measured["gap"])):
        rank = stats.spearmanr(values, trace.measured["gradient_error"]).statistic
        assert f"<b>{name}</b>: rank correlation {rank:.2f}" in said(figure)
    assert f"{(~some).sum()} without any gap or error are not on logarithmic axes" in said(figure)
    assert "400 applied gradients" in said(figure)
    assert "virtual time" in said(figure)


def test_on_a_bowl_without_noise_the_gap_is_the_error() -> None:
    figure = figures.staleness_against_gap(gap_of(Quadratic(dimension=3, noise=0.0), durations=Constant(1.0)))
    gap = named(figure, "gap")
    assert np.allclose(gap.x, gap.y)
    assert "<b>gap</b>: rank correlation 1.00" in said(figure)


def test_a_cloud_of_many_is_thinned_and_says_so() -> None:
    trace = gap_of(Quadratic(dimension=2), updates=5000)
    some = np.flatnonzero((trace.measured["gap"] > 0) & (trace.measured["gradient_error"] > 0))
    assert 2000 < len(some) <= 4000
    figure = figures.staleness_against_gap(trace)
    assert np.array_equal(named(figure, "staleness").x, trace.staleness[some[::2]])
    assert "one in 2 is drawn, all are in the correlations" in said(figure)


def test_where_nothing_is_stale_there_is_no_correlation() -> None:
    trace = simulate(1, Asynchronous(), Constant(1.0), 20)
    figure = figures.staleness_against_gap(replay(trace, Quadratic(), measure_gap=True))
    assert said(figure).count("no rank correlation, one of them is always the same") == 2
    assert figure.layout.xaxis2.type == "linear"
    assert len(named(figure, "gap").x) == 20


def test_a_trace_without_gaps_is_refused() -> None:
    with pytest.raises(ValueError, match="without gap and gradient_error in its measured.*measure_gap=True"):
        figures.staleness_against_gap(path_of())
    with pytest.raises(TypeError, match="drawn from a Trace"):
        figures.staleness_against_gap([path_of()])  # type: ignore[arg-type]
