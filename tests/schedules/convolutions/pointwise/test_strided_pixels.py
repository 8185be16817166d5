"""with_neighbours: the pixels that a strided convolution of single elements uses are copied, and then are neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from applied import Applied

from relax import te, tir
from relax.schedules import schedule
from relax.schedules.cpu import Pointwise

COPY = "used_pixels"
"""The name of the copy in the kernel."""
CASES = {
    "lines of several vectors": {"ci": 5, "co": 9, "size": (9, 77), "kernel": (1, 1), "stride": 2, "n": 2},
    "stride 3": {"ci": 16, "co": 20, "size": (19, 31), "kernel": (1, 1), "stride": 3},
    "stride 4, lines of a quarter of a vector": {
        "ci": 16, "co": 20, "size": (29, 13), "kernel": (1, 1), "stride": 4,
    },
    "one dimension": {"ci": 12, "co": 20, "size": (77,), "kernel": (1,), "stride": 2},
    "three dimensions": {"ci": 16, "co": 20, "size": (3, 9, 33), "kernel": (1, 1, 1), "stride": 2},
    "float64": {"ci": 16, "co": 24, "size": (9, 33), "kernel": (1, 1), "stride": 2, "dtype": "float64"},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_known_sizes(same, conv, target, case):
    known = conv(**CASES[case])
    func = known.func()
    assert COPY in schedule(func, target, [Pointwise()]).script()
    same(func, Pointwise(), known.shapes(), dtype=known.dtype)


def test_lines_of_any_length(same, conv):
    n, w = (te.var(name, "int64") for name in "nw")
    unknown = conv(3, 5, (w,), (1,), n, 3)
    shapes = [unknown.shapes(n, (w,)) for n, w in ((1, 1), (0, 5), (2, 0), (1, 48), (3, 49), (1, 100))]
    same(unknown.func(), Pointwise(), *shapes)


def test_a_number_that_is_none_stays_with_its_pixel(conv):
    known = conv(16, 16, (20, 20), (1, 1), stride=2)
    x, k, _ = (np.ones(shape, "float32") for shape in known.shapes())
    x[0, 3, 4, 6], x[0, 3, 5, 6], x[0, 7, 18, 18] = np.nan, np.nan, -np.inf
    expected = np.full((1, 16, 10, 10), 16, "float32")
    expected[:, :, 2, 3], expected[:, :, 9, 9] = np.nan, -np.inf
    Applied(Pointwise(), known.func(), known=[1]).computes(expected, x, k)


def test_pixels_far_from_each_other_are_gathered(same, conv, target):
    for known in (
        conv(16, 20, (12, 61), (1, 1), stride=5),
        conv(16, 20, (60, 5), (1, 1), stride=2),
        conv(16, 20, (130, 1), (1, 1), stride=2),
    ):
        func = known.func()
        assert COPY not in schedule(func, target, [Pointwise()]).script()
        same(func, Pointwise(), known.shapes())


def test_all_pixels_are_read_where_they_are(conv, target):
    arranged = schedule(conv(16, 20, (12, 16), (1, 1)).func(), target, [Pointwise()])
    assert COPY not in arranged.script()
    tir.verify_well_formed(arranged)
