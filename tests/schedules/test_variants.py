"""The attribute ``relax.schedule`` with several schedules: the function decides by one of its sizes."""

from __future__ import annotations

import numpy as np
import pytest
from column_vectors import Split, doubled

from relax import te, tir
from relax.codegen import build_module, resolve
from relax.ir import DiagnosticError, assert_structural_equal
from relax.optimize.pack_constants import packed_variant
from relax.schedules import schedule
from relax.schedules.cpu import RULES
from relax.schedules.variants import attribute_of, ranges_of, variants_in
from relax.script import from_source
from relax.script import tir as T

TARGET = resolve("llvm")


VARIANTS = [
    {"at_most": {"n": 3}, "rule": "Split", "parameters": {"factor": 2}},
    {"at_most": {"n": 8}},
    {"rule": "Split", "parameters": {"factor": 8}},
]
WITH_VARIANTS = doubled.with_attr("relax.schedule", VARIANTS).with_attr("tir.noalias", True)


@T.prim_func
def decided(a: T.handle, b: T.handle):
    T.func_attr({
        "tir.noalias": True,
        "relax.schedule": [
            {"at_most": {"n": 3}, "rule": "Split", "parameters": {"factor": 2}},
            {"at_most": {"n": 8}},
            {"rule": "Split", "parameters": {"factor": 8}},
        ],
        "tir.is_scheduled": True,
    })  # fmt: skip
    n = T.int64()
    A = T.match_buffer(a, (n, 16), "float32")
    B = T.match_buffer(b, (n, 16), "float32")
    if n <= 3:
        with T.block("root"):
            T.reads()
            T.writes()
            for i, j_0 in T.grid(n, 8):
                for j_1 in T.vectorized(2):
                    with T.block("B"):
                        vi = T.axis.spatial(n, i)
                        vj = T.axis.spatial(16, j_0 * 2 + j_1)
                        B[vi, vj] = A[vi, vj] * T.float32(2)
    else:
        if n <= 8:
            with T.block("root"):
                T.reads()
                T.writes()
                for i, j_0 in T.grid(n, 4):
                    for j_1 in T.vectorized(4):
                        with T.block("B"):
                            vi = T.axis.spatial(n, i)
                            vj = T.axis.spatial(16, j_0 * 4 + j_1)
                            B[vi, vj] = A[vi, vj] * T.float32(2)
        else:
            with T.block("root"):
                T.reads()
                T.writes()
                for i, j_0 in T.grid(n, 2):
                    for j_1 in T.vectorized(8):
                        with T.block("B"):
                            vi = T.axis.spatial(n, i)
                            vj = T.axis.spatial(16, j_0 * 8 + j_1)
                            B[vi, vj] = A[vi, vj] * T.float32(2)


def test_a_decision_between_three_schedules():
    """The middle one is the rules' own choice."""
    scheduled, expected = (
        f.without_attr("global_symbol") for f in (schedule(WITH_VARIANTS, TARGET, [Split()]), decided)
    )
    assert_structural_equal(scheduled, expected)


def test_a_scheduled_function_stays():
    scheduled = schedule(WITH_VARIANTS, TARGET, [Split()])
    assert schedule(scheduled, TARGET, [Split()]) is scheduled


@pytest.mark.parametrize("n", [0, 1, 3, 4, 8, 9, 20])
def test_values_around_the_bounds(n):
    scheduled = schedule(WITH_VARIANTS, TARGET, [Split()])
    x = np.random.default_rng(n).standard_normal((n, 16)).astype("float32")
    for run in (build_module({"main": scheduled}, TARGET)["main"], lambda *args: tir.interpret(scheduled, *args)):
        result = np.full((n, 16), 77, "float32")
        run(x, result)
        np.testing.assert_array_equal(result, x * 2)


def asked(*entries, func=doubled):
    """The function, scheduled as the entries say."""
    return schedule(func.with_attr("relax.schedule", list(entries)), TARGET, [Split()])


