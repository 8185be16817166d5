"""Statements of a vectorised loop that stay serial, because vectors would access memory in another order.

A vector loop makes each access for all lanes before the next access; the serial loop makes all accesses of an iteration
before the next iteration. Both compute the same unless two accesses to one element, one of them a store, change places:

    for i in T.vectorized(16):
        B[I[i]] = B[I[i]] + A[i]        serial: an iteration reads what an earlier one stored if I has equal elements
        C[i + 1] = C[i]                 serial: likewise
        D[i] = D[i + 1]                 vector: the load comes first in both orders
        E[I[i]] = A[i]                  vector: lanes are stored in order

For two accesses, p before q in the body, this is excluded by a proof: q in one iteration and p in a later iteration of
the same vector differ in an index. All lanes run an inner loop together; accesses in it are compared for any two of its
steps, and for both orders of the iterations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TypeAlias

from ...ir import Node, structural_equal, structural_hash
from ...prim import NE, Add, Analyzer, Call, Cast, IntImm, Let, Mul, PrimExpr, Sub, Var, const, match_dtypes
from ...prim.intrin import is_pure
from ...prim.iter_map import IterMapLevel, detect_iter_map
from ...prim.traits import has_effects
from ...runtime.records import dataclass
from ..buffer import Buffer, BufferLoad, Range
from ..functor import StmtExprVisitor, post_order_visit, substitute
from ..stmt import AllocBuffer, BufferStore, Evaluate, For, LetStmt, Stmt
from ..usage import free_vars

_Facts: TypeAlias = "Callable[[], AbstractContextManager[Analyzer]]"

_EFFECTS = Var("effects", "handle")
"""Stands for the memory behind calls with effects: they keep their order."""


@dataclass(frozen=True, slots=True)
class _Access:
    """A load or store whose indices are expressions of loop variables; they are None if the place is unknown."""

    data: Var
    buffer: Buffer | None
    indices: tuple[PrimExpr, ...] | None
    is_store: bool
    path: tuple[Stmt, ...]
    """The statements around the access, outermost first."""

    def loops(self) -> list[For]:
        """Return the loops around the access, inside of the vectorised one."""
        return [stmt for stmt in self.path if isinstance(stmt, For)]


def tied_statements(loop: For, lanes: int, facts: _Facts) -> dict[Stmt, str]:
    """Return the statements in a loop whose accesses would change places in vectors of `lanes` iterations, with the
    reason.

    `facts` opens an analyzer that knows what holds around the loop; it is called if a proof needs it.
    """
    found = _Accesses()
    found.visit(loop.body)
    written = {access.data for access in found.accesses if access.is_store} - found.private
    groups: dict[Var, list[_Access]] = {}
    for access in found.accesses:
        if access.data in written:
            groups.setdefault(access.data, []).append(access)
    order, tied = _Order(loop, lanes, written, facts), dict[Stmt, str]()
    for group in groups.values():
        for stmt, reason in order.ties(group):
            tied.setdefault(stmt, reason)
    return tied


class _Accesses(StmtExprVisitor):
    """Collect the accesses of a statement in the order of a serial run. Names of values are replaced by the values."""

    def __init__(self) -> None:
        super().__init__()
        self.accesses: list[_Access] = []
        self.private: set[Var] = set()
        """Storage of one iteration."""
        self._path: tuple[Stmt, ...] = ()
        self._values: dict[Var, PrimExpr] = {}
        self._in_call = False

    def visit(self, node: Node) -> None:
        if not isinstance(node, Stmt):
            super().visit(node)
            return
        outside = self._path
        self._path = (*outside, node)
        super().visit(node)
        self._path = outside

    def _add(self, buffer: Buffer, indices: Sequence[PrimExpr], is_store: bool) -> None:
        places = tuple(substitute(index, self._values) for index in indices)
        self.accesses.append(_Access(buffer.data, buffer, places, is_store, self._path))

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        for part in (*node.indices, *(() if node.predicate is None else (node.predicate,))):
            self.visit(part)
        self._add(node.buffer, node.indices, False)

    def visit_BufferStore(self, node: BufferStore) -> None:
        for part in (*node.indices, node.value, *(() if node.predicate is None else (node.predicate,))):
            self.visit(part)
        self._add(node.buffer, node.indices, True)

    def visit_Var(self, node: Var) -> None:
        if node.dtype.is_handle:
            self.accesses.append(_Access(node, None, None, self._in_call, self._path))

    def visit_LetStmt(self, node: LetStmt) -> None:
        self._bound(node)

    def visit_Let(self, node: Let) -> None:
        self._bound(node)

    def _bound(self, node: LetStmt | Let) -> None:
        self.visit(node.value)
        self._values[node.var] = substitute(node.value, self._values)
        self.visit(node.body)
        del self._values[node.var]

    def visit_AllocBuffer(self, node: AllocBuffer) -> None:
        self.private.add(node.buffer.data)
        self.visit_children(node)

    def visit_Evaluate(self, node: Evaluate) -> None:
        call = node.value
        if not isinstance(call, Call) or is_pure(call) or call.intrinsic == "prefetch":
            self.visit_children(node)
            return
        self.accesses.append(_Access(_EFFECTS, None, None, True, self._path))
        self._in_call = True
        self.visit(call)
        self._in_call = False


@dataclass(slots=True)
class _Sum:
    """An index modulo ``2**bits``: a constant and terms with factors."""

    scales: dict[PrimExpr, int]
    constant: int
    bits: int


_Pair: TypeAlias = "tuple[PrimExpr, PrimExpr]"
"""Indices of the later and the earlier access in one dimension."""


class _Order:
    """Proofs that accesses of two iterations of one vector differ."""

    def __init__(self, loop: For, lanes: int, written: set[Var], facts: _Facts) -> None:
        self.loop, self.lanes, self.written, self.facts = loop, lanes, written, facts
        self._equal: dict[int, list[PrimExpr]] = {}
        self._sums: dict[PrimExpr, _Sum] = {}
        self._unknown: dict[PrimExpr, bool] = {}
        self._distance = Var("distance", loop.loop_var.dtype)

    def ties(self, accesses: list[_Access]) -> Iterator[tuple[Stmt, str]]:
        """Yield the smallest statements in which accesses to one piece of memory may change places, with the reason."""
        accesses = [self._interned(access) for access in accesses]
        for place, first in enumerate(accesses):
            for second in accesses[place:]:
                if not (first.is_store or second.is_store):
                    continue
                around = _common(first.path, second.path)
                inner = [stmt for stmt in around if isinstance(stmt, For)]
                if first is second and not inner:
                    continue  # lanes are stored in order
                if not self._apart(first, second, bool(inner) and first is not second):
                    yield inner[0] if inner else around[-1], _reason(first, second, self.loop.loop_var)

    def _interned(self, access: _Access) -> _Access:
        """Return the access with indices that are one object if they are structurally equal."""
        if access.indices is None:
            return access
        indices = tuple(map(self._intern, access.indices))
        return _Access(access.data, access.buffer, indices, access.is_store, access.path)

    def _intern(self, expr: PrimExpr) -> PrimExpr:
        if isinstance(expr, Var):
            return expr
        alike = self._equal.setdefault(structural_hash(expr), [])
        known = next((one for one in alike if structural_equal(one, expr)), None)
        if known is None:
            alike.append(expr)
        return expr if known is None else known

    # ------------------------------------------------------------------------------------------ proofs

    def _apart(self, first: _Access, second: _Access, both: bool) -> bool:
        """True if `second` in one iteration and `first` in a later one never access the same element; with `both`, in
        an earlier one either.
        """
        if first.buffer is None or second.buffer is None or first.indices is None or second.indices is None:
            return False
        if not (_same_layout(first.buffer, second.buffer) and _is_distinct(first.buffer)):
            return False
        pairs = [
            (a, b)
            for a, b in zip(first.indices, second.indices, strict=True)
            if not (self._is_unknown(a) or self._is_unknown(b))
        ]
        asked = [(first, second, pairs)]
        if both:
            asked.append((second, first, [(b, a) for a, b in pairs]))
        rest = [one for one in asked if not any(self._sums_differ(*one[:2], pair) for pair in one[2])]
        return not rest or self._are_injective(first, second, pairs) or all(self._proved(*one) for one in rest)

    def _is_unknown(self, index: PrimExpr) -> bool:
        """True for an index that depends on memory that the loop writes, or has lanes of its own."""
        known = self._unknown.get(index)
        if known is None:
            reads = any(load.buffer.data in self.written for load in _loads(index))
            known = self._unknown[index] = reads or index.dtype.lanes != 1 or has_effects(index)
        return known

    def _sum(self, index: PrimExpr) -> _Sum:
        known = self._sums.get(index)
        if known is None:
            known = self._sums[index] = _Sum({}, 0, 64)
            self._add_to(known, index, 1)
        return known

    def _add_to(self, total: _Sum, expr: PrimExpr, scale: int) -> None:
        """Add a multiple of an expression to a sum. Conversions between integers keep the value modulo 2**bits."""
        total.bits = min(total.bits, expr.dtype.bits)
        match expr:
            case IntImm(value=value):
                total.constant += scale * value
            case Add(a, b) | Sub(a, b):
                self._add_to(total, a, scale)
                self._add_to(total, b, scale if isinstance(expr, Add) else -scale)
            case Mul(a, IntImm(value=value)) | Mul(IntImm(value=value), a):
                self._add_to(total, a, scale * value)
            case Cast(value=a) if expr.dtype.is_integer and a.dtype.is_integer and not a.dtype.is_bool:
                self._add_to(total, a, scale)
            case _:
                term = self._intern(expr)
                total.scales[term] = total.scales.get(term, 0) + scale

    def _sums_differ(self, later: _Access, earlier: _Access, pair: _Pair) -> bool:
        """True if two indices, as sums with constant factors, differ whatever the distance of the iterations is.

        The difference is ``scale * distance + constant`` and a multiple of `unit`, from the variables of inner loops;
        other terms must cancel out.
        """
        first, second = map(self._sum, pair)
        var = self.loop.loop_var
        scale, modulus = first.scales.get(var, 0), 1 << min(first.bits, second.bits)
        inner = _spans(later) | _spans(earlier)
        moving = {var, *inner}
        low, high, unit = 0, 0, 0
        for total, other, sign in ((first, second, 1), (second, first, -1)):
            for term, factor in total.scales.items():
                span = inner.get(term)
                if span is not None:
                    ends = [sign * factor * end for end in span]
                    low, high, unit = low + min(ends), high + max(ends), math.gcd(unit, factor)
                elif other.scales.get(term, 0) != factor or (term is not var and moving & free_vars(term)):
                    return False
        for distance in range(1, self.lanes):
            fixed = scale * distance + first.constant - second.constant
            if max(abs(fixed + low), abs(fixed + high)) >= modulus:  # it may wrap around
                return False
            if fixed + low <= 0 <= fixed + high and (fixed % unit if unit else fixed) == 0:
                return False
        return True

    def _are_injective(self, first: _Access, second: _Access, pairs: list[_Pair]) -> bool:
        """True if equal indices together differ between all iterations, as ``i // 4, i % 4`` do."""
        var, inner = self.loop.loop_var, {*_spans(first), *_spans(second)}
        alike = [a for a, b in pairs if a is b and not inner & free_vars(a) and var in free_vars(a)]
        if len(alike) < 2:
            return False
        domain = {var: Range(self.loop.min, self.loop.extent)}
        return bool(detect_iter_map(alike, domain, True, IterMapLevel.Injective, False).indices)

    def _proved(self, later: _Access, earlier: _Access, pairs: list[_Pair]) -> bool:
        """True if the prover finds that a pair of indices always differs."""
        if not pairs:
            return False
        var, distance = self.loop.loop_var, self._distance
        there: dict[Var, PrimExpr] = {
            loop.loop_var: Var(loop.loop_var.name, loop.loop_var.dtype) for loop in later.loops()
        }
        there[var] = var + distance
        end = self.loop.min + self.loop.extent
        conditions = [
            *(var >= self.loop.min, var < end, var + distance < end),
            *(distance >= const(1, var.dtype), distance < const(self.lanes, var.dtype)),
            *_ranges(earlier),
            *(substitute(condition, there) for condition in _ranges(later)),
        ]
        with ExitStack() as scopes:
            analyzer = scopes.enter_context(self.facts())
            for condition in conditions:
                scopes.enter_context(analyzer.constraint_scope(condition))
            return any(analyzer.can_prove(NE(*match_dtypes(substitute(a, there), b))) for a, b in pairs)


