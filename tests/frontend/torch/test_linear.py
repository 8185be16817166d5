"""Products and attention of torch."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.frontend.torch import from_exported_program

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

from torch_programs import exported  # noqa: E402

from support import PLAIN_LOOPS  # noqa: E402


def test_products(agrees):
    def products(a, b):
        return (
            a @ b,
            a[0] @ b[0],
            a @ b[0],
            a[0, 0] @ b[0],
            a[0] @ b[0, :, 0],
            a[0, 0] @ b[0, :, 0],
            torch.bmm(a, b),
            torch.einsum("bij, bjk -> bk", a, b),
        )

    others = [(torch.randn(1, 3, 4), torch.randn(1, 4, 5)), (torch.randn(7, 3, 4), torch.randn(7, 4, 5))]
    agrees(products, torch.randn(2, 3, 4), torch.randn(2, 4, 5), dynamic=[[0], [0]], others=others)


def test_products_with_a_sum(agrees):
    def sums(c, a, b):
        return (
            torch.addmm(c, a, b),
            torch.addmm(c, a, b, beta=0.5, alpha=2),
            torch.addmm(c * float("nan"), a, b, beta=0),
            torch.baddbmm(c[None], a[None], b[None]),
            torch.outer(a[0], b[0]),
        )

    agrees(sums, torch.randn(3, 5), torch.randn(3, 4), torch.randn(4, 5))


@pytest.mark.parametrize(
    "module", [nn.Linear(4, 3), nn.Linear(4, 3, bias=False), nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))]
)
def test_linear(agrees, module):
    agrees(
        module,
        torch.randn(5, 4),
        dynamic=[[0]],
        others=[(torch.randn(1, 4),), (torch.randn(0, 4),), (torch.randn(33, 4),)],
    )


def heads(batch, count, length, size=8):
    return torch.randn(batch, count, length, size)


def test_attention(agrees):
    def attended(q, k, v):
        return (
            F.scaled_dot_product_attention(q, k, v),
            F.scaled_dot_product_attention(q, k, v, is_causal=True),
            F.scaled_dot_product_attention(q, k, v, scale=0.3),
        )

    others = [(heads(1, 4, 1), heads(1, 4, 1), heads(1, 4, 1)), (heads(3, 4, 9), heads(3, 4, 17), heads(3, 4, 17))]
    agrees(
        attended, heads(2, 4, 6), heads(2, 4, 7), heads(2, 4, 7), dynamic=[[0, 2]] * 3, others=others, tolerance=1e-5
    )


def test_attention_under_a_mask(agrees):
    def attended(q, k, v, seen, bias):
        wide = seen[:, None, None, :]
        return (
            F.scaled_dot_product_attention(q, k, v, wide),
            F.scaled_dot_product_attention(q, k, v, bias),
            F.scaled_dot_product_attention(q, k, v, bias[0, 0] > -1),
        )

    seen, bias = torch.ones(2, 6) > 0, torch.randn(2, 1, 6, 6)
    seen[1, 3:] = False
    bias[..., 0] = 0
    agrees(attended, heads(2, 4, 6), heads(2, 4, 6), heads(2, 4, 6), seen, bias, tolerance=1e-5)


def test_attention_of_groups_and_of_other_ranks(agrees):
    def attended(q, k, v):
        grouped = F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
        return (
            grouped,
            F.scaled_dot_product_attention(q[0], k[0], v[0]),
            F.scaled_dot_product_attention(q[None], k[None], v[None]),
        )

    agrees(attended, heads(2, 4, 6), heads(2, 4, 6), heads(2, 4, 6), tolerance=1e-5)


def test_attention_of_many_queries_with_one_head_of_keys_or_one_batch(agrees):
    def attended(q, k, v):
        one = F.scaled_dot_product_attention(q, k[:, :1], v[:, :1])
        return one, F.scaled_dot_product_attention(q, k[:1], v[:1]), F.scaled_dot_product_attention(q[:1], k, v)

    agrees(
        attended, heads(2, 4, 6), heads(2, 4, 6), heads(2, 4, 6), dynamic=[(0, 2)] * 3,
        others=[(heads(3, 4, 5), heads(3, 4, 5), heads(3, 4, 5))], tolerance=1e-5,
    )  # fmt: skip


def test_a_query_that_sees_no_key(agrees):
    """Its result is 0."""

    def attended(q, k, v, seen):
        return F.scaled_dot_product_attention(q, k, v, seen)

    agrees(
        attended,
        heads(1, 2, 3),
        heads(1, 2, 3),
        heads(1, 2, 3),
        torch.tensor([[True, True, False], [False] * 3, [True] * 3]),
        tolerance=1e-5,
    )


def test_layers_of_transformers(agrees):
    torch.backends.mha.set_fastpath_enabled(False)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    agrees(layer, torch.randn(2, 5, 16), dynamic=[[0, 1]], others=[(torch.randn(1, 9, 16),)], tolerance=1e-5)
    agrees(
        nn.TransformerDecoderLayer(16, 2, 32, batch_first=True),
        torch.randn(2, 5, 16),
        torch.randn(2, 7, 16),
        tolerance=1e-5,
    )


@pytest.fixture(scope="module")
def grouped_mm():
    """The product of groups, which torch itself exports of bfloat16 alone, as the package transformers declares it."""
    name = "transformers::grouped_mm_fallback"
    schema = "(Tensor input, Tensor weight, Tensor offs) -> Tensor"

    @torch.library.custom_op(name, mutates_args=(), schema=schema)
    def product(x, weight, ends):
        result, begin = torch.zeros(x.shape[0], weight.shape[2], dtype=x.dtype), 0
        for index, end in enumerate(ends.tolist()):
            result[begin:end] = x[begin:end] @ weight[index]
            begin = end
        return result

    product.register_fake(lambda x, weight, ends: x.new_empty(x.shape[0], weight.shape[2]))
    return product


def rows_and_ends(count, *ends, dtype=torch.float32):
    return torch.randn(count, 8, dtype=dtype), torch.tensor(ends, dtype=torch.int32)


GROUPS = [(6, 6, 6, 6, 6), (1, 0, 0, 1, 1), (0, 0, 0, 0, 0), (40, 0, 7, 39, 40)]
"""Numbers of rows, and the ends of four groups, of which some are empty."""


def test_product_of_groups(agrees, grouped_mm):
    """Rows behind the last group are 0."""
    weight = torch.randn(4, 8, 16)
    agrees(
        lambda x, ends: grouped_mm(x, weight, ends),
        *rows_and_ends(6, 1, 1, 4, 6),
        dynamic=[[0], []],
        others=[rows_and_ends(*case) for case in (*GROUPS, (9, 2, 4, 4, 5))],
        tolerance=1e-5,
    )


def test_product_of_groups_of_bfloat16(agrees):
    weight = torch.randn(4, 8, 16, dtype=torch.bfloat16)
    agrees(
        lambda x, ends: F.grouped_mm(x, weight, offs=ends),
        *rows_and_ends(6, 1, 1, 4, 6, dtype=torch.bfloat16),
        dynamic=[[0], []],
        others=[rows_and_ends(*case, dtype=torch.bfloat16) for case in GROUPS],
        tolerance=1e-2,
    )
    batch = torch.randn(4, 3, 8, dtype=torch.bfloat16)
    agrees(lambda x: F.grouped_mm(x, weight), batch, tolerance=1e-2)


def test_ends_that_are_wrong(grouped_mm):
    """Ends beyond the rows are cut off; ends that descend are an error. Nothing is read outside of the rows."""
    weight = torch.randn(2, 8, 16)
    x, ends = rows_and_ends(6, 1, 4)
    mod = from_exported_program(exported(lambda x, ends: grouped_mm(x, weight, ends), [x, ends]))
    main = relax.VirtualMachine(relax.build(mod), relax.cpu())["main"]
    (y,) = main(x, torch.tensor([1, 99], dtype=torch.int32))
    np.testing.assert_allclose(y.numpy()[1:], (x[1:] @ weight[1]).numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="dimension 0 is 9, expected 6"):
        main(x, torch.tensor([5, 2], dtype=torch.int32))


@pytest.mark.parametrize("p", [0, 1, 2, 3.5, float("inf")])
def test_distances(agrees, p):
    others = [(torch.randn(n, 5), torch.randn(m, 5)) for n, m in ((1, 1), (0, 3), (30, 41))]
    agrees(
        lambda a, b: torch.cdist(a, b, p, compute_mode="donot_use_mm_for_euclid_dist"),
        torch.randn(3, 5),
        torch.randn(4, 5),
        dynamic=[[0], [0]],
        others=others,
        tolerance=1e-5,
    )
    agrees(lambda x: F.pdist(x, p), torch.randn(6, 5), tolerance=1e-5)


def test_product_of_integers(agrees):
    a, b = (torch.randint(-128, 128, size, dtype=torch.int8) for size in ((32, 16), (16, 24)))
    agrees(torch._int_mm, a, b)


def test_sums_of_products_of_matrices(agrees):
    def sample(n):
        return torch.randn(3, 5), torch.randn(n, 3, 4), torch.randn(n, 4, 5)

    agrees(
        lambda c, a, b: (torch.addbmm(c, a, b), torch.addbmm(c[0], a, b, beta=0.5, alpha=2)),
        *sample(2), dynamic=[[], [0], [0]], others=[sample(7)], tolerance=1e-5,
    )  # fmt: skip


def test_bilinear_forms(agrees):
    def sample(n):
        return torch.randn(n, 2, 3), torch.randn(n, 2, 4)

    module = torch.nn.Bilinear(3, 4, 5)
    agrees(module, *sample(2), dynamic=[[0], [0]], others=[sample(6)], tolerance=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_gradients_of_distances(agrees, p, dtype):
    """Of equal rows, and of equal elements, they are 0; batches broadcast."""
    x, y = torch.randn(5, 3, dtype=dtype), torch.randn(4, 3, dtype=dtype)
    y[1], y[2, 0] = x[2], x[1, 0]
    x[4] = x[3]

    def between(grad, x, y):
        return torch.ops.aten._cdist_backward(grad, x, y, p, torch.cdist(x, y, p))

    def among(grad, x):
        return torch.ops.aten._pdist_backward(grad, x, p, torch.nn.functional.pdist(x, p))

    grad = torch.rand(5, 4, dtype=dtype) + 0.5
    others = [(grad[:2, :3], x[1:3], y[:3]), (grad[:1, :1], x[:1], y[:1]), (grad[:, :0], x, y[:0])]
    agrees(between, grad, x, y, dynamic=[[0, 1], [0], [0]], others=others, tolerance=1e-5)
    a, b = torch.randn(2, 1, 5, 3, dtype=dtype), torch.randn(4, 6, 3, dtype=dtype)
    agrees(lambda a, b: torch.cdist(a, b, p), a, b, tolerance=1e-5)
    pairs = torch.rand(10, dtype=dtype) + 0.5
    agrees(among, pairs, x, tolerance=1e-5)


@pytest.mark.filterwarnings("error::relax.frontend.torch.compile.FallbackWarning")
@pytest.mark.parametrize("p", [0.0, 1.5, 2.0])
def test_distances_of_an_open_number_of_rows(p):
    """In torch.compile: torch.export takes the number of rows for a constant."""
    torch._dynamo.reset()

    def distances(x):
        return F.pdist(x, p)

    compiled = torch.compile(distances, backend="relax", dynamic=True, options={"target": PLAIN_LOOPS})
    for count in (5, 9, 2):
        results = []
        for function in (compiled, distances):
            x = torch.randn(count, 3, generator=torch.Generator().manual_seed(count)).requires_grad_()
            value = function(x)
            share = torch.linspace(0.5, 1.5, value.numel())
            results.append((value, *torch.autograd.grad((value * share).sum(), x)))
        for found, expected in zip(*results, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
