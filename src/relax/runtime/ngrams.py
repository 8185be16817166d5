"""Counting n-grams of rows of words or numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import tvm_ffi

from .builtin_table import builtin
from .dtypes import Array
from .strings import labels_of
from .tensor import tensor_of_numpy


@builtin("relax.run.count_ngrams")
def count_ngrams(
    data: Any, pool: Any, starts: Any, columns: Any, shortest: int, longest: int, skips: int
) -> tvm_ffi.Tensor:
    """Numbers of the n-grams of a pool in each row, in float32: a column for each n-gram.

    `pool` has the items of all 1-grams, 2-grams and so on; those of the n-grams begin at ``starts[n - 1]``, and
    ``columns[i]`` is the column of the i-th n-gram. Counted are those of `shortest` to `longest` items, which may be
    up to ``skips + 1`` places apart, always as many.
    """
    array = labels_of(data, "count_ngrams")
    table = _table(labels_of(pool, "count_ngrams").tolist(), tuple(starts), tuple(columns))
    rows = cast("list[list[Any]]", array.reshape(-1, array.shape[-1]).tolist() if array.size else [])
    width = max(columns, default=-1) + 1
    counts: Array = np.zeros((*array.shape[:-1], width), np.float32)
    flat = counts.reshape(-1, width)
    for index, row in enumerate(rows):
        for gram in _grams(row, shortest, longest, skips):
            column = table.get(gram)
            if column is not None:
                flat[index, column] += 1
    return tensor_of_numpy(counts)


def _table(pool: list[Any], starts: tuple[int, ...], columns: tuple[int, ...]) -> dict[tuple[Any, ...], int]:
    """The column of each n-gram."""
    grams: list[tuple[Any, ...]] = []
    for size, (begin, end) in enumerate(zip(starts, (*starts[1:], len(pool)), strict=True), 1):
        grams += [tuple(pool[at : at + size]) for at in range(begin, end, size)]
    return dict(zip(grams, columns, strict=False))


def _grams(row: list[Any], shortest: int, longest: int, skips: int) -> Iterator[tuple[Any, ...]]:
    for size in range(shortest, longest + 1):
        for step in range(1, (1 if size == 1 else skips + 1) + 1):
            for begin in range(len(row) - (size - 1) * step):
                yield tuple(row[begin : begin + (size - 1) * step + 1 : step])
