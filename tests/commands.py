"""What every command does with arguments that it refuses."""

import pytest

from asyncsgd_edu.__main__ import main


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on stderr with which the arguments are refused."""
    try:
        status: object = main(arguments)
    except SystemExit as leaving:
        status = leaving.code
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1), (status, out, err)
    return err
