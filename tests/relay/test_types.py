"""The types of Relay, and their equality."""

from __future__ import annotations

import pytest

from relax import relay
from relax.prim import expr as prim
from relax.relay import FuncType, GlobalTypeVar, IncompleteType, TensorType, TypeVar


def test_a_tensor_type_has_numbers_symbols_and_any_as_dimensions():
    n = prim.Var("n", "int64")
    assert str(TensorType((2, n, relay.Any()), "int8")) == "Tensor[(2, n, ?), int8]"
    assert TensorType((2, 3)).concrete_shape == (2, 3)
    with pytest.raises(TypeError, match=r"Tensor\[\(n\), float32\] has a dimension that is not a number"):
        TensorType((n,)).concrete_shape


def test_types_are_equal_by_structure():
    n, m = prim.Var("n", "int64"), prim.Var("n", "int64")
    assert TensorType((2, n)) == TensorType((2, n))
    assert hash(TensorType((2, n))) == hash(TensorType((2, n)))
    assert TensorType((n,)) != TensorType((m,))
    assert TensorType((2,)) != TensorType((2,), "int8")
    assert TensorType((relay.Any(),)) == TensorType((relay.Any(),))
    assert GlobalTypeVar("List")(relay.scalar_type("int8")) == GlobalTypeVar("List")(relay.scalar_type("int8"))


def test_the_parameters_of_function_types_correspond():
    a, b = TypeVar("a"), TypeVar("b")
    assert FuncType([a], a, [a]) == FuncType([b], b, [b])
    assert FuncType([a, b], a, [a, b]) != FuncType([a, b], b, [a, b])
    assert FuncType([a], a) != FuncType([b], b)


def test_type_variables_and_incomplete_types_are_equal_to_themselves_only():
    a = TypeVar("a")
    hole = IncompleteType()
    assert a == a
    assert a != TypeVar("a")
    assert hole == hole
    assert hole != IncompleteType()
    assert len({a, TypeVar("a"), hole}) == 3


def test_a_shape_variable_stands_for_a_shape():
    s = relay.ShapeVar("s")
    assert s.kind is relay.TypeKind.ShapeVar
    assert str(TensorType(s, "int8")) == "Tensor[s, int8]"


def test_a_relation_has_one_output_unless_said_otherwise():
    a = TypeVar("a")
    assert relay.TypeRelation("R", [a, a, a]).num_inputs == 2
    assert relay.TypeRelation("R", [a, a, a], 1).num_inputs == 1
    assert relay.TypeRelation("R").num_inputs == 0
