"""The text format as the document about Relay's expressions describes it, section by section."""

from __future__ import annotations

import pytest
from relay_programs import FRAGMENTS

from relax import relay
from relax.ir import DiagnosticError, GlobalVar, Op


@pytest.mark.parametrize("name", FRAGMENTS)
def test_fragments(name):
    program = relay.fromtext(FRAGMENTS[name])
    assert relay.analysis.well_formed(program)
    relay.assert_alpha_equal(relay.fromtext(relay.astext(program)), program, map_free_vars=True)


def test_sigils():
    call = relay.parse_expr("fn(%f) { add(%f, @f(%f)) }").body
    assert call.op is Op.get("add")
    local, inner = call.args
    assert isinstance(local, relay.Var)
    assert isinstance(inner.op, GlobalVar)
    assert str(relay.parse_expr("fn(%f) { add(%f, @f) }")) == "fn (%f) {\n  add(%f, @f)\n}"


def test_global_names():
    mod = relay.parse("def @f() { @g } def @g() { 1 }")
    assert mod["f"].body is mod.get_global_var("g")
    with pytest.raises(DiagnosticError, match="E9004.*the function @f is defined twice"):
        relay.parse("def @f() { 1 } def @f() { 2 }")


def test_local_names():
    function = relay.parse_expr("fn(%x) { let %y = %x; (%x, %y) }")
    assert function.body.body.fields == (function.params[0], function.body.var)
    for text in ("(fn(%x) { %x }, %x)", "({ let %y = 1; %y }, %y)"):
        with pytest.raises(DiagnosticError, match=r"E9003.*is not defined here"):
            relay.parse_expr(text)


def test_functions():
    plain = relay.parse_expr("fn() { 1 }")
    assert (plain.params, plain.ret_type) == ((), None)
    typed = relay.parse_expr(FRAGMENTS["annotated function"])
    tensor = relay.TensorType((10, 10), "float32")
    assert [param.type_annotation for param in typed.params] == [tensor, tensor]
    assert typed.ret_type == tensor


def test_relations():
    relation = relay.parse_expr(FRAGMENTS["type relation"]).type_constraints[0]
    assert (relation.func, relation.args) == ("Broadcast", ())
    function = relay.parse_expr("fn[a, b, c](%x: a, %y: b) -> c where Broadcast(a, b, c) { add(%x, %y) }")
    assert function.type_constraints[0].args == function.type_params


def test_if_is_an_expression():
    call = relay.parse_expr("1 + if (True) { 2 } else { 3 } * 4")
    assert isinstance(call.args[1].args[0], relay.If)
    assert isinstance(relay.parse_expr("@f(if (True) { 2 } else { 3 })").args[0], relay.If)
