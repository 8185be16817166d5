"""Special functions of torch: accuracy against float64, tails, poles, NaN and infinities, and open sizes."""

from __future__ import annotations

import numpy as np
import pytest

from relax.frontend.torch import from_exported_program

torch = pytest.importorskip("torch")

S = torch.special
NAN, INF = float("nan"), float("inf")
REALS = [0.0, -0.0, 1e-30, -1e-30, 1e-4, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.5, 8.5, 15.0, 15.1, 40.0, -0.5, -2.5, -9.3]

FUNCTIONS = {
    "lgamma": (torch.lgamma, [*REALS, 1e30, -1.0, INF, -INF, NAN]),
    "digamma": (torch.digamma, [*REALS, 1e30, -1.0, -7.0, INF, NAN]),
    "polygamma": (lambda x: torch.polygamma(4, x), [0.0, 0.1, 0.5, 1.0, 3.0, 13.9, 14.0, 1e3, -2.0, NAN]),
    "mvlgamma": (lambda x: torch.mvlgamma(x, 3), [1.1, 2.0, 7.5, 100.0]),
    "erfinv": (torch.erfinv, [0.0, 1e-30, 0.3, -0.5, 0.50001, 0.9, -0.999999, 1.0, -1.0, 1.5, NAN]),
    "ndtri": (S.ndtri, [0.0, 1e-30, 1e-4, 0.24, 0.25, 0.5, 0.76, 0.9999, 1.0, 1.5, -1.0, NAN]),
    "erfcx": (S.erfcx, [*REALS, 1e30, -26.0, -40.0, INF, -INF, NAN]),
    "log_ndtr": (S.log_ndtr, [*REALS, -1e3, -INF, INF, NAN]),
    "i0": (torch.i0, [*REALS, -15.1, 88.0, 91.0, 1e4, NAN]),
    "i0e": (S.i0e, [*REALS, -15.1, 1e30, INF, -INF, NAN]),
    "i1": (S.i1, [*REALS, -15.1, 88.0, 91.0, 1e4, NAN]),
    "i1e": (S.i1e, [*REALS, -15.1, 1e30, NAN]),
}


def ran(function, *inputs):
    """Results of a function's program, at sizes that are open along each axis."""
    from torch_programs import exported

    import relax
    from support import PLAIN_LOOPS

    program = exported(function, inputs, [list(range(x.ndim)) for x in inputs])
    built = relax.build(from_exported_program(program), PLAIN_LOOPS)
    return relax.VirtualMachine(built, relax.cpu())["main"](*inputs)


