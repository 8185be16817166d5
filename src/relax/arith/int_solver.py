"""Systems of linear equations and inequalities over the integers.

Equations are solved exactly: elementary operations on rows and columns bring the matrix to Smith normal form, and the
column operations express the old variables in terms of new ones. Inequalities are solved by Fourier-Motzkin
elimination: each variable gets a range in terms of the following ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..prim import EQ, GE, GT, LE, LT, Analyzer, IntImm, PrimExpr, Var, const, convert, free_vars, substitute
from ..prim.iter_sizes import Sizes
from ..prim.learn import conjuncts
from ..runtime.records import dataclass
from ..tir import Range
from .pattern import linear_terms

FALSE = IntImm("bool", 0)

Matrix: TypeAlias = "list[list[int]]"

MOST = 1000
"""Maximum number of inequalities; elimination raises ValueError beyond it."""


@dataclass(frozen=True, slots=True)
class IntConstraints:
    """Integer variables, optional ranges for them, and relations between them."""

    variables: tuple[Var, ...]
    ranges: dict[Var, Range]
    relations: tuple[PrimExpr, ...]


@dataclass(frozen=True, slots=True)
class IntConstraintsTransform:
    """Two equivalent systems, and the variables of each in terms of the other's."""

    src: IntConstraints
    dst: IntConstraints
    src_to_dst: dict[Var, PrimExpr]
    """Variables of `src` in terms of those of `dst`."""
    dst_to_src: dict[Var, PrimExpr]
    """Variables of `dst` in terms of those of `src`."""


def _variables(conditions: Sequence[PrimExpr], variables: Sequence[Var] | None) -> tuple[Var, ...]:
    if variables is not None:
        return tuple(variables)
    return tuple(dict.fromkeys(var for condition in conditions for var in free_vars(condition)))


# --------------------------------------------------------------------------------------------- equations


def solve_linear_equations(
    equations: Any, variables: Sequence[Var] | None = None, ranges: Mapping[Var, Range] | None = None
) -> IntConstraintsTransform:
    """Solve linear equations in terms of as few new variables as possible.

        solve_linear_equations([EQ(x + y, 20), EQ(x - y, 10)], [x, y])        x: 15, y: 5, no new variable
        solve_linear_equations([EQ(x + y, 0)], [x, y])                        x: n0, y: -n0, or the reverse

    `variables` default to all that occur; other variables are symbols. Relations of `dst` are conditions on symbols,
    and the remaining constraints of `ranges`; without a solution, `dst` has no variables and the relation False. Raises
    ValueError for an equation that is not linear with constant coefficients.
    """
    conditions = _conditions(equations)
    names = _variables(conditions, variables)
    given = dict(ranges or {})
    src = IntConstraints(names, given, tuple(conditions))
    matrix, right = _system(conditions, names)
    analyzer = Analyzer()
    smith = _Smith(matrix, len(names))
    values, relations = _diagonal(smith, right, analyzer)
    if any(relation is FALSE for relation in relations):
        return IntConstraintsTransform(src, IntConstraints((), {}, (FALSE,)), {}, {})
    dtype = names[0].dtype if names else "int32"
    fresh = [Var(f"n{k}", dtype) for k in range(len(names) - len(values))]
    solution = [*values, *fresh]
    src_to_dst = {
        var: analyzer.simplify(_combination(row, solution, dtype))
        for var, row in zip(names, smith.columns, strict=True)
    }
    dst_to_src = {
        var: analyzer.simplify(_combination(row, names, dtype))
        for var, row in zip(fresh, smith.inverse[len(values) :], strict=True)
    }
    new_ranges, remaining = _moved_ranges(given, src_to_dst, fresh, analyzer)
    if any(relation is FALSE for relation in remaining):
        return IntConstraintsTransform(src, IntConstraints((), {}, (FALSE,)), {}, {})
    dst = IntConstraints(tuple(fresh), new_ranges, (*relations, *remaining))
    return IntConstraintsTransform(src, dst, src_to_dst, dst_to_src)


