"""The normal form: an integer expression as a polynomial, by the laws in `rules`.

Remainders become quotients (x % y is x - y·(x // y)), minima become maxima, and the laws split quotients and maxima,
so that what is equal by integer arithmetic gets the same polynomial. Two readers use it: the prover
asks whether a difference vanishes, the simplifier writes it back where that is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast
from weakref import WeakValueDictionary

from ..ir import DataType, Node
from . import split
from .arithmetic import wrap
from .bounds import Bounds, Budget, Facts
from .evaluate import integer_value
from .expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    BinaryExpr,
    Call,
    Cast,
    CompareExpr,
    Div,
    FloatImm,
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
    StringImm,
    Sub,
    Var,
    fold_integers,
)
from .functor import sub_expressions, substitute
from .poly import (
    TOO_DEEP,
    TOO_LARGE,
    Atom,
    Factor,
    Monomial,
    Poly,
    add,
    constant,
    content,
    degree,
    ghosts,
    is_partial,
    multiply,
    reduced,
    scaled,
    times_monomial,
    value_of,
)
from .rules import EXACT, INTRINSICS, LAWS, Check, Rule
from .tables import Table, copied
from .terms import flatten, summands
from .traits import fails_itself, has_effects, may_fail

DIVISIONS = (FloorDiv, FloorMod, Div, Mod)


_EXCHANGED = (*DIVISIONS, Max, Min, Select)
"""Kinds of atoms whose operands `Normalizer.exchanger` replaces."""


class _Inexact(Exception):
    """An operand of a rule's right side may wrap around, or becomes too large."""


class Overgrown(Exception):
    """A polynomial would exceed the maximum number of terms."""


class Quantity:
    """An expression in a side condition: its comparisons mean "provably, for every value"."""

    __slots__ = ("bounds", "poly")

    def __init__(self, bounds: Bounds, poly: Poly) -> None:
        self.bounds = bounds
        self.poly = poly

    def __ge__(self, other: Any) -> bool:
        return self.bounds.lower(add(self.poly, _poly(other), -1), 0) >= 0

    def __le__(self, other: Any) -> bool:
        return self.bounds.upper(add(self.poly, _poly(other), -1), enough=0) <= 0

    def __lt__(self, other: Any) -> bool:
        return self.bounds.upper(add(self.poly, _poly(other), -1), enough=-1) < 0

    def __ne__(self, other: Any) -> bool:
        return self.bounds.is_nonzero(add(self.poly, _poly(other), -1))


def _poly(value: Any) -> Poly:
    return value.poly if isinstance(value, Quantity) else constant(int(value))


