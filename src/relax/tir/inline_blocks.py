"""Inline nests of a kernel into their readers, so that intermediate buffers need no memory.

Before   B = T.alloc_buffer((n,))                    After   for i in range(n):
         for i in range(n):                                      with T.block("C"):
             with T.block("B"): B[v] = A[v] + 1.0                    C[v] = T.exp(A[v] + 1.0)
         for i in range(n):
             with T.block("C"): C[v] = T.exp(B[v])

A nest is inlined if

* it stores each element of an allocated buffer once, from expressions without effects (`relax.tir.nests`);
* the buffer is read by later nests only, at indices that do not depend on data (an index out of range is an error,
  that must be preserved);
* no statement in between writes a buffer that the nest reads;
* no work is repeated: it is read by one spatial nest or one reduction, once for each element. A nest that only moves or
  converts elements, at indices that do not depend on data, is inlined into all its spatial readers while they stay
  small: in a chain whose nests read their predecessor twice, the size would double with each nest.

An operand that is read several times at the same indices is computed once, in a Let. A product is not inlined into a
reduction that sums it: code generation may contract products into such sums (FMA), but the product of a separate
operator must be rounded first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..ir import Node, structural_equal
from ..ir.node import children_of
from ..prim import Call, Cast, Let, Mul, PrimExpr, Select, Var, const, free_vars, is_const
from .buffer import Buffer, BufferLoad
from .functor import StmtExprMutator, post_order_visit, substitute
from .nests import Nest, buffers_used, loads_in, nest_of, root_of, same_size
from .regions import complete_block
from .renew import renew_bound_vars
from .stmt import Block, BlockRealize, BufferStore, PrimFunc, SeqStmt, Stmt

MOST_REPEATED: Final = 200
"""Largest number of expression nodes that copies of a data-moving value may have together in one reader."""


def inline_blocks(func: PrimFunc) -> PrimFunc:
    """Inline nests as the module's docstring says; returns the function itself if nothing is inlined."""
    allocated, statements = root_of(func)
    if not allocated:
        return func
    current, kept, nests = list(statements), list(allocated), _Nests()
    while _round(current, kept, nests):
        pass
    if len(kept) == len(allocated):
        return func
    assert isinstance(func.body, BlockRealize)
    body = current[0] if len(current) == 1 else SeqStmt(tuple(current))
    root = func.body.block.replace(body=body, alloc_buffers=tuple(kept))
    return func.replace(body=func.body.replace(block=root))


def _round(current: list[Stmt], kept: list[Buffer], nests: _Nests) -> bool:
    """Inline producers, from the last to the first, except into statements that this round has rewritten.

    A chain thus halves in each round instead of being walked once per member. Returns True if a producer was postponed.
    """
    rewritten: set[int] = set()
    postponed = False
    for position in reversed(range(len(current))):
        producer = nests.nest(current[position])
        if producer is None or producer.is_reduction or producer.stores[0].buffer not in kept:
            continue
        later = current[position + 1 :]
        consumers = _consumers(producer, later, nests)
        if not consumers or not _is_worth_it(producer, consumers):
            continue
        if any(id(nest.stmt) in rewritten for nest in consumers):
            postponed = True
            continue
        replaced = {id(nest.stmt): _rewritten(nest, producer) for nest in consumers}
        rewritten.update(map(id, replaced.values()))
        current[position:] = [replaced.get(id(stmt), stmt) for stmt in later]
        kept.remove(producer.stores[0].buffer)
    return postponed


class _Nests:
    """Cache of the nest of each statement, and of the buffers it reads and writes."""

    def __init__(self) -> None:
        self._nests: dict[int, tuple[Stmt, Nest | None]] = {}
        self._buffers: dict[int, tuple[Stmt, tuple[frozenset[Var], frozenset[Var]]]] = {}

    def nest(self, stmt: Stmt) -> Nest | None:
        """Return the nest of a statement, or None if the statement has another form."""
        if id(stmt) not in self._nests:
            self._nests[id(stmt)] = stmt, nest_of(stmt)
        return self._nests[id(stmt)][1]

    def buffers(self, stmt: Stmt) -> tuple[frozenset[Var], frozenset[Var]]:
        """Return the data pointers of the buffers that a statement reads, and of those it writes."""
        if id(stmt) not in self._buffers:
            self._buffers[id(stmt)] = stmt, buffers_used(stmt)
        return self._buffers[id(stmt)][1]


