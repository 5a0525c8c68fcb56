"""TensorFlow's greetings are left out, everything else that is said gets through."""

import os
import subprocess
import sys

import pytest

from asyncsgd_edu.quiet import GREETING


def standard_error(code):
    quiet = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=quiet, check=True).stderr


@pytest.mark.slow
def test_a_first_run_says_nothing():
    code = "from asyncsgd_edu import AsyncTrainer, Quadratic; AsyncTrainer(Quadratic(), workers=2).fit(updates=5)"
    assert standard_error(code) == ""


@pytest.mark.slow
def test_other_lines_are_passed_on():
    said = standard_error(
        "import os\nfrom asyncsgd_edu.quiet import without_greetings\n"
        "with without_greetings():\n    os.write(2, b'I0000 greeting\\nsomething is wrong\\n')\n"
        "os.write(2, b'later\\n')"
    )
    assert said == "something is wrong\nlater\n"


def test_only_greetings_are_greetings():
    assert GREETING.match(b"I0000 00:00:1 port.cc:153] oneDNN custom operations are on.\n")
    assert not GREETING.match(b"E0000 00:00:1 cuda_dnn.cc] Unable to register\n")
    assert not GREETING.match(b"W0000 00:00:1 gpu_device.cc] Cannot dlopen some GPU libraries\n")
