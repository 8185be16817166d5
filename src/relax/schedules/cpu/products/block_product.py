"""Products of activations in blocks of bytes and packed weights of few bits (`topi.blocks.quantized_matmul`).

Products with the weights of experts (`quantized_expert_matmul`) are among them.

    for i, j, b, e in T.grid(M, N, B, 32):      x_sums[i, g] = -zero · Σ x[i, 32 g : 32 g + 32]
        with T.block("sums"):                   for panel in T.parallel(N // 16):       few rows: 16 rows of weights
            sums[i, j, b] +=                        acc = 0                             in registers, for each i
                x[i, 32 b + e] * q(j, b, e)         for b in range(B):                  one stream of weights
    for i, j, b in T.grid(M, N, B):                     s = x_sums[i, b]
        with T.block("product"):                        s = T.dot_u8s8(s, numbers, x)   8 times, numbers from registers
            y[i, j] += d(j, b) * a[i, b]                acc += d · a[i, b] · float(s)
                * float(sums[i, j, b])              y[i, panel] = f(acc)
    y = f(y)                                    more rows: a panel's numbers become bytes once, in the near cache, and
                                                tiles of rows and vectors read them; scales of groups become floats

Rows that have experts are cut into runs, of consecutive rows of the same expert; a task is a run and a panel:

    runs = places where experts[i] differs from experts[i - 1]
    for run, panel in T.parallel(…):
        weights = those of the run's expert
        for few rows in run: y[rows, panel] = f(…)                    as few rows above: a run reads a panel once from
                                                                      memory, and then from the near cache

Numbers, in the order of `topi.packed_blocks`, are bytes from 0 to 255 as the instruction takes them; what is subtracted
from them comes in by the sums of x. The epilogue is part of the last step.

Few and many rows add the same numbers in the same order, so a row of the result has the same bits beside any number of
other rows.

Not supported: weights as files have them (the compiler packs constant ones), and other formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ....ir import structural_equal
from ....prim import NE, And, IntImm, Or, PrimExpr, Var, const, is_const, simplify
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....target import Target
from ....te import create_prim_func, placeholder
from ....tir import (
    AssertStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
)
from ....tir.buffer import decl_buffer
from ....tir.nests import Nest, buffers_used, nest_of, root_of, with_root
from ....topi.block_formats import block_format
from ....topi.blocks import RULE, quantized_expert_matmul, quantized_matmul
from ....topi.indexing import as_int64
from ....topi.packed_blocks import PackedBlocks
from ...build import alloc, block, int64, let, loop, named, product_of, scratch, size_of, tasks
from ...matrix_product import MatrixProduct
from ...rule import PackedFunction, Refusal, ScheduleRule
from ...space import Space
from ..tile.division import Tile, blocks, groups
from .block_streams import BlockStreams
from .block_tiles import BlockTiles, Bytes, tile_shapes
from .block_words import Sums, Tables
from .column_panels import ColumnPanel
from .operands import Operands, Results, rewritten_products

FEW_ROWS: Final = 8
"""Most rows that read weights once, from registers: half of them on machines with 16 registers."""
GROUPS_OF_FEW: Final = 12
"""Most groups of few rows, a third of them on machines with 16 registers: each reads a panel once more, from the near
cache. (With 32 registers, 64 rows in eight groups take as long as in tiles if the weights are in the cache, and 15 %
less if they are in memory, since the next panel comes from there meanwhile.)
"""
WORD: Final = 32
"""Bits of a lane."""
ROWS_OF_A_GROUP: Final = 32
"""Fewest rows of a task with tiles: the weights of a panel become bytes for each task."""


DIFFERENT: Final = Refusal("the nests differ from the formula of a product of blocks")


@dataclass(frozen=True)
class BlockParameters:
    """Numbers that the loops of a product of blocks may choose."""

    tile: tuple[int, int] | None = None
    """Rows and vectors of a register tile; None: what is computed from the target's registers."""
    few: int | None = None
    """Most rows that read weights once; None: as many as registers allow, up to `FEW_ROWS`."""


