"""Reading text: the graph it stands for, and a diagnostic with a place for every problem."""

from __future__ import annotations

import numpy as np
import pytest
from relay_programs import OPERATOR

from relax import relay
from relax.ir import DiagnosticError, GlobalVar, IRModule, Op


def op_names(expr: relay.Expr) -> list[str]:
    return [node.op.name for node in relay.analysis._nodes(expr) if isinstance(node, relay.Call)]


# ------------------------------------------------------------------------------------------- what it means


def test_shadowing_is_by_object():
    outer = relay.parse_expr("let %a = 1; let %b = 2 * %a; let %a = %a + %a; %a + %b")
    middle, inner = outer.body, outer.body.body
    assert inner.var is not outer.var
    assert middle.value.args[1] is outer.var
    assert inner.value.args == (outer.var, outer.var)
    assert inner.body.args == (inner.var, middle.var)


def test_the_variable_of_a_let_is_in_scope_in_a_function_only():
    recursive = relay.parse_expr("let %f = fn(%x) { %f(%x) }; %f")
    assert recursive.value.body.op is recursive.var
    in_brackets = relay.parse_expr("let %f = ({ fn(%x) { %f(%x) } }); %f")
    assert in_brackets.value.body.op is in_brackets.var
    shadowed = relay.parse_expr("let %f = 1; let %f = fn() { %f }(); %f")
    assert shadowed.body.value.op.body is shadowed.var


def test_a_graph_binding_is_the_node_itself():
    for text in ("%1 = 1 + 2; %2 = %1 + %1; %2 * %2", "%1 = 1 + 2\n%2 = %1 + %1\n%2 * %2"):
        product = relay.parse_expr(text)
        assert product.args[0] is product.args[1]
        assert product.args[0].args[0] is product.args[0].args[1]
        assert product.args[0].args[0].op is Op.get("add")


def test_sugar_binds_as_in_c():
    expr = relay.parse_expr("1 < 2 + 3 * 4 - 5 && !True || False == 6 > 7")
    assert op_names(expr) == [
        "logical_or", "logical_and", "less", "subtract", "add", "multiply", "logical_not", "equal", "greater",
    ]  # fmt: skip
    left = relay.parse_expr("1 - 2 - 3")
    assert left.args[0].op is Op.get("subtract")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", np.int32(1)),
        ("-1i64", np.int64(-1)),
        ("200u8", np.uint8(200)),
        ("1.5", np.float32(1.5)),
        ("1e3", np.float32(1000)),
        ("2f", np.float32(2)),
        ("2f16", np.float16(2)),
        ("0.1f64", np.float64(0.1)),
        ("-inff", np.float32(-np.inf)),
        ("True", np.bool_(True)),
    ],
)
def test_literals(text, value):
    constant = relay.parse_expr(text)
    assert constant.data.dtype == value.dtype
    assert constant.data == value
    assert constant.is_scalar


def test_a_filled_constant():
    constant = relay.parse_expr("Constant(2, (2, 3), float32)")
    np.testing.assert_array_equal(constant.data, np.full((2, 3), 2, "float32"))
    assert constant.data.dtype == "float32"


def test_a_dtype_is_the_type_of_a_scalar():
    function = relay.parse_expr("fn(%x: Tensor[(), float32], %y: float32) { %x }")
    assert function.params[0].type_annotation == function.params[1].type_annotation == relay.scalar_type("float32")


def test_type_parameters_are_in_scope_in_the_function():
    function = relay.parse_expr("fn<s: Shape, t: BaseType>(%x: Tensor[s, t]) -> Tensor[s, t] where Broadcast { %x }")
    shape, dtype = function.type_params
    assert (shape.kind, dtype.kind) == (relay.TypeKind.ShapeVar, relay.TypeKind.BaseType)
    assert function.ret_type == relay.TensorType(shape, dtype)
    assert function.type_constraints == (relay.TypeRelation("Broadcast"),)


def test_type_arguments_and_comparisons_are_told_apart():
    call = relay.parse_expr("@f<Tensor[(), bool], (int8, fn(bool) -> int8)>(1)")
    assert [str(t) for t in call.type_args] == ["bool", "(int8, fn(bool) -> int8)"]
    assert relay.parse_expr("1 < 2").op is Op.get("less")
    assert relay.parse_expr("fn(%a, %b) { %a < (%b) }").body.op is Op.get("less")


