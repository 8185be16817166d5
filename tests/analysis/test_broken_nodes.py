"""Programs of unsound nodes: fields of the wrong type, nodes inside themselves. The checker tells, and never crashes."""

from __future__ import annotations

import contextlib
import warnings
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relax
from relax import op
from relax.analysis import (
    assert_well_formed,
    check_nodes,
    check_normal_form,
    check_normalized,
    check_well_formed,
    well_formed,
)
from relax.derive.normalize import normalize_module
from relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    const,
)
from relax.ir import (
    BaseFunc,
    DiagnosticError,
    GlobalVar,
    IRModule,
    Op,
    RelaxExpr,
    Source,
    Span,
    VDevice,
    node,
    set_slot,
)
from relax.ir.node import Node, children_of
from relax.prim import SizeVar
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

SPAN = Span(Source("program.py", "y = f(x)\n"), 1, 1, 1, 9)


def module(function):
    return IRModule({"main": function.replace(attrs={"global_symbol": "main", **function.attrs})})


def messages(obj):
    found = check_well_formed(obj)
    assert all(d.code == "E2100" and d.render() for d in found)
    return [d.message.removeprefix("broken node: ") for d in found]


def program():
    """A module with a node of every kind."""
    n, m, p = SizeVar("n", "int64"), SizeVar("m", "int64"), SizeVar("p", "int64")
    x = Var("x", TensorStructInfo((n, n * 2), "float32", VDevice("llvm")))
    s, q = Var("s", ShapeStructInfo([n])), Var("q", PrimStructInfo("int64", p))
    g = Var("g", FuncStructInfo([ShapeStructInfo(ndim=1)], TupleStructInfo([ObjectStructInfo()]), False))
    c = Var("c", TensorStructInfo((), "bool"))
    lv, gv, cast, f, y = DataflowVar("lv"), Var("gv"), Var("cast"), Var("f"), Var("y")
    a = Var("a", TensorStructInfo((m, SizeVar("k", "int64"))))
    local = Function([a], SeqExpr([], ShapeExpr([m, n])), ShapeStructInfo([m, n]))
    flow = DataflowBlock(
        [
            VarBinding(lv, op.exp(x)),
            VarBinding(gv, Tuple([lv, const(1.0), PrimValue(n + 1), relax.expr.StringImm("a")])),
        ]
    )
    block = BindingBlock(
        [
            MatchCast(cast, TupleGetItem(gv, 0), TensorStructInfo((n, n * 2))),
            VarBinding(f, local),
            VarBinding(y, If(c, SeqExpr([], cast), op.exp(x))),
            VarBinding(Var("w"), Call(relax.expr.ExternFunc("h"), [y, relax.expr.DataTypeImm("int8")], None, [
                ObjectStructInfo()])),
            VarBinding(Var("v"), Call(GlobalVar("main"), [x, s, q, g, c])),
        ]
    )  # fmt: skip
    ret = TupleStructInfo([ObjectStructInfo(), ObjectStructInfo()])
    body = SeqExpr([flow, block], Tuple([y, Call(f, [y])]))
    return module(Function([x, s, q, g, c], body, ret, is_pure=False))


def nodes_of(obj):
    """Every node of a program, struct info and annotations included."""
    found, work = {}, [obj]
    while work:
        node = work.pop()
        if node not in found:
            found[node] = None
            work += children_of(node)
            for name in ("annotation", "_struct_info"):
                if isinstance(getattr(node, name, None), Node):
                    work.append(getattr(node, name))
    return list(found)


# -------------------------------------------------------------------------------- one by one


def test_sound_nodes_are_not_complained_of():
    mod = program()
    assert check_nodes(mod) == []
    assert check_well_formed(mod) == []
    assert check_nodes(normalize_module(mod)) == []


