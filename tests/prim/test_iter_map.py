"""Affine iteration maps: what is detected, how it is divided and inverted, and the reasons for which it is not."""

from __future__ import annotations

import re

import pytest

import relax  # noqa: F401  with the printer of expressions
from relax.ir import structural_equal
from relax.prim import (
    EQ,
    Analyzer,
    And,
    Cast,
    IntImm,
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    Not,
    Or,
    PrimExpr,
    SizeVar,
    Var,
    const,
    detect_iter_map,
    intrin,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
    subspace_divide,
    substitute,
)
from relax.prim.iter_divide import divide_subspace
from relax.tir import Range

BIJECTIVE, SURJECTIVE, INJECTIVE, NOCHECK = IterMapLevel

n, m, h = (SizeVar(name, "int64") for name in "nmh")
i, j, k, f, io, ii = (Var(name, "int64") for name in ("i", "j", "k", "f", "io", "ii"))
TRUE = IntImm("bool", 1)


def domain(**iters) -> dict:
    """Domains of the iterators above: ``i=8`` is [0, 8), ``i=(2, 8)`` is [2, 10)."""
    by_name = {v.name: v for v in (i, j, k, f, io, ii)}
    result = {}
    for name, size in iters.items():
        low, extent = size if isinstance(size, tuple) else (0, size)
        extent = extent if isinstance(extent, PrimExpr) else const(extent, "int64")
        result[by_name[name]] = Range(min=low, extent=extent)
    return result


def text(expr) -> str:
    """An expression as text, numbers without their dtype."""
    return re.sub(r"T\.\w+\((-?\w+)\)", r"\1", str(normalize_iter_map_to_expr(expr))).replace("T.", "")


def detected(indices, iters, predicate=True, level=SURJECTIVE, **options) -> list[tuple[str, str]]:
    """Each index and its extent, as text."""
    result = detect_iter_map(indices, iters, predicate, level, **options)
    assert result.errors == ()
    return [(text(index), " * ".join(text(arg.extent) for arg in index.args)) for index in result.indices]


def refusal(indices, iters, predicate=True, level=SURJECTIVE, **options) -> str:
    result = detect_iter_map(indices, iters, predicate, level, **options)
    assert result.indices == ()
    (message,) = result.errors
    return message


def divided(bindings, iters, inner, predicate=True, level=SURJECTIVE) -> list[tuple[str, ...]]:
    """Outer part, its extent, inner part, its extent of each binding; last the two conditions."""
    pairs = subspace_divide(bindings, iters, inner, predicate, level)
    assert pairs
    *parts, (outer, inner_condition) = pairs
    rows = [tuple(text(p) for m in pair for p in (m.source, m.extent)) for pair in parts]
    return [*rows, (text(outer.extent), text(inner_condition.extent))]


# ---------------------------------------------------------------------------------------------- detection


