"""Split axes that count groups and their members at once, such as the channels of a group normalisation.

    for n, g, c, h in T.grid(N, 8, 4, H):                  G is A2: A as (N, 8, 4, H)
        G[n, g, c, h] = A[n, g * 4 + c, h]
    for n, g, c, h in T.grid(N, 8, 4, H):                  for n, g, c, h in T.grid(N, 8, 4, H):
        S[n, g] += G[n, g, c, h]                               S[n, g] += A2[n, g, c, h]
    for n, i, h in T.grid(N, 32, H):                       for n, g, c, h in T.grid(N, 8, 4, H):
        Y[n, i, h] = A[n, i, h] - S[n, i // 4]                 Y2[n, g, c, h] = A2[n, g, c, h] - S[n, g]

A divided axis is split in two, and so is each buffer dimension it indexes, by a view of the buffer; then the nests have
rows in common. A copy that only changes the shape becomes a view itself.

Rejected: splits by a non-constant, and buffers with an access that cannot be split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import TypeVar

from ..ir import structural_equal
from ..prim import FloorDiv, FloorMod, IntImm, Var, const
from ..runtime.records import dataclass
from ..tir import Block, Buffer, BufferLoad, BufferStore, IterVar, Range, Stmt
from ..tir.buffer import decl_buffer
from ..tir.functor import StmtExprMutator, post_order_visit, substitute
from ..tir.nests import Nest, is_compact, same_size
from .split_axes import Quotients, sum_of_two

AccessT = TypeVar("AccessT", BufferLoad, BufferStore)


def divides(nests: Sequence[Nest]) -> bool:
    """True if a nest other than a reduction divides one of its variables."""
    return any(
        not nest.is_reduction and any(_divisor(nest.block, v) is not None for v in nest.block.iter_vars)
        for nest in nests
    )


def with_cut_axes(nests: Sequence[Nest], own: set[Var]) -> tuple[list[Nest], tuple[Buffer, ...]] | None:
    """Return the nests over split axes with the views they use, or None if nothing is split or a split is impossible.

    `own` holds the data pointers of buffers used only by these nests.
    """
    cuts = _Cuts([nest.block for nest in nests])
    if not cuts.find() or not cuts.places:
        return None
    views = {buffer: _view(buffer, place, by) for buffer, (place, by) in cuts.places.items()}
    rewriter = _OfViews(views, cuts.places)
    changed = [_changed(nest, block, rewriter) for nest, block in zip(nests, cuts.blocks, strict=True)]
    if rewriter.misses:
        return None
    kept = _without_copies(changed, own)
    return kept, tuple(views.values())


# ------------------------------------------------------------------------------------------ finding cuts


@dataclass
class _Cuts:
    """Blocks whose variables are split, and the buffer dimensions they index."""

    blocks: list[Block]
    places: dict[Buffer, tuple[int, int]] = field(default_factory=dict[Buffer, tuple[int, int]])
    """(Dimension that is split, members per group) of each buffer."""

    def find(self) -> bool:
        """Propagate splits between variables and dimensions to a fixed point; return False if some do not match."""
        for number, block in enumerate(self.blocks):
            for variable in block.iter_vars:
                by = _divisor(block, variable)
                if by is not None and not self._split(number, variable.var, by):
                    return False
        while True:
            known = dict(self.places)
            blocks = list(self.blocks)
            if not all(map(self._meets, range(len(self.blocks)))):
                return False
            if known == self.places and all(a is b for a, b in zip(blocks, self.blocks, strict=True)):
                return True

    def _meets(self, number: int) -> bool:
        """Record the dimensions split in block `number` and split the variables that index such a dimension."""
        block = self.blocks[number]
        extents = _extents(block)
        for access in _accesses(block):
            for place, index in enumerate(access.indices):
                parts = sum_of_two(index)
                if parts is not None:
                    group, by, member = parts
                    size = access.buffer.shape[place]
                    whole = extents.get(group, 0) * by
                    if extents.get(member) != by or not isinstance(size, IntImm) or size.value != whole:
                        return False
                    if self.places.setdefault(access.buffer, (place, by)) != (place, by):
                        return False
                elif isinstance(index, Var) and self.places.get(access.buffer, (None, 0))[0] == place:
                    return self._split(number, index, self.places[access.buffer][1])
        return True

    def _split(self, number: int, var: Var, by: int) -> bool:
        """Split a variable in two; False if `by` does not divide its extent or it is already split otherwise."""
        block = self.blocks[number]
        extent = _extents(block).get(var, 0)
        if extent % by or not extent or not _divisors(block, var) <= {by}:
            return False
        dtype = var.dtype
        group, member = Var(f"{var.name}_group", dtype), Var(f"{var.name}_member", dtype)
        iter_vars: list[IterVar] = []
        for old in block.iter_vars:
            if old.var is var:
                iter_vars.append(_variable(group, extent // by, old))
                iter_vars.append(_variable(member, by, old))
            else:
                iter_vars.append(old)
        quotients = Quotients(group, member, by)
        whole = group * const(by, dtype) + member

        def cut(stmt: Stmt) -> Stmt:
            return quotients.visit(substitute(stmt, {var: whole}))

        init = None if block.init is None else cut(block.init)
        self.blocks[number] = block.replace(iter_vars=tuple(iter_vars), body=cut(block.body), init=init)
        return True


def _variable(var: Var, extent: int, old: IterVar) -> IterVar:
    zero, count = const(0, var.dtype), const(extent, var.dtype)
    return IterVar(Range.from_min_extent(zero, count), var, old.iter_type)


def _extents(block: Block) -> dict[Var, int]:
    """Static extents of the block's variables."""
    return {
        v.var: v.dom.extent.value for v in block.iter_vars if v.dom is not None and isinstance(v.dom.extent, IntImm)
    }


