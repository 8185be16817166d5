"""Selecting reductions such as argmax and argmin: keep the current tuple or take the next one.

    I[i], V[i] = (I[i], V[i]) if V[i] >= A[i, k] else (k, A[i, k])          keep: x1 >= y1

Such a reduction may be split into partial reductions if the selection is associative, and the start value is neutral:

    select(x, select(p, y)) == select(select(x, p), y)
    select(x, start) == x

The condition `keep` compares values with each other and with constants only. A property is therefore proved by testing
a small set of tuples with values in all gaps between the constants. NaN is tested if `keep` calls isnan; otherwise the
result for NaN is unspecified.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ...ir import DataType
from ...prim import And, Call, CompareExpr, FloatImm, IntImm, Not, Or, PrimExpr, Var
from ...runtime.records import dataclass
from ..functor import post_order_visit

Number: TypeAlias = "int | float"
Table: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[Any]]"
_LIMIT: Final = 150
"""Largest number of tuples for which a proof is attempted."""


@dataclass(frozen=True)
class SelectionFacts:
    """Proved properties of a selection."""

    associative: bool
    commutative: bool


def selection_facts(
    keep: PrimExpr,
    lhs: Sequence[Var],
    rhs: Sequence[Var],
    identity: Sequence[PrimExpr],
    bounds: Sequence[tuple[Number, Number]],
) -> SelectionFacts:
    """Return the properties of a selection that starts from `identity`; `keep` is over `lhs` (current) and `rhs`
    (next).

    `bounds` are the least and greatest value of each component of an element.
    """
    nothing = SelectionFacts(False, False)
    constants = _constants(keep, lhs, rhs)
    start = tuple(value.value for value in identity if isinstance(value, (IntImm, FloatImm)))
    if constants is None or len(start) < len(identity):
        return nothing
    with_nan = _asks_for_nan(keep)
    domains = [
        _domain([*numbers, value, *limits], var.dtype, with_nan)
        for numbers, value, limits, var in zip(constants, start, bounds, lhs, strict=True)
    ]
    tuples = list(itertools.product(*domains))
    if len(tuples) > _LIMIT:
        return nothing
    values = [tuple(number for number, _ in item) for item in tuples]
    columns = [np.array(c, var.dtype.numpy()) for c, var in zip(zip(*values, strict=True), lhs, strict=True)]
    env = {var: column[:, None] for var, column in zip(lhs, columns, strict=True)}
    env.update((var, column[None, :]) for var, column in zip(rhs, columns, strict=True))
    kept = np.broadcast_to(_evaluated(keep, env), (len(values), len(values)))
    elements = [all(_within(n, b) for n, b in zip(item, bounds, strict=True)) for item in values]
    cells = [tuple(cell for _, cell in item) for item in tuples]
    return _facts(kept, values.index(start), np.flatnonzero(elements), cells)


def _facts(kept: Table, start: int, elements: Table, cells: Sequence[tuple[int, ...]]) -> SelectionFacts:
    """Derive the properties from the table of `keep`; tuples are represented by their numbers."""
    numbers = np.arange(len(kept))
    chosen = np.where(kept, numbers[:, None], numbers[None, :])
    reached = _reached(kept, start, elements, cells)
    x, p, y = reached[:, None, None], reached[None, :, None], elements[None, None, :]
    by_part = bool((chosen[x, chosen[p, y]] == chosen[chosen[x, p], y]).all())
    empty = bool((chosen[reached, start] == reached).all())
    y, z = elements[None, :, None], elements[None, None, :]
    any_order = bool((chosen[chosen[x, y], z] == chosen[chosen[x, z], y]).all())
    return SelectionFacts(by_part and empty, by_part and empty and any_order)


def _reached(kept: Table, start: int, elements: Table, cells: Sequence[tuple[int, ...]]) -> Table:
    """Return the tuples that the current value may be: the start, and elements that may replace a reachable tuple.

    If one tuple of a cell is reachable, all its elements are: only the order relative to the constants matters.
    """
    of_cell: dict[tuple[int, ...], list[int]] = {}
    for element in map(int, elements):
        of_cell.setdefault(cells[element], []).append(element)
    reached, pending = {start}, [start]
    while pending:
        present = pending.pop()
        for element in map(int, np.flatnonzero(~kept[present])):
            fresh = [item for item in of_cell.get(cells[element], ()) if item not in reached]
            reached.update(fresh)
            pending += fresh
    return np.array(sorted(reached))


def _within(number: Number, bounds: tuple[Number, Number]) -> bool:
    return math.isnan(number) or bounds[0] <= number <= bounds[1]


def _constants(keep: PrimExpr, lhs: Sequence[Var], rhs: Sequence[Var]) -> list[list[Number]] | None:
    """Return the constants with which each component is compared, or None for an unsupported condition."""
    component_of = {var: i for variables in (lhs, rhs) for i, var in enumerate(variables)}
    result: list[list[Number]] = [[] for _ in lhs]

    def collect(expr: PrimExpr) -> bool:
        match expr:
            case And(a, b) | Or(a, b):
                return collect(a) and collect(b)
            case Not(a):
                return collect(a)
            case IntImm():
                return True
            case Call(args=(Var() as var,)) if expr.intrinsic == "isnan":
                return var in component_of
            case CompareExpr():
                components = {component_of.get(side) if isinstance(side, Var) else -1 for side in (expr.a, expr.b)}
                numbers = [_number(side) for side in (expr.a, expr.b) if not isinstance(side, Var)]
                components.discard(-1)
                if len(components) != 1 or None in components or None in numbers:
                    return False
                (index,) = components
                assert index is not None
                result[index] += [number for number in numbers if number is not None]
                return True
            case _:
                return False

    return result if collect(keep) else None


def _asks_for_nan(keep: PrimExpr) -> bool:
    tests: list[Call] = []
    post_order_visit(keep, lambda node: tests.append(node) if isinstance(node, Call) else None)
    return bool(tests)


def _number(value: PrimExpr) -> Number | None:
    return value.value if isinstance(value, (IntImm, FloatImm)) else None


def _domain(constants: Sequence[Number], dtype: DataType, with_nan: bool) -> list[tuple[Number, int]]:
    """Return the constants, the ends of the dtype, and up to three values in each gap between them.

    Each value is paired with its cell: the number of its constant or gap.
    """
    if dtype.is_float:
        ends = sorted({float(number) for number in constants} | {-math.inf, math.inf})
    else:
        ends = sorted({int(number) for number in constants} | {int(dtype.min_value), int(dtype.max_value)})
    result = [(end, 2 * i) for i, end in enumerate(ends)]
    for i, (low, high) in enumerate(itertools.pairwise(ends)):
        between = _between(low, high, dtype) if dtype.is_float else _integers_between(int(low), int(high))
        result += [(number, 2 * i + 1) for number in between]
    return [*result, *([(math.nan, -1)] if dtype.is_float and with_nan else [])]


def _integers_between(low: int, high: int) -> range:
    return range(low + 1, min(high, low + 4))


def _between(low: float, high: float, dtype: DataType) -> list[float]:
    if math.isinf(low) and math.isinf(high):
        numbers = [-1.0, 0.0, 1.0]
    elif math.isinf(low) or math.isinf(high):
        end, step = (high, -1) if math.isinf(low) else (low, 1)
        numbers = [end + step * max(1.0, abs(end)) * i / 2 for i in (1, 2, 3)]
    else:
        numbers = [low + (high - low) * i / 4 for i in (1, 2, 3)]
    with np.errstate(over="ignore"):
        rounded = {float(np.array(number).astype(dtype.numpy())) for number in numbers}
    return sorted(number for number in rounded if low < number < high)


def _evaluated(expr: PrimExpr, env: Mapping[Var, Table]) -> Any:
    """Evaluate the condition for all pairs of tuples; supports the expressions that `_constants` accepts."""
    match expr:
        case And(a, b):
            return _evaluated(a, env) & _evaluated(b, env)
        case Or(a, b):
            return _evaluated(a, env) | _evaluated(b, env)
        case Not(a):
            return ~_evaluated(a, env)
        case CompareExpr(a=a, b=b):
            with np.errstate(invalid="ignore"):  # tables have NaN, too
                return expr.functions.floats(_evaluated(a, env), _evaluated(b, env))
        case Call(args=(arg,)):
            return np.isnan(_evaluated(arg, env))
        case Var():
            return env[expr]
        case _:
            number = _number(expr)
            return np.array(number, expr.dtype.numpy())
