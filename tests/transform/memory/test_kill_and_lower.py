"""KillAfterLastUse and LowerAllocTensor: what is killed where, and storages of single tensors."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.analysis import assert_well_formed
from relax.ir.transform import PassContext, VerifyInstrument
from relax.optimize.pipeline import GRAPH, LOWER, as_pass
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import KillAfterLastUse, LowerAllocTensor, LowerRuntimeBuiltin, VMBuiltinLower


@I.ir_module
class Lowered:
    @T.prim_func(private=True)
    def scale(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[i] * T.float32(2)

    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
        cls = Lowered
        n = T.int64()
        storage = R.memory.alloc_storage(R.shape([n * 8 + 64]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
        a = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([n]), R.dtype("float32"))
        _ = cls.scale(x, a)
        b = R.memory.alloc_tensor(storage, R.prim_value((n * 4 + 63) // 64 * 64), R.shape([n]), R.dtype("float32"))
        _1 = cls.scale(a, b)
        v = R.reshape(b, R.shape([n, 1]))
        o = R.call_packed("vm.builtin.shape_of", x, sinfo_args=R.Object)
        p = R.call_packed("vm.builtin.copy_tensor", v, sinfo_args=R.Tensor((n, 1), "float32"))
        if c:
            d = R.builtin.alloc_tensor(R.shape([n]), R.dtype("float32"), R.prim_value(0))
            _2 = cls.scale(b, d)
            r = d
        else:
            e = R.builtin.alloc_tensor(R.shape([n]), R.dtype("float32"), R.prim_value(0))
            _3 = cls.scale(x, e)
            g = R.builtin.alloc_tensor(R.shape([n]), R.dtype("float32"), R.prim_value(0))
            _4 = cls.scale(e, g)
            s = R.builtin.alloc_tensor(R.shape([n]), R.dtype("float32"), R.prim_value(0))
            _5 = cls.scale(g, s)
            r = s
        q = R.builtin.alloc_tensor(R.shape([n]), R.dtype("float32"), R.prim_value(0))
        _6 = cls.scale(r, q)
        w = R.builtin.alloc_tensor(R.shape([n]), R.dtype("float32"), R.prim_value(0))
        _7 = cls.scale(q, w)
        return w


def order(mod):
    """The kernel calls and the kills of main, in order, as text."""
    found = []

    def walk(seq):
        for block in seq.blocks:
            for binding in block.bindings:
                value = binding.value
                if not isinstance(value, relax.Call | relax.expr.If):
                    continue
                if isinstance(value, relax.expr.If):
                    found.append("if")
                    walk(value.true_branch)
                    found.append("else")
                    walk(value.false_branch)
                    found.append("end")
                elif isinstance(value.op, relax.ir.Op) and "kill" in value.op.name:
                    found.append(f"{value.op.name.partition('kill_')[2]} {value.args[0].name_hint}")
                elif isinstance(value.op, relax.ir.GlobalVar):
                    found.append(binding.var.name_hint)

    walk(mod["main"].body)
    return found


def test_values_are_killed_after_their_last_use():
    """A view counts as a use of what it views; what a branch uses last is killed after the If, unless it is its own."""
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        after = KillAfterLastUse()(Lowered)
        assert KillAfterLastUse()(after) is after
    assert order(after) == [
        *["_", "_1", "tensor a", "object o", "object p"],
        *["if", "_2", "else", "_3", "_4", "tensor e", "_5", "tensor g", "end"],
        *["storage storage", "tensor b", "_6", "_7"],
    ]
    x = np.arange(5, dtype="float32")
    for c, factor in ((True, 32), (False, 32)):
        assert relax.interpret(after, "main", x, np.array(c)).numpy().tolist() == (factor * x).tolist()


def test_kills_leave_nothing_in_the_bytecode():
    """A function that ends in an If still returns from each branch."""
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        killed = KillAfterLastUse()(Lowered)
    texts = [relax.build(mod, "llvm", pipeline=None).as_text() for mod in (Lowered, killed)]
    assert texts[0] == texts[1]
    vm = relax.VirtualMachine(relax.build(killed, "llvm", pipeline=None))
    x = np.arange(5, dtype="float32")
    assert vm["main"](x, np.array(True)).numpy().tolist() == (32 * x).tolist()


def test_nothing_to_kill():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = R.add(x, x)
            return y

    assert KillAfterLastUse()(Module) is Module


def test_pure_functions_are_forced_to_be():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = R.add(x, x)
            z = R.add(y, x)
            w = R.add(z, x)
            return w

    after = KillAfterLastUse()(Module)
    assert after["main"].attrs["relax.force_pure"]
    assert "R.vm.kill_object(y)" in after.script()
    assert_well_formed(after)


def test_storages_of_single_tensors():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor(("n", 3), "float32")):
            n = T.int64()
            a = R.builtin.alloc_tensor(R.shape([n, 3]), R.dtype("int8"), R.prim_value(0))
            return a

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(x: R.Tensor(("n", 3), "float32")):
            n = T.int64()
            storage = R.memory.alloc_storage(R.shape([n * 3]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
            a = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([n, 3]), R.dtype("int8"))
            return a

    after = LowerAllocTensor()(Before)
    relax.ir.assert_structural_equal(after, Expected)
    assert LowerAllocTensor()(after) is after


def test_tensors_without_a_storage():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(s: R.Shape(ndim=1)):
            a = R.builtin.alloc_tensor(s, R.dtype("float32"), R.prim_value(0))
            return a

    assert LowerAllocTensor()(Module) is Module


@pytest.mark.parametrize("n", [0, 1, 5])
def test_programs_compute_the_same_with_all_the_passes(n):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
            a = R.exp(x)
            b = R.add(a, x)
            if c:
                r = R.sum(R.exp(b))
            else:
                r = R.sum(R.add(R.sin(b), a))
            return R.add(r, R.sum(b))

    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        after = KillAfterLastUse()(LowerAllocTensor()(as_pass((*GRAPH, *LOWER), "lower")(Module)))
        vm = relax.VirtualMachine(relax.build(after, "llvm -opt-level=1", pipeline=None))
    x = np.linspace(0, 1, n, dtype="float32")
    for c in (np.array(True), np.array(False)):
        expected = relax.interpret(Module, "main", x, c).numpy()
        np.testing.assert_allclose(vm["main"](x, c).numpy(), expected, 1e-5)
        np.testing.assert_allclose(relax.interpret(after, "main", x, c).numpy(), expected, 1e-5)


def test_names_of_tvm():
    assert LowerRuntimeBuiltin is VMBuiltinLower


def test_a_dimension_of_literals_may_have_another_dtype():
    """T.min(2, 1) is an int32 of TIR."""

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor(("n", 2), "int32")):
            n = T.int64()
            a = R.builtin.alloc_tensor(R.shape([n, T.min(2, 1)]), R.dtype("int32"), R.prim_value(0))
            return a

    after = LowerAllocTensor()(Module)
    assert_well_formed(after)
    assert "R.memory.alloc_storage(R.shape([n * 4])" in after.script()
