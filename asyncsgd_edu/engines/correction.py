"""A remedy at work: what it is given about a gradient whose turn has come.

The rule itself is in `rules.remedies`. Threads and replay build the same graph from here,
so a replayed run is corrected bit for bit as the run was.
"""

from collections.abc import Sequence

import numpy as np

from asyncsgd_edu.problems.problem import Problem
from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.remedies import Late, Remedy


class Correction:
    """`remedy` on the gradients of `problem`, with what it needs to know.

    Raises ValueError for a remedy that needs a curvature that the problem does not have.
    """

    def __init__(self, remedy: Remedy, problem: Problem, initial: Sequence[np.ndarray]) -> None:
        self.remedy, self._problem = remedy, problem
        if "curvature" in remedy.needs and problem.curvature(initial) is None:
            raise ValueError(
                f"{remedy} needs the diagonal of the Hessian, {problem.name} does not know its own: "
                f"take Quadratic(), or DelayCompensation(strength) that guesses it"
            )
        self.looks_back = "moved" in remedy.needs  # Whether the parameters that were read are needed again.
        with tf.device("/device:CPU:0"):
            self.state = [tf.Variable(0.0, dtype=tf.float64, name=name) for name in ("squares", "steps")]

    def keeps(self, staleness: tf.Tensor) -> tf.Tensor:
        """Whether a gradient of this staleness (int64 scalar) is used (graph op)."""
        return tf.convert_to_tensor(self.remedy.keeps(staleness))

    def gradients(
        self,
        gradients: Sequence[tf.Tensor],
        staleness: tf.Tensor,
        now: Sequence[tf.Tensor],
        read: Sequence[tf.Tensor],
    ) -> list[tf.Tensor]:
        """What is applied in their place, one for each parameter (graph op)."""
        tau = tf.cast(staleness, tf.float32)
        curvature = self._problem.curvature(now) if "curvature" in self.remedy.needs else None
        step = self._step() if "step" in self.remedy.needs else None
        amended = []
        for i, gradient in enumerate(gradients):
            moved = now[i] - read[i] if self.looks_back else None
            late = Late(gradient, tau, moved, step, curvature[i] if curvature is not None else None)
            amended.append(self.remedy.amend(late))
        return amended

    def observe(self, before: Sequence[tf.Tensor], after: Sequence[tf.Tensor]) -> list[tf.Operation]:
        """Count the step that an update has made (graph op)."""
        if "step" not in self.remedy.needs:
            return []
        total = tf.add_n([tf.reduce_sum(tf.square(a - b)) for a, b in zip(after, before, strict=True)])
        size = sum(int(np.prod(value.shape)) for value in before)
        squares, steps = self.state
        return [squares.assign_add(tf.cast(total / size, tf.float64)), steps.assign_add(1.0)]

    def _step(self) -> tf.Tensor:
        """Root mean square of what one update changed, so far; 1 before there was one, or where nothing moved."""
        squares, steps = (variable.read_value() for variable in self.state)
        mean = tf.cast(tf.sqrt(squares / tf.maximum(steps, 1.0)), tf.float32)
        return tf.where(mean > 0, mean, tf.ones_like(mean))
