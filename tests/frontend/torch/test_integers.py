"""Functions of integers and of the bits of floats are those of torch, at several sizes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8])
def test_divisors_and_multiples(agrees, dtype):
    """The least number of a signed dtype has no magnitude in it: results wrap around as torch's do."""
    least = torch.iinfo(dtype).min

    def numbers(x, y):
        return torch.gcd(x, y), torch.lcm(x, y), torch.gcd(x, x[:1])

    def sample(count):
        x = torch.tensor([0, 12, 7, least, 100, 60]).repeat(count).to(dtype)
        return x.reshape(count, 6), torch.tensor([0, 18, 0, 100, 75, 1]).to(dtype)

    agrees(numbers, *sample(2), dynamic=[[0], []], others=[sample(1), sample(5)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mantissas_exponents_and_neighbours(agrees, dtype):
    tiny = torch.finfo(dtype).tiny

    def parts(x, y):
        return *torch.frexp(x), torch.nextafter(x, y), torch.nextafter(y, x)

    def sample(count):
        x = torch.tensor([0.0, -0.0, 1.0, -3.5, tiny, tiny / 8, -tiny / 1024, INF, -INF, NAN, 1e30], dtype=dtype)
        return x.repeat(count), torch.tensor([1.0, -1, 2, -4, 0, 1, -1, 0, 0, 0, INF], dtype=dtype).repeat(count)

    agrees(parts, *sample(2), dynamic=[[0], [0]], others=[sample(1), sample(3)], tolerance=0)


def test_views_of_bits(agrees):
    def views(x, y):
        return x.view(torch.int32), x.view(torch.int16), x.view(torch.int64), (y + 1).view(torch.float32)

    agrees(views, torch.randn(3, 4), torch.tensor([1, -5], dtype=torch.int32), dynamic=[[0], []])


def test_angles_of_real_numbers(agrees):
    agrees(lambda x, n: (x.angle(), n.angle()), torch.tensor([1.0, -2, 0, NAN, -INF]), torch.tensor([3, -3, 0]))
