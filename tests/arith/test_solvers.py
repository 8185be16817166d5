"""Linear equations and inequalities, bounds deduced from conditions, linear patterns."""

from __future__ import annotations

import itertools
import random
import re

import pytest

import relax
from relax.arith import (
    IntervalSet,
    deduce_bound,
    detect_clip_bound,
    detect_linear_equation,
    int_solver,
    neg_inf,
    pos_inf,
    solve_linear_equations,
    solve_linear_inequalities,
)
from relax.prim import (
    EQ,
    GE,
    LE,
    LT,
    NE,
    And,
    IntImm,
    Not,
    SizeVar,
    Var,
    convert,
    evaluate,
    free_vars,
    intrin,
    substitute,
)
from relax.tir import Range

x, y, z, a, b, c, d = (Var(name, "int64") for name in "xyzabcd")
n = SizeVar("n", "int64")


def text(value) -> str:
    return re.sub(r"T\.\w+\((-?\w+)\)", r"\1", str(value)).replace("T.", "")


# -------------------------------------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    "expr, variables, expected",
    [
        (a, [a], ["1", "0"]),
        (a * 4 + b * 6 + 7, [a], ["4", "b * 6 + 7"]),
        (a * 4 + (a + 1) + b * 6 + 7, [a], ["5", "b * 6 + 8"]),
        (a * b + 7, [a], ["b", "7"]),
        (a * 4 - b * (2 - a * 0), [a], ["4", "b * -2"]),
        (a - b, [a, b], ["1", "-1", "0"]),
        (b * (a - 3), [a], ["b", "-3 * b"]),
        (b * 7, [a], ["0", "b * 7"]),
        (b * 7, [], ["b * 7"]),
        (a * a, [a], []),
        (a // 2, [a], []),
        (a * 4 * (a + 1), [a], []),
    ],
)
def test_linear_expressions(expr, variables, expected):
    assert [text(part) for part in detect_linear_equation(expr, variables)] == expected


@pytest.mark.parametrize(
    "condition, variables, expected",
    [
        (And(a * 1 < b * 6, a - 1 > 0), [a], ["2", "b * 6 - 1"]),
        (And(a + 10 * a <= b * 6, a - 1 > 0), [a], ["2", "b * 6 // 11"]),
        (And(b > a, 3 <= a), [a], ["3", "b - 1"]),
        (And(a >= 0, a >= b), [a], ["max(0, b)", "None"]),
        (And(a < 9, a < b), [a], ["None", "min(8, b - 1)"]),
        (And(a < 9, c >= 2), [a, c], ["None", "8", "2", "None"]),
        (EQ(a * 2, b), [a], ["(b + 1) // 2", "b // 2"]),
        (Not(a >= 9), [a], []),
        (NE(a, 3), [a], []),
        (a < c, [a, c], []),
        (b < 3, [a], []),
        (a * a < 3, [a], []),
        (a * b < 3, [a], []),
        (a * 0 < 3, [a], []),
    ],
)
def test_clip_bounds(condition, variables, expected):
    assert [text(part) for part in detect_clip_bound(condition, variables)] == expected


# ----------------------------------------------------------------------------------------- deduced bounds

AREAS = {b: IntervalSet(2, 3), c: IntervalSet(10, 15), d: IntervalSet(-3, -1)}


