"""Writing text: its layout, and parse ∘ print as the identity up to alpha-equality."""

from __future__ import annotations

import re

import numpy as np
import pytest
from relay_programs import EXPRESSIONS, MODULES, OPERATOR

from relax import relay
from relax.ir import IRModule, node
from relax.prim import expr as prim

_TYPE = re.compile(r" /\* ty=.*? \*/")


@pytest.mark.parametrize("name", [*EXPRESSIONS, *MODULES])
def test_parse_and_print_are_inverse(name):
    program = relay.fromtext({**EXPRESSIONS, **MODULES}[name])
    text = relay.astext(program)
    again = relay.fromtext(text)
    relay.assert_alpha_equal(again, program)
    # The nodes of the prelude are one for all who import it, and may have types, which are printed as comments.
    assert _TYPE.sub("", relay.astext(again)) == _TYPE.sub("", text)


def test_calls_are_graph_bindings_in_the_scope_where_they_are_evaluated():
    expr = relay.parse_expr("fn(%x: int32) { %1 = %x + 1; if (%x < 2) { %2 = %1 * 3; %2 - %2 } else { %1 } }")
    assert expr.astext() == (
        '#[version = "0.0.5"]\n'
        "fn (%x: int32) {\n"
        "  %0 = less(%x, 2);\n"
        "  %1 = add(%x, 1);\n"
        "  if (%0) {\n"
        "    %2 = multiply(%1, 3);\n"
        "    subtract(%2, %2)\n"
        "  } else {\n"
        "    %1\n"
        "  }\n"
        "}"
    )


def test_modules_have_types_first_and_a_blank_line_between_definitions():
    mod = relay.parse("def @f[A](%x: List[A]) { match? (%x) { Nil => 1 } } type List[A] { Cons(A, List[A]), Nil }")
    assert (
        mod.script()
        == str(mod)
        == (
            "type List[A] {\n"
            "  Cons(A, List[A]),\n"
            "  Nil,\n"
            "}\n"
            "\n"
            "def @f[A](%x: List[A]) {\n"
            "  match? (%x) {\n"
            "    Nil => 1,\n"
            "  }\n"
            "}"
        )
    )


def test_names_are_made_unique_and_quoted_where_they_are_no_identifiers():
    x, other = relay.var("x"), relay.var("x")
    let = relay.Let(x, relay.const(1), relay.Let(other, x, relay.Tuple([x, other, relay.var("conv/w:0")])))
    assert str(let) == 'free_var %"conv/w:0";\nlet %x = 1;\nlet %x_1 = %x;\n(%x, %x_1, %"conv/w:0")'


def test_attributes_with_their_default_are_left_out():
    x = relay.var("x")
    call = relay.call_operator(OPERATOR, x, x, newshape=(2, -1), axis=-1, epsilon=0.5)
    assert str(call) == f"free_var %x;\n{OPERATOR}(%x, %x, epsilon=0.5, newshape=[2, -1])"
    assert str(call.attrs).startswith("units=None, axis=-1, epsilon=0.5")


def test_tensors_stand_in_the_metadata():
    constant = relay.const(np.arange(4, dtype="float64"))
    pair = relay.Tuple([constant, constant])
    text = pair.astext()
    assert "(meta[relay.Constant][0] /* ty=Tensor[(4), float64] */, meta[relay.Constant][0]" in text
    again = relay.parse_expr(text)
    np.testing.assert_array_equal(again.fields[0].data, constant.data)
    assert again.fields[0] is again.fields[1]
    assert "#[metadata]" not in pair.astext(show_meta_data=False)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "int4", "uint64"])
def test_scalars_keep_their_value(dtype):
    rng = np.random.default_rng(0)
    kind = relay.const(0, dtype).data.dtype
    values = rng.integers(0, 8, 50) if "int" in dtype else rng.standard_normal(50) * 10.0 ** rng.integers(-3, 2, 50)
    for value in np.asarray(values).astype(kind):
        again = relay.parse_expr(relay.Constant(value).astext())
        assert again.data.dtype == kind
        assert again.data.tobytes() == np.asarray(value).tobytes()


def test_types_that_are_inferred_are_shown_as_comments():
    call = relay.const(1) + relay.const(2)
    relay.update_checked_type(call, relay.scalar_type("int32"))
    assert str(call) == "add(1, 2) /* ty=int32 */"
    assert call.astext(annotate=lambda node: "a */ b").endswith("add(1, 2) /* a * / b */")


def test_other_nodes_have_text_too():
    mod = relay.parse("type T { A, B(T) } def @f(%x: T) { match (%x) { B((_, %y: int8)) => %y, A => 1 } }")
    clause = mod["f"].body.clauses[0]
    assert str(clause.lhs) == "B((_, %y: int8))"
    assert str(clause) == "B((_, %y: int8)) => %y"
    assert str(mod.type_definitions[mod.get_global_type_var("T")]) == "type T {\n  A,\n  B(T),\n}"
    assert str(relay.TypeRelation("R", [relay.scalar_type("int8")], 1)) == "R(int8; )"


def test_show_prints_the_text(capsys):
    relay.parse_expr("1 + 2").show()
    relay.parse("def @f() { 1 }").show()
    assert capsys.readouterr().out == "add(1, 2)\ndef @f() {\n  1\n}\n"


def test_what_has_no_text_says_so_and_still_has_a_representation():
    n = prim.Var("n", "int64")
    odd = relay.var("x", relay.TensorType((prim.Select(n < 1, n, 2),)))
    with pytest.raises(ValueError, match="a dimension that is a Select has no text in Relay"):
        odd.astext()
    assert repr(odd).startswith("Var(name_hint='x'")
    with pytest.raises(ValueError, match="has a part that is evaluated outside of it, or a free variable"):
        relay.astext(IRModule({"f": relay.Function([], relay.var("x"))}))


def test_a_temp_expr_shows_its_class():
    @node
    class Marked(relay.TempExpr):
        value: relay.Expr

    assert str(relay.Tuple([Marked(relay.const(1))])) == "(<Marked>,)"