def test_a_field_holds_what_it_is_declared_to_hold():
    x, y = Var("x", TensorStructInfo((4,))), Var("y")
    assert messages(module(Function([x], None))) == ["Function: body is None, expected RelaxExpr"]
    assert messages(Function([x], SeqExpr([None], x))) == ["SeqExpr: blocks[0] is None, expected BindingBlock"]
    assert messages(Call(x, [x]).replace(sinfo_args=(x, 3))) == [
        "Call: sinfo_args[0] is a Var, expected StructInfo",
        "Call: sinfo_args[1] is a int, expected StructInfo",
    ]
    assert messages(SeqExpr([BindingBlock([VarBinding(y, "text")])], x)) == [
        "VarBinding: value is a str, expected RelaxExpr"
    ]
    assert messages(If(x, x, 3)) == ["If: false_branch is a int, expected RelaxExpr"]
    assert messages(TupleGetItem(x, "0")) == ["TupleGetItem: index is a str, expected int"]
    assert messages(IRModule({"main": None})) == ["IRModule: functions['main'] is None, expected BaseFunc"]
    assert messages(IRModule({"main": x})) == ["IRModule: functions['main'] is a Var, expected BaseFunc"]


def test_variables_and_struct_info_are_looked_into():
    z = Var("z", 3)
    assert messages(z) == [
        "Var z: annotation is a int, expected StructInfo", "Var z: struct_info is a int, expected StructInfo",
    ]  # fmt: skip
    deep = Var("d", TupleStructInfo([FuncStructInfo([TupleStructInfo(["a"])], ObjectStructInfo())]))
    assert messages(Function([deep], deep)) == ["TupleStructInfo: fields[0] is a str, expected StructInfo"]
    info = TensorStructInfo((4,))
    set_slot(info, "vdevice", "llvm")
    assert messages(Function([Var("x", info)], const(1))) == ["TensorStructInfo: vdevice is a str, expected VDevice"]


def test_a_table_and_its_keys():
    mod = program()
    set_slot(mod, "functions", [])
    assert messages(mod) == ["IRModule: functions is a list, expected dict"]
    set_slot(mod, "functions", {"main": program()["main"]})
    assert messages(mod) == ["IRModule: a key of functions is a str, expected GlobalVar"]


def test_a_scalar_has_a_choice_of_callees():
    n = SizeVar("n", "int64")
    call = relax.tir.call_intrin("int64", "tir.clz", n)
    set_slot(call, "op", n)
    assert check_nodes(PrimValue(relax.tir.call_intrin("int64", "tir.clz", n))) == []
    assert messages(PrimValue(call)) == ["Call: op is a Var, expected Op or GlobalVar"]


def test_what_kinds_have_in_common_is_no_node():
    x = Var("x", TensorStructInfo((4,)))
    body = SeqExpr([BindingBlock([Binding()])], x)
    assert messages(Function([x], body)) == ["Binding is no kind of node, only what kinds have in common"]


def test_a_field_that_was_never_set():
    call = Call.__new__(Call)
    assert messages(call) == [
        "Call: op is None, expected RelaxExpr", "Call: args is None, expected tuple",
        "Call: sinfo_args is None, expected tuple",
    ]  # fmt: skip


def test_a_node_inside_itself():
    x = Var("x", TensorStructInfo((4,)))
    call = Call(x, [x])
    set_slot(call, "args", (x, Tuple([call])))
    assert messages(Function([x], call)) == ["this Call contains itself"]
    # Once more is no circle.
    shared = op.exp(x)
    assert messages(Function([x], Tuple([shared, shared]))) == []


def test_a_complaint_has_the_place_of_the_node_or_of_what_it_is_in():
    x = Var("x", TensorStructInfo((4,)))
    inner = Call(x, [x])
    set_slot(inner, "args", None)
    [found] = check_well_formed(Function([x], Tuple([inner], span=SPAN)))
    assert found.span is SPAN
    assert "help: build nodes from nodes" in found.render()


