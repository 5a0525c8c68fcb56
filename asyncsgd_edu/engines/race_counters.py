"""What Keras 3 keeps beside the parameters, and ways to draw a number that nobody else has.

A slot that Keras assigns is read, computed and written, and so is its count of iterations.
"""

from collections.abc import Callable

from asyncsgd_edu.engines.parameters import CEILING
from asyncsgd_edu.engines.race_ways import CPU, Built, Operation, Way, built, pair, raw, traced
from asyncsgd_edu.quiet import keras, tf


def _keras(
    optimizer: keras.optimizers.Optimizer, elements: int
) -> tuple[list[tf.Variable], Callable[[], Operation], list[tf.Variable]]:
    """Two variables, a graph op that applies the gradient -1 to both, and everything that the optimizer keeps."""
    both, gradient = pair(elements)
    optimizer.build(both)

    def update() -> Operation:
        optimizer.apply([gradient, gradient], both)
        return tf.constant(True)

    return both, update, [kept.value for kept in optimizer.variables]


def _parameters(elements: int) -> Built:
    both, update, kept = _keras(keras.optimizers.SGD(1.0), elements)
    return traced(both, update, kept)


def _momentum(elements: int) -> Built:
    # Momentum 1, of no use for training, makes the slot count: m - (-1). With 0.9 it would forget what it lost.
    optimizer = keras.optimizers.SGD(1.0, momentum=1.0)
    both, update, kept = _keras(optimizer, elements)
    slots = [slot.value for slot in optimizer.momentums]
    return traced(slots, update, [*both, *(variable for variable in kept if all(variable is not s for s in slots))])


def _iterations(make: Callable[[], keras.optimizers.Optimizer]) -> Callable[[int], Built]:
    def build(elements: int) -> Built:
        optimizer = make()
        both, update, kept = _keras(optimizer, elements)
        count = optimizer.iterations.value
        return built(update, [count], [*both, *(variable for variable in kept if variable is not count)])

    return build


def _ticket(draw: Callable[[tf.Variable], tf.Tensor]) -> Callable[[int], Built]:
    def build(_: int) -> Built:
        with tf.device(CPU):
            counter = tf.Variable(0, dtype=tf.int64, name="tickets")
        return built(lambda: draw(counter), [counter])

    return build


def _count_up_to(counter: tf.Variable) -> tf.Tensor:
    return raw.ResourceCountUpTo(resource=counter.handle, limit=CEILING, T=tf.int64)


WAYS = (
    Way("keras_sgd", "keras SGD().apply: the variables", _parameters),
    Way("keras_momentum", "keras SGD(momentum=1).apply: its momentum slots", _momentum),
    Way("keras_sgd_iterations", "keras SGD().iterations", _iterations(lambda: keras.optimizers.SGD(1.0)), "counter"),
    Way("keras_adam_iterations", "keras Adam().iterations", _iterations(lambda: keras.optimizers.Adam(1.0)), "counter"),
    Way("ticket_assign_add", "v.assign_add(1, read_value=True) as a ticket",
        _ticket(lambda v: v.assign_add(1, read_value=True)), "ticket"),
    Way("ticket_count_up_to", "ResourceCountUpTo as a ticket", _ticket(_count_up_to), "ticket"),
)  # fmt: skip
