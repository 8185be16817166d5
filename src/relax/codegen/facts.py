"""Facts at a point of the code: ranges of loop variables, and conditions that hold.

Most queries are answered by interval arithmetic; the prover handles the others (symbolic sizes). Both use machine
arithmetic: an expression that may overflow its type, int64 included, has the range of the type. Sizes are less than
2^48, and products of sizes that are the size of a buffer were checked (`Knowledge.size`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any, TypeVar

from ..ir import DataType, structural_equal
from ..prim import (
    EQ,
    GE,
    LE,
    LT,
    NE,
    Add,
    Analyzer,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Sub,
    Var,
    cast,
    is_const,
    same,
    simplify,
)
from ..prim.intervals import Bound, Interval, dtype_range, narrowed_by, operation_range, within
from ..runtime.limits import DIMENSION_LIMIT
from ..tir import Buffer
from ..tir.sizes import Limit, buffer_limits
from .fact_forms import Product, Terms, add_terms, compared_with_number, conjuncts, factors_of, reads_memory

INT64 = DataType("int64")

T = TypeVar("T")


class _Answers:
    """Cached answers under some facts, and, per further fact, a nested cache.

    Code written again under the same facts, such as each iteration of an unrolled loop, repeats no query.
    """

    def __init__(self) -> None:
        self.intervals: dict[PrimExpr, Interval] = {}
        """An expression may be shared by many others."""
        self.fits: dict[PrimExpr, bool] = {}
        self.in_bounds: dict[tuple[int, int], tuple[tuple[bool, bool], PrimExpr, PrimExpr]] = {}
        """By the identities of an index and of a size, which are there so that they stay alive."""
        self.others: dict[tuple[object, ...], tuple[tuple[object, ...], Any]] = {}
        """By the identities of what was asked about, which is there so that it stays alive."""
        self.unproven: dict[tuple[PrimExpr | int, frozenset[tuple[PrimExpr | None, int]]], int] = {}
        """The least number that, added to terms, is not known to stay below a size: by the size and the terms."""
        self._under: dict[tuple[object, ...], tuple[_Answers, tuple[object, ...]]] = {}

    def under(self, *facts: object) -> _Answers:
        """Cached answers under the current and further facts, which are identified as objects."""
        key = _identities(facts)
        if key not in self._under:
            self._under[key] = _Answers(), facts
        return self._under[key][0]


def _identities(parts: tuple[object, ...]) -> tuple[object, ...]:
    return tuple([part if isinstance(part, (bool, str)) else id(part) for part in parts])


class Knowledge:
    """Facts in scopes: those added in a `with` block are discarded at its end."""

    def __init__(self) -> None:
        self._ranges: dict[Var, Interval] = {}
        self._sizes: dict[Var, PrimExpr] = {}
        """Variables from 0 up to (not including) an expression: of loops, and their highest digits."""
        self._products: dict[Var, Product] = {}
        """Variables from 0 up to (not including) a product: quotients of loops' variables, their digits."""
        self._values: dict[Var, PrimExpr] = {}
        """The values that variables stand for."""
        self._assumed: list[PrimExpr | list[Limit]] = []
        """Conditions, and limits of sizes."""
        self._scopes: list[AbstractContextManager[Analyzer]] = []
        """The prover's scopes: one for each assumption it has been told, which are the first of `_assumed`."""
        self._narrowed: list[tuple[Var, Interval | None]] = []
        """The ranges of variables before conditions narrowed them, latest last."""
        self._quotients: list[tuple[FloorDiv, Interval]] = []
        """Quotients, such as sizes and numbers of blocks, that conditions compare with constants."""
        self._limits: list[tuple[Product, int]] = []
        """Products of factors that are at most a number and do not overflow if all factors are nonnegative."""
        self._answers = _Answers()
        """The answers under the present facts."""

    @cached_property
    def _prover(self) -> Analyzer:
        return Analyzer(wraps=True)

    def _set_range(self, var: Var, found: Interval | None) -> None:
        if found is None:
            self._ranges.pop(var, None)
        else:
            self._ranges[var] = found
        self._answers = _Answers()

    @contextmanager
    def _scope(self, conditions: Iterable[PrimExpr], within: _Answers) -> Generator[None]:
        """Context manager: `conditions` hold; `within` caches the answers under all facts of the scope."""
        count, narrowed = len(self._assumed), len(self._narrowed)
        quotients, limits = len(self._quotients), len(self._limits)
        for condition in conditions:
            self.assume(condition)
        self._answers = within
        yield
        while len(self._narrowed) > narrowed:
            self._set_range(*self._narrowed.pop())
        del self._assumed[count:], self._quotients[quotients:], self._limits[limits:]
        while len(self._scopes) > count:
            self._scopes.pop().__exit__(None, None, None)

    @contextmanager
    def loop(self, var: Var, start: PrimExpr, extent: PrimExpr) -> Generator[None]:
        """Context manager: the body of a loop, where `var` is in [start, start + extent)."""
        outside = self._answers
        (low, start_high), high = self.interval(start), self.interval(extent)[1]
        least, most = dtype_range(var.dtype)
        low, high = max(low, least), min(start_high + high - 1, most)
        self._set_range(var, (low, high))
        stable = not reads_memory(start) and not reads_memory(extent)
        if is_const(start, 0) and stable:
            self._sizes[var] = extent
        limits = [GE(var, IntImm(var.dtype, low)), LE(var, IntImm(var.dtype, high))] if low <= high else []
        runs = (GE(factor, IntImm(factor.dtype, 1)) for factor in self._factors(extent))
        # What is read from memory was read once; another load of the same place may give something else.
        inside = [GE(var, _like(start, var)), LT(var, _like(start, var) + _like(extent, var))] if stable else []
        if limits and inside and isinstance(start, IntImm):  # the same is said once
            del limits[0]
            if isinstance(extent, IntImm):
                del limits[0]
        with self._scope((*limits, *inside, *runs), outside.under("loop", var, start, extent)):
            yield
        self._set_range(var, None)
        self._sizes.pop(var, None)
        self._answers = outside

    def _factors(self, extent: PrimExpr) -> Iterator[PrimExpr]:
        """Expressions that are at least 1 inside a loop: its extent, or each size in the extent's product."""
        factors = list(factors_of(extent))
        # A product of which one factor is 0 is 0, also where it wraps around.
        if len(factors) > 1 and all(self._narrowed_interval(factor)[0] >= 0 for factor in factors):
            for factor in factors:
                if not isinstance(factor, IntImm) and not reads_memory(factor):
                    yield factor
                    yield from self._blocked(factor)
        elif isinstance(extent, Mul) and self.nonnegative(extent.a) and self.nonnegative(extent.b):
            yield from self._factors(extent.a)
            yield from self._factors(extent.b)
        elif not isinstance(extent, IntImm) and not reads_memory(extent):
            yield extent

    def _blocked(self, count: PrimExpr) -> Iterator[PrimExpr]:
        """Expressions that are at least 1 if a number of blocks is: of a product p, (p + 15) // 16 for blocks of 16."""
        match count:
            case FloorDiv(Add(whole, IntImm(_, rest)), IntImm(_, block)) if 0 <= rest < block:
                known = self._values.get(whole) if isinstance(whole, Var) else None
                if known is not None:
                    yield whole
                whole = whole if known is None else known
                if isinstance(whole, Mul):
                    yield from self._factors(whole)
            case _:
                pass

    @contextmanager
    def binding(self, var: Var, value: PrimExpr) -> Generator[None]:
        """Context manager: `var` stands for `value`."""
        outside = self._answers
        if not var.dtype.is_integer:  # it says nothing of integers: what was asked outside is known
            with self._scope((), outside):
                yield
            self._answers = outside
            return
        # A load's value was read once; another load of the same place may give something else.
        conditions = () if reads_memory(value) else (EQ(var, value),)
        low, high = self.interval(value)
        if var.nonnegative and low < 0 <= high:  # the prover knows it by itself
            low = 0
        elif conditions and low < 0 <= high and isinstance(value, Min) and self._is_number_of(value):
            low = 0
            conditions = (*conditions, GE(var, IntImm(var.dtype, 0)))
        self._set_range(var, (low, high))
        product = self._product_above(value)
        if product is not None:
            self._products[var] = product
            if product.number == 1 and len(product.factors) == 1:
                self._sizes[var] = product.factors[0]
        if conditions:
            self._values[var] = value
        with self._scope(conditions, outside.under("let", var, value)):
            yield
        self._set_range(var, None)
        self._sizes.pop(var, None)
        self._products.pop(var, None)
        self._values.pop(var, None)
        self._answers = outside

    def _product_above(self, value: PrimExpr) -> Product | None:
        """Exclusive bound of a digit of a loop variable: s of i // b // c for i < s * b * c, and b of i % b.

        Returns None for other expressions. The loop's product may wrap around: it is then less than the true one.
        """
        match value:
            case Var():
                known = self._products.get(value)
                size = self._sizes.get(value)
                return self._product(size) if known is None and size is not None else known
            case FloorMod(_, divisor) if self._is_divisor(divisor):
                return self._product(divisor)
            case FloorDiv(a, divisor) if self._is_divisor(divisor):
                whole, part = self._product_above(a), self._product(divisor)
                return None if whole is None or part is None else whole.divided_by(part)
            case _:
                return None

    def _limited(self, product: Mul) -> Interval | None:
        """Interval of a product that is a buffer's dimension or size by its factors, and so does not overflow."""
        own = self._product(product) if self._limits else None
        for limited, most in self._limits if own is not None else ():
            if own is not None and own.equals(limited):
                return 0, most
        return None

    def _narrowed_interval(self, expr: PrimExpr) -> Interval:
        """Interval of an expression; a quotient may be a size, or a number of blocks, at least 1 where a loop runs."""
        low, high = self.interval(expr)
        for quotient, (least, most) in self._quotients if low <= 0 and isinstance(expr, FloorDiv) else ():
            if quotient is expr or structural_equal(quotient, expr):
                low, high = max(low, least), min(high, most)
        return low, high

    def _is_divisor(self, expr: PrimExpr) -> bool:
        return self._narrowed_interval(expr)[0] >= 1 and self.fits(expr) and not reads_memory(expr)

    def _product(self, expr: PrimExpr) -> Product | None:
        """An expression as a product of nonnegative factors; None if a factor may be negative."""
        factors = list(factors_of(expr))
        return None if any(self._narrowed_interval(factor)[0] < 0 for factor in factors) else Product.of(factors)

    def _is_number_of(self, value: Min) -> bool:
        """True if a minimum is ≥ 0, which is typical of block sizes (minimum of the block and the remainder)."""
        return self.nonnegative(value.a) and self.nonnegative(value.b)

    @contextmanager
    def condition(self, condition: PrimExpr, holds: bool = True, stable: bool = False) -> Generator[None]:
        """Context manager: `condition` holds (or does not). Parts that read memory are used only if `stable`."""
        outside = self._answers
        parts = (part for part in conjuncts(condition, holds) if stable or not reads_memory(part))
        with self._scope(parts, outside.under("condition", condition, holds, stable)):
            yield
        self._answers = outside

    def size(self, size: PrimExpr) -> None:
        """For the rest of the scope: `size` is a dimension, checked to be ≥ 0 and less than 2^48."""
        most = min(dtype_range(size.dtype)[1], DIMENSION_LIMIT - 1)
        if isinstance(size, Var):
            self._set_range(size, (0, most))
        if not isinstance(size, IntImm):
            self.assume(GE(size, IntImm(size.dtype, 0)))
            self.assume(LE(size, IntImm(size.dtype, most)))

    def sizes(self, buffer: Buffer) -> None:
        """For the rest of the scope: the dimensions of `buffer` were checked (see `tir.sizes`)."""
        self._limit(buffer)
        for size in buffer.shape:
            self.size(size)

    def _limit(self, buffer: Buffer) -> None:
        limits = buffer_limits(buffer)
        if limits:
            self._assumed.append(limits)
            for expr, most in limits:
                product = Product.of(factors_of(expr))
                is_known = any(most >= known and product.equals(p) for p, known in self._limits)
                if product.number and product.factors and not is_known:
                    self._limits.append((product, most))
            self._answers = self._answers.under("limits", buffer)

    @contextmanager
    def allocated(self, buffer: Buffer) -> Generator[None]:
        """Context manager: `buffer` is allocated. Sizes read from memory are not assumed to stay the same."""
        outside = self._answers
        with self._scope((), outside):
            if not any(reads_memory(size) for size in buffer.shape):
                self._limit(buffer)
                for size in buffer.shape:
                    if not isinstance(size, (IntImm, Var)):
                        self.size(size)
            self._answers = outside.under("allocated", buffer)
            yield
        self._answers = outside

    def assume(self, condition: PrimExpr) -> None:
        """For the rest of the scope: `condition` holds (it was checked, or is guaranteed by callers)."""
        answers = self._answers.under("assumed", condition)
        self._assumed.append(condition)
        if isinstance(condition, (GE, LT)) and isinstance(condition.a, FloorDiv):
            self._bound(condition.a, compared_with_number(condition, condition.a))
        for var, (low, high) in narrowed_by(condition, self.interval):
            least, most = self.interval(var)
            if low > least or high < most:
                self._narrowed.append((var, self._ranges.get(var)))
                self._set_range(var, (max(low, least), min(high, most)))
        self._answers = answers

    def _bound(self, quotient: FloorDiv, bounds: Interval) -> None:
        """For the rest of the scope: a quotient is within bounds. Those that are no news are not kept."""
        least, most = self._narrowed_interval(quotient)
        if bounds[0] > least or bounds[1] < most:
            self._quotients.append((quotient, bounds))

    def _analyzer(self) -> Analyzer:
        """The prover with all assumptions; new ones are added on demand."""
        for assumed in self._assumed[len(self._scopes) :]:
            prover = self._prover
            is_condition = isinstance(assumed, PrimExpr)
            scope = prover.constraint_scope(assumed) if is_condition else prover.limits_scope(assumed)
            scope.__enter__()
            self._scopes.append(scope)
        return self._prover

    def in_bounds(self, index: PrimExpr, size: PrimExpr) -> tuple[bool, bool]:
        """Prove 0 ≤ index and index < size, separately. A size read from memory may have changed since."""
        key, answers = (id(index), id(size)), self._answers.in_bounds
        known = answers.get(key)
        if known is None:
            known = answers[key] = self._in_bounds(index, size), index, size
        return known[0]

    def answer(self, ask: Callable[[], T], *question: object) -> T:
        """Return `ask()`, cached per question and facts."""
        key, answers = _identities(question), self._answers.others
        if key not in answers:
            answers[key] = question, ask()
        result: T = answers[key][1]
        return result

    def evidently_in_bounds(self, index: PrimExpr, size: PrimExpr) -> tuple[bool, bool]:
        """Answer of `in_bounds` by interval arithmetic alone, without the prover."""
        low, high = self._compared(index, *self.interval(index))
        return low >= 0 and high < 2**63, high < self.interval(size)[0] or self._plainly_below(index, size)

    def _compared(self, expr: PrimExpr, low: Bound, high: Bound) -> Interval:
        """Interval of an expression, narrowed by conditions that compare it, or its non-constant part, with constants.

        Typical in the arms of a tree of choices: ``strip * 8 + i - 4`` where ``strip * 8 + i < 6``. Variables have been
        narrowed by conditions already.
        """
        base, offset = expr, 0
        if isinstance(expr, (Add, Sub)) and isinstance(expr.b, IntImm):
            base, offset = expr.a, expr.b.value if isinstance(expr, Add) else -expr.b.value
        if isinstance(base, (IntImm, Var)):
            return low, high
        least, most = self.interval(base)
        for assumed in self._assumed:
            if isinstance(assumed, PrimExpr):
                below, above = compared_with_number(assumed, base)
                least, most = max(least, below), min(most, above)
        found = least + offset, most + offset
        return (max(low, found[0]), min(high, found[1])) if within(found, expr.dtype) else (low, high)

    def _in_bounds(self, index: PrimExpr, size: PrimExpr) -> tuple[bool, bool]:
        above, below = self.evidently_in_bounds(index, size)
        # Compared in 64 bits, as where it is checked; an index that may wrap is then an unknown of its type's range.
        wide = cast(INT64, index)
        if not above:
            least = GE(wide, IntImm(INT64, 0))
            above = self._is_assumed(least) or self.holds(least)
        if not below and not reads_memory(size):
            most = LT(wide, cast(INT64, size))
            below = (
                self._is_assumed(LT(wide, simplify(most.b)))
                or self._follows_below(index, size)
                or self._proves_below(index, size, most)
            )
        return above, below

    def _plainly_below(self, index: PrimExpr, size: PrimExpr) -> bool:
        """True if index < size by form: a loop variable up to `size`, a minimum with one, or size minus a constant.

        Also an offset from a block's start, in a loop over the part of the block within `size`.
        """
        match index:
            case Var() if index in self._sizes and same(self._sizes[index], size):
                return True
            case Var() | FloorDiv():
                return self._is_within(self._product_above(index), size)
            case Min(a, b):
                return self._plainly_below(a, size) or self._plainly_below(b, size)
            case Sub(a, IntImm(_, value)):
                return value > 0 and same(a, size) and self.fits(index)
            case Add(begin, Var() as inner) if (
                inner in self._sizes and self.fits(index) and self._ends_within(begin, self._sizes[inner], size)
            ):
                return True
            case Add():
                return self._is_in_vector(index, size)
            case _:
                return False

    def _is_within(self, product: Product | None, size: PrimExpr) -> bool:
        """True if a product is at most `size`, judged by its factors."""
        if product is None or isinstance(size, IntImm) or not self.fits(size):
            return False
        limit = self._product(size)
        rest = None if limit is None else product.divided_by(Product(1, limit.factors))
        return limit is not None and rest is not None and not rest.factors and rest.number <= limit.number

    def _is_in_vector(self, index: Add, size: PrimExpr) -> bool:
        """True if an index lies in a whole vector of a block that ends within `size`.

        Example: begin + v * 16 + 15 where v < count // 16, if begin + count ≤ size according to `_ends_within`.
        """
        terms = add_terms(index, 1, {})
        number = terms.pop(None, 0)
        for var in [term for term in terms if isinstance(term, Var)]:
            match self._sizes.get(var):
                case FloorDiv(count, IntImm(_, lanes)) if terms[var] == lanes and 0 <= number < lanes:
                    begin = {term: factor for term, factor in terms.items() if term is not var}
                    if self._ends_within(begin, count, size):
                        return self.fits(index)
                case _:
                    pass
        return False

    def _ends_within(self, begin: PrimExpr | Terms, count: PrimExpr, size: PrimExpr) -> bool:
        """True if begin + count ≤ size by form: the count is size - begin or a minimum with it."""
        match count:
            case Var():
                return count in self._values and self._ends_within(begin, self._values[count], size)
            case Min(a, b):
                return self._ends_within(begin, a, size) or self._ends_within(begin, b, size)
            case Sub(a, b):
                is_begin = (
                    structural_equal(b, begin)
                    if isinstance(begin, PrimExpr)
                    else add_terms(b, 1, {}) == begin and self.fits(b)
                )
                return is_begin and (same(a, size) or structural_equal(a, size)) and self.fits(count)
            case _:
                return False

    def _is_assumed(self, condition: GE | LT) -> bool:
        """True if a condition is literally among the current assumptions: the prover is not needed."""
        return any(
            type(assumed) is type(condition) and structural_equal(assumed, condition)
            for assumed in reversed(self._assumed)
        )

    def _follows_below(self, index: PrimExpr, size: PrimExpr) -> bool:
        """True if index < size follows from one condition by intervals, such as x + y < n (y ≤ 31) from x + 31 < n."""
        if not self.fits(index):
            return False
        for assumed in reversed(self._assumed):
            if not isinstance(assumed, (LT, LE)) or not same(assumed.b, size):
                continue
            if not (assumed.a.dtype == index.dtype and index.dtype.is_integer and self.fits(assumed.a)):
                continue
            terms = add_terms(index, 1, {})
            add_terms(assumed.a, -1, terms)
            if self._highest(terms) <= (0 if isinstance(assumed, LT) else -1):
                return True
        return False

    def _proves_below(self, index: PrimExpr, size: PrimExpr, below: LT) -> bool:
        """True if the prover shows `below`. Skips x + 1 if x < size could not be proven before.

        Elements of unrolled loops differ by a constant, and failing proofs take longest.
        """
        terms = add_terms(index, 1, {})
        number = terms.pop(None, 0)
        question = _size_key(size), frozenset(terms.items())
        least = self._answers.unproven.get(question)
        if least is not None and least <= number:
            return False
        if self.holds(below):
            return True
        self._answers.unproven[question] = number
        return False

    def _highest(self, terms: Terms) -> Bound:
        """Upper bound of a sum, by the intervals of its terms."""
        total: Bound = terms.get(None, 0)
        for term, factor in terms.items():
            if term is not None and factor:
                total += factor * self.interval(term)[factor > 0]
        return total

    def nonzero(self, expr: PrimExpr) -> bool:
        """True if an integer cannot be 0."""
        low, high = self._narrowed_interval(expr)
        if low > 0 or high < 0:
            return True
        return not isinstance(expr, IntImm) and self.holds(NE(expr, IntImm(expr.dtype, 0)))

    def nonnegative(self, expr: PrimExpr) -> bool:
        """True if an integer is provably ≥ 0."""
        if self.interval(expr)[0] >= 0:
            return True
        if isinstance(expr, IntImm):
            return False
        return self.answer(lambda: self.holds(GE(expr, IntImm(expr.dtype, 0))), "nonnegative", expr)

    def holds(self, condition: PrimExpr) -> bool:
        """True if the prover shows the condition."""
        return self._analyzer().can_prove(condition)

    def fits(self, expr: PrimExpr) -> bool:
        """True if no operation in an integer expression wraps around, by interval arithmetic."""
        if not isinstance(expr, (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)):
            return True
        fits = self._answers.fits
        known = fits.get(expr)
        if known is None:
            known = self.fits(expr.a) and self.fits(expr.b)
            if isinstance(expr, (Add, Sub, Mul)):
                known = known and within(self.range(expr), expr.dtype)
            fits[expr] = known
        return known

    def interval(self, expr: PrimExpr) -> Interval:
        """Bounds (minimum, maximum) of an integer expression."""
        found = self.range(expr)
        if within(found, expr.dtype):
            return found
        limited = self.answer(lambda: self._limited(expr), "limited", expr) if isinstance(expr, Mul) else None
        return limited or dtype_range(expr.dtype)

    def range(self, expr: PrimExpr) -> Interval:
        """Bounds of an expression if its last operation does not wrap around."""
        if isinstance(expr, (IntImm, Var)):
            return self._interval(expr)
        intervals = self._answers.intervals
        known = intervals.get(expr)
        if known is None:
            known = intervals[expr] = self._interval(expr)
        return known

    def _interval(self, expr: PrimExpr) -> Interval:
        known = self._ranges.get(expr) if isinstance(expr, Var) else None
        if known is not None:
            return known
        if isinstance(expr, Mul) or (isinstance(expr, (FloorDiv, FloorMod)) and not isinstance(expr.b, IntImm)):
            return operation_range(expr, self._narrowed_interval)
        return operation_range(expr, self.interval)


def _size_key(size: PrimExpr) -> PrimExpr | int:
    return size.value if isinstance(size, IntImm) else size


def _like(bound: PrimExpr, var: Var) -> PrimExpr:
    return bound if bound.dtype == var.dtype else cast(var.dtype, bound)
