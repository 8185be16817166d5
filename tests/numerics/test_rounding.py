"""Conversions to floating-point dtypes round once: every way of converting against exact rational arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from exact_rounding import FLOATS, differences, numbers_for, whole_numbers_for

import relax
from relax.runtime.dtypes import NUMPY_DTYPES
from relax.runtime.rounding import convert_array, round_number


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers(dtype):
    values = [*numbers_for(dtype), *whole_numbers_for(dtype, -(2**70), 2**70), 2**1023 + 1]
    assert differences(values, [round_number(value, dtype) for value in values], dtype) == []


@pytest.mark.parametrize("source", ["float64", "float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fnuz"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_arrays_of_floats(dtype, source):
    with np.errstate(all="ignore"):
        array = np.array(numbers_for(dtype), "float64").astype(NUMPY_DTYPES[source])
    found = convert_array(array, dtype)
    assert found.dtype == NUMPY_DTYPES[dtype]
    assert differences(array.astype("float64").tolist(), found, dtype) == []


@pytest.mark.parametrize("source", ["int64", "uint64", "int32", "uint32", "int16", "uint8"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_arrays_of_integers(dtype, source):
    limits = np.iinfo(source)
    values = whole_numbers_for(dtype, int(limits.min), int(limits.max))
    assert differences(values, convert_array(np.array(values, source), dtype), dtype) == []


def test_other_dtypes_are_converted_as_numpy_does():
    assert convert_array(np.array([True, False]), "bfloat16").tolist() == [1, 0]
    assert convert_array(np.array([1.5, -1.5]), "int8").tolist() == [1, -1]
    assert convert_array(np.array([2, 0]), "bool").tolist() == [True, False]
    same_dtype = np.array([2.0**-127], NUMPY_DTYPES["float8_e8m0fnu"])
    assert convert_array(same_dtype, "float8_e8m0fnu").tolist() == same_dtype.tolist()


BESIDE_A_TIE = 1 + 2**-8 + 2**-30


def test_constants_and_tensors_round_once():
    expected = 1 + 2**-7
    for data in (
        relax.const(BESIDE_A_TIE, "bfloat16").data,
        relax.const([BESIDE_A_TIE], "bfloat16").data,
        relax.const(np.array([BESIDE_A_TIE]), "bfloat16").data,
        relax.nd.array([BESIDE_A_TIE], dtype="bfloat16").numpy(),
        relax.nd.array(np.float64(BESIDE_A_TIE), dtype="bfloat16").numpy(),
    ):
        assert float(data.ravel()[0]) == expected
    whole = 2**54 + 2**46 + 1
    assert float(relax.const(whole, "bfloat16").data) == 2**54 + 2**47
    assert float(relax.nd.array([whole], dtype="bfloat16").numpy()[0]) == 2**54 + 2**47
    beyond = 2**70 + 2**46 + 1
    assert float(relax.const(beyond, "float32").data) == 2**70 + 2**47
    assert float(relax.const([beyond, -beyond], "float32").data[1]) == -(2**70 + 2**47)
    mixed = relax.const([2**54 + 2**30 + 1, 0.5], "float32").data
    assert mixed.tolist() == [2**54 + 2**31, 0.5]
