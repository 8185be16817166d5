"""Keys and values in pages for tests: seeded sequences, attention to them and appending by NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from relax.topi.paged_attention import PagedHeads

DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def attention_case(
    heads: PagedHeads,
    queries: Sequence[int],
    keys: Sequence[int],
    windows: Sequence[tuple[int, int]] = (),
    *,
    in_order: bool = False,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Inputs of `attend`: for each sequence, its last `queries` tokens attend to all its `keys` tokens.

    Tokens that were never written are NaN, in the last page of a sequence and in three pages that nobody lists.
    """
    rng = np.random.default_rng(seed)
    size = heads.page_size
    counts = [-(-count // size) for count in keys]
    listed = sum(counts)
    pool = listed + 3
    ids = np.arange(listed) if in_order else rng.permutation(pool)[:listed]
    positions = np.concatenate([*(np.arange(count) * size for count in counts), np.zeros(0)])
    k = np.full((pool, heads.kv_heads, heads.depth, size), np.nan, "float32")
    v = np.full((pool, heads.kv_heads, size, heads.columns), np.nan, "float32")
    lengths = np.repeat(np.array(keys, int), counts)
    for page, start, length in zip(ids, positions.astype(int), lengths, strict=True):
        used = min(size, length - start)
        k[page, :, :, :used] = rng.standard_normal((heads.kv_heads, heads.depth, used))
        v[page, :, :used] = rng.standard_normal((heads.kv_heads, used, heads.columns))
    n = sum(queries)
    last = [np.arange(count - new, count) for new, count in zip(queries, keys, strict=True)]
    return {
        "queries": rng.standard_normal((n, heads.query_heads, heads.depth)).astype(DTYPES[heads.dtype]),
        "query_positions": np.concatenate([*last, np.zeros(0)]).astype("int32"),
        "query_indptr": np.cumsum([0, *queries]).astype("int32"),
        "keys": k.astype(DTYPES[heads.page_dtype]),
        "values": v.astype(DTYPES[heads.page_dtype]),
        "page_indptr": np.cumsum([0, *counts]).astype("int32"),
        "page_ids": ids.astype("int32"),
        "page_positions": positions.astype("int32"),
        "windows": np.array(windows or [(0, 0)] * len(keys), "int32").reshape(len(keys), 2),
        "scale": np.array([heads.depth**-0.5], "float32"),
    }


def attended(heads: PagedHeads, case: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Attention in float64, query by query: (out, lse)."""
    n = len(case["queries"])
    out = np.zeros((n, heads.query_heads, heads.columns))
    lse = np.full((n, heads.query_heads), -np.inf)
    keys, values, queries = (case[name].astype("float64") for name in ("keys", "values", "queries"))
    for i, (window, sinks) in enumerate(case["windows"].tolist()):
        pages = slice(*case["page_indptr"][i : i + 2].tolist())
        ids = case["page_ids"][pages]
        positions = (case["page_positions"][pages, None] + np.arange(heads.page_size)).reshape(-1)
        k = keys[ids].transpose(1, 0, 3, 2).reshape(heads.kv_heads, -1, heads.depth)
        v = values[ids].transpose(1, 0, 2, 3).reshape(heads.kv_heads, -1, heads.columns)
        for row in range(*case["query_indptr"][i : i + 2].tolist()):
            at = case["query_positions"][row]
            counts = positions <= at
            if window > 0:
                counts &= (positions > at - window) | (positions < sinks)
            if counts.any():
                for h in range(heads.query_heads):
                    g = h // heads.group
                    one = queries[row, h], k[g][counts], v[g][counts]
                    out[row, h], lse[row, h] = _attended(*one, case["scale"][0], heads.softcap)
    return out, lse


def _attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, softcap: float) -> tuple[np.ndarray, float]:
    with np.errstate(all="ignore"):
        scores = k @ q * scale
        if softcap:
            scores = softcap * np.tanh(scores / softcap)
        weights = np.exp(scores - scores.max())
        total = weights.sum()
        return weights @ v / total, (scores.max() + np.log(total)) / math.log(2)


def attend(kernel: Any, heads: PagedHeads, case: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Run a kernel on a case: (out, lse)."""
    n = len(case["queries"])
    out = np.full((n, heads.query_heads, heads.columns), 77, DTYPES[heads.dtype])
    lse = np.full((n, heads.query_heads), 77, "float32")
    kernel(*case.values(), out, lse)
    return out, lse


def check_attended(kernel: Any, heads: PagedHeads, case: dict[str, np.ndarray]) -> None:
    """Assert that a kernel computes attention on a case."""
    out, lse = attend(kernel, heads, case)
    expected, expected_lse = attended(heads, case)
    narrow = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[heads.dtype]
    np.testing.assert_allclose(out.astype("float64"), expected, rtol=narrow, atol=narrow / 5)
    np.testing.assert_allclose(lse, expected_lse, rtol=1e-5, atol=2e-6)


def append_case(heads: PagedHeads, n: int, pool: int, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of `append`: n tokens in random slots of `pool` pages; the middle one is not stored."""
    rng = np.random.default_rng(seed)
    width = (heads.query_heads + heads.kv_heads) * heads.depth + heads.kv_heads * heads.columns
    slots = rng.permutation(pool * heads.page_size)[:n].astype("int32")
    if n > 1:
        slots[n // 2] = -1
    pages = DTYPES[heads.page_dtype]
    return {
        "qkv": rng.standard_normal((n, width)).astype(DTYPES[heads.dtype]),
        "angles": rng.standard_normal((n, 2, heads.rotated)).astype("float32"),
        "slots": slots,
        "keys": np.full((pool, heads.kv_heads, heads.depth, heads.page_size), 7, pages),
        "values": np.full((pool, heads.kv_heads, heads.page_size, heads.columns), 7, pages),
    }


def appended(heads: PagedHeads, case: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What appending a case makes: (queries, keys, values)."""
    x, size = case["qkv"].astype("float32"), heads.page_size
    n, queries = len(x), heads.query_heads * heads.depth
    q, k, v = np.split(x, [queries, queries + heads.kv_heads * heads.depth], axis=1)
    q, k = (
        _rotated(heads, part.reshape(n, count, heads.depth), case["angles"])
        for part, count in ((q, heads.query_heads), (k, heads.kv_heads))
    )
    v = v.reshape(n, heads.kv_heads, heads.columns)
    keys, values = case["keys"].copy(), case["values"].copy()
    for t, slot in enumerate(case["slots"]):
        if slot >= 0:
            keys[slot // size, :, :, slot % size] = k[t]
            values[slot // size, :, slot % size] = v[t]
    return q.astype(case["qkv"].dtype), keys, values


def _rotated(heads: PagedHeads, x: np.ndarray, angles: np.ndarray) -> np.ndarray:
    i = np.arange(heads.rotated)
    first, second = (2 * i, 2 * i + 1) if heads.interleaved else (i, i + heads.rotated)
    cosines, sines = angles[:, None, 0], angles[:, None, 1]
    result = x.copy()
    result[..., first] = x[..., first] * cosines - x[..., second] * sines
    result[..., second] = x[..., second] * cosines + x[..., first] * sines
    return result
