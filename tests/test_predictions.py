"""Predictions are held against simulated runs, none is made where a law does not hold, and the dashboard shows them."""

import dashboards
import pytest
from dashboards import LONG, Puppet, begin, done

from asyncsgd_edu.engines.simulator import simulate
from asyncsgd_edu.header import Header
from asyncsgd_edu.problems.quadratic import Quadratic
from asyncsgd_edu.rules.durations import Constant, Duration, Exponential, ShiftedExponential, Straggler, Uniform
from asyncsgd_edu.rules.policies import Asynchronous
from asyncsgd_edu.rules.remedies import DropAbove
from asyncsgd_edu.rules.skewed_durations import Pareto
from asyncsgd_edu.view.choices import LAWS, POLICIES, constant_of, duration_of, policy_of
from asyncsgd_edu.view.configuration import Configuration
from asyncsgd_edu.view.lab import Lab
from asyncsgd_edu.view.predictions import (
    NOT_STALE,
    Law,
    milliseconds,
    of_header,
    predict,
    read_off,
    seconds,
    staleness,
)
from asyncsgd_edu.view.virtual import SimulatedRun
from asyncsgd_edu.view.written import schedule_from

lab, puppets = dashboards.lab, dashboards.puppets

EXPONENTIAL = Exponential(0.01)
CHOICES = [(policy, 3) for policy in POLICIES] + [("k-async", 1), ("k-async", 8), ("k-sync", 8), ("k-batch-sync", 1)]


def constant(policy: str, number: int) -> int | None:
    return None if constant_of(policy) is None else number


@pytest.mark.parametrize(("policy", "number"), CHOICES)
@pytest.mark.parametrize("law", LAWS[1:])
def test_a_long_simulated_run_does_what_is_predicted(policy: str, number: int, law: str) -> None:
    durations = duration_of(law, 0.01)
    assert durations is not None
    trace = simulate(8, policy_of(policy, number), durations, updates=20_000, seed=1)
    expected = predict(policy, constant(policy, number), 8, durations, virtual=True)
    stale, each = expected.staleness, expected.seconds
    assert stale.value is not None
    if stale.bound:
        assert trace.staleness.max() <= stale.value
    else:
        assert trace.mean_staleness == pytest.approx(stale.value, rel=0.01)
    if each.value is not None and each.bound:
        assert trace.seconds / trace.updates <= 1.01 * each.value
    elif each.value is not None:
        # A Pareto duration of shape 2 has no variance: its means settle slowly.
        assert trace.seconds / trace.updates == pytest.approx(each.value, rel=0.05 if law == "pareto" else 0.02)


def test_staleness_under_k_async_is_an_identity() -> None:
    # Not only on average: with every gradient counted, those under way at the end too, it is exact.
    trace = simulate(8, policy_of("k-async", 3), EXPONENTIAL, updates=500, seed=2)
    law = staleness("k-async", 3, 8)
    assert law.value is not None
    assert trace.flights.age.sum() == round(law.value * 3 * trace.updates) == 5 * 500


@pytest.mark.parametrize("policy", ["synchronous", "k-sync", "k-batch-sync", "backup-workers"])
def test_who_cancels_has_no_staleness(policy: str) -> None:
    assert staleness(policy, constant(policy, 2), 8) == Law(0.0)


def no_law(policy: str, number: int | None, durations: Duration | None, *, virtual: bool = True) -> str:
    """Why there is no law for the time of 8 such workers."""
    law = seconds(policy, number, 8, durations, virtual=virtual)
    assert law.value is None
    return law.why


def test_there_is_no_law_of_time_where_its_assumptions_do_not_hold() -> None:
    assert no_law("asynchronous", None, None) == "real durations are not known before"
    assert "exponential durations only" in no_law("k-batch-sync", 3, Uniform(0.1, 0.2))
    assert "long tail" in no_law("k-async", 3, Pareto(2.0, 0.1))
    assert no_law("stale-synchronous", 2, EXPONENTIAL) == ""
    assert no_law("hope", None, Constant(1.0)) == ""
    for policy in ("synchronous", "k-sync", "k-async"):
        assert "a straggler is not like the others" in no_law(policy, constant(policy, 3), Straggler(EXPONENTIAL, 0, 9))