def _conditions(equations: Any) -> list[PrimExpr]:
    items = [convert(e) for e in (equations if isinstance(equations, (list, tuple)) else [equations])]  # type: ignore[reportUnknownVariableType]
    return [conjunct if truth else ~conjunct for item in items for conjunct, truth in conjuncts(item)]


def _system(conditions: Sequence[PrimExpr], variables: Sequence[Var]) -> tuple[Matrix, list[PrimExpr]]:
    """Matrix and right-hand sides of equations."""
    matrix: Matrix = []
    right: list[PrimExpr] = []
    for condition in conditions:
        if not isinstance(condition, EQ):
            raise ValueError(f"solve_linear_equations: {condition} is no equation")
        row = _row(condition.a - condition.b, variables)
        if row is None:
            raise ValueError(
                f"solve_linear_equations: {condition} is not linear with constant coefficients in its variables"
            )
        matrix.append(row[0])
        right.append(-row[1])
    return matrix, right


def _row(expr: PrimExpr, variables: Sequence[Var]) -> tuple[list[int], PrimExpr] | None:
    """Constant coefficients of the variables, and the base."""
    terms = linear_terms(expr, set(variables))
    if terms is None:
        return None
    analyzer, coefficients = Analyzer(), list[int]()
    for var in variables:
        coefficient = analyzer.simplify(terms[0].get(var, const(0, expr.dtype)))
        if not isinstance(coefficient, IntImm):
            return None
        coefficients.append(coefficient.value)
    return coefficients, terms[1]


