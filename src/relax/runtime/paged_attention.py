"""Attention of a paged KV cache, layer by layer: its kernels called with the tables of the forward that is under way.

The kernels know chains of tokens. For token trees, and for attention among the new tokens, NumPy computes.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Final, final

import numpy as np
import tvm_ffi
from tvm_ffi import Tensor

from .attention_steps import AttentionStep
from .dtypes import Array, ffi_dtype
from .page_store import PageStore
from .paged_forward import Forward, Table
from .paged_kernels import NumpyKernels, gathered, merge_arrays, rotate, store_arrays, visible, weighted
from .paged_layout import AttnKind, CacheLayout, Kernels
from .tensor import numpy_view, tensor_of_numpy, view_tensor
from .values import describe_shape, kind_of

NO_FORWARD: Final = "no forward is under way: call kv_state_begin_forward first"


@final
class PagedAttention:
    """The layers of a cache. Methods are called with the forward that is under way; None raises ValueError."""

    __slots__ = (
        "_announced", "_append", "_attend", "_checks", "_dtype", "_factor", "_first", "_kernels", "_keys", "_layout",
        "_local", "_out_shape", "_prepared", "_scales", "_slides", "_step", "_values", "_width",
    )  # fmt: skip

    def __init__(self, layout: CacheLayout, store: PageStore, kernels: Kernels | None, owner: object = None) -> None:
        """Use kernels, or those of NumPy if there are none. `owner` is the cache that programs hold."""
        self._checks = kernels is None
        self._prepared: tuple[tuple[Any, ...], list[Any]] | None = None
        if kernels is None:
            plain = NumpyKernels(layout.interleaved, layout.softcap)
            kernels = Kernels(plain.append, plain.attend)
        self._kernels = kernels
        self._append, self._attend = kernels.append, kernels.attend
        self._keys, self._values = store.keys, store.values
        self._layout = layout
        self._dtype = ffi_dtype(layout.dtype)
        self._first = layout.first_layer
        self._slides = layout.sliding_layers
        rotary = layout.local_rotary
        self._local = tuple(rotary is not None and kind is AttnKind.MHA_SLIDING for kind in layout.kinds)
        self._width = layout.packed_width
        self._out_shape = (layout.query_heads, layout.value_dim)
        self._scales: dict[float, tvm_ffi.Tensor] = {}
        self._step = self._new_step(owner)
        self._factor: float | None = None
        """Factor of scores for which calls of compiled programs are prepared."""
        self._announced: tuple[tuple[Any, ...], list[Any]] | None = None
        """Arguments among those that were prepared which the calls of compiled programs have."""

    def _new_step(self, owner: object) -> AttentionStep | None:
        """Return the memory for prepared calls; None for kernels that are no packed functions."""
        append, attend = self._append, self._attend
        if owner is None or not isinstance(append, tvm_ffi.Function) or not isinstance(attend, tvm_ffi.Function):
            return None
        heads, columns = self._out_shape
        return AttentionStep(
            owner, append, attend, first_layer=self._first, width=self._width, heads=heads, columns=columns,
            dtype=self._layout.dtype, layers=list(zip(self._keys, self._values, self._slides, strict=True)),
        )  # fmt: skip

    def end(self) -> None:
        """End the forward for which calls are prepared."""
        if self._step is not None:
            self._step.end()

    def attention_with_fused_qkv(self, forward: Forward | None, layer: int, scale: float, qkv: Any, out: Any) -> None:
        """Append the keys and values of the new tokens to a layer, and attend from their queries.

        Parameters
        ----------
        layer
            The number of the layer.
        scale
            The factor of scores, such as 1 / √d.
        qkv
            The queries, keys and values of the n new tokens, before rotation: (n, hq*d + hk*d + hk*e), or a shape of as
            many elements, such as (n, hq + 2 hk, d).
        out
            The result: (n, hq, e), or a shape of as many elements.
        """
        if forward is None:
            raise ValueError(NO_FORWARD)
        index = layer - self._first
        arguments = forward.arguments[index] if 0 <= index < len(self._keys) else None
        if arguments is None:
            self._of_layer(layer, forward)  # raises
            return
        if type(qkv) is not Tensor or qkv.shape != forward.qkv_shape or self._is_other(qkv):
            qkv = self._fitted("qkv", qkv, forward.qkv_shape)
        if type(out) is not Tensor or out.shape != forward.out_shape or self._is_other(out):
            out = self._fitted("out", out, forward.out_shape)
        append_arguments, attend_arguments = arguments
        self._append(qkv, *append_arguments)
        if forward.masks is None:
            self._attend(*attend_arguments, self._scale(scale), out, forward.buffers.lse)
            if self._step is not None and scale != self._factor:
                self._factor = scale
                self._step.scale(scale)
                self._announce(self._step, forward)
            return
        buffers = forward.buffers
        self._attend_tree(layer, forward, scale, *map(numpy_view, (buffers.queries, out, buffers.lse)))

    def prepare(self, forward: Forward) -> None:
        """Give a forward the arguments of each layer's kernels: those of the last forward if they are the same."""
        parts = forward.buffers, forward.query_indptr, forward.full, forward.sliding
        if self._prepared is None or any(map(operator.is_not, self._prepared[0], parts)):
            layers = range(self._first, self._first + len(self._keys))
            self._prepared = parts, [self._arguments(layer, forward) for layer in layers]
        forward.arguments = self._prepared[1]
        forward.qkv_shape = forward.n, self._width
        forward.out_shape = forward.n, *self._out_shape
        if self._step is not None and forward.masks is None:
            if self._announced is self._prepared:
                self._step.begin_again()
            else:
                self._announce(self._step, forward)

    def _announce(self, step: AttentionStep, forward: Forward) -> None:
        """Prepare the calls of compiled programs, once it is known by which factor they multiply scores."""
        if self._factor is None:
            return
        self._announced = self._prepared
        buffers = forward.buffers
        step.begin(forward.n, (
            buffers.slots, buffers.queries, buffers.positions, forward.query_indptr, self._scale(self._factor),
            buffers.lse, buffers.angles, *forward.full, buffers.local_angles if any(self._local) else buffers.angles,
            *forward.sliding,
        ))  # fmt: skip

    def _arguments(self, layer: int, forward: Forward) -> tuple[Any, Any] | None:
        """Return the arguments of `append` but the first one, and of `attend` up to the windows; None without pages."""
        if self._keys[layer - self._first] is None:
            return None
        keys, values, table, angles = self._of_layer(layer, forward)
        buffers = forward.buffers
        append = angles, buffers.slots, keys, values, buffers.queries
        return append, (buffers.queries, buffers.positions, forward.query_indptr, keys, values, *table)

    def _is_other(self, tensor: tvm_ffi.Tensor) -> bool:
        """True if a tensor has another dtype. Compiled kernels check this themselves, in less time."""
        return self._checks and tensor.dtype != self._dtype

    def attention_with_shared_kv(
        self, forward: Forward | None, source: int, scale: float, q: Any, k: Any, v: Any, out: Any
    ) -> None:
        """Attend from queries of another layer to the keys and values of layer `source`, which has appended them.

        `q` (n, hq, d) is rotated as those of the source are; `k` (n, hk, d) and `v` (n, hk, e) are in its pages
        already, and only their shapes are looked at.
        """
        forward, layout = under_way(forward), self._layout
        _, _, _, angles = self._of_layer(source, forward)
        queries = self._floats(forward, "q", q, (forward.n, layout.query_heads, layout.key_dim))
        self._floats(forward, "k", k, (forward.n, layout.key_heads, layout.key_dim))
        self._floats(forward, "v", v, (forward.n, layout.key_heads, layout.value_dim))
        numpy_view(forward.buffers.queries)[...] = rotate(queries, numpy_view(angles), layout.interleaved)
        target = self._fitted("out", out, (forward.n, *self._out_shape))
        self._attend_pages(source, forward, scale, forward.buffers.queries, target, forward.buffers.lse)

    def self_attention(
        self, forward: Forward | None, layer: int, scale: float, q: Any, k: Any, v: Any, out: Any, lse: Any
    ) -> None:
        """Attend from the new tokens of each sequence to those among themselves that are not later.

        `q` (n, hq, d'), `k` (n, hk', d') and `v` (n, hk', e') may have other heads and widths than the pages. They are
        rotated only if `rope_mode` is 2 (inline). Writes `out` (n, hq, e') and `lse` (n, hq) float32, base 2.
        """
        forward = under_way(forward)
        self._index(layer)
        arrays = [self._floats(forward, name, each, None) for name, each in (("q", q), ("k", k), ("v", v))]
        _check_heads(*arrays)
        queries, keys, values = (
            self._rotated(forward, layer, arrays[0]),
            self._rotated(forward, layer, arrays[1]),
            arrays[2],
        )
        n, heads = queries.shape[:2]
        results = self._fitted("out", out, (n, heads, values.shape[2])), self._lse("lse", lse, (n, heads))
        out_array, lse_array = map(numpy_view, results)
        at = 0
        for i, length in enumerate(forward.lengths):
            rows = slice(at, at + length)
            counts = self._new_counts(forward, i, layer)
            k_heads, v_heads = keys[rows].transpose(1, 2, 0), values[rows].transpose(1, 0, 2)
            result = weighted(queries[rows], k_heads, v_heads, counts, scale, self._layout.softcap)
            out_array[rows], lse_array[rows] = result
            at += length

    def cross_attention(self, forward: Forward | None, layer: int, scale: float, q: Any, out: Any, lse: Any) -> None:
        """Attend from the new tokens to the pages of a layer.

        If each sequence has one new token (a decoding step), all tokens count, the new one included: append it first.
        Else the tokens before this forward count, and `merge_attn_output_inplace` adds `self_attention`. `q` (n, hq, d)
        is rotated only if `rope_mode` is 2 (inline). Writes `out` (n, hq, e) and `lse` (n, hq) float32, base 2.
        """
        forward, layout = under_way(forward), self._layout
        keys, values, table, _ = self._of_layer(layer, forward)
        queries = self._fitted("q", q, (forward.n, layout.query_heads, layout.key_dim))
        if layout.rotates_inline:
            array = numpy_view(forward.buffers.queries)
            array[...] = self._rotated(forward, layer, numpy_view(queries).astype(np.float32))
            queries = forward.buffers.queries
        results = (
            self._fitted("out", out, (forward.n, *self._out_shape)),
            self._lse("lse", lse, (forward.n, layout.query_heads)),
        )
        if forward.is_decode:
            self._attend_pages(layer, forward, scale, queries, *results)
            return
        if any(sequence.window for sequence in forward.batch) and self._slides[layer - self._first]:
            self._attend_masked(layer, forward, scale, numpy_view(queries), *map(numpy_view, results), own=False)
            return
        last: Array = np.repeat(np.array(forward.starts, np.int32) - 1, forward.lengths)
        self._attend(
            queries, tensor_of_numpy(last), forward.query_indptr, keys, values, *table, self._scale(scale), *results
        )

    def append_mla_kv(self, forward: Forward | None, layer: int, kv: tvm_ffi.Tensor) -> None:
        """Append latent vectors (n, d), rotated by the program, to a layer of kind MLA. The first `e` elements of each
        are its value.
        """
        forward, layout = under_way(forward), self._layout
        keys, values, _, _ = self._of_layer(layer, forward)
        if layout.kinds[layer - self._first] is not AttnKind.MLA:
            raise ValueError(f"layer {layer} is no layer of latent attention (MLA)")
        latent = numpy_view(self._fitted("kv", kv, (forward.n, 1, layout.key_dim)))
        store_arrays(
            latent, latent[..., : layout.value_dim], forward.buffers.slots_array, numpy_view(keys), numpy_view(values),
            layout.page_size,
        )  # fmt: skip

    def merge_attn_output_inplace(
        self, out: tvm_ffi.Tensor, lse: tvm_ffi.Tensor, other_out: tvm_ffi.Tensor, other_lse: tvm_ffi.Tensor
    ) -> None:
        """Add to attention over some keys, in place, the attention of the same queries to other keys."""
        shape = tuple(out.shape)
        tensors = (
            self._fitted("the first output", out, shape), self._lse("the first lse", lse, shape[:2]),
            self._fitted("the second output", other_out, shape), self._lse("the second lse", other_lse, shape[:2]),
        )  # fmt: skip
        merge_arrays(*map(numpy_view, tensors))

    # ---------------------------------------------------------------------------------- parts of attention

    def _index(self, layer: int) -> int:
        index = layer - self._first
        if not 0 <= index < len(self._keys):
            last = self._first + len(self._keys) - 1
            raise ValueError(f"there is no layer {layer}: layers are numbered from {self._first} to {last}")
        return index

    def _of_layer(self, layer: int, forward: Forward) -> tuple[tvm_ffi.Tensor, tvm_ffi.Tensor, Table, tvm_ffi.Tensor]:
        """Return the keys, values, table of pages and rotary angles of a layer."""
        index = self._index(layer)
        keys, values = self._keys[index], self._values[index]
        if keys is None or values is None:
            raise ValueError(f"layer {layer} is linear: it has no keys and values")
        buffers = forward.buffers
        table = forward.sliding if self._slides[index] else forward.full
        return keys, values, table, buffers.local_angles if self._local[index] else buffers.angles

    def _attend_pages(
        self, layer: int, forward: Forward, scale: float, queries: tvm_ffi.Tensor, out: tvm_ffi.Tensor,
        lse: tvm_ffi.Tensor,
    ) -> None:  # fmt: skip
        """Attend from rotated queries to the pages of a layer, the new tokens included."""
        if forward.masks is not None:
            self._attend_tree(layer, forward, scale, *map(numpy_view, (queries, out, lse)))
            return
        keys, values, table, _ = self._of_layer(layer, forward)
        scales = self._scale(scale)
        self._attend(queries, forward.buffers.positions, forward.query_indptr, keys, values, *table, scales, out, lse)

    def _attend_tree(self, layer: int, forward: Forward, scale: float, queries: Array, out: Array, lse: Array) -> None:
        self._attend_masked(layer, forward, scale, queries, out, lse, own=True)

    def _attend_masked(
        self, layer: int, forward: Forward, scale: float, queries: Array, out: Array, lse: Array, own: bool
    ) -> None:
        """Attend to the tokens before this forward, and if `own` to the new ones that a token tree lets each see."""
        keys, values, _, _ = self._of_layer(layer, forward)
        slides = self._slides[layer - self._first]
        at = 0
        for i, (sequence, start, length) in enumerate(zip(forward.batch, forward.starts, forward.lengths, strict=True)):
            rows = slice(at, at + length)
            pages = sequence.ids[: sequence.count]
            k, v = gathered(numpy_view(keys), numpy_view(values), pages)
            tokens: Array = (sequence.starts[: sequence.count, None] + np.arange(self._layout.page_size)).reshape(-1)
            window, sink = (sequence.window, sequence.sink) if slides else (0, 0)
            positions = forward.buffers.positions_array[rows]
            counts = visible(tokens, positions, window, sink) & (tokens < start)
            if own:
                new = self._new_counts(forward, i, layer)
                counts[:, np.flatnonzero((tokens >= start) & (tokens < start + length))] = new
            out[rows], lse[rows] = weighted(queries[rows].astype(np.float32), k, v, counts, scale, self._layout.softcap)
            at += length

    def _new_counts(self, forward: Forward, i: int, layer: int) -> Array:
        """Return which new tokens (columns) of sequence i each of its new tokens (rows) sees in a layer."""
        sequence, length = forward.batch[i], forward.lengths[i]
        begin = sum(forward.lengths[:i])
        positions = forward.buffers.positions_array[begin : begin + length]
        slides = self._slides[layer - self._first]
        counts = visible(positions, positions, sequence.window if slides else 0, sequence.sink)
        return counts if forward.masks is None else counts & forward.masks[i]

    def _rotated(self, forward: Forward, layer: int, array: Array) -> Array:
        """Return queries or keys as `rope_mode` inline has them: rotated; with another mode unchanged."""
        if not self._layout.rotates_inline:
            return array
        buffers = forward.buffers
        angles = buffers.local_angles_array if self._local[self._index(layer)] else buffers.angles_array
        if array.shape[2] < 2 * angles.shape[2]:
            raise ValueError(f"heads of {array.shape[2]} elements cannot have {2 * angles.shape[2]} of them rotated")
        return rotate(array, angles, self._layout.interleaved)

    def _scale(self, scale: Any) -> tvm_ffi.Tensor:
        """Return a tensor with the factor of scores. Raises TypeError for what is no number."""
        found = self._scales.get(scale)
        if found is None:
            if not isinstance(scale, int | float):
                raise TypeError(f"expected a number as the scale of attention, found {kind_of(scale)}")
            self._scales[scale] = found = tensor_of_numpy(np.array([scale], np.float32))
        return found

    def _floats(self, forward: Forward, name: str, tensor: Any, shape: tuple[int, ...] | None) -> Array:
        """Return an argument as float32, under a shape or (None) with its own, which must be (n, heads, width)."""
        if shape is None:
            shape = tuple(tensor.shape) if isinstance(tensor, tvm_ffi.Tensor) else ()
            if isinstance(tensor, tvm_ffi.Tensor) and (len(shape) != 3 or shape[0] != forward.n):
                raise ValueError(f"{name} has the shape {describe_shape(shape)}, expected ({forward.n}, heads, width)")
        return numpy_view(self._fitted(name, tensor, shape)).astype(np.float32)

    def _lse(self, name: str, tensor: Any, shape: tuple[int, ...]) -> tvm_ffi.Tensor:
        return fitted(name, tensor, shape, "float32")

    def _fitted(self, name: str, tensor: Any, shape: tuple[int, ...]) -> tvm_ffi.Tensor:
        return fitted(name, tensor, shape, self._layout.dtype)


