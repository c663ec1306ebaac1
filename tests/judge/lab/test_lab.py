"""Hidden tests that use all of the `student` fixture, run by the engine's own tests on right and wrong code."""

import pytest
import torch

from autograder.judge import Contract, StudentError, call, duties, exercise, points
from autograder.properties import Evidence, require


@pytest.fixture
def x():
    return torch.randn(4, 3)


@exercise("scale")
class TestScale:
    @points(2, reveals="Each row is multiplied by its factor")
    @pytest.mark.parametrize("rows", [1, 4])
    def test_values(self, student, rows):
        x, factors = torch.randn(rows, 3), torch.randn(rows)
        assert torch.equal(student.scale(x, factors), x * factors[:, None])

    @points(1, reveals="Keyword arguments and a default work")
    def test_keywords(self, student, x):
        one, two = student.scale.each([call(x), call(x, factors=torch.full((4,), 2.0))])
        assert torch.equal(one, x) and torch.equal(two, 2 * x)

    @points(1, reveals="A factor too few is a ValueError")
    def test_error(self, student, x):
        with pytest.raises(ValueError) as caught:
            student.scale(x, torch.ones(3))
        assert isinstance(caught.value, StudentError)

    @points(1, reveals="A property with a picture")
    def test_picture(self, student, x):
        moved = (student.scale(x) - x).abs()
        picture = tuple(tuple(row) for row in moved.tolist())
        require(
            Evidence(not moved.any(), "an entry moved though the factor is 1", picture, rows="row", columns="column")
        )


@exercise("Gate")
class TestGate:
    @points(1, reveals="The parameters are two weights and no bias")
    def test_parameters(self, student):
        assert student.Gate(3).parameters == {"left.weight": (3, 3), "right.weight": (3, 3)}

    @points(1, reveals="The loaded weights are used")
    def test_loaded(self, student, x):
        gate = student.Gate(3)
        gate.load({"left.weight": 2 * torch.eye(3), "right.weight": torch.zeros(3, 3)})
        assert torch.allclose(gate(x), x)
        assert torch.equal(gate.state()["left.weight"], 2 * torch.eye(3))

    @points(1, reveals="Every parameter gets a gradient")
    def test_parameter_gradients(self, student, x):
        _, _, gradients = student.Gate(3).vjp([x], [torch.ones(4, 3)])
        assert set(gradients) == {"left.weight", "right.weight"} and all(g is not None for g in gradients.values())

    @points(1, reveals="A module can be an argument")
    def test_module_argument(self, student, x):
        gate = student.Gate(3)
        assert torch.equal(student.apply_twice(gate, x), gate(gate(x)))


@exercise("total")
class TestTotal:
    @points(1, reveals="The function that is passed in is called once for each number")
    def test_callback(self, student):
        asked = []

        def f(n):
            asked.append(n)
            return n * n

        assert student.total(f, 4) == 30 and asked == [1, 2, 3, 4]


@exercise("noise")
class TestNoise:
    @points(1, reveals="The numbers come from the generator")
    def test_generator(self, student):
        first, again = student.noise.each([(5, torch.Generator().manual_seed(3)) for _ in range(2)])
        assert torch.equal(first, again) and torch.equal(
            first, torch.randn(5, generator=torch.Generator().manual_seed(3))
        )


@duties(
    scale=Contract(lambda: (torch.randn(4, 3).double(), torch.randn(4).double()), floats=(0, 1), batch=(0, 1)),
    Gate=Contract(lambda: (torch.randn(4, 3).double(),), construct=(3,), floats=(0,), batch=(0,), large=(0,)),
)
def test_duties(student, duty):
    duty(student)
