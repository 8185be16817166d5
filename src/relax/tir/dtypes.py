"""Change the dtype of all indices: loop variables, sizes, subscripts.

    for i in range(n: int32): B[i] = A[i] + T.float32(i)
    force_index_dtype(func, "int64")
    for i in range(n: int64): B[i] = A[i] + T.float32(T.int32(i))

An index used as a value is cast back to its old dtype, so values do not change.
"""

from __future__ import annotations

from ..ir import DataType, Node
from ..prim import BinaryExpr, Cast, CompareExpr, IntImm, PrimExpr, Var, cast
from .buffer import Buffer, BufferLoad, BufferRegion, IterVar, Ramp, Range
from .functor import StmtExprMutator, pre_order_visit
from .stmt import Block, BlockRealize, BufferStore, For, MatchBufferRegion, PrimFunc
from .usage import shape_vars_bound_by


def force_index_dtype(func: PrimFunc, dtype: str) -> PrimFunc:
    """Return the function with `dtype` for every loop variable, block variable, size and subscript."""
    return _IndexRewriter(DataType(dtype)).function(func)


class _IndexRewriter(StmtExprMutator):
    def __init__(self, dtype: DataType) -> None:
        super().__init__()
        self.dtype = dtype
        self.renamed: dict[Var, Var] = {}
        self.converted: dict[PrimExpr, PrimExpr] = {}
        """Results of `convert`."""

    def rename(self, var: Var) -> Var:
        if var.dtype == self.dtype or not var.dtype.is_integer:
            return var
        if var not in self.renamed:
            self.renamed[var] = var.replace(dtype=self.dtype)
        return self.renamed[var]

    def function(self, func: PrimFunc) -> PrimFunc:
        for buffer in func.buffer_map.values():
            for var in shape_vars_bound_by(buffer):
                self.rename(var)
        params = tuple(self.rename(param) for param in func.params)
        buffer_map = {param: self.visit_Buffer(buffer) for param, buffer in func.buffer_map.items()}
        same = all(buffer_map[param] is buffer for param, buffer in func.buffer_map.items())
        return func.replace(
            params=func.params if not self.renamed else params,
            buffer_map=func.buffer_map if same else buffer_map,
            body=self.visit(func.body),
        )

    def index(self, expr: PrimExpr) -> PrimExpr:
        """Rewrite an expression in index position to the target dtype."""
        return self.convert(self.visit(expr))

    def convert(self, expr: PrimExpr) -> PrimExpr:
        if expr.dtype.element_of == self.dtype or not expr.dtype.is_integer:
            return expr
        converted = self.converted.get(expr)
        if converted is None:
            converted = self.converted[expr] = self.rewritten(expr)
        return converted

    def rewritten(self, expr: PrimExpr) -> PrimExpr:
        """Convert an expression to the target dtype."""
        match expr:
            case IntImm(_, value):
                return IntImm(self.dtype, value)
            case Cast(_, value) if value.dtype == self.dtype:
                return value
            case BinaryExpr():
                return expr.replace(a=self.convert(expr.a), b=self.convert(expr.b))
            case Ramp(base, stride, lanes):
                return Ramp(self.convert(base), self.convert(stride), lanes)
            case _:
                return cast(self.dtype.with_lanes(expr.dtype.lanes), expr)

    def indices(self, exprs: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        converted = tuple(self.index(expr) for expr in exprs)
        return exprs if all(a is b for a, b in zip(exprs, converted, strict=True)) else converted

    def sizes(self, exprs: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Rewrite the sizes or strides of a buffer; constants stay int64."""
        result = tuple(expr if isinstance(expr, IntImm) else self.index(expr) for expr in exprs)
        return exprs if all(a is b for a, b in zip(exprs, result, strict=True)) else result

    def visit_Var(self, node: Var) -> PrimExpr:
        new = self.renamed.get(node)
        return node if new is None else Cast(node.dtype, new)

    def visit_default(self, node: Node) -> Node:
        if isinstance(node, CompareExpr) and node.a.dtype.is_integer:
            a, b = self.visit(node.a), self.visit(node.b)
            if _has_index(a, self.dtype) or _has_index(b, self.dtype):
                a, b = self.convert(a), self.convert(b)
            return node.replace(a=a, b=b)
        return self.visit_children(node)

    def visit_Buffer(self, node: Buffer) -> Buffer:
        converted = self._buffers.get(node)
        if converted is None:
            offset = None if node.elem_offset is None else self.index(node.elem_offset)
            converted = node.replace(shape=self.sizes(node.shape), strides=self.sizes(node.strides), elem_offset=offset)
            self._buffers[node] = converted
        return converted

    def define_buffer(self, buffer: Buffer) -> None:
        self.visit_Buffer(buffer)

    def visit_Range(self, node: Range) -> Range:
        return node.replace(min=self.index(node.min), extent=self.index(node.extent))

    def visit_IterVar(self, node: IterVar) -> IterVar:
        return node.replace(dom=None if node.dom is None else self.visit(node.dom), var=self.rename(node.var))

    def visit_For(self, node: For) -> For:
        return node.replace(
            loop_var=self.rename(node.loop_var),
            min=self.index(node.min),
            extent=self.index(node.extent),
            body=self.visit(node.body),
        )

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        buffer, predicate = self.visit(node.buffer), self.visit_predicate(node.predicate)
        return node.replace(buffer=buffer, indices=self.indices(node.indices), predicate=predicate)

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        value, predicate = self.visit(node.value), self.visit_predicate(node.predicate)
        indices = self.indices(node.indices)
        return node.replace(buffer=self.visit(node.buffer), value=value, indices=indices, predicate=predicate)

    def visit_BlockRealize(self, node: BlockRealize) -> BlockRealize:
        return node.replace(
            iter_values=self.indices(node.iter_values),
            predicate=self.visit(node.predicate),
            block=self.visit(node.block),
        )

    def visit_Block(self, node: Block) -> Block:
        for iter_var in node.iter_vars:
            self.rename(iter_var.var)
        for match in node.match_buffers:
            for var in shape_vars_bound_by(match.buffer):
                self.rename(var)
        return self.visit_children(node)

    def visit_MatchBufferRegion(self, node: MatchBufferRegion) -> MatchBufferRegion:
        return node.replace(buffer=self.visit(node.buffer), source=self.visit(node.source))

    def visit_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        return self.visit_children(node)


def _has_index(expr: PrimExpr, dtype: DataType) -> bool:
    """True if arithmetic has an index among its operands: a variable of the target dtype, cast back."""
    has_index = False

    def visit(node: Node) -> bool:
        nonlocal has_index
        has_index = has_index or (isinstance(node, Cast) and node.value.dtype == dtype)
        return isinstance(node, BinaryExpr)

    pre_order_visit(expr, visit)
    return has_index
