"""Convolutions, pools, normalisations and padding of torch."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


def images(*sizes):
    return [(torch.randn(n, 4, h, w),) for n, h, w in sizes]


X = torch.randn(2, 4, 9, 8)
SOME = images((1, 9, 8), (3, 12, 7))

CONVOLUTIONS = [
    nn.Conv2d(4, 6, 3),
    nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False),
    nn.Conv2d(4, 8, (3, 1), padding=(1, 0), dilation=(2, 1), groups=2),
    nn.Conv2d(4, 4, 4, padding="same", groups=4),
    nn.Conv2d(4, 5, 3, padding="valid"),
    nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"),
    nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
    nn.ConvTranspose2d(4, 3, 4, stride=2, padding=1),
    nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, bias=False),
]


@pytest.mark.parametrize("module", CONVOLUTIONS, ids=str)
def test_convolutions(agrees, module):
    agrees(module, X, dynamic=[[0, 2, 3]], others=SOME, tolerance=1e-5)


def test_convolutions_of_sequences_and_volumes(agrees):
    agrees(
        nn.Sequential(nn.Conv1d(3, 4, 3, padding=1), nn.ConvTranspose1d(4, 2, 2, stride=2)),
        torch.randn(2, 3, 10),
        tolerance=1e-5,
    )
    agrees(nn.Conv3d(2, 3, 3, padding=1), torch.randn(1, 2, 4, 5, 6), tolerance=1e-5)
    agrees(nn.Conv2d(4, 2, 3), X[0], tolerance=1e-5)  # without a batch


POOLS = [
    nn.MaxPool2d(2),
    nn.MaxPool2d(3, stride=2, padding=1),
    nn.MaxPool2d(3, stride=2, ceil_mode=True),
    nn.MaxPool2d(2, dilation=2, return_indices=True),
    nn.AvgPool2d(2),
    nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False),
    nn.AvgPool2d((3, 2), stride=2, padding=1),
    nn.AdaptiveAvgPool2d(1),
]


@pytest.mark.parametrize("module", POOLS, ids=str)
def test_pools(agrees, module):
    agrees(module, X, dynamic=[[0, 2, 3]], others=SOME)


def test_pools_to_a_size(agrees):
    def pooled(x):
        return (
            F.adaptive_avg_pool2d(x, (3, 2)),
            F.adaptive_avg_pool2d(x, (None, 1)),
            F.adaptive_max_pool2d(x, (3, 2)),
            F.adaptive_max_pool2d(x, 1),
        )

    agrees(pooled, X, dynamic=[[0]], others=images((1, 9, 8)))


def test_pools_of_sequences(agrees):
    agrees(lambda x: (F.max_pool1d(x, 2), F.avg_pool1d(x, 3, 1, 1), F.adaptive_avg_pool1d(x, 1)), torch.randn(2, 3, 10))


def warmed(module):
    """A module whose running statistics are not the ones it is made with."""
    with torch.no_grad():
        for value in [*module.parameters(), *module.buffers()]:
            if value.is_floating_point():
                value.copy_(torch.rand_like(value) + 0.5)
    return module


NORMS = [
    nn.BatchNorm2d(4),
    nn.BatchNorm2d(4, affine=False),
    nn.InstanceNorm2d(4, affine=True),
    nn.InstanceNorm2d(4),
    nn.GroupNorm(2, 4),
    nn.GroupNorm(4, 4, affine=False),
    nn.LayerNorm(8),
    nn.LayerNorm((9, 8), elementwise_affine=False),
    nn.LayerNorm(8, bias=False),
    nn.RMSNorm(8, eps=1e-6),
    nn.RMSNorm(8),
    nn.LocalResponseNorm(2),
]


@pytest.mark.parametrize("module", NORMS, ids=str)
def test_normalisations(agrees, module):
    agrees(warmed(module), X, dynamic=[[0]], others=images((1, 9, 8), (5, 9, 8)), tolerance=1e-5)


def test_paddings(agrees):
    def padded(x):
        return (
            F.pad(x, (1, 2)),
            F.pad(x, (1, 0, 2, 3), value=-1.5),
            F.pad(x, (-1, 2)),
            *(F.pad(x, (1, 2, 3, 0), mode) for mode in ("reflect", "replicate", "circular")),
        )

    agrees(padded, X, dynamic=[[0, 2]], others=images((1, 9, 8), (2, 5, 8)))


def test_patches(agrees):
    def patches(x):
        columns = F.unfold(x, (3, 2), padding=1, stride=2)
        return columns, F.fold(columns, (9, 8), (3, 2), padding=1, stride=2)

    agrees(patches, X, dynamic=[[0]], others=images((1, 9, 8)))


def test_batch_norm_of_the_batch(agrees):
    """A module without running statistics takes those of the batch in the mode eval, too."""
    norm = nn.BatchNorm2d(3, track_running_stats=False)
    agrees(norm, torch.randn(2, 3, 4, 5), dynamic=[[0, 2]], others=[(torch.randn(1, 3, 7, 5),)], tolerance=1e-5)


@pytest.mark.parametrize("pad", [True, False])
def test_sums_of_windows_over_a_number(agrees, pad):
    """With a divisor, pads count as zeros, whether they are included in an average or not."""

    def pooled(x):
        return torch.nn.functional.avg_pool2d(
            x, 3, 2, padding=1, count_include_pad=pad, divisor_override=2
        ), torch.nn.functional.avg_pool2d(x[0], (2, 1), divisor_override=-3)

    agrees(pooled, torch.randn(2, 3, 6, 7), dynamic=[[0, 2]], others=[(torch.randn(1, 3, 9, 7),)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_adaptive_maxima_of_windows_that_overlap(agrees, dtype):
    """With the places of maxima; of open sizes, and windows of one element."""
    F = torch.nn.functional

    def pools(x):
        return F.adaptive_max_pool2d(x, (5, 3), return_indices=True), F.adaptive_max_pool2d(x, 1, return_indices=True)

    # elements of bfloat16 are distinct, so that the place of a maximum is
    def sample(*sizes):
        count = math.prod(sizes)
        return torch.randperm(count).remainder(251).sub(100).reshape(sizes).to(dtype)

    others = [(sample(*sizes),) for sizes in ((1, 2, 5, 3), (2, 2, 8, 9), (3, 2, 3, 2))]
    agrees(pools, sample(2, 2, 7, 11), dynamic=[[0, 2, 3]], others=others)
    agrees(lambda x: F.adaptive_max_pool1d(x, 4), sample(2, 3, 11), dynamic=[[2]], others=[(sample(2, 3, 6),)])
    agrees(lambda x: F.adaptive_max_pool3d(x, (2, 1, 3)), sample(3, 4, 5, 6), dynamic=[[1, 2, 3]])
    infinite = torch.full((1, 1, 4, 5), float("-inf"), dtype=dtype)
    agrees(lambda x: F.adaptive_max_pool2d(x, (3, 3)), infinite)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_adaptive_means_to_open_sizes(agrees, dtype):
    F = torch.nn.functional
    tolerance = 2 * torch.finfo(dtype).eps if dtype == torch.bfloat16 else 2e-6

    def pools(x):
        return F.adaptive_avg_pool2d(x, (3, None)), F.interpolate(x, scale_factor=0.4, mode="area")

    others = [(torch.randn(*sizes, dtype=dtype),) for sizes in ((1, 2, 5, 3), (2, 2, 8, 9))]
    agrees(pools, torch.randn(2, 2, 7, 11, dtype=dtype), dynamic=[[0, 2, 3]], others=others, tolerance=tolerance)
