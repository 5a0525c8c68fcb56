"""A Keras model as a function of its trainable weights: nothing of it is changed by computing it.

Keras keeps more in a model than what is trained. Here each kind has its place: random states are made from
the batch's own seed; what batch normalisation gathers is worked out anew where it is needed; all else stays as it was.
A layer that would have to remember something of its own from one step to the next is refused: workers that
share parameters do not share that.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from asyncsgd_edu.problems.keras_losses import said
from asyncsgd_edu.quiet import keras, tf

SMALL_FLOATS = ("float16", "bfloat16")
SEED_STATE = "seed_generator_state"  # What keras.random.SeedGenerator calls its variable.


class Norm(NamedTuple):
    """A batch normalisation: where its mean and variance lie among the other variables, and its momentum."""

    mean: int
    variance: int
    momentum: float


class StatelessModel:
    """`model`, computed at given values of its trainable weights, in the order of `model.trainable_variables`.

    A model that is not built yet is built from the first of `x`. `start` has copies of the weights as they are
    now, float32; `random` says whether any layer draws; `statistics` has the shapes of what batch normalisation
    gathers: of a mean, a variance, the next mean, ... Raises TypeError or ValueError, naming the weight, for one
    that is not float32 or not finite, for a constraint, and for a model without trainable weights.
    """

    def __init__(self, model: Any, x: np.ndarray) -> None:
        if not isinstance(model, keras.Model):
            raise TypeError(f"model must be a model of Keras 3, such as keras.Sequential([...]), got {model!r}")
        self.name = str(model.name)
        self._model = model
        _build(model, x)
        for layer in model._flatten_layers():
            if layer.compute_dtype in SMALL_FLOATS:
                raise TypeError(
                    f"layer {layer.name!r} of model {self.name!r} must compute in float32, got {layer.compute_dtype}: "
                    f"there is no scaling of the loss here, without which small gradients vanish"
                )
        self._trainable, self._others = list(model.trainable_variables), list(model.non_trainable_variables)
        if not self._trainable:
            raise ValueError(f"model {self.name!r} has no trainable weights: there is nothing to train")
        self.start = [_checked(variable) for variable in self._trainable]
        self._fixed = [tf.constant(_read(variable)) for variable in self._others]
        self._draws = [place for place, variable in enumerate(self._others) if variable.name == SEED_STATE]
        self.random = bool(self._draws)
        self._norms = self._batch_normalisations()
        self.statistics = [self._fixed[place].shape for norm in self._norms for place in (norm.mean, norm.variance)]

    def _batch_normalisations(self) -> list[Norm]:
        places = {id(variable): place for place, variable in enumerate(self._others)}
        # Keras has no public way to all layers, those within layers too.
        norms = [layer for layer in self._model._flatten_layers() if isinstance(layer, keras.layers.BatchNormalization)]
        return [
            Norm(places[id(layer.moving_mean)], places[id(layer.moving_variance)], float(layer.momentum))
            for layer in norms
            if layer.built and layer.trainable and layer.momentum < 1
        ]

    def train(self, values: Sequence[tf.Tensor], x: tf.Tensor, draw: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """Output and penalty (the sum of the model's own losses, such as weight decay) in training (graph op).

        Batch normalisation goes by the batch itself. `draw`, int64 of shape [2], names all that is random.
        Raises ValueError, naming the variable, for a layer that remembers something.
        """
        output, penalty, scope = self._call(values, x, self._states(draw), training=True)
        known = {*self._draws, *(place for norm in self._norms for place in (norm.mean, norm.variance))}
        for place, variable in enumerate(self._others):
            if scope.assigned[id(variable)] and place not in known:
                raise ValueError(
                    f"model {self.name!r} changes {variable.path!r} while it trains, which is not a trainable weight: "
                    f"workers share the trainable weights only, so it would never change. Leave the layer out"
                )
        return output, penalty

    def gather(self, values: Sequence[tf.Tensor], x: tf.Tensor, draw: tf.Tensor | None) -> list[tf.Tensor]:
        """Mean and variance that each batch normalisation finds in this batch, one after the other (graph op)."""
        nothing = [tf.zeros(shape) for shape in self.statistics]
        scope = self._call(values, x, self._states(draw, nothing), training=True)[2]
        found = []
        for norm in self._norms:
            for place in (norm.mean, norm.variance):
                variable = self._others[place]
                # From 0, a moving average that was told the same thing n times is 1 - momentum^n of it.
                told = 1 - norm.momentum ** scope.assigned[id(variable)]
                # A layer that the model has and does not use is told nothing, and stays as it was.
                found.append(scope.get_current_value(variable) / told if told else self._fixed[place])
        return found

    def evaluate(
        self, values: Sequence[tf.Tensor], x: tf.Tensor, draw: tf.Tensor | None, statistics: Sequence[tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Output and penalty outside training, with these means and variances, in the order of `gather` (graph op)."""
        return self._call(values, x, self._states(draw, statistics), training=False)[:2]

    def weights(self, values: Sequence[np.ndarray], statistics: Sequence[np.ndarray]) -> list[np.ndarray]:
        """All weights in the order of `model.set_weights`, with these in their places. Raises ValueError naming one."""
        if len(values) != len(self._trainable):
            raise ValueError(
                f"model {self.name!r} has {len(self._trainable)} trainable weights, got {len(values)} parameters"
            )
        found = {}
        for variable, value in zip(self._trainable, values, strict=True):
            if np.shape(value) != tuple(variable.shape):
                raise ValueError(f"{variable.path!r} has shape {tuple(variable.shape)}, got {np.shape(value)}")
            found[id(variable)] = np.array(value, np.float32)
        others = [state.numpy() for state in self._fixed]
        for norm, mean, variance in zip(self._norms, statistics[::2], statistics[1::2], strict=True):
            others[norm.mean], others[norm.variance] = mean, variance
        found |= {id(variable): value for variable, value in zip(self._others, others, strict=True)}
        return [found[id(variable)] for variable in self._model.weights]

    def _states(self, draw: tf.Tensor | None, statistics: Sequence[tf.Tensor] = ()) -> list[tf.Tensor]:
        """Values of all other variables."""
        states = list(self._fixed)
        if self.random and draw is None:
            raise ValueError(f"layers of model {self.name!r} draw random numbers: a batch of it is (x, y, seeds)")
        for number, place in enumerate(self._draws):
            states[place] = tf.random.experimental.stateless_fold_in(draw, number)
        for norm, mean, variance in zip(self._norms, statistics[::2], statistics[1::2], strict=bool(statistics)):
            states[norm.mean], states[norm.variance] = mean, variance
        return states

    def _call(
        self, values: Sequence[tf.Tensor], x: tf.Tensor, states: Sequence[tf.Tensor], training: bool
    ) -> tuple[tf.Tensor, tf.Tensor, "_Scope"]:
        given = [*zip(self._trainable, values, strict=True), *zip(self._others, states, strict=True)]
        # Not stateless_call: that goes past the model's __call__, so a model whose call has no `training` fails.
        with _Scope(given, collect_losses=True) as scope:
            try:
                output = self._model(x, training=training)
            except Exception as error:
                raise ValueError(
                    f"model {self.name!r} cannot be computed for x of shape {x.shape} in a graph: {said(error)}"
                ) from error
            penalty = tf.add_n([tf.cast(loss, tf.float32) for loss in (tf.zeros([]), *self._model.losses)])
        if not isinstance(output, tf.Tensor):
            raise TypeError(f"model {self.name!r} must have one tensor as its output, got {type(output).__name__}")
        return output, penalty, scope


class _Scope(keras.StatelessScope):
    """Given values instead of variables; counts how often each would have been assigned."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.assigned: Counter[int] = Counter()

    def add_update(self, update: Any) -> None:
        """An assignment of (variable, value), kept in this scope."""
        self.assigned[id(update[0])] += 1
        super().add_update(update)


def _build(model: Any, x: np.ndarray) -> None:
    """Have all weights made, from the first sample if they are not there yet."""
    if all(layer.built for layer in model._flatten_layers()):
        return
    try:
        model(tf.constant(x[:1]))
    except Exception as error:  # What a layer raises is the layer's choice; it is all said on.
        raise ValueError(
            f"model {model.name!r} is not built and cannot be built from x of shape {x.shape}: {said(error)}"
        ) from error


def _read(variable: Any) -> np.ndarray:
    try:
        return np.array(variable.numpy())
    except Exception as error:
        raise ValueError(
            f"weight {variable.path!r} has no value here: make the model outside of any tf.Graph or tf.function"
        ) from error


def _checked(variable: Any) -> np.ndarray:
    """The value of a weight that can be a parameter."""
    if variable.dtype != "float32":
        raise TypeError(f"weight {variable.path!r} must be float32, as all parameters here, got {variable.dtype}")
    if variable.constraint is not None:
        raise ValueError(
            f"weight {variable.path!r} has the constraint {type(variable.constraint).__name__}, which no worker keeps "
            f"to: leave it out"
        )
    value = _read(variable)
    if not np.isfinite(value).all():
        raise ValueError(f"weight {variable.path!r} must be finite to start from")
    return value
