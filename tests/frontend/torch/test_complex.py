"""Complex tensors of torch, which are pairs of real tensors."""

from __future__ import annotations

import pytest

import relax
from relax.frontend.torch import from_exported_program

torch = pytest.importorskip("torch")

from torch_programs import exported, same_numbers  # noqa: E402

BOTH = [torch.complex64, torch.complex128]


def numbers(*shape, dtype=torch.complex64):
    return torch.randn(*shape, dtype=dtype)


@pytest.fixture
def same():
    """The check that a function of complex tensors computes what torch does."""
    return same_numbers


@pytest.mark.parametrize("dtype", BOTH)
def test_arithmetic(same, dtype):
    def arithmetic(a, b):
        return a + b, a - b, a * b, a / b, 2 * a, a + 1j, 1 - a, a * (2 - 3j), 1 / a, -a, torch.add(a, b, alpha=2j)

    others = [(numbers(n, 3, dtype=dtype), numbers(n, 3, dtype=dtype)) for n in (0, 1, 7)]
    same(arithmetic, numbers(2, 3, dtype=dtype), numbers(2, 3, dtype=dtype), dynamic=[[0], [0]], others=others)


def test_real_beside_complex(same):
    def mixed(z, x, n):
        return z * x, x + z, z / n, x * 1j, n - z, x[:1] + z[:, :1], z**2, x.to(torch.complex128), z.to(x.dtype)

    same(mixed, numbers(2, 3), torch.randn(2, 3), torch.tensor([1, 2, 3]))


def test_rotary_embedding(same):
    """As the original code of Llama writes it, for every length."""

    def rotary(x, frequencies):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], x.shape[-1] // 2, 2))
        turned = pairs * frequencies.view(1, x.shape[1], 1, pairs.shape[-1])
        return torch.view_as_real(turned).flatten(3).type_as(x)

    def operands(batch, length):
        angles = torch.outer(torch.arange(length), 1 / 10000 ** (torch.arange(0, 8, 2) / 8))
        return torch.randn(batch, length, 4, 8), torch.polar(torch.ones_like(angles), angles)

    others = [operands(*case) for case in ((1, 1), (2, 0), (3, 17))]
    same(rotary, *operands(2, 5), dynamic=[[0, 1], [0]], others=others)


def test_rotary_embedding_with_a_table_as_buffer(agrees):
    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            angles = torch.outer(torch.arange(32.0), 0.5 ** torch.arange(4.0))
            self.register_buffer("frequencies", torch.polar(torch.ones_like(angles), angles))

        def forward(self, x):
            pairs = torch.view_as_complex(x.unflatten(-1, (4, 2)))
            return torch.view_as_real(pairs * self.frequencies[: x.shape[1]]).flatten(-2)

    agrees(Rotary(), torch.randn(2, 5, 8), dynamic=[[0, 1]], others=[(torch.randn(1, 9, 8),), (torch.randn(3, 1, 8),)])


def test_a_table_as_parameter():
    """With `keep_params_as_input` it has a trailing axis of 2, as complex inputs have."""

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("factor", torch.tensor([1 + 2j, 3 - 1j]))

        def forward(self, x):
            return (x * self.factor).real

    mod = from_exported_program(exported(Scaled(), [torch.ones(2)]), keep_params_as_input=True)
    assert [str(param.struct_info) for param in mod["main"].params] == [
        'R.Tensor((2,), dtype="float32")',
        'R.Tensor((2, 2), dtype="float32")',
    ]
    assert mod["main"].attrs["params"][0].numpy().tolist() == [[1, 2], [3, -1]]


def test_parts(same):
    def apart(z, x, y):
        made = torch.complex(x, y)
        return (
            z.real, z.imag, z.conj(), z.conj() * z, z.abs(), z.angle(), z.mT, z.mH, z.adjoint(), made, torch.polar(x, y),
            torch.view_as_real(made), torch.view_as_complex(torch.stack([x, y], -1)), z.sgn(), z.resolve_conj(),
            torch.complex(x[:, :1], y), torch.view_as_real(z.conj().resolve_conj()), torch.real(x), torch.conj(x),
        )  # fmt: skip

    def operands(n):
        return numbers(n, 3), torch.randn(n, 3), torch.randn(n, 3)

    same(apart, *operands(2), dynamic=[[0]] * 3, others=[operands(n) for n in (0, 1, 5)])


