"""The plane that paths and ends are drawn in: its losses are the problem's, whatever shape its parameters have."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from asyncsgd_edu.problems.digits import Digits
from asyncsgd_edu.problems.problem import Batch, Problem
from asyncsgd_edu.problems.quadratic import Quadratic
from asyncsgd_edu.problems.rosenbrock import Rosenbrock
from asyncsgd_edu.view import plane

pytestmark = pytest.mark.usefixtures("eight_devices")
SIDES = [(-2.0, 2.0), (-1.0, 3.0)]


class Level(Problem):
    """Two parameters in two arrays, and a loss that falls below 0 along the first."""

    name, batch_size = "level", 1

    def initial(self, seed: int) -> list[np.ndarray]:
        return [np.zeros([1, 1], np.float32), np.zeros([], np.float32)]

    def batch(self, worker: Any, number: Any, seed: int) -> Batch:
        return ()

    def loss(self, parameters: Sequence[Any], batch: Batch) -> Any:
        return parameters[0][0, 0] + parameters[1]

    def evaluate(self, parameters: Sequence[np.ndarray]) -> dict[str, float]:
        assert [value.shape for value in parameters] == [(1, 1), ()]
        return {"loss": float(parameters[0][0, 0] + 100 * parameters[1])}


def test_a_contour_is_the_evaluation_of_the_problem_without_noise() -> None:
    drawn = plane.contour(Rosenbrock(noise=5.0), SIDES)
    x, y = np.meshgrid(drawn["x"], drawn["y"])
    assert np.allclose(drawn["customdata"], (1 - x) ** 2 + 100 * (y - x**2) ** 2)
    assert (drawn["x"][0], drawn["x"][-1], drawn["y"][0], drawn["y"][-1]) == (-2, 2, -1, 3)
    floor = 10 ** drawn["z"].min()
    assert np.allclose(10 ** drawn["z"], np.maximum(drawn["customdata"], floor))
    assert (drawn["customdata"] < floor).mean() < 0.01
    assert "100" in drawn["colorbar"]["ticktext"]
    at = drawn["colorbar"]["ticktext"].index("100")
    assert drawn["colorbar"]["tickvals"][at] == pytest.approx(2)


def test_a_loss_below_0_or_of_one_decade_is_drawn_as_it_is() -> None:
    below = plane.contour(Level(), SIDES)
    assert below["z"].min() == pytest.approx(-2 - 100)
    flat = plane.contour(Quadratic(curvatures=[1.0, 1.0]), [(3.0, 4.0), (3.0, 4.0)])
    assert np.array_equal(flat["z"], flat["customdata"])
    assert "tickvals" not in flat["colorbar"]


def test_places_are_taken_apart_into_the_parameters_of_the_problem() -> None:
    assert plane.losses(Level(), np.array([[1.0, 2.0], [3.0, 0.0]])).tolist() == [201.0, 3.0]
    assert plane.losses(Rosenbrock(), np.array([[1e300, 0.0]])).tolist() == [np.inf]


def test_a_frame_has_room_around_all_places_even_of_one() -> None:
    (left, right), (low, high) = plane.frame([np.array([[0.0, 0.0]]), np.array([[10.0, 0.0]])])
    assert left < 0 < 10 < right < 12
    assert low < 0 < high
    for low, high in plane.frame([np.array([[5.0, -3.0]])]):
        assert low < high


@pytest.mark.parametrize(
    ("problem", "error", "sentence"),
    [
        ("rosenbrock", TypeError, "problem must be a problem"),
        (Quadratic(), ValueError, "a plane needs a problem with 2 parameters, quadratic has 20"),
        (Digits("linear"), ValueError, "digits-linear has 650"),
    ],
)
def test_only_two_parameters_make_a_plane(problem: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        plane.check_plane(problem)
    assert plane.check_plane(Quadratic(dimension=2)).name == "quadratic"
