"""Questions that are asked again and again, and their answers.

The layers of a model, and the kernels made of them, ask the same of other sizes and other loops:

    (height + 15) // 16  at its simplest       is    (width + 15) // 16  at its simplest
    i * 4 < n * 4  where  0 ≤ i, i < n         is    j * 4 < m * 4  where  0 ≤ j, j < m

So a question is spelled with its variables numbered, in the order in which they occur, and worked out once for all that
are spelled alike. Its answer must follow from the spelling: not from what was asked before it, nor from facts that say
nothing of its variables.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ..ir import Op
from .expr import BinaryExpr, Call, Cast, FloatImm, IntImm, Not, PrimExpr, Select, Var
from .functor import sub_expressions, substitute

_Answer = TypeVar("_Answer")

KEPT: Final = 4096
"""Maximum number of cached answers; the cache is cleared beyond it."""

LONGEST: Final = 512
"""Maximum number of words of a spelled expression: shared sub-expressions can make it exponentially long."""

_answers: dict[tuple[Any, ...], Any] = {}

_NONE: Final = object()
"""Marker for a missing answer."""


class Spelling(NamedTuple):
    """Expressions as a text in which variables are numbers, and these variables."""

    text: str
    variables: tuple[Var, ...]


class Question(NamedTuple):
    """A question and the facts under which it is asked. Those of the same words differ in their variables alone."""

    words: tuple[Any, ...]
    variables: tuple[Var, ...]


def spelled(expressions: Sequence[PrimExpr], *notes: object) -> Spelling | None:
    """Spelling of expressions, followed by `notes`; None for a long one, or one with non-arithmetic operations (a
    load).
    """
    words: list[str] = []
    numbers: dict[Var, int] = {}
    pending = list(reversed(expressions))
    while pending:
        part = pending.pop()
        if isinstance(part, Var):
            words.append(f"v{numbers.setdefault(part, len(numbers))}")
        elif isinstance(part, IntImm):
            words.append(f"{part.value}:{part.dtype}")
        elif isinstance(part, BinaryExpr):  # all of them are of this room
            words.append(type(part).__name__)
            pending += part.b, part.a
        else:
            word = _word(part)
            if word is None:
                return None
            words.append(word)
            pending += reversed(sub_expressions(part))
        if len(words) > LONGEST:
            return None
    words += [f"{var.dtype}+" if var.nonnegative else var.dtype for var in numbers]
    words += map(str, notes)
    return Spelling(sys.intern(" ".join(words)), tuple(numbers))


def _word(expr: PrimExpr) -> str | None:
    """Word for the root operation of an expression."""
    if isinstance(expr, (Not, Select)):
        return type(expr).__name__
    if isinstance(expr, FloatImm):
        return f"{expr.value.hex()}:{expr.dtype}"
    if isinstance(expr, Cast):
        return f"Cast:{expr.dtype}"
    if isinstance(expr, Call) and isinstance(expr.op, Op):
        return f"{expr.op.name}:{expr.dtype}:{len(expr.args)}"
    return None


def question(what: str, about: Spelling, facts: Sequence[Spelling] = ()) -> Question:
    """The question `what` about expressions, where facts hold, in this order."""
    numbers = {var: number for number, var in enumerate(about.variables)}
    words: list[Any] = [what, about.text]
    for fact in facts:
        words.append(fact.text)
        words.append(tuple([numbers.setdefault(var, len(numbers)) for var in fact.variables]))
    return Question(tuple(words), tuple(numbers))


def answered(asked: Question, answer: Callable[[], _Answer]) -> _Answer:
    """Cached answer to a question whose answer contains no variables: a verdict, not an expression."""
    found = _answers.get(asked.words, _NONE)
    if found is _NONE:
        found = answer()
        _remember(asked, found)
    return found  # type: ignore[return-value]


def rewritten(asked: Question, expr: PrimExpr, rewrite: Callable[[], PrimExpr]) -> PrimExpr:
    """The answer to a question of which expression can stand for `expr`; `expr` itself if that is the answer."""
    found = _answers.get(asked.words, _NONE)
    if found is _NONE:
        result = rewrite()
        if result is expr or not _has_spans(result):  # places in a text are of no other expression
            _remember(asked, None if result is expr else (result, asked.variables))
        return result
    if found is None:
        return expr
    result, variables = found  # type: ignore[misc]
    renamed = {old: new for old, new in zip(variables, asked.variables, strict=True) if old is not new}
    return substitute(result, renamed) if renamed else result


def _remember(asked: Question, answer: object) -> None:
    if len(_answers) >= KEPT:
        _answers.clear()
    _answers[asked.words] = answer


def _has_spans(expr: PrimExpr) -> bool:
    pending, seen = [expr], set[int]()
    while pending:
        part = pending.pop()
        if isinstance(part, Var) or id(part) in seen:
            continue
        if part.span is not None:
            return True
        seen.add(id(part))
        pending += sub_expressions(part)
    return False
