"""Devices: real GPUs as they are, few GPUs split, a processor that stands in; decided before TensorFlow starts.

No GPU is needed: TensorFlow's own account of devices, before it starts, is given some that do not exist.
"""

import os
import subprocess
import sys

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.python.eager import context

from asyncsgd_edu import configure_devices
from asyncsgd_edu.engines import devices
from asyncsgd_edu.engines.devices import GROWTH, LogicalGpu, available, dealt, logical_gpus, note_on, parts_of_each


def names(*numbers):
    return [f"/device:GPU:{number}" for number in numbers]


def split(*gpus):
    """Logical GPUs, numbered as TensorFlow does: for each physical one the limits of its parts, () for a whole one."""
    parts = [(gpu, part, limits) for gpu, limits in enumerate(gpus) for part in range(len(limits) or 1)]
    return [LogicalGpu(f"/device:GPU:{number}", *part) for number, part in enumerate(parts)]


# --- what is decided


@given(st.integers(1, 64), st.integers(1, 16))
def test_gpus_are_split_just_as_far_as_needed(count, gpus):
    parts = parts_of_each(count, gpus)
    assert parts * gpus >= count
    assert parts == 1 or (parts - 1) * gpus < count
    assert (parts == 1) == (gpus >= count)


def test_no_gpu_is_split_where_there_is_none():
    assert parts_of_each(8, 0) == 0


@given(st.integers(1, 4), st.integers(1, 8), st.integers(1, 32))
def test_a_run_on_few_parts_uses_as_many_gpus_as_it_can(gpus, parts, used):
    all_of_them = split(*[(500,) * parts if parts > 1 else ()] * gpus)
    order = dealt(all_of_them)
    assert sorted(order) == sorted(all_of_them)
    taken = [gpu.gpu for gpu in order[:used]]
    often = [taken.count(gpu) for gpu in range(gpus)]
    assert max(often) - min(often) <= 1


@pytest.mark.parametrize(
    ("used", "gpus", "note"),
    [
        (names(0, 1), split((), ()), None),
        (["/device:CPU:0"], split((500, 500)), None),
        ([], [], None),
        (names(0), split((500, 500)), "GPU:0: a part of one physical GPU, split in 2, 500 MB each"),
        (names(3, 0), split((3000,) * 4), "GPU:0, GPU:3: parts of one physical GPU, split in 4, 3,000 MB each"),
        (names(0, 1), split((), (500, 500)), "GPU:1: a part of one physical GPU, split in 2, 500 MB each"),
        (names(0, 1), split((2000, 500)), "GPU:0, GPU:1: parts of one physical GPU, split in 2, 2,000 + 500 MB"),
        (
            names(0, 3, 1),
            split((500,) * 3, (500,) * 3),
            "GPU:0, GPU:1: parts of one physical GPU, split in 3, 500 MB each; "
            "GPU:3: a part of one physical GPU, split in 3, 500 MB each",
        ),
    ],
)
def test_a_header_says_which_devices_are_parts_of_one_gpu(used, gpus, note):
    assert note_on(used, gpus) == note


# --- what TensorFlow is told


@pytest.fixture
def machine(monkeypatch):
    """Makes TensorFlow's account of devices, not started, that of a machine with some GPUs."""
    monkeypatch.delenv(GROWTH, raising=False)

    def with_gpus(count):
        account = context.Context()
        account._initialize_physical_devices()
        gpus = [context.PhysicalDevice(f"/physical_device:GPU:{n}", "GPU") for n in range(count)]
        account._physical_devices += gpus
        account._visible_device_list += gpus
        account._memory_growth_map.update(dict.fromkeys(gpus))
        monkeypatch.setattr(context, "context", lambda: account)
        return account

    yield with_gpus
    os.environ.pop(GROWTH, None)  # Set by the code, not by monkeypatch.


