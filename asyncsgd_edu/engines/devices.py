"""The devices of this process: real GPUs, or logical CPU devices that stand in for them.

TensorFlow fixes the number of its devices when it first runs something, so
they are made once, at the largest number that a slider offers.
"""

from collections.abc import Sequence

from asyncsgd_edu.quiet import tf
from asyncsgd_edu.rules.arguments import whole_number

MOST = 8


def configure_devices(count: int = MOST) -> list[str]:
    """Make at least `count` logical devices and return their names.

    Where the machine has that many GPUs these are used, with memory growth on;
    elsewhere one CPU becomes `count` logical devices. May be called again with the
    same or a smaller number. Raises RuntimeError if TensorFlow has already started
    with fewer.
    """
    count = whole_number("count", count, 1, 64)
    prepare(count)
    have = available(count)
    if len(have) < count:
        raise RuntimeError(
            f"{count} logical devices asked for, but TensorFlow already runs with {len(have)}: "
            f"call configure_devices({count}) before anything else of TensorFlow, or restart the kernel"
        )
    return have[:count]


def prepare(count: int = MOST) -> None:
    """Make `count` logical CPU devices if TensorFlow has not started yet; otherwise do nothing."""
    try:
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
        (cpu, *_) = tf.config.list_physical_devices("CPU")
        if tf.config.get_logical_device_configuration(cpu) is None:
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError:
        pass  # TensorFlow has started: whoever needs more devices than there are says so.


def available(at_least: int = 1) -> list[str]:
    """Names of the devices that workers can be pinned to, starting TensorFlow if it has not.

    The GPUs if there are `at_least` that many of them, the logical CPU devices otherwise.
    """
    prepare()
    gpus = [d.name for d in tf.config.list_logical_devices("GPU")]
    return gpus if len(gpus) >= at_least else [d.name for d in tf.config.list_logical_devices("CPU")]


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
    if isinstance(devices, str) or not isinstance(devices, Sequence) or not devices:
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
