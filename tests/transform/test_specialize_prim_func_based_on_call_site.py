"""SpecializePrimFuncBasedOnCallSite: sizes and memory scopes on which all calls of a PrimFunc agree."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.analysis import assert_well_formed
from relax.ir import DiagnosticError, structural_equal
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import (
    BindSymbolicVars,
    LegalizeOps,
    PassContext,
    SpecializePrimFuncBasedOnCallSite,
    VerifyInstrument,
)
from support import PLAIN_LOOPS


def applied(mod):
    """The module after the pass, which keeps its promises, and changes nothing the second time."""
    step = SpecializePrimFuncBasedOnCallSite()
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        after = step(mod)
        assert step(after) is after
    return after


@I.ir_module
class Rows:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        n = T.int64()
        cls = Rows
        with R.dataflow():
            y = R.call_tir(cls.twice, (x,), R.Tensor((n, 3), "float32"))
            z = R.call_tir(cls.twice, (y,), R.Tensor((n, 3), "float32"))
            R.output(z)
        return z

    @T.prim_func(private=True)
    def twice(x: T.handle, y: T.handle):
        p, q = T.int64(), T.int64()
        a = T.match_buffer(x, (p, q), "float32")
        b = T.match_buffer(y, (p, q), "float32")
        for i, j in T.grid(p, q):
            with T.block("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] + a[vi, vj]


def test_a_size_that_all_calls_say():
    @T.prim_func(private=True)
    def twice(x: T.handle, y: T.handle):
        p = T.int64()
        a = T.match_buffer(x, (p, T.int64(3)), "float32")
        b = T.match_buffer(y, (p, T.int64(3)), "float32")
        for i, j in T.grid(p, T.int64(3)):
            with T.block("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] + a[vi, vj]

    after = applied(Rows)
    assert after["main"] is Rows["main"]
    assert structural_equal(after["twice"], twice)
    main = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS))["main"]
    for n in (0, 1, 5):
        x = np.resize(np.array([np.nan, np.inf, -np.inf, -0.0, 1.5], "float32"), (n, 3))
        for found in (relax.interpret(after, "main", x), main(x)):
            np.testing.assert_array_equal(found.numpy(), 4 * x)


@pytest.mark.parametrize("sizes", [(0, 3), (1, 1), (4, 5)])
def test_all_sizes_known(sizes):
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor(sizes, "float32"))
    with builder.function("main", [x]):
        kernel = builder.add_func(Rows["twice"], "twice")
        call = relax.op.call_tir(kernel, (x,), R.Tensor(sizes, "float32"))
        builder.emit_func_output(builder.emit(call))
    after = applied(builder.get())
    shapes = [[int(size) for size in b.shape] for b in after["twice"].buffer_map.values()]
    assert shapes == [list(sizes)] * 2
    value = np.ones(sizes, "float32")
    np.testing.assert_array_equal(relax.interpret(after, "main", value).numpy(), value + value)
    main = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS))["main"]
    np.testing.assert_array_equal(main(value).numpy(), value + value)


@I.ir_module
class InPlace:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = InPlace
        y = R.call_tir(cls.copy, (x,), R.Tensor((4,), "float32"))
        z = R.call_tir_inplace(cls.increment, (y,), [0], R.Tensor((4,), "float32"), tir_vars=R.shape([2]))
        return z

    @T.prim_func(private=True)
    def copy(x: T.handle, y: T.handle):
        n = T.int64()
        a = T.match_buffer(x, (n,), "float32")
        b = T.match_buffer(y, (n,), "float32")
        for i in range(n):
            b[i] = a[i]

    @T.prim_func(private=True)
    def increment(x: T.handle, step: T.int64):
        n = T.int64()
        a = T.match_buffer(x, (n,), "float32")
        for i in range(n):
            a[i] = a[i] + T.cast(step, "float32")


def test_calls_in_place_and_integers():
    after = applied(InPlace)
    assert [int(b.shape[0]) for f in ("copy", "increment") for b in after[f].buffer_map.values()] == [4] * 3
    assert len(after["increment"].params) == 2  # the integer stays
    x = np.arange(4, dtype="float32")
    main = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS))["main"]
    for found in (relax.interpret(after, "main", x), main(x)):
        np.testing.assert_array_equal(found.numpy(), x + 2)


@I.ir_module
class Texture:
    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0, "global.texture")]})

    @R.function
    def main(x: R.Tensor((4,), "float32", "llvm:0")):
        cls = Texture
        y = R.call_tir(cls.copy, (x,), R.Tensor((4,), "float32", "llvm:0"))
        return y

    @T.prim_func(private=True)
    def copy(x: T.handle, y: T.handle):
        n = T.int64()
        a = T.match_buffer(x, (n,), "float32")
        b = T.match_buffer(y, (n,), "float32")
        for i in range(n):
            b[i] = a[i]


def test_memory_scopes_of_virtual_devices():
    after = applied(Texture)
    assert [b.scope for b in after["copy"].buffer_map.values()] == ["global.texture"] * 2
    x = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(relax.interpret(after, "main", x).numpy(), x)


@I.ir_module
class Stays:
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((3,), "float32"), z: R.Tensor("float32", ndim=1)):
        cls = Stays
        a = R.call_tir(cls.copy, (x,), R.Tensor((2,), "float32"))
        b = R.call_tir(cls.copy, (y,), R.Tensor((3,), "float32"))
        c = R.call_tir(cls.visible, (x,), R.Tensor((2,), "float32"))
        return a, b, c, z

    @T.prim_func(private=True)
    def copy(x: T.handle, y: T.handle):
        n = T.int64()
        a = T.match_buffer(x, (n,), "float32")
        b = T.match_buffer(y, (n,), "float32")
        for i in range(n):
            b[i] = a[i]

    @T.prim_func
    def visible(x: T.handle, y: T.handle):
        n = T.int64()
        a = T.match_buffer(x, (n,), "float32")
        b = T.match_buffer(y, (n,), "float32")
        for i in range(n):
            b[i] = a[i]


def test_what_stays():
    assert applied(Stays) is Stays


def test_a_kernel_called_in_another_way_stays():
    @I.ir_module
    class Direct:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32"), out: R.Tensor(("m",), "float32")):
            cls = Direct
            y = R.call_tir(cls.copy, (x,), R.Tensor((2,), "float32"))
            _ = cls.copy(out, out)
            return y

        @T.prim_func(private=True)
        def copy(x: T.handle, y: T.handle):
            n = T.int64()
            a = T.match_buffer(x, (n,), "float32")
            b = T.match_buffer(y, (n,), "float32")
            for i in range(n):
                b[i] = a[i]

    assert applied(Direct) is Direct


def test_arguments_of_another_size_are_refused_when_called():
    main = relax.VirtualMachine(relax.build(applied(Rows), PLAIN_LOOPS))["main"]
    with pytest.raises(ValueError, match="dimension 1 is 4, expected 3"):
        main(np.zeros((2, 4), "float32"))


def test_sizes_that_contradict_each_other_are_errors():
    text = Rows.script().replace("R.Tensor((n, 3), dtype", "R.Tensor((n, 4), dtype")
    text = text.replace('x: R.Tensor(("n", 3)', 'x: R.Tensor(("n", 5)')
    with pytest.raises(DiagnosticError, match="E3111.*dimension 1: expected 5, found 4") as error:
        relax.script.from_source(text)
    assert error.value.diagnostics[0].span is not None


@pytest.mark.parametrize("n", [0, 1, 3])
def test_sizes_bound_after_kernels_were_made(n):
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "n"), "float32")):
        return R.nn.relu(R.matmul(x, w))

    generic = LegalizeOps()(relax.IRModule.from_expr(main))
    assert applied(generic) is generic
    after = applied(BindSymbolicVars({"n": n})(generic))
    kernels = [f for f in after.functions.values() if isinstance(f, relax.tir.PrimFunc)]
    assert len(kernels) == 2
    assert all(isinstance(size, relax.tir.IntImm) for f in kernels for b in f.buffer_map.values() for size in b.shape)
    rng = np.random.default_rng(0)
    x, w = rng.random((n, 4), "float32"), rng.random((4, n), "float32")
    expected = relax.interpret(generic, "main", x, w).numpy()
    np.testing.assert_array_equal(relax.interpret(after, "main", x, w).numpy(), expected)
    main = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS))["main"]
    np.testing.assert_allclose(main(x, w).numpy(), expected, rtol=1e-6)
