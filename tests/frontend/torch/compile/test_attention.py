"""Attention in training steps of torch.compile(backend="relax")."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

SEEN = torch.tensor([[False] * 4, [True, False, False, False], [True] * 4, [False, True, True, False]])


class Attention(torch.nn.Module):
    """Two heads of 8 under a mask."""

    def __init__(self, mask):
        super().__init__()
        self.mask, self.dense = mask, torch.nn.Linear(16, 16)

    def forward(self, x):
        heads = self.dense(x).view(x.shape[0], x.shape[1], 2, 8).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads, self.mask)


@pytest.mark.filterwarnings("ignore:torch.compile:UserWarning")
@pytest.mark.parametrize(
    "mask",
    [pytest.param(SEEN, id="bool"), pytest.param(torch.zeros(4, 4).masked_fill(~SEEN, float("-inf")), id="float")],
)
def test_a_query_that_sees_no_key_has_the_result_0(twins, trains, builds, mask):
    module, compiled, other = twins(Attention(mask))
    x = torch.randn(2, 4, 16)
    assert not compiled(x)[:, :, 0].any()
    trains((module, compiled, other), x)
    assert builds
