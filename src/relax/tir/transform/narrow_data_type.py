"""Narrow the integer dtype of indices whose values fit.

    for i in range(T.int64(16)):                        for i in range(16):
        for j in range(T.int64(8)):                         for j in range(8):
            A[i * T.int64(8) + j] = x       gives               A[i * 8 + j] = x

Narrows loop variables and lets, and the arithmetic on them in subscripts, loop bounds and comparisons, if every
intermediate value is proved to fit. A variable used as a value is cast back. Parameters and sizes keep their dtype.
Skips functions with blocks: lower them first.
"""

from __future__ import annotations

from ...ir import DataType, Node
from ...prim import (
    Add,
    BinaryExpr,
    Cast,
    CompareExpr,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Sub,
    Var,
    sub_expressions,
)
from ...prim.traits import has_effects
from ..buffer import BufferLoad, Ramp
from ..functor import pre_order_visit
from ..stmt import BlockRealize, BufferStore, For, LetStmt, PrimFunc, Stmt
from .each_prim_func import each_prim_func
from .facts import FactsMutator

_ARITHMETIC = (Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max)


def narrow_data_type(func: PrimFunc, target_bits: int) -> PrimFunc:
    """Return the function with indices narrowed to `target_bits` bits (8, 16, 32 or 64) where they fit.

    Raises ValueError for another number of bits.
    """
    if target_bits not in (8, 16, 32, 64):
        raise ValueError(f"NarrowDataType: target_bits is 8, 16, 32 or 64, found {target_bits}")
    blocks: list[Node] = []
    pre_order_visit(func.body, lambda n: blocks.append(n) if isinstance(n, BlockRealize) else None)
    return func if blocks else _Narrowing(func, DataType(f"int{target_bits}")).run()


class _Narrowing(FactsMutator):
    def __init__(self, func: PrimFunc, target: DataType) -> None:
        super().__init__(func)
        self.target = target
        self.renamed: dict[Var, Var] = {}

    # ------------------------------------------------------------------ what fits

    def is_wide(self, dtype: DataType) -> bool:
        return dtype.is_int and dtype.lanes == 1 and dtype.bits > self.target.bits

    def fits(self, expr: PrimExpr) -> bool:
        """True if every value of an expression is proved to fit the target dtype."""
        if has_effects(expr):
            return False
        low, high = self.analyzer.interval(expr)
        return self.target.min_value <= low and high <= self.target.max_value

    def narrow(self, expr: PrimExpr) -> PrimExpr | None:
        """Return a wide integer expression in the target dtype, or None if an intermediate value may not fit."""
        return self._narrow(expr, {}) if self.is_wide(expr.dtype) else None

    def _narrow(self, expr: PrimExpr, done: dict[PrimExpr, PrimExpr | None]) -> PrimExpr | None:
        if expr not in done:
            done[expr] = self._narrowed(expr, done) if self.fits(expr) else None
        return done[expr]

    def _narrowed(self, expr: PrimExpr, done: dict[PrimExpr, PrimExpr | None]) -> PrimExpr | None:
        """Return a fitting expression in the target dtype, or None."""
        match expr:
            case IntImm(_, value):
                return IntImm(self.target, value)
            case Var():
                return self.renamed.get(expr)
            case Cast(_, value) if value.dtype.is_int and value.dtype.lanes == 1:
                if self.is_wide(value.dtype):
                    return self._narrow(value, done)
                return self.visit(value).astype(self.target)
            case BinaryExpr() if isinstance(expr, _ARITHMETIC):
                a, b = (self._narrow(operand, done) for operand in sub_expressions(expr))
                return None if a is None or b is None else expr.replace(a=a, b=b)
            case _:
                return None

    def index(self, expr: PrimExpr) -> PrimExpr:
        """Narrow an expression in index position, if it fits."""
        if isinstance(expr, Ramp):
            return self.ramp(expr)
        narrow = self.narrow(expr)
        return self.visit(expr) if narrow is None else narrow

    def ramp(self, expr: Ramp) -> PrimExpr:
        base, stride = self.narrow(expr.base), self.narrow(expr.stride)
        if base is None or stride is None or not isinstance(expr.stride, IntImm):
            return self.visit(expr)
        low, high = self.analyzer.interval(expr.base)
        reach = expr.stride.value * (expr.lanes - 1)
        if low + min(reach, 0) < self.target.min_value or high + max(reach, 0) > self.target.max_value:
            return self.visit(expr)
        return Ramp(base, stride, expr.lanes)

    def indices(self, exprs: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        result = tuple(map(self.index, exprs))
        return exprs if all(a is b for a, b in zip(exprs, result, strict=True)) else result

    # ------------------------------------------------------------------ variables

    def rename(self, var: Var) -> Var:
        self.renamed[var] = Var(var.name, self.target, span=var.span)
        return self.renamed[var]

    def visit_Var(self, node: Var) -> PrimExpr:
        new = self.renamed.get(node)
        return node if new is None else Cast(node.dtype, new)

    def visit_For(self, node: For) -> Stmt:
        low, extent = self.narrow(node.min), self.narrow(node.extent)
        if low is None or extent is None or not self.ends_within(node):
            return super().visit_For(node)
        with self.in_loop(node):
            var = self.rename(node.loop_var)
            return node.replace(loop_var=var, min=low, extent=extent, body=self.visit(node.body))

    def ends_within(self, loop: For) -> bool:
        """True if the end of a loop's range fits the target dtype."""
        end = self.analyzer.interval(loop.min)[1] + self.analyzer.interval(loop.extent)[1]
        return end <= self.target.max_value

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.narrow(node.value) if node.var.dtype == node.value.dtype else None
        if value is None:
            return super().visit_LetStmt(node)
        with self.in_let(node):
            return node.replace(var=self.rename(node.var), value=value, body=self.visit(node.body))

    # ------------------------------------------------------------------ where indices stand

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        buffer, predicate = self.visit(node.buffer), self.visit_predicate(node.predicate)
        return node.replace(buffer=buffer, indices=self.indices(node.indices), predicate=predicate)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        buffer, predicate = self.visit(node.buffer), self.visit_predicate(node.predicate)
        value, indices = self.visit(node.value), self.indices(node.indices)
        return node.replace(buffer=buffer, value=value, indices=indices, predicate=predicate)

    def visit_default(self, node: Node) -> Node:
        if isinstance(node, CompareExpr) and self.is_wide(node.a.dtype):
            a, b = self.narrow(node.a), self.narrow(node.b)
            if a is not None and b is not None:
                return node.replace(a=a, b=b)
        return self.visit_children(node)


NarrowDataType = each_prim_func(narrow_data_type, "NarrowDataType")
"""Pass: narrow indices to `target_bits` bits where they fit."""
