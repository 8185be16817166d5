"""The loops of `chains.loops` for channels-last data or results (`chains.channels_last`).

    ring[g, q % 3, x, :] = f(We[g, ci, :] * X[n, q, x, ci])                             read in place
    C[n, y, x, jo * 48 + …] = k(Wp[jo, c, :] * D[r, x, c])                              stored from registers

The data need no panel, and results no transpose. The last tile of a row clamps its reads to the last pixel and does not
store the pixels past it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .....prim import PrimExpr, Var, is_const, simplify
from .....prim.intrin import floordiv
from .....prim.intrin import max as maximum
from .....prim.intrin import min as minimum
from .....target import Target
from .....tir import Buffer, BufferLoad, BufferStore, ForKind, IfThenElse, Stmt
from .....tir.functor import substitute
from ....build import block, int64, let, loop, named
from ...tile import Vector
from ...tile.division import Segment
from ..channel_blocks import part_of
from .chain import Chain
from .channels_last import own_accesses
from .loops import Band, RowLoops
from .panels import Step


class PixelRowLoops(RowLoops):
    """Writes the loops of one float32 chain, some of whose buffers stand for channels-last ones."""

    def __init__(self, chain: Chain, target: Target, lanes: int, last: Mapping[Buffer, Buffer]) -> None:
        super().__init__(chain, target, lanes)
        self.own = own_accesses(last)
        data = chain.expand.windows.data
        self.reads_pixels = data in last
        self.stores_pixels = chain.project.finish.store.buffer in last
        self.data = last.get(data, data)

    def loops(self, expand: Buffer, depthwise: Buffer, project: Buffer) -> Stmt:
        return self.own.visit(super().loops(expand, depthwise, project))

    def _scratch_sizes(self) -> dict[str, PrimExpr]:
        sizes = super()._scratch_sizes()
        return {**sizes, "panel": int64(1)} if self.reads_pixels else sizes

    def _copied(self, band: Band, panel: Buffer) -> Stmt:
        return block([]) if self.reads_pixels else super()._copied(band, panel)

    def _line_of_tiles(
        self, band: Band, q: PrimExpr, place: tuple[PrimExpr, PrimExpr, Sequence[Vector]], weights: Buffer,
        buffers: tuple[Buffer, Buffer],
    ) -> Stmt:  # fmt: skip
        if not self.reads_pixels:
            return super()._line_of_tiles(band, q, place, weights, buffers)
        (_, ring), (slot, first, pieces) = buffers, place
        y = simplify(q - self.down.before)

        def tile(t: PrimExpr, is_whole: bool) -> Stmt:
            start = t * self.pixels

            def pixel(p: PrimExpr) -> PrimExpr:
                return start + p if is_whole else minimum(start + p, self.extents[1] - 1)

            def steps(step: Step) -> Stmt:
                return loop("k", self.panel.depth, lambda k: step(k, lambda p: BufferLoad(
                    self.data, (*band.image, y, pixel(p), k))))  # fmt: skip

            return self._part_of_ring(ring, slot, start, pieces, lambda out: self._product(
                pieces, steps, (weights, first), simplify(q + t),
                lambda acc: self._put(acc, pieces, first, out)))  # fmt: skip

        return self._along_line(self.extents[1], tile)

    def _along_line(self, width: PrimExpr, tile: Callable[[PrimExpr, bool], Stmt]) -> Stmt:
        """Return `tile(number, is whole)` for each tile of a row."""
        whole = simplify(floordiv(width, self.pixels))
        done = loop("t", whole, lambda t: tile(t, True))
        if is_const(simplify(width - whole * self.pixels), 0):
            return done
        return block([done, named("t", whole, lambda t: IfThenElse(t * self.pixels < width, tile(t, False)))])

    def _projected(self, band: Band, part: PrimExpr, group: PrimExpr, weights: Buffer, middle: Buffer) -> Stmt:
        if not self.stores_pixels:
            return super()._projected(band, part, group, weights, middle)
        first = simplify(part * self.together)
        count = simplify(maximum(minimum(self.together, band.lines - first), int64(0)))
        groups = self.project_groups

        def line(i: PrimExpr, y: PrimExpr, vector: PrimExpr, pieces: Sequence[Vector]) -> Stmt:
            def tile(t: PrimExpr, is_whole: bool) -> Stmt:
                at = ((first + i) * self.tiles + t) * (self.pixels * self.pitch)
                place = (*band.image, y, t * self.pixels)
                return part_of(
                    middle, at, (self.pixels, self.middle), (self.pitch, 1), lambda data: self._product(
                        pieces, lambda step: self._steps(data, step), (weights, vector), simplify(i + t),
                        lambda acc: self._stored_pixels(acc, pieces, place, vector, is_whole)))  # fmt: skip

            rows, columns = self.chain.project.windows.axes
            return IfThenElse(y < rows.size, self._along_line(columns.size, tile))

        def lines(vector: PrimExpr, segment: Segment) -> Stmt:
            pieces = self._pieces(segment.size, self.outputs)
            return loop("i", count, lambda i: let(
                "y", simplify(band.first + first + i), lambda y: line(i, y, vector, pieces)))  # fmt: skip

        def chosen(vector: PrimExpr) -> Stmt:
            bodies = [lines(vector, segment) for segment in groups]
            return bodies[0] if len(bodies) == 1 else IfThenElse(group < groups[0].count, *bodies)

        return named("count", count, lambda count: self._of_group(groups, group, lambda vector, _: chosen(vector)))

    def _stored_pixels(
        self, acc: Buffer, pieces: Sequence[Vector], place: Sequence[PrimExpr], vector: PrimExpr, is_whole: bool
    ) -> Stmt:  # fmt: skip
        """Apply the epilogue to a tile and store it, from a pixel and channel vector on."""
        finish = self.chain.project.finish
        indices = self.chain.project.windows.out.indices
        *image, y, x = place

        def element(co: PrimExpr, p: Var, total: PrimExpr) -> Stmt:
            there = (*image, co, y, x + p)
            at = {v: i.astype(str(v.dtype)) for v, i in zip(indices, there, strict=True) if isinstance(v, Var)}
            tables = {name: BufferLoad(table.buffer, (co,)) for name, table in self.tables[finish].items()}
            value = substitute(finish.store.value, {**at, **tables, finish.total: total})
            return BufferStore(finish.store.buffer, value, there)

        def stored(p: Var, piece: Vector) -> Stmt:
            def lane(v: Var) -> Stmt:
                co = simplify(vector * self.lanes + piece.start) + v
                result = let("total", BufferLoad(acc, (p, piece.start + v)), lambda total: element(co, p, total))
                return result if self.outputs % piece.lanes == 0 else IfThenElse(co < self.outputs, result)

            return loop("v", piece.lanes, lane, ForKind.VECTORIZED)

        def pixel(p: Var) -> Stmt:
            result = block(stored(p, piece) for piece in pieces)
            return result if is_whole else IfThenElse(x + p < columns.size, result)

        columns = self.chain.project.windows.axes[1]
        return loop("p", self.pixels, pixel, ForKind.UNROLLED)
