"""Losses as functions: their values by NumPy, for all reductions."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.training import AppendLoss
from relax.training.loss import CategoricalCrossEntropyLoss, CrossEntropyLoss, L1Loss, Loss, MSELoss

REDUCTIONS = ("mean", "sum", "none")


def value(loss, *arrays):
    """The loss of arrays, whose shapes it is made with."""
    infos = [relax.TensorStructInfo(array.shape, array.dtype.name) for array in arrays]
    function = loss(*infos)
    name = function.attrs["global_symbol"]
    return relax.interpret(relax.IRModule({name: function}), name, *arrays).numpy()


def reduced(losses, reduction, weights=None):
    if reduction == "mean" and weights is not None:
        return losses.sum() / weights.sum()
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](losses)


def log_softmax(x, axis):
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def test_a_loss_is_a_function():
    n = relax.tir.SizeVar("n", "int64")
    info = relax.TensorStructInfo((n, 2), "float32")

    @R.function
    def mse_loss(predictions: R.Tensor(("n", 2), "float32"), targets: R.Tensor(("n", 2), "float32")):
        with R.dataflow():
            lv = R.subtract(predictions, targets)
            lv1 = R.multiply(lv, lv)
            gv = R.mean(lv1)
            R.output(gv)
        return gv

    relax.ir.assert_structural_equal(MSELoss()(info, info), mse_loss)
    predictions = relax.Var("scores", info)
    assert MSELoss("sum")(predictions, info).params[0] is predictions


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_differences(reduction):
    x, y = np.random.default_rng(0).standard_normal((2, 3, 4))
    np.testing.assert_allclose(value(L1Loss(reduction), x, y), reduced(abs(x - y), reduction))
    np.testing.assert_allclose(value(MSELoss(reduction), x, y), reduced((x - y) ** 2, reduction))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 2), (3,)])
@pytest.mark.parametrize("ignored", [-100, 1])
def test_cross_entropies_agree(reduction, shape, ignored):
    """Of one-hot targets, both cross entropies are one."""
    rng = np.random.default_rng(1)
    axis = 0 if len(shape) == 1 else 1
    x, weights = rng.standard_normal(shape), rng.uniform(0.5, 2, 3)
    classes = rng.integers(0, 3, shape[:axis] + shape[axis + 1 :])
    one_hot = np.moveaxis(np.eye(3)[classes], -1, axis)
    share = np.where(classes == ignored, 0, weights[classes])
    losses = -(log_softmax(x, axis) * one_hot).sum(axis) * share
    expected = reduced(losses, reduction, share)
    for loss, targets in ((CrossEntropyLoss, np.asarray(classes)), (CategoricalCrossEntropyLoss, one_hot)):
        np.testing.assert_allclose(value(loss(reduction, ignored), x, targets, weights), expected)
    unweighted = reduced(losses / np.where(share == 0, 1, share), reduction, (share != 0) * 1.0)
    np.testing.assert_allclose(value(CrossEntropyLoss(reduction, ignored), x, classes), unweighted)


def test_probabilities_as_targets():
    x, targets = np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[0.25, 0.75], [1, 0]])
    expected = -(log_softmax(x, 1) * targets).sum() / 2
    np.testing.assert_allclose(value(CategoricalCrossEntropyLoss(), x, targets), expected)


def test_wrong_losses():
    with pytest.raises(DiagnosticError, match="L1Loss: the reduction is 'max', expected mean, sum or none"):
        L1Loss("max")
    info = relax.TensorStructInfo(None, "float32")
    with pytest.raises(DiagnosticError, match=r"CrossEntropyLoss: predictions are R.Tensor\(dtype="):
        CrossEntropyLoss()(info, info)
    with pytest.raises(NotImplementedError, match="Loss does not say what it computes"):
        Loss("mine")(info, info)


# ---------------------------------------------------------------------------------------- appending


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 2), "float32"), w: R.Tensor((2, 3), "float32"), s: R.Tensor((2,), "float32")):
        R.func_attr({"note": 1})
        with R.dataflow():
            out = R.matmul(x, w)
            state = R.add(s, R.sum(x, axis=[0]))
            R.output(out, state)
        return out, state


def test_a_loss_is_appended():
    m = relax.tir.SizeVar("m", "int64")
    info = relax.TensorStructInfo((m, 3), "float32")

    @R.function
    def main_loss(
        x: R.Tensor(("n", 2), "float32"),
        w: R.Tensor((2, 3), "float32"),
        s: R.Tensor((2,), "float32"),
        targets: R.Tensor(("n", 3), "float32"),
    ):
        R.func_attr({"note": 1})
        with R.dataflow():
            out = R.matmul(x, w)
            total = R.sum(x, axis=[0])
            state = R.add(s, total)
            difference = R.subtract(out, targets)
            square = R.multiply(difference, difference)
            mean = R.mean(square)
            loss = mean
            R.output(loss, state)
        return loss, state

    expected = Model.with_function("main_loss", main_loss)
    step = AppendLoss("main", MSELoss()(info, info))
    after = step(Model)
    relax.ir.assert_structural_equal(after, expected)
    assert step(after) is after
    named = AppendLoss("main", MSELoss()(info, info), new_func_name="train")(Model)
    assert named["train"].attrs["global_symbol"] == "train"


def test_what_the_model_gives_is_checked_at_run_time():
    @I.ir_module
    class Unknown:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            y = R.call_pure_packed("test.no_such_function", x, sinfo_args=R.Tensor(ndim=1, dtype="float32"))
            return y

    info = relax.TensorStructInfo((4,), "float32")
    mod = AppendLoss("main", MSELoss()(info, info))(Unknown)
    assert 'R.match_cast(y, R.Tensor((4,), dtype="float32"))' in mod["main_loss"].script()
    relax.analysis.assert_well_formed(mod)


def test_losses_that_do_not_fit():
    def complaint(*args, mod=Model, **options):
        with pytest.raises(DiagnosticError) as error:
            AppendLoss(*args, **options)(mod)
        return str(error.value)

    fits = relax.TensorStructInfo((4, 3), "float32")
    other = relax.TensorStructInfo((4, 2), "float32")
    loss = MSELoss()(fits, fits)
    assert "'model' is no Relax function of the module" in complaint("model", loss)
    text = complaint("main", MSELoss()(other, other))
    assert 'the model gives R.Tensor((n, 3), "float32"), the loss takes predictions of' in text
    text = complaint("main", MSELoss("none")(fits, fits))
    assert 'the loss must give a scalar, found R.Tensor((4, 3), "float32")' in text
    text = complaint("main", loss, num_backbone_outputs=3)
    assert "num_backbone_outputs is 3, but the model returns 2 values, and the loss takes 2" in text
    assert "the module has another function 'main'" in complaint("main", loss, new_func_name="main")

    @I.ir_module
    class Branches:
        @R.function
        def main(x: R.Tensor((4, 3), "float32"), c: R.Tensor((), "bool")):
            if c:
                y = R.exp(x)
            else:
                y = R.sin(x)
            return y

    assert "the model is a function with branches" in complaint("main", loss, mod=Branches)