@dataclass(frozen=True)
class _Found:
    """A product of blocks in a function."""

    name: str
    packed: PackedBlocks | None
    """Order of the weights; None for rows as files have them."""
    x: Buffer
    scales: BufferLoad
    weights: Buffer
    experts: Buffer | None
    """Expert of each row, whose matrix of the weights it is multiplied with; None for one matrix."""
    product: Nest
    inner: tuple[Nest, ...]
    """Nests of the sums of blocks, which the loops replace."""


class BlockProduct(ScheduleRule):
    """Schedule rule for products with weights of few bits, packed or constant."""

    parameters = BlockParameters()

    def space(self, target: Target) -> Space[BlockParameters]:
        """Return the shapes of register tiles, and the most rows that read weights once."""
        return Space(BlockParameters, {"tile": (None, *tile_shapes(target)), "few": (None, 1, 2, 4, 6, 8, 12)})

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        del tunable
        found = _found(func)
        if isinstance(found, Refusal):
            return found
        if found.packed is None:
            return Refusal("the weights are rows as files have them, and not constant")
        if found.packed.lanes * WORD > max(target.machine.vector_bits, 128):
            return Refusal(f"the weights are packed for vectors of {found.packed.lanes * WORD} bits")
        return self._written(func, found, found.packed, found.weights, target)

    def pack(self, func: PrimFunc, target: Target, constants: Sequence[int]) -> PackedFunction | Refusal:
        found = _found(func)
        if isinstance(found, Refusal):
            return found
        if found.packed is not None:
            return Refusal("the weights are packed", unrelated=True)
        position = next((i for i in constants if func.buffer_map.get(func.params[i]) is found.weights), None)
        if position is None:
            return Refusal("the weights are not constant")
        if found.experts is not None:
            return Refusal("the weights of experts are rows as files have them")
        if target.machine.vector_bits < 128:
            return Refusal("the target has no vectors")
        packed = packed_for(found.name, target)
        rows, size = found.weights.shape
        if not isinstance(rows, IntImm) or not isinstance(size, IntImm) or not rows.value:
            return Refusal("the sizes of the weights are not known")
        depth = size.value // packed.format.bytes * packed.format.elements
        panels = decl_buffer((packed.panels(rows.value), packed.words(depth)), "int32", f"{found.weights.name}_packed")
        arranged = self._written(func, found, packed, panels, target)
        if isinstance(arranged, Refusal):
            return arranged
        buffers = {**func.buffer_map, func.params[position]: panels}
        return PackedFunction(arranged.replace(buffer_map=buffers), {position: packed})

    def _written(
        self, func: PrimFunc, found: _Found, packed: PackedBlocks, weights: Buffer, target: Target
    ) -> PrimFunc | Refusal:
        """Return the function with loops in the place of the nests of the product and of its epilogue."""
        inner = [nest.stmt for nest in found.inner]
        kept = [stmt for stmt in root_of(func)[1] if not any(stmt is other for other in inner)]
        own = [*inner, found.product.stmt]
        if any(found.weights.data in used for stmt in kept for used in buffers_used(stmt) if stmt not in own):
            return Refusal("the weights have another reader")
        plain = with_root(func, kept, [nest.stores[0].buffer for nest in found.inner])
        product = _matrix_product(found)

        def product_of(nest: Nest) -> MatrixProduct | Refusal:
            is_found = nest.block is found.product.block
            return product if is_found else Refusal("another nest", unrelated=True)

        def write(operands: Operands) -> Stmt | Refusal:
            if operands.batch:
                return Refusal("the rows of the activations are not adjacent")
            writer = _Writer if found.experts is None else _WriterOfExperts
            return writer(found, packed, weights, operands, target, self.parameters).product()

        return rewritten_products(plain, write, product_of)


