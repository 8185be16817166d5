"""The code of the document about Relay's expressions, section by section, evaluated and compiled."""

from __future__ import annotations

import numpy as np
import pytest
from relay_programs import FRAGMENTS, MODULES

from relax import DiagnosticError, relay

KINDS = pytest.mark.parametrize("kind", ["debug", "vm"])


def ones(*shape):
    return np.ones(shape, "float32")


def run(kind, text, **values):
    """The value of an expression whose free variables have these values; the tensors in it as arrays."""
    declared = "".join(f"free_var %{name}: Tensor[{value.shape}, {value.dtype}];\n" for name, value in values.items())
    expr = relay.parse_expr(declared.replace(",)", ")") + text)
    free = {var.name_hint: var for var in relay.analysis.free_vars(expr)}
    function = relay.Function([free[name] for name in values], expr)
    return arrays(relay.create_executor(kind).evaluate(function)(*values.values()))


def arrays(value):
    return tuple(map(arrays, value)) if isinstance(value, tuple) else value.numpy()


@KINDS
def test_local_variable(kind):
    assert run(kind, FRAGMENTS["local variable"]) == 4


@KINDS
def test_functions_syntax(kind):
    x, y = np.full((10, 10), 2, "float32"), np.full((10, 10), 3, "float32")
    plain = "(fn(%x, %y) { add(%x, %y) })(%a, %b)"
    assert (run(kind, plain, a=x, b=y) == 5).all()
    assert (run(kind, f"({FRAGMENTS['annotated function']})(%a, %b)", a=x, b=y) == 5).all()
    assert run(kind, "(fn() { %body })()", body=x).shape == (10, 10)


@KINDS
def test_functions_recursion(kind):
    # The document's own section on if-then-else asks for a condition of rank zero, which this one is not.
    factorial = FRAGMENTS["recursive function"]
    with pytest.raises(DiagnosticError, match=r"E9040.*the condition(?s:.*)if \(%x == Constant"):
        run(kind, factorial)
    condition = "%x == Constant(0, (10, 10), float32)"
    assert (run(kind, factorial.replace(condition, f"all({condition})")) == 3628800).all()


@KINDS
def test_closures(kind):
    value = run(kind, FRAGMENTS["closure"])
    assert value.shape == (10, 10)
    assert (value == 0).all()


@KINDS
def test_polymorphism_and_type_relations(kind):
    identities = "let %id = fn[a](%x: a) -> a { %x }; (%id(1), %id((2f, True)))"
    assert run(kind, identities) == (1, (2, True))
    tensors = "let %t = fn[s: Shape, d: BaseType](%x: Tensor[s, d]) { %x }; (%t(1), %t(%a))"
    one, a = run(kind, tensors, a=ones(2, 3))
    assert (one, a.shape) == (1, (2, 3))
    broadcast = "let %f = fn(%x, %y) where Broadcast { add(%x, %y) }; (%f(%a, %b), %f(1, 2))"
    wide, three = run(kind, broadcast, a=ones(4, 1), b=ones(5))
    assert (wide.shape, three) == ((4, 5), 3)


@KINDS
def test_operators(kind):
    assert (run(kind, "(%a * %a + %a, add(multiply(%a, %a), %a))", a=ones(2))[1] == 2).all()


@KINDS
def test_call(kind):
    floats = FRAGMENTS["call"].replace("1;", "1f;").replace("10, 11", "10f, 11f")
    assert run(kind, floats) == 22


def test_call_as_it_is_written():
    # Its literals are int32, its parameters float32: it evaluates, and type inference refuses it.
    assert run("debug", FRAGMENTS["call"]) == 22
    with pytest.raises(DiagnosticError, match=r"(?s)E9040.*argument 0.*%f\(10, 11\).*found int32"):
        run("vm", FRAGMENTS["call"])


@KINDS
def test_call_type_arguments(kind):
    text = """
let %f = fn<a : Type, b : Type, c : Type>(%x: a, %y: b, %z: c) -> c { %z };
let %x1 = %f<Tensor[(), bool], Tensor[(), bool], Tensor[(), bool]>(True, False, True);
let %x2 : () = %f(%x1, %x1, ());
(%x1, %x2)
"""
    assert run(kind, text) == (True, ())


def test_inferred_type_arguments_are_written():
    call = relay.infer_type(relay.parse_expr("let %f = fn<a: Type>(%x: a) -> a { %x }; %f(True)")).body
    assert call.type_args == (relay.scalar_type("bool"),)


@KINDS
def test_call_with_a_relation(kind):
    text = """
let %f = fn(%x, %y) where Broadcast { add(%x, %y) };
let %x : Tensor[(100, 100, 100), float32] = %f(%a, %b);
%x
"""
    assert run(kind, text, a=ones(100, 1, 100), b=ones(100, 1)).shape == (100, 100, 100)


@KINDS
def test_module_and_global_functions(kind):
    mod = relay.parse(MODULES["ackermann"])
    ackermann = relay.create_executor(kind, mod).evaluate(mod.get_global_var("ackermann"))
    assert [ackermann(m, n).numpy() for m, n in [(0, 0), (1, 2), (2, 3)]] == [1, 4, 9]


@KINDS
def test_constant(kind):
    assert run(kind, "(1, 2.5, True)") == (1, 2.5, True)


@KINDS
def test_tuples_construction(kind):
    text = """
let %tup = (%a, %b);     // type: (Tensor[(10, 10), float32], float32)
((%tup.0 + %tup.1), %c)  // type: (Tensor[(10, 10), float32], Tensor[(100, 100), float32])
"""
    first, second = run(kind, text, a=ones(10, 10), b=np.array(2, "float32"), c=ones(100, 100))
    assert (first == 3).all()
    assert (second == 1).all()


@KINDS
def test_tuples_projection(kind):
    assert run(kind, "(%a, %b, %c).1", a=ones(1), b=ones(2), c=ones(3)).shape == (2,)


@KINDS
def test_let_bindings(kind):
    assert (run(kind, FRAGMENTS["let binding"]) == np.full((10, 10), 2)).all()
    reordered = "let %y = %c + %d;\nlet %x = %a + %b;\n%x * %y"
    values = {name: np.array(i, "float32") for i, name in enumerate("abcd")}
    for independent in ("let %x = %a + %b;\nlet %y = %c + %d;\n%x * %y", reordered):
        assert run(kind, independent, **values) == 5


@KINDS
def test_graph_bindings(kind):
    text = "%1 = %a + %b\n%2 = %1 + %1\n%2 * %2\n"
    assert run(kind, text, a=np.array(2.0), b=np.array(3.0)) == 100
    a, b = relay.const(2.0), relay.const(3.0)
    sum1 = relay.add(a, b)
    sum2 = relay.add(sum1, sum1)
    assert relay.create_executor(kind).evaluate(relay.multiply(sum2, sum2)).numpy() == 100


@KINDS
def test_if_then_else(kind):
    text = "if (%t == %u) {\n    %t\n} else {\n    %u\n}"
    assert run(kind, text, t=np.array(3), u=np.array(3)) == 3
    assert run(kind, text, t=np.array(3), u=np.array(4)) == 4
    assert run(kind, f"{{ {text} }} + 1i64", t=np.array(3), u=np.array(4)) == 5
