"""The figures that set traces against laws, looked at as data."""

import numpy as np
import pytest
from test_figures import named, said
from test_series import make_trace, with_columns

from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.rules.durations import Constant, Duration, Exponential, Uniform
from asyncsgd_edu.rules.policies import Asynchronous, KAsync, KSync
from asyncsgd_edu.rules.skewed_durations import Pareto
from asyncsgd_edu.rules.stability import mean_square_limit, stability_limit
from asyncsgd_edu.trace import Header, Trace
from asyncsgd_edu.view import figures

WORKERS = (2, 4, 8)
RATES = np.geomspace(0.05, 3, 24)


def traces(durations: Duration, updates: int, workers: tuple[int, ...] = WORKERS) -> list[Trace]:
    return [simulate(n, Asynchronous(), durations, updates, seed=1) for n in workers]


def measured_limits(figure: object) -> dict[int, tuple[float, float]]:
    """For each number of workers the largest rate that converges and the smallest that diverges."""
    fine, wild = named(figure, "converges"), named(figure, "diverges")  # type: ignore[arg-type]
    return {int(n): (fine.y[fine.x == n].max(), wild.y[wild.x == n].min()) for n in np.unique(fine.x)}


@pytest.mark.parametrize(
    ("durations", "updates", "line", "limit"),
    [
        (Constant(0.01), 200, "limit for a constant delay", lambda n: stability_limit(n - 1)),
        (Exponential(0.01), 200_000, "mean-square limit", mean_square_limit),
    ],
)
def test_the_map_changes_where_the_law_says(durations: Duration, updates: int, line: str, limit: object) -> None:
    figure = figures.stability_map(traces(durations, updates), RATES)
    step = RATES[1] / RATES[0]
    for n, (fine, wild) in measured_limits(figure).items():
        assert fine / step <= limit(n) <= wild * step  # type: ignore[operator]
        assert wild == pytest.approx(fine * step)
    law = named(figure, line)
    assert law.x.tolist() == list(WORKERS)
    assert law.y == pytest.approx([limit(n) for n in WORKERS])  # type: ignore[operator]
    cells = len(named(figure, "converges").x) + len(named(figure, "diverges").x)
    assert cells == len(WORKERS) * len(RATES)
    assert "virtual time" in said(figure)
    assert "0.2" in figure.layout.yaxis.ticktext


def test_the_map_has_no_line_where_there_is_no_law() -> None:
    uniform = figures.stability_map(traces(Uniform(0.5, 1.5), 500), RATES)
    assert sorted(line.name for line in uniform.data) == ["converges", "diverges"]
    assert "there is no law for Uniform durations" in said(uniform)
    waiting = [simulate(4, KAsync(2), Constant(1.0), 500)]
    assert "the laws do not speak of k-async (k 2)" in said(figures.stability_map(waiting, RATES))


