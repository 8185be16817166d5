"""A plain model of a KV cache: each sequence keeps the whole history of its tokens, and attention is its definition.

pair = Pair(layers=2)                   a PagedKVCache and the model of it
pair.add(0); pair.forward({0: 5})       random new tokens in both; the results must agree
"""

from __future__ import annotations

import math

import numpy as np

import relax
import relax.runtime.builtins  # registers them
from relax.runtime.builtin_table import BUILTINS
from relax.runtime.dtypes import NUMPY_DTYPES
from relax.runtime.tensor import numpy_view, tensor_of_numpy

THETA = 100.0


def builtin(name):
    """The function of a builtin of the machine."""
    return BUILTINS[f"vm.builtin.{name}"].function


def create(
    *, layers=1, heads=(4, 2), width=4, value_width=4, sequences=8, tokens=64, chunk=32, page=4, window=0, kinds=None,
    mode=1, dtype="float32", kernels=None, options=None,
):  # fmt: skip
    """A cache with small sizes, made by the builtin in TVM's form."""
    config = (sequences, tokens, chunk, page, *((window,) if window else ()))
    return builtin("paged_attention_kv_cache_create")(
        config, (0, layers), *heads, width, value_width, kinds or (0,) * layers, False, mode, 1.0, THETA, None, tensor(0, dtype=dtype),
        *[None] * 2, *[()] * 9, *[None] * 4, kernels or (), options or {},
    )  # fmt: skip


CACHE = """
@I.ir_module
class Cache:
    @R.function(pure=False)
    def cache(room: R.Shape(["sequences", "tokens"])) -> R.Object:
        sequences, tokens = T.int64(), T.int64()
        init = R.zeros((), "float32")
        none = R.null_value()
        state = R.call_packed(
            "vm.builtin.paged_attention_kv_cache_create",
            R.shape([sequences, tokens, {chunk}, 4, {window}]), R.shape([0, 2]), R.prim_value(4), R.prim_value(2),
            R.prim_value(4), R.prim_value(4), R.shape([{kinds}]), R.prim_value(False), R.prim_value(1),
            R.prim_value(1.0), R.prim_value(100.0), none, init, none, none, R.tuple(), R.tuple(), R.tuple(), R.tuple(),
            R.tuple(), R.tuple(), R.tuple(), R.tuple(), R.tuple(), none, none, none, none, R.tuple(),
            (R.str("interleaved"), R.prim_value(True), {options}), sinfo_args=R.Object,
        )
        return state
"""


def cache_function(chunk, window=0, kinds="0, 0", options=""):
    """A function that makes a cache of two layers; `options` are names and values behind "interleaved"."""
    return relax.script.from_source(CACHE.format(chunk=chunk, window=window, kinds=kinds, options=options))["cache"]


def tensor(*shape, dtype="float32"):
    """A tensor of zeros."""
    return tensor_of_numpy(np.zeros(shape, NUMPY_DTYPES[dtype]))


