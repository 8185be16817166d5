"""Size arithmetic as words in postfix order, for `runtime.size_code` and `runtime.debug_info`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ..prim import Add, BinaryExpr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, PrimExpr, Sub, Var

WORDS: Final[Mapping[type[PrimExpr], str]] = {
    Add: "+",
    Sub: "-",
    Mul: "*",
    FloorDiv: "//",
    FloorMod: "%",
    Min: "min",
    Max: "max",
}
"""Names of operations."""

MOST_WORDS: Final = 1_000


def size_code(stores: Mapping[int, PrimExpr], slots: Mapping[Var, int]) -> str | None:
    """Code of ``vm.builtin.compute_sizes``, which stores each expression into a slot.

    Returns None for an expression with other operations, of another dtype than int64, or that may divide by zero.
    """
    words: list[str] = []
    for slot, value in stores.items():
        for expr in _postfix(value):
            word = _word(expr, slots)
            if word is None or len(words) > MOST_WORDS:
                return None
            words.append(word)
        words.append(f"={slot}")
    return " ".join(words)


def _postfix(expr: PrimExpr) -> Iterator[PrimExpr]:
    """Subexpressions, operands before their operation."""
    if isinstance(expr, BinaryExpr):
        yield from _postfix(expr.a)
        yield from _postfix(expr.b)
    yield expr


def _word(expr: PrimExpr, slots: Mapping[Var, int]) -> str | None:
    """Word of a number, a variable, or an operation on two numbers; None if there is none."""
    if expr.dtype != "int64":
        return None
    match expr:
        case IntImm(value=value):
            return str(value)
        case Var() if expr in slots:
            return f"s{slots[expr]}"
        case FloorDiv(b=divisor) | FloorMod(b=divisor):
            return WORDS[type(expr)] if isinstance(divisor, IntImm) and divisor.value > 0 else None
        case _:
            return WORDS.get(type(expr))
