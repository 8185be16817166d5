"""Histograms, bags of embeddings, and numbers repeated by counts."""

from __future__ import annotations

import pytest

import relax
from relax.frontend.torch import from_exported_program
from relax.ir import DiagnosticError

torch = pytest.importorskip("torch")
nn = torch.nn

from torch_programs import exported  # noqa: E402

from support import PLAIN_LOOPS  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histogram(agrees, dtype):
    """The greatest limit belongs to the last bin; what lies outside, and NaN, does not count."""

    def counted(x):
        return torch.histc(x, 4, 0, 3), torch.histc(x, 7, -1.5, 2), torch.histc(x, 1, 0, 1)

    whole = torch.arange(12, dtype=dtype).remainder(4)
    odd = torch.tensor([float("inf"), float("-inf"), 0, 3, -0.0, 1], dtype=dtype)
    others = [(torch.randn(n, dtype=dtype),) for n in (0, 1, 1000)] + [(odd,)]
    agrees(counted, whole, dynamic=[[0]], others=others)
    agrees(lambda x: torch.histc(x, 3, -1, 1), torch.randn(3, 5, dtype=dtype))


def test_a_histogram_of_no_bins_is_rejected():
    program = exported(lambda x: torch.histc(x, 4), [torch.randn(5)])
    node = next(node for node in program.graph.nodes if "histc" in str(node.target))
    node.args = (node.args[0], 0)
    with pytest.raises(DiagnosticError, match="torch rejects it.*bins must be > 0, but got 0"):
        from_exported_program(program)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
def test_bags_of_embeddings(agrees, mode, padding):
    """Empty bags, and bags of nothing but padding, are 0."""
    module = nn.EmbeddingBag(10, 4, mode=mode, padding_idx=padding)
    agrees(
        module,
        torch.tensor([1, 2, 9, 9, 0, 2]),
        torch.tensor([0, 2, 2, 5]),
        dynamic=[[0], [0]],
        others=[(torch.tensor([3]), torch.tensor([0])), (torch.arange(10), torch.tensor([0, 0, 9]))],
    )


def test_bags_of_one_size(agrees):
    module = nn.EmbeddingBag(10, 4, mode="sum")
    others = [(torch.randint(0, 10, (n, 3)),) for n in (1, 0, 9)]
    agrees(module, torch.randint(0, 10, (4, 3)), dynamic=[[0]], others=others)


def test_bags_with_weights_and_the_last_end(agrees):
    module = nn.EmbeddingBag(10, 4, mode="sum", include_last_offset=True)

    def weighed(i, offsets, w):
        return module(i, offsets, w)

    agrees(weighed, torch.tensor([1, 2, 9, 0]), torch.tensor([0, 3, 4]), torch.randn(4))


def test_repeats(agrees):
    """As many rows as the counts say, which is known when the program runs."""
    agrees(
        lambda x, n: torch.repeat_interleave(x, n, dim=0) * 2,
        torch.randn(4, 3),
        torch.tensor([2, 0, 1, 3]),
        others=[(torch.randn(4, 3), torch.tensor([0, 0, 0, 0])), (torch.randn(4, 3), torch.tensor([1, 1, 0, 9]))],
    )
    agrees(lambda x, n: torch.repeat_interleave(x, n, output_size=6), torch.randn(3), torch.tensor([1, 3, 2]))


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_a_histogram_without_finite_limits_is_an_error(odd):
    program = exported(lambda x: torch.histc(x, 4), [torch.tensor([1.0, 2.0])], dynamic=[[0]])
    vm = relax.VirtualMachine(relax.build(from_exported_program(program), PLAIN_LOOPS), relax.cpu())
    x = torch.tensor([1.0, odd, 2.0])
    limits = "-?nan, -?nan" if odd != odd else "1, inf"
    with pytest.raises(RuntimeError, match=rf"torch.histc: range of \[{limits}\] is not finite"):
        torch.histc(x, 4)
    with pytest.raises(RuntimeError, match=rf"torch.histc: range of \[{limits}\] is not finite"):
        vm["main"](x.numpy())
