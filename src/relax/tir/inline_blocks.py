"""Inline nests of a kernel into their readers, so that intermediate buffers need no memory.

Before   B = T.alloc_buffer((n,))                    After   for i in range(n):
         for i in range(n):                                      with T.block("C"):
             with T.block("B"): B[v] = A[v] + 1.0                    C[v] = T.exp(A[v] + 1.0)
         for i in range(n):
             with T.block("C"): C[v] = T.exp(B[v])

A nest is inlined if

* it stores each element of an allocated buffer once, from expressions without effects (`relax.tir.nests`);
* no other statement writes the buffer, and it is read by later nests only, at indices that do not depend on data (an
  index out of range is an error, that must be preserved);
* no statement in between writes a buffer that the nest reads;
* no work is repeated: it is read by one spatial nest or one reduction, once for each element. A nest that only moves or
  converts elements, at indices that do not depend on data, is inlined into all its spatial readers while they stay
  small: in a chain whose nests read their predecessor twice, the size would double with each nest.

An operand that is read several times at the same indices is computed once, in a Let. A product is not inlined into a
reduction that sums it: code generation may contract products into such sums (FMA), but the product of a separate
operator must be rounded first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
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
    current, nests = statements, _Nests()
    inlined: set[Buffer] = set()
    while True:
        this_round = _Round(current, frozenset(allocated) - inlined, nests)
        this_round.choose()
        if this_round.inlined:
            current = this_round.statements()
            inlined |= this_round.inlined
        if not this_round.postponed:
            break
    if not inlined:
        return func
    assert isinstance(func.body, BlockRealize)
    body = current[0] if len(current) == 1 else SeqStmt(current)
    kept = tuple(buffer for buffer in allocated if buffer not in inlined)
    root = func.body.block.replace(body=body, alloc_buffers=kept)
    return func.replace(body=func.body.replace(block=root))


class _Round:
    """One walk over the statements, which inlines the producers of each consumer together.

    Producers are looked at from the last to the first, against the consumers as they were before the round. A producer
    that another one of the round reads is postponed to the next round, so a chain halves in each.
    """

    def __init__(self, statements: tuple[Stmt, ...], kept: frozenset[Buffer], nests: _Nests) -> None:
        self._statements = statements
        self._kept = kept
        self._nests = nests
        self._users: defaultdict[Var, set[int]] = defaultdict(set)
        """Positions of the statements that read or write a buffer, by its data pointer."""
        self._writers: defaultdict[Var, list[int]] = defaultdict(list)
        self._producers: defaultdict[int, list[Nest]] = defaultdict(list)
        """Producers to inline, by the position of their consumer, from the last to the first."""
        self._behind: defaultdict[int, set[Var]] = defaultdict(set)
        """Data pointers of the buffers that the producers of a consumer read."""
        self.inlined: set[Buffer] = set()
        self.postponed = False
        for position, stmt in enumerate(statements):
            reads, writes = nests.buffers(stmt)
            for var in reads | writes:
                self._users[var].add(position)
            for var in writes:
                self._writers[var].append(position)

    def choose(self) -> None:
        """Choose the producers to inline; `postponed` tells that another round may find more."""
        for position in reversed(range(len(self._statements))):
            producer = self._nests.nest(self._statements[position])
            if producer is None or producer.is_reduction or producer.stores[0].buffer not in self._kept:
                continue
            buffer = producer.stores[0].buffer
            first, *later = sorted(self._users[buffer.data])
            if first != position or self._writers[buffer.data] != [position]:
                continue
            consumers = self._consumers(producer, position, later)
            if consumers and _is_worth_it(producer, consumers, self._nests):
                self._inline(producer, position, later)
            elif any(self._producers[user] for user in later):
                self.postponed = True

    def _inline(self, producer: Nest, position: int, later: Sequence[int]) -> None:
        sources = self._nests.buffers(producer.stmt)[0]
        self.inlined.add(producer.stores[0].buffer)
        for user in later:
            self._producers[user].append(producer)
            self._behind[user] |= sources
        for source in sources:
            self._users[source].discard(position)
            self._users[source].update(later)

    def _consumers(self, producer: Nest, position: int, later: Sequence[int]) -> list[Nest]:
        """Return the nests at `later`, which use the producer's result; [] if it cannot be inlined in this round."""
        buffer = producer.stores[0].buffer
        consumers: list[Nest] = []
        for user in later:
            nest = self._nests.nest(self._statements[user])
            if nest is None or buffer.data in self._behind[user] or not self._may_read(nest, buffer):
                return []
            consumers.append(nest)
        sources = self._nests.buffers(producer.stmt)[0]
        return [] if later and any(self._is_written(each, position, later[-1]) for each in sources) else consumers

    def _is_written(self, source: Var, position: int, last: int) -> bool:
        """True if a statement after `position`, up to the one at `last`, writes the buffer of a data pointer."""
        writers = self._writers[source]
        following = bisect_right(writers, position)
        return following < len(writers) and writers[following] <= last

    def _may_read(self, nest: Nest, buffer: Buffer) -> bool:
        """True if the nest is one store whose value alone reads `buffer`, at indices that do not depend on data."""
        if len(nest.stores) != 1 or not isinstance(nest.block.body, BufferStore):
            return False
        return self._nests.loads(nest).may_replace(buffer)

    def statements(self) -> tuple[Stmt, ...]:
        """Return the statements with the chosen producers inlined."""
        return tuple(
            self._rewritten(position, stmt)
            for position, stmt in enumerate(self._statements)
            if not self._is_inlined(stmt)
        )

    def _is_inlined(self, stmt: Stmt) -> bool:
        nest = self._nests.nest(stmt)
        return nest is not None and not nest.is_reduction and nest.stores[0].buffer in self.inlined

    def _rewritten(self, position: int, stmt: Stmt) -> Stmt:
        producers = self._producers[position]
        nest = self._nests.nest(stmt)
        return _rewritten(nest, producers, self._nests) if producers and nest is not None else stmt


