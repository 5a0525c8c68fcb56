"""Gates: a script is checked before it is run, and its order is the order that happens."""

import threading

import pytest

from asyncsgd_edu import OpenGate, ScriptedGate
from asyncsgd_edu.engines.gates import Stopped


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ([(0, "apply")], ["event 0", "worker 0", "read"]),
        ([(0, "read"), (0, "read")], ["event 1", "worker 0", "apply"]),
        ([(0, "read"), (1, "apply")], ["event 1", "worker 1"]),
        ([(0, "write")], ["event 0", "'write'"]),
    ],
)
def test_an_impossible_script_points_at_its_event(order, names):
    with pytest.raises(ValueError, match="event") as told:
        ScriptedGate(order)
    for name in names:
        assert name in str(told.value)


def test_a_script_must_fit_the_run():
    gate = ScriptedGate([(0, "read"), (2, "read"), (2, "apply"), (0, "apply")])
    with pytest.raises(ValueError, match="worker 2, the run has workers 0 to 1"):
        gate.open(workers=2, updates=2)
    with pytest.raises(ValueError, match="2 applies left, the run asks for 3 updates"):
        gate.open(workers=3, updates=3)


def test_turns_come_in_the_order_of_the_script():
    order = [(1, "read"), (0, "read"), (1, "apply"), (0, "apply")]
    gate, seen = ScriptedGate(order), []
    gate.open(workers=2, updates=2)

    def work(worker):
        for action in ("read", "apply"):
            with gate.turn(worker, action):
                seen.append((worker, action))

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == order


def test_a_stop_ends_every_wait_and_sleep():
    gate = OpenGate()
    gate.open(1, 1)
    gate.pause()
    ended = []

    def wait(what):
        try:
            what()
        except Stopped:
            ended.append(what)

    def turn():
        with gate.turn(0, "apply"):
            pass

    threads = [threading.Thread(target=wait, args=(what,), daemon=True) for what in (turn, lambda: gate.sleep(1000.0))]
    for thread in threads:
        thread.start()
    gate.stop()
    for thread in threads:
        thread.join(60)
    assert len(ended) == 2


def test_reads_pass_a_pause_and_one_permit_lets_one_apply_through():
    gate = OpenGate()
    gate.open(1, 1)
    gate.pause()
    with gate.free_pass(0) as free:
        assert not free
    with gate.turn(0, "read"):
        pass
    gate.permit_one()
    with gate.turn(0, "apply"):
        pass
    assert not gate._may_pass(0, "apply")
    gate.resume()
    with gate.free_pass(0) as free:
        assert free


def test_a_pause_waits_for_who_is_on_a_free_pass():
    gate = OpenGate()
    gate.open(1, 1)
    inside, leave, paused = threading.Event(), threading.Event(), threading.Event()

    def work():
        with gate.free_pass(0) as free:
            assert free
            inside.set()
            leave.wait(60)

    def pause():
        gate.pause()
        paused.set()

    worker, pauser = threading.Thread(target=work), threading.Thread(target=pause)
    worker.start()
    assert inside.wait(60)
    pauser.start()
    assert not paused.wait(0.05)
    leave.set()
    assert paused.wait(60)
    worker.join(60)
    pauser.join(60)


def test_a_gate_is_shut_before_calls_of_many_steps_are_told_to_end():
    gate, seen = OpenGate(), []
    gate.open(1, 1)
    gate.hurry = lambda wanted: seen.append((wanted, gate.stopped, gate._paused))
    gate.pause()
    gate.resume()
    gate.stop()
    gate.resume()
    assert seen == [(True, False, True), (False, False, True), (True, True, False), (True, True, False)]


def test_a_script_can_be_text():
    assert ScriptedGate("0r 1r, 1a 0a").order == ((0, "read"), (1, "read"), (1, "apply"), (0, "apply"))
    for text, token in (("0r 1a", "'1a'"), ("read", "'read'"), ("0r 0d", "event 1")):
        with pytest.raises(ValueError, match=token):
            ScriptedGate(text)


@pytest.mark.parametrize("order", [None, [0], [(0, "read", 1)]])
def test_what_is_no_script_is_named(order):
    with pytest.raises(TypeError, match="a script is a sequence of"):
        ScriptedGate(order)
