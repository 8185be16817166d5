"""The 22 rules of language.md §5, built by hand or broken in ways that a text seldom shows: a program that breaks just
one rule, and a valid neighbour. Broken texts as people write them: `test_broken_programs.py`.

Programs are text where they can be. What text cannot say (a variable object used where its name is out of scope) is built from nodes that
point into the text; so every complaint is checked with its line and column.
"""

from __future__ import annotations

import textwrap

import pytest

from relax import op
from relax.analysis import assert_well_formed, check_well_formed, well_formed
from relax.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    Var,
    VarBinding,
)
from relax.ir import DiagnosticError, GlobalVar, IRModule, Op, Source, Span
from relax.prim import IntImm
from relax.prim.expr import Var as PrimVar
from relax.struct_info import FuncStructInfo, ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo
from support import parse


def violations(text):
    """(code, line, message) of everything the parser's check finds."""
    with pytest.raises(DiagnosticError) as caught:
        parse(text)
    return [(d.code, d.span.line if d.span else None, d.span.column if d.span else None, d.message)
            for d in caught.value.diagnostics]  # fmt: skip


def only(text):
    """The one violation of a text."""
    found = violations(text)
    assert len(found) == 1, found
    return found[0]


class Text:
    """A program that is only pointed into."""

    def __init__(self, text):
        self.text = textwrap.dedent(text).strip()
        self.source = Source("program.py", self.text)

    def at(self, part, nth=0):
        """The span of the nth occurrence of a part."""
        position = -1
        for _ in range(nth + 1):
            position = self.text.index(part, position + 1)
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        return Span(self.source, line, column, line, column + len(part))


def module(function, name="main", **more):
    """A module of one entry point."""
    attrs = {"global_symbol": name, **function.attrs}
    return IRModule({name: function.replace(attrs=attrs), **more})


def checked(obj):
    """(code, line, column, message) of every violation."""
    return [
        (d.code, d.span.line if d.span else None, d.span.column if d.span else None, d.message)
        for d in check_well_formed(obj)
    ]


def vector(n=4, dtype="float32"):
    return TensorStructInfo((n,), dtype)


EXP = op.exp


# -------------------------------------------------------------------------------- 1: dataflow variables


def outside_its_block(inside):
    program = Text("""
        with R.dataflow():
            lv = R.exp(x)
            gv = R.exp(lv)
            R.output(gv)
        y = R.exp(lv)
        return y
    """)
    x, lv, gv, y = Var("x", vector()), DataflowVar("lv"), Var("gv"), Var("y")
    block = DataflowBlock([VarBinding(lv, EXP(x)), VarBinding(gv, EXP(lv))])
    use = EXP(gv if inside else lv).replace(span=program.at("R.exp(lv)", 1))
    rest = BindingBlock([VarBinding(y, use)])
    return module(Function([x], SeqExpr([block, rest], y)))


def test_rule_1_a_dataflow_variable_is_not_used_outside_its_block():
    message = "rule 1: the dataflow variable lv is used outside its dataflow block"
    assert checked(outside_its_block(False)) == [("E2001", 5, 5, message)]
    assert checked(outside_its_block(True)) == []


def test_rule_1_a_dataflow_variable_is_bound_only_in_a_dataflow_block():
    program = Text("y = R.exp(x)")
    x, y = Var("x", vector()), DataflowVar("y", span=program.at("y"))
    binding = VarBinding(y, EXP(x))
    message = "rule 1: the dataflow variable y is bound outside a dataflow block"
    assert checked(module(Function([x], SeqExpr([BindingBlock([binding])], x)))) == [("E2001", 1, 1, message)]
    assert checked(module(Function([x], SeqExpr([DataflowBlock([binding])], x)))) == []


def test_rule_1_a_dataflow_variable_is_no_parameter():
    program = Text("def main(x): ...")
    x = DataflowVar("x", vector(), span=program.at("x"))
    message = "rule 1: the dataflow variable x is a parameter"
    assert checked(module(Function([x], x))) == [("E2001", 1, 10, message)]


# -------------------------------------------------------------------------------- 2: bound exactly once


