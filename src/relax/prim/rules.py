"""The algebra: every rule of the simplifier and of the prover, one a line.

A rule says that `left` may be replaced by `right` (same value, same failures) where its side condition holds.
In the patterns

    w x y z    stand for any expression        a b c g k   for integer constants        p q   for conditions

and a condition is a function of those: of a constant it gets the number; of an expression something whose
comparisons mean "provably, for every value". `bits` is the width of the dtype. `holds` says where:

    ANY        every dtype, floating point included
    FLOAT      floating point, bit for bit (NaN and signed zeros included)
    INTEGER    integers that wrap around at their width
    EXACT      integers where nothing wraps around: dimensions, or what bounds prove to stay within its dtype

An expression on the left that is missing on the right is dropped, which is done only to one that cannot fail
(a division by zero stays an error), unless it stands in `unused`: then the left does not evaluate it either.
A failure of the operation itself is excluded by `defined`.

The tests take these tables and check each rule for all small values.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# The side conditions are lambdas whose parameters are numbers or quantities, by their names.

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from ..runtime.records import dataclass
from . import split
from .expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Call,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from .functor import free_vars, sub_expressions
from .intrin import abs as abs_
from .intrin import bitwise_and, shift_left, shift_right

Condition: TypeAlias = "Callable[..., bool]"


class Holds(enum.Enum):
    """For which dtypes a rule is true."""

    ANY = "any"
    FLOAT = "float"
    INTEGER = "integer"
    EXACT = "exact"


ANY, FLOAT, INTEGER, EXACT = Holds.ANY, Holds.FLOAT, Holds.INTEGER, Holds.EXACT

CONSTANTS = frozenset("abcgk")


class Check(NamedTuple):
    """A side condition and the names it asks for."""

    holds: Condition
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """`left` may become `right`. `find` splits an operation's two polynomials as the left side has them."""

    left: PrimExpr
    right: PrimExpr
    holds: Holds
    when: Check | None
    defined: Check | None
    unused: frozenset[str]
    find: split.Finder
    dropped: tuple[str, ...]


def rule(
    left: PrimExpr,
    right: PrimExpr,
    holds: Holds,
    when: Condition | None = None,
    *,
    defined: Condition | None = None,
    unused: str = "",
    find: split.Finder | None = None,
) -> Rule:
    """A line of a table."""
    kept = {var.name for var in free_vars(right)}
    dropped = tuple(
        var.name
        for var in free_vars(left)
        if var.name not in kept and var.name not in CONSTANTS and var.name not in unused
    )
    find = split.whole(sub_expressions(left), CONSTANTS) if find is None else find
    return Rule(left, right, holds, _check(when), _check(defined), frozenset(unused), find, dropped)


def _check(condition: Condition | None) -> Check | None:
    return None if condition is None else Check(condition, tuple(inspect.signature(condition).parameters))


w, x, y, z = (Var(name, "int64") for name in "wxyz")
a, b, c, g, k = (Var(name, "int64") for name in "abcgk")
p, q = (Var(name, "bool") for name in "pq")
f = Var("f", "float32")
zero, one = IntImm("int64", 0), IntImm("int64", 1)
true, false = IntImm("bool", 1), IntImm("bool", 0)

# ------------------------------------------------------------------------------------------- arithmetic
# Sums and products need no rules: they are polynomials. Here stands what makes other operations polynomials of
# simpler ones. The first rule that applies is taken.