class Normalizer:
    """Normal forms under some facts. With `assume_defined`, for proofs only, failures need not be preserved."""

    def __init__(
        self, facts: Facts, assume_defined: bool = False, budget: Budget | None = None, outer: Normalizer | None = None
    ) -> None:
        self.facts = facts
        self.rank: Table[Factor, int] = {} if outer is None else copied(outer.rank)
        """Factors in order of first occurrence."""
        self.bounds = Bounds(facts, self.rank, budget)
        self.assume_defined = assume_defined
        self._ideal = assume_defined and facts.wraps
        """True if what follows from exact operations may be written with such as do not fit: in proofs."""
        self._atoms: Table[Any, Atom] = {} if outer is None else copied(outer._atoms)
        self._done: dict[int, tuple[PrimExpr, Poly]] = {}
        self._keys: dict[int, tuple[PrimExpr, _Key]] = {}
        for expr, most in facts.limits if outer is None else ():
            self.bounds.limit(self.normal(expr), most)

    # ------------------------------------------------------------------------------------- expressions

    def normal(self, expr: PrimExpr) -> Poly:
        """The polynomial of an integer expression."""
        kind = type(expr)
        if kind is IntImm:
            return constant(expr.value)  # type: ignore[attr-defined]
        if kind is Var:
            return self._variable(cast(Var, expr))
        known = self._done.get(id(expr))
        if known is None:
            known = self._done[id(expr)] = (expr, self._kept(self._HANDLERS.get(kind, Normalizer._opaque)(self, expr)))
        return known[1]

    def _kept(self, p: Poly) -> Poly:
        """Drop terms that only represent failures, if failures need not be preserved."""
        if self.assume_defined and 0 in p.values():
            return {m: c for m, c in p.items() if c}
        return p

    def _variable(self, var: Var) -> Poly:
        value = self.facts.values.get(var)
        if value is not None:
            return self.normal(value)
        solved = self.facts.solved.get(var)
        if solved is not None:
            return solved
        self.rank.setdefault(var, len(self.rank))
        return {(var,): 1}

    def _sum(self, expr: PrimExpr) -> Poly:
        result: Poly = {}
        for part, times in summands(expr):
            for monomial, coefficient in self.normal(part).items():
                total = result.get(monomial, 0) + times * coefficient
                if total or is_partial(monomial):
                    result[monomial] = total
                else:
                    result.pop(monomial, None)
        return reduced(result, expr.dtype)

    def _product(self, expr: PrimExpr) -> Poly:
        assert isinstance(expr, Mul)
        left, right = self.normal(expr.a), self.normal(expr.b)
        if len(left) * len(right) > TOO_LARGE or degree(left) + degree(right) > TOO_DEEP:
            return self._unit(self._atom(Mul, (left, right), expr.dtype, expr))
        return reduced(multiply(left, right), expr.dtype)

    def _operation(self, expr: PrimExpr) -> Poly:
        assert isinstance(expr, BinaryExpr)
        if isinstance(expr, (Min, Max)):
            operands = flatten(expr, type(expr))
            if len(operands) != 2:
                return self._extremum(type(expr), [self.normal(part) for part in operands], expr.dtype, expr)
        return self.operate(type(expr), self.normal(expr.a), self.normal(expr.b), expr.dtype, expr)

    def _cast(self, expr: PrimExpr) -> Poly:
        """Normalise a cast: if it preserves every value, it moves to the variables.

        The cast of a constant is a constant; any other cast is opaque.
        """
        assert isinstance(expr, Cast)
        source, target = expr.value.dtype, expr.dtype
        if isinstance(expr.value, FloatImm) and target.is_integer and target.lanes == 1:
            value = integer_value(expr)
            return self._opaque(expr) if value is None else constant(value)
        if not source.is_integer or source.lanes != 1:
            return self._opaque(expr)
        inner = self.normal(expr.value)
        value = value_of(inner)
        if value is not None and target.is_integer:
            return constant(wrap(wrap(value, source), target))
        if not (self.bounds.fits(inner, source) and self._representable(inner, target)):
            return self._opaque(expr)
        result: Poly = {}
        for monomial, coefficient in inner.items():
            term: Poly = {(): coefficient}
            for factor in monomial:
                term = multiply(term, self._converted(factor, target))
            result = add(result, term)
        return result

    def _representable(self, p: Poly, target: DataType) -> bool:
        low, high = target.min_value, target.max_value
        return self.bounds.lower(p, low) >= low and self.bounds.upper(p, enough=high) <= high

    def _converted(self, factor: Factor, target: DataType) -> Poly:
        """A factor in another dtype. Conversion respects sums and products, modulo the width."""
        if factor.dtype == target:
            return {(factor,): 1}
        if isinstance(factor, Atom) and factor.kind == "cast" and self._representable(factor.args[0], factor.dtype):
            ((monomial, _),) = factor.args[0].items()
            return self._converted(monomial[0], target)
        return self._unit(self._atom("cast", ({(factor,): 1},), target, None))

    def _choice(self, expr: PrimExpr) -> Poly:
        condition, first, second = sub_expressions(expr)
        known = condition.value if isinstance(condition, IntImm) else self.facts.truths.get(self.key(condition))
        if known is not None:
            return self.normal(first if known else second)
        arms = self.normal(first), self.normal(second)
        if arms[0] == arms[1] and not self.may_fail(condition):
            return arms[0]
        return self._unit(self._atom(Select, arms, expr.dtype, expr, self.key(condition)))

    def _call(self, expr: PrimExpr) -> Poly:
        assert isinstance(expr, Call)
        name, args = expr.intrinsic, expr.args
        if name == "if_then_else":
            return self._choice(expr)
        for law in INTRINSICS.get(name, ()):
            polys = [self.normal(arg) for arg in args]
            fits = all(self.bounds.fits(poly, expr.dtype) for poly in polys)
            result = self._apply(law, polys[0], polys[-1], expr.dtype, fits)
            if result is not None:
                return reduced(result, expr.dtype)
        value = self._constant_call(expr)
        if value is not None:
            return constant(value)
        counts = name in ("popcount", "clz") and expr.dtype.max_value >= 2  # an int2 does not hold its two bits
        return self._opaque(expr, "count" if counts else None)

    def _constant_call(self, expr: Call) -> int | None:
        """The value of an intrinsic of integers whose arguments have constant normal forms; None for other calls."""
        integers = all(arg.dtype.is_integer and arg.dtype.lanes == 1 for arg in expr.args)
        if not (expr.args and integers and expr.dtype.is_integer) or has_effects(expr):
            return None
        args: list[PrimExpr] = []
        for arg in expr.args:
            number = value_of(self.normal(arg))
            if number is None:
                return None
            args.append(IntImm(arg.dtype, wrap(number, arg.dtype)))
        return integer_value(expr.replace(args=tuple(args)))

    def _let(self, expr: PrimExpr) -> Poly:
        assert isinstance(expr, Let)
        if not self.assume_defined and may_fail(expr.value):
            return self._opaque(expr)
        return self.normal(substitute(expr.body, {expr.var: expr.value}))

    def _opaque(self, expr: PrimExpr, kind: Any = None) -> Poly:
        key = ("opaque", self.key(expr, opaque=True))
        atom = self._atoms.get(key)
        if atom is None:
            bool_cast = isinstance(expr, Cast) and expr.value.dtype.is_bool
            kind = "bool" if bool_cast or expr.dtype.is_bool else kind or type(expr).__name__
            atom = self._atoms[key] = Atom(kind, (), expr.dtype, expr, self._fails(expr), False)
            self.rank[atom] = len(self.rank)
        return self._unit(atom)

    _HANDLERS: ClassVar[dict[type[PrimExpr], Callable[[Normalizer, Any], Poly]]] = {
        Add: _sum,
        Sub: _sum,
        Mul: _product,
        **dict.fromkeys((FloorDiv, FloorMod, Div, Mod, Min, Max), _operation),
        Cast: _cast,
        Select: _choice,
        Call: _call,
        Let: _let,
    }

    # --------------------------------------------------------------------------------------- operations

    def operate(
        self,
        kind: type[BinaryExpr],
        left: Poly,
        right: Poly,
        dtype: DataType,
        node: PrimExpr | None = None,
        ideal: bool = False,
    ) -> Poly:
        """The polynomial of an operation on two polynomials; if `ideal`, of the operation on unbounded integers."""
        left, right = self._kept(left), self._kept(right)
        a, b = value_of(left), value_of(right)
        if a is not None and b is not None:
            value = fold_integers(kind, a, b)
            if value is not None:
                return constant(value if ideal else wrap(value, dtype))
        fits = ideal or (self.bounds.fits(left, dtype) and self.bounds.fits(right, dtype))
        for law in LAWS[kind]:
            result = self._apply(law, left, right, dtype, fits, ideal)
            if result is not None:
                if kind is FloorMod and fits and b is None and self.facts.wraps:
                    self._remember_remainder(result, right)
                return self._kept(result if ideal else reduced(result, dtype))
        return self._unit(self._atom(kind, (left, right), dtype, node, ideal=ideal))

    def _remember_remainder(self, remainder: Poly, divisor: Poly) -> None:
        """Note that 0 ≤ x % y < y, which x - y·(x // y) does not show."""
        new = len(remainder) > 1 and remainder not in self.bounds.remainders
        if new and self.bounds.lower(divisor, 1) >= 1:  # by 0 there is no remainder
            self.bounds.remember_remainder(remainder, divisor)

    def _apply(
        self, law: Rule, left: Poly, right: Poly, dtype: DataType, fits: bool, ideal: bool = False
    ) -> Poly | None:
        exact = law.holds is EXACT
        if exact and not fits:
            return None
        ideal = ideal or (exact and self._ideal)
        for values in law.find(self.bounds, left, right):
            if self._passes(law.when, values, dtype) and (
                self.assume_defined or self._passes(law.defined, values, dtype)
            ):
                try:
                    result = self._build(law.right, values, dtype, exact, ideal)
                except _Inexact:
                    continue
                for name in law.dropped:
                    result = add(result, ghosts(cast("Poly", values[name])))
                return result
        return None

    def _passes(self, check: Check | None, values: split.Values, dtype: DataType) -> bool:
        if check is None:
            return True
        given = (dtype.bits if name == "bits" else values[name] for name in check.names)
        return check.holds(*(v if isinstance(v, int) else Quantity(self.bounds, v) for v in given))

    def _build(self, pattern: PrimExpr, values: split.Values, dtype: DataType, exact: bool, ideal: bool) -> Poly:
        """A rule's right side with its names replaced by polynomials."""
        if isinstance(pattern, IntImm):
            return constant(pattern.value)
        if isinstance(pattern, Var):
            value = values[pattern.name]
            return constant(value) if isinstance(value, int) else value
        left, right = (self._build(part, values, dtype, exact, ideal) for part in sub_expressions(pattern))
        if isinstance(pattern, Call):  # shift_left of two constants
            return constant(cast(int, value_of(left)) << cast(int, value_of(right)))
        if isinstance(pattern, (Add, Sub)):
            return add(left, right, 1 if isinstance(pattern, Add) else -1)
        if isinstance(pattern, Mul):
            if len(left) * len(right) > TOO_LARGE or degree(left) + degree(right) > TOO_DEEP:
                raise _Inexact
            return multiply(left, right)
        if exact and not (ideal or (self.bounds.fits(left, dtype) and self.bounds.fits(right, dtype))):
            raise _Inexact
        return self.operate(cast("type[BinaryExpr]", type(pattern)), left, right, dtype, ideal=ideal)

    def _extremum(
        self, kind: type[Min] | type[Max], operands: list[Poly], dtype: DataType, node: PrimExpr | None = None
    ) -> Poly:
        """The maximum (or minimum) of more than two; `node` is what it is if arithmetic on them may wrap around."""
        sign = 1 if kind is Max else -1
        given, operands = operands, [scaled(operand, sign) for operand in operands]
        if node is not None and not all(self.bounds.fits(p, dtype) for p in (*given, *operands)):
            return self._opaque(node)
        kept: list[Poly] = []
        lost: Poly = {}
        for i, operand in enumerate(operands):
            others = kept + operands[i + 1 :]
            if any(self.bounds.upper(add(operand, other, -1), enough=0) <= 0 for other in others):
                lost = add(lost, ghosts(operand))
            else:
                kept.append(operand)
        shared = {m: c for m, c in kept[0].items() if m and all(other.get(m) == c for other in kept)}
        shared.update(constant(min(operand.get((), 0) for operand in kept)))
        lowered = [add(operand, shared, -1) for operand in kept]
        if all(self.bounds.fits(operand, dtype) for operand in lowered):
            kept = lowered
        else:
            shared = {}
        if len(kept) == 1:
            result = add(kept[0], shared)
        elif len(kept) == 2:
            both = self.operate(kind, scaled(kept[0], sign), scaled(kept[1], sign), dtype)
            result = add(scaled(both, sign), shared)
        else:
            result = add(self._unit(self._atom(Max, tuple(kept), dtype, None)), shared)
        return add(scaled(result, sign), lost)

    # --------------------------------------------------------------------------------------- exchanging

    def exchanger(self, images: Mapping[Factor, Poly]) -> Callable[[Poly], Poly]:
        """Return a function that replaces factors of polynomials by polynomials of the same value, wherever they stand.

        What stands in an opaque atom (a load, a conversion) stays; its value is the same. An atom that several
        polynomials share is replaced once, and they share it afterwards, too. The function raises Overgrown if the
        result has more terms than are worked with.
        """
        done: dict[Factor, Poly] = dict(images)
        return lambda p: self._exchanged(p, done)

    def _exchanged(self, p: Poly, done: dict[Factor, Poly]) -> Poly:
        if all(self._image(factor, done) is None for monomial in p for factor in monomial):
            return p
        result: Poly = {}
        for monomial, coefficient in p.items():
            term: Poly = {(): coefficient}
            for factor in monomial:
                image = self._image(factor, done)
                if image is not None and len(term) * len(image) > TOO_LARGE:
                    raise Overgrown
                term = times_monomial(term, (factor,)) if image is None else multiply(term, image)
            result = add(result, term)
        return self._kept(result)

    def _image(self, factor: Factor, done: dict[Factor, Poly]) -> Poly | None:
        """The replacement of a factor; None if it stays."""
        known = done.get(factor)
        if known is None and isinstance(factor, Atom) and factor.kind in _EXCHANGED and factor.exact:
            args = tuple(self._exchanged(arg, done) for arg in factor.args)
            changed = any(new is not old for new, old in zip(args, factor.args, strict=True))
            known = done[factor] = self._with_args(factor, args) if changed else self._unit(factor)
        return None if known is None or (len(known) == 1 and known.get((factor,)) == 1) else known

    def _with_args(self, atom: Atom, args: tuple[Poly, ...]) -> Poly:
        if atom.kind is Select:
            same = all(arg == args[0] for arg in args)
            return args[0] if same else self._unit(self._choice_atom(atom, args))
        if len(args) == 2:
            return self.operate(atom.kind, args[0], args[1], atom.dtype, ideal=self._ideal)
        return self._extremum(Max, list(args), atom.dtype)

    def _choice_atom(self, atom: Atom, args: tuple[Poly, ...]) -> Atom:
        """The choice between other values by the same condition."""
        return self._atom(Select, args, atom.dtype, None, ("like", id(atom)))

    def is_plain(self, expr: PrimExpr) -> bool:
        """True if an integer expression is a polynomial over variables, quotients, maxima and casts only."""
        return all(
            type(factor) is Var or (type(factor) is Atom and factor.kind in (FloorDiv, Max, "cast"))
            for monomial in self.normal(expr)
            for factor in monomial
        )

    # -------------------------------------------------------------------------------------------- atoms

    def _unit(self, atom: Atom) -> Poly:
        return {(atom,): 1}

    def _atom(
        self,
        kind: Any,
        args: tuple[Poly, ...],
        dtype: DataType,
        node: PrimExpr | None,
        extra: Any = None,
        ideal: bool = False,
    ) -> Atom:
        keys: Any = tuple(frozenset(arg.items()) for arg in args)
        fits = not ideal or all(self.bounds.fits(arg, dtype) for arg in args)
        key = (kind, dtype, extra, fits, frozenset(keys) if kind in (Max, Mul) else keys)
        atom = self._atoms.get(key)
        if atom is None:
            exact = ideal or kind == "cast" or all(self.bounds.fits(arg, dtype) for arg in args)
            partial = any(is_partial(m) for arg in args for m in arg)
            if kind in DIVISIONS:
                partial = partial or not (self.bounds.is_nonzero(args[1]) and self.bounds.fits(args[1], dtype))
            elif kind is Select:
                partial = node is None or self._fails(node)
            atom = Atom(kind, args, dtype, node, partial, exact, not fits)
            self._atoms[key] = atom
            self.rank[atom] = len(self.rank)
        elif atom.node is None:
            atom.node = node
        return atom

    def may_fail(self, expr: PrimExpr) -> bool:
        """True unless the facts show that the evaluation of an expression cannot fail."""
        return not self.assume_defined and self._fails(expr)

    def _fails(self, expr: PrimExpr) -> bool:
        if not may_fail(expr):
            return False
        if isinstance(expr, DIVISIONS) and expr.dtype.is_integer and expr.dtype.lanes == 1:
            divisor = self.normal(expr.b)
            nonzero = self.bounds.is_nonzero(divisor) and self.bounds.fits(divisor, expr.dtype)
            fails = not nonzero
        else:
            fails = fails_itself(expr)
        return fails or any(self._fails(part) for part in sub_expressions(expr))

    def under(self, facts: Facts, budget: Budget | None = None) -> Normalizer:
        """A normalizer with more facts, and perhaps limits, whose atoms are the same objects as this one's."""
        inner = Normalizer(facts, self.assume_defined, self.bounds.budget if budget is None else budget, self)
        inner.bounds.limits.update(self.bounds.limits)
        inner.bounds.remainders += self.bounds.remainders
        for expr, most in facts.limits[len(self.facts.limits) :]:
            inner.bounds.limit(inner.normal(expr), most)
        return inner

    # --------------------------------------------------------------------------------------------- keys

    def key(self, expr: PrimExpr, opaque: bool = False) -> Any:
        """Hashable key of an expression; equal keys imply equal values. `opaque`: key of the node, not of its form."""
        if has_effects(expr):
            return ("once", object())
        if isinstance(expr, Var):
            value = self.facts.values.get(expr)
            return expr if value is None else self.key(value)
        if isinstance(expr, FloatImm):
            return (expr.dtype, expr.value.hex())
        if isinstance(expr, StringImm):
            return expr.value
        if not opaque and expr.dtype.is_integer and expr.dtype.lanes == 1:
            return (expr.dtype, frozenset(self.normal(expr).items()))
        if isinstance(expr, CompareExpr) and expr.a.dtype.is_integer and expr.a.dtype.lanes == 1:
            return self.comparison_key(expr)
        known = self._keys.get(id(expr))
        if known is None:
            parts = (self._part_key(expr, f.name, f.kind) for f in expr.__node_fields__)
            known = self._keys[id(expr)] = (expr, _interned((type(expr), expr.dtype, *parts)))
        return known[1]

    def _part_key(self, expr: PrimExpr, name: str, kind: str) -> Any:
        value = getattr(expr, name)
        return ("once", id(value)) if kind == "binder" else self._value_key(value)

    def _value_key(self, value: Any) -> Any:
        if isinstance(value, PrimExpr):
            return self.key(value)
        if isinstance(value, tuple):
            return tuple(self._value_key(item) for item in cast("tuple[Any, ...]", value))
        return value if isinstance(value, (Node, str, int, float, type(None))) else ("once", id(value))

    def comparison_key(self, expr: CompareExpr) -> Any:
        """Like `key`, equal for comparisons that are equivalent as conditions on a difference."""
        kind, a, b = type(expr), expr.a, expr.b
        left, right = self.normal(a), self.normal(b)
        if kind in (GT, GE):
            kind, left, right = (LT if kind is GT else LE), right, left
        if kind in (EQ, NE):
            difference = add(left, right, -1)
            return (kind, a.dtype, frozenset((_frozen(difference), _frozen(scaled(difference, -1)))))
        if self.bounds.fits(left, a.dtype) and self.bounds.fits(right, a.dtype):
            return (LE, _frozen(at_most_zero(add(left, right, -1), kind is LT)))
        return (kind, a.dtype, _frozen(left), _frozen(right))


class _Key:
    """The key of a composite: one object for all that are equal, however deep, so that to compare takes no time."""

    __slots__ = ("__weakref__",)


_INTERNED: WeakValueDictionary[Any, _Key] = WeakValueDictionary()


def _interned(parts: Any) -> _Key:
    return _INTERNED.setdefault(parts, _Key())


def _frozen(p: Poly) -> frozenset[tuple[Monomial, int]]:
    return frozenset(p.items())


def at_most_zero(p: Poly, strict: bool) -> Poly:
    """The least q with q ≤ 0 exactly where p ≤ 0 (or p < 0): integers let the constant be rounded."""
    if strict:
        p = add(p, {(): 1})
    divisor = content(p)
    if divisor < 2:
        return p
    result = {m: c // divisor for m, c in p.items() if m}
    return result | constant(-(-p.get((), 0) // divisor))
