"""Sparse logistic regression: the overlap that was asked for, the gradient both ways, bad arguments."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from asyncsgd_edu import AsyncTrainer, Constant, DelayCompensation, DropAbove, KSync, TowerTrainer, replay
from asyncsgd_edu.problems.sparse_logistic import SparseLogistic, common_share, distinct
from asyncsgd_edu.rules.laws import conflict_rate

pytestmark = pytest.mark.usefixtures("eight_devices")


@pytest.mark.parametrize(
    ("features", "nonzero", "overlap"),
    [(1000, 10, None), (1000, 10, 0.1), (1000, 10, 0.5), (1000, 10, 1.0), (5000, 3, 0.02), (50, 1, 0.3), (12, 4, 0.9)],
)
def test_examples_overlap_as_often_as_was_asked(features, nonzero, overlap):
    """Counted pair by pair. The count varies with how many examples happen to have feature 0, and a little beside."""
    examples = 3000
    problem = SparseLogistic(features, nonzero, overlap, examples=examples)
    measured = conflict_rate([set(row) for row in problem.arrays[0].tolist()])
    if overlap is not None:
        assert problem.overlap == overlap
    # Twice an example's own standard deviation, for a mean over pairs (Hoeffding 1948); then that of the pairs.
    deviation = 2 * np.sqrt(problem.common * (1 - problem.common) / examples)
    deviation += np.sqrt(2 * measured * (1 - measured)) / examples
    assert measured == pytest.approx(problem.overlap, abs=3 * deviation)


def test_the_share_of_common_examples_gives_the_overlap_when_all_pairs_are_listed():
    """Five features, two an example: every example there can be, weighed, instead of the formula."""
    share, overlap = common_share(5, 2, 0.9)
    weighed = [((0, cold), share / 4) for cold in range(1, 5)]
    weighed += [(pair, (1 - share) / 6) for pair in itertools.combinations(range(1, 5), 2)]
    assert sum(weight for _, weight in weighed) == pytest.approx(1)
    chance = sum(a * b for (one, a), (other, b) in itertools.product(weighed, repeat=2) if set(one) & set(other))
    assert chance == pytest.approx(overlap) == 0.9


def test_every_example_has_its_number_of_different_features():
    problem = SparseLogistic(features=30, nonzero=7, overlap=0.95, examples=500)
    rows = np.concatenate([problem.arrays[0], problem.arrays[3]])
    assert all(len(set(row)) == 7 for row in rows.tolist())
    assert rows.min() == 0
    assert rows.max() == 29
    assert (rows == 0).any(axis=1).mean() == pytest.approx(problem.common, abs=4 * np.sqrt(0.25 / 2500))


def test_sets_are_drawn_alike():
    rows = distinct(np.random.default_rng(0), 12_000, 2, 4)
    orders, counts = np.unique(rows, axis=0, return_counts=True)
    assert len(orders) == 4 * 3
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)


@pytest.fixture(scope="module")
def problem():
    return SparseLogistic(features=40, nonzero=5, overlap=0.8, batch_size=6, examples=300)


def dense(problem, features, values):
    rows = np.zeros((len(features), problem.features))
    np.put_along_axis(rows, features, values, axis=1)
    return rows


def test_both_gradients_are_the_logistic_formula(problem):
    weights = np.random.default_rng(1).normal(size=40).astype(np.float32)
    batch = problem.batch(0, 0, 0)
    rows, labels = dense(problem, batch[0].numpy(), batch[1].numpy()), batch[2].numpy()
    chance = 1 / (1 + np.exp(-rows @ weights))
    expected = rows.T @ (chance - labels) / 6
    loss, (gradient,) = problem.gradient([weights], batch)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(loss, -np.log(np.where(labels == 1, chance, 1 - chance)).mean(), rtol=1e-5)
    _, (slices,) = problem.sparse_gradient([weights], batch)
    assert isinstance(slices, tf.IndexedSlices)
    assert slices.values.shape == slices.indices.shape == (30,)
    added = np.zeros(40)
    np.add.at(added, slices.indices.numpy(), slices.values.numpy())
    np.testing.assert_allclose(added, expected, rtol=1e-4, atol=1e-6)
    with tf.GradientTape() as tape:
        variable = tf.Variable(weights)
        taped = problem.loss([variable], batch)
    np.testing.assert_allclose(tf.convert_to_tensor(tape.gradient(taped, variable)), expected, rtol=1e-4, atol=1e-6)


def test_a_sparse_update_is_the_dense_one(problem):
    batch = problem.batch(0, 3, 0)
    one, other = (tf.Variable(np.ones(40, np.float32)) for _ in range(2))
    one.assign_sub(0.1 * problem.gradient([one], batch)[1][0])
    slices = problem.sparse_gradient([other], batch)[1][0]
    other.scatter_sub(tf.IndexedSlices(0.1 * slices.values, slices.indices))
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    untouched = sorted(set(range(40)) - set(slices.indices.numpy().tolist()))
    assert untouched
    assert (other.numpy()[untouched] == 1).all()


def test_the_curvature_is_that_of_all_training_examples(problem):
    weights = np.random.default_rng(2).normal(size=40).astype(np.float32)
    rows = dense(problem, *problem.arrays[:2])
    chance = 1 / (1 + np.exp(-rows @ weights))
    expected = (chance * (1 - chance))[:, None] * rows**2
    np.testing.assert_allclose(problem.curvature([weights])[0], expected.mean(axis=0), rtol=1e-4, atol=1e-6)


def test_it_is_learned_on_threads_and_towers_and_replays_bit_for_bit(problem):
    start = problem.evaluate(problem.initial(0))
    assert start["loss"] == pytest.approx(np.log(2), rel=1e-6)
    for trainer in (
        AsyncTrainer(problem, workers=2, remedy=DelayCompensation(0.1)),
        TowerTrainer(problem, towers=2),
    ):
        trace = trainer.fit(updates=400)
        assert trace.audit() == []
        again = replay(trace, problem, remedy=trainer.remedy if isinstance(trainer, AsyncTrainer) else None)
        assert np.array_equal(again.loss, trace.loss)
        assert np.array_equal(again.parameters[0], trace.parameters[0])
        scores = trainer.evaluate()
        assert scores["loss"] < 0.9 * start["loss"]
        assert scores["accuracy"] > 0.65


def test_the_data_belong_to_the_problem_and_the_batches_to_the_run():
    small = {"features": 50, "nonzero": 4, "examples": 100}
    one, same, other = SparseLogistic(**small), SparseLogistic(**small), SparseLogistic(**small, data_seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(one.arrays, same.arrays, strict=True))
    assert not np.array_equal(one.arrays[0], other.arrays[0])
    first = [part.numpy() for part in SparseLogistic(**small, batch_size=8).batch(1, 2, 3)]
    for name in ((1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4)):
        again = [part.numpy() for part in SparseLogistic(**small, batch_size=8).batch(*name)]
        assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True)) == (name == (1, 2, 3))


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: SparseLogistic(features=1), ValueError, "features .* got 1"),
        (lambda: SparseLogistic(features=10, nonzero=10), ValueError, "nonzero, .* from 1 to 9, got 10"),
        (lambda: SparseLogistic(nonzero=2.5), TypeError, "nonzero.* got 2.5"),
        (
            lambda: SparseLogistic(1000, 10, 0.05),
            ValueError,
            "overlap must be from 0.0961.*, which chance makes with 10 of 1000 features, to 1, got 0.05",
        ),
        (lambda: SparseLogistic(overlap=1.5), ValueError, "overlap .* got 1.5"),
        (lambda: SparseLogistic(overlap="much"), TypeError, "overlap .* got 'much'"),
        (lambda: SparseLogistic(batch_size=0), ValueError, "batch_size .* got 0"),
        (lambda: SparseLogistic(examples=0), ValueError, "examples .* got 0"),
        (lambda: SparseLogistic(data_seed=-1), ValueError, "data_seed .* got -1"),
    ],
)
def test_bad_arguments_are_named(make, error, says):
    with pytest.raises(error, match=says):
        make()


def test_lock_free_updates_go_through_the_sparse_kernels():
    problem = SparseLogistic(features=50, nonzero=3, examples=200)
    kernels = {}
    for access in ("consistent", "lock_free"):
        trainer = AsyncTrainer(problem, workers=3, access=access)
        nodes = [n.op for f in trainer._towers[0].steps.graph.as_graph_def().library.function for n in f.node_def]
        kernels[access] = "ResourceScatterSub" in nodes
        trace = trainer.fit(updates=300)
        assert trace.audit() == []
        assert trace.header.ended.lost == ()  # Nothing vouches for a whole there.
    assert kernels == {"consistent": False, "lock_free": True}


@pytest.mark.parametrize("more", [{"durations": Constant(0.001)}, {"policy": KSync(2)}, {"remedy": DropAbove(2)}])
def test_sparse_gradients_go_everywhere(more):
    problem = SparseLogistic(features=50, nonzero=3, examples=200)
    trace = AsyncTrainer(problem, workers=3, access="lock_free", **more).fit(updates=60)
    assert trace.audit() == []
    assert trace.updates == 60


def test_one_worker_is_the_same_through_either_kernel():
    problem = SparseLogistic(features=50, nonzero=3, examples=200)
    dense, sparse = (AsyncTrainer(problem, workers=1, access=a).fit(updates=100) for a in ("consistent", "lock_free"))
    assert np.allclose(dense.parameters[0], sparse.parameters[0], atol=1e-6)
    assert not sparse.read_spread.any()
