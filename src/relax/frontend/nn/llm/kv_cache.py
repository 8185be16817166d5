"""Paged cache of keys and values, as a value of the programs that `nn.Module.export_tvm` writes.

    cache = PagedKVCache.create_generic("mha", max_batch_size, …)         in a method that creates the cache
    out = cache.attention_with_fused_qkv(layer, qkv, heads, scale)        in a method that is given it

The names and arguments are TVM's. The object itself lives in the runtime (`vm.builtin.paged_attention_kv_cache_create`
and its neighbours); callers of the functions add and prepare sequences.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from .... import op as relax_op
from ....expr import PrimValue, ShapeExpr, StringImm, Tuple, const
from ....ir import RelaxExpr
from ....prim import PrimExpr
from ....runtime.paged_layout import FUNCTIONS, AttnKind
from ....struct_info import ObjectStructInfo, TensorStructInfo
from ..tensor import Object, Tensor, current_builder, unwrap

_CREATE: Final = "vm.builtin.paged_attention_kv_cache_create"
_PREFIX: Final = "vm.builtin.attention_kv_cache_"
_KINDS: Final[Mapping[str, AttnKind]] = {
    "mha": AttnKind.MHA, "mla": AttnKind.MLA, "mha_sliding": AttnKind.MHA_SLIDING,
}  # fmt: skip


class RopeMode(enum.IntEnum):
    """When queries and keys are rotated by their positions: never, when they are appended, or when they are read."""

    NONE = 0
    NORMAL = 1
    INLINE = 2


class PagedKVCache(Object):
    """Cache of the keys and values of all layers, in pages that sequences share."""

    @staticmethod
    def create_generic(
        attn_kind: str | Sequence[str],
        max_batch_size: Any,
        max_total_seq_len: Any,
        prefill_chunk_size: Any,
        page_size: Any,
        support_sliding_window: Any,
        num_hidden_layers: int,
        num_attention_heads: int,
        num_key_value_heads: int,
        qk_head_dim: int,
        v_head_dim: int,
        rope_mode: RopeMode = RopeMode.NORMAL,
        rope_scale: float = 1.0,
        rope_theta: float = 10000.0,
        dtype: str = "float16",
        layer_partition: Sequence[int] | None = None,
        rope_ext_factors: Sequence[float] | None = None,
        rotary_dim: int | None = None,
        enable_disaggregation: bool = False,
        name: str = "paged_kv_cache",
        *,
        options: Mapping[str, Any] | None = None,
    ) -> PagedKVCache:
        """Return a new cache.

        Parameters
        ----------
        attn_kind
            "mha", "mla" or "mha_sliding", for all layers or one for each.
        max_batch_size, max_total_seq_len, prefill_chunk_size, page_size, support_sliding_window
            Sequences at the same time; tokens of all of them; tokens of a step; tokens of a page; the window of
            "mha_sliding" layers, in tokens. Ints, or expressions of shape variables.
        rope_ext_factors
            Divisors of the frequencies of rotation, one for each pair.
        rotary_dim
            Elements of a head that are rotated; None: all.
        dtype
            Dtype of queries, keys, values and results; that of pages, too, unless `options` say otherwise.
        options
            What relax knows beyond TVM, by name: numbers, texts, and lists of numbers; see
            `vm.builtin.paged_attention_kv_cache_create`.

        Raises ValueError for a kind of attention that is not known.
        """
        kinds = [attn_kind] * num_hidden_layers if isinstance(attn_kind, str) else [*attn_kind]
        unknown = [kind for kind in kinds if kind not in _KINDS]
        if unknown or len(kinds) != num_hidden_layers:
            raise ValueError(f"attn_kind must be one of {', '.join(_KINDS)} for each of {num_hidden_layers} layers")
        own = dict(options or {})
        if rotary_dim is not None:
            own["rotary_dim"] = rotary_dim
        factors = [] if rope_ext_factors is None else [const(np.asarray(rope_ext_factors, np.float32))]
        config = [max_batch_size, max_total_seq_len, prefill_chunk_size, page_size, support_sliding_window]
        # The kernels of TVM's contract are not given: the compiler adds its own (`CompilePagedAttention`).
        numbers = (num_attention_heads, num_key_value_heads, qk_head_dim, v_head_dim)
        arguments: list[RelaxExpr] = [
            ShapeExpr(config), ShapeExpr(layer_partition or [0, num_hidden_layers]), *map(PrimValue, numbers),
            ShapeExpr([int(_KINDS[kind]) for kind in kinds]), PrimValue(enable_disaggregation),
            PrimValue(int(rope_mode)), PrimValue(float(rope_scale)), PrimValue(float(rope_theta)), *factors,
            const(np.zeros((), dtype)), *([relax_op.null_value()] * FUNCTIONS[0]),
        ]  # fmt: skip
        if own:
            arguments.append(Tuple([part for name, value in own.items() for part in (StringImm(name), _option(value))]))
        call = relax_op.call_pure_packed(_CREATE, *arguments, sinfo_args=ObjectStructInfo())
        return PagedKVCache(_expr=call, _name=name)

    def attention_with_fused_qkv(
        self, layer_id: int, qkv: Tensor, num_qo_heads: int, sm_scale: float, *, v_head_dim: int | None = None
    ) -> Tensor:  # fmt: skip
        """Attention of new tokens to their sequences, after their keys and values were appended.

        `qkv` (batch, tokens, query heads + 2 · heads of keys, head dim) has queries, keys and values beside each other;
        the result is (batch, tokens, query heads, head dim). Tokens are those that `kv_state_begin_forward` announced.
        With values of another size than keys, `v_head_dim`, `qkv` is (batch, tokens, elements of all heads), and the
        result (batch, tokens, query heads, v_head_dim).
        """
        batch, count, *heads = qkv.shape
        depth = heads[-1] if v_head_dim is None else v_head_dim
        total = _product(batch, count)
        rows = qkv.reshape(total, _product(*heads) if len(heads) == 2 else heads[0])
        result = self._written(
            "attention_with_fused_qkv", [PrimValue(layer_id), PrimValue(float(sm_scale)), unwrap(rows)],
            TensorStructInfo((total, num_qo_heads, depth), qkv.dtype),
        )  # fmt: skip
        return result.reshape(batch, count, num_qo_heads, depth)

    def get_query_positions(self, total_length: Any) -> Tensor:
        """Positions (total_length,), int32, of the tokens of this step in their sequences."""
        call = relax_op.call_pure_packed(
            f"{_PREFIX}get_query_positions", self._expr, sinfo_args=TensorStructInfo((total_length,), "int32")
        )
        return Tensor(_expr=current_builder().emit(call, "positions"))

    def _written(self, function: str, arguments: Sequence[RelaxExpr], info: TensorStructInfo) -> Tensor:
        """Emit a call that writes its result to memory behind its arguments."""
        values = Tuple([self._expr, *arguments])
        call = relax_op.call_dps_packed(f"{_PREFIX}{function}", values, out_sinfo=info)
        return Tensor(_expr=current_builder().emit(call, "attention"))


def _option(value: Any) -> RelaxExpr:
    """Return the value of an option as an expression."""
    match value:
        case str():
            return StringImm(value)
        case bool() | int() | float():
            return PrimValue(value)
        case _:
            return const(np.asarray(value, np.float32))


def _product(a: int | PrimExpr, b: int | PrimExpr) -> Any:
    """Return the product of two sizes; a batch of one adds nothing to an expression."""
    return b if isinstance(a, int) and a == 1 else a * b


__all__ = ["PagedKVCache", "RopeMode"]
