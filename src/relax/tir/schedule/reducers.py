"""Recognise the combiner of a reduction block from its init and update, up to spelling.

    B[i] = B[i] + A[i, k]        B[i] = T.max(A[i, k], B[i])      B[i] = T.if_then_else(c, B[i] * x, B[i])
    I[i], V[i] = argmax((I[i], V[i]), (k, A[i, k]))              B[i], C[i] = B[i] + x, C[i] + x * x

Each result is a sum, product, maximum, minimum, conjunction or disjunction of itself and a term that does not read the
results; or all results together are a selection (see `selection`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from ...ir import Node, structural_equal
from ...prim import Analyzer, Call, Not, PrimExpr, Select, Var, free_vars
from ...runtime.records import dataclass
from ..buffer import Buffer, BufferLoad
from ..dependence import loads_in
from ..functor import StmtExprMutator, substitute
from ..stmt import Block
from .selection import selection_facts
from .updates import KINDS, Kind, NoCombination, Values, operation_of, reads_any, stored_values, unconditional

N = TypeVar("N", bound=Node)


@dataclass(frozen=True)
class Combination:
    """The combiner of a reduction block."""

    buffers: tuple[Buffer, ...]
    indices: Values
    """Indices of the results, equal for all buffers."""
    identity: Values
    """Initial values of a partial reduction."""
    combine: Callable[[Values, Values], Values]
    """Combine the current results with those of a partial reduction."""
    commutative: bool
    """False if elements must be combined in their original order."""


def combination_of(block: Block) -> Combination:
    """Return the combiner of a block. Raises NoCombination with the reason if it is not supported."""
    assert block.init is not None
    body, conditions = unconditional(block.body)
    starts, updates = stored_values(block.init, "its init"), stored_values(body, "its body")
    buffers = tuple(updates)
    if any(reads_any(condition, buffers) for condition in conditions):
        raise NoCombination("the condition in its body reads a result")
    if set(starts) != set(buffers):
        raise NoCombination("its init and its body write different buffers")
    indices = updates[buffers[0]][0]
    for buffer in buffers:
        if not all(structural_equal(written, indices) for written in (updates[buffer][0], starts[buffer][0])):
            raise NoCombination("its init and its body write at different indices")
    results = [BufferLoad(buffer, indices) for buffer in buffers]
    values = [updates[buffer][1] for buffer in buffers]
    identity = tuple(starts[buffer][1] for buffer in buffers)
    simple = _componentwise(buffers, indices, results, values)
    return simple if simple is not None else _selection(block, buffers, indices, results, values, identity)


# ------------------------------------------------------------------------------------------ one by one


def _componentwise(
    buffers: tuple[Buffer, ...], indices: Values, results: Sequence[PrimExpr], values: Sequence[PrimExpr]
) -> Combination | None:
    kinds: list[Kind] = []
    for result, value in zip(results, values, strict=True):
        name = operation_of(value, result, buffers)
        if name is None or name == "same":
            return None
        kinds.append(KINDS[name])

    def combine(lhs: Values, rhs: Values) -> Values:
        return tuple(kind.combine(x, y) for kind, x, y in zip(kinds, lhs, rhs, strict=True))

    identity = tuple(kind.identity(buffer.dtype) for kind, buffer in zip(kinds, buffers, strict=True))
    return Combination(buffers, indices, identity, combine, True)


# ------------------------------------------------------------------------------------------ selections


def _selection(
    block: Block,
    buffers: tuple[Buffer, ...],
    indices: Values,
    results: Sequence[PrimExpr],
    values: Sequence[PrimExpr],
    identity: Values,
) -> Combination:
    unknown = NoCombination(
        "its body is no sum, product, maximum, minimum, and, or, or selection of its results and new elements"
    )
    keep: PrimExpr | None = None
    sources: list[PrimExpr] = []
    for result, value in zip(results, values, strict=True):
        choice = _choice(value, result)
        if choice is None or reads_any(choice[1], buffers):
            raise unknown
        if keep is not None and not structural_equal(keep, choice[0]):
            raise unknown
        keep = choice[0]
        sources.append(choice[1])
    assert keep is not None
    lhs = [Var(f"x{i}", result.dtype) for i, result in enumerate(results)]
    rhs = [Var(f"y{i}", result.dtype) for i, result in enumerate(results)]
    condition = _Named([*results, *sources], [*lhs, *rhs]).visit(keep)
    variables = {*lhs, *rhs}
    if loads_in(condition) or any(var not in variables for var in free_vars(condition)):
        raise unknown
    facts = selection_facts(condition, lhs, rhs, identity, [_bounds(source, block) for source in sources])
    if not facts.associative:
        raise NoCombination("it is not proved that its selection may be done in parts")

    def combine(so_far: Values, partial: Values) -> Values:
        pairs = [*zip(lhs, so_far, strict=True), *zip(rhs, partial, strict=True)]
        chosen = substitute(condition, dict(pairs))
        return tuple(Select(chosen, x, y) for x, y in zip(so_far, partial, strict=True))

    return Combination(buffers, indices, identity, combine, facts.commutative)


def _bounds(source: PrimExpr, block: Block) -> tuple[float, float]:
    """Return the least and greatest value of an element, derived from the domains of a block's variables."""
    dtype = source.dtype
    if dtype.is_bool:
        return 0, 1
    if not dtype.is_integer:
        return -math.inf, math.inf
    analyzer = Analyzer()
    for iter_var in block.iter_vars:
        if iter_var.dom is not None:
            analyzer.bind(iter_var.var, iter_var.dom)
    bound = analyzer.const_int_bound(source)
    return max(bound.min_value, int(dtype.min_value)), min(bound.max_value, int(dtype.max_value))


def _choice(value: PrimExpr, result: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
    """Return (condition under which a result stays, new value otherwise), or None for another form."""
    match value:
        case Select(condition, first, second) | Call(args=(condition, first, second)) if (
            isinstance(value, Select) or value.intrinsic == "if_then_else"
        ):
            if structural_equal(first, result):
                return condition, second
            if structural_equal(second, result):
                return Not(condition), first
        case _:
            pass
    return None


class _Named(StmtExprMutator):
    """Replace expressions by variables."""

    def __init__(self, exprs: Sequence[PrimExpr], variables: Sequence[Var]) -> None:
        super().__init__()
        self.pairs = list(zip(exprs, variables, strict=True))

    def visit(self, node: N) -> N:
        for expr, var in self.pairs:
            if structural_equal(expr, node):
                return cast(N, var)
        return super().visit(node)


__all__ = ["Combination", "NoCombination", "combination_of"]