@pytest.mark.parametrize(
    "indices, iters, expected",
    [
        ([i], domain(i=8), [("i", "8")]),
        ([i], domain(i=(3, 8)), [("i", "8")]),
        ([i * 16 + j], domain(i=4, j=16), [("i * 16 + j", "64")]),
        ([j + i * 16 + 5], domain(i=4, j=16), [("i * 16 + j + 5", "64")]),
        ([j, i], domain(i=4, j=16), [("j", "16"), ("i", "4")]),
        ([i // 4, i % 4], domain(i=32), [("i // 4", "8"), ("i % 4", "4")]),
        ([i // 8, i // 2 % 4, i % 2], domain(i=32), [("i // 8", "4"), ("i % 8 // 2", "4"), ("i % 2", "2")]),
        ([15 - i], domain(i=16), [("15 - i", "16")]),
        ([i // 4 * 4 + i % 4], domain(i=32), [("i", "32")]),
        ([i // 4 + 7, i % 4], domain(i=32), None),
        ([(i * 4 + j) // 6, (i * 4 + j) // 2 % 3, (i * 4 + j) % 2], domain(i=6, j=4), None),
        ([(i * 4 + j) // 4, j], domain(i=6, j=4), [("i", "6"), ("j", "4")]),
        ([(i * 4 + j) // 8, (i % 2) * 4 + j], domain(i=6, j=4), None),
        ([(i * 8 + j * 2) // 4, j % 2], domain(i=4, j=4), None),
        ([i * m + j], domain(i=n, j=m), [("i * m + j", "m * n")]),
        ([(i * m + j) * h + k], domain(i=n, j=m, k=h), None),
        ([f // m, f % m], domain(f=n * m), [("f // m", "n"), ("f % m", "m")]),
        ([f // 4, f % 4], domain(f=n * 4), [("f // 4", "n"), ("f % 4", "4")]),
        ([(i * 4 + j + 8) // 4, (j + 8) % 4], domain(i=6, j=4), None),
        ([i, j], domain(i=0, j=4), [("i", "0"), ("j", "4")]),
        ([i * 16 + j], domain(i=0, j=16), [("i * 16 + j", "0")]),
        ([i % 8], domain(i=8), [("i", "8")]),
        ([i // 8 + j], domain(i=(0, 1), j=8), [("j", "8")]),
    ],
)  # fmt: skip
def test_maps_that_are_bijective(indices, iters, expected):
    result = detected(indices, iters, level=BIJECTIVE)
    if expected is not None:
        assert result == expected
    for level in (SURJECTIVE, INJECTIVE, NOCHECK):
        assert [extent for _, extent in detected(indices, iters, level=level)] == [e for _, e in result]


def test_a_split_loop_with_a_tail():
    iters = domain(io=(n + 15) // 16, ii=16)
    assert detected([io * 16 + ii], iters, io * 16 + ii < n, BIJECTIVE) == [("io * 16 + ii", "n")]
    both = And(io * 16 + ii < n, intrin.likely(io * 16 + ii >= 0))
    assert detected([io * 16 + ii + 3], iters, both, BIJECTIVE)[0][1] == "n"


def test_the_loop_that_two_loops_were_before_one_was_split():
    v = io * 16 + ii
    iters = domain(io=(n * m + 15) // 16, ii=16)
    assert [extent for _, extent in detected([v // m, v % m], iters, v < n * m, BIJECTIVE)] == ["n", "m"]


def test_the_levels_of_a_map():
    iters = domain(i=10)
    assert refusal([i // 4, i % 4], iters) == (
        "i in [0, 10) does not reach all values of the digits i % 4 in [0, 4), i // 4 in [0, 3)"
    )
    assert refusal([i // 4, i % 4], iters, level=BIJECTIVE) == (
        "i in [0, 10) has 10 values, which do not fill the digits i % 4 in [0, 4), i // 4 in [0, 3)"
    )
    assert [extent for _, extent in detected([i // 4, i % 4], iters, level=INJECTIVE)] == ["3", "4"]
    assert detected([i // 4], iters, level=SURJECTIVE)[0][1] == "3"
    assert refusal([i // 4], iters, level=INJECTIVE) == (
        "the digits of i in [0, 10) overlap or leave gaps: i // 4 in [0, 3)"
    )
    assert refusal([i % 4], iters, level=INJECTIVE) == "not all digits of i in [0, 10) are used: i % 4 in [0, 4)"
    assert detected([i % 4], iters, level=SURJECTIVE)[0][1] == "4"


def test_a_sum_with_gaps_is_injective():
    iters = domain(i=4, j=3)
    assert detected([i * 8 + j], iters, level=INJECTIVE)[0][1] == "4 * 3"
    assert "the index i * 8 + j: the terms (extent 4 times 8, extent 3 times 1) leave gaps or overlap" in refusal(
        [i * 8 + j], iters
    )
    assert refusal([i * 2 + j], iters, level=INJECTIVE) == (
        "the index i * 2 + j may be the same for different values of iterators"
    )
    assert detected([i * 2 + j], iters, level=NOCHECK)[0][1] == "4 * 3"


def test_digits_may_be_left_out_of_a_surjective_map():
    assert detected([i // 6, i % 2], domain(i=24)) == [("i // 6", "4"), ("i % 2", "2")]
    assert refusal([i // 6, i % 4], domain(i=24)).startswith("the digits of i in [0, 24) overlap or leave gaps")
    assert refusal([i // 4, i % 8], domain(i=32)).startswith("the digits of i in [0, 32) overlap")
    assert detected([i], domain(i=4, j=3))[0][1] == "4"


def test_an_iterator_that_takes_no_part_may_be_empty():
    iters = domain(i=4, j=n)
    assert refusal([i], iters) == (
        "the indices do not use the iterator j, whose extent n may be 0: then nothing is reached"
    )
    assert refusal([i], iters, level=BIJECTIVE) == "the indices do not use the iterator j, of extent n"
    facts = Analyzer()
    facts.assume(n >= 1)
    assert detected([i], iters, analyzer=facts) == [("i", "4")]
    assert not facts.can_prove(j >= 0)  # the caller's facts stay as they are
    # A digit of a loop that may be empty, likewise.
    assert "does not reach all values" in refusal([f % 4], domain(f=n * 4))
    assert detected([f % 4], domain(f=n * 4), analyzer=facts)[0][1] == "4"


def test_factors_that_may_be_zero():
    assert "a multiple of n, which may be 0" in refusal([i * n], domain(i=4), level=INJECTIVE)
    assert detected([i * (n + 1)], domain(i=4), level=INJECTIVE)[0][1] == "4"
    assert detected([i * n], domain(i=1), level=INJECTIVE, simplify_trivial_iterators=False)[0][1] == "1"
    assert detected([i * 0 + j], domain(i=1, j=4), level=BIJECTIVE) == [("j", "4")]


def test_trivial_iterators():
    iters = domain(i=1, j=4)
    kept = detect_iter_map([i, j], iters, simplify_trivial_iterators=False)
    assert [len(index.args) for index in kept.indices] == [1, 1]
    dropped = detect_iter_map([i, j], iters)
    assert [len(index.args) for index in dropped.indices] == [0, 1]
    assert detected([i * 4 + j], iters, simplify_trivial_iterators=False)[0][1] == "4"
    assert detected([j * 1 + i], iters, level=BIJECTIVE, simplify_trivial_iterators=False)[0][1] == "4"


def test_the_same_mark_is_the_same_object():
    first, second = detect_iter_map([(i * 4 + j) // 6, (i * 4 + j) % 6], domain(i=6, j=4)).indices
    assert first.args[0].source is second.args[0].source
    assert structural_equal(first, detect_iter_map([(i * 4 + j) // 6, (i * 4 + j) % 6], domain(i=6, j=4)).indices[0])


# ---------------------------------------------------------------------------------------------- conditions


@pytest.mark.parametrize(
    "indices, iters, predicate, extents",
    [
        ([i], domain(i=8), i < 5, ["5"]),
        ([i], domain(i=8), And(i >= 2, i < 5), ["3"]),
        ([i], domain(i=8), And(2 <= i, 5 > i), ["3"]),
        ([i], domain(i=8), Not(i >= 5), ["5"]),
        ([i], domain(i=8), i * 2 < 5, ["3"]),
        ([i], domain(i=8), 0 - i > -5, ["5"]),
        ([i], domain(i=8), EQ(i, 5), ["1"]),
        ([i], domain(i=(4, 8)), i < 6, ["2"]),
        ([i // 4, i % 4], domain(i=16), i // 4 < 3, ["3", "4"]),
        ([i // 4, i % 4], domain(i=16), i % 4 < 3, ["4", "3"]),
        ([i * 4 + j], domain(i=4, j=4), i * 4 + j < 10, ["10"]),
        ([i * 4 + j], domain(i=4, j=4), And(i * 4 + j >= 3, i * 4 + j < 10), ["7"]),
        ([(i * 4 + j) // 5, (i * 4 + j) % 5], domain(i=4, j=4), i * 4 + j < 10, ["2", "5"]),
        ([k * 10 + (i * 4 + j)], domain(i=4, j=4, k=3), i * 4 + j < 10, ["30"]),
        ([i * 4 + j], domain(i=4, j=4), And(i * 4 + j < 14, i < 3), ["12"]),
        ([(i * 4 + j) * 2 + k], domain(i=4, j=4, k=2), And((i * 4 + j) * 2 + k < 19, i * 4 + j < 11), ["19"]),
        ([i], domain(i=n), i < m, ["min(m, n)"]),
        ([i], domain(i=8), i < n - 2, ["max(min(n, 10) - 2, 0)"]),
        ([i], domain(i=8), TRUE, ["8"]),
        ([i], domain(i=8), i < 20, ["8"]),
        ([i * 4 + j], domain(i=4, j=4), 2 * (i * 4 + j) < 19, ["10"]),
    ],
)  # fmt: skip
def test_conditions_that_bound_iterators(indices, iters, predicate, extents):
    assert [extent for _, extent in detected(indices, iters, predicate, BIJECTIVE)] == extents


@pytest.mark.parametrize(
    "indices, iters, predicate, message",
    [
        ([i], domain(i=8), i >= 9, "the predicate i >= 9 holds for no value of the iterators"),
        ([i], domain(i=8), IntImm("bool", 0), "holds for no value of the iterators"),
        ([i], domain(i=8), n > m, "the predicate n > m is not known to hold for all sizes"),
        ([i], domain(i=8), Or(i < 2, i > 5), "is no conjunction of bounds of iterators"),
        ([i], domain(i=8), Not(EQ(i, 2)), "is no conjunction of bounds of iterators"),
        ([i], domain(i=8), Not(And(i < 2, i > -5)), "is no conjunction of bounds of iterators"),
        ([i], domain(i=8), i * i < 5, "i * i is a product of two values that both depend on iterators"),
        ([i, j], domain(i=4, j=4), i + j < 5, "leave gaps or overlap in the sum that the predicate i + j < "),
        ([i, j], domain(i=4, j=4), i * 4 + j < 10, "bounds iterators that the indices use apart"),
        ([i], domain(i=4, j=4), i * 4 + j < 10, "bounds iterators that the indices use apart"),
        ([k], domain(i=4, j=4, k=2), i * 4 + j < n, "the predicate i * 4 + j < n may leave no value"),
        ([j], domain(i=16, j=4), And(i // 4 % 2 >= 1, i < 3), "predicates that bound different digits of one iterator"),
        ([i], domain(i=4), i * n < 10, "bounds a multiple of n, which may be 0"),
        ([i % 2], domain(i=8), i % 2 < i % 2 + n - m, "depends on an iterator without bounding it"),
    ],
)  # fmt: skip
def test_conditions_that_are_refused(indices, iters, predicate, message):
    assert message in refusal(indices, iters, predicate)


def test_conditions_on_sizes_do_not_matter_to_injective_maps():
    assert detected([i], domain(i=8), n > m, INJECTIVE) == [("i", "8")]


def test_a_condition_on_iterators_that_take_no_part():
    iters = domain(i=4, j=4, k=2)
    assert detected([k], iters, i * 4 + j < 10) == [("k", "2")]
    assert detected([k], iters, And(i * 4 + j < 10, (i * 4 + j) // 2 > 1)) == [("k", "2")]
    assert detected([k], iters, And(i < 3, j > 2)) == [("k", "2")]
    assert detected([k], domain(i=16, k=2), And(i % 4 >= 1, i // 4 % 2 < 1)) == [("k", "2")]


# ------------------------------------------------------------------------------------------ not affine


@pytest.mark.parametrize(
    "index, message",
    [
        (i * j, "i * j is a product of two values that both depend on iterators"),
        (intrin.max(i, j), "is not affine: built from iterators with +, -, and *, //, % by what is fixed"),
        (i // j, "i // j divides by j, which depends on an iterator"),
        (i // 0, "divides by 0"),
        (i // (n - m), "divides by n - m, which is not known to be ≥ 0"),
        (i // n, "8 values are divided by n, which may be 0"),
        (i * 2 // 3, "divides 8 values that lie 2 apart"),
        ((i * 3 + j) // 2, "leave gaps or overlap in the sum, which"),
        (Cast("float32", i), "is no integer, but float32"),
    ],
)
def test_indices_that_are_not_affine(index, message):
    assert message in refusal([index], domain(i=8, j=8), level=NOCHECK)


def test_a_domain_has_min_and_extent():
    with pytest.raises(TypeError, match="the domain of i has no min and extent: 8"):
        detect_iter_map([i], {i: 8})


def test_simplification_is_tried_last():
    assert detected([intrin.max(i, 0)], domain(i=8), level=BIJECTIVE) == [("i", "8")]


# ----------------------------------------------------------------------------------------------- padding


def padding(indices, iters, level=INJECTIVE) -> str:
    return text(detect_iter_map(indices, iters, True, level).padding_predicate)


def test_padding_predicates():
    assert padding([i // 4, i % 4], domain(i=8)) == "False"
    assert padding([i // 4, i % 4], domain(i=10)) == "i >= 10"
    assert padding([i // 16, i % 16], domain(i=n)) == "i >= n"
    assert padding([(i + 3) // 4, (i + 3) % 4], domain(i=13)) == "i < 0"
    assert padding([(i + 3) // 4, (i + 3) % 4], domain(i=12)) == "i < 0 or i >= 12"
    assert padding([f // m, f % m], domain(f=n * m)) == "False"
    assert padding([(i * 4 + j) // 5, (i * 4 + j) % 5], domain(i=6, j=4)) == "i * 4 + j >= 24"
    # 0 <= i % 8 < 8 is divided into 9 values: no iterator tells which of them is not there.
    message = (
        "the digits i % 8 % 3 in [0, 3), i % 8 // 3 in [0, 3) have more values than i % 8, and no iterator shows which"
    )
    assert refusal([i % 8 // 3, i % 8 % 3, i // 8], domain(i=16), level=INJECTIVE) == message
    assert padding([i % 8 // 3, i % 8 % 3], domain(i=8)) == "i >= 8"
    bounded = detect_iter_map([i % 8 // 3, i % 8 % 3, i // 8], domain(i=16), i % 8 < 5, INJECTIVE)
    assert text(bounded.padding_predicate) == "i % 8 >= 5"


# ----------------------------------------------------------------------------------------------- division


def test_subspace_division():
    iters, everywhere = domain(i=4, j=2, k=4), ("True", "True")
    v = i * 8 + j * 4 + k
    assert divided([v], iters, [k]) == [("i * 2 + j", "8", "k", "4"), everywhere]
    assert divided([v], iters, [j, k]) == [("i", "4", "j * 4 + k", "8"), everywhere]
    assert divided([v], iters, [i, j, k]) == [("0", "1", "i * 8 + j * 4 + k", "32"), everywhere]
    assert divided([i + n, v], domain(i=4, j=2, k=4), [], level=NOCHECK)[0] == ("i + n", "4", "0", "1")
    assert divided([i, j + 1], domain(i=4, j=2), [j])[:2] == [("i", "4", "0", "1"), ("0", "1", "j + 1", "2")]
    assert divided([i * 2 + j + 5], domain(i=4, j=2), [j])[0] == ("i", "4", "j + 5", "2")
    assert divided([i * m + j], domain(i=n, j=m), [j])[0] == ("i", "n", "j", "m")
    assert divided([i], domain(i=4, j=2), [j])[0] == ("i", "4", "0", "1")
    assert divided([i * 0 + 7], domain(i=4), [i])[0] == ("0", "1", "7", "1")


def test_division_of_digits():
    v, iters = i * 8 + j * 4 + k, domain(i=4, j=2, k=4)
    assert divided([v // 2, v % 2], iters, [k])[:2] == [("i * 2 + j", "8", "k // 2", "2"), ("0", "1", "k % 2", "2")]
    assert divided([v // 8, v % 8], iters, [k])[:2] == [
        ("(i * 2 + j) // 2", "4", "0", "1"),
        ("(i * 2 + j) % 2", "2", "k", "4"),
    ]
    assert divided([v // 2 % 4, v // 8, k % 2], iters, [k], level=NOCHECK)[0] == ("(i * 2 + j) % 2", "2", "k // 2", "2")
    # A multiple has gaps: its part takes the room from its first to its last value.
    assert divided([i * 3], domain(i=4), [])[0] == ("i * 3", "10", "0", "1")


def test_division_with_conditions():
    v, iters = io * 16 + ii, domain(io=(n + 15) // 16, ii=16)
    assert divided([v], iters, [ii], v < n) == [("io", "(n + 15) // 16", "ii", "16"), ("True", "io * 16 + ii < n")]
    assert divided([v], iters, [ii], And(v < n, io < m), INJECTIVE)[-1] == ("io < m", "io * 16 + ii < n")
    assert divided([v], iters, [ii], And(io < m, io < h), INJECTIVE)[-1] == ("io < m and io < h", "True")
    tiles = domain(io=4, ii=16)
    assert divided([io, ii], tiles, [ii], And(ii < 9, ii >= 2))[-1] == ("True", "ii < 9 and ii >= 2")
    assert divided([v], tiles, [ii], Not(v >= 50))[-1] == ("True", "io * 16 + ii < 50")
    assert divided([v + 1], tiles, [ii], And(v >= 5, v < 50))[0] == ("io", "4", "ii + 1", "16")


@pytest.mark.parametrize(
    "bindings, iters, inner, level, message",
    [
        ([i * 8 + j * 4 + k], domain(i=4, j=2, k=4), [j], SURJECTIVE, "inner iterators stand above outer ones in"),
        ([i + j], domain(i=4, j=4), [j], SURJECTIVE, "leave gaps or overlap"),
        ([i * 8 + j], domain(i=4, j=4), [j], INJECTIVE, "an index of outer and inner iterators has gaps: i * 8 + j"),
        ([15 - (i * 4 + j)], domain(i=4, j=4), [j], SURJECTIVE, "has gaps"),
        ([3 - i], domain(i=4), [i], SURJECTIVE, "an index falls with an iterator: 3 - i"),
        ([(i * 4 + j) // 3], domain(i=6, j=4), [j], SURJECTIVE, "a digit of i * 4 + j has parts of outer and inner"),
        ([(i * 4 + j) // 2 % 3, (i * 4 + j) // 6], domain(i=6, j=4), [j], NOCHECK, "has parts of outer and inner"),
        ([(i * 4 + j + 1) // 8], domain(i=6, j=4), [j], NOCHECK, "iterators meet in i * 4 + j + 1, of which a digit"),
    ],
)  # fmt: skip
def test_divisions_that_are_refused(bindings, iters, inner, level, message):
    assert subspace_divide(bindings, iters, inner, True, level) == []
    assert message in divide_subspace(bindings, iters, inner, True, level)


# ----------------------------------------------------------------------------- normal form and inverse


def inverse(indices, iters, predicate=True) -> dict[str, str]:
    names = [Var(name, "int64") for name in "abcd"[: len(indices)]]
    maps = detect_iter_map(indices, iters, predicate, INJECTIVE).indices
    return {var.name: text(value) for var, value in inverse_affine_iter_map(maps, names).items()}


def test_inverses():
    assert inverse([i // 4, i % 4], domain(i=32)) == {"i": "a * 4 + b"}
    assert inverse([i * 4 + j], domain(i=8, j=4)) == {"i": "a // 4", "j": "a % 4"}
    assert inverse([i + 3, j], domain(i=(2, 8), j=4)) == {"i": "a - 3", "j": "b"}
    assert inverse([7 - i], domain(i=8)) == {"i": "7 - a"}
    assert inverse([i * 3 + 1], domain(i=8)) == {"i": "(a - 1) // 3"}
    assert inverse([f // m, f % m], domain(f=n * m)) == {"f": "a * m + b"}
    assert inverse([i * m + j], domain(i=n, j=m)) == {"i": "a // m", "j": "a % m"}
    tail = inverse([io * 16 + ii], domain(io=(n + 15) // 16, ii=16), io * 16 + ii < n)
    assert tail == {"io": "a // 16", "ii": "a % 16"}
    assert inverse([(i * 4 + j) // 6, (i * 4 + j) % 6], domain(i=6, j=4)) == {
        "i": "(a * 6 + b) // 4",
        "j": "(a * 6 + b) % 4",
    }
    assert inverse([i % 6 // 3, i % 6 % 3, i // 6], domain(i=12)) == {"i": "a * 3 + b + c * 6"}


def test_padding_in_terms_of_the_indices():
    a, b = Var("a", "int64"), Var("b", "int64")
    result = detect_iter_map([i // 4, i % 4], domain(i=10), True, INJECTIVE)
    table = inverse_affine_iter_map(result.indices, [a, b])
    assert text(substitute(result.padding_predicate, table)) == "a * 4 + b >= 10"


def test_inverses_that_are_refused():
    high = detect_iter_map([i // 4], domain(i=32)).indices
    with pytest.raises(ValueError, match="the indices do not determine i"):
        inverse_affine_iter_map(high, [j])
    with pytest.raises(ValueError, match="1 indices, but the values of 2"):
        inverse_affine_iter_map(high, [j, k])
    gaps = detect_iter_map([i * 8 + j], domain(i=4, j=4), True, INJECTIVE).indices
    with pytest.raises(ValueError, match="index 0 is a sum of several digits"):
        inverse_affine_iter_map(gaps, [k])


def test_normal_form():
    value = normalize_to_iter_sum(k * 4 + j + i * 16 + n + h * f, domain(i=4, j=4, k=4, f=3))
    assert [text(arg.scale) for arg in value.args] == ["16", "4", "h", "1"]
    assert [text(arg.source) for arg in value.args] == ["i", "k", "f", "j"]
    assert text(value.base) == "n"
    scaled = normalize_to_iter_sum(j * m + i * (n * 2) * m, domain(i=4, j=4))
    assert [text(arg.source) for arg in scaled.args] == ["i", "j"]
    with pytest.raises(ValueError, match="normalize_to_iter_sum: i // j divides by j"):
        normalize_to_iter_sum(i // j, domain(i=4, j=4))


def test_simplification():
    iters = domain(i=4, j=16)
    untouched = i * 16 + j
    assert iter_map_simplify([untouched], iters)[0] is untouched
    assert [text(e) for e in iter_map_simplify([i * 16 + j // 4 * 4 + j % 4], iters)] == ["i * 16 + j"]
    refused = intrin.max(i, j) + 0 * j
    assert iter_map_simplify([refused], iters)[0] is refused


def test_nodes():
    mark = IterMark(i, const(32, "int64"))
    split = IterSplitExpr(mark, lower_factor=4, extent=2, scale=8)
    assert text(split) == "i % 8 // 4 * 8"
    assert text(IterSumExpr([split, IterSplitExpr(IterMark(j, 4))], 3)) == "i % 8 // 4 * 8 + j + 3"
    assert text(mark) == "i"
    assert text(i + 0) == "i"
    assert str(split) == "IterSplit(IterMark(i, extent=32), lower_factor=4, extent=2, scale=8)"
    assert str(IterSumExpr([], 3)) == "IterSum([], 3)"
    assert {str(mark.dtype), str(split.dtype), str(IterSumExpr((split,), n).dtype)} == {"int64"}


# ------------------------------------------------------------------------------------------------- casts

a, b = (Var(name, "int32") for name in "ab")
NARROW = {a: Range(0, const(4, "int32")), b: Range(0, const(16, "int32"))}
WIDE = "int64"


def test_casts_that_keep_the_value_are_looked_through():
    """Every claim, also where an iterator is used both as it is and cast."""
    whole = Cast(WIDE, a * 16 + b)
    for level in (BIJECTIVE, SURJECTIVE, INJECTIVE, NOCHECK):
        assert detected([whole], NARROW, level=level) == [('Cast("int64", a) * 16 + Cast("int64", b)', "64")]
    for indices in ([whole // 8, whole % 8], [Cast(WIDE, a), Cast("int16", b)], [a, Cast(WIDE, b)]):
        result = detect_iter_map(indices, NARROW, check_level=BIJECTIVE)
        assert result.errors == ()
        assert {str(index.dtype) for index in result.indices} == {"int64"}
    assert detected([Cast(WIDE, a) * 16 + Cast(WIDE, b)], NARROW, level=BIJECTIVE)
    assert detected([Cast(WIDE, Cast("int16", a) * 16) + b], NARROW, level=BIJECTIVE)
    shifted = {a: Range(2, const(6, "int32"))}
    assert detected([Cast(WIDE, a)], shifted, level=BIJECTIVE) == [('Cast("int64", a)', "4")]
    assert "does not use" not in refusal([Cast(WIDE, a // 2)], shifted, level=INJECTIVE)


def test_a_predicate_may_cast():
    iters = {a: Range(0, const(4, "int32")), b: Range(0, const(3, "int32"))}
    index = Cast(WIDE, a * 3 + b)
    assert [extent for _, extent in detected([index], iters, index < 10)] == ["10"]


@pytest.mark.parametrize(
    "index, iters",
    [
        (Cast("int8", a * 16 + b), {a: Range(0, const(9, "int32")), b: Range(0, const(16, "int32"))}),
        (Cast("uint8", a - 1), {a: Range(0, const(4, "int32"))}),
        (Cast(WIDE, a * const(2**30, "int32")), {a: Range(0, const(4, "int32"))}),
        (Cast("int32", i), {i: Range(0, n)}),
    ],
)
def test_casts_that_may_change_the_value(index, iters):
    """Of the first, 128 becomes -128; the third leaves 32 bits before it is cast."""
    assert "may change the value, or" in refusal([index], iters, level=NOCHECK)


def test_sums_with_casts_are_inverted_and_simplified():
    index = Cast(WIDE, a * 16 + b)
    result = detect_iter_map([index], NARROW, check_level=BIJECTIVE)
    inverse = inverse_affine_iter_map(result.indices, [i])
    assert {var.name: text(value) for var, value in inverse.items()} == {
        "a": 'Cast("int32", i // 16)',
        "b": 'Cast("int32", i % 16)',
    }
    assert {str(value.dtype) for value in inverse.values()} == {"int32"}
    (simple,) = iter_map_simplify([Cast(WIDE, a * 16 + b) // 16 * 16 + Cast(WIDE, b)], NARROW)
    assert text(simple) == 'Cast("int64", a) * 16 + Cast("int64", b)'
    outer, inner = divided([index], NARROW, [b])[0][::2]
    assert (outer, inner) == ('Cast("int64", a)', 'Cast("int64", b)')
    assert text(normalize_to_iter_sum(index, NARROW)) == 'Cast("int64", a) * 16 + Cast("int64", b)'
