"""Normal form (language.md §4)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relax import op
from relax.analysis import check_normal_form, is_normal_form, well_formed
from relax.block_builder import BlockBuilder
from relax.derive.normalize import normalize_function, normalize_module
from relax.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    const,
)
from relax.ir import DiagnosticError, IRModule, assert_structural_equal
from relax.prim import SizeVar
from relax.struct_info import FuncStructInfo, TensorStructInfo, TupleStructInfo
from support import calls, parse


def vector(n=4):
    return TensorStructInfo((n,))


def normal(body, *params):
    """A function of a body, in normal form, twice: normalising is idempotent."""
    function = Function(params, body, attrs={"global_symbol": "main"})
    result = normalize_function(function)
    assert normalize_function(result) is result
    assert is_normal_form(result)
    return result


def test_nested_expressions_are_bound_left_to_right():
    x, y = Var("x", vector()), Var("y", vector())
    found = normal(op.add(op.exp(op.sin(x)), op.cos(y)), x, y)
    expected = parse("""
    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        a = R.sin(x)
        b = R.exp(a)
        c = R.cos(y)
        d = R.add(b, c)
        return d
    """)["main"]
    assert_structural_equal(found, expected)


def test_what_is_nested_in_tuples_is_bound_and_tuples_stay():
    x = Var("x", vector())
    found = normal(op.concat(Tuple([x, op.exp(x)])), x)
    [first, second] = found.body.blocks[0].bindings
    assert isinstance(second.value.args[0], Tuple)
    assert second.value.args[0].fields == (x, first.var)


def test_projections_of_calls_are_bound():
    x = Var("x", vector())
    found = normal(op.exp(TupleGetItem(op.split(x, 2), 1)), x)
    kinds = [type(b.value).__name__ for b in found.body.blocks[0].bindings]
    assert kinds == ["Call", "TupleGetItem", "Call"]


def test_a_call_object_used_in_several_places_is_computed_once():
    """A graph of calls stays a graph: fifty doublings are fifty bindings."""
    x = Var("x", vector())
    value = x
    for _ in range(50):
        value = op.add(value, value)
    assert len(normal(value, x).body.blocks[0].bindings) == 50
    assert BlockBuilder().normalize(value).struct_info is not None


def test_an_impure_call_used_in_several_places_is_made_each_time():
    x = Var("x", vector())
    effect = op.print(x)
    function = normalize_function(Function([x], Tuple([effect, effect]), is_pure=False))
    assert len(function.body.blocks[0].bindings) == 2


def test_a_call_shared_by_both_branches_is_made_in_each():
    x, c = Var("x", vector()), Var("c", TensorStructInfo((), "bool"))
    shared = op.exp(x)
    found = normal(If(c, op.sin(shared), op.cos(shared)), x, c)
    branch = found.body.blocks[0].bindings[0].value
    assert [len(b.blocks[0].bindings) for b in (branch.true_branch, branch.false_branch)] == [2, 2]


def test_a_leaf_is_a_body_without_blocks():
    x = Var("x", vector())
    found = normal(x, x)
    assert isinstance(found.body, SeqExpr)
    assert found.body.blocks == ()
    assert found.body.body is x
    assert found.ret_struct_info is x.struct_info


def test_branches_become_sequences_of_their_own():
    x, c = Var("x", vector()), Var("c", TensorStructInfo((), "bool"))
    found = normal(If(c, op.exp(op.sin(x)), x), x, c)
    branch = found.body.blocks[0].bindings[0].value
    assert len(branch.true_branch.blocks[0].bindings) == 2
    assert branch.false_branch.blocks == ()


def test_a_condition_is_bound():
    x = Var("x", TensorStructInfo((), "float32"))
    found = normal(If(op.less(x, const(0.0)), x, op.exp(x)), x)
    assert [type(b.value).__name__ for b in found.body.blocks[0].bindings] == ["Call", "If"]


def test_a_sequence_used_as_a_value_is_flattened():
    x, y, z = Var("x", vector()), Var("y"), Var("z")
    inner = SeqExpr([BindingBlock([VarBinding(y, op.exp(x))])], op.sin(y))
    found = normal(SeqExpr([BindingBlock([VarBinding(z, inner)])], z), x)
    assert [b.var for b in found.body.blocks[0].bindings] == [y, z]


def test_a_dataflow_block_in_a_value_stays_one():
    x, y, z, w = Var("x", vector()), Var("y"), Var("z"), Var("w")
    inner = SeqExpr([DataflowBlock([VarBinding(y, op.exp(x))])], y)
    block = BindingBlock([VarBinding(w, op.cos(x)), VarBinding(z, inner)])
    found = normal(SeqExpr([block], z), x)
    assert [(type(b).__name__, [v.var.name_hint for v in b.bindings]) for b in found.body.blocks] == [
        ("BindingBlock", ["w"]), ("DataflowBlock", ["y"]), ("BindingBlock", ["z"]),
    ]  # fmt: skip


def test_a_dataflow_block_in_a_dataflow_block_is_part_of_it():
    x, y, z = Var("x", vector()), DataflowVar("y"), Var("z")
    inner = SeqExpr([DataflowBlock([VarBinding(y, op.exp(x))]), BindingBlock([])], y)
    found = normal(SeqExpr([DataflowBlock([VarBinding(z, inner)])], z), x)
    assert [[v.var.name_hint for v in b.bindings] for b in found.body.blocks] == [["y", "z"]]


def test_an_ordinary_block_in_a_dataflow_block_is_refused():
    x, y, z = Var("x", vector()), Var("y"), Var("z")
    inner = SeqExpr([BindingBlock([VarBinding(y, op.exp(x))])], y)
    function = Function([x], SeqExpr([DataflowBlock([VarBinding(z, inner)])], z))
    with pytest.raises(DiagnosticError, match="an ordinary block cannot be flattened into a dataflow block"):
        normalize_function(function)


def test_an_if_in_a_dataflow_block_is_refused():
    x, c, z = Var("x", vector()), Var("c", TensorStructInfo((), "bool")), Var("z")
    function = Function([x, c], SeqExpr([DataflowBlock([VarBinding(z, If(c, x, x))])], z))
    with pytest.raises(DiagnosticError, match="rule 7"):
        normalize_function(function)


def blocks_of(kinds, x):
    """Blocks of the kinds named by letters: b, d, and empty ones B, D."""
    blocks = []
    for kind in kinds:
        bindings = [] if kind.isupper() else [VarBinding(Var("v"), op.exp(x))]
        blocks.append((DataflowBlock if kind in "dD" else BindingBlock)(bindings))
    return blocks


@given(st.text("bdBD", max_size=8))
def test_neighbouring_blocks_of_one_kind_are_merged_and_empty_ones_dropped(kinds):
    x = Var("x", vector())
    found = normal(SeqExpr(blocks_of(kinds, x), x), x).body.blocks
    expected = "".join(k for k in kinds if k.islower())
    assert "".join("d" if isinstance(b, DataflowBlock) else "b" for b in found for _ in b.bindings) == expected
    assert all(type(a) is not type(b) for a, b in itertools.pairwise(found))
    assert all(b.bindings for b in found)


def test_what_is_in_normal_form_is_returned_as_it_is():
    x, y = Var("x", vector()), Var("y")
    body = SeqExpr([BindingBlock([VarBinding(y, op.exp(x))])], y)
    function = Function([x], body, vector(), attrs={"global_symbol": "main"})
    mod = IRModule({"main": function})
    assert normalize_module(mod) is mod
    assert mod["main"].body is body
    assert y.struct_info is not None
    assert function.struct_info is not None


def test_blocks_that_do_not_change_are_shared():
    x, y, z = Var("x", vector()), Var("y"), Var("z")
    first = DataflowBlock([VarBinding(y, op.exp(x))])
    body = SeqExpr([first, BindingBlock([VarBinding(z, op.exp(op.sin(y)))])], z)
    found = normal(body, x)
    assert found.body.blocks[0] is first


def test_a_result_that_is_no_leaf_is_bound():
    x, y = Var("x", vector()), Var("y")
    found = normal(SeqExpr([BindingBlock([VarBinding(y, op.exp(x))])], Tuple([y, op.sin(y)])), x)
    assert len(found.body.blocks) == 1
    assert isinstance(found.body.body, Tuple)


def test_a_dataflow_variable_does_not_leave_its_block():
    x, lv = Var("x", vector()), DataflowVar("lv")
    body = SeqExpr([DataflowBlock([VarBinding(lv, op.exp(x))])], Tuple([x, lv]))
    with pytest.raises(DiagnosticError, match="rule 1: the dataflow variable lv is used outside its dataflow block"):
        normalize_function(Function([x], body))


def test_the_value_of_a_match_cast_is_a_leaf():
    n = SizeVar("n", "int64")
    x, y = Var("x", TensorStructInfo(ndim=1)), Var("y")
    cast = MatchCast(y, op.exp(x), TensorStructInfo((n,)))
    found = normal(SeqExpr([BindingBlock([cast])], y), x)
    [first, second] = found.body.blocks[0].bindings
    assert second.value is first.var
    assert second.var is y


def test_a_variable_that_nothing_binds_is_an_error():
    x, y = Var("x", vector()), Var("y")
    with pytest.raises(DiagnosticError, match="the variable y is used where it is not bound"):
        normalize_function(Function([x], op.exp(y)))


def test_a_global_var_becomes_the_modules_own():
    from relax.ir import GlobalVar

    x, y = Var("x", vector()), Var("y", vector())
    other = Function([y], y, vector())
    mod = IRModule({"main": Function([x], Call(GlobalVar("other"), [x])), "other": other})
    mod = normalize_module(mod)
    call = mod["main"].body.blocks[0].bindings[0].value
    assert call.op is mod.get_global_var("other")


def chain(count):
    x = Var("x", vector(SizeVar("n", "int64")))
    bindings, value = [], x
    for _ in range(count):
        var = DataflowVar("lv")
        bindings.append(VarBinding(var, op.exp(value)))
        value = var
    out = Var("gv")
    bindings.append(VarBinding(out, value))
    return Function([x], SeqExpr([DataflowBlock(bindings)], out), attrs={"global_symbol": "main"})


def test_normalization_is_linear_in_the_bindings():
    normalize_function(chain(1))  # what is cached once is not counted
    small, large = (calls(normalize_function, chain(count)) for count in (250, 1000))
    assert small < 250 * 1000
    assert large < 4.2 * small


def test_a_thousand_nested_calls():
    x = Var("x", vector())
    value = x
    for _ in range(1000):
        value = op.exp(value)
    assert len(normal(value, x).body.blocks[0].bindings) == 1000


# -------------------------------------------------------------------------------- the check


def problems(body, *params):
    return [d.message.removeprefix("normal form: ") for d in check_normal_form(Function(params, body))]


def test_the_check_names_what_is_not_in_normal_form():
    x, y, c = Var("x", vector()), Var("y"), Var("c", TensorStructInfo((), "bool"))
    seq = SeqExpr([], x)

    def bound(value, kind=BindingBlock):
        return SeqExpr([kind([VarBinding(y, value)])], x)

    assert problems(x, x) == ["the body of a function must be a SeqExpr, found a Var"]
    assert problems(bound(op.exp(op.exp(x))), x) == ["a nested Call must be bound to a variable"]
    assert problems(bound(Tuple([op.exp(x)])), x) == ["a nested Call must be bound to a variable"]
    assert problems(bound(If(c, x, seq)), x) == ["the branch of an if must be a SeqExpr, found a Var"]
    assert problems(bound(seq), x) == ["a SeqExpr stands only as the body of a function or a branch of an if"]
    assert problems(SeqExpr([], op.exp(x)), x) == ["the result of a SeqExpr must be a leaf, found a Call"]
    assert problems(SeqExpr([BindingBlock([])], x), x) == ["a block is empty"]
    twice = SeqExpr([BindingBlock([VarBinding(y, x)]), BindingBlock([VarBinding(Var("z"), x)])], x)
    assert problems(twice, x) == ["two binding blocks in a row are to be merged"]
    assert problems(bound(Tuple([Tuple([x])])), x) == []
    assert problems(bound(If(c, seq, seq)), x) == []


# -------------------------------------------------------------------------------- any program


exprs = st.recursive(
    st.sampled_from(["x", "y"]),
    lambda inner: st.one_of(
        st.tuples(st.just("exp"), inner),
        st.tuples(st.just("add"), inner, inner),
        st.tuples(st.just("field"), inner, inner),
        st.tuples(st.just("if"), inner, inner),
        st.tuples(st.just("seq"), inner, inner),
        st.tuples(st.just("flow"), inner, inner),
        st.tuples(st.just("call"), inner),
    ),
    max_leaves=12,
)


def build(shape, env, cond):
    match shape:
        case str():
            return env[shape]
        case ("exp", a):
            return op.exp(build(a, env, cond))
        case ("add", a, b):
            return op.add(build(a, env, cond), build(b, env, cond))
        case ("field", a, b):
            return TupleGetItem(Tuple([build(a, env, cond), build(b, env, cond)]), 1)
        case ("if", a, b):
            return If(cond, build(a, env, cond), build(b, env, cond))
        case ("seq", a, b):
            var = Var("v")
            return SeqExpr([BindingBlock([VarBinding(var, build(a, env, cond))])], build(b, {**env, "x": var}, cond))
        case ("flow", _, b):
            local, var = DataflowVar("l"), Var("v")
            block = DataflowBlock([VarBinding(local, op.exp(env["y"])), VarBinding(var, op.exp(op.exp(local)))])
            return SeqExpr([block], build(b, {**env, "y": var}, cond))
        case ("call", a):
            param = Var("p", vector())
            return Call(Function([param], op.exp(param)), [build(a, env, cond)])


@given(exprs)
def test_any_program_gets_into_normal_form_and_is_well_formed(shape):
    x, y, c = Var("x", vector()), Var("y", vector()), Var("c", TensorStructInfo((), "bool"))
    found = normal(build(shape, {"x": x, "y": y}, c), x, y, c)
    assert well_formed(IRModule({"main": found}))
    assert_structural_equal(found.ret_struct_info, vector())


# -------------------------------------------------------------------------------- order of evaluation


def effects(function):
    """The labels of R.print calls, in the order a function makes them; an if's branches in brackets."""
    found = []
    for block in function.body.blocks:
        for binding in block.bindings:
            match binding.value:
                case If(_, yes, no):
                    found.append([effects(Function([], yes)), effects(Function([], no))])
                case Call(callee) if getattr(callee, "name", "") == "relax.print":
                    found.append(binding.value.attrs.format)
                case Call(Var()):
                    found.append("a call")
                case _:
                    pass
    return found