def _consumers(producer: Nest, later: Sequence[Stmt], nests: _Nests) -> list[Nest]:
    """Return the nests that read the producer's result; [] if it cannot be inlined."""
    buffer = producer.stores[0].buffer
    sources = nests.buffers(producer.stmt)[0]
    consumers: list[Nest] = []
    changed = False
    for stmt in later:
        reads, writes = nests.buffers(stmt)
        changed = changed or bool(writes & sources)
        if buffer.data not in reads | writes:
            continue
        nest = nests.nest(stmt)
        if nest is None or changed or buffer.data in writes or not _may_read(nest, buffer):
            return []
        consumers.append(nest)
    return consumers


def _may_read(nest: Nest, buffer: Buffer) -> bool:
    """True if the nest is one store that reads `buffer` only in its value, at indices that do not depend on data."""
    if len(nest.stores) != 1 or not isinstance(nest.block.body, BufferStore):
        return False
    outside = (*nest.block.body.indices, *([] if nest.block.init is None else [nest.block.init]))
    if any(load.buffer is buffer for node in outside for load in loads_in(node)):
        return False
    loads = loads_in(nest.block.body.value)
    computed = _let_variables(nest.block.body.value)
    return not any(
        loads_in(index) or not computed.isdisjoint(free_vars(index))
        for load in loads
        if load.buffer is buffer
        for index in load.indices
    )


def _let_variables(value: PrimExpr) -> set[Var]:
    """Return the variables that lets in an expression bind."""
    variables: set[Var] = set()

    def visit(node: object) -> None:
        if isinstance(node, Let):
            variables.add(node.var)

    post_order_visit(value, visit)
    return variables


# -------------------------------------------------------------------------------- is it worth it?


def _is_worth_it(producer: Nest, consumers: Sequence[Nest]) -> bool:
    buffer, value = producer.stores[0].buffer, producer.stores[0].value
    if all(not nest.is_reduction and _may_repeat(value, nest, buffer) for nest in consumers):
        return True
    if len(consumers) > 1:
        return False
    consumer = consumers[0]
    if consumer.is_reduction and isinstance(value, Mul):
        return False
    distinct_loads = _distinct_loads(consumer, buffer)
    if len(distinct_loads) != 1 or not _reads_each_once(consumer, distinct_loads[0]):
        return False
    return _times_read(consumer, buffer) == 1 or _is_always_read(consumer, distinct_loads[0])


def _may_repeat(value: PrimExpr, reader: Nest, buffer: Buffer) -> bool:
    """True if `value` only moves data and may be copied to each load of `buffer` in `reader`."""
    if not _only_moves(value):
        return False
    copies = _summed(reader.stores[0].value, lambda node: isinstance(node, BufferLoad) and node.buffer is buffer)
    return copies == 1 or copies * _summed(value, lambda node: True) <= MOST_REPEATED


def _times_read(nest: Nest, buffer: Buffer) -> int:
    """Count the loads of a buffer in the value that a nest stores."""
    return _summed(nest.stores[0].value, lambda node: isinstance(node, BufferLoad) and node.buffer is buffer)


def _summed(node: Node, counts: Callable[[Node], bool]) -> int:
    """Count the nodes that satisfy `counts`; a shared node counts once for each occurrence."""
    sums: dict[int, int] = {}

    def add(current: Node) -> None:
        sums[id(current)] = counts(current) + sum(sums.get(id(below), 0) for below in children_of(current))

    post_order_visit(node, add)
    return sums[id(node)]


def _only_moves(value: PrimExpr) -> bool:
    """True for constants, variables and loaded elements, converted or selected by a condition."""
    match value:
        case BufferLoad(_, indices):
            return not any(loads_in(index) for index in indices)
        case Var():
            return True
        case Cast(_, operand):
            return _only_moves(operand)
        case Select(_, a, b):
            return _only_moves(a) and _only_moves(b)
        case Call(_, _, (_, a, b)) if value.intrinsic == "if_then_else":
            return _only_moves(a) and _only_moves(b)
        case _:
            return is_const(value)


