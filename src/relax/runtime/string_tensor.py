"""Tensors of strings: values of the machine that kernels do not read. Python sees NumPy arrays of objects.

vm["main"](np.array(["a", "b"], object)).numpy()
"""

from __future__ import annotations

from typing import Any, cast, final

import numpy as np

from .dtypes import Array


@final
class StringTensor:
    """An immutable tensor of strings."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        """`array`: strings in a NumPy array of objects, of str or of UTF-8 bytes. TypeError for anything else."""
        texts: Array = np.empty(array.shape, dtype=object)
        flat = texts.reshape(-1)
        for index, item in enumerate(cast("list[Any]", array.reshape(-1).tolist())):
            flat[index] = _text(item)
        self._array = texts

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return tuple(self._array.shape)

    @property
    def array(self) -> Array:
        """The strings as a NumPy array of str (dtype object), which must not be changed."""
        return self._array

    def numpy(self) -> Array:
        """A copy as a NumPy array of str (dtype object)."""
        return self._array.copy()

    def __repr__(self) -> str:
        return f"StringTensor({self._array.tolist()!r})"


def _text(item: object) -> str:
    if isinstance(item, str):
        return str(item)
    if isinstance(item, bytes):
        return item.decode("utf-8", "replace")
    raise TypeError(f"an array of objects must hold strings, found an object of type {type(item).__name__}")
