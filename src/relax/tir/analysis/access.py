"""Access regions of blocks, and the lowest common ancestor of all accesses of a buffer."""

from __future__ import annotations

from collections.abc import Mapping

from ...prim import Var, free_vars
from ..buffer import Buffer, BufferLoad, BufferRegion, IterVar
from ..functor import StmtExprVisitor
from ..regions import block_access_parts, block_access_region
from ..stmt import Block, BlockRealize, BufferStore, DeclBuffer, For, PrimFunc


def get_block_access_region(block: Block, buffer_var_map: Mapping[Var, Buffer]) -> list[list[BufferRegion]]:
    """Return the regions that a block reads, those it writes, and the buffers whose pointer it uses.

    `buffer_var_map` maps data variables to the buffers in scope. Reads of a reduction's accumulator do not count. An
    access through a pointer covers the whole buffer.
    """
    return [list(regions) for regions in block_access_parts(block, buffer_var_map.values())]


def get_block_read_write_region(block: Block, buffer_var_map: Mapping[Var, Buffer]) -> list[list[BufferRegion]]:
    """Return the regions that a block reads and those it writes; a buffer whose pointer it uses is in both."""
    return [list(regions) for regions in block_access_region(block, buffer_var_map.values())]


def detect_buffer_access_lca(func: PrimFunc) -> dict[Buffer, For | Block | None]:
    """Return the lowest common ancestor (loop or block) of all accesses of each buffer; None is the function.

    A reduction block accesses its written buffers from outside of the reduction loops. Buffers without accesses are
    omitted, except parameters, whose ancestor is the function.
    """
    visitor = _Ancestors()
    visitor.visit(func.body)
    table: dict[Buffer, For | Block | None] = dict.fromkeys(func.buffer_map.values())
    for buffer, path in visitor.common.items():
        table[buffer] = path[-1] if path and buffer not in table else None
    return table


class _Ancestors(StmtExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.path: tuple[For | Block, ...] = ()
        self.common: dict[Buffer, tuple[For | Block, ...]] = {}
        self.owners: dict[Var, Buffer] = {}
        self.reducing: dict[Buffer, int] = {}
        """Number of ancestors outside of the reduction loops, for each buffer that an enclosing reduction writes."""

    def access(self, buffer: Buffer) -> None:
        path = self.path[: self.reducing.get(buffer, len(self.path))]
        common_path = self.common.get(buffer)
        if common_path is not None:
            same = 0
            while same < min(len(path), len(common_path)) and path[same] is common_path[same]:
                same += 1
            path = path[:same]
        self.common[buffer] = path

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.access(node.buffer)
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.access(node.buffer)
        self.visit_children(node)

    def visit_Buffer(self, node: Buffer) -> None:
        self.owners.setdefault(node.data, node)

    def visit_Var(self, node: Var) -> None:
        if node in self.owners:
            self.access(self.owners[node])

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        behind = self.owners.get(node.buffer.data)
        if behind is not None:
            self.access(behind)
        self.visit_children(node)

    def visit_For(self, node: For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        outer, self.path = self.path, (*self.path, node)
        self.visit(node.body)
        self.path = outer

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        for value in node.iter_values:
            self.visit(value)
        self.visit(node.predicate)
        block, before = node.block, dict(self.reducing)
        outside = self.outside_of_reduction(node)
        if outside is not None:
            for region in block.writes:
                self.reducing[region.buffer] = min(outside, self.reducing.get(region.buffer, outside))
        outer, self.path = self.path, (*self.path, block)
        for match in block.match_buffers:
            self.visit(match.source)
            self.access(match.source.buffer)
        for stmt in (block.init, block.body):
            if stmt is not None:
                self.visit(stmt)
        self.path, self.reducing = outer, before

    def outside_of_reduction(self, node: BlockRealize) -> int | None:
        """Return the number of ancestors outside of the loops that feed reduction variables, or None without such
        loops.
        """
        pairs: list[tuple[IterVar, set[Var]]] = [
            (axis, set(free_vars(value))) for axis, value in zip(node.block.iter_vars, node.iter_values, strict=False)
        ]
        used = {var for axis, variables in pairs if axis.iter_type == "reduce" for var in variables}
        for depth, ancestor in enumerate(self.path):
            if isinstance(ancestor, For) and ancestor.loop_var in used:
                return depth
        return None
