"""Integer intervals with symbolic ends, and the interval of an expression over variables with such domains.

    IntervalSet(0, n - 1)               the integers from 0 to n - 1
    IntervalSet(neg_inf(), 7)           those up to 7
    Analyzer().int_set(x * 2 + y, {x: IntervalSet(0, 9), y: IntervalSet(0, 1)})        IntervalSet(0, 19)

The set of an expression is never too small; arithmetic on indices is taken not to overflow.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, final

from ..ir import Node, node
from ..prim import (
    Add,
    BinaryExpr,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Select,
    Sub,
    Var,
    const,
    convert,
    free_vars,
    match_dtypes,
    substitute,
)
from ..prim import Analyzer as PrimAnalyzer
from ..prim.intrin import max as maximum
from ..prim.intrin import min as minimum
from ..prim.iter_expr import shown
from ..tir import Broadcast, Ramp

_POS_INF = Var("pos_inf", "handle")
_NEG_INF = Var("neg_inf", "handle")

Ends: TypeAlias = "tuple[PrimExpr | None, PrimExpr | None]"
"""Minimum and maximum; None if unbounded."""
Domains: TypeAlias = "Mapping[Var, Any]"
"""Domain of each variable: an IntSet, or an object with `min` and `extent`."""

EVERYTHING: Ends = (None, None)


def pos_inf() -> Var:
    """Return the symbol for +∞, the maximum of a set without an upper bound."""
    return _POS_INF


def neg_inf() -> Var:
    """Return the symbol for -∞, the minimum of a set without a lower bound."""
    return _NEG_INF


class IntSet(Node):
    """A set of integers."""

    __slots__ = ()

    @staticmethod
    def single_point(point: Any) -> IntervalSet:
        """The set of one integer."""
        value = convert(point)
        return IntervalSet(value, value)

    @staticmethod
    def vector(vec: Any) -> IntervalSet:
        """The set that contains the lanes of a vector."""
        return as_set(ends_of(convert(vec), {}, PrimAnalyzer()))

    @staticmethod
    def nothing() -> IntervalSet:
        """The empty set."""
        return IntervalSet(_POS_INF, _NEG_INF)

    @staticmethod
    def everything() -> IntervalSet:
        """The set of all integers."""
        return IntervalSet(_NEG_INF, _POS_INF)


@final
@node
class IntervalSet(IntSet):
    """The integers from `min_value` to `max_value`, both included."""

    min_value: PrimExpr
    max_value: PrimExpr

    def __init__(self, min_value: Any, max_value: Any, span: Any = None) -> None:
        low, high = convert(min_value), convert(max_value)
        if low.dtype != high.dtype and not (low.dtype.is_handle or high.dtype.is_handle):
            low, high = match_dtypes(min_value, max_value)
        for end in (low, high):
            if not end.dtype.is_integer and end is not _POS_INF and end is not _NEG_INF:
                raise TypeError(f"IntervalSet: the ends are integers, found {end} of dtype {end.dtype!s}")
        self.__fields_init__(low, high, span=span)

    def __repr__(self) -> str:
        ends = (end.name if isinstance(end, Var) else shown(end) for end in (self.min_value, self.max_value))
        return f"IntervalSet[{', '.join(ends)}]"

    __str__ = __repr__

    def is_nothing(self) -> bool:
        """True if the set is proved empty."""
        if self.min_value is _POS_INF or self.max_value is _NEG_INF:
            return True
        low, high = as_ends(self)
        return low is not None and high is not None and PrimAnalyzer().can_prove(low > high)

    def is_everything(self) -> bool:
        """True if all integers are in the set."""
        return self.min_value is _NEG_INF and self.max_value is _POS_INF


def as_set(ends: Ends) -> IntervalSet:
    """Set between two ends."""
    low, high = ends
    return IntervalSet(_NEG_INF if low is None else low, _POS_INF if high is None else high)


def as_ends(domain: Any) -> Ends:
    """Ends of an IntSet or of an object with `min` and `extent`."""
    if isinstance(domain, IntervalSet):
        low, high = domain.min_value, domain.max_value
        return (None if low is _NEG_INF else low), (None if high is _POS_INF else high)
    return domain.min, domain.min + domain.extent - 1


class Analyzer(PrimAnalyzer):
    """Analyzer of `relax.prim` with TVM's names and integer sets."""

    def int_set(self, expr: Any, dom_map: Domains | None = None) -> IntervalSet:
        """Set of an expression's values for variables in the domains of `dom_map`; other variables are symbolic."""
        return as_set(ends_of(convert(expr), dom_map or {}, self))


