"""What all tests share: a quiet TensorFlow with eight logical devices.

Nothing here knows what a test is about.
"""

import os
from collections.abc import Iterator

import leftovers
import pytest
from hypothesis import settings

# Before anything imports TensorFlow, kernels in subprocesses included.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# No deadline: a first call that imports something is slow, not wrong. CI tries the same cases every time.
settings.register_profile("steady", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("steady")


@pytest.fixture(autouse=True)
def runs_end_with_their_test() -> Iterator[None]:
    """A test that fails has not stopped its runs; those after it must not suffer for that."""
    leftovers.begin()
    yield
    leftovers.stop_all()


@pytest.fixture(scope="session")
def eight_devices() -> list[str]:
    """Names of eight devices; made once, before TensorFlow starts, since that is when it can be done."""
    from asyncsgd_edu import configure_devices

    return configure_devices(8)