def test_rule_2_a_variable_is_bound_somewhere():
    program = Text("y = R.exp(z)")
    x, y, z = Var("x", vector()), Var("y"), Var("z", vector())
    value = EXP(z).replace(span=program.at("R.exp(z)"))
    func = Function([x], SeqExpr([BindingBlock([VarBinding(y, value)])], y))
    assert checked(module(func)) == [("E2002", 1, 5, "rule 2: the variable z is used but never bound")]
    assert checked(module(func.replace(params=[x, z]))) == []


def test_rule_2_a_variable_is_bound_once():
    program = Text("y = R.exp(x)\ny = R.exp(y)")
    x, y = Var("x", vector()), Var("y")
    first = VarBinding(y, EXP(x), span=program.at("y = R.exp(x)"))
    second = VarBinding(y, EXP(x), span=program.at("y = R.exp(y)"))
    again = VarBinding(Var("y"), EXP(x))
    message = "rule 2: the variable y is bound twice"
    broken = module(Function([x], SeqExpr([BindingBlock([first, second])], y)))
    assert checked(broken) == [("E2002", 2, 1, message)]
    assert "first bound at program.py:1:1" in check_well_formed(broken)[0].render()
    assert checked(module(Function([x], SeqExpr([BindingBlock([first, again])], y)))) == []


def test_rule_2_a_variable_is_not_used_in_its_own_value_unless_that_is_a_function():
    program = Text("y = R.exp(y)")
    x, y = Var("x", vector()), Var("y")
    value = EXP(y).replace(span=program.at("R.exp(y)"))
    func = Function([x], SeqExpr([BindingBlock([VarBinding(y, value)])], y))
    assert checked(module(func)) == [("E2002", 1, 5, "rule 2: the variable y is used in its own value")]
    p = Var("p", vector())
    recursive = Function([p], Call(y, [p]), vector())
    func = Function([x], SeqExpr([BindingBlock([VarBinding(y, recursive)])], x))
    assert checked(module(func)) == []


def test_rule_2_what_a_branch_binds_does_not_escape():
    program = Text("if c:\n    y = R.exp(x)\nz = R.exp(y)")
    x, c, y, z = Var("x", vector()), Var("c", TensorStructInfo((), "bool")), Var("y"), Var("z")
    w = Var("w")
    branch = SeqExpr([BindingBlock([VarBinding(y, EXP(x))])], y)
    block = BindingBlock([VarBinding(w, If(c, branch, x)), VarBinding(z, EXP(y).replace(span=program.at("R.exp(y)")))])
    func = Function([x, c], SeqExpr([block], z))
    assert checked(module(func)) == [("E2002", 3, 5, "rule 2: the variable y is not bound here")]


# -------------------------------------------------------------------------------- 3: no use before the binding


def test_rule_3_no_use_before_the_binding():
    program = Text("y = R.exp(z)\nz = R.exp(x)")
    x, y, z = Var("x", vector()), Var("y"), Var("z")
    uses = VarBinding(y, EXP(z).replace(span=program.at("R.exp(z)")))
    binds = VarBinding(z, EXP(x))
    broken = Function([x], SeqExpr([BindingBlock([uses, binds])], y))
    assert checked(module(broken)) == [("E2003", 1, 5, "rule 3: the variable z is used before it is bound")]
    assert checked(module(Function([x], SeqExpr([BindingBlock([binds, uses])], y)))) == []


def test_rule_3_what_a_later_dataflow_block_gives_is_bound_too_late_not_never():
    program = Text("y = R.exp(z)\nwith R.dataflow():\n    z = R.exp(x)\n    R.output(z)")
    x, y, z = Var("x", vector()), Var("y"), Var("z")
    uses = BindingBlock([VarBinding(y, EXP(z).replace(span=program.at("R.exp(z)")))])
    broken = Function([x], SeqExpr([uses, DataflowBlock([VarBinding(z, EXP(x))])], y))
    assert checked(module(broken)) == [("E2003", 1, 5, "rule 3: the variable z is used before it is bound")]


# -------------------------------------------------------------------------------- 5: shape variables


def test_rule_5_a_shape_variable_in_an_expression_is_bound():
    text = """
    @R.function
    def main(x: R.Tensor(({},), dtype="float32")):
        m = T.int64()
        s = R.shape([m + 1])
        return s
    """
    assert only(text.format("4")) == ("E2005", 5, 9, "rule 5: the shape variable m is not bound here")
    parse(text.format('"m"'))


