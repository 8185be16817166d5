"""Every violation of language.md §5 is reported: several of one rule, of several rules, in any form of program."""

from __future__ import annotations

import pytest

from relax import op
from relax.analysis import check_normalized, check_well_formed
from relax.derive.normalize import normalize_module
from relax.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
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
from relax.ir import DiagnosticError, GlobalVar, IRModule, Op
from relax.prim import IntImm, SizeVar
from relax.prim.expr import Var as PrimVar
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from support import parse

VECTOR = TensorStructInfo((4,))
BOOL = TensorStructInfo((), "bool")
EXP = Op.get("relax.exp")


def violations(text):
    """(rule, line) of everything the parser's check finds."""
    with pytest.raises(DiagnosticError) as caught:
        parse(text)
    return [(int(d.code[3:]), d.span.line) for d in caught.value.diagnostics if d.code.startswith("E20")]


def rules(obj):
    """The rule of each violation, in order of the rules."""
    found = check_well_formed(obj)
    assert all(d.message.startswith(f"rule {int(d.code[3:])}: ") and d.hint for d in found)
    return sorted(int(d.code[3:]) for d in found)


def messages(obj):
    return [d.message for d in check_well_formed(obj)]


def module(function, **more):
    return IRModule({"main": function.replace(attrs={"global_symbol": "main", **function.attrs}), **more})


def main(bindings, body, *params, block=BindingBlock, ret=None):
    return module(Function(params, SeqExpr([block(bindings)], body), ret))


# -------------------------------------------------------------------------------- text


def test_several_of_one_rule_in_one_module():
    """In two functions, and twice in one."""
    assert violations("""
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(("m", "k"), "float32"):
            m, k = T.int64(), T.int64()
            s = R.shape([m])
            t = R.shape([m + k])
            y = R.match_cast(x, R.Tensor((m,), "float32"))
            return y

        @R.function
        def other(x: R.Tensor(("2 * n", "3 * n"), "float4x2"), y: R.Prim("handle")):
            return x
    """.replace("float4x2", "float32x2")) == [
        (4, 5), (4, 5), (5, 7), (5, 8), (5, 8), (6, 13), (20, 13), (19, 13),
    ]  # fmt: skip


def test_recursion_of_every_kind():
    assert violations("""
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
            with R.dataflow():
                y = M.main(x, c)
                z = M.even(x)
                w = M.leaf(x)
                R.output(y, z, w)
            return y

        @R.function
        def even(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                y = M.odd(x)
                z = M.even(x)
                R.output(y, z)
            @R.function
            def loop(a: R.Tensor((4,), "float32")):
                with R.dataflow():
                    b = loop(a)
                    R.output(b)
                return b
            return y

        @R.function
        def odd(x: R.Tensor((4,), "float32")):
            y = M.even(x)
            return y

        @R.function
        def leaf(x: R.Tensor((4,), "float32")):
            return x
    """) == [(8, 5), (7, 7), (8, 14), (7, 16), (7, 17), (8, 20), (7, 22), (8, 28)]


def test_a_local_function_may_be_a_value_in_a_dataflow_block_inside_itself():
    """Only a call of it is recursion."""
    text = """
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        @R.function
        def f(a: R.Tensor((4,), "float32")) -> R.Object:
            with R.dataflow():
                t = {}
                R.output(t)
            return t
        return f(x)
    """
    parse(text.format("(f, a)"))
    assert violations(text.format("f(a)")) == [(7, 7)]


def test_what_follows_from_a_bad_signature_is_not_reported():
    assert violations("""
    @R.function
    def main(x: R.Tensor(("n + 1",), "float32"), y: R.Tensor(("n + 2",), "float32")):
        n = T.int64()
        s = R.shape([n])
        return s
    """) == [(6, 3)]


def test_what_follows_from_an_annotation_in_error_is_reported_once():
    """The struct info of y says m, and so does that of all that is made of y."""
    assert violations("""
    @R.function
    def main(x: R.Tensor(ndim=1, dtype="float32")):
        m = T.int64()
        y: R.Tensor((m,), "float32") = x
        z = R.exp(y)
        w = R.add(z, z)
        return w
    """) == [(14, 5)]


