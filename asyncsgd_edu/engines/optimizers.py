"""Optimizers: made by name, and a trainer's own, which is checked, copied and never the caller's object."""

from collections.abc import Sequence
from typing import Any

from asyncsgd_edu.engines import devices
from asyncsgd_edu.quiet import keras, tf
from asyncsgd_edu.rules.arguments import one_of, positive_number

DEFAULT_LEARNING_RATE = 0.05
NAMES = ("SGD", "Adam", "Adagrad", "RMSprop")
MULTI = getattr(keras.optimizers, "MultiOptimizer", ())  # No class at all where there is none, as in Keras 3.12.


def make(name: str, learning_rate: float, **settings: Any) -> keras.optimizers.Optimizer:
    """A new Keras optimizer by its class name, with `settings` of its own such as momentum=0.9.

    Raises ValueError naming the ones there are, and TypeError for a setting that it has not.
    """
    one_of("optimizer", name, NAMES)
    devices.prepare()  # Even an optimizer starts TensorFlow, and then no more devices can be made.
    try:
        made = getattr(keras.optimizers, name)(positive_number("learning_rate", learning_rate), **settings)
    except TypeError as error:
        raise TypeError(f"{name} does not take {', '.join(settings)}: {error}") from error
    return made


def own_copy(optimizer: object, learning_rate: float | None = None) -> keras.optimizers.Optimizer:
    """A fresh copy of a Keras optimizer, SGD(0.05) for None, with `learning_rate` in place of its own if given.

    A copy, because a trainer that resets must not change what the caller holds, and
    two trainers given one object must not share its slots. Raises TypeError for
    anything else, and ValueError for a learning rate that is not finite and above 0
    and for an optimizer that asks more of its user than to be given gradients.
    """
    if optimizer is None:
        optimizer = keras.optimizers.SGD(DEFAULT_LEARNING_RATE)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(f"optimizer must be a Keras optimizer such as keras.optimizers.SGD(0.05), got {optimizer!r}")
    _check_kept(optimizer)
    if isinstance(optimizer, MULTI):
        return _copy_of_several(optimizer, learning_rate)
    config = optimizer.get_config()
    if isinstance(config.get("learning_rate"), dict):
        # A schedule or a function, described. It has no state, so the copy may share it; its values come with time.
        config["learning_rate"] = optimizer._learning_rate
    else:
        positive_number("learning_rate", float(optimizer.learning_rate))
    if learning_rate is not None:
        config["learning_rate"] = positive_number("learning_rate", learning_rate)
    return type(optimizer).from_config(config)


def _check_kept(optimizer: keras.optimizers.Optimizer) -> None:
    """Raise ValueError for what a trainer, or a copy, could only leave out in silence."""
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        inner = type(optimizer.inner_optimizer).__name__
        raise ValueError(f"optimizer must not be a LossScaleOptimizer, as no loss is scaled here: give its {inner}")
    if optimizer.loss_scale_factor is not None:
        raise ValueError(
            f"loss_scale_factor must be None, as no loss is scaled here, got {optimizer.loss_scale_factor}"
        )
    if any(getattr(optimizer, f"_exclude_from_weight_decay{kind}", None) for kind in ("", "_pattern")):
        raise ValueError("exclude_from_weight_decay is not kept by a copy of an optimizer: decay all weights or none")


def saved_up(optimizer: keras.optimizers.Optimizer) -> int | None:
    """Over how many updates an optimizer, or one of several, saves up gradients; None if none does."""
    some = (optimizer, *getattr(optimizer, "optimizers", ()))
    return next((one.gradient_accumulation_steps for one in some if one.gradient_accumulation_steps), None)


def _copy_of_several(several: Any, learning_rate: float | None) -> keras.optimizers.Optimizer:
    """A MultiOptimizer of copies, each in the place of its original."""
    choice = several._optimizer_map
    if not isinstance(choice, keras.optimizers.OptimizerMap):
        raise ValueError(f"a MultiOptimizer must have an OptimizerMap, as no function can be copied, got {choice!r}")
    if learning_rate is not None:
        raise ValueError(
            f"learning_rate must be None for a MultiOptimizer, whose parts have theirs, got {learning_rate}"
        )
    copies = {id(one): own_copy(one) for one in (choice.default_optimizer, *choice.values())}
    chosen = {key: copies[id(one)] for key, one in choice.items()}
    return type(several)(keras.optimizers.OptimizerMap(copies[id(choice.default_optimizer)], chosen), name=several.name)


def build(optimizer: keras.optimizers.Optimizer, variables: Sequence[tf.Variable]) -> None:
    """Make an optimizer's slots for these variables.

    Their paths are parameter_0, parameter_1 and so on, whoever holds them: Muon and an OptimizerMap choose by path.
    """
    for number, variable in enumerate(variables):
        variable.path = f"parameter_{number}"
    optimizer.build(variables)


def describe(optimizer: keras.optimizers.Optimizer) -> dict[str, Any]:
    """Class name and settings that are not at rest, for a trace's header."""
    if isinstance(optimizer, MULTI):
        choice = optimizer._optimizer_map
        parts = {"default": choice.default_optimizer, **choice}
        return {"name": type(optimizer).__name__, **{path: describe(one) for path, one in parts.items()}}
    config = optimizer.get_config()
    if not config.get("use_ema"):
        config = {k: v for k, v in config.items() if not k.startswith("ema_")}
    kept = {k: _short(v) for k, v in config.items() if k != "name" and v not in (None, False) and _plain(v)}
    return {"name": type(optimizer).__name__, **kept}


def _short(value: Any) -> Any:
    if isinstance(value, dict) and value.get("class_name") == "__lambda__":
        return "a function"  # Its code, which Keras would give, names a file of its author's.
    # Keras keeps numbers as float32: 0.05 rather than 0.05000000074505806.
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _plain(value: object) -> bool:
    return isinstance(value, bool | int | float | str | dict | list)
