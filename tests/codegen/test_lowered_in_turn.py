"""Kernels of a build are lowered a few at once, when those before them are written."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import codegen, tir
from relax.codegen.module import written_kernels
from relax.ir import Diagnostic, DiagnosticError, GlobalVar, IRModule
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T


@T.prim_func
def doubled(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in T.parallel(n):
        with T.sblock("doubled"):
            v = T.axis.spatial(n, i)
            B[v] = A[v] * T.float32(2)


def lowered(group):
    return {g.name_hint: f for g, f in tir.lower(IRModule(group)).functions.items()}


def test_kernels_are_written_before_all_are_lowered():
    names = [f"f{i}" for i in range(10)]
    asked = []

    def lowering(group):
        asked.extend(group)
        return lowered(group)

    written, seen = [], []
    for text in written_kernels(dict.fromkeys(names, doubled), codegen.resolve(), lowering=lowering):
        written += text.names
        seen.append(len(asked))
        assert text.bodies == (f"{text.names[0]}_parallel",)
    assert written == names == asked
    assert seen[0] < 10


def test_large_kernels_are_lowered_first_and_each_by_itself(kernels):
    """Other processes may take what is left; the largest would be waited for longest."""
    buffer = tir.decl_buffer((4096,), "float32", "A")

    def storing(count):
        stores = [tir.BufferStore(buffer, tir.const(1.0, "float32"), [i]) for i in range(count)]
        return kernels.over(tir.SeqStmt(tuple(stores)), buffer)

    funcs = {"a": doubled, "large": storing(1000), "b": doubled, "larger": storing(1500), "c": doubled}
    asked = []

    def lowering(group):
        asked.append(list(group))
        return lowered(group)

    texts = list(written_kernels(funcs, codegen.resolve(), lowering=lowering))
    assert asked == [["larger"], ["large"], ["a", "b", "c"]]
    assert [text.names[0] for text in texts] == ["larger", "large", "a", "b", "c"]


def test_errors_of_all_kernels_arrive_together():
    names = [f"f{i}" for i in range(10)]

    def lowering(group):
        wrong = [Diagnostic("E5904", name) for name in group if name in ("f1", "f9")]
        if wrong:
            raise DiagnosticError(wrong)
        return lowered(group)

    with pytest.raises(DiagnosticError) as caught:
        list(written_kernels(dict.fromkeys(names, doubled), codegen.resolve(), lowering=lowering))
    assert [d.message for d in caught.value.diagnostics] == ["f1", "f9"]


def test_a_kernel_may_have_the_name_of_another_ones_loop():
    """Also one that is lowered before that, or after it."""

    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def f(A: T.Buffer((100000,), "float32"), B: T.Buffer((100000,), "float32")):
            for i in T.parallel(100000):
                B[i] = T.exp(A[i])

        @T.prim_func(private=True)
        def f_parallel(A: T.Buffer((100000,), "float32"), B: T.Buffer((100000,), "float32")):
            for i in T.parallel(100000):
                B[i] = T.tanh(A[i])

        @R.function
        def main(x: R.Tensor((100000,), "float32")):
            y = R.call_tir(Module.f, (x,), R.Tensor((100000,), "float32"))
            z = R.call_tir(Module.f_parallel, (y,), R.Tensor((100000,), "float32"))
            return z

    x = np.linspace(-3, 3, 100000, dtype="float32")
    f, loop, main = Module.functions.items()
    others = [(GlobalVar(f"other{i}"), f[1]) for i in range(8)]
    for functions in ((f, *others, loop, main), (loop, *others, f, main)):
        module = Module.with_functions(dict(functions))
        executable = relax.build(module, "llvm -num-cores=8", pipeline=relax.transform.CallTIRRewrite())
        vm = relax.VirtualMachine(executable, relax.cpu())
        np.testing.assert_allclose(vm["main"](x).numpy(), np.tanh(np.exp(x)), rtol=1e-5)