LAWS: dict[type[BinaryExpr], tuple[Rule, ...]] = {
    FloorDiv: (
        rule(x // one, x, INTEGER),
        rule(x // c, (-x) // (-c), EXACT, lambda c: c < 0),
        rule(zero // y, zero, EXACT, defined=lambda y: y != 0),
        rule((x * y + z) // y, x + z // y, EXACT, find=split.multiples),
        rule(x // c, k, EXACT, lambda x, c, k: c > 0 and k * c <= x < (k + 1) * c, find=split.one_quotient),
        rule(x // y, zero, EXACT, lambda x, y: 0 <= x < y, find=split.symbolic),
        rule((-x) // (-y), x // y, EXACT, find=split.negative_divisor),
        rule((-x) // y, -((x + y - one) // y), EXACT, lambda y: y >= 0, find=split.negative),
        rule((x * g + y) // (c * g), x // c, EXACT, lambda y, c, g: c > 0 and 0 <= y < g, find=split.common_factor),
        rule((x * y) // (z * y), x // z, EXACT, defined=lambda y: y != 0, find=split.shared_factor),
        rule((x * y + z) // (w * y), x // w, EXACT, lambda w, y, z: w >= 0 and 0 <= z < y, find=split.shared_by_some),
        rule((x // y + z) // w, (x + z * y) // (y * w), EXACT, lambda w, y: w >= 0 and y >= 0, find=split.nested),
    ),
    FloorMod: (
        rule(x % y, x - y * (x // y), INTEGER),
    ),
    Div: (
        rule(Div(x, one), x, INTEGER),
        rule(Div(x * y, y), x, EXACT, defined=lambda y: y != 0, find=split.exact_multiple),
        rule(Div(x, y), x // y, EXACT, lambda x, y: x >= 0 and y >= 0),
        rule(Div(x, y), -((-x) // y), EXACT, lambda x, y: x <= 0 and y >= 0),
        rule(Div(x, c), -Div(x, -c), EXACT, lambda c: c < 0),
    ),
    Mod: (
        rule(Mod(x, y), x % y, EXACT, lambda x, y: x >= 0 and y >= 0),
        rule(Mod(x, y), -((-x) % y), EXACT, lambda x, y: x <= 0 and y >= 0),
        rule(Mod(x, c), Mod(x, -c), EXACT, lambda c: c < 0),
    ),
    Max: (
        rule(Max(x, y), x, EXACT, lambda x, y: x >= y),
        rule(Max(x, y), y, EXACT, lambda x, y: x <= y),
        rule(Max(x + z, y + z), Max(x, y) + z, EXACT, find=split.common_terms),
    ),
    Min: (
        rule(Min(x, y), x, EXACT, lambda x, y: x <= y),
        rule(Min(x, y), y, EXACT, lambda x, y: x >= y),
        rule(Min(x, y), x + y - Max(x, y), INTEGER),
    ),
}  # fmt: skip

INTRINSICS: dict[str, tuple[Rule, ...]] = {
    "shift_left": (
        rule(shift_left(x, c), x * shift_left(one, c), INTEGER, lambda c, bits: 0 <= c < bits),
    ),
    "shift_right": (
        rule(shift_right(x, c), x // shift_left(one, c), INTEGER, lambda c, bits: 0 <= c < bits - 1),
    ),
    "bitwise_and": (
        rule(bitwise_and(x, c), x % (c + 1), INTEGER, lambda c, bits: 0 <= c < 2 ** (bits - 2) and c & (c + 1) == 0),
    ),
    "abs": (
        rule(abs_(x), Max(x, -x), EXACT),
    ),
}  # fmt: skip

# ------------------------------------------------------------------------------------- logic and choices


def choices(choose: Callable[[PrimExpr, PrimExpr, PrimExpr], PrimExpr]) -> Iterable[Rule]:
    """The rules of Select and of if_then_else."""
    return (
        rule(choose(p, x, x), x, ANY),
        rule(choose(Not(p), x, y), choose(p, y, x), ANY),
        rule(choose(p, true, false), p, ANY),
        rule(choose(p, false, true), Not(p), ANY),
        rule(choose(p, choose(p, x, y), z), choose(p, x, z), ANY, unused="y"),
        rule(choose(p, x, choose(p, y, z)), choose(p, x, z), ANY, unused="y"),
    )


def _if_then_else(condition: PrimExpr, t: PrimExpr, f: PrimExpr) -> PrimExpr:
    return Call(t.dtype, "tir.if_then_else", (condition, t, f))


TREE_RULES: tuple[Rule, ...] = (
    rule(Not(Not(p)), p, ANY),
    rule(Not(EQ(x, y)), NE(x, y), ANY),
    rule(Not(NE(x, y)), EQ(x, y), ANY),
    rule(Not(LT(x, y)), LE(y, x), INTEGER),
    rule(Not(LE(x, y)), LT(y, x), INTEGER),
    rule(Not(GT(x, y)), LE(x, y), INTEGER),
    rule(Not(GE(x, y)), LT(x, y), INTEGER),
    rule(Not(true), false, ANY),
    rule(Not(false), true, ANY),
    rule(And(true, p), p, ANY),
    rule(And(p, true), p, ANY),
    rule(And(false, p), false, ANY, unused="p"),
    rule(And(p, false), false, ANY),
    rule(And(p, p), p, ANY),
    rule(And(p, Not(p)), false, ANY),
    rule(And(Not(p), p), false, ANY),
    rule(And(p, And(p, q)), And(p, q), ANY),
    rule(And(And(p, q), p), And(p, q), ANY),
    rule(And(And(p, q), q), And(p, q), ANY),
    rule(And(p, Or(p, q)), p, ANY, unused="q"),
    rule(And(Or(p, q), p), p, ANY),
    rule(Or(false, p), p, ANY),
    rule(Or(p, false), p, ANY),
    rule(Or(true, p), true, ANY, unused="p"),
    rule(Or(p, true), true, ANY),
    rule(Or(p, p), p, ANY),
    rule(Or(p, Not(p)), true, ANY),
    rule(Or(Not(p), p), true, ANY),
    rule(Or(p, Or(p, q)), Or(p, q), ANY),
    rule(Or(Or(p, q), p), Or(p, q), ANY),
    rule(Or(Or(p, q), q), Or(p, q), ANY),
    rule(Or(p, And(p, q)), p, ANY, unused="q"),
    rule(Or(And(p, q), p), p, ANY),
    rule(EQ(p, true), p, ANY),
    rule(EQ(p, false), Not(p), ANY),
    rule(NE(p, false), p, ANY),
    rule(NE(p, true), Not(p), ANY),
    rule(Select(true, x, y), x, ANY, unused="y"),
    rule(Select(false, x, y), y, ANY, unused="x"),
    *choices(Select),
    rule(_if_then_else(true, x, y), x, ANY, unused="y"),
    rule(_if_then_else(false, x, y), y, ANY, unused="x"),
    *choices(_if_then_else),
    rule(Min(x, x), x, ANY),
    rule(Max(x, x), x, ANY),
    rule(Mul(f, FloatImm("float32", 1.0)), f, FLOAT),
    rule(Mul(FloatImm("float32", 1.0), f), f, FLOAT),
    rule(Div(f, FloatImm("float32", 1.0)), f, FLOAT),
    rule(Sub(f, FloatImm("float32", 0.0)), f, FLOAT),
    rule(Add(f, FloatImm("float32", -0.0)), f, FLOAT),
    rule(Add(FloatImm("float32", -0.0), f), f, FLOAT),
)