def limits(account):
    """What TensorFlow would give each GPU, in MB a part; [] is a whole one."""
    return [list(gpu.memory_limit_mb) for gpu in account._compute_gpu_options().experimental.virtual_devices]


def processors(account):
    """In how many logical devices the processor is split."""
    (cpu,) = account.list_physical_devices("CPU")
    return len(account.get_logical_device_configuration(cpu))


@pytest.mark.parametrize(
    ("gpus", "count", "told"),
    [
        (1, 1, [[]]),
        (2, 2, [[], []]),
        (3, 2, [[]] * 3),
        (1, 4, [[700] * 4]),
        (2, 4, [[700] * 2] * 2),
        (2, 3, [[700] * 2] * 2),
    ],
)
def test_gpus_are_split_where_there_are_fewer_than_asked_for(machine, gpus, count, told):
    account = machine(gpus)
    devices.prepare(count, memory_mb=700)
    assert limits(account) == told
    assert processors(account) == count


def test_gpus_stay_whole_where_nobody_has_asked_for_a_number(machine):
    account = machine(1)
    devices.prepare()
    assert limits(account) == [[]]
    devices.prepare(4, memory_mb=700)  # TensorFlow has not started: not too late.
    assert limits(account) == [[700] * 4]
    assert processors(account) == devices.MOST


def test_what_is_split_stays_as_it_is(machine):
    account = machine(2)
    (one, other) = account.list_physical_devices("GPU")
    tf.config.set_logical_device_configuration(one, [tf.config.LogicalDeviceConfiguration(memory_limit=99)] * 3)
    devices.prepare(8, memory_mb=700)
    devices.prepare()
    assert limits(account) == [[99] * 3, []]
    assert tf.config.get_logical_device_configuration(other) is None


def test_a_gpu_that_is_not_visible_is_left_alone(machine):
    account = machine(2)
    (hidden, seen) = account.list_physical_devices("GPU")
    tf.config.set_visible_devices([seen], "GPU")
    devices.prepare(2, memory_mb=700)
    assert tf.config.get_logical_device_configuration(hidden) is None
    assert limits(account) == [[700] * 2]


def test_memory_grows_although_the_processor_is_split(machine):
    account = machine(1)
    tf.config.experimental.set_memory_growth(account.list_physical_devices("GPU")[0], True)
    assert account._compute_gpu_options().allow_growth
    devices.prepare()
    # Should this fail, TensorFlow has learnt it, and the environment need not say it.
    assert not account._compute_gpu_options().allow_growth
    assert os.environ[GROWTH] == "true"


def test_memory_does_not_grow_where_the_environment_says_so(machine, monkeypatch):
    monkeypatch.setenv(GROWTH, "false")
    machine(1)
    devices.prepare(4, memory_mb=700)
    assert os.environ[GROWTH] == "false"


def test_a_machine_without_gpus_has_its_processor_split_and_nothing_else(machine):
    account = machine(0)
    devices.prepare(5, memory_mb=700)
    assert processors(account) == 5
    assert [device.device_type for device in account._virtual_device_map] == ["CPU"]
    assert GROWTH not in os.environ
    devices.prepare(7)
    assert processors(account) == 5


# --- what a run is given


@pytest.fixture
def started(machine, monkeypatch):
    """Makes TensorFlow believe that it has started with what was decided: devices with their names, in order."""

    def with_gpus(count):
        account = machine(count)

        def logical(kind=None):
            told = [part for gpu in limits(account) for part in (gpu or [None])]
            found = {"GPU": len(told) if count else 0, "CPU": processors(account)}
            return [
                context.LogicalDevice(f"/device:{one}:{n}", one)
                for one in ("CPU", "GPU")
                for n in range(found[one])
                if kind in (None, one)
            ]

        monkeypatch.setattr(tf.config, "list_logical_devices", logical)

    return with_gpus


