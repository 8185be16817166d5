"""Depthwise: convolutions with one input channel to a group, a channel's image at a time."""

from __future__ import annotations

import pytest

from relax import te
from relax.schedules import schedule
from relax.schedules.cpu import Depthwise

from convolutions import convolution, shapes


@pytest.mark.parametrize(
    "case",
    [
        (1, 8, 8, 17, 33, (3, 3), 1, 1, 1, 8),
        (2, 16, 16, 12, 15, (3, 3), 2, 1, 1, 16),
        (1, 8, 16, 11, 31, (5, 3), 3, 2, 2, 8),
    ],
)
def test_known_sizes(same, case):
    same(convolution(*case), Depthwise(), shapes(*case))


def test_unknown_sizes(same):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    sizes = [(1, 1, 1), (2, 5, 16), (0, 4, 4), (1, 3, 17), (1, 2, 35)]
    func = convolution(n, 4, 4, h, w, (3, 3), 2, 1, 1, 4)
    same(func, Depthwise(), *(shapes(n, 4, 4, h, w, (3, 3), 2, 1, 1, 4) for n, h, w in sizes))


def test_one_and_three_dimensions(same):
    line = (1, 6, 6, 300, (5,), 1, 2, 1, 6)
    same(convolution(*line), Depthwise(), shapes(*line))
    cube = (1, 6, 6, 3, 5, 20, (3, 2, 3), 1, 1, 1, 6)
    same(convolution(*cube), Depthwise(), shapes(*cube))


def test_others_are_left_alone(target):
    for func in (
        convolution(1, 8, 8, 9, 9, (3, 3)),
        convolution(1, 16, 16, 16, 16, (3, 3), groups=4),
        convolution(1, 64, 64, 16, 16, (9, 9), groups=64),
    ):
        assert schedule(func, target, [Depthwise()]) is func
