"""The NumPy kernels of the paged KV cache: their contract, and the way kernels of a program reach a cache."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from paged_model import attention, rotated
from relax.runtime.paged_kernels import NumpyKernels, append_arrays, attend_arrays, merge_arrays
from relax.runtime.tensor import numpy_view, tensor_of_numpy
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import MODES, PLAIN_LOOPS

N, HQ, HK, D, E, S, P = 5, 4, 2, 6, 3, 4, 7
RNG = np.random.default_rng(0)


def pool():
    """Keys and values of pages that nobody has written."""
    return np.full((P, HK, D, S), np.nan, "float32"), np.full((P, HK, S, E), np.nan, "float32")


def angles(positions, pairs):
    radians = np.array(positions)[:, None] / 100.0 ** (np.arange(pairs) / max(pairs, 1))
    return np.stack([np.cos(radians), np.sin(radians)], 1).astype("float32")


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("pairs", [0, 2, 3])
def test_append_rotates_and_stores(interleaved, pairs):
    """Elements behind the rotated ones are copied; slot -1 stores nothing; all other slots stay as they are."""
    qkv = RNG.standard_normal((N, HQ * D + HK * D + HK * E)).astype("float32")
    positions, slots = [0, 1, 2, 9, 30], np.array([8, 9, -1, 3, 27], "int32")
    (keys, values), queries = pool(), np.zeros((N, HQ, D), "float32")
    append_arrays(qkv, angles(positions, pairs), slots, keys, values, queries, interleaved)
    turned = lambda x, at: rotated(x, at, interleaved, dim=2 * pairs)  # noqa: E731
    for i, (position, slot) in enumerate(zip(positions, slots, strict=True)):
        q, k = qkv[i, : HQ * D].reshape(HQ, D), qkv[i, HQ * D : (HQ + HK) * D].reshape(HK, D)
        np.testing.assert_allclose(queries[i], [turned(x, position) for x in q], rtol=1e-5, atol=1e-6)
        if slot >= 0:
            page, offset = divmod(slot, S)
            np.testing.assert_allclose(keys[page, :, :, offset], [turned(x, position) for x in k], rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(values[page, :, offset].ravel(), qkv[i, (HQ + HK) * D :])
    assert np.isfinite(keys).sum() == 4 * HK * D
    assert np.isfinite(values).sum() == 4 * HK * E


@pytest.mark.parametrize("softcap", [0.0, 0.7])
@pytest.mark.parametrize("window", [(0, 0), (3, 0), (3, 2)])
def test_attend_weighs_the_keys_that_count(softcap, window):
    """Two sequences in scattered pages: the first has pages for positions 0 to 7, the second, for 4 to 7 alone."""
    keys, values = pool()
    table = [(5, 0), (2, 4), (3, 4)]  # page, position of its first token
    for page, _ in table:
        keys[page], values[page] = RNG.standard_normal((HK, D, S)), RNG.standard_normal((HK, S, E))
    queries = RNG.standard_normal((N, HQ, D)).astype("float32")
    positions = np.array([4, 5, 6, 6, 7], "int32")
    out, lse = np.full((N, HQ, E), np.nan, "float32"), np.full((N, HQ), np.nan, "float32")
    attend_arrays(
        queries, positions, np.array([0, 3, 5]), keys, values, np.array([0, 2, 3]), np.array([5, 2, 3]),
        np.array([0, 4, 4]), np.array([window, window]), 0.4, out, lse, softcap,
    )  # fmt: skip
    for token, at in enumerate(positions):
        pages = table[:2] if token < 3 else table[2:]
        seen = [
            (page, offset)
            for page, first in pages
            for offset in range(S)
            if first + offset <= at
            and (window[0] <= 0 or first + offset > at - window[0] or first + offset < window[1])
        ]
        for head in range(HQ):
            group = head // (HQ // HK)
            ks = [keys[page, group, :, offset] for page, offset in seen]
            vs = [values[page, group, offset] for page, offset in seen]
            expected, norm = attention(queries[token, head], ks, vs, 0.4, softcap)
            np.testing.assert_allclose(out[token, head], expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(lse[token, head], norm, rtol=1e-5, atol=1e-6)


def test_attention_to_nothing():
    """Queries before all keys, and sequences without pages: the result is 0, and the logarithm of no weight."""
    keys, values = pool()
    out, lse = np.full((2, HQ, E), np.nan, "float32"), np.full((2, HQ), np.nan, "float32")
    attend_arrays(
        np.ones((2, HQ, D), "float32"), np.array([3, 9]), np.array([0, 1, 2]), keys, values, np.array([0, 1, 1]),
        np.array([0]), np.array([4]), np.zeros((2, 2), int), 1.0, out, lse,
    )  # fmt: skip
    assert not out.any()
    assert np.isneginf(lse).all()


def test_many_queries_are_scored_in_parts():
    """A causal attention of 150 new tokens to themselves."""
    n, pages = 150, -(-150 // S)
    keys = RNG.standard_normal((pages, HK, D, S)).astype("float32")
    values = RNG.standard_normal((pages, HK, S, E)).astype("float32")
    q = RNG.standard_normal((n, HQ, D)).astype("float32")
    out, lse = np.zeros((n, HQ, E), "float32"), np.zeros((n, HQ), "float32")
    attend_arrays(
        q, np.arange(n), np.array([0, n]), keys, values, np.array([0, pages]), np.arange(pages), np.arange(pages) * S,
        np.zeros((1, 2), int), 0.5, out, lse,
    )  # fmt: skip
    for token in (0, 63, 64, 65, 149):
        k = keys.transpose(1, 0, 3, 2).reshape(HK, -1, D)[1, : token + 1]
        v = values.transpose(1, 0, 2, 3).reshape(HK, -1, E)[1, : token + 1]
        np.testing.assert_allclose(
            out[token, 3], attention(q[token, 3], list(k), list(v), 0.5)[0], rtol=1e-4, atol=1e-5
        )


def test_attention_to_parts_is_merged():
    """Nothing merged with something is that; nothing with nothing stays nothing."""
    q, k, v = RNG.standard_normal(D), list(RNG.standard_normal((7, D))), list(RNG.standard_normal((7, E)))
    whole, norm = attention(q, k, v, 1.0)
    parts = [attention(q, k[rows], v[rows], 1.0) for rows in (slice(0, 3), slice(3, 7))]
    nothing = np.zeros(E), -np.inf
    for first, second, expected in (
        (*parts, (whole, norm)), (parts[0], nothing, parts[0]), (nothing, parts[1], parts[1]), (nothing,) * 3,
    ):  # fmt: skip
        out, lse = np.array([[first[0]]], "float32"), np.array([[first[1]]], "float32")
        merge_arrays(out, lse, np.array([[second[0]]], "float32"), np.array([[second[1]]], "float32"))
        np.testing.assert_allclose(out[0, 0], expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(lse[0, 0], expected[1], rtol=1e-5)


def test_kernels_take_tensors():
    """The kernels of a cache write into tensors, bfloat16 pages included."""
    import ml_dtypes

    keys, values = (tensor_of_numpy(np.zeros(shape, ml_dtypes.bfloat16)) for shape in ((1, 1, 2, 4), (1, 1, 4, 2)))
    qkv = tensor_of_numpy(np.array([[1, 0, 0.5, 0, 3, 5]], "float32"))
    queries, out, lse = (tensor_of_numpy(np.zeros(shape, "float32")) for shape in ((1, 1, 2), (1, 1, 2), (1, 1)))
    zero, one = (tensor_of_numpy(np.array(value, "int32")) for value in ([0], [0, 1]))
    kernels = NumpyKernels()
    kernels.append(qkv, tensor_of_numpy(angles([0], 1)), zero, keys, values, queries)
    windows, scale = tensor_of_numpy(np.zeros((1, 2), "int32")), tensor_of_numpy(np.ones(1, "float32"))
    kernels.attend(queries, zero, one, keys, values, one, zero, zero, windows, scale, out, lse)
    assert numpy_view(out).tolist() == [[[3, 5]]]
    np.testing.assert_allclose(numpy_view(lse), [[0.5 * np.log2(np.e)]], rtol=1e-6)


@I.ir_module
class WithKernels:
    """A cache with kernels of the program: they copy queries without rotation, and give them out as results."""

    @T.prim_func(private=True)
    def append(qkv: T.handle, angles: T.handle, slots: T.handle, keys: T.handle, values: T.handle, queries: T.handle):
        n, pages = T.int64(), T.int64()
        Qkv = T.match_buffer(qkv, (n, 12))
        _Angles = T.match_buffer(angles, (n, 2, 2))
        Slots = T.match_buffer(slots, (n,), "int32")
        _Keys = T.match_buffer(keys, (pages, 1, 4, 4))
        Values = T.match_buffer(values, (pages, 1, 4, 4))
        Queries = T.match_buffer(queries, (n, 1, 4))
        for i, j in T.grid(n, 4):
            with T.block("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                Queries[vi, 0, vj] = Qkv[vi, vj]
        for i, j in T.grid(n, 4):
            with T.block("store"):
                vi, vj = T.axis.remap("SS", [i, j])
                Values[Slots[vi] // 4, 0, Slots[vi] % 4, vj] = Qkv[vi, 8 + vj]

    @T.prim_func(private=True)
    def attend(
        queries: T.handle, positions: T.handle, query_indptr: T.handle, keys: T.handle, values: T.handle,
        page_indptr: T.handle, page_ids: T.handle, page_positions: T.handle, windows: T.handle, scale: T.handle,
        out: T.handle, lse: T.handle,
    ):  # fmt: skip
        n, b, b1, pages, m = T.int64(), T.int64(), T.int64(), T.int64(), T.int64()
        Queries = T.match_buffer(queries, (n, 1, 4))
        _Positions = T.match_buffer(positions, (n,), "int32")
        _QueryIndptr = T.match_buffer(query_indptr, (b1,), "int32")
        _Keys = T.match_buffer(keys, (pages, 1, 4, 4))
        Values = T.match_buffer(values, (pages, 1, 4, 4))
        _PageIndptr = T.match_buffer(page_indptr, (b1,), "int32")
        PageIds = T.match_buffer(page_ids, (m,), "int32")
        _PagePositions = T.match_buffer(page_positions, (m,), "int32")
        _Windows = T.match_buffer(windows, (b, 2), "int32")
        Scale = T.match_buffer(scale, (1,))
        Out = T.match_buffer(out, (n, 1, 4))
        _Lse = T.match_buffer(lse, (n, 1))
        for i, j in T.grid(n, 4):
            with T.block("give"):
                vi, vj = T.axis.remap("SS", [i, j])
                Out[vi, 0, vj] = Queries[vi, 0, vj] * Scale[0] + Values[PageIds[0], 0, 0, vj]

    @R.function(pure=False)
    def main(qkv: R.Tensor(("n", 12), "float32"), ids: R.Shape, lengths: R.Shape):
        cls = WithKernels
        n = T.int64()
        none = R.null_value()
        state = R.call_packed(
            "vm.builtin.paged_attention_kv_cache_create",
            R.shape([1, 16, 16, 4]), R.shape([0, 1]), R.prim_value(1), R.prim_value(1), R.prim_value(4),
            R.prim_value(4), R.shape([0]), R.prim_value(False), R.prim_value(1), R.prim_value(1.0),
            R.prim_value(100.0), none, R.zeros((), "float32"), none, none, R.tuple(), R.tuple(), R.tuple(), R.tuple(),
            R.tuple(), R.tuple(), R.tuple(), R.tuple(), R.tuple(), none, none, none, none, (cls.append, cls.attend),
            sinfo_args=R.Object,
        )  # fmt: skip
        _ = R.call_packed("vm.builtin.kv_state_add_sequence", state, R.prim_value(0), sinfo_args=R.Tuple())
        _1 = R.call_packed("vm.builtin.kv_state_begin_forward", state, ids, lengths, sinfo_args=R.Tuple())
        out = R.call_dps_packed(
            "vm.builtin.attention_kv_cache_attention_with_fused_qkv",
            (state, R.prim_value(0), R.prim_value(T.float64(10)), qkv),
            out_sinfo=R.Tensor((n, 1, 4), "float32"),
        )
        return out


@pytest.mark.parametrize("mode", [*MODES, "interpreter"])
def test_kernels_of_the_program_are_called(mode):
    rows = np.arange(24, dtype="float32").reshape(2, 12)
    args = rows, relax.ShapeTuple([0]), relax.ShapeTuple([2])
    if mode == "interpreter":
        found = relax.interpret(WithKernels, "main", *args)
    else:
        found = relax.VirtualMachine(relax.build(WithKernels, PLAIN_LOOPS, exec_mode=mode), relax.cpu())["main"](*args)
    np.testing.assert_array_equal(found.numpy()[:, 0], rows[:, :4] * 10 + rows[0, 8:])
