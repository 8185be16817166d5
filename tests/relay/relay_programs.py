"""Relay programs that several tests read."""

from __future__ import annotations

from typing import Any

import numpy as np

from relax import relay
from relax.ir import Op
from relax.relay.operators import AttrField, operator_spec, register_operator

OPERATOR = "test.attributes"
"""An operator with an attribute of most types, for tests of the text format only."""

if operator_spec(OPERATOR) is None:
    register_operator(
        OPERATOR,
        2,
        (
            AttrField("units", "int?", None),
            AttrField("axis", "int", -1),
            AttrField("epsilon", "float", 1e-5),
            AttrField("layout", "str", "NCHW"),
            AttrField("padding", "ints", (0, 0)),
            AttrField("out_dtype", "dtype?", None),
            AttrField("keepdims", "bool", False),
            AttrField("newshape", "ints"),
        ),
    )

EXPRESSIONS = {
    "shadowing": "let %a = 1; let %b = 2 * %a; let %a = %a + %a; %a + %b",
    "graph": "%1 = 1f + 2f; %2 = %1 + %1; %2 * %2",
    "graph_without_semicolons": "%1 = 1 + 2\n%2 = %1 + %1\n%2 * %2",
    "branches": "%1 = 1 + 2; if (True) { %2 = %1 * 3; %2 - %2 } else { %1 }",
    "tuples": "fn(%a, %b) { let %t = (%a, (%b,), ()); (%t.0, %t.1.0, %t.2) }",
    "sugar": "fn(%x, %y) { -%x + %y * 2f / %x - 1f < %y && !(%x == %y) || %x != %y || %x >= %y }",
    "literals": "(1, -1, 1i64, 200u8, -7i8, 1f, 2.5, 1e-05f, -0f64, 1.5f16, 3bf16, nanf, -inff64, True, False)",
    "references": "let %r = ref(1); ref_write(%r, ref_read(%r) + 1); (%r := 3); %r^",
    "recursion": "let %f = fn(%n: int32) -> int32 { if (%n == 0) { 1 } else { %n * %f(%n - 1) } }; %f(5)",
    "polymorphism": "let %f = fn[a, b](%x: a, %y: b) -> a { %x }; %f<int32, (bool, float32)>(1, (True, 2f))",
    "kinds": "fn<s: Shape, t: BaseType>(%x: Tensor[s, t], %y: Tensor[s, t]) -> Tensor[s, t] where Broadcast { %x }",
    "relations": "fn[a, b, c](%x: a, %y: b) -> c where R(a, b, c), S(a; b, c, axis=1), T(a, b;) { %x }",
    "dimensions": "fn(%x: Tensor[(n, ?, 2 * (n + m) - 1, min(n, 8)), int8], %y: Tensor[(floordiv(n, 2), floormod(m, 3)), bool]) { %x }",
    "function_types": "fn(%f: fn[a](a, ref(a)) -> (a,) where R(a), %g: fn() -> ()) { %f }",
    "attributes": 'fn(%x, %y) { test.attributes(%x, %y, newshape=[2, -1], axis=1, epsilon=0.001, layout="NHWC") }',
    "function_attributes": 'fn(%x, Primitive=1, "a b"="c \\"d\\"", list=[1, [2f], None, True]) { %x }',
    "constants": "Constant(2, (2, 3), float32) + Constant(True, (1, 1), bool)",
    "names": 'let %"conv1/weight:0" = 1; let %let = %"conv1/weight:0"; @"a b"(%let, @f.0)',
    "annotations": "let %x: (int32, Tensor[(2), float32]) = (1, Constant(1, (2), float32)); %x",
    "comments": "// one\n1 /* two /* nested */ */ + 2 // three",
    "nested_let": "let %x = { let %y = 1; %y + %y }; (let %z = %x; %z)",
    "closures": "let %g = fn() { let %x = 1f; fn(%y) { %y * %x } }; let %f = %g(); %f(2f)",
}
"""Expressions that between them use the whole grammar of expressions."""

MODULES = {
    "ackermann": """
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
    "lists": """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil, }
extern type Handle;
type Pair[A, B] { Pair(A, B) }
def @first[A, B](%p: Pair[A, B], %h: Handle) -> A { match (%p) { Pair(%x: A, _) => %x } }
def @heads[A](%xs: List[(A, A)]) -> List[A] {
  match (%xs) {
    Cons((%x, _), %rest) => { let %tail = @heads(%rest); Cons(%x, %tail) }
    Nil => Nil,
  }
}
def @make() { (constructor(Nil), Cons, Nil<int32>(), match? (Nil) { Nil => 1 }) }
""",
    "prelude": 'import "prelude.rly"\ndef @main(%xs: List[int32]) -> int32 { @sum(@map(@id, %xs)) }',
}
"""Modules that between them use the whole grammar of definitions."""


def chain_of_lets(length: int) -> relay.Expr:
    """So many `let`s, each of twice the variable before."""
    variables = [relay.var("x") for _ in range(length)]
    result: relay.Expr = variables[-1]
    for before, after in zip(reversed(variables[:-1]), reversed(variables[1:]), strict=True):
        result = relay.Let(after, before + before, result)
    return relay.Let(variables[0], relay.const(1), result)


def tower_of_calls(height: int) -> relay.Expr:
    """``x + x``, of which the sum with itself is taken again and again: 2 ** height places of few nodes."""
    result: relay.Expr = relay.var("x")
    for _ in range(height):
        result = relay.Call(Op.get("add"), (result, result))
    return result


_RNG = np.random.default_rng(0)


def f32(*shape: int) -> np.ndarray[Any, Any]:
    """Return standard normal numbers, others at each call."""
    return _RNG.standard_normal(shape).astype("float32")
