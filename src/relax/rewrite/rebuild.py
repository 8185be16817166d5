"""Helpers for passes that rebuild expressions whose struct info stays valid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ..ir import RelaxExpr, StructInfo, update_struct_info

T = TypeVar("T")
ExprT = TypeVar("ExprT", bound=RelaxExpr)


def with_info(expr: ExprT, info: StructInfo) -> ExprT:
    """The expression, newly made, with its struct info written."""
    update_struct_info(expr, info)
    return expr


def carry_info(old: RelaxExpr, new: ExprT) -> ExprT:
    """A rebuilt expression with the struct info of the one it replaces, which still holds."""
    if new is old or old.struct_info_ is None or new.struct_info_ is not None:
        return new
    return with_info(new, old.struct_info_)


def same_or(old: tuple[T, ...], new: Sequence[T]) -> tuple[T, ...]:
    """The old tuple if the new items are the very same objects, so that what did not change is shared."""
    same = len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))
    return old if same else tuple(new)
