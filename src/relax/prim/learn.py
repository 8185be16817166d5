"""Learning from a condition that holds: inequalities, values, and equations solved for a variable.

    n == 2·k            n is 2·k from here on
    n % 4 == 1          n is 4·q + 1, for a new q
    n % m == 0          n is m·q; and m is not 0, or the condition would have had no value
    m <= n, n != 0      kept as they are, said in what the variables are by now
    max(m, k) <= n      m <= n and k <= n as well, of a single maximum

An equation that cannot be solved for a variable is kept as two inequalities. A variable that was solved for
occurs in no fact any more; what was known of its range is said of its value.
"""

from __future__ import annotations

from collections.abc import Iterator

from .bounds import Facts, assume_nonnegative
from .cases import lone_variable, lone_variables, quotient_range
from .decide import assume, where_defined
from .expr import EQ, NE, And, Call, CompareExpr, FloorDiv, IntImm, Max, Not, Or, PrimExpr, Var
from .intervals import Interval, variable_range
from .normal import Normalizer, Overgrown
from .poly import Atom, Poly, add, constant, content, factors_of, multiply, scaled, value_of
from .tables import Table


def learn(normalizer: Normalizer, condition: PrimExpr, holds: bool = True) -> Normalizer:
    """Normalizer with a condition that holds (or does not)."""
    for part, truth in conjuncts(condition, holds):
        normalizer = _learn(normalizer, part, truth)
    return normalizer


def conjuncts(condition: PrimExpr, holds: bool = True) -> Iterator[tuple[PrimExpr, bool]]:
    """The conditions that are known to hold, or not to hold, where one holds (or does not)."""
    if isinstance(condition, Not):
        yield from conjuncts(condition.a, not holds)
    elif isinstance(condition, Call) and condition.intrinsic == "likely":
        yield from conjuncts(condition.args[0], holds)
    elif isinstance(condition, And if holds else Or):
        yield from conjuncts(condition.a, holds)
        yield from conjuncts(condition.b, holds)
    elif isinstance(condition, (EQ, NE)) and isinstance(condition.b, IntImm) and condition.a.dtype.is_bool:
        yield from conjuncts(condition.a, holds is (bool(condition.b.value) is isinstance(condition, EQ)))
    else:
        yield condition, holds


def _learn(normalizer: Normalizer, condition: PrimExpr, holds: bool) -> Normalizer:
    if isinstance(condition, CompareExpr):
        normalizer = where_defined(normalizer, condition)
    equation = _equation(normalizer, condition, holds)
    facts = normalizer.facts.copy()
    if not assume(normalizer, facts, condition, holds):
        return normalizer
    for p in facts.nonnegative[len(normalizer.facts.nonnegative) :]:
        _assume_arms(facts, p)
    solution = None if equation is None else _solution(normalizer, equation, facts.ranges)
    if solution is not None:
        try:
            return _substituted(normalizer, facts, *solution)
        except Overgrown:
            pass
    return normalizer.under(facts)


def _assume_arms(facts: Facts, p: Poly) -> None:
    """Add to p ≥ 0, where p has less of a maximum, and of no other, that it holds with less of each operand."""
    atoms = [factor for factor in factors_of(p) if isinstance(factor, Atom) and factor.kind is Max]
    coefficient = p.get((atoms[0],), 0) if len(atoms) == 1 and atoms[0].exact else 0
    if coefficient < 0:
        rest = {m: c for m, c in p.items() if m != (atoms[0],)}
        for arm in atoms[0].args:
            assume_nonnegative(facts, add(rest, arm, coefficient))