@pytest.mark.parametrize(
    "condition, hints, relaxed, expected",
    [
        ((0 - b) * a + c - d >= 0, AREAS, {}, "[neg_inf, (c - d) // b]"),
        ((0 - b) * a + c - d >= 0, AREAS, AREAS, "[neg_inf, 3]"),
        (a * 4 + b < n, {}, {b: IntervalSet(0, 3)}, "[neg_inf, (n - 4) // 4]"),
        (n > a * 4 + b, {}, {b: IntervalSet(0, 3)}, "[neg_inf, (n - 4) // 4]"),
        (a * 4 >= b, {}, {}, "[(b + 3) // 4, pos_inf]"),
        (a * 4 > b, {}, {}, "[(b + 4) // 4, pos_inf]"),
        (c - a <= b, {}, {}, "[c - b, pos_inf]"),
        (a - c <= b, {}, {}, "[neg_inf, b + c]"),
        (EQ(a * 4, b), {}, {}, "[(b + 3) // 4, b // 4]"),
        (EQ(a, b), {}, {b: IntervalSet(0, 1)}, "[1, 0]"),
        (a // 4 < b, {}, {}, "[neg_inf, b * 4 - 1]"),
        (a // 4 >= b, {}, {}, "[b * 4, pos_inf]"),
        (a * 2 < a + b, {}, {}, "[neg_inf, b - 1]"),
        (a + 3 * a < b, {}, {}, "[neg_inf, (b - 1) // 4]"),
        (a * d < c, AREAS, {}, None),
        (b < 5, AREAS, {}, "[neg_inf, pos_inf]"),
        (b < 3, AREAS, {}, "[pos_inf, neg_inf]"),
        (a % 16 < 10, {}, {}, "[pos_inf, neg_inf]"),
        (intrin.min(a, 16) < 10, {}, {}, "[pos_inf, neg_inf]"),
        (a * b < 10, {}, {}, "[pos_inf, neg_inf]"),
        (a * a + a < 10, {}, {}, "[pos_inf, neg_inf]"),
        (NE(a, 3), {}, {}, "[pos_inf, neg_inf]"),
        (a < b, {}, {b: IntervalSet(neg_inf(), 3)}, "[pos_inf, neg_inf]"),
        (a < b, {b: IntervalSet(0, pos_inf())}, {}, "[neg_inf, b - 1]"),
    ],
)
def test_deduced_bounds(condition, hints, relaxed, expected):
    result = deduce_bound(a, condition, hints, relaxed)
    if expected is not None:
        assert text(result) == f"IntervalSet{expected}"
    assert result.is_nothing() == (expected in ("[pos_inf, neg_inf]", "[1, 0]"))


@pytest.mark.parametrize("seed", range(30))
def test_deduced_bounds_are_right(seed):
    r = random.Random(seed)
    domains = {b: IntervalSet(r.randint(-3, 1), r.randint(1, 4)), c: IntervalSet(r.randint(1, 2), r.randint(2, 4))}
    left = r.choice([a * r.choice([-3, -1, 2, 5]), a * c, (a + b) // 3, a * c - b, 4 - a, a // c, (0 - c) * a])
    condition = r.choice([LT, LE, GE, EQ])(left, r.choice([b + 5, c * 2, convert(7).astype("int64")]))
    relaxed = {var: area for var, area in domains.items() if r.random() < 0.7}
    result = deduce_bound(a, condition, domains, relaxed)
    rest = [var for var in domains if var not in relaxed]

    def span(var) -> range:
        return range(domains[var].min_value.value, domains[var].max_value.value + 1)

    for fixed in itertools.product(*map(span, rest)):
        env = dict(zip(rest, fixed, strict=True))
        low = (
            None
            if result.min_value is neg_inf()
            else evaluate(result.min_value, env)
            if result.min_value is not pos_inf()
            else 99
        )
        high = (
            None
            if result.max_value is pos_inf()
            else evaluate(result.max_value, env)
            if result.max_value is not neg_inf()
            else -99
        )
        for value in range(-30, 30):
            if (low is None or low <= value) and (high is None or value <= high):
                for free in itertools.product(*map(span, relaxed)):
                    assert evaluate(condition, {a: value, **env, **dict(zip(relaxed, free, strict=True))})


# ---------------------------------------------------------------------------------------------- equations


def solved(equations, variables, ranges=None):
    result = solve_linear_equations(equations, variables, ranges or {})
    return {var.name: text(value) for var, value in result.src_to_dst.items()}, result


def test_one_solution():
    values, result = solved([EQ(x + y, 20), EQ(x - y, 10)], [x, y])
    assert values == {"x": "15", "y": "5"}
    assert result.dst.variables == result.dst.relations == ()
    assert result.src.variables == (x, y)


def test_new_variables():
    values, result = solved([EQ(x + y + z, 15), EQ(x + y, 10)], [x, y, z])
    (fresh,) = result.dst.variables
    assert values == {"x": "10 - n0", "y": "n0", "z": "5"}
    assert text(result.dst_to_src[fresh]) == "y"
    values, _ = solved([], [x])
    assert values == {"x": "n0"}


def test_ranges_of_new_variables():
    _, result = solved([EQ(x + y, 0)], [x, y], {x: Range.from_min_extent(-5, 10), y: Range.from_min_extent(0, 10)})
    (fresh,) = result.dst.variables
    domain = result.dst.ranges[fresh]
    assert (text(domain.min), text(domain.extent)) == ("0", "6")
    assert result.dst.relations == ()
    _, result = solved([EQ(x, y)], [x, y], {x: Range(0, n)})
    assert [text(r) for r in result.dst.ranges.values()] == ["Range(0, n)"]
    _, result = solved([EQ(x + y + z, 0)], [x, y, z], {x: Range(0, 10)})
    assert result.dst.ranges == {}
    assert len(result.dst.relations) == 2


def test_conditions_on_symbols():
    values, result = solved([EQ(x * 2, n)], [x])
    assert values == {"x": "n // 2"}
    assert [text(r) for r in result.dst.relations] == ["n % 2 == 0"]
    _, result = solved([EQ(x, n), EQ(x, z)], [x])
    assert [text(r) for r in result.dst.relations] == ["z == n"]
    _, result = solved([EQ(x, n)], [x], {x: Range(0, 10)})
    assert [text(r) for r in result.dst.relations] == ["n < 10"]


@pytest.mark.parametrize(
    "equations, ranges",
    [
        ([EQ(x + y, 0), EQ(x - y, 0), EQ(x, 5)], {}),
        ([EQ(x * 2, 5)], {}),
        ([EQ(x + y, x + y + 1)], {}),
        ([EQ(x, 12)], {x: Range(0, 10)}),
    ],
)
def test_equations_without_solutions(equations, ranges):
    values, result = solved(equations, [x, y], ranges)
    assert [text(r) for r in result.dst.relations] == ["False"]
    assert result.dst.variables == ()
    assert values == {} == result.dst_to_src


def test_equations_that_are_refused():
    with pytest.raises(ValueError, match="solve_linear_equations: x < y is no equation"):
        solve_linear_equations([x < y])
    with pytest.raises(ValueError, match="is not linear with constant coefficients"):
        solve_linear_equations([EQ(x * y, 3)])
    with pytest.raises(ValueError, match="is not linear with constant coefficients"):
        solve_linear_equations([EQ(x * n, 3)], [x])


@pytest.mark.parametrize("seed", range(60))
def test_solutions_of_equations(seed):
    r = random.Random(seed)
    variables = [x, y, z][: r.randint(1, 3)]
    rows = [[r.randint(-4, 4) for _ in variables] for _ in range(r.randint(1, 3))]
    equations = [
        EQ(sum((v * k for v, k in zip(variables, row, strict=True)), start=x * 0), r.randint(-6, 6)) for row in rows
    ]
    ranges = {var: Range.from_min_extent(-3, 7) for var in variables if r.random() < 0.5}
    result = solve_linear_equations(equations, variables, ranges)
    fresh = result.dst.variables

    def inside(point, domains) -> bool:
        return all(evaluate(d.min) <= point[v] < evaluate(d.min) + evaluate(d.extent) for v, d in domains.items())

    # Each solution is one of the new system, and comes back.
    for point in itertools.product(range(-4, 5), repeat=len(variables)):
        env = dict(zip(variables, point, strict=True))
        if all(evaluate(e, env) for e in equations) and inside(env, ranges):
            assert [text(r) for r in result.dst.relations] != ["False"]
            new = {var: evaluate(value, env) for var, value in result.dst_to_src.items()}
            assert inside(new, result.dst.ranges)
            assert all(evaluate(relation, new) for relation in result.dst.relations)
            assert [evaluate(result.src_to_dst[var], new) for var in variables] == list(point)
    # Each of the new system is a solution.
    if result.src_to_dst:
        for point in itertools.product(range(-4, 5), repeat=len(fresh)):
            new = dict(zip(fresh, point, strict=True))
            if inside(new, result.dst.ranges) and all(evaluate(relation, new) for relation in result.dst.relations):
                old = {var: evaluate(value, new) for var, value in result.src_to_dst.items()}
                assert all(evaluate(e, old) for e in equations)
                assert inside(old, ranges)


# ------------------------------------------------------------------------------------------- inequalities


def bounds(system) -> dict[str, tuple[str, str]]:
    return {var.name: (text(domain.min), text(domain.extent)) for var, domain in system.ranges.items()}


def test_ranges_in_terms_of_later_variables():
    system = solve_linear_inequalities([x + y <= 20, x - y >= 10], [x, y])
    assert bounds(system) == {"x": ("y + 10", "11 - y * 2")}
    assert [text(r) for r in system.relations] == ["y <= 5"]
    system = solve_linear_inequalities([x + y >= 10, x - y >= 2, x <= 6], [x, y])
    assert bounds(system) == {"x": ("max(10 - y, y + 2)", "7 - max(10 - y, y + 2)"), "y": ("4", "1")}
    system = solve_linear_inequalities([x >= 0, x < n, LT(y, x), y > -3], [y, x])
    assert bounds(system) == {"y": ("-2", "x + 2"), "x": ("0", "n")}


def test_one_sided_bounds_and_the_rest_are_relations():
    system = solve_linear_inequalities([x >= 3, x * x < 50, NE(x, 5), n > 2], [x])
    assert bounds(system) == {}
    assert [text(r) for r in system.relations] == ["x >= 3", "3 <= n", "x * x < 50", "x != 5"]


def test_inequalities_without_solutions():
    for conditions in ([x >= 3, x < 3], [x + y >= 3, x + y <= 2], [IntImm("bool", 0)], [x >= 0, convert(False)]):
        system = solve_linear_inequalities(conditions, [x, y])
        assert [text(r) for r in system.relations] == ["False"]
        moved = solve_linear_inequalities(conditions, [x, y], deskew_range=True)
        assert [text(r) for r in moved.dst.relations] == ["False"]
    assert bounds(solve_linear_inequalities([IntImm("bool", 1), EQ(x, 3)], [x])) == {"x": ("3", "1")}


def test_variables_that_start_at_zero():
    moved = solve_linear_inequalities(
        [x + y <= 20, x - y >= 10, z >= y], [x, y, z], {x: Range(0, 20), y: Range(0, 5)}, deskew_range=True
    )
    assert {text(domain.min) for domain in moved.dst.ranges.values()} == {"0"}
    assert [var.name for var in moved.dst.variables] == ["x", "y", "z"]
    for old, image in moved.src_to_dst.items():
        back = substitute(image, moved.dst_to_src)
        assert relax.arith.Analyzer().can_prove_equal(back, old)


def test_elimination_ends(monkeypatch):
    monkeypatch.setattr(int_solver, "MOST", 5)
    with pytest.raises(ValueError, match="elimination needs more than 5 inequalities"):
        solve_linear_inequalities([x + y * k < k * k for k in range(8)], [x, y])


@pytest.mark.parametrize("seed", range(60))
def test_solutions_of_inequalities(seed):
    r = random.Random(seed)
    variables = [x, y, z][: r.randint(1, 3)]
    conditions = []
    for _ in range(r.randint(1, 4)):
        left = sum((v * r.randint(-3, 3) for v in variables), start=x * 0)
        conditions.append(r.choice([LT, LE, GE, EQ])(left, r.randint(-5, 5)))
    ranges = {var: Range.from_min_extent(-2, 5) for var in variables if r.random() < 0.4}
    system = solve_linear_inequalities(conditions, variables, ranges)

    def inside(env, domains) -> bool:
        return all(
            evaluate(d.min, env) <= env[v] < evaluate(d.min, env) + evaluate(d.extent, env) for v, d in domains.items()
        )

    for point in itertools.product(range(-4, 5), repeat=len(variables)):
        env = dict(zip(variables, point, strict=True))
        holds = all(evaluate(condition, env) for condition in conditions) and inside(env, ranges)
        assert holds == (inside(env, system.ranges) and all(evaluate(relation, env) for relation in system.relations))
    for k, var in enumerate(variables):
        if var in system.ranges:
            assert not set(free_vars(system.ranges[var].min)) & set(variables[: k + 1])
