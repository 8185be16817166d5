"""Special functions computed by iteration: accuracy, poles, infinities and NaN as torch has them, and open sizes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from test_special import ran  # noqa: E402

S = torch.special
NAN, INF = float("nan"), float("inf")
PARAMETERS = [0.0, 1e-8, 0.3, 1.0, 9.9, 10.1, 100.0, 1e4, 9.9e5, 1e6, 1e10, -1.0, INF, NAN]
RATIOS = [0.0, 0.5, 0.99, 0.999, 1.0, 1.001, 1.1, 2.0, INF]
POLYNOMIALS = [
    *(f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
]  # fmt: skip


def grid(first, second, dtype=torch.float64):
    """Two tensors of all pairs of numbers."""
    a, b = torch.meshgrid(torch.tensor(first, dtype=dtype), torch.tensor(second, dtype=dtype), indexing="ij")
    return a.contiguous(), b.contiguous()


def near(found, expected, rtol, atol):
    actual = torch.tensor(found.numpy().astype("float64"))
    assert str(found.dtype) == str(expected.dtype).removeprefix("torch.")
    torch.testing.assert_close(actual, expected.double(), rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma_functions(name):
    special = pytest.importorskip("scipy.special")
    a, ratio = grid(PARAMETERS, RATIOS)
    x = torch.cat([a * ratio, torch.full_like(a, 0.7)], 1)
    x[0, :5], a = torch.tensor([0.0, 1.0, -1.0, INF, NAN]), torch.cat([a, a], 1)
    function = getattr(S, name)
    (found,) = ran(function, a, x)
    expected = torch.tensor(getattr(special, name)(a.numpy(), x.numpy()))
    is_odd = ~(a.isfinite() & x.isfinite() & (a > 0) & (x > 0))
    expected[is_odd] = function(a, x)[is_odd]
    near(found, expected, 1e-7, 2e-12)
    ordinary = (a > 0.1) & (a < 2e4) & (expected > 1e-30)
    torch.testing.assert_close(torch.tensor(found.numpy())[ordinary], expected[ordinary], rtol=1e-10, atol=0)


def test_a_deep_tail_of_a_large_parameter():
    """By DLMF 8.12.3 with the first term of its expansion, near 1 / 3; 1 - Q would be 0."""
    a, x = torch.full((2,), 1e8, dtype=torch.float64), torch.full((2,), 99900000.0, dtype=torch.float64)
    (found,) = ran(S.gammainc, a, x)
    excess = -1e-3 - torch.log1p(torch.tensor(-1e-3, dtype=torch.float64))
    weight = torch.exp(-a * excess) / (2 * torch.pi * a).sqrt()
    near(found, torch.erfc((a * excess).sqrt()) / 2 + weight / 3, 1e-6, 0)


def test_zeta():
    """Torch's function is that of Cephes."""
    exponents = [1.0, 0.5, 1.0001, 1.5, 2.0, 3.0, 5.5, 10.0, 100.0, 1e3, -1.0, INF, NAN]
    x, q = grid(exponents, [0.0, -1.0, -0.5, -3.5, -20.25, 1e-3, 0.5, 1.0, 9.5, 10.0, 50.0, 1e4, 1e10, INF, NAN])
    (found,) = ran(S.zeta, x, q)
    near(found, S.zeta(x, q), 1e-14, 1e-300)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    """Of negative degrees 0; degrees are rounded towards 0."""
    x, n = grid([-1.5, -1.0, -0.7, 0.0, 0.3, 0.5, 1.0, 1.2, NAN], [-2.0, -0.5, 0.0, 1.0, 1.9, 2.0, 5.0, 9.0, 30.0])
    function = getattr(S, name)
    (found,) = ran(function, x, n)
    near(found, function(x, n), 1e-12, 1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "zeta", "legendre_polynomial_p"])
def test_narrow_floats(agrees, name, dtype):
    """Rounded from float64 once, at the sizes 0 and 1, too."""
    if dtype == torch.bfloat16 and name in ("zeta", "legendre_polynomial_p"):
        pytest.skip("torch has it for float32 and float64")
    a, b = (torch.empty(7, 3).uniform_(1.25, 3.0).to(dtype) for _ in range(2))
    others = [(a[:count], b[:count]) for count in (1, 0)]
    agrees(getattr(S, name), a, b, dynamic=[[0], [0]], others=others, tolerance=8 * torch.finfo(dtype).eps)


def test_numbers_and_integers(agrees):
    def functions(x, n):
        return S.zeta(x, 2.5), S.chebyshev_polynomial_t(x, n), S.hermite_polynomial_h(x, 3)

    x, n = torch.rand(4) + 1.5, torch.tensor([0, 1, 2, 7])
    agrees(functions, x, n, dynamic=[[0], [0]], others=[(x[:2], n[:2])])
