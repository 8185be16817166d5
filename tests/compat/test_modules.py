"""Modules as users of TVM put them together."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import relay
from relax.script import from_source
from relax.script import ir as I
from relax.script import relax as R
from support import run


@relax.register_func("compat.triple", override=True)
def triple(x):
    return relax.nd.array(x.numpy() * 3)


@I.ir_module
class WithExtern:
    my_ext = R.ExternFunc("compat.triple")

    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")):
        y = WithExtern.my_ext(x)
        return y


def test_a_packed_function_is_a_member_of_the_module():
    assert [g.name_hint for g in WithExtern] == ["main", "my_ext"]
    assert WithExtern["my_ext"].global_symbol == "compat.triple"
    assert 'my_ext = R.ExternFunc("compat.triple")' in WithExtern.script()
    again = from_source("from relax.script import ir as I, relax as R\n" + WithExtern.script(show_meta=True))
    relax.ir.assert_structural_equal(again, WithExtern)
    relax.analysis.assert_well_formed(WithExtern)
    x = np.array([1, 2], "float32")
    assert run(WithExtern, x).tolist() == [3, 6]
    assert relax.interpret(WithExtern, "main", x).numpy().tolist() == [3, 6]
    assert [g.name_hint for g in relax.transform.DeadCodeElimination()(WithExtern)] == ["main", "my_ext"]


def test_a_packed_function_as_a_value():
    @I.ir_module
    class Module:
        my_ext = R.ExternFunc("compat.triple")

        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            f = Module.my_ext
            y = f(x)
            return y

    x = np.array([1, 2], "float32")
    assert run(Module, x).tolist() == [3, 6]
    assert relax.interpret(Module, "main", x).numpy().tolist() == [3, 6]


def test_a_builder_adds_a_packed_function():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    bb = relax.BlockBuilder()
    ext = bb.add_func(relax.ExternFunc("compat.triple"), "ext")
    assert bb.add_func(relax.extern("compat.triple"), "other") is ext
    with bb.function("main", [x], pure=False):
        y = bb.emit(relax.Call(ext, [x], sinfo_args=[R.Tensor((2,), "float32")]))
        bb.emit_func_output(y)
    assert run(bb.get(), np.ones(2, "float32")).tolist() == [3, 3]
    with pytest.raises(TypeError, match=r"the packed function 'compat.triple' has no attributes"):
        bb.get()["ext"].with_attr("a", 1)


def one(name, step=relax.op.exp):
    x = relax.Var("x", R.Tensor((2,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function(name, [x]):
        bb.emit_func_output(bb.emit(step(x)))
    return bb.get()


def test_functions_are_put_into_a_module():
    mod, other = one("main"), one("f", relax.op.abs)
    before = mod.clone()
    main = mod.get_global_var("main")
    mod["f"] = other["f"]
    assert [g.name_hint for g in mod] == ["main", "f"]
    mod["main"] = other["f"].with_attr("global_symbol", "main")
    assert mod.get_global_var("main") is main
    mod.update_func(main, one("main", relax.op.negative)["main"])
    mod.update({"g": one("g")["g"]})
    mod.update(one("h"))
    assert [g.name_hint for g in mod] == ["main", "f", "g", "h"]
    relax.analysis.assert_well_formed(mod)
    assert [g.name_hint for g in before] == ["main"]
    assert before.clone() is not before
    x = np.array([1, -2], "float32")
    assert run(mod, x).tolist() == [-1, 2]
    assert run(mod, x, name="f").tolist() == [1, 2]
    with pytest.raises(TypeError, match="a module holds functions, found int"):
        mod["k"] = 3
    mod["wrong"] = other["f"]
    assert not relax.analysis.well_formed(mod)  # rule 13: it is called f


def test_a_pass_leaves_the_module_it_is_given():
    mod = one("main")
    before = mod.clone()
    after = relax.transform.LegalizeOps()(mod)
    after["more"] = before["main"].without_attr("global_symbol")
    relax.ir.assert_structural_equal(mod, before)
    same = relax.transform.DeadCodeElimination()(mod)
    assert same is mod


def test_astext_is_read_again():
    table = np.arange(400, dtype="float32")
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((400,), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.add(x, relax.const(table))))
    mod = bb.get()
    relax.ir.assert_structural_equal(from_source(mod.astext()), mod)
    assert "Metadata omitted" in mod.astext(show_meta_data=False)

    def callee(expr):
        return f"calls {expr.op.name}" if isinstance(expr, relax.Call) else ""

    assert "R.add(x, metadata" in mod.astext()
    (line,) = [line for line in mod.astext(annotate=callee).splitlines() if "R.add" in line]
    assert line.endswith("# calls relax.add")


def test_astext_of_relay_is_relay():
    x = relay.var("x", shape=(2,), dtype="float32")
    mod = relax.IRModule.from_expr(relay.Function([x], relay.add(x, relay.const(np.ones(2, "float32")))))
    assert mod.astext() == relay.astext(mod)
    assert mod.astext(show_meta_data=False) == relay.astext(mod, show_meta_data=False)
    assert "#[metadata]" in mod.astext()
    assert mod.astext(annotate=lambda expr: "here").count("/* here */") > 0


def test_global_infos_are_updated():
    mod = one("main")
    devices = [relax.VDevice("llvm", 0), relax.VDevice("llvm", 1)]
    mod.update_global_info("vdevice", devices)
    assert mod.global_infos["vdevice"] == tuple(devices)


def test_an_executable_of_a_loaded_module(tmp_path):
    path = str(tmp_path / "main.so")
    relax.build(one("main", relax.op.abs), "llvm").export_library(path)
    ex = relax.Executable(relax.runtime.load_module(path))
    assert relax.VirtualMachine(ex)["main"](np.array([1, -2], "float32")).numpy().tolist() == [1, 2]
    with pytest.raises(TypeError, match="made of a program or an Executable, not str"):
        relax.Executable(path)


def test_a_tensor_as_shape_heap():
    heap = relax.nd.array(np.array([3, 4, 5]))
    make_shape = relax.get_global_func("vm.builtin.make_shape")
    match_shape = relax.get_global_func("vm.builtin.match_shape")
    assert make_shape(heap, 3, 0, 7, 1, 2, 1, 0) == [7, 5, 3]
    match_shape(relax.ShapeTuple([8, 9]), heap, 2, 1, 1, 1, 2, "here")
    assert heap.numpy().tolist() == [3, 8, 9]
    for wrong in (None, 3, relax.nd.array(np.zeros(3, "float32")), relax.nd.array(np.zeros((1, 1), "int64"))):
        with pytest.raises(TypeError, match="a shape heap is an int64 tensor of one dimension, found"):
            make_shape(wrong, 1, 1, 0)
