"""Contiguous copies of the pixels that a strided pointwise convolution reads.

    X[n, c, y, x]                       P[n, c, h * W + w] = X[n, c, h * 2, w * 2]          for stride 2

A row of results is shuffled out of contiguous vectors, and each pixel is copied once: gathering pixels inside tiles
takes several times as long, and is repeated for each group of output channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from .....prim import LT, And, IntImm, PrimExpr, Var, simplify
from .....prim.intrin import ceildiv
from .....tir import AllocBuffer, Buffer, BufferLoad, DeclBuffer, LetStmt, Shuffle, Stmt
from .....tir.buffer import decl_buffer
from ....build import block, int64, loop, ramp, size_of, spread, vector_store
from ..planes import Sizes, items, window
from ..windows import LONGEST_SHUFFLE
from .operands import Pixels

SHORTEST: Final = 4
"""A row of results fills at least 1 / SHORTEST of a vector."""


def with_neighbours(pixels: Pixels, lanes: int, body: Callable[[Pixels], Stmt]) -> Stmt:
    """Copy the pixels that a strided convolution reads, then run `body` on the copy.

    `body` gets the original data if all pixels are read, or if shuffling does not pay.
    """
    if not _fits(pixels, lanes):
        return body(pixels)
    sizes, source = Sizes(), pixels.source
    count: PrimExpr = int64(1)
    for axis in pixels.steps:
        count = count * axis.size
    leading = (*(size_of(v) for v in pixels.batch), int64(pixels.inputs))
    count = sizes.named("used", count)
    memory = decl_buffer((*leading, count), str(source.dtype), "used_pixels")
    view = decl_buffer(memory.shape, str(source.dtype), "used", data=memory.data)
    copy = DeclBuffer(view, _copied(pixels, lanes, view))
    there = decl_buffer((*source.shape[:-1], pixels.count), str(source.dtype), source.name, data=memory.data)
    neighbours = replace(pixels, source=there, steps=())
    return sizes.around(AllocBuffer(memory, block([copy, body(neighbours)])))


def _fits(pixels: Pixels, lanes: int) -> bool:
    """True for strided pixels close enough to be shuffled, in rows that fill enough of a vector."""
    if not pixels.steps or lanes < LONGEST_SHUFFLE:
        return False
    line = pixels.steps[-1]
    is_short = isinstance(line.size, IntImm) and line.size.value * SHORTEST < lanes
    return line.stride <= LONGEST_SHUFFLE and not is_short


def _copied(pixels: Pixels, lanes: int, used: Buffer) -> Stmt:
    """Copy the pixels of all channels of all images, in parallel."""
    data = decl_buffer(
        (*pixels.source.shape[:-1], *(axis.extent for axis in pixels.steps)), str(pixels.source.dtype), "data",
        data=pixels.source.data,
    )  # fmt: skip
    radix = [(f"n{d}", size_of(v)) for d, v in enumerate(pixels.batch)]
    radix.append(("c", int64(pixels.inputs)))
    *outer, last = pixels.steps

    def vector(at: list[PrimExpr], ys: list[PrimExpr], line: Buffer, start: Sequence[PrimExpr], v: Var) -> Stmt:
        parts = [Var("part", f"{pixels.source.dtype}x{lanes}") for _ in range(last.stride)]
        begin = simplify(v * lanes)
        value = parts[0] if last.stride == 1 else Shuffle(
            tuple(parts), [last.stride * lane for lane in range(lanes)])  # fmt: skip
        inside = LT(ramp(begin, lanes), spread(last.size, lanes))
        result = vector_store(line, (*start[:-1], simplify(start[-1] + begin)), value, inside)
        for number, part in enumerate(parts):
            x = ramp(simplify(begin * last.stride + number * lanes), lanes)
            mask = And(x >= spread(int64(0), lanes), x < spread(last.extent, lanes))
            load = BufferLoad(data, (*at, *ys, x), mask)
            result = LetStmt(part, load, result)
        return result

    def lines(at: list[PrimExpr], ys: list[PrimExpr], place: PrimExpr) -> Stmt:
        if len(ys) < len(outer):
            axis = outer[len(ys)]
            return loop("y", axis.size, lambda y: lines(
                at, [*ys, simplify(y * axis.stride)], simplify(place * axis.size + y)))  # fmt: skip
        vectors = simplify(ceildiv(last.size, lanes))
        return window(used, (*at, simplify(place * last.size)), last.size, lambda line, start: loop(
            "v", vectors, lambda v: vector(at, ys, line, start, v)))  # fmt: skip

    return DeclBuffer(data, items("image", radix, lambda at: lines(at, [], int64(0))))
