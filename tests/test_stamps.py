"""Stamps: a read knows exactly which updates are in it, and lost ones are counted."""

import keras
import numpy as np
import pytest

from asyncsgd_edu.engines.stamps import Stamped, torn
from asyncsgd_edu.quiet import tf

pytestmark = pytest.mark.usefixtures("eight_devices")


def stamped(atomic=True, workers=3):
    return Stamped(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), workers, atomic, "p")


@pytest.mark.parametrize("atomic", [True, False])
def test_the_stamp_goes_with_the_subtraction(atomic):
    one = stamped(atomic)
    for worker in (0, 2, 2):
        one.signed_by(tf.constant(worker))
        one.variable.assign_sub(tf.ones([2, 2]))
    value, stamps = one.read()
    assert value.numpy().tolist() == [[-2.0, -1.0], [0.0, 1.0]]
    assert stamps.numpy().tolist() == [1.0, 0.0, 2.0]


def test_only_the_first_write_of_an_update_is_stamped():
    one = stamped()
    one.signed_by(tf.constant(1))
    one.variable.assign_sub(tf.ones([2, 2]))
    one.variable.assign_add(tf.ones([2, 2]))
    value, stamps = one.read()
    assert value.numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert stamps.numpy().tolist() == [0.0, 1.0, 0.0]


def test_what_is_written_between_read_and_write_is_lost_with_its_stamp():
    one = stamped()
    one.signed_by(tf.constant(0))
    mine = one.variable.value()  # Worker 0 reads ...
    one.whole.assign_sub([1.0, 1.0, 1.0, 1.0, 0.0, -1.0, 0.0])  # ... worker 1 updates ...
    one.variable.assign(mine * 2)  # ... and worker 0 writes over it.
    value, stamps = one.read()
    assert value.numpy().tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert stamps.numpy().tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("clocks", "spread"),
    [
        ([[2, 1], [2, 1]], 0),
        ([[2, 1], [1, 1]], 1),
        ([[1, 0], [0, 1]], 2),  # As many updates in both, but not the same ones.
        ([[5, 0, 3], [4, 2, 3], [5, 1, 0]], 1 + 2 + 3),
    ],
)
def test_the_spread_counts_updates_that_some_have_and_others_lack(clocks, spread):
    assert int(torn([tf.constant(clock, tf.float32) for clock in clocks])) == spread


@pytest.mark.parametrize(
    "optimizer",
    [
        keras.optimizers.SGD, keras.optimizers.Adam, keras.optimizers.AdamW, keras.optimizers.Adagrad,
        keras.optimizers.Adadelta, keras.optimizers.Adamax, keras.optimizers.Nadam, keras.optimizers.RMSprop,
        keras.optimizers.Ftrl, keras.optimizers.Lion, keras.optimizers.Lamb, keras.optimizers.Adafactor,
    ],
)  # fmt: skip
@pytest.mark.parametrize("atomic", [True, False])
def test_every_optimizer_takes_the_stand_in_for_a_variable(optimizer, atomic):
    one, plain = stamped(atomic, workers=2), tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    ours, theirs = optimizer(0.05), optimizer(0.05)
    ours.build([one.variable])
    theirs.build([plain])

    @tf.function(autograph=False)
    def both(gradient):
        one.signed_by(tf.constant(1))
        ours.apply([gradient], [one.variable])
        theirs.apply([gradient], [plain])

    for step in range(4):
        both(tf.constant([[1.0, -0.5], [0.25, step]]))
    value, stamps = one.read()
    assert np.array_equal(value.numpy(), plain.numpy())
    assert stamps.numpy().tolist() == [0.0, 4.0]
