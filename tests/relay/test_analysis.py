"""relay.analysis: variables, type variables, well-formedness."""

from __future__ import annotations

import pytest

from relax import relay
from relax.ir import DiagnosticError, IRModule, node
from relax.relay import analysis


def names(variables) -> str:
    return " ".join(var.name_hint for var in variables)


def test_variables_come_in_the_order_of_the_text():
    expr = relay.parse_expr("free_var %z; fn(%x, %y) { let %a = %y; match (%z) { (%p, _) => %p + %a } }")
    assert names(analysis.all_vars(expr)) == "x y a z p"
    assert names(analysis.bound_vars(expr)) == "x y a p"
    assert names(analysis.free_vars(expr)) == "z"


def test_a_variable_is_free_where_nothing_around_binds_it():
    x = relay.var("x")
    assert analysis.free_vars(x) == [x]
    # Bound in one field, free in the other.
    assert analysis.free_vars(relay.Tuple([relay.Let(x, relay.const(1), x), x])) == [x]
    # In scope in its value only if that is a function.
    assert analysis.free_vars(relay.Let(x, x, relay.const(1))) == [x]
    assert analysis.free_vars(relay.Let(x, relay.Function([], x), x)) == []


def test_type_variables():
    expr = relay.parse_expr("fn[a, s: Shape](%x: a, %y: fn[b](b) -> Tensor[s, int8]) -> a { @f<a>(%x) }")
    assert names(analysis.bound_type_vars(expr)) == "a s b"
    assert names(analysis.free_type_vars(expr)) == ""
    assert names(analysis.free_type_vars(expr.body)) == "a"
    assert names(analysis.all_type_vars(expr)) == "a s b"
    assert names(analysis.free_type_vars(expr.params[1].type_annotation)) == "s"


def test_the_programs_of_the_text_are_well_formed():
    assert analysis.well_formed(relay.parse_expr("let %x = 1; let %x = %x; %x"))
    assert analysis.well_formed(relay.Prelude().mod)


def problems(expr) -> list[tuple[str, str]]:
    assert not analysis.well_formed(expr)
    with pytest.raises(DiagnosticError) as error:
        analysis.check_well_formed(expr)
    return [(d.code, d.message) for d in error.value.diagnostics]


def test_a_variable_is_bound_once():
    x = relay.var("x")
    twice = relay.Let(x, relay.const(1), relay.Let(x, relay.const(2), x))
    assert problems(twice) == [("E9020", "the variable %x is bound more than once")]
    assert problems(relay.Function([x, x], x)) == [("E9020", "the variable %x is bound more than once")]


def test_a_node_in_two_scopes_cannot_use_the_variable_of_one():
    x = relay.var("x")
    shared = x + x
    expr = relay.Tuple([relay.Let(x, relay.const(1), shared), shared])
    assert problems(expr) == [("E9021", "the variable %x is used outside of its scope")]


def test_a_recursive_function_stands_in_its_let_only():
    f, x = relay.var("f"), relay.var("x")
    function = relay.Function([x], f(x))
    assert analysis.well_formed(relay.Let(f, function, f))
    assert problems(relay.Tuple([relay.Let(f, function, f), function])) == [
        ("E9021", "the variable %f is used outside of its scope")
    ]


def test_a_global_function_has_no_free_variable():
    x = relay.var("x")
    assert analysis.well_formed(x)
    assert problems(IRModule({"f": relay.Function([], x)})) == [
        ("E9021", "the variable %x is used outside of its scope in @f")
    ]


def test_a_pass_leaves_no_temp_expr_behind():
    @node
    class Kept(relay.TempExpr):
        value: relay.Expr

    assert problems(relay.Tuple([Kept(relay.const(1))])) == [("E9022", "a Kept is left")]
    assert problems(Kept(relay.const(1))) == [("E9022", "a Kept is left")]


def test_calls_are_counted_once():
    assert analysis.call_count(relay.parse_expr("%1 = 1 + 2; (%1, %1 + 3)")) == 2
