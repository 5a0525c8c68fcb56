"""The arithmetic of a schedule, done again on one thread.

A trace says in which order gradients were applied, which version each was
read at and which batch it used. That is all that the result depends on, so the
same race can be run again with another optimizer or learning rate, and a
simulated or written schedule can be given losses.
"""

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from asyncsgd_edu.engines import counterfactual, devices, optimizers
from asyncsgd_edu.engines.arithmetic import Replayer
from asyncsgd_edu.engines.plan import Plan
from asyncsgd_edu.header import Ended
from asyncsgd_edu.problems.problem import Problem, check_problem
from asyncsgd_edu.rules.remedies import Remedy, check_remedy
from asyncsgd_edu.trace import Trace

LARGEST_PATH = 1000  # Parameters: a path of a million rows of them would fill a laptop already.


def never() -> bool:
    """Nobody asks to stop."""
    return False


def ignored(losses: np.ndarray) -> None:
    """Nobody looks on."""


def replay(
    trace: Trace,
    problem: Problem,
    optimizer: Any = None,
    learning_rate: float | None = None,
    remedy: Remedy | None = None,
    *,
    fresh: Iterable[int] = (),
    without: Iterable[int] = (),
    measure_gap: bool = False,
    measure_path: bool = False,
    stop: Callable[[], bool] = never,
    seen: Callable[[np.ndarray], None] = ignored,
) -> Trace:
    """Do the arithmetic of `trace` on `problem`; returns its rows with `loss` filled, and `parameters`.

    `optimizer` is a Keras optimizer, SGD(0.05) by default, with `learning_rate` in place of
    its own if given; `remedy` corrects stale gradients. What else could have been: `fresh` workers are never
    stale, `without` workers are not there; versions are counted anew. The initial parameters and
    batches come from the trace's seed. Gradients of one update are averaged; dropped ones are
    computed for their loss only. A loss that is not finite ends the replay as `diverged` there. `stop` is asked a
    few times a second: once it says so, the replay ends as `stopped` with the rows done so far. Before each
    asking `seen` is given the losses of the rows that were done since the one before, in order.

    With `measure_gap` the result's `measured` has, for each row, the root mean square `gap` between
    the parameters read and those applied to, and the `gradient_error` that makes on the same batch. With
    `measure_path` it has the parameters themselves, flat, shape [rows, size]: those `read`, and those `written` (that
    is, after the row), for problems of at most 1,000 of them.

    The result is bit for bit that of a run with `consistent` access. Under `lock_free` access a read may have
    mixed versions, and additions may have come in another order, so there it is close but not equal; under
    `read_modify_write` the run has lost updates that the replay makes.

    On a CPU nothing in TensorFlow has to be switched on for that. (A GPU adds up in an order of its own, unless
    `tf.config.experimental.enable_op_determinism()` is called before anything runs; not tried here.)

    Warns when the trace is of another problem, or of one with other settings. Raises ValueError for a trace
    that breaks a law and for a worker that is not in it.
    """
    check_problem(problem)
    check_replayable(trace)
    check_remedy(remedy)
    for name, asked in (("stop", stop), ("seen", seen)):
        if not callable(asked):
            raise TypeError(f"{name} must be a function, got {asked!r}")
    schedule = what_if(trace, fresh, without, remedy)
    devices.prepare()
    own = optimizers.own_copy(optimizer, learning_rate)
    warning = another_problem(trace.header.problem, problem.describe())
    if warning:
        warnings.warn(warning, stacklevel=2)
    if measure_path:
        check_small(problem, trace.header.seed)
    plan = Plan.of(schedule)
    replayer = Replayer(
        problem,
        own,
        trace.header.seed,
        plan.slots,
        device=same_device(trace),
        single=plan.single,
        remedy=remedy,
        measure=measure_gap,
        path=measure_path,
    )
    outcome = replayer.run(plan, stop, seen)
    done = len(outcome.measured)
    if done < len(schedule) and not (done and not np.isfinite(outcome.measured[-1, 0])):
        done = plan.whole(done)  # Stopped: what waits for the rest of its update is in no parameters.
    losses, gap, error = outcome.measured[:done].T
    header = replace(
        schedule.header,
        trainer="replay",
        problem=problem.describe(),
        optimizer=optimizers.describe(own),
        batch_size=problem.batch_size,
        remedy=remedy.describe() if remedy else None,
        ended=Ended("finished", in_flight=schedule.header.ended.in_flight),
    )
    columns = {**{name: column[:done] for name, column in schedule.columns.items()}, "loss": losses}
    if done and not np.isfinite(losses[-1]):
        header = replace(header, ended=Ended("diverged", version=int(schedule.read_version[done - 1])))
        # The update that it would have gone into was not made.
        made = columns["apply_version"] < schedule.flights.end[done - 1]
        columns["apply_version"] = np.where(made, columns["apply_version"], -1)
    elif done < len(schedule):
        header = replace(header, ended=Ended("stopped"))
    measured = {"gap": gap, "gradient_error": error} if measure_gap else {}
    measured |= {"read": outcome.read[:done], "written": outcome.written[:done]} if measure_path else {}
    return Trace(header, columns, outcome.parameters, measured=measured)