@pytest.mark.parametrize(
    ("given", "rates", "sentence"),
    [
        ([], [0.1], "a stability map needs at least one trace, got none"),
        (traces(Constant(1.0), 50), [], "rates must be at least one learning rate"),
        (traces(Constant(1.0), 50), [0.1, -1.0], "a learning rate must be a finite number above 0, got -1.0"),
        (traces(Constant(1.0), 2), [0.1], "needs traces with updates: updates must be a whole number from 3"),
        (traces(Exponential(1.0), 50), [0.1], "8 workers need a trace of at least 72 updates"),
        (
            [*traces(Constant(1.0), 50), *traces(Exponential(1.0), 50)],
            [0.1],
            "needs traces of one durations, got Constant, Exponential",
        ),
        (
            [*traces(Constant(1.0), 50), simulate(2, KSync(1), Constant(1.0), 50)],
            [0.1],
            "needs traces of one policy, got asynchronous, k-sync",
        ),
    ],
)
def test_a_map_of_what_cannot_be_compared_is_refused(given: list[Trace], rates: list[float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        figures.stability_map(given, rates)


def test_momentum_is_one_minus_one_over_n_for_memoryless_workers() -> None:
    figure = figures.momentum(traces(Exponential(1.0), 200_000))
    measured, law = named(figure, "measured"), named(figure, "1 - 1/N")
    assert list(measured.x) == list(WORKERS)
    assert list(measured.y) == pytest.approx([1 - 1 / n for n in WORKERS], rel=0.01)
    assert dict(zip(law.x, law.y, strict=True))[8] == 1 - 1 / 8
    assert "outside" not in said(figure)


def test_momentum_of_constant_workers_is_another_and_is_said_to_be_outside() -> None:
    figure = figures.momentum(traces(Constant(1.0), 20_000))
    assert abs(named(figure, "measured").y[-1] - (1 - 1 / 8)) > 0.02
    assert "Constant durations are outside the law's assumptions" in said(figure)


def test_momentum_of_other_policies_is_refused() -> None:
    with pytest.raises(ValueError, match=r"of asynchronous traces, got policy 'k-sync \(k 2\)'"):
        figures.momentum([simulate(4, KSync(2), Exponential(1.0), 500)])


def test_momentum_of_a_single_worker_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 workers, got 1"):
        figures.momentum(traces(Exponential(1.0), 500, (1, 2)))


def test_a_thousand_lanes_have_bars_that_can_be_seen() -> None:
    few, many = (
        named(figures.timeline(simulate(n, Asynchronous(), Constant(1.0), 3000)), "compute") for n in (60, 1000)
    )
    assert many.width / 1000 == pytest.approx(few.width / 60)


def test_bars_are_fine_where_no_law_is_drawn() -> None:
    trace = simulate(100, KAsync(50), Exponential(1.0), 500)
    assert named(figures.staleness_histogram(trace), "measured").width < 1


def with_rate(rate: float | None, rows: int = 40, **more: object) -> Trace:
    return make_trace(rows, optimizer={} if rate is None else {"learning_rate": rate}, **more)  # type: ignore[arg-type]


def test_error_against_time_says_what_is_equal_and_what_is_not() -> None:
    figure = figures.error_against_time(with_rate(0.1), with_rate(0.1, rows=30, seed=3))
    assert "equal: workers 4, batch size 32 · not equal: updates, samples, seed" in said(figure)
    assert "one learning rate for all, 0.1" in said(figure)
    assert figure.layout.xaxis.title.text == "seconds"


def test_error_against_time_names_the_policies_or_what_it_is_given() -> None:
    pair = with_rate(0.1), with_rate(0.1, policy="k-sync (k 2)")
    assert [line.name.split("<br>")[0] for line in figures.error_against_time(*pair).data] == [
        "asynchronous",
        "k-sync (k 2)",
    ]
    figure = figures.error_against_time(*pair, labels=["one", "two"], by="samples")
    assert [line.name.split("<br>")[0] for line in figure.data] == ["one", "two"]
    assert figure.data[0].x[-1] == 40 * 32
    with pytest.raises(ValueError, match="by must be one of"):
        figures.error_against_time(*pair, by="epochs")


def test_the_learning_rate_rule_is_recognised() -> None:
    single, four = make_trace(40), make_trace(40)
    averaged = with_columns(four, apply_version=np.arange(40) // 4, read_version=np.arange(40) // 4)

    def rated(trace: Trace, rate: float) -> Trace:
        header = Header(**{**vars(trace.header), "optimizer": {"learning_rate": rate}})
        return Trace(header, trace.columns)

    assert "in proportion to the gradients averaged" in said(
        figures.error_against_time(rated(single, 0.1), rated(averaged, 0.4))
    )
    assert "by no rule that the traces tell" in said(
        figures.error_against_time(rated(single, 0.1), rated(averaged, 0.3))
    )
    assert "learning rates unknown" in said(figures.error_against_time(single, rated(averaged, 0.4)))


def test_durations_add_up_and_the_mean_is_marked() -> None:
    trace = simulate(4, Asynchronous(), Exponential(0.02), 2000)
    figure = figures.duration_histogram(trace)
    mean = float((trace.ready_time - trace.read_time).mean())
    measured = named(figure, "measured")
    assert measured.y.sum() == pytest.approx(1)
    assert measured.x @ measured.y == pytest.approx(mean, rel=0.02)
    assert named(figure, f"mean {mean:.4g} s").x[0] == mean
    assert "Exponential durations (scale 0.02; seconds) · virtual time" in said(figure)
    assert "cancelled" not in said(figure)


def test_equal_durations_are_one_bar() -> None:
    measured = named(figures.duration_histogram(simulate(2, Asynchronous(), Constant(0.01), 50)), "measured")
    assert measured.x == pytest.approx([0.01])
    assert measured.y == pytest.approx([1.0])


def test_cancelled_gradients_have_no_duration_and_are_counted() -> None:
    trace = simulate(4, KSync(1), Exponential(1.0), 100)
    assert "Durations of 100 gradients: mean" in said(figures.duration_histogram(trace))
    assert "(300 cancelled)" in said(figures.duration_histogram(trace))


def test_a_heavy_tail_leaves_room_for_the_others() -> None:
    trace = simulate(4, Asynchronous(), Pareto(1.2, 0.01), 5000)
    seconds = trace.ready_time - trace.read_time
    figure = figures.duration_histogram(trace)
    measured = named(figure, "measured")
    assert measured.x[-1] < seconds.max() / 2
    assert measured.y.sum() == pytest.approx(1)
    assert f"last bar: 25 up to {seconds.max():.4g} s" in said(figure)


def test_a_trace_without_gradients_says_so() -> None:
    empty = simulate(2, Asynchronous(), Constant(1.0), 5)[:0]
    assert "no gradient is ready yet" in said(figures.duration_histogram(empty))
