"""Statements in lockstep: the iterations of a loop run together, one statement at a time for all of them.

    for i, j in T.grid(70, 130):              i and j become axes of arrays:
        for k in range(90):                   90 steps, in order,
            C[i, j] += A[i, k] * B[k, j]      each one product and one sum of arrays of 130 x 70

Each iteration performs the same operations in the same order as in sequential execution, so results are bit-identical,
provided that no iteration accesses elements that another one writes, which `relax.tir.lockstep.memory` checks. Errors
must be those of the first failing iteration. A statement therefore runs on trial: `_Trial` undoes its writes if
iterations depend on each other (the loop then runs in order), or if an operation fails (the statement then runs one
step at a time, which raises the right error, if any).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ...prim import Let, PrimExpr, Var, post_order
from ...prim.traits import may_fail
from ..buffer import Buffer, BufferLoad, IterVar, element_count
from ..empty_reductions import reduces, reductions
from ..evaluation import View, garbage
from ..stmt import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
    While,
)
from .expressions import Expressions, Value, active_lanes, constant, owned, require
from .memory import LARGEST, BufferView, Conflict, Level, Lockstep, Memory
from .values import Array, Decline, Unsupported, held_dtype, is_array, numpy, whole_dtype

Run: TypeAlias = Callable[[Lockstep], None]

FEWEST: Final = 4
"""Least number of iterations of a lockstep loop; fewer run faster in order."""
FEWEST_AT_FIRST: Final = 8
"""Least number of iterations of an outermost lockstep loop."""
MOST: Final = 1 << 15
"""Largest number of iterations of all lockstep loops around a statement; a longer loop runs in chunks."""


class Statements(Expressions):
    """Compile statements to closures. Raises Unsupported for effects other than memory accesses."""

    def __init__(self, reverse: bool) -> None:
        super().__init__()
        self.reverse = reverse
        self.sequential: set[For] = set()
        """Loops that run in order: they contain a store that writes the same element in all iterations."""
        self.written: set[Var] = set()
        """Data variables of written buffers."""
        self.outside: set[Var] = set()
        """Data variables of memory allocated outside of the statement."""
        self._loops: list[For] = []
        self._origins: dict[Var, frozenset[Var]] = {}
        """Loop variables that each variable depends on."""
        self._depths: dict[Var, int] = {}
        """Number of loops around the allocation of each data variable."""
        self._sources: dict[Var, Var] = {}
        """Data variable that the data variable of a matched buffer aliases."""

    def stmt(self, stmt: Stmt) -> Run:
        """Compile a statement."""
        match stmt:
            case SeqStmt(seq):
                return _sequence([self.stmt(child) for child in seq])
            case BufferStore():
                return self.store(stmt)
            case For():
                return self.loop(stmt)
            case BlockRealize():
                return self.block(stmt)
            case IfThenElse(condition, then_case, else_case):
                other = None if else_case is None else self.stmt(else_case)
                return _branch(self.expr(condition), self.stmt(then_case), other)
            case LetStmt(var, value, body):
                self.depends(var, value)
                return _let(var, self.expr(value), self.stmt(body))
            case While(condition, body):
                return _while(self.expr(condition), self.stmt(body))
            case AssertStmt(condition, _, body):
                return _checked(self.expr(condition), self.stmt(body))
            case AllocBuffer(buffer, body):
                return _sequence([self.allocation(buffer), self.stmt(body)])
            case DeclBuffer(buffer, body):
                return _sequence([self.declaration(buffer), self.stmt(body)])
            case AttrStmt(IterVar() as thread, "thread_extent", extent, body):
                return _threads(thread.var, self.expr(extent), self.stmt(body))
            case AttrStmt(_, _, _, body):
                return self.stmt(body)
            case Evaluate(value):
                return self.evaluated(self.expr(value))
            case _:
                raise Unsupported(type(stmt).__name__)

    def evaluated(self, value: Value) -> Run:
        def run(run: Lockstep) -> None:
            value(run)

        return run

    # ------------------------------------------------------------------ dependence

    def depends(self, var: Var, *values: PrimExpr) -> None:
        """Record the loop variables on which the values of `var` depend."""
        self._origins[var] = self.origins(values)

    def origins(self, values: Iterable[PrimExpr]) -> frozenset[Var]:
        """Return the loop variables that expressions depend on."""
        variables: set[Var] = set()

        def visit(node: PrimExpr) -> None:
            if isinstance(node, Var):
                variables.update(self._origins.get(node, ()))
            elif isinstance(node, Let):
                self.depends(node.var, node.value)

        for value in values:
            post_order(value, visit)
        return frozenset(variables)

    def touches(self, buffer: Buffer) -> Var:
        """Return the data variable that owns a buffer's memory; recorded in `outside` if allocated outside."""
        data = buffer.data
        while data in self._sources:
            data = self._sources[data]
        if data not in self._depths:
            self.outside.add(data)
        return data

    def writes(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> None:
        """Record a store: enclosing loops whose iterations all write the same elements must run in order."""
        data = self.touches(buffer)
        self.written.add(data)
        moving = self.origins(indices) | self._origins.get(buffer.data, frozenset())
        for loop in self._loops[self._depths.get(data, 0) :]:
            if loop.loop_var not in moving:
                self.sequential.add(loop)

    def load(self, expr: BufferLoad) -> Value:
        self.touches(expr.buffer)
        return super().load(expr)

    # ------------------------------------------------------------------ statements

    def store(self, stmt: BufferStore) -> Run:
        buffer, lanes = stmt.buffer, stmt.indices[-1].dtype.lanes if stmt.indices else 1
        held_dtype(buffer.dtype)
        if lanes > 1 and buffer.dtype.lanes > 1:
            raise Unsupported("vectors of vectors")
        self.writes(buffer, stmt.indices)
        value = self.expr(stmt.value)
        if stmt.predicate is None:
            indices, row = self.subscripts(stmt.indices)

            def plain(run: Lockstep) -> None:
                view = run.places.get(buffer) or run.place(buffer)
                where = [index(run) for index in indices]
                result = value(run)
                if row is not None:
                    section = row.part(run, view, where)
                    if section is not None:
                        view.data[section] = result
                        return
                run.store(stmt, view, where, lanes, run.mask, result, row)

            return plain
        indices, predicate = [self.expr(index) for index in stmt.indices], self.expr(stmt.predicate)

        def masked(run: Lockstep) -> None:
            view = run.places.get(buffer) or run.place(buffer)
            where = [index(run) for index in indices]
            result = value(run)
            active = active_lanes(predicate(run), run)
            if active.any():
                run.store(stmt, view, where, lanes, active, result)

        return masked

    # ------------------------------------------------------------------ loops

    def loop(self, stmt: For) -> Run:
        low, extent = self.expr(stmt.min), self.expr(stmt.extent)
        var, dtype = stmt.loop_var, stmt.loop_var.dtype
        self._origins[var] = self.origins([stmt.min]) | {var}
        self._loops.append(stmt)
        body = self.stmt(stmt.body)
        self._loops.pop()
        held, most = whole_dtype(dtype), int(dtype.max_value)
        backwards = self.reverse and stmt.kind in (ForKind.PARALLEL, ForKind.VECTORIZED)
        starts = any(reduces(stmt, realize) for realize in reductions(stmt.body))
        reads = may_fail(stmt.extent)

        def run(run: Lockstep) -> None:
            if reads:
                run.settle()
            first, count = low(run), extent(run)
            if is_array(first) or is_array(count):
                if backwards or starts:
                    raise Decline
                _uneven(run, stmt, first, count, body)
                return
            if count <= 0:
                if starts:
                    raise Decline
                return
            if first + count - 1 > most:
                raise Decline
            steps = range(first, first + count)
            if backwards:
                steps = steps[::-1]
            most_at_once = MOST // run.size
            fewest = FEWEST if run.axes else FEWEST_AT_FIRST
            if min(count, most_at_once) >= fewest and stmt not in run.sequential:
                for at in range(0, count, most_at_once):
                    _together(run, stmt, np.array(steps[at : at + most_at_once], held), body)
                return
            for i in steps:
                run.env[var] = i
                body(run)

        return run

    # ------------------------------------------------------------------ blocks

    def block(self, stmt: BlockRealize) -> Run:
        block = stmt.block
        variables = [iter_var.var for iter_var in block.iter_vars]
        for var, value in zip(variables, stmt.iter_values, strict=True):
            self.depends(var, value)
        values, predicate = [self.expr(value) for value in stmt.iter_values], self.expr(stmt.predicate)
        inside = self.domain(block)
        storage = _sequence(
            [self.allocation(buffer) for buffer in block.alloc_buffers]
            + [self.match(match) for match in block.match_buffers]
        )
        init = None if block.init is None else _branch(self.starts(block), self.stmt(block.init), None)
        body = self.stmt(block.body)

        def execute(run: Lockstep) -> None:
            inside(run)
            storage(run)
            if init is not None:
                init(run)
            body(run)

        where = _branch(predicate, execute, None)

        def run(run: Lockstep) -> None:
            run.env.update(zip(variables, [value(run) for value in values], strict=True))
            where(run)

        return run

    def starts(self, block: Block) -> Value:
        """Compile the condition that every reduction variable of a block is at its start."""
        lows = [(v.var, self.expr(v.dom.min)) for v in block.iter_vars if v.iter_type == "reduce" and v.dom is not None]

        def run(run: Lockstep) -> Any:
            result: Any = True
            for var, low in lows:
                result = result & (run.env[var] == low(run))
            return result

        return run

    def domain(self, block: Block) -> Run:
        """Compile a check that raises Decline if a variable of the block is outside of its domain."""
        limits = [
            (iter_var.var, self.expr(iter_var.dom.min), self.expr(iter_var.dom.extent))
            for iter_var in block.iter_vars
            if iter_var.dom is not None
        ]

        def run(run: Lockstep) -> None:
            for var, start, count in limits:
                value, low, extent = run.env[var], start(run), count(run)
                if is_array(low) or is_array(extent):
                    raise Decline
                if not is_array(value):
                    if not low <= value < low + extent:
                        raise Decline
                elif value.min() < low or value.max() >= low + extent:
                    require((value >= low) & (value < low + extent), run)

        return run

    # ------------------------------------------------------------------ storage

    def layout(self, buffer: Buffer) -> Callable[[Lockstep, Memory, Any, int], BufferView]:
        """The place of a buffer in memory, of which each iteration has `count` elements from `base` on."""
        shape, strides = self.sizes(buffer.shape), self.sizes(buffer.strides)
        start = constant(0) if buffer.elem_offset is None else self.expr(buffer.elem_offset)

        def make_view(run: Lockstep, memory: Memory, base: Any, count: int) -> BufferView:
            view = View(buffer.name, buffer.dtype, memory.array, shape(run), strides(run) or None, 0)
            offset, lanes = start(run), view.lanes
            if memory.array.dtype != view.memory.dtype:
                if is_array(base):
                    raise Decline
                count = len(view.memory)
            if lanes > 1 and np.any(base % lanes):
                raise Decline
            if min(view.shape, default=1) < 0:
                raise Decline
            if 0 not in view.shape:
                steps = [(size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True)]
                low, high = sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps)
                require((offset >= -low) & ((offset + high + 1) * lanes <= count), run)
                offset = _valid(offset, -low, run)
            return BufferView(memory, view.memory, buffer.dtype, view.shape, view.strides, base // lanes + offset)

        return make_view

    def sizes(self, sizes: Any) -> Callable[[Lockstep], list[int]]:
        """Compile sizes, which must be equal in all iterations.

        The closure raises Decline for sizes that differ, and OverflowError beyond 64 bits.
        """
        with self.exactly():
            values = [self.expr(size) for size in sizes]

        def run(run: Lockstep) -> list[int]:
            result = [value(run) for value in values]
            if any(map(is_array, result)):
                raise Decline
            return result

        return run

    def allocation(self, buffer: Buffer) -> Run:
        self._depths[buffer.data] = len(self._loops)
        layout = self.layout(buffer)
        counted: PrimExpr = buffer.shape[0] * buffer.strides[0] if buffer.strides else element_count(buffer)
        shape, total = self.sizes(buffer.shape), self.sizes([counted])

        def run(run: Lockstep) -> None:
            (count,) = total(run)
            if min(shape(run), default=0) < 0:
                raise Decline
            count = max(count, 0) * buffer.dtype.lanes
            if run.levels and count * run.size > LARGEST:
                raise Conflict(run.levels[-1].loop)
            memory = Memory(garbage(buffer.dtype, count * run.size), len(run.levels), True)
            base = numpy.arange(run.size).reshape(*run.axes, 1) * count if run.axes else 0
            run.memories[buffer.data], run.bases[buffer.data] = memory, (base, count)
            run.put(buffer, layout(run, memory, base, count))

        return run

    def declaration(self, buffer: Buffer) -> Run:
        self.touches(buffer)
        layout = self.layout(buffer)

        def run(run: Lockstep) -> None:
            memory = run.memories[buffer.data]
            base, count = run.bases.get(buffer.data, (0, len(memory.array)))
            run.put(buffer, layout(run, memory, base, count))

        return run

    def match(self, match: MatchBufferRegion) -> Run:
        buffer, region = match.buffer, match.source
        corners, sizes = ([self.expr(r.min) for r in region.region], self.sizes([r.extent for r in region.region]))
        self._sources[buffer.data] = self.touches(region.buffer)
        self.depends(buffer.data, *(r.min for r in region.region))
        self._origins[buffer.data] |= self._origins.get(region.buffer.data, frozenset())
        bound = [*buffer.strides, *([] if buffer.elem_offset is None else [buffer.elem_offset])]
        for name in bound:
            if isinstance(name, Var):
                self._origins[name] = self._origins[buffer.data]
        shape = self.sizes(buffer.shape)

        def run(run: Lockstep) -> None:
            source = run.places.get(region.buffer) or run.place(region.buffer)
            firsts, extents = [_valid(corner(run), 0, run) for corner in corners], sizes(run)
            start = source.position(firsts, run.mask)
            for first, extent, size in zip(firsts, extents, source.shape, strict=True):
                require(first + extent <= size, run)
            skipped = len(extents) - len(buffer.shape)
            strides, extents = source.strides[skipped:], extents[skipped:]
            bound = [*zip(buffer.shape, extents, strict=True), *zip(buffer.strides, strides, strict=False)]
            base, count = run.bases.get(region.buffer.data, (0, 0))
            for name, value in [*bound, (buffer.elem_offset, start - base // source.lanes)]:
                if isinstance(name, Var):
                    run.env[name] = value
            if shape(run) != extents or buffer.dtype != source.dtype:
                raise Decline
            run.memories[buffer.data] = source.memory
            if count:
                run.bases[buffer.data] = base, count
            run.put(buffer, BufferView(source.memory, source.data, buffer.dtype, extents, strides, start))

        return run


# ---------------------------------------------------------------------------------------------- pieces


def _sequence(steps: list[Run]) -> Run:
    if len(steps) == 1:
        return steps[0]

    def run(run: Lockstep) -> None:
        for step in steps:
            step(run)

    return run


def _branch(condition: Value, yes: Run, no: Run | None) -> Run:
    """Run one of two statements, or each of them in the iterations that take it."""

    def run(run: Lockstep) -> None:
        where = condition(run)
        if not is_array(where):
            if where:
                yes(run)
            elif no is not None:
                no(run)
            return
        mask = run.mask
        _where(run, where, mask, yes)
        if no is not None:
            _where(run, ~where, mask, no)
        run.mask = mask

    return run


def _where(run: Lockstep, where: Array, mask: Array | None, body: Run) -> None:
    """Run a statement in the iterations of `mask` for which `where` holds, if there are any."""
    inside = where if mask is None else where & mask
    if inside.all():
        body(run)
    elif inside.any():
        run.mask = inside
        body(run)
        run.mask = mask


def _valid(value: Any, other: int, run: Lockstep) -> Any:
    """Replace the values of inactive iterations by `other`, as they may be arbitrary."""
    return numpy.where(run.mask, value, other) if is_array(value) and run.mask is not None else value


def _let(var: Var, value: Value, body: Run) -> Run:
    def run(run: Lockstep) -> None:
        run.env[var] = owned(value(run))
        body(run)

    return run


def _while(condition: Value, body: Run) -> Run:
    def run(run: Lockstep) -> None:
        while True:
            run.settle()
            holds = condition(run)
            if is_array(holds):
                raise Decline
            if not holds:
                return
            body(run)

    return run


def _checked(condition: Value, body: Run) -> Run:
    def run(run: Lockstep) -> None:
        require(condition(run), run)
        body(run)

    return run


def _together(run: Lockstep, loop: For, numbers: Array, body: Run) -> None:
    """Run iterations of a loop in lockstep; `numbers` are the values of the loop variable."""
    count, axes, size, levels = len(numbers), run.axes, run.size, run.levels
    column = (count,) + (1,) * (len(axes) + 1)
    start = run.clock
    run.clock += count
    run.levels = (*levels, Level(loop, start, numpy.arange(start, start + count).reshape(column)))
    run.axes, run.size = (count, *axes), size * count
    run.env[loop.loop_var] = numbers.reshape(column)
    body(run)
    run.levels[-1].settle(last=True)
    run.axes, run.size, run.levels = axes, size, levels


def _uneven(run: Lockstep, loop: For, first: Any, count: Any, body: Run) -> None:
    """Run a loop whose bounds differ between the outer iterations, in order; each step runs where it is within the
    bounds.
    """
    mask = run.mask
    held, most = held_dtype(loop.loop_var.dtype), int(loop.loop_var.dtype.max_value)
    lows, counts = (numpy.asarray(value, np.int64) for value in (first, count))
    if not is_array(first):
        lows = lows.reshape(1)
    require((counts <= 0) | (lows + counts - 1 <= most), run)
    for step in range(int(counts.max())):
        run.env[loop.loop_var] = (lows + step).astype(held)
        _where(run, counts > step, mask, body)


def _threads(var: Var, extent: Value, body: Run) -> Run:
    def run(run: Lockstep) -> None:
        count = extent(run)
        if is_array(count):
            raise Decline
        for i in range(count):
            run.env[var] = i
            body(run)

    return run
