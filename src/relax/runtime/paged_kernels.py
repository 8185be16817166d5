"""Kernels of the paged KV cache in NumPy: the default where no compiled kernel is given, and the oracle of those.

Sizes: `n` new tokens of all sequences of a batch, one sequence after the other; `b` sequences; `hq` query heads and
`hk` key/value heads (query head h reads key/value head h // (hq / hk)); `d` and `e` elements of a key and of a value;
`s` tokens a page; `P` pages in the pool; `m` pages listed. T is the dtype of activations, C that of pages.

    keys   (P, hk, d, s) C      a page has the keys of its s tokens transposed: the token is the innermost dimension
    values (P, hk, s, e) C

    append(qkv (n, hq*d + hk*d + hk*e) T, angles (n, 2, r) float32, slots (n,) int32, keys, values,
           queries (n, hq, d) T)
    attend(queries (n, hq, d) T, query_positions (n,) int32, query_indptr (b+1,) int32, keys, values,
           page_indptr (b+1,) int32, page_ids (m,) int32, page_positions (m,) int32, windows (b, 2) int32,
           scale (1,) float32, out (n, hq, e) T, lse (n, hq) float32)

Functions whose names end in `_arrays` take NumPy arrays. All compute in float32.
"""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np
import tvm_ffi

from .dtypes import Array
from .tensor import numpy_view

_ROWS: Final = 64
"""Queries scored at once, which bounds the memory for scores."""
_LOG2_E: Final = np.float32(1.4426950408889634)


def rotate(x: Array, angles: Array, interleaved: bool) -> Array:
    """Rotate the first 2r elements of each head by the angles of its token, and copy the others.

    Parameters
    ----------
    x
        float32 of shape (n, heads, d).
    angles
        Cosines [:, 0] and sines [:, 1] of shape (n, 2, r).
    interleaved
        True rotates the pairs (2i, 2i + 1), False the pairs (i, i + r).
    """
    r = angles.shape[2]
    if not r:
        return x
    cos, sin = angles[:, 0][:, None], angles[:, 1][:, None]
    first, second = (slice(0, 2 * r, 2), slice(1, 2 * r, 2)) if interleaved else (slice(0, r), slice(r, 2 * r))
    rotated = x.copy()
    rotated[..., first] = x[..., first] * cos - x[..., second] * sin
    rotated[..., second] = x[..., second] * cos + x[..., first] * sin
    return rotated


def append_arrays(
    qkv: Array, angles: Array, slots: Array, keys: Array, values: Array, queries: Array, interleaved: bool = False
) -> None:
    """Rotate queries and keys; write keys and values to their slots (-1: none), queries to `queries`."""
    n, hq, d = queries.shape
    _, hk, s, e = values.shape
    rows = qkv.astype(np.float32)
    q = rows[:, : hq * d].reshape(n, hq, d)
    k = rows[:, hq * d : (hq + hk) * d].reshape(n, hk, d)
    v = qkv[:, (hq + hk) * d :].reshape(n, hk, e)
    queries[...] = rotate(q, angles, interleaved)
    store_arrays(rotate(k, angles, interleaved), v, slots, keys, values, s)


def store_arrays(k: Array, v: Array, slots: Array, keys: Array, values: Array, page_size: int) -> None:
    """Write keys (n, hk, d) and values (n, hk, e) to the slots (n,) of a layer's pages; slot -1 stores nothing."""
    stored = slots >= 0
    pages, offsets = np.divmod(slots[stored], page_size)
    keys[pages, :, :, offsets] = k[stored].astype(keys.dtype)
    values[pages, :, offsets, :] = v[stored].astype(values.dtype)


def visible(key_positions: Array, query_positions: Array, window: int, sink: int) -> Array:
    """True where a query (row) counts a key (column): not later, and inside of the window or among the first `sink`."""
    at = query_positions[:, None]
    counts = key_positions <= at
    if window > 0:
        counts &= (key_positions > at - window) | (key_positions < sink)
    return counts


