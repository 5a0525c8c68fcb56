"""The devices of this process: real GPUs, parts of them, or logical CPU devices that stand in for them.

TensorFlow fixes the number of its devices when it first runs something, so
they are made once, at the largest number that a slider offers. What is split and
what a header says of it are plain functions of numbers.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.arguments import whole_number

MOST = 8
MEMORY_MB = 1_024  # Of a part of a GPU, at most: eight of them are for a GPU of 8 GB.
MOST_MEMORY_MB = 1_000_000
# TensorFlow forgets set_memory_growth as soon as any device is split (2.21), and the processor always is.
GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"


class LogicalGpu(NamedTuple):
    """A GPU of TensorFlow's: part `part` of physical GPU `gpu`, which is split in parts of `limits` MB; () is whole."""

    name: str
    gpu: int
    part: int = 0
    limits: tuple[int, ...] = ()


def configure_devices(count: int = MOST, memory_mb: int = MEMORY_MB) -> list[str]:
    """Make at least `count` logical devices and return the names of `count` of them.

    Where the machine has that many GPUs these are used. Where it has some, but fewer, each is split
    in equally many logical GPUs of at most `memory_mb` MB, and the header of a run on them says so. They share the
    arithmetic of their GPU; their limits together should fit its memory, which nobody checks. Elsewhere one CPU becomes
    `count` logical devices, and there `memory_mb` has no meaning, so that one lesson runs on all machines.
    GPUs take memory as they need it, unless the environment's TF_FORCE_GPU_ALLOW_GROWTH says otherwise.

    May be called again with the same or a smaller number. If TensorFlow has already started with fewer GPUs, logical
    CPU devices are returned; raises RuntimeError if there are too few of these too.
    """
    count = whole_number("count", count, 1, 64)
    prepare(count, whole_number("memory_mb", memory_mb, 1, MOST_MEMORY_MB))
    have = available(count)
    if len(have) < count:
        raise RuntimeError(
            f"{count} logical devices asked for, but TensorFlow already runs with {len(have)}: "
            f"call configure_devices({count}) before anything else of TensorFlow, or restart the kernel"
        )
    return have[:count]


def prepare(count: int = MOST, memory_mb: int | None = None) -> None:
    """Make `count` logical CPU devices if TensorFlow has not started yet; otherwise do nothing.

    With `memory_mb`, GPUs that are fewer than `count` are split in parts of so many MB: only who asks for a number
    of devices gets parts of GPUs.
    """
    try:
        gpus = tf.config.get_visible_devices("GPU")
        if gpus:
            os.environ.setdefault(GROWTH, "true")
        parts = parts_of_each(count, len(gpus))
        # What somebody has split already, stays as it is.
        if memory_mb is not None and parts > 1 and not any(map(tf.config.get_logical_device_configuration, gpus)):
            for gpu in gpus:
                limit = tf.config.LogicalDeviceConfiguration(memory_limit=memory_mb)
                tf.config.set_logical_device_configuration(gpu, [limit] * parts)
        (cpu, *_) = tf.config.list_physical_devices("CPU")
        if tf.config.get_logical_device_configuration(cpu) is None:
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError:
        pass  # TensorFlow has started: whoever needs more devices than there are says so.


def available(at_least: int = 1) -> list[str]:
    """Names of the devices that workers can be pinned to, starting TensorFlow if it has not.

    The GPUs, split or whole, if there are `at_least` that many of them, the logical CPU devices otherwise.
    Of split GPUs come first a part of each, so that a run on few of them uses as many GPUs as it can.
    """
    prepare()
    names = [gpu.name for gpu in dealt(logical_gpus())]
    return names if len(names) >= at_least else [d.name for d in tf.config.list_logical_devices("CPU")]


