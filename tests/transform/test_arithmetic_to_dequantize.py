"""ArithmeticToDequantize: weights that are integers times scales become dequantised ones, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import op
from relax.script import relax as R
from relax.transform import ArithmeticToDequantize
from support import machine, plain_machine

K, N, SIZE = 512, 640, 32
"""Sizes of weights of which no float copy is kept: FoldConstant computes up to 1 MiB."""
GROUPS = (N, K // SIZE, SIZE)

rng = np.random.default_rng(5)
NUMBERS = rng.integers(-128, 128, (N, K)).astype("int8")
ZEROS = rng.integers(-8, 8, (*GROUPS[:2], 1)).astype("int8")
SCALES = rng.uniform(0.01, 0.02, (*GROUPS[:2], 1)).astype("float32")
MINIMA = rng.standard_normal((*GROUPS[:2], 1)).astype("float32")


def narrow(dtype):
    return relax.DataType(dtype).numpy()


def program(weights, dtype="float32"):
    """A product of x by weights that a function builds: it emits what it is given."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor(("m", K), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(op.matmul(x, builder.emit(weights(builder.emit))))
        builder.emit_func_output(result)
    return builder.get()


def wide(emit, array, dtype="float32"):
    return emit(op.astype(relax.const(array), dtype))


def converted(emit, dtype="float32"):
    return op.astype(emit(op.permute_dims(relax.const(NUMBERS))), dtype)


def scaled(emit, dtype="float32"):
    product = emit(op.multiply(wide(emit, NUMBERS, dtype), relax.const(SCALES[:, 0].astype(narrow(dtype)))))
    return op.permute_dims(product)


def grouped(emit, minima=False, dtype="float32"):
    numbers = emit(op.astype(emit(op.reshape(relax.const(NUMBERS), GROUPS)), dtype))
    product = emit(op.multiply(relax.const(SCALES), emit(op.subtract(numbers, wide(emit, ZEROS, dtype)))))
    product = emit(op.add(product, relax.const(MINIMA))) if minima else product
    return op.permute_dims(emit(op.reshape(product, (N, K))))


