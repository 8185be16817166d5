"""Let allocations with disjoint lifetimes share memory.

    with T.allocate((64,)) as a:                with T.allocate((64,)) as a:
        with T.allocate((64,)) as b:                for i in range(64):
            for i in range(64):                         a[i] = A[i]
                a[i] = A[i]             gives       for i in range(64):
            for i in range(64):                         a[i] = a[i] + x
                b[i] = a[i] + x                     ...
            ...

An allocation is live from its first access to its last; throughout a loop, if it is allocated outside and accessed
inside. Storage shared by different shapes has the size of the largest, with views (DeclBuffer). It is allocated around
all members.

Two allocations also share memory if the last use of one and the first use of the other is a single store `b[i] =
f(a[i])` at the same indices, which differ in every iteration.

Shares allocations of static size with the same dtype and scope, without annotations, in the same parallel loop.
Excluded are allocations of scope ``local``, of at most 32 bits, whose pointer is used, or with a view that is not
proved to be inside. Storage of more than a megabyte does not move out of a loop or branch. Skips functions with blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from ...ir import Node, structural_equal
from ...prim import IntImm, PrimExpr, Var, simplify
from ...runtime.records import dataclass
from ..buffer import Buffer, BufferLoad
from ..functor import StmtExprMutator, StmtExprVisitor, pre_order_visit, substitute
from ..stmt import AllocBuffer, BlockRealize, BufferStore, DeclBuffer, For, ForKind, IfThenElse, PrimFunc, Stmt, While
from ..usage import free_vars
from .each_prim_func import each_prim_func

SMALL = 32
"""Largest size, in bits, of storage that is left in a register."""

LARGE = 2**20
"""Largest size, in bytes, of storage that may move out of a loop or branch."""


def storage_rewrite(func: PrimFunc) -> PrimFunc:
    """Return the function with allocations sharing memory."""
    blocks: list[Node] = []
    pre_order_visit(func.body, lambda n: blocks.append(n) if isinstance(n, BlockRealize) else None)
    if blocks:
        return func
    lifetimes = _Lifetimes()
    lifetimes.visit(func.body)
    groups = [g for g in _grouped(lifetimes) if len(g) > 1]
    return func.replace(body=_Sharing(groups).visit(func.body)) if groups else func


# ---------------------------------------------------------------------------------------------- lifetimes


@dataclass(eq=False)
class _Span:
    """A loop, or a single step, as the range of its step numbers."""

    start: int
    end: int
    loop: For | While | None = None


@dataclass(frozen=True)
class _Use:
    """An access, with the spans of the enclosing loops."""

    position: int
    store: BufferStore | None
    """The statement of the access if it is a store, else None."""
    loops: tuple[_Span, ...]


@dataclass(eq=False)
class _Storage:
    """An allocation and its uses."""

    node: AllocBuffer
    path: tuple[Stmt, ...]
    loops: int
    """Number of loops that enclose the allocation."""
    region: Stmt | None
    """The parallel loop that encloses the allocation, or None."""
    uses: list[_Use] = field(default_factory=list[_Use])
    shared: bool = True
    """True if the allocation may share memory."""

    @property
    def count(self) -> int:
        return math.prod(size.value for size in self.node.buffer.shape if isinstance(size, IntImm))

    @property
    def bytes(self) -> int:
        dtype = self.node.buffer.dtype
        return self.count * dtype.lanes * ((dtype.bits + 7) // 8)

    def span(self, use: _Use) -> _Span:
        """Return the steps during which the value read or written by a use must be preserved."""
        inner = use.loops[self.loops :]
        return inner[0] if inner else _Span(use.position, use.position)

    @property
    def first(self) -> int:
        return min(self.span(use).start for use in self.uses)

    @property
    def last(self) -> int:
        return max(self.span(use).end for use in self.uses)


class _Lifetimes(StmtExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.storage: dict[Var, _Storage] = {}
        self.path: tuple[Stmt, ...] = ()
        self.loops: tuple[_Span, ...] = ()
        self.region: Stmt | None = None
        self.position = 0
        self.store: BufferStore | None = None

    def visit(self, node: Node) -> None:
        if not isinstance(node, Stmt):
            super().visit(node)
            return
        outer, store = self.path, self.store
        self.path, self.store = (*outer, node), node if isinstance(node, BufferStore) else None
        self.position += 1
        super().visit(node)
        self.position += 1
        self.path, self.store = outer, store

    def visit_AllocBuffer(self, node: AllocBuffer) -> None:
        storage = _Storage(node, self.path, len(self.loops), self.region)
        storage.shared = _may_share(node)
        self.storage[node.buffer.data] = storage
        self.visit(node.body)

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        behind = self.storage.get(node.buffer.data)
        if behind is not None and not _is_inside(node.buffer, behind.node.buffer):
            behind.shared = False
        self.visit(node.body)

    def loop(self, node: For | While, is_region: bool) -> None:
        span = _Span(self.position, -1, node)
        outer, region = self.loops, self.region
        self.loops = (*outer, span)
        if is_region:
            self.region = node
        self.visit_children(node)
        self.position += 1
        span.end = self.position
        self.loops, self.region = outer, region

    def visit_For(self, node: For) -> None:
        self.loop(node, node.kind not in (ForKind.SERIAL, ForKind.UNROLLED))

    def visit_While(self, node: While) -> None:
        self.loop(node, False)

    def access(self, buffer: Buffer) -> None:
        storage = self.storage.get(buffer.data)
        if storage is not None:
            storage.uses.append(_Use(self.position, self.store, self.loops))

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.access(node.buffer)
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.access(node.buffer)
        self.visit_children(node)

    def visit_Var(self, node: Var) -> None:
        if node in self.storage:
            self.storage[node].shared = False


def _may_share(node: AllocBuffer) -> bool:
    buffer = node.buffer
    if node.annotations or buffer.strides or buffer.elem_offset is not None:
        return False
    if buffer.scope.startswith(("local", "warp")):
        return False
    sizes = [size.value for size in buffer.shape if isinstance(size, IntImm)]
    if len(sizes) != buffer.ndim or any(size < 0 for size in sizes):
        return False
    bits = math.prod(sizes) * buffer.dtype.bits * buffer.dtype.lanes
    return SMALL < bits <= 2**62


def _is_inside(view: Buffer, owner: Buffer) -> bool:
    """True if a view has the dtype of its storage and is proved to lie inside it."""
    if view.strides or view.elem_offset is not None or view.dtype != owner.dtype:
        return False
    if not all(isinstance(size, IntImm) and size.value >= 0 for size in (*view.shape, *owner.shape)):
        return False
    counts = [math.prod(size.value for size in buffer.shape if isinstance(size, IntImm)) for buffer in (view, owner)]
    return counts[0] <= counts[1]


# ---------------------------------------------------------------------------------------------- groups


def _grouped(lifetimes: _Lifetimes) -> list[list[_Storage]]:
    """Group allocations that share memory one after the other."""
    items = [s for s in lifetimes.storage.values() if s.shared and s.uses]
    items.sort(key=lambda storage: storage.first)
    groups: list[list[_Storage]] = []
    for item in items:
        free = [group for group in groups if _follows(item, group[-1]) and _may_stand_together([*group, item])]
        if free:
            min(free, key=lambda group: abs(max(s.count for s in group) - item.count)).append(item)
        else:
            groups.append([item])
    return groups


def _common_depth(group: Sequence[_Storage]) -> int:
    """Return the number of statements that enclose the whole group."""
    paths = [member.path for member in group]
    depth = 0
    while depth < min(map(len, paths)) and all(path[depth] is paths[0][depth] for path in paths):
        depth += 1
    return depth


def _may_stand_together(group: Sequence[_Storage]) -> bool:
    """True unless sharing would move a large allocation out of its branch or loop."""
    depth = _common_depth(group)
    return not any(
        member.bytes > LARGE and any(isinstance(stmt, (For, IfThenElse, While)) for stmt in member.path[depth:])
        for member in group
    )


def _follows(later: _Storage, earlier: _Storage) -> bool:
    """True if `later` may reuse the memory of `earlier`."""
    a, b = earlier.node.buffer, later.node.buffer
    if a.dtype != b.dtype or a.scope != b.scope or earlier.region is not later.region:
        return False
    return earlier.last < later.first or _in_place(later, earlier)


def _in_place(later: _Storage, earlier: _Storage) -> bool:
    """True if both are live only in one store, which reads and writes the same element in each iteration."""
    start, end = later.first, earlier.last
    old = [use for use in earlier.uses if start <= use.position <= end]
    new = [use for use in later.uses if start <= use.position <= end]
    if not old or len(new) != 1 or new[0].store is None:
        return False
    store = new[0].store
    spans = [*map(earlier.span, old), later.span(new[0])]
    if any(use.store is not store for use in old) or any((s.start, s.end) != (start, end) for s in spans):
        return False
    a, b = earlier.node.buffer, later.node.buffer
    if store.buffer is not b or not structural_equal(a.shape, b.shape):
        return False
    for load in _loads_of(store, a.data):
        if load.buffer is not a or not structural_equal(load.indices, store.indices):
            return False
    return _differ(store.indices, new[0].loops[later.loops :])


def _loads_of(store: BufferStore, data: Var) -> list[BufferLoad]:
    loads: list[BufferLoad] = []

    def visit(node: Node) -> None:
        if isinstance(node, BufferLoad) and node.buffer.data is data:
            loads.append(node)

    pre_order_visit(store, visit)
    return loads


def _differ(indices: tuple[PrimExpr, ...], loops: Sequence[_Span]) -> bool:
    """True if the indices differ in all iterations of nested loops."""
    variables: dict[Var, PrimExpr] = {}
    for span in loops:
        if not isinstance(span.loop, For):
            return False
        variables[span.loop.loop_var] = span.loop.extent
    rest = set(variables)
    for index in indices:
        used = free_vars(index) & set(variables)
        if used and index.dtype.lanes == 1 and _separates(index, {v: variables[v] for v in used}):
            rest -= used
    return not rest


def _separates(index: PrimExpr, variables: dict[Var, PrimExpr]) -> bool:
    """True if an index is injective in some loop variables: ``i * 16 + j`` for j below 16."""
    if isinstance(index, Var):
        return True
    steps: list[tuple[int, int]] = []
    for var, extent in variables.items():
        step = simplify(substitute(index, {var: var + 1}) - index)
        if not isinstance(step, IntImm) or not isinstance(extent, IntImm) or step.value == 0:
            return False
        steps.append((abs(step.value), extent.value))
    reach = 0
    for step, extent in sorted(steps):
        if step <= reach:
            return False
        reach += step * max(extent - 1, 0)
    return True


# ---------------------------------------------------------------------------------------------- rewriting


class _Sharing(StmtExprMutator):
    def __init__(self, groups: list[list[_Storage]]) -> None:
        super().__init__()
        self.placed: dict[Stmt, list[AllocBuffer]] = {}
        self.pointers: dict[Var, Var] = {}
        self.views: dict[AllocBuffer, Buffer | None] = {}
        """View of the shared storage for an allocation's buffer; None if the storage itself replaces it."""
        for group in groups:
            self.plan(group)

    def plan(self, group: list[_Storage]) -> None:
        """Choose the storage of a group, the statement around which it is allocated, and the members' views."""
        first = group[0].node
        nodes = [member.node for member in group]
        align = max(node.buffer.data_alignment for node in nodes)
        if all(structural_equal(node.buffer.shape, first.buffer.shape) for node in nodes):
            storage = first.buffer.replace(data_alignment=align)
            for node in nodes:
                self._buffers[node.buffer] = storage
                self.views[node] = None
        else:
            count = IntImm("int64", max(member.count for member in group))
            storage = first.buffer.replace(shape=(count,), data_alignment=align, axis_separators=())
            for node in nodes:
                self.views[node] = node.buffer.replace(data=storage.data)
        stmt = group[0].path[_common_depth(group) - 1]
        self.placed.setdefault(stmt, []).append(AllocBuffer(storage, first.body))
        self.pointers.update((node.buffer.data, storage.data) for node in nodes)

    def visit(self, node: Any) -> Any:
        result = super().visit(node)
        for storage in self.placed.get(node, ()) if isinstance(node, Stmt) else ():
            result = storage.replace(body=result)
        return result

    def visit_Var(self, node: Var) -> PrimExpr:
        return self.pointers.get(node, node)

    def visit_AllocBuffer(self, node: AllocBuffer) -> Stmt:
        if node not in self.views:
            return self.visit_children(node)
        view = self.views[node]
        if view is None:
            return self.visit(node.body)
        self._buffers[node.buffer] = view
        return DeclBuffer(view, self.visit(node.body))


StorageRewrite = each_prim_func(storage_rewrite, "StorageRewrite")
"""Pass: let allocations with disjoint lifetimes share memory."""
