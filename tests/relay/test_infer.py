"""Type inference: the types of the document's examples, generalisation, relations, and errors."""

from __future__ import annotations

import warnings

import pytest

from relax import DiagnosticError, IRModule, ObjectStructInfo, Var, relay


def type_of(text):
    expr = relay.parse_expr(text)
    relay.infer_type(expr)
    return str(expr.checked_type)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("let %a = 1; let %b = 2 * %a; let %a = %a + %a; %a + %b", "int32"),
        ("(1, 2f, True)", "(int32, float32, bool)"),
        (
            "fn(%a : Tensor[(10, 10), float32], %b : float32, %c : Tensor[(100, 100), float32]) "
            "{ let %tup = (%a, %b); ((%tup.0 + %tup.1), %c) }",
            "fn(Tensor[(10, 10), float32], float32, Tensor[(100, 100), float32])"
            " -> (Tensor[(10, 10), float32], Tensor[(100, 100), float32])",
        ),
        ("let %r = ref(1); let %u = ref_write(%r, 2); (%r, ref_read(%r))", "(ref(int32), int32)"),
        ("if (True) { (1, 2) } else { (3, 4) }", "(int32, int32)"),
        ("let %f = fn(%n) { if (%n == 0) { 1 } else { %n * %f(%n - 1) } }; %f(5)", "int32"),
        ("let %g = fn() { let %x = 0f; fn(%y) { %y * %x } }; %g()(1f)", "float32"),
        ("fn(%f : fn(int32) -> bool) { %f(1) }", "fn(fn(int32) -> bool) -> bool"),
    ],
)
def test_plain(text, expected):
    assert type_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fn(%x : Tensor[(?, 4), float32], %w : Tensor[(5, 4), float32]) { nn.dense(%x, %w) }", "[(?, 5), float32]"),
        ("fn(%x : Tensor[(2, 3), float32], %y : Tensor[(3), float32]) { add(%x, %y) }", "[(2, 3), float32]"),
        ("fn(%x : Tensor[(2, 3), float32]) { split(%x, indices_or_sections=3, axis=1).1 }", "[(2, 1), float32]"),
        ("fn(%x : Tensor[(2, 3, 4), float32]) { reshape(%x, newshape=[-3, -2]) }", "[(6, 4), float32]"),
        ("fn(%x : Tensor[(6, 4), float32]) { reshape(%x, newshape=[-4, 2, -1, -2]) }", "[(2, 3, 4), float32]"),
        ('fn(%x : Tensor[(2, 3), float32]) { cast(%x, dtype="int8") }', "[(2, 3), int8]"),
        ("fn(%x : Tensor[(2, 3), float32]) { argmax(%x, axis=1) }", "[(2), int32]"),
        ("fn(%x : Tensor[(2, 3), float32]) { sum(%x, axis=[0], exclude=True) }", "[(2), float32]"),
    ],
)
def test_operators(text, expected):
    assert type_of(text).endswith(f"-> Tensor{expected}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("let %id = fn(%x) { %x }; (%id(1), %id((1f, 2)))", "(int32, (float32, int32))"),
        ("let %twice = fn(%x) { %x + %x }; (%twice(1), %twice(2f))", "(int32, float32)"),
        ("fn<a>(%x: a) -> a { %x }", "fn[a](a) -> a"),
        ("let %f = fn<a>(%x: a) -> a { %x }; (%f<Tensor[(), bool]>(True), %f(1))", "(bool, int32)"),
        (
            "let %f = fn<s: Shape>(%x: Tensor[s, float32]) -> Tensor[s, float32] { %x }; %f(ones(shape=[2, 3]))",
            "Tensor[(2, 3), float32]",
        ),
        ("fn(%x, %y) { (%y, %x) }", "fn[t0, t1](t0, t1) -> (t1, t0)"),
        ("let %k = fn(%x) { fn(%y) { %x } }; (%k(1)(2f), %k(1f)(2))", "(int32, float32)"),
        ("fn(%x) { let %y = fn(%z) { %x }; (%y(1), %y(2f)) }", "fn[t0](t0) -> (t0, t0)"),
    ],
)
def test_generalisation(text, expected):
    assert type_of(text) == expected


def test_types_of_parameters_follow_from_the_data():
    function = relay.parse_expr("""
fn(%x: Tensor[(?, 3, 8, 8), float32], %w, %g, %b, %m, %v, %d, %c) {
  %0 = nn.conv2d(%x, %w, channels=6, kernel_size=[3, 3], groups=3);
  %1 = nn.batch_norm(%0, %g, %b, %m, %v);
  nn.bias_add(nn.dense(nn.batch_flatten(%1.0), %d, units=5), %c)
}""")
    types = [str(param.checked_type) for param in relay.infer_type(function).params[1:]]
    assert types[0] == "Tensor[(6, 1, 3, 3), float32]"
    assert types[1:5] == ["Tensor[(6), float32]"] * 4
    assert types[5:] == ["Tensor[(5, 216), float32]", "Tensor[(5), float32]"]