def _spans(access: _Access) -> dict[PrimExpr, tuple[int, int]]:
    """Return the first and last value of the variable of each loop around an access; 64 bits if they are unknown."""
    spans: dict[PrimExpr, tuple[int, int]] = {}
    for loop in access.loops():
        if isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm):
            spans[loop.loop_var] = (loop.min.value, loop.min.value + loop.extent.value - 1)
        else:
            spans[loop.loop_var] = (-(1 << 63), 1 << 63)
    return spans


def _ranges(access: _Access) -> Iterator[PrimExpr]:
    """Yield the bounds of the loops around an access, without those that depend on memory."""
    for loop in access.loops():
        for condition in (loop.loop_var >= loop.min, loop.loop_var < loop.min + loop.extent):
            if not _loads(condition):
                yield condition


def _loads(expr: PrimExpr) -> list[BufferLoad]:
    found: list[BufferLoad] = []
    post_order_visit(expr, lambda node: found.append(node) if isinstance(node, BufferLoad) else None)
    return found


def _same_layout(a: Buffer, b: Buffer) -> bool:
    """True if equal indices mean equal places in two buffers over one memory."""
    return a is b or (
        a.dtype == b.dtype
        and structural_equal((a.shape, a.strides, a.elem_offset), (b.shape, b.strides, b.elem_offset))
    )


def _is_distinct(buffer: Buffer) -> bool:
    """True unless constant strides place several elements of a buffer at one place."""
    reach = 0
    for stride, size in sorted(
        (abs(stride.value), size.value)
        for stride, size in zip(buffer.strides, buffer.shape, strict=False)
        if isinstance(stride, IntImm) and isinstance(size, IntImm) and size.value > 1
    ):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def _common(first: Iterable[Stmt], second: Iterable[Stmt]) -> list[Stmt]:
    """Return the statements around both of two accesses, outermost first."""
    return [a for a, _ in itertools.takewhile(lambda pair: pair[0] is pair[1], zip(first, second, strict=False))]


def _reason(first: _Access, second: _Access, var: Var) -> str:
    buffer = first.buffer or second.buffer
    if buffer is None:
        return "calls with effects keep their order"
    stored = [access.indices for access in (first, second) if access.is_store and access.indices is not None]
    if any(not any(var in free_vars(index) for index in indices) for indices in stored):
        return f"all iterations store to one element of {buffer.name}"
    if first.is_store and second.is_store:
        return f"iterations may store to one element of {buffer.name} in another order"
    return f"an iteration may read an element of {buffer.name} that another one stores"
