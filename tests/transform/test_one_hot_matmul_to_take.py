"""OneHotMatmulToTake: products by one-hot vectors become rows of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relax
from relax import op
from relax.script import ir as I
from relax.script import relax as R
from relax.transform import OneHotMatmulToTake
from support import PLAIN_LOOPS

rng = np.random.default_rng(3)
ROWS = np.array([[0, 0, 0], [1, 2, 3], [4, 5, 6], [0, 0, 0]], "float32")


def test_rows_of_weights(check):
    """The row before the first and the one behind the last are zeros, which numbers out of range choose."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4, 1), "int32")):
            with R.dataflow():
                lv = R.equal(x, R.const([[[3, 4]]]))
                lv1 = R.astype(lv, "float32")
                gv = R.matmul(lv1, R.const([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4, 1), "int32")):
            with R.dataflow():
                lv = R.squeeze(x, axis=(-1,))
                lv1 = R.add(lv, R.const(-2))
                gv = R.take(R.const(ROWS), lv1, axis=0, mode="clip")
                R.output(gv)
            return gv

    check(OneHotMatmulToTake(), Before, Expected)


def chosen(x_shape: tuple[Any, ...], numbers: np.ndarray, weights: np.ndarray, **attrs: Any) -> relax.IRModule:
    """A module of a product by one-hot vectors; strings are names of sizes."""
    builder = relax.BlockBuilder()
    sizes = [relax.tir.Var(size, "int64") if isinstance(size, str) else size for size in x_shape]
    x = relax.Var("x", relax.TensorStructInfo(sizes, str(numbers.dtype)))
    with builder.function("main", [x]):
        with builder.dataflow():
            same = builder.emit(op.equal(relax.const(numbers), x))
            one_hot = builder.emit(op.astype(same, str(weights.dtype)))
            y = builder.emit_output(op.matmul(one_hot, relax.const(weights), **attrs))
        builder.emit_func_output(y)
    return builder.finalize()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("first", [0, 1, 5, -3])
def test_every_number_chooses_what_the_product_does(dtype, first):
    """Bit for bit, the least and the greatest number included, and weights of -0."""
    info = np.iinfo(dtype)
    first = max(first, info.min)
    numbers = np.arange(first, first + 7).astype(dtype)
    weights = rng.standard_normal((7, 3)).astype("float32")
    weights[2, 1] = -0.0
    x = np.array([info.min, info.min + 1, *range(max(first - 2, info.min), first + 9), info.max - 1, info.max])
    mod = chosen(("n", 1), numbers, weights)
    taken = OneHotMatmulToTake()(mod)
    assert "R.take" in str(taken)
    for part in (x, x[:1], x[:0]):
        arguments = part.astype(dtype)[:, None]
        expected = relax.interpret(mod, "main", arguments).numpy()
        for result in (
            relax.interpret(taken, "main", arguments).numpy(),
            relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"](arguments).numpy(),
        ):
            np.testing.assert_array_equal(result.view("uint32"), expected.view("uint32"))


def test_narrow_weights():
    weights = rng.standard_normal((4, 5)).astype("float16")
    mod = chosen((2, 3, 1), np.arange(4, dtype="int32"), weights)
    taken = OneHotMatmulToTake()(mod)
    assert "R.take" in str(taken)
    x = np.array([[-1, 0, 1], [2, 3, 4]], "int32")[:, :, None]
    ours, theirs = (relax.interpret(m, "main", x).numpy() for m in (taken, mod))
    np.testing.assert_array_equal(ours, theirs)


NUMBERS, WEIGHTS = np.arange(4, dtype="int32"), np.ones((4, 5), "float32")


@pytest.mark.parametrize(
    ("shape", "numbers", "weights", "attrs"),
    [
        pytest.param((2, 1), NUMBERS[::-1].copy(), WEIGHTS, {}, id="numbers that fall"),
        pytest.param((2, 1), NUMBERS * 2, WEIGHTS, {}, id="numbers with gaps"),
        pytest.param((2, 4), NUMBERS, WEIGHTS, {}, id="elements compared with one number each"),
        pytest.param((1,), NUMBERS[None], WEIGHTS, {}, id="a vector that is repeated"),
        pytest.param((2, 1), NUMBERS.astype("uint64"), WEIGHTS, {}, id="uint64"),
        pytest.param((2, 1), NUMBERS.astype("float32"), WEIGHTS, {}, id="floats"),
        pytest.param((2, 1), NUMBERS, np.full((4, 5), np.inf, "float32"), {}, id="infinite"),
        pytest.param((2, 1), NUMBERS, np.full((4, 5), np.nan, "float32"), {}, id="no numbers"),
        pytest.param((2, 1), NUMBERS, np.ones((4, 5), "int32"), {}, id="integers"),
        pytest.param((2, 1), NUMBERS, np.ones((2, 4, 5), "float32"), {}, id="several matrices"),
        pytest.param((2, 1), NUMBERS, np.ones((4, 5), "float16"), {"out_dtype": "float32"}, id="another dtype"),
    ],
)  # fmt: skip
def test_declines(check, shape, numbers, weights, attrs):
    check(OneHotMatmulToTake(), chosen(shape, numbers, weights, **attrs))
