"""The boundary: every way an argument can be wrong is a Python error with a message, before anything runs."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import tvm_ffi

import relax
from relax import codegen
from relax.runtime import nd
from relax.runtime.dtypes import NUMPY_DTYPES
from relax.script import ir as I
from relax.script import tir as T


@I.ir_module
class Module:
    @T.prim_func
    def matmul(a: T.handle, b: T.handle, c: T.handle):
        T.func_attr({"tir.noalias": True})
        m, n, p = T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (m, n), "float32")
        B = T.match_buffer(b, (n, p), "float32")
        C = T.match_buffer(c, (m, p), "float32")
        for i, j in T.grid(m, p):
            C[i, j] = T.float32(0)
            for k in range(n):
                C[i, j] = C[i, j] + A[i, k] * B[k, j]

    @T.prim_func
    def halves(a: T.handle, b: T.handle, n: T.int64):
        A = T.match_buffer(a, (n * 2, 4), "float16")
        B = T.match_buffer(b, (n + 1,), "bool")
        for i in range(n):
            B[i] = A[i * 2, 0] < A[i * 2 + 1, 3]

    @T.prim_func
    def scalars(b: T.handle, i: T.int8, u: T.uint64, f: T.float32, t: T.bool):
        B = T.match_buffer(b, (4,), "float64")
        B[0] = T.cast(i, "float64")
        B[1] = T.cast(u, "float64")
        B[2] = T.cast(f, "float64")
        B[3] = T.cast(t, "float64")

    @T.prim_func
    def narrow(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int8")
        B = T.match_buffer(b, (1,), "int32")
        B[0] = n

    @T.prim_func
    def strided(a: T.handle, b: T.handle):
        n, s = T.int64(), T.int64()
        A = T.match_buffer(a, (n,), "float32", strides=[s])
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[i]


@pytest.fixture(scope="module")
def module():
    return codegen.build_module(Module)


def raises(error, message, function, *args):
    with pytest.raises(error) as caught:
        function(*args)
    assert str(caught.value) == message


def f32(*shape):
    return np.zeros(shape, "float32")


@pytest.mark.parametrize(
    "args, error, message",
    [
        ((f32(2, 3), f32(3, 4)), TypeError, "matmul: expected 3 arguments, found 2"),
        ((f32(2, 3), f32(3, 4), 7), TypeError, "matmul: argument C: expected a tensor, found an int"),
        ((f32(2, 3), None, f32(2, 4)), TypeError, "matmul: argument B: expected a tensor, found None"),
        ((f32(2, 3), 1.5, f32(2, 4)), TypeError, "matmul: argument B: expected a tensor, found a float"),
        ((True, f32(3, 4), f32(2, 4)), TypeError, "matmul: argument A: expected a tensor, found a bool"),
        (("x", f32(3, 4), f32(2, 4)), TypeError, "matmul: argument A: expected a tensor, found a string"),
        (
            (tvm_ffi.Shape((1, 2)), f32(3, 4), f32(2, 4)),
            TypeError,
            "matmul: argument A: expected a tensor, found a shape",
        ),
        ((np.zeros((2, 3)), f32(3, 4), f32(2, 4)), TypeError, "matmul: argument A: dtype is float64, expected float32"),
        (
            (np.zeros((2, 3), "bool"), f32(3, 4), f32(2, 4)),
            TypeError,
            "matmul: argument A: dtype is bool, expected float32",
        ),
        ((f32(2), f32(3, 4), f32(2, 4)), ValueError, "matmul: argument A: has 1 dimensions, expected 2"),
        (
            (f32(2, 3), f32(5, 4), f32(2, 4)),
            ValueError,
            "matmul: argument B: dimension 0 is 5, expected n = 3 (n was bound by A, dimension 1)",
        ),
        (
            (f32(2, 3), f32(3, 4), f32(2, 5)),
            ValueError,
            "matmul: argument C: dimension 1 is 5, expected p = 4 (p was bound by B, dimension 1)",
        ),
        (
            (f32(6, 2).T, f32(6, 4), f32(2, 4)),
            ValueError,
            "matmul: argument A: is not compact: the stride of dimension 1 is 2, expected 1",
        ),
        (
            (f32(2, 6)[:, ::2], f32(3, 4), f32(2, 4)),
            ValueError,
            "matmul: argument A: is not compact: the stride of dimension 1 is 2, expected 1",
        ),
        (
            (f32(2, 6)[:, :3], f32(3, 4), f32(2, 4)),
            ValueError,
            "matmul: argument A: is not compact: the stride of dimension 0 is 6, expected 3",
        ),
    ],
)
def test_matmul(module, args, error, message):
    raises(error, message, module["matmul"], *args)


@pytest.mark.parametrize(
    "args, message",
    [
        (
            (np.zeros((7, 4), "float16"), np.zeros(4, "bool"), 3),
            "halves: argument A: dimension 0 is 7, expected n * 2 = 6 (n is an argument)",
        ),
        ((np.zeros((6, 5), "float16"), np.zeros(4, "bool"), 3), "halves: argument A: dimension 1 is 5, expected 4"),
        (
            (np.zeros((6, 4), "float16"), np.zeros(3, "bool"), 3),
            "halves: argument B: dimension 0 is 3, expected n + 1 = 4 (n is an argument)",
        ),
    ],
)
def test_sizes_that_are_expressions(module, args, message):
    raises(ValueError, message, module["halves"], *args)


@pytest.mark.parametrize(
    "args, error, message",
    [
        ((1.0, 1, 1, True), TypeError, "scalars: argument i: expected an int, found a float"),
        ((1, None, 1, True), TypeError, "scalars: argument u: expected an int, found None"),
        ((1, 1, "x", True), TypeError, "scalars: argument f: expected a float, found a string"),
        ((1, 1, 1.0, 2.0), TypeError, "scalars: argument t: expected a bool, found a float"),
        ((f32(1), 1, 1.0, True), TypeError, "scalars: argument i: expected an int, found a tensor"),
        ((128, 1, 1.0, True), ValueError, "scalars: argument i: 128 does not fit int8"),
        ((-129, 1, 1.0, True), ValueError, "scalars: argument i: -129 does not fit int8"),
        ((1, -1, 1.0, True), ValueError, "scalars: argument u: -1 does not fit uint64"),
    ],
)
def test_scalars(module, args, error, message):
    raises(error, message, module["scalars"], np.zeros(4), *args)


def test_scalars_that_fit(module):
    out = np.zeros(4)
    module["scalars"](out, -128, 2**62, 0.1, True)
    np.testing.assert_array_equal(out, [-128, 2.0**62, np.float32(0.1), 1])
    module["scalars"](out, np.int16(5), 3, 2, False)  # an int is a float as well
    np.testing.assert_array_equal(out, [5, 3, 2, 0])


@pytest.mark.parametrize("n", [0, 1, 5])
def test_sizes_are_bound_by_a_parameter(module, n):
    a = np.arange(n * 8).astype("float16").reshape(n * 2, 4)
    out = np.zeros(n + 1, "bool")
    module["halves"](a, out, n)
    assert out.tolist() == [True] * n + [False]


def test_a_dimension_must_fit_the_variable_that_it_binds(module):
    out = np.zeros(1, "int32")
    module["narrow"](np.zeros(1000, "int8"), out)
    assert out[0] == 1000
    # A tensor without memory, so that it may be long.
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, "int8"), (2**31,), (0,))
    with pytest.raises(ValueError, match="argument A"):
        module["narrow"](np.lib.stride_tricks.as_strided(huge, (2**31,), (1,)), out)


def test_a_buffer_with_named_strides_takes_what_is_not_compact(module):
    source, out = np.arange(20, dtype="float32"), f32(5)
    module["strided"](source[::4], out)
    np.testing.assert_array_equal(out, source[::4])
    module["strided"](source[:5], out)
    np.testing.assert_array_equal(out, source[:5])


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float8_e4m3fn", "float64"])
def test_a_buffer_with_named_strides_of_any_dtype(dtype):
    source = f"""from relax.script import tir as T