def test_rule_5_a_match_cast_in_a_later_dataflow_block_binds_too_late():
    text = """
    @R.function
    def main(x: R.Tensor(ndim=1, dtype="float32")):
        m = T.int64()
        y: R.Tensor((m,), "float32") = x
        with R.dataflow():
            z = R.match_cast(x, R.Tensor((m,), "float32"))
            R.output(z)
        return (y, z)
    """
    assert only(text) == ("E2005", 5, 8, "rule 5: the shape variable m is used before it is bound")


def test_rule_5_within_a_match_cast_a_variable_is_bound_before_it_is_used():
    text = """
    @R.function
    def main(x: R.Tensor(ndim=2, dtype="float32")):
        m = T.int64()
        y = R.match_cast(x, R.Tensor({}, "float32"))
        return y
    """
    message = "rule 5: the shape variable m is used before it is bound"
    assert only(text.format("(m + 1, m)")) == ("E2005", 5, 25, message)
    parse(text.format("(m, m + 1)"))


def test_rule_5_a_closure_captures_shape_variables():
    parse("""
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        @R.function
        def f(y: R.Tensor((n,), "float32")) -> R.Shape([n]):
            return R.shape([n])
        s = f(x)
        return s
    """)


# -------------------------------------------------------------------------------- 7, 8, 9: structure


def if_in(block):
    program = Text("y = x if c else x")
    x, c, y = Var("x", vector()), Var("c", TensorStructInfo((), "bool")), Var("y")
    choice = If(c, x, x, span=program.at("x if c else x"))
    return module(Function([x, c], SeqExpr([block([VarBinding(y, choice)])], y)))


def test_rule_7_a_dataflow_block_has_no_if():
    message = "rule 7: a dataflow block has no control flow, so no if"
    assert checked(if_in(DataflowBlock)) == [("E2007", 1, 5, message)]
    assert checked(if_in(BindingBlock)) == []


RECURSIVE = """
@I.ir_module
class M:
    @R.function
    def even(n: R.Prim("int64"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            y = M.{}(n, x)
            R.output(y)
        return y

    @R.function
    def odd(n: R.Prim("int64"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = M.even(n, x)
        return y

    @R.function
    def other(n: R.Prim("int64"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return x
"""


def test_rule_7_a_dataflow_block_has_no_recursive_call():
    message = "rule 7: a dataflow block has no recursive calls, found one of even"
    assert only(RECURSIVE.format("even")) == ("E2007", 7, 17, message)
    message = "rule 7: a dataflow block has no mutually recursive calls, found one of odd"
    assert only(RECURSIVE.format("odd")) == ("E2007", 7, 17, message)
    parse(RECURSIVE.format("other"))


def test_rule_9_an_operator_is_only_called():
    program = Text("y = (R.exp,)")
    x, y = Var("x", vector()), Var("y")
    value = Tuple([Op.get("relax.exp")], span=program.at("(R.exp,)"))
    func = Function([x], SeqExpr([BindingBlock([VarBinding(y, value)])], y))
    assert checked(module(func)) == [("E2009", 1, 5, "rule 9: the operator relax.exp is used as a value")]
    func = Function([x], SeqExpr([BindingBlock([VarBinding(y, Tuple([EXP(x)]))])], y))
    assert checked(module(func)) == []


# -------------------------------------------------------------------------------- 10: ndim


@pytest.mark.parametrize(
    ("broken", "valid"),
    [
        (TensorStructInfo((4, 5), ndim=3), TensorStructInfo((4, 5), ndim=2)),
        (ShapeStructInfo((4, 5), ndim=3), ShapeStructInfo((4, 5), ndim=2)),
        (TensorStructInfo((), ndim=1), TensorStructInfo((), ndim=0)),
        (TensorStructInfo(ndim=-5), TensorStructInfo(ndim=-1)),
        (TensorStructInfo(ndim=10**30), TensorStructInfo(ndim=100)),
        (ShapeStructInfo(ndim=-2), ShapeStructInfo(ndim=-1)),
    ],
)
def test_rule_10_ndim_agrees_with_the_number_of_dimensions(broken, valid):
    program = Text("def main(x: R.Tensor((4, 5), ndim=3)): ...")
    x = Var("x", broken, span=program.at("x"))
    [(code, line, column, message)] = checked(module(Function([x], x)))
    assert (code, line, column) == ("E2010", 1, 10)
    assert message.startswith("rule 10: ndim is ")
    y = Var("y", valid)
    assert checked(module(Function([y], y))) == []


