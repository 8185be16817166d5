"""Canonical loop nests: perfect loops around one block that stores one element in each iteration.

    for i, k in T.grid(n, m):                       spatial: no init, no reduction; every element is stored once
        with T.block("sum"):
            v_i, v_k = T.axis.remap("SR", [i, k])   block variables equal loop variables, from 0 on
            with T.init(): C[v_i] = 0.0
            C[v_i] = C[v_i] + A[v_i, v_k]           one store (several in a reduction of several values)

Fusion treats kernels as sequences of such nests; kernels with other statements are opaque.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import structural_equal, walk
from ..prim import Analyzer, IntImm, PrimExpr, Var, is_const
from ..prim.expr import INT64, cast
from ..prim.per_node import per_node, proved_per_node
from ..prim.traits import has_effects
from ..runtime.records import dataclass
from .buffer import Buffer, BufferLoad, BufferRegion, IterVar
from .functor import post_order_visit
from .statements import seq_of
from .stmt import (
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    SeqStmt,
    Stmt,
)


@dataclass(frozen=True)
class Nest:
    """A statement of a kernel's root in the form that the module's docstring describes."""

    stmt: Stmt
    block: Block
    stores: tuple[BufferStore, ...]
    """Stores of the block's body, without those of its init."""

    @property
    def is_in_place(self) -> bool:
        """True if the nest reads the elements that it replaces (see `nest_of`)."""
        return not self.is_reduction and any(load.buffer is self.stores[0].buffer for load in self.loads())

    @property
    def is_reduction(self) -> bool:
        """True if the block combines values along some of its variables."""
        return self.block.init is not None or any(v.iter_type == "reduce" for v in self.block.iter_vars)

    @property
    def variables(self) -> tuple[Var, ...]:
        """The variables of the block."""
        return tuple(v.var for v in self.block.iter_vars)

    def analyzer(self) -> Analyzer:
        """Return an analyzer that knows the domains of the block's variables."""
        analyzer = Analyzer()
        for iter_var in self.block.iter_vars:
            if iter_var.dom is not None:
                analyzer.bind(iter_var.var, iter_var.dom)
        return analyzer

    def loads(self) -> list[BufferLoad]:
        """Return the loads in the block's body, except from buffers that it stores to; a shared object occurs once."""
        own = {store.buffer for store in self.stores}
        return [load for load in loads_in(self.block.body) if load.buffer not in own]


def root_of(func: PrimFunc) -> tuple[tuple[Buffer, ...], tuple[Stmt, ...]]:
    """Return the buffers that a kernel's root block allocates, and its statements in order."""
    match func.body:
        case BlockRealize((), predicate, block) if is_const(predicate, 1) and _is_plain(block):
            allocated, body = block.alloc_buffers, block.body
        case body:
            allocated = ()
    return allocated, body.seq if isinstance(body, SeqStmt) else (body,)


def _is_plain(block: Block) -> bool:
    return not block.match_buffers and not block.annotations and block.init is None


def nest_of(stmt: Stmt, in_place: bool = False) -> Nest | None:
    """Return a statement as a nest, or None if it has another form.

    With `in_place`, a spatial nest may read the element that it replaces.
    """
    parts = (_parts_in_place if in_place else _parts)(stmt)
    return None if parts is None else Nest(stmt, *parts)


@proved_per_node
def _parts(stmt: Stmt) -> tuple[Block, tuple[BufferStore, ...]] | None:
    return _block_and_stores(stmt, False)


@proved_per_node
def _parts_in_place(stmt: Stmt) -> tuple[Block, tuple[BufferStore, ...]] | None:
    return _block_and_stores(stmt, True)


def _block_and_stores(stmt: Stmt, in_place: bool) -> tuple[Block, tuple[BufferStore, ...]] | None:
    """Return the block of a nest and its stores; see `nest_of`."""
    loops: dict[Var, PrimExpr] = {}
    body = stmt
    while isinstance(body, For):
        plain = body.kind is ForKind.SERIAL and not body.annotations and is_const(body.min, 0)
        if not plain or body.loop_var in loops:
            return None
        loops[body.loop_var] = body.extent
        body = body.body
    if not isinstance(body, BlockRealize) or not is_const(body.predicate, 1):
        return None
    block = body.block
    if block.alloc_buffers or block.match_buffers or not _is_trivial(body, loops):
        return None
    stores = _stores(block.body)
    if not stores or not _is_pure(block):
        return None
    if any(v.iter_type not in ("spatial", "reduce") for v in block.iter_vars):
        return None
    nest = Nest(stmt, block, stores)
    if nest.is_reduction:
        return (block, stores) if block.init is not None and _stores(block.init) else None
    is_single = len(stores) == 1 and isinstance(block.body, BufferStore)
    return (block, stores) if is_single and _covers(nest, in_place) else None


def _is_trivial(realize: BlockRealize, loops: dict[Var, PrimExpr]) -> bool:
    """True if the block variables are distinct loop variables with the same ranges, or constant 0."""
    free = dict(loops)
    for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        dom = iter_var.dom
        if dom is None or not is_const(dom.min, 0):
            return False
        extent = free.pop(value, None) if isinstance(value, Var) else None
        if extent is None:
            if not is_const(value, 0) or not is_const(dom.extent, 1):
                return False
        elif not same_size(extent, dom.extent):
            return False
    return all(is_const(extent, 1) for extent in free.values())


