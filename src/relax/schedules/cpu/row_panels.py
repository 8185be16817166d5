"""Lines of the data of a chain, copied as tiles of the expansion read them (`row_loops`).

    single elements     panel[q, ci, x] = X[n, ci, q, x]
    windows             panel[q, (ci * 3 + i) * 2 + a, x] = X[n, ci, q * 2 + i - 1, x * 2 + a - 1]
                        of 3 × 3 taps, with stride 2 and 1 pixel of padding

`q` is a line of the expanded image. For windows, a plane has one phase of the stride of a line that the window meets:
tap `j` of neighbouring pixels is neighbouring elements of phase `j % 2`, from `j // 2` on. A line that two windows meet
is copied for both: windows have few input channels, so that copies take little time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from ...prim import LT, And, PrimExpr, Var, const, simplify
from ...prim.instructions import prefetch
from ...prim.intrin import floordiv
from ...tir import Buffer, BufferLoad, Evaluate, IfThenElse, LetStmt, Shuffle, Stmt
from ..build import block, let, loop, ramp, spread, vector_load, vector_store
from .chains import DTYPE, Link
from .channel_blocks import part_of

AHEAD: Final = 3
"""The lines of windows between one that is copied and one that is asked for: images come from memory."""
Left: TypeAlias = Callable[[Var], PrimExpr]
"""The element of a pixel of a tile."""
Step: TypeAlias = Callable[[PrimExpr, Left], Stmt]
"""The products of one place in the depth of a sum, with the elements of a tile's pixels there."""


class RowPanel(Protocol):
    """The form of the panel of a chain."""

    depth: int
    """The products of a sum of the expansion."""
    planes: int
    """The planes of a line of the expanded image."""
    reach: int
    """The elements of a plane that tiles read behind their pixels."""
    extents: tuple[PrimExpr, PrimExpr]
    """The lines and columns of the expanded image."""

    def copied(
        self, image: Sequence[PrimExpr], y: PrimExpr, panel: Buffer, place: PrimExpr, width: PrimExpr
    ) -> Stmt:
        """Copy what line `y` of the expanded image is made of to a place of a panel of planes of a width."""
        ...

    def steps(self, data: Buffer, step: Step) -> Stmt:
        """The loop over the depth of a sum, for the part of the panel that a tile reads."""
        ...


def panel_of(link: Link, lanes: int) -> RowPanel:
    """The form of the panel of an expansion."""
    is_of_elements = all(axis.taps == 1 for axis in link.windows.axes)
    return ElementPanel(link, lanes) if is_of_elements else WindowPanel(link, lanes)


class ElementPanel:
    """The panel of an expansion of single elements."""

    def __init__(self, link: Link, lanes: int) -> None:
        self.data, self.lanes = link.windows.data, lanes
        self.depth = self.planes = link.inputs
        self.reach = 0
        rows, columns = link.windows.axes
        self.extents = simplify(rows.extent), simplify(columns.extent)

    def copied(
        self, image: Sequence[PrimExpr], y: PrimExpr, panel: Buffer, place: PrimExpr, width: PrimExpr
    ) -> Stmt:
        """Copy a line of each channel, and ask for the one behind it.

        Processors do not foresee the short runs of memory that a line has in many channels.
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
    """The panel of an expansion by windows of a few channels."""

    def __init__(self, link: Link, lanes: int) -> None:
        self.data, self.lanes, self.inputs = link.windows.data, lanes, link.inputs
        self.rows, self.columns = link.windows.axes
        self.depth = self.inputs * self.rows.taps * self.columns.taps
        self.phases = self.columns.stride
        self.planes = self.inputs * self.rows.taps * self.phases
        self.reach = (self.columns.taps - 1) // self.phases
        self.extents = simplify(self.rows.size), simplify(self.columns.size)

    def copied(
        self, image: Sequence[PrimExpr], y: PrimExpr, panel: Buffer, place: PrimExpr, width: PrimExpr
    ) -> Stmt:
        """Copy the lines that a line of windows meets, with zeros for those outside of the image."""
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
        """`body` of the lanes that are in the image, of the vectors of elements from `begin` on."""
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
        """Copy a vector of each phase of a line of a channel, and ask for a line that is copied later."""
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


__all__ = ["Left", "RowPanel", "Step", "panel_of"]
