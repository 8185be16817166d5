"""Arguments that the kernels of all layers share in one forward of a paged KV cache.

Tables of pages change when a sequence gets a page, positions with every token. So tensors of tables are kept until the
pages change, and tensors of positions are views of memory that is written anew in each forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np
import tvm_ffi

from .dtypes import Array
from .paged_layout import CacheLayout
from .paged_sequence import PagedSequence
from .tensor import new_tensor, numpy_view, tensor_of_numpy, view_tensor

Table: TypeAlias = "tuple[tvm_ffi.Tensor, tvm_ffi.Tensor, tvm_ffi.Tensor, tvm_ffi.Tensor]"
"""The tensors page_indptr, page_ids, page_positions and windows: see `paged_kernels`."""

_MOST_VIEWS: Final = 64
"""Numbers of tokens whose views are kept."""


@final
class TokenBuffers:
    """Tensors for `n` tokens, and NumPy arrays over those that are written for each forward."""

    __slots__ = (
        "angles", "angles_array", "local_angles", "local_angles_array", "lse", "positions", "positions_array",
        "queries", "slots", "slots_array",
    )  # fmt: skip

    def __init__(self, memory: dict[str, tvm_ffi.Tensor], n: int) -> None:
        """Make views of the first `n` rows of each tensor."""
        views = {name: view_tensor(tensor, (n, *tensor.shape[1:])) for name, tensor in memory.items()}
        self.positions, self.slots, self.queries = views["positions"], views["slots"], views["queries"]
        self.angles, self.lse = views["angles"], views["lse"]
        self.local_angles = views.get("local_angles", self.angles)
        """The angles of layers with the local rotary embedding; those of all layers if there is none."""
        self.positions_array: Array = numpy_view(self.positions)
        self.slots_array: Array = numpy_view(self.slots)
        self.angles_array: Array = numpy_view(self.angles)
        self.local_angles_array: Array = numpy_view(self.local_angles)


@final
class Scratch:
    """Memory for the tokens of a forward, which grows up to the greatest forward so far."""

    __slots__ = ("_layout", "_memory", "_rows", "_views")

    def __init__(self, layout: CacheLayout) -> None:
        self._layout = layout
        self._rows = 0
        self._memory: dict[str, tvm_ffi.Tensor] = {}
        self._views: dict[int, TokenBuffers] = {}

    def tokens(self, n: int) -> TokenBuffers:
        """Return buffers for `n` tokens, with the contents of any earlier forward."""
        found = self._views.get(n)
        if found is not None:
            return found
        if n > self._rows or len(self._views) >= _MOST_VIEWS:
            self._views.clear()
        if n > self._rows:
            self._rows = min(max(n, 2 * self._rows), max(n, self._layout.prefill_chunk))
            self._memory = self._allocate(self._rows)
        self._views[n] = buffers = TokenBuffers(self._memory, n)
        return buffers

    def _allocate(self, rows: int) -> dict[str, tvm_ffi.Tensor]:
        layout = self._layout
        memory = {
            "positions": new_tensor((rows,), "int32"),
            "slots": new_tensor((rows,), "int32"),
            "angles": new_tensor((rows, 2, layout.rotary.pairs), "float32"),
            "queries": new_tensor((rows, layout.query_heads, layout.key_dim), layout.dtype),
            "lse": new_tensor((rows, layout.query_heads), "float32"),
        }
        if layout.local_rotary is not None:
            memory["local_angles"] = new_tensor((rows, 2, layout.local_rotary.pairs), "float32")
        return memory


@final
class Tables:
    """Tensors that list the pages of a batch, kept until the pages change."""

    __slots__ = ("_indptr", "_kept", "_lengths", "_page_size")

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._kept: dict[bool, tuple[Any, Table]] = {}
        self._lengths: tuple[int, ...] = ()
        self._indptr: tvm_ffi.Tensor | None = None

    def of_pages(self, batch: Sequence[PagedSequence], firsts: Sequence[int], slides: bool) -> Table:
        """Return the table of a batch.

        Parameters
        ----------
        batch
            The sequences.
        firsts
            For each of them the index of the first page behind its sinks that is listed.
        slides
            True for layers that slide, which see the windows of sequences.
        """
        key = [(sequence.version, first) for sequence, first in zip(batch, firsts, strict=True)]
        kept = self._kept.get(slides)
        if kept is not None and kept[0] == key:
            return kept[1]
        ids, starts = zip(*map(_listed, batch, firsts, (self._page_size,) * len(batch)), strict=True)
        indptr = np.zeros(len(batch) + 1, np.int32)
        np.cumsum([len(each) for each in ids], out=indptr[1:])
        windows = [(each.window, each.sink) if slides else (0, 0) for each in batch]
        arrays: tuple[Array, ...] = (
            indptr,
            ids[0].copy() if len(ids) == 1 else np.concatenate(ids),
            starts[0].copy() if len(ids) == 1 else np.concatenate(starts),
            np.array(windows, np.int32),
        )
        page_indptr, page_ids, positions, window_table = map(tensor_of_numpy, arrays)
        table = page_indptr, page_ids, positions, window_table
        self._kept[slides] = key, table
        return table

    def of_queries(self, lengths: tuple[int, ...]) -> tvm_ffi.Tensor:
        """Return `query_indptr` for the numbers of new tokens."""
        if self._indptr is None or self._lengths != lengths:
            indptr = np.zeros(len(lengths) + 1, np.int32)
            np.cumsum(lengths, out=indptr[1:])
            self._lengths, self._indptr = lengths, tensor_of_numpy(indptr)
        return self._indptr


def _listed(sequence: PagedSequence, first: int, page_size: int) -> tuple[Array, Array]:
    """Return the ids and positions of the pages of the sinks and of those from index `first` on."""
    count = sequence.count
    sinks = min(sequence.sink_page_count(page_size), first)
    if first <= sinks:
        return sequence.ids[:count], sequence.starts[:count]
    ids = np.concatenate([sequence.ids[:sinks], sequence.ids[first:count]])
    return ids, np.concatenate([sequence.starts[:sinks], sequence.starts[first:count]])


@final
class Forward:
    """A forward that is under way."""

    __slots__ = (
        "arguments", "batch", "buffers", "full", "is_decode", "lengths", "masks", "n", "out_shape", "qkv_shape",
        "query_indptr", "sliding", "starts",
    )  # fmt: skip

    def __init__(
        self,
        batch: list[PagedSequence],
        starts: list[int],
        lengths: tuple[int, ...],
        buffers: TokenBuffers,
        query_indptr: tvm_ffi.Tensor,
        full: Table,
        sliding: Table,
        masks: list[Array] | None,
    ) -> None:
        self.batch = batch
        self.starts = starts
        """The position of the first new token of each sequence."""
        self.lengths = lengths
        self.n = sum(lengths)
        self.is_decode = self.n == len(lengths)
        """True if each sequence has one new token."""
        self.buffers = buffers
        self.query_indptr = query_indptr
        self.full = full
        """The table of pages for layers that see all tokens."""
        self.sliding = sliding
        self.arguments: list[tuple[Any, Any] | None] = []
        """Arguments of each layer's kernels that do not depend on the call: see `PagedAttention.prepare`."""
        self.qkv_shape: tuple[int, ...] = ()
        self.out_shape: tuple[int, ...] = ()
        self.masks = masks
        """For token trees: of each sequence, which new tokens (columns) each new token (row) sees. None for chains."""


def ancestor_mask(parents: Sequence[int]) -> Array:
    """True where a token of a tree (row) is, or descends from, another one (column); parents come before children.

    Raises ValueError for a parent that is not -1 or an earlier token.
    """
    mask: Array = np.zeros((len(parents), len(parents)), np.bool_)
    for token, parent in enumerate(parents):
        if not -1 <= parent < token:
            raise ValueError(f"token {token} of a tree has the parent {parent}, expected -1 or an earlier token")
        if parent >= 0:
            mask[token] = mask[parent]
        mask[token, token] = True
    return mask
