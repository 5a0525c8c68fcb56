"""A problem's arithmetic, copied into the graph of a session.

A problem is written for TensorFlow 2 and may keep its data in eager tensors, which a
session's graph cannot hold. So its arithmetic is traced once, as a function, and copied op by op.
"""

from collections.abc import Callable
from typing import Any

from asyncsgd_edu.problems.problem import Problem
from asyncsgd_edu.quiet import tf


class Copied:
    """`function` of tensors like `specs`, returning a flat list of tensors, to be put into any graph.

    Traced now, so make it where no graph is being built. What it has captured becomes a constant
    of each copy, on the device of the copy (a graph takes up to 2 GB of them). What it does on the side,
    such as an assertion, comes before its results, as in any function. Raises TypeError if it has captured a variable.
    """

    def __init__(self, function: Callable[..., list[Any]], *specs: tf.TensorSpec) -> None:
        self._traced = tf.function(function, autograph=False).get_concrete_function(*specs)
        for kept in self._traced.captured_inputs:
            if kept.dtype in (tf.resource, tf.variant):
                raise TypeError(
                    f"the problem keeps a variable or a table ({kept.dtype.name}), and a session has only its own: "
                    "let it keep arrays or tensors"
                )

    def __call__(self, *inputs: tf.Tensor, name: str) -> list[tf.Tensor]:
        """Put a copy into the present graph, its ops called `name`/..., and return its results (graph op)."""
        traced = self._traced
        given = [*inputs, *(tf.constant(kept.numpy()) for kept in traced.captured_inputs)]
        return tf.graph_util.import_graph_def(
            traced.graph.as_graph_def(),
            input_map={inside.name: value for inside, value in zip(traced.inputs, given, strict=True)},
            return_elements=[result.name for result in traced.outputs],
            name=name,
        )


def copied_gradient(problem: Problem, seed: int) -> Copied:
    """The gradient of a problem: int64 [worker, number] and the parameters in, the loss and a gradient of each out."""

    def gradient(which: tf.Tensor, *values: tf.Tensor) -> list[tf.Tensor]:
        loss, parts = problem.gradient(values, problem.batch(which[0], which[1], seed))
        return [loss, *(tf.convert_to_tensor(part) for part in parts)]

    shapes = [tf.TensorSpec(value.shape, value.dtype) for value in problem.initial(seed)]
    return Copied(gradient, tf.TensorSpec([2], tf.int64), *shapes)
