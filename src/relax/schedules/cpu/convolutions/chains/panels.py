"""Rows of a chain's data, copied in the layout that tiles of the expansion read (`chains.loops`).

    single elements     panel[q, ci, x] = X[n, ci, q, x]
    windows             panel[q, (ci * 3 + i) * 2 + a, x] = X[n, ci, q * 2 + i - 1, x * 2 + a - 1]
                        of 3 × 3 taps, with stride 2 and 1 pixel of padding

`q` is a row of the expanded image. For windows, a plane holds one stride phase of a row that the window reads: tap `j`
of consecutive pixels is consecutive elements of phase `j % 2`, from `j // 2` on. A row read by two windows is copied
for both: with few input channels, copies take little time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from .....prim import LT, And, PrimExpr, Var, const, simplify
from .....prim.instructions import prefetch
from .....prim.intrin import floordiv
from .....tir import Buffer, BufferLoad, Evaluate, IfThenElse, LetStmt, Shuffle, Stmt
from ....build import block, let, loop, ramp, spread, vector_load, vector_store
from ..channel_blocks import part_of
from .chain import DTYPE, Link

AHEAD: Final = 3
"""Prefetch distance in rows of windows; images come from main memory."""
Left: TypeAlias = Callable[[PrimExpr], PrimExpr]
"""Element of a pixel of a tile."""
Step: TypeAlias = Callable[[PrimExpr, Left], Stmt]
"""Accumulates the products at one depth index with the elements of a tile's pixels."""


class RowPanel(Protocol):
    """Layout of a chain's panel."""

    depth: int
    """Reduction depth of the expansion."""
    planes: int
    """Planes per row of the expanded image."""
    reach: int
    """Elements that tiles read past their pixels in a plane."""
    extents: tuple[PrimExpr, PrimExpr]
    """Rows and columns of the expanded image."""

    def copied(self, image: Sequence[PrimExpr], y: PrimExpr, panel: Buffer, place: PrimExpr, width: PrimExpr) -> Stmt:
        """Copy the data of expanded row `y` to offset `place` of a panel whose planes have `width` elements."""
        ...

    def steps(self, data: Buffer, step: Step) -> Stmt:
        """Return the loop over the depth, for the part of the panel that a tile reads."""
        ...


def panel_of(link: Link, lanes: int) -> RowPanel:
    """Return the panel layout of an expansion."""
    is_of_elements = all(axis.taps == 1 for axis in link.windows.axes)
    return ElementPanel(link, lanes) if is_of_elements else WindowPanel(link, lanes)


class ElementPanel:
    """Panel of a pointwise expansion."""

    def __init__(self, link: Link, lanes: int) -> None:
        self.data, self.lanes = link.windows.data, lanes
        self.depth = self.planes = link.inputs
        self.reach = 0
        rows, columns = link.windows.axes
        self.extents = simplify(rows.extent), simplify(columns.extent)

    def copied(self, image: Sequence[PrimExpr], y: PrimExpr, panel: Buffer, place: PrimExpr, width: PrimExpr) -> Stmt:
        """Copy a row of each channel and prefetch the following row.

        Hardware prefetching does not cover the short runs that a row has in many channels.
        """
        lanes, data = self.lanes, self.data

        def vector(part: Buffer, k: Var, v: Var) -> Stmt:
            mask = LT(ramp(v * lanes, lanes), spread(self.extents[1], lanes))
            ahead = Evaluate(prefetch(BufferLoad(data, (*image, k, simplify(y + 1), simplify(v * lanes)))))
            copied = vector_store(part, (k, 0), vector_load(data, (*image, k, y, v * lanes), lanes, mask))
            return block([ahead, copied])

        return loop("v", simplify(floordiv(width, lanes)), lambda v: part_of(
            panel, place + v * lanes, (self.planes, lanes), (width, 1),
            lambda part: loop("k", self.planes, lambda k: vector(part, k, v))))  # fmt: skip

    def steps(self, data: Buffer, step: Step) -> Stmt:
        return loop("k", self.depth, lambda k: step(k, lambda p: BufferLoad(data, (k, p))))