def rotated(x, position, interleaved=False, theta=THETA, dim=None):
    """A vector with its elements rotated in pairs, one by one."""
    dim = len(x) if dim is None else dim
    y = np.array(x, "float64")
    for i in range(dim // 2):
        a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + dim // 2)
        angle = position / theta ** (2 * i / dim)
        y[a] = x[a] * math.cos(angle) - x[b] * math.sin(angle)
        y[b] = x[b] * math.cos(angle) + x[a] * math.sin(angle)
    return y


def attention(q, keys, values, scale, softcap=0.0):
    """One head's result: Σ softmax(scale q·k) v over lists of keys and values, and the base 2 log of the weights' sum."""
    if not keys:
        return np.zeros(len(values[0]) if values else 0), -np.inf
    scores = np.array([scale * np.dot(q, k) for k in keys])
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    weights = np.exp(scores - scores.max())
    return weights @ np.array(values) / weights.sum(), math.log2(weights.sum()) + scores.max() / math.log(2)


class Pair:
    """A cache, and the histories that it should have."""

    def __init__(self, seed=0, **settings):
        self.cache = create(**settings)
        self.cache.store.fill(np.nan)  # what is not written yet may be anything
        self.layout = self.cache.layout
        self.rng = np.random.default_rng(seed)
        self.histories = {}  # of each sequence, for each token, for each layer: (key, value), rotated
        self.windows = {}

    def add(self, seq):
        builtin("kv_state_add_sequence")(self.cache, seq)
        self.histories[seq] = []
        self.windows[seq] = (self.layout.sliding_window, 0)

    def remove(self, seq):
        builtin("kv_state_remove_sequence")(self.cache, seq)
        del self.histories[seq]

    def fork(self, parent, child, pos=-1):
        builtin("kv_state_fork_sequence")(self.cache, parent, child, pos)
        self.histories[child] = list(self.histories[parent] if pos == -1 else self.histories[parent][:pos])
        self.windows[child] = self.windows[parent]

    def popn(self, seq, count):
        builtin("kv_state_popn")(self.cache, seq, count)
        history = self.histories[seq]
        del history[len(history) - count :]

    def slide(self, seq, window, sink):
        builtin("attention_kv_cache_enable_sliding_window_for_seq")(self.cache, seq, window, sink)
        self.windows[seq] = (window, sink)

    def forward(self, lengths, tolerance=1e-5):
        """New random tokens of some sequences, through all layers; the results of the cache must be the model's."""
        layout, scale = self.layout, 0.7
        n = sum(lengths.values())
        builtin("kv_state_begin_forward")(self.cache, tuple(lengths), tuple(lengths.values()))
        inputs = self.rng.standard_normal((len(layout.kinds), n, layout.packed_width)).astype(
            NUMPY_DTYPES[layout.dtype]
        )
        results = []
        for layer, qkv in enumerate(inputs):
            out = tensor(n, layout.query_heads, layout.value_dim, dtype=layout.dtype)
            builtin("attention_kv_cache_attention_with_fused_qkv")(
                self.cache, layer, scale, tensor_of_numpy(qkv.copy()), out
            )
            results.append(numpy_view(out).astype("float64"))
        builtin("kv_state_end_forward")(self.cache)
        expected = self.expected(lengths, inputs.astype("float64"), scale)
        np.testing.assert_allclose(results, expected, rtol=tolerance, atol=tolerance)
        return results

    def expected(self, lengths, inputs, scale):
        layout = self.layout
        hq, hk, d, e = layout.query_heads, layout.key_heads, layout.key_dim, layout.value_dim
        rotates = layout.rotary.pairs > 0
        results = np.zeros((len(layout.kinds), inputs.shape[1], hq, e))
        token = 0
        for seq, length in lengths.items():
            history = self.histories[seq]
            for _ in range(length):
                at = len(history)
                history.append([])
                for layer, row in enumerate(inputs[:, token]):
                    queries, keys = row[: hq * d].reshape(hq, d), row[hq * d : (hq + hk) * d].reshape(hk, d)
                    values = row[(hq + hk) * d :].reshape(hk, e)
                    if rotates:
                        queries, keys = ([rotated(x, at, layout.interleaved) for x in each] for each in (queries, keys))
                    history[at].append((keys, values))
                    window, sink = self.windows[seq] if layout.sliding_layers[layer] else (0, 0)
                    seen = [p for p in range(at + 1) if window <= 0 or p > at - window or p < sink]
                    for head in range(hq):
                        group = head // (hq // hk)
                        ks = [history[p][layer][0][group] for p in seen]
                        vs = [history[p][layer][1][group] for p in seen]
                        results[layer, token, head] = attention(queries[head], ks, vs, scale, layout.softcap)[0]
                token += 1
        return results


def forward_of(cache, lengths, parents=None):
    """Begin a forward of `{sequence: new tokens}`."""
    builtin("kv_state_begin_forward")(cache, tuple(lengths), tuple(lengths.values()), parents)


def append(cache, lengths):
    """New tokens without attention, for tests of pages alone."""
    forward_of(cache, lengths)
    builtin("kv_state_end_forward")(cache)
