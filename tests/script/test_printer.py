"""The printer: options, underlines, colours, and IR that is broken in every way."""

from __future__ import annotations

import pytest
from script_helpers import body, parse

import relax
from relax.expr import Call, DataflowBlock, Function, If, MatchCast, SeqExpr, ShapeExpr, TupleGetItem, Var, VarBinding
from relax.ir import DiagnosticError, GlobalVar, IRModule, Op, assert_structural_equal, set_slot
from relax.prim import expr as prim
from relax.script import from_source
from relax.struct_info import FuncStructInfo, PrimStructInfo, TensorStructInfo
from relax.tir.buffer import BufferLoad, decl_buffer
from relax.tir.stmt import BufferStore, Evaluate, For, IfThenElse, PrimFunc, SeqStmt

FUNC = """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    y = R.exp(x)
    z = R.add(y, x)
    return z
"""


def test_parts_print_alone():
    func = parse(FUNC)
    (block,) = func.body.blocks
    assert block.bindings[0].script() == 'y: R.Tensor((n,), dtype="float32") = R.exp(x)'
    assert block.bindings[1].value.script() == "R.add(y, x)"
    assert block.bindings[1].var.script() == "z"
    assert func.params[0].struct_info.script() == 'R.Tensor((n,), dtype="float32")'
    assert str(GlobalVar("f")) == 'I.GlobalVar("f")'
    assert repr(relax.const(1)) == 'R.const(1, "int32")'
    assert body(SeqExpr(func.body.blocks, func.body.body).script()).endswith("= R.add(y, x)\nz")


def test_name_and_indentation():
    func = parse(FUNC)
    text = func.script(name="other", indent_spaces=2)
    assert "def other(" in text
    assert "\n  n = T.int64()" in text


def test_unknown_options_are_errors_and_tvms_are_accepted():
    func = parse(FUNC)
    with pytest.raises(TypeError, match="script\\(\\) has no option 'show_mata'; did you mean 'show_meta'"):
        func.script(show_mata=True)
    assert func.script(black_format=False, verbose_expr=True) == func.script()


def test_underline_and_annotate():
    func = parse(FUNC)
    (block,) = func.body.blocks
    call = block.bindings[1].value
    text = body(func.script(obj_to_underline=[call, func.params[0].struct_info], obj_to_annotate={call: "too slow"}))
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if "R.add" in line)
    assert lines[at].endswith("R.add(y, x)  # too slow")
    assert lines[at + 1] == " " * lines[at].index("R.add") + "^" * len("R.add(y, x)")
    assert lines[2] == " " * lines[1].index("R.Tensor") + "^" * len('R.Tensor(("n",), dtype="float32")')


def test_underlining_a_statement():
    func = parse(FUNC)
    binding = func.body.blocks[0].bindings[0]
    lines = body(func.script(obj_to_underline=binding, obj_to_annotate={binding: "here"})).splitlines()
    at = next(i for i, line in enumerate(lines) if "R.exp" in line)
    assert lines[at].endswith("  # here")
    assert lines[at + 1].strip() == "^" * len(lines[at].strip().removesuffix("  # here"))


def test_show_is_plain_where_there_is_no_terminal(capsys):
    func = parse(FUNC)
    func.show()
    assert capsys.readouterr().out == func.script() + "\n"


@pytest.mark.parametrize("style", [None, "light", "dark", "ansi", "vim"])
def test_show_is_coloured_in_a_terminal(capsys, monkeypatch, style):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    parse(FUNC).show(style=style)
    out = capsys.readouterr().out
    assert "\x1b[" in out
    assert "dtype" in out


def raw(cls, **fields):
    """A node with these fields, and None in the others, without its constructor's checks."""
    made = object.__new__(cls)
    set_slot(made, "span", None)
    for spec in cls.__node_fields__:
        set_slot(made, spec.name, fields.get(spec.name))
    return made


