"""The combination that a reduction block does, recognised from its init and its update, up to spelling.

    B[i] = B[i] + A[i, k]        B[i] = T.max(A[i, k], B[i])      B[i] = T.if_then_else(c, B[i] * x, B[i])
    I[i], V[i] = argmax((I[i], V[i]), (k, A[i, k]))              B[i], C[i] = B[i] + x, C[i] + x * x

Each result is a sum, product, maximum, minimum, conjunction or disjunction of itself and of something that does not
read the results; or all of them together are a selection (see `selection`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar, cast

from ...ir import DataType, Node, structural_equal
from ...prim import (
    Add,
    Analyzer,
    And,
    Call,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    Var,
    const,
    free_vars,
)
from ...prim.intrin import bitwise_and, bitwise_or, bitwise_xor
from ..buffer import Buffer, BufferLoad
from ..functor import StmtExprMutator, post_order_visit, substitute
from ..reduction import max as max_reducer
from ..reduction import min as min_reducer
from ..stmt import Block, BufferStore, IfThenElse, LetStmt, SeqStmt, Stmt
from .selection import selection_facts

N = TypeVar("N", bound=Node)
Combine: TypeAlias = "Callable[[PrimExpr, PrimExpr], PrimExpr]"
Values: TypeAlias = "tuple[PrimExpr, ...]"


@dataclass(frozen=True)
class Kind:
    """An operation that may be applied in any order, with the value that changes nothing."""

    name: str
    combine: Combine
    identity: Callable[[DataType], PrimExpr]


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("sum", lambda x, y: x + y, lambda dtype: const(0, dtype)),
        Kind("product", lambda x, y: x * y, lambda dtype: const(1, dtype)),
        Kind("maximum", Max, max_reducer.fidentity),
        Kind("minimum", Min, min_reducer.fidentity),
        Kind("conjunction", And, lambda dtype: const(1, dtype)),
        Kind("disjunction", Or, lambda dtype: const(0, dtype)),
        Kind("bitwise and", bitwise_and, lambda dtype: const(-1 if dtype.is_int else dtype.max_value, dtype)),
        Kind("bitwise or", bitwise_or, lambda dtype: const(0, dtype)),
        Kind("bitwise xor", bitwise_xor, lambda dtype: const(0, dtype)),
    )
}
_NODES: Final[dict[type[PrimExpr], str]] = {
    Add: "sum", Sub: "sum", Mul: "product", Max: "maximum", Min: "minimum", And: "conjunction", Or: "disjunction",
}  # fmt: skip
_CALLS: Final = {"bitwise_and": "bitwise and", "bitwise_or": "bitwise or", "bitwise_xor": "bitwise xor"}


@dataclass(frozen=True)
class Combination:
    """The combination of a reduction block's results with one more element."""

    buffers: tuple[Buffer, ...]
    indices: Values
    """The place of the results, the same in all buffers."""
    identity: Values
    """The values from which the combination of a part of the elements starts."""
    combine: Callable[[Values, Values], Values]
    """The results of combining those so far with those of a part."""
    commutative: bool
    """False if elements must be combined in their order."""


class NoCombination(Exception):
    """The reason for which an init and an update are no combination that is known."""


def combination_of(block: Block) -> Combination:
    """The combination that a block does. Raises NoCombination with the reason if it is none that is known."""
    assert block.init is not None
    body, conditions = block.body, list[PrimExpr]()
    while isinstance(body, IfThenElse) and body.else_case is None:
        conditions.append(body.condition)
        body = body.then_case
    starts, updates = _stores(block.init, "its init"), _stores(body, "its body")
    buffers = tuple(updates)
    if any(_reads(condition, buffers) for condition in conditions):
        raise NoCombination("the condition in its body reads a result")
    if set(starts) != set(buffers):
        raise NoCombination("its init and its body write different buffers")
    indices = updates[buffers[0]][0]
    for buffer in buffers:
        if not all(structural_equal(place, indices) for place in (updates[buffer][0], starts[buffer][0])):
            raise NoCombination("its init and its body write at different indices")
    results = [BufferLoad(buffer, indices) for buffer in buffers]
    values = [updates[buffer][1] for buffer in buffers]
    identity = tuple(starts[buffer][1] for buffer in buffers)
    simple = _componentwise(buffers, indices, results, values)
    return simple if simple is not None else _selection(block, buffers, indices, results, values, identity)


def _stores(stmt: Stmt, where: str) -> dict[Buffer, tuple[Values, PrimExpr]]:
    """The indices and the value that a statement stores in each buffer, over the buffers as they were before it."""
    lets: dict[Var, PrimExpr] = {}
    while isinstance(stmt, LetStmt):
        lets[stmt.var] = substitute(stmt.value, lets)
        stmt = stmt.body
    result: dict[Buffer, tuple[Values, PrimExpr]] = {}
    for part in stmt.seq if isinstance(stmt, SeqStmt) else (stmt,):
        if not isinstance(part, BufferStore) or part.buffer in result:
            raise NoCombination(f"{where} is more than one store into each result")
        if any(load.buffer in result for load in _loads(part.value)):
            raise NoCombination(f"{where} reads a result that it has just stored")
        result[part.buffer] = (part.indices, substitute(part.value, lets))
    return result


