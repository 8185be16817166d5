"""Tensors: every dtype, every shape, shared or copied memory."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi

from relax.runtime import NDArray, cpu, nd, numpy_view, tensor_of
from relax.runtime.dtypes import DLPACK_CODES, NUMPY_DTYPES
from relax.runtime.tensor import LARGE_PAGE, view_tensor

SHAPES = [(), (0,), (1,), (7,), (3, 0, 2), (1, 1), (2, 3, 4)]


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8).tobytes() if array.size else b""


def sample(shape, dtype):
    rng = np.random.default_rng(0)
    return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(NUMPY_DTYPES[dtype])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DLPACK_CODES)
def test_array_round_trips_every_dtype(dtype, shape):
    value = np.asarray(sample(shape, dtype))
    tensor = nd.array(value)
    assert tensor.shape == shape
    assert tensor.dtype == dtype
    assert tensor.tensor.dtype == dtype
    assert tensor.data_ptr() % 64 == 0
    back = tensor.numpy()
    assert back.dtype == value.dtype
    assert bits(back) == bits(value)
    shared = nd.from_dlpack(value)
    assert (shared.shape, shared.dtype) == (shape, dtype)
    assert bits(shared.numpy()) == bits(value)


@pytest.mark.skipif(sys.platform != "linux", reason="large pages are asked of Linux")
def test_memory_of_large_tensors_is_in_large_pages():
    def advised(address):
        """True if the system was asked for large pages at an address: the flag hg of its mapping."""
        inside = False
        for line in Path("/proc/self/smaps").read_text().splitlines():
            if span := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
                inside = int(span[1], 16) <= address < int(span[2], 16)
            elif inside and line.startswith("VmFlags:"):
                return "hg" in line.split()
        return False

    kept = []
    for elements in (1 << 19, (1 << 20) + 7, 10 << 20):
        tensor = nd.empty((elements,), "float32")
        kept.append(tensor)
        assert tensor.data_ptr() % 64 == 0
        assert tensor.data_ptr() % LARGE_PAGE < 4096
        whole = (4 * elements) // LARGE_PAGE
        assert all(advised(tensor.data_ptr() + page * LARGE_PAGE) for page in range(whole))
        tensor[:] = np.arange(elements, dtype="float32")
        assert tensor.numpy()[-1] == elements - 1


@pytest.mark.parametrize("dtype", DLPACK_CODES)
def test_from_dlpack_shares_memory(dtype):
    value = sample((2, 3), dtype)
    tensor = nd.from_dlpack(value)
    numpy_view(tensor.tensor)[0, 0] = 1
    assert value[0, 0] == 1


PADDED = {"int4": 2, "uint4": 2, "int2": 4, "uint2": 4, "float4_e2m1fn": 2}
"""How many of DLPack's elements a byte has room for, where it holds one."""


def test_sizes_are_integers():
    assert nd.empty((np.int64(2), np.uint8(3))).view((np.int64(6),)).shape == (6,)
    for call in (lambda: nd.empty((2.7,)), lambda: nd.empty((5,)).view((2.5, 2)), lambda: nd.empty(("2",))):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            call()


@pytest.mark.parametrize("dtype", PADDED)
def test_elements_of_2_and_4_bits_take_a_byte(dtype):
    unit = PADDED[dtype]
    value = sample((2, 3), dtype)
    tensor = nd.array(value)
    # DLPack counts elements of their own bits: what lies between two is a gap.
    assert tensor.tensor.strides == (3 * unit, unit)
    assert tensor.strides == (3, 1)
    assert tensor.is_contiguous()
    assert tensor.view((3, 2)).tensor.strides == (2 * unit, unit)
    again = nd.from_dlpack(tvm_ffi.from_dlpack(tensor))
    assert (again.strides, bits(again.numpy())) == ((3, 1), bits(value))
    assert bits(nd.array(value[:, ::2]).numpy()) == bits(value[:, ::2])
    assert bits(pickle.loads(pickle.dumps(tensor)).numpy()) == bits(value)
    assert tensor.copyto(cpu(0)).strides == (3, 1)


