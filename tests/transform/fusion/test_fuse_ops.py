"""FuseOps: kernels are grouped by post-dominators."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.analysis import assert_well_formed
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.tir.op_pattern import OpPatternKind as Kind
from relax.transform import FuseOps, PassContext, VerifyInstrument
from relax.transform.fusion.groups import FusionNode, fusion_groups, post_dominators
from support import PLAIN_LOOPS, module

from .conftest import legalized


def grouped(mod, **options):
    """The groups of a program, by the names of their functions and the calls that stay."""
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        before = legalized(mod)
        after = FuseOps(**options)(before)
        assert FuseOps(**options)(after) is after
    called = []

    def visit(node):
        if isinstance(node, relax.Call):
            first = node.op if isinstance(node.op, relax.GlobalVar) else node.args[0]
            if isinstance(first, relax.GlobalVar):
                called.append(first.name_hint)

    relax.ir.walk(after["main"], visit)
    return called


KERNELS = """
    @T.prim_func(private=True)
    def add(a: T.handle, B: T.Buffer((4,), "float32"), c: T.handle):
        T.func_attr({"op_pattern": 0})
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        C = T.match_buffer(c, (n, 4), "float32")
        for i, j in T.grid(n, T.int64(4)):
            with T.block("add"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                C[v_i, v_j] = A[v_i, v_j] + B[v_j]

    @T.prim_func(private=True)
    def relu(a: T.handle, b: T.handle):
        T.func_attr({"op_pattern": 0})
        n = T.int64()
        m = T.int64()
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (n, m), "float32")
        for i, j in T.grid(n, m):
            with T.block("relu"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                B[v_i, v_j] = T.max(A[v_i, v_j], T.float32(0))
"""

BEFORE = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        with R.dataflow():
            lv = R.call_tir(cls.add, (x, y), R.Tensor((n, 4), "float32"))
            gv = R.call_tir(cls.relu, (lv,), R.Tensor((n, 4), "float32"))
            R.output(gv)
        return gv
"""

GROUPED = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor(("n", 4), "float32"):
        with R.dataflow():
            gv = cls.fused_add_relu(x, y)
            R.output(gv)
        return gv
"""

FUNCTION = """
    @R.function(private=True)
    def fused_add_relu(
        x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4,), "float32")
    ) -> R.Tensor(("n", 4), "float32"):
        R.func_attr({"Primitive": 1})
        n = T.int64()
        with R.dataflow():
            lv = R.call_tir(cls.add, (x, y), R.Tensor((n, 4), "float32"))
            gv = R.call_tir(cls.relu, (lv,), R.Tensor((n, 4), "float32"))
            R.output(gv)
        return gv