CASES = [(name, torch.float64) for name in FUNCTIONS]
CASES += [(name, dtype) for name in ("lgamma", "log_ndtr", "ndtri", "i1e") for dtype in (torch.float32, torch.bfloat16)]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_functions(name, dtype):
    """Within a unit in the last place of what torch computes in float64; of float64 itself within 64."""
    function, values = FUNCTIONS[name]
    x = torch.tensor(values).to(dtype)
    (found,) = ran(function, x)
    right = function(x.double()).to(dtype)
    assert found.shape == x.shape
    assert str(found.dtype) == str(dtype).removeprefix("torch.")
    actual = torch.tensor(found.numpy().astype("float64"))
    tolerance = torch.finfo(dtype).eps * (64 if dtype == torch.float64 else 1)
    torch.testing.assert_close(actual, right.double(), rtol=tolerance, atol=tolerance / 1000, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_functions_of_integers(agrees, dtype):
    def functions(x):
        return torch.lgamma(x), S.i1e(x), torch.erfinv(x)

    samples = [torch.randint(0, 9, (count, 3)).to(dtype) for count in (4, 0, 1)]
    agrees(functions, samples[0], dynamic=[[0]], others=[(sample,) for sample in samples[1:]])


def test_float32_against_scipy():
    """Of random numbers, half a unit in the last place: the functions are computed in float64."""
    special = pytest.importorskip("scipy.special")
    x = torch.empty(3000).uniform_(-20, 40)
    cases = {torch.lgamma: special.gammaln, torch.digamma: special.psi, S.erfcx: special.erfcx, S.i1e: special.i1e}
    for function, reference in cases.items():
        sample = x if function is not S.erfcx else x.clamp(min=-9)
        (found,) = ran(function, sample)
        exact = reference(sample.double().numpy())
        unit = np.spacing(np.abs(exact.astype("float32"))).astype("float64")
        assert np.max(np.abs(found.numpy() - exact) / unit) < 0.51


def test_inverses_lead_back():
    """In the tails down to the least normal number, where an inverse by erfinv alone has no digits."""
    special = pytest.importorskip("scipy.special")
    p = torch.logspace(-300, -0.31, 400, dtype=torch.float64)
    (found,) = ran(S.ndtri, p)
    np.testing.assert_allclose(found.numpy(), special.ndtri(p.numpy()), rtol=2e-14)
    y = torch.cat([torch.linspace(-1, 1, 501, dtype=torch.float64)[1:-1], 1 - torch.logspace(-15, -1, 40).double()])
    (found,) = ran(torch.erfinv, y)
    np.testing.assert_allclose(found.numpy(), special.erfinv(y.numpy()), rtol=1e-14)


def test_an_order_of_polygamma_beyond_the_expansion_is_rejected():
    from torch_programs import exported

    program = exported(lambda x: torch.polygamma(21, x), [torch.ones(2)])
    with pytest.raises(Exception, match="polygamma of the order 21(.|\n)*pass an order from 0 to 20"):
        from_exported_program(program)


def test_trigamma():
    """Torch has nine digits, and a great finite number at poles, as its sine of π is not 0."""
    special = pytest.importorskip("scipy.special")
    x = torch.tensor([0.1, 0.5, 1.0, 3.0, 10.9, 11.0, 1e5, -0.5, -2.25, 0.0, -1.0, -3.0, INF], dtype=torch.float64)
    (found,) = ran(lambda x: torch.polygamma(1, x), x)
    np.testing.assert_allclose(found.numpy(), special.polygamma(1, x.numpy()), rtol=1e-14)


def test_bessel_functions_of_infinity():
    """Infinite, where torch has NaN: the product of an infinite and a vanishing factor."""
    found = ran(lambda x: (torch.i0(x), S.i1(x)), torch.tensor([INF, -INF]))
    assert [part.numpy().tolist() for part in found] == [[INF, INF], [INF, -INF]]


@pytest.mark.parametrize("name", ["bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"])
def test_oscillating_bessel_functions(name):
    """On both sides of 8, where the series ends; float64 to twelve digits of the amplitude, NaN where torch has it."""
    special = pytest.importorskip("scipy.special")
    function, reference = getattr(S, name), getattr(special, name[-2:])
    x = torch.cat([torch.linspace(1e-3, 12, 400), torch.linspace(12, 3000, 500), torch.tensor([1e-9, 8.0])]).double()
    x = torch.cat([x, -x]) if "j" in name else x
    (found,) = ran(function, x)
    np.testing.assert_allclose(found.numpy(), reference(x.numpy()), rtol=1e-11, atol=2e-13)
    edges = torch.tensor([0.0, -1.0, NAN, INF])
    (found,) = ran(function, edges)
    torch.testing.assert_close(torch.tensor(found.numpy()), function(edges), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_running_logarithms_of_sums(agrees, dtype):
    x = torch.tensor([[-900.0, -900.0, 900.0, 1.0], [-INF, -INF, 0.0, 1.0], [0.0, INF, 1.0, -INF], [1.0, NAN, INF, 0]])
    others = [(torch.randn(shape).to(dtype),) for shape in ((1, 9), (5, 0), (0, 3), (3, 1))]
    tolerance = 2e-2 if dtype == torch.bfloat16 else 2e-6
    agrees(
        lambda x: (x.logcumsumexp(1), x.logcumsumexp(0)),
        x.to(dtype),
        dynamic=[[0, 1]],
        others=others,
        tolerance=tolerance,
    )


def test_products_of_logarithms_with_numbers(agrees):
    def products(x):
        return torch.xlogy(x, 2.0), torch.xlogy(0.5, x), S.xlog1py(x, 3), torch.xlogy(x, x)

    agrees(products, torch.tensor([0.0, 1.0, 2.5, INF, NAN]), dynamic=[[0]], others=[(torch.rand(1),)])
