"""Convolutions with channels before pixels (NCHW and the like): products of the weights and windows of the data.

    for n, co, h, w, ci, i, j in T.grid(…):             weights (CO, K) times windows (K, P), where K = CI * KH * KW,
        with T.block("conv"):                           P = H * W, and with k = (ci, i, j) and p = (h, w)
            with T.init(): C[n, co, h, w] = 0               weights[co, k] = W[co, ci, i, j]
            C[n, co, h, w] += W[co, ci, i, j] * X[…]        windows[k, p] = X[n, ci, h * 2 + i, w * 2 + j]

The matrix of windows never exists: each panel of 64 pixels is gathered as the product packs it (see `product`), in runs
along the last dimension. Where a window is one element (1×1, stride 1), the data is that matrix already.

Refused: images of unknown size unless a window is one element, grouped and depthwise convolutions, weights whose
dimensions are not the output channel and then those that are summed over, results in which pixels are not the last
dimensions, and what `product` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...prim import (
    IntImm,
    PrimExpr,
    Var,
    const,
    free_vars,
    is_const,
    mark_nonnegative,
    prove,
    simplify,
    substitute,
)
from ...prim.intrin import floordiv, floormod
from ...prim.intrin import max as maximum
from ...prim.intrin import min as minimum
from ...target import Target
from ...tir import (
    AssertStmt,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    IfThenElse,
    IterVar,
    LetStmt,
    PrimFunc,
    Stmt,
)
from ...tir.buffer import decl_buffer
from ...tir.nests import Nest
from ..build import block, int64, let, loop
from ..contraction import plain, rewritten_nests, size_of, sum_of_products
from ..rule import ScheduleRule
from .operands import Values, is_large_float_sum
from .product import tiled


@dataclass(frozen=True)
class Windows:
    """A convolution: the block variables by what they are, and the two loads."""

    out: BufferStore
    weight: BufferLoad
    data: BufferLoad
    batch: tuple[IterVar, ...]
    channel: IterVar
    pixels: tuple[IterVar, ...]
    taps: tuple[IterVar, ...]
    """The variables summed over, in the order of the weights' dimensions."""


