"""Estimate of a scheduled kernel's time, from its loops: it orders candidates before any is measured.

    compute      vector instructions: arithmetic, loads and stores that no register saves, iterations of loops
    memory       for each cache: bytes that come from behind it, if each loop level whose data fit is reused

An access's strides are found by evaluating its address at 0 and at 1 for each loop variable, with bound names put in.
Nothing is exact: branches count as taken, loads at loaded indices as scattered, dynamic extents as at the sizes given.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple, cast

from ..ir import Node
from ..ir.node import children_of
from ..prim import IntImm, PrimExpr, Var, free_vars
from ..prim.evaluate import evaluate
from ..prim.expr import BinaryExpr
from ..runtime.records import dataclass
from ..target import Target
from ..tir import (
    AllocBuffer,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Ramp,
    SeqStmt,
    Stmt,
)
from ..tir.functor import post_order_visit
from .kernels import Sizes, size_vars

_LINE: Final = 64
_BYTES_PER_CYCLE: Final = (32.0, 12.0, 4.0)
"""Bytes a cycle from the second cache, the third, and memory."""
_TYPICAL: Final = 16
"""Iterations of a loop whose extent cannot be evaluated."""
_SCATTERED: Final = 4.0
"""Cycles of a load at a loaded index, or of a vector that is gathered."""


@dataclass
class _Loop:
    var: Var
    extent: float
    kind: ForKind


@dataclass
class _Access:
    """A load or store below some loops."""

    strides: dict[Var, int]
    """Bytes between neighbouring iterations of each loop it depends on."""
    nbytes: int
    """Bytes of one access: of a vector, or an element."""
    scattered: bool = False

    def footprint(self, loops: Sequence[_Loop]) -> float:
        """Return the bytes of distinct cache lines that all iterations of `loops` touch."""
        size, lines = float(self.nbytes), 1.0
        for loop in sorted(loops, key=lambda one: abs(self.strides.get(one.var, 0))):
            stride = abs(self.strides.get(loop.var, 0))
            if stride == 0:
                continue
            if stride <= max(size, _LINE):
                size += stride * (loop.extent - 1)
            else:
                lines *= loop.extent
        return lines * max(size, _LINE)


@dataclass
class _Costs:
    """Cycles by what takes them; the greater counts."""

    compute: float = 0.0
    memory: float = 0.0
    accesses: list[tuple[_Access, tuple[_Loop, ...]]] = field(default_factory=list[Any])


FEATURES: Final = 17
"""Number of the features of a draft."""


class Draft(NamedTuple):
    """Estimate of a scheduled function."""

    cycles: float
    """Cycles of a call; infinity if it cannot be told."""
    features: tuple[float, ...]
    """Numbers by which the error of `cycles` may be learned, mostly logarithms of counts and bytes."""


def estimate(func: PrimFunc, sizes: Sizes, target: Target, threads: int = 1) -> float:
    """Return the estimated cycles of a call of a scheduled function at these sizes; infinity if it cannot be told."""
    return draft_of(func, sizes, target, threads).cycles


def draft_of(func: PrimFunc, sizes: Sizes, target: Target, threads: int = 1) -> Draft:
    """Return the estimated cycles of a call of a scheduled function at these sizes, and its features."""
    values: dict[Var, Any] = {var: sizes.get(var.name, _TYPICAL) for var in size_vars(func)}
    walk = _Walk(values, target)
    try:
        walk.stmt(func.body, ())
    except RecursionError:
        return Draft(math.inf, (0.0,) * FEATURES)
    caches = target.machine.caches
    levels = [size for size in (caches.l1, caches.l2, caches.l3) if size]
    traffic = [_traffic(walk.costs.accesses, size) for size in levels]
    memory = sum(size / _BYTES_PER_CYCLE[min(number, 2)] for number, size in enumerate(traffic))
    cycles = (walk.costs.compute + memory) / max(threads, 1)
    return Draft(cycles, (*map(_log, [walk.costs.compute, *([*traffic, 0.0, 0.0, 0.0][:3])]), *walk.structure(func)))


def _log(value: float) -> float:
    return math.log(max(value, 1.0))


def _traffic(accesses: Sequence[tuple[_Access, tuple[_Loop, ...]]], cache: int) -> float:
    """Return the bytes that come from behind a cache of `cache` bytes."""
    groups: dict[tuple[int, ...], list[tuple[_Access, tuple[_Loop, ...]]]] = {}
    for access, loops in accesses:
        groups.setdefault(tuple(id(loop) for loop in loops), []).append((access, loops))
    total = 0.0
    for group in groups.values():
        loops = group[0][1]
        depth = 0
        while depth < len(loops) and sum(a.footprint(loops[depth:]) for a, _ in group) > cache:
            depth += 1
        outside = math.prod(loop.extent for loop in loops[:depth])
        total += outside * sum(access.footprint(loops[depth:]) for access, _ in group)
    return total


class _Walk:
    """Sums costs over the statements of a function."""

    def __init__(self, values: dict[Var, Any], target: Target) -> None:
        self.costs = _Costs()
        self._values, self._names = values, dict[Var, PrimExpr]()
        self._bits = target.machine.vector_bits
        self._registers = target.machine.vector_registers
        self._local: set[Buffer] = set()

    def structure(self, func: PrimFunc) -> tuple[float, ...]:
        """Return features of the loops and buffers of a function that was walked."""
        extents: dict[ForKind, list[float]] = {kind: [] for kind in ForKind}
        counts: Counter[type] = Counter()

        def visit(node: Node) -> None:
            counts[type(node)] += 1
            if isinstance(node, For):
                extents[node.kind].append(self._number(node.extent, _TYPICAL))

        post_order_visit(func.body, visit)
        unrolled, vectors = extents[ForKind.UNROLLED], extents[ForKind.VECTORIZED]
        local = [size for buffer in self._local if (size := self._bytes(buffer))]
        accesses = [access for access, _ in self.costs.accesses]
        return (
            _log(math.prod(extents[ForKind.PARALLEL])), len(unrolled), _log(max(unrolled, default=1)),
            _log(max(vectors, default=1)), counts[For], _log(sum(local)), _log(min(local, default=1)),
            _log(max(local, default=1)), counts[BufferStore], counts[BufferLoad],
            max((access.nbytes for access in accesses), default=0), sum(access.scattered for access in accesses),
            len(accesses),
        )  # fmt: skip

    def _bytes(self, buffer: Buffer) -> float:
        return math.prod(self._number(size, _TYPICAL) for size in buffer.shape) * buffer.dtype.bits / 8

    def stmt(self, stmt: Stmt | None, loops: tuple[_Loop, ...]) -> None:
        """Add the costs of a statement inside `loops`."""
        match stmt:
            case For():
                extent = max(self._number(stmt.extent, _TYPICAL), 0)
                self._values[stmt.loop_var] = self._number(stmt.min, 0)
                inner = _Loop(stmt.loop_var, extent, stmt.kind)
                self.stmt(stmt.body, (*loops, inner))
                if stmt.kind not in (ForKind.UNROLLED, ForKind.VECTORIZED):
                    self.costs.compute += math.prod(loop.extent for loop in (*loops, inner))
            case SeqStmt():
                for part in stmt.seq:
                    self.stmt(part, loops)
            case LetStmt():
                self._names[stmt.var] = stmt.value
                self._value(stmt.value, loops)
                self.stmt(stmt.body, loops)
            case IfThenElse():
                self.stmt(stmt.then_case, loops)
            case AllocBuffer():
                self._local.add(stmt.buffer)
                self.stmt(stmt.body, loops)
            case DeclBuffer():
                self.stmt(stmt.body, loops)
            case BlockRealize():
                for iter_var, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
                    self._names[iter_var.var] = value
                self._local.update(stmt.block.alloc_buffers)
                self.stmt(stmt.block.body, loops)
            case BufferStore():
                self._value(stmt.value, loops)
                self._access(stmt.buffer, stmt.indices, stmt.value.dtype.lanes, loops)
            case Evaluate():
                self._value(stmt.value, loops)
            case _:
                for child in () if stmt is None else children_of(stmt):
                    if isinstance(child, Stmt):
                        self.stmt(child, loops)

    def _value(self, value: PrimExpr, loops: tuple[_Loop, ...]) -> None:
        """Add the arithmetic and the loads of a value; that of indices is free."""
        indices: set[int] = set()
        nodes = _parts(value)
        for node in nodes:
            if isinstance(node, BufferLoad):
                indices.update(id(part) for index in node.indices for part in _parts(index))
        for node in nodes:
            if id(node) in indices:
                continue
            if isinstance(node, BufferLoad):
                self._access(node.buffer, node.indices, node.dtype.lanes, loops)
            elif isinstance(node, BinaryExpr):
                self.costs.compute += self._instructions(node.dtype.lanes * node.dtype.bits, loops)

    def _instructions(self, bits: int, loops: tuple[_Loop, ...]) -> float:
        """Return the instructions of an operation on `bits` bits, in all iterations."""
        count = max(bits / self._bits, 1.0)
        for loop in loops:
            if loop.kind == ForKind.VECTORIZED:
                count *= max(math.ceil(loop.extent * bits / self._bits), 1)
            else:
                count *= loop.extent
        return count

    def _access(self, buffer: Buffer, indices: Sequence[PrimExpr], lanes: int, loops: tuple[_Loop, ...]) -> None:
        nbytes = max(buffer.dtype.bits // 8, 1)
        access = _Access({}, nbytes * lanes)
        plain = [index.base if isinstance(index, Ramp) else index for index in indices]
        plain = [index.value if isinstance(index, Broadcast) else index for index in plain]
        start = self._address(buffer, plain)
        used = self._loop_vars(plain)
        for loop in loops:
            if start is None or loop.var not in used:
                continue
            before = self._values[loop.var]
            self._values[loop.var] = before + 1
            moved = self._address(buffer, plain)
            self._values[loop.var] = before
            access.strides[loop.var] = 0 if moved is None else (moved - start) * nbytes
        access.scattered = start is None
        needed = _needed(access, loops)
        vector = next((loop for loop in loops if loop.kind == ForKind.VECTORIZED), None)
        gathers = vector is not None and access.strides.get(vector.var, 0) not in (0, nbytes)
        cycles = self._instructions(access.nbytes * 8, needed)
        if gathers and vector is not None:
            cycles = math.prod(loop.extent for loop in needed)
        self.costs.compute += cycles * (_SCATTERED if access.scattered else 1.0) / 2
        if buffer not in self._local:
            self.costs.accesses.append((access, loops))

    def _loop_vars(self, indices: Sequence[PrimExpr]) -> set[Var]:
        """Return the variables that indices depend on, through names."""
        waiting, found = [var for index in indices for var in free_vars(index)], set[Var]()
        while waiting:
            var = waiting.pop()
            if var not in found:
                found.add(var)
                waiting += free_vars(self._names[var]) if var in self._names else []
        return found

    def _address(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> int | None:
        """Return the number of an element at the current values; None if it cannot be evaluated."""
        total = 0
        for size, index in zip(buffer.shape, indices, strict=True):
            number = self._evaluated(index)
            if number is None:
                return None
            total = total * int(self._number(size, _TYPICAL)) + number
        return total

    def _number(self, expr: PrimExpr, otherwise: float) -> float:
        number = expr.value if isinstance(expr, IntImm) else self._evaluated(expr)
        return otherwise if number is None else number

    def _evaluated(self, expr: PrimExpr) -> int | None:
        values: dict[Var, Any] = dict(self._values)
        try:
            for var in self._in_order(expr):
                values[var] = evaluate(self._names[var], values)
            return int(cast(Any, evaluate(expr, values)))
        except (KeyError, ValueError, TypeError, ArithmeticError, NotImplementedError, AttributeError):
            return None

    def _in_order(self, expr: PrimExpr) -> list[Var]:
        """Return the names that an expression needs, each behind those it needs itself."""
        order: list[Var] = []

        def need(part: PrimExpr) -> None:
            for var in free_vars(part):
                if var in self._names and not any(var is other for other in order):
                    need(self._names[var])
                    order.append(var)

        need(expr)
        return order


def _parts(value: PrimExpr) -> list[Node]:
    """Return an expression and all expressions in it."""
    nodes: list[Node] = []
    post_order_visit(value, nodes.append)
    return nodes


def _needed(access: _Access, loops: tuple[_Loop, ...]) -> tuple[_Loop, ...]:
    """Return the loops in which an access is repeated: it is hoisted out of inner ones, and of unrolled ones."""
    kept = [
        loop
        for loop in loops
        if access.strides.get(loop.var, 0) != 0
        or loop.kind not in (ForKind.UNROLLED, ForKind.VECTORIZED)
        or access.scattered
    ]
    while kept and not access.scattered and access.strides.get(kept[-1].var, 0) == 0:
        kept.pop()
    return tuple(kept)
