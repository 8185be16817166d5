"""Depthwise: convolutions with one input channel to a group, a channel's image at a time."""

from __future__ import annotations

import pytest

from relax import te
from relax.schedules import schedule
from relax.schedules.cpu import Depthwise

CASES = {
    "stride 1": {"ci": 8, "co": 8, "size": (7, 33), "kernel": (3, 3), "pad": 1, "groups": 8},
    "stride 2": {
        "ci": 16,
        "co": 16,
        "size": (12, 15),
        "kernel": (3, 3),
        "n": 2,
        "stride": 2,
        "pad": 1,
        "groups": 16,
    },
    "two outputs to an input": {
        "ci": 8,
        "co": 16,
        "size": (19, 40),
        "kernel": (5, 3),
        "stride": 3,
        "pad": 2,
        "dilation": 2,
        "groups": 8,
    },
    "one dimension": {"ci": 6, "co": 6, "size": (300,), "kernel": (5,), "pad": 2, "groups": 6},
    "three dimensions": {"ci": 6, "co": 6, "size": (3, 5, 20), "kernel": (3, 2, 3), "pad": 1, "groups": 6},
}


@pytest.mark.parametrize("case", CASES)
def test_known_sizes(same, conv, case):
    known = conv(**CASES[case])
    same(known.func(), Depthwise(), known.shapes())


def test_unknown_sizes(same, conv):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = conv(4, 4, (h, w), (3, 3), n, 2, 1, groups=4)
    sizes = [(1, (1, 1)), (2, (5, 15)), (0, (4, 4)), (1, (3, 17)), (1, (2, 33))]
    same(unknown.func(), Depthwise(), *(unknown.shapes(*size) for size in sizes))


def test_others_are_left_alone(target, conv):
    one_group = conv(8, 8, (9, 9), (3, 3))
    several_inputs = conv(16, 16, (16, 16), (3, 3), groups=4)
    many_taps = conv(64, 64, (16, 16), (9, 9), groups=64)
    for other in (one_group, several_inputs, many_taps):
        func = other.func()
        assert schedule(func, target, [Depthwise()]) is func