def test_threads_that_are_not_waited_for_cannot_be_interrupted() -> None:
    for policy in ("k-sync", "k-batch-sync", "backup-workers"):
        assert "cannot be interrupted" in no_law(policy, 3, EXPONENTIAL, virtual=False)
        assert seconds(policy, 3, 8, EXPONENTIAL, virtual=True).value is not None
    everybody = seconds("synchronous", None, 8, EXPONENTIAL, virtual=False)
    assert seconds("k-sync", 8, 8, EXPONENTIAL, virtual=False) == everybody
    assert seconds("backup-workers", 0, 8, EXPONENTIAL, virtual=False) == everybody


def test_a_bound_is_called_one() -> None:
    assert seconds("k-async", 3, 8, ShiftedExponential(0.1, 0.1), virtual=True).bound
    assert not seconds("k-async", 3, 8, EXPONENTIAL, virtual=True).bound
    assert "at most" in predict("k-async", 3, 8, Constant(0.01), virtual=True).words
    assert staleness("stale-synchronous", 2, 8).bound


def test_the_words_say_that_real_runs_compute_in_addition() -> None:
    virtual = predict("asynchronous", None, 8, EXPONENTIAL, virtual=True)
    real = predict("asynchronous", None, 8, EXPONENTIAL, virtual=False)
    assert real.words == f"{virtual.words} + arithmetic"
    assert real.pace(3.0, 1000) == "3 ms per update (predicted 1.25 ms + arithmetic)"
    assert virtual.pace(3.0, 1000) == "3 ms per update (predicted 1.25 ms)"
    assert virtual.pace(0.0, 0) == ""


def test_the_words_say_plainly_that_there_is_no_law() -> None:
    none = predict("stale-synchronous", 2, 8, EXPONENTIAL, virtual=True)
    assert none.words == "each staleness at most 35 · no law for the time per update under this policy"
    assert none.pace(3.0, 1000) == "3 ms per update"
    odd = predict("hope", None, 8, None, virtual=False).words
    assert odd.startswith("no law for the staleness under this policy · no law for the time per update")


@pytest.mark.parametrize(("policy", "number"), CHOICES)
def test_a_header_gives_the_same_law(policy: str, number: int) -> None:
    header = Header("simulate", 8, policy=str(policy_of(policy, number)))
    assert of_header(header) == staleness(policy, constant(policy, number), 8)


@pytest.mark.parametrize("changed", [{"counterfactual": {"without": [1]}}, {"remedy": DropAbove(3).describe()}])
def test_a_run_with_gradients_left_out_has_no_law(changed: dict[str, object]) -> None:
    assert of_header(Header("replay", 8, **changed)).value is None  # type: ignore[arg-type]
    assert of_header(Header("", 1, policy="")).value is None


def test_where_gradients_are_dropped_there_is_no_law_but_where_nothing_is_stale() -> None:
    none = predict("asynchronous", None, 8, EXPONENTIAL, virtual=True, dropping=True)
    assert none.words == "no law for staleness and time: gradients are dropped"
    assert none.pace(3.0, 1000) == "3 ms per update"
    # And rightly so: that law would be far off.
    run = SimulatedRun(Quadratic(), 8, Asynchronous(), EXPONENTIAL, 0.01, remedy=DropAbove(2))
    run.start(2000)
    run.advance()
    whole = predict("asynchronous", None, 8, EXPONENTIAL, virtual=True)
    assert run.trace.mean_staleness < 0.5 * whole.staleness.value  # type: ignore[operator]
    assert run.trace.seconds / 2000 > 1.5 * whole.seconds.value  # type: ignore[operator]
    for policy in NOT_STALE:
        arguments = (policy, constant(policy, 2), 8, EXPONENTIAL)
        assert predict(*arguments, virtual=True, dropping=True) == predict(*arguments, virtual=True)
        assert of_header(Header("", 8, policy=str(policy_of(policy, 2)), remedy=DropAbove(3).describe())) == Law(0.0)