def test_any_with_any_broadcasts_to_any():
    function = relay.parse_expr("fn(%x: Tensor[(?, 3), float32], %y: Tensor[(?, 3), float32]) { %x + %y }")
    assert str(relay.infer_type(function).checked_type.ret_type) == "Tensor[(?, 3), float32]"


def test_a_function_that_the_module_does_not_have():
    with pytest.raises(DiagnosticError, match="(?s)E9003.*no Relay function @nobody.*<string>:1"):
        relay.infer_type(relay.parse_expr("fn(%x: int32) { @nobody(%x) }"))


def test_the_unit_value():
    assert str(relay.infer_type(relay.parse_expr("fn() { () }")).checked_type) == "fn() -> ()"
    assert relay.create_executor().evaluate(relay.parse_expr("fn() { () }"))() == ()


def test_relations_are_solved_at_each_call():
    text = """
let %f = fn(%x, %y) where Broadcast { add(%x, %y) };
(%f(ones(shape=[2, 1]), ones(shape=[3])), %f(1, 2))"""
    assert type_of(text) == "(Tensor[(2, 3), float32], int32)"
    with pytest.raises(DiagnosticError, match="E3102.*cannot be broadcast"):
        type_of("let %f = fn(%x, %y) where Broadcast { add(%x, %y) }; %f(ones(shape=[2]), ones(shape=[3]))")


def test_the_prelude():
    mod = relay.prelude.Prelude().mod
    relay.transform.InferType()(mod)
    types = {g.name_hint: str(f.checked_type) for g, f in mod.functions.items()}
    assert types["map"] == "fn[A, B](fn(A) -> B, List[A]) -> List[B]"
    assert types["foldr"] == "fn[A, B](fn(A, B) -> B, B, List[A]) -> B"
    assert types["size"] == "fn[A](Tree[A]) -> int32"


def test_global_functions_without_annotations():
    mod = relay.parse("""#[version = "0.0.5"]
def @even(%n : int32) { if (%n == 0) { True } else { @odd(%n - 1) } }
def @odd(%n : int32) { if (%n == 0) { False } else { @even(%n - 1) } }
def @id(%x) { %x }
def @main() { (@even(3), @id(1), @id(True)) }
""")
    relay.transform.InferType()(mod)
    assert str(mod["even"].checked_type) == "fn(int32) -> bool"
    assert str(mod["id"].checked_type) == "fn[t0](t0) -> t0"
    assert str(mod["main"].checked_type) == "fn() -> (bool, int32, bool)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "if (1) { 2 } else { 3 }",
            "E9040.*the condition has another type than expected.*1:5.*expected bool.*found int32",
        ),
        ("if (True) { 2 } else { 3f }", "E9040.*the branch has another type.*1:24.*expected int32.*found float32"),
        ("let %x : float32 = 1; %x", "E9040.*%x has another type"),
        ("fn(%f : fn(int32) -> int32) { %f(1f) }", "E9040.*argument 0 has another type.*1:34"),
        ("fn(%x : int32) -> bool { %x }", "E9040.*the body of the function"),
        ("fn(%x) { %x(%x) }", "E9040"),
        ("(1, 2).5", "E9042.*field 5 is taken of a tuple of 2"),
        ("let %x = 1; %x.0", "E9042.*type int32 is taken, which is no tuple"),
        ("1(2)", "E9043.*type int32 is called"),
        ("let %f = fn(%x : int32) { %x }; %f(1, 2)", "E9043.*takes 1 arguments, found 2"),
        ("let %f = fn<a>(%x : a) -> a { %x }; %f<int32, int32>(1)", "E9043.*1 type parameters, found 2"),
        ("fn(%x) { %x.0 }", "E9041.*cannot be inferred.*annotate"),
        ("where; 1", "E9041.*variable %_ cannot be inferred.*1:1"),
        ("ref_read(1)", "E9040.*the reference"),
        ("1 + (1, 2)", "E3101.*1:1"),
        ("nn.dense(ones(shape=[2, 3]), ones(shape=[4, 5]))", "E3102"),
        ("nn.dense(ones(shape=[2, 3]), ones(shape=[4, 3]), units=7)", "E9013.*units is 7, but the first dimension"),
    ],
)
def test_errors(text, message):
    with pytest.raises(DiagnosticError, match=f"(?s){message}"):
        type_of(text)


