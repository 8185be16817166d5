"""Facts about the blocks of a scope: accesses, dependencies, and what kind of computation each block is.

A scope is a block with the blocks directly in it, its children. Accesses come from the bodies, not from what a block
declares. All facts are about statements, which never change, and are remembered with them.

    complete block      the only writer of its buffers in the scope; data-parallel variables only, no two values of
                        which write one element; reads nothing that it writes
    reduction block     likewise, with reduction variables too, which do not index what it writes, and an init
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from ...ir import Node, structural_equal
from ...prim import Analyzer, IntImm, PrimExpr, Var, free_vars, is_const, substitute
from ...prim.iter_map import IterMapLevel, detect_iter_map
from ...prim.traits import has_effects
from ..buffer import Buffer, BufferLoad, BufferRegion, IterVar, Range
from ..functor import StmtExprVisitor, post_order_visit
from ..regions import block_access_region
from ..stmt import Block, BlockRealize, BufferStore, Evaluate, For, LetStmt, SeqStmt, Stmt
from ..usage import free_vars as variables_used
from .state import parts_of

N = TypeVar("N", bound=Node)


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
        self.found = False

    def visit_Evaluate(self, node: Evaluate) -> None:
        self.found = self.found or has_effects(node.value)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.found = self.found or has_effects(node.value)

    def visit_While(self, node: Stmt) -> None:
        self.found = True

    def visit_DeclBuffer(self, node: Stmt) -> None:
        self.found = True  # a view through a pointer: what it accesses is no region of a buffer


def _is_opaque(block: Block) -> bool:
    visitor = _Effects()
    visitor.visit(block.body)
    return visitor.found


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
        found = {item for buffer in buffers for item in table.get(buffer, ()) if item is not child}
        return sorted((c for c in found if (self.position(c) < here) is before), key=self.position)


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


# ------------------------------------------------------------------------------------------ kinds of blocks


def complete_problem(child: BlockRealize, scope: Block, alone: bool = True) -> str | None:
    """The reason for which a child of a scope is no complete block; None if it is one.

    With ``alone=False`` other blocks may write its buffers too.
    """
    block = child.block
    problem = _common_problem(child, scope, alone)
    if problem is not None:
        return problem
    for iter_var in block.iter_vars:
        if iter_var.iter_type != "spatial":
            return f"its variable {iter_var.var.name} is {_kind(iter_var)}, not data-parallel"
    used = accesses(block)
    for region in used.writes:
        if region.buffer in used.read_buffers:
            return f"it reads buffer {region.buffer.name}, which it also writes"
    if block.init is not None:
        return "it has an init"
    return None


def reduction_problem(
    child: BlockRealize, scope: Block, alone: bool = True, initialised: bool = False
) -> str | None:
    """The reason for which a child of a scope is no reduction block; None if it is one.

    With ``alone=False`` other blocks may write its buffers too; with ``initialised=True`` it needs no init.
    """
    block = child.block
    if block.init is None and not initialised:
        return "it has no init (write its first step in T.init)"
    for iter_var in block.iter_vars:
        if iter_var.iter_type not in ("spatial", "reduce"):
            return f"its variable {iter_var.var.name} is {_kind(iter_var)}, neither data-parallel nor a reduction"
    problem = _common_problem(child, scope, alone)
    if problem is not None:
        return problem
    reduced = {v.var for v in block.iter_vars if v.iter_type == "reduce"}
    for region in accesses(block).writes:
        for extent in region.region:
            if reduced & set(free_vars(extent.min)) or reduced & set(free_vars(extent.extent)):
                return f"a reduction variable indexes buffer {region.buffer.name}, which it writes"
    return _other_element_problem(block)


def _other_element_problem(block: Block) -> str | None:
    """The reason for which a block may read elements that it writes in other instances; None if it does not."""
    stores = nodes_of(block.body, BufferStore)
    written = {store.buffer for store in stores}
    for load in nodes_of(block.body, BufferLoad):
        if load.buffer in written and not any(
            store.buffer is load.buffer and structural_equal(store.indices, load.indices) for store in stores
        ):
            return f"it reads elements of buffer {load.buffer.name} other than the one that it writes"
    return None


def nodes_of(node: Node, kind: type[N]) -> list[N]:
    """The nodes of a class in a statement or expression."""
    result: list[N] = []
    post_order_visit(node, lambda part: result.append(part) if isinstance(part, kind) else None)
    return result


def data_parallel_problem(block: Block) -> str | None:
    """The reason for which two values of a block's data-parallel variables may write one element; None if never."""
    needed = [v.var for v in block.iter_vars if v.iter_type == "spatial" and not _is_single(v)]
    for region in accesses(block).writes:
        for var in needed:
            if not any(_tells_apart(var, needed, extent) for extent in region.region):
                if _is_injective(block, needed, region):
                    break
                return f"two values of its variable {var.name} may write the same element of {region.buffer.name}"
    return None


def _is_single(iter_var: IterVar) -> bool:
    """True if a variable has one value."""
    return iter_var.dom is not None and is_const(iter_var.dom.extent, 1)


def _tells_apart(var: Var, needed: list[Var], extent: Range) -> bool:
    """True if a range moves, with each step of a variable, by its own length or more, whatever the others are."""
    free = set(free_vars(extent.min))
    if var not in free or any(other in free for other in needed if other is not var):
        return False
    analyzer = Analyzer()
    step = analyzer.simplify(substitute(extent.min, {var: var + 1}) - extent.min)
    return var not in set(free_vars(step)) and analyzer.can_prove(step >= extent.extent)


def _is_injective(block: Block, needed: list[Var], region: BufferRegion) -> bool:
    """True if no element is written for two values of the variables together."""
    if not all(is_const(extent.extent, 1) for extent in region.region):
        return False
    domains = {v.var: v.dom for v in block.iter_vars if v.dom is not None and v.var in set(needed)}
    indices = [r.min for r in region.region if set(free_vars(r.min)) & set(needed)]
    result = detect_iter_map(indices, domains, check_level=IterMapLevel.Injective)
    used = {var for index in indices for var in free_vars(index)}
    return bool(result.indices) and used.issuperset(needed)


def _common_problem(child: BlockRealize, scope: Block, alone: bool) -> str | None:
    block = child.block
    used = accesses(block)
    if used.opaque:
        return "it calls a function with effects, has a while loop, or views storage through a pointer"
    siblings = scope_of(scope)
    outside = siblings.variables.intersection(free_variables(block))
    if outside:
        name = min(var.name for var in outside)
        return f"its body uses the loop variable {name} itself (bind a variable of the block to it)"
    for region in (*used.reads, *used.writes):
        if len(siblings.by_pointer[region.buffer.data]) > 1:
            return f"buffer {region.buffer.name} shares its storage with another buffer"
    for region in used.writes:
        others = [c for c in siblings.writers.get(region.buffer, ()) if c is not child]
        if others and alone:
            name = others[0].block.name_hint
            return f"it is not the only block that writes buffer {region.buffer.name}: so does {name}"
        if region.buffer in siblings.loose:
            return f"a statement outside of blocks reads or writes buffer {region.buffer.name}"
    return data_parallel_problem(block)


def _kind(iter_var: IterVar) -> str:
    names = {"reduce": "a reduction", "scan": "ordered", "opaque": "opaque", "thread": "a thread"}
    return names.get(iter_var.iter_type, iter_var.iter_type)
