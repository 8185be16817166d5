"""Memory that functions allocate."""

from __future__ import annotations

import math

from ...ir import IRModule
from ...prim import IntImm
from ..buffer import Buffer
from ..functor import StmtExprVisitor
from ..stmt import AllocBuffer, Block, PrimFunc


def constant_bytes(buffer: Buffer) -> int:
    """Return the size in bytes of a buffer of static shape; 0 for dynamic shapes."""
    if not all(isinstance(size, IntImm) for size in buffer.shape):
        return 0
    count = math.prod(size.value for size in buffer.shape if isinstance(size, IntImm))
    return max(count, 0) * buffer.dtype.lanes * ((buffer.dtype.bits + 7) // 8)


class _Peak(StmtExprVisitor):
    """Peak of allocated bytes in each scope."""

    def __init__(self, alignment: int = 1) -> None:
        super().__init__()
        self.alignment = alignment
        self.now: dict[str, int] = {}
        self.most: dict[str, int] = {}

    def open(self, *buffers: Buffer) -> None:
        for buffer in buffers:
            size = -(-constant_bytes(buffer) // self.alignment) * self.alignment
            now = self.now[buffer.scope] = self.now.get(buffer.scope, 0) + size
            self.most[buffer.scope] = max(self.most.get(buffer.scope, 0), now)

    def visit_AllocBuffer(self, node: AllocBuffer) -> None:
        before = dict(self.now)
        self.open(node.buffer)
        self.visit(node.body)
        self.now = before

    def visit_Block(self, node: Block) -> None:
        before = dict(self.now)
        self.open(*node.alloc_buffers)
        self.visit_children(node)
        self.now = before


def calculate_workspace_bytes(func: PrimFunc, workspace_byte_alignment: int) -> int:
    """Return the peak of allocated bytes of a function, each allocation rounded up to the alignment.

    Dynamic allocations count 0. Raises ValueError for an alignment that is not positive.
    """
    if workspace_byte_alignment <= 0:
        raise ValueError(f"the alignment is a positive number of bytes, found {workspace_byte_alignment}")
    peak = _AllScopes(workspace_byte_alignment)
    peak.visit(func.body)
    return peak.most.get("", 0)


class _AllScopes(_Peak):
    """Peak of allocated bytes in all scopes together."""

    def open(self, *buffers: Buffer) -> None:
        super().open(*(buffer.replace(scope="") for buffer in buffers))


def calculate_allocated_bytes(func_or_mod: PrimFunc | IRModule) -> dict[str, dict[str, int]]:
    """Return the peak of allocated bytes of each function, by scope; a single function is called main.

    Dynamic allocations count 0.
    """
    if isinstance(func_or_mod, PrimFunc):
        functions = {"main": func_or_mod}
    else:
        items = func_or_mod.functions.items()
        functions = {var.name_hint: func for var, func in items if isinstance(func, PrimFunc)}
    sizes: dict[str, dict[str, int]] = {}
    for name, func in functions.items():
        peak = _Peak()
        peak.visit(func.body)
        sizes[name] = peak.most
    return sizes
