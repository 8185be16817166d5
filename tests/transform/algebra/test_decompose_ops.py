"""DecomposeOpsForInference and DecomposeOpsForTraining: normalisation by simple operators."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.transform import DecomposeOpsForInference, DecomposeOpsForTraining

from .conftest import results


@I.ir_module
class Inference:
    @R.function
    def main(
        x: R.Tensor(("n", 4, 3), "float32"), g: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32"),
        m: R.Tensor((4,), "float32"), v: R.Tensor((4,), "float32"),
    ):  # fmt: skip
        with R.dataflow():
            bn = R.nn.batch_norm(x, g, b, m, v, axis=1, epsilon=1e-3)
            y = (bn[0], bn[1], bn[2])
            R.output(y)
        return y


def operators(mod):
    found = set()
    for block in mod["main"].body.blocks:
        found |= {b.value.op.name for b in block.bindings if isinstance(b.value, relax.Call)}
    return found


def arguments(*shapes, dtype="float32"):
    rng = np.random.default_rng(1)
    return [rng.random(shape, "float32").astype(dtype) for shape in shapes]


def test_batch_norm_for_inference(keeps):
    after = DecomposeOpsForInference()(Inference)
    assert operators(after) == {
        f"relax.{name}" for name in ("subtract", "add", "sqrt", "divide", "multiply", "expand_dims", "astype")
    }
    for n in (0, 1, 2):
        keeps(Inference, after, *arguments((n, 4, 3), (4,), (4,), (4,), (4,)))
    assert DecomposeOpsForInference()(after) is after


def test_the_moving_statistics_are_copies():
    after = DecomposeOpsForInference()(Inference)
    args = arguments((1, 4, 3), (4,), (4,), (4,), (4,))
    _, mean, variance = results(after, args)
    np.testing.assert_array_equal(mean, args[3])
    np.testing.assert_array_equal(variance, args[4])
    assert not np.shares_memory(mean, args[3])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_batch_norm_for_training_uses_the_batch(dtype):
    text = Inference.script().replace("float32", dtype)
    mod = relax.script.from_source(text)
    training = relax.script.from_source(text.replace("epsilon=0.001", "epsilon=0.001, training=True"))
    assert training.script() != text
    args = arguments((3, 4, 3), (4,), (4,), (4,), (4,), dtype=dtype)
    after = DecomposeOpsForTraining()(mod)
    for got, expected in zip(results(after, args), results(training, args), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=2e-3 if dtype == "float16" else 1e-5, atol=1e-6)
    for got, expected in zip(results(DecomposeOpsForInference()(training), args), results(after, args), strict=True):
        np.testing.assert_array_equal(got, expected)


@I.ir_module
class Norm:
    @R.function
    def main(x: R.Tensor(("n", 4, 3), "float32"), g: R.Tensor((3, 4), "float32"), b: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            y = R.nn.layer_norm(x, g, b, axes=[2, 1])
            R.output(y)
        return y


def test_layer_norm_is_decomposed_for_training_only(check, keeps):
    check(DecomposeOpsForInference(), Norm)
    after = DecomposeOpsForTraining()(Norm)
    assert "relax.nn.layer_norm" not in operators(after)
    for n in (0, 1, 3):
        keeps(Norm, after, (n, 4, 3), (3, 4), (3, 4))


def test_one_function_is_decomposed(check):
    check(DecomposeOpsForTraining("main"), Norm, DecomposeOpsForTraining()(Norm))
    with pytest.raises(DiagnosticError, match="entry function 'mian' is not in the module"):
        DecomposeOpsForTraining("mian")(Norm)


def test_an_unknown_rank_stays(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(dtype="float32"), g: R.Tensor((4,), "float32")):
            with R.dataflow():
                y = R.nn.batch_norm(x, g, g, g, g)
                R.output(y)
            return y

    check(DecomposeOpsForTraining(), Before)
