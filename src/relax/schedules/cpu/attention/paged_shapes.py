"""Sizes of the loops of `paged_rows`, computed from the heads and the target's registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from ....prim import PrimExpr, Var, simplify
from ....prim.intrin import ceildiv
from ....runtime.records import dataclass
from ....target import Target
from ....tir import Buffer, IfThenElse, Stmt
from ....topi.paged_attention import PagedHeads
from ...build import block, rolled
from ..tile.division import Segment, Tile, even_pieces, tile_for

Memory: TypeAlias = Mapping[str, Buffer]
"""Scratch buffers of a task, by name."""
TALL: Final = Tile(8, 2, 0)
"""Register tile of a block of queries on targets with 32 registers.

A tile of four vectors has the tokens of four pages: more tokens behind the last position of a query.
"""
MANY_REGISTERS: Final = 32
TALLEST_OF_A_QUERY: Final = 12
"""Most rows of a register tile for a single query."""
FEWEST_LANES: Final = 4
"""Fewest lanes of vectors: shorter ones are left to the formula."""


def lanes_for(heads: PagedHeads, target: Target) -> int | None:
    """Return the most lanes of vectors that divide pages and values evenly, or None if there are too few."""
    lanes = target.machine.vector_bits // 32
    while lanes >= FEWEST_LANES:
        if heads.page_size % lanes == heads.columns % lanes == 0:
            return lanes
        lanes //= 2
    return None


@dataclass(frozen=True)
class Rows:
    """Rows of a task: `count` queries from `first` on, of sequence `sequence` and heads of keys from `head` on."""

    sequence: PrimExpr
    head: PrimExpr
    first: PrimExpr
    count: PrimExpr


class TaskShape:
    """Sizes of a task with up to `queries` queries and `kv_heads` heads of keys, in parts of `pages` pages."""

    def __init__(
        self, heads: PagedHeads, target: Target, queries: int, pages: int, tile: tuple[int, int] | None = None,
        kv_heads: int = 1,
    ) -> None:  # fmt: skip
        self.heads, self.queries, self.kv_heads, self.part = heads, queries, kv_heads, pages
        registers = target.machine.vector_registers
        lanes = lanes_for(heads, target)
        assert lanes is not None
        shape = tile_for(target, 32, tile)
        chosen = Tile(shape.rows, shape.vectors, lanes)
        self.lanes = lanes
        per_page, vectors_of_value = heads.page_size // chosen.lanes, heads.columns // chosen.lanes
        self.segments: Sequence[Segment] = ()
        """Tiles of a query's rows for scores; none for blocks of queries, whose tiles all have `height` rows."""
        self.value_segments: Sequence[Segment] = ()
        """Tiles of a query's rows for values."""
        if queries == 1:
            self.vectors = _fitting(per_page, min(chosen.vectors, per_page))
            most = min((registers - 1 - self.vectors) // self.vectors, TALLEST_OF_A_QUERY)
            self.segments = even_pieces(heads.group, -(-heads.group // most))
            # A row of values is read at once: with half of it, hardware prefetching reads half as fast.
            wide = max(v for v in range(1, vectors_of_value + 1) if 3 * v < registers or v == 1)
            self.columns = even_pieces(vectors_of_value, -(-vectors_of_value // wide))
            wide = max(segment.size for segment in self.columns)
            most = min((registers - 1 - wide) // wide, TALLEST_OF_A_QUERY)
            self.value_segments = even_pieces(heads.group, -(-heads.group // most))
            self.height, rows = heads.group, heads.group
        else:
            if tile is None and registers >= MANY_REGISTERS:
                chosen = Tile(TALL.rows, TALL.vectors, chosen.lanes)
            self.vectors = _fitting(per_page, chosen.vectors)
            self.columns = even_pieces(vectors_of_value, -(-vectors_of_value // chosen.vectors))
            self.height = chosen.rows
            rows = -(-queries * heads.group // self.height) * self.height
        self.rows = rows * kv_heads
        """Rows of a task, those that fill the last tile included."""
        self.pages_of_tile = max(self.vectors // per_page, 1)
        self.parts_of_page = max(per_page // self.vectors, 1)
        """Tiles of a page, of `vectors` vectors of tokens each."""
        self.pages = -(-pages // self.pages_of_tile) * self.pages_of_tile
        """Pages of a part, those that fill the last tile included."""
        self.tokens = self.pages * heads.page_size

    @property
    def is_single(self) -> bool:
        """True for a single query."""
        return self.queries == 1

    def each_tile(
        self, rows: Rows, segments: Sequence[Segment], body: Callable[[PrimExpr, int, PrimExpr], Stmt]
    ) -> Stmt:
        """Return `body(first row, height, head)` for each tile of rows."""
        group = self.heads.group

        def of_head(g: Var) -> Stmt:
            head = simplify(rows.head + g)
            return block(
                rolled("io", s.count, lambda io, s=s: body(simplify(g * group + s.start + io * s.size), s.size, head))
                for s in segments
            )

        if segments:
            return rolled("g", self.kv_heads, of_head)
        tiles = ceildiv(rows.count * group, self.height)
        return rolled("io", self.rows // self.height, lambda io: IfThenElse(
            io < tiles, body(io * self.height, self.height, rows.head)))  # fmt: skip

    def each_row(self, rows: Rows, body: Callable[[Var], Stmt]) -> Stmt:
        """Return `body(row)` for each row."""
        if self.queries == 1:
            return rolled("r", self.rows, body)
        return rolled("r", self.rows, lambda r: IfThenElse(r < rows.count * self.heads.group, body(r)))


def _fitting(per_page: int, most: int) -> int:
    """Most vectors of tokens of a tile: those of whole pages, or an even part of a page's."""
    return max(v for v in range(1, most + 1) if v % per_page == 0 or per_page % v == 0)


__all__ = ["Memory", "Rows", "TaskShape"]