def by_columns(emit):
    """Groups along the first dimension, so that scales vary along the first and the last one."""
    numbers = wide(emit, np.reshape(NUMBERS.T, (K // SIZE, SIZE, N)))
    scales = relax.const(np.ascontiguousarray(SCALES.transpose(1, 2, 0)))
    return op.reshape(emit(op.multiply(numbers, scales)), (K, N))


def rounded_last(emit):
    """Subtracted in bfloat16, scaled in float32, and rounded to bfloat16."""
    numbers = emit(op.astype(emit(op.reshape(relax.const(NUMBERS), GROUPS)), "bfloat16"))
    differences = emit(op.subtract(numbers, wide(emit, ZEROS, "bfloat16")))
    product = emit(op.multiply(emit(op.astype(differences, "float32")), relax.const(SCALES)))
    return op.permute_dims(emit(op.astype(emit(op.reshape(product, (N, K))), "bfloat16")))


CASES = {
    "integers": (converted, "float32"),
    "scaled": (scaled, "float32"),
    "grouped": (grouped, "float32"),
    "minima": (lambda emit: grouped(emit, True), "float32"),
    "by columns": (by_columns, "float32"),
    "integers in bfloat16": (lambda emit: converted(emit, "bfloat16"), "bfloat16"),
    "scaled in bfloat16": (lambda emit: scaled(emit, "bfloat16"), "bfloat16"),
    "scaled in float16": (lambda emit: scaled(emit, "float16"), "float16"),
    "rounded last": (rounded_last, "bfloat16"),
}


@pytest.mark.parametrize("case", CASES)
def test_weights_keep_their_bits(case):
    """Rows of the product by a unit matrix are those of the program as it was, and no float tensor is as large."""
    weights, dtype = CASES[case]
    mod = program(weights, dtype)
    after = ArithmeticToDequantize()(mod)
    assert "R.dequantize" in after.script()
    assert ArithmeticToDequantize()(after) is after
    x = np.eye(K, dtype="float32")[:20].astype(narrow(dtype))
    expected = relax.interpret(mod, "main", x).numpy()
    np.testing.assert_array_equal(relax.interpret(after, "main", x).numpy(), expected)
    vm = machine(mod)
    np.testing.assert_array_equal(vm["main"](x).numpy(), expected)
    tensors = [c for c in vm.executable.constants if hasattr(c, "__dlpack__")]
    assert not [c for c in tensors if c.numel() >= NUMBERS.size and "float" in str(c.dtype)]
    assert sum(c.numel() * c.dtype.itemsize for c in tensors) < 2 * NUMBERS.nbytes


def test_products_by_the_same_weights_share_them():
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor(("m", K), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            weights = builder.emit(scaled(builder.emit))
            results = [builder.emit_output(op.matmul(x, weights)) for _ in range(2)]
        builder.emit_func_output(relax.Tuple(results))
    assert ArithmeticToDequantize()(builder.get()).script().count("R.dequantize") == 1


def test_numbers_of_few_bits():
    """One scale for all is a number, as is the zero point that the program has not."""
    q = rng.integers(-8, 8, (K, N)).astype(narrow("int4"))
    mod = program(lambda emit: op.multiply(wide(emit, q), relax.const(np.float32(0.3))))
    assert 'R.const(0.3, "float32"), R.const(0, "int4")' in ArithmeticToDequantize()(mod).script()
    x = rng.standard_normal((3, K)).astype("float32")
    expected = x @ (q.astype("float32") * np.float32(0.3))
    np.testing.assert_allclose(plain_machine(mod)["main"](x).numpy(), expected, 1e-4, 1e-4)


DECLINED = {
    "zero points that are no integers": lambda emit: op.subtract(converted_rows(emit), relax.const(np.float32(0.5))),
    "int32": lambda emit: wide(emit, np.full((K, N), 1 << 20, "int32")),
    "scaled twice": lambda emit: op.multiply(
        emit(op.multiply(converted_rows(emit), relax.const(np.float32(3)))), relax.const(np.float32(5))
    ),
    "subtracted from": lambda emit: op.subtract(relax.const(np.float32(3)), converted_rows(emit)),
    "floats": lambda emit: op.astype(relax.const(NUMBERS.T.astype("float16")), "float32"),
}


def converted_rows(emit):
    return wide(emit, np.ascontiguousarray(NUMBERS.T))


@pytest.mark.parametrize("case", DECLINED)
def test_other_arithmetic_stays(check, case):
    check(ArithmeticToDequantize(), program(DECLINED[case]))


def test_differences_that_a_dtype_does_not_hold_stay(check):
    def weights(emit):
        return op.subtract(wide(emit, np.ascontiguousarray(NUMBERS.T), "bfloat16"), relax.const(zeros))

    zeros = np.float32(200).astype(narrow("bfloat16"))
    check(ArithmeticToDequantize(), program(weights, "bfloat16"))


def test_weights_that_are_arguments_stay(check):
    builder = relax.BlockBuilder()
    x, w = relax.Var("x", R.Tensor(("m", K), "float32")), relax.Var("w", R.Tensor((K, N), "int8"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            result = builder.emit_output(op.matmul(x, builder.emit(op.astype(w, "float32"))))
        builder.emit_func_output(result)
    check(ArithmeticToDequantize(), builder.get())


def test_long_chains_stay(check):
    """Recognition follows a few operators of constants only, not each path through a program."""

    def weights(emit):
        value = converted_rows(emit)
        for _ in range(100):
            value = emit(op.add(value, value))
        for _ in range(3000):
            value = emit(op.add(value, relax.const(np.float32(1))))
        return value

    check(ArithmeticToDequantize(), program(weights))
