"""DequantizeInProducts: products by quantised weights dequantise them, and no tensor of floats is made."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import op
from relax.script import relax as R
from relax.transform import DequantizeInProducts, LegalizeOps

K, N = 1024, 300
"""Sizes of weights that are more than FoldConstant computes."""


def program(numbers, scale, zero, axis, moves=(), rows="m", dtype="float32"):
    """A product of x by weights that are dequantised, and then moved by functions."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((rows, K), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = (relax.const(np.asarray(part)) for part in (numbers, scale, zero))
            weights = builder.emit(op.dequantize(*parts, axis=axis, out_dtype=dtype))
            for move in moves:
                weights = builder.emit(move(weights))
            result = builder.emit_output(op.matmul(x, weights))
        builder.emit_func_output(result)
    return builder.get()


def constants(mod):
    """The dtypes and shapes of constants of more than one element."""
    found = []

    def visit(node):
        if isinstance(node, relax.Constant) and node.data.size > 1:
            found.append((str(node.data.dtype), tuple(node.data.shape)))

    relax.ir.walk(mod["main"], visit)
    return sorted(found)


def agrees(mod, weights):
    """True if the program computes products by these weights, as a sum of floats does."""
    main = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())["main"]
    for rows in (0, 1, 2, 13):
        x = np.random.default_rng(rows).standard_normal((rows, K)).astype("float32")
        error = np.abs(main(x).numpy() - x.astype("float64") @ weights.astype("float64"))
        bound = np.abs(x).astype("float64") @ np.abs(weights).astype("float64") * K * 2.0**-24
        assert (error <= bound).all()


def numbers(shape, low, high, dtype):
    return np.random.default_rng(0).integers(low, high, shape).astype(dtype)


def test_one_scale():
    q, scale, zero = numbers((K, N), 0, 256, "uint8"), np.float32(0.0123), np.uint8(128)
    mod = DequantizeInProducts()(program(q, scale, zero, 0))
    assert constants(mod) == [("float32", (1, N)), ("int8", (K, N))]
    assert DequantizeInProducts()(mod) is mod
    agrees(mod, (q.astype("float32") - 128) * scale)


def test_a_scale_for_each_column():
    q = numbers((K, N), -128, 128, "int8")
    scales = np.random.default_rng(1).random(N).astype("float32")
    mod = DequantizeInProducts()(program(q, scales, np.zeros(N, "int8"), 1))
    assert constants(mod) == [("float32", (1, N)), ("int8", (K, N))]
    agrees(mod, q.astype("float32") * scales)


@pytest.mark.parametrize(("zeros", "dtype"), [([8], "int4"), ([0, 15], "int8")])
def test_a_scale_for_each_group(zeros, dtype):
    """Four bits are enough where the differences fit them."""
    group, count = 32, N * K // 32
    q = numbers((count, group), 0, 16, "uint8")
    scales = np.random.default_rng(1).random(count).astype("float32")
    points = np.resize(np.array(zeros, "uint8"), count)
    moves = (lambda w: op.reshape(w, [N, K]), op.permute_dims)
    mod = DequantizeInProducts()(program(q, scales, points, 0, moves))
    assert constants(mod) == [("float32", (K // group, N)), (dtype, (K, N))]
    weights = (q.astype("float32") - points[:, None]) * scales[:, None]
    agrees(mod, np.reshape(weights, (N, K)).T)


def test_weights_are_those_that_dequantize_makes():
    """Bit for bit: rows of the product by a unit matrix."""
    q = numbers((K, N), -128, 128, "int8")
    scales = np.random.default_rng(1).random(N).astype("float32")
    mod = program(q, scales, np.zeros(N, "int8"), 1)
    main = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())["main"]
    for rows in (1, 20):
        result = main(np.eye(K, dtype="float32")[:rows]).numpy()
        np.testing.assert_array_equal(result, (q.astype("float32") * scales)[:rows])


@pytest.mark.parametrize(
    "mod",
    [
        program(numbers((K, 8), -128, 128, "int8"), np.float32(0.5), np.int8(0), 0),
        program(numbers((K, N), -128, 128, "int8"), np.float32(0.5), np.int8(1), 0),
        program(numbers((K, N), -500, 500, "int16"), np.float32(0.5), np.int16(0), 0),
        program(numbers((K, N), -128, 128, "int8"), np.float32(0.5), np.int8(0), 0, dtype="float16"),
    ],
    ids=["few", "too large without the zero point", "int16", "float16"],
)
def test_others_stay(mod):
    assert DequantizeInProducts()(mod) is mod


def test_the_kernel_does_not_change_with_legalization():
    mod = DequantizeInProducts()(program(numbers((K, N), -8, 8, "int8"), np.float32(0.5), np.int8(0), 0))
    assert "dequantize" not in LegalizeOps()(mod).script()
