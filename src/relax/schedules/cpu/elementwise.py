"""Element-wise nests: parallel over all that is outside of the innermost loop, which runs in vectors.

    for i, j, k in T.grid(n, m, 100):              for f in T.parallel(n * m):               i and j are one axis
        with T.block("Y"):                             for k in T.vectorized(100):
            Y[i, j, k] = X[i, j, k] + B[k]                 Y[f, k] = X[f, k] + B[k]

Axes that index neighbouring dimensions everywhere become one; what is left outside of the innermost is one parallel
loop, whose variables are computed once for each innermost loop. A long innermost loop is cut into strips of 2,048, so
that a tensor with one axis is split among threads as well. The thread pool decides by the work at run time whether
several threads take part. The innermost loop becomes vectors and a masked rest (`VectorizeLoop`). It stays a plain loop
if an access is not along memory, or an index is divided. Elements that are the same for the whole innermost loop are
read before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ...ir import Node
from ...prim import And, Call, FloorDiv, FloorMod, Or, PrimExpr, Select, Var, const, free_vars, simplify
from ...prim.intrin import ceildiv, floordiv, floormod
from ...prim.intrin import min as minimum
from ...tir import BufferLoad, BufferStore, DeclBuffer, For, ForKind, LetStmt, Stmt
from ...tir.functor import post_order_visit, substitute
from ..build import let, loop
from ..invariants import Invariants
from ..stages import Axis, Group, Stage, with_merged_axes
from ..straight import Binding, Names, bound

STRIP: Final = 2048
"""Elements of an innermost loop that one thread takes at least."""


def elementwise(group: Group) -> Stmt:
    """The loops of a group of one spatial stage."""
    group = with_merged_axes(group)
    (stage,) = group.stages
    names = Names(stage.cannot_fail)
    store = names.stmt(stage.body)
    named = replace(stage, body=bound(names.bindings, store))
    axes = in_memory_order(stage)
    if not axes:
        return within(group, stage.body)
    *outer, inner = axes
    outside, inside, store = _apart(stage, names.bindings, store, inner)
    body = bound(inside, store)
    kind = ForKind.VECTORIZED if runs_along_memory(named, inner.var) else ForKind.SERIAL
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


def _apart(
    stage: Stage, bindings: list[Binding], store: Stmt, inner: Axis
) -> tuple[list[Binding], list[Binding], Stmt]:
    """Bindings before the innermost loop, of what is the same in all of it, those inside of it, and the store.

    What may fail stays inside of a loop that perhaps does not run at all.
    """
    runs = inner.size is not None and inner.size > 0
    invariants = Invariants([inner.var], lambda load: runs or stage.cannot_fail(load))
    inside = invariants.split(bindings)
    return invariants.bindings, inside, invariants.named(store)


def in_memory_order(stage: Stage) -> tuple[Axis, ...]:
    """The axes of a stage in the order of the dimensions that it stores to."""
    (store,) = stage.stores
    order = {var: place for place, index in enumerate(store.indices) for var in free_vars(index)}
    return tuple(sorted(stage.axes, key=lambda axis: order.get(axis.var, -1)))


def within(group: Group, body: Stmt) -> Stmt:
    """Statements inside of the views and names of a group."""
    for view in reversed(group.views):
        body = DeclBuffer(view, body)
    for name, value in reversed(group.names):
        body = LetStmt(name, value, body)
    return body


def parallel_over(axes: Sequence[Axis], body: Stmt) -> Stmt:
    """One parallel loop over all points of some axes; their variables are free in the body."""
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
    """True if vectors over a variable are whole vectors in memory, or the same for all lanes.

    Then each index is the variable, or it plus a constant in the last dimension, or does not depend on it; and no
    condition on it guards an access.
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
    """True for a variable plus what does not depend on it."""
    return index is var or var not in free_vars(simplify(index - var))


def guards_other_place(node: PrimExpr, var: Var) -> bool:
    """True if a choice has a load at another place than the variable itself: it may be out of range."""
    found = False

    def visit(part: Node) -> None:
        nonlocal found
        if isinstance(part, BufferLoad) and part.indices:
            last = part.indices[-1]
            found = found or (var in free_vars(last) and not is_shifted(last, var))

    post_order_visit(node, visit)
    return found


__all__ = ["STRIP", "elementwise", "in_memory_order", "parallel_over", "runs_along_memory", "within"]
