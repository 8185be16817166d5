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


def _weighted(value):
    return value * torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).reshape(value.shape)


def same_gradients(function, *samples):
    """Results and gradients of a compiled function of open sizes are those of eager torch, and relax computes all."""
    compiled = torch.compile(function, backend="relax", dynamic=True, options={"target": PLAIN_LOOPS})
    for inputs in samples:
        results = []
        for each in (function, compiled):
            leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
            value = each(*leaves)
            wanted = [leaf for leaf in leaves if leaf.requires_grad]
            results.append((value.detach(), *torch.autograd.grad(_weighted(value).sum(), wanted)))
        tolerance = 2e-2 if inputs[0].dtype == torch.bfloat16 else 1e-5
        for expected, found in zip(*results, strict=True):
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


INDICES, OFFSETS = torch.tensor([1, 2, 9, 9, 0, 2]), torch.tensor([0, 2, 2, 5])


@pytest.mark.filterwarnings("error::relax.frontend.torch.compile.FallbackWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize(("padding", "by_frequency"), [(None, False), (2, False), (2, True)])
def test_gradients_of_bags(mode, dtype, padding, by_frequency):
    """Those of maxima go to the first index that has it; padding and empty bags have none."""
    torch._dynamo.reset()

    def bags(weight, indices, offsets):
        options = {"mode": mode, "padding_idx": padding, "scale_grad_by_freq": by_frequency and mode != "max"}
        return nn.functional.embedding_bag(indices, weight, offsets, **options)

    weight = torch.randn(10, 4, dtype=dtype)
    odd = (torch.arange(10), torch.tensor([0, 0, 9]))
    same_gradients(bags, *[(weight, *bag) for bag in [(INDICES, OFFSETS), odd, (INDICES[:1], OFFSETS[:1])]])


@pytest.mark.filterwarnings("error::relax.frontend.torch.compile.FallbackWarning")
@pytest.mark.parametrize("padding", [None, 2])
def test_gradients_of_weighted_bags(padding):
    torch._dynamo.reset()

    def bags(weight, indices, offsets, shares):
        return nn.functional.embedding_bag(
            indices,
            weight,
            offsets,
            mode="sum",
            per_sample_weights=shares,
            padding_idx=padding,
            include_last_offset=True,
        )

    weight, offsets = torch.randn(10, 4), torch.tensor([0, 2, 2, 6])
    same_gradients(bags, (weight, INDICES, offsets, torch.rand(6)), (weight, INDICES[:2], offsets[:2], torch.rand(2)))


def test_what_a_bag_returns_beside_its_result(agrees):
    """The bag of each index, sizes, and indices of maxima; torch leaves the last undefined for an empty bag."""

    def beside(weight, indices, offsets):
        return torch.ops.aten._embedding_bag(weight, indices, offsets, False, 2, False, None, False, 0)[1:]

    weight = torch.randn(10, 4)
    agrees(beside, weight, INDICES, torch.tensor([0, 2, 3]), dynamic=[[], [0], [0]])
    sparse = exported(lambda *x: torch.ops.aten._embedding_bag_backward(x[0], x[1], x[2], x[3], x[2], x[2], 10, False, 0, False, None),
                      [torch.randn(4, 4), INDICES, OFFSETS, INDICES])  # fmt: skip
    node = next(node for node in sparse.graph.nodes if "embedding_bag" in str(node.target))
    node.args = (*node.args[:9], True, *node.args[10:])
    with pytest.raises(DiagnosticError, match="torch rejects it|a sparse gradient of embeddings is not supported"):
        from_exported_program(sparse)