def broken():
    """IR that no builder would make."""
    x = Var("x", TensorStructInfo((2,), "float32"))
    loose = Var("loose")
    n = prim.Var("n", "int64")
    exp = Op.get("relax.exp")
    seq = lambda *bindings, body=x: raw(SeqExpr, blocks=(raw(DataflowBlock, bindings=bindings),), body=body)  # noqa: E731
    yield "no body", Function([x], None)
    yield "params are no variables", raw(Function, params=(None, 3), body=x, attrs={})
    yield "unbound", Function([x], Call(exp, (loose,)))
    yield "unbound shape variable", Function([x], ShapeExpr((n, n + 1)))
    yield "too many operands", Function([x], Call(exp, (x, x, x)))
    yield "no attributes", Function([x], Call(Op.get("relax.astype"), (x,)))
    yield (
        "attributes of another operator",
        Function([x], Call(exp, (x,), relax.op.nn.softmax(relax.Var("u"), 1).attrs)),
    )
    yield "binding without variable", Function([x], seq(raw(VarBinding, value=x)))
    yield "binding without value", Function([x], seq(raw(VarBinding, var=loose)))
    yield "match_cast of nothing", Function([x], seq(raw(MatchCast, var=loose), body=None))
    yield "a block that is none", Function([x], raw(SeqExpr, blocks=(None, 3), body=x))
    yield "an if without branches", Function([x], raw(If))
    yield (
        "nested everything",
        Function([x], Call(Function([x], If(x, SeqExpr([], x), Function([], x))), (SeqExpr([], x),))),
    )
    yield "an index that is none", Function([x], raw(TupleGetItem, tuple_value=x))
    yield "a name that is none", Function([Var(None), Var("")], x)
    yield ("a function info with both", Function([Var("f", FuncStructInfo((x.struct_info,), derive_func="d"))], x))
    yield "attributes of any kind", Function([x], x, attrs={"a": object(), 3: {1, 2}, "b": x})
    yield "a call of nothing", raw(Call, args=(None,), sinfo_args=())
    yield "a module of None", IRModule({"f": None})
    yield "names that are none", IRModule({"a.b": Function([x], x), "class": Function([x], x)})
    yield "a value that is none", raw(PrimStructInfo, dtype="int64", value="three")
    yield "a shape that is none", raw(TensorStructInfo, dtype="float32", shape=3)
    yield "nothing known", raw(TensorStructInfo)
    yield "an operand that is none", raw(prim.Add, b=n)
    yield "a load of nothing", raw(BufferLoad, indices=(n,))
    buffer = decl_buffer((4,), "float32", "B")
    yield "an unbound buffer", PrimFunc((), BufferStore(buffer, prim.const(1.0), (0,)))
    yield (
        "a loop of no kind",
        raw(PrimFunc, params=(), buffer_map={}, attrs={}, body=raw(For, loop_var=n, body=Evaluate(0))),
    )
    statements = raw(SeqStmt, seq=(None, raw(IfThenElse, condition=prim.const(True))))
    yield "a body of None", raw(PrimFunc, params=(None,), buffer_map={}, attrs={}, body=statements)


CASES = dict(broken())


@pytest.mark.parametrize("name", CASES)
def test_broken_ir_prints(name):
    node = CASES[name]
    assert node.script()
    assert repr(node)
    node.script(obj_to_underline=[node])


def test_slots_that_were_never_set():
    func = object.__new__(Function)
    assert "broken Function" in func.script()


def test_a_cycle_does_not_hang():
    x = Var("x")
    call = Call(Op.get("relax.exp"), (x,))
    set_slot(call, "args", (call,))
    assert "broken" in call.script()


def test_an_empty_if_branch_and_long_programs_print_in_time():
    x = Var("x", TensorStructInfo((2,), "float32"))
    value = x
    for _ in range(3000):
        value = Call(Op.get("relax.exp"), (value,))
    assert Function([x], value).script()


def test_functions_whose_name_no_def_can_have():
    """The decorator says the name; two that look alike in Python stay apart."""
    body = '("n",), "float32")):\n        return x\n'
    text = "from relax.script import ir as I, relax as R\n@I.ir_module\nclass Module:\n" + "".join(
        f'    @R.function(name="{true}")\n    def {name}(x: R.Tensor({body}'
        for true, name in (("a b", "first"), ("a.b", "second"), ("R", "third"), ("a_b", "fourth"))
    )
    mod = from_source(text)
    assert [g.name_hint for g in mod.functions] == ["a b", "a.b", "R", "a_b"]
    printed = mod.script()
    assert '@R.function(name="a b")\n    def a_b_1(' in printed
    assert "    @R.function\n    def a_b(" in printed
    assert_structural_equal(from_source(printed), mod)


@pytest.mark.parametrize(
    "option, message",
    [("name=3", "a function's name is a string"), ('name="g"', "the module already has a function `g`")],
)
def test_a_name_that_cannot_be(option, message):
    text = f"""
from relax.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def g(x: R.Object):
        return x
    @R.function({option})
    def f(x: R.Object):
        return x
"""
    with pytest.raises(DiagnosticError, match=message):
        from_source(text)