@pytest.mark.parametrize("dtype", PADDED)
def test_packed_tensors_are_refused(packed_tensor, dtype):
    packed = NDArray(packed_tensor(b"\x21\x43", dtype, (4,)))
    for use in (lambda: tensor_of(packed), packed.numpy, packed.is_contiguous, lambda: packed.strides):
        with pytest.raises(ValueError, match=f"a packed tensor is not supported: elements of dtype {dtype} share"):
            use()
    single = NDArray(packed_tensor(b"\xf1", dtype, (1,)))  # its upper bits are not read
    assert float(single.item()) == (0.5 if "float" in dtype else 1)


def test_elements_between_others_of_a_packed_tensor():
    """Every second element of a packed tensor lies as a padded one does; the bits beside it are not read."""
    data = np.frombuffer(b"\xf1\x4e\x27", "int8").copy()
    tensor = nd.from_dlpack(tvm_ffi.from_dlpack(nd.array(data)))
    seen = NDArray(view_tensor(tensor.tensor, (3,), "int4"))
    assert seen.numpy().astype("int8").tolist() == [1, -2, 7]


def test_copies_round_once():
    tensor = nd.empty((1,), "bfloat16")
    for write in (lambda x: tensor.copyfrom(x), lambda x: tensor.__setitem__(0, x[0])):
        write(np.array([1 + 2**-8 + 2**-30]))
        assert float(tensor.item()) == 1 + 2**-7


def test_a_copy_converts_between_narrow_dtypes():
    tensor = nd.empty((3,), "uint2")
    tensor[:] = np.array([1, -1, 6]).astype(ml_dtypes.int4)
    assert tensor.numpy().astype("int8").tolist() == [1, 3, 2]


def test_numpy_is_a_copy_and_array_copies():
    value = np.zeros(3, "float32")
    tensor = nd.array(value)
    value[0] = 5
    tensor.numpy()[1] = 5
    assert tensor.numpy().tolist() == [0, 0, 0]


def test_memory_lives_as_long_as_its_views():
    view = numpy_view(nd.array(np.arange(1000, dtype="int64")).tensor)
    reshaped = nd.array(np.arange(6, dtype="int64")).view((2, 3))
    gc.collect()
    filler = [nd.empty((1000,), "int64") for _ in range(50)]
    for tensor in filler:
        tensor[:] = 7
    assert view[999] == 999
    assert reshaped.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_setitem():
    tensor = nd.empty((2, 3), "float32")
    tensor[:] = 0
    tensor[:] = nd.array(np.ones((2, 3), "float64"))
    tensor[0, 1] = 5
    tensor[1] = np.array([7, 8, 9])
    assert tensor.numpy().tolist() == [[1, 5, 1], [7, 8, 9]]
    with pytest.raises(ValueError, match=r"copyfrom: expected shape \(2, 3\), found \(3,\)"):
        tensor[:] = np.zeros(3)
    scalar = nd.empty((), "int32")
    scalar[:] = np.int32(4)
    scalar[...] = np.asarray(5)
    assert scalar.item() == 5


def test_copyfrom_copyto():
    a = nd.array([1.5, 2.5])
    b = nd.empty((2,), "float32")
    assert a.copyto(b) is b
    assert b.numpy().tolist() == [1.5, 2.5]
    c = b.copyto(cpu())
    b[:] = 0
    assert c.numpy().tolist() == [1.5, 2.5]
    with pytest.raises(ValueError, match="no memory on cuda:0"):
        c.copyto(tvm_ffi.device("cuda", 0))


