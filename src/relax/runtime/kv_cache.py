"""Growable key-value caches for decoder models.

    cache = vm.builtin.attention_kv_cache_create(init, reserve_shape, fill)
    cache = vm.builtin.attention_kv_cache_append(cache, rows)          writes behind the rows that are there
    t     = vm.builtin.attention_kv_cache_view(cache, shape)           all rows: a view, not a copy

The names, arguments and results are TVM's. The first dimension counts rows; rows have one shape and dtype.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, final

import tvm_ffi

from .builtin_table import Effects, builtin
from .dtypes import canonical_dtype
from .messages import IS
from .tensor import check_shape, new_tensor, view_tensor
from .values import describe_shape, is_tuple, kind_of

_PREFIX = "vm.builtin.attention_kv_cache_"
_CHANGES = Effects(reads=(1,), writes=(0,), aliases=(0,))


@final
class KVCache:
    """Rows of a tensor, with room for more: when it is full, the next append doubles it."""

    __slots__ = ("__weakref__", "data", "filled")

    def __init__(self, data: tvm_ffi.Tensor) -> None:
        self.data = data
        """The memory; its first `filled` rows hold what was appended."""
        self.filled = 0

    def append(self, rows: Any) -> None:
        """Append rows."""
        count = self._count_of(rows)
        needed = self.filled + count
        if needed > self.data.shape[0]:
            self._grow(needed)
        at = self.data.data_ptr() + self.filled * self._row_bytes()
        ctypes.memmove(at, rows.data_ptr(), count * self._row_bytes())
        self.filled = needed

    def view(self, shape: Sequence[int]) -> tvm_ffi.Tensor:
        """The rows as a tensor over the memory of the cache. Raises ValueError if this is not their shape."""
        expected = (self.filled, *self.data.shape[1:])
        if tuple(shape) != expected:
            actual, wanted = describe_shape(shape), describe_shape(expected)
            raise IS(context="the view", place="the shape", found=actual, expected=wanted)
        return view_tensor(self.data, expected)

    def _count_of(self, rows: Any) -> int:
        """The number of rows in a tensor. Raises TypeError and ValueError for rows of other kinds."""
        if not isinstance(rows, tvm_ffi.Tensor):
            raise TypeError(f"expected a tensor to append, found {kind_of(rows)}")
        if rows.dtype != self.data.dtype:
            raise TypeError(f"expected rows of dtype {self.data.dtype}, found {rows.dtype}")
        if rows.ndim != self.data.ndim or tuple(rows.shape[1:]) != tuple(self.data.shape[1:]):
            expected = f"rows of shape {describe_shape(self.data.shape[1:])}"
            raise ValueError(f"expected {expected}, found a tensor of shape {describe_shape(rows.shape)}")
        return rows.shape[0]

    def _row_bytes(self) -> int:
        return check_shape((1, *self.data.shape[1:]), canonical_dtype(self.data.dtype))

    def _grow(self, needed: int) -> None:
        """Reallocate for at least `needed` rows. Views of the old memory keep it alive."""
        rows = max(needed, 2 * self.data.shape[0])
        dtype = canonical_dtype(self.data.dtype)
        data = new_tensor((rows, *self.data.shape[1:]), dtype, self.data.device)
        ctypes.memmove(data.data_ptr(), self.data.data_ptr(), self.filled * self._row_bytes())
        self.data = data


@builtin(f"{_PREFIX}create", Effects(reads=(0,)), pure=False)
def create(init: Any, reserve_shape: Any, fill: int = -1) -> KVCache:
    """A cache with room for the shape, that begins with the rows of a tensor; `fill` of them (-1: all) count.

    Raises TypeError if `init` is no tensor, ValueError for a shape without dimensions, rows that are not as the shape
    says, and a `fill` of more rows than there are.
    """
    if not isinstance(init, tvm_ffi.Tensor):
        raise TypeError(f"expected a tensor to begin with, found {kind_of(init)}")
    if not len(reserve_shape):
        raise ValueError("a cache has at least one dimension, which counts its rows")
    cache = KVCache(new_tensor(tuple(reserve_shape), canonical_dtype(init.dtype), init.device))
    cache.append(init)
    if not -1 <= fill <= cache.filled:
        raise ValueError(f"{fill} rows are to count, and there are {cache.filled}")
    cache.filled = cache.filled if fill < 0 else fill
    return cache


@builtin(f"{_PREFIX}append", _CHANGES, pure=False)
def append(cache: Any, rows: Any) -> KVCache:
    """The cache itself, with rows appended."""
    checked = _checked(cache)
    checked.append(rows)
    return checked


@builtin(f"{_PREFIX}update", _CHANGES, pure=False)
def update(cache: Any, rows: Any) -> KVCache:
    """The cache itself, with these rows in place of all that it held."""
    checked, before = _checked(cache), _checked(cache).filled
    checked.filled = 0
    try:
        checked.append(rows)
    except Exception:
        checked.filled = before
        raise
    return checked


@builtin(f"{_PREFIX}view", Effects(reads=(), aliases=(0,)), pure=False, trusted=False)
def view(cache: Any, shape: Any) -> tvm_ffi.Tensor:
    """All rows of a cache, as a tensor over its memory; the shape must be theirs."""
    return _checked(cache).view(shape)


@builtin(f"{_PREFIX}array_popn", Effects(reads=(), writes=(0,)), pure=False)
def pop_rows(caches: Any, count: int) -> tuple[()]:
    """Forget the last rows of each cache. Raises ValueError if one of them has fewer; then none forgets any."""
    checked = _all_checked(caches)
    for cache in checked:
        if not 0 <= count <= cache.filled:
            raise ValueError(f"cannot forget {count} rows of a cache that holds {cache.filled}")
    for cache in checked:
        cache.filled -= count
    return ()


@builtin(f"{_PREFIX}array_clear", Effects(reads=(), writes=(0,)), pure=False)
def clear(caches: Any) -> tuple[()]:
    """Forget all rows of each cache; their memory stays."""
    for cache in _all_checked(caches):
        cache.filled = 0
    return ()


def _checked(value: Any) -> KVCache:
    if not isinstance(value, KVCache):
        raise TypeError(f"expected a cache of attention, found {kind_of(value)}")
    return value


def _all_checked(caches: Any) -> list[KVCache]:
    if not is_tuple(caches):
        raise TypeError(f"expected a tuple of caches, found {kind_of(caches)}")
    return [_checked(cache) for cache in caches]