def test_equal_loops_are_one_variant():
    one = asked({"at_most": {"n": 3}, "rule": "Split"}, {"at_most": {"n": 9}}, {"rule": "Split"})
    assert_structural_equal(one.body, asked({"rule": "Split"}).body)
    two = asked({"at_most": {"n": 3}}, {"at_most": {"n": 9}}, {"rule": "Split", "parameters": {"factor": 2}})
    assert str(two).count("if n <= ") == 1


def test_a_rule_that_makes_a_function_of_its_own():
    """Its parameters, buffers and sizes are others than those of the function it takes."""

    class Rebuilt(Split):
        def apply(self, func, target, tunable):
            return super().apply(tir.renew.renew_bound_vars(func), target, tunable)

    named = [{**entry, "rule": "Rebuilt"} if "rule" in entry else entry for entry in VARIANTS]
    scheduled = schedule(doubled.with_attr("relax.schedule", named), TARGET, [Rebuilt()])
    tir.verify_well_formed(scheduled)
    assert_structural_equal(scheduled.body, decided.body, map_free_vars=True)


# -------------------------------------------------------------------------------------- the rules of relax


def product():
    """``C[i, j] = Σ A[i, k] · B[k, j]`` for n rows."""
    n = te.var("n", "int64")
    a, b = te.placeholder((n, 20), "float32", "A"), te.placeholder((20, 64), "float32", "B")
    k = te.reduce_axis((0, 20), "k")
    return te.create_prim_func([a, b, te.compute((n, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")])


def tile(rows, vectors, **bound):
    """An entry with a tile of the rule of products, up to a bound."""
    choice = {"rule": "Product", "parameters": {"tile": [rows, vectors], "strassen": False}}
    return {"at_most": bound, **choice} if bound else choice


def computes_a_product(func, packing, *rows):
    kernel = build_module({"main": func}, TARGET)["main"]
    for n in rows:
        x, w = (np.random.default_rng(n).integers(-4, 5, s).astype("float32") for s in ((n, 20), (20, 64)))
        result = np.full((n, 64), 77, "float32")
        kernel(x, np.ascontiguousarray(packing(w)), result)
        np.testing.assert_array_equal(result, x @ w)


def test_products_with_tiles_by_the_number_of_rows():
    func = product().with_attr("relax.schedule", [tile(2, 2, n=2), tile(6, 2)])
    scheduled = schedule(func, TARGET, RULES)
    text = scheduled.script()
    assert text.count("if n <= 2:") == 1
    assert_structural_equal(from_source(text), scheduled)
    computes_a_product(scheduled, lambda w: w, 0, 1, 2, 3, 31)


def test_constants_that_all_variants_read_in_one_layout():
    func = product().with_attr("relax.schedule", [tile(2, 2, n=2), tile(4, 2, n=9), tile(6, 2)])
    packed = packed_variant(func, TARGET, RULES, (1,))
    assert packed.func.script().count("if n <= 2:") == packed.func.script().count("if n <= 9:") == 1
    computes_a_product(packed.func, packed.packings[1], 0, 1, 2, 3, 9, 10, 31)


def test_a_variant_with_another_layout_of_constants_is_left_out():
    """Its sizes fall to the next one."""
    wide = packed_variant(product().with_attr("relax.schedule", tile(2, 4)), TARGET, RULES, (1,))
    last = packed_variant(product().with_attr("relax.schedule", tile(6, 2)), TARGET, RULES, (1,))
    assert wide.packings != last.packings
    func = product().with_attr("relax.schedule", [tile(4, 2, n=2), tile(2, 4, n=9), tile(6, 2)])
    packed = packed_variant(func, TARGET, RULES, (1,))
    assert packed.packings == last.packings
    assert "if n <= 2:" in packed.func.script()
    assert "if n <= 9:" not in packed.func.script()
    computes_a_product(packed.func, packed.packings[1], 1, 2, 3, 9, 10)


# -------------------------------------------------------------------------------------- wrong attributes

N2 = {"at_most": {"n": 2}}


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([], "expected 1 to 4 variants, found 0"),
        ([{"at_most": {"n": i}} for i in range(4)] + [{}], "expected 1 to 4 variants, found 5"),
        ([N2, "Split"], "variant 2: expected a dict, found str"),
        ([N2, N2], "variant 2: the last one has no `at_most`"),
        ([{}, {}], "variant 1: `at_most` is a dict of one size and its largest value"),
        ([{"at_most": 2}, {}], "variant 1: `at_most` is a dict of one size and its largest value"),
        ([{"at_most": {"n": -1}}, {}], "variant 1: `at_most` is a dict of one size and its largest value"),
        ([{"at_most": {"n": 1, "m": 1}}, {}], "variant 1: `at_most` is a dict of one size and its largest value"),
        ([N2, N2, {}], "variant 2: its bound 2 is not above the one before"),
        ([N2, {"at_most": {"m": 3}}, {}], "variants are bounded by several sizes: m, n"),
        ([{"at_most": {"m": 3}}, {}], "there is no size m (there is: n)"),
        ([{"at_most": {"n": 1 << 63}}, {}], "n is int64, which lacks the value 9223372036854775808"),
        ([{**N2, "rule": "Spilt"}, {}], "there is no rule 'Spilt' (there is: Split)"),
        ([{**N2, "tile": 4}, {}], "expected a dict with `rule`, a text, and `parameters`, a dict"),
    ],
)
def test_a_wrong_attribute(entries, reason):
    with pytest.raises(DiagnosticError, match="E4110") as caught:
        asked(*entries)
    assert reason in str(caught.value)


def test_two_sizes_of_one_name():
    n, m = te.var("n", "int64"), te.var("n", "int64")
    x = te.placeholder((n, m), "float32", "A")
    func = te.create_prim_func([x, te.compute((n, m), lambda i, j: x[i, j] * 2.0, "B")])
    with pytest.raises(DiagnosticError, match=r"there are two sizes n \(there is: n, n\)"):
        asked(N2, {}, func=func)


# -------------------------------------------------------------------------------------- parameters of records

PARAMETERS = {
    "size": 0,
    "name": "rows",
    "variants": [{"at_most": 2, "rule": "Split"}, {"at_most": 9}, {"rule": "Split"}],
}


def test_parameters_of_records_do_not_depend_on_names():
    attribute = [{"at_most": {"n": 2}, "rule": "Split"}, {"at_most": {"n": 9}}, {"rule": "Split"}]
    assert attribute_of("Variants", PARAMETERS, doubled) == attribute
    assert attribute_of("Split", {"factor": 2}, doubled) == {"rule": "Split", "parameters": {"factor": 2}}


def test_ranges_in_words():
    split = {"rule": "Split"}
    assert ranges_of(PARAMETERS) == [("rows up to 2", split), ("rows 3 to 9", {}), ("rows above 9", split)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"size": "n"}, "Variants has the parameters `size`, a position, and `variants`, a list"),
        ({"size": -1}, "Variants has the parameters `size`, a position, and `variants`, a list"),
        ({"name": 7}, "Variants has the parameters `size`, a position, and `variants`, a list"),
        ({"variants": {}}, "Variants has the parameters `size`, a position, and `variants`, a list"),
        ({"variants": [7]}, "expected a dict with `at_most`, `rule` and `parameters`"),
        ({"variants": [{"rule": 7}]}, "expected a dict with `at_most`, `rule` and `parameters`"),
        ({"variants": [{"at_most": "7"}, {}]}, "variant 1: `at_most` is a dict of one size"),
    ],
)
def test_wrong_parameters_of_records(change, reason):
    with pytest.raises(ValueError, match=reason.split("(")[0]):
        variants_in({**PARAMETERS, **change})


def test_a_size_that_the_function_lacks():
    with pytest.raises(ValueError, match="the function has 1 sizes, not 3"):
        attribute_of("Variants", {**PARAMETERS, "size": 2}, doubled)
