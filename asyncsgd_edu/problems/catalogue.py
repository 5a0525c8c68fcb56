"""Problems by the names that menus and the command line offer.

Importing this file loads no TensorFlow: a menu can be drawn before it.
"""

from typing import TYPE_CHECKING

from asyncsgd_edu.rules.arguments import one_of

if TYPE_CHECKING:
    from asyncsgd_edu.problems.problem import Problem

PROBLEMS = ("quadratic", "digits-linear", "digits-mlp", "digits-cnn")


def make_problem(name: str) -> "Problem":
    """The problem of that name, with its defaults. Raises ValueError naming the ones there are."""
    one_of("problem", name, PROBLEMS)
    if name == "quadratic":
        from asyncsgd_edu.problems.quadratic import Quadratic

        return Quadratic()
    from asyncsgd_edu.problems.digits import Digits

    return Digits(name.removeprefix("digits-"))
