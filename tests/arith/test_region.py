"""Regions that accesses cover: exactly, at least, at most."""

from __future__ import annotations

import itertools
import random

import pytest

import relax  # noqa: F401  with the printer of expressions
from relax.arith import (
    domain_touched,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
)
from relax.prim import And, IntImm, SizeVar, Var, const, evaluate
from relax.script import tir as T
from relax.tir import Range

n, m = (SizeVar(name, "int64") for name in "nm")
i, j, xo, xi = (Var(name, "int64") for name in ("i", "j", "xo", "xi"))


def span(extent, low=0) -> Range:
    return Range(min=const(low, "int64"), extent=const(extent, "int64") if isinstance(extent, int) else extent)


def box(start, length) -> Range:
    return Range(min=start, extent=const(length, "int64") if isinstance(length, int) else length)


def text(sets) -> list[str] | None:
    return None if sets is None else [str(s).removeprefix("IntervalSet").replace("T.", "") for s in sets]


@pytest.mark.parametrize(
    "region, iters, predicate, expected",
    [
        ([box(i, 1)], {i: span(8)}, True, ["[0, 7]"]),
        ([box(i * 4, 8)], {i: span(16)}, True, ["[0, 67]"]),
        ([box(i * 4, 4)], {i: span(n)}, True, ["[0, n * 4 - 1]"]),
        ([box(i * 4, 8)], {i: span(n + 1)}, True, ["[0, n * 4 + 7]"]),
        ([box(1 - i, 4), box(20 - j * 4, 16)], {i: span(4), j: span(4)}, True, ["[-2, 4]", "[8, 35]"]),
        ([box(xo * 16 + xi * 4, 8)], {xo: span(16), xi: span(4)}, xo * 4 + xi < 63, ["[0, 255]"]),
        ([box(xo * 16 + xi, 1)], {xo: span((n + 15) // 16), xi: span(16)}, xo * 16 + xi < n, ["[0, n - 1]"]),
        ([box(n, m)], {i: span(4)}, True, ["[n, n + m - 1]"]),
    ],
)  # fmt: skip
def test_exact_regions(region, iters, predicate, expected):
    assert text(estimate_region_strict_bound(region, iters, predicate)) == expected
    assert text(estimate_region_lower_bound(region, iters, predicate)) == expected
    assert text(estimate_region_upper_bound(region, iters, predicate)) == expected


@pytest.mark.parametrize(
    "region, iters, predicate, around",
    [
        ([box(i, 2), box(i + 1, 3)], {i: span(64)}, True, ["[0, 64]", "[1, 66]"]),  # the box has more elements
        ([box(i * 4, 2)], {i: span(64)}, True, ["[0, 253]"]),  # gaps
        ([box(i * 4, 8)], {i: span(n)}, True, ["[0, n * 4 + 3]"]),  # nothing for n = 0
        ([box(i * n, 8)], {i: span(4)}, True, ["[0, n * 3 + 7]"]),
        ([box(i * (n - m), 8)], {i: span(4)}, True, ["[neg_inf, pos_inf]"]),
        ([box(i, j + 1)], {i: span(4), j: span(4)}, True, ["[0, 6]"]),
        ([box((i + j) // 2, 1)], {i: span(8), j: span(4)}, True, ["[0, 5]"]),
        ([box(0 - i * 4, 2)], {i: span(4)}, True, ["[-12, 1]"]),
        ([box(i, 1)], {i: span(8), j: span(n)}, i < 3, ["[0, 2]"]),
    ],
)  # fmt: skip
def test_regions_that_are_not_known_exactly(region, iters, predicate, around):
    assert estimate_region_strict_bound(region, iters, predicate) is None
    assert estimate_region_lower_bound(region, iters, predicate) is None
    assert text(estimate_region_upper_bound(region, iters, predicate)) == around


@pytest.mark.parametrize("seed", range(40))
def test_regions_by_enumeration(seed):
    r = random.Random(seed)
    iters = {v: span(r.randint(1, 4), r.randint(-2, 2)) for v in (i, j)}
    starts = r.choice(
        [[i * r.randint(-3, 3) + j], [i, j * 2], [i * 2 + 1 - j], [i // 2, j], [i * 4 + j, i], [i * 3 - j // 2]]
    )
    region = [box(start, r.randint(1, 4)) for start in starts]
    predicate = r.choice([IntImm("bool", 1), i < 2, And(i >= 0, j < 1)])
    touched = set()
    spans = [range(d.min.value, d.min.value + d.extent.value) for d in iters.values()]
    for point in itertools.product(*spans):
        env = dict(zip(iters, point, strict=True))
        if evaluate(predicate, env):
            lows = [evaluate(dim.min, env) for dim in region]
            touched |= set(
                itertools.product(*(range(a, a + d.extent.value) for a, d in zip(lows, region, strict=True)))
            )

    def elements(sets) -> set:
        return set(itertools.product(*(range(evaluate(s.min_value), evaluate(s.max_value) + 1) for s in sets)))

    exact = estimate_region_strict_bound(region, iters, predicate)
    assert exact is None or elements(exact) == touched
    assert touched <= elements(estimate_region_upper_bound(region, iters, predicate))


@T.prim_func
def shifted(a: T.handle, b: T.handle):
    size = T.int64()
    A = T.match_buffer(a, (size + T.int64(8), T.int64(4)), "float32")
    B = T.match_buffer(b, (size, T.int64(4)), "float32")
    for i0, j0 in T.grid(size, T.int64(4)):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i0, j0])
            B[vi, vj] = A[vi + T.int64(1), vj] + A[vi + T.int64(3), T.int64(0)]


@T.prim_func
def indirect(a: T.handle, p: T.handle, b: T.handle):
    A = T.match_buffer(a, (16,), "float32")
    P = T.match_buffer(p, (4,), "int64")
    B = T.match_buffer(b, (4,), "float32")
    for i0 in range(T.int64(4)):
        k: T.int64 = i0 * T.int64(2)
        B[i0] = A[P[i0]] + A[k]


@T.prim_func
def viewed(a: T.handle):
    A = T.match_buffer(a, (T.int64(16), T.int64(4)), "float32")
    for i0 in range(T.int64(4)):
        with T.block("view"):
            vi = T.axis.spatial(T.int64(4), i0)
            T.reads(A[vi * T.int64(2) : vi * T.int64(2) + T.int64(2), 0:4])
            T.writes(A[vi * T.int64(2) : vi * T.int64(2) + T.int64(2), 0:4])
            C = T.match_buffer(
                A[vi * T.int64(2) : vi * T.int64(2) + T.int64(2), 0:4], (T.int64(2), T.int64(4)), "float32"
            )
            C[T.int64(0), T.int64(0)] = T.float32(1)


def touched(func, name: str, **options) -> list[str] | None:
    (buffer,) = [b for b in func.buffer_map.values() if b.name == name]
    ranges = domain_touched(func.body, buffer, **options)
    return None if ranges is None else [str(r).replace("T.", "").replace("int64", "") for r in ranges]


def test_the_box_that_a_statement_touches():
    assert touched(shifted, "A") == ["Range((1), 1 + (size + 2))", "Range((0), (4))"]
    assert touched(shifted, "B") == ["Range((0), size)", "Range((0), (4))"]
    assert touched(shifted, "B", consider_stores=False) is None
    assert touched(shifted, "A", consider_loads=False) is None


def test_an_index_without_bounds_touches_the_whole_dimension():
    assert touched(indirect, "A") == ["Range((0), (16))"]
    assert touched(indirect, "P") == ["Range((0), (4))"]


def test_a_view_touches_its_region():
    assert touched(viewed, "A") == ["Range((0), (8))", "Range(0, 4)"]
