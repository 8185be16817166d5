"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from ... import topi
from ...info.text import prim_text
from ...prim import PrimExpr, const
from ...struct_info import TensorStructInfo
from ..base import Gradients, Term
from ..dims import require_same_dim, require_stretch, same_dtype, tensor
from ..errors import SHAPES, OperatorError
from ..facts import MixedPrecision
from ..operands import FLOATS, is_absent
from ..operator import Array, Operator, operator
from .activation import wide
from .attention_gradient import attention_gradient

CausalMask = Literal["TopLeft", "BottomRight"]


class AnyAttention(Operator):
    """Base class of attention, over all keys or within sequences."""

    __slots__ = ()

    takes = FLOATS

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.ALWAYS

    scale: float | None = None
    causal_mask: CausalMask | None = None
    window_size: int | None = None

    def attended(self, operands: Mapping[str, TensorStructInfo]) -> TensorStructInfo:
        """Struct info of the result of queries, keys and values. Raises OperatorError if they do not fit."""
        (q_name, query), (k_name, key), (v_name, value) = operands.items()
        self.require_dtype(query, q_name, *self.takes)
        dtype = same_dtype(query.dtype, key.dtype, (q_name, k_name))
        dtype = same_dtype(dtype, value.dtype, (q_name, v_name))
        for name, info in operands.items():
            if info.ndim not in (-1, 4):
                raise OperatorError(SHAPES, f"{name} must have 4 dimensions, found {info.ndim}", operand=name)
        if self.window_size is not None:
            self.require_attribute(self.window_size >= 1, "window_size", "at least 1")
            self.require_attribute(self.causal_mask is not None, "window_size", "None without a causal_mask")
        if query.dims is None or key.dims is None or value.dims is None:
            return tensor(None, dtype, 4)
        for subject, d, names in (
            ("batch sizes", 0, operands),
            ("numbers of heads", 2, operands),
            ("depths", 3, (q_name, k_name)),
            ("numbers of keys and values", 1, (k_name, v_name)),
        ):
            _require_same(subject, d, {name: operands[name] for name in names})
        b, m, h, _ = query.dims
        return tensor((b, m, h, value.dims[3]), dtype)

    def attend(
        self, query: Array, key: Array, value: Array, bias: Array | None = None, seen: Array | None = None
    ) -> Array:
        """Reference implementation; `seen` (queries, keys) is the mask of keys visible to each query."""
        q, k, v = (wide(x).transpose(0, 2, 1, 3) for x in (query, key, value))
        factor = q.dtype.type(self.scale if self.scale is not None else q.shape[3] ** -0.5)
        scores = np.matmul(q, k.swapaxes(2, 3)) * factor
        if bias is not None:
            scores = scores + wide(bias)
        if seen is not None:
            scores = np.where(seen, scores, -np.inf)
        largest = scores.max(-1, keepdims=True, initial=-np.inf)
        with np.errstate(invalid="ignore"):
            weights = np.where(np.isneginf(scores), 0, np.exp(scores - largest)).astype(q.dtype)
        total = weights.sum(-1, keepdims=True)
        out = np.matmul(weights, v) / np.where(total == 0, 1, total)
        return out.transpose(0, 2, 1, 3).astype(query.dtype)

    def by_matrices(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        """Gradients of query, key, value and bias, by matrix products."""
        present = [operand for operand in operands if not is_absent(operand)]
        gradients = attention_gradient(present, result, grad, self.scale, self.causal_mask, self.window_size)
        return None if gradients is None else (*gradients, *[None] * (len(operands) - len(present)))

    def visible(self, m: int, n: int) -> Array:
        """Causal mask (m queries, n keys): True where the query sees the key."""
        i, j = np.indices((m, n))
        if self.causal_mask is None:
            return np.ones((m, n), bool)
        last = i + (n - m) if self.causal_mask == "BottomRight" else i
        first = 0 if self.window_size is None else last - self.window_size + 1
        return np.logical_and(j <= last, j >= first)


def _require_same(subject: str, d: int, infos: dict[str, TensorStructInfo]) -> None:
    (first, info), *rest = infos.items()
    for name, other in rest:
        assert info.dims is not None
        assert other.dims is not None
        error = OperatorError(
            SHAPES,
            f"the {subject} differ",
            remarks={
                first: f"dimension {d} is {prim_text(info.dims[d])}",
                name: f"dimension {d} is {prim_text(other.dims[d])}",
            },
        )
        require_same_dim(info.dims[d], other.dims[d], error)


def _require_bias(query: TensorStructInfo, key: TensorStructInfo, bias: TensorStructInfo) -> None:
    same_dtype(query.dtype, bias.dtype, ("query", "bias"))
    if bias.ndim > 4:
        raise OperatorError(SHAPES, f"bias must have at most 4 dimensions, found {bias.ndim}", operand="bias")
    if bias.dims is not None and query.dims is not None and key.dims is not None:
        full = (query.dims[0], query.dims[2], query.dims[1], key.dims[1])
        for d in range(1, bias.ndim + 1):
            require_stretch(bias.dims[-d], full[-d], _bias_error(bias.ndim - d, bias.dims[-d], full[-d]))


def _bias_error(d: int, size: PrimExpr, full: PrimExpr) -> OperatorError:
    message = f"dimension {d} of bias is {prim_text(size)}, which does not broadcast to {prim_text(full)}"
    hint = "its shape is (batch, heads, queries, keys), or broadcasts to it"
    return OperatorError(SHAPES, message, operand="bias", hint=hint)


@operator("relax.nn.attention")
class Attention(AnyAttention):
    """softmax(scale · Q Kᵀ + bias) V, head by head.

    query (batch, m, heads, d), key (batch, n, heads, d), value (batch, n, heads, dv), bias broadcasting to (batch,
    heads, m, n); result (batch, m, heads, dv). `scale` defaults to 1/√d. `causal_mask` "TopLeft" lets query i see the
    keys j ≤ i, "BottomRight" those j ≤ i + n - m; with `window_size` w only the last w of them. The result is 0 for a
    query that sees no key.
    """

    compute = topi.nn.attention

    def infer(
        self,
        query: TensorStructInfo,
        key: TensorStructInfo,
        value: TensorStructInfo,
        bias: TensorStructInfo | None = None,
    ) -> TensorStructInfo:
        result = self.attended({"query": query, "key": key, "value": value})
        if bias is not None:
            _require_bias(query, key, bias)
        return result

    def reference(self, query: Array, key: Array, value: Array, bias: Array | None = None) -> Array:
        return self.attend(query, key, value, bias, self.visible(query.shape[1], key.shape[1]))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return self.by_matrices(operands, result, grad)


@operator("relax.nn.attention_bias")
class AttentionBias(AnyAttention):
    """`attention` with a bias, which is a separate operand in TVM."""

    compute = topi.nn.attention

    def infer(
        self, query: TensorStructInfo, key: TensorStructInfo, value: TensorStructInfo, bias: TensorStructInfo
    ) -> TensorStructInfo:
        result = self.attended({"query": query, "key": key, "value": value})
        _require_bias(query, key, bias)
        return result

    def reference(self, query: Array, key: Array, value: Array, bias: Array) -> Array:
        return self.attend(query, key, value, bias, self.visible(query.shape[1], key.shape[1]))

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        return self.by_matrices(operands, result, grad)


@operator("relax.nn.attention_var_len")
class AttentionVarLen(AnyAttention):
    """`attention` within each of several sequences of any lengths, concatenated in a batch of 1.

    queries (1, m, heads, d), keys (1, n, heads, d), values (1, n, heads, dv). Sequence s has the queries from
    seqstart_q[s] up to seqstart_q[s + 1], and the keys from seqstart_k[s] (by default those of the queries). The result
    is 0 for a query outside all sequences. max_seqlen_q and max_seqlen_k exist for compatibility with TVM and are not
    read.
    """

    def infer(
        self,
        queries: TensorStructInfo,
        keys: TensorStructInfo,
        values: TensorStructInfo,
        seqstart_q: TensorStructInfo,
        max_seqlen_q: TensorStructInfo,
        seqstart_k: TensorStructInfo | None = None,
        max_seqlen_k: TensorStructInfo | None = None,
    ) -> TensorStructInfo:
        result = self.attended({"queries": queries, "keys": keys, "values": values})
        starts = {"seqstart_q": seqstart_q, "seqstart_k": seqstart_k}
        longest = {"max_seqlen_q": max_seqlen_q, "max_seqlen_k": max_seqlen_k}
        for infos, ndims, requirement in (
            (starts, (-1, 1), "1 dimension"),
            (longest, (-1, 0, 1), "at most 1 dimension"),
        ):
            for name, info in infos.items():
                if info is None:
                    continue
                self.require_dtype(info, name, "int")
                if info.ndim not in ndims:
                    raise OperatorError(SHAPES, f"{name} must have {requirement}, found {info.ndim}", operand=name)
        self._require_sequences(queries, seqstart_q, seqstart_k)
        return result

    def _require_sequences(
        self, queries: TensorStructInfo, seqstart_q: TensorStructInfo, seqstart_k: TensorStructInfo | None
    ) -> None:
        """Raise OperatorError for a batch that is not 1, or if queries and keys have different numbers of sequences."""
        if queries.dims is not None:
            message = f"the batch of queries must be 1, found {prim_text(queries.dims[0])}"
            require_same_dim(queries.dims[0], const(1, "int64"), OperatorError(SHAPES, message, operand="queries"))
        if seqstart_k is not None and seqstart_q.dims and seqstart_k.dims:
            remarks = {
                name: f"of size {prim_text(dims[0])}"
                for name, dims in (("seqstart_q", seqstart_q.dims), ("seqstart_k", seqstart_k.dims))
            }
            error = OperatorError(SHAPES, "the numbers of sequences differ", remarks=remarks)
            require_same_dim(seqstart_q.dims[0], seqstart_k.dims[0], error)

    def compute(
        self,
        queries: Any,
        keys: Any,
        values: Any,
        seqstart_q: Any,
        max_seqlen_q: Any,
        seqstart_k: Any = None,
        max_seqlen_k: Any = None,
    ) -> Any:
        rest = self.scale, self.causal_mask, self.window_size
        return topi.nn.attention_var_len(queries, keys, values, seqstart_q, seqstart_k, *rest)

    def reference(
        self,
        queries: Array,
        keys: Array,
        values: Array,
        seqstart_q: Array,
        max_seqlen_q: Array,
        seqstart_k: Array | None = None,
        max_seqlen_k: Array | None = None,
    ) -> Array:
        out = np.zeros((*queries.shape[:3], values.shape[3]), queries.dtype)
        starts: Sequence[Array] = (seqstart_q, seqstart_q if seqstart_k is None else seqstart_k)
        for first, last, begin, end in zip(*(ends for s in starts for ends in (s[:-1], s[1:])), strict=True):
            operands = queries[:, first:last], keys[:, begin:end], values[:, begin:end]
            seen = self.visible(operands[0].shape[1], operands[1].shape[1])
            out[:, first:last] = self.attend(*operands, None, seen)
        return out
