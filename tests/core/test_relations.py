"""Subtyping, compatibility, least upper bound and erasure of struct infos (language.md §6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relax.expr import ShapeExpr, Var
from relax.info import relations
from relax.info.mapping import bound_in, map_fields, substitute_struct_info, used_in
from relax.info.relations import (
    Level,
    Verdict,
    check_castable,
    check_compatible,
    erase,
    erase_to_well_defined,
    fit_all,
    is_base_of,
    match_dimensions,
    struct_info_lca,
    subtype,
)
from relax.info.text import struct_info_text
from relax.ir import VDevice
from relax.prim import SizeVar
from relax.prim.intrin import max as prim_max
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

YES, POSSIBLY, NO = Verdict.YES, Verdict.POSSIBLY, Verdict.NO
n, m, k = (SizeVar(name, "int64") for name in "nmk")
OBJECT = ObjectStructInfo()
Tensor, Shape, Prim, Func = TensorStructInfo, ShapeStructInfo, PrimStructInfo, FuncStructInfo


def Tup(*fields):
    return TupleStructInfo(fields)


SUBTYPES = [
    # derived, base, answer
    (Tensor((n, 4)), OBJECT, YES),
    (OBJECT, Tensor((n, 4)), NO),
    (Tensor((n, 4)), Tensor((n, 4)), YES),
    (Tensor((n, 4)), Tensor(ndim=2), YES),
    (Tensor((n, 4)), Tensor(), YES),
    (Tensor((n, 4)), Tensor(dtype=""), YES),
    (Tensor(ndim=2), Tensor((n, 4)), NO),
    (Tensor(), Tensor(ndim=2), NO),
    (Tensor((n, 4), ""), Tensor((n, 4)), NO),
    (Tensor((n, 4)), Tensor((n, 5)), NO),
    (Tensor((n, 4)), Tensor((m, 4)), POSSIBLY),
    (Tensor((n + n,)), Tensor((2 * n,)), YES),
    (Tensor((n + 1,)), Tensor((n,)), NO),
    (Tensor((prim_max(n, 0),)), Tensor((n,)), YES),  # dimensions are ≥ 0
    (Tensor((n + 1,)), Tensor((0,)), NO),
    (Tensor(()), Tensor(()), YES),
    (Tensor(()), Tensor((1,)), NO),
    (Tensor((n,), "float32"), Tensor((n,), "float16"), NO),
    (Tensor((n,), vdevice=VDevice("llvm")), Tensor((n,)), YES),
    (Tensor((n,)), Tensor((n,), vdevice=VDevice("llvm")), NO),
    (Tensor((n,), vdevice=VDevice("llvm")), Tensor((n,), vdevice=VDevice("llvm")), YES),
    (Tensor((n,), vdevice=VDevice("llvm")), Tensor((n,), vdevice=VDevice("cuda")), NO),
    (Shape((n, 4)), Shape(ndim=2), YES),
    (Shape(ndim=2), Shape(), YES),
    (Shape(), Shape(ndim=2), NO),
    (Shape((n,)), Shape((m,)), POSSIBLY),
    (Shape((n,)), Tensor((n,)), NO),
    (Prim("int64"), Prim("int64"), YES),
    (Prim("int64"), Prim("int32"), NO),
    (Prim(value=n), Prim("int64"), YES),
    (Prim("int64"), Prim(value=n), NO),
    (Prim(value=n), Prim(value=n + 1), NO),
    (Prim("float32"), Tensor((), "float32"), NO),
    (Tup(), Tup(), YES),
    (Tup(Tensor((n,))), Tup(OBJECT), YES),
    (Tup(Tensor((n,)), Tensor()), Tup(Tensor()), NO),
    (Tup(Tup(Tensor((n,)))), Tup(Tup(Tensor((m,)))), POSSIBLY),
    # Functions: contravariant in parameters, covariant in the result, pure <: impure.
    (Func([Tensor()], Tensor((4,))), Func([Tensor((4,))], Tensor()), YES),
    (Func([Tensor((4,))], Tensor()), Func([Tensor()], Tensor()), NO),
    (Func([], OBJECT, True), Func([], OBJECT, False), YES),
    (Func([], OBJECT, False), Func([], OBJECT, True), NO),
    (Func([Tensor()], OBJECT), Func([], OBJECT), NO),
    (Func([Tensor((n,))], Tensor((n,))), Func([Tensor((m,))], Tensor((m,))), YES),
    (Func([Tensor((n,))], Tensor((n,))), Func([Tensor((4,))], Tensor((4,))), YES),
    (Func([Tensor((n,))], Tensor((n,))), Func([Tensor((4,))], Tensor((5,))), NO),
    (Func([Tensor((n, n))], OBJECT), Func([Tensor((4, 5))], OBJECT), NO),
    # Inside a function type its own variables are one size each, also in function types within.
    (Func([Func([Tensor((n,))], OBJECT), Tensor((n,))], OBJECT),
     Func([Func([Tensor((m,))], OBJECT), Tensor((m,))], OBJECT), YES),
    (Func([Tensor((n,))], Func([Tensor((n,))], OBJECT)), Func([Tensor((m,))], Func([Tensor((k,))], OBJECT)), POSSIBLY),
    (Func([Tensor((n,))], Func([Tensor((k,))], OBJECT)), Func([Tensor((m,))], Func([Tensor((m,))], OBJECT)), YES),
    # A variable of the value that nothing determines is any size, and not one the result can be said in.
    (Func([Tensor((n,))], OBJECT), Func([Tensor(ndim=1)], OBJECT), YES),
    (Func([Tensor((n,))], Tensor((n,))), Func([Tensor(ndim=1)], Tensor(ndim=1)), YES),
    (Func([Tensor((n,))], Tensor((n,))), Func([Tensor(ndim=1)], Tensor((4,))), NO),
    (Func([Tensor((n, n))], OBJECT), Func([Tensor(ndim=2)], OBJECT), NO),
    (Func([Tensor((n, m))], OBJECT), Func([Tensor(ndim=2)], OBJECT), YES),
    (Func([Prim(value=n)], OBJECT), Func([Prim("int64")], OBJECT), YES),
    (Func([Prim(value=4)], OBJECT), Func([Prim("int64")], OBJECT), NO),
    # Both sides may bind the same variable object.
    (Func([Tensor((n,)), Tensor((m,))], Tensor((m,))), Func([Tensor((m,)), Tensor((n,))], Tensor((n,))), YES),
    (Func([Tensor((n,)), Tensor((m,))], OBJECT), Func([Tensor(ndim=1), Tensor((n,))], OBJECT), YES),
    (Func([Tensor((m,))], Tensor((n,))), Func([Tensor((n,))], Tensor((n,))), POSSIBLY),
    (Func.opaque_func(), Func.opaque_func(), YES),
    (Func.opaque_func(derive_func="a"), Func.opaque_func(), YES),
    (Func.opaque_func(), Func.opaque_func(derive_func="a"), NO),
    (Func.opaque_func(derive_func="a"), Func.opaque_func(derive_func="b"), NO),
    (Func([], OBJECT), Func.opaque_func(), NO),
]  # fmt: skip


@pytest.mark.parametrize(("derived", "base", "answer"), SUBTYPES)
def test_subtype(derived, base, answer):
    assert subtype(derived, base) is answer
    assert is_base_of(base, derived) is (answer is YES)
    assert base.is_base_of(derived) is (answer is YES)


COMPATIBLE = [
    # value, expected, answer, reason
    (Tensor((n, 4)), Tensor(ndim=2), YES, "compatible"),
    (Tensor(ndim=2), Tensor((n, 4)), POSSIBLY, "shape: expected (n, 4), found an unknown shape"),
    (Tensor(), Tensor(ndim=2), POSSIBLY, "rank: expected 2, found an unknown rank"),
    (Tensor((4,), ""), Tensor((4,)), POSSIBLY, "dtype: expected float32, found an unknown dtype"),
    (OBJECT, Tensor(), POSSIBLY, 'expected R.Tensor(dtype="float32"), found R.Object'),
    (Tensor((n,)), Tensor((m,)), POSSIBLY, "dimension 0: expected m, found n"),
    (Tensor((4, n)), Tensor((4, 5)), POSSIBLY, "dimension 1: expected 5, found n"),
    (Tensor((4, 6)), Tensor((4, 5)), NO, "dimension 1: expected 5, found 6"),
    (Tensor((4, 6)), Shape((4, 6)), NO, 'expected R.Shape([4, 6]), found R.Tensor((4, 6), "float32")'),
    (Tup(Tensor(), Tensor((3,))), Tup(Tensor(), Tensor((4,))), NO,
     "field 1, dimension 0: expected 4, found 3"),
    (Prim("int64"), Prim(value=n), POSSIBLY, "value: expected n, found an unknown value"),
    (Func([], OBJECT, False), Func([], OBJECT), NO, "purity: expected a pure function, found an impure one"),
    (Func([Tensor((4,))], OBJECT), Func([Tensor((5,))], OBJECT), NO,
     "parameter 0, dimension 0: expected 5, found 4"),
    (Func([Tensor((4,))], OBJECT), Func([Tensor()], OBJECT), POSSIBLY,
     "parameter 0, rank: expected an unknown rank, found 1"),
    (Func([], Tensor((4,))), Func([], Tensor((5,))), NO, "result, dimension 0: expected 5, found 4"),
    (Func([OBJECT], OBJECT), Func([], OBJECT), NO, "expected 0 parameters, found 1"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected", "answer", "reason"), COMPATIBLE)
def test_compatible(value, expected, answer, reason):
    fit = check_compatible(value, expected)
    assert (fit.verdict, fit.reason) == (answer, reason)


def test_the_gravest_misfit_is_told():
    fit = check_compatible(Tup(Tensor((n,)), Tensor((), "int8")), Tup(Tensor((m,)), Tensor((), "int32")))
    assert fit.level is Level.DIFFERENT
    assert fit.reason == "field 1, dtype: expected int32, found int8"


def test_two_variables_of_one_name_are_told_apart():
    other = SizeVar("n", "int64")
    reason = check_compatible(Tensor((n,)), Tensor((other,))).reason
    assert reason == "dimension 0: expected n, found n (another variable of that name)"


def test_a_shape_that_is_a_variable():
    s, t = Var("s", Shape(ndim=2)), Var("t", Shape((n, 4)))
    assert subtype(Tensor(s), Tensor(s)) is YES
    assert subtype(Tensor(s), Tensor(ndim=2)) is YES
    assert subtype(Tensor(s), Tensor((n, 4))) is POSSIBLY
    assert subtype(Tensor(t), Tensor((n, 4))) is YES
    assert subtype(Tensor((n, 4)), Tensor(t)) is YES
    assert subtype(Tensor((n, 4)), Tensor(s)) is POSSIBLY
    assert subtype(Tensor(ndim=2), Tensor(s)) is NO


def test_binding_positions_are_matched_before_the_rest_is_compared():
    """``x: (m * n,)`` before ``y: (m, n)``."""
    params = [Tensor((m * n,)), Tensor((m, n))]
    fits, table, unknown = fit_all([Tensor((6,)), Tensor((2, 3))], params)
    assert [fit.verdict for fit in fits] == [YES, YES]
    assert {var.name: value.value for var, value in table.items()} == {"m": 2, "n": 3}
    assert not unknown
    fits, _, _ = fit_all([Tensor((7,)), Tensor((2, 3))], params)
    assert fits[0].reason == "dimension 0: expected 6, found 7"


def test_a_variable_no_argument_determines_fits_anything_once():
    fits, _, unknown = fit_all([Tensor(ndim=1)], [Tensor((n,))])
    assert fits[0].verdict is YES
    assert unknown == {n}
    fits, _, _ = fit_all([Tensor(ndim=1), Tensor(ndim=1)], [Tensor((n,)), Tensor((n,))])
    assert [fit.verdict for fit in fits] == [YES, POSSIBLY]
    fits, _, _ = fit_all([Tensor(ndim=2)], [Tensor((n, n))])
    assert fits[0].verdict is POSSIBLY


def test_a_variable_in_scope_is_not_bound_anew():
    fits, table, _ = fit_all([Tensor((4,))], [Tensor((n,))], in_scope={n})
    assert fits[0].verdict is POSSIBLY
    assert not table


SAMPLES = [OBJECT, Tensor((4,)), Shape((4,)), Prim(value=4), Tup(Tensor((4,))), Func([], OBJECT)]

LUBS = [
    (Tensor((n, 4)), Tensor((n, 4)), Tensor((n, 4))),
    (Tensor((n, 4)), Tensor((m, 4)), Tensor(ndim=2)),
    (Tensor((n + n,)), Tensor((2 * n,)), Tensor((n + n,))),
    (Tensor((n, 4)), Tensor((4,)), Tensor()),
    (Tensor((4,), "int8"), Tensor((4,), "int32"), Tensor((4,), "")),
    (Tensor((4,), vdevice=VDevice("llvm")), Tensor((4,)), Tensor((4,))),
    (Tensor((4,)), Shape((4,)), OBJECT),
    (Tensor((4,)), OBJECT, OBJECT),
    (Shape((n,)), Shape((n,)), Shape((n,))),
    (Shape((n,)), Shape((4,)), Shape(ndim=1)),
    (Shape((n,)), Shape((4, 4)), Shape()),
    (Prim(value=n), Prim(value=n), Prim(value=n)),
    (Prim(value=n), Prim("int64"), Prim("int64")),
    (Prim("int64"), Prim("int32"), OBJECT),
    (Tup(Tensor((n,)), OBJECT), Tup(Tensor((m,)), OBJECT), Tup(Tensor(ndim=1), OBJECT)),
    (Tup(OBJECT), Tup(), OBJECT),
    (Func([Tensor((4,))], Tensor((4,))), Func([Tensor((4,))], Tensor((5,)), False),
     Func([Tensor((4,))], Tensor(ndim=1), False)),
    (Func([Tensor((n,))], Tensor((n,))), Func([Tensor((m,))], Tensor((m,))),
     Func([Tensor((n,))], Tensor((n,)))),
    (Func([Tensor((4,))], OBJECT), Func([Tensor((5,))], OBJECT), OBJECT),
    (Func.opaque_func(derive_func="a"), Func.opaque_func(derive_func="b"), Func.opaque_func()),
    (Func.opaque_func(derive_func="a"), Func.opaque_func(derive_func="a"), Func.opaque_func(derive_func="a")),
    (Func.opaque_func(purity=True), Func.opaque_func(purity=True), Func.opaque_func(purity=True)),
    (Func.opaque_func(purity=True), Func.opaque_func(), Func.opaque_func()),
    (Func([], OBJECT), Func.opaque_func(), OBJECT),
    # Every pair of kinds.
    *((a, b, OBJECT) for i, a in enumerate(SAMPLES) for b in SAMPLES[:i]),
    # Sizes, 0 and 1 among them; no rank is like no other.
    (Tensor(()), Tensor(()), Tensor(())),
    (Tensor(()), Tensor((1,)), Tensor()),
    (Tensor((0,)), Tensor((1,)), Tensor(ndim=1)),
    (Tensor((4,)), Tensor(ndim=1), Tensor(ndim=1)),
    (Tensor(ndim=1), Tensor(ndim=2), Tensor()),
    (Tensor(dtype=""), Tensor((4,)), Tensor(dtype="")),
    (Shape(()), Shape(()), Shape(())),
    (Shape((4,)), Shape(ndim=1), Shape(ndim=1)),
    (Shape(), Shape((4,)), Shape()),
    (Prim(value=1), Prim(value=2), Prim("int32")),
    (Prim(value=n + 1), Prim(value=1 + n), Prim(value=n + 1)),
    # Devices: kept where both are the same one.
    (Tensor((4,), vdevice=VDevice("llvm")), Tensor((4,), vdevice=VDevice("llvm")),
     Tensor((4,), vdevice=VDevice("llvm"))),
    (Tensor((4,), vdevice=VDevice("llvm")), Tensor((4,), vdevice=VDevice("cuda")), Tensor((4,))),
    (Tensor((4,), vdevice=VDevice("llvm", 0)), Tensor((4,), vdevice=VDevice("llvm", 1)), Tensor((4,))),
    # Tuples, fieldwise and nested; of two lengths.
    (Tup(), Tup(), Tup()),
    (Tup(Tup(Tensor((n,)))), Tup(Tup(Shape((n,)))), Tup(Tup(OBJECT))),
    (Tup(OBJECT), Tup(OBJECT, OBJECT), OBJECT),
    # Functions: the result's bound, both pure, parameters equal up to the names of their own variables.
    (Func([], OBJECT), Func([], OBJECT), Func([], OBJECT)),
    (Func([], OBJECT, False), Func([], OBJECT, False), Func([], OBJECT, False)),
    (Func([], OBJECT), Func([OBJECT], OBJECT), OBJECT),
    (Func([Tensor((n, m))], Tensor((m,))), Func([Tensor((m, n))], Tensor((n,))),
     Func([Tensor((n, m))], Tensor((m,)))),
    (Func([Tensor((n, m))], OBJECT), Func([Tensor((k, k))], OBJECT), OBJECT),
    (Func([Tensor((n, 2 * n))], OBJECT), Func([Tensor((m, m + m))], OBJECT), Func([Tensor((n, 2 * n))], OBJECT)),
    (Func([Func([Tensor((n,))], Tensor((n,)))], OBJECT), Func([Func([Tensor((m,))], Tensor((m,)))], OBJECT),
     Func([Func([Tensor((n,))], Tensor((n,)))], OBJECT)),
    (Func([], Func([], Tensor((n,)))), Func([], Func([], Tensor((m,)))), Func([], Func([], Tensor(ndim=1)))),
    # m is free in the first, and the second's own.
    (Func([Prim(value=n)], Prim(value=m)), Func([Prim(value=m)], Prim(value=m)),
     Func([Prim(value=n)], Prim("int64"))),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "expected"), LUBS)
def test_least_upper_bound(a, b, expected):
    found, mirrored = struct_info_lca(a, b), struct_info_lca(b, a)
    assert struct_info_text(found) == struct_info_text(expected)
    assert subtype(found, mirrored) is subtype(mirrored, found) is YES


def test_a_captured_size_is_no_parameters_own():
    """f accepts the n in scope, g any size: no common parameters."""
    f, g = Func([Tensor((n,))], Tensor((n,))), Func([Tensor((k,))], Tensor((k,)))
    assert struct_info_text(struct_info_lca(f, g)) == struct_info_text(f)
    assert struct_info_lca(f, g, {n}) is not f
    assert isinstance(struct_info_lca(f, g, {n}), ObjectStructInfo)
    assert isinstance(struct_info_lca(g, f, {n}), ObjectStructInfo)
    assert struct_info_lca(f, Func([Tensor((n,))], Tensor((n,))), {n}) is f
    nested = struct_info_lca(Tup(f), Tup(g), {n})
    assert struct_info_text(nested) == "R.Tuple(R.Object)"


def test_least_upper_bound_of_one_object_is_it():
    info = Tup(Tensor((n,)), Prim("int64"))
    assert struct_info_lca(info, info) is info


# -------------------------------------------------------------------------------- casts


VECTOR = Tensor((4,))
CASTS = [
    # value, cast to, whether it may succeed
    (OBJECT, VECTOR, True),
    (VECTOR, OBJECT, True),
    (Tensor((n,)), VECTOR, True),
    (Tensor((5,)), VECTOR, False),
    (Tensor((4,), "int8"), VECTOR, False),
    (Tensor((4,), ""), VECTOR, True),
    (Tensor((4, 5)), Tensor((m, m)), False),
    (Tensor((4, 4)), Tensor((m, m)), True),
    (Tensor((m,)), Tensor((m + 1,)), False),
    (Shape((4,)), VECTOR, False),
    (Prim(value=3), Prim(value=4), False),
    (Tup(OBJECT), Tup(OBJECT, OBJECT), False),
    # A closure may accept more than is said of it, and be pure though that is not said.
    (Func([VECTOR], VECTOR), Func([Tensor((5,))], VECTOR), True),
    (Func([VECTOR], VECTOR), Func([Shape((5,))], VECTOR), True),
    (Func([VECTOR], VECTOR, False), Func([VECTOR], VECTOR), True),
    # What it returns, and how many arguments it takes, it does not escape.
    (Func([VECTOR], VECTOR), Func([VECTOR], Tensor((5,))), False),
    (Func([VECTOR], OBJECT), Func([VECTOR], Tensor((5,))), True),
    (Func([VECTOR], VECTOR), Func([], VECTOR), False),
    (Func([VECTOR], Func([VECTOR], VECTOR)), Func([VECTOR], Func([Tensor((5,))], VECTOR, False)), True),
    (Func([Tensor((n,))], Tensor((n,))), Func([Tensor((m,))], Tensor((m + 1,))), False),
    (Tup(Func([], OBJECT, False)), Tup(Func([], OBJECT)), True),
    (Func([], OBJECT), Func.opaque_func(), False),
    # Any packed function is one for any derivation: that is of compile time only.
    (Func.opaque_func(derive_func="a"), Func.opaque_func(derive_func="b"), True),
]


@pytest.mark.parametrize(("value", "cast", "possible"), CASTS)
def test_only_a_cast_that_never_succeeds_is_refused(value, cast, possible):
    assert (check_castable(value, cast).verdict is not NO) is possible


# -------------------------------------------------------------------------------- erasure


def test_erasure_drops_shapes_that_mention_a_variable_going_out_of_scope():
    info = Tup(Tensor((n, m)), Tensor((m * 2,), "int8"), Tensor((4,)), Shape((m,)), Prim(value=m + 1))
    expected = Tup(Tensor(ndim=2), Tensor(ndim=1, dtype="int8"), Tensor((4,)), Shape(ndim=1), Prim("int64"))
    assert struct_info_text(erase(info, {m})) == struct_info_text(expected)
    assert erase(info, {k}) is info
    assert erase(info) is info


def test_erasure_reaches_functions_and_leaves_their_own_variables():
    own = SizeVar("own", "int64")
    info = Func([Tensor((own,))], Tensor((own, m)))
    assert struct_info_text(erase(info, {m})) == struct_info_text(Func([Tensor((own,))], Tensor(ndim=2)))


def test_erasure_of_a_shape_variable_of_relax():
    s = Var("s", Shape(ndim=2))
    assert erase(Tensor(s), (), {s}).shape is None
    assert erase(Tensor(s), (), {s}).ndim == 2


def test_erase_to_well_defined_keeps_only_what_is_given():
    info = Tup(Tensor((n, m)), Tensor((n + 1,)))
    assert struct_info_text(erase_to_well_defined(info, {n: n})) == struct_info_text(
        Tup(Tensor(ndim=2), Tensor((n + 1,)))
    )
    found = erase_to_well_defined(info, {n: m, m: k})
    assert struct_info_text(found) == struct_info_text(Tup(Tensor((m, k)), Tensor((m + 1,))))
    assert struct_info_text(erase_to_well_defined(info)) == struct_info_text(Tup(Tensor(ndim=2), Tensor(ndim=1)))
    s, t = Var("s", Shape(ndim=1)), Var("t", Shape(ndim=1))
    assert erase_to_well_defined(Tensor(s), None, {s: t}).shape is t
    assert erase_to_well_defined(Tensor(s)).shape is None
    func = Func([Tensor((n,))], Tensor((n, m)))
    assert struct_info_text(erase_to_well_defined(func)) == struct_info_text(Func([Tensor((n,))], Tensor(ndim=2)))


def test_variables_bound_and_used():
    info = Tup(Tensor((n, m + 1)), Shape((k,)), Func([Tensor((n,))], OBJECT))
    assert list(bound_in(info)) == [n, k]
    assert list(used_in(info)) == [n, m, k]
    own = SizeVar("own", "int64")
    assert list(used_in(Func([Tensor((own,))], Tensor((own, n))))) == [n]


def test_substitution_shares_what_does_not_change():
    info = Tup(Tensor((n,)), Tensor((m,)))
    new = substitute_struct_info(info, {n: ShapeExpr((4,)).values[0]})
    assert struct_info_text(new) == 'R.Tuple(R.Tensor((4,), "float32"), R.Tensor((m,), "float32"))'
    assert new.fields[1] is info.fields[1]
    assert substitute_struct_info(info, {k: n}) is info


# -------------------------------------------------------------------------------- laws


dims = st.sampled_from([0, 1, 4, n, m, n + 1, n + n, 2 * n])
dtypes = st.sampled_from(["float32", "int8", ""])
devices = st.sampled_from([None, VDevice("llvm"), VDevice("cuda")])
tensors = st.one_of(
    st.builds(lambda s, d, v: Tensor(s, d, v), st.lists(dims, max_size=2), dtypes, devices),
    st.builds(lambda d, r: Tensor(ndim=r, dtype=d), dtypes, st.integers(-1, 2)),
)
shapes = st.one_of(st.builds(Shape, st.lists(dims, max_size=2)), st.builds(lambda r: Shape(ndim=r), st.integers(-1, 2)))
prims = st.one_of(
    st.builds(Prim, st.sampled_from(["int64", "float32"])),
    st.builds(lambda v: Prim(value=v), st.sampled_from([n, m, n + 1])),
)
infos = st.recursive(
    st.one_of(st.just(OBJECT), tensors, shapes, prims, st.builds(Func.opaque_func)),
    lambda inner: st.one_of(
        st.builds(TupleStructInfo, st.lists(inner, max_size=2)),
        st.builds(Func, st.lists(inner, max_size=2), inner, st.booleans()),
    ),
    max_leaves=4,
)


small = st.one_of(
    st.builds(Tensor, st.lists(st.sampled_from([n, m, k, 4, n + 1]), max_size=2)),
    st.builds(lambda r: Tensor(ndim=r), st.integers(-1, 2)),
    st.builds(lambda v: Prim(value=v), st.sampled_from([n, m])),
    st.just(OBJECT),
)
functions = st.builds(Func, st.lists(small, max_size=2), small, st.booleans())
higher = st.one_of(functions, small)
anything = st.one_of(infos, functions, st.builds(Func, st.lists(higher, max_size=2), higher, st.booleans()))


def equal(a, b):
    return subtype(a, b) is YES and subtype(b, a) is YES


@given(anything)
def test_subtyping_is_reflexive(a):
    assert subtype(a, a) is YES
    assert subtype(a, OBJECT) is YES


@given(anything, anything, anything)
def test_subtyping_is_transitive(a, b, c):
    if subtype(a, b) is YES and subtype(b, c) is YES:
        assert subtype(a, c) is YES


@given(anything, anything)
def test_the_least_upper_bound_is_commutative_and_idempotent(a, b):
    assert equal(struct_info_lca(a, b), struct_info_lca(b, a))
    assert struct_info_lca(a, a) is a


@given(anything, anything, anything)
def test_the_least_upper_bound_is_associative(a, b, c):
    assert equal(struct_info_lca(struct_info_lca(a, b), c), struct_info_lca(a, struct_info_lca(b, c)))


@given(anything, anything, anything)
def test_what_fits_fits_what_is_above(a, b, c):
    if subtype(b, c) is YES and check_compatible(a, b).verdict is YES:
        assert check_compatible(a, c).verdict is YES


@given(anything, anything)
def test_a_cast_up_or_down_may_succeed(a, b):
    if NO not in (check_compatible(a, b).verdict, check_compatible(b, a).verdict):
        assert check_castable(a, b).verdict is not NO
    if check_castable(a, b).verdict is NO:
        assert check_compatible(a, b).verdict is NO


@given(anything, anything)
def test_the_least_upper_bound_is_an_upper_bound(a, b):
    bound = struct_info_lca(a, b)
    assert subtype(a, bound) is YES
    assert subtype(b, bound) is YES


@given(infos, infos)
def test_the_least_upper_bound_with_a_base_is_the_base(a, b):
    # Functions are joined only with equal parameters: their upper bound is not always the least.
    if subtype(a, b) is YES and not any(isinstance(part, FuncStructInfo) for part in _parts(a)):
        assert subtype(struct_info_lca(a, b), b) is YES


@given(infos)
def test_erasure_goes_up(a):
    if not any(isinstance(part, FuncStructInfo) for part in _parts(a)):
        assert subtype(a, erase(a, {n})) is YES
        assert subtype(a, erase_to_well_defined(a, {m: m})) is YES


def _parts(info):
    yield info
    for part in getattr(info, "fields", ()):
        yield from _parts(part)


@given(anything, anything)
def test_a_subtype_is_compatible_and_what_is_incompatible_is_no_subtype(a, b):
    if subtype(a, b) is YES:
        assert check_compatible(a, b).verdict is YES
    if check_compatible(a, b).verdict is NO:
        assert subtype(a, b) is NO


def test_parts_that_are_shared_are_read_and_mapped_once():
    field, function = Tensor((n, 4), "float32"), Func([Tensor((n, m), "float32")], Tensor((m,), "float32"))
    reads: list[object] = []

    def wider(info):
        reads.append(info)
        return Tensor((*info.dims, k), info.dtype)

    mapped = map_fields(TupleStructInfo([field, field]), wider)
    assert len(reads) == 1
    assert mapped.fields[0] is mapped.fields[1]
    assert mapped.fields[0] == Tensor((n, 4, k), "float32")
    # m and n are the parameter's own; the second of the two is answered from the first.
    assert not used_in(TupleStructInfo([function, function]))
    again = Func([Tensor((n,), "float32")], Tensor((n, k), "float32"))
    assert list(used_in(TupleStructInfo([again, TupleStructInfo([again])]))) == [k]


def test_shared_pairs_are_joined_and_matched_once():
    left, right = Tup(Tensor((n,)), Tensor((4,))), Tup(Tensor((n,)), Tensor((m,)))
    joined = struct_info_lca(Tup(left, left), Tup(right, right))
    assert joined.fields[0] is joined.fields[1]
    assert struct_info_text(joined.fields[0]) == (
        'R.Tuple(R.Tensor((n,), "float32"), R.Tensor(dtype="float32", ndim=1))'
    )
    table, unmatched = match_dimensions([Tup(left, left)], [Tup(right, right)])
    assert (table, unmatched) == ({n: n}, set())


def test_function_types_inside_of_others_are_read_once():
    inner = Func([Tensor((n,))], Tensor((n, k)))
    assert list(used_in(Func([inner, Tensor((m,))], OBJECT), inner)) == [k]


def test_function_types_without_end_are_left_to_run_time(monkeypatch):
    """Each level stands twice in the next; what mentions the variables around it is made anew for each comparison."""

    def nested(depth):
        outer = SizeVar("outer", "int64")
        info = Tensor((outer,))
        for _ in range(depth):
            own = SizeVar("own", "int64")
            info = Func([Tensor((own,)), info], Tup(info, Tensor((own,))))
        return Func([Tensor((outer,))], info)

    assert check_compatible(nested(4), nested(4)).verdict is YES
    monkeypatch.setattr(relations, "_FUNCTIONS", 20)
    fit = check_compatible(nested(6), nested(6))
    assert fit.verdict is POSSIBLY
    assert "a function type too large to compare" in fit.reason