def _divisor(block: Block, variable: IterVar) -> int | None:
    """Return the single divisor above 1 that a block applies to one of its variables, or None."""
    numbers = _divisors(block, variable.var)
    return next(iter(numbers)) if len(numbers) == 1 and min(numbers) > 1 else None


def _divisors(block: Block, var: Var) -> set[int]:
    """Return all divisors that a block applies to a variable, with 0 for a divisor that is no constant."""
    numbers: set[int] = set()

    def visit(node: object) -> None:
        if isinstance(node, (FloorDiv, FloorMod)) and node.a is var:
            numbers.add(node.b.value if isinstance(node.b, IntImm) else 0)

    post_order_visit(block.body, visit)
    return numbers


def _accesses(block: Block) -> Iterator[BufferLoad | BufferStore]:
    found: list[BufferLoad | BufferStore] = []

    def visit(node: object) -> None:
        if isinstance(node, (BufferLoad, BufferStore)):
            found.append(node)

    for stmt in (block.body,) if block.init is None else (block.init, block.body):
        post_order_visit(stmt, visit)
    return iter(found)


# ------------------------------------------------------------------------------------------ views


def _view(buffer: Buffer, place: int, by: int) -> Buffer:
    """Return a view with dimension `place` split in two."""
    size = buffer.shape[place]
    assert isinstance(size, IntImm)
    dtype = size.dtype
    cut = (const(size.value // by, dtype), const(by, dtype))
    shape = (*buffer.shape[:place], *cut, *buffer.shape[place + 1 :])
    return decl_buffer(shape, str(buffer.dtype), buffer.name, data=buffer.data)


class _OfViews(StmtExprMutator):
    """Replaces accesses to split buffers by accesses to their views."""

    def __init__(self, views: dict[Buffer, Buffer], places: dict[Buffer, tuple[int, int]]) -> None:
        super().__init__()
        self.views, self.places = views, places
        self.misses = False
        """True if a buffer was accessed at an index of another form in its split dimension."""

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        return self._moved(self.visit_children(node))

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        return self._moved(self.visit_children(node))

    def _moved(self, access: AccessT) -> AccessT:
        if access.buffer not in self.views:
            return access
        place, by = self.places[access.buffer]
        parts = sum_of_two(access.indices[place])
        if parts is None or parts[1] != by or not is_compact(access.buffer):
            self.misses = True
            return access
        indices = (*access.indices[:place], parts[0], parts[2], *access.indices[place + 1 :])
        return access.replace(buffer=self.views[access.buffer], indices=indices)


def _changed(nest: Nest, block: Block, rewriter: StmtExprMutator) -> Nest:
    """Return the nest with `block` as its block, rewritten by `rewriter`."""
    init = None if block.init is None else rewriter.visit(block.init)
    block = block.replace(body=rewriter.visit(block.body), init=init)
    stores = tuple(access for access in _accesses(block.replace(init=None)) if isinstance(access, BufferStore))
    return replace(nest, block=block, stores=stores)


# ------------------------------------------------------------------------------------------ copies


def _without_copies(nests: Sequence[Nest], own: set[Var]) -> list[Nest]:
    """Drop nests that copy a buffer unchanged, and read the source instead of the copy."""
    sources: dict[Buffer, Buffer] = {}
    kept: list[Nest] = []
    written = {store.buffer.data for nest in nests for store in nest.stores}
    for nest in nests:
        source = _copied(nest)
        store = nest.stores[0]
        if source is not None and store.buffer.data in own and source.data not in written:
            sources[store.buffer] = source
        else:
            kept.append(nest)
    if not sources or not kept:
        return list(nests)
    reader = _Reads(sources)
    return [_changed(nest, nest.block, reader) for nest in kept]


def _copied(nest: Nest) -> Buffer | None:
    """Return the source buffer of a nest that copies it with the same shape and indices, or None."""
    store = nest.stores[0]
    load = store.value
    if nest.is_reduction or not isinstance(load, BufferLoad) or load.predicate is not None:
        return None
    source, result = load.buffer, store.buffer
    if source.dtype != result.dtype or len(source.shape) != len(result.shape):
        return None
    same = all(structural_equal(a, b) for a, b in zip(load.indices, store.indices, strict=True))
    return source if same and all(map(same_size, source.shape, result.shape)) else None


class _Reads(StmtExprMutator):
    """Redirects loads to other buffers at the same indices."""

    def __init__(self, sources: dict[Buffer, Buffer]) -> None:
        super().__init__()
        self.sources = sources

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        node = self.visit_children(node)
        source = self.sources.get(node.buffer)
        return node if source is None else node.replace(buffer=source)
