"""Losses: of log probabilities, against targets given as probabilities or as classes."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import Any, Literal

from ... import te
from ...prim import PrimExpr, const, intrin
from ..util import accumulator_dtype

Reduction = Literal["none", "sum", "mean"]


def _sum_of_all(x: te.Tensor, name: str) -> te.Tensor:
    inner = [te.reduce_axis((0, size), f"k{d}") for d, size in enumerate(x.shape)]
    if not inner:
        return x
    return te.compute((), lambda: te.sum(x(*(k.var for k in inner)), axis=inner), name, tag="comm_reduce")


def cross_entropy_with_logits(predictions: te.Tensor, labels: te.Tensor) -> te.Tensor:
    """-Σ predictions · labels, divided by the batch size if there is one (two dimensions or more)."""
    wide = accumulator_dtype(predictions.dtype)
    products = te.compute(
        predictions.shape,
        lambda *i: predictions(*i).astype(wide) * labels(*i).astype(wide),
        "cross_entropy_products",
        tag="elemwise",
    )
    total = _sum_of_all(products, "cross_entropy_sum")
    batch = predictions.shape[0].astype(wide) if predictions.ndim > 1 else const(1, wide)
    return te.compute((), lambda: (-total() / batch).astype(predictions.dtype), "cross_entropy_with_logits")


def nll_loss(
    predictions: te.Tensor,
    targets: te.Tensor,
    weights: te.Tensor | None = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
) -> te.Tensor:
    """-weight · log probability of each target's class; the sum; or that divided by the sum of the weights.

    predictions (N, C, d1, …) or (C), targets (N, d1, …) or (). A target of `ignore_index` has weight 0.
    """
    wide = accumulator_dtype(predictions.dtype)
    zero = const(0, wide)

    def counted(i: Any, value: PrimExpr) -> PrimExpr:
        return intrin.if_then_else(targets(*i).equal(const(ignore_index, targets.dtype)), zero, value)

    def weight(*i: Any) -> PrimExpr:
        return const(1, wide) if weights is None else weights(targets(*i)).astype(wide)

    def loss(*i: Any) -> PrimExpr:
        at = (targets(*i),) if predictions.ndim == 1 else (i[0], targets(*i), *i[1:])
        return counted(i, -predictions(*at).astype(wide) * weight(*i))

    losses = te.compute(targets.shape, loss, "nll_losses")
    if reduction == "none":
        return te.compute(targets.shape, lambda *i: losses(*i).astype(predictions.dtype), "nll_loss")
    total = _sum_of_all(losses, "nll_loss_sum")
    if reduction == "sum":
        return te.compute((), lambda: total().astype(predictions.dtype), "nll_loss")
    shares = te.compute(targets.shape, lambda *i: counted(i, weight(*i)), "nll_weights")
    share = _sum_of_all(shares, "nll_weight")
    return te.compute((), lambda: (total() / share()).astype(predictions.dtype), "nll_loss")
