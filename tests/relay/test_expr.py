"""The nodes of Relay: spelled as TVM spells them, immutable, with Python operators for Relay's operators."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

from relax import relay
from relax.ir import GlobalVar, IRModule, Op, node


def test_var_takes_a_type_a_shape_or_the_dtype_of_a_scalar():
    assert relay.var("x", shape=(2, 3), dtype="int8").type_annotation == relay.TensorType((2, 3), "int8")
    assert relay.var("x", "float32").type_annotation == relay.scalar_type("float32")
    assert relay.var("x", relay.TupleType([])).type_annotation == relay.TupleType([])
    assert relay.var("x").type_annotation is None
    with pytest.raises(ValueError, match="a type or a shape, not both"):
        relay.var("x", "float32", shape=(1,))


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, None, "int32"),
        (1.5, None, "float32"),
        (True, None, "bool"),
        ([1.0, 2.0], None, "float32"),
        (np.zeros(2, "float64"), None, "float64"),
        (3, "uint8", "uint8"),
    ],
)
def test_const_has_the_dtype_of_tvm(value, dtype, expected):
    assert relay.const(value, dtype).data.dtype == expected
    assert relay.const(value, dtype).type == relay.TensorType(np.shape(value), expected)


def test_python_operators_are_calls_of_operators():
    x, y = relay.var("x"), relay.var("y")
    built = {
        "add": x + y,
        "subtract": x - y,
        "multiply": x * y,
        "divide": x / y,
        "less": x < y,
        "greater_equal": x >= y,
    }
    for name, call in built.items():
        assert call.op is Op.get(name)
        assert call.args == (x, y)
    assert (-x).op is Op.get("negative")
    assert x.astype("int8").attrs.dtype == "int8"


def test_a_number_is_no_operand():
    with pytest.raises(
        TypeError, match=r"add: 1 is a int, not a Relay expression; make it a constant with `relay.const`"
    ):
        relay.var("x") + 1


def test_calling_an_expression_makes_a_call():
    f, x = relay.var("f"), relay.var("x")
    assert isinstance(f(x), relay.Call)
    assert isinstance(GlobalVar("f")(x), relay.Call)
    assert f(x).op is f


def test_nodes_are_immutable_and_replace_returns_the_node_itself_without_change():
    x = relay.var("x")
    pair = relay.Tuple([x, x])
    with pytest.raises(dataclasses.FrozenInstanceError):
        pair.fields = ()
    assert pair.replace(fields=pair.fields) is pair
    assert len(pair) == 2
    assert pair[1] is x


def test_a_projection_has_an_index_from_zero():
    with pytest.raises(ValueError, match="the index is a number from 0, found -1"):
        relay.TupleGetItem(relay.var("t"), -1)


def test_a_function_has_type_parameters_constraints_and_attributes():
    a = relay.TypeVar("a")
    x = relay.var("x", a)
    function = relay.Function([x], x, a, [a], {"Primitive": 1}, type_constraints=[relay.TypeRelation("R", [a])])
    assert function.type_params == (a,)
    assert function.with_attr("Inline", 1).attrs == {"Primitive": 1, "Inline": 1}
    assert function.without_attr("Primitive").attrs == {}
    assert function.with_attr("Inline", 1).type_constraints == function.type_constraints


def test_the_checked_type_is_there_once_it_is_inferred():
    x = relay.var("x")
    with pytest.raises(ValueError, match="the type of this Var has not been inferred yet"):
        x.checked_type
    assert x.checked_type_ is None
    relay.update_checked_type(x, relay.scalar_type("int8"))
    assert x.checked_type == relay.scalar_type("int8")


def test_nodes_are_pickled():
    x = relay.var("x", shape=(2,))
    function = relay.Function([x], x + relay.const([1.0, 2.0]))
    assert relay.alpha_equal(pickle.loads(pickle.dumps(function)), function)


def test_a_temp_expr_stands_for_another():
    @node
    class Scaled(relay.TempExpr):
        value: relay.Expr

        def realize(self):
            return self.value * relay.const(2.0)

    x = relay.var("x")
    assert relay.alpha_equal(Scaled(x).realize(), x * relay.const(2.0))
    with pytest.raises(NotImplementedError):
        relay.TempExpr.realize(Scaled(x))


def test_a_module_holds_type_definitions():
    mod = relay.parse("type Option[A] { Some(A), None } def @f(%x: Option[int8]) { %x }")
    option, some, none = mod.get_type("Option")
    assert option.name_hint == "Option"
    assert (some.name_hint, some.tag, none.tag) == ("Some", 0, 1)
    assert mod.get_global_type_var("Option") is option
    assert mod.get_global_type_vars() == [option]
    with pytest.raises(KeyError, match=r"no type 'List' \(it has: 'Option'\)"):
        mod.get_type("List")
    other = IRModule()
    other.update(mod)
    assert other.get_type("Option") == (option, some, none)
    assert mod.clone().type_definitions == mod.type_definitions