# -------------------------------------------------------------------------------- 12: entry points


def test_rule_12_holds_of_modules_only():
    x = Var("x", vector())
    assert checked(Function([x], x)) == []
    assert checked(IRModule({})) == [("E2012", None, None, "rule 12: the module has no entry point")]


# -------------------------------------------------------------------------------- 14, 15, 16: annotations in scope


@pytest.mark.parametrize(
    ("rule", "kind", "parameter", "annotation"),
    [
        (14, "tensor", 'R.Tensor(ndim=1, dtype="float32")', 'R.Tensor((m,), "float32")'),
        (14, "tensor", 'R.Tuple(R.Tensor(ndim=1, dtype="float32"))', 'R.Tuple(R.Tensor((m,), "float32"))'),
        (15, "shape", "R.Shape(ndim=1)", "R.Shape([m])"),
        (16, "prim", 'R.Prim("int64")', "R.Prim(value=m)"),
    ],
)
def test_rules_14_15_16_an_annotation_is_over_variables_in_scope(rule, kind, parameter, annotation):
    text = """
    @R.function
    def main(x: {}, p: R.Prim({})):
        m = T.int64()
        y: {} = x
        return y
    """
    message = f"rule {rule}: a {kind} annotation uses the shape variable m, which is not bound here"
    assert only(text.format(parameter, '"int64"', annotation)) == (f"E20{rule}", 5, 8, message)
    with pytest.warns(match="claims more than was derived"):
        parse(text.format(parameter, 'value="m"', annotation))
    # A match_cast may introduce it.
    parse(text.format(parameter, '"int64"', annotation).replace(
        f"y: {annotation} = x", f"y = R.match_cast(x, {annotation})"))  # fmt: skip


def shaped_by(shape, ndim=2, described=None, params=()):
    program = Text("y: R.Tensor(s) = x")
    x = Var("x", TensorStructInfo(ndim=2))
    y = Var("y", TensorStructInfo(shape, ndim=ndim), span=program.at("y"))
    s = [shape] if isinstance(shape, Var) and described else list(params)
    return module(Function([x, *s], SeqExpr([BindingBlock([VarBinding(y, x)])], y)))


def test_rule_14_a_shape_is_a_variable_in_scope_that_holds_a_shape_of_that_rank():
    s = Var("s", ShapeStructInfo(ndim=2))
    assert checked(shaped_by(s, described=True)) == []
    prefix = "rule 14: the shape of a tensor annotation is "
    for broken, reason in [
        (shaped_by(s), "s, which is not bound here"),
        (shaped_by(Var("t", vector()), described=True),
         't, which holds R.Tensor((4,), "float32"), expected a shape'),
        (shaped_by(s, 3, described=True), "s, which has 2 dimensions, and ndim is 3"),
        (shaped_by(op.shape_of(Var("x", vector()))), "a Call, expected dimensions or a variable"),
    ]:  # fmt: skip
        assert checked(broken) == [("E2014", 1, 1, prefix + reason)]


# -------------------------------------------------------------------------------- 17 to 22


@pytest.mark.parametrize(
    ("info", "found"),
    [
        (FuncStructInfo([vector()], vector(), derive_func="relax.default_derivation"), "both"),
        (FuncStructInfo(None, ObjectStructInfo()), "neither"),
    ],
)
def test_rule_17_a_function_has_params_or_a_derivation(info, found):
    program = Text("def main(f): ...")
    f = Var("f", info, span=program.at("f", 1))
    message = f"rule 17: a function's struct info has either params or derive_func, found {found}"
    assert checked(module(Function([f], f))) == [("E2017", 1, 10, message)]
    for valid in (FuncStructInfo([vector()], vector()), FuncStructInfo.opaque_func()):
        g = Var("g", valid)
        assert checked(module(Function([g], g))) == []


