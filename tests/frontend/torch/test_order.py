"""Order statistics, distinct elements, counts, and reductions at indices of torch."""

from __future__ import annotations

import pytest

from relax.frontend.torch import from_exported_program
from relax.ir import DiagnosticError

torch = pytest.importorskip("torch")

X = torch.randn(3, 4, 5)
NAN, INF = float("nan"), float("inf")
WITH_NAN = torch.tensor([[[1.0, NAN, 2.0, -INF]] * 4, [[NAN, NAN, NAN, NAN]] * 4])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_order_statistics(agrees, dtype):
    """Of distinct elements, whose indices torch defines."""

    def statistics(x):
        return (*x.kthvalue(2, 1), *x.kthvalue(1, -1, keepdim=True), *x.median(1), x.median(), *x.nanmedian(1))

    samples = [torch.randperm(count * 20).reshape(count, 4, 5).to(dtype) for count in (3, 1, 7)]
    agrees(statistics, samples[0], dynamic=[[0]], others=[(sample,) for sample in samples[1:]])


def test_medians_of_nan(agrees):
    agrees(lambda x: (x.median(2)[0], x.nanmedian(2)[0], x.nanmedian()), WITH_NAN, dynamic=[[0, 2]], others=[(X,)])


def test_a_rank_beyond_the_axis_is_rejected(agrees):
    from torch_programs import exported

    program = exported(lambda x: x.kthvalue(2, 1)[0], [torch.randn(2, 3)])
    node = next(node for node in program.graph.nodes if "kthvalue" in str(node.target))
    node.args = (node.args[0], 9, 1)
    with pytest.raises(DiagnosticError, match="torch rejects it.*selected number k out of range for dimension 1"):
        from_exported_program(program)


def test_modes(agrees):
    others = [(torch.randint(0, 3, (1, 9)),), (torch.randint(0, 3, (5, 1)),)]
    agrees(
        lambda x: (x.mode(1), x.mode(0, keepdim=True)[0]), torch.randint(0, 3, (4, 6)), dynamic=[[0, 1]], others=others
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_distinct_elements(agrees, dtype):
    def distinct(x):
        return (
            torch.unique(x),
            *torch.unique(x, return_inverse=True, return_counts=True),
            *torch.unique_consecutive(x, return_inverse=True, return_counts=True),
        )

    others = [(torch.randint(0, 4, shape).to(dtype),) for shape in ((1, 5), (7, 5))]
    agrees(distinct, torch.randint(0, 4, (3, 5)).to(dtype), dynamic=[[0]], others=others)


def test_each_nan_is_distinct(agrees):
    agrees(lambda x: torch.unique(x, return_counts=True), torch.tensor([NAN, 1, NAN, -0.0, 0, INF, 1]))


def test_counts_of_numbers(agrees):
    def counts(x):
        return torch.bincount(x), torch.bincount(x, minlength=9)

    others = [(torch.tensor([], dtype=torch.int64),), (torch.tensor([12]),)]
    agrees(counts, torch.tensor([1, 4, 1, 0]), dynamic=[[0]], others=others)


def test_sums_of_weights(agrees):
    agrees(torch.bincount, torch.tensor([1, 4, 1]), torch.tensor([0.5, 2, 3]), dynamic=[[0], [0]])


def test_a_negative_number_is_not_counted():
    from torch_programs import exported

    import relax
    from support import PLAIN_LOOPS

    mod = from_exported_program(exported(torch.bincount, [torch.tensor([1, 2, 3])], [[0]]))
    vm = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())
    with pytest.raises(ValueError, match="-1"):
        vm["main"](torch.tensor([1, -2, 3]))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reductions(agrees, reduce, include_self):
    def reduced(x, index, source):
        whole = (source * 4).long()
        return (
            x.scatter_reduce(0, index, source, reduce, include_self=include_self),
            (x * 9).long().scatter_reduce(0, index, whole, reduce, include_self=include_self),
        )

    def sample(rows, count):
        return torch.randn(rows, 5), torch.randint(0, rows, (count, 5)), torch.randn(count, 5)

    agrees(reduced, *sample(4, 6), dynamic=[[0], [0], [0]], others=[sample(2, 9), sample(3, 0)])


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_index_reductions(agrees, reduce, include_self):
    def reduced(x, index, source):
        return x.index_reduce(1, index, source, reduce, include_self=include_self)

    def sample(rows, count):
        return torch.randn(rows, 4), torch.randint(0, 4, (count,)), torch.randn(rows, count)

    agrees(reduced, *sample(3, 6), dynamic=[[0], [0], [0, 1]], others=[sample(1, 2)])


@pytest.mark.parametrize("accumulate", [True, False])
def test_put(agrees, accumulate):
    places = torch.tensor([0, 7, -1])
    agrees(
        lambda x, source: x.put(places, source, accumulate),
        torch.randn(3, 5), torch.randn(3), dynamic=[[0], []], others=[(torch.randn(4, 5), torch.randn(3))],
    )  # fmt: skip


