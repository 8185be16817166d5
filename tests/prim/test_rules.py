"""Every rule of the algebra, checked for all small values of its variables: same value, same failures.

The cases come from the rule tables themselves; a new line there is a new test here.
"""

from __future__ import annotations

import itertools
import math

import pytest
from prim_spell import spell

from relax.prim import EQ, FloorDiv, IntImm, PrimExpr, Var, evaluate, free_vars, substitute
from relax.prim.match import instantiate
from relax.prim.rules import ANY, CONSTANTS, EXACT, FLOAT, INTEGER, INTRINSICS, LAWS, TREE_RULES, Rule

SMALL = range(-6, 7)
SMALL_CONSTANTS = range(-4, 5)
INT8 = (-128, -127, -3, -2, -1, 0, 1, 2, 3, 5, 126, 127)
UINT8 = (0, 1, 2, 3, 5, 126, 127, 128, 129, 254, 255)
FLOATS = (0.0, -0.0, 1.0, -1.5, 3.0, math.inf, -math.inf, math.nan)

DOMAINS = {
    EXACT: [("int64", SMALL, SMALL_CONSTANTS)],
    INTEGER: [("int64", SMALL, SMALL_CONSTANTS), ("int8", INT8, INT8), ("uint8", UINT8, UINT8)],
    FLOAT: [("float32", FLOATS, ()), ("float64", FLOATS, ()), ("bfloat16", FLOATS, ())],
    ANY: [("int8", INT8[::2], ()), ("uint8", UINT8[::2], ()), ("float32", FLOATS, ()), ("bool", (False, True), ())],
}

ALL_RULES = [
    *(line for lines in LAWS.values() for line in lines),
    *(line for lines in INTRINSICS.values() for line in lines),
    *TREE_RULES,
]
CASES = [
    pytest.param(line, dtype, values, constants, id=f"{number}: {spell(line.left)} -> {spell(line.right)}, {dtype}")
    for number, line in enumerate(ALL_RULES)
    for dtype, values, constants in DOMAINS[line.holds]
]


def outcome(expr: PrimExpr, env: dict[Var, object]) -> object:
    """The value, exact to the bit, or the fact that there is none."""
    try:
        value = evaluate(expr, env)
    except ZeroDivisionError:
        return "division by zero"
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value.hex()
    return value


def holds(rule: Rule, values: dict[str, object], bits: int, unknown: str = "") -> bool:
    """Whether the side conditions hold; one that asks for `unknown` is taken to."""
    for condition in (rule.when, rule.defined):
        if condition is not None and unknown not in condition.names:
            given = {**values, "bits": bits}
            if not condition.holds(*(given[name] for name in condition.names)):
                return False
    return True


def variables_of(rule: Rule, dtype: str) -> dict[str, Var]:
    """The pattern's variables, in the dtype under test; conditions stay bool."""
    found: dict[str, Var] = {}
    for var in free_vars(rule.left) + free_vars(rule.right):
        found.setdefault(var.name, Var(var.name, "bool" if var.dtype == "bool" else dtype))
    return found


def choices(variables: dict[str, Var], values, constants) -> list[tuple]:
    return [
        (False, True) if var.dtype == "bool" else tuple(constants if name in CONSTANTS else values)
        for name, var in variables.items()
    ]


@pytest.mark.parametrize("rule, dtype, values, constants", CASES)
def test_rule_holds_for_all_small_values(rule: Rule, dtype, values, constants):
    variables = variables_of(rule, dtype)
    left, right = (instantiate(side, variables, dtype) for side in (rule.left, rule.right))
    bits = next(iter(variables.values())).dtype.bits if variables else 1
    tried = 0
    for point in itertools.product(*choices(variables, values, constants)):
        named = dict(zip(variables, point))
        if holds(rule, named, bits):
            tried += 1
            env = dict(zip(variables.values(), point))
            assert outcome(left, env) == outcome(right, env), named
    assert tried > 0, "no values satisfy the side condition"


def failing(dtype: str) -> PrimExpr:
    """An expression without a value."""
    if dtype == "bool":
        return EQ(failing("int32"), IntImm("int32", 0))
    return FloorDiv(IntImm(dtype, 1), IntImm(dtype, 0))


INTEGER_CASES = [case for case in CASES if case.values[1] not in ("float32", "float64", "bfloat16")]


@pytest.mark.parametrize("rule, dtype, values, constants", INTEGER_CASES)
def test_rule_keeps_failures(rule: Rule, dtype, values, constants):
    """An operand that divides by zero fails after the rule just where it failed before."""
    variables = variables_of(rule, dtype)
    for name, var in variables.items():
        if name in CONSTANTS or name in rule.dropped:
            continue  # a constant cannot fail; what is dropped has been checked not to
        others = {key: other for key, other in variables.items() if key != name}
        left, right = (
            substitute(instantiate(side, variables, dtype), {var: failing(var.dtype)})
            for side in (rule.left, rule.right)
        )
        for point in itertools.product(*choices(others, values, constants)):
            if holds(rule, dict(zip(others, point)), var.dtype.bits, unknown=name):
                env = dict(zip(others.values(), point))
                assert outcome(left, env) == outcome(right, env), (name, point)


def test_a_wrong_rule_would_be_found():
    """The check above has teeth: x // y * y is not x, and nested division needs a positive divisor."""
    from relax.prim.rules import rule

    x, y = Var("x", "int64"), Var("y", "int64")
    a, b = Var("a", "int64"), Var("b", "int64")
    for wrong in (rule(x // y * y, x, EXACT), rule((x // a) // b, x // (a * b), EXACT)):
        with pytest.raises(AssertionError):
            test_rule_holds_for_all_small_values(wrong, "int64", SMALL, SMALL_CONSTANTS)
    with pytest.raises(AssertionError):
        test_rule_keeps_failures(rule(x * y, y * 0, EXACT, unused="x"), "int64", SMALL, SMALL_CONSTANTS)
