"""Two exercises: `double`, which the attacks are after, and `negate`, whose marks they may not touch."""

import torch

from autograder.judge import exercise, points

SECRET = "the hidden test of double"


@exercise("negate")
class TestNegate:
    @points(1, reveals="Each entry changes its sign")
    def test_negate(self, student):
        x = torch.randn(3)
        assert torch.equal(student.negate(x), -x)


@exercise("double")
class TestDouble:
    @points(1, reveals="Each entry is doubled")
    def test_double(self, student):
        x = torch.randn(3)
        got = student.double(x)
        assert got.shape == (3,) and got.dtype == x.dtype and torch.equal(got, 2 * x)

    @points(1, reveals="One becomes two")
    def test_one(self, student):
        got = student.double(torch.ones(2))
        assert got.dtype == torch.float32 and torch.equal(got, torch.full((2,), 2.0))