class _Nests:
    """Cache of the nest of each statement, of the buffers it reads and writes, and of its loads."""

    def __init__(self) -> None:
        self._nests: dict[int, tuple[Stmt, Nest | None]] = {}
        self._buffers: dict[int, tuple[Stmt, tuple[frozenset[Var], frozenset[Var]]]] = {}
        self._loads: dict[int, tuple[Stmt, _LoadsOfNest]] = {}

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

    def loads(self, nest: Nest) -> _LoadsOfNest:
        """Return the loads of a nest with one store."""
        if id(nest.stmt) not in self._loads:
            self._loads[id(nest.stmt)] = nest.stmt, _LoadsOfNest(nest)
        return self._loads[id(nest.stmt)][1]


class _LoadsOfNest:
    """Loads of a nest with one store, by buffer, found in one walk for all producers."""

    def __init__(self, nest: Nest) -> None:
        store = nest.stores[0]
        self._nodes: list[Node] = []
        post_order_visit(store.value, self._nodes.append)
        self._let_variables = {node.var for node in self._nodes if isinstance(node, Let)}
        self._in_value: defaultdict[Buffer, list[BufferLoad]] = defaultdict(list)
        for node in self._nodes:
            if isinstance(node, BufferLoad):
                self._in_value[node.buffer].append(node)
        outside = (*store.indices, *([] if nest.block.init is None else [nest.block.init]))
        self._outside = {load.buffer for node in outside for load in loads_in(node)}

    def of(self, buffer: Buffer) -> Sequence[BufferLoad]:
        """Return the loads of a buffer in the stored value; a shared object occurs once."""
        return self._in_value.get(buffer, ())

    def may_replace(self, buffer: Buffer) -> bool:
        """True if `buffer` is read only in the stored value, at indices that do not depend on data."""
        return buffer not in self._outside and not any(
            loads_in(index) or not self._let_variables.isdisjoint(free_vars(index))
            for load in self.of(buffer)
            for index in load.indices
        )

    def only(self, buffer: Buffer) -> BufferLoad | None:
        """Return a load of `buffer` if all its loads have the same indices, else None."""
        loads = self.of(buffer)
        return loads[0] if loads and all(_same_indices(load, loads[0]) for load in loads) else None

    def times(self, buffer: Buffer) -> int:
        """Count the loads of a buffer in the stored value; a shared object counts once for each occurrence."""
        return self._times.get(buffer, 0)

    @cached_property
    def _times(self) -> dict[Buffer, int]:
        occurrences = Counter({id(self._nodes[-1]): 1})
        for node in reversed(self._nodes):  # wholes before parts
            for below in () if node.__is_variable__ else children_of(node):
                occurrences[id(below)] += occurrences[id(node)]
        return {buffer: sum(occurrences[id(load)] for load in loads) for buffer, loads in self._in_value.items()}


