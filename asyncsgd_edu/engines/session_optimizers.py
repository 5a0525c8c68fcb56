"""An optimizer of 2016, checked, for the graph of one trainer.

Such an optimizer makes its slots in the graph where it is first applied, and remembers them and
the graph. So a trainer takes one that has not been used and works with a copy, or lets a function make one.
"""

import copy
from typing import Any

import numpy as np

from asyncsgd_edu.engines.optimizers import DEFAULT_LEARNING_RATE
from asyncsgd_edu.quiet import keras, tf
from asyncsgd_edu.rules.arguments import positive_number

v1 = tf.compat.v1
WANTED = (
    "optimizer must be a tf.compat.v1.train optimizer such as tf.compat.v1.train.GradientDescentOptimizer(0.05), "
    "or a function without arguments that makes one"
)


def check_optimizer(optimizer: object) -> None:
    """Raise TypeError or ValueError for what cannot be an optimizer here, before there is a graph."""
    if isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(f"{WANTED}, got {optimizer!r} of Keras, which AsyncTrainer and TowerTrainer take")
    if isinstance(optimizer, v1.train.Optimizer):
        _check(optimizer, None)
    elif optimizer is not None and not callable(optimizer):
        raise TypeError(f"{WANTED}, got {optimizer!r}")


def own_optimizer(optimizer: Any) -> Any:
    """The optimizer for the present graph: a copy of one, what a function makes, GradientDescent(0.05) for None.

    A copy, so that two trainers can be given one object, and so that it does not keep their graphs.
    A function is called here, within the graph, so that it can make a decaying learning rate: one of
    `tf.compat.v1.train.get_or_create_global_step()` is counted up with every update.

    Raises TypeError for anything else, Keras optimizers included, for one that has been used in another graph or
    holds a tensor of one, and for one that makes workers wait; ValueError for a learning rate that is not finite
    and above 0.
    """
    check_optimizer(optimizer)
    if optimizer is None:
        return v1.train.GradientDescentOptimizer(DEFAULT_LEARNING_RATE)
    if isinstance(optimizer, v1.train.Optimizer):
        try:
            return copy.deepcopy(optimizer)
        except TypeError as error:  # It holds a lock, a file or the like.
            raise TypeError(f"{WANTED}; {type(optimizer).__name__} cannot be copied: {error}") from error
    made = optimizer()
    if not isinstance(made, v1.train.Optimizer):
        raise TypeError(f"{WANTED}, got {optimizer!r}, which made {made!r}")
    _check(made, v1.get_default_graph())
    return made


def describe(optimizer: Any) -> dict[str, Any]:
    """Class name and the numbers that it was made with, for a trace's header.

    >>> describe(v1.train.MomentumOptimizer(0.05, 0.9))
    {'name': 'MomentumOptimizer', 'learning_rate': 0.05, 'momentum': 0.9}
    """
    settings = {("learning_rate" if k == "_lr" else k.strip("_")): v for k, v in vars(optimizer).items()}
    numbers = {k: v for k, v in settings.items() if isinstance(v, int | float | np.number) and v is not False}
    kept = {k: v.item() if isinstance(v, np.number) else v for k, v in numbers.items()}
    return {"name": type(optimizer).__name__, **kept}


def _check(optimizer: Any, graph: Any) -> None:
    """Raise TypeError or ValueError unless `optimizer` is new and holds no tensor but those of `graph`."""
    name, held = type(optimizer).__name__, vars(optimizer)
    if isinstance(optimizer, v1.train.SyncReplicasOptimizer):
        raise TypeError("SyncReplicasOptimizer makes workers wait for each other: pass the optimizer that it wraps")
    # An eager tensor has no graph, which is the wrong one too.
    strange = [k for k, v in held.items() if _is_tensor(v) and (graph is None or getattr(v, "graph", None) != graph)]
    if strange or optimizer.get_slot_names():
        trace = ", ".join(strange) or "slots"
        raise TypeError(
            f"this {name} has been used in another graph, or made with a tensor of one ({trace}): "
            f"pass a new one, or a function such as lambda: tf.compat.v1.train.{name}(...), which is called in this "
            "trainer's graph"
        )
    rate = held.get("_learning_rate", held.get("_lr"))
    if rate is not None and not callable(rate) and not _is_tensor(rate):
        positive_number("learning_rate", rate)


def _is_tensor(value: object) -> bool:
    return isinstance(value, tf.Tensor | tf.Variable)