def test_symbolic_dimensions_of_a_definition_are_one_variable():
    function = relay.parse_expr("fn(%x: Tensor[(n, 4), int8], %y: Tensor[(n), int8]) { %x }")
    assert function.params[0].type_annotation.shape[0] is function.params[1].type_annotation.shape[0]
    mod = relay.parse("def @f(%x: Tensor[(n), int8]) { %x } def @g(%x: Tensor[(n), int8]) { %x }")
    assert mod["f"].params[0].type_annotation != mod["g"].params[0].type_annotation


def test_a_constructor_without_arguments_is_a_value():
    mod = relay.parse("type List[A] { Cons(A, List[A]), Nil } def @f() { (Nil, Nil(), Cons, constructor(Nil)) }")
    _, cons, nil = mod.get_type("List")
    bare, called, *functions = mod["f"].body.fields
    assert (bare.op, called.op) == (nil, nil)
    assert functions == [cons, nil]


def test_attributes_are_those_of_the_operator():
    call = relay.parse_expr(f'fn(%x) {{ {OPERATOR}(%x, %x, newshape=[2, -1], layout="NHWC", keepdims=True) }}').body
    assert (call.attrs.newshape, call.attrs.layout, call.attrs.keepdims, call.attrs.axis) == ((2, -1), "NHWC", True, -1)


def test_a_function_may_have_attributes():
    function = relay.parse_expr('fn(%x, Primitive=1, "a key"=[1, 2.5, None], hash="x") { %x }')
    assert function.attrs == {"Primitive": 1, "a key": (1, 2.5, None), "hash": "x"}


def test_definitions_may_refer_to_each_other_in_any_order():
    mod = relay.parse("def @f() { @g() } def @g() { A } type T { A, B(U) } type U { C(T) }")
    assert mod["f"].body.op is mod.get_global_var("g")
    assert mod.get_type("T")[2].inputs[0].func is mod.get_global_type_var("U")


def test_a_module_is_read_on_top_of_another():
    base = relay.parse("type T { A } def @f() { A }")
    mod = relay.parse("def @g() { (@f(), A) }", init_module=base)
    assert mod["f"] is base["f"]
    assert mod["g"].body.fields[1].op is base.get_type("T")[1]
    assert relay.parse_expr("A", init_module=base).op is base.get_type("T")[1]
    assert "g" not in base


def test_metadata_may_be_given_beside_the_text():
    constant = relay.const([1.0, 2.0])
    table = {"relay.Constant": [constant]}
    assert relay.parse_expr("meta[relay.Constant][0]", init_meta_table=table) is constant


def test_fromtext_reads_modules_and_expressions():
    assert isinstance(relay.fromtext("def @f() { 1 }"), IRModule)
    assert isinstance(relay.fromtext("1 + 2"), relay.Call)
    assert isinstance(relay.fromtext('#[version = "0.0.5"]\n// nothing'), IRModule)
    assert isinstance(relay.parse_expr("@f(1)").op, GlobalVar)


def test_a_semicolon_computes_a_value_for_its_effect():
    expr = relay.parse_expr("fn(%r) { ref_write(%r, 1); %r^ }").body
    assert isinstance(expr.value, relay.RefWrite)
    assert isinstance(expr.body, relay.RefRead)


def test_nodes_have_the_span_of_their_text():
    expr = relay.parse_expr("let %x =\n  1 + 2; %x", source_name="model.rly")
    assert str(expr.value.span) == "model.rly:2:3"
    assert (expr.value.span.end_line, expr.value.span.end_column) == (2, 8)


# ------------------------------------------------------------------------------------------------ problems


def diagnostics(text: str) -> list[tuple[str, str]]:
    """Code and message of each diagnostic; every one has a place."""
    with pytest.raises(DiagnosticError) as error:
        relay.fromtext(text)
    assert all(d.span is not None for d in error.value.diagnostics)
    return [(d.code, d.message) for d in error.value.diagnostics]


def test_an_error_shows_the_place_and_a_way_out():
    with pytest.raises(DiagnosticError) as error:
        relay.parse("def @main(%x: int32) {\n  multipy(%x, 2)\n}", source_name="model.rly")
    assert str(error.value) == (
        "\n"
        "error[E9010]: multipy is not an operator of Relay\n"
        " --> model.rly:2:3\n"
        "  |\n"
        "2 |   multipy(%x, 2)\n"
        "  |   ^^^^^^^\n"
        "  = help: similar: multiply"
    ).replace("\n -->", "\n  -->")