def test_annotations_of_every_kind():
    assert violations("""
    @R.function
    def main(
        a: R.Tensor((4,), "int1"),
        b: R.Prim("handle"),
        c: R.Tuple(R.Tensor((4,), "float32x4"), R.Object),
        d: R.Callable((R.Tensor(("k + 1",), "float32"),), R.Tensor(("j",), "float32")),
        e: R.Tensor((-1,), "float32"),
    ):
        m = T.int64()
        f: R.Tuple(R.Shape([m]), R.Tensor((m, m), "float32"), R.Prim(value=m)) = c
        return f
    """) == [(20, 4), (19, 5), (20, 6), (6, 7), (6, 7), (14, 8), (14, 11), (15, 11), (16, 11)]


# -------------------------------------------------------------------------------- built by hand


def test_all_rules_at_once():
    """One module that breaks every rule but 12, and every one of them is reported."""
    n, m, j = SizeVar("n", "int64"), SizeVar("m", "int64"), SizeVar("j", "int64")
    x, c, free = Var("x", VECTOR), Var("c", BOOL), Var("free", VECTOR)
    lv, gv, late, twice, own = DataflowVar("lv"), Var("gv"), Var("late"), Var("twice"), Var("own")
    captured = Function([], SeqExpr([], lv), ObjectStructInfo())
    flow = DataflowBlock(
        [
            VarBinding(lv, op.exp(x)),
            VarBinding(gv, captured),  # 11
            VarBinding(Var("if_"), If(c, x, x)),  # 7
        ]
    )
    block = BindingBlock(
        [
            VarBinding(Var("a"), op.exp(lv)),  # 1
            VarBinding(Var("b"), op.exp(free)),  # 2
            VarBinding(Var("d"), op.exp(late)),  # 3
            VarBinding(late, op.exp(x)),
            VarBinding(twice, x),
            VarBinding(twice, x),  # 2
            VarBinding(own, op.exp(own)),  # 2
            VarBinding(Var("e"), ShapeExpr([m])),  # 5
            VarBinding(Var("f"), Tuple([EXP])),  # 9
            VarBinding(Var("g", TensorStructInfo((m,))), x),  # 14
            VarBinding(Var("h", ShapeStructInfo([m])), x),  # 15
            VarBinding(Var("i", PrimStructInfo(value=m)), x),  # 16
            VarBinding(Var("k", TensorStructInfo((4,), ndim=2)), x),  # 10
            VarBinding(Var("l", FuncStructInfo(None, VECTOR)), x),  # 17
            VarBinding(Var("o"), PrimValue(PrimVar("p", "handle"))),  # 18, 5
            VarBinding(Var("q", PrimStructInfo("handle")), x),  # 19
            VarBinding(Var("r"), DataTypeImm("int1")),  # 20
            VarBinding(Var("s", PrimStructInfo("int32", IntImm("int64", 1))), x),  # 22
            VarBinding(Var("t"), Call(GlobalVar("main"), [x, c])),  # 8
        ]
    )
    attrs = {"global_symbol": "other", "relax.force_pure": True}  # 13, 21
    body = SeqExpr([flow, block], x)
    bad = Function([x, c, Var("y", TensorStructInfo((n + 1,)))], body, None, False, attrs)  # 6
    fourth = Function([], SeqExpr([], const(0)), TensorStructInfo((j,)), attrs={"global_symbol": "fourth"})  # 4
    found = rules(IRModule({"main": bad, "fourth": fourth}))
    assert found == [1, 2, 2, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22]


def test_every_use_that_is_not_visible_is_reported():
    x, lv, y, z = Var("x", VECTOR), DataflowVar("lv"), Var("y", VECTOR), Var("z", VECTOR)
    block = DataflowBlock([VarBinding(lv, op.exp(x))])

    def used(name, *variables):
        return VarBinding(Var(name), op.concat(Tuple(variables)))

    text = """
    a = R.concat(lv, y)
    b = R.concat(lv, y)
    """
    from relax.ir import Source, Span

    source = Source("program.py", text)
    rest = BindingBlock(
        [
            VarBinding(Var(name), Tuple([lv, y, y], span=Span(source, line, 5, line, 9)))
            for name, line in (("a", 2), ("b", 3))
        ]
    )
    func = module(Function([x], SeqExpr([block, rest], x)))
    assert [(d.code, d.span.line) for d in check_well_formed(func)] == [
        ("E2001", 2), ("E2002", 2), ("E2001", 3), ("E2002", 3),
    ]  # fmt: skip
    # Without places one would read the same twice.
    assert rules(main([used("a", z, z), used("b", z)], x, x)) == [2]


def test_a_graph_of_calls_is_walked_once():
    x, free = Var("x", VECTOR), Var("free", VECTOR)
    value = op.add(x, free)
    for _ in range(60):
        value = op.add(Tuple([value])[0], TupleGetItem(Tuple([value, value]), 1))
    assert rules(module(Function([x], value))) == [2]