def test_callee_then_arguments_left_to_right():
    x = Var("x", vector())
    any_info = TupleStructInfo([])
    maker = Var("maker", FuncStructInfo([any_info], FuncStructInfo([any_info] * 3, any_info, False), False))
    c = Var("c", TensorStructInfo((), "bool"))

    def say(text, value=x):
        return op.print(value, format=text)

    call = Call(
        Call(maker, [say("callee")]),
        [say("first", Tuple([say("in first")])), If(c, say("yes"), say("no")), say("last")],
    )
    body = Tuple([say("before"), TupleGetItem(Tuple([call, say("field")]), 0), say("after")])
    function = normalize_function(Function([x, c, maker], body, is_pure=False))
    assert effects(function) == [
        "before", "callee", "a call", "in first", "first", [["yes"], ["no"]], "last", "a call", "field", "after",
    ]  # fmt: skip


def test_a_sequences_effects_come_where_it_stands():
    x = Var("x", vector())
    inner = SeqExpr([BindingBlock([VarBinding(Var("a"), op.print(x, format="inner"))])], op.print(x, format="end"))
    block = BindingBlock(
        [
            VarBinding(Var("b"), op.print(x, format="first")),
            VarBinding(Var("c"), Tuple([op.print(x, format="left"), inner, op.print(x, format="right")])),
            VarBinding(Var("d"), op.print(x, format="last")),
        ]
    )
    function = normalize_function(Function([x], SeqExpr([block], x), is_pure=False))
    assert effects(function) == ["first", "left", "inner", "end", "right", "last"]


def test_the_sizes_of_a_flattened_sequence_are_known_after_it():
    n = SizeVar("n", "int64")
    x, y, z = Var("x", TensorStructInfo(ndim=1)), Var("y"), Var("z")
    inner = SeqExpr([BindingBlock([MatchCast(y, x, TensorStructInfo((n,)))])], y)
    function = normalize_function(Function([x], SeqExpr([BindingBlock([VarBinding(z, inner)])], z)))
    assert z.struct_info.shape.values == (n,)
    assert function.ret_struct_info.shape is None
