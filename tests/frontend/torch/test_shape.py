"""Operators of torch that give tensors another shape, cut, join and repeat them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


def sizes(*shapes):
    """Tensors of other shapes, each the only input."""
    return [(torch.randn(*shape),) for shape in shapes]


X = torch.randn(2, 6, 4)
OTHERS = sizes((1, 6, 4), (5, 6, 9), (3, 6, 1))


def test_views(agrees):
    def views(x):
        n, c, w = x.shape
        return (
            x.view(n, 2, 3, w),
            x.reshape(-1),
            x.flatten(1),
            x.unflatten(1, (3, -1)),
            x[:, :1].squeeze(1),
            x.unsqueeze(-1),
            x.view(n, -1, 2),
        )

    agrees(views, X, dynamic=[[0, 2]], others=OTHERS)


def test_orders(agrees):
    def orders(x):
        return (x.permute(2, 0, 1), x.transpose(0, -1), x.mT, x[0].t(), x.movedim(0, 2), x.flip(0, 2), x.swapaxes(0, 1))

    agrees(orders, X, dynamic=[[0, 2]], others=OTHERS)


def test_slices(agrees):
    def slices(x):
        n, _, w = x.shape
        return (
            x[:, 1:3],
            x[:, ::2],
            x[:, -2:],
            x[..., 0],
            x[:, -1],
            x[:, :, : w - 1],
            x.narrow(1, 2, 3),
            x[n - 1 :],
            x[None, :, 2],
        )

    agrees(slices, X, dynamic=[[0, 2]], others=OTHERS)


def test_slice_of_a_buffer_to_a_dynamic_length(agrees):
    """The length is at most that of the buffer, which is checked when the program runs."""
    table = torch.randn(16, 3)
    agrees(lambda x: table[: x.shape[0]] + x, torch.randn(5, 3), dynamic=[[0]], others=sizes((16, 3), (1, 3)))


def test_pieces(agrees):
    def pieces(x):
        return (*x.chunk(2, 1), *x.split(4, 1), *x.split([1, 2, 3], 1), *x.unbind(1), *torch.tensor_split(x, 3, dim=1))

    agrees(pieces, X, dynamic=[[0]], others=sizes((1, 6, 4), (0, 6, 4)))


def test_joins(agrees):
    def joins(x, y):
        return (
            torch.cat([x, y], 1),
            torch.cat([x, y.double()], 1),
            torch.stack([x, x], -1),
            torch.cat([torch.empty(0), x[0, 0]]),
        )

    y = torch.randn(2, 3, 4)
    agrees(joins, X, y, dynamic=[[0], [0]], others=[(torch.randn(1, 6, 4), torch.randn(1, 3, 4))])


def test_repeats(agrees):
    def repeats(x):
        n, c, w = x.shape
        wide = x[:, :1].expand(n, 5, -1)
        return (
            wide,
            x.repeat(2, 1, 3),
            x.repeat(2, 1, 1, 1),
            x.repeat_interleave(2, 1),
            x[0, 0].expand(n, c, w),
            x.tile(2),
        )

    agrees(repeats, X, dynamic=[[0, 2]], others=OTHERS)


def test_roll_over_a_dynamic_dimension(agrees):
    """Of no elements there is nothing to divide by."""
    x = torch.randn(3, 4)
    agrees(lambda x: x.roll(1, 0), x, dynamic=[[0]], others=[(torch.randn(0, 4),), (torch.randn(5, 4),)])
    agrees(lambda x: x.roll((-5, 2), (1, 0)), x, dynamic=[[0, 1]], others=[(torch.randn(3, 0),), (torch.randn(0, 0),)])
    agrees(lambda x: x.roll(2), x, dynamic=[[0, 1]], others=[(torch.randn(0, 4),), (torch.randn(5, 2),)])


def test_roll_and_windows(agrees):
    def moved(x):
        return x.roll(1, 0), x.roll((1, -2), (0, 1)), x.roll(-3, 2), x.roll(5), x.unfold(1, 3, 2)

    agrees(moved, X, dynamic=[[0]], others=sizes((1, 6, 4), (5, 6, 4)))


def test_triangles_and_differences(agrees):
    def triangles(x):
        return (
            x.tril(),
            x.triu(1),
            x.tril(-1),
            x.diff(),
            x.diff(dim=1, n=2),
            torch.diff(x, prepend=x[..., :1]),
            x.diagonal(0, 1, 2),
        )

    agrees(triangles, X)


def test_pixels_and_channels(agrees):
    def pixels(x):
        return torch.pixel_shuffle(x, 2), torch.pixel_unshuffle(x, 2), torch.channel_shuffle(x, 4)

    agrees(pixels, torch.randn(2, 8, 4, 6), dynamic=[[0]], others=sizes((1, 8, 4, 6)))


def test_new_tensors(agrees):
    def made(x):
        n = x.shape[0]
        return (
            torch.zeros(n, 2), torch.ones(3), torch.full((n,), 2.5), torch.arange(n), torch.arange(1, 7, 2), torch.arange(0, 1, 0.25),
            torch.zeros_like(x), torch.ones_like(x, dtype=torch.int32), torch.full_like(x, 7), x.new_zeros(n, 1), x.new_full((2,), 3), torch.eye(n), torch.eye(2, 3),
            torch.linspace(0, 1, 5), torch.arange(n) + n, torch.tril_indices(3, 3), *torch.meshgrid(torch.arange(n), torch.arange(3), indexing="ij"),
        )  # fmt: skip

    agrees(made, torch.randn(4, 3), dynamic=[[0]], others=sizes((1, 3), (9, 3)))


def test_what_is_written_into_a_tensor(agrees):
    """Torch makes values of what a module does in place."""

    def written(x):
        y = x.clone()
        y[:, 0] = 0
        y[:, 1:3] += 1
        y[:, -1].mul_(2)
        y[:, ::2] = x[:, ::2] - 1
        return y, y.relu_()

    agrees(written, X, dynamic=[[0]], others=sizes((1, 6, 4), (3, 6, 4)))


def test_tensors_broadcast_to_one_another(agrees):
    def run(x, y):
        return (*torch.broadcast_tensors(x, y), x.quantile(0.3, dim=1))

    agrees(run, torch.randn(3, 1), torch.randn(4))
