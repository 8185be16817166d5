"""Weights as AWQ, GPTQ and compressed-tensors keep them: packed here by their formulas, read back number by number."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from relax.frontend.grouped_weights import AWQ_ORDER, from_awq, from_compressed_tensors, from_gptq
from relax.ir import DiagnosticError
from weights_in_blocks import format_named

RNG = np.random.default_rng(21)
DEPTH, ROWS, GROUP = 128, 24, 64


def packed(numbers: np.ndarray, bits: int, order: tuple[int, ...] | None = None) -> np.ndarray:
    """Integers (rows, columns) in words of int32, those of the first columns in the lowest bits."""
    count = 32 // bits
    words = np.zeros((len(numbers), -(-numbers.shape[1] // count)), "uint32")
    for column in range(numbers.shape[1]):
        word, place = divmod(column, count)
        if order is not None:
            place = order.index(place)
        words[:, word] |= numbers[:, column].astype("uint32") << np.uint32(bits * place)
    return words.view("int32")


def parts(bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes (depth, rows), zero points and scales (groups, rows)."""
    codes = RNG.integers(0, 1 << bits, (DEPTH, ROWS))
    zeros = RNG.integers(1, 17 if bits == 4 else 256, (DEPTH // GROUP, ROWS))
    return codes, zeros, RNG.random((DEPTH // GROUP, ROWS)).astype("float16")


def weights(codes, zeros, scales, groups):
    """The weights (rows, depth), in float32."""
    return ((codes - zeros[groups]).astype("float32") * scales[groups].astype("float32")).T


@pytest.mark.parametrize("order", ["in order", "permuted"])
@pytest.mark.parametrize("bits", [4, 8])
def test_gptq(bits, order):
    codes, zeros, scales = parts(bits)
    groups = np.arange(DEPTH) // GROUP
    if order == "permuted":
        groups = RNG.permutation(groups)
    qweight = packed(codes.T, bits).T
    found = from_gptq(qweight, packed(zeros - 1, bits), scales, groups.astype("int32"), bits=bits)
    expected = weights(codes, zeros, scales, groups)
    columns = np.arange(DEPTH) if found.columns is None else found.columns
    assert (found.columns is None) == (order == "in order")
    assert found.format == f"int{bits}_g64_zero_float16"
    np.testing.assert_array_equal(format_named(found.format).decode(found.rows), expected[:, columns])


def test_zero_points_without_offset():
    codes, zeros, scales = parts(4)
    zeros = np.minimum(zeros, 15)
    found = from_gptq(packed(codes.T, 4).T, packed(zeros, 4), scales, zero_offset=0)
    expected = weights(codes, zeros, scales, np.arange(DEPTH) // GROUP)
    np.testing.assert_array_equal(format_named(found.format).decode(found.rows), expected)


def test_awq():
    codes, zeros, scales = parts(4)
    zeros = np.minimum(zeros, 15)
    found = from_awq(packed(codes, 4, AWQ_ORDER), packed(zeros, 4, AWQ_ORDER), scales)
    assert found.columns is None
    expected = weights(codes, zeros, scales, np.arange(DEPTH) // GROUP)
    np.testing.assert_array_equal(format_named(found.format).decode(found.rows), expected)


@pytest.mark.parametrize("zero_points", ["none", "int8", "packed"])
@pytest.mark.parametrize("bits", [4, 8])
def test_compressed_tensors(bits, zero_points):
    low = 1 << bits - 1
    numbers = RNG.integers(-low, low, (ROWS, DEPTH))
    zeros = RNG.integers(-low, low, (ROWS, DEPTH // GROUP))
    scales = RNG.random((ROWS, DEPTH // GROUP)).astype(ml_dtypes.bfloat16)
    given = {"none": None, "int8": zeros.astype("int8"), "packed": packed((zeros + low).T, bits).T}[zero_points]
    found = from_compressed_tensors(packed(numbers + low, bits), scales, given, depth=DEPTH, bits=bits)
    whole = numbers - (0 if given is None else np.repeat(zeros, GROUP, axis=1))
    expected = whole.astype("float32") * np.repeat(scales.astype("float32"), GROUP, axis=1)
    np.testing.assert_array_equal(format_named(found.format).decode(found.rows), expected)


def test_tensors_that_do_not_fit():
    codes, zeros, scales = parts(4)
    qweight, qzeros = packed(codes.T, 4).T, packed(zeros - 1, 4)
    wide = np.zeros((2, ROWS), "int64")
    wide[0, 0] = 255
    bytes_ = packed(codes.T, 8).T, packed(wide, 8), scales
    refused = [
        (lambda: from_gptq(qweight.astype("int64"), qzeros, scales), "qweight must be a matrix of int32, found int64"),
        (lambda: from_gptq(qweight, qzeros, scales[:, :8]), r"scales must have the shape \(any, 24\), found \(2, 8\)"),
        (lambda: from_gptq(qweight, qzeros[:1], scales), r"qzeros must have the shape \(2, 24\), found \(1, 24\)"),
        (lambda: from_gptq(qweight, qzeros, scales, np.zeros(DEPTH, "int32")), "g_idx must name each of 2 groups 64 times"),
        (lambda: from_gptq(*bytes_, bits=8), "zero points must be from 0 to 255, found 1 to 256"),
        (lambda: from_gptq(qweight, qzeros, scales, bits=3), "weights of 3 bits are not read; 4 and 8 are"),
        (lambda: from_awq(packed(codes[:96], 4), packed(zeros, 4), scales), "no format has groups of 48 numbers"),
        (lambda: from_awq(packed(codes[:97], 4), packed(zeros, 4), scales), "a depth of 97 has no 2 groups of one size"),
        (lambda: from_compressed_tensors(packed(codes.T, 4), scales.T, depth=999), "128 columns for a depth of 999"),
    ]  # fmt: skip
    for read, message in refused:
        with pytest.raises(DiagnosticError, match=message):
            read()