def logical_gpus() -> list[LogicalGpu]:
    """The GPUs of this process in the order of their numbers, starting TensorFlow if it has not."""
    names = [device.name for device in tf.config.list_logical_devices("GPU")]
    parts = []
    for gpu, physical in enumerate(tf.config.get_visible_devices("GPU")):
        split = tf.config.get_logical_device_configuration(physical) or [tf.config.LogicalDeviceConfiguration()]
        limits = tuple(part.memory_limit for part in split) if len(split) > 1 else ()
        parts += [(part.experimental_device_ordinal or 0, gpu, at, limits) for at, part in enumerate(split)]
    if len(parts) != len(names):  # A GPU of a kind that cannot be split.
        return [LogicalGpu(name, gpu) for gpu, name in enumerate(names)]
    # TensorFlow numbers them by ordinal, which somebody may have set, then GPU by GPU.
    return [LogicalGpu(name, gpu, at, limits) for name, (_, gpu, at, limits) in zip(names, sorted(parts), strict=True)]


def parts_of_each(count: int, gpus: int) -> int:
    """In how many equal parts each of `gpus` GPUs is split so that there are `count`: 1 is whole, 0 if there is none.

    >>> [parts_of_each(4, gpus) for gpus in (0, 1, 2, 3, 4, 8)]
    [0, 4, 2, 2, 1, 1]
    """
    return max(1, -(-count // gpus)) if gpus else 0


def dealt(gpus: Sequence[LogicalGpu]) -> list[LogicalGpu]:
    """Logical GPUs in an order in which no GPU comes again before all have come as often.

    >>> [g.name for g in dealt([LogicalGpu("a0", 0, 0), LogicalGpu("a1", 0, 1), LogicalGpu("b0", 1, 0)])]
    ['a0', 'b0', 'a1']
    """
    return sorted(gpus, key=lambda gpu: (gpu.part, gpu.gpu))


def note_on(devices: Sequence[str], gpus: Sequence[LogicalGpu]) -> str | None:
    """What a header says of `devices` that are parts of GPUs; None if none of them is.

    >>> halves = [LogicalGpu(f"/device:GPU:{part}", 0, part, (3000, 3000)) for part in (0, 1)]
    >>> note_on(["/device:GPU:0", "/device:GPU:1"], halves)
    'GPU:0, GPU:1: parts of one physical GPU, split in 2, 3,000 MB each'
    """
    notes = []
    for number in sorted({gpu.gpu for gpu in gpus}):
        limits = next(gpu.limits for gpu in gpus if gpu.gpu == number)
        used = [gpu.name.removeprefix("/device:") for gpu in gpus if gpu.gpu == number and gpu.name in devices]
        if used and limits:
            each = " + ".join(f"{limit:,}" for limit in (limits if len(set(limits)) > 1 else limits[:1]))
            size = f"{each} MB{' each' * (len(set(limits)) == 1)}"
            part = "parts" if len(used) > 1 else "a part"
            notes.append(f"{', '.join(used)}: {part} of one physical GPU, split in {len(limits)}, {size}")
    return "; ".join(notes) or None


def places_of_workers(devices: Sequence[str] | None, workers: int) -> tuple[str, ...]:
    """The devices that `workers` workers are pinned to, round robin: those given, or the first there is.

    Raises TypeError or ValueError for devices that this process does not have, or more of them than workers.
    """
    places = check_devices(devices) if devices is not None else (available()[0],)
    if len(places) > workers:
        raise ValueError(f"{len(places)} devices need at least as many workers, got workers {workers}")
    return places


def check_devices(devices: object) -> tuple[str, ...]:
    """Return the full names of `devices`, each of which this process must have.

    >>> check_devices(["cpu:0"])
    ('/device:CPU:0',)
    """
    if isinstance(devices, str | bytes) or not isinstance(devices, Sequence) or not devices:
        raise TypeError(f"devices must be a list of at least one device name, got {devices!r}")
    prepare()
    have = [d.name for d in tf.config.list_logical_devices()]
    known = {name.removeprefix("/device:").lower(): name for name in have}
    names = []
    for device in devices:
        short = str(device).lower().removeprefix("/device:").removeprefix("/")
        if not isinstance(device, str) or short not in known:
            raise ValueError(f"unknown device {device!r}, this process has {', '.join(sorted(have))}")
        names.append(known[short])
    return tuple(names)