def test_scalars_and_protocols():
    x = nd.array(np.float32(2.5))
    assert (float(x), int(x), bool(x), x.ndim, x.size) == (2.5, 2, True, 0, 1)
    assert [1, 2, 3][nd.array(np.int64(1))] == 2
    with pytest.raises(TypeError, match="float32 tensor is not an index"):
        [1][x]
    assert len(nd.empty((4, 2))) == 4
    np.testing.assert_array_equal(nd.array([1, 2]), [1, 2])
    np.testing.assert_array_equal(np.from_dlpack(nd.array([1, 2])), [1, 2])
    assert np.asarray(x, dtype="float64").dtype == np.float64


def test_pickle_copy_and_repr():
    x = nd.array(np.arange(3, dtype=ml_dtypes.bfloat16))
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.dtype == "bfloat16"
        assert not y.same_as(x)
        assert y.numpy().tolist() == [0, 1, 2]
    assert repr(x) == "<relax.nd.NDArray shape=(3,), dtype='bfloat16', cpu:0>\n[0 1 2]"


def test_an_ndarray_is_the_tensor_to_every_ffi_function():
    echo = tvm_ffi.get_global_func("testing.echo")
    x = nd.array([1, 2])
    assert isinstance(echo(x), tvm_ffi.Tensor)
    assert echo(x).data_ptr() == x.data_ptr()
    assert isinstance(echo((x, 1))[0], tvm_ffi.Tensor)


@pytest.mark.parametrize(
    "make", [lambda a: a.T, lambda a: a[::2], lambda a: a[::-1], lambda a: a[:, 1:], lambda a: a.astype(">f4")]
)
def test_imports_of_awkward_arrays_are_compact(make):
    value = make(np.arange(12, dtype="float32").reshape(4, 3))
    tensor = tensor_of(value)
    assert tensor.is_contiguous()
    np.testing.assert_array_equal(numpy_view(tensor), value)
    np.testing.assert_array_equal(nd.array(value).numpy(), value)


def test_imports_of_readonly_arrays_are_copies():
    value = np.arange(3)
    value.flags.writeable = False
    tensor = tensor_of(value)
    numpy_view(tensor)[0] = 9
    assert value.tolist() == [0, 1, 2]


def test_import_shares_compact_memory():
    value = np.arange(12, dtype="float32").reshape(4, 3)
    assert tensor_of(value).data_ptr() == value.ctypes.data
    assert tensor_of(value[1:]).data_ptr() == value[1:].ctypes.data
    strided = tvm_ffi.from_dlpack(value.T)
    assert tensor_of(strided).is_contiguous()
    np.testing.assert_array_equal(numpy_view(tensor_of(strided)), value.T)
    np.testing.assert_array_equal(numpy_view(strided), value.T)
    assert tensor_of([1, 2]) is None
    assert tensor_of("x") is None


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: nd.array(["a"]), TypeError, "its elements are no numbers"),
        (lambda: nd.array([1j]), TypeError, "unsupported NumPy dtype complex128"),
        (lambda: nd.empty((2,), "float12"), TypeError, "unsupported dtype 'float12'"),
        (lambda: nd.empty((2,), 3), TypeError, "3 is not a dtype"),
        (lambda: nd.empty((-1, 2)), ValueError, r"negative dimension, as in \(-1, 2\)"),
        (lambda: nd.empty((1 << 40, 1 << 40)), MemoryError, "needs 4835703278458516698824704 bytes"),
        (lambda: nd.empty((2,), device=tvm_ffi.device("cuda", 0)), ValueError, "this runtime has cpu only"),
        (
            lambda: nd.array([1], "int64"),
            TypeError,
            r"array: a device is made by relax.cpu\(\) or relax.device\(name\); found .int64.",
        ),
        (lambda: NDArray([1]), TypeError, "use relax.nd.array"),
        (lambda: nd.empty((6,)).view((4,)), ValueError, r"shape \(6,\) cannot be seen as \(4,\)"),
        (lambda: len(nd.empty(())), TypeError, "rank 0 has no len"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_no_leak():
    import resource

    def churn():
        for _ in range(200):
            numpy_view(nd.empty((1 << 20,), "uint8").view((1 << 10, 1 << 10)).tensor)[0, 0] = 1

    churn()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    churn()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
