"""Memory of a paged KV cache: keys and values of all layers, in tensors whose first dimension counts pages."""

from __future__ import annotations

from typing import TypeAlias, final

import tvm_ffi

from .devices import Device
from .dtypes import Array
from .paged_layout import AttnKind, CacheLayout
from .tensor import new_tensor, numpy_view

Slots: TypeAlias = "tuple[Array, Array]"
"""Pages of some tokens, and the offsets in these pages."""


@final
class PageStore:
    """Keys (P, hk, d, s) and values (P, hk, s, e) of each layer, uninitialised; None for layers without."""

    __slots__ = ("_arrays", "keys", "values")

    def __init__(self, layout: CacheLayout, device: Device | None = None) -> None:
        """Allocate the pages of all layers. Raises MemoryError if there is not as much memory."""
        heads, size = (layout.pages, layout.key_heads), layout.page_size
        self.keys: list[tvm_ffi.Tensor | None] = []
        self.values: list[tvm_ffi.Tensor | None] = []
        for kind in layout.kinds:
            paged = kind is not AttnKind.LINEAR
            keys = new_tensor((*heads, layout.key_dim, size), layout.page_dtype, device) if paged else None
            values = new_tensor((*heads, size, layout.value_dim), layout.page_dtype, device) if paged else None
            self.keys.append(keys)
            self.values.append(values)
        pairs = zip(self.keys, self.values, strict=True)
        self._arrays: list[tuple[Array, Array] | None] = [
            None if keys is None or values is None else (numpy_view(keys), numpy_view(values)) for keys, values in pairs
        ]

    def copy_page(self, source: int, target: int) -> None:
        """Copy a page in all layers."""
        for pair in self._arrays:
            for array in pair or ():
                array[target] = array[source]

    def move_tokens(self, source: Slots, target: Slots) -> None:
        """Copy tokens to other places in all layers; sources are read before targets are written."""
        for pair in self._arrays:
            if pair is not None:
                keys, values = pair
                keys[target[0], :, :, target[1]] = keys[source[0], :, :, source[1]]
                values[target[0], :, target[1], :] = values[source[0], :, source[1], :]

    def read_keys(self, slots: Slots, k: Array) -> None:
        """Copy the keys of t tokens to `k` (layers, t, hk, d); layers without pages are left out."""
        pages, offsets = slots
        for layer, pair in enumerate(self._arrays):
            if pair is not None:
                k[layer] = pair[0][pages, :, :, offsets].astype(k.dtype)

    def read_values(self, slots: Slots, v: Array) -> None:
        """Copy the values of t tokens to `v` (layers, t, hk, e); layers without pages are left out."""
        pages, offsets = slots
        for layer, pair in enumerate(self._arrays):
            if pair is not None:
                v[layer] = pair[1][pages, :, offsets, :].astype(v.dtype)

    def nbytes(self) -> int:
        """The bytes of all pages."""
        return sum(array.nbytes for pair in self._arrays for array in pair or ())

    def fill(self, value: float) -> None:
        """Set all elements of all pages, for tests of what reads memory before it is written."""
        for pair in self._arrays:
            for array in pair or ():
                array[...] = value
