"""Exhaustiveness of matches: patterns not covered by the clauses, and unreachable clauses.

The algorithm is Luc Maranget's, "Warnings for pattern matching" (2007), section 3: a row of patterns is useful after
others if it matches some value that no earlier row matches. A pattern is missing if a final wildcard row would be
useful for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ..ir import IRModule
from .adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternWildcard
from .types import TypeData

Row = tuple[Pattern, ...]
WILDCARD = PatternWildcard()


def unmatched_cases(match: Match, mod: IRModule) -> list[Pattern]:
    """Return patterns of values that no clause matches; empty if the match is exhaustive.

    `mod` holds the definitions of the types whose constructors the clauses use.
    """
    rows = [(clause.lhs,) for clause in match.clauses]
    return [case for (case,) in _missing(rows, 1, mod)]


def unreachable_clauses(match: Match, mod: IRModule) -> list[int]:
    """Return the indices of clauses fully covered by earlier clauses."""
    rows: list[Row] = []
    unreachable: list[int] = []
    for i, clause in enumerate(match.clauses):
        if not _useful(rows, (clause.lhs,), mod):
            unreachable.append(i)
        rows.append((clause.lhs,))
    return unreachable


def _missing(rows: Sequence[Row], width: int, mod: IRModule) -> list[Row]:
    """Return rows of patterns that no given row matches; one for each missing constructor."""
    if not width:
        return [] if rows else [()]
    heads = [row[0] for row in rows]
    if any(isinstance(head, PatternTuple) for head in heads):
        count = next(len(head.patterns) for head in heads if isinstance(head, PatternTuple))
        inner = _missing([_opened(row, count) for row in rows], count + width - 1, mod)
        return [(PatternTuple(case[:count]), *case[count:]) for case in inner]
    named = [head.constructor for head in heads if isinstance(head, PatternConstructor)]
    if not named:
        rest = _missing([row[1:] for row in rows], width - 1, mod)
        return [(WILDCARD, *case) for case in rest]
    result: list[Row] = []
    for constructor in _constructors(named[0], mod):
        count = len(constructor.inputs)
        inner = _missing(_specialised(rows, constructor), count + width - 1, mod)
        result += [(PatternConstructor(constructor, case[:count]), *case[count:]) for case in inner]
    return result


def _useful(rows: Sequence[Row], row: Row, mod: IRModule) -> bool:
    """True if the row matches a value that no earlier row matches."""
    if not row:
        return not rows
    match row[0]:
        case PatternTuple(patterns):
            count = len(patterns)
            return _useful([_opened(other, count) for other in rows], (*patterns, *row[1:]), mod)
        case PatternConstructor(constructor, patterns):
            return _useful(_specialised(rows, constructor), (*patterns, *row[1:]), mod)
        case _:
            return _useful_wildcard(rows, row, mod)


def _useful_wildcard(rows: Sequence[Row], row: Row, mod: IRModule) -> bool:
    heads = [other[0] for other in rows]
    wide = next((head for head in heads if isinstance(head, PatternTuple)), None)
    if wide is not None:
        count = len(wide.patterns)
        return _useful([_opened(r, count) for r in rows], (*[WILDCARD] * count, *row[1:]), mod)
    named = [head.constructor for head in heads if isinstance(head, PatternConstructor)]
    if not named:
        return _useful([other[1:] for other in rows], row[1:], mod)
    return any(
        _useful(_specialised(rows, c), (*[WILDCARD] * len(c.inputs), *row[1:]), mod)
        for c in _constructors(named[0], mod)
    )


def _opened(row: Row, count: int) -> Row:
    """Replace the tuple pattern at the head of a row by the patterns of its fields."""
    head = row[0]
    fields = head.patterns if isinstance(head, PatternTuple) else (WILDCARD,) * count
    return (*fields, *row[1:])


def _specialised(rows: Sequence[Row], constructor: Constructor) -> list[Row]:
    """Rows that match values of a constructor, with the patterns of its fields in front."""
    result: list[Row] = []
    for row in rows:
        head = row[0]
        if isinstance(head, PatternConstructor):
            if head.constructor is constructor:
                result.append((*head.patterns, *row[1:]))
        else:
            result.append((*[WILDCARD] * len(constructor.inputs), *row[1:]))
    return result


def _constructors(constructor: Constructor, mod: IRModule) -> Sequence[Constructor]:
    for key, definition in mod.type_definitions.items():
        if key == constructor.belong_to:
            return cast("Sequence[Constructor]", cast(TypeData, definition).constructors)
    return (constructor,)
