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
    "module": MODULES["ackermann"],
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
"""Code of the document about Relay's expressions; variables that it leaves open are declared free."""


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
