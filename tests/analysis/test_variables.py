"""Which variables a program binds and uses; purity; recursion; what is computable at compile time."""

from __future__ import annotations

import textwrap

import pytest

from relax import analysis, op
from relax.analysis import (
    BaseCheckResult,
    all_bindings,
    all_global_vars,
    all_symbolic_vars,
    all_vars,
    bound_vars,
    called_global_vars,
    computable_at_compile_time,
    contains_impure_call,
    defined_symbolic_vars,
    derive_call_ret_struct_info,
    detect_recursion,
    find_impure_call,
    free_symbolic_vars,
    free_vars,
    get_static_struct_info,
    get_var2val,
    has_symbolic_shape,
    name_to_binding,
    struct_info_base_check,
    udchain,
)
from relax.derive.call_graph import reachable, references
from relax.expr import BindingBlock, Call, Function, MatchCast, SeqExpr, Var, VarBinding, const
from relax.info.text import struct_info_text
from relax.ir import IRModule, set_slot
from relax.prim import SizeVar
from relax.script import from_source
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

HEAD = "from relax.script import ir as I, relax as R, tir as T\n"


def parse(text):
    return from_source(HEAD + textwrap.dedent(text).strip() + "\n")


def names(variables):
    return [var.name_hint for var in variables]


PROGRAM = """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4,), "float32")):
    n, m = T.int64(), T.int64()
    with R.dataflow():
        lv = R.add(x, y)
        lv1 = R.exp(lv)
        gv = R.add(lv, lv1)
        R.output(gv)
    z = R.match_cast(gv, R.Tensor((m, 4), "float32"))
    @R.function
    def f(a: R.Tensor(("k",), "float32")) -> R.Tensor(ndim=2, dtype="float32"):
        b = R.add(x, y)
        return b
    z = f(y)
    s = R.shape([n, m])
    return (z, s)
"""


@pytest.fixture
def main():
    return parse(PROGRAM)


def test_a_function_has_no_free_variables_and_its_parts_do(main):
    assert free_vars(main) == []
    assert names(free_vars(main.body)) == ["x", "y"]
    local = get_var2val(main)[name_to_binding(main)["f"][0].var]
    assert names(free_vars(local)) == ["x", "y"]
    assert names(bound_vars(local)) == ["a", "b"]


def test_bound_and_all_variables(main):
    assert names(bound_vars(main)) == ["x", "y", "lv", "lv1", "gv", "z", "a", "b", "f", "z", "s"]
    assert set(all_vars(main)) == set(bound_vars(main))
    x = Var("x", TensorStructInfo((4,)))
    assert all_vars(op.exp(x)) == free_vars(op.exp(x)) == [x]


def test_shape_variables(main):
    assert names(defined_symbolic_vars(main)) == ["n", "m", "k"]
    assert free_symbolic_vars(main) == []
    assert names(free_symbolic_vars(main.body)) == ["n"]
    assert sorted(names(all_symbolic_vars(main.body))) == ["k", "m", "n"]


def test_the_own_variables_of_a_function_type_are_not_free():
    own, n = SizeVar("own", "int64"), SizeVar("n", "int64")
    f = Var("f", FuncStructInfo([TensorStructInfo((own,))], TensorStructInfo((own, n))))
    from relax.expr import Function

    assert names(free_symbolic_vars(Function([f], f))) == ["n"]


def test_bindings(main):
    assert len(all_bindings(main)) == 8
    table = get_var2val(main)
    values = {var.name_hint: value for var, value in table.items()}
    assert isinstance(values["lv"], Call)
    by_name = name_to_binding(main)
    assert len(by_name["z"]) == 2
    assert isinstance(by_name["z"][0], MatchCast)
    chain = udchain(main.body.blocks[0])
    assert {u.name_hint: names(v) for u, v in chain.items()} == {
        "x": ["lv"], "y": ["lv"], "lv": ["lv1", "gv"], "lv1": ["gv"], "gv": [],
    }  # fmt: skip


MODULE = """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = M.even(x)
        z = M.leaf(y)
        return z

    @R.function
    def odd(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = M.even(x)
        return y

    @R.function
    def even(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = M.odd(x)
        return y

    @R.function
    def again(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = M.again(x)
        return y

    @R.function
    def leaf(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return x
"""


def test_recursion_is_found_in_groups():
    mod = parse(MODULE)
    assert [names(group) for group in detect_recursion(mod)] == [["again"], ["even", "odd"]]
    assert detect_recursion(IRModule({})) == []
    assert names(all_global_vars(mod["main"])) == ["even", "leaf"]


