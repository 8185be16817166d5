"""Replacing variables, binding parameters and shape variables, copies with variables of their own."""

from __future__ import annotations

import pytest

from relax import op
from relax.analysis import all_vars, defined_symbolic_vars, well_formed
from relax.derive.normalize import normalize_function
from relax.derive.substitution import copy_with_new_vars, substitute
from relax.expr import Var, const
from relax.info.text import struct_info_text
from relax.ir import DiagnosticError, IRModule, assert_structural_equal
from relax.prim import SizeVar
from relax.struct_info import ShapeStructInfo, TensorStructInfo
from support import parse

PROGRAM = """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 4), "float32")):
    n, m = T.int64(), T.int64()
    with R.dataflow():
        lv = R.reshape(x, (n * 4,))
        gv = R.add(x, y)
        R.output(gv)
    z = R.match_cast(gv, R.Tensor((m, 4), "float32"))
    @R.function
    def f(a: R.Tensor(("k",), "float32")) -> R.Tensor(("k",), "float32"):
        b = f(a)
        w = R.broadcast_to(y, (n, 4))
        return b
    return (z, R.shape([n + 1]))
"""


def test_a_variable_is_replaced_and_the_rest_is_shared():
    x, y, z = (Var(name, TensorStructInfo((4,))) for name in "xyz")
    left, right = op.exp(x), op.exp(y)
    found = substitute(op.add(left, right), {x: z})
    assert found.args[0].args == (z,)
    assert found.args[1] is right
    assert substitute(found, {x: y}) is found
    with pytest.raises(TypeError, match=r"expected a relax.Var or a tir.Var, found int"):
        substitute(found, {3: y})


def test_shape_variables_are_replaced_in_values_annotations_and_derived_struct_info():
    func = parse(PROGRAM)["main"]
    found = func.bind_symbolic_vars({"n": 3})
    assert_structural_equal(
        found,
        parse(
            PROGRAM.replace('"n"', "3")
            .replace("n, m = T.int64(), T.int64()", "m = T.int64()")
            .replace("n * 4", "12")
            .replace("n + 1", "4")
            .replace("(n, 4)", "(3, 4)")
        )["main"],
    )
    assert struct_info_text(found.struct_info.params[0]) == 'R.Tensor((3, 4), "float32")'
    assert well_formed(IRModule({"main": found}))
    assert normalize_function(found) is found
    with pytest.raises(DiagnosticError, match=r"main has no shape variable 'k'\n.* there are: n\n"):
        func.bind_symbolic_vars({"k": 3})


def test_a_shape_variable_may_become_an_expression():
    n, m = SizeVar("n", "int64"), SizeVar("m", "int64")
    info = TensorStructInfo((n, n * 2))
    x = Var("x", info)
    found = substitute(normalize_function(op_function(x)), {n: m + 1})
    assert struct_info_text(found.params[0].struct_info) == 'R.Tensor((m + 1, (m + 1) * 2), "float32")'


def op_function(x):
    from relax.expr import Function

    return Function([x], op.exp(x))


def test_a_copy_shares_no_variable_and_means_the_same():
    func = parse(PROGRAM)["main"]
    found = copy_with_new_vars(func)
    assert_structural_equal(found, func)
    assert not set(all_vars(found)) & set(all_vars(func))
    assert not set(defined_symbolic_vars(found)) & set(defined_symbolic_vars(func))
    assert well_formed(IRModule({"main": found}))
    assert normalize_function(found) is found
    both = IRModule({"main": func, "copy": found.with_attr("global_symbol", "copy")})
    assert well_formed(both)


def test_parameters_are_bound_to_values():
    func = parse(PROGRAM)["main"]
    value = const([[1.0] * 4] * 5)
    found = normalize_function(func.bind_params({"x": value}))
    assert [p.name_hint for p in found.params] == ["y"]
    # The value says what n is.
    assert struct_info_text(found.params[0].struct_info) == 'R.Tensor((5, 4), "float32")'
    assert found.body.blocks[0].bindings[0].value.args[0] is value
    assert well_formed(IRModule({"main": found}))
    assert func.bind_params({func.params[0]: value}).params != func.params


def test_a_value_that_does_not_fit_its_parameter_is_refused():
    func = parse(PROGRAM)["main"]
    with pytest.raises(DiagnosticError, match="the value of x does not fit: dtype: expected float32, found int32"):
        func.bind_params({"x": const([[1, 2, 3, 4]])})
    with pytest.raises(DiagnosticError, match="the value of y does not fit: dimension 0: expected 1, found 2"):
        func.bind_params({"x": const([[1.0] * 4]), "y": const([[1.0] * 4] * 2)})
    with pytest.raises(DiagnosticError, match=r"no parameter is called 'w'\n.* the parameters of main: x, y"):
        func.bind_params({"w": const(1.0)})


def test_a_shape_held_by_a_variable_is_replaced():
    s, t = Var("s", ShapeStructInfo(ndim=1)), Var("t", ShapeStructInfo(ndim=1))
    x = Var("x", TensorStructInfo(s, ndim=1))
    call = normalize_function(op_function(x)).body
    found = substitute(call, {s: t})
    assert found.blocks[0].bindings[0].var.struct_info.shape is t
    assert found.struct_info.shape is None or found.struct_info.shape is t