@T.prim_func
def last(a: T.handle, b: T.handle):
    n, s = T.int64(), T.int64()
    A = T.match_buffer(a, (n,), "{dtype}", strides=[s])
    B = T.match_buffer(b, (2,), "float32")
    B[0] = T.cast(A[n - 1], "float32")
    B[1] = T.cast(s, "float32")
"""
    function = codegen.build_module({"last": relax.script.from_source(source)})["last"]
    out, array = f32(2), np.arange(8).astype(NUMPY_DTYPES[dtype])
    function(array[1::3], out)
    assert out.tolist() == [float(array[7]), 3]


def test_integers_that_are_padded_to_a_byte_are_compact_in_arrays():
    n, s = relax.tir.Var("n", "int64"), relax.tir.Var("s", "int64")
    buffer, p = relax.tir.decl_buffer((n,), "int4", "A", strides=[s]), relax.tir.Var("p", "handle")
    func = relax.tir.PrimFunc((p,), relax.tir.Evaluate(0), buffer_map={p: buffer})
    function = codegen.build_module({"f": func})["f"]
    array = np.zeros(4, NUMPY_DTYPES["int4"])
    function(array)
    message = "f: argument 0 is an array of int4 with strides; pass a compact copy"
    raises(ValueError, message, function, array[::2])


def test_strides_of_one_element_or_none_mean_nothing(module):
    out = f32(1, 4)
    module["matmul"](np.ones((1, 3, 2), "float32")[:, :, 0].copy(), f32(3, 4), out)
    one_row = np.ones((9, 3), "float32")[::9]  # the stride of a dimension of size 1 is arbitrary
    module["matmul"](one_row, np.ones((3, 4), "float32"), out)
    np.testing.assert_array_equal(out, 3)
    nothing = np.ones((4, 8), "float32")[:0, ::2]
    module["matmul"](nothing, f32(4, 2), f32(0, 2))
    module["strided"](np.ones(8, "float32")[:0:2], f32(0))


def test_data_that_is_not_aligned_to_its_element_is_refused(module):
    raw = np.zeros(4 * 6 + 1, "uint8")[1:]
    odd = nd.from_dlpack(raw)
    from relax.runtime.tensor import view_tensor

    with pytest.raises(ValueError, match="halves: argument A: its data is not aligned to 2 bytes"):
        module["halves"](view_tensor(odd.tensor, (2, 4), "float16"), np.zeros(2, "bool"), 1)


def test_the_byte_offset_is_added(module):
    """What torch's `x[1:]` exports: the data pointer of the whole, and an offset."""
    whole = nd.array(np.arange(8, dtype="float32").reshape(4, 2))
    part = nd.from_dlpack(whole.numpy()[2:])
    out = f32(2, 1)
    module["matmul"](part, np.ones((2, 1), "float32"), out)
    np.testing.assert_array_equal(out, [[9], [13]])


