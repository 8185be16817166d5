"""Attention of com.microsoft: heads packed in the last dimension, masks of several forms, caches, rotary positions.

All of it becomes `relax.nn.attention`; masks are added as a bias. ONNX's own Attention and RotaryEmbedding are read by
their function bodies.
"""

from __future__ import annotations

from typing import Any

from .... import op
from ....expr import PrimValue, ShapeExpr
from ....prim import IntImm, PrimExpr, Select, const, intrin, simplify
from ....runtime.records import dataclass
from ..emitter import Emitter
from ..registry import converter
from ..values import Dims, Ints, Tensor, Value
from .contrib import DOMAIN

MASKED = -10000.0
"""The number added to hidden scores, unless a node says otherwise."""


@dataclass
class Heads:
    """Queries, keys and values of the heads, (batch, length, heads, size) each."""

    query: Tensor
    key: Tensor
    value: Tensor


def _split(g: Emitter, x: Tensor, heads: int) -> Tensor:
    """(batch, length, heads · size) as (batch, length, heads, size); a tensor of 4 dimensions has the heads second."""
    if g.ndim(x) == 4:
        return g.emit(op.permute_dims(x, (0, 2, 1, 3)))
    batch, length, width = g.shape(x, 3, "a query, key or value")
    return g.emit(op.reshape(x, ShapeExpr([batch, length, const(heads, "int64"), simplify(width // heads)])))


def _joined(g: Emitter, x: Tensor) -> Tensor:
    """The inverse of `_split`: heads side by side."""
    batch, length, heads, size = g.dims(x)
    return op.reshape(x, ShapeExpr([batch, length, simplify(heads * size)]))


def _heads_second(g: Emitter, x: Tensor) -> Tensor:
    return g.emit(op.permute_dims(x, (0, 2, 1, 3)))


def _with_past(g: Emitter, past: Tensor | None, x: Tensor) -> Tensor:
    """The cache, (batch, heads, length, size), followed by x, of the same layout."""
    return x if past is None else g.emit(op.concat([past, x], axis=2))


def _mask_bias(g: Emitter, mask: Tensor, batch: PrimExpr, keys: PrimExpr, filling: float) -> Tensor:
    """A mask as what is added to the scores (batch, heads, queries, keys).

    It is (batch,): the number of keys that are seen; (batch, keys) or (batch, queries, keys): not 0 where they are; or
    (2 · batch,): the ends and the begins of what is seen.
    """
    match g.ndim(mask):
        case 1:
            seen = _between(g, mask, batch, keys)
        case 2:
            seen = op.expand_dims(op.greater(mask, g.const(0, g.dtype(mask))), [1, 2])
        case 3:
            seen = op.expand_dims(op.greater(mask, g.const(0, g.dtype(mask))), [1])
        case ndim:
            g.unsupported(f"a mask of {ndim} dimensions (1, 2 and 3 are)")
    return g.emit(op.where(seen, g.const(0, "float32"), g.const(filling, "float32")))


def _between(g: Emitter, limits: Tensor, batch: PrimExpr, keys: PrimExpr) -> Tensor:
    (count,) = g.dims(limits)
    positions = op.arange(PrimValue(keys), dtype=str(g.dtype(limits)))
    if g.is_true(count.equal(batch)):
        return op.expand_dims(op.less(positions, op.expand_dims(limits, [1])), [1, 2])
    if not g.is_true(count.equal(batch * 2)):
        g.unsupported(f"a mask of {count} numbers for a batch of {batch}")
    ends, begins = (op.strided_slice(limits, [0], [a], [b]) for a, b in ((0, batch), (batch, count)))
    below = op.less(positions, op.expand_dims(ends, [1]))
    return op.expand_dims(op.logical_and(below, op.greater_equal(positions, op.expand_dims(begins, [1]))), [1, 2])


def _sum(*biases: Tensor | None) -> Tensor | None:
    present = [bias for bias in biases if bias is not None]
    if not present:
        return None
    total = present[0]
    for bias in present[1:]:
        total = op.add(total, bias)
    return total


def _attended(g: Emitter, heads: Heads, bias: Tensor | None, scale: float | None, unidirectional: bool) -> Tensor:
    causal = "BottomRight" if unidirectional else None
    operands = heads.query, heads.key, heads.value
    wide = None if bias is None else g.emit(bias)
    result = g.emit(op.nn.attention(*operands, wide, scale=scale or None, causal_mask=causal))
    return _joined(g, result)


# ------------------------------------------------------------------------------------- Attention


@converter("Attention", domain=DOMAIN)
def attention(
    g: Emitter,
    input: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    mask_index: Tensor | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = MASKED,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Ints = (),
    rotary_embedding_dim: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> Any:
    if do_rotary or past_present_share_buffer:
        g.unsupported("Attention with do_rotary or past_present_share_buffer")
    product = op.matmul(input, weights)
    whole = g.emit(product if bias is None else op.add(product, bias))
    ends = [qkv_hidden_sizes[0], sum(qkv_hidden_sizes[:2])] if qkv_hidden_sizes else 3
    query, key, value = (_split(g, projection, num_heads) for projection in g.parts(op.split(whole, ends, axis=-1)))
    present: Tensor | None = None
    if past is not None or any(g.outputs[1:]):
        before = [None, None] if past is None else [op.take(past, g.const(i, "int64"), axis=0) for i in (0, 1)]
        caches = [
            _with_past(g, b, _heads_second(g, projection)) for b, projection in zip(before, (key, value), strict=True)
        ]
        key, value = (_heads_second(g, cache) for cache in caches)
        present = op.stack(caches, axis=0)
    batch, keys = g.dims(key)[:2]
    mask = None if mask_index is None else _mask_bias(g, mask_index, batch, keys, mask_filter_value)
    heads = Heads(query, key, value)
    return _attended(g, heads, _sum(mask, attention_bias), scale, bool(unidirectional)), present


@converter("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(
    g: Emitter,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    cache_indirection: Tensor | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = MASKED,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> Any:
    if past_sequence_length is not None or cache_indirection is not None or any(g.outputs[3:]):
        g.unsupported("MultiHeadAttention with a shared buffer of the past, beams, or the output qk")
    heads = _packed(g, query, key, value, num_heads)
    if bias is not None:
        heads = _with_bias(g, heads, bias)
    presents: list[Tensor] = []
    if past_key is not None or any(g.outputs[1:]):
        pairs = ((past_key, heads.key), (past_value, heads.value))
        presents = [_with_past(g, past, _heads_second(g, projection)) for past, projection in pairs]
        heads = Heads(heads.query, *(_heads_second(g, cache) for cache in presents))
    batch, keys = g.dims(heads.key)[:2]
    mask: Tensor | None = None
    if key_padding_mask is not None:
        mask = _mask_bias(g, key_padding_mask, batch, keys, mask_filter_value)
    result = _attended(g, heads, _sum(mask, attention_bias), scale, bool(unidirectional))
    return result, *presents


def _packed(g: Emitter, query: Tensor, key: Tensor | None, value: Tensor | None, count: int) -> Heads:
    """The three parts, which may be packed: (batch, length, heads, 3, size), or keys and values (…, 2, size)."""
    if key is None:
        projections = [op.squeeze(projection, [3]) for projection in g.parts(op.split(query, 3, axis=3))]
        return Heads(*(g.emit(projection) for projection in projections))
    if value is None:
        keys, values = (g.emit(op.squeeze(projection, [3])) for projection in g.parts(op.split(key, 2, axis=3)))
        return Heads(_split(g, query, count), keys, values)
    return Heads(*(_split(g, projection, count) for projection in (query, key, value)))


def _with_bias(g: Emitter, heads: Heads, bias: Tensor) -> Heads:
    """The bias of the three projections, side by side in one vector."""
    sums: list[Tensor] = []
    begin: PrimExpr = const(0, "int64")
    for projection in (heads.query, heads.key, heads.value):
        _, _, count, size = g.dims(projection)
        end = simplify(begin + count * size)
        row = op.reshape(op.strided_slice(bias, [0], [begin], [end]), ShapeExpr([count, size]))
        sums.append(g.emit(op.add(projection, row)))
        begin = end
    return Heads(*sums)


# ------------------------------------------------------------------------------------- GroupQueryAttention


@converter("GroupQueryAttention", domain=DOMAIN)
def group_query_attention(
    g: Emitter,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    seqlens_k: Tensor,
    total_sequence_length: Dims,
    cos_cache: Tensor | None = None,
    sin_cache: Tensor | None = None,
    position_ids: Tensor | None = None,
    attention_bias: Tensor | None = None,
    *more: Value | None,
    num_heads: int,
    kv_num_heads: int,
    do_rotary: int = 0,
    local_window_size: int = -1,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    **other_attributes: Any,
) -> Any:
    """Each sequence of the batch has a past of its own length: its new keys stand right behind it in the cache."""
    odd = [name for name, item in other_attributes.items() if item and item not in _PLAIN.get(name, ())]
    if odd or any(g.outputs[3:]) or any(value is not None for value in more):
        odd += ["the output output_qk"] if any(g.outputs[3:]) else ["inputs behind attention_bias"]
        g.unsupported(f"GroupQueryAttention with {odd[0]}")
    heads = _grouped(g, query, key, value, num_heads, kv_num_heads)
    new = g.dims(heads.query)[1]
    total = g.single(total_sequence_length, "total_sequence_length")
    pasts = _past_lengths(g, seqlens_k, new, total)
    if do_rotary:
        if cos_cache is None or sin_cache is None:
            raise g.error("do_rotary needs cos_cache and sin_cache", code="E6002")
        positions = position_ids
        if positions is None:
            positions = g.emit(op.add(pasts, op.arange(PrimValue(new), dtype="int64")))
        turned = [
            g.emit(_rotated(g, projection, positions, cos_cache, sin_cache, bool(rotary_interleaved)))
            for projection in (heads.query, heads.key)
        ]
        heads = Heads(turned[0], turned[1], heads.value)
    keys = total if past_key is None else simplify(intrin.max(total, g.shape(past_key, 4, "past_key")[2]))
    cached = [
        _cached(g, past, projection, pasts, keys)
        for past, projection in ((past_key, heads.key), (past_value, heads.value))
    ]
    hidden = _hidden(g, pasts, new, keys, local_window_size)
    group = num_heads // kv_num_heads
    wide = [cache if group == 1 else g.emit(op.repeat(cache, group, 2)) for cache in cached]
    result = _attended(g, Heads(heads.query, *wide), _sum(hidden, attention_bias), scale, False)
    return result, *(_heads_second(g, cache) for cache in cached)


_PLAIN = {"k_quant_type": ("NONE",), "v_quant_type": ("NONE",), "causal": (1,), "smooth_softmax": (-1,)}
"""Values of attributes that ask for nothing."""


def _grouped(g: Emitter, query: Tensor, key: Tensor | None, value: Tensor | None, heads: int, groups: int) -> Heads:
    if key is not None and value is not None:
        return Heads(_split(g, query, heads), _split(g, key, groups), _split(g, value, groups))
    every = _split(g, query, heads + 2 * groups)
    return Heads(*g.parts(op.split(every, [heads, heads + groups], axis=2)))


def _past_lengths(g: Emitter, seqlens_k: Tensor, new: PrimExpr, total: PrimExpr) -> Tensor:
    """The number of cached keys of each sequence, (batch, 1): none if all keys are new."""
    lengths = op.reshape(op.astype(seqlens_k, "int64"), [-1, 1])
    before = op.add(lengths, g.scalar(simplify(1 - new)))
    first = simplify(Select(total.equal(new), const(0, "int64"), const(1, "int64")))
    return g.emit(op.multiply(before, g.scalar(first)))


def _cached(g: Emitter, past: Tensor | None, x: Tensor, pasts: Tensor, keys: PrimExpr) -> Tensor:
    """The cache of `keys` places, (batch, keys, heads, size): the past of each sequence, then x; 0 behind it."""
    new, held = g.dims(x)[1], const(0, "int64")
    if past is not None:
        held = g.shape(past, 4, "a past key or value")[2]
        x = g.emit(op.concat([op.permute_dims(past, (0, 2, 1, 3)), x], axis=1))
    position = g.emit(op.arange(PrimValue(keys), dtype="int64"))
    behind = g.emit(op.subtract(position, pasts))
    last = g.scalar(simplify(new - 1))
    source = op.where(op.less(behind, g.const(0, "int64")), position, op.add(op.minimum(behind, last), g.scalar(held)))
    rows = op.gather_nd(x, op.expand_dims(source, [2]), batch_dims=1)
    filled = op.expand_dims(op.less_equal(behind, last), [2, 3])
    return g.emit(op.where(filled, rows, g.const(0, g.dtype(x))))


def _hidden(g: Emitter, pasts: Tensor, new: PrimExpr, keys: PrimExpr, window: int) -> Tensor:
    """-inf for each key that a query does not see: one behind it, or before its window."""
    query = op.expand_dims(op.add(pasts, op.arange(PrimValue(new), dtype="int64")), [1, 3])
    query, position = g.emit(query), g.emit(op.arange(PrimValue(keys), dtype="int64"))
    seen = op.less_equal(position, query)
    if window > 0:
        seen = op.logical_and(seen, op.greater(position, op.subtract(query, g.const(window, "int64"))))
    return op.where(seen, g.const(0, "float32"), g.const(float("-inf"), "float32"))


# ------------------------------------------------------------------------------------- rotary positions


@converter("RotaryEmbedding", domain=DOMAIN)
def rotary_embedding(
    g: Emitter,
    input: Tensor,
    position_ids: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Tensor:
    if is_packed_batching or scale != 1:
        g.unsupported("RotaryEmbedding with is_packed_batching or a scale")
    half = g.shape(cos_cache, 2, "cos_cache")[1]
    if g.ndim(input) == 3 and not num_heads:
        width = g.dims(input)[2]
        if rotary_embedding_dim or not isinstance(width, IntImm) or not isinstance(half, IntImm):
            g.unsupported("RotaryEmbedding of 3 dimensions without num_heads")
        num_heads = width.value // (2 * half.value)
    x = _split(g, input, num_heads)
    positions = position_ids
    if g.ndim(position_ids) == 1:
        row = op.arange(PrimValue(g.dims(x)[1]), dtype=str(g.dtype(position_ids)))
        positions = op.expand_dims(op.add(row, position_ids), [0])
    turned = _rotated(g, x, g.emit(positions), cos_cache, sin_cache, bool(interleaved))
    return op.permute_dims(turned, (0, 2, 1, 3)) if g.ndim(input) == 4 else _joined(g, g.emit(turned))


def _rotated(g: Emitter, x: Tensor, positions: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Pairs of numbers of each head (batch, length, heads, size), turned by the angles of their positions.

    A pair is two neighbours if `interleaved`, else of both halves; what the angles do not reach stays.
    """
    size, half = g.dims(x)[3], g.dims(cos)[1]
    turning = simplify(half * 2)
    c, s = (g.emit(op.expand_dims(op.take(table, positions, axis=0), [2])) for table in (cos, sin))
    if interleaved:
        a, b = (g.emit(op.strided_slice(x, [3], [first], [turning], [2])) for first in (0, 1))
    else:
        a, b = (g.emit(op.strided_slice(x, [3], [i], [j])) for i, j in ((0, half), (half, turning)))
    rotated = [op.subtract(op.multiply(a, c), op.multiply(b, s)), op.add(op.multiply(a, s), op.multiply(b, c))]
    if interleaved:
        pairs = g.emit(op.stack(rotated, axis=4))
        rotated = [op.reshape(pairs, ShapeExpr([*g.dims(x)[:3], turning]))]
    if not g.is_true(turning.equal(size)):
        rotated.append(op.strided_slice(x, [3], [turning], [size]))
    return rotated[0] if len(rotated) == 1 else op.concat(rotated, axis=3)