def test_functions_in_a_graph_are_walked_wherever_they_stand():
    """Two places make two closures; their parameters are bound twice."""
    x, p = Var("x", VECTOR), Var("p", VECTOR)
    call = Call(Function([p], p), [x])
    assert rules(module(Function([x], Tuple([call, call])))) == [2]


def nested(depth):
    x = Var("x", VECTOR)
    value = x
    for _ in range(depth):
        value = op.exp(value)
    return module(Function([x], value))


def test_what_is_nested_too_deeply_is_told_so():
    assert check_well_formed(nested(1000)) == []
    [found] = check_well_formed(nested(20_000))
    assert (found.code, found.message) == ("E2106", "the program is nested too deeply to be checked")
    assert found.hint == "bind parts of the expression to variables"
    with pytest.raises(DiagnosticError, match="an expression in main is nested too deeply to be brought into"):
        normalize_module(nested(20_000))


# -------------------------------------------------------------------------------- programs not in normal form


def test_rules_hold_of_programs_that_are_not_in_normal_form():
    """Nested calls, sequences as values, dataflow blocks in them, branches and bodies that are no sequences."""
    n = SizeVar("n", "int64")
    x, c, y, lv = Var("x", VECTOR), Var("c", BOOL), Var("y"), DataflowVar("lv")
    # What a sequence binds is not seen after it, be it nested in a call.
    inner = SeqExpr([BindingBlock([VarBinding(y, op.exp(x))])], y)
    assert rules(module(Function([x], Tuple([inner, y])))) == [2]
    # Nor are the sizes its casts bind.
    cast = SeqExpr([BindingBlock([MatchCast(Var("z"), x, TensorStructInfo((n,)))])], ShapeExpr([n]))
    assert rules(module(Function([x], Tuple([cast, ShapeExpr([n])])))) == [5]
    assert rules(module(Function([x], Tuple([ShapeExpr([n]), cast])))) == [5]
    # Each shared part of a cast's annotation binds once, however often it stands there.
    pair = TupleStructInfo([TensorStructInfo((n,))])
    part = Var("p", TupleStructInfo([TupleStructInfo([TensorStructInfo(ndim=1)])] * 2))
    cast = MatchCast(Var("w"), part, TupleStructInfo([pair, pair]))
    assert rules(main([cast], ShapeExpr([n]), part)) == []
    # A dataflow variable leaves its block through a nested sequence's result.
    flow = SeqExpr([DataflowBlock([VarBinding(lv, op.exp(x))])], lv)
    assert rules(module(Function([x], op.exp(flow)))) == [1]
    # An if nested in a call, in a dataflow block.
    choice = op.exp(TupleGetItem(Tuple([If(c, x, x)]), 0))
    assert rules(main([VarBinding(Var("w"), choice)], x, x, c, block=DataflowBlock)) == [7]
    # A branch that is no sequence is a scope all the same.
    branch = If(c, SeqExpr([BindingBlock([VarBinding(y, x)])], y), y)
    assert rules(module(Function([x, c], branch))) == [2]


def test_an_ordinary_block_in_a_dataflow_block_is_no_place_for_dataflow_variables():
    x, lv, y = Var("x", VECTOR), DataflowVar("lv"), Var("y")
    inner = SeqExpr([BindingBlock([VarBinding(lv, op.exp(x))])], x)
    assert rules(main([VarBinding(y, inner)], y, x, block=DataflowBlock)) == [1]
    inner = SeqExpr([DataflowBlock([VarBinding(lv, op.exp(x))])], x)
    assert rules(main([VarBinding(y, inner)], y, x, block=DataflowBlock)) == []


def test_a_function_nested_in_a_value_captures_no_dataflow_variable():
    x, lv, y = Var("x", VECTOR), DataflowVar("lv"), Var("y")
    closure = Function([], op.exp(op.exp(lv)), ObjectStructInfo())
    bindings = [VarBinding(lv, op.exp(x)), VarBinding(y, Call(closure, []))]
    assert rules(main(bindings, y, x, block=DataflowBlock)) == [11]


def test_a_recursive_function_in_a_dataflow_block_captures_its_own_dataflow_variable():
    x, f = Var("x", VECTOR), DataflowVar("f", FuncStructInfo([VECTOR], VECTOR))
    a = Var("a", VECTOR)
    local = Function([a], Call(f, [a]), VECTOR)
    assert rules(main([VarBinding(f, local)], x, x, block=DataflowBlock)) == [11]