class Convolution(ScheduleRule):
    """The rule for convolutions with channels before pixels."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | None:
        del tunable
        if not func.attrs.get("tir.noalias"):
            return None

        def rewrite(nest: Nest) -> Stmt | None:
            windows = windows_of(nest.block)
            return None if windows is None else tiled(WindowOperands(windows), target)

        return rewritten_nests(func, rewrite)


def windows_of(block: Block) -> Windows | None:
    """The convolution that a block computes; None for another one."""
    sums = sum_of_products(block)
    if sums is None:
        return None
    store, start, a, b = sums
    if not store.indices or not isinstance(store.indices[-1], Var):
        return None
    if not is_large_float_sum(store, start, (a, b), block):
        return None
    for weight, data in ((a, b), (b, a)):
        found = _windows(block, store, weight, data)
        if found is not None:
            return found if _is_worth_compiling(found) else None
    return None


def _is_worth_compiling(windows: Windows) -> bool:
    """False for windows of images of unknown size: proving that they are inside takes longer than all the rest."""
    return all(isinstance(size_of(v), IntImm) for v in windows.pixels) or _is_pointwise(windows)


def _windows(block: Block, store: BufferStore, weight: BufferLoad, data: BufferLoad) -> Windows | None:
    by_var = {v.var: v for v in block.iter_vars}
    if (
        not plain(weight.buffer, weight.indices, block)
        or data.buffer.strides
        or data.buffer.elem_offset is not None
    ):
        return None
    if not all(isinstance(index, Var) for index in (*weight.indices, *store.indices)):
        return None
    first, *taps = (by_var[index] for index in weight.indices if isinstance(index, Var))
    reduced = [v for v in block.iter_vars if v.iter_type == "reduce"]
    outputs = [by_var[index] for index in store.indices if isinstance(index, Var)]
    if {id(v) for v in taps} != {id(v) for v in reduced} or first.iter_type != "spatial":
        return None
    position = next((i for i, v in enumerate(outputs) if v is first), None)
    if position is None or len(outputs) + len(reduced) != len(block.iter_vars):
        return None
    used = {id(var) for index in data.indices for var in free_vars(index)}
    pixels = outputs[position + 1 :]
    if (
        not pixels
        or id(first.var) in used
        or not all(id(v.var) in used for v in (*taps, *pixels) if not _is_unit(v))
    ):
        return None
    return Windows(store, weight, data, tuple(outputs[:position]), first, tuple(pixels), tuple(taps))


def _is_unit(iter_var: IterVar) -> bool:
    return is_const(size_of(iter_var), 1)


class WindowOperands:
    """A convolution as a product: rows are output channels, columns pixels, and the depth is what is summed over."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.rows = size_of(windows.channel)
        self._names: list[tuple[Var, PrimExpr]] = []
        """Sizes of the result that have names in the body: proofs about them need not look at what they are."""
        self._line = self._named("line", size_of(windows.pixels[-1]))
        self.columns = self._named("pixels", _count(windows.pixels))
        self.depth = _count(windows.taps)
        weight, result, data = windows.weight.buffer, windows.out.buffer, windows.data.buffer
        self._weight = _view(weight, (weight.shape[0], self.depth), "matrix")
        leading = result.shape[: len(windows.batch) + 1]
        self._out = _view(result, (*leading, self.columns), "pixels")
        self._flat: Buffer | None = None
        """The data with its pixels as one dimension, if a window is one element."""
        kept = data.ndim - len(windows.pixels)
        if _is_pointwise(windows):
            self._flat = _view(data, (*data.shape[:kept], self.columns), "pixels")
        self.batch = windows.batch
        self.row, self.column, self.k = (Var(name, "int64") for name in ("row", "column", "k"))
        self.total = Var("total", result.dtype)
        self.left = BufferLoad(self._weight, (self.row, self.k))
        outer = (v.var for v in windows.batch)
        self.store = BufferStore(self._out, self.total, (*outer, self.row, self.column))
        self.right = self._matrix()
        self.packed: BufferLoad | None = None

    def _matrix(self) -> BufferLoad | None:
        """The data, where windows are single elements and one variable is summed over."""
        several = [v.var for v in self.windows.taps if not _is_unit(v)]
        if self._flat is None or len(several) != 1:
            return None
        leading = self.windows.data.indices[: self._flat.ndim - 1]
        at: dict[Var, PrimExpr] = {several[0]: self.k}
        at.update({v.var: const(0, v.var.dtype) for v in self.windows.taps if _is_unit(v)})
        indices = [self._index(index, at) for index in leading]
        if not all(isinstance(index, Var) or is_const(index, 0) for index in indices):
            return None
        return BufferLoad(self._flat, (*indices, self.column))

    def declared(self, body: Stmt) -> Stmt:
        """A statement with the views and sizes around it that it uses."""
        for view in (self._out, self._weight, self._flat):
            body = body if view is None else DeclBuffer(view, body)
        for name, value in reversed(self._names):
            body = LetStmt(name, value, body)
        return body

    def _named(self, name: str, size: PrimExpr) -> PrimExpr:
        """A size by a name of its own, unless it is a number or a variable."""
        size = simplify(size)
        if isinstance(size, (IntImm, Var)):
            return size
        var = Var(name, "int64")
        mark_nonnegative(var)
        self._names.append((var, size))
        return var

    def pack(self, values: Values, buffer: Buffer, start: PrimExpr, left: PrimExpr | None) -> Stmt:
        """Gather the windows of the pixels from `start` on; columns from `left` on, if given, become 0."""
        width = buffer.shape[1]
        end = simplify(start + (width if left is None else left))
        run = self._line

        def lines(first: Var) -> Stmt:
            last = floordiv(end - 1, run)
            return loop("r", last - first + 1, lambda r: let(
                "oh", first + r, lambda at: self._gathered(values, buffer, at, start, end)))  # fmt: skip

        gather = let("first", floordiv(start, run), lines)
        if left is None:
            return gather
        zero = const(0, str(buffer.dtype))
        zeros = loop("k", self.depth, lambda k: loop(
            "c", width - left, lambda c: BufferStore(buffer, zero, (k, left + c))))  # fmt: skip
        return block([gather, IfThenElse(left < width, zeros)])

    def _each_tap(
        self, taps: Sequence[IterVar], at: dict[Var, PrimExpr], k: PrimExpr,
        body: Callable[[dict[Var, PrimExpr], PrimExpr], Stmt],
    ) -> Stmt:  # fmt: skip
        """Loops over what is summed over; `body` is told the values and the position in the depth."""
        if not taps:
            return body(at, k)
        first, *rest = taps
        size = size_of(first)
        return loop(first.var.name, size, lambda v: self._each_tap(
            rest, {**at, first.var: v}, simplify(k * size + v), body))  # fmt: skip

    def _gathered(
        self, values: Values, buffer: Buffer, line: PrimExpr, start: PrimExpr, end: PrimExpr
    ) -> Stmt:
        """The pixels of a panel that are on one line of the image: for each tap a run of elements, a stride apart."""
        *outer, last = self.windows.pixels
        size = self._line
        place, rest = dict(values), line
        for v in reversed(outer):
            place[v.var] = rest if v is outer[0] else floormod(rest, size_of(v))
            rest = floordiv(rest, size_of(v))

        def run(begin: Var, count: Var) -> Stmt:
            def copy(at: dict[Var, PrimExpr], k: PrimExpr) -> Stmt:
                def element(x: Var) -> Stmt:
                    there = {**at, last.var: begin + x}
                    indices = [self._index(index, there) for index in self.windows.data.indices]
                    return BufferStore(
                        buffer, BufferLoad(self.windows.data.buffer, indices), (k, begin + offset + x)
                    )

                return loop("x", count, element)

            taps = self._each_tap(self.windows.taps, place, const(0, "int64"), copy)
            fits = AssertStmt(begin + offset + count <= buffer.shape[1], "a run is inside of the panel", taps)
            return self._inside({**place, last.var: begin + count - 1}, fits)

        offset = line * size - start
        stop = minimum((line + 1) * size, end)
        begin = maximum(const(0, "int64"), start - line * size)
        return let(
            "begin", begin, lambda b: let("count", stop - line * size - b, lambda count: run(b, count))
        )

    def _inside(self, last: dict[Var, PrimExpr], body: Stmt) -> Stmt:
        """`body` under the fact that the last element of a run is in the data, which proves that all are."""
        data = self.windows.data
        ends = {**last, **{v.var: size_of(v) - 1 for v in self.windows.taps}}
        for index, size in zip(data.indices, data.buffer.shape, strict=True):
            greatest = self._index(index, ends)
            condition = greatest < size
            if not prove(condition):
                body = AssertStmt(condition, "a window is inside of the data", body)
        return body

    def _index(self, index: PrimExpr, at: dict[Var, PrimExpr]) -> PrimExpr:
        return int64(simplify(substitute(index, at)))