def test_rule_18_a_prim_value_is_a_scalar():
    program = Text("return R.prim_value(p)")
    handle = PrimVar("p", "handle")
    value = PrimValue(handle, span=program.at("R.prim_value(p)"))
    p = Var("q", PrimStructInfo("int64"))
    func = Function([p], SeqExpr([], value))
    found = [v for v in checked(module(func)) if v[0] == "E2018"]
    message = "rule 18: a prim value has dtype handle, expected an integer, float or bool scalar"
    assert found == [("E2018", 1, 8, message)]
    for valid in (1, 1.5, True, IntImm("uint8", 3)):
        assert checked(module(Function([p], SeqExpr([], PrimValue(valid))))) == []


def test_rules_19_and_20_supported_dtypes():
    for dtype in ("int64", "uint8", "float32", "bool", "bfloat16"):
        parse(f'@R.function\ndef main(x: R.Prim("{dtype}")):\n    return x')
    for dtype in (
        "int2",
        "uint4",
        "int8",
        "uint64",
        "float4_e2m1fn",
        "float16",
        "bool",
        "bfloat16",
        "float8_e4m3fn",
        "",
    ):
        parse(f'@R.function\ndef main(x: R.Tensor((4,), "{dtype}")):\n    return x')


def test_rule_22_a_prim_annotations_value_has_its_dtype():
    program = Text('def main(x: R.Prim("int32", value=n)): ...')
    n = PrimVar("n", "int64")
    x = Var("x", PrimStructInfo("int32", n, span=program.at('R.Prim("int32", value=n)')))
    message = "rule 22: a prim annotation has dtype int32, and its value n is int64"
    assert checked(module(Function([x], x))) == [("E2022", 1, 13, message)]
    y = Var("y", PrimStructInfo("int64", n))
    assert checked(module(Function([y], y))) == []


# -------------------------------------------------------------------------------- all together


def test_every_violation_is_reported_in_the_order_of_the_source():
    found = violations("""
    @I.ir_module
    class M:
        @R.function
        def first(x: R.Tensor(("m * n",), "float32x2")):
            R.func_attr({"global_symbol": "zero"})
            return x

        @R.function
        def second(x: R.Prim("handle")):
            y = M.second(x)
            return y
    """)
    assert [(code, line) for code, line, _, _ in found] == [
        ("E2013", 5), ("E2006", 5), ("E2006", 5), ("E2020", 5), ("E2008", 10), ("E2019", 10),
    ]  # fmt: skip


def test_a_violation_is_rendered_with_its_source():
    with pytest.raises(DiagnosticError) as caught:
        parse("""
        @R.function
        def main(x: R.Tensor(("2 * n",), "float32")):
            return x
        """)
    assert (
        str(caught.value).strip()
        == textwrap.dedent("""
        error[E2006]: rule 6: the signature uses n, but in no parameter does n stand alone in a dimension
          --> <string>:3:13
          |
        3 | def main(x: R.Tensor(("2 * n",), "float32")):
          |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ in main
          = help: only a dimension that is just n binds it
    """).strip()
    )


def test_well_formed_answers_and_assert_well_formed_raises():
    mod = parse("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return R.exp(x)
    """)
    assert well_formed(mod)
    assert_well_formed(mod)
    private = IRModule({"main": mod["main"].without_attr("global_symbol")})
    assert not well_formed(private)
    with pytest.raises(DiagnosticError, match="rule 12"):
        assert_well_formed(private)


def test_well_formed_wants_normal_form_and_struct_info():
    x = Var("x", vector())
    nested = module(Function([x], EXP(EXP(x))))
    assert well_formed(nested, check_struct_info=False)
    assert not well_formed(nested)


def test_the_rules_take_any_program():
    """Broken beyond use, and still only diagnostics come back."""
    x = Var("x")
    n = PrimVar("n", "int64")
    cast = MatchCast(Var("y", vector(n)), Call(GlobalVar("nowhere"), [x]), ShapeStructInfo([n * n]))
    func = Function([x, x], SeqExpr([DataflowBlock([cast]), BindingBlock([])], ShapeExpr([n])))
    codes = {d.code for d in check_well_formed(IRModule({"main": func}))}
    assert {"E2002", "E2012", "E2015"} <= codes
