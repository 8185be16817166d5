"""Products and attention of torch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


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
    "module",
    [
        nn.Linear(4, 3),
        nn.Linear(4, 3, bias=False),
        nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)),
    ],
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

    others = [
        (heads(1, 4, 1), heads(1, 4, 1), heads(1, 4, 1)),
        (heads(3, 4, 9), heads(3, 4, 17), heads(3, 4, 17)),
    ]
    agrees(
        attended,
        heads(2, 4, 6),
        heads(2, 4, 7),
        heads(2, 4, 7),
        dynamic=[[0, 2]] * 3,
        others=others,
        tolerance=1e-5,
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