def _loads_of(nest: Nest, buffer: Buffer) -> list[BufferLoad]:
    return [load for load in nest.loads() if load.buffer is buffer]


def _distinct_loads(nest: Nest, buffer: Buffer) -> list[BufferLoad]:
    """Return one load of a buffer for each distinct tuple of indices."""
    distinct_loads: list[BufferLoad] = []
    for load in _loads_of(nest, buffer):
        if not any(_same_indices(load, other) for other in distinct_loads):
            distinct_loads.append(load)
    return distinct_loads


def _same_indices(a: BufferLoad, b: BufferLoad) -> bool:
    return all(x is y or structural_equal(x, y) for x, y in zip(a.indices, b.indices, strict=True))


def _reads_each_once(nest: Nest, load: BufferLoad) -> bool:
    """True if the indices contain every block variable with more than one value, so no element is read twice."""
    varying = {v.var for v in nest.block.iter_vars if v.dom is None or not is_const(v.dom.extent, 1)}
    analyzer = nest.analyzer()
    indices = [analyzer.simplify(index) for index in load.indices]
    if nest.is_reduction and not all(isinstance(i, Var) or is_const(i) for i in indices):
        return False
    return varying <= {var for index in indices for var in free_vars(index)}


def _is_always_read(nest: Nest, load: BufferLoad) -> bool:
    """True if `load` is in range in every iteration, and may be evaluated before the rest of the stored value."""
    extents = {v.var: v.dom.extent for v in nest.block.iter_vars if v.dom is not None}
    return all(
        is_const(index, 0) if not isinstance(index, Var) else index in extents and same_size(extents[index], size)
        for index, size in zip(load.indices, load.buffer.shape, strict=True)
    )


# ---------------------------------------------------------------------------------------- rewriting


def _rewritten(consumer: Nest, producer: Nest) -> Stmt:
    """Return the consumer with its loads of the producer's result replaced by the producer's value."""
    buffer = producer.stores[0].buffer
    store = consumer.stores[0]
    distinct_loads = _distinct_loads(consumer, buffer)
    shared = (
        len(distinct_loads) == 1
        and _times_read(consumer, buffer) > 1
        and not _may_repeat(producer.stores[0].value, consumer, buffer)
    )
    if shared:
        var = Var(buffer.name, buffer.dtype)
        value = _Loads(buffer, lambda _: var).visit(store.value)
        value = Let(var, _value_at(producer, distinct_loads[0]), value)
    else:
        value = _Loads(buffer, lambda load: _value_at(producer, load)).visit(store.value)
    block = complete_block(consumer.block.replace(body=store.replace(value=value), reads=(), writes=()))
    return _Blocks(consumer.block, block).visit(consumer.stmt)


def _value_at(producer: Nest, load: BufferLoad) -> PrimExpr:
    """Return the value that the producer stores at the indices of `load`, with fresh variables in its lets."""
    store = producer.stores[0]
    values: dict[Var, PrimExpr] = {v: const(0, v.dtype) for v in producer.variables}
    for index, at in zip(store.indices, load.indices, strict=True):
        if isinstance(index, Var):
            values[index] = at.astype(index.dtype)
    return renew_bound_vars(substitute(store.value, values))


class _Loads(StmtExprMutator):
    """Replace the loads of one buffer."""

    def __init__(self, buffer: Buffer, replacement: Callable[[BufferLoad], PrimExpr]) -> None:
        super().__init__()
        self.buffer = buffer
        self.replacement = replacement

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        return self.replacement(node) if node.buffer is self.buffer else self.visit_children(node)


class _Blocks(StmtExprMutator):
    """Replace one block by another."""

    def __init__(self, old: Block, new: Block) -> None:
        super().__init__()
        self.old, self.new = old, new

    def visit_Block(self, node: Block) -> Block:
        return self.new if node is self.old else self.visit_children(node)
