"""CIFAR-10: read by Keras's loader from an archive of its own layout, and never fetched unasked."""

import importlib
import io
import pickle
import shutil
import tarfile

import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu import AsyncTrainer, TowerTrainer, replay
from asyncsgd_edu.problems import cifar10
from asyncsgd_edu.problems.cifar10 import Cifar10

pytestmark = pytest.mark.usefixtures("eight_devices")
HELD_OUT = 30


def picture(number):
    """An image as the files hold it: 1,024 red, then green, then blue values."""
    return np.random.default_rng(number).integers(0, 256, 3072).astype(np.uint8)


def batch_file(numbers, labels):
    """A pickle such as those of the data: bytes for keys, an array of uint8, a list of labels."""
    return pickle.dumps({b"data": np.stack([picture(n) for n in numbers]), b"labels": list(labels)})


def write_archive(path):
    """The loader's layout. One image a file: it spreads what a file holds over 10,000 places."""
    files = {f"data_batch_{n + 1}": batch_file([n], [2 * n]) for n in range(5)}
    files["test_batch"] = batch_file(range(100, 100 + HELD_OUT), [n % 10 for n in range(HELD_OUT)])
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A Keras home of the test's own, in a process that can fetch nothing."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setattr(importlib.import_module("keras.src.backend.config"), "_KERAS_DIR", str(tmp_path))

    def refuse(*_):
        raise AssertionError("the loader went to the network")

    monkeypatch.setattr(importlib.import_module("keras.src.utils.file_utils"), "urlretrieve", refuse)
    return tmp_path


@pytest.fixture
def kept(home, monkeypatch):
    """The archive where the loader looks for it. No small one has the right sum, so any sum will do."""
    path = home / "datasets" / cifar10.KEPT_AS
    write_archive(path)
    digest = importlib.import_module("hashlib").sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(cifar10, "SHA256", digest)
    files = importlib.import_module("keras.src.utils.file_utils")
    wanted = []
    monkeypatch.setattr(files, "validate_file", lambda path, sum_, **_: not wanted.append((str(path), sum_)))
    yield path
    # What was left out: the loader wants this sum of this file, the one that is checked before it is asked.
    assert set(wanted) <= {(str(path), "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce")}


def test_the_sum_is_the_loaders(home, monkeypatch):
    asked = {}
    loader = importlib.import_module("keras.src.datasets.cifar10")

    def get_file(**settings):
        asked.update(settings)
        raise InterruptedError

    monkeypatch.setattr(loader, "get_file", get_file)
    with pytest.raises(InterruptedError):
        loader.load_data()
    assert asked["file_hash"] == cifar10.SHA256
    assert asked["origin"] == cifar10.SOURCE
    assert f"{asked['fname']}_archive" == cifar10.KEPT_AS


def test_images_and_labels_are_those_of_the_archive(kept):
    images, labels, held_out, classes = Cifar10(size=30_001).arrays
    assert images.shape == (30_001, 32, 32, 3)
    assert held_out.shape == (HELD_OUT, 32, 32, 3)
    assert (labels[0], labels[10_000], labels[20_000], labels[30_000]) == (0, 2, 4, 6)
    assert classes.tolist() == [n % 10 for n in range(HELD_OUT)]
    assert images[30_000, 4, 5].tolist() == [picture(3)[colour * 1024 + 4 * 32 + 5] for colour in range(3)]
    assert held_out[7, 31, 0].tolist() == [picture(107)[colour * 1024 + 31 * 32] for colour in range(3)]


def test_it_trains_on_threads_and_towers_and_replays_bit_for_bit(kept):
    problem = Cifar10(size=40_000, batch_size=8)
    for trainer in (AsyncTrainer(problem, workers=2), TowerTrainer(problem, towers=2)):
        trace = trainer.fit(updates=10)
        assert trace.audit() == []
        again = replay(trace, problem)
        assert np.array_equal(again.loss, trace.loss)
        assert all(np.array_equal(a, b) for a, b in zip(again.parameters, trace.parameters, strict=True))
        assert trace.header.problem == {"name": "cifar10", "batch_size": 8, "size": 40_000}
    assert trace.loss[-4:].mean() < trace.loss[:4].mean()


