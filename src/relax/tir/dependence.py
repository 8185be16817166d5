"""Dependences between the blocks of a scope: producers and consumers of each buffer.

    for i in range(8):
        with T.block("P"):              P writes T
            T[vi] = A[vi]
        with T.block("C"):              C reads T after P: P is a producer of C, C a consumer of P
            B[vi] = T[vi]
        with T.block("Q"):              Q overwrites T, which C reads; Q is a consumer of P too, C is not one of Q
            T[vi] = 0.0

A scope is a block with the blocks directly inside, its children. Accesses are found in the bodies; declared regions are
used only for opaque blocks. Facts are cached per statement, as statements are immutable: after a rewrite of one loop
nest, those of the other nests are reused.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import field

from ..ir import Node, structural_equal
from ..prim import IntImm, PrimExpr, Var
from ..prim.traits import has_effects
from ..runtime.records import dataclass
from .buffer import Buffer, BufferLoad, BufferRegion
from .functor import StmtExprVisitor, post_order_visit
from .regions import block_access_region
from .statements import parts_of
from .stmt import Block, BlockRealize, BufferStore, Evaluate, For, LetStmt, SeqStmt, Stmt
from .usage import free_vars as variables_used


@dataclass(frozen=True)
class Accesses:
    """The regions that a block reads and writes, over its own variables. A reduction's reads of its accumulator do not
    count.
    """

    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    opaque: bool
    """True if the body calls functions with effects, passes a pointer to a call, declares a view, or has a while loop.
    """

    @property
    def read_buffers(self) -> set[Buffer]:
        return {region.buffer for region in self.reads}

    @property
    def written_buffers(self) -> set[Buffer]:
        return {region.buffer for region in self.writes}


_free: weakref.WeakKeyDictionary[Block, frozenset[Var]] = weakref.WeakKeyDictionary()
_accesses: weakref.WeakKeyDictionary[Block, Accesses] = weakref.WeakKeyDictionary()
_scopes: weakref.WeakKeyDictionary[Block, BlockScope] = weakref.WeakKeyDictionary()


def accesses(block: Block) -> Accesses:
    """Return the accesses of a block's body; if it is opaque, with the declared regions of buffers it does not access
    directly.
    """
    result = _accesses.get(block)
    if result is None:
        reads, writes = block_access_region(block)
        opaque = _is_opaque(block)
        if opaque:  # what is behind a call is only known from what the block says
            reads = (*reads, *(r for r in block.reads if all(r.buffer is not s.buffer for s in reads)))
            writes = (*writes, *(w for w in block.writes if all(w.buffer is not s.buffer for s in writes)))
        result = _accesses[block] = Accesses(reads, writes, opaque)
    return result


def free_variables(block: Block) -> frozenset[Var]:
    """Return the variables that a block uses and does not bind."""
    result = _free.get(block)
    if result is None:
        result = _free[block] = frozenset(variables_used(block))
    return result


def touches(block: Block, buffer: Buffer) -> bool:
    """True if a block allocates, accesses, views or passes on a buffer. A rewrite of the buffer's uses may skip other
    blocks.
    """
    return any(item is buffer for item in block.alloc_buffers) or buffer.data in free_variables(block)


class _Effects(StmtExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.opaque = False

    def visit_Evaluate(self, node: Evaluate) -> None:
        self.opaque = self.opaque or has_effects(node.value)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.opaque = self.opaque or has_effects(node.value)

    def visit_While(self, node: Stmt) -> None:
        self.opaque = True

    def visit_DeclBuffer(self, node: Stmt) -> None:
        self.opaque = True  # a view through a pointer: what it accesses is no region of a buffer


def _is_opaque(block: Block) -> bool:
    visitor = _Effects()
    visitor.visit(block.body)
    return visitor.opaque


@dataclass
class BlockScope:
    """The child blocks of a block in program order, and the writers and readers of each buffer among them."""

    block: Block
    children: list[BlockRealize] = field(default_factory=list[BlockRealize])
    writers: dict[Buffer, list[BlockRealize]] = field(default_factory=dict[Buffer, "list[BlockRealize]"])
    readers: dict[Buffer, list[BlockRealize]] = field(default_factory=dict[Buffer, "list[BlockRealize]"])
    by_pointer: dict[Var, set[Buffer]] = field(default_factory=dict[Var, "set[Buffer]"])
    """The accessed buffers of each data pointer."""
    variables: set[Var] = field(default_factory=set[Var])
    """Variables of the loops and lets in the scope, outside of its children."""
    loose: set[Buffer] = field(default_factory=set[Buffer])
    """Buffers whose storage is read, written or passed on by statements of the scope outside of its children."""
    _positions: dict[int, int] = field(default_factory=dict[int, int])

    def position(self, child: BlockRealize) -> int:
        """Return the index of a child in program order."""
        if not self._positions:
            self._positions.update((id(item), i) for i, item in enumerate(self.children))
        return self._positions[id(child)]

    def producers(self, child: BlockRealize) -> list[BlockRealize]:
        """Return the children before `child` that write a buffer it reads or writes, in program order."""
        used = accesses(child.block)
        buffers = used.read_buffers | used.written_buffers
        return self._accessors(self.writers, buffers, child, before=True)

    def consumers(self, child: BlockRealize) -> list[BlockRealize]:
        """Return the children after `child` that read or write a buffer it writes, in program order."""
        buffers = accesses(child.block).written_buffers
        readers = self._accessors(self.readers, buffers, child, before=False)
        writers = self._accessors(self.writers, buffers, child, before=False)
        return sorted({*readers, *writers}, key=self.position)

    def overwriters(self, child: BlockRealize) -> list[BlockRealize]:
        """Return the children after `child` that write a buffer it reads."""
        return self._accessors(self.writers, accesses(child.block).read_buffers, child, before=False)

    def _accessors(
        self, table: dict[Buffer, list[BlockRealize]], buffers: set[Buffer], child: BlockRealize, before: bool
    ) -> list[BlockRealize]:
        here = self.position(child)
        accessors = {item for buffer in buffers for item in table.get(buffer, ()) if item is not child}
        return sorted((c for c in accessors if (self.position(c) < here) is before), key=self.position)


@dataclass
class _Part:
    """The contribution of one statement to its scope's facts."""

    children: list[BlockRealize] = field(default_factory=list[BlockRealize])
    writes: list[tuple[Buffer, BlockRealize]] = field(default_factory=list[tuple[Buffer, BlockRealize]])
    reads: list[tuple[Buffer, BlockRealize]] = field(default_factory=list[tuple[Buffer, BlockRealize]])
    loose: set[Buffer] = field(default_factory=set[Buffer])
    pointers: set[Var] = field(default_factory=set[Var])
    """Variables, including data pointers, that statements outside of the children use."""
    variables: set[Var] = field(default_factory=set[Var])

    def add_uses(self, node: Node) -> None:
        """Add the uses of a statement or expression outside of the children."""
        if not isinstance(node, (Var, IntImm)):
            uses = _Uses()
            uses.visit(node)
            self.loose |= uses.buffers
            self.pointers |= uses.variables


