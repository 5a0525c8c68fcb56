"""A schedule's arithmetic on the quadratic 1/2 h w^2, in NumPy.

Many runs or many learning rates at once, for maps of stability and for laws of
chance. No problem, no optimizer and no workers: `replay` has those. The gradient at
w is h w, with noise of its own if that is asked for; an update averages the gradients
that it uses.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsgd_edu.rules.arguments import MAX_SEED, one_of, positive_number, whole_number

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REMEDIES = ("divide", "compensate")
FAR = 1e15  # Times the start: beyond this a run has diverged. No run that dies out strays so far before.
NOISE_PURPOSE = 3  # Splits the seed: 1 is for batches, 2 for durations.
LOOK_EVERY = 32  # Updates between two looks whether every run has diverged.


@dataclass(frozen=True)
class Trajectory:
    """What became of w.

    `w` has shape [versions], or [runs, versions] for several runs: the start, then w
    after each update, NaN after the version at which it diverged. `diverged_at` is that
    version, -1 for a run that did not; shape [] or [runs].
    """

    w: Floats
    diverged_at: Ints

    @property
    def diverged(self) -> NDArray[np.bool_]:
        """Whether |w| went beyond `FAR` times the start, or a step of noise that is larger; shape [] or [runs]."""
        return np.asarray(self.diverged_at >= 0)

    @cached_property
    def growth(self) -> Floats:
        """Largest |w| in the last quarter of the updates over that in the second quarter; shape [] or [runs].

        Above 1 the run grows, below 1 it dies out, however slowly; infinite if it
        diverged. Over quarters, because near the limit w oscillates.
        """
        quarter = self.w.shape[-1] // 4
        if quarter == 0:
            raise ValueError(f"growth needs at least 3 updates, got {self.w.shape[-1] - 1}")
        size = np.abs(self.w)
        early, late = size[..., quarter : 2 * quarter].max(axis=-1), size[..., -quarter:].max(axis=-1)
        tiny = np.finfo(np.float64).tiny  # What has died out entirely does not grow.
        return np.where(self.diverged, np.inf, late / np.maximum(early, tiny))


def trajectory(
    read_version: ArrayLike,
    apply_version: ArrayLike,
    learning_rate: ArrayLike,
    curvature: float = 1.0,
    start: float = 1.0,
    remedy: str | None = None,
    noise: float = 0.0,
    seed: int | None = None,
) -> Trajectory:
    """Do the arithmetic of a schedule on 1/2 h w^2.

    `read_version` and `apply_version` are a trace's columns, shape [rows]; dropped rows
    (-1) are left out, rows of one update are averaged. Several runs: `read_version` of
    shape [runs, rows] with one `apply_version` [rows] for all, or `learning_rate` of shape
    [runs], or both. Stops as soon as every run has diverged.

    `remedy`: "divide" uses learning rate / max(staleness, 1); "compensate" adds h (w_now - w_read)
    to a gradient, delay compensation with the true curvature.

    `noise` is the standard deviation of what is added to each gradient, independently, drawn from
    `seed` and the number of the run: run 3 of many has the noise of run 3 of more.

    >>> trajectory([0, 0, 1], [0, 1, 2], learning_rate=0.5).w.tolist()
    [1.0, 0.5, 0.0, -0.25]
    """
    read, apply = _schedule(read_version, apply_version)
    rates = _rates(learning_rate)
    step = rates * positive_number("curvature", curvature)
    if remedy is not None:
        one_of("remedy", remedy, REMEDIES)
    w = np.empty((int(apply.max(initial=-1)) + 2, _runs(read, rates)))
    if isinstance(start, bool) or not np.isfinite(start):
        raise ValueError(f"start must be a finite number, got {start!r}")
    w[0] = start
    tilt = _noise(noise, seed, len(read), w.shape[1])
    with np.errstate(over="ignore"):
        far = np.minimum(FAR * np.maximum(np.abs(w[0]), rates * noise), np.finfo(np.float64).max)
    version = _go(w, read, apply, step, remedy, None if tilt is None else tilt / curvature, far)
    return _ended(w, version, far, single=read.ndim == 1 and rates.ndim == 0)


def windows(read_version: ArrayLike, length: int) -> Ints:
    """Cut one asynchronous schedule into runs of `length` updates, shape [runs, length].

    Each window is a run that starts afresh: what its workers had read before it
    counts as read at its start. For memoryless durations the windows are independent
    runs, since the time that is left to a gradient does not depend on its age.

    >>> windows([0, 0, 1, 2], 2).tolist()
    [[0, 0], [0, 0]]
    """
    read = np.asarray(read_version, np.int64)
    length = whole_number("length", length, 1, max(1, len(read)))
    runs = len(read) // length
    firsts = np.arange(runs)[:, None] * length
    return np.maximum(read[: runs * length].reshape(runs, length) - firsts, 0)


def _noise(noise: float, seed: int | None, rows: int, runs: int) -> Floats | None:
    """What is added to each gradient of each run, shape [rows, runs]; None for nothing."""
    noise = positive_number("noise", noise, zero=True)
    if not noise:
        if seed is not None:
            raise ValueError(f"seed must be None where there is no noise, got {seed!r}")
        return None
    key = whole_number("seed, which noise needs,", seed, 0, MAX_SEED) << 64 | NOISE_PURPOSE << 32
    tilt = np.empty((rows, runs))
    for run in range(runs):
        tilt[:, run] = np.random.Generator(np.random.Philox(key=key | run)).standard_normal(rows)
    return noise * tilt


def _go(w: Floats, read: Ints, apply: Ints, step: Floats, remedy: str | None, tilt: Floats | None, far: Floats) -> int:
    """Fill w, of shape [versions, runs], version by version; returns the last version filled.

    A gradient is counted in curvatures here: w and its `tilt`, of shape [rows, runs].
    """
    runs, updates = np.arange(w.shape[1]), len(w) - 1
    firsts = np.searchsorted(apply, np.arange(updates + 1))
    with np.errstate(over="ignore", invalid="ignore"):
        for version, (low, high) in enumerate(pairwise(firsts)):
            gradient = 0.0
            for row in range(low, high):
                one = w[read[row]] if read.ndim == 1 else w[read[row], runs]
                if remedy == "compensate":
                    one = one + (w[version] - one)
                if tilt is not None:
                    one = one + tilt[row]
                if remedy == "divide":
                    one = one / np.maximum(version - read[row], 1)
                gradient = gradient + one
            w[version + 1] = w[version] - step * (gradient / (high - low))
            if version % LOOK_EVERY == 0 and not (np.abs(w[version + 1]) <= far).any():
                return version + 1
    return updates


def _ended(w: Floats, version: int, far: Floats, *, single: bool) -> Trajectory:
    """The trajectory of what was filled, nothing shown after a run went too far."""
    w[version + 1 :] = np.nan
    beyond = ~(np.abs(w) <= far)
    diverged_at = np.where(beyond.any(axis=0), beyond.argmax(axis=0), -1)
    after = np.arange(len(w))[:, None] > diverged_at
    w[after & (diverged_at >= 0)] = np.nan
    found = w.T[0] if single else w.T
    at = diverged_at[0] if single else diverged_at
    found.flags.writeable = False
    return Trajectory(found, np.asarray(at, np.int64))


def _schedule(read_version: ArrayLike, apply_version: ArrayLike) -> tuple[Ints, Ints]:
    """The applied rows: versions read, of shape [rows] or [rows, runs], and applied to, [rows]."""
    read, apply = np.asarray(read_version), np.asarray(apply_version)
    for name, values in (("read_version", read), ("apply_version", apply)):
        if values.dtype.kind not in "iu" and values.size:
            raise TypeError(f"{name} must be whole numbers, got {values.dtype}")
    if apply.ndim != 1 or read.ndim not in (1, 2) or read.shape[-1] != len(apply):
        raise ValueError(
            "read_version must have shape [rows] or [runs, rows] and apply_version [rows], "
            f"got {read.shape} and {apply.shape}"
        )
    used = apply >= 0
    # Row by row in memory: the loop takes one update of all runs at a time.
    read, apply = np.ascontiguousarray(read[..., used].T, np.int64), apply[used].astype(np.int64)
    jumps = np.diff(apply, prepend=-1)
    if len(apply) and (apply[0] != 0 or ((jumps != 0) & (jumps != 1)).any()):
        raise ValueError(f"apply_version must go up from 0 without a gap, got {apply[:8].tolist()}...")
    late = (read < 0) | (read > (apply if read.ndim == 1 else apply[:, None]))
    if late.any():
        at = tuple(np.argwhere(late)[0])
        raise ValueError(
            f"read_version must be from 0 to apply_version, got {read[at]} in applied row {at[0]}, "
            f"where apply_version is {apply[at[0]]}"
        )
    return read, apply


def _rates(learning_rate: ArrayLike) -> Floats:
    rates = np.asarray(learning_rate, np.float64)
    if rates.ndim > 1 or not np.isfinite(rates).all() or (rates <= 0).any():
        raise ValueError(f"learning_rate must be finite and above 0, one number or one a run, got {learning_rate!r}")
    return rates


def _runs(read: Ints, rates: Floats) -> int:
    """How many runs these schedules and learning rates make."""
    if read.ndim == 2 and rates.ndim == 1 and len(rates) != read.shape[1]:
        raise ValueError(f"learning_rate must be one number or one a run, got {len(rates)} for {read.shape[1]} runs")
    return read.shape[1] if read.ndim == 2 else max(1, rates.size)
