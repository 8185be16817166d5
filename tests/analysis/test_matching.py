"""The checks that match values: their order, and what each does with the dimensions."""

from __future__ import annotations

import pytest

from relax.analysis.matching import Subject, checks
from relax.ir import VDevice
from relax.prim import SizeVar, Var
from relax.runtime.match import ASSERT_IMM, ASSERT_SLOT, IGNORE, STORE, STORE_SIZE
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

N, M = Var("n", "int64"), Var("m", "int64")
NAMES = {ASSERT_IMM: "is", STORE: "binds", STORE_SIZE: "binds size", IGNORE: "any", ASSERT_SLOT: "equals"}


def written(*infos, bound=()):
    """The checks of parameters a, b, … of these struct infos, a line each."""
    subjects = [Subject(info, f"f: {name}", name) for name, info in zip("abcd", infos, strict=False)]
    lines = []
    for check in checks(subjects, bound.__contains__):
        assert check.subject.context == f"f: {check.subject.name}"
        dims = [shown(check, axis) for axis in range(len(check.codes))]
        lines.append(" | ".join([check.subject.name, *dims]))
    return lines


def shown(check, axis):
    """The treatment of a dimension."""
    code, operand = check.codes[axis]
    origin = f" by {check.origin(axis)}" if code in (STORE, STORE_SIZE) else ""
    return "any" if code == IGNORE else f"{NAMES[code]} {operand}{origin}"


def tensor(*dims):
    return TensorStructInfo(dims, "float32")


@pytest.mark.parametrize(
    "info, kind",
    [
        (tensor(2, N), ("tensor", 2, "float32")),
        (TensorStructInfo(None, "int8", VDevice("llvm"), 3), ("tensor", 3, "int8")),
        (TensorStructInfo(dtype=""), ("tensor", -1, "")),
        (ShapeStructInfo(None, 2), ("shape", 2, "")),
        (PrimStructInfo("bool"), ("scalar", 0, "bool")),
        (TupleStructInfo((tensor(1), tensor(1))), ("tuple", 2, "")),
        (ObjectStructInfo(), None),
        (FuncStructInfo((), ObjectStructInfo()), None),
    ],
)
def test_kinds(info, kind):
    assert Subject(info, "", "").kind() == kind


def test_all_values_are_bound_before_the_first_is_checked():
    assert written(tensor(N * 2), tensor(N, M, 4), tensor(M)) == [
        "b | binds n by b, dimension 0 | binds m by b, dimension 1 | any",
        "a",
        "a | equals n * 2",
        "b | any | any | is 4",
        "c | equals m",
    ]


def test_what_is_looked_at_in_its_turn_is_not_looked_at_again():
    assert written(tensor(3, N, 4), tensor(N)) == ["a | is 3 | binds n by a, dimension 1 | is 4", "b | equals n"]
    assert written(tensor(3), tensor(4, N)) == ["b | any | binds n by b, dimension 1", "a | is 3", "b | is 4 | any"]


def test_a_variable_is_bound_once():
    assert written(tensor(N, N)) == ["a | binds n by a, dimension 0 | any", "a | any | equals n"]
    assert written(tensor(N, M), bound=[N]) == ["a | any | binds m by a, dimension 1", "a | equals n | any"]
    assert written(tensor(N), bound=[N]) == ["a | equals n"]


def test_what_may_fail_comes_after_all_that_is_known_to_fit():
    assert written(tensor(2, N // M, 3, N // 2), bound=[N, M]) == [
        "a | is 2 | any | any | any",
        "a | any | equals n // m | is 3 | equals n // 2",
    ]
    assert written(tensor(N // M, 3), bound=[N, M]) == ["a", "a | equals n // m | is 3"]


def test_scalars_bind_numbers_and_sizes():
    size = SizeVar("s", "int64")
    assert written(PrimStructInfo(value=N), PrimStructInfo(value=size), PrimStructInfo("int64")) == [
        "a | binds n by a",
        "b | binds size s by b",
        "c",
    ]


def test_tuples_field_by_field():
    inner = TupleStructInfo((ShapeStructInfo((N,)), ObjectStructInfo(), tensor(3)))
    assert written(TupleStructInfo((tensor(N), inner)), ObjectStructInfo(), TupleStructInfo(())) == [
        "a",
        "a[0] | binds n by a[0], dimension 0",
        "a[1]",
        "a[1][0] | equals n",
        "a[1][2] | is 3",
        "b",
        "c",
    ]
