"""FoldBatchnormToConv2D: batch norms and factors of channels become part of the weights of convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relax
from relax import op
from relax.ir.transform import PassContext
from relax.script import ir as I
from relax.script import relax as R
from relax.transform import DeadCodeElimination, FoldBatchnormToConv2D, Sequential
from support import PLAIN_LOOPS

rng = np.random.default_rng(7)
step = Sequential([FoldBatchnormToConv2D(), DeadCodeElimination()], name="fold")


def test_a_batch_norm(check):
    """√(var + ε) is 2 and 0.5, so that the channels are scaled by 1 and 8."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 1, "w"), "float32")):
            with R.dataflow():
                lv = R.nn.conv1d(x, R.const([[[1.0, 2.0]], [[3.0, 4.0]]], "float32"))
                lv1 = R.nn.batch_norm(
                    lv,
                    R.const([2.0, 4.0], "float32"),
                    R.const([1.0, 2.0], "float32"),
                    R.const([3.0, 5.0], "float32"),
                    R.const([3.75, 0.0], "float32"),
                    axis=1,
                    epsilon=0.25,
                )
                gv = lv1[0]
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 1, "w"), "float32")):
            with R.dataflow():
                lv = R.nn.conv1d(x, R.const([[[1.0, 2.0]], [[24.0, 32.0]]], "float32"))
                gv = R.add(lv, R.const([[-2.0], [-38.0]], "float32"))
                R.output(gv)
            return gv

    check(step, Before, Expected)


def test_a_factor_behind_a_bias(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4, 4, 2), "float32")):
            with R.dataflow():
                lv = R.nn.conv2d(
                    x,
                    R.const([[[[1.0], [2.0]]], [[[3.0], [4.0]]]], "float32"),
                    data_layout="NHWC",
                    kernel_layout="OHIW",
                )
                lv1 = R.add(R.const([1.0, 2.0], "float32"), lv)
                gv = R.multiply(lv1, R.const([[10.0, 100.0]], "float32"))
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4, 4, 2), "float32")):
            with R.dataflow():
                lv = R.nn.conv2d(
                    x,
                    R.const([[[[10.0], [20.0]]], [[[300.0], [400.0]]]], "float32"),
                    data_layout="NHWC",
                    kernel_layout="OHIW",
                )
                gv = R.add(lv, R.const([10.0, 200.0], "float32"))
                R.output(gv)
            return gv

    check(step, Before, Expected)


def statistics(channels: int, dtype: str = "float32") -> list[Any]:
    parts = [rng.standard_normal(channels) for _ in range(3)] + [rng.random(channels) + 0.1]
    return [relax.const(part.astype(dtype)) for part in parts]