class _Smith:
    """Smith normal form: rows · matrix · columns is diagonal, `inverse` is that of `columns`; all over the integers."""

    def __init__(self, matrix: Matrix, width: int) -> None:
        self.matrix = [list(row) for row in matrix]
        self.rows = _identity(len(matrix))
        self.columns = _identity(width)
        self.inverse = _identity(width)
        self.rank = 0
        while self.rank < min(len(matrix), width) and self._pivot(self.rank):
            self._clear(self.rank)
            self.rank += 1

    def _pivot(self, k: int) -> bool:
        """Move the smallest remaining entry to the diagonal index k; False if only zeros remain."""
        entries = [
            (abs(entry), i, j)
            for i, row in enumerate(self.matrix[k:], k)
            for j, entry in enumerate(row[k:], k)
            if entry
        ]
        if not entries:
            return False
        _, i, j = min(entries)
        for table in (self.matrix, self.rows):
            table[k], table[i] = table[i], table[k]
        if j != k:
            for row in (*self.matrix, *self.columns):
                row[k], row[j] = row[j], row[k]
            self.inverse[k], self.inverse[j] = self.inverse[j], self.inverse[k]
        return True

    def _clear(self, k: int) -> None:
        """Reduce row k and column k to zeros beside the pivot; each smaller remainder becomes the next pivot."""
        while True:
            pivot = self.matrix[k][k]
            for i in range(k + 1, len(self.matrix)):
                self._subtract_row(i, k, self.matrix[i][k] // pivot)
            for j in range(k + 1, len(self.columns)):
                self._subtract_column(j, k, self.matrix[k][j] // pivot)
            column = any(self.matrix[i][k] for i in range(k + 1, len(self.matrix)))
            if not column and not any(self.matrix[k][k + 1 :]):
                return
            self._pivot_line(k)

    def _pivot_line(self, k: int) -> None:
        """Move the smallest entry of row k and column k to the diagonal index k."""
        rows = [(abs(self.matrix[i][k]), i, k) for i in range(k, len(self.matrix)) if self.matrix[i][k]]
        columns = [(abs(self.matrix[k][j]), k, j) for j in range(k, len(self.columns)) if self.matrix[k][j]]
        _, i, j = min(rows + columns)
        for table in (self.matrix, self.rows):
            table[k], table[i] = table[i], table[k]
        for row in (*self.matrix, *self.columns):
            row[k], row[j] = row[j], row[k]
        self.inverse[k], self.inverse[j] = self.inverse[j], self.inverse[k]

    def _subtract_row(self, target: int, source: int, times: int) -> None:
        for table in (self.matrix, self.rows):
            table[target] = [a - times * b for a, b in zip(table[target], table[source], strict=True)]

    def _subtract_column(self, target: int, source: int, times: int) -> None:
        for row in (*self.matrix, *self.columns):
            row[target] -= times * row[source]
        inverse = self.inverse
        inverse[source] = [a + times * b for a, b in zip(inverse[source], inverse[target], strict=True)]


def _identity(size: int) -> Matrix:
    return [[int(i == j) for j in range(size)] for i in range(size)]


def _diagonal(smith: _Smith, right: Sequence[PrimExpr], analyzer: Analyzer) -> tuple[list[PrimExpr], list[PrimExpr]]:
    """Values of the diagonal system, and the conditions under which they are integers and exist."""
    values: list[PrimExpr] = []
    relations: list[PrimExpr] = []
    for k, row in enumerate(smith.rows):
        dtype = right[0].dtype
        total = analyzer.simplify(_combination(row, right, dtype))
        condition = EQ(total, const(0, dtype))
        if k < smith.rank:
            entry = smith.matrix[k][k]
            if entry < 0:
                entry, total = -entry, analyzer.simplify(-total)
            values.append(total if entry == 1 else analyzer.simplify(total // entry))
            condition = EQ(total % entry, const(0, dtype))
        if not analyzer.can_prove(condition):
            relations.append(FALSE if analyzer.prove(condition) is False else analyzer.simplify(condition))
    return values, relations


def _combination(factors: Sequence[int], values: Sequence[PrimExpr], dtype: str) -> PrimExpr:
    """Sum of values times factors."""
    total: PrimExpr = const(0, dtype)
    for factor, value in zip(factors, values, strict=True):
        if factor:
            total = total + value * factor
    return total


def _moved_ranges(
    ranges: Mapping[Var, Range], images: Mapping[Var, PrimExpr], fresh: Sequence[Var], analyzer: Analyzer
) -> tuple[dict[Var, Range], list[PrimExpr]]:
    """Ranges of the new variables implied by those of the old, and conditions for the remaining constraints."""
    conditions: list[PrimExpr] = []
    for var, domain in ranges.items():
        image = images.get(var, var)
        conditions += [image >= domain.min, image < domain.min + domain.extent]
    if not fresh:
        return {}, _open(conditions, analyzer)
    system = _Elimination(fresh, conditions, {})
    alone = [var for var in fresh if system.bounds_alone(var)]
    new = {var: system.alone(var) for var in alone}
    for var, domain in new.items():
        analyzer.bind(var, domain)
    return new, _open(conditions, analyzer)


def _open(conditions: Sequence[PrimExpr], analyzer: Analyzer) -> list[PrimExpr]:
    """Conditions that are not proved to hold."""
    result: list[PrimExpr] = []
    for condition in conditions:
        answer = analyzer.prove(condition)
        if answer is False:
            return [FALSE]
        if answer is None:
            result.append(analyzer.simplify(condition))
    return result


# ------------------------------------------------------------------------------------------ inequalities


def solve_linear_inequalities(
    equations: Any,
    variables: Sequence[Var] | None = None,
    ranges: Mapping[Var, Range] | None = None,
    deskew_range: bool = False,
) -> IntConstraints | IntConstraintsTransform:
    """Solve linear inequalities: a range for each variable in terms of the following ones.

        solve_linear_inequalities([x + y <= 20, x - y >= 10], [x, y])
            x in [y + 10, 20 - y];  y <= 5

    Relations are bounds of variables bounded on one side only, conditions on symbols, and conditions that are not
    linear with constant coefficients. Ranges and relations together are equivalent to the system; the relation False
    means that it has no solution. With `deskew_range`, returns a transform to new variables whose ranges start at 0.
    """
    conditions = _conditions(equations)
    names = _variables(conditions, variables)
    src = IntConstraints(names, dict(ranges or {}), tuple(conditions))
    solved = _Elimination(names, conditions, src.ranges).solve()
    return _deskewed(src, solved) if deskew_range else solved


@dataclass(frozen=True, slots=True)
class _Inequality:
    """The inequality Σ coefficients · variables + rest ≤ 0."""

    coefficients: tuple[int, ...]
    rest: PrimExpr


class _Elimination:
    """Elimination of the variables, in order."""

    def __init__(self, variables: Sequence[Var], conditions: Sequence[PrimExpr], ranges: Mapping[Var, Range]) -> None:
        self.variables = tuple(variables)
        self.sizes = Sizes(Analyzer())
        self.inequalities: list[_Inequality] = []
        self.others: list[PrimExpr] = []
        self.impossible = False
        bounds = [
            bound
            for var, domain in ranges.items()
            for bound in (GE(*_matched(var, domain.min)), LT(*_matched(var, domain.min + domain.extent)))
        ]
        for condition in (*bounds, *conditions):
            self._add_condition(condition)

    def _add_condition(self, condition: PrimExpr) -> None:
        if isinstance(condition, IntImm):
            self.impossible = self.impossible or not condition.value
            return
        row = None
        if isinstance(condition, (LT, LE, GT, GE, EQ)) and condition.a.dtype.is_integer:
            row = _row(condition.a - condition.b, self.variables)
        if row is None:
            self.others.append(condition)
            return
        coefficients, rest = row
        if isinstance(condition, (LT, LE, EQ)):
            self._add(coefficients, rest + 1 if isinstance(condition, LT) else rest)
        if isinstance(condition, (GT, GE, EQ)):
            negative = -rest
            self._add([-c for c in coefficients], negative + 1 if isinstance(condition, GT) else negative)

    def _add(self, coefficients: Sequence[int], rest: PrimExpr) -> None:
        """Add an inequality, unless it is proved or implied by a present one."""
        rest, terms = self.sizes.simplified(rest), tuple(coefficients)
        if not any(terms):
            answer = self.sizes.analyzer.prove(rest <= 0)
            self.impossible = self.impossible or answer is False
            if answer is not None:
                return
        for k, other in enumerate(self.inequalities):
            if other.coefficients == terms:
                if self.sizes.at_most(rest, other.rest):
                    return
                if self.sizes.at_most(other.rest, rest):
                    self.inequalities[k] = _Inequality(terms, rest)
                    return
        if len(self.inequalities) >= MOST:
            raise ValueError(f"solve_linear_inequalities: elimination needs more than {MOST} inequalities")
        self.inequalities.append(_Inequality(terms, rest))

    def solve(self) -> IntConstraints:
        ranges: dict[Var, Range] = {}
        relations: list[PrimExpr] = []
        for k, var in enumerate(self.variables):
            lower, upper = self._bounds(k)
            if lower and upper:
                ranges[var] = self._range(k, lower, upper)
            else:
                relations += (self._relation(inequality, k) for inequality in (*lower, *upper))
            self._eliminate(k, lower, upper)
        relations += (self.sizes.simplified(inequality.rest <= 0) for inequality in self.inequalities)
        if self.impossible:
            return IntConstraints(self.variables, {}, (FALSE,))
        return IntConstraints(self.variables, ranges, (*relations, *self.others))

    def _bounds(self, k: int) -> tuple[list[_Inequality], list[_Inequality]]:
        """Inequalities that bound variable k from below, and from above."""
        lower = [inequality for inequality in self.inequalities if inequality.coefficients[k] < 0]
        upper = [inequality for inequality in self.inequalities if inequality.coefficients[k] > 0]
        return lower, upper

    def _eliminate(self, k: int, lower: list[_Inequality], upper: list[_Inequality]) -> None:
        """Replace the inequalities with variable k by those they imply for the others."""
        self.inequalities = [inequality for inequality in self.inequalities if not inequality.coefficients[k]]
        for low in lower:
            for high in upper:
                a, b = high.coefficients[k], -low.coefficients[k]
                terms = [x * a + y * b for x, y in zip(low.coefficients, high.coefficients, strict=True)]
                self._add(terms, low.rest * a + high.rest * b)

    def _end(self, k: int, inequality: _Inequality) -> PrimExpr:
        """Bound of variable k given by an inequality."""
        factor = inequality.coefficients[k]
        coefficients = [0 if j == k else c for j, c in enumerate(inequality.coefficients)]
        rest = _combination(coefficients, self.variables, inequality.rest.dtype) + inequality.rest
        if factor > 0:
            return self.sizes.simplified(-rest // factor)
        return self.sizes.simplified((rest + (-factor - 1)) // -factor)

    def _range(self, k: int, lower: Sequence[_Inequality], upper: Sequence[_Inequality]) -> Range:
        sizes = self.sizes
        low, high = self._end(k, lower[0]), self._end(k, upper[0])
        for inequality in lower[1:]:
            low = sizes.larger(low, self._end(k, inequality))
        for inequality in upper[1:]:
            high = sizes.smaller(high, self._end(k, inequality))
        return Range(min=low, extent=sizes.simplified(high - low + 1))

    def _relation(self, inequality: _Inequality, k: int) -> PrimExpr:
        end = self._end(k, inequality)
        var = self.variables[k]
        return var <= end if inequality.coefficients[k] > 0 else var >= end

    def bounds_alone(self, var: Var) -> bool:
        """True if inequalities in a single variable bound it on both sides."""
        return all(self._alone(self.variables.index(var)))

    def alone(self, var: Var) -> Range:
        """Range given by the inequalities in a single variable."""
        k = self.variables.index(var)
        return self._range(k, *self._alone(k))

    def _alone(self, k: int) -> tuple[list[_Inequality], list[_Inequality]]:
        lower, upper = self._bounds(k)
        alone = [[x for x in side if sum(1 for c in x.coefficients if c) == 1] for side in (lower, upper)]
        return alone[0], alone[1]


def _matched(var: Var, end: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    return var, end.astype(var.dtype)


def _deskewed(src: IntConstraints, solved: IntConstraints) -> IntConstraintsTransform:
    """Substitute new variables, each the old one minus its minimum."""
    if solved.relations and solved.relations[0] is FALSE:
        return IntConstraintsTransform(src, IntConstraints((), {}, (FALSE,)), {}, {})
    analyzer = Analyzer()
    src_to_dst: dict[Var, PrimExpr] = {}
    dst_to_src: dict[Var, PrimExpr] = {}
    ranges: dict[Var, Range] = {}
    for var in reversed(solved.variables):  # ranges are in terms of the variables that follow
        domain = solved.ranges.get(var)
        new = Var(var.name, var.dtype)
        dst_to_src[new] = var if domain is None else analyzer.simplify(var - domain.min)
        if domain is None:
            src_to_dst[var] = new
            continue
        low, extent = (substitute(bound, src_to_dst) for bound in (domain.min, domain.extent))
        src_to_dst[var] = analyzer.simplify(low + new)
        ranges[new] = Range(min=0, extent=analyzer.simplify(extent))
    variables = tuple(reversed(dst_to_src))
    relations = tuple(analyzer.simplify(substitute(relation, src_to_dst)) for relation in solved.relations)
    return IntConstraintsTransform(src, IntConstraints(variables, ranges, relations), src_to_dst, dst_to_src)
