"""What the dashboard's menus offer: policies, duration laws and remedies, each from one number, and kinds of access.

A policy or a remedy has at most one constant, a law the mean that is asked for. Pure rules: nothing
here knows a widget, a trainer or TensorFlow.
"""

from collections.abc import Callable
from typing import Any

from asyncsgd_edu.rules import policies
from asyncsgd_edu.rules.durations import Constant, Duration, Exponential, ShiftedExponential, Straggler, Uniform
from asyncsgd_edu.rules.remedies import DelayCompensation, DivideByStaleness, DropAbove, GapAware, Remedy
from asyncsgd_edu.rules.skewed_durations import Pareto

FACTOR = 10  # How many times as long the straggler takes.
# Gradients of a simulated run. They are held in memory, about half a kilobyte each while they are replayed. And
# making, checking and laying out the schedule, the parts that nobody can stop, take a second or two for so many.
MOST_GRADIENTS = 1_000_000

_WITHOUT: dict[str, Callable[[], policies.Policy[Any]]] = {
    "asynchronous": policies.Asynchronous,
    "synchronous": policies.Synchronous,
}
_WITH: dict[str, Callable[[int], policies.Policy[Any]]] = {
    "k-sync": policies.KSync,
    "k-batch-sync": policies.KBatchSync,
    "k-async": policies.KAsync,
    "k-batch-async": policies.KBatchAsync,
    "stale-synchronous": policies.StaleSynchronous,
    "backup-workers": policies.BackupWorkers,
}
POLICIES = (*_WITHOUT, *_WITH)
_NAMES = {"stale-synchronous": "bound", "backup-workers": "spare"}

_LAWS: dict[str, Callable[[float], Duration]] = {
    "constant": Constant,
    "exponential": Exponential,
    "shifted exponential": lambda mean: ShiftedExponential(mean / 2, mean / 2),
    "uniform": lambda mean: Uniform(mean / 2, 1.5 * mean),
    "pareto": lambda mean: Pareto(2.0, mean / 2),
    "straggler": lambda mean: Straggler(Constant(mean), worker=0, factor=FACTOR),
}
LAWS = ("none", *_LAWS)

# As the engines have them; here a second time, because theirs load TensorFlow.
ACCESS = ("consistent", "lock_free", "read_modify_write")
MOST_STAMPED = 2**24  # Updates, where access is not consistent.
REMEDIES = ("none", *(kind.name for kind in (DivideByStaleness, DropAbove, DelayCompensation, GapAware)))

_WAIT = {  # Controls that do nothing in a mode, whatever the others say.
    "threads": {"schedule"},
    "towers": {"threads", "policy", "access", "remedy", "schedule"},
    "simulated": {"gpus", "access", "schedule"},
    "written": {"threads", "gpus", "policy", "duration_law", "updates", "access"},
}


def idle(mode: str, policy: str, duration_law: str, remedy: str) -> set[str]:
    """The controls that do nothing while these four are as they are.

    >>> sorted(idle("threads", "k-sync", "none", "drop-above"))
    ['duration', 'schedule', 'strength']
    """
    waiting = set(_WAIT[mode])
    used = {
        "constant": "policy" not in waiting and constant_of(policy) is not None,
        "duration": "duration_law" not in waiting and duration_law != "none",
        "drop_bound": "remedy" not in waiting and remedy == DropAbove.name,
        "strength": "remedy" not in waiting and remedy == DelayCompensation.name,
    }
    return waiting | {name for name, needed in used.items() if not needed}


def constant_of(policy: str) -> str | None:
    """What the policy's one constant is called, None for a policy without one.

    >>> [constant_of(policy) for policy in ("asynchronous", "k-sync", "backup-workers")]
    [None, 'k', 'spare']
    """
    return None if policy in _WITHOUT else _NAMES.get(policy, "k")


def policy_of(policy: str, constant: int) -> policies.Policy[Any]:
    """The policy of that name. Raises TypeError or ValueError for a constant that it cannot have.

    >>> policy_of("k-sync", 4), policy_of("synchronous", 4)
    (KSync(k=4), Synchronous())
    """
    return _WITHOUT[policy]() if policy in _WITHOUT else _WITH[policy](constant)


def gradients_per_update(policy: str, constant: int, workers: int) -> int:
    """At most how many gradients begin for one update, those that are thrown away included.

    >>> [gradients_per_update(policy, 4, 100) for policy in ("asynchronous", "k-async", "k-sync", "k-batch-sync")]
    [1, 4, 100, 103]
    """
    if policy in ("asynchronous", "stale-synchronous"):
        return 1
    if policy in ("k-async", "k-batch-async"):
        return constant
    return workers + (constant - 1 if policy == "k-batch-sync" else 0)


def check_gradients(policy: policies.Policy[Any], workers: int, updates: int) -> None:
    """Raise ValueError if a simulated run of so many updates could have more than `MOST_GRADIENTS`."""
    each = gradients_per_update(policy.name, next(iter(vars(policy).values()), 0), workers)
    if each * updates > MOST_GRADIENTS:
        raise ValueError(
            f"a simulated run may have at most {MOST_GRADIENTS} gradients, got {updates} updates of up to {each}: "
            f"take fewer updates or workers, or reset a run that has gone on for long"
        )


def duration_of(law: str, mean: float) -> Duration | None:
    """The durations of that law and mean, None for "none".

    Half of a shifted exponential duration is fixed; a uniform one is from a half to
    one and a half times the mean; a Pareto one has shape 2, so no variance; worker 0 is
    the straggler, `FACTOR` times as slow as the others, whose mean it is.

    >>> duration_of("uniform", 1.0), duration_of("pareto", 1.0)
    (Uniform(low=0.5, high=1.5), Pareto(shape=2.0, scale=0.5))
    """
    return None if law == "none" else _LAWS[law](mean)


def remedy_of(remedy: str, bound: int, strength: float) -> Remedy | None:
    """The remedy of that name, None for "none"; `bound` is of drop-above and `strength` of delay-compensation.

    >>> remedy_of("drop-above", 4, 0.04), remedy_of("gap-aware", 4, 0.04)
    (DropAbove(bound=4), GapAware())
    """
    made: dict[str, Callable[[], Remedy]] = {
        DivideByStaleness.name: DivideByStaleness, GapAware.name: GapAware,
        DropAbove.name: lambda: DropAbove(bound), DelayCompensation.name: lambda: DelayCompensation(strength),
    }  # fmt: skip
    return None if remedy == "none" else made[remedy]()