@pytest.mark.parametrize("right", [True, False])
def test_places_among_sorted_elements(agrees, right):
    def places(rows, vector, x):
        return (
            torch.searchsorted(rows, x, right=right),
            torch.searchsorted(rows, x, right=right, out_int32=True),
            torch.searchsorted(vector.flip(0), x, right=right, sorter=vector.flip(0).argsort()),
            torch.searchsorted(vector, 0.5, right=right),
            torch.bucketize(0.5, vector, right=right),
        )

    def sample(count):
        x = torch.tensor([0.5, NAN, INF, -INF, 0.25, 2.0]).repeat(count, 1)
        return torch.rand(count, 4).round(decimals=1).sort(1)[0], torch.tensor([0.25, 0.5, 0.5, 0.75]), x

    agrees(places, *sample(3), dynamic=[[0], [], [0]], others=[sample(1)])


def test_ldexp(agrees):
    agrees(
        torch.ldexp,
        torch.randn(3, 4),
        torch.arange(-2, 2),
        dynamic=[[0], []],
        others=[(torch.randn(0, 4), torch.arange(4))],
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_erfc(agrees, dtype):
    x = torch.tensor([-INF, -3, -0.0, 1e-3, 1, 5, 9, INF, NAN], dtype=dtype)
    agrees(
        torch.erfc, x, dynamic=[[0]], others=[(x[:0],), (x[4:5],)], tolerance=1e-2 if dtype == torch.bfloat16 else 2e-6
    )


def test_scatter_into_a_tensor_without_dimensions(agrees):
    x, index, row = torch.tensor(2.0), torch.tensor(0), torch.tensor([0, 0])
    agrees(
        lambda x, i: (x.scatter(0, i, 2.5, reduce="multiply"), x.scatter_add(0, i, x), x.scatter(0, i, x * 3)), x, index
    )
    agrees(lambda x, i: x.scatter_reduce(0, i, x * 3, "sum", include_self=False), x, index)
    agrees(
        lambda x, i, u: (x.scatter_add(0, i, u), x.scatter_reduce(0, i, u, "amax")), x, row, torch.tensor([1.0, 5.0])
    )


def test_distinct_slices(agrees):
    def distinct(x):
        return *torch.unique(x, dim=0, return_inverse=True, return_counts=True), torch.unique(x, dim=1)

    others = [(torch.randint(0, 2, shape),) for shape in ((1, 3), (9, 3))]
    agrees(distinct, torch.tensor([[1, 0, 1], [0, 1, 0], [1, 0, 1]]), dynamic=[[0]], others=others)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histograms_between_the_extremes(agrees, dtype):
    others = [(torch.full((3,), 2.0, dtype=dtype),), (torch.empty(0, dtype=dtype),), (torch.ones(1, dtype=dtype),)]
    agrees(lambda x: torch.histc(x, 5), torch.tensor([-1.0, 0.3, 0.1, 4], dtype=dtype), dynamic=[[0]], others=others)


def test_a_histogram_to_infinity_is_an_error():
    from torch_programs import exported

    import relax
    from support import PLAIN_LOOPS

    program = exported(lambda x: torch.histc(x, 5), [torch.ones(3)], [[0]])
    vm = relax.VirtualMachine(relax.build(from_exported_program(program), PLAIN_LOOPS), relax.cpu())
    for value in (INF, NAN):
        with pytest.raises(RuntimeError, match=r"range of \[.*\] is not finite"):
            vm["main"](torch.tensor([1.0, value]))


def test_slices_written_to_diagonals(agrees):
    def written(x, a, b):
        return x.diagonal_scatter(a, 1, 0, 2), x.diagonal_scatter(b, -1, 1, 2)

    inputs = torch.randn(3, 4, 5), torch.randn(4, 3), torch.randn(3, 3)
    others = [(torch.randn(3, 6, 5), torch.randn(6, 3), torch.randn(3, 5))]
    agrees(lambda x, a: x.diagonal_scatter(a, 1, 0, 2), *inputs[:2], dynamic=[[1], [0]], others=[others[0][:2]])
    agrees(written, *inputs)


def test_rounding_to_decimals_and_signs(agrees):
    def rounded(x):
        return x.round(decimals=2), x.round(decimals=-1), x.signbit(), x.long().signbit(), torch.dist(x, x + 1, 3)

    x = torch.tensor([0.125, -0.0, 1234.567, -15.0, 0.0, -2.675])
    agrees(rounded, x, dynamic=[[0]], others=[(torch.randn(1),)])


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_reductions_at_the_index_of_a_number(agrees, reduce, include_self):
    def reduced(x, index, source):
        return x.index_reduce(0, index, source, reduce, include_self=include_self)

    agrees(reduced, torch.tensor(2.0), torch.tensor(0), torch.tensor(5.0))
