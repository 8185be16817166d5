"""The paged KV cache: keys and values of many sequences in pages of one pool.

    cache.add_sequence(0)
    cache.begin_forward([0], [5])                        tables, positions and rotary angles, for all layers
    cache.attention_with_fused_qkv(layer, scale, qkv, out)       once a layer
    cache.end_forward()

Forks share pages until one of them writes (copy-on-write). Layers have pages of the same numbers, in tensors of their
own. What is the same for all layers is computed once, in `begin_forward`, into memory that is kept. The builtins are in
`paged_kv_cache_builtins`. A cache is used by one thread at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import tvm_ffi

from .devices import Device
from .dtypes import Array
from .kv_state import PagedState
from .page_pool import PagePool
from .page_store import PageStore, Slots
from .paged_attention import PagedAttention, fitted, under_way
from .paged_forward import Forward, Scratch, Tables, TokenBuffers, ancestor_mask
from .paged_layout import CacheLayout, Kernels
from .paged_sequence import PagedSequence, pages_of
from .tensor import numpy_view, tensor_of_numpy
from .values import describe_shape


@final
class PagedKVCache(PagedState):
    """Keys and values of sequences, in pages."""

    __slots__ = (
        "_drops", "_layout", "_pool", "_scratch", "_sequences", "_store", "_tables", "_version", "attention", "forward",
    )  # fmt: skip

    def __init__(self, layout: CacheLayout, kernels: Kernels | None = None, device: Device | None = None) -> None:
        """Allocate the pages of all layers. Raises MemoryError if there is not as much memory."""
        self._layout = layout
        self._drops = layout.slides_everywhere
        self._store = PageStore(layout, device)
        self.attention = PagedAttention(layout, self._store, kernels, self)
        """The layers of the cache."""
        self._pool = PagePool(layout.pages)
        self._sequences: dict[int, PagedSequence] = {}
        self._scratch = Scratch(layout)
        self._tables = Tables(layout.page_size)
        self.forward: Forward | None = None
        """The forward that is under way."""
        self._version = 0

    # ------------------------------------------------------------------------------------------ sequences

    @property
    def layout(self) -> CacheLayout:
        """The settings of the cache."""
        return self._layout

    @property
    def store(self) -> PageStore:
        """The memory of the pages."""
        return self._store

    @property
    def available_pages(self) -> int:
        """The number of pages that new tokens can have, those of unused prefixes included."""
        return self._pool.available

    @property
    def total_length(self) -> int:
        """The number of tokens of all sequences."""
        return sum(sequence.length for sequence in self._sequences.values())

    @property
    def is_empty(self) -> bool:
        """True if there are no sequences."""
        return not self._sequences

    def length(self, seq: int) -> int:
        """The number of tokens of a sequence. Raises ValueError if there is none of this id."""
        return self._sequence(seq).length

    def clear(self) -> None:
        """Remove all sequences and cached prefixes, and end a forward that is under way."""
        self._sequences.clear()
        self._pool.clear()
        self.end_forward()

    def add_sequence(self, seq: int) -> None:
        """Add an empty sequence. Raises ValueError if there is one of this id, or no room for another."""
        self._check_new(seq)
        sequence = PagedSequence()
        sequence.window = self._layout.sliding_window
        self._insert(seq, sequence)

    def remove_sequence(self, seq: int) -> None:
        """Remove a sequence. Raises ValueError if there is none of this id, or a forward is under way."""
        sequence = self._sequence(seq)
        self._check_idle("a sequence cannot be removed")
        self._release(sequence.cut_pages(0))
        del self._sequences[seq]

    def fork_sequence(self, parent: int, child: int, pos: int = -1) -> None:
        """Add a sequence that begins with the first `pos` tokens of another one (-1: all), whose pages it shares."""
        source = self._sequence(parent)
        self._check_new(child)
        self._check_idle("a sequence cannot be forked")
        self._check_committed(parent, source)
        length = source.length if pos == -1 else pos
        if not 0 <= length <= source.length:
            raise ValueError(f"cannot fork sequence {parent} at position {pos}: it has {source.length} tokens")
        if not source.holds_window_at(length, self._layout.page_size):
            raise ValueError(f"cannot fork sequence {parent} at position {pos}: its window has slid past it")
        sequence = source.fork()
        sequence.cut_tokens(length, self._layout.page_size)
        for page in sequence.ids[: sequence.count].tolist():
            self._pool.share(page)
        self._insert(child, sequence)

    def popn(self, seq: int, count: int) -> None:
        """Forget the last `count` tokens of a sequence. Raises ValueError if it does not hold as many."""
        sequence = self._sequence(seq)
        self._check_idle("tokens cannot be forgotten")
        if not 0 <= count <= sequence.length:
            raise ValueError(f"cannot forget {count} tokens of sequence {seq}, which has {sequence.length}")
        if sequence.tree is not None and not sequence.is_chain and count < len(sequence.tree):
            self._check_committed(seq, sequence)
        if not count:
            return
        if not sequence.holds_window_at(sequence.length - count, self._layout.page_size):
            raise ValueError(f"cannot forget {count} tokens of sequence {seq}: its window has slid past those before")
        self._cut(sequence, sequence.length - count)

    def slide(self, seq: int, window: int, sink: int = 0) -> None:
        """Let a sequence see its last `window` tokens and its first `sink` ones only, in the layers that slide.

        Those are the layers of kind MHA_SLIDING, or all if there are none. A window of 0 sees all tokens. Raises
        ValueError for negative numbers, and if tokens would be seen whose pages are dropped.
        """
        sequence = self._sequence(seq)
        self._check_idle("a sliding window cannot be set")
        if window < 0 or sink < 0:
            raise ValueError(
                f"the sliding window of sequence {seq} is {window} with {sink} sinks, expected no negative"
            )
        wider = not window or window > sequence.window or sink > sequence.sink
        if sequence.dropped and wider:
            raise ValueError(f"cannot widen the sliding window of sequence {seq}: it has slid past tokens already")
        sequence.window, sequence.sink = window, sink
        self._touch(sequence)

    def _insert(self, seq: int, sequence: PagedSequence) -> None:
        self._touch(sequence)
        self._sequences[seq] = sequence

    def _touch(self, sequence: PagedSequence) -> None:
        """Note that tables with this sequence are out of date."""
        self._version += 1
        sequence.version = self._version

    def _cut(self, sequence: PagedSequence, length: int) -> None:
        self._release(sequence.cut_tokens(length, self._layout.page_size))
        sequence.tree = None
        self._touch(sequence)

    def _release(self, pages: list[int]) -> None:
        for page in pages:
            self._pool.release(page)

    def _sequence(self, seq: int) -> PagedSequence:
        sequence = self._sequences.get(seq)
        if sequence is None:
            raise ValueError(f"there is no sequence {seq}")
        return sequence

    def _check_new(self, seq: int) -> None:
        if seq in self._sequences:
            raise ValueError(f"there is a sequence {seq} already")
        if len(self._sequences) >= self._layout.max_sequences:
            raise ValueError(
                f"cannot add sequence {seq}: the cache was made for {self._layout.max_sequences} sequences"
            )

    def _check_idle(self, subject: str) -> None:
        if self.forward is not None:
            raise ValueError(f"{subject} while a forward is under way: call kv_state_end_forward first")

    def _check_committed(self, seq: int, sequence: PagedSequence) -> None:
        if sequence.tree is not None and not sequence.is_chain:
            hint = "call attention_kv_cache_commit_accepted_token_tree_nodes first"
            raise ValueError(f"the last tokens of sequence {seq} are a tree: {hint}")

    # --------------------------------------------------------------------------------------------- prefixes

    def prefix(self, ids: Sequence[int]) -> int:
        """Return how many of the tokens `ids` the cache holds already, in whole pages of registered sequences."""
        return len(self._pool.prefixes.match(self._chunks(ids))) * self._layout.page_size

    def add_sequence_with_prefix(self, seq: int, ids: Sequence[int]) -> int:
        """Add a sequence that begins with as much of `ids` as `prefix` finds, but not all; return the number of tokens.

        At least one token is left to be computed, since its result is wanted. Raises ValueError as `add_sequence` does.
        """
        pages = self._pool.prefixes.match(self._chunks(ids[: max(len(ids) - 1, 0)]))
        self.add_sequence(seq)
        sequence = self._sequences[seq]
        for page in pages:
            self._pool.share(page)
        sequence.append_pages(pages, self._layout.page_size)
        sequence.length = len(pages) * self._layout.page_size
        self._touch(sequence)
        return sequence.length

    def register_tokens(self, seq: int, ids: Sequence[int]) -> None:
        """Say which tokens a sequence begins with, so that others with the same beginning share its whole pages.

        The pages stay cached after the sequence is removed, until their memory is needed: those unused for longest go
        first. Raises ValueError if the sequence has fewer tokens than `ids`.
        """
        sequence = self._sequence(seq)
        if len(ids) > sequence.length:
            raise ValueError(f"cannot register {len(ids)} tokens of sequence {seq}, which has {sequence.length}")
        self._check_idle("tokens cannot be registered")
        self._check_committed(seq, sequence)
        if not sequence.dropped:
            self._pool.prefixes.register(self._chunks(ids), sequence.ids[: sequence.count].tolist())

    def _chunks(self, ids: Sequence[int]) -> list[bytes]:
        """The token ids of whole pages, each as the bytes of int64 numbers."""
        size = self._layout.page_size
        array: Array = np.asarray(ids, np.int64)
        return [array[at : at + size].tobytes() for at in range(0, len(array) - size + 1, size)]

    # --------------------------------------------------------------------------------------------- forwards

    def begin_forward(
        self, seq_ids: Sequence[int], append_lengths: Sequence[int], tree_parents: Sequence[int] | None = None
    ) -> None:
        """Make room for new tokens of some sequences: see `KVState.begin_forward`.

        Raises ValueError also for more new tokens than `prefill_chunk`, and if there are not enough free pages.
        """
        self._check_idle("another forward cannot begin")
        lengths = tuple(append_lengths)
        batch = self._batch(seq_ids, lengths)
        n = sum(lengths)
        if n > self._layout.prefill_chunk:
            raise ValueError(f"{n} new tokens are more than the cache takes at once, {self._layout.prefill_chunk}")
        trees = None if tree_parents is None else _trees(tree_parents, lengths)
        masks = None if trees is None else [ancestor_mask(tree) for tree in trees]
        buffers = self._scratch.tokens(n)
        self._reserve(batch, lengths)
        starts = [sequence.length for sequence in batch]
        self._place(batch, starts, lengths, buffers)
        if masks is not None:
            depths = [mask.sum(1) - 1 for mask in masks]
            buffers.positions_array[:] = np.concatenate(depths) + np.repeat(starts, lengths)
        self._layout.rotary.write(buffers.positions_array, buffers.angles_array)
        if self._layout.local_rotary is not None:
            self._layout.local_rotary.write(buffers.positions_array, buffers.local_angles_array)
        full = self._tables.of_pages(batch, (0,) * len(batch), False)
        sliding = full
        if any(sequence.window for sequence in batch):
            firsts = [sequence.visible_from(self._layout.page_size) for sequence in batch]
            sliding = self._tables.of_pages(batch, firsts, True)
        for i, (sequence, length) in enumerate(zip(batch, lengths, strict=True)):
            sequence.length += length
            sequence.tree = None if trees is None else trees[i]
            sequence.is_chain = trees is None or trees[i] == tuple(range(-1, length - 1))
        if all(sequence.is_chain for sequence in batch):
            masks = None
        indptr = self._tables.of_queries(lengths)
        forward = Forward(batch, starts, lengths, buffers, indptr, full, sliding, masks)
        self.attention.prepare(forward)
        self.forward = forward

    def end_forward(self) -> None:
        """End the forward that is under way, if there is one."""
        self.forward = None
        self.attention.end()

    def query_positions(self) -> tvm_ffi.Tensor:
        """The positions of the new tokens, int32 of shape (n,). Raises ValueError if no forward is under way."""
        return tensor_of_numpy(under_way(self.forward).buffers.positions_array.copy())

    def _batch(self, seq_ids: Sequence[int], lengths: tuple[int, ...]) -> list[PagedSequence]:
        """Return the sequences of a batch. Raises ValueError for what is no batch."""
        if not lengths or len(seq_ids) != len(lengths):
            raise ValueError(
                f"expected a number of new tokens for each of {len(seq_ids)} sequences, found {len(lengths)}"
            )
        if len(set(seq_ids)) != len(seq_ids):
            raise ValueError(f"a sequence is named twice in {describe_shape(seq_ids)}")
        batch = [self._sequence(seq) for seq in seq_ids]
        for seq, sequence, length in zip(seq_ids, batch, lengths, strict=True):
            if length <= 0:
                raise ValueError(f"sequence {seq} gets {length} new tokens, expected at least one")
            if sequence.tree is not None:
                self._check_committed(seq, sequence)
        return batch

    def _reserve(self, batch: list[PagedSequence], lengths: tuple[int, ...]) -> None:
        """Give sequences pages for new tokens, and copies of shared pages that those go to.

        Raises ValueError, before anything is changed, if there are not enough pages.
        """
        size, references = self._layout.page_size, self._pool.references
        plans: list[tuple[PagedSequence, int, bool, int]] = []
        needed = freed = 0
        others: dict[int, int] = {}
        for sequence, length in zip(batch, lengths, strict=True):
            tail = sequence.length % size
            count = pages_of(sequence.length + length, size) - pages_of(sequence.length, size)
            copies = False
            if tail:
                last = int(sequence.ids[sequence.count - 1])
                users = others.get(last, references[last])
                copies = users > 1
                others[last] = users - 1
            first = sequence.visible_from(size) if sequence.window and self._drops else 0
            if first:
                gone: list[int] = sequence.ids[sequence.sink_page_count(size) : first].tolist()
                freed += sum(references[page] == 1 for page in gone)
            needed += count + copies
            plans.append((sequence, count, copies, first))
        if needed and needed > self._pool.available + freed:
            available = self._pool.available + freed
            raise ValueError(f"the new tokens need {needed} pages of {size} tokens, and {available} are free")
        for sequence, _, _, first in plans:
            if first:
                self._release(sequence.drop_pages(first, size)[::-1])
        for sequence, count, copies, first in plans:
            if copies:
                self._copy_last_page(sequence)
            elif sequence.length % size:
                self._pool.is_private(int(sequence.ids[sequence.count - 1]))
            if count:
                after = int(sequence.ids[sequence.count - 1]) if sequence.count else -1
                sequence.append_pages(self._pool.take(count, after), size)
            if count or copies or first:
                self._touch(sequence)

    def _copy_last_page(self, sequence: PagedSequence) -> None:
        """Give a sequence a copy of its last page, in all layers."""
        last = sequence.count - 1
        source = int(sequence.ids[last])
        (page,) = self._pool.take(1, int(sequence.ids[last - 1]) if last else -1)
        self._store.copy_page(source, page)
        sequence.ids[last] = page
        self._pool.release(source)

    def _place(
        self, batch: list[PagedSequence], starts: list[int], lengths: tuple[int, ...], buffers: TokenBuffers
    ) -> None:
        """Write the positions and slots of new tokens."""
        size = self._layout.page_size
        positions, slots = buffers.positions_array, buffers.slots_array
        at = 0
        for sequence, start, length in zip(batch, starts, lengths, strict=True):
            if length == 1:
                positions[at] = start
                slots[at] = sequence.ids[start // size - sequence.dropped] * size + start % size
            else:
                new: Array = np.arange(start, start + length, dtype=np.int32)
                positions[at : at + length] = new
                slots[at : at + length] = sequence.ids[new // size - sequence.dropped] * size + new % size
            at += length

    # ------------------------------------------------------------------------------- token trees, debugging

    def commit_accepted_token_tree_nodes(self, seq_ids: Sequence[int], leaf_indices: Sequence[int]) -> None:
        """Keep of each sequence's last token tree the path from its root to a leaf, -1 for none of its tokens.

        Raises ValueError if the last forward of a sequence had no tree, or the leaf is none of its tokens.
        """
        self._check_idle("token trees cannot be committed")
        if len(seq_ids) != len(leaf_indices):
            raise ValueError(f"expected a leaf for each of {len(seq_ids)} sequences, found {len(leaf_indices)}")
        if len(set(seq_ids)) != len(seq_ids):
            raise ValueError(f"a sequence is named twice in {describe_shape(seq_ids)}")
        chosen: list[tuple[PagedSequence, tuple[int, ...], int]] = []
        for seq, leaf in zip(seq_ids, leaf_indices, strict=True):
            sequence = self._sequence(seq)
            if sequence.tree is None:
                raise ValueError(f"the last tokens of sequence {seq} are no tree")
            if not -1 <= leaf < len(sequence.tree):
                raise ValueError(
                    f"leaf {leaf} is no token of the tree of sequence {seq}, which has {len(sequence.tree)}"
                )
            chosen.append((sequence, sequence.tree, leaf))
        for sequence, tree, leaf in chosen:
            path: list[int] = []
            while leaf >= 0:
                path.append(leaf)
                leaf = tree[leaf]
            start = sequence.length - len(tree)
            self._move(sequence, start, path[::-1])
            self._cut(sequence, start + len(path))

    def debug_get_kv(self, seq: int, start: int, end: int, k: Any, v: Any) -> None:
        """Copy the keys and values of tokens [start, end) to `k` (layers, end - start, hk, d) and `v` (…, hk, e).

        Raises ValueError for tokens that the sequence does not have, or whose pages are dropped.
        """
        layout, slots = self._layout, self._held(seq, start, end)
        shape = len(layout.kinds), end - start, layout.key_heads
        k_tensor = fitted("k", k, (*shape, layout.key_dim), layout.dtype)
        v_tensor = fitted("v", v, (*shape, layout.value_dim), layout.dtype)
        self._store.read_keys(slots, numpy_view(k_tensor))
        self._store.read_values(slots, numpy_view(v_tensor))

    def debug_get_kv_mla(self, seq: int, start: int, end: int, kv: Any) -> None:
        """Copy the latent vectors of tokens [start, end) to `kv` (layers, end - start, d): see `debug_get_kv`."""
        layout, slots = self._layout, self._held(seq, start, end)
        shape = len(layout.kinds), end - start, layout.key_heads, layout.key_dim
        self._store.read_keys(slots, numpy_view(fitted("kv", kv, shape, layout.dtype)))

    def _held(self, seq: int, start: int, end: int) -> Slots:
        """Return the places of tokens [start, end) of a sequence. Raises ValueError if it does not hold them."""
        sequence, size = self._sequence(seq), self._layout.page_size
        if not 0 <= start <= end <= sequence.length:
            held = f"sequence {seq} has {sequence.length} tokens"
            raise ValueError(f"{held}, and those from {start} to {end} are asked for")
        positions: Array = np.arange(start, end)
        pages = positions // size
        if ((pages >= sequence.sink_pages) & (pages < sequence.sink_pages + sequence.dropped)).any():
            raise ValueError(f"tokens from {start} to {end} of sequence {seq} are outside of its window, and dropped")
        return self._slots(sequence, positions)

    def _move(self, sequence: PagedSequence, start: int, path: list[int]) -> None:
        """Move the tokens `path`, counted from position `start`, to the positions from `start` on, in all layers."""
        if path == list(range(len(path))):
            return
        target = self._slots(sequence, np.arange(start, start + len(path)))
        self._store.move_tokens(self._slots(sequence, np.array(path) + start), target)

    def _slots(self, sequence: PagedSequence, positions: Array) -> Slots:
        """Return the pages of positions, and their offsets in them."""
        size = self._layout.page_size
        logical = positions // size
        behind = logical >= sequence.sink_pages
        return sequence.ids[logical - behind * sequence.dropped], positions % size


def _trees(parents: Sequence[int], lengths: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Cut the parents of all new tokens into those of each sequence. Raises ValueError for another number of them."""
    if len(parents) != sum(lengths):
        raise ValueError(f"there are {len(parents)} parents of a token tree, expected {sum(lengths)}")
    ends = list(itertools.accumulate(lengths, initial=0))
    return [tuple(parents[begin:end]) for begin, end in itertools.pairwise(ends)]
