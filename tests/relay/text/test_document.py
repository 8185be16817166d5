"""The text format as the document about Relay's expressions describes it, section by section."""

from __future__ import annotations

import pytest

from relax import relay
from relax.ir import DiagnosticError, GlobalVar, Op

FRAGMENTS = {
    "local variable": """
let %a = 1;
let %b = 2 * %a;  // %b = 2
let %a = %a + %a; // %a = 2. %a is shadowed
%a + %b           // has value 2 + 2 = 4
""",
    "function": "fn(%x, %y) { add(%x, %y) }",
    "annotated function": """
fn(%x : Tensor[(10, 10), float32], %y : Tensor[(10, 10), float32])
           -> Tensor[(10, 10), float32] {
    add(%x, %y)
}
""",
    "recursive function": """
let %fact = fn(%x : Tensor[(10, 10), float32]) -> Tensor[(10, 10), float32] {
    if (%x == Constant(0, (10, 10), float32)) {
        Constant(1, (10, 10), float32)
    } else {
        %x * %fact(%x - Constant(1, (10, 10), float32))
    }
};
%fact(Constant(10, (10, 10), float32))
""",
    "closure": """
let %g = fn() {
  let %x = Constant(0, (10, 10), float32);
  // %x is a free variable in the below function
  fn(%y) { %y * %x }
};
// the %x in %g's body is not in scope anymore
let %f = %g();
let %x = Constant(1, (10, 10), float32);
%f(%x) // evaluates to Constant(0, (10, 10), float32)
""",
    "type relation": "fn(%x, %y) where Broadcast { add(%x, %y) }",
    "call": """
let %c = 1;
let %f = fn(%x : Tensor[(), float32], %y : Tensor[(), float32]) { %x + %y + %c };
%f(10, 11)
""",
    "type arguments": """
free_var %f: fn<a : Type, b : Type, c : Type>(a, b) -> c;
let %x1 = %f<Tensor[(), bool], Tensor[(), bool], Tensor[(), bool]>(True, False);
// %x1 is of type Tensor[(), bool]
let %x2 : () = %f(%x1, %x1);
%x2
""",
    "broadcasting call": """
free_var %f; free_var %a; free_var %b;
let %x : Tensor[(100, 100, 100), float32] = %f(%a, %b);
%x
""",
    "module": """
def @ackermann(%m : Tensor[(), int32], %n : Tensor[(), int32]) -> Tensor[(), int32] {
    if (%m == 0) {
        %n + 1
    } else if (%m > 0 && %n == 0) {
        @ackermann(%m - 1, 1)
    } else {
        @ackermann(%m - 1, @ackermann(%m, %n - 1))
    }
}
""",
    "tuple": """
fn(%a : Tensor[(10, 10), float32], %b : float32, %c : Tensor[(100, 100), float32]) {
    let %tup = (%a, %b);     // type: (Tensor[(10, 10), float32], float32)
    ((%tup.0 + %tup.1), %c)  // type: (Tensor[(10, 10), float32], Tensor[(100, 100), float32])
}
""",
    "projection": "free_var %a; free_var %b; free_var %c; (%a, %b, %c).1",
    "let binding": "let %x : Tensor[(10, 10), float32] = Constant(1, (10, 10), float32);\n%x + %x",
    "independent lets": """
free_var %a; free_var %b; free_var %c; free_var %d;
let %x = %a + %b;
let %y = %c + %d;
%x * %y
""",
    "graph binding": "free_var %a; free_var %b;\n%1 = %a + %b\n%2 = %1 + %1\n%2 * %2\n",
    "if": "free_var %t; free_var %u;\nif (%t == %u) {\n    %t\n} else {\n    %u\n}",
}
"""The code of the document; variables that it leaves open are declared free."""


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