def _equation(normalizer: Normalizer, condition: PrimExpr, holds: bool) -> Poly | None:
    """Polynomial that is 0, if the condition is an equation between integers; otherwise None."""
    if not isinstance(condition, EQ if holds else NE):
        return None
    assert isinstance(condition, (EQ, NE))
    a, b = condition.a, condition.b
    if not (a.dtype.is_integer and a.dtype.lanes == 1):
        return None
    left, right = normalizer.normal(a), normalizer.normal(b)
    if not (normalizer.bounds.fits(left, a.dtype) and normalizer.bounds.fits(right, a.dtype)):
        return None
    p = add(left, right, -1)
    divisor = content(p)
    if divisor > 1 and p.get((), 0) % divisor == 0:
        p = {m: c // divisor for m, c in p.items()}
    return p


def _solution(normalizer: Normalizer, p: Poly, ranges: Table[Var, Interval]) -> tuple[Var, Poly] | None:
    """A variable and its value, solved from p = 0."""
    variables = list(lone_variables(p))
    if variables and isinstance(variables[0], Var):
        # One that no other fact mentions leaves those as they are.
        mentioned = normalizer.facts.mentioned
        variable = next((v for v in variables if isinstance(v, Var) and v not in mentioned), variables[0])
        assert isinstance(variable, Var)
        rest = {m: c for m, c in p.items() if m != (variable,)}
        return variable, scaled(rest, -p[variable,])
    for monomial in p:
        for atom in monomial:
            if isinstance(atom, Atom) and atom.kind is FloorDiv and atom.exact:
                for q in (p, scaled(p, -1)):
                    found = _remainder_solution(normalizer, q, atom, ranges)
                    if found is not None:
                        return found
    return None


def _remainder_solution(
    normalizer: Normalizer, p: Poly, atom: Atom, ranges: Table[Var, Interval]
) -> tuple[Var, Poly] | None:
    """x - y·(x // y) - r = 0: a variable of x, with x = y·q + r."""
    x, y = atom.args
    remainder = add(add(x, multiply(y, {(atom,): 1}), -1), p, -1)
    variable = lone_variable(x, y, remainder)
    if not isinstance(variable, Var) or atom in factors_of(remainder):
        return None
    low, high = normalizer.bounds.interval({(atom,): 1})
    least, most = quotient_range(normalizer.bounds, atom)
    quotient = Var("q", atom.dtype)
    ranges[quotient] = max(low, least), min(high, most)
    whole = add(multiply(y, {(quotient,): 1}), remainder)
    rest = {m: c for m, c in x.items() if m != (variable,)}
    return variable, scaled(add(whole, rest, -1), x[variable,])


def _substituted(normalizer: Normalizer, facts: Facts, variable: Var, image: Poly) -> Normalizer:
    """Normalizer under these facts, with a variable replaced by its solution."""
    low, high = normalizer.bounds.variable_range(variable)
    least, most = variable.dtype.min_value, variable_range(variable)[1]
    before = normalizer.facts
    untouched = variable not in before.mentioned  # as are most, where many sizes are bound
    count, others = (len(before.nonnegative), len(before.nonzero)) if untouched else (0, 0)
    new = facts.copy()
    del new.nonnegative[count:], new.nonzero[others:]
    if not untouched:
        new.solved.clear()
        new.mentioned.clear()
    inner = normalizer.under(new)
    exchanged = inner.exchanger({variable: image})
    for v, p in facts.solved.items() if not untouched else ():
        new.add_solved(v, exchanged(p))
    new.add_solved(variable, image)
    known = [exchanged(p) for p in facts.nonnegative[count:]]
    known += [add(image, constant(-int(low)))] if low > least else []
    known += [add(constant(int(high)), image, -1)] if high < most else []
    for monomial, limit in normalizer.bounds.limits.items():
        product = exchanged({monomial: 1})
        if not inner.bounds.limit(product, limit):
            known.append(add(constant(limit), product, -1))
    for p in known:
        if value_of(p) is None:
            assume_nonnegative(new, p)
    for p in [exchanged(p) for p in facts.nonzero[others:]]:
        if value_of(p) is None:
            new.add_nonzero(p)
    return inner.under(new)