def fitted(name: str, tensor: Any, shape: tuple[int, ...], dtype: str) -> tvm_ffi.Tensor:
    """Return a tensor, or a view of it under `shape` if it has as many elements.

    Raises TypeError for another value or dtype, ValueError for another number of elements.
    """
    if not isinstance(tensor, tvm_ffi.Tensor):
        raise TypeError(f"expected a tensor as {name}, found {kind_of(tensor)}")
    if str(tensor.dtype) != dtype:
        raise TypeError(f"{name} has the dtype {tensor.dtype}, expected {dtype}")
    if tuple(tensor.shape) == shape:
        return tensor
    if tensor.numel() != math.prod(shape):
        raise ValueError(f"{name} has the shape {describe_shape(tensor.shape)}, expected {describe_shape(shape)}")
    return view_tensor(tensor, shape)


def under_way(forward: Forward | None) -> Forward:
    """Return the forward. Raises ValueError if there is none."""
    if forward is None:
        raise ValueError(NO_FORWARD)
    return forward


def _check_heads(q: Array, k: Array, v: Array) -> None:
    """Raise ValueError unless queries (n, hq, d), keys (n, hk, d) and values (n, hk, e) fit each other."""
    groups = k.shape[1]
    if k.shape[2] != q.shape[2] or v.shape[1] != groups or not groups or q.shape[1] % groups:
        shapes = ", ".join(describe_shape(each.shape) for each in (q, k, v))
        raise ValueError(f"queries, keys and values of shapes {shapes} do not fit each other")
