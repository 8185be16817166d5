"""Operators of torch that read and write at indices, choose elements, and sort."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

X = torch.randn(4, 5, 6)
I = torch.tensor([[0, 3, -1], [2, 2, 1]])


def test_reading(agrees):
    def read(x, i):
        return (
            x[i],
            x[:, i],
            x[i, i],
            x[:, i, i],
            x[i, :, i],
            x[i[0]],
            x.index_select(1, i[0].abs()),
            x[i, 0],
            torch.nn.functional.embedding(i.abs(), x[:, 0]),
        )

    agrees(read, X, I, dynamic=[[0], [1]], others=[(torch.randn(9, 5, 6), torch.tensor([[1], [-2]]))])


def test_gather(agrees):
    agrees(lambda x, i: (x.gather(1, i), x.gather(0, i)), torch.randn(3, 4), torch.tensor([[0, 2], [1, 1]]))


def test_masks(agrees):
    """The number of elements that are chosen is known when the program runs."""

    def chosen(x):
        return (x[x > 0], x[(x > 0).any(1)], x.masked_select(x < 0), (x > 0).nonzero(), x.masked_scatter(x > 0, -x))

    agrees(chosen, torch.randn(5, 3), dynamic=[[0]], others=[(torch.ones(2, 3),), (-torch.ones(2, 3),)])


def test_writing(agrees):
    def written(x, i):
        y, z, w = x.clone(), x.clone(), x.clone()
        y[i] = 0
        z[:, i] = 1
        w[x > 0] = -1
        v = x.clone()
        v[i, :, i] = 2
        return y, z, w, v, x.index_put((i,), torch.ones(5, 6), accumulate=True)

    agrees(
        written,
        X,
        torch.tensor([0, 3, 3]),
        dynamic=[[0], []],
        others=[(torch.randn(6, 5, 6), torch.tensor([4, 1, -1]))],
    )


def test_scattering(agrees):
    def scattered(x, i, s):
        return (
            x.scatter(1, i, s),
            x.scatter(0, i, 2.0),
            x.scatter_add(1, i, s),
            x.scatter_reduce(1, i, s, "amax"),
            x.index_add(1, i[0], s[:, :2]),
            x.index_copy(1, i[0], s[:, :2]),
        )

    agrees(scattered, torch.randn(3, 4), torch.tensor([[0, 2], [1, 0], [2, 1]]), torch.randn(3, 3))


def test_sorting(agrees):
    def ordered(x):
        values, places = x.sort(1, descending=True)
        return (values, places, *x.topk(2, 1), *x.topk(3, 0, largest=False), x.argsort(-1), *x.sort(dim=0, stable=True))

    agrees(ordered, torch.randn(4, 5), dynamic=[[0]], others=[(torch.randn(3, 5),), (torch.randn(9, 5),)])


def test_one_hot_and_buckets(agrees):
    def counted(i, x):
        return torch.nn.functional.one_hot(i, 5), torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]))

    agrees(
        counted,
        torch.tensor([0, 4, 2]),
        torch.randn(6),
        dynamic=[[0], [0]],
        others=[(torch.tensor([1]), torch.randn(2))],
    )


def test_number_read_from_a_tensor(agrees):
    def first(x, n):
        count = n.item()
        torch._check(count >= 0)
        torch._check(count <= x.shape[0])
        return x[:count] * 2, torch.arange(count)

    agrees(first, torch.randn(6, 2), torch.tensor(4), others=[(torch.randn(6, 2), torch.tensor(2))])


def test_strides_of_any_kind(agrees):
    def strided(x):
        return (
            x.as_strided((2, 3), (1, 2)),
            x.as_strided((4, 4), (6, 1), 3),
            x.as_strided((3, 2, 2), (0, 5, 1)),
            x.as_strided((), (), 7),
            x.as_strided((0, 3), (1, 1)),
        )

    agrees(strided, torch.randn(5, 6))


def test_search_in_a_sequence(agrees):
    def found(x):
        limits = torch.tensor([-1.0, 0.0, 0.0, 1.0])
        return (
            torch.searchsorted(limits, x),
            torch.searchsorted(limits, x, right=True),
            torch.searchsorted(limits, x, side="right", out_int32=True),
        )

    special = torch.tensor([[0.0, -1.0, 1.0, float("nan"), float("inf"), float("-inf")]] * 2)
    agrees(found, special, dynamic=[[0]], others=[(torch.randn(9, 6),), (torch.randn(0, 6),)])


def test_elements_at_strides_are_replaced(agrees):
    def written(x, src, one):
        return (torch.as_strided_scatter(x, src, (2, 3), (4, 1), 1), torch.as_strided_scatter(x, one, (), (), 3))

    agrees(written, torch.randn(3, 4), torch.randn(2, 3), torch.randn(()))


def test_masked_scatter_broadcasts_its_operands(agrees):
    def written(row, mask, source):
        return row.masked_scatter(mask, source), torch.zeros(()).masked_scatter(mask, source)

    def sample(n):
        return torch.randn(5), torch.rand(n, 5) > 0.5, torch.randn(n * 5)

    agrees(written, *sample(2), dynamic=[[], [0], [0]], others=[sample(4)])


def test_greatest_elements_of_a_number(agrees):
    agrees(lambda x: x.topk(1), torch.randn(()))


def test_a_number_is_indexed_as_a_row_of_one(agrees):
    def chosen(x, places):
        return x.index_select(0, places), x.gather(0, places), x.gather(0, places[0]), x.logsumexp(0)

    agrees(chosen, torch.randn(()), torch.tensor([0]))