def test_a_long_chain_of_functions_is_no_deep_recursion():
    functions = "\n".join(
        f"    @R.function\n    def f{i}(x: R.Tensor((4,), 'float32')):\n        y = M.f{i + 1}(x)\n        return y"
        for i in range(400)
    )
    mod = parse(
        "@I.ir_module\nclass M:\n" + functions
        + "\n    @R.function\n    def f400(x: R.Tensor((4,), 'float32')):\n        return x"
    )  # fmt: skip
    assert detect_recursion(mod) == []
    assert struct_info_text(mod["f0"].ret_struct_info) == 'R.Tensor((4,), "float32")'


def test_impure_calls():
    mod = parse("""
    @I.ir_module
    class M:
        @R.function
        def pure(x: R.Tensor((4,), "float32")):
            @R.function(pure=False)
            def f(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                b = R.print(a, format="{}")
                return a
            y = R.exp(x)
            return y

        @R.function(pure=False)
        def impure(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
            if c:
                a = R.print(x, format="{}")
                y = x
            else:
                y = x
            return y

        @R.function(pure=False)
        def recursive(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = M.recursive(x)
            return y

        @R.function
        def forced(x: R.Tensor((4,), "float32")):
            R.func_attr({"relax.force_pure": True})
            a = R.print(x, format="{}")
            return x
    """)
    assert not contains_impure_call(mod["pure"])
    assert contains_impure_call(mod["impure"])
    assert find_impure_call(mod["impure"]).op.name == "relax.print"
    assert contains_impure_call(mod["recursive"])
    assert not contains_impure_call(mod["recursive"], mod.get_global_var("recursive"))
    assert not contains_impure_call(mod["forced"])


def test_what_depends_on_weights_alone_is_computable_at_compile_time():
    func = parse("""
    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32"), b: R.Tensor((4,), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            wt = R.permute_dims(w)
            y = R.matmul(x, wt)
            bb = R.add(b, b)
            z = R.add(y, bb)
            R.output(z)
        return z
    """)
    assert names(computable_at_compile_time(func)) == ["w", "b", "wt", "bb"]
    assert computable_at_compile_time(func.without_attr("num_input")) == []


def test_sizes_that_weights_tell_are_known_at_compile_time():
    func = parse("""
    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32"),
        w: R.Tensor(("k", 4), "float32"),
        b: R.Tensor(ndim=1, dtype="float32"),
    ):
        R.func_attr({"num_input": 1})
        n, k, m, j = T.int64(), T.int64(), T.int64(), T.int64()
        flat = R.reshape(w, (k * 4,))
        cast = R.match_cast(b, R.Tensor((m,), "float32"))
        made = R.zeros(R.shape([m, k]), "float32")
        per_row = R.zeros(R.shape([n, k]), "float32")
        of_x = R.match_cast(x, R.Tensor((j, 4), "float32"))
        as_long = R.match_cast(b, R.Tensor((n,), "float32"))
        as_long_too = R.match_cast(b, R.Tensor((j,), "float32"))
        again = R.match_cast(b, R.Tensor((m,), "float32"))
        return (flat, cast, made, per_row, of_x, as_long, as_long_too, again)
    """)
    found = names(computable_at_compile_time(func))
    assert found == ["w", "b", "flat", "cast", "made", "again"]
    untyped = Function([Var("x")], SeqExpr([], const(1)), attrs={"num_input": 0})
    assert names(computable_at_compile_time(untyped)) == ["x"]


n = SizeVar("n", "int64")


@pytest.mark.parametrize(
    ("base", "derived", "result"),
    [
        (ObjectStructInfo(), TensorStructInfo((4,)), BaseCheckResult.PASS),
        (TensorStructInfo((4,)), TensorStructInfo((4,)), BaseCheckResult.PASS),
        (TensorStructInfo((4,)), TensorStructInfo((5,)), BaseCheckResult.FAIL_L0),
        (TensorStructInfo((4,)), ShapeStructInfo((4,)), BaseCheckResult.FAIL_L0),
        (TensorStructInfo((4,)), ObjectStructInfo(), BaseCheckResult.FAIL_L1),
        (TensorStructInfo((4,)), TensorStructInfo((4,), ""), BaseCheckResult.FAIL_L1),
        (TensorStructInfo((4,)), TensorStructInfo(ndim=1), BaseCheckResult.FAIL_L2),
        (TensorStructInfo((4,)), TensorStructInfo((n,)), BaseCheckResult.FAIL_L2),
    ],
)
def test_base_check_has_four_levels(base, derived, result):
    assert struct_info_base_check(base, derived) is result


def test_the_result_of_a_call_by_the_callees_struct_info():
    x = Var("x", TensorStructInfo((3,)))
    f = Var("f", FuncStructInfo([TensorStructInfo((n,))], TensorStructInfo((n, n))))
    info = derive_call_ret_struct_info(f.struct_info, Call(f, [x]))
    assert struct_info_text(info) == 'R.Tensor((3, 3), "float32")'


