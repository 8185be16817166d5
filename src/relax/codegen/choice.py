"""Selection between two values: straight-line code if evaluating both is harmless, else a branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from ..native.formula import Val
from ..prim import Add, BinaryExpr, Call, Mul, PrimExpr, Sub, post_order
from ..prim.intervals import within
from ..prim.intrin import is_pure
from ..prim.traits import has_effects
from ..tir import BufferLoad
from . import division
from .context import Context

MOST_DOUBTS: Final = 64
"""Maximum number of loads per function on which the prover may fail. A tree of choices, such as a concatenation of many
tensors, has one load per choice; beyond the limit, a load that interval arithmetic cannot bound is written as a branch.
"""


def needs_care(cx: Context, expr: PrimExpr) -> bool:
    """True if evaluating an expression may fail or have effects, so that it must be evaluated only when needed."""
    found = False

    def visit(part: PrimExpr) -> None:
        nonlocal found
        found = found or _is_delicate(cx, part)

    post_order(expr, visit)
    return found


def _is_delicate(cx: Context, expr: PrimExpr) -> bool:
    if isinstance(expr, Call):
        return not is_pure(expr) or expr.intrinsic == "call_pure_extern"
    if isinstance(expr, BufferLoad):
        if cx.plain:  # a pointer may be null
            return expr.buffer.scope != "local"
        return not _surely_in_bounds(cx, expr)
    if cx.exact and isinstance(expr, (Add, Sub, Mul)) and expr.dtype == "int64":
        return not within(cx.facts.range(expr), expr.dtype)
    return type(expr) in division.KINDS and expr.dtype.is_integer and not cx.facts.nonzero(cast(BinaryExpr, expr).b)


def _surely_in_bounds(cx: Context, expr: BufferLoad) -> bool:
    if expr.dtype.lanes != 1:
        return not expr.indices
    ask = cx.facts.in_bounds if cx.doubts < MOST_DOUBTS else cx.facts.evidently_in_bounds
    sure = all(all(ask(i, size)) for i, size in zip(expr.indices, expr.buffer.shape, strict=True))
    cx.doubts += not sure
    return sure


def choice(cx: Context, condition: PrimExpr, if_true: PrimExpr, if_false: PrimExpr) -> Val:
    """Select one of two values; the other is not evaluated if it might fail."""
    c = cx.value(condition)
    if c.ref in ("true", "false"):
        holds = c.ref == "true"
        with cx.facts.condition(condition, holds):
            return cx.value(if_true if holds else if_false)
    if c.lanes > 1 or not (needs_care(cx, if_true) or needs_care(cx, if_false)):
        return c.choose(cx.value(if_true), cx.value(if_false))
    stable = not any(has_effects(part) for part in (condition, if_true, if_false))
    return either(cx, condition, c, lambda: cx.value(if_true), lambda: cx.value(if_false), stable)


def either(
    cx: Context, condition: PrimExpr, c: Val, if_true: Callable[[], Val], if_false: Callable[[], Val], stable: bool
) -> Val:
    """Branch, evaluate one of two values, and join. `stable`: no part changes memory."""
    b = cx.b
    then, otherwise, join = b.label("then"), b.label("else"), b.label("join")
    b.branch_if(c.ref, then, otherwise)
    arms: list[tuple[Val, str]] = []
    for label, compute, holds in ((then, if_true, True), (otherwise, if_false, False)):
        b.start(label)
        with cx.sometimes(), cx.facts.condition(condition, holds, stable):
            result = compute()
        arms.append((result, b.block))
        b.branch(join)
    b.start(join)
    like = arms[0][0]
    incoming = ", ".join(f"[ {result.ref}, %{block} ]" for result, block in arms)
    return like.make(f"phi {like.full_type} {incoming}")
