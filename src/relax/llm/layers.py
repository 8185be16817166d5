"""Layers that decoders are made of. Their weights take the form in which the checkpoint stores them.

    self.qkv_proj = Linear(hidden, (queries, keys, keys), ("q_proj", "k_proj", "v_proj"))

A layer is written for numbers of float32. When a model is loaded, `relax.llm.weights` tells each layer how its weights
are stored, and the layer declares parameters of that form: rows of a block format stay packed, and products with them
round activations to bytes, in blocks, as the format asks for.

Activations have two dimensions: tokens of all sequences of a batch, one behind the other, and elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from .. import op as relax_op
from ..frontend import nn
from ..frontend.nn import Tensor, op
from ..frontend.nn.llm import PagedKVCache
from ..topi.packed_blocks import PackedBlocks

ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "silu": op.silu,
    "gelu": op.gelu,
    "gelu_tanh": lambda x: op.gelu(x, approximate="tanh"),
    "relu": op.relu,
}
"""Functions between the products of a feed-forward layer, as `Settings.activation` names them."""


class QuantizedActivations:
    """Activations with their int8 blocks and scales, quantised once for each block size."""

    def __init__(self, x: Tensor) -> None:
        self.x = x
        self._blocks: dict[int, tuple[Tensor, Tensor]] = {}

    def blocks(self, size: int) -> tuple[Tensor, Tensor]:
        """Return (int8 activations, float32 scales) for blocks of `size` elements."""
        if size not in self._blocks:
            rounded = op.wrap_nested(relax_op.nn.dynamic_quantize(expr_of(self.x), block_size=size), "rounded")
            self._blocks[size] = cast("tuple[Tensor, Tensor]", rounded)
        return self._blocks[size]

    def rows(self, indices: Tensor) -> QuantizedActivations:
        """Return the rows at `indices`, gathered from blocks that are quantised already."""
        return _Rows(self, indices)


class _Rows(QuantizedActivations):
    """Rows gathered from the int8 blocks and scales of `source`."""

    def __init__(self, source: QuantizedActivations, indices: Tensor) -> None:
        super().__init__(op.take(source.x, indices, axis=0))
        self.source, self.indices = source, indices

    def blocks(self, size: int) -> tuple[Tensor, Tensor]:
        if size not in self._blocks:
            numbers, scales = (op.take(part, self.indices, axis=0) for part in self.source.blocks(size))
            self._blocks[size] = numbers, scales
        return self._blocks[size]


class Matrix(nn.Module):
    """Matrix of weights in one form: numbers (in, out), or rows of a block format packed for kernels.

    With `looked_up`, numbers are (out, in): the matrix is a table of rows, and no factor of products.
    """

    def __init__(
        self, in_features: int, out_features: int, packed: PackedBlocks | None = None, looked_up: bool = False
    ) -> None:
        super().__init__()
        self.in_features, self.out_features, self.packed = in_features, out_features, packed
        self.looked_up = looked_up
        if packed is None:
            shape = (out_features, in_features) if looked_up else (in_features, out_features)
            self.weight = nn.Parameter(shape, "float32")
        else:
            self.weight = nn.Parameter((packed.panels(out_features), packed.words(in_features)), "int32")

    def forward(self, x: QuantizedActivations) -> Tensor:
        """Product (n, out) of activations (n, in)."""
        if self.packed is None:
            return op.matmul(x.x, self.weight)
        numbers, scales = x.blocks(self.packed.format.elements)
        product = relax_op.nn.quantized_matmul(
            expr_of(numbers), expr_of(scales), expr_of(self.weight), **self.packed.attributes(self.out_features)
        )
        return cast(Tensor, op.wrap_nested(product, "product"))

    def rows(self, tokens: Tensor) -> Tensor:
        """Rows (n, in) of the matrix at indices (n,), for a table of embeddings."""
        if self.packed is None and self.looked_up:
            return op.take(self.weight, tokens, axis=0)
        if self.packed is None:
            return op.permute_dims(op.take(self.weight, tokens, axis=1), [1, 0])
        taken = relax_op.nn.quantized_take(
            expr_of(self.weight), expr_of(tokens), **self.packed.attributes(self.out_features)
        )
        return cast(Tensor, op.wrap_nested(taken, "rows"))


class Linear(nn.Module):
    """Product with one matrix, or with several side by side: x (n, in) to (n, Σ sizes), plus a bias.

    `names` are those of the matrices in the checkpoint, beside this layer; none: the layer's own name. The checkpoint
    has them as (out, in), or as (in, out) if `transposed`. `exact` keeps float weights in float32 where others are
    quantised. `bias` may say for each matrix whether the checkpoint has a bias of it.
    """

    def __init__(
        self, in_features: int, sizes: int | Sequence[int], names: Sequence[str] = (), *,
        bias: bool | Sequence[bool] = False, transposed: bool = False, exact: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_features, self.names, self.transposed, self.exact = in_features, tuple(names), transposed, exact
        self.sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        self.out_features = sum(self.sizes)
        self.matrices = nn.ModuleList([Matrix(in_features, self.out_features)])
        self.biased = (bias,) * max(len(self.names), 1) if isinstance(bias, bool) else tuple(bias)
        self.bias = nn.Parameter((self.out_features,), "float32") if any(self.biased) else None
        self.adapter: tuple[Tensor, Tensor] | None = None
        """While a function with an adapter is made: A (in, rank) and B (rank, Σ sizes) of what is added to products."""

    def forward(self, x: Tensor | QuantizedActivations) -> Tensor:
        """Product (n, Σ sizes)."""
        rounded = x if isinstance(x, QuantizedActivations) else QuantizedActivations(x)
        parts = [cast(Tensor, matrix(rounded)) for matrix in self.matrices]
        product = parts[0] if len(parts) == 1 else op.concat(parts, dim=-1)
        if self.adapter is not None:
            a, b = self.adapter
            product = product + op.matmul(op.matmul(rounded.x, a), b)
        return product if self.bias is None else product + self.bias


class Embedding(nn.Module):
    """Table of rows for tokens (n,); the matrix that turns activations into logits, too, if it is `tied`."""

    def __init__(self, count: int, size: int, *, tied: bool = False) -> None:
        super().__init__()
        self.count, self.size, self.tied = count, size, tied
        self.matrix = Matrix(size, count, looked_up=not tied)

    def forward(self, tokens: Tensor) -> Tensor:
        """Rows (n, size) of the tokens."""
        return self.matrix.rows(tokens)

    def logits(self, x: Tensor) -> Tensor:
        """Product (n, count) of activations (n, size) with all rows."""
        return cast(Tensor, self.matrix(QuantizedActivations(x)))


class RMSNorm(nn.RMSNorm):
    """x / √(mean x² + epsilon) · weight, over the last dimension. `offset` is added to the checkpoint's weights."""

    def __init__(self, size: int, epsilon: float, offset: float = 0.0) -> None:
        super().__init__(size, epsilon=epsilon, bias=False, dtype="float32")
        self.offset = offset


