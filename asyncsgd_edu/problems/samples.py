"""Samples to train on: two arrays of one length, checked before anything is built from them.

They may come as arrays or as a `tf.data.Dataset`, which is read through once, into memory. No model here.
"""

from typing import Any, NamedTuple

import numpy as np

from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.arguments import MAX_SEED, whole_number

MOST_BYTES = 2**30  # Of a dataset: what a laptop can hold beside everything else.


class Samples(NamedTuple):
    """Inputs `x` and what should come out, `y`: sample i is x[i], y[i]. Floats are float32."""

    x: np.ndarray
    y: np.ndarray


def samples(x: Any, y: Any = None, where: str = "") -> Samples:
    """Check `x` and `y`, or the dataset `x` of both; `where` goes into messages, as in "x of validation".

    Raises TypeError for what does not hold numbers, ValueError for no samples, for different lengths, for
    values that are not finite in float32, and for a dataset without end or of more than 1 GiB.
    """
    if isinstance(x, tf.data.Dataset):
        if y is not None:
            raise ValueError(f"y{where} must be None beside a dataset, which holds both, got {type(y).__name__}")
        x, y = _read_through(f"x{where}", x)
    elif y is None:
        raise TypeError(f"y{where} must be an array, None is for a tf.data.Dataset of both only")
    found = Samples(_numbers(f"x{where}", x), _numbers(f"y{where}", y))
    if len(found.x) != len(found.y):
        raise ValueError(
            f"x{where} and y{where} must be of one length, got {len(found.x)} and {len(found.y)} "
            f"(shapes {found.x.shape} and {found.y.shape})"
        )
    return found


def split(both: Samples, share: object, seed: object) -> tuple[Samples, Samples]:
    """Samples to train on, and the `share` of them that is held out, drawn by `seed`; both are copies.

    >>> import numpy as np
    >>> train, held_out = split(Samples(np.arange(10.0), np.arange(10)), 0.2, 0)
    >>> len(train.x), len(held_out.x), sorted([*train.y, *held_out.y]) == list(range(10))
    (8, 2, True)
    """
    sentence = f"held_out must be a share above 0 and below 1, got {share!r}"
    if isinstance(share, bool) or not isinstance(share, float | int):
        raise TypeError(sentence)
    if not 0 < share < 1:
        raise ValueError(sentence)
    generator = np.random.Generator(np.random.Philox(whole_number("split_seed", seed, 0, MAX_SEED)))
    count = max(1, round(share * len(both.x)))
    if count == len(both.x):
        raise ValueError(f"held_out {share} leaves nothing to train on of {len(both.x)} samples")
    order = generator.permutation(len(both.x))
    held_out, train = order[:count], order[count:]
    return Samples(both.x[train], both.y[train]), Samples(both.x[held_out], both.y[held_out])


def _numbers(name: str, values: Any) -> np.ndarray:
    """Values as an array of numbers; floats as float32."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers: {error}") from error
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise TypeError(f"{name} must be one array of numbers, got {type(values).__name__} of dtype {array.dtype}")
    if array.size == 0:
        raise ValueError(f"{name} must hold at least one sample, got shape {array.shape}")
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            array = array.astype(np.float32, copy=False)
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            raise ValueError(
                f"{name} must be finite, as float32: {array[tuple(bad[0])]} in sample {bad[0][0]}, "
                f"{len(bad)} such values in all"
            )
    return array


def _read_through(name: str, dataset: Any) -> tuple[np.ndarray, np.ndarray]:
    """All elements of a dataset of batches (x, y), one after the other."""
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(f"{name} is a dataset without end: give dataset.take(batches)")
    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) != 2 or not all(isinstance(part, tf.TensorSpec) for part in spec):
        raise TypeError(f"{name} must be a dataset of pairs (x, y) of tensors, its elements are {spec}")
    if any(part.shape.rank == 0 for part in spec):
        raise ValueError(f"{name} must be a dataset of batches, as fit takes them: give dataset.batch(32)")
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    size = 0
    for pair in dataset.as_numpy_iterator():
        if len(pair[0]) != len(pair[1]):
            raise ValueError(
                f"{name} must be a dataset of batches, as fit takes them: an element has x of shape {pair[0].shape} "
                f"and y of shape {pair[1].shape}; give dataset.batch(32) if they are single samples"
            )
        size += sum(np.asarray(part).nbytes for part in pair)
        if size > MOST_BYTES:
            raise ValueError(
                f"{name} is a dataset of more than {MOST_BYTES // 2**20} MiB, and all of it must fit into memory: "
                f"give dataset.take({len(parts)}) of its batches, or fewer"
            )
        parts.append(pair)
    if not parts:
        raise ValueError(f"{name} must hold at least one sample, the dataset is empty")
    x, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return x, y
