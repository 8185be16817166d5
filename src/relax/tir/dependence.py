"""Dependence between the blocks of a scope: who reads what whom writes.

    for i in range(8):
        with T.block("P"):              P writes T
            T[vi] = A[vi]
        with T.block("C"):              C reads T behind P: P is a producer of C, C a consumer of P
            B[vi] = T[vi]
        with T.block("Q"):              Q overwrites what C reads; it is a consumer of P too, and C is none of Q
            T[vi] = 0.0

A scope is a block with the blocks directly in it, its children. Accesses come from the bodies, not from what a block
declares. All facts are about statements, which never change, and are remembered with them: after a rewrite of one loop
nest, those of the others are not gathered again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..ir import Node, structural_equal
from ..prim import IntImm, PrimExpr, Var
from ..prim.traits import has_effects
from .buffer import Buffer, BufferLoad, BufferRegion
from .functor import StmtExprVisitor, post_order_visit
from .regions import block_access_region
from .statements import parts_of
from .stmt import Block, BlockRealize, BufferStore, Evaluate, For, LetStmt, SeqStmt, Stmt
from .usage import free_vars as variables_used


@dataclass(frozen=True)
class Accesses:
    """The regions of a block, over its own variables; reading what a reduction is summed up in counts as no read."""

    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    opaque: bool
    """True if the body calls functions with effects, hands a pointer on, or declares a view."""

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
    """The accesses of a block's body, and those that the block declares of buffers that it hands on as pointers."""
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
    """The variables that a block uses and does not bind."""
    result = _free.get(block)
    if result is None:
        result = _free[block] = frozenset(variables_used(block))
    return result


def touches(block: Block, buffer: Buffer) -> bool:
    """True if a block allocates, accesses, views or hands on a buffer. A rewrite of its uses may skip other blocks."""
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
    """The children of a block in the order of the program, and who writes and reads which buffer among them."""

    block: Block
    children: list[BlockRealize] = field(default_factory=list[BlockRealize])
    writers: dict[Buffer, list[BlockRealize]] = field(default_factory=dict[Buffer, "list[BlockRealize]"])
    readers: dict[Buffer, list[BlockRealize]] = field(default_factory=dict[Buffer, "list[BlockRealize]"])
    by_pointer: dict[Var, set[Buffer]] = field(default_factory=dict[Var, "set[Buffer]"])
    """The buffers that the children access, by their storage."""
    variables: set[Var] = field(default_factory=set[Var])
    """The variables of loops and lets in the scope."""
    loose: set[Buffer] = field(default_factory=set[Buffer])
    """Buffers whose storage statements outside of the children, in this scope, read, write or hand on."""
    _positions: dict[int, int] = field(default_factory=dict[int, int])

    def position(self, child: BlockRealize) -> int:
        """The place of a child in the order of the program."""
        if not self._positions:
            self._positions.update((id(item), i) for i, item in enumerate(self.children))
        return self._positions[id(child)]

    def producers(self, child: BlockRealize) -> list[BlockRealize]:
        """The children before this one that write what it reads or writes, in the order of the program."""
        used = accesses(child.block)
        buffers = used.read_buffers | used.written_buffers
        return self._those(self.writers, buffers, child, before=True)

    def consumers(self, child: BlockRealize) -> list[BlockRealize]:
        """The children behind this one that read or write what it writes, in the order of the program."""
        buffers = accesses(child.block).written_buffers
        readers = self._those(self.readers, buffers, child, before=False)
        writers = self._those(self.writers, buffers, child, before=False)
        return sorted({*readers, *writers}, key=self.position)

    def overwriters(self, child: BlockRealize) -> list[BlockRealize]:
        """The children behind this one that write what it reads."""
        return self._those(self.writers, accesses(child.block).read_buffers, child, before=False)

    def _those(
        self, table: dict[Buffer, list[BlockRealize]], buffers: set[Buffer], child: BlockRealize, before: bool
    ) -> list[BlockRealize]:
        here = self.position(child)
        others = {item for buffer in buffers for item in table.get(buffer, ()) if item is not child}
        return sorted((c for c in others if (self.position(c) < here) is before), key=self.position)


@dataclass
class _Part:
    """The facts about one statement of a scope: those that the scope gathers from all of its statements."""

    children: list[BlockRealize] = field(default_factory=list[BlockRealize])
    writes: list[tuple[Buffer, BlockRealize]] = field(default_factory=list[tuple[Buffer, BlockRealize]])
    reads: list[tuple[Buffer, BlockRealize]] = field(default_factory=list[tuple[Buffer, BlockRealize]])
    loose: set[Buffer] = field(default_factory=set[Buffer])
    pointers: set[Var] = field(default_factory=set[Var])
    """The variables, among them the pointers of storage, that statements outside of the children use."""
    variables: set[Var] = field(default_factory=set[Var])

    def add_uses(self, node: Node) -> None:
        """Add what a statement or an expression outside of the children uses."""
        if not isinstance(node, (Var, IntImm)):
            uses = _Uses()
            uses.visit(node)
            self.loose |= uses.buffers
            self.pointers |= uses.variables


_parts: weakref.WeakKeyDictionary[Stmt, _Part] = weakref.WeakKeyDictionary()


def scope_of(block: Block) -> BlockScope:
    """The children of a block, and what they read and write.

    The facts about each loop nest are remembered with it; after a rewrite of one, those of the others are gathered.
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
    """The variables that statements of a scope, outside of its children, bind."""
    if isinstance(stmt, For):
        yield stmt.loop_var
    elif isinstance(stmt, LetStmt):
        yield stmt.var
    if not isinstance(stmt, BlockRealize):
        for part in parts_of(stmt):
            yield from _bound_around(part)


def _children(stmt: Stmt) -> Iterator[Node]:
    """Blocks, and what else is executed, directly in a scope: stores, calls, and the expressions of statements."""
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
    """The loops in a statement that are not in a block of it."""
    if isinstance(stmt, For):
        yield stmt
    if not isinstance(stmt, BlockRealize):
        for part in parts_of(stmt):
            yield from loops_of_scope(part)


class _Uses(StmtExprVisitor):
    """Collects the buffers that are read and written, and the variables, among them pointers."""

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
    """The loads in an expression or statement."""
    loads: list[BufferLoad] = []
    post_order_visit(expr, lambda part: loads.append(part) if isinstance(part, BufferLoad) else None)
    return loads


def reads_no_other(expr: PrimExpr, buffer: Buffer, place: Sequence[PrimExpr]) -> bool:
    """True if an expression reads no element of a buffer's storage but the one at `place`.

    Calls with effects may read any.
    """
    if has_effects(expr):
        return False
    own = (load for load in loads_in(expr) if load.buffer.data is buffer.data)
    return all(load.buffer is buffer and structural_equal(load.indices, tuple(place)) for load in own)


__all__ = [
    "Accesses", "BlockScope", "accesses", "free_variables", "loads_in", "loops_of_scope", "reads_no_other", "scope_of",
    "touches",
]  # fmt: skip
