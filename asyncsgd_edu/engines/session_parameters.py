"""The shared variables of a session: what a read sees, what an apply does, and which version that is.

The same two counters as in `parameters`, in a graph of 2016, where nothing has an order
but what control dependencies give it. `started` numbers the updates that were let in, which is also what
stops a run at its limit; `landed` counts those that are wholly in the variables, and that count is the version.
Nothing guards the variables but what TensorFlow does for each single one.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncsgd_edu.engines.parameters import CEILING, Applied, Read
from asyncsgd_edu.quiet import tf

v1 = tf.compat.v1
CPU = "/device:CPU:0"  # Of the counters and timestamps.
# A thread does what it runs itself, as it would in Python. By default TensorFlow has a pool of as many threads as
# there are cores, and steps that hang would keep all others waiting, a stop included. (A step that spans two
# devices takes from the pool all the same; the counters, on one, never do.)
HERE = v1.RunOptions(inter_op_thread_pool=-1)


class SessionParameters:
    """Variables in the present graph that several threads read and update, counted.

    `initial` are float32 arrays; the variables lie on the device `home`. `optimizer` is one of
    `tf.compat.v1.train`, for this graph. Build all reads and applies, then `open` the session.
    """

    def __init__(self, initial: Sequence[np.ndarray], optimizer: Any, home: str) -> None:
        self._initial, self._optimizer, self._home = initial, optimizer, home
        self.variables()
        with tf.device(CPU), v1.variable_scope("versions"):
            self._started, self._landed, self._limit = (
                v1.get_variable(name, [], tf.int64, v1.zeros_initializer(), trainable=False, use_resource=True)
                for name in ("started", "landed", "limit")
            )

    def variables(self) -> list[Any]:
        """The variables: made by who asks first, the same for everybody who asks again."""
        with tf.device(self._home), v1.variable_scope("parameters", reuse=v1.AUTO_REUSE):
            # Resource variables: a read is a copy. With 2016's reference variables a gradient goes on reading what
            # others write, so it has no read version.
            return [
                v1.get_variable(f"parameter_{i}", initializer=value, use_resource=True)
                for i, value in enumerate(self._initial)
            ]

    def read(self) -> Read:
        """Read all variables (graph op); at least `version` updates are in each of them.

        `spread` is 0 for a single variable, which is read as a whole. For several it is an upper bound,
        since nothing says which updates each of them had: those let in by the end of the read, less those that
        had landed at its start.
        """
        variables = self.variables()
        with tf.device(CPU):
            version = self._landed.read_value()
        with tf.control_dependencies([version]), tf.device(self._home):
            values = [variable.read_value() for variable in variables]
        with tf.control_dependencies(values), tf.device(CPU):
            let_in = tf.minimum(self._started.read_value(), self._limit.read_value())
            spread = tf.maximum(let_in - version, 0) if len(values) > 1 else tf.zeros([], tf.int64)
            read_at = tf.timestamp()
        # Nobody is given the values before that: a graph runs in any order that is left open.
        with tf.control_dependencies([spread, read_at]), tf.device(self._home):
            return Read([tf.identity(value) for value in values], version, spread, read_at)

    def apply(self, gradient: Sequence[tf.Tensor], loss: tf.Tensor) -> Applied:
        """Apply the gradient with the optimizer (graph op), unless its loss is not finite or the limit is reached."""
        pairs = list(zip(gradient, self.variables(), strict=True))
        step = v1.train.get_global_step()  # None, unless the optimizer has one.

        def update() -> tuple[tf.Tensor, tf.Tensor]:
            with tf.control_dependencies([self._optimizer.apply_gradients(pairs, global_step=step)]):
                return _count(self._landed), tf.constant(True)

        def leave() -> tuple[tf.Tensor, tf.Tensor]:
            return self._landed.read_value(), tf.constant(False)

        def enter() -> tuple[tf.Tensor, tf.Tensor]:
            return tf.cond(_count(self._started) < self._limit.read_value(), update, leave)

        # The gradient first: an update that is let in must not wait for it, or others would count it as under way.
        with tf.control_dependencies(gradient), tf.device(CPU):
            version, done = tf.cond(tf.math.is_finite(loss), enter, leave)
            with tf.control_dependencies([version]):
                return Applied(version, done, tf.timestamp())

    def open(self) -> Any:
        """Complete the graph, and return its session with everything at its start."""
        with tf.device(CPU):
            self._new_limit = v1.placeholder(tf.int64, [])
            self._allow = [self._started.assign(self._landed.read_value()).op, self._limit.assign(self._new_limit).op]
            self._close = self._limit.assign(tf.zeros([], tf.int64)).op
            self._version = self._landed.read_value()
        self._values = self.read().values
        self._start = v1.global_variables_initializer()
        graph = v1.get_default_graph()
        graph.finalize()
        self._session = v1.Session(graph=graph)
        self.reset()
        return self._session

    def _run(self, fetches: Any, feeds: dict[Any, Any] | None = None) -> Any:
        return self._session.run(fetches, feeds, options=HERE)

    @property
    def version(self) -> int:
        """Updates that are in the parameters now."""
        return int(self._run(self._version))

    def allow(self, limit: int) -> None:
        """Let updates in up to version `limit`, none before this; call with no worker about."""
        self._run(self._allow, {self._new_limit: limit})

    def hurry(self, wanted: bool) -> None:
        """Nothing: a call is one step here."""

    def close(self) -> None:
        """Let no further update in, whoever may still come."""
        self._run(self._close)

    def values(self) -> list[np.ndarray]:
        """Copies of the parameters, read as a worker reads them."""
        return [np.array(value) for value in self._run(self._values)]

    def reset(self) -> None:
        """Return variables, slots and counters to where they started."""
        self._run(self._start)

    def lost(self) -> tuple[int, ...]:
        """Nothing is said: a stamp would have to go through the optimizer, and most of them would change it."""
        return ()


def _count(counter: Any) -> tf.Tensor:
    """Atomic fetch-and-increment: the number before, int64 scalar. No two callers get the same."""
    return tf.raw_ops.ResourceCountUpTo(resource=counter.handle, limit=CEILING, T=tf.int64)