"""


def test_a_chain_becomes_a_function(check):
    before = module(BEFORE, KERNELS)
    check(FuseOps(), before, module(GROUPED, KERNELS, FUNCTION))
    check(FuseOps(fuse_opt_level=0), before)
    with PassContext(opt_level=0):
        assert FuseOps()(before) is before
    with PassContext(config={"relax.FuseOps.max_depth": 1}):
        assert FuseOps()(before) is before


def test_a_size_that_no_tensor_tells_is_passed():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((4,), "float32"), s: R.Shape(["n"])):
            n = T.int64()
            with R.dataflow():
                a = R.exp(R.broadcast_to(x, R.shape([n, 4])))
                R.output(a)
            return a

    after = FuseOps()(legalized(Mod))
    fused = after["fused_broadcast_to_exp"]
    assert str(fused.params[-1].struct_info) == "R.Shape([n])"
    assert str(after["main"].body.blocks[0].bindings[0].value.args[-1]) == "R.shape([n])"


SPREAD = """
    @T.prim_func(private=True)
    def spread(A: T.Buffer((1, 3), "float32"), b: T.handle):
        T.func_attr({"op_pattern": 1})
        n = T.int64()
        B = T.match_buffer(b, (n, 3), "float32")
        for i, j in T.grid(n, T.int64(3)):
            with T.block("spread"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                B[v_i, v_j] = A[0, v_j]
"""


def test_a_shape_that_is_a_variable_of_the_caller(check):
    """The result of a group is described by its dimensions, not by a variable that its function does not have."""
    params = 'x: R.Tensor((1, 3), "float32"), y: R.Tensor(("n", 3), "float32")'
    before = module(
        f"""
        @R.function
        def main({params}) -> R.Tensor(ndim=2, dtype="float32"):
            n = T.int64()
            with R.dataflow():
                lv = R.call_tir(cls.relu, (x,), R.Tensor((1, 3), "float32"))
                s = R.shape_of(y)
                lv1: R.Tensor(s, "float32") = R.call_tir(cls.spread, (lv,), R.Tensor((n, 3), "float32"))
                gv = R.call_tir(cls.relu, (lv1,), R.Tensor((n, 3), "float32"))
                R.output(gv)
            return gv
        """,
        KERNELS,
        SPREAD,
    )
    expected = module(
        f"""
        @R.function
        def main({params}) -> R.Tensor(ndim=2, dtype="float32"):
            n = T.int64()
            with R.dataflow():
                s = R.shape_of(y)
                lv1: R.Tensor(s, "float32") = cls.fused_relu_spread(x, R.shape([n]))
                gv = R.call_tir(cls.relu, (lv1,), R.Tensor((n, 3), "float32"))
                R.output(gv)
            return gv
        """,
        KERNELS,
        SPREAD,
        """
        @R.function(private=True)
        def fused_relu_spread(
            x: R.Tensor((1, 3), "float32"), sizes: R.Shape(["n"])
        ) -> R.Tensor(("n", 3), "float32"):
            R.func_attr({"Primitive": 1})
            n = T.int64()
            with R.dataflow():
                lv = R.call_tir(cls.relu, (x,), R.Tensor((1, 3), "float32"))
                lv1 = R.call_tir(cls.spread, (lv,), R.Tensor((n, 3), "float32"))
                R.output(lv1)
            return lv1
        """,
    )
    check(FuseOps(), before, expected)


def test_what_a_diamond_and_a_residual_become():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.negative(a)
                c = R.sqrt(a)
                d = R.add(b, c)
                e = R.add(R.nn.relu(R.matmul(d, w)), d)
                f = R.sum(e, axis=[1])
                g = R.sin(f)
                R.output(g)
            return g

    assert grouped(Mod) == ["fused_exp_negative_sqrt_add", "fused_matmul_relu_add", "fused_sum_sin"]


def test_squares_join_the_mean_of_a_normalisation():
    """Its mean keeps the dimension: an element is read once all the same."""

    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n", 8), "float32")):
            with R.dataflow():
                d = R.subtract(x, R.mean(x, axis=[-1], keepdims=True))
                v = R.mean(R.square(d), axis=[-1], keepdims=True)
                y = R.divide(d, R.sqrt(v))
                R.output(y)
            return y

    assert grouped(Mod) == ["mean", "subtract", "fused_square_mean_sqrt", "divide"]


def test_outputs_are_the_last_of_a_group():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            with R.dataflow():
                a = R.exp(R.negative(x))
                b = R.sqrt(R.abs(a))
                t = (a, b)
                R.output(t, b)
            return (t, b)

    assert grouped(Mod) == ["fused_negative_exp", "fused_abs_sqrt"]


def test_a_field_of_another_kernels_tuple_is_given_not_the_tuple():
    """Keys of a decoder, cut out of one product, behind those of the tokens before: FuseTIR makes one kernel of it."""

    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n", 12), "float32"), past: R.Tensor((4, "m"), "float32")):
            with R.dataflow():
                parts = R.split(x, 3, axis=1)
                keys = R.concat([past, R.permute_dims(parts[1])], axis=1)
                y = R.add(parts[0], parts[2])
                R.output(keys, y)
            return (keys, y)

    fused = FuseOps()(legalized(Mod))
    params = fused["fused_transpose_concatenate"].params
    assert [str(param.struct_info) for param in params] == [
        'R.Tensor((n, 4), dtype="float32")',
        'R.Tensor((4, m), dtype="float32")',
    ]
    assert isinstance(relax.transform.FuseTIR()(fused)["fused_transpose_concatenate"], relax.tir.PrimFunc)
    vm = relax.VirtualMachine(relax.build(Mod, PLAIN_LOOPS), relax.cpu())
    for n, m in ((3, 5), (0, 2), (1, 0)):
        x = np.arange(n * 12, dtype="float32").reshape(n, 12)
        past = np.ones((4, m), "float32")
        keys, y = vm["main"](x, past)
        np.testing.assert_array_equal(keys.numpy(), np.concatenate([past, x[:, 4:8].T], axis=1))
        np.testing.assert_array_equal(y.numpy(), x[:, :4] + x[:, 8:])


def test_reductions_do_not_join_each_other():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            with R.dataflow():
                a = R.sum(R.exp(x), axis=[1])
                b = R.max(a, axis=[0])
                c = R.subtract(x, R.sum(x, axis=[1], keepdims=True))
                R.output(b, c)
            return (b, c)

    assert grouped(Mod) == ["fused_exp_sum", "max", "sum1", "subtract"]


def test_equal_groups_are_one_function():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
            with R.dataflow():
                a = R.exp(R.negative(x))
                b = R.exp(R.negative(y))
                R.output(a, b)
            return (a, b)

    assert grouped(Mod) == ["fused_negative_exp", "fused_negative_exp"]


def test_nothing_is_fused_over_a_write():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                z = R.call_tir(Mod.double, (x,), R.Tensor((4,), "float32"))
                a = R.call_tir(Mod.double, (z,), R.Tensor((4,), "float32"))
                b = R.call_tir_inplace(Mod.clear, (z,), inplace_indices=[0], out_sinfo=R.Tensor((4,), "float32"))
                c = R.call_tir(Mod.add, (a, b), R.Tensor((4,), "float32"))
                R.output(c)
            return c

        @T.prim_func(private=True)
        def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] * T.float32(2)

        @T.prim_func(private=True)
        def clear(A: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("A"):
                    v = T.axis.spatial(4, i)
                    A[v] = T.float32(0)

        @T.prim_func(private=True)
        def add(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("C"):
                    v = T.axis.spatial(4, i)
                    C[v] = A[v] + B[v]

    assert grouped(Mod) == ["double", "double", "clear", "add"]


def test_calls_that_may_not_fit_are_left_alone():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
            n = T.int64()
            with R.dataflow():
                a = R.call_tir(Mod.add, (x, y), R.Tensor((n,), "float32"))
                b = R.call_tir(Mod.add, (a, x), R.Tensor((n,), "float32"))
                c = R.call_tir(Mod.add, (b, b), R.Tensor((n,), "float32"))
                R.output(c)
            return c

        @T.prim_func(private=True)
        def add(a: T.handle, b: T.handle, c: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n,), "float32")
            B = T.match_buffer(b, (n,), "float32")
            C = T.match_buffer(c, (n,), "float32")
            for i in range(n):
                with T.block("C"):
                    v = T.axis.spatial(n, i)
                    C[v] = A[v] + B[v]

    assert grouped(Mod) == ["add", "fused_add_add"]  # whether n is m is checked where the first is called


# ------------------------------------------------------------------------------------------ groups


def graph(kinds, edges, external=()):
    nodes = [FusionNode(kind, [], i in external) for i, kind in enumerate(kinds)]
    for source, target in edges:
        nodes[source].consumers.append((target, kinds[target]))
    return nodes


E, B, J, R3, C4, O = (
    Kind.ELEMWISE,
    Kind.BROADCAST,
    Kind.INJECTIVE,
    Kind.COMM_REDUCE,
    Kind.OUT_ELEMWISE_FUSABLE,
    Kind.OPAQUE,
)


@pytest.mark.parametrize(
    ("kinds", "edges", "expected"),
    [
        ([E, E, E, E], [(0, 1), (0, 2), (1, 3), (2, 3)], [[0, 1, 2, 3]]),
        ([E, O, E], [(0, 1), (0, 2), (1, 2)], []),
        ([C4, E, C4, E], [(0, 1), (1, 3), (2, 3)], [[0, 1, 3]]),
        ([J, J, E], [(0, 1), (1, 2)], [[0, 1, 2]]),
        ([J, R3], [(0, 1)], []),
        ([B, R3, E], [(0, 1), (1, 2)], [[0, 1, 2]]),
        ([E, C4], [(0, 1)], []),
        ([R3, B], [(0, 1)], []),
        ([E, E], [], []),
    ],
)
def test_groups(kinds, edges, expected):
    nodes = graph(kinds, edges)
    assert sorted(fusion_groups(nodes, 256)) == expected


def test_post_dominators():
    nodes = graph([E, E, E, E, E], [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)], external=[4])
    assert [node.parent for node in post_dominators(nodes)] == [3, 3, 3, 4, None]
    nodes = graph([E, E, E], [(0, 1), (0, 2)])
    assert [node.parent for node in post_dominators(nodes)] == [None, None, None]


def test_places_keep_nodes_apart():
    nodes = graph([E, E], [(0, 1)])
    nodes[1].place = 1
    assert fusion_groups(nodes, 256) == []


def test_a_reshape_at_the_end_of_a_group_stays_a_view():
    """Loops over the shape before divide no indices. What the block gives away is no view: it stays in the group."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 6, 4), "float32")):
            n = T.int64()
            with R.dataflow():
                lv = R.exp(x)
                lv1 = R.nn.relu(lv)
                lv2 = R.reshape(lv1, (n, 24))
                lv3 = R.sum(lv2, axis=[1])
                lv4 = R.max(lv2, axis=[1])
                lv5 = R.exp(R.exp(x))
                out = R.reshape(lv5, (n, 24))
                R.output(lv3, lv4, out)
            return (lv3, lv4, out)

    assert sorted(grouped(Module)) == ["fused_exp_exp_reshape", "fused_exp_relu", "max", "reshape", "sum"]


def test_a_reshape_stays_a_view_beside_groups_and_read_by_one():
    """Functions of groups only read, so a second run takes the same results for views."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 6, 4), "float32")):
            n = T.int64()
            with R.dataflow():
                lv = R.exp(x)
                view = R.reshape(lv, (n, 24))
                sums = R.sum(view, axis=[1])
                lv1 = R.nn.relu(R.negative(view))
                lv2 = R.max(lv1, axis=[1])
                R.output(sums, lv1, lv2)
            return (sums, lv1, lv2)

    assert sorted(grouped(Module)) == ["exp", "fused_negative_relu", "max", "reshape", "sum"]


@pytest.mark.parametrize("is_result", [False, True])
def test_bytes_become_floats_where_these_are_read(is_result):
    """A product gives bytes, and the sum behind another one makes floats of them, unless others read these too."""
    mod = relax.script.from_source(f"""
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32"), v: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            q = R.quantize(a, R.const(0.5), R.const(3, "uint8"), out_dtype="uint8")
            d = R.dequantize(q, R.const(0.5), R.const(3, "uint8"))
            b = R.matmul(x, v)
            r = R.quantize(b, R.const(0.25), R.const(9, "uint8"), out_dtype="uint8")
            e = R.dequantize(r, R.const(0.25), R.const(9, "uint8"))
            c = R.add(d, e)
            R.output({"c, d, e" if is_result else "c"})
        return {"(c, d, e)" if is_result else "c"}
""")
    first, last = "fused_matmul_quantize", "fused_matmul_quantize_dequantize"
    assert grouped(mod) == ([last, last, "add"] if is_result else [first, f"{last}_dequantize_add"])
    x = np.random.default_rng(0).standard_normal((5, 8)).astype("float32")
    main = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"]
    for rows in (x, x[:1], x[:0]):
        result = main(rows, np.eye(8, dtype="float32"), np.ones((8, 8), "float32"))
        d = np.clip(np.rint(rows * 2) + 3, 0, 255) / 2 - 1.5
        total = (result[0] if is_result else result).numpy()
        e = np.clip(np.rint(rows.sum(axis=1, keepdims=True) * 4) + 9, 0, 255) / 4 - 2.25
        np.testing.assert_array_equal(total, d + e)
