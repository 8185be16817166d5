"""Backward operators, imported from exported programs: the gradients that torch computes."""

from __future__ import annotations

import pytest
import torch
from torch_programs import check

ATEN = torch.ops.aten


def random(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


IMAGES = random(2, 4, 7, 6)
CONVOLUTIONS = {
    "strided, dilated, grouped": (IMAGES, random(6, 2, 3, 2), [2, 1], [1, 0], [1, 2], False, [0, 0], 2),
    "transposed": (IMAGES, random(4, 3, 3, 2), [2, 2], [1, 0], [1, 1], True, [1, 0], 1),
    "of one dimension": (random(2, 4, 9), random(6, 4, 3), [2], [1], [1], False, [0], 1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    x, weight, *options = CONVOLUTIONS[name]
    shape = ATEN.convolution(x, weight, None, *options).shape

    def gradients(grad, x, weight):
        return ATEN.convolution_backward(grad, x, weight, [shape[1]], *options, [True, True, True])

    check(gradients, random(*shape, seed=1), x, weight, tolerance=1e-5)


def test_a_masked_gradient_is_not_computed():
    def by_weight(grad, x, weight):
        return ATEN.convolution_backward(grad, x, weight, None, [1], [0], [1], False, [0], 1, [False, True, False])[1]

    mod = check(by_weight, random(2, 3, 5), random(2, 4, 7), random(3, 4, 3), tolerance=1e-5)
    assert "conv1d_transpose" not in mod.script()


def test_pools():
    def maximum(grad, x):
        indices = ATEN.max_pool2d_with_indices(x, [3, 2], [2, 2], [1, 0])[1]
        return ATEN.max_pool2d_with_indices_backward(grad, x, [3, 2], [2, 2], [1, 0], [1, 1], False, indices)

    def average(grad, x):
        return ATEN.avg_pool2d_backward(grad, x, [3, 2], [2, 2], [1, 0], False, False, None)

    batches = [{0}, {0}]
    others = [(random(3, 4, 4, 3, seed=2), random(3, 4, 7, 6, seed=3))]
    for pool in (maximum, average):
        check(pool, random(2, 4, 4, 3), IMAGES, dynamic=batches, others=others)


def test_adaptive_pools():
    def both(average, maximum, x):
        indices = ATEN.adaptive_max_pool2d(x, [7, 3])[1]
        by_maximum = ATEN.adaptive_max_pool2d_backward(maximum, x, indices)
        return ATEN._adaptive_avg_pool2d_backward(average, x), by_maximum

    check(both, random(2, 4, 3, 2), random(2, 4, 7, 3), IMAGES)


@pytest.mark.parametrize("name", ["nearest2d", "bilinear2d", "bicubic2d"])
def test_interpolations(name):
    options = [] if name == "nearest2d" else [False]
    backward = getattr(ATEN, f"upsample_{name}_backward")
    check(
        lambda grad: backward(grad, [10, 12], [2, 3, 7, 6], *options, None, None), random(2, 3, 10, 12), tolerance=1e-5
    )


def test_replicated_pads_and_grid_samples():
    check(lambda grad, x: ATEN.replication_pad2d_backward(grad, x, [1, 2, 0, 3]), random(2, 4, 10, 9), IMAGES)
    grid = torch.rand(2, 5, 3, 2, generator=torch.Generator().manual_seed(4)) * 1.8 - 0.9

    def sampled(grad, x, grid):
        return ATEN.grid_sampler_2d_backward(grad, x, grid, 0, 0, False, [True, True])

    check(sampled, random(2, 4, 5, 3), IMAGES, grid, tolerance=1e-5)
