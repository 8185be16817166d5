"""Size arithmetic that the machine interprets, so that a program needs no code of its own for it.

    vm.builtin.compute_sizes(heap, "s0 1 + 2 // =3")        slot 3 = (slot 0 + 1) // 2

Words are in postfix order: a number, ``s0`` (the contents of slot 0), ``+ - * // % min max``, and ``=3`` (store into
slot 3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from .builtin_table import Effects, builtin
from .heap import Heap

OPERATIONS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
}
"""Operations on two numbers."""
_MAY_OVERFLOW: Final = frozenset("+-*")
_RANKS: Final = {"+": 0, "-": 0, "*": 1, "//": 1, "%": 1}
"""Precedence of operations; the others are written as calls."""
_ATOM: Final = 2

_Step: TypeAlias = "tuple[str, Callable[[int, int], int] | None, int]"
"""Kind of a word, its operation, and its number or slot."""


@builtin("vm.builtin.compute_sizes", Effects(writes=(0,)), pure=False, closures=True)
def compute_sizes(heap: Heap, code: str) -> None:
    """Compute slots of a shape heap from others.

    Raises OverflowError for a number that does not fit into 64 bits, ZeroDivisionError for a division by zero, and
    ValueError or IndexError for code that VMShapeLower does not write.
    """
    slots, stack = Heap.over(heap), list[int]()
    steps = _steps(code)
    for place, (kind, operation, number) in enumerate(steps):
        if operation is not None:
            right = stack.pop()
            stack[-1] = operation(stack[-1], right)
            if kind in _MAY_OVERFLOW and not -(1 << 63) <= stack[-1] < 1 << 63:
                raise OverflowError(f"a size does not fit into 64 bits: {_text(slots, steps[: place + 1])}")
        elif kind == "s":
            stack.append(int(slots.load(number, False)))
        elif kind == "=":
            slots.store(number, stack.pop())
        else:
            stack.append(number)


@lru_cache(maxsize=4096)
def _steps(code: str) -> tuple[_Step, ...]:
    return tuple(map(_step, code.split()))


def _step(word: str) -> _Step:
    operation = OPERATIONS.get(word)
    if operation is not None:
        return word, operation, 0
    if word[0] in "s=":
        return word[0], None, int(word[1:])
    return "", None, int(word)


def _text(heap: Heap, steps: Sequence[_Step]) -> str:
    """The expression whose last operation is the last step, as TVMScript writes it."""
    stack: list[tuple[str, int]] = []
    for kind, operation, number in steps:
        if operation is None:
            if kind == "=":
                stack.pop()
            else:
                stack.append((heap.name(number) if kind == "s" else str(number), _ATOM))
            continue
        (left, above), (right, below) = stack[-2:]
        rank = _RANKS.get(kind, _ATOM)
        if rank == _ATOM:
            text = f"T.{kind}({left}, {right})"
        else:
            text = f"{_wrapped(left, above < rank)} {kind} {_wrapped(right, below <= rank)}"
        stack[-2:] = [(text, rank)]
    return stack[-1][0]


def _wrapped(text: str, needed: bool) -> str:
    return f"({text})" if needed else text