def test_access_does_not_change_what_is_counted(eight_devices: list[str]) -> None:
    # Versions are drawn one by one whatever becomes of the values, so the identity behind the law is exact.
    for access in ("consistent", "lock_free", "read_modify_write"):
        made = Configuration(threads=4, problem="quadratic", access=access, updates=200)
        assert made.prediction == Configuration(threads=4, problem="quadratic", updates=200).prediction
        trace = made.trainer().fit(200)  # type: ignore[union-attr]
        assert trace.audit() == []
        assert trace.flights.age.sum() <= made.prediction.staleness.value * trace.updates  # type: ignore[operator]


def test_a_written_schedule_says_its_own_staleness() -> None:
    made = read_off(schedule_from("0r 1r 1a 0a"))
    assert made.words == (
        "mean staleness of the schedule = 0.5 · no law for the time per update: each event is one virtual second"
    )
    assert made.pace(4.0, 2) == ""
    assert of_header(schedule_from("0r 1r 1a 0a").header) == Law(why="it stands in the schedule")
    assert Configuration(mode="written", schedule="0r 1r 1a 0a").prediction == made


@pytest.mark.parametrize("policy", ["k-async (k 9)", "k-batch-async (k 0)", "stale-synchronous (bound 99999999999)"])
def test_a_header_that_cannot_be_has_no_law(policy: str) -> None:
    assert of_header(Header("AsyncTrainer", 4, policy=policy)).why == "the policy does not fit so many workers"


def test_the_dashboard_asks_for_what_it_will_run() -> None:
    towers = Configuration(mode="towers", threads=9, gpus=4, duration_law="uniform", policy="k-sync").prediction
    assert towers == predict("synchronous", None, 4, duration_of("uniform", 0.01), virtual=False)
    threads = Configuration(threads=6, policy="k-async", constant=3).prediction
    assert threads == predict("k-async", 3, 6, None, virtual=False)
    simulated = Configuration(mode="simulated", threads=600, duration_law="exponential").prediction
    assert simulated.staleness.value == 599
    assert simulated.seconds.value == pytest.approx(0.01 / 600)


@pytest.mark.parametrize(
    ("given", "words"), [(0.000_123_4, "0.123 ms"), (0.0999, "99.9 ms"), (0.0, "0 ms"), (2, "2000 ms")]
)
def test_times_have_three_digits(given: float, words: str) -> None:
    assert milliseconds(given) == words


def test_the_prediction_follows_the_controls(lab: Lab) -> None:
    assert "mean staleness N - 1 = 1 · no law for the time per update: real durations" in lab.prediction
    lab._controls["threads"].value = 8
    lab._controls["duration_law"].value = "exponential"
    assert "mean staleness N - 1 = 7 · 1.25 ms per update + arithmetic" in lab.prediction
    lab._controls["policy"].value = "stale-synchronous"
    assert "each staleness at most 35 · no law for the time per update under this policy" in lab.prediction
    lab._controls["mode"].value = "towers"
    lab._controls["gpus"].value = 4
    assert "every staleness 0 · 20.8 ms per update + arithmetic" in lab.prediction
    lab._controls["updates"].value = 0
    assert "cannot be run: updates must be a whole number from 1 to 1000000000, got 0" in lab.prediction


def test_what_is_predicted_is_drawn_before_the_run_and_stays(lab: Lab, puppets: list[Puppet]) -> None:
    def line() -> list[float]:
        (found,) = [t for t in lab._view.figure.data if t.name == "N - 1"]
        return list(found.x)

    assert line() == [1, 1]
    lab._controls["threads"].value = 6
    assert lab.wait(LONG)
    assert line() == [5, 5]
    puppet = begin(lab, puppets)
    assert line() == [5, 5]
    lab._controls["threads"].value = 9  # Of the next run: this one keeps its own.
    assert done(lab)
    assert line() == [5, 5]
    puppet.go(60)
    assert lab.wait(LONG)
    lab._reset.click()
    assert lab.wait(LONG)
    assert line() == [8, 8]
