"""Updates of elements: the operation that turns a stored element into its next value.

    B[i] = B[i] + A[i, k]        B[i] = T.max(A[i, k], B[i])      B[i] = T.if_then_else(c, B[i] * x, B[i])

Each new value is a sum, product, maximum, minimum, conjunction or disjunction of the element and a term that reads no
buffer the block stores to. Such updates may be applied in any order. `reducers` uses them to recognise combiners,
`interchange` to reorder loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from ...ir import DataType, structural_equal
from ...prim import Add, And, Call, Max, Min, Mul, Or, PrimExpr, Select, Sub, Var, const
from ...prim.intrin import bitwise_and, bitwise_or, bitwise_xor
from ...runtime.records import dataclass
from ..buffer import Buffer, BufferLoad
from ..dependence import loads_in
from ..functor import substitute
from ..reduction import max as max_reducer
from ..reduction import min as min_reducer
from ..stmt import Block, BufferStore, IfThenElse, LetStmt, SeqStmt, Stmt

Combine: TypeAlias = "Callable[[PrimExpr, PrimExpr], PrimExpr]"
Values: TypeAlias = "tuple[PrimExpr, ...]"


@dataclass(frozen=True)
class Kind:
    """An operation that may be applied in any order, with its neutral element."""

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


class NoCombination(Exception):
    """Raised with the reason why statements are no supported update, or init and update no supported combiner."""


def stored_values(stmt: Stmt, where: str) -> dict[Buffer, tuple[Values, PrimExpr]]:
    """Return the indices and the value that a statement stores in each buffer, over the buffers' previous contents."""
    lets: dict[Var, PrimExpr] = {}
    while isinstance(stmt, LetStmt):
        lets[stmt.var] = substitute(stmt.value, lets)
        stmt = stmt.body
    result: dict[Buffer, tuple[Values, PrimExpr]] = {}
    for store in stmt.seq if isinstance(stmt, SeqStmt) else (stmt,):
        if not isinstance(store, BufferStore) or store.predicate is not None or store.buffer in result:
            raise NoCombination(f"{where} is more than one store into each result")
        if any(load.buffer in result for load in loads_in(store.value)):
            raise NoCombination(f"{where} reads a result that it has just stored")
        result[store.buffer] = (store.indices, substitute(store.value, lets))
    return result


def reads_any(expr: PrimExpr, buffers: Iterable[Buffer]) -> bool:
    """True if an expression reads one of the buffers."""
    return any(load.buffer in set(buffers) for load in loads_in(expr))


def operation_of(value: PrimExpr, result: PrimExpr, buffers: Iterable[Buffer]) -> str | None:
    """Return the operation that updates `result` to `value`: "same" if they are equal, None if there is none."""
    if structural_equal(value, result):
        return "same"
    if isinstance(value, Select) or (isinstance(value, Call) and value.intrinsic == "if_then_else"):
        condition, *branches = value.args if isinstance(value, Call) else (
            value.condition, value.true_value, value.false_value,
        )  # fmt: skip
        if reads_any(condition, buffers):
            return None
        kinds = {operation_of(branch, result, buffers) for branch in branches} - {"same"}
        return kinds.pop() if len(kinds) == 1 else None
    operands, name = _operation(value)
    if name is None:
        return None
    reading = [i for i, operand in enumerate(operands) if reads_any(operand, buffers)]
    if len(reading) != 1 or (isinstance(value, Sub) and reading == [1]):
        return None
    inner = operation_of(operands[reading[0]], result, buffers)
    return name if inner in (name, "same") else None


def _operation(value: PrimExpr) -> tuple[Values, str | None]:
    """Return the operands of an operation, and its name in KINDS."""
    if isinstance(value, Call):
        return value.args, _CALLS.get(value.intrinsic)
    name = _NODES.get(type(value))
    return ((value.a, value.b), name) if name is not None else ((), None)  # type: ignore[attr-defined]


def unconditional(stmt: Stmt) -> tuple[Stmt, list[PrimExpr]]:
    """Strip the conditions around a statement; returns the statement and the conditions."""
    conditions: list[PrimExpr] = []
    while isinstance(stmt, IfThenElse) and stmt.else_case is None:
        conditions.append(stmt.condition)
        stmt = stmt.then_case
    return stmt, conditions


def is_order_free_update(block: Block) -> bool:
    """True if a block updates each element it stores by an operation that may be applied in any order.

    Products must be of integers: floating-point products may overflow in one order and not in another.
    """
    body, conditions = unconditional(block.body)
    try:
        updates = stored_values(body, "its body")
    except NoCombination:
        return False
    targets = tuple(updates)
    if any(reads_any(condition, targets) for condition in conditions):
        return False
    for buffer, (indices, value) in updates.items():
        name = operation_of(value, BufferLoad(buffer, indices), targets)
        if name is None or name == "same" or any(reads_any(index, targets) for index in indices):
            return False
        if name == "product" and not buffer.dtype.is_integer:
            return False
    return True
