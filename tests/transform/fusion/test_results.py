"""Programs give the same results with fused kernels: bit for bit, where no sum is added up in another order."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import PLAIN_LOOPS

from .conftest import kernels


def data(*shape, dtype="float32", seed=0):
    values = np.random.default_rng(seed).normal(size=shape) * 3
    return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_transformer_block(keeps, dtype):
    class_text = f'''
@I.ir_module
class Block:
    @R.function
    def main(
        x: R.Tensor((2, "n", 8), "{dtype}"), wq: R.Tensor((8, 8), "{dtype}"), wk: R.Tensor((8, 8), "{dtype}"),
        w1: R.Tensor((8, 16), "{dtype}"), b1: R.Tensor((16,), "{dtype}"), w2: R.Tensor((16, 8), "{dtype}"),
        g: R.Tensor((8,), "{dtype}"),
    ):
        n = T.int64()
        with R.dataflow():
            q = R.permute_dims(R.reshape(R.matmul(x, wq), R.shape([2, n, 2, 4])), [0, 2, 1, 3])
            k = R.permute_dims(R.reshape(R.matmul(x, wk), R.shape([2, n, 2, 4])), [0, 2, 3, 1])
            s = R.nn.softmax(R.multiply(R.matmul(q, k), R.const(0.5, "{dtype}")))
            o = R.reshape(R.permute_dims(R.matmul(s, q), [0, 2, 1, 3]), R.shape([2, n, 8]))
            h = R.nn.layer_norm(R.add(x, o), g, g, axes=[-1])
            f = R.add(R.matmul(R.nn.gelu(R.add(R.matmul(h, w1), b1)), w2), h)
            y = R.nn.layer_norm(f, g, g, axes=[-1])
            R.output(y)
        return y
'''
    mod = relax.script.from_source("from relax.script import ir as I, relax as R, tir as T\n" + class_text)
    shapes = [(8, 8), (8, 8), (8, 16), (16,), (16, 8), (8,)]
    weights = [data(*shape, dtype=dtype, seed=i) / 2 for i, shape in enumerate(shapes)]
    cases = [(data(2, n, 8, dtype=dtype), *weights) for n in (0, 1, 3)]
    after = keeps(mod, *cases, exact=False, target="llvm" if dtype == "float32" else PLAIN_LOOPS)
    assert len(kernels(after)) < 14


def test_convolution_normalization_and_activation(keeps):
    @I.ir_module
    class Mod:
        @R.function
        def main(
            x: R.Tensor((1, 3, "h", 8), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            b: R.Tensor((1, 4, 1, 1), "float32"),
            g: R.Tensor((4,), "float32"),
        ):
            with R.dataflow():
                c = R.add(R.nn.conv2d(x, w, padding=1), b)
                z = R.nn.batch_norm(c, g, g, g, R.abs(g), axis=1, training=False)
                y = R.nn.relu(z[0])
                p = R.nn.max_pool2d(y, (2, 2), (2, 2))
                m = R.mean(R.exp(p), axis=[2, 3])
                R.output(m)
            return m

    after = keeps(Mod, *[(data(1, 3, h, 8), data(4, 3, 3, 3), data(1, 4, 1, 1), data(4)) for h in (2, 5)], exact=False)
    assert kernels(after) == ["fused_conv2d_add_abs_batch_norm_relu", "fused_max_pool2d_exp", "mean"]


def test_two_convolutions_of_symbolic_height_and_width(keeps):
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((1, 2, "h", "w"), "float32"), k: R.Tensor((2, 2, 3, 3), "float32")):
            with R.dataflow():
                a = R.nn.relu(R.nn.conv2d(x, k, strides=2, padding=1))
                b = R.nn.relu(R.nn.conv2d(a, k, strides=2, padding=1))
                R.output(b)
            return b

    after = keeps(Mod, *[(data(1, 2, h, w), data(2, 2, 3, 3)) for h, w in [(1, 1), (5, 8)]], exact=False)
    first, second = kernels(after)
    assert first == "fused_conv2d_relu"
    assert second.startswith("fused_conv2d1_relu")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int8"])
def test_a_chain_of_elementwise_operators(keeps, dtype):
    x, y = (
        relax.Var(name, relax.TensorStructInfo((n, 5), dtype))
        for name, n in zip("xy", [relax.prim.SizeVar("n", "int64")] * 2)
    )
    bb = relax.BlockBuilder()
    with bb.function("main", [x, y]):
        with bb.dataflow():
            a = bb.emit(relax.op.multiply(x, y))
            b = bb.emit(relax.op.add(a, x))
            c = bb.emit(relax.op.subtract(relax.op.multiply(b, b), a))
            d = bb.emit(relax.op.maximum(c, relax.op.add(a, b)))
            out = bb.emit_output(relax.op.multiply(d, relax.op.add(d, x)))
        bb.emit_func_output(out)
    after = keeps(bb.get(), *[(data(n, 5, dtype=dtype), data(n, 5, dtype=dtype, seed=1)) for n in (0, 1, 7)])
    assert len(kernels(after)) == 1
    assert "alloc_buffer" not in after.script()


def test_tuples_splits_and_concatenations(keeps):
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n", 6), "float32"), y: R.Tensor(("n", 6), "float32")):
            with R.dataflow():
                s = R.split(R.exp(x), 3, axis=1)
                c = R.concat([s[2], R.negative(s[0]), y], axis=1)
                t = (c, s[1])
                u = R.tanh(R.permute_dims(c))
                v = R.split(R.add(u, u), 2, axis=0)
                R.output(t, u, v)
            return (t, u, v)

    keeps(Mod, *[(data(n, 6), data(n, 6, seed=1)) for n in (0, 1, 3)])


def test_a_product_is_rounded_before_a_sum_adds_it_up(keeps):
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((64,), "float32"), y: R.Tensor((64,), "float32")):
            with R.dataflow():
                p = R.multiply(x, y)
                s = R.sum(p)
                R.output(s)
            return s

    after = keeps(Mod, (data(64), data(64, seed=1)), exact=False)
    assert kernels(after) == ["fused_multiply_sum"]
    assert "alloc_buffer" in after.script()  # the products are stored, and so rounded


def test_branches_and_local_functions(keeps):
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(("n",), "float32"):
            n = T.int64()

            @R.function
            def inner(z: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
                m = T.int64()
                with R.dataflow():
                    a = R.exp(R.negative(z))
                    R.output(a)
                return a

            if c:
                with R.dataflow():
                    b = R.add(R.exp(x), x)
                    R.output(b)
                r = b
            else:
                with R.dataflow():
                    d = R.sin(R.cos(x))
                    R.output(d)
                r = d
            y = inner(r)
            return y

    after = keeps(Mod, *[(data(n), np.array(c)) for n in (0, 1, 4) for c in (True, False)])
    assert sorted(kernels(after)) == ["fused_cos_sin", "fused_exp_add", "fused_negative_exp"]


def test_sizes_that_only_outputs_mention(keeps):
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((1, 4), "float32"), s: R.Shape(["n"])):
            n = T.int64()
            with R.dataflow():
                a = R.broadcast_to(R.exp(x), R.shape([n, 4]))
                b = R.negative(a)
                d = R.add(R.zeros(R.shape([n * 2, 4]), "float32"), R.const(1, "float32"))
                R.output(b, d)
            return (b, d)

    after = keeps(Mod, *[(data(1, 4), relax.ShapeTuple([n])) for n in (0, 1, 3)])
    assert any(name.startswith("fused") for name in kernels(after))


def test_sizes_bound_by_match_cast(keeps):
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(ndim=1, dtype="float32")):
            n = T.int64()
            m = T.int64()
            with R.dataflow():
                a = R.exp(x)
                z = R.match_cast(y, R.Tensor((m,), "float32"))
                b = R.concat([R.negative(a), R.sqrt(R.abs(z))], axis=0)
                d = R.take(R.add(b, b), R.const([0, -1], "int64"), axis=0)
                R.output(b, d)
            return (b, d)

    keeps(Mod, (data(1), data(2)), (data(3), data(1)), (data(0), data(1)))


def test_an_index_out_of_range_stays_an_error(keeps):
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), i: R.Tensor((2,), "int64")):
            n = T.int64()
            with R.dataflow():
                a = R.take(R.full(R.shape([n]), R.const(1, "float32"), dtype="float32"), i, axis=0)
                b = R.add(a, R.const(1, "float32"))
                R.output(b)
            return b

    mod = keeps(Mod, (data(3), np.array([2, 0])))
    ex = relax.build(Mod, "llvm")
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 of size 3"):
        relax.VirtualMachine(ex, relax.cpu())["main"](data(3), np.array([3, 0]))
    with pytest.raises(IndexError):
        relax.interpret(mod, "main", data(3), np.array([3, 0]))