def test_batches_come_from_the_first_images_only_and_keep_their_labels(kept):
    problem = Cifar10(size=20_000, batch_size=64)
    images, labels = problem.batch(0, 0, 0)
    assert set(labels.numpy()) == {0, 2}
    for image, label in zip(images.numpy(), labels.numpy(), strict=True):
        assert np.array_equal(image.transpose(2, 0, 1).ravel(), picture(label // 2))
    assert np.array_equal(labels, problem.batch(0, 0, 0)[1])
    assert not np.array_equal(labels, problem.batch(0, 1, 0)[1])


def test_an_evaluation_counts_every_held_out_image(kept, monkeypatch):
    problem = Cifar10(size=10)
    values = problem.initial(0)
    whole = problem.evaluate(values)
    images, labels = problem.arrays[2:]
    losses = [float(problem.loss(values, (images[n : n + 1], labels[n : n + 1]))) for n in range(HELD_OUT)]
    right = [int(np.argmax(problem.logits(values, images[n : n + 1]))) == labels[n] for n in range(HELD_OUT)]
    assert whole == pytest.approx({"loss": np.mean(losses), "accuracy": np.mean(right)}, rel=1e-4)
    monkeypatch.setattr(cifar10, "AT_ONCE", 7)
    assert problem.evaluate(values) == pytest.approx(whole, rel=1e-4)


def test_the_network_is_that_of_keras_layers(kept):
    import keras

    problem = Cifar10(size=10, batch_size=4)
    values = [value + 0.1 for value in problem.initial(2)]
    model = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Rescaling(1 / 127.5, offset=-1)])
    for filters in (16, 32):
        model.add(keras.layers.Conv2D(filters, 3, padding="same", activation="relu"))
        model.add(keras.layers.MaxPooling2D())
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dense(10))
    model.set_weights(values)
    images = problem.batch(0, 0, 0)[0]
    np.testing.assert_allclose(problem.logits(values, images), model(tf.cast(images, tf.float32)), rtol=1e-3, atol=1e-3)


def test_without_the_data_it_says_where_they_belong_and_fetches_nothing(home):
    with pytest.raises(FileNotFoundError, match=r"CIFAR-10 is not on this machine: .*datasets/cifar-10-\S+ is missing"):
        Cifar10()
    with pytest.raises(FileNotFoundError, match=r"Cifar10\(download=True\) .*https://www.cs.toronto.edu/"):
        Cifar10()


def test_half_a_file_is_named_and_left_alone(home):
    path = home / "datasets" / cifar10.KEPT_AS
    path.parent.mkdir()
    path.write_bytes(b"half")
    with pytest.raises(ValueError, match="is not CIFAR-10 as Keras expects it, or not all of it"):
        Cifar10()
    assert path.read_bytes() == b"half"


def test_it_is_fetched_when_that_is_asked_for(kept, tmp_path, monkeypatch):
    elsewhere = tmp_path / "server.tar.gz"
    kept.rename(elsewhere)
    fetched = []

    def retrieve(url, path, *_):
        fetched.append(url)
        shutil.copy(elsewhere, path)

    monkeypatch.setattr(importlib.import_module("keras.src.utils.file_utils"), "urlretrieve", retrieve)
    problem = Cifar10(size=5, download=True)
    assert fetched == []
    assert problem.arrays[0].shape == (5, 32, 32, 3)
    assert fetched == [cifar10.SOURCE]
    assert kept.is_file()
    Cifar10(size=5)  # It is there from now on.


def test_a_home_that_cannot_be_written_is_passed_over_as_the_loader_does(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "nowhere"))
    assert cifar10.archive().parts[-3:] == (".keras", "datasets", cifar10.KEPT_AS)
    assert not cifar10.archive().is_relative_to(tmp_path)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Cifar10(size=0), ValueError, "size .* from 1 to 50000, got 0"),
        (lambda: Cifar10(size=50_001), ValueError, "size .* got 50001"),
        (lambda: Cifar10(batch_size=2.5), TypeError, "batch_size .* got 2.5"),
        (lambda: Cifar10(download="yes"), TypeError, "download must be True or False, got 'yes'"),
    ],
)
def test_bad_arguments_are_named(make, error, says):
    with pytest.raises(error, match=says):
        make()