def with_root(func: PrimFunc, stmts: Sequence[Stmt], unused: Sequence[Buffer] = ()) -> PrimFunc:
    """Replace the statements in the function's root (see `root_of`) and drop the allocations of `unused` buffers."""
    body, arranged = func.body, seq_of(stmts)
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        kept = tuple(buffer for buffer in body.block.alloc_buffers if buffer not in unused)
        root = body.block.replace(body=arranged, alloc_buffers=kept)
        return func.replace(body=body.replace(block=root))
    return func.replace(body=arranged)


def same_size(a: PrimExpr, b: PrimExpr) -> bool:
    """True if two sizes are proved to be equal."""
    if isinstance(a, IntImm) and isinstance(b, IntImm) and a.dtype == b.dtype:
        return a.value == b.value
    if a is b or structural_equal(a, b):  # as most are, and the prover takes longer to say so
        return True
    return Analyzer().can_prove_equal(cast(INT64, a), cast(INT64, b))


def _stores(stmt: Stmt) -> tuple[BufferStore, ...]:
    """Return the stores of a block's body; () unless it consists of lets and conditions around stores."""
    match stmt:
        case BufferStore():
            return (stmt,)
        case SeqStmt(seq):
            stores = [_stores(child) for child in seq]
            return tuple(store for group in stores for store in group) if all(stores) else ()
        case LetStmt(_, _, body) | IfThenElse(_, body, None):
            return _stores(body)
        case _:
            return ()


def _is_pure(block: Block) -> bool:
    """True if a block's expressions are scalar, without effects, and without pointers."""
    pure = True

    def visit(node: object) -> None:
        nonlocal pure
        if isinstance(node, PrimExpr):
            pure = pure and not has_effects(node) and not node.dtype.is_handle and node.dtype.lanes == 1

    for stmt in (block.body,) if block.init is None else (block.init, block.body):
        post_order_visit(stmt, lambda node: None if isinstance(node, Buffer) else visit(node))
    return pure


def _covers(nest: Nest, in_place: bool) -> bool:
    """True if a block's single store writes every element of its buffer once, and does not read the buffer, or with
    `in_place` only that element.
    """
    store = nest.stores[0]
    extents: dict[Var, IterVar] = {v.var: v for v in nest.block.iter_vars}
    for index, size in zip(store.indices, store.buffer.shape, strict=True):
        iter_var = extents.pop(index, None) if isinstance(index, Var) else None
        if iter_var is None:
            if not is_const(index, 0) or not is_const(size, 1):
                return False
        elif iter_var.dom is None or not same_size(iter_var.dom.extent, size):
            return False
    rest_is_single = all(v.dom is not None and is_const(v.dom.extent, 1) for v in extents.values())
    return rest_is_single and all(
        load.buffer is not store.buffer or (in_place and structural_equal(load.indices, store.indices))
        for load in loads_in(store)
    )


def loads_in(stmt: Stmt | PrimExpr) -> list[BufferLoad]:
    """Return the loads below a node; a shared object occurs once."""
    return list(_loads_in_stmt(stmt)) if isinstance(stmt, Stmt) else _loads_in(stmt)


@per_node
def _loads_in_stmt(stmt: Stmt) -> tuple[BufferLoad, ...]:
    return tuple(_loads_in(stmt))


def _loads_in(stmt: Stmt | PrimExpr) -> list[BufferLoad]:
    loads: list[BufferLoad] = []

    def visit(node: object) -> None:
        if isinstance(node, BufferLoad):
            loads.append(node)

    post_order_visit(stmt, visit)
    return loads


@per_node
def buffers_used(stmt: Stmt) -> tuple[frozenset[Var], frozenset[Var]]:
    """Return the data pointers of buffers that a statement may read, and of those it may write.

    A pointer used outside of a load or store counts as both.
    """
    reads: set[Var] = set()
    writes: set[Var] = set()

    def visit(node: object) -> bool:
        match node:
            case BufferLoad(buffer):
                reads.add(buffer.data)
            case BufferStore(buffer):
                writes.add(buffer.data)
            case BufferRegion():
                return False
            case DeclBuffer(buffer):  # another view
                reads.add(buffer.data)
                writes.add(buffer.data)
            case MatchBufferRegion(_, source):
                reads.add(source.buffer.data)
                writes.add(source.buffer.data)
            case Var() if node.dtype.is_handle:
                reads.add(node)
                writes.add(node)
            case _:
                pass
        return not isinstance(node, Buffer)

    walk(stmt, visit, _USING)
    return frozenset(reads), frozenset(writes)


_USING = (BufferLoad, BufferStore, BufferRegion, DeclBuffer, MatchBufferRegion, Var, Buffer)
"""Classes of nodes that use the data pointer of a buffer, or below which nothing does."""


def is_compact(buffer: Buffer) -> bool:
    """True if a buffer is row-major without offset, in global memory."""
    offset = buffer.elem_offset
    plain_offset = offset is None or is_const(offset, 0)
    return not buffer.strides and plain_offset and buffer.scope == "global"