def module(x_shape: tuple[Any, ...], dtype: str, body: Any) -> relax.IRModule:
    """A module of a function of one tensor; strings are names of sizes. `body(builder, x)` gives the result."""
    builder = relax.BlockBuilder()
    sizes = [relax.tir.Var(size, "int64") if isinstance(size, str) else size for size in x_shape]
    x = relax.Var("x", relax.TensorStructInfo(sizes, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(body(builder, x))
        builder.emit_func_output(y)
    return builder.finalize()


def normed(builder: Any, y: Any, channels: int, axis: int = 1, dtype: str = "float32", **options: Any) -> Any:
    norm = builder.emit(op.nn.batch_norm(y, *statistics(channels, dtype), axis=axis, **options))
    builder.emit(relax.TupleGetItem(norm, 1))  # read by nobody
    return builder.emit(relax.TupleGetItem(norm, 0))


def weight(*shape: int, dtype: str = "float32") -> relax.Constant:
    return relax.const(rng.standard_normal(shape).astype(dtype))


def conv2d_twice(builder: Any, x: Any) -> Any:
    """Convolution, bias, norm, activation; again, in groups, and a factor."""
    y = builder.emit(op.nn.conv2d(x, weight(6, 4, 3, 3), padding=1))
    y = normed(builder, builder.emit(op.add(y, weight(6, 1, 1))), 6)
    y = builder.emit(op.nn.conv2d(builder.emit(op.nn.relu(y)), weight(6, 2, 3, 3), groups=3))
    return op.multiply(normed(builder, y, 6, scale=False), weight(1, 6, 1, 1))


def conv1d_of_doubles(builder: Any, x: Any) -> Any:
    y = builder.emit(op.nn.conv1d(x, weight(5, 4, 3, dtype="float64"), strides=2, padding=1))
    return normed(builder, y, 5, dtype="float64", center=False)


def transposed(builder: Any, x: Any) -> Any:
    y = builder.emit(op.nn.conv2d_transpose(x, weight(4, 3, 2, 2), strides=2))
    return op.multiply(relax.const(np.float32(-0.5)), normed(builder, y, 3))


def conv3d(builder: Any, x: Any) -> Any:
    return normed(builder, builder.emit(op.nn.conv3d(x, weight(3, 4, 2, 1, 2), padding=1)), 3, axis=-4)


PROGRAMS = [
    (conv2d_twice, ("n", 4, "h", "w"), "float32"),
    (conv1d_of_doubles, ("n", 4, "w"), "float64"),
    (transposed, ("n", 4, "h", "w"), "float32"),
    (conv3d, ("n", 4, "d", "h", "w"), "float32"),
]


@pytest.mark.parametrize(("body", "shape", "dtype"), PROGRAMS)
def test_equal_to_the_operators(body: Any, shape: tuple[Any, ...], dtype: str):
    """One build for all sizes, with elements that are not finite."""
    mod = module(shape, dtype, body)
    changed = step(mod)
    assert "batch_norm" not in changed.script()
    assert "multiply" not in changed.script()
    assert step(changed) is changed
    run = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"]
    for n, size in ((0, 5), (1, 3), (2, 5), (1, 17)):
        x = rng.standard_normal((n, 4, *[size] * (len(shape) - 2))).astype(dtype)
        if n == 2:
            x.reshape(-1)[[0, 17, 35]] = np.nan, np.inf, -np.inf
        expected = relax.interpret(mod, "main", x).numpy()
        np.testing.assert_allclose(relax.interpret(changed, "main", x).numpy(), expected, 1e-4, 1e-4)
        np.testing.assert_allclose(run(x).numpy(), expected, 1e-4, 1e-4)


def test_the_stated_bound():
    """Magnitudes that differ by channel, and a mean far from 0: errors within that of a sum of K + 4 products."""
    channels, depth = 7, 24
    w = rng.standard_normal((channels, depth, 1, 1)) * 10.0 ** rng.integers(-6, 6, (channels, 1, 1, 1))
    gamma, beta, mean = (rng.standard_normal(channels) * scale for scale in (1, 1, 1e3))
    variance = 10.0 ** rng.integers(-4, 4, channels)
    parts = [part.astype("float32") for part in (gamma, beta, mean, variance)]
    w = w.astype("float32")

    def body(builder: Any, x: Any) -> Any:
        y = builder.emit(op.nn.conv2d(x, relax.const(w)))
        norm = builder.emit(op.nn.batch_norm(y, *map(relax.const, parts), axis=1, epsilon=1e-5))
        return relax.TupleGetItem(norm, 0)

    x = rng.standard_normal((1, depth, 9, 9)).astype("float32")
    run = relax.VirtualMachine(relax.build(module((1, depth, 9, 9), "float32", body), "llvm"), relax.cpu())
    gamma, beta, mean, variance = (part.astype("float64")[:, None, None] for part in parts)
    exact, wide = (np.einsum("oi,ihw->ohw", f(w[..., 0, 0]), f(x[0])) for f in (np.float64, lambda a: abs(a) * 1.0))
    scale = gamma / np.sqrt(variance + 1e-5)
    error = abs(run["main"](x).numpy()[0] - ((exact - mean) * scale + beta))
    magnitude = abs(scale) * (wide + abs(mean)) + abs(beta)
    assert (error <= (depth + 4) * 2.0**-24 * magnitude).all()


def narrow(builder: Any, x: Any) -> Any:
    return normed(builder, builder.emit(op.nn.conv1d(x, weight(2, 4, 1, dtype="float16"))), 2, dtype="float16")


def read_twice(builder: Any, x: Any) -> Any:
    y = builder.emit(op.nn.conv1d(x, weight(2, 4, 1)))
    return op.add(normed(builder, y, 2), y)


def all_results(builder: Any, x: Any) -> Any:
    return op.nn.batch_norm(builder.emit(op.nn.conv1d(x, weight(2, 4, 1))), *statistics(2), axis=1)


def of_the_batch(builder: Any, x: Any) -> Any:
    y = builder.emit(op.nn.conv1d(x, weight(2, 4, 1)))
    return normed(builder, y, 2, training=True)


def infinite(builder: Any, x: Any) -> Any:
    y = builder.emit(op.nn.conv1d(x, weight(2, 4, 1)))
    return op.multiply(y, relax.const(np.float32(np.inf)))


def too_small(builder: Any, x: Any) -> Any:
    y = builder.emit(op.nn.conv1d(x, relax.const(np.full((2, 4, 1), 1e-30, "float32"))))
    return op.multiply(y, relax.const(np.float32(1e-9)))


def along_another_axis(builder: Any, x: Any) -> Any:
    y = builder.emit(op.nn.conv1d(x, weight(2, 4, 1)))
    return op.multiply(y, weight(5))


def larger(builder: Any, x: Any) -> Any:
    y = builder.emit(op.nn.conv1d(x, weight(1, 4, 1)))
    return op.multiply(y, weight(3, 1))


def unknown_weights(builder: Any, x: Any) -> Any:
    return normed(builder, builder.emit(op.nn.conv1d(x, builder.emit(op.zeros((2, 4, 1), "float32")))), 2)


def another_axis_normed(builder: Any, x: Any) -> Any:
    return normed(builder, builder.emit(op.nn.conv1d(x, weight(5, 4, 1))), 5, axis=2)


def packed(builder: Any, x: Any) -> Any:
    """Channels of a packed kernel are no single dimension: O, of size 2, counts the parts."""
    y = builder.emit(op.nn.conv1d(x, weight(2, 4, 1, 2), kernel_layout="OIW2o", out_layout="NCW2c"))
    return op.multiply(y, weight(2, 1, 1))


@pytest.mark.parametrize(
    "body",
    [
        packed, narrow, read_twice, all_results, of_the_batch, infinite, too_small, along_another_axis, larger,
        unknown_weights, another_axis_normed,
    ],
)  # fmt: skip
def test_declined(check, body: Any):
    dtype = "float16" if body is narrow else "float32"
    check(FoldBatchnormToConv2D(), module((1, 4, 5), dtype, body))


def test_a_convolution_outside_a_function_that_scales_it(check):
    """The function may be called often: it does not compute the convolution itself."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 1, 4), "float32")):
            lv = R.nn.conv1d(x, R.const([[[1.0, 2.0]]], "float32"))

            @R.function
            def scaled(y: R.Tensor((1, 1, 3), "float32")) -> R.Tensor((1, 1, 3), "float32"):
                z = R.multiply(lv, R.const(2.0, "float32"))
                return R.add(z, y)

            first = scaled(R.zeros((1, 1, 3), "float32"))
            return scaled(first)

    check(FoldBatchnormToConv2D(), Before)


def test_left_out(check):
    """With the operators as they are written, and below level 2."""
    mod = module(*PROGRAMS[0][1:], PROGRAMS[0][0])
    with PassContext(config={"relax.fast_algorithms": False}):
        assert "batch_norm" in relax.get_pipeline("graph")(mod).script()
    with PassContext(opt_level=1):
        assert "batch_norm" in relax.get_pipeline("graph")(mod).script()
    assert "batch_norm" not in relax.get_pipeline("graph")(mod).script()
