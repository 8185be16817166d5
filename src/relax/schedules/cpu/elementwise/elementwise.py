"""Element-wise nests: a vectorised innermost loop, and one parallel loop over everything else.

    for i, j, k in T.grid(n, m, 100):              for f in T.parallel(n * m):               i and j are one axis
        with T.block("Y"):                             for k in T.vectorized(100):
            Y[i, j, k] = X[i, j, k] + B[k]                 Y[f, k] = X[f, k] + B[k]

Axes that index adjacent dimensions in every access are merged; all axes but the innermost form one parallel loop, whose
variables are computed once per innermost loop. A long innermost loop is split into strips of 2,048 elements, so that
threads also share a tensor with one axis. The thread pool decides at run time, by the amount of work, whether to use
several threads. The innermost loop becomes vectors and a masked remainder (`VectorizeLoop`). It stays scalar if an
access is not contiguous or an index is divided. Loop-invariant elements are read before it.

Elements of complex numbers, and others of which two to four alternate, are unrolled inside of the innermost loop, which
LLVM turns into vectors of loads and stores that it interleaves:

    for i, j in T.grid(n, 100):                    for i in T.parallel(n):
        with T.block("Y"):                             for q in range(50):
            Y[i, j] = X[i, j // 2 * 2] * S[j % 2]          for u in T.unroll(2):
                                                               Y[i, q * 2 + u] = X[i, q * 2] * S[u]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ....ir import Node
from ....prim import And, Call, FloorDiv, FloorMod, IntImm, Or, PrimExpr, Select, Var, const, free_vars, simplify
from ....prim.intrin import ceildiv, floordiv, floormod
from ....prim.intrin import min as minimum
from ....runtime.records import dataclass
from ....tir import BufferLoad, BufferStore, DeclBuffer, For, ForKind, LetStmt, Stmt
from ....tir.functor import post_order_visit, substitute
from ...build import let, loop
from ...invariants import Invariants
from ...stages import Axis, Group, Stage, with_merged_axes
from ...straight import Binding, Names, bound

STRIP: Final = 2048
"""Fewest elements of the innermost loop per thread."""
MOST_ALTERNATING: Final = 4
"""Most elements that are unrolled inside of the innermost loop: as many as LLVM interleaves by shuffles."""
LEAST_ALTERNATING: Final = 48
"""Fewest elements of a static innermost loop with what is unrolled in it. LLVM unrolls shorter ones, into scalars."""


def elementwise(group: Group) -> Stmt:
    """Return the loops of a group with one element-wise stage."""
    group = with_merged_axes(group)
    (stage,) = group.stages
    names = Names(stage.cannot_fail)
    store = names.stmt(stage.body)
    named = replace(stage, body=bound(names.bindings, store))
    axes = in_memory_order(stage)
    if not axes:
        return within(group, stage.body)
    along, bindings = runs_along_memory(named, axes[-1].var), names.bindings
    alternating = _alternating(named, axes, along)
    if alternating is None:
        *outer, inner = axes
        outside, inside, store = _apart(stage, bindings, store, [inner])
        body = bound(inside, store)
    else:
        along, (*outer, inner), unit = False, alternating.axes, alternating.unit
        bindings = [(name, substitute(value, alternating.replaced)) for name, value in bindings]
        outside, inside, store = _apart(stage, bindings, substitute(store, alternating.replaced), [inner, unit])
        body = For(unit.var, const(0, unit.var.dtype), unit.extent, ForKind.UNROLLED, bound(inside, store))
    kind = ForKind.VECTORIZED if along else ForKind.SERIAL
    if inner.size is not None and inner.size <= 2 * STRIP and outer:
        whole = For(inner.var, const(0, inner.var.dtype), inner.extent, kind, body)
        return within(group, parallel_over(outer, bound(outside, whole)))
    strips = Axis(Var("strip", inner.var.dtype), simplify(ceildiv(inner.extent, STRIP)))
    start = strips.var * STRIP

    def strip(count: Var) -> Stmt:
        at = Var(inner.var.name, inner.var.dtype)
        moved = substitute(body, {inner.var: start + at})
        return bound(outside, For(at, const(0, at.dtype), count, kind, moved))

    length = minimum(const(STRIP, inner.var.dtype), inner.extent - start)
    return within(group, parallel_over([*outer, strips], let("length", length, strip)))


@dataclass(frozen=True)
class _Alternating:
    """Axes of loops, the last of which has elements that alternate."""

    axes: Sequence[Axis]
    unit: Axis
    """Axis to unroll inside of the last loop."""
    replaced: dict[Var, PrimExpr]
    """Values of variables that are no axes any more."""


def _alternating(stage: Stage, axes: Sequence[Axis], along: bool) -> _Alternating | None:
    """Return the axes if few elements alternate along the last one; None if not.

    The unrolled axis is the last one if it is short, or the remainder by the number that the last variable is divided
    by. A short axis that chooses a row of an operand, as in a transposition, is left: its reads would be far apart; so
    is one that fills a vector.
    """
    *outer, inner = axes
    if inner.size is None:
        return None
    if 1 < inner.size <= MOST_ALTERNATING:
        if not outer or (along and inner.size == MOST_ALTERNATING) or _chooses_rows(stage, inner.var):
            return None
        count = outer[-1].size
        is_short = count is not None and count * inner.size < LEAST_ALTERNATING
        return None if is_short else _Alternating(outer, inner, {})
    if along or inner.size < LEAST_ALTERNATING:
        return None
    periods = {
        node.b.value if node.a is inner.var and isinstance(node.b, IntImm) else 0
        for node in _divisions(stage.body, inner.var)
    }
    (period,) = periods if len(periods) == 1 else (0,)
    if not 1 < period <= MOST_ALTERNATING or inner.size % period:
        return None
    dtype = inner.var.dtype
    whole = Axis(Var("q", dtype), const(inner.size // period, dtype))
    unit = Axis(Var("u", dtype), const(period, dtype))
    return _Alternating((*outer, whole), unit, {inner.var: whole.var * period + unit.var})


def _chooses_rows(stage: Stage, var: Var) -> bool:
    """True if a variable is part of an index that is not the last one of a load."""
    return any(var in free_vars(index) for load in stage.loads() for index in load.indices[:-1])


def _divisions(stmt: Stmt, var: Var) -> list[FloorDiv | FloorMod]:
    """Divisions of expressions with a variable."""
    found: list[FloorDiv | FloorMod] = []

    def visit(node: Node) -> None:
        if isinstance(node, FloorDiv | FloorMod) and var in free_vars(node):
            found.append(node)

    post_order_visit(stmt, visit)
    return found


def _apart(
    stage: Stage, bindings: list[Binding], store: Stmt, inner: Sequence[Axis]
) -> tuple[list[Binding], list[Binding], Stmt]:
    """Return the bindings that stand before the loops over `inner`, those inside of these loops, and the store.

    Bindings that may fail stay inside, as the loop may have no iterations.
    """
    runs = all(axis.size is not None and axis.size > 0 for axis in inner)
    invariants = Invariants([axis.var for axis in inner], lambda load: runs or stage.cannot_fail(load))
    inside = invariants.split(bindings)
    return invariants.bindings, inside, invariants.named(store)


def in_memory_order(stage: Stage) -> tuple[Axis, ...]:
    """Axes of a stage in the order of the dimensions of its result."""
    (store,) = stage.stores
    order = {var: place for place, index in enumerate(store.indices) for var in free_vars(index)}
    return tuple(sorted(stage.axes, key=lambda axis: order.get(axis.var, -1)))


def within(group: Group, body: Stmt) -> Stmt:
    """Wrap statements in the views and names of a group."""
    for view in reversed(group.views):
        body = DeclBuffer(view, body)
    for name, value in reversed(group.names):
        body = LetStmt(name, value, body)
    return body


def parallel_over(axes: Sequence[Axis], body: Stmt) -> Stmt:
    """Return one parallel loop over all points of `axes`, whose variables `body` uses."""
    if not axes:
        return body
    first, *others = axes
    if not others:
        return For(first.var, const(0, first.var.dtype), first.extent, ForKind.PARALLEL, body)
    total: PrimExpr = first.extent.astype("int64")
    for axis in others:
        total = total * axis.extent.astype("int64")

    def point(fused: Var) -> Stmt:
        result, rest = body, fused
        bindings: list[tuple[Var, PrimExpr]] = []
        for axis in reversed(others):
            extent = axis.extent.astype("int64")
            bindings.append((axis.var, floormod(rest, extent).astype(axis.var.dtype)))
            quotient = Var("f", "int64")
            bindings.append((quotient, floordiv(rest, extent)))
            rest = quotient
        bindings.append((first.var, rest.astype(first.var.dtype)))
        for var, value in reversed(bindings):
            result = LetStmt(var, value, result)
        return result

    return loop("fused", simplify(total), point, ForKind.PARALLEL)


def runs_along_memory(stage: Stage, var: Var) -> bool:
    """True if vectors over a variable are contiguous (or broadcast) in every access.

    Each index is the variable, or it plus a constant in the last dimension, or does not depend on it; and no condition
    on it guards an access.
    """
    fine = True

    def visit(node: Node) -> None:
        nonlocal fine
        if isinstance(node, (BufferLoad, BufferStore)):
            *others, last = node.indices or (const(0, "int64"),)
            fine = fine and not any(var in free_vars(index) for index in others)
            fine = fine and (var not in free_vars(last) or is_shifted(last, var))
        elif isinstance(node, (FloorDiv, FloorMod)) and node.dtype.is_integer:
            fine = fine and var not in free_vars(node)
        elif isinstance(node, (And, Or)) and var in free_vars(node):
            fine = fine and not any(isinstance(part, BufferLoad) for part in (node.a, node.b))
        elif isinstance(node, (Select, Call)):
            guard = node.condition if isinstance(node, Select) else node.args[0] if node.args else None
            chooses = isinstance(node, Select) or node.intrinsic == "if_then_else"
            if chooses and guard is not None and var in free_vars(guard):
                fine = fine and not guards_other_place(node, var)

    post_order_visit(stage.body, visit)
    return fine


def is_shifted(index: PrimExpr, var: Var) -> bool:
    """True for the variable plus a term that does not depend on it."""
    return index is var or var not in free_vars(simplify(index - var))


def guards_other_place(node: PrimExpr, var: Var) -> bool:
    """True if a conditional contains a load at an index other than the variable, which may be out of bounds."""
    found = False

    def visit(part: Node) -> None:
        nonlocal found
        if isinstance(part, BufferLoad) and part.indices:
            last = part.indices[-1]
            found = found or (var in free_vars(last) and not is_shifted(last, var))

    post_order_visit(node, visit)
    return found