def ends_of(expr: PrimExpr, domains: Domains, analyzer: PrimAnalyzer) -> Ends:
    """Minimum and maximum of an expression, in terms of the variables without a domain."""
    return _Evaluation({var: as_ends(domain) for var, domain in domains.items()}, analyzer).ends(expr)


class _Evaluation:
    """Evaluation of an expression's ends, cached per object."""

    def __init__(self, domains: dict[Var, Ends], analyzer: PrimAnalyzer) -> None:
        self.domains = domains
        self.analyzer = analyzer
        self._done: dict[PrimExpr, Ends] = {}

    def ends(self, expr: PrimExpr) -> Ends:
        if expr not in self._done:
            low, high = self._ends(expr)
            self._done[expr] = self._simplified(low), self._simplified(high)
        return self._done[expr]

    def _simplified(self, end: PrimExpr | None) -> PrimExpr | None:
        return None if end is None else self.analyzer.simplify(end)

    def _ends(self, expr: PrimExpr) -> Ends:
        if isinstance(expr, Var) and expr in self.domains:
            return self.domains[expr]
        if isinstance(expr, Ramp):
            zero, last = const(0, expr.stride.dtype), expr.stride * (expr.lanes - 1)
            steps = (minimum(zero, last), maximum(zero, last))
            return _sum(self.ends(expr.base), steps)
        if isinstance(expr, Broadcast):
            return self.ends(expr.value)
        if not expr.dtype.is_integer or expr.dtype.lanes != 1:
            return EVERYTHING
        if not any(var in self.domains for var in free_vars(expr)):
            return expr, expr
        if isinstance(expr, BinaryExpr):
            rule = _RULES.get(type(expr))
            return EVERYTHING if rule is None else rule(self, self.ends(expr.a), self.ends(expr.b))
        return self._other(expr)

    def _other(self, expr: PrimExpr) -> Ends:
        match expr:
            case Select():
                return _union(self.ends(expr.true_value), self.ends(expr.false_value))
            case Call() if expr.intrinsic == "if_then_else":
                return _union(self.ends(expr.args[1]), self.ends(expr.args[2]))
            case Let():
                return self.ends(substitute(expr.body, {expr.var: expr.value}))
            case Cast(dtype, value) if dtype.is_int and value.dtype.is_int and dtype.bits >= value.dtype.bits:
                low, high = self.ends(value)
                return low if low is None else low.astype(dtype), high if high is None else high.astype(dtype)
            case _:
                return EVERYTHING

    # ------------------------------------------------------------------------------------- operations

    def sum(self, a: Ends, b: Ends) -> Ends:
        return _sum(a, b)

    def difference(self, a: Ends, b: Ends) -> Ends:
        return _sum(a, _negated(b))

    def product(self, a: Ends, b: Ends) -> Ends:
        if _is_point(a):
            a, b = b, a
        low, high = a
        if not _is_point(b):
            return self._product_of_numbers(a, b)
        factor = b[0]
        assert factor is not None
        if self.analyzer.can_prove(factor >= 0):
            return _map(low, lambda x: x * factor), _map(high, lambda x: x * factor)
        if self.analyzer.can_prove(factor <= 0):
            return _map(high, lambda x: x * factor), _map(low, lambda x: x * factor)
        if low is None or high is None:
            return EVERYTHING
        x, y = low * factor, high * factor
        return minimum(x, y), maximum(x, y)

    def _product_of_numbers(self, a: Ends, b: Ends) -> Ends:
        values = [end.value for end in (*a, *b) if isinstance(end, IntImm)]
        if len(values) < 4:
            return EVERYTHING
        products = [x * y for x in values[:2] for y in values[2:]]
        assert a[0] is not None
        return const(min(products), a[0].dtype), const(max(products), a[0].dtype)

    def quotient(self, a: Ends, b: Ends) -> Ends:
        divisor, (low, high) = b[0], a
        if divisor is None:
            return EVERYTHING
        if not _is_point(b):
            return self._quotient_of_sets(a, divisor, b[1])
        if self.analyzer.can_prove(divisor > 0):
            return _map(low, lambda x: x // divisor), _map(high, lambda x: x // divisor)
        if self.analyzer.can_prove(divisor < 0):
            return _map(high, lambda x: x // divisor), _map(low, lambda x: x // divisor)
        return EVERYTHING

    def _quotient_of_sets(self, a: Ends, least: PrimExpr, greatest: PrimExpr | None) -> Ends:
        """Ends of quotients by a divisor interval: for each dividend, the divisor's ends give the extremes."""
        if greatest is None or not self.analyzer.can_prove(least > 0):
            return EVERYTHING
        low, high = a
        return (
            _map(low, lambda x: minimum(x // least, x // greatest)),
            _map(high, lambda x: maximum(x // least, x // greatest)),
        )

    def remainder(self, a: Ends, b: Ends) -> Ends:
        divisor = b[0]
        if divisor is None or not _is_point(b) or not self.analyzer.can_prove(divisor > 0):
            return EVERYTHING
        low, high = a
        one_turn = (
            low is not None and high is not None and self.analyzer.can_prove_equal(low // divisor, high // divisor)
        )
        if one_turn:
            return _map(low, lambda x: x % divisor), _map(high, lambda x: x % divisor)
        return const(0, divisor.dtype), divisor - 1

    def truncated_quotient(self, a: Ends, b: Ends) -> Ends:
        return self.quotient(a, b) if self._floors(a, b) else EVERYTHING

    def truncated_remainder(self, a: Ends, b: Ends) -> Ends:
        return self.remainder(a, b) if self._floors(a, b) else EVERYTHING

    def _floors(self, a: Ends, b: Ends) -> bool:
        """True if truncation equals floor: neither operand is negative."""
        prove = self.analyzer.can_prove
        return a[0] is not None and b[0] is not None and prove(a[0] >= 0) and prove(b[0] > 0)

    def least(self, a: Ends, b: Ends) -> Ends:
        return _both(minimum, a[0], b[0]), _either(minimum, a[1], b[1])

    def greatest(self, a: Ends, b: Ends) -> Ends:
        return _either(maximum, a[0], b[0]), _both(maximum, a[1], b[1])


_RULES: dict[type[BinaryExpr], Callable[[_Evaluation, Ends, Ends], Ends]] = {
    Add: _Evaluation.sum,
    Sub: _Evaluation.difference,
    Mul: _Evaluation.product,
    FloorDiv: _Evaluation.quotient,
    FloorMod: _Evaluation.remainder,
    Div: _Evaluation.truncated_quotient,
    Mod: _Evaluation.truncated_remainder,
    Min: _Evaluation.least,
    Max: _Evaluation.greatest,
}


def _is_point(ends: Ends) -> bool:
    low, high = ends
    if isinstance(low, IntImm) and isinstance(high, IntImm):
        return low.value == high.value
    return low is not None and low is high


def _map(end: PrimExpr | None, function: Callable[[PrimExpr], PrimExpr]) -> PrimExpr | None:
    return None if end is None else function(end)


def _both(function: Callable[..., PrimExpr], a: PrimExpr | None, b: PrimExpr | None) -> PrimExpr | None:
    return None if a is None or b is None else function(a, b)


def _either(function: Callable[..., PrimExpr], a: PrimExpr | None, b: PrimExpr | None) -> PrimExpr | None:
    return b if a is None else a if b is None else function(a, b)


def _negated(ends: Ends) -> Ends:
    return _map(ends[1], lambda x: -x), _map(ends[0], lambda x: -x)


def _sum(a: Ends, b: Ends) -> Ends:
    return _both(operator.add, a[0], b[0]), _both(operator.add, a[1], b[1])


def _union(a: Ends, b: Ends) -> Ends:
    return _both(minimum, a[0], b[0]), _both(maximum, a[1], b[1])


def union(a: Ends, b: Ends) -> Ends:
    """Smallest interval that contains two intervals."""
    return _union(a, b)
