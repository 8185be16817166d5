"""Queries about the blocks of a function: anchor blocks, output blocks, branches."""

from __future__ import annotations

from ...ir import IRModule, Node
from ...prim import Call, Select, is_const
from ..functor import StmtExprVisitor, pre_order_visit
from ..stmt import Block, BlockRealize, For, IfThenElse, PrimFunc, Stmt
from .flops import estimate_tir_flops


class _Anchors(StmtExprVisitor):
    """Collect the blocks with an init, and the arithmetic operations of each in all enclosing loops."""

    def __init__(self) -> None:
        super().__init__()
        self.loops: list[For] = []
        self.found: list[tuple[float, Block]] = []

    def visit_For(self, node: For) -> None:
        self.loops.append(node)
        self.visit_children(node)
        self.loops.pop()

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        if node.block.init is not None:
            nest: Stmt = node
            for loop in reversed(self.loops):
                nest = loop.replace(body=nest)
            self.found.append((estimate_tir_flops(nest), node.block))
        self.visit_children(node)


def find_anchor_block(mod: IRModule | PrimFunc) -> Block | None:
    """Return the first block with an `init` and the most arithmetic operations, or None.

    For a convolution followed by elementwise operations, this is the convolution.
    """
    functions = mod.functions.values() if isinstance(mod, IRModule) else (mod,)
    anchors = _Anchors()
    for func in functions:
        if isinstance(func, PrimFunc):
            anchors.visit(func.body)
    return max(anchors.found, key=lambda item: item[0])[1] if anchors.found else None


def is_output_block(func: PrimFunc, block: Block) -> bool:
    """True if a block is directly in the function (or in its root block) and writes a parameter's buffer.

    Raises ValueError for a block that is not in the function.
    """
    there: list[Block] = []

    def visit(node: Node) -> None:
        if isinstance(node, Block):
            there.append(node)

    pre_order_visit(func.body, visit)
    if not any(other is block for other in there):
        raise ValueError(f"is_output_block: block {block.name_hint} is not in the function")
    outputs = set(func.buffer_map.values())
    outermost = any(block is other for other in _top_blocks(func.body))
    return outermost and any(region.buffer in outputs for region in block.writes)


def _top_blocks(body: Stmt) -> list[Block]:
    """Return the outermost blocks; if a root block encloses everything, the blocks directly in it."""
    top: list[Block] = []

    def visit(node: Node) -> bool | None:
        if isinstance(node, Block):
            top.append(node)
            return False
        return None

    pre_order_visit(body, visit)
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        return _top_blocks(body.block.body) or top
    return top


def has_if_then_else(stmt: Stmt) -> bool:
    """True if a statement branches: by IfThenElse, Select, if_then_else, or a block's predicate."""
    branches: list[Node] = []

    def visit(node: Node) -> bool | None:
        match node:
            case IfThenElse() | Select():
                branches.append(node)
            case Call() if node.intrinsic == "if_then_else":
                branches.append(node)
            case BlockRealize(_, predicate) if not is_const(predicate, 1):
                branches.append(node)
            case _:
                pass
        return False if branches else None

    pre_order_visit(stmt, visit)
    return bool(branches)