class LayerNorm(nn.LayerNorm):
    """(x − mean) / √(variance + epsilon) · weight + bias, over the last dimension."""

    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__(size, epsilon, dtype="float32")


class Attention(nn.Module):
    """Attention of grouped heads to the past of each sequence, which the cache keeps: (n, hidden) to (n, hidden).

    `norms` "head" normalises each head of queries and keys before they are rotated, "all" all heads together.
    """

    def __init__(
        self, hidden: int, heads: int, kv_heads: int, head_dim: int, *, bias: bool = False, out_bias: bool = False,
        names: Sequence[str] = ("q_proj", "k_proj", "v_proj"), norms: str = "", epsilon: float = 1e-6,
        offset: float = 0.0, scale: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.heads, self.kv_heads, self.head_dim, self.norms = heads, kv_heads, head_dim, norms
        self.scale = head_dim**-0.5 if scale is None else scale
        sizes = (heads * head_dim, kv_heads * head_dim, kv_heads * head_dim)
        self.qkv_proj = Linear(hidden, sizes if len(names) == 3 else sum(sizes), names, bias=bias)
        self.o_proj = Linear(heads * head_dim, hidden, bias=out_bias)
        if norms:
            width = head_dim if norms == "head" else 0
            self.q_norm = RMSNorm(width or heads * head_dim, epsilon, offset)
            self.k_norm = RMSNorm(width or kv_heads * head_dim, epsilon, offset)

    def forward(self, x: Tensor, cache: PagedKVCache, layer: int) -> Tensor:
        """Attention of the tokens of a batch, whose keys and values are appended to the cache of this layer."""
        count = x.shape[0]
        qkv = self.qkv_proj(x)
        if self.norms:
            qkv = self._normalised(qkv, count)
        qkv = op.reshape(qkv, (1, count, self.heads + 2 * self.kv_heads, self.head_dim))
        result = cache.attention_with_fused_qkv(layer, qkv, self.heads, self.scale)
        return self.o_proj(op.reshape(result, (count, self.heads * self.head_dim)))

    def _normalised(self, qkv: Tensor, count: Any) -> Tensor:
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        q, k, v = op.split(qkv, [queries, queries + keys], axis=-1)

        def of_heads(x: Tensor, norm: RMSNorm, size: int) -> Tensor:
            if self.norms == "all":
                return norm(x)
            return op.reshape(norm(op.reshape(x, (count, size // self.head_dim, self.head_dim))), (count, size))

        return op.concat([of_heads(q, self.q_norm, queries), of_heads(k, self.k_norm, keys), v], dim=-1)


class GatedMLP(nn.Module):
    """down(activation(gate(x)) · up(x)): (n, hidden) to (n, hidden)."""

    def __init__(
        self, hidden: int, inner: int, activation: str, *, bias: bool = False,
        names: Sequence[str] = ("gate_proj", "up_proj"),
    ) -> None:  # fmt: skip
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.gate_up_proj = Linear(hidden, (inner, inner) if len(names) == 2 else 2 * inner, names, bias=bias)
        self.down_proj = Linear(inner, hidden, bias=bias)

    def forward(self, x: Tensor | QuantizedActivations) -> Tensor:
        """Result (n, hidden)."""
        gate, up = op.split(self.gate_up_proj(x), 2, axis=-1)
        return self.down_proj(self.activation(gate) * up)


def expr_of(tensor: Tensor) -> Any:
    """Return the Relax expression of a tensor."""
    return tensor._expr  # pyright: ignore[reportPrivateUsage]


__all__ = [
    "ACTIVATIONS", "Attention", "Embedding", "GatedMLP", "LayerNorm", "Linear", "Matrix", "QuantizedActivations",
    "RMSNorm", "expr_of",
]  # fmt: skip
