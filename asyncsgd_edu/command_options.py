"""What the commands have in common: how they read a number, and the error for what cannot be carried out."""

import argparse
from collections.abc import Callable

from asyncsgd_edu.rules.arguments import whole_number

INTERRUPTED = 130  # What a shell reports for a command that Ctrl-C ended.


class Mistake(Exception):
    """The command cannot be carried out as given; its text is the line to print."""


def whole_option(name: str, low: int, high: int) -> Callable[[str], int]:
    """A reader of whole numbers from `low` to `high`."""

    def read(text: str) -> int:
        try:
            return whole_number(name, int(text), low, high)
        except ValueError:
            sentence = f"must be a whole number from {low} to {high}, got {text!r}"
            raise argparse.ArgumentTypeError(sentence) from None

    return read