def _loads(expr: PrimExpr) -> list[BufferLoad]:
    loads: list[BufferLoad] = []
    post_order_visit(expr, lambda part: loads.append(part) if isinstance(part, BufferLoad) else None)
    return loads


def _reads(expr: PrimExpr, buffers: Sequence[Buffer]) -> bool:
    return any(load.buffer in set(buffers) for load in _loads(expr))


# ------------------------------------------------------------------------------------------ one by one


def _componentwise(
    buffers: tuple[Buffer, ...], indices: Values, results: Sequence[PrimExpr], values: Sequence[PrimExpr]
) -> Combination | None:
    kinds: list[Kind] = []
    for result, value in zip(results, values, strict=True):
        name = _kind_of(value, result, buffers)
        if name is None or name == "same":
            return None
        kinds.append(KINDS[name])

    def combine(lhs: Values, rhs: Values) -> Values:
        return tuple(kind.combine(x, y) for kind, x, y in zip(kinds, lhs, rhs, strict=True))

    identity = tuple(kind.identity(buffer.dtype) for kind, buffer in zip(kinds, buffers, strict=True))
    return Combination(buffers, indices, identity, combine, True)


def _kind_of(value: PrimExpr, result: PrimExpr, buffers: Sequence[Buffer]) -> str | None:
    """The operation that takes a result to its next value; "same" for the result itself, None for no operation."""
    if structural_equal(value, result):
        return "same"
    if isinstance(value, Select) or (isinstance(value, Call) and value.intrinsic == "if_then_else"):
        condition, *branches = value.args if isinstance(value, Call) else (
            value.condition, value.true_value, value.false_value,
        )  # fmt: skip
        if _reads(condition, buffers):
            return None
        kinds = {_kind_of(branch, result, buffers) for branch in branches} - {"same"}
        return kinds.pop() if len(kinds) == 1 else None
    parts, name = _operation(value)
    if name is None:
        return None
    reading = [i for i, part in enumerate(parts) if _reads(part, buffers)]
    if len(reading) != 1 or (isinstance(value, Sub) and reading == [1]):
        return None
    inner = _kind_of(parts[reading[0]], result, buffers)
    return name if inner in (name, "same") else None


def _operation(value: PrimExpr) -> tuple[Values, str | None]:
    """The operands of an operation, and its name in KINDS."""
    if isinstance(value, Call):
        return value.args, _CALLS.get(value.intrinsic)
    name = _NODES.get(type(value))
    return ((value.a, value.b), name) if name is not None else ((), None)  # type: ignore[attr-defined]


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
        if choice is None or _reads(choice[1], buffers):
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
    if _loads(condition) or any(var not in variables for var in free_vars(condition)):
        raise unknown
    facts = selection_facts(condition, lhs, rhs, identity, [_bounds(source, block) for source in sources])
    if not facts.associative:
        raise NoCombination("it is not proved that its selection may be done in parts")

    def combine(so_far: Values, part: Values) -> Values:
        pairs = [*zip(lhs, so_far, strict=True), *zip(rhs, part, strict=True)]
        chosen = substitute(condition, dict(pairs))
        return tuple(Select(chosen, x, y) for x, y in zip(so_far, part, strict=True))

    return Combination(buffers, indices, identity, combine, facts.commutative)


def _bounds(source: PrimExpr, block: Block) -> tuple[float, float]:
    """The least and the greatest value of an element, as far as the domains of a block's variables say."""
    dtype = source.dtype
    if not dtype.is_integer:
        return -math.inf, math.inf
    analyzer = Analyzer()
    for iter_var in block.iter_vars:
        if iter_var.dom is not None:
            analyzer.bind(iter_var.var, iter_var.dom)
    bound = analyzer.const_int_bound(source)
    return max(bound.min_value, int(dtype.min_value)), min(bound.max_value, int(dtype.max_value))


def _choice(value: PrimExpr, result: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
    """The condition under which a result stays, and what it becomes otherwise; None for another form."""
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
    """Puts variables in the place of expressions."""

    def __init__(self, exprs: Sequence[PrimExpr], variables: Sequence[Var]) -> None:
        super().__init__()
        self.pairs = list(zip(exprs, variables, strict=True))

    def visit(self, node: N) -> N:
        for expr, var in self.pairs:
            if structural_equal(expr, node):
                return cast(N, var)
        return super().visit(node)


__all__ = ["Combination", "NoCombination", "combination_of"]