def test_every_statement_with_a_problem_is_reported():
    text = """
def @f(%x, %x) { let %y = %z; let %w = ; 1 + (2 3); %5 }
def @f() { 1 }
def @g() { add(1) }
"""
    assert diagnostics(text) == [
        ("E9004", "the function @f is defined twice"),
        ("E9004", "the parameter %x is declared twice"),
        ("E9003", "the variable %z is not defined here"),
        ("E9002", "expected an expression, found `;`"),
        ("E9002", "expected `)` behind the fields of a tuple, found `3`"),
        ("E9003", "the graph binding %5 is not defined before"),
        ("E9012", "add takes 2 operands, found 1"),
    ]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("1 $", "E9001", "the character '$' begins nothing in Relay"),
        ('@"f', "E9001", "the string has no end on its line"),
        ("1 /* 2", "E9001", "the comment has no end"),
        ("fn(%x { 1 }", "E9002", "`(` is not closed"),
        ("fn(%x] { 1 }", "E9002", "`]` does not close the `(` of line 1"),
        ("1)", "E9002", "`)` closes nothing"),
        ("if (True) { 1 }", "E9002", "expected `else` behind the branch of `if`: an `if` is an expression, and has two branches, found the end of the text"),
        ("def @f() { 1 } 2", "E9002", "expected a definition, found `2`"),
        ("def f() { 1 }", "E9002", "expected a global name `@name` behind `def`, found `f`"),
        ("match (1) { 2 => 3 }", "E9002", "expected a pattern, found `2`"),
        ("fn(%x: 3) { 1 }", "E9002", "expected a type, found `3`"),
        ("fn(%x: Tensor[3, int8]) { 1 }", "E9002", "expected a shape, found `3`"),
        ("fn(%x: Foo) { 1 }", "E9003", "there is no type 'Foo' here"),
        ("fn[s: Size](%x) { 1 }", "E9003", "'Size' is not a kind"),
        ("match (1) { Some(_) => 3 }", "E9003", "there is no constructor Some"),
        ("def @f() { @g() }", "E9003", "the module has no function @g"),
        ("let %x = %x; 1", "E9003", "the variable %x is not defined here"),
        ("fn[a, a]() { 1 }", "E9004", "the type parameter 'a' is declared twice"),
        ("type T { A, A }", "E9004", "the constructor A is defined twice"),
        ("type T { A } type T { B }", "E9004", "the type T is defined twice"),
        ("match (1) { (%a, %a) => 3 }", "E9004", "the variable %a occurs twice in a pattern"),
        ("300u8", "E9005", "const: 300 is out of the range of uint8"),
        ("1f99", "E9005", "unknown dtype 'float99'"),
        ("1.5i8", "E9005", "'1.5i8' is a real number with the suffix of the dtype int8"),
        ("Constant(1, (100000, 100000), float32)", "E9005", "a constant takes at most 268435456 bytes"),
        ("fn(%x: Tensor[(floordiv(2, 0)), int8]) { 1 }", "E9005", "a dimension cannot be computed: division by zero"),
        ("fn(%x: Tensor[(ceil(n)), int8]) { 1 }", "E9005", "ceil is not a function of dimensions"),
        ("fn(%x: Tensor[(n.int8 * 300), int8]) { 1 }", "E9005", "a dimension cannot be computed: "),
        ("fn(%x: Tensor[(9223372036854775808), int8]) { 1 }", "E9005", "a dimension is less than 2**63"),
        ("meta[relay.Constant][0]", "E9007", "there is no meta[relay.Constant][0]"),
        ("1\n#[metadata]\nnothing", "E9007", "the metadata section cannot be read: "),
        ('#[version = "0.0.4"] 1', "E9008", "the version of the text is not supported"),
        ("add(1, 2, axis=1)", "E9011", "add has no attribute 'axis'"),
        ("@f(axis=1)", "E9011", "the callee has no attribute 'axis'"),
        ("cast(1, dtype=3)", "E9011", "cast: the attribute 'dtype' is a dtype, found 3"),
    ],
)  # fmt: skip
def test_a_problem_has_one_diagnostic(text, code, message):
    (found,) = diagnostics(text)
    assert found[0] == code
    assert found[1].startswith(message) if message.endswith(": ") else found[1] == message


def test_a_broken_text_is_not_reported_without_end():
    assert len(diagnostics("%a; " * 1000 + "1")) == 100