def _is_pointwise(windows: Windows) -> bool:
    """True if the data's last dimensions are the pixels as they are, so that a window is one element."""
    units = {v.var: const(0, v.var.dtype) for v in windows.taps if _is_unit(v)}
    trailing = windows.data.indices[-len(windows.pixels) :]
    if len(windows.data.indices) < len(windows.pixels):
        return False
    plain_pixels = all(
        simplify(substitute(index, units)) is v.var for index, v in zip(trailing, windows.pixels, strict=True)
    )
    shape = windows.data.buffer.shape[-len(windows.pixels) :]
    sizes = (size_of(v) for v in windows.pixels)
    return plain_pixels and all(is_const(simplify(a - b), 0) for a, b in zip(shape, sizes, strict=True))


def _count(iter_vars: Sequence[IterVar]) -> PrimExpr:
    """The number of points of several variables together."""
    total: PrimExpr = const(1, "int64")
    for v in iter_vars:
        total = total * size_of(v)
    return simplify(total)


def _view(buffer: Buffer, shape: Sequence[PrimExpr], what: str) -> Buffer:
    """Another shape of a compact buffer."""
    return decl_buffer(shape, str(buffer.dtype), f"{buffer.name}_{what}", data=buffer.data)


__all__ = ["Convolution", "WindowOperands", "Windows", "windows_of"]