def test_all_are_told_and_nothing_that_follows_from_them():
    x, y = Var("x", TensorStructInfo((4,))), Var("y")
    cast = MatchCast(x, y, ObjectStructInfo())
    set_slot(cast, "struct_info", None)
    block = BindingBlock([VarBinding(y, None), cast])
    mod = IRModule({"main": Function([x], SeqExpr([block], None))})
    expected = {
        "VarBinding: value is None, expected RelaxExpr",
        "MatchCast: struct_info is None, expected StructInfo",
        "SeqExpr: body is None, expected RelaxExpr",
    }
    assert set(messages(mod)) == expected
    assert len(check_normalized(mod)) == 3
    assert not well_formed(mod)
    with pytest.raises(DiagnosticError, match="broken node: VarBinding: value is None"):
        assert_well_formed(mod)


@pytest.mark.parametrize("thing", [None, "main", 3, [], TensorStructInfo((4,))])
def test_what_is_no_program_is_refused(thing):
    with pytest.raises(TypeError, match="expected an IRModule, a function or an expression, found"):
        check_well_formed(thing)


def test_loops_have_a_check_of_their_own():
    mod = relax.script.from_source("""
from relax.script import tir as T

@T.prim_func
def k(a: T.handle):
    A = T.match_buffer(a, (4,), "float32")
    A[0] = T.float32(1)
""")
    set_slot(mod, "body", None)
    assert check_nodes(mod) == []


def test_a_kind_of_node_from_elsewhere_is_taken_as_it_comes():
    """Declared where its annotations cannot be read, or as something that is no class."""

    class Local:
        pass

    @node
    class Kernel(BaseFunc):
        local: Local
        attrs: dict = None

    @node
    class Library(BaseFunc):
        kind: Literal["c", "rust"]
        attrs: dict = None

    mod = IRModule({"k": Kernel(3, {}), "l": Library("c", {})})
    assert check_nodes(mod) == []
    set_slot(mod["k"], "local", mod)
    assert messages(mod) == ["this IRModule contains itself"]


# -------------------------------------------------------------------------------- any mutation


WRONG = [
    None, 0, -1, 2.5, "text", (), (None,), ("text",), [], {}, {"a": None}, object(), b"x", True,
    Var("free"), DataflowVar("flow"), ObjectStructInfo(), TensorStructInfo((3,)), SizeVar("k", "int64"),
    const(0), Tuple([]), BindingBlock([]), GlobalVar("nowhere"), Op.get("relax.exp"),
    (Var("free"),), (ObjectStructInfo(),), Constant([1.0]), relax.DataType("int1"), VDevice("cuda"),
]  # fmt: skip


PLACES = st.integers(0, 10_000)


def draw_wrong(data, nodes):
    """Something that belongs elsewhere, or nowhere; drawn by number, since what is drawn is shown."""
    choices = [*WRONG, *nodes]
    one = choices[data.draw(PLACES) % len(choices)]
    return one if data.draw(st.booleans()) else (one,)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_whatever_is_put_where_it_does_not_belong_the_checker_does_not_crash(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mod = program()
        if data.draw(st.booleans()):
            mod = normalize_module(mod)
        # Operators are everybody's, and one object each.
        nodes = [node for node in nodes_of(mod) if not isinstance(node, Op) and node.__node_fields__]
        for _ in range(data.draw(st.integers(1, 3))):
            node = nodes[data.draw(PLACES) % len(nodes)]
            slots = [spec.name for spec in node.__node_fields__] + ["_struct_info"] * isinstance(node, RelaxExpr)
            set_slot(node, slots[data.draw(PLACES) % len(slots)], draw_wrong(data, nodes))
        found = check_well_formed(mod)
        assert all(d.code.startswith("E2") and d.render() for d in found)
        check_normalized(mod)
        if not found:
            check_normal_form(mod)
            with contextlib.suppress(DiagnosticError):
                normalize_module(mod)
