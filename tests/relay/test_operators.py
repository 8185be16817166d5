"""The registry of operators: declarations, and the attributes of calls."""

from __future__ import annotations

import pytest
from relay_programs import OPERATOR

from relax import relay
from relax.ir import DiagnosticError, Op
from relax.relay.operators import AttrField, make_attrs, operator_spec, register_operator

X = relay.var("x")


def test_attributes_get_their_defaults_and_types():
    attrs = relay.call_operator(OPERATOR, X, X, newshape=[2, -1], axis=True + 1, out_dtype="int8").attrs
    assert attrs.keys() == [
        "units", "axis", "epsilon", "layout", "padding", "out_dtype", "keepdims", "newshape",
    ]  # fmt: skip
    assert (attrs.units, attrs.axis, attrs["newshape"], attrs.out_dtype) == (None, 2, (2, -1), "int8")
    assert "axis" in attrs
    assert attrs.get("nothing", 3) == 3
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        attrs.nothing


def test_an_operator_without_attributes_has_none():
    assert (X + X).attrs is None
    assert make_attrs(Op.get("add"), {}) is None


def test_every_problem_of_the_attributes_is_reported():
    with pytest.raises(DiagnosticError) as error:
        relay.call_operator(OPERATOR, X, X, axis="first", depth=3)
    assert [d.code for d in error.value.diagnostics] == ["E9011"] * 3
    assert [d.message for d in error.value.diagnostics] == [
        "test.attributes has no attribute 'depth'",
        "test.attributes: the attribute 'axis' is an integer, found 'first'",
        "test.attributes: the attribute 'newshape' is missing",
    ]


def test_an_unknown_operator_is_reported_with_those_of_similar_names():
    with pytest.raises(DiagnosticError, match=r"E9010.*multipy is not an operator of Relay") as error:
        relay.call_operator("multipy", X, X)
    assert error.value.diagnostics[0].hint == "similar: multiply"


def test_the_operands_are_counted():
    with pytest.raises(DiagnosticError, match=r"E9012.*add takes 2 operands, found 1"):
        relay.call_operator("add", X)


def test_an_operator_is_registered_once_with_types_that_there_are():
    with pytest.raises(ValueError, match="'add' is registered already"):
        register_operator("add", 2)
    with pytest.raises(ValueError, match="attribute 'axis': 'number' is not a type"):
        register_operator("test.broken", 1, (AttrField("axis", "number"),))
    assert operator_spec("test.broken") is None
    assert operator_spec("relax.add") is None
    assert "add" in relay.list_operators()
