"""Builtins of the paged KV cache, under TVM's names: ``vm.builtin.paged_attention_kv_cache_create`` and others.

    cache = paged_attention_kv_cache_create(
        cache_config, layer_indptr, num_qo_heads, num_kv_heads, qk_head_dim, v_head_dim, attn_kinds, enable_kv_transfer,
        rope_mode, rotary_scale, rotary_theta, rope_ext_factors, init, *functions
    )
    attention_kv_cache_attention_with_fused_qkv(cache, layer, sm_scale, qkv, out)

`kv_state_*` (`kv_state`) add, fork and remove sequences, and begin and end forwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import tvm_ffi

from .attention_steps import native_attention
from .builtin_table import BUILTINS, Effects, builtin
from .kv_state import WRITES, PagedState, integer, integers
from .rooms import ModuleWhenUsed
from .values import kind_of

if TYPE_CHECKING:
    from . import paged_kv_cache, paged_settings
    from .paged_kv_cache import PagedKVCache
else:
    paged_kv_cache = ModuleWhenUsed("relax.runtime.paged_kv_cache")
    paged_settings = ModuleWhenUsed("relax.runtime.paged_settings")

_PREFIX: Final = "vm.builtin.attention_kv_cache_"


@builtin("vm.builtin.paged_attention_kv_cache_create", Effects(reads="all"), pure=False)
def paged_attention_kv_cache_create(*args: Any) -> PagedKVCache:
    """Return an empty paged KV cache.

    Parameters
    ----------
    cache_config
        Shape (max_sequences, total_tokens, prefill_chunk, page_size), and optionally the window of layers that slide
        (kind 3), in tokens. TVM's flag 1 in that place lets sequences have windows of their own; they may without it.
    layer_indptr
        Shape (first, end): the numbers of the layers.
    num_qo_heads, num_kv_heads, qk_head_dim, v_head_dim
        Heads and their widths. For latent attention (MLA): 1 key head, the width of a latent vector with its rotated
        part, and the width of the part that is the value.
    attn_kinds
        Shape of kinds, for layers from 0 on: 0 attention, 1 latent attention, 2 linear (no pages), 3 sliding window.
    enable_kv_transfer
        Must be false.
    rope_mode
        0: no rotation; 1: queries and keys are rotated when they are appended; 2 (inline): so are those of
        `self_attention` and `cross_attention`.
    rotary_scale, rotary_theta
        The factor of positions, and the base of frequencies.
    rope_ext_factors
        None, or a tensor of rotary_dim / 2 divisors of the frequencies. May be left out.
    init
        A tensor of the cache's dtype (float32, float16 or bfloat16), on its device. Its elements do not matter.
    functions
        15 or 16 kernels of TVM's contract, each None or an empty list: the layout of pages here is another one. Then,
        if given, a tuple `(append, attend)` of kernels as `paged_kernels` describes them (empty: NumPy's), and a
        dictionary, or a tuple of names and values in turn, of options: `interleaved` (rotate neighbouring elements),
        `rotary_dim`, `factors` (as rope_ext_factors), `scaling` (factor of cosines and sines), `local_theta`,
        `local_scale` and `local_factors` (another rotary embedding of layers that slide), `softcap`, `page_dtype`.

    Raises
    ------
    TypeError, ValueError
        For arguments of other kinds, and numbers that fit no cache.
    """
    return paged_kv_cache.PagedKVCache(*paged_settings.cache_settings(args))


def _checked(cache: Any) -> PagedKVCache:
    if not isinstance(cache, PagedState):
        raise TypeError(f"expected a paged KV cache, found {kind_of(cache)}")
    return cast("PagedKVCache", cache)


# ---------------------------------------------------------------------------------------------- attention


def _native_attention() -> tvm_ffi.Function:
    """Return the packed function by which compiled programs call `attention_with_fused_qkv`."""
    return native_attention(BUILTINS[f"{_PREFIX}attention_with_fused_qkv"].function)


@builtin(
    f"{_PREFIX}attention_with_fused_qkv", Effects(reads=(3,), writes=(0, 4)), pure=False, compiled=_native_attention
)
def attention_with_fused_qkv(cache: Any, layer: int, scale: float, qkv: Any, out: Any) -> None:
    """Append new keys and values, and attend: see `PagedAttention.attention_with_fused_qkv`."""
    checked = _checked(cache)
    checked.attention.attention_with_fused_qkv(checked.forward, layer, scale, qkv, out)


@builtin(f"{_PREFIX}attention_with_shared_kv", Effects(reads=(3, 4, 5), writes=(0, 6)), pure=False)
def attention_with_shared_kv(cache: Any, source: int, scale: float, q: Any, k: Any, v: Any, out: Any) -> None:
    """Attend to the keys and values of another layer: see `PagedAttention.attention_with_shared_kv`."""
    checked = _checked(cache)
    checked.attention.attention_with_shared_kv(checked.forward, source, scale, q, k, v, out)


@builtin(f"{_PREFIX}self_attention", Effects(reads=(3, 4, 5), writes=(0, 6, 7)), pure=False)
def self_attention(cache: Any, layer: int, scale: float, q: Any, k: Any, v: Any, out: Any, lse: Any) -> None:
    """Attend among the new tokens: see `PagedAttention.self_attention`."""
    checked = _checked(cache)
    checked.attention.self_attention(checked.forward, layer, scale, q, k, v, out, lse)


@builtin(f"{_PREFIX}cross_attention", Effects(reads=(3,), writes=(0, 4, 5)), pure=False)
def cross_attention(cache: Any, layer: int, scale: float, q: Any, out: Any, lse: Any) -> None:
    """Attend from new tokens to pages: see `PagedAttention.cross_attention`."""
    checked = _checked(cache)
    checked.attention.cross_attention(checked.forward, layer, scale, q, out, lse)


@builtin(f"{_PREFIX}append_mla_kv", Effects(reads=(2,), writes=(0,), aliases=(0,)), pure=False)
def append_mla_kv(cache: Any, layer: int, kv: Any) -> PagedKVCache:
    """Append latent vectors, and return the cache: see `PagedAttention.append_mla_kv`."""
    checked = _checked(cache)
    checked.attention.append_mla_kv(checked.forward, layer, kv)
    return checked


@builtin(f"{_PREFIX}merge_attn_output_inplace", Effects(reads=(1, 2, 3, 4), writes=(1, 2), aliases=(1, 2)), pure=False)
def merge_attn_output_inplace(cache: Any, out: Any, lse: Any, other_out: Any, other_lse: Any) -> tuple[Any, Any]:
    """Merge two attentions of the same queries into the first, and return that: `(out, lse)`."""
    _checked(cache).attention.merge_attn_output_inplace(out, lse, other_out, other_lse)
    return out, lse


# ------------------------------------------------------------------------------------------ state of the cache


@builtin(f"{_PREFIX}get_query_positions", Effects(reads=(0,)), pure=False)
def get_query_positions(cache: Any) -> tvm_ffi.Tensor:
    """The positions of the new tokens of the forward that is under way, int32 (n,)."""
    return _checked(cache).query_positions()


@builtin(f"{_PREFIX}get_num_available_pages", Effects(reads=(0,)), pure=False)
def get_num_available_pages(cache: Any) -> int:
    """The number of pages that new tokens can have."""
    return _checked(cache).available_pages


@builtin(f"{_PREFIX}get_total_sequence_length", Effects(reads=(0,)), pure=False)
def get_total_sequence_length(cache: Any) -> int:
    """The number of tokens of all sequences."""
    return _checked(cache).total_length


@builtin(f"{_PREFIX}empty", Effects(reads=(0,)), pure=False)
def empty(cache: Any) -> bool:
    """True if the cache has no sequences."""
    return _checked(cache).is_empty


@builtin(f"{_PREFIX}enable_sliding_window_for_seq", WRITES, pure=False)
def enable_sliding_window_for_seq(cache: Any, seq: Any, window: Any, sink: Any = 0) -> tuple[()]:
    """Let a sequence see its last `window` and first `sink` tokens: see `PagedKVCache.slide`."""
    _checked(cache).slide(
        integer(seq, "the id of a sequence"), integer(window, "the window"), integer(sink, "the number of sinks")
    )
    return ()


@builtin(f"{_PREFIX}commit_accepted_token_tree_nodes", WRITES, pure=False)
def commit_accepted_token_tree_nodes(cache: Any, seq_ids: Any, leaf_indices: Any) -> tuple[()]:
    """Keep the accepted path of token trees: see `PagedKVCache.commit_accepted_token_tree_nodes`."""
    _checked(cache).commit_accepted_token_tree_nodes(
        integers(seq_ids, "the ids of sequences"), integers(leaf_indices, "the leaves of token trees")
    )
    return ()


@builtin(f"{_PREFIX}debug_get_kv", Effects(reads=(0,), writes=(4, 5)), pure=False)
def debug_get_kv(cache: Any, seq: Any, start: Any, end: Any, k: Any, v: Any) -> tuple[()]:
    """Copy keys and values of a sequence: see `PagedKVCache.debug_get_kv`."""
    _checked(cache).debug_get_kv(
        integer(seq, "the id of a sequence"), integer(start, "the first token"), integer(end, "the end"), k, v
    )
    return ()


@builtin(f"{_PREFIX}debug_get_kv_mla", Effects(reads=(0,), writes=(4,)), pure=False)
def debug_get_kv_mla(cache: Any, seq: Any, start: Any, end: Any, kv: Any) -> tuple[()]:
    """Copy latent vectors of a sequence: see `PagedKVCache.debug_get_kv_mla`."""
    _checked(cache).debug_get_kv_mla(
        integer(seq, "the id of a sequence"), integer(start, "the first token"), integer(end, "the end"), kv
    )
    return ()