def test_tensors_of_the_runtime(module):
    a, b = nd.array(np.ones((2, 3), "float32")), nd.array(np.ones((3, 4), "float32"))
    out = nd.empty((2, 4), "float32")
    module["matmul"](a, b, out)
    np.testing.assert_array_equal(out.numpy(), 3)


def test_a_read_only_array_is_refused(module):
    a = f32(2, 3)
    a.flags.writeable = False
    with pytest.raises(ValueError, match="matmul: argument 0 is a read-only array; pass a copy"):
        module["matmul"](a, f32(3, 4), f32(2, 4))


def test_an_array_in_another_byte_order_is_refused(module):
    """What the kernel writes would not arrive in it."""
    out = np.zeros((2, 4), ">f4" if sys.byteorder == "little" else "<f4")
    with pytest.raises(ValueError, match="matmul: argument 2 is an array in another byte order; convert it first"):
        module["matmul"](f32(2, 3), f32(3, 4), out)


def test_the_exported_function_is_one_of_tvm_ffi(module):
    """Other packages that speak tvm-ffi find and call it by its symbol."""
    packed = module.library.get_function(codegen.symbol_name("matmul"))
    assert isinstance(packed, tvm_ffi.Function)
    out = f32(2, 4)
    packed(*map(tvm_ffi.from_dlpack, (np.ones((2, 3), "float32"), np.ones((3, 4), "float32"), out)))
    np.testing.assert_array_equal(out, 3)
    assert codegen.symbol_name("matmul") == "__tvm_ffi_matmul"


def test_names_are_shown_as_they_are():
    """A name with a percent sign is no format."""
    n = relax.tir.Var("n%d", "int64")
    a = relax.tir.decl_buffer((n, n), "float32", "100%s")
    p = relax.tir.Var("p", "handle")
    func = relax.tir.PrimFunc((p,), relax.tir.Evaluate(0), buffer_map={p: a})
    module = codegen.build_module({"f%n": func})
    message = "f%n: argument 100%s: dimension 1 is 3, expected n%d = 2 (n%d was bound by 100%s, dimension 0)"
    raises(ValueError, message, module["f%n"], f32(2, 3))