# -------------------------------------------------------------------------------- shapes that variables hold


def test_a_dataflow_variable_that_holds_a_shape_is_seen_in_its_block_only():
    s, x = Var("s", ShapeStructInfo(ndim=1)), Var("x", TensorStructInfo(ndim=1))
    lv = DataflowVar("lv", ShapeStructInfo(ndim=1))
    held = TensorStructInfo(lv, "float32", ndim=1)

    def described(var, after=()):
        flow = DataflowBlock([VarBinding(lv, s), VarBinding(var, x)])
        rest = BindingBlock([VarBinding(v, x) for v in after])
        return module(Function([s, x], SeqExpr([flow, rest], x)))

    assert rules(described(DataflowVar("t", held))) == []
    # An output outlives the block, and so would its annotation.
    assert rules(described(Var("t", held))) == [14]
    assert rules(described(DataflowVar("t", held), [Var("u", held)])) == [14]
    # In a function's annotation it is captured.
    a = Var("a", held)
    closure = VarBinding(DataflowVar("f"), Function([a], a, ObjectStructInfo()))
    flow = DataflowBlock([VarBinding(lv, s), closure])
    assert rules(module(Function([s, x], SeqExpr([flow], x)))) == [11]


def test_a_parameter_may_be_shaped_by_one_before_it_or_after_it():
    s = Var("s", ShapeStructInfo(ndim=1))
    x = Var("x", TensorStructInfo(s, "float32", ndim=1))
    assert rules(module(Function([s, x], x, TensorStructInfo(s, "float32", ndim=1)))) == []
    assert rules(module(Function([x, s], x))) == []
    assert messages(module(Function([x], x))) == [
        "rule 14: the shape of a tensor annotation is s, which is not bound here"
    ]


def test_a_shape_variable_that_holds_nothing_known_yet():
    s, x = Var("s"), Var("x", TensorStructInfo(ndim=1))
    y = Var("y", TensorStructInfo(s, "float32", ndim=1))
    bindings = [VarBinding(s, op.shape_of(x)), VarBinding(y, x)]
    assert rules(main(bindings, y, x)) == []


# -------------------------------------------------------------------------------- single points


@pytest.mark.parametrize("dtype", ["int1", "int16x2"])
def test_rule_20_holds_of_numbers_and_dtypes_as_values(dtype):
    lanes = 2 if "x" in dtype else 1
    found = rules(main([VarBinding(Var("y"), DataTypeImm(dtype))], const(0)))
    assert found == [20]
    if lanes == 1:
        assert rules(main([VarBinding(Var("y"), PrimValue(IntImm(dtype, 0)))], const(0))) == [20]


@pytest.mark.parametrize("position", ["cast", "tuple cast", "function cast"])
def test_a_cast_binds_what_stands_alone_and_uses_the_rest(position):
    n, m = SizeVar("n", "int64"), SizeVar("m", "int64")
    x, y = Var("x", ObjectStructInfo()), Var("y")

    good, bad = {
        "cast": (TensorStructInfo((n, n + 1)), TensorStructInfo((n + 1, n))),
        "tuple cast": (
            TupleStructInfo([ShapeStructInfo([n, m]), PrimStructInfo(value=n * m)]),
            TupleStructInfo([PrimStructInfo(value=n * m), ShapeStructInfo([n, m])]),
        ),
        # A function type binds its own, and nothing outside.
        "function cast": (
            FuncStructInfo([TensorStructInfo((n,))], TensorStructInfo((n,))),
            FuncStructInfo([TensorStructInfo((n,))], TensorStructInfo((m,))),
        ),
    }[position]
    assert rules(main([MatchCast(y, x, good)], y, x)) == []
    found = rules(main([MatchCast(y, x, bad)], y, x))
    assert found == {"cast": [5], "tuple cast": [5, 5], "function cast": [14]}[position]


def test_a_cast_of_a_tensor_to_a_shape_that_a_variable_holds():
    s, x, y = Var("s", ShapeStructInfo(ndim=1)), Var("x", ObjectStructInfo()), Var("y")
    cast = MatchCast(y, x, TensorStructInfo(s, "float32", ndim=1))
    assert rules(main([cast], y, x, s)) == []
    assert rules(main([cast], y, x)) == [14]