def packed_for(name: str, target: Target) -> PackedBlocks:
    """Return the order of the weights of a format for a target, which is resolved."""
    dots = target.machine.dot_products
    return PackedBlocks(name, target.machine.vector_bits // WORD, "s8s8" in dots and "u8s8" not in dots)


def _matrix_product(found: _Found) -> MatrixProduct:
    """Return the product of scales of the activations, (rows, blocks), and of what else a block contributes."""
    store = found.product.block.body
    assert isinstance(store, BufferStore)
    *rows, column, block_of = found.product.block.iter_vars
    start = const(0.0, "float32")
    others = decl_buffer([size_of(block_of), size_of(column)], "float32", "blocks_of_weights")
    return MatrixProduct(
        out=store.replace(value=start), start=start, lhs=found.scales,
        rhs=BufferLoad(others, (block_of.var, column.var)), batch=(), rows=tuple(rows), columns=(column,),
        depth=block_of, sum_dtype=store.buffer.dtype,
    )  # fmt: skip


def _found(func: PrimFunc) -> _Found | Refusal:
    """Return the product of a function whose nests are those of the formula."""
    nests = [nest_of(stmt) for stmt in root_of(func)[1]]
    first = next((i for i, nest in enumerate(nests) if nest is not None and RULE in nest.block.annotations), None)
    if first is None:
        return Refusal("no nest sums products of blocks", unrelated=True)
    sums = nests[first]
    assert sums is not None
    name, lanes, signed = str(sums.block.annotations[RULE]).split()
    held = block_format(name)
    count = 2 if held is None or held.minimum is None else 3
    own = [nest for nest in nests[first : first + count] if nest is not None]
    read = {load.buffer for load in sums.loads()}
    stored = "int32" if int(lanes) else "uint8"
    weights = next((buffer for buffer in read if buffer.dtype == stored and len(buffer.shape) > 1), None)
    has_experts = weights is not None and len(weights.shape) == 3
    experts = next((buffer for buffer in read if len(buffer.shape) == 1), None) if has_experts else None
    x = next((buffer for buffer in read if buffer.dtype == "int8" and buffer is not experts), None)
    scales = [load for load in own[-1].loads() if load.buffer.dtype == "float32"]
    if held is None or len(own) < count or x is None or weights is None or len(scales) != 1:
        return DIFFERENT
    columns, blocks_of = (size_of(v) for v in own[-1].block.iter_vars[-2:])
    if not isinstance(columns, IntImm) or not isinstance(blocks_of, IntImm):
        return Refusal("the sizes of the weights are not known")
    if experts is not None and not blocks_of.value:
        return Refusal("experts have no weights")
    tensors = [placeholder(b.shape, str(b.dtype), b.name) for b in (x, scales[0].buffer, weights)]
    data, of_data, rows = tensors
    order = name, int(lanes), bool(int(signed)), columns.value if int(lanes) else 0
    if experts is None:
        formula = quantized_matmul(data, of_data, rows, *order)
    else:
        tensors.append(placeholder(experts.shape, str(experts.dtype), experts.name))
        formula = quantized_expert_matmul(data, of_data, rows, tensors[3], *order)
    expected = create_prim_func([*tensors, formula])
    stmts = tuple(nest.stmt for nest in own)
    if not structural_equal(SeqStmt(stmts), SeqStmt(root_of(expected)[1]), map_free_vars=True):
        return DIFFERENT
    packed = PackedBlocks(name, int(lanes), bool(int(signed))) if int(lanes) else None
    *inner, product = own
    return _Found(name, packed, x, scales[0], weights, experts, product, tuple(inner))


class _Writer:
    """Writes the loops of one product."""

    def __init__(
        self, found: _Found, packed: PackedBlocks, weights: Buffer, operands: Operands, target: Target,
        parameters: BlockParameters,
    ) -> None:  # fmt: skip
        self.packed, self.operands, self.weights, self.experts = packed, operands, weights, found.experts
        columns, blocks_of = operands.columns, operands.depth
        assert isinstance(columns, IntImm)
        assert isinstance(blocks_of, IntImm)
        self.rows, self.columns, self.blocks = operands.rows, columns, blocks_of
        depth = blocks_of.value * packed.format.elements
        self.shape = parameters.tile or tile_shapes(target)[0]
        registers = target.machine.vector_registers
        few, groups = (FEW_ROWS, GROUPS_OF_FEW) if registers >= 32 else (FEW_ROWS // 2, GROUPS_OF_FEW // 3)
        self.few = parameters.few or few
        self.streamed = self.few * groups
        self.cores = target.num_cores
        self.tiles, self.streams = BlockTiles(packed, target), BlockStreams(packed, target)
        self.x = decl_buffer([self.rows, depth], "int8", "x_rows", data=found.x.data)
        self.scales = decl_buffer([self.rows, self.blocks], "float32", "scales_of_x", data=found.scales.buffer.data)

    def product(self) -> Stmt:
        """Return the tables of the sums of x, then the tasks."""

        inner = self.tiles.with_tables(self.x, self.scales, self._tasks)
        return self.operands.declared(DeclBuffer(self.x, DeclBuffer(self.scales, inner)))

    def _tasks(self, tables: Tables) -> Stmt:
        """Return the tasks: those of few rows, or of many."""
        if isinstance(self.rows, IntImm):
            return self._few(tables) if self.rows.value <= self.streamed else self._many(tables)
        return IfThenElse(self.rows <= self.streamed, self._few(tables), self._many(tables))

    def _panel(self, first: PrimExpr, vectors: int) -> ColumnPanel:
        lanes = self.packed.lanes
        start = simplify(first * lanes)
        if is_const(simplify(floormod(self.columns, lanes * vectors)), 0):
            return ColumnPanel({}, start, None, vectors)
        return ColumnPanel({}, start, simplify(minimum(int64(lanes * vectors), self.columns - start)), vectors)

    def _few(self, tables: Tables) -> Stmt:
        """Return the tasks of few rows: a panel each, which stays in the near cache if there are several groups."""
        panels = simplify(ceildiv(self.columns, self.packed.lanes))
        return tasks("task", ["panel"], [panels], lambda parts: self._streamed(
            tables, self.weights, parts[0], int64(0), self.rows))  # fmt: skip

    def _streamed(self, tables: Tables, weights: Buffer, panel: PrimExpr, start: PrimExpr, count: PrimExpr) -> Stmt:
        """Return the products of a panel and `count` rows from row `start` on, in groups of few rows."""
        whole = simplify(floordiv(count, self.few))
        left = simplify(count - whole * self.few)

        def group(first: PrimExpr, rows: int) -> Stmt:
            def sums(held: Sums) -> Stmt:
                return self._results(held, self._panel(panel, 1), first)

            return self.streams.streamed(tables, weights, panel, first, rows, sums)

        begin = simplify(start + whole * self.few)
        if isinstance(left, IntImm):
            rest = group(begin, left.value) if left.value else block([])
        else:
            rest = block(IfThenElse(left.equal(rows), group(begin, rows)) for rows in range(1, self.few))
        return block([loop("io", whole, lambda io: group(simplify(start + io * self.few), self.few)), rest])

    def _many(self, tables: Tables) -> Stmt:
        """Return the tasks of many rows: some panels and a group of rows each."""
        height, most = self.shape
        count = self.packed.panels(self.columns.value)
        vectors = -(-count // -(-count // most))
        panels = -(-count // vectors)
        tiles = simplify(ceildiv(self.rows, height))
        number = groups(tiles, int64(panels), max(ROWS_OF_A_GROUP // height, 1), self.cores)

        def with_number(number: PrimExpr) -> Stmt:
            def task(parts: list[PrimExpr]) -> Stmt:
                first = simplify(parts[0] * vectors)
                return self.tiles.unpacked(
                    self.weights, first, vectors, self.blocks.value, count,
                    lambda bytes_: self._rows_of(tables, bytes_, first, vectors, parts[1], number),
                )  # fmt: skip

            return tasks("task", ["panel", "group"], [int64(panels), number], task)

        return named("groups", number, with_number)

    def _rows_of(
        self, tables: Tables, panel: Bytes, first: PrimExpr, vectors: int, group: PrimExpr, number: PrimExpr
    ) -> Stmt:
        """Return the tiles of a group of rows."""
        height = self.shape[0]

        def tile(start: PrimExpr, rows: int) -> Stmt:
            def stored(held: Sums) -> Stmt:
                return self._results(held, self._panel(first, vectors), start)

            return self.tiles.tile(tables, panel, start, rows, stored)

        if isinstance(self.rows, IntImm) and is_const(number, 1):
            return block(
                loop("io", piece.count, lambda io, piece=piece: tile(
                    simplify(piece.start + io * piece.size), piece.size))
                for piece in blocks(self.rows.value, Tile(height, self.shape[1], self.packed.lanes))
            )  # fmt: skip
        whole = simplify(floordiv(self.rows, height))
        left = simplify(self.rows - whole * height)

        def tail(start: PrimExpr) -> Stmt:
            if isinstance(left, IntImm):
                return tile(start, left.value) if left.value else block([])
            stmts: list[Stmt] = []
            size = 1 << (height - 1).bit_length() - 1
            while size:
                rest = floormod(left, 2 * size)
                stmts.append(IfThenElse(rest >= size, tile(start, size)))
                start = simplify(start + floordiv(rest, size) * size)
                size //= 2
            return block(stmts)

        def tiles(begin: PrimExpr, end: PrimExpr) -> Stmt:
            full = loop("io", simplify(end - begin), lambda io: tile(simplify((begin + io) * height), height))
            behind = tail(simplify(whole * height))
            return block([full, behind if is_const(number, 1) else IfThenElse(group.equal(number - 1), behind)])

        if is_const(number, 1):
            return tiles(int64(0), whole)
        share = simplify(floordiv(whole + (number - 1), number))
        return let("share", share, lambda share: let("begin", minimum(group * share, whole), lambda begin: let(
            "end", minimum(begin + share, whole), lambda end: tiles(begin, end))))  # fmt: skip

    def _results(self, sums: Sums, panel: ColumnPanel, first: PrimExpr) -> Stmt:
        """Apply the epilogue to the sums of a tile and store the columns inside the matrix."""
        width = int64(panel.vectors * self.packed.lanes)
        at = {self.operands.row: first, self.operands.column: panel.start}
        result = Results(self.operands, at, int64(sums.rows), width if panel.inside is None else panel.inside)
        return result.declared(sums.stored(result, panel))


class _WriterOfExperts(_Writer):
    """Writes the loops of a product of rows and the weights of their experts."""

    def _tasks(self, tables: Tables) -> Stmt:
        """Return the loop that finds the runs of rows of one expert, then the tasks: a run and a panel each."""
        panels = int64(self.packed.panels(self.columns.value))
        return scratch("runs", (self.rows + 1,), "int64", lambda runs: alloc("number", (1,), "int64", "local",
            lambda number: block([
                self._found_runs(runs, number),
                let("runs_found", _at(number, 0), lambda count: tasks("task", ["run", "panel"], [count, panels],
                    lambda parts: self._run(tables, runs, parts))),
            ])))  # fmt: skip

    def _found_runs(self, runs: Buffer, number: Buffer) -> Stmt:
        """Store the first row of each run, and the number of rows behind the last."""
        count = _at(number, 0)

        def row(i: Var) -> Stmt:
            is_first = Or(i.equal(0), NE(self._expert(i), self._expert(maximum(i - 1, int64(0)))))
            return IfThenElse(is_first, block([
                BufferStore(runs, i, (count,)), BufferStore(number, count + 1, (int64(0),))]))  # fmt: skip

        begun = BufferStore(number, int64(0), (int64(0),))
        return block([begun, loop("i", self.rows, row), BufferStore(runs, self.rows, (count,))])

    def _expert(self, row: PrimExpr) -> PrimExpr:
        assert self.experts is not None
        return as_int64(BufferLoad(self.experts, (row,)))

    def _run(self, tables: Tables, runs: Buffer, parts: list[PrimExpr]) -> Stmt:
        """Return the products of a run and a panel of its expert, which is an error if there is none."""
        run, panel = parts
        experts, *panels = self.weights.shape

        def of_expert(begin: Var, end: Var, expert: Var) -> Stmt:
            # The read checks the expert once; reads of vectors, from a view of its panels, need no check.
            checked = Evaluate(BufferLoad(self.weights, (expert, int64(0), int64(0))))
            inside = maximum(minimum(expert, int64(experts) - 1), int64(0))
            start = inside * product_of(map(int64, panels))
            view = decl_buffer(panels, "int32", "panels", data=self.weights.data, elem_offset=start)
            streamed = self._streamed(tables, view, panel, begin, simplify(end - begin))
            return block([checked, DeclBuffer(view, streamed)])

        return let("begin", _at(runs, run), lambda begin: let("end", _at(runs, run + 1), lambda end: AssertStmt(
            And(And(begin >= 0, begin < end), end <= self.rows), "a run is of rows that there are",
            let("expert", self._expert(begin), lambda expert: of_expert(begin, end, expert)))))  # fmt: skip


def _at(buffer: Buffer, index: PrimExpr | int) -> PrimExpr:
    return BufferLoad(buffer, (int64(index),))


__all__ = ["BlockParameters", "BlockProduct", "packed_for"]
