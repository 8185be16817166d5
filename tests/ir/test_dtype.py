"""DataType: a string that knows what it means."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from relax.ir import DataType


@pytest.mark.parametrize(
    "text, code, bits, lanes",
    [
        ("int8", "int", 8, 1),
        ("int64", "int", 64, 1),
        ("uint8", "uint", 8, 1),
        ("float16", "float", 16, 1),
        ("float64", "float", 64, 1),
        ("bfloat16", "bfloat", 16, 1),
        ("bool", "bool", 1, 1),
        ("float8_e4m3fn", "float8_e4m3fn", 8, 1),
        ("float8_e5m2", "float8_e5m2", 8, 1),
        ("float4_e2m1fn", "float4_e2m1fn", 4, 1),
        ("int4", "int", 4, 1),
        ("uint2", "uint", 2, 1),
        ("uint4x8", "uint", 4, 8),
        ("handle", "handle", 64, 1),
        ("", "void", 0, 0),
        ("float32x4", "float", 32, 4),
        ("boolx8", "bool", 1, 8),
        ("float8_e5m2x16", "float8_e5m2", 8, 16),
        ("float4_e2m1fnx2", "float4_e2m1fn", 4, 2),
    ],
)
def test_parts(text, code, bits, lanes):
    dtype = DataType(text)
    assert (dtype.code, dtype.bits, dtype.lanes) == (code, bits, lanes)
    assert dtype == text
    assert str(dtype) == text


@pytest.mark.parametrize(
    "spelling, canonical",
    [
        ("uint1", "bool"),
        ("int", "int32"),
        ("float", "float32"),
        ("f32", "float32"),
        ("void", ""),
        (None, ""),
        (np.float32, "float32"),
        (np.dtype("int8"), "int8"),
        (np.bool_, "bool"),
        (bool, "bool"),
        (int, "int64"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (ml_dtypes.int4, "int4"),
        (np.dtype(ml_dtypes.float4_e2m1fn), "float4_e2m1fn"),
        ("int8x1", "int8"),
    ],
)
def test_spellings(spelling, canonical):
    assert DataType(spelling) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "int7",
        "uint3",
        "float4",
        "float4_e2m1",
        "float8",
        "floatx",
        "int32x0",
        "float8_e5m2x0",
        "complex64",
        "Int8",
        "x4",
        "int32 ",
        5,
    ],
)
def test_unknown_dtypes(text):
    with pytest.raises(ValueError, match=f"unknown dtype '{text}'"):
        DataType(text)


def test_one_object_per_dtype():
    assert DataType("int32") is DataType("int") is DataType(DataType("int32"))
    assert pickle.loads(pickle.dumps(DataType("int8x4"))) is DataType("int8x4")
    assert copy.deepcopy(DataType("bool")) is DataType("bool")


def test_questions():
    assert DataType("int8").is_int
    assert DataType("int8").is_integer
    assert not DataType("int8").is_uint
    assert DataType("uint8").is_integer
    assert not DataType("bool").is_integer
    assert DataType("bool").is_bool
    for name in ("float16", "bfloat16", "float8_e4m3fn", "float4_e2m1fn"):
        assert DataType(name).is_float
    assert DataType("").is_void
    assert DataType("handle").is_handle
    assert DataType("int8x2").is_vector
    assert not DataType("int8x2").is_scalar
    assert DataType("int8x2").element_of == "int8"
    assert DataType("float32").with_lanes(4) == "float32x4"
    assert [DataType(t).itemsize for t in ("bool", "int8", "float64", "float32x4")] == [1, 1, 8, 16]


def test_elements_of_2_and_4_bits_take_a_byte():
    padded = ["int2", "uint2", "int4", "uint4", "float4_e2m1fn"]
    assert all(DataType(name).is_padded and DataType(name).itemsize == 1 for name in padded)
    assert not any(DataType(name).is_padded for name in ("bool", "int8", "float8_e5m2", "int1"))
    assert DataType("int4x8").itemsize == 8
    assert DataType("float4_e2m1fn").saturates
    assert not DataType("float8_e4m3fn").saturates


def test_numpy():
    assert DataType("bfloat16").numpy() == ml_dtypes.bfloat16
    assert DataType("float8_e4m3fn").numpy() == ml_dtypes.float8_e4m3fn
    assert DataType("int32x4").numpy() == np.int32
    assert DataType("int2x4").numpy() == ml_dtypes.int2
    assert DataType("float4_e2m1fn").numpy() == ml_dtypes.float4_e2m1fn
    for text in ("", "handle"):
        with pytest.raises(TypeError, match=f"dtype '{text}' has no NumPy equivalent"):
            DataType(text).numpy()


@pytest.mark.parametrize(
    "text, least, most",
    [
        ("int8", -128, 127),
        ("uint64", 0, 2**64 - 1),
        ("bool", 0, 1),
        ("float32", -np.inf, np.inf),
        ("float8_e4m3fn", -448.0, 448.0),  # has no infinity
        ("float4_e2m1fn", -6.0, 6.0),
        ("int4", -8, 7),
        ("uint4", 0, 15),
        ("int2", -2, 1),
        ("uint2", 0, 3),
    ],
)
def test_limits(text, least, most):
    assert (DataType(text).min_value, DataType(text).max_value) == (least, most)