@pytest.mark.parametrize(
    ("gpus", "count", "given_"),
    [
        (1, 1, names(0)),
        (4, 2, names(0, 1)),
        (1, 3, names(0, 1, 2)),
        (2, 4, names(0, 2, 1, 3)),
        (2, 3, names(0, 2, 1)),
        (0, 3, ["/device:CPU:0", "/device:CPU:1", "/device:CPU:2"]),
    ],
)
def test_who_asks_gets_a_part_of_each_gpu_first(started, gpus, count, given_):
    started(gpus)
    assert configure_devices(count, memory_mb=700) == given_
    assert available(count)[:count] == given_
    # With GPUs or without: more of them than there are is a matter of the processor.
    assert available(10_000) == [f"/device:CPU:{n}" for n in range(count)]


def test_without_a_word_about_memory_each_part_has_the_default(started):
    started(1)
    configure_devices(2)
    assert [gpu.limits for gpu in logical_gpus()] == [(devices.MEMORY_MB,) * 2] * 2


def test_parts_are_known_by_the_order_that_somebody_gave_them(started):
    started(2)
    for gpu, ordinals in zip(tf.config.list_physical_devices("GPU"), ((0, 3), (1, 2)), strict=True):
        made = [tf.config.LogicalDeviceConfiguration(memory_limit=9, experimental_device_ordinal=n) for n in ordinals]
        tf.config.set_logical_device_configuration(gpu, made)
    devices.prepare()
    assert [(gpu.name, gpu.gpu, gpu.part) for gpu in logical_gpus()] == [
        ("/device:GPU:0", 0, 0),
        ("/device:GPU:1", 1, 0),
        ("/device:GPU:2", 1, 1),
        ("/device:GPU:3", 0, 1),
    ]


def test_a_kind_that_cannot_be_split_is_whole(started, monkeypatch):
    started(1)
    devices.prepare(4, memory_mb=700)
    processor = tf.config.list_logical_devices("CPU")
    whole = {"GPU": [context.LogicalDevice("/device:GPU:0", "GPU")], "CPU": processor}
    monkeypatch.setattr(tf.config, "list_logical_devices", whole.get)
    assert logical_gpus() == [LogicalGpu("/device:GPU:0", 0)]
    assert configure_devices(4) == [device.name for device in processor]


@pytest.mark.parametrize("memory", [0, -5, 2.5, "1 GB", True, 10**9])
def test_bad_memory_is_named_before_anything_is_decided(machine, memory):
    account = machine(1)
    with pytest.raises((TypeError, ValueError), match="memory_mb must be a whole number from 1 to 1000000") as told:
        configure_devices(2, memory_mb=memory)
    assert repr(memory) in str(told.value)
    assert not account._virtual_device_map


@pytest.mark.parametrize("count", [0, 65, 1.0, "2", None])
def test_a_bad_count_is_named(count):
    with pytest.raises((TypeError, ValueError), match="count must be a whole number from 1 to 64") as told:
        configure_devices(count)
    assert repr(count) in str(told.value)


# --- on this machine


def test_fewer_may_be_asked_for_again(eight_devices):
    assert configure_devices(3) == eight_devices[:3]
    assert configure_devices(8) == eight_devices


def test_more_than_it_has_started_with_is_an_error(eight_devices):
    with pytest.raises(
        RuntimeError, match=r"20 logical devices asked for.*runs with \d+: call configure_devices\(20\)"
    ):
        configure_devices(20)


def test_a_process_that_has_started_tensorflow_says_so():
    program = (
        "import tensorflow as tf; tf.constant(1)\n"
        "from asyncsgd_edu import configure_devices\n"
        "try: configure_devices(2)\n"
        "except RuntimeError as error: print(error)\n"
        "print(configure_devices(1))\n"
    )
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=hidden)
    assert "TensorFlow already runs with 1: call configure_devices(2)" in done.stdout
    assert "['/device:CPU:0']" in done.stdout
