"""Formulas of backward functions."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te
from ..prim import PrimExpr, Select, Var, const, convert, intrin
from ..prim import cast as cast_expr
from ..tir.buffer import Buffer
from ..tir.stmt import BufferStore, For, SeqStmt, Stmt
from .transform import flatten, reshape
from .util import accumulator_dtype, normalize_axis


def nested(body: Stmt, loops: Sequence[Var], sizes: Sequence[PrimExpr]) -> Stmt:
    """Nest loops around a statement, the first one outermost."""
    for loop, size in reversed(list(zip(loops, sizes, strict=True))):
        body = For(loop, 0, size, "serial", body)
    return body


def _loops(count: int) -> list[Var]:
    return [Var(f"i{d}", "int64") for d in range(count)]


def take_backward(output_grad: te.Tensor, x: te.Tensor, indices: Any, axis: int | None = None) -> te.Tensor:
    """Zeros of x's shape, to which output_grad is added at the indices along the axis (without one, of x flattened).

    A negative index counts from the end; one out of range is an error when the kernel runs.
    """
    if axis is None:
        return reshape(take_backward(output_grad, flatten(x), indices, 0), x.shape)
    axis = normalize_axis(axis, x.ndim)
    count = indices.ndim if isinstance(indices, te.Tensor) else 0
    size = x.shape[axis]

    def statement(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        target, everywhere, loops = outputs[0], _loops(x.ndim), _loops(output_grad.ndim)
        fill = BufferStore(target, const(0, x.dtype), tuple(everywhere))
        raw = inputs[1][tuple(loops[axis : axis + count])] if count or len(inputs) > 1 else convert(indices)
        index = cast_expr("int64", raw)
        position = (*loops[:axis], Select(index < 0, index + size, index), *loops[axis + count :])
        add = BufferStore(target, target[position] + inputs[0][tuple(loops)], position)
        return SeqStmt((nested(fill, everywhere, x.shape), nested(add, loops, output_grad.shape)))

    inputs = [output_grad, *([indices] if isinstance(indices, te.Tensor) else [])]
    return te.extern([x.shape], inputs, statement, "take_backward", [x.dtype])[0]


def nll_loss_backward(
    output_grad: te.Tensor,
    predictions: te.Tensor,
    targets: te.Tensor,
    weights: te.Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> te.Tensor:
    """-weight · output_grad at the class that is the target, elsewhere 0; for "mean" divided by the sum of weights.

    The classes of `predictions` are dimension 1 (of a vector, dimension 0); a target that is `ignore_index` has
    weight 0.
    """
    wide = accumulator_dtype(predictions.dtype)
    of_class = 0 if predictions.ndim == 1 else 1

    def weight(target: PrimExpr, label: PrimExpr) -> PrimExpr:
        value = const(1, wide) if weights is None else cast_expr(wide, weights(label))
        return Select(target.equal(ignore_index), const(0, wide), value)

    total = _sum_of_weights(targets, weights, ignore_index, wide) if reduction == "mean" else None

    def element(*i: Any) -> PrimExpr:
        position = (*i[:of_class], *i[of_class + 1 :])
        target = cast_expr("int64", targets(*position))
        grad = cast_expr(wide, output_grad(*position) if reduction == "none" else output_grad())
        value = -weight(target, i[of_class]) * grad
        value = value if total is None else value / total()
        return cast_expr(predictions.dtype, Select(target.equal(i[of_class]), value, const(0, wide)))

    return te.compute(predictions.shape, element, "nll_loss_backward")


def _sum_of_weights(targets: te.Tensor, weights: te.Tensor | None, ignore_index: int, dtype: str) -> te.Tensor:
    """Sum of the weights of all targets."""
    inner = [te.reduce_axis((0, size), f"k{d}") for d, size in enumerate(targets.shape)]

    def weight(*_: Any) -> Any:
        value = _weight_of(targets(*inner), weights, ignore_index, dtype)
        return te.sum(value, axis=inner) if inner else value

    return te.compute((), weight, "sum_of_weights")


def _weight_of(target: PrimExpr, weights: te.Tensor | None, ignore_index: int, dtype: str) -> PrimExpr:
    index = cast_expr("int64", target)
    value = const(1, dtype) if weights is None else cast_expr(dtype, weights(index))
    return intrin.if_then_else(index != ignore_index, value, const(0, dtype))
