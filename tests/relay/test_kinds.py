"""Kinds: every type has one, and each part of a type the kind that its place asks for."""

from __future__ import annotations

import pytest

from relax import DiagnosticError, relay
from relax.relay import (
    FuncType,
    GlobalTypeVar,
    RefType,
    TensorType,
    TupleType,
    TypeCall,
    TypeKind,
    TypeRelation,
    TypeVar,
    scalar_type,
)
from relax.relay.analysis import check_kind

A, S, T = TypeVar("a"), TypeVar("s", TypeKind.ShapeVar), TypeVar("t", TypeKind.BaseType)
LIST = GlobalTypeVar("List")
MOD = relay.parse('#[version = "0.0.5"]\nimport "prelude.rly"\ndef @main(%x: int32) { %x }')


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        (scalar_type("int8"), TypeKind.Type),
        (TensorType(S, T), TypeKind.Type),
        (TupleType([A, RefType(A)]), TypeKind.Type),
        (FuncType([A, TensorType(S, "bool")], A, [A, S], [TypeRelation("Broadcast", [A, A, A])]), TypeKind.Type),
        (TypeCall(LIST, [A]), TypeKind.Type),
        (LIST, TypeKind.AdtHandle),
        (TypeRelation("Broadcast", [A, A, A]), TypeKind.Constraint),
        (MOD.type_definitions[MOD.get_type("List")[0]], TypeKind.TypeData),
        (relay.IncompleteType(TypeKind.ShapeVar), TypeKind.ShapeVar),
        (S, TypeKind.ShapeVar),
    ],
)
def test_kinds(type_, kind):
    assert check_kind(type_) is check_kind(type_, MOD) is kind


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (TensorType(A, "bool"), "the shape of a tensor must be of kind ShapeVar, found a of kind Type"),
        (TensorType(S, S), "the dtype of a tensor must be of kind BaseType, found s of kind ShapeVar"),
        (TupleType([S]), "a field of a tuple must be of kind Type, found s of kind ShapeVar"),
        (RefType(T), "the value of a reference must be of kind Type"),
        (FuncType([LIST], A), "a parameter of a function must be of kind Type, found List of kind AdtHandle"),
        (FuncType([], TypeRelation("R", [A, A])), "the result of a function must be of kind Type"),
        (TypeCall(A, [A]), "what is applied to types must be of kind AdtHandle, found a of kind Type"),
        (TypeCall(LIST, [S]), "an argument of a type must be of kind Type, found s of kind ShapeVar"),
        (TypeCall(LIST, [A, A]), "List takes 1 types, found 2"),
        (TypeCall(GlobalTypeVar("Tray"), []), "the module has no type Tray"),
        (TupleType([TypeCall(LIST, [TupleType([T])])]), "a field of a tuple must be of kind Type, found t"),
    ],
)
def test_parts_of_another_kind_are_found(type_, message):
    with pytest.raises(DiagnosticError, match=f"E9046.*{message}"):
        check_kind(type_, MOD)


def test_every_problem_is_reported():
    with pytest.raises(DiagnosticError) as error:
        check_kind(FuncType([S, T], LIST))
    assert [d.code for d in error.value.diagnostics] == ["E9046"] * 3


def test_a_deep_type_takes_no_recursion():
    type_ = A
    for _ in range(20_000):
        type_ = TupleType([type_, type_])
    assert check_kind(type_) is TypeKind.Type


@pytest.mark.parametrize(
    ("shape", "call", "place"),
    [
        ("[a]", "@f(%x, %y)", "shape"),
        ("[a, float32]", "@f<bool>(%x, %y)", "shape"),
        ("[(2), a]", "@f(%x, %y)", "dtype"),
    ],
)
def test_a_type_variable_that_is_a_shape_too_is_refused_where_it_is_replaced(shape, call, place):
    text = f"""#[version = "0.0.5"]
def @f[a](%x: a, %y: Tensor{shape}) -> a {{ %x }}
def @main(%x: bool, %y: Tensor[(2), float32]) -> bool {{ {call} }}"""
    with pytest.raises(DiagnosticError) as error:
        relay.transform.InferType()(relay.parse(text))
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "E9046"
    assert diagnostic.message == f"a is the {place} of a tensor here, and is given a type"
    assert diagnostic.span is not None
    assert diagnostic.span.line == 2
    assert diagnostic.hint


def test_a_type_variable_of_a_definition_that_is_a_shape_too_is_refused():
    text = """#[version = "0.0.5"]
type Tray[a] { Put(a, Tensor[a]), Empty, }
def @main(%x: bool) -> bool { %0 = Empty<ref(int32)>(); match (%0) { Put(%y, _) => %x, Empty => %x, } }"""
    with pytest.raises(DiagnosticError, match="E9046.*a is the shape of a tensor here"):
        relay.transform.InferType()(relay.parse(text))
