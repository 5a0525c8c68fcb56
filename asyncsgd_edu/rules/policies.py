"""Who may read, whose gradients are averaged, whose are thrown away, who must wait.

Nothing here knows about threads, time, chance or TensorFlow: the simulator and the
trainers ask the same object, so they cannot disagree. A policy and its state are frozen.

| policy | who goes into an update, and who reads when | source |
|---|---|---|
| Asynchronous | each gradient at once, alone; its worker reads again, nobody waits | Dutta et al. 2018 |
| Synchronous | one gradient of every worker, averaged; then all read | Dutta et al. 2018 |
| KSync(k) | the first k workers; the others' gradients are cancelled and all read | Dutta et al. 2018 |
| KBatchSync(k) | the first k gradients, whoever delivers starts another; then cancel, all read | Dutta et al. 2018 |
| KAsync(k) | the first k workers, which then read; the others go on with what they have | Dutta et al. 2018 |
| KBatchAsync(k) | the first k gradients; whoever delivers reads again at once | Dutta et al. 2018 |
| StaleSynchronous(bound) | each at once; who is more than `bound` ahead of the slowest waits | Ho et al. 2013 |
| BackupWorkers(spare) | KSync of all workers but `spare` | Chen et al. 2016 |

Dutta et al. 2018: arXiv 1803.01113; Chen et al. 2016: arXiv 1604.00981; Ho et al. 2013:
"More effective distributed ML via a stale synchronous parallel parameter server" (NeurIPS).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from asyncsgd_edu.rules.arguments import whole_number

MOST_WORKERS = 10_000
MOST_AHEAD = 10**9  # Iterations.

State = TypeVar("State")


class Decision(NamedTuple):
    """What happens now that a gradient is ready, in this order.

    `apply`: workers whose ready gradients are averaged into one update, in order of
    arrival; a worker with two ready gradients is named twice. Empty: no update now.
    `drop`: workers whose gradient, still being computed, is thrown away.
    `read`: workers that read now, after the update if there is one. One that is dropped and
    cannot be interrupted reads when it comes back; nobody asks the policy about its late gradient.
    """

    apply: tuple[int, ...] = ()
    drop: tuple[int, ...] = ()
    read: tuple[int, ...] = ()


class Policy(ABC, Generic[State]):
    """A rule: `begin`, when all workers read, then `ready` for each gradient that arrives."""

    name: ClassVar[str]

    @abstractmethod
    def begin(self, workers: int) -> State:
        """The state before the first gradient. Raises ValueError where the rule does not fit so many workers."""

    @abstractmethod
    def ready(self, state: State, worker: int) -> tuple[State, Decision]:
        """The next state, and what happens now that a gradient of `worker` is ready."""

    def describe(self) -> dict[str, object]:
        """The rule and its constants, ready for JSON."""
        return {"policy": self.name, **vars(self)}

    def __str__(self) -> str:
        constants = ", ".join(f"{name} {value}" for name, value in vars(self).items())
        return f"{self.name} ({constants})" if constants else self.name


class Arrived(NamedTuple):
    """All workers, and those whose gradient is ready for the next update, in order of arrival."""

    workers: tuple[int, ...]
    ready: tuple[int, ...]


class Averaging(Policy[Arrived]):
    """Wait for so many gradients and average them: every rule of the table but stale-synchronous.

    They differ in how many (`gradients`), whether the rest are cancelled (`cancels`) and
    whether a worker that has delivered goes on at once or waits for the update (`goes_on`).
    """

    cancels: ClassVar[bool]
    goes_on: ClassVar[bool]

    @abstractmethod
    def gradients(self, workers: int) -> int:
        """Gradients in an update. Raises ValueError if there are too few workers for it."""

    def begin(self, workers: int) -> Arrived:
        """No gradient is ready."""
        workers = whole_number("workers", workers, 1, MOST_WORKERS)
        self.gradients(workers)
        return Arrived(tuple(range(workers)), ())

    def ready(self, state: Arrived, worker: int) -> tuple[Arrived, Decision]:
        """Wait for more, or update.

        >>> rule = KSync(2)
        >>> state, decision = rule.ready(rule.begin(3), 2)
        >>> decision
        Decision(apply=(), drop=(), read=())
        >>> rule.ready(state, 0)[1]
        Decision(apply=(2, 0), drop=(1,), read=(0, 1, 2))
        """
        workers, ready = state.workers, (*state.ready, worker)
        if len(ready) < self.gradients(len(workers)):
            return Arrived(workers, ready), Decision(read=(worker,) if self.goes_on else ())
        # Those who deliver and go on are computing again, all but the one that came last.
        idle = {worker} if self.goes_on else set(ready)
        if self.cancels:
            return Arrived(workers, ()), Decision(ready, tuple(w for w in workers if w not in idle), workers)
        return Arrived(workers, ()), Decision(ready, (), (worker,) if self.goes_on else ready)


@dataclass(frozen=True)
class Asynchronous(Averaging):
    """Every gradient is applied at once, alone; nobody waits for anybody.

    >>> Asynchronous().ready(Asynchronous().begin(4), 2)[1]
    Decision(apply=(2,), drop=(), read=(2,))
    """

    name, cancels, goes_on = "asynchronous", False, True

    def gradients(self, workers: int) -> int:
        """One."""
        return 1


@dataclass(frozen=True)
class Synchronous(Averaging):
    """Wait for everybody, average, all read: the slowest sets the pace and nothing is stale."""

    name, cancels, goes_on = "synchronous", True, False

    def gradients(self, workers: int) -> int:
        """One of each worker."""
        return workers


@dataclass(frozen=True)
class FirstK(Averaging):
    """What the four K rules share: k, from 1 to the number of workers."""

    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", whole_number("k", self.k, 1, MOST_WORKERS))

    def gradients(self, workers: int) -> int:
        """As many as k. Raises ValueError if that is more than there are workers."""
        if self.k > workers:
            raise ValueError(f"{self.name} needs k from 1 to the number of workers, got k {self.k}, workers {workers}")
        return self.k


@dataclass(frozen=True)
class KSync(FirstK):
    """Average the first k workers' gradients, cancel the others' and let all read: no gradient is stale."""

    name, cancels, goes_on = "k-sync", True, False


@dataclass(frozen=True)
class KBatchSync(FirstK):
    """Average the first k gradients of a version, several of a fast worker if it is that fast; then all read."""

    name, cancels, goes_on = "k-batch-sync", True, True


@dataclass(frozen=True)
class KAsync(FirstK):
    """Average the first k workers' gradients and let these read; the others go on with an older version."""

    name, cancels, goes_on = "k-async", False, False


