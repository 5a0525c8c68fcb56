"""Whether a run is one that a law speaks of, asked of its trace (or of its batches, which are not in one).

Each function is one assumption: it returns a sentence if the trace breaks it and an
empty one if it keeps it. They look at what happened, not at how the run was set up.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from asyncsgd_edu.trace import Trace


def seconds_each(trace: Trace) -> NDArray[np.float64]:
    """Seconds that each gradient was computed for, a dropped one until then; shape [rows]."""
    return np.asarray(np.where(trace.applied, trace.ready_time, trace.apply_time) - trace.read_time)


def unlike_workers(trace: Trace) -> str:
    """The workers are alike: none needs twice as long for a gradient as another, on average."""
    busy = np.bincount(trace.worker, seconds_each(trace), trace.header.workers)
    made = np.bincount(trace.worker[trace.applied], minlength=trace.header.workers)
    # What was dropped counts as time without a gradient, so that policies that cancel are not taken in.
    if not made.all():
        return f"worker {int(made.argmin())} made no gradient"
    pace = busy / made
    slow, fast = int(pace.argmax()), int(pace.argmin())
    if pace[slow] > 2 * pace[fast]:
        return f"worker {slow} takes {pace[slow] / pace[fast]:.3g} times as long as worker {fast}"
    return ""


def with_memory(trace: Trace) -> str:
    """Durations are memoryless: what is left of a gradient does not depend on its age, nor on its worker.

    The share of gradients that last longer than t, estimated with the dropped ones as far
    as they went (Nelson & Aalen), is nowhere further than 0.03 from exponential, relative
    to the share that was seen to end.
    """
    taken = seconds_each(trace)
    # Of two that lasted as long, the one that came to its end counts before the one dropped.
    order = np.lexsort((~trace.applied, taken))
    ended, taken = trace.applied[order], taken[order]
    hazard = np.cumsum(ended / np.arange(len(taken), 0, -1))
    # Not the last twentieth: too few are left there to say what share ends.
    known = slice(len(taken) - len(taken) // 20)
    lasting, law = np.exp(-hazard[known]), np.exp(-taken[known] * ended.sum() / taken.sum())
    # Where most are dropped early, only the beginning of the law is seen: measured by how much of it.
    distance = np.abs(lasting - law).max() / (1 - lasting[-1])
    if distance > 0.03:
        return f"durations are not memoryless ({distance:.2f} from exponential)"
    return unlike_workers(trace)


def varying_delay(trace: Trace) -> str:
    """Staleness is constant, but for the first rounds: its deviation is at most a tenth of its mean."""
    settled = trace.staleness[10 * trace.header.workers :]
    deviation, mean = settled.std(), settled.mean()
    return f"staleness is not constant ({mean:.1f} +- {deviation:.1f})" if deviation > 0.1 * max(mean, 1.0) else ""


def varying_durations(trace: Trace) -> str:
    """Durations vary little: their deviation is at most a quarter of their mean."""
    taken = seconds_each(trace)
    share = taken.std() / taken.mean()
    return f"durations vary much (deviation / mean {share:.2f})" if share > 0.25 else unlike_workers(trace)


def idle_workers(trace: Trace) -> str:
    """Every worker reads again as soon as its gradient is ready."""
    order = np.lexsort((trace.read_time, trace.worker))
    worker, read, ready = trace.worker[order], trace.read_time[order], trace.ready_time[order]
    waited = (worker[1:] == worker[:-1]) & (read[1:] > ready[:-1])
    return f"workers wait before {waited.mean():.0%} of their reads" if waited.any() else ""


def aging(trace: Trace) -> str:
    """Whose gradient comes next does not depend on how many updates each has been under way.

    Counted in updates, so that delays alone will do. The share of gradients with a
    staleness above k is then (1 - 1/m)^(k + 1), m - 1 the mean; it is nowhere further than 0.05 from that.
    """
    tau = trace.staleness
    above = 1 - np.cumsum(np.bincount(tau)) / len(tau)
    law = (1 - 1 / (1 + tau.mean())) ** np.arange(1, len(above) + 1)
    distance = np.abs(above - law).max()
    return f"workers are not memoryless (delays are {distance:.2f} from geometric)" if distance > 0.05 else ""


def uneven_batches(sizes: Sequence[int]) -> str:
    """Batches whose gradients are averaged have equally many examples."""
    return f"batches have from {min(sizes)} to {max(sizes)} examples" if min(sizes) != max(sizes) else ""
