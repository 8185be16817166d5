"""Packed functions: registered in Python, called through tvm-ffi, by name."""

from __future__ import annotations

import ctypes
import gc
import struct
import weakref

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi

from relax.runtime import NDArray, ShapeTuple, get_global_func, nd, register_func, remove_global_func


@pytest.fixture
def register(request):
    names = []

    def add(function):
        name = f"test.{request.node.name}.{len(names)}"
        names.append(name)
        register_func(name, function)
        return get_global_func(name)

    yield add
    for name in names:
        remove_global_func(name)


def test_the_rfc_functions(register):
    """Arguments have numpy(), and destinations can be assigned."""

    def add_packed(a, b):
        return nd.array(a.numpy() + b.numpy())

    def tile_packed(a, b):
        b[:] = nd.array(np.tile(a.numpy(), (1, 2)))

    add, tile = register(add_packed), register(tile_packed)
    a = nd.array(np.arange(4, dtype="float32").reshape(2, 2))
    assert add(a, a).numpy().tolist() == [[0, 2], [4, 6]]
    b = nd.empty((2, 4), "float32")
    assert tile(a, b) is None
    assert b.numpy().tolist() == [[0, 1, 0, 1], [2, 3, 2, 3]]


def test_decorator_forms():
    @register_func("test.decorated")
    def one(x):
        return x + 1

    @register_func
    def test_bare_decorator(x):
        return x + 2

    try:
        assert (one(1), test_bare_decorator(1)) == (2, 3)
        assert get_global_func("test.decorated")(1) == 2
        assert get_global_func("test_bare_decorator")(1) == 3
        with pytest.raises(ValueError, match="already registered"):
            register_func("test.decorated", one)
        register_func("test.decorated", lambda x: x, override=True)
        assert get_global_func("test.decorated")(1) == 1
    finally:
        remove_global_func("test.decorated")
        remove_global_func("test_bare_decorator")
    assert get_global_func("test.decorated", allow_missing=True) is None
    with pytest.raises(ValueError, match="no packed function 'test.decorated' is registered"):
        get_global_func("test.decorated")


@pytest.mark.parametrize(
    "value",
    [
        True,
        3,
        -(1 << 40),
        2.5,
        "text",
        "a longer text, stored on the heap",
        None,
        (),
        (1, (2.5, "x")),
        ShapeTuple((2, 3)),
    ],
)
def test_plain_values_come_back(register, value):
    seen = []
    echo = register(lambda x: seen.append(x) or x)
    assert echo(value) == value
    assert isinstance(seen[0], type(value))
    assert isinstance(echo(value), type(value))


def test_tensors_in_tuples(register):
    seen = []
    echo = register(lambda t: seen.append(t) or (t[1][0], (t[0],)))
    x, y = nd.array([1, 2]), np.array([3.0])
    result = echo((x, (y,)))
    assert [type(seen[0]), type(seen[0][0]), type(seen[0][1][0])] == [tuple, NDArray, NDArray]
    assert seen[0][0].data_ptr() == x.data_ptr()
    assert result[0].data_ptr() == y.ctypes.data
    assert result[1][0].data_ptr() == x.data_ptr()


@pytest.mark.parametrize("dtype", ["bool", "float16", "bfloat16", "float8_e4m3fn", "uint16", "int4", "float4_e2m1fn"])
def test_any_dtype_crosses(register, dtype):
    value = np.array([0, 1, 1]).astype(getattr(ml_dtypes, dtype, dtype))
    identity = register(lambda x: x.numpy())
    result = identity(value)
    assert (result.dtype, result.numpy().tolist()) == (dtype, value.tolist())


def test_functions_cross(register):
    apply = register(lambda f, x: f(x))
    make = register(lambda k: lambda x: x * k)
    assert apply(lambda x: x.numpy().sum(), nd.array([1, 2])) == 3
    assert make(5)(4) == 20
    assert apply(get_global_func("testing.echo"), nd.array([7])).numpy().tolist() == [7]


def test_opaque_objects_come_back(register):
    class Thing:
        pass

    thing = Thing()
    assert register(lambda x: x)(thing) is thing
    assert register(lambda x: x)({"a": 1})["a"] == 1
    assert register(lambda: np.float32(1.5))() == 1.5
    assert register(lambda: np.bool_(True))() is True


def test_errors_keep_their_class_and_message(register):
    for error in (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError, NotImplementedError):

        def fails(error=error):
            raise error("bad luck")

        with pytest.raises(error, match="bad luck"):
            register(fails)()


def test_a_removed_function_is_collected():
    class Big:
        def __call__(self):
            return 1

    big = Big()
    alive = weakref.ref(big)
    register_func("test.collected", big)
    del big
    remove_global_func("test.collected")
    gc.collect()
    assert alive() is None


def test_borrowed_tensors():
    """A tensor lent for one call has no owner: it can be read and written, and what is kept of it is a copy."""
    kept = []

    def take(x):
        x[:] = x.numpy() * 2
        kept.append(x.view((2, 2)))
        return x

    register_func("test.take", take)
    try:
        memory = np.arange(4, dtype="int64")
        shape = (ctypes.c_int64 * 1)(4)
        dltensor = struct.pack("@QiiiBBHQQQ", memory.ctypes.data, 1, 0, 1, 0, 64, 1, ctypes.addressof(shape), 0, 0)
        holder = ctypes.create_string_buffer(dltensor)
        args = ctypes.create_string_buffer(struct.pack("@iIQ", 7, 0, ctypes.addressof(holder)))
        result = ctypes.create_string_buffer(16)
        function = tvm_ffi.get_global_func("test.take")
        call = tvm_ffi.LIB.TVMFFIFunctionCall
        call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p]
        assert call(function.__chandle__(), args, 1, result) == 0
        assert memory.tolist() == [0, 2, 4, 6]
        memory[:] = 9
        assert kept[0].numpy().tolist() == [[0, 2], [4, 6]]
        kind, _, handle = struct.unpack("@iIQ", result)
        assert kind == 70
        tvm_ffi.LIB.TVMFFIObjectDecRef(ctypes.c_void_p(handle))
    finally:
        remove_global_func("test.take")