def another_problem(recorded: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """What is different about the problem of a trace, in a sentence; empty if nothing is, or if it names none.

    >>> another_problem({"name": "quadratic", "noise": 0.1}, {"name": "quadratic", "noise": 0.0})
    'the trace is of quadratic with noise 0.1, replayed with noise 0.0'
    """
    if not recorded:
        return ""
    if recorded.get("name") != given["name"]:
        return f"the trace is of {recorded.get('name')}, replayed on {given['name']}"
    # By way of JSON, as in a file: a tuple is a list there.
    plain = json.loads(json.dumps(dict(given)))
    for name in sorted({*recorded, *plain}):
        one, other = recorded.get(name), plain.get(name)
        if one != other:
            return f"the trace is of {plain['name']} with {name} {one}, replayed with {name} {other}"
    return ""


def same_device(trace: Trace) -> str:
    """The one device that the run was on, if this process has it: another kind adds up in another order."""
    used = set(trace.header.devices)
    return used.pop() if len(used) == 1 and used <= set(devices.available()) else "/device:CPU:0"


def check_small(problem: Problem, seed: int) -> None:
    """Raise ValueError for more parameters than a path should be made of."""
    size = sum(value.size for value in problem.initial(seed))
    if size > LARGEST_PATH:
        raise ValueError(f"measure_path is for at most {LARGEST_PATH} parameters, {problem.name} has {size}")


def what_if(trace: Trace, fresh: Iterable[int], without: Iterable[int], remedy: Remedy | None) -> Trace:
    """The schedule that is replayed: the trace's own, or what it would have been.

    Raises ValueError naming the workers there are if one of those given is not in it, or is given twice.
    """
    fresh = counterfactual.check_present("fresh", fresh, trace)
    without = counterfactual.check_present("without", without, trace)
    both = sorted(set(fresh) & set(without))
    if both:
        raise ValueError(f"worker {both[0]} cannot be both fresh and away: it is in fresh and in without")
    changes = dict(trace.header.counterfactual or {})
    if without:
        trace = counterfactual.without(trace, without)
        changes["without"] = sorted({*changes.get("without", ()), *map(int, without)})
    if fresh:
        trace = counterfactual.fresh(trace, fresh)
        changes["fresh"] = sorted({*changes.get("fresh", ()), *map(int, fresh)})
    trace = counterfactual.drop(trace, remedy)
    return Trace(replace(trace.header, counterfactual=changes or None), trace.columns)


def check_replayable(trace: Trace) -> None:
    """Raise ValueError unless the trace's rows say exactly which parameters each gradient saw."""
    if not isinstance(trace, Trace):
        raise TypeError(f"trace must be a Trace such as trainer.trace, got {trace!r}")
    if len(trace) == 0:
        raise ValueError("a trace without rows cannot be replayed")
    if trace.apply_version[trace.applied][:1].tolist() not in ([0], []):
        raise ValueError("only a trace from version 0 on can be replayed, this one begins later")
    broken = trace.audit()
    if broken:
        raise ValueError(f"a trace that breaks a law cannot be replayed: {broken[0]}")
