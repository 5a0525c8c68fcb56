"""What every trainer says of its run, devices that are parts of one GPU included."""

import json

import pytest

from asyncsgd_edu import AsyncTrainer, Quadratic, SessionTrainer, TowerTrainer, Trace, compare
from asyncsgd_edu.engines import devices
from asyncsgd_edu.engines.devices import LogicalGpu
from asyncsgd_edu.engines.headers import header_of

pytestmark = pytest.mark.usefixtures("eight_devices")
TRAINERS = [AsyncTrainer, SessionTrainer, TowerTrainer]


@pytest.fixture
def half_gpus(monkeypatch, eight_devices):
    """Two of this process's devices are taken for halves of a GPU."""
    halves = [LogicalGpu(name, 0, part, (3000, 3000)) for part, name in enumerate(eight_devices[:2])]
    monkeypatch.setattr(devices, "logical_gpus", lambda: halves)
    return eight_devices[:2]


@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda kind: kind.__name__)
def test_a_run_on_parts_of_a_gpu_says_so_and_its_file_too(trainer, half_gpus, tmp_path):
    trace = trainer(Quadratic(), 2, half_gpus).fit(updates=5)
    both = ", ".join(name.removeprefix("/device:") for name in half_gpus)
    assert trace.header.devices == tuple(half_gpus)
    assert trace.header.devices_note == f"{both}: parts of one physical GPU, split in 2, 3,000 MB each"
    trace.save(tmp_path / "run.jsonl")
    assert Trace.load(tmp_path / "run.jsonl").header == trace.header


@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda kind: kind.__name__)
def test_a_run_on_other_devices_says_nothing(trainer, half_gpus, eight_devices):
    assert trainer(Quadratic(), 2, eight_devices[2:4]).trace.header.devices_note is None


def test_nothing_is_said_on_whole_devices(eight_devices):
    header = header_of(object(), Quadratic(), 2, 0, None, tuple(eight_devices[:2]))
    assert header.devices == tuple(eight_devices[:2])
    assert header.devices_note is None


def test_a_file_from_before_there_was_a_note_loads(tmp_path):
    path = tmp_path / "run.jsonl"
    trace = AsyncTrainer(Quadratic(), 2).fit(updates=5)
    trace.save(path)
    first, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
    header = json.loads(first)
    del header["devices_note"]
    path.write_text(json.dumps(header) + "\n" + "".join(rest), encoding="utf-8")
    assert Trace.load(path).header == trace.header


def test_a_note_is_no_cause_of_another_result(half_gpus, eight_devices):
    runs = [AsyncTrainer(Quadratic(), 1, [name]).fit(updates=5) for name in (half_gpus[0], eight_devices[5])]
    compared = compare(runs)
    assert compared.differs["devices note"][1] is None
    assert compared.warnings == ()
