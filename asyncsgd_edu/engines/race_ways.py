"""Ways to update a variable from several threads, each as one step of a worker.

A step reads two variables, A and then B, and adds exactly 1 to every element of A and
then of B. So a worker does what a training step does, and every loss can be counted.
Nothing here knows how many threads there will be, or counts anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from asyncsgd_edu.quiet import tf

CPU = "/device:CPU:0"  # On a GPU other kernels run: what is seen here says nothing of them.
PROBES = 64  # Elements of a variable that a step reports of what it read.

raw = tf.raw_ops
Operation = Any  # A TensorFlow op or tensor.


class Built(NamedTuple):
    """A way made ready for one race.

    `step` does one step and returns what it saw: for a ladder's way float32
    [variables, probes], the elements read at `probes`; for a ticket the ticket, for a counter nothing
    of use. `values` copies the variables that are counted, `reset` sets everything to 0.
    """

    step: Callable[[], Any]
    values: Callable[[], list[np.ndarray]]
    reset: Callable[[], None]


@dataclass(frozen=True)
class Way:
    """A row of the races table: its name, how it is written, and how it is made for a number of elements.

    `kind` is `ladder`, or `counter` or `ticket` for a way that counts with one number.
    """

    name: str
    title: str
    build: Callable[[int], Built]
    kind: str = "ladder"


def probes(elements: int) -> np.ndarray:
    """Positions of the elements that a step reports: the first, the last and some evenly between; int64.

    >>> probes(3).tolist(), len(probes(200_000)), int(probes(200_000)[-1])
    ([0, 1, 2], 64, 199999)
    """
    return np.unique(np.linspace(0, elements - 1, PROBES).round().astype(np.int64))


def in_order(update: Callable[[Any], Operation], variables: Sequence[Any]) -> Operation:
    """Update one variable after the other, and return a tensor that comes once all are done (graph op)."""
    done: list[Operation] = []
    for variable in variables:
        with tf.control_dependencies(done):
            done = [update(variable)]
    with tf.control_dependencies(done):
        return tf.constant(True)


def look(variables: Sequence[tf.Variable]) -> tf.Tensor:
    """Read one variable after the other, each whole, and return its elements at the probes (graph op)."""
    seen: list[tf.Tensor] = []
    for variable in variables:
        with tf.control_dependencies(seen):
            seen.append(variable.read_value())
    return tf.stack([tf.gather(values, probes(variable.shape[0])) for values in seen])


def traced(
    watched: Sequence[tf.Variable],
    update: Callable[[], Operation],
    others: Sequence[tf.Variable] = (),
    alone: Callable[[Callable[[], Any]], Any] = lambda action: action(),
) -> Built:
    """A step that looks at the `watched` variables and then updates, as one concrete function.

    `others` are reset too; `alone` runs a whole look, and a whole update, and may guard them.
    """

    def step() -> tf.Tensor:
        seen = alone(lambda: look(watched))
        with tf.control_dependencies([seen]):
            done = alone(update)
        with tf.control_dependencies([done]):
            return tf.identity(seen)

    return built(step, watched, others)


def built(step: Callable[[], tf.Tensor], watched: Sequence[tf.Variable], others: Sequence[tf.Variable] = ()) -> Built:
    """A way whose step is a graph function over TensorFlow 2 variables."""
    first = [(variable, np.array(variable.numpy())) for variable in (*watched, *others)]

    def reset() -> None:
        for variable, value in first:
            variable.assign(value)

    with tf.device(CPU):
        concrete = tf.function(step, autograph=False).get_concrete_function()
    return Built(concrete, lambda: [np.array(variable.numpy()) for variable in watched], reset)


def pair(elements: int, gradient: float = -1.0) -> tuple[list[tf.Variable], tf.Tensor]:
    """Variables A and B, zeros, and a gradient that is the same everywhere; each float32 [elements]."""
    with tf.device(CPU):
        both = [tf.Variable(tf.zeros([elements]), name=name) for name in ("a", "b")]
        return both, tf.fill([elements], gradient)


def _each(update: Callable[[tf.Variable, tf.Tensor], Operation], gradient: float = -1.0) -> Callable[[int], Built]:
    """Ways that update A and then B with `update(variable, gradient)`."""

    def build(elements: int) -> Built:
        both, g = pair(elements, gradient)
        return traced(both, lambda: in_order(lambda variable: update(variable, g), both))

    return build


def _guarded(elements: int) -> Built:
    both, gradient = pair(elements)
    with tf.device(CPU):
        section = tf.CriticalSection(name="race")

    def update() -> Operation:
        return in_order(lambda variable: variable.assign_sub(gradient, read_value=False), both)

    return traced(both, update, alone=section.execute)


def _gradient_descent(locked: bool) -> Callable[[int], Built]:
    return _each(
        lambda variable, gradient: raw.ResourceApplyGradientDescent(
            var=variable.handle, alpha=1.0, delta=gradient, use_locking=locked
        )
    )


def _rows(gradient: tf.Tensor) -> tf.Tensor:
    """Every position of it: a sparse update that names all elements."""
    return tf.range(gradient.shape[0])


def _scatter_sub(variable: tf.Variable, gradient: tf.Tensor) -> Operation:
    # The method has an argument `use_locking` too, and ignores it: the op has none.
    return raw.ResourceScatterSub(resource=variable.handle, indices=_rows(gradient), updates=gradient)


def _sparse_descent(locked: bool) -> Callable[[int], Built]:
    # The sparse form of plain gradient descent: TensorFlow has it only with a proximal step, here of size 0.
    return _each(
        lambda variable, gradient: raw.ResourceSparseApplyProximalGradientDescent(
            var=variable.handle, alpha=1.0, l1=0.0, l2=0.0, grad=gradient, indices=_rows(gradient), use_locking=locked
        )
    )


def _sparse_adagrad(locked: bool) -> Callable[[int], Built]:
    def build(elements: int) -> Built:
        both, gradient = pair(elements)
        with tf.device(CPU):
            # Accumulators that stay 1, so that the step is 1 / sqrt(1).
            ones = {variable.ref(): tf.Variable(tf.ones([elements])) for variable in both}

        def update(variable: tf.Variable) -> Operation:
            return raw.ResourceSparseApplyAdagradV2(
                var=variable.handle, accum=ones[variable.ref()].handle, lr=1.0, epsilon=0.0, grad=gradient,
                indices=_rows(gradient), use_locking=locked, update_slots=False,
            )  # fmt: skip

        return traced(both, lambda: in_order(update, both), list(ones.values()))

    return build


WAYS = (
    Way("critical_section", "tf.CriticalSection: the read, v.assign_sub(g)", _guarded),
    Way("assign_sub", "v.assign_sub(g)", _each(lambda v, g: v.assign_sub(g, read_value=False))),
    Way("assign_add", "v.assign_add(g)", _each(lambda v, g: v.assign_add(g, read_value=False), 1.0)),
    Way("assign", "v.assign(v - g)", _each(lambda v, g: v.assign(v - g, read_value=False))),
    Way("gradient_descent", "ResourceApplyGradientDescent, unlocked", _gradient_descent(False)),
    Way("gradient_descent_locked", "ResourceApplyGradientDescent, locked", _gradient_descent(True)),
    Way("scatter_sub", "v.scatter_sub(IndexedSlices), no lock to ask for", _each(_scatter_sub)),
    Way("sparse_descent", "ResourceSparseApplyProximalGradientDescent, unlocked", _sparse_descent(False)),
    Way("sparse_descent_locked", "ResourceSparseApplyProximalGradientDescent, locked", _sparse_descent(True)),
    Way("sparse_adagrad", "ResourceSparseApplyAdagradV2, unlocked", _sparse_adagrad(False)),
    Way("sparse_adagrad_locked", "ResourceSparseApplyAdagradV2, locked", _sparse_adagrad(True)),
)