_parts: weakref.WeakKeyDictionary[Stmt, _Part] = weakref.WeakKeyDictionary()


def scope_of(block: Block) -> BlockScope:
    """Return the children of a block, and their reads and writes.

    Facts are cached per loop nest: after a rewrite of one nest, those of the other nests are reused.
    """
    result = _scopes.get(block)
    if result is None:
        result = _scopes[block] = BlockScope(block)
        pointers: set[Var] = set()
        for stmt in block.body.seq if isinstance(block.body, SeqStmt) else (block.body,):
            part = _parts.get(stmt)
            if part is None:
                part = _parts[stmt] = _part_of(stmt)
            result.children += part.children
            result.loose |= part.loose
            pointers |= part.pointers
            result.variables |= part.variables
            for table, pairs in ((result.writers, part.writes), (result.readers, part.reads)):
                for buffer, child in pairs:
                    table.setdefault(buffer, []).append(child)
        for buffer in (*result.writers, *result.readers):
            result.by_pointer.setdefault(buffer.data, set()).add(buffer)
        for pointer in pointers & result.by_pointer.keys():  # views and pointers reach the same elements
            result.loose |= result.by_pointer[pointer]
    return result


def _part_of(stmt: Stmt) -> _Part:
    part = _Part()
    for child in _children(stmt):
        if isinstance(child, BlockRealize):
            part.children.append(child)
            used = accesses(child.block)
            part.writes += [(region.buffer, child) for region in used.writes]
            part.reads += [(region.buffer, child) for region in used.reads]
            for value in (*child.iter_values, child.predicate):
                part.add_uses(value)
        else:
            part.add_uses(child)
    part.variables.update(_bound_around(stmt))
    return part


def _bound_around(stmt: Stmt) -> Iterator[Var]:
    """Yield the variables bound by statements of a scope, outside of its children."""
    if isinstance(stmt, For):
        yield stmt.loop_var
    elif isinstance(stmt, LetStmt):
        yield stmt.var
    if not isinstance(stmt, BlockRealize):
        for part in parts_of(stmt):
            yield from _bound_around(part)


def _children(stmt: Stmt) -> Iterator[Node]:
    """Yield the child blocks of a scope, and its other executed parts: stores, calls, and the expressions of
    statements.
    """
    if isinstance(stmt, (BlockRealize, BufferStore, Evaluate)):
        yield stmt
        return
    for name in ("min", "extent", "condition", "value"):
        expr = getattr(stmt, name, None)
        if isinstance(expr, PrimExpr):
            yield expr
    for part in parts_of(stmt):
        yield from _children(part)


def loops_of_scope(stmt: Stmt) -> Iterator[For]:
    """Yield the loops in a statement that are outside of its blocks."""
    if isinstance(stmt, For):
        yield stmt
    if not isinstance(stmt, BlockRealize):
        for part in parts_of(stmt):
            yield from loops_of_scope(part)


class _Uses(StmtExprVisitor):
    """Collect the accessed buffers, and the variables including data pointers."""

    def __init__(self) -> None:
        super().__init__()
        self.buffers: set[Buffer] = set()
        self.variables: set[Var] = set()

    def visit_Buffer(self, node: Buffer) -> None:
        self.buffers.add(node)
        self.variables.add(node.data)

    def visit_Var(self, node: Var) -> None:
        self.variables.add(node)


# ------------------------------------------------------------------------------------------ one statement


def loads_in(expr: Node) -> list[BufferLoad]:
    """Return the loads in an expression or statement."""
    loads: list[BufferLoad] = []
    post_order_visit(expr, lambda node: loads.append(node) if isinstance(node, BufferLoad) else None)
    return loads


def reads_no_other(expr: PrimExpr, buffer: Buffer, indices: Sequence[PrimExpr]) -> bool:
    """True if an expression reads no element of `buffer`'s storage except the one at `indices`.

    Calls with effects may read any element.
    """
    if has_effects(expr):
        return False
    own = (load for load in loads_in(expr) if load.buffer.data is buffer.data)
    return all(load.buffer is buffer and structural_equal(load.indices, tuple(indices)) for load in own)