def test_a_lone_expression_or_block_is_checked_by_what_is_in_it():
    x, free = Var("x", VECTOR), Var("free", VECTOR)
    func = Function([x], op.exp(free), attrs={"global_symbol": "main"})
    assert check_well_formed(func)[0].label == "in main"
    assert rules(op.exp(free)) == [2]
    assert rules(SeqExpr([], free)) == [2]
    assert rules(SeqExpr([DataflowBlock([VarBinding(Var("y"), free)])], const(0))) == [2]
    n = SizeVar("n", "int64")
    assert rules(ShapeExpr([n, n + 1])) == [5]


def test_a_prim_func_has_rules_of_its_own():
    func = parse("""
    @T.prim_func
    def k(a: T.handle):
        A = T.match_buffer(a, (4,), "float32")
        A[0] = T.float32(1)
    """)["main"]
    assert rules(func) == []
    assert rules(IRModule({"k": func})) == []


def test_an_unbound_size_is_a_violation_of_its_own_at_each_place():
    n = SizeVar("n", "int64")
    x = Var("x", VECTOR)
    bindings = [
        VarBinding(Var("a"), ShapeExpr([n, n + 1])),
        VarBinding(Var("b"), ShapeExpr([n])),
        VarBinding(Var("c", TensorStructInfo((n, n))), x),
        VarBinding(Var("d", ShapeStructInfo([n])), x),
    ]
    assert rules(main(bindings, x, x)) == [5, 5, 14, 15]


def test_struct_info_that_was_derived_may_not_mention_what_is_unbound_either():
    n = SizeVar("n", "int64")
    x, y = Var("x", VECTOR), Var("y")
    from relax.ir import set_slot

    set_slot(y, "_struct_info", TensorStructInfo((n,)))
    assert rules(main([VarBinding(y, op.exp(x))], y, x)) == [14]


def test_a_normalised_program_is_checked_for_everything():
    """Rules and normal form together; struct info and purity where these are in order."""
    x, y = Var("x", VECTOR), Var("y")
    mod = main([VarBinding(y, op.exp(op.exp(Var("free", VECTOR))))], y, x)
    assert [d.code for d in check_normalized(mod)] == ["E2002", "E2101"]
    mod = main([VarBinding(y, op.exp(x))], y, x)
    assert {d.code for d in check_normalized(mod)} == {"E2105"}
    assert check_normalized(normalize_module(mod)) == []


def test_a_function_bound_to_a_variable_that_is_bound_already():
    x, f, a = Var("x", VECTOR), Var("f"), Var("a", VECTOR)
    first, second = Function([a], a, VECTOR), Function([Var("b", VECTOR)], x, VECTOR)
    assert rules(main([VarBinding(f, first), VarBinding(f, second)], x, x)) == [2]
    # Also where it calls the one before: which of the two is meant?
    b = Var("b", VECTOR)
    again = Function([b], Call(f, [b]), VECTOR)
    assert rules(main([VarBinding(f, first), VarBinding(f, again)], x, x)) == [2]


def test_a_function_there_is_not_is_found_before_struct_info_is_derived():
    x, y = Var("x", VECTOR), Var("y", VECTOR)
    call = Call(GlobalVar("mein"), [x])
    mod = main([VarBinding(y, call)], y, x, ret=VECTOR)
    [found] = check_well_formed(mod)
    assert (found.code, found.message) == ("E3011", "the module has no function mein")
    assert (found.label, found.notes, found.hint) == ("in main", ("it has: main",), "did you mean main?")
    assert check_well_formed(mod["main"]) == []  # what a module around it has is not known


def test_a_shape_variable_is_bound_in_one_function():
    n = PrimVar("n", "int64")
    params = [Var("x", TensorStructInfo((n,))) for _ in range(3)]
    named = Function([params[0]], SeqExpr([], params[0]), attrs={"global_symbol": "main"})
    other = Function([params[1]], SeqExpr([], params[1]))
    mod = IRModule({"main": named, "other": other})
    assert messages(mod) == ["rule 6: the shape variable n of main is bound in other as well"]
    cast = MatchCast(Var("y"), params[2], TensorStructInfo((n,)))
    both = IRModule({"main": named, "other": Function([], SeqExpr([BindingBlock([cast])], Tuple(())))})
    assert "rule 6: the shape variable n of main is bound in other as well" in messages(both)
    # Inside of one function the same object may be bound again: a match_cast then checks it.
    again = Function(
        [params[0]], SeqExpr([BindingBlock([MatchCast(Var("y"), params[0], VECTOR.replace(shape=(n,)))])], params[0])
    )
    assert messages(module(again)) == []
