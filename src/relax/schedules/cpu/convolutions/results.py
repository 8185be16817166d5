"""Results of a convolution with the epilogue of the following statement in the same function.

C[n, co, h, w] = …                                          E[n, co, h, w] = max(… + bias[co], 0)
for n, co, h, w in T.grid(…):                       gives
    E[n, co, h, w] = max(C[n, co, h, w] + bias[co], 0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....prim import And, PrimExpr, Var, const
from ....prim.intrin import floordiv
from ....prim.intrin import max as maximum
from ....prim.intrin import min as minimum
from ....tir import Buffer, BufferLoad, BufferStore, ForKind, IfThenElse, Stmt
from ....tir.functor import StmtExprMutator, substitute
from ....tir.statements import seq_of
from ...build import let, loop, scratch
from ...common_parts import CommonParts
from .windows import Kernel


class Results:
    """Stores of a convolution's results, with the kernel's epilogue applied."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.windows = kernel.windows
        self.store = kernel.windows.out
        self._sum = self.store.buffer
        if kernel.epilogue is not None:
            self.store = kernel.epilogue.stores[0]
        self._epilogue = kernel.epilogue
        self._table: tuple[Buffer, list[Var]] | None = None
        """Table of the values computed per channel of a block, and the names that stand for them."""

    def put(self, place: Sequence[PrimExpr], value: PrimExpr) -> Stmt:
        """Store the element at `place` whose accumulator is `value`."""
        if self._epilogue is None:
            return BufferStore(self.store.buffer, value, tuple(place))
        at = _values(self.store.indices, place)
        changed = substitute(_Replaced(self._sum, value).visit(self.store.value), at)
        return BufferStore(self.store.buffer, changed, tuple(place))

    def of_channel(self, place: Sequence[PrimExpr]) -> tuple[Results, list[tuple[Var, PrimExpr]]]:
        """Return the results at leading indices `place`, and (name, value) of the subexpressions these indices
        determine.

        Biases and scales of a channel are such values, computed once per channel instead of per element.
        """
        names: list[tuple[Var, PrimExpr]] = []
        if self._epilogue is None:
            return self, names
        variables = [index for index in self.store.indices if isinstance(index, Var)]
        at = _values(self.store.indices, place)
        common = CommonParts([var for var in variables if var not in at], self._sum)
        results = Results(self._kernel)
        results.store = self.store.replace(value=common.visit(self.store.value))
        names += [(var, substitute(value, at)) for var, value in common.values]
        return results, names

    def of_block(self, channel: PrimExpr, lanes: int, outputs: int, body: Callable[[Results], Stmt]) -> Stmt:
        """Call `body` with the results of a block of channels, whose per-channel values are computed beforehand.

        `channel` is the first channel of the block, of `outputs` channels in all; channels past the last one are
        clamped to it.
        """
        if self._epilogue is None:
            return body(self)
        index = self.store.indices[len(self.windows.batch)]
        others = [var for var in self.store.indices if isinstance(var, Var) and var is not index]
        common = CommonParts(others, self._sum)
        value, dtype = common.visit(self.store.value), str(self._sum.dtype)
        if not isinstance(index, Var) or not common.values or any(var.dtype != dtype for var, _ in common.values):
            return body(self)

        def row(table: Buffer, p: Var) -> Stmt:
            place = _values([index], [minimum(channel + p, const(outputs - 1, "int64"))])
            return seq_of([
                BufferStore(table, substitute(part, place), (const(i, "int64"), p))
                for i, (_, part) in enumerate(common.values)
            ])  # fmt: skip

        def results(table: Buffer) -> Results:
            results = Results(self._kernel)
            results.store, results._table = (
                self.store.replace(value=value),
                (table, [var for var, _ in common.values]),
            )
            return results

        return scratch("of_channels", (len(common.values), lanes), dtype, lambda table: seq_of([
            loop("p", lanes, lambda p: row(table, p), ForKind.VECTORIZED), body(results(table))]))  # fmt: skip

    def of_lane(self, p: PrimExpr) -> Results:
        """Results of channel `p` of the block."""
        if self._table is None:
            return self
        table, names = self._table
        values = {var: BufferLoad(table, (const(i, "int64"), p)) for i, var in enumerate(names)}
        results = Results(self._kernel)
        results.store = self.store.replace(value=substitute(self.store.value, values))
        return results

    def vector(
        self,
        leading: Sequence[PrimExpr],
        first: PrimExpr,
        lanes: int,
        element: Callable[[Var], PrimExpr],
        end: PrimExpr | None = None,
        is_whole: bool = False,
    ) -> Stmt:
        """Store the pixels along the last axis from `first` on, masked unless `is_whole`.

        `element` returns the accumulator of a lane. With `end`, only pixels before it are stored.
        """
        if is_whole:
            return loop("lane", lanes, lambda lane: self.put(
                (*leading, first + lane), element(lane)), ForKind.VECTORIZED)  # fmt: skip
        size = self.windows.axes[-1].size
        return self._pixels(lambda x: (*leading, x), size, first, lanes, element, end)

    def vector_of_line(
        self, channel: Sequence[PrimExpr], line: PrimExpr, first: PrimExpr, lanes: int,
        element: Callable[[Var], PrimExpr], end: PrimExpr,
    ) -> Stmt:  # fmt: skip
        """Store those pixels of a row (`Windows.lines`) of a channel that precede `end`."""
        windows = self.windows
        size = windows.lines[1].size
        return self._pixels(lambda x: windows.pixel(channel, line, x), size, first, lanes, element, end)

    def _pixels(
        self, place: Callable[[PrimExpr], Sequence[PrimExpr]], size: PrimExpr, first: PrimExpr, lanes: int,
        element: Callable[[Var], PrimExpr], end: PrimExpr | None,
    ) -> Stmt:  # fmt: skip
        def one(lane: Var) -> Stmt:
            x = first + lane
            inside = And(x >= 0, x < size)
            inside = inside if end is None else And(inside, x < end)
            return IfThenElse(inside, self.put(place(x), element(lane)))

        return loop("lane", lanes, one, ForKind.VECTORIZED)


def vectors_of_line(begin: Var, size: PrimExpr, lanes: int, count: int, body: Callable[[Var], Stmt]) -> Stmt:
    """Return `body(first element)` for those of `count` vectors that contain pixels of a row.

    Element `c` of the vectors is pixel ``begin + c`` of a row of `size` pixels.
    """
    nothing = const(0, "int64")
    low = floordiv(maximum(0 - begin, nothing), lanes)
    high = minimum(floordiv(maximum(size - begin, nothing) + (lanes - 1), lanes), const(count, "int64"))
    return let("low", low, lambda low: loop("v", high - low, lambda v: let(
        "c", minimum(low + v, const(count - 1, "int64")) * lanes, body)))  # fmt: skip


def _values(indices: Sequence[PrimExpr], place: Sequence[PrimExpr]) -> dict[Var, PrimExpr]:
    """Return the values of the first index variables at a place, in their dtypes."""
    pairs = zip(indices, place, strict=False)
    return {index: at.astype(str(index.dtype)) for index, at in pairs if isinstance(index, Var)}


class _Replaced(StmtExprMutator):
    """Replaces loads of one buffer by a value."""

    def __init__(self, buffer: Buffer, value: PrimExpr) -> None:
        super().__init__()
        self.buffer, self.value = buffer, value

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        return self.value if node.buffer is self.buffer else self.visit_children(node)