# -------------------------------------------------------------------------------- is it worth it?


def _is_worth_it(producer: Nest, consumers: Sequence[Nest], nests: _Nests) -> bool:
    buffer, value = producer.stores[0].buffer, producer.stores[0].value
    if all(not nest.is_reduction and _may_repeat(value, nests.loads(nest).times(buffer)) for nest in consumers):
        return True
    if len(consumers) > 1:
        return False
    consumer = consumers[0]
    if consumer.is_reduction and isinstance(value, Mul):
        return False
    load = nests.loads(consumer).only(buffer)
    if load is None or not _reads_each_once(consumer, load):
        return False
    return nests.loads(consumer).times(buffer) == 1 or _is_always_read(consumer, load)


def _may_repeat(value: PrimExpr, copies: int) -> bool:
    """True if `value` only moves data and may be copied to that many loads of one reader."""
    return _only_moves(value) and (copies == 1 or copies * _size(value) <= MOST_REPEATED)


def _size(node: Node) -> int:
    """Count the nodes of an expression; a shared node counts once for each occurrence."""
    sums: dict[int, int] = {}

    def add(current: Node) -> None:
        sums[id(current)] = 1 + sum(sums.get(id(below), 0) for below in children_of(current))

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


def _rewritten(consumer: Nest, producers: Sequence[Nest], nests: _Nests) -> Stmt:
    """Return the consumer with its loads of the producers' results replaced by the producers' values."""
    store = consumer.stores[0]
    replacements: dict[Buffer, Callable[[BufferLoad], PrimExpr]] = {}
    shared: list[tuple[Var, PrimExpr]] = []
    for producer in producers:
        buffer, loads = producer.stores[0].buffer, nests.loads(consumer)
        load, times = loads.only(buffer), loads.times(buffer)
        if load is not None and times > 1 and not _may_repeat(producer.stores[0].value, times):
            var = Var(buffer.name, buffer.dtype)
            shared.append((var, _value_at(producer, load)))
            replacements[buffer] = partial(_constantly, var)
        else:
            replacements[buffer] = partial(_value_at, producer)
    value = _Loads(replacements).visit(store.value)
    for var, computed in shared:
        value = Let(var, computed, value)
    block = complete_block(consumer.block.replace(body=store.replace(value=value), reads=(), writes=()))
    return _Blocks(consumer.block, block).visit(consumer.stmt)


def _constantly(var: Var, load: BufferLoad) -> PrimExpr:
    """Return `var`, which holds the value of each load."""
    return var


def _value_at(producer: Nest, load: BufferLoad) -> PrimExpr:
    """Return the value that the producer stores at the indices of `load`, with fresh variables in its lets."""
    store = producer.stores[0]
    values: dict[Var, PrimExpr] = {v: const(0, v.dtype) for v in producer.variables}
    for index, at in zip(store.indices, load.indices, strict=True):
        if isinstance(index, Var):
            values[index] = at.astype(index.dtype)
    return renew_bound_vars(substitute(store.value, values))


class _Loads(StmtExprMutator):
    """Replace the loads of some buffers."""

    def __init__(self, replacements: Mapping[Buffer, Callable[[BufferLoad], PrimExpr]]) -> None:
        super().__init__()
        self.replacements = replacements

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        replacement = self.replacements.get(node.buffer)
        return self.visit_children(node) if replacement is None else replacement(node)


class _Blocks(StmtExprMutator):
    """Replace one block by another."""

    def __init__(self, old: Block, new: Block) -> None:
        super().__init__()
        self.old, self.new = old, new

    def visit_Block(self, node: Block) -> Block:
        return self.new if node is self.old else self.visit_children(node)