@dataclass(frozen=True)
class KBatchAsync(FirstK):
    """Average every k gradients that arrive; a worker never waits. Also known as n-softsync, n = workers / k."""

    name, cancels, goes_on = "k-batch-async", False, True


@dataclass(frozen=True)
class BackupWorkers(Averaging):
    """Synchronous, without waiting for the last `spare` workers."""

    spare: int

    name, cancels, goes_on = "backup-workers", True, False

    def __post_init__(self) -> None:
        object.__setattr__(self, "spare", whole_number("spare", self.spare, 0, MOST_WORKERS - 1))

    def gradients(self, workers: int) -> int:
        """One of each worker but the spare ones. Raises ValueError if that leaves nobody."""
        if self.spare >= workers:
            raise ValueError(
                f"{self.name} needs spare below the number of workers, got spare {self.spare}, workers {workers}"
            )
        return workers - self.spare


class Progress(NamedTuple):
    """Iterations that each worker has done, and who waits for the slowest, in order of arrival."""

    done: tuple[int, ...]
    waiting: tuple[int, ...]


@dataclass(frozen=True)
class StaleSynchronous(Policy[Progress]):
    """Apply at once, but let nobody start when it is more than `bound` iterations ahead of the slowest.

    >>> rule = StaleSynchronous(0)
    >>> state, decision = rule.ready(rule.begin(2), 1)
    >>> decision
    Decision(apply=(1,), drop=(), read=())
    >>> rule.ready(state, 0)[1]
    Decision(apply=(0,), drop=(), read=(1, 0))
    """

    bound: int

    name = "stale-synchronous"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", whole_number("bound", self.bound, 0, MOST_AHEAD))

    def begin(self, workers: int) -> Progress:
        """Nobody has done anything."""
        return Progress((0,) * whole_number("workers", workers, 1, MOST_WORKERS), ())

    def ready(self, state: Progress, worker: int) -> tuple[Progress, Decision]:
        """Apply the gradient; those who may go on read, its own worker included."""
        done = (*state.done[:worker], state.done[worker] + 1, *state.done[worker + 1 :])
        furthest = min(done) + self.bound
        held = (*state.waiting, worker)
        free = tuple(w for w in held if done[w] <= furthest)
        return Progress(done, tuple(w for w in held if done[w] > furthest)), Decision((worker,), (), free)


def check_policy(policy: object) -> Policy[Any]:
    """Return `policy` when it is one; raise TypeError otherwise."""
    if isinstance(policy, Policy):
        return policy
    raise TypeError(f"policy must be a policy such as Asynchronous() or KSync(4), got {policy!r}")