def test_views_as_another_dtype(same):
    same(lambda z, x: (z.view(torch.float32), x.view(torch.complex64) + 1), numbers(3, 4), torch.randn(3, 8))


def test_moves(same):
    def moved(z, w, x):
        mask = x > 0
        return (
            z.reshape(-1, 2), z.permute(1, 0), z.t(), z.flatten(), z[:, 1:3], z[:, 0], z[:, [0, 2]], z[None], z.flip(1),
            torch.cat([z, w], 0), torch.cat([z, x], 1), torch.stack([z, w, x]), torch.where(mask, z, w),
            torch.where(mask, z, 1.0), z.expand(2, *z.shape), z.repeat(2, 1), z.roll(1, 1), z.masked_fill(mask, 2j),
            torch.nn.functional.pad(z, (1, 2)), torch.nn.functional.pad(z, (1, 0), value=3.0), *z.split(2, 1),
            *z.unbind(1), z.tril(), z.diagonal(), z.unsqueeze(-1).squeeze(-1), torch.zeros_like(z), torch.ones_like(z),
            torch.full_like(z, 1 - 2j), z.index_select(1, torch.tensor([1, 1])), z.clone(), z.movedim(0, 1),
        )  # fmt: skip

    def operands(n):
        return numbers(n, 4), numbers(n, 4), torch.randn(n, 4)

    same(moved, *operands(4), dynamic=[[0]] * 3, others=[operands(n) for n in (7, 2)])


def test_written_parts(same):
    places = torch.tensor([2, 0, 2])

    def written(z, x):
        return (
            z.index_add(1, places, z[:, :3], alpha=2 - 1j), z.index_add(1, places, z[:, 1:], alpha=3),
            z.index_fill(1, places, 2j), z.put(places, z[0, :3], accumulate=True), z.put(places, z[1, :3]),
            z.diagonal_scatter(z[0, :3] * 2), torch.as_strided_scatter(z, z[:2, 0], (2,), (5,)), z.resolve_conj(),
            torch.narrow_copy(z, 1, 1, 2), *torch.unbind_copy(z, 1)[1:3], torch.conj(z) * 2j, x._neg_view() * z,
        )  # fmt: skip

    same(written, numbers(3, 4), torch.randn(3, 4))


def test_windows(same):
    def folded(z):
        columns = torch.nn.functional.unfold(z, 2)
        return columns, torch.nn.functional.fold(columns, (4, 5), 2)

    same(folded, numbers(2, 3, 4, 5))


def test_elements_under_a_mask(same):
    """Their number is that of the mask's True elements in both parts."""
    same(lambda z, x: z[x > 0] * 2j, numbers(3, 4), torch.randn(3, 4))


def test_writes(same):
    def written(z, x):
        z = z.clone()
        z[0] = 1j
        z[:, 1] = x[:, 0]
        z[:, 2] *= 2j
        return z, z.index_put((torch.tensor([0]),), z[:1] * 2)

    same(written, numbers(3, 4), torch.randn(3, 4))


def test_products(same):
    def products(a, b, x):
        return (
            a @ b, a @ x, x @ b, torch.bmm(a, b), a[0] @ b[0], a[0, 0] @ b[0], torch.einsum("bij,bjk->ik", a, b),
            torch.einsum("bij,bjk,bkl->il", a, b, a), torch.outer(a[0, 0], b[0, 0]), torch.vdot(a[0, 0], b[0, :, 0]),
            torch.addmm(a[0], a[0], b[0], beta=2j, alpha=0.5), torch.nn.functional.linear(a, b[0], a[0, 0]),
            torch.linalg.vecdot(a, b),
        )  # fmt: skip

    def operands(n):
        return numbers(n, 3, 3), numbers(n, 3, 3), torch.randn(n, 3, 3).to(torch.complex64)

    same(products, *operands(2), dynamic=[[0]] * 3, others=[operands(n) for n in (1, 4)], tolerance=1e-5)


