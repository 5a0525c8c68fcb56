"""What a test leaves running: found by its threads, whoever made it, so that one that fails harms no other."""

import threading
from typing import Any

_strangers: set[threading.Thread] = set()


def workers() -> list[threading.Thread]:
    """Threads of trainers that are alive."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("asyncsgd-worker")]


def workers_alive() -> list[str]:
    """Names of the workers that this test has started and that are still there."""
    return [thread.name for thread in workers() if thread not in _strangers]


def begin() -> None:
    """A test begins: who is here now is none of its business."""
    _strangers.clear()
    _strangers.update(workers())


def stop_all() -> None:
    """Stop every run that has workers."""
    crews: set[Any] = {crew for thread in workers() if (crew := getattr(thread, "_target", None)) is not None}
    for trainer in {crew.__self__._ended.__self__ for crew in crews}:
        trainer.stop()