def test_all_errors_of_a_module_are_reported():
    mod = relay.parse("""#[version = "0.0.5"]
def @a() { if (1) { 2 } else { 3 } }
def @b() { (1, 2).2 }
""")
    with pytest.raises(DiagnosticError) as caught:
        relay.transform.InferType()(mod)
    assert [d.code for d in caught.value.diagnostics] == ["E9040", "E9042"]


def match(clauses, mark=""):
    return relay.parse(f"""#[version = "0.0.5"]
import "prelude.rly"
def @main(%l : List[(int32, List[bool])]) -> int32 {{ match{mark} (%l) {{ {clauses} }} }}
""")


@pytest.mark.parametrize(
    ("clauses", "missing"),
    [
        ("Nil => 0, Cons(_, _) => 1", None),
        ("_ => 0", None),
        ("Cons((_, Nil), _) => 0, Cons((%x, Cons(_, _)), _) => %x, Nil => 1", None),
        ("Nil => 0", "Cons(_, _)"),
        ("Nil => 0, Cons(_, Nil) => 1", "Cons(_, Cons(_, _))"),
        ("Nil => 0, Cons((_, Nil), _) => 1", "Cons((_, Cons(_, _)), _)"),
    ],
)
def test_cases_of_a_match(clauses, missing):
    mod = match(clauses)
    node = mod["main"].body
    assert [str(case) for case in relay.unmatched_cases(node, mod)] == ([missing] if missing else [])
    if missing is None:
        relay.transform.InferType()(mod)
        return
    with pytest.raises(DiagnosticError, match="E9044") as caught:
        relay.transform.InferType()(mod)
    assert f"the match leaves out {missing}" in str(caught.value)
    relay.transform.InferType()(match(clauses, "?"))


def test_a_clause_that_no_value_reaches():
    mod = match("Nil => 0, %l => 1, Cons(_, _) => 2")
    assert relay.unreachable_clauses(mod["main"].body, mod) == [2]
    with pytest.warns(match="no value reaches clause 2"):
        relay.transform.InferType()(mod)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relay.transform.InferType()(match("Nil => 0, Cons(_, Nil) => 1, Cons(_, _) => 2"))


def test_a_variable_used_outside_of_its_let_has_the_type_of_its_value():
    i, x = relay.var("i", shape=(2,), dtype="float32"), relay.var("x")
    shared = relay.Tuple([relay.const(1), x])
    within = relay.Let(x, relay.negative(i), relay.Tuple([x, shared]))
    function = relay.Function([i], relay.Tuple([shared, within]))
    assert not relay.analysis.well_formed(function)
    typed = relay.infer_type(function)
    pair = "(int32, Tensor[(2), float32])"
    assert str(typed.checked_type.ret_type) == f"({pair}, (Tensor[(2), float32], {pair}))"


def test_a_module_of_an_expression():
    """The free variables become parameters, in the order in which they occur."""
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(3,))
    mod = IRModule.from_expr(y + x * y)
    assert mod.script() == (
        "def @main(%y: Tensor[(3), float32], %x: Tensor[(2, 3), float32]) {\n  %0 = multiply(%x, %y);\n  add(%y, %0)\n}"
    )
    general = relay.parse_expr("let %id = fn[a](%v: a) -> a { %v }; %id(1)")
    assert not IRModule.from_expr(general)["main"].params
    function = relay.Function([x], x).with_attr("global_symbol", "same")
    assert IRModule.from_expr(function)["same"] is function


def test_a_module_is_not_made_of_other_nodes():
    with pytest.raises(TypeError, match=r"from_expr takes a function, found Var \(a BlockBuilder makes a function"):
        IRModule.from_expr(Var("x", ObjectStructInfo()))


def test_only_expressions_have_types():
    x = relay.var("x", shape=(2,))
    with pytest.raises(
        TypeError, match=r"found IRModule; infer the types of a module by relay.transform.InferType\(\)"
    ):
        relay.infer_type(IRModule.from_expr(x + x))
    with pytest.raises(TypeError, match="infer_type takes an expression of Relay, found int"):
        relay.infer_type(3)
    for expr in (
        relay.TempExpr(),
        relay.exp(relay.TempExpr()),
        relay.Function([x], relay.Tuple([relay.TempExpr(), x])),
    ):
        with pytest.raises(DiagnosticError) as caught:
            relay.infer_type(expr)
        (diagnostic,) = caught.value.diagnostics
        assert (diagnostic.code, diagnostic.message) == ("E9041", "a TempExpr has no type")
        assert diagnostic.hint == "replace it by what its `realize()` returns"
    with pytest.raises(DiagnosticError, match="a Var has no type"):
        relay.infer_type(relay.exp(Var("y", ObjectStructInfo())))
