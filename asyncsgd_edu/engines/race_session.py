"""The ways of 2016: reference variables in a graph, and threads that run its session.

A reference variable has no copy-on-write: whoever reads it reads the buffer that others
write. (`SessionTrainer`, which logs, uses resource variables in its graph.)
"""

from collections.abc import Callable

import numpy as np

from asyncsgd_edu.engines.race_ways import CPU, Built, Operation, Way, in_order, probes, raw
from asyncsgd_edu.quiet import tf

v1 = tf.compat.v1


def _session(update: Callable[[tf.Tensor, tf.Tensor], Operation], value: float = -1.0) -> Callable[[int], Built]:
    """Ways that update A and then B, reference variables, with `update(variable, gradient)`."""

    def build(elements: int) -> Built:
        with tf.Graph().as_default() as graph, tf.device(CPU):
            both = [v1.Variable(tf.zeros([elements]), name=name, use_resource=False) for name in ("a", "b")]
            gradient = tf.fill([elements], value)
            seen = _look(both, elements)
            with tf.control_dependencies([seen]):
                done = in_order(lambda variable: update(variable, gradient), both)
            with tf.control_dependencies([done]):
                step = tf.identity(seen)
            start = v1.global_variables_initializer()
        session = v1.Session(graph=graph)
        session.run(start)

        def values() -> list[np.ndarray]:
            return [np.array(value) for value in session.run(both)]

        def reset() -> None:
            session.run(start)

        # A callable: session.run would look up the fetches anew in every step.
        return Built(session.make_callable(step), values, reset)

    return build


def _look(variables: list[tf.Variable], elements: int) -> tf.Tensor:
    """Copy one variable after the other, each in a single pass, and return its elements at the probes."""
    seen: list[tf.Tensor] = []
    for variable in variables:
        with tf.control_dependencies(seen):
            seen.append(raw.DeepCopy(x=variable))
    return tf.stack([tf.gather(values, probes(elements)) for values in seen])


def _assign_add(locked: bool) -> Callable[[int], Built]:
    return _session(lambda v, g: v1.assign_add(v, g, use_locking=locked), 1.0)


def _gradient_descent(locked: bool) -> Callable[[int], Built]:
    return _session(lambda v, g: v1.train.GradientDescentOptimizer(1.0, use_locking=locked).apply_gradients([(g, v)]))


def _scatter_sub(locked: bool) -> Callable[[int], Built]:
    return _session(lambda v, g: v1.scatter_sub(v, tf.range(g.shape[0]), g, use_locking=locked))


WAYS = (
    Way("ref_assign_add", "2016: tf.assign_add, unlocked", _assign_add(False)),
    Way("ref_assign_add_locked", "2016: tf.assign_add, locked", _assign_add(True)),
    Way("ref_descent", "2016: GradientDescentOptimizer, unlocked", _gradient_descent(False)),
    Way("ref_descent_locked", "2016: GradientDescentOptimizer, locked", _gradient_descent(True)),
    Way("ref_scatter_sub", "2016: tf.scatter_sub, unlocked", _scatter_sub(False)),
    Way("ref_scatter_sub_locked", "2016: tf.scatter_sub, locked", _scatter_sub(True)),
)
