"""Attention."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from ... import topi
from ...info.text import prim_text
from ...prim import PrimExpr
from ...struct_info import TensorStructInfo
from ..dims import require_same_dim, require_stretch, same_dtype, tensor
from ..errors import SHAPES, OperatorError
from ..facts import MixedPrecision
from ..operator import Array, Operator, operator
from .activation import wide


@operator("relax.nn.attention")
class Attention(Operator):
    """softmax(scale · Q Kᵀ + bias) V, head by head.

    query (batch, m, heads, d), key (batch, n, heads, d), value (batch, n, heads, dv), bias broadcasting to
    (batch, heads, m, n); result (batch, m, heads, dv). `scale` defaults to 1/√d. `causal_mask` "TopLeft" lets query i
    see the keys j ≤ i, "BottomRight" those j ≤ i + n - m; with `window_size` w only the last w of them. A query that
    sees no key gives 0.
    """

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.ALWAYS

    scale: float | None = None
    causal_mask: Literal["TopLeft", "BottomRight"] | None = None
    window_size: int | None = None
    compute = topi.nn.attention

    def infer(
        self,
        query: TensorStructInfo,
        key: TensorStructInfo,
        value: TensorStructInfo,
        bias: TensorStructInfo | None = None,
    ) -> TensorStructInfo:
        self.require_dtype(query, "query", "float")
        dtype = same_dtype(query.dtype, key.dtype, ("query", "key"))
        dtype = same_dtype(dtype, value.dtype, ("query", "value"))
        for name, info in (("query", query), ("key", key), ("value", value)):
            if info.ndim not in (-1, 4):
                raise OperatorError(SHAPES, f"{name} must have 4 dimensions, found {info.ndim}", operand=name)
        if self.window_size is not None:
            self.require_attribute(self.window_size >= 1, "window_size", "at least 1")
            self.require_attribute(self.causal_mask is not None, "window_size", "None without a causal_mask")
        if query.dims is None or key.dims is None or value.dims is None:
            return tensor(None, dtype, 4)
        for what, d, names in (
            ("batch sizes", 0, ("query", "key", "value")),
            ("numbers of heads", 2, ("query", "key", "value")),
            ("depths", 3, ("query", "key")),
            ("numbers of keys and values", 1, ("key", "value")),
        ):
            self._require_same(
                what,
                d,
                {
                    n: i
                    for n, i in zip(("query", "key", "value"), (query, key, value), strict=True)
                    if n in names
                },
            )
        if bias is not None:
            self._require_bias(query, key, bias)
        b, m, h, _ = query.dims
        return tensor((b, m, h, value.dims[3]), dtype)

    def _require_same(self, what: str, d: int, infos: dict[str, TensorStructInfo]) -> None:
        (first, info), *rest = infos.items()
        for name, other in rest:
            assert info.dims is not None
            assert other.dims is not None
            error = OperatorError(
                SHAPES,
                f"the {what} differ",
                remarks={
                    first: f"dimension {d} is {prim_text(info.dims[d])}",
                    name: f"dimension {d} is {prim_text(other.dims[d])}",
                },
            )
            require_same_dim(info.dims[d], other.dims[d], error)

    def _require_bias(self, query: TensorStructInfo, key: TensorStructInfo, bias: TensorStructInfo) -> None:
        same_dtype(query.dtype, bias.dtype, ("query", "bias"))
        if bias.ndim > 4:
            raise OperatorError(
                SHAPES, f"bias must have at most 4 dimensions, found {bias.ndim}", operand="bias"
            )
        if bias.dims is not None and query.dims is not None and key.dims is not None:
            full = (query.dims[0], query.dims[2], query.dims[1], key.dims[1])
            for d in range(1, bias.ndim + 1):
                require_stretch(
                    bias.dims[-d], full[-d], self._bias_error(bias.ndim - d, bias.dims[-d], full[-d])
                )

    def _bias_error(self, d: int, size: PrimExpr, full: PrimExpr) -> OperatorError:
        message = f"dimension {d} of bias is {prim_text(size)}, which does not broadcast to {prim_text(full)}"
        return OperatorError(
            SHAPES,
            message,
            operand="bias",
            hint="its shape is (batch, heads, queries, keys), or broadcasts to it",
        )

    def visible(self, m: int, n: int) -> Array:
        """The causal mask: the ones of n keys that each of m queries sees."""
        i, j = np.indices((m, n))
        last = i + (n - m) if self.causal_mask == "BottomRight" else i
        first = 0 if self.window_size is None else last - self.window_size + 1
        return np.logical_and(j <= last, j >= first)

    def reference(self, query: Array, key: Array, value: Array, bias: Array | None = None) -> Array:
        q, k, v = (wide(x).transpose(0, 2, 1, 3) for x in (query, key, value))
        m, n = q.shape[2], k.shape[2]
        factor = q.dtype.type(self.scale if self.scale is not None else q.shape[3] ** -0.5)
        scores = np.matmul(q, k.swapaxes(2, 3)) * factor
        if bias is not None:
            scores = scores + wide(bias)
        if self.causal_mask is not None:
            scores = np.where(self.visible(m, n), scores, -np.inf)
        largest = scores.max(-1, keepdims=True, initial=-np.inf)
        with np.errstate(invalid="ignore"):
            weights = np.where(np.isneginf(scores), 0, np.exp(scores - largest)).astype(q.dtype)
        total = weights.sum(-1, keepdims=True)
        out = np.matmul(weights, v) / np.where(total == 0, 1, total)
        return out.transpose(0, 2, 1, 3).astype(query.dtype)
