"""Kernels of one's own in methods: tensor expressions, PrimFuncs, packed functions, modules of other code."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from nn_programs import Method, body_of, computed, exported, results

import relax
from relax import te
from relax.frontend import nn
from relax.frontend.nn import Tensor, op, spec
from relax.ir import DiagnosticError
from relax.script import tir as T

X = np.arange(6, dtype="float32").reshape(2, 3)


def test_tensor_expressions():
    def shifted(x, by):
        return te.compute(x.shape, lambda i, j: x[i, j] + by, name="shifted")

    def forward(x):
        return op.tensor_expr_op(shifted, "shifted", [x, x.shape[0]], attrs={"op_pattern": 8})

    mod, _ = Method(forward).export_tvm({"forward": {"x": spec.Tensor(["n", 3], "float32")}})
    assert body_of(mod) == ['shifted = R.call_tir(cls.shifted, (x,), out_sinfo=R.Tensor((n, 3), dtype="float32"))']
    assert mod["shifted"].attrs["op_pattern"] == 8
    np.testing.assert_array_equal(results(mod, X)[0], X + 2)


def test_tensor_expressions_with_several_results():
    def both(x):
        return [te.compute(x.shape, lambda i, j, k=k: x[i, j] * k, name=f"times{k}") for k in (2, 3)]

    def forward(x):
        first, second = op.tensor_expr_op(both, "both", [x])
        return first, second

    first, second = computed(forward, X)
    np.testing.assert_array_equal(first, X * 2)
    np.testing.assert_array_equal(second, X * 3)


def test_methods_keep_their_names():
    class Shifted(nn.Module):
        define_subroutine = True

        def forward(self, x: Tensor):
            return x + 1

    class Model(nn.Module):
        def __init__(self):
            self.inner = Shifted()

        def first(self, x: Tensor):
            def double(x):
                return te.compute(x.shape, lambda i: x[i] * 2)

            return self.inner(op.tensor_expr_op(double, "double", [x]))

        def double(self, x: Tensor):
            return x * 4

        def shifted(self, x: Tensor):
            return x * 8

    given = {"x": spec.Tensor([2], "float32")}
    mod, _ = Model().export_tvm({"first": given, "double": given, "shifted": given})
    assert [var.name_hint for var in mod.functions] == ["double_", "shifted_", "first", "double", "shifted"]
    ones = np.ones(2, "float32")
    found = [results(mod, ones, name=name)[0].tolist() for name in ("first", "double", "shifted")]
    assert found == [[3, 3], [4, 4], [8, 8]]


@T.prim_func(private=True)
def scale(x: T.handle, factor: T.int64, y: T.handle):
    n = T.int64()
    X_ = T.match_buffer(x, (n, 3), "float32")
    Y = T.match_buffer(y, (n, 3), "float32")
    for i, j in T.grid(n, T.int64(3)):
        with T.block("scale"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            Y[v_i, v_j] = X_[v_i, v_j] * T.Cast("float32", factor)


@T.prim_func(private=True)
def increment(x: T.handle):
    n = T.int64()
    X_ = T.match_buffer(x, (n, 3), "float32")
    for i, j in T.grid(n, T.int64(3)):
        with T.block("increment"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            X_[v_i, v_j] = X_[v_i, v_j] + T.float32(1)


def test_prim_funcs():
    def forward(x):
        out = Tensor.placeholder(x.shape, x.dtype)
        once = op.tensor_ir_op(scale, "scale", args=[x, 5], out=out)
        return op.tensor_ir_op(scale, "scale", args=[once, relax.ShapeExpr([x.shape[0]])], out=out)

    mod, _ = Method(forward).export_tvm({"forward": {"x": spec.Tensor(["n", 3], "float32")}})
    assert [var.name_hint for var in mod.functions] == ["scale", "forward"]
    np.testing.assert_array_equal(results(mod, X)[0], X * 10)


@T.prim_func(private=True)
def fill(x: T.handle, value: T.int64):
    n = T.int64()
    X_ = T.match_buffer(x, (n, 3), "float32")
    for i, j in T.grid(n, T.int64(3)):
        with T.block("fill"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            X_[v_i, v_j] = T.Cast("float32", value)


def test_kernels_that_fill_what_is_empty():
    def forward(x):
        return tuple(
            op.tensor_ir_inplace_op(
                fill, "fill", [op.empty(x.shape), value], 0, out=Tensor.placeholder((2, 3), "float32")
            )
            for value in (3, 4)
        )

    first, second = computed(forward, X)
    np.testing.assert_array_equal(first, np.full((2, 3), 3))
    np.testing.assert_array_equal(second, np.full((2, 3), 4))


def test_prim_funcs_in_place():
    def forward(x):
        y = x * 2
        return op.tensor_ir_inplace_op(increment, "increment", y, inplace_indices=0, out=Tensor.placeholder((2, 3), "float32"))  # fmt: skip

    np.testing.assert_array_equal(computed(forward, X)[0], X * 2 + 1)


@pytest.mark.parametrize(
    ("args", "out", "error", "message"),
    [
        ((3, "x"), None, TypeError, "a kernel takes tensors before integers; a Tensor follows a size"),
        (("x", "text"), None, TypeError, "a kernel takes Tensors, sizes and shapes, found str"),
        (("x", 2), "float32", TypeError, r"out must be a Tensor, such as Tensor.placeholder\(shape, dtype\), found"),
        (("x",), None, DiagnosticError, "scale"),
    ],
)
def test_arguments_that_no_kernel_takes(args, out, error, message):
    def forward(x):
        given = [x if arg == "x" else arg for arg in args]
        return op.tensor_ir_op(scale, "scale", given, Tensor.placeholder((2, 3), "float32") if out is None else out)

    with pytest.raises(error, match=message):
        relax.build(exported(forward, X))


@relax.register_func("test.nn.affine", override=True)
def affine(x, factor, offset, text, y, z):
    assert text == "text"
    y[:] = x.numpy() * factor + offset
    z[:] = np.array([factor], "int32")


def test_packed_functions():
    def forward(x):
        outs = [Tensor.placeholder(x.shape, "float32"), Tensor.placeholder((1,), "int32")]
        return op.extern("test.nn.affine", [x, x.shape[0], 0.5, "text"], out=outs)

    mod, _ = Method(forward).export_tvm({"forward": {"x": spec.Tensor(["n", 3], "float32")}})
    first, second = results(mod, X)
    np.testing.assert_array_equal(first, X * 2 + 0.5)
    np.testing.assert_array_equal(second, [2])


# ------------------------------------------------------------------------------------ modules of other code

SOURCE = """
#include <tvm/ffi/c_api.h>
int __tvm_ffi_twice(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
    DLTensor* in = (DLTensor*)((char*)args[0].v_obj + sizeof(TVMFFIObject));
    DLTensor* out = (DLTensor*)((char*)args[1].v_obj + sizeof(TVMFFIObject));
    for (int64_t i = 0; i < in->shape[0]; ++i) ((float*)out->data)[i] = 2 * ((float*)in->data)[i];
    return 0;
}
"""


class Twice(nn.Module):
    def __init__(self, module):
        self.module = module

    def forward(self, x: Tensor):
        return self.module["twice"](self.module["twice"](x))


def source(**arguments):
    return nn.SourceModule({"twice": lambda x: Tensor.placeholder(x.shape, x.dtype)}, SOURCE, "c", **arguments)


GIVEN = {"forward": {"x": spec.Tensor(["n"], "float32")}}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_source_modules(tmp_path):
    mod, _, modules = Twice(source(compiler="gcc")).export_tvm(GIVEN, allow_extern=True)
    assert len(modules) == 1
    whole = nn.attach_extern_modules(mod, modules)
    x = np.array([1, 2, 3], "float32")
    for path in (None, str(tmp_path / "model.relax")):
        ex = relax.build(whole)
        if path is not None:
            ex.save(path)
            ex = relax.load_executable(path)
        np.testing.assert_array_equal(relax.VirtualMachine(ex, relax.cpu())["forward"](x).numpy(), 4 * x)
    library = tmp_path / "twice.so"
    library.write_bytes(modules[0].load().data)
    compiled = Twice(nn.ObjectModule(modules[0].symbols, library)).jit(GIVEN, out_format="numpy")
    np.testing.assert_array_equal(compiled(x), 4 * x)


def test_modules_of_other_code_are_asked_for():
    with pytest.raises(ValueError, match="allow_extern=True returns them"):
        Twice(source()).export_tvm(GIVEN)


def test_modules_of_other_code_that_fail(tmp_path):
    with pytest.raises(KeyError, match="the module has no function 'thrice'; it has twice"):
        source()["thrice"]
    with pytest.raises(ValueError, match='source_format must be "c" or "cpp", found \'cuda\''):
        nn.SourceModule({}, "", "cuda")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        nn.ObjectModule({}, tmp_path / "none.so")
    with pytest.raises(RuntimeError, match=r"no C\+\+ compiler was found \(no-such-compiler\)"):
        source(compiler="no-such-compiler").load()
    with pytest.raises(NotImplementedError, match="ExternModule does not say where its code is"):
        nn.ExternModule({}).load()
    with pytest.raises(RuntimeError, match="no module is being exported"):
        nn.add_extern(source())


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_messages_of_the_compiler():
    broken = nn.SourceModule({}, "int f( {", "c", compiler="gcc")
    with pytest.raises(RuntimeError, match=r"(?s)gcc -shared .* failed:.*error"):
        broken.load()
