"""Arguments of the kernels of paged KV caches, prepared for compiled programs, which call them without Python.

A decode step calls the attention of each layer, and the way through Python would take as long as the kernels. So a
cache writes what is the same for all layers, and the keys and values of each, to memory once a forward; the packed
function that compiled programs call (`relax.codegen.support.cells.attention`) reads it there. Structs are those of
`relax.target.c_structs`: AttentionCaches, and AttentionStep for each cache.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, final

import tvm_ffi

from .compiled import kept_aside, machine_value
from .dtypes import ffi_dtype
from .native import cells_function

MOST_CACHES: Final = 64
"""Caches that have prepared arguments at a time; further ones are called through Python."""
_INT, _TENSOR = 1, 70
"""Type indices of tvm-ffi."""
_CELL: Final = struct.Struct("@qQ")
_CACHES: Final = struct.Struct("@Qq")
_PAIR: Final = struct.Struct("@QQ")
_FIXED: Final = struct.Struct("@9qQQ")
"""Fields of an AttentionStep before its cells."""
_SHARED: Final = struct.Struct("@" + "qQ" * 16)
PAIRS_AT: Final = _CACHES.size
TOKENS_AT, SCALE_AT, SHARED_AT, CELLS_AT = 3 * 8, 8 * 8, _FIXED.size, _FIXED.size + _SHARED.size
"""Offsets of fields in bytes; `ready` is the first field of a step."""
_READY: Final = struct.Struct("@q")
_DOUBLE: Final = struct.Struct("@d")

_Pages: TypeAlias = "tvm_ffi.Tensor | None"
_caches: Final = ctypes.create_string_buffer(PAIRS_AT + MOST_CACHES * _PAIR.size)
_free: Final = list(range(MOST_CACHES - 1, -1, -1))
_kept: Final[list[Any]] = []
"""The builtin's function, whose address `_caches` holds."""


def native_attention(builtin: Callable[..., Any]) -> tvm_ffi.Function:
    """Return the packed function by which compiled programs call attention; what is not prepared goes to `builtin`."""
    if not _kept:

        def call(*args: Any) -> Any:
            return builtin(*map(machine_value, args))

        _kept.append(kept_aside(call))
        _CACHES.pack_into(_caches, 0, _kept[0].__chandle__(), MOST_CACHES)
    return cells_function("attention_caches")(ctypes.c_void_p(ctypes.addressof(_caches)))


@final
class AttentionStep:
    """Prepared arguments of one cache, `owner`, whose kernels are packed functions."""

    __slots__ = ("_held", "_memory", "_slot")

    def __init__(
        self, owner: object, append: tvm_ffi.Function, attend: tvm_ffi.Function, *, first_layer: int, width: int,
        heads: int, columns: int, dtype: str, layers: Sequence[tuple[_Pages, _Pages, bool]],
    ) -> None:  # fmt: skip
        """Describe a cache by its kernels, its layers (keys, values, True for those with a window), and widths."""
        kind: Any = ffi_dtype(dtype)
        code = kind.type_code | kind.bits << 8 | kind.lanes << 16
        is_whole = all(keys is not None and values is not None for keys, values, _ in layers)
        count = len(layers) if is_whole else 0  # without layers, no call is prepared
        self._held: list[Any] = [append, attend, layers]
        self._memory = ctypes.create_string_buffer(CELLS_AT + 3 * _CELL.size * len(layers))
        _FIXED.pack_into(
            self._memory, 0, 0, first_layer, count, 0, width, heads, columns, code, 0, append.__chandle__(),
            attend.__chandle__(),
        )  # fmt: skip
        at = CELLS_AT
        for keys, values, has_window in layers if is_whole else ():
            assert keys is not None
            assert values is not None
            for kind_of_cell, value in (
                (_TENSOR, keys.__chandle__()),
                (_TENSOR, values.__chandle__()),
                (_INT, has_window),
            ):
                _CELL.pack_into(self._memory, at, kind_of_cell, value)
                at += _CELL.size
        self._slot = _free.pop() if _free else -1
        if self._slot >= 0:
            place = PAIRS_AT + self._slot * _PAIR.size
            _PAIR.pack_into(_caches, place, id(owner), ctypes.addressof(self._memory))
            weakref.finalize(owner, _forget, self._slot, self._memory)

    def begin(self, count: int, shared: Sequence[tvm_ffi.Tensor]) -> None:
        """Prepare the calls for `count` tokens.

        `shared`: slots, queries, positions, query_indptr, the factor of scores, lse; for layers without and with a
        window, angles, page_indptr, page_ids, page_positions and windows.
        """
        self._held[3:] = shared
        flat: list[int] = []
        for tensor in shared:
            flat += _TENSOR, tensor.__chandle__()
        _SHARED.pack_into(self._memory, SHARED_AT, *flat)
        _READY.pack_into(self._memory, TOKENS_AT, count)
        _READY.pack_into(self._memory, 0, 1)

    def begin_again(self) -> None:
        """Prepare the calls with the arguments of the last `begin`."""
        _READY.pack_into(self._memory, 0, 1)

    def end(self) -> None:
        """Let calls go through Python, which says that no tokens are under way."""
        _READY.pack_into(self._memory, 0, 0)

    def scale(self, factor: float) -> None:
        """Say for which factor of scores calls are prepared."""
        _DOUBLE.pack_into(self._memory, SCALE_AT, factor)


def _forget(slot: int, memory: Any) -> None:
    """Free the place of a cache that died; `memory` lives as long as the place."""
    del memory
    _PAIR.pack_into(_caches, PAIRS_AT + slot * _PAIR.size, 0, 0)
    _free.append(slot)


__all__ = ["MOST_CACHES", "AttentionStep", "native_attention"]
