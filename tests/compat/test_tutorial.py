"""Programs as users of `tvm.relax` write them, from module to result; only their imports differ."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import topi
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T


@I.ir_module
class TwoLayers:
    @T.prim_func
    def linear(x: T.handle, w: T.handle, b: T.handle, z: T.handle):
        T.func_attr({"global_symbol": "linear", "tir.noalias": True})
        m, n, k = T.int64(), T.int64(), T.int64()
        X = T.match_buffer(x, (m, n), "float32")
        W = T.match_buffer(w, (n, k), "float32")
        B = T.match_buffer(b, (k,), "float32")
        Z = T.match_buffer(z, (m, k), "float32")
        Y = T.alloc_buffer((m, k), "float32")
        for i, j, r in T.grid(m, k, n):
            with T.block("Y"):
                vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vr] * W[vr, vj]
        for i, j in T.grid(m, k):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(
        x: R.Tensor(("m", "n"), "float32"),
        w0: R.Tensor(("n", "k"), "float32"),
        b0: R.Tensor(("k",), "float32"),
        w1: R.Tensor(("k", 10), "float32"),
        b1: R.Tensor((10,), "float32"),
    ) -> R.Tensor(("m", 10), "float32"):
        m, n, k = T.int64(), T.int64(), T.int64()
        cls = TwoLayers
        with R.dataflow():
            lv0 = R.call_tir(cls.linear, (x, w0, b0), out_sinfo=R.Tensor((m, k), dtype="float32"))
            lv1 = R.nn.relu(lv0)
            out = R.call_tir(cls.linear, (lv1, w1, b1), out_sinfo=R.Tensor((m, 10), dtype="float32"))
            R.output(out)
        return out


def parameters(n=6, k=5, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [(n, k), (k,), (k, 10), (10,)]
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def two_layers(x, w0, b0, w1, b1):
    return np.maximum(x @ w0 + b0, 0) @ w1 + b1


TARGETS = [
    "llvm",
    relax.target.Target("llvm"),
    relax.target.Target("llvm", host="llvm"),
    relax.target.Target({"kind": "llvm"}),
]


@pytest.mark.parametrize("target", TARGETS, ids=["text", "Target", "with host", "dictionary"])
def test_build_and_run(target):
    ex = relax.build(TwoLayers, target=target)
    vm = relax.VirtualMachine(ex, relax.cpu())
    for m in (0, 1, 7):
        x = np.random.default_rng(m).standard_normal((m, 6)).astype("float32")
        args = [x, *parameters()]
        out = vm["main"](*[relax.nd.array(a) for a in args])
        np.testing.assert_allclose(out.numpy(), two_layers(*args), rtol=1e-4, atol=1e-5)


def test_older_build_and_device_spellings():
    ex = relax.vm.build(TwoLayers, relax.target.Target("llvm"))
    vm = relax.vm.VirtualMachine(ex, relax.device("cpu", 0))
    x = np.ones((2, 6), "float32")
    out = vm["main"](relax.nd.array(x, relax.cpu(0)), *parameters())
    np.testing.assert_allclose(out.numpy(), two_layers(x, *parameters()), rtol=1e-4, atol=1e-5)


def test_show_and_script(capsys):
    TwoLayers.show()
    assert "R.function" in capsys.readouterr().out
    again = relax.script.from_source(TwoLayers.script(show_meta=True))
    relax.ir.assert_structural_equal(again, TwoLayers)
    TwoLayers["main"].show()
    TwoLayers.script(show_meta=True)
    assert "R.function" in TwoLayers["main"].script()


def test_params_bound_before_build():
    w0, b0, w1, b1 = parameters()
    names = {"w0": w0, "b0": relax.nd.array(b0), "w1": w1, "b1": b1}
    mod = relax.transform.BindParams("main", names)(TwoLayers)
    with relax.transform.PassContext(opt_level=3):
        ex = relax.build(mod, "llvm")
    x = np.random.default_rng(3).standard_normal((4, 6)).astype("float32")
    out = relax.VirtualMachine(ex, relax.cpu())["main"](x)
    np.testing.assert_allclose(out.numpy(), two_layers(x, w0, b0, w1, b1), rtol=1e-4, atol=1e-5)


def test_stateful_interface():
    vm = relax.VirtualMachine(relax.build(TwoLayers, target="llvm"), relax.cpu())
    x = np.ones((3, 6), "float32")
    args = [relax.nd.array(a) for a in (x, *parameters())]
    vm.set_input("main", *args)
    vm.invoke_stateful("main")
    out = vm.get_outputs("main")
    np.testing.assert_allclose(out.numpy(), two_layers(x, *parameters()), rtol=1e-4, atol=1e-5)
    names = dict(zip(["x", "w0", "b0", "w1", "b1"], args, strict=True))
    vm.set_input("main", **names)
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main").numpy(), out.numpy())


def test_saved_function_and_time_evaluator():
    vm = relax.VirtualMachine(relax.build(TwoLayers, target="llvm"), relax.cpu())
    x = np.ones((3, 6), "float32")
    args = [relax.nd.array(a) for a in (x, *parameters())]
    vm.save_function("main", "saved", *args)
    np.testing.assert_allclose(vm["saved"]().numpy(), two_layers(x, *parameters()), rtol=1e-4, atol=1e-5)
    vm.save_function("main", "saved_without_result", *args, include_return=False)
    assert vm["saved_without_result"]() is None
    timing = vm.time_evaluator("saved", relax.cpu(), number=2, repeat=3)()
    assert len(timing.results) == 3
    assert timing.mean >= 0
    timing = vm.time_evaluator("main", dev=relax.cpu(), number=1)(*args)
    assert timing.min <= timing.max


def test_saved_and_loaded(tmp_path):
    ex = relax.build(TwoLayers, target="llvm")
    assert "main" in ex.as_text()
    assert ex.stats()
    ex.export_library(str(tmp_path / "model.so"))
    loaded = relax.runtime.load_module(str(tmp_path / "model.so"))
    x = np.ones((3, 6), "float32")
    out = relax.VirtualMachine(loaded, relax.cpu())["main"](x, *parameters())
    np.testing.assert_allclose(out.numpy(), two_layers(x, *parameters()), rtol=1e-4, atol=1e-5)


def test_optimised_by_a_sequence_of_passes():
    seq = relax.transform.Sequential(
        [
            relax.transform.LegalizeOps(),
            relax.transform.FoldConstant(),
            relax.transform.DeadCodeElimination(["main"]),
            relax.transform.CanonicalizeBindings(),
        ]
    )
    with relax.target.Target("llvm"), relax.transform.PassContext(opt_level=3):
        mod = seq(TwoLayers)
    assert relax.analysis.well_formed(mod)
    assert any("relu" in gv.name_hint for gv in mod.get_global_vars())
    x = np.ones((2, 6), "float32")
    out = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())["main"](x, *parameters())
    np.testing.assert_allclose(out.numpy(), two_layers(x, *parameters()), rtol=1e-4, atol=1e-5)


def test_builder_makes_a_network():
    class Linear:
        def __init__(self, name, out_features, in_features):
            self.weight = relax.Var(f"{name}_w", R.Tensor((out_features, in_features), "float32"))
            self.bias = relax.Var(f"{name}_b", R.Tensor((out_features,), "float32"))

        def __call__(self, bb, x):
            y = bb.emit(relax.op.linear(x, self.weight, self.bias))
            return y

        def params(self):
            return [self.weight, self.bias]

    bb = relax.BlockBuilder()
    n = relax.tir.Var("n", "int64")
    x = relax.Var("x", R.Tensor((n, 8), "float32"))
    first, second = Linear("l1", 16, 8), Linear("l2", 3, 16)
    with bb.function("main"):
        with bb.dataflow():
            h = bb.emit_te(topi.nn.relu, first(bb, x))
            y = bb.emit(relax.op.nn.softmax(second(bb, h), axis=-1), name_hint="probabilities")
            out = bb.emit_output(y)
        bb.emit_func_output(out, [x, *first.params(), *second.params()])
    mod = bb.get()
    assert relax.analysis.well_formed(mod)
    assert [p.name_hint for p in mod["main"].params] == ["x", "l1_w", "l1_b", "l2_w", "l2_b"]
    vm = relax.VirtualMachine(relax.build(mod, target="llvm"), relax.cpu())
    rng = np.random.default_rng(0)
    data = [rng.standard_normal(s).astype("float32") for s in [(5, 8), (16, 8), (16,), (3, 16), (3,)]]
    x0, w1, b1, w2, b2 = data
    z = np.maximum(x0 @ w1.T + b1, 0) @ w2.T + b2
    e = np.exp(z - z.max(-1, keepdims=True))
    out = vm["main"](*[relax.nd.array(d) for d in data])
    np.testing.assert_allclose(out.numpy(), e / e.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6)
