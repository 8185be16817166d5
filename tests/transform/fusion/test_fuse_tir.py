"""FuseTIR: functions of kernels become kernels."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import FuseOps, FuseTIR
from support import PLAIN_LOOPS, module

from .conftest import fused, kernels, legalized

ADD = """
    @T.prim_func(private=True)
    def add(a: T.handle, B: T.Buffer((4,), "float16"), c: T.handle):
        n = T.int64()
        T.precondition(n < 100, "too many rows")
        A = T.match_buffer(a, (n, 4), "float16")
        C = T.match_buffer(c, (n, 4), "float16")
        for i, j in T.grid(n, T.int64(4)):
            with T.block("compute"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                C[v_i, v_j] = A[v_i, v_j] + B[v_j]
"""

SQUARE = """
    @T.prim_func(private=True)
    def square(a: T.handle, b: T.handle):
        n = T.int64()
        m = T.int64()
        A = T.match_buffer(a, (n, m), "float16")
        B = T.match_buffer(b, (n, m), "float16")
        for i, j in T.grid(n, m):
            with T.block("compute"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                B[v_i, v_j] = A[v_i, v_j] * A[v_i, v_j]
"""

MAIN = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float16"), y: R.Tensor((4,), "float16")) -> R.Tensor(("n", 4), "float16"):
        with R.dataflow():
            gv = cls.fused(x, y)
            R.output(gv)
        return gv
"""

PRIMITIVE = """
    @R.function(private=True)
    def fused(x: R.Tensor(("n", 4), "float16"), y: R.Tensor((4,), "float16")) -> R.Tensor(("n", 4), "float16"):
        R.func_attr({"Primitive": 1})
        n = T.int64()
        with R.dataflow():
            lv = R.call_tir(cls.add, (x, y), R.Tensor((n, 4), "float16"))
            gv = R.call_tir(cls.square, (lv,), R.Tensor((n, 4), "float16"))
            R.output(gv)
        return gv
"""

EXPECTED = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float16"), y: R.Tensor((4,), "float16")) -> R.Tensor(("n", 4), "float16"):
        n = T.int64()
        with R.dataflow():
            gv = R.call_tir(cls.fused, (x, y), R.Tensor((n, 4), "float16"))
            R.output(gv)
        return gv

    @T.prim_func(private=True)
    def fused(var_x: T.handle, y: T.Buffer((4,), "float16"), var_B: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int64()
        T.precondition(n < 100, "too many rows")
        x = T.match_buffer(var_x, (n, 4), "float16")
        B = T.match_buffer(var_B, (n, 4), "float16")
        for i, j in T.grid(n, T.int64(4)):
            with T.block("compute"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                C = T.float16()
                B[v_i, v_j] = T.Let(C * C, where={C: x[v_i, v_j] + y[v_j]})
"""


def test_a_function_of_two_kernels_becomes_one(check):
    check(FuseTIR(), module(MAIN, PRIMITIVE, ADD, SQUARE), module(EXPECTED))


def test_kernels_used_elsewhere_stay():
    other = """
    @R.function
    def other(x: R.Tensor(("n", 4), "float16")) -> R.Tensor(("n", 4), "float16"):
        n = T.int64()
        gv = R.call_tir(cls.square, (x,), R.Tensor((n, 4), "float16"))
        return gv
"""
    after = FuseTIR()(module(MAIN, PRIMITIVE, ADD, SQUARE, other))
    assert [g.name_hint for g in after.functions] == ["main", "fused", "square", "other"]


def test_preconditions_are_kept(check):
    after = FuseTIR()(module(MAIN, PRIMITIVE, ADD, SQUARE))
    main = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS), relax.cpu())["main"]
    assert main(np.ones((99, 4), "float16"), np.ones(4, "float16")).shape == (99, 4)
    with pytest.raises(AssertionError, match="too many rows"):
        main(np.ones((100, 4), "float16"), np.ones(4, "float16"))


DECLINED = {
    "an operator": ("gv = R.call_tir(cls.square, (lv,)", "gv = R.exp(lv) #"),
    "an entry point": ("@R.function(private=True)\n    def fused", "@R.function\n    def fused"),
    "no primitive function": ("R.func_attr", "0; #"),
    "a parameter as the result": ("        return gv\n", "        return x\n"),
    "the same result twice": ("        return gv\n", "        return (gv, gv)\n"),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_is_left_alone(check, name):
    old, new = DECLINED[name]
    assert old in PRIMITIVE
    text = PRIMITIVE.replace(old, new).replace('0; #({"Primitive": 1})', "")
    if "return" in new:
        text = text.replace(' -> R.Tensor(("n", 4), "float16"):', ":")
        check(FuseTIR(), module(MAIN.replace(' -> R.Tensor(("n", 4), "float16"):', ":"), text, ADD, SQUARE))
    else:
        check(FuseTIR(), module(MAIN, text, ADD, SQUARE))


def test_a_function_with_two_results():
    pair = ' -> R.Tuple(R.Tensor(("n", 4), "float16"), R.Tensor(("n", 4), "float16")):'
    one = ' -> R.Tensor(("n", 4), "float16"):'
    text = PRIMITIVE.replace(one, pair).replace("            lv =", "            both =").replace("(lv,)", "(both,)")
    text = text.replace("R.output(gv)", "R.output(both, gv)").replace("return gv", "return (gv, both)")
    before = module(MAIN.replace(one, pair), text, ADD, SQUARE)
    after = FuseTIR()(before)
    relax.analysis.assert_well_formed(after)
    assert kernels(after) == ["fused"]
    x, y = np.arange(8, dtype="float16").reshape(2, 4), np.ones(4, "float16")
    for mod in (before, after):
        gv, both = relax.interpret(mod, "main", x, y)
        assert (gv.numpy() == (x + y) ** 2).all()
        assert (both.numpy() == x + y).all()


def test_functions_that_are_values_are_left_alone(check):
    closure = """
    @R.function
    def get() -> R.Object:
        f = cls.fused
        return f
"""
    check(FuseTIR(), module(MAIN, PRIMITIVE, ADD, SQUARE, closure))


def test_sizes_reach_the_kernel_by_tir_vars():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((4,), "float32"), s: R.Shape(["n"])):
            n = T.int64()
            with R.dataflow():
                a = R.exp(R.broadcast_to(x, R.shape([n * 2, 4])))
                R.output(a)
            return a

    after = fused(legalized(Mod))
    call = after["main"].body.blocks[0].bindings[0].value
    assert str(call.args[2]) == "R.shape([n])"
    kernel = after["fused_broadcast_to_exp"]
    assert [param.name for param in kernel.params][1] == "n"


def test_several_outputs():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            with R.dataflow():
                s = R.split(R.exp(x), 2, axis=1)
                t = s[0]
                u = s[1]
                R.output(t, u)
            return (t, u)

    after = fused(legalized(Mod))
    assert kernels(after) == ["fused_exp_split"]
    assert len(after["fused_exp_split"].params) == 3


def test_outputs_nobody_reads_are_not_computed():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), g: R.Tensor((4,), "float32")):
            with R.dataflow():
                z = R.nn.batch_norm(x, g, g, g, g, axis=1, training=False)
                y = R.nn.relu(z[0])
                R.output(y)
            return y

    text = fused(legalized(Mod))["fused_batch_norm_relu"].script()
    assert text.count("T.block(") == 1
    assert "moving" not in text


def test_rounding_between_operators_is_kept():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((3,), "float16"), y: R.Tensor((3,), "float16")):
            with R.dataflow():
                a = R.subtract(R.add(x, y), x)
                R.output(a)
            return a

    x, y = np.array([2048, 1, 60000], "float16"), np.array([1, 2**-12, 60000], "float16")
    main = relax.VirtualMachine(relax.build(Mod, PLAIN_LOOPS), relax.cpu())["main"]
    assert main(x, y).numpy().tolist() == [0.0, 0.0, np.inf]


def test_one_kernel_twice_in_a_group():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.nn.softmax(R.exp(R.exp(R.nn.softmax(x))))
                R.output(a)
            return a

    grouped = FuseOps()(legalized(Mod))
    after = FuseTIR()(grouped)
    relax.analysis.assert_well_formed(after)
    for function in after.functions.values():
        if isinstance(function, relax.tir.PrimFunc):
            names = block_names(function)
            assert len(names) == len(set(names))


def block_names(function):
    names = []

    def visit(node):
        if isinstance(node, relax.tir.Block):
            names.append(node.name_hint)

    relax.tir.stmt_functor.post_order_visit(function.body, visit)
    return names