def test_reductions(same):
    def reduced(z):
        return (
            z.sum(), z.sum(1), z.mean(0, keepdim=True), z.prod(1), z.prod(0), z.cumsum(0), z.cumprod(1),
            torch.linalg.vector_norm(z, dim=1), z.norm(), z.var(1), z.std(1), z.any(), z.all(1), z.trace(),
        )  # fmt: skip

    same(reduced, numbers(3, 5), tolerance=1e-5)
    same(lambda z: (z.prod(), z.sum(0), z.prod(0)), numbers(0, 2))
    others = [(numbers(n, 5),) for n in (0, 1, 6)]
    same(lambda z: (z.sum(0), z.mean(1), z.prod(1), z.prod(0)), numbers(3, 5), dynamic=[[0]], others=others)


def test_questions(same):
    special = torch.tensor([0, 1, 1j, complex("nan"), complex("inf"), complex(0, float("-inf"))])

    def asked(a, b):
        return (
            a == b, a != b, a == 1, a.isfinite(), a.isnan(), a.isinf(), a.isreal(), a.logical_not(),
            torch.logical_and(a, b), a.bool(), a == a.real,
        )  # fmt: skip

    same(asked, special, torch.tensor([0, 1, 2j, 3, 4, 5]))


NAMES = (
    "exp exp2 expm1 log log2 log10 log1p sigmoid square reciprocal sqrt rsqrt sgn sinh cosh tanh sin cos tan asin acos "
    "atan asinh acosh atanh"
).split()


@pytest.mark.parametrize("dtype", BOTH)
def test_functions(same, dtype):
    """In all quadrants, and on the axes beside the branch cuts."""
    z = torch.cat([numbers(40, dtype=dtype), torch.tensor([0.5, 0.5j, -0.5j, -0.5, 2j + 1e-3], dtype=dtype)])
    tolerance = 2e-5 if dtype == torch.complex64 else 1e-9
    same(lambda z: [getattr(torch, name)(z) for name in NAMES], z, tolerance=tolerance)


def test_functions_of_great_and_small_numbers(same):
    z = torch.tensor([1e-20 + 1e-20j, 3e18 - 4e18j, -90 + 1j, 90 - 2j, 1e-6j, 1e-6])
    same(lambda z: (z.abs(), z.sqrt(), z.tanh(), z.log(), z / (z * 2), z.reciprocal()), z, tolerance=1e-5)
    small = torch.tensor([1e-6 + 1e-6j, -1e-7j + 1e-7])
    same(lambda z: (z.log1p(), z.expm1(), z.asin(), z.atanh(), z.sinh()), small, tolerance=1e-5)


def test_powers(same):
    def powers(z, w, x):
        return z**w, z**2, z**0.5, z**-1, z**2.5, 2**z, z**x, x**z, z ** (1 + 1j)

    same(powers, numbers(9), numbers(9), torch.rand(9) + 0.5, tolerance=2e-5)
    same(lambda z: (z**0.3, z**0, z**2), torch.tensor([0j, 1j]))


def test_creation(same):
    def created(x):
        n = x.shape[0]
        ones = torch.ones(n, 2, dtype=torch.complex64)
        return ones * x, torch.full((n,), 2 - 1j), torch.zeros(n, dtype=torch.complex128), torch.exp(1j * x), x + 2j

    same(created, torch.randn(3, 2), dynamic=[[0]], others=[(torch.randn(1, 2),), (torch.randn(0, 2),)])


def test_operators_without_a_complex_form():
    """The error names the operator, and says what to do."""
    with pytest.raises(relax.DiagnosticError) as error:
        from_exported_program(exported(lambda z: torch.unique(z), [numbers(3)]))
    text = str(error.value)
    assert "error[E6001]" in text
    assert "is not supported for complex tensors" in text
    assert "help: compute it of the real and the imaginary part: x.real, x.imag, torch.complex" in text
