"""A long line made short: what the eye would see of it stays.

Pure NumPy on arrays of numbers. Nothing here knows what a trace is.
"""

import numpy as np
from numpy.typing import NDArray

MOST_POINTS = 2000
WINDOW = 50  # Updates in the mean that a loss curve shows.

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def trailing_mean(values: Floats, window: int = WINDOW) -> Floats:
    """Mean of each value and up to `window` - 1 before it, without those that are not finite.

    A sum for each window on its own: a running sum would carry the rounding of one
    huge loss into all that come after it.

    >>> trailing_mean(np.array([1.0, 3.0, np.inf, 5.0]), window=2).tolist()
    [1.0, 2.0, 3.0, 5.0]
    """
    out = np.empty(len(values))
    step = 1 << 15  # Small enough for a processor's cache.
    for low in range(0, len(values), step):
        high = min(low + step, len(values))
        early = max(0, low - window + 1)
        part = np.concatenate([np.full(window - 1 - (low - early), np.nan), values[early:high]])
        finite = np.isfinite(part)
        part = np.where(finite, part, 0.0)
        sums = np.zeros(high - low)
        for back in range(window):
            sums += part[back : back + high - low]
        running = np.concatenate([[0], np.cumsum(finite)])
        counts = running[window:] - running[:-window]
        with np.errstate(invalid="ignore"):
            out[low:high] = sums / counts
    return out


def kept(index: Ints, values: Floats, most: int = MOST_POINTS) -> Ints:
    """Which points of a line to draw so that its extremes survive; shape [at most `most`].

    `index` numbers the points, rising. In each of equally wide stretches of it the
    lowest and the highest value stay, in order, and so do the first and the last
    point. Widths are powers of two, so thinning a line that has been thinned and has
    grown gives what thinning it at once would have given.

    >>> kept(np.arange(8), np.array([0.0, 5.0, 1.0, 1.0, -3.0, 2.0, 1.0, 1.0]), most=6).tolist()
    [0, 1, 4, 5, 7]
    """
    count = len(values)
    if count == 0 or index[-1] - index[0] < most:
        return np.arange(count)
    width = 1
    while index[-1] // width - index[0] // width + 1 > (most - 2) // 2:
        width *= 2
    bucket = index // width
    starts = np.flatnonzero(np.diff(bucket, prepend=bucket[0] - 1))
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, count)))
    chosen = [np.array([0, count - 1])]
    for extreme in (np.minimum, np.maximum):
        hits = np.flatnonzero(values == extreme.reduceat(values, starts)[group])
        chosen.append(hits[np.diff(group[hits], prepend=-1) > 0])
    return np.unique(np.concatenate(chosen))


def thin(x: NDArray[np.generic], y: Floats, most: int = MOST_POINTS) -> tuple[NDArray[np.generic], Floats]:
    """The points of a line that are worth drawing, at most `most` of them: see `kept`."""
    keep = kept(np.arange(len(y)), y, most)
    return x[keep], y[keep]
