"""Replace the region views that blocks declare by accesses to the underlying buffers.

    with T.block("B"):
        sub = T.match_buffer(A[i * 4 : i * 4 + 4], (4,), offset_factor=1)
        sub[j] = T.float32(0)                                       gives       A[i * 4 + j] = T.float32(0)

A region may have more dimensions than the view: the leading ones must have extent 1. Variables in the view's sizes,
strides and offset are replaced by their values in the underlying buffer. If the offset is a variable, `access_ptr` of
the view becomes that of the underlying buffer; otherwise a view whose pointer is passed on (to an extern call) is
rejected with E5010.
"""

from __future__ import annotations

from typing import Any

from ...ir import Diagnostic, DiagnosticError, Node
from ...prim import Call, PrimExpr, Var, const
from ..buffer import Broadcast, Buffer, BufferLoad, BufferRegion, Ramp, Range, element_offset, strides_of
from ..functor import StmtExprMutator
from ..statements import has_blocks
from ..stmt import Block, BufferStore, MatchBufferRegion, PrimFunc, Stmt
from .each_prim_func import each_prim_func


def lower_match_buffer(func: PrimFunc) -> PrimFunc:
    """The function without views of regions."""
    return func.replace(body=_Lowering().visit(func.body)) if has_blocks(func.body) else func


class _Lowering(StmtExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.views: dict[Buffer, BufferRegion] = {}
        self.values: dict[Var, PrimExpr] = {}
        self.pointers: dict[Var, Buffer] = {}

    def visit_Block(self, node: Block) -> Block:
        for match in node.match_buffers:
            self.declare(match)
        rewritten = self.visit_children(node.replace(match_buffers=()))
        return rewritten

    def declare(self, match: MatchBufferRegion) -> None:
        view, source = match.buffer, match.source
        region = BufferRegion(source.buffer, tuple(self.visit(r) for r in source.region))
        while region.buffer in self.views:
            region = _through(self.views[region.buffer], region)
        if view.dtype != region.buffer.dtype:
            raise _error(f"the view {view.name} has dtype {view.dtype!s}, {region.buffer.name} {region.buffer.dtype!s}")
        if len(view.shape) > len(region.region):
            raise _error(f"the view {view.name} has more dimensions than the region of {region.buffer.name}")
        self.views[view] = region
        self.pointers[view.data] = view
        skipped = len(region.region) - len(view.shape)
        self.bind(view.shape, tuple(r.extent for r in region.region[skipped:]))
        self.bind(view.strides, strides_of(region.buffer)[skipped:])
        if isinstance(view.elem_offset, Var):
            offset = element_offset(region.buffer, tuple(r.min for r in region.region))
            self.bind((view.elem_offset,), (offset,))

    def bind(self, names: tuple[PrimExpr, ...], values: tuple[PrimExpr, ...]) -> None:
        for name, value in zip(names, values, strict=False):
            if isinstance(name, Var) and name not in self.values:
                self.values[name] = value.astype(name.dtype)

    def visit(self, node: Any) -> Any:
        try:
            return super().visit(node)
        except DiagnosticError as error:
            raise error.placed(node.span if isinstance(node, Stmt) else None) from None

    def visit_Call(self, node: Call) -> Node:
        if node.intrinsic == "tvm_access_ptr":
            kind, data, offset, *rest = node.args
            view = self.pointers.get(data) if isinstance(data, Var) else None
            if view is not None and isinstance(view.elem_offset, Var):
                behind = self.visit(self.views[view].buffer.data)
                return node.replace(args=(kind, behind, self.visit(offset), *map(self.visit, rest)))
        return self.visit_children(node)

    def visit_Var(self, node: Var) -> PrimExpr:
        if node in self.pointers:
            name = self.pointers[node].name
            raise _error(f"the pointer of the view {name} is handed on; only elements of a view can be lowered")
        return self.values.get(node, node)

    def visit_Buffer(self, node: Buffer) -> Buffer:
        return node if node in self.views else super().visit_Buffer(node)

    def visit_BufferLoad(self, node: BufferLoad) -> Node:
        region = self.views.get(node.buffer)
        rewritten = self.visit_children(node)
        return (
            rewritten
            if region is None
            else rewritten.replace(buffer=region.buffer, indices=_shifted(region, rewritten.indices))
        )

    def visit_BufferStore(self, node: BufferStore) -> Node:
        region = self.views.get(node.buffer)
        rewritten = self.visit_children(node)
        if region is None:
            return rewritten
        return rewritten.replace(buffer=region.buffer, indices=_shifted(region, rewritten.indices))

    def visit_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        region = self.views.get(node.buffer)
        rewritten = self.visit_children(node)
        return rewritten if region is None else _through(region, rewritten)


def _shifted(region: BufferRegion, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    skipped = len(region.region) - len(indices)
    leading = tuple(r.min for r in region.region[:skipped])
    return leading + tuple(_sum(r.min, i) for r, i in zip(region.region[skipped:], indices, strict=True))


def _sum(start: PrimExpr, index: PrimExpr) -> PrimExpr:
    if isinstance(index, Ramp):
        return Ramp(start + index.base, index.stride, index.lanes)
    if isinstance(index, Broadcast):
        return Broadcast(start + index.value, index.lanes)
    return start + index if index.dtype.lanes == 1 else index + Broadcast(start, index.dtype.lanes)


def _through(view: BufferRegion, region: BufferRegion) -> BufferRegion:
    """Translate a region of a view to the underlying buffer."""
    skipped = len(view.region) - len(region.region)
    leading = tuple(Range.from_min_extent(r.min, const(1, r.min.dtype)) for r in view.region[:skipped])
    rest = tuple(
        Range.from_min_extent(outer.min + inner.min, inner.extent)
        for outer, inner in zip(view.region[skipped:], region.region, strict=True)
    )
    return BufferRegion(view.buffer, leading + rest)


def _error(message: str) -> DiagnosticError:
    hint = "use the buffer behind the view instead"
    return DiagnosticError(Diagnostic("E5010", f"match_buffer: {message}", hint=hint))


LowerMatchBuffer = each_prim_func(lower_match_buffer, "LowerMatchBuffer")
"""Pass: replace region views by accesses to the underlying buffers."""