def test_static_struct_info_forgets_shapes_and_values():
    info = TupleStructInfo([
        TensorStructInfo((n, 4)), ShapeStructInfo((n,)), PrimStructInfo(value=n), ObjectStructInfo(),
        FuncStructInfo([TensorStructInfo((n,))], TensorStructInfo((n,))),
    ])  # fmt: skip
    assert struct_info_text(get_static_struct_info(info)) == (
        'R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Shape(ndim=1), R.Prim("int64"), R.Object, '
        'R.Callable((R.Tensor(dtype="float32", ndim=1),), R.Tensor(dtype="float32", ndim=1)))'
    )


def test_symbolic_shapes():
    assert has_symbolic_shape(Var("x", TensorStructInfo((n,))))
    assert has_symbolic_shape(Var("x", TensorStructInfo(Var("s", ShapeStructInfo(ndim=1)))))
    assert not has_symbolic_shape(Var("x", TensorStructInfo((4,))))


def test_variables_of_an_annotation():
    n, m = SizeVar("n", "int64"), SizeVar("m", "int64")
    info = TupleStructInfo([TensorStructInfo((n, m + 1)), ShapeStructInfo([n])])
    assert analysis.definable_tir_vars_in_struct_info(info) == [n]
    assert analysis.tir_vars_in_struct_info(info) == [n, m]


def test_static_struct_info_of_every_kind():
    n = SizeVar("n", "int64")
    packed = FuncStructInfo.opaque_func()
    info = TupleStructInfo(
        [
            TensorStructInfo((n, 4), "int8"), ShapeStructInfo([n]), PrimStructInfo(value=n), ObjectStructInfo(),
            FuncStructInfo([TensorStructInfo((n,))], TensorStructInfo((n,)), False), packed,
        ]
    )  # fmt: skip
    found = analysis.get_static_struct_info(info)
    assert struct_info_text(found) == (
        'R.Tuple(R.Tensor(dtype="int8", ndim=2), R.Shape(ndim=1), R.Prim("int64"), R.Object, '
        'R.Callable((R.Tensor(dtype="float32", ndim=1),), R.Tensor(dtype="float32", ndim=1), purity=False), '
        'R.PackedFunc(derive="relax.default_derivation", purity=False))'
    )
    assert found.fields[5] is packed


def test_the_check_of_what_was_derived_finds_impure_calls():
    x = Var("x", TensorStructInfo((4,)))
    effect, y = op.print(x), Var("y", TupleStructInfo([]))
    set_slot(effect, "_struct_info", TupleStructInfo([]))
    block = BindingBlock([VarBinding(y, effect)])
    seq = SeqExpr([block], x)
    set_slot(seq, "_struct_info", x.struct_info)
    func = Function([x], seq)
    set_slot(func, "_struct_info", FuncStructInfo([x.struct_info], x.struct_info))
    assert [d.code for d in analysis.check_derived(func)] == ["E3005"]
    forced = func.with_attr("relax.force_pure", True)
    set_slot(forced, "_struct_info", func.struct_info)
    assert analysis.check_derived(forced) == []


def test_called_functions_are_kernels_too():
    called = parse("""
        @I.ir_module
        class M:
            @T.prim_func(private=True)
            def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
                for i in range(4):
                    B[i] = A[i]

            @R.function(private=True)
            def f(x: R.Tensor((4,), "float32")):
                return x

            @R.function(private=True)
            def named(x: R.Tensor((4,), "float32")):
                return x

            @R.function
            def main(x: R.Tensor((4,), "float32")):
                cls = M
                y = R.call_tir(cls.kernel, (x,), R.Tensor((4,), "float32"))
                g = cls.named
                return cls.f(cls.f(y))
    """)["main"]
    assert names(called_global_vars(called)) == ["kernel", "f"]
    assert sorted(names(all_global_vars(called))) == ["f", "kernel", "named"]


def test_functions_are_reached_by_their_names():
    """A packed function named in Relax, or in a call of TIR, may be a PrimFunc of the module."""
    mod = parse("""
        @I.ir_module
        class M:
            @T.prim_func
            def inner():
                T.evaluate(0)

            @T.prim_func
            def kernel():
                T.call_packed("inner")

            @T.prim_func
            def unused():
                T.evaluate(0)

            @R.function(pure=False)
            def main() -> R.Object:
                return R.call_packed("kernel", sinfo_args=R.Object)
    """)
    assert reachable(mod, {"main"}) == {"main", "kernel", "inner"}
    assert references(mod["main"], {"main", "kernel", "inner"}) == {"kernel"}


def test_static_struct_info_of_a_part_that_is_shared_is_made_once():
    part = TensorStructInfo((4,), "float32")
    static = get_static_struct_info(TupleStructInfo([part, TupleStructInfo([part])]))
    assert static.fields[0] is static.fields[1].fields[0]
