"""Scopes (language.md §3): what a name means where, what a variable's scope is, and what is erased at its end (§6)."""

from __future__ import annotations

import warnings

import pytest

from relax import op
from relax.analysis import check_normalized, check_well_formed
from relax.derive.normalize import normalize_module
from relax.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Tuple,
    Var,
    VarBinding,
)
from relax.info.text import struct_info_text
from relax.ir import DiagnosticError, IRModule, assert_structural_equal
from relax.prim import SizeVar
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from support import main, parse

VECTOR = TensorStructInfo((4,))
BOOL = TensorStructInfo((), "bool")


X = 'x: R.Tensor((4,), "float32")'
X_AND_C = f'{X}, c: R.Tensor((), "bool")'


def same(body, plain, params=X):
    """Two bodies of `main` are one program, names aside."""
    assert_structural_equal(main(body, params), main(plain, params))


def complaints(text):
    with pytest.raises(DiagnosticError) as caught:
        parse(text)
    return [(d.code, d.span.line, *d.notes) for d in caught.value.diagnostics]


# -------------------------------------------------------------------------------- shadowing


def test_rebinding_a_name_makes_a_new_variable():
    mod = parse("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        x = R.exp(x)
        x = R.sin(x)
        return x
    """)
    function = mod["main"]
    first, second = function.body.blocks[0].bindings
    assert len({first.var, second.var, *function.params}) == 3
    assert first.value.args[0] is function.params[0]
    assert second.value.args[0] is first.var
    assert function.body.body is second.var


def test_a_rebound_name_may_hold_something_else():
    same("""
    x = R.shape_of(x)
    x = (x, x)
    x = x[1]
    return x
    """, """
    a = R.shape_of(x)
    b = (a, a)
    c = b[1]
    return c
    """)  # fmt: skip


def test_a_loop_of_the_text_rebinds_a_name_each_time():
    same("""
    for i in range(3):
        x = R.exp(x)
    return x
    """, """
    a = R.exp(x)
    b = R.exp(a)
    c = R.exp(b)
    return c
    """)  # fmt: skip


def test_what_a_branch_rebinds_is_the_old_one_after_it():
    same("""
    if c:
        x = R.sin(x)
        y = R.exp(x)
    else:
        y = R.cos(x)
    z = R.add(x, y)
    return z
    """, """
    if c:
        inner = R.sin(x)
        y = R.exp(inner)
    else:
        y = R.cos(x)
    z = R.add(x, y)
    return z
    """, X_AND_C)  # fmt: skip


def test_a_branch_may_shadow_its_own_condition_and_be_nested():
    same("""
    if c:
        c = R.logical_not(c)
        if c:
            x = R.sin(x)
            y = x
        else:
            y = x
        y = R.exp(y)
    else:
        y = x
    t = (c, x, y)
    return t
    """, """
    if c:
        d = R.logical_not(c)
        if d:
            x1 = R.sin(x)
            y1 = x1
        else:
            y1 = x
        y = R.exp(y1)
    else:
        y = x
    t = (c, x, y)
    return t
    """, X_AND_C)  # fmt: skip


def test_the_name_an_if_binds_may_be_one_that_exists():
    same("""
    if c:
        x = R.sin(x)
    else:
        x = R.cos(x)
    return x
    """, """
    if c:
        y = R.sin(x)
    else:
        y = R.cos(x)
    return y
    """, X_AND_C)  # fmt: skip


def test_a_local_functions_names_are_its_own():
    same("""
    @R.function
    def f(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.sin(x)
        x = R.exp(y)
        return x
    z = R.add(x, y)
    return z
    """, """
    @R.function
    def f(a: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        b = R.sin(a)
        c = R.exp(b)
        return c
    z = R.add(x, y)
    return z
    """, 'x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")')  # fmt: skip


def test_a_local_function_captures_the_variable_that_had_the_name_then():
    mod = parse("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        @R.function
        def f() -> R.Tensor((4,), "float32"):
            return R.exp(x)
        x = R.sin(x)
        y = f()
        return R.add(x, y)
    """)
    local = mod["main"].body.blocks[0].bindings[0].value
    assert local.body.blocks[0].bindings[0].value.args[0] is mod["main"].params[0]


def test_a_local_function_may_shadow_one():
    same("""
    @R.function
    def f(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return a
    g = f
    @R.function
    def f(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return f(a)
    return (f(x), g(x))
    """, """
    @R.function
    def first(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return a
    g = first
    @R.function
    def recursive(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return recursive(a)
    return (recursive(x), g(x))
    """)  # fmt: skip


def test_a_name_rebound_in_a_dataflow_block_is_the_old_one_after_it_unless_it_is_an_output():
    same("""
    with R.dataflow():
        x = R.sin(x)
        y = R.exp(x)
        R.output(y)
    z = R.add(x, y)
    with R.dataflow():
        z = R.cos(z)
        z = R.exp(z)
        R.output(z)
    return z
    """, """
    with R.dataflow():
        lv = R.sin(x)
        y = R.exp(lv)
        R.output(y)
    z = R.add(x, y)
    with R.dataflow():
        lv = R.cos(z)
        gv = R.exp(lv)
        R.output(gv)
    return gv
    """)  # fmt: skip


def test_an_output_is_seen_in_its_own_block_too():
    same("""
    with R.dataflow():
        x = R.sin(x)
        y = R.exp(x)
        R.output(x, y)
    return (x, y)
    """, """
    with R.dataflow():
        b = R.sin(x)
        c = R.exp(b)
        R.output(b, c)
    return (b, c)
    """)  # fmt: skip


def test_a_local_function_shadows_shape_variables_or_captures_them():
    mod = parse("""
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        @R.function
        def shadows(y: R.Tensor(("n",), "float32")):
            return y
        @R.function
        def captures(y: R.Tensor((n,), "float32")):
            return y
        return x
    """)
    main = mod["main"]
    [size] = main.params[0].struct_info.shape.values
    shadows, captures = (b.value.params[0].struct_info.shape.values[0] for b in main.body.blocks[0].bindings)
    assert shadows is not size
    assert shadows.name == "n"
    assert captures is size


# -------------------------------------------------------------------------------- where a name is not visible


def test_what_is_out_of_scope_is_told_with_its_rule():
    [found] = complaints("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            lv = R.exp(x)
            gv = R.sin(lv)
            R.output(gv)
        return lv
    """)
    assert found == ("E1002", 8, "rule 1: a variable of a dataflow block is not used outside of it")
    [found] = complaints("""
    @R.function
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        if c:
            t = R.sin(x)
            y = t
        else:
            y = x
        return t
    """)
    assert found[:2] == ("E1002", 9)
    assert found[2].startswith("rule 3: ")
    [found] = complaints("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return q
    """)
    assert found == ("E1002", 4, "rule 2: a variable is a parameter, or is bound once")


def test_what_a_local_function_binds_is_not_seen_outside():
    [found] = complaints("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        @R.function
        def f(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            b = R.exp(a)
            return b
        return b
    """)
    assert found[:2] == ("E1002", 8)


def test_a_local_function_that_calls_itself_sees_its_variable():
    mod = parse("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        @R.function
        def f(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return f(a)
        return f(x)
    """)
    binding = mod["main"].body.blocks[0].bindings[0]
    assert binding.value.body.blocks[0].bindings[0].value.op is binding.var


# -------------------------------------------------------------------------------- erasure


def infos(text, name="main"):
    """name -> struct info of every variable that a function binds at its top, and of its result."""
    function = parse(text)[name]
    found = {
        binding.var.name_hint: struct_info_text(binding.var.struct_info)
        for block in function.body.blocks
        for binding in block.bindings
    }
    return {**found, "return": struct_info_text(function.struct_info.ret)}


RANK_1 = 'R.Tensor(dtype="float32", ndim=1)'


def test_a_function_keeps_what_its_parameters_say_and_drops_what_its_casts_bind():
    found = infos("""
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(ndim=1, dtype="float32")):
        m = T.int64()
        z = R.match_cast(y, R.Tensor((m,), "float32"))
        w = R.concat((x, z))
        return (x, z, w)
    """)
    assert found["w"] == 'R.Tensor((n + m,), "float32")'
    assert found["return"] == f'R.Tuple(R.Tensor((n,), "float32"), {RANK_1}, {RANK_1})'


def test_a_branch_drops_what_its_casts_bind_of_every_kind():
    found = infos("""
    @R.function
    def main(y: R.Tensor(("n",), "float32"), x: R.Tensor(ndim=1, dtype="int8"), c: R.Tensor((), "bool")):
        n = T.int64()
        if c:
            m = T.int64()
            z = R.match_cast(x, R.Tensor((m,), "int8"))
            t = (z, R.shape([m, n]), R.prim_value(m), R.shape([n]), y)
        else:
            k = T.int64()
            z = R.match_cast(x, R.Tensor((k,), "int8"))
            t = (z, R.shape([k, n]), R.prim_value(k), R.shape([n]), y)
        return t
    """)
    assert found["t"] == (
        'R.Tuple(R.Tensor(dtype="int8", ndim=1), R.Shape(ndim=2), R.Prim("int64"), R.Shape([n]), '
        'R.Tensor((n,), "float32"))'
    )


def test_a_closure_that_leaves_the_branch_it_captured_a_size_of():
    found = infos("""
    @R.function
    def main(x: R.Tensor(ndim=1, dtype="float32"), c: R.Tensor((), "bool")):
        if c:
            m = T.int64()
            z = R.match_cast(x, R.Tensor((m,), "float32"))
            @R.function
            def f(a: R.Tensor(("k",), "float32")) -> R.Tensor(("k", m), "float32"):
                k = T.int64()
                return R.broadcast_to(R.expand_dims(a, 1), (k, m))
            g = f
        else:
            @R.function
            def f(a: R.Tensor(("k",), "float32")) -> R.Tensor(("k", 1), "float32"):
                return R.expand_dims(a, 1)
            g = f
        y = g(R.zeros((3,), "float32"))
        return y
    """)
    # Its own k stays, m is dropped; so the result has two dimensions, and 3 of them are not known any more.
    assert found["g"] == ('R.Callable((R.Tensor((k,), "float32"),), R.Tensor(dtype="float32", ndim=2))')
    assert found["y"] == 'R.Tensor(dtype="float32", ndim=2)'


def test_a_closures_own_variables_are_in_scope_inside_its_struct_info():
    """A function that returns a function: the inner one's struct info is said in the outer one's variables."""
    found = infos("""
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        @R.function
        def outer(a: R.Tensor(("n",), "float32")):
            n = T.int64()
            @R.function
            def inner(b: R.Tensor(("m",), "float32")) -> R.Tensor(("n + m",), "float32"):
                return R.concat((a, b))
            return inner
        f = outer(x)
        y = f(R.zeros((4,), "float32"))
        return y
    """)
    assert found["outer"] == (
        'R.Callable((R.Tensor((n,), "float32"),), '
        'R.Callable((R.Tensor((m,), "float32"),), R.Tensor((n + m,), "float32")))'
    )
    assert found["f"].startswith('R.Callable((R.Tensor((m,), "float32"),), ')
    assert found["y"] == 'R.Tensor((7,), "float32")'


def test_a_call_drops_what_no_argument_determines_through_tuples_and_functions():
    found = infos("""
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor(("n", "m"), "float32")) -> R.Tuple(
            R.Tensor(("n",), "float32"), R.Shape(["m"]), R.Callable((R.Tensor(("k",), "float32"),), R.Tensor(("k", "n"), "float32"))
        ):
            n, m = T.int64(), T.int64()
            @R.function
            def g(a: R.Tensor(("k",), "float32")) -> R.Tensor(("k", n), "float32"):
                k = T.int64()
                return R.broadcast_to(R.expand_dims(a, 1), (k, n))
            return (R.zeros((n,), "float32"), R.shape([m]), g)

        @R.function
        def main(x: R.Tensor(ndim=2, dtype="float32"), y: R.Tensor((2, 3), "float32")):
            a = M.f(x)
            b = M.f(y)
            return b
    """)
    assert found["a"] == (
        f"R.Tuple({RANK_1}, R.Shape(ndim=1), "
        'R.Callable((R.Tensor((k,), "float32"),), R.Tensor(dtype="float32", ndim=2)))'
    )
    assert found["b"] == (
        'R.Tuple(R.Tensor((2,), "float32"), R.Shape([3]), '
        'R.Callable((R.Tensor((k,), "float32"),), R.Tensor((k, 2), "float32")))'
    )


def test_what_a_cast_binds_in_a_dataflow_block_is_seen_after_it():
    found = infos("""
    @R.function
    def main(x: R.Tensor(ndim=1, dtype="float32")):
        m = T.int64()
        with R.dataflow():
            lv = R.match_cast(x, R.Tensor((m,), "float32"))
            gv = R.concat((lv, lv))
            R.output(gv)
        y = R.exp(gv)
        s = R.shape([m])
        return y
    """)
    assert found["gv"] == found["y"] == 'R.Tensor((m * 2,), "float32")'
    assert found["s"] == "R.Shape([m])"
    assert found["return"] == RANK_1


def bare(*items):
    return struct_info_text(TupleStructInfo(items))


def test_an_output_is_not_described_by_its_blocks_variables():
    """A tensor's shape may be a variable that holds one; a DataflowVar's scope ends with its block."""
    s, x = Var("s", ShapeStructInfo(ndim=2)), Var("x", TensorStructInfo(ndim=2))
    lv, t, gv = DataflowVar("lv"), DataflowVar("t"), Var("gv")
    held = TensorStructInfo(lv, "float32", ndim=2)
    block = DataflowBlock([VarBinding(lv, s), MatchCast(t, x, held), VarBinding(gv, Tuple([t, x]))])
    mod = normalize_module(IRModule({"main": Function([s, x], SeqExpr([block], gv), attrs={"global_symbol": "main"})}))
    assert t.struct_info.shape is lv
    assert struct_info_text(gv.struct_info) == bare(TensorStructInfo(ndim=2), TensorStructInfo(ndim=2))
    assert check_normalized(mod) == []


def test_a_match_casts_variable_may_be_an_output_described_by_a_local_shape():
    s, x = Var("s", ShapeStructInfo(ndim=2)), Var("x", TensorStructInfo(ndim=2))
    lv, gv = DataflowVar("lv"), Var("gv")
    block = DataflowBlock([VarBinding(lv, s), MatchCast(gv, x, TensorStructInfo(lv, "float32", ndim=2))])
    mod = IRModule({"main": Function([s, x], SeqExpr([block], gv), attrs={"global_symbol": "main"})})
    done = normalize_module(mod)
    assert gv.struct_info.shape is None
    assert gv.struct_info.ndim == 2
    assert normalize_module(done) is done
    assert check_normalized(done) == []


def test_a_function_does_not_tell_of_shapes_its_own_variables_hold():
    s = Var("s", ShapeStructInfo(ndim=2))
    x = Var("x", TensorStructInfo(s, "float32", ndim=2))
    y = Var("y")
    body = SeqExpr([BindingBlock([VarBinding(y, op.exp(x))])], Tuple([x, y]))
    mod = normalize_module(IRModule({"main": Function([s, x], body, attrs={"global_symbol": "main"})}))
    info = mod["main"].struct_info
    assert bare(*info.params) == bare(ShapeStructInfo(ndim=2), TensorStructInfo(ndim=2))
    assert struct_info_text(info.ret) == bare(TensorStructInfo(ndim=2), TensorStructInfo(ndim=2))


def test_a_branch_drops_the_shapes_its_variables_hold():
    s, x, c = Var("s", ShapeStructInfo(ndim=1)), Var("x", TensorStructInfo(ndim=1)), Var("c", BOOL)
    inner, y, z = Var("inner"), Var("y"), Var("z")
    branch = SeqExpr(
        [BindingBlock([VarBinding(inner, s), MatchCast(y, x, TensorStructInfo(inner, "float32", ndim=1))])], y
    )
    kept = SeqExpr([BindingBlock([MatchCast(Var("w"), x, TensorStructInfo(s, "float32", ndim=1))])], x)
    block = BindingBlock([VarBinding(z, If(c, branch, kept))])
    func = Function([s, x, c], SeqExpr([block], z), attrs={"global_symbol": "main"})
    normalize_module(IRModule({"main": func}))
    assert y.struct_info.shape is inner
    assert z.struct_info.shape is None


# -------------------------------------------------------------------------------- recursive functions as values


def test_a_recursive_function_is_any_size_to_itself_also_as_a_value():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = infos("""
        @I.ir_module
        class M:
            @R.function
            def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
                n = T.int64()
                f = M.main
                y = f(R.concat((x, x)))
                t = (M.main, x)
                g = t[0]
                z = g(y)
                w = M.main(R.zeros((3,), "float32"))
                return x
        """)
    assert found["y"] == found["z"] == 'R.Tensor((n * 2,), "float32")'
    assert found["w"] == 'R.Tensor((3,), "float32")'


def test_a_recursive_local_function_is_any_size_to_itself_also_as_a_value():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mod = parse("""
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            @R.function
            def f(a: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
                g = f
                b = g(R.concat((a, a)))
                c = f(b)
                return a
            return f(x)
        """)
    local = mod["main"].body.blocks[0].bindings[0].value
    bound = {b.var.name_hint: struct_info_text(b.var.struct_info) for b in local.body.blocks[0].bindings}
    assert bound["b"] == bound["c"] == 'R.Tensor((m * 2,), "float32")'
    assert struct_info_text(mod["main"].struct_info.ret) == 'R.Tensor((4,), "float32")'


def test_one_variable_object_in_two_signatures_means_two_sizes():
    n = SizeVar("n", "int64")
    a, x, f = Var("a", TensorStructInfo((n,))), Var("x", TensorStructInfo((n,))), Var("f")
    y, z = Var("y"), Var("z")
    callee = Function([a], SeqExpr([], a), TensorStructInfo((n,)))
    mod = IRModule({"callee": callee})
    block = BindingBlock(
        [
            VarBinding(f, mod.get_global_var("callee")),
            VarBinding(y, Call(f, [op.concat(Tuple([x, x]))])),
            VarBinding(z, Call(mod.get_global_var("callee"), [op.concat(Tuple([y, y]))])),
        ]
    )
    main = Function([x], SeqExpr([block], z), attrs={"global_symbol": "main"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        normalize_module(mod.with_function("main", main))
    assert struct_info_text(y.struct_info) == 'R.Tensor((n * 2,), "float32")'
    assert struct_info_text(z.struct_info) == 'R.Tensor((n * 4,), "float32")'


def test_a_function_literal_that_is_called_on_the_spot():
    """Its variable is bound again later, by a cast; that is another one."""
    n = SizeVar("n", "int64")
    p, x, y = Var("p", TensorStructInfo((n,))), Var("x", VECTOR), Var("y", TensorStructInfo(ndim=1))
    f, cast, a, b = Var("f"), Var("cast"), Var("a"), Var("b")
    block = BindingBlock(
        [
            VarBinding(a, Call(Function([p], p), [x])),
            VarBinding(f, Function([Var("q", TensorStructInfo((n,)))], ShapeExpr([n]))),
            MatchCast(cast, y, TensorStructInfo((n,))),
            VarBinding(b, Call(f, [x])),
        ]
    )
    normalize_module(IRModule({"main": Function([x, y], SeqExpr([block], b), attrs={"global_symbol": "main"})}))
    assert struct_info_text(a.struct_info) == 'R.Tensor((4,), "float32")'
    assert struct_info_text(b.struct_info) == "R.Shape([4])"


# -------------------------------------------------------------------------------- annotated variables of functions


def recursive(annotation, param=None, ret=None):
    """f: annotation = fn(a) { f(a) }, called with x."""
    a, x, f, r, y = Var("a", param or VECTOR), Var("x", VECTOR), Var("f", annotation), Var("r"), Var("y")
    local = Function([a], SeqExpr([BindingBlock([VarBinding(r, Call(f, [a]))])], r), ret)
    block = BindingBlock([VarBinding(f, local), VarBinding(y, Call(f, [x]))])
    return IRModule({"main": Function([x], SeqExpr([block], y), attrs={"global_symbol": "main"})}), y


def test_a_function_literal_bound_to_an_annotated_variable_may_recurse():
    k, n = SizeVar("k", "int64"), SizeVar("n", "int64")
    annotation = FuncStructInfo([TensorStructInfo((k,))], TensorStructInfo((k, k)))
    mod, y = recursive(annotation, TensorStructInfo((n,)))
    assert check_well_formed(mod) == []
    done = normalize_module(mod)
    assert struct_info_text(y.struct_info) == 'R.Tensor((4, 4), "float32")'
    # The annotation's result is the function's, in its own variables: so it is checked.
    local = done["main"].body.blocks[0].bindings[0].value
    assert local.ret_struct_info.shape.values == (n, n)
    assert check_normalized(done) == []


def test_an_annotation_that_claims_more_of_a_recursive_function_is_checked_before_it_is_used():
    annotation = FuncStructInfo([TensorStructInfo(ndim=1)], TensorStructInfo(ndim=1))
    mod, _ = recursive(annotation)
    with pytest.warns(match="W3006"):
        done = normalize_module(mod)
    unchecked, cast, *_ = done["main"].body.blocks[0].bindings
    assert cast.value is unchecked.var
    # It calls itself by the variable that it is bound to.
    assert unchecked.value.body.blocks[0].bindings[0].value.op is unchecked.var
    assert check_normalized(done) == []


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (FuncStructInfo([], VECTOR), "takes 0 arguments, found 1"),
        (FuncStructInfo([ShapeStructInfo(ndim=1)], VECTOR), "argument 0: expected R.Shape"),
        (FuncStructInfo([PrimStructInfo("int64")], ObjectStructInfo()), "argument 0: expected R.Prim"),
    ],
)
def test_an_annotation_no_function_with_these_parameters_has(annotation, reason):
    mod, _ = recursive(annotation)
    with pytest.raises(DiagnosticError, match=reason):
        normalize_module(mod)


def test_a_recursive_function_is_any_size_to_itself_where_it_is_rewritten():
    """A mutator derives calls anew; what it did not change stays as it was."""
    from relax.ir import Op
    from relax.rewrite.visitor import ExprMutator

    class TanhForExp(ExprMutator):
        def visit_call_(self, call):
            call = super().visit_call_(call)
            return op.tanh(call.args[0]) if call.op is Op.get("relax.exp") else call

    text = """
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        @R.function
        def f(a: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
            b = R.{}(R.concat((a, a)))
            c = f(R.sin(b))
            g = f
            d = g(c)
            return a
        return f(x)
    """
    mod, expected = parse(text.format("exp")), parse(text.format("tanh"))
    assert_structural_equal(TanhForExp(mod).visit_expr(mod["main"]), expected["main"])


def test_a_size_a_local_function_binds_is_not_the_one_a_cast_binds_later():
    """One declaration `m = T.int64()`, two binders: where f is defined, m is not in scope, so its parameter binds it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mod = parse("""
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32"), y: R.Tensor(("k",), "float32")):
            m = T.int64()
            @R.function
            def f(a: R.Tensor((m,), "float32")) -> R.Tensor((m,), "float32"):
                return a
            t = (f,)
            z = R.match_cast(x, R.Tensor((m,), "float32"))
            g = t[0]
            u = f(y)
            v = g(y)
            @R.function
            def captures(a: R.Tensor((m,), "float32")) -> R.Tensor((m,), "float32"):
                return a
            w = captures(z)
            return (u, v, w)
        """)
    bound = {b.var.name_hint: b for b in mod["main"].body.blocks[0].bindings}
    for name in ("u", "v"):
        assert struct_info_text(bound[name].var.struct_info) == 'R.Tensor((k,), "float32")'
    m = bound["z"].struct_info.shape.values[0]
    assert bound["f"].value.params[0].struct_info.shape.values[0] is not m
    assert bound["captures"].value.params[0].struct_info.shape.values[0] is m
    assert normalize_module(mod) is mod
    assert check_normalized(mod) == []


def test_a_function_literal_with_a_cast_and_a_local_function_of_one_size():
    """Built by hand, without a global function around."""
    from relax.block_builder import BlockBuilder

    n = SizeVar("n", "int64")
    x, y, p = Var("x", TensorStructInfo(ndim=1)), Var("y"), Var("p", TensorStructInfo((n,)))
    inner = Function([p], SeqExpr([], ShapeExpr([n])))
    block = BindingBlock([VarBinding(Var("f"), inner), MatchCast(y, x, TensorStructInfo((n,)))])
    outer = BlockBuilder().normalize(Function([x], SeqExpr([block], y)))
    local, cast = outer.body.blocks[0].bindings
    assert local.value.params[0].struct_info.shape.values[0] is not n
    assert cast.struct_info.shape.values[0] is n