class WindowPanel:
    """Panel of an expansion by windows over few channels."""

    def __init__(self, link: Link, lanes: int) -> None:
        self.data, self.lanes, self.inputs = link.windows.data, lanes, link.inputs
        self.rows, self.columns = link.windows.axes
        self.depth = self.inputs * self.rows.taps * self.columns.taps
        self.phases = self.columns.stride
        self.planes = self.inputs * self.rows.taps * self.phases
        self.reach = (self.columns.taps - 1) // self.phases
        self.extents = simplify(self.rows.size), simplify(self.columns.size)

    def copied(self, image: Sequence[PrimExpr], y: PrimExpr, panel: Buffer, place: PrimExpr, width: PrimExpr) -> Stmt:
        """Copy the data rows read by a row of windows; rows outside the image are zeros."""
        lanes, rows = self.lanes, self.rows
        zero = spread(const(0, DTYPE), lanes)

        def of_line(part: Buffer, ci: Var, i: Var, begin: Var, masks: Sequence[Var]) -> Stmt:
            first = simplify((ci * rows.taps + i) * self.phases)
            nothing = block(vector_store(part, (first + a, 0), zero) for a in range(self.phases))
            return let("row", simplify(y * rows.stride + i - rows.before), lambda row: IfThenElse(
                And(row >= 0, row < rows.extent), self._phases((*image, ci), row, part, first, begin, masks),
                nothing))  # fmt: skip

        def vector(v: Var, part: Buffer) -> Stmt:
            begin = simplify(v * (lanes * self.phases) - self.columns.before)
            return let("begin", begin, lambda begin: self._masked(begin, lambda masks: loop(
                "ci", self.inputs, lambda ci: loop("i", rows.taps, lambda i: of_line(
                    part, ci, i, begin, masks)))))  # fmt: skip

        return loop("v", simplify(floordiv(width, lanes)), lambda v: part_of(
            panel, place + v * lanes, (self.planes, lanes), (width, 1), lambda part: vector(v, part)))  # fmt: skip

    def _masked(self, begin: Var, body: Callable[[Sequence[Var]], Stmt]) -> Stmt:
        """Call `body` with the masks of lanes inside the image, for the vectors from element `begin` on."""
        lanes = self.lanes
        masks = [Var("mask", f"boolx{lanes}") for _ in range(self.phases)]
        result = body(masks)
        for number, mask in enumerate(masks):
            at = ramp(simplify(begin + number * lanes), lanes)
            extent = spread(simplify(self.columns.extent), lanes)
            inside = And(at >= spread(const(0, "int64"), lanes), at < extent)
            result = LetStmt(mask, inside, result)
        return result

    def _phases(
        self, channel: Sequence[PrimExpr], row: Var, part: Buffer, first: PrimExpr, begin: Var,
        masks: Sequence[Var],
    ) -> Stmt:  # fmt: skip
        """Copy a vector of each stride phase of a channel's row, and prefetch a row that is copied later."""
        lanes, phases = self.lanes, self.phases
        parts = [Var("part", f"{DTYPE}x{lanes}") for _ in masks]

        def phase(a: int) -> PrimExpr:
            if phases == 1:
                return parts[0]
            return Shuffle(tuple(parts), [phases * lane + a for lane in range(lanes)])

        result = block(vector_store(part, (first + a, 0), phase(a)) for a in range(phases))
        for number, (var, mask) in enumerate(zip(parts, masks, strict=True)):
            place = simplify(begin + number * lanes)
            result = LetStmt(var, vector_load(self.data, (*channel, row, place), lanes, mask), result)
        line = simplify(row + AHEAD * self.rows.stride)
        ends = (simplify(begin + (number * lanes + lanes - 1)) for number in range(phases))
        asked = [Evaluate(prefetch(BufferLoad(self.data, (*channel, line, x)))) for x in ends]
        return block([*asked, result])

    def steps(self, data: Buffer, step: Step) -> Stmt:
        taps, phases = self.columns.taps, self.phases

        def tap(line: Var, j: int) -> Stmt:
            plane, offset = simplify(line * phases + j % phases), j // phases
            return step(simplify(line * taps + j), lambda p: BufferLoad(data, (plane, simplify(p + offset))))

        return loop("line", self.inputs * self.rows.taps, lambda line: block(
            tap(line, j) for j in range(taps)))  # fmt: skip