def weighted(q: Array, k: Array, v: Array, counts: Array, scale: float, softcap: float = 0.0) -> tuple[Array, Array]:
    """Attention of queries to the keys that count.

    Parameters
    ----------
    q, k, v
        float32: queries (n, hq, d), keys (hk, d, t), values (hk, t, e). Keys that count for no query may hold NaN.
    counts
        bool (n, t): the keys that each query sees.
    scale, softcap
        A score is x = scale * q·k, or softcap * tanh(x / softcap) unless `softcap` is 0.

    Returns
    -------
    out, lse
        float32 (n, hq, e), and the base 2 logarithm of the sum of weights (n, hq): 0 and -inf where no key counts.
    """
    n, hq, d = q.shape
    hk, _, tokens = k.shape
    used = counts.any(0)
    k = np.where(used, k, np.float32(0))
    v = np.where(used[:, None], v, np.float32(0))
    group = hq // hk
    grouped = q.reshape(n, hk, group, d).transpose(1, 2, 0, 3).reshape(hk, group * n, d)
    scores = (grouped @ k) * np.float32(scale)
    if softcap:
        scores = np.float32(softcap) * np.tanh(scores / np.float32(softcap))
    scores = np.where(counts, scores.reshape(hk, group, n, tokens), np.float32(-np.inf))
    top = scores.max(-1, initial=-np.inf)
    base: Array = np.where(cast("Array", np.isneginf(top)), np.float32(0), top)
    weights = np.exp(scores - base[..., None])
    total: Array = weights.sum(-1)
    with np.errstate(divide="ignore"):
        lse = np.log2(total) + base * _LOG2_E
    out: Array = (weights.reshape(hk, group * n, tokens) @ v).reshape(hk, group, n, v.shape[2])
    out = out / np.where(total == 0, np.float32(1), total)[..., None]
    return out.transpose(2, 0, 1, 3).reshape(n, hq, -1), lse.transpose(2, 0, 1).reshape(n, hq)


def attend_arrays(
    queries: Array,
    query_positions: Array,
    query_indptr: Array,
    keys: Array,
    values: Array,
    page_indptr: Array,
    page_ids: Array,
    page_positions: Array,
    windows: Array,
    scale: float,
    out: Array,
    lse: Array,
    softcap: float = 0.0,
) -> None:
    """Attend from each query to the keys of its sequence's pages that count; write `out` and `lse`."""
    page_size = values.shape[2]
    for i, (window, sink) in enumerate(windows.tolist()):
        begin, end = query_indptr[i : i + 2].tolist()
        listed = slice(*page_indptr[i : i + 2].tolist())
        k, v = gathered(keys, values, page_ids[listed])
        positions = cast("Array", page_positions[listed, None] + np.arange(page_size)).reshape(-1)
        for start in range(begin, end, _ROWS):
            rows = slice(start, min(start + _ROWS, end))
            counts = visible(positions, query_positions[rows], window, sink)
            result, norm = weighted(queries[rows].astype(np.float32), k, v, counts, scale, softcap)
            out[rows], lse[rows] = result, norm


def gathered(keys: Array, values: Array, pages: Array) -> tuple[Array, Array]:
    """Return the keys (hk, d, t) and values (hk, t, e) of pages as float32, one page behind the other."""
    _, hk, d, s = keys.shape
    tokens = len(pages) * s
    k = keys[pages].astype(np.float32).transpose(1, 2, 0, 3).reshape(hk, d, tokens)
    v = values[pages].astype(np.float32).transpose(1, 0, 2, 3).reshape(hk, tokens, values.shape[3])
    return k, v


def merge_arrays(out: Array, lse: Array, other_out: Array, other_lse: Array) -> None:
    """Add to attention over some keys, in place, the attention of the same queries over other keys."""
    top: Array = np.maximum(lse, other_lse)
    base: Array = np.where(cast("Array", np.isneginf(top)), np.float32(0), top)
    first: Array = np.exp2(lse - base)
    second: Array = np.exp2(other_lse - base)
    total: Array = first + second
    divisor: Array = np.where(total == 0, np.float32(1), total)[..., None]
    mixed = out.astype(np.float32) * first[..., None] + other_out.astype(np.float32) * second[..., None]
    out[...] = mixed / divisor
    with np.errstate(divide="ignore"):
        lse[...] = np.log2(total) + base


class NumpyKernels:
    """The kernels `append` and `attend` on tensors, with the settings that compiled kernels have as attributes."""

    __slots__ = ("interleaved", "softcap")

    def __init__(self, interleaved: bool = False, softcap: float = 0.0) -> None:
        self.interleaved = interleaved
        self.softcap = softcap

    def append(
        self,
        qkv: tvm_ffi.Tensor,
        angles: tvm_ffi.Tensor,
        slots: tvm_ffi.Tensor,
        keys: tvm_ffi.Tensor,
        values: tvm_ffi.Tensor,
        queries: tvm_ffi.Tensor,
    ) -> None:
        """Rotate queries and keys, and write keys and values to pages: see `append_arrays`."""
        tensors = qkv, angles, slots, keys, values, queries
        append_arrays(*map(numpy_view, tensors), interleaved=self.interleaved)

    def attend(self, *tensors: Any) -> None:
        """Attend to the keys of pages, with the arguments in the order that the module's docstring lists."""
        *arrays, scale, out, lse = map(numpy_view, tensors)
        attend_arrays(*arrays, scale=float(scale[0]), out=out, lse=lse, softcap=self.softcap)
