"""Symbolic contents of the shape heap during compilation: origins of slots, and facts derived from them.

    heap[0] = T.cell_dim(r[0], 0)           a size
    heap[1] = (heap[0] + 3) // 4            a size as well, by proof
    heap[2] = heap[0] * 4                   a multiple of 4

Shape arithmetic is exact: 64-bit overflow raises an error. So the number in a slot is the value of its expression over
the integers, and proofs about the expression hold for the slot.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

from ..ir import Node, walk
from ..prim import Add, Analyzer, IntImm, Max, Min, Mul, PrimExpr, SizeVar, Sub, Var, free_vars, substitute
from ..prim.totality import is_surely_size
from ..tir import Buffer, BufferLoad, BufferStore, LetStmt, Stmt

MOST_PAIRS: Final = 64
"""Maximum number of pairs of expressions that are compared one by one for two maxima."""


class Slots:
    """Slots of a shape heap: the ones known to hold sizes, and the computations of derived ones."""

    def __init__(self, heap: Buffer | None = None) -> None:
        self.heap = heap
        self._sizes: set[int] = set()
        self._definitions: dict[int, PrimExpr] = {}
        """By slot: expressions over the variables in `_origins`."""
        self._origins: dict[Var, int] = {}
        """The slots which the variables of shape functions are read from."""
        self._meanings: dict[int, PrimExpr] = {}

    @cached_property
    def _analyzer(self) -> Analyzer:
        return Analyzer()

    # ------------------------------------------------------------------------------------- facts

    def define(self, body: Stmt) -> None:
        """Record the values a shape function stores into the heap."""

        def visit(node: Node) -> None:
            if isinstance(node, LetStmt) and node.var.dtype == "int64":
                slot = self.slot_of(node.value)
                if slot is not None:
                    self._origins[node.var] = slot
            elif isinstance(node, BufferStore) and node.buffer is self.heap:
                index, value = node.indices[0], node.value
                if isinstance(index, IntImm) and all(var in self._origins for var in free_vars(value)):
                    self._definitions[index.value] = value

        walk(body, visit)

    def add_size(self, slot: int) -> None:
        """Record that a slot holds a size from here on."""
        if slot not in self._sizes:
            self._sizes.add(slot)
            self._meanings.clear()

    def sizes(self) -> frozenset[int]:
        """Slots recorded as sizes, for `restore`."""
        return frozenset(self._sizes)

    def restore(self, sizes: frozenset[int]) -> None:
        """Reset the slots recorded as sizes to an earlier set."""
        if len(sizes) != len(self._sizes):
            self._sizes = set(sizes)
            self._meanings.clear()

    # ----------------------------------------------------------------------------------- answers

    def slot_of(self, expr: PrimExpr) -> int | None:
        """Slot that an expression loads; None for other expressions."""
        if isinstance(expr, BufferLoad) and expr.buffer is self.heap and isinstance(expr.indices[0], IntImm):
            return expr.indices[0].value
        return None

    def is_size(self, expr: PrimExpr) -> bool:
        """True if a number is provably a valid dimension."""
        slot = self.slot_of(expr)
        return slot in self._sizes or ((slot is not None or isinstance(expr, IntImm)) and self._is_size(expr))

    def _is_size(self, expr: PrimExpr) -> bool:
        return is_surely_size(self.meaning(expr))

    def is_multiple(self, expr: PrimExpr, unit: int) -> bool:
        """True if `expr` is provably a multiple of `unit`."""
        match expr:
            case IntImm(value=value):
                return value % unit == 0
            case Mul(a, b):
                return self.is_multiple(a, unit) or self.is_multiple(b, unit)
            case Add(a, b) | Sub(a, b) | Max(a, b) | Min(a, b):
                return self.is_multiple(a, unit) and self.is_multiple(b, unit)
            case _:
                slot = self.slot_of(expr)
                definition = None if slot is None else self._definitions.get(slot)
                return unit == 1 or (definition is not None and self.is_multiple(definition, unit))

    def meaning(self, expr: PrimExpr, other: Callable[[PrimExpr], PrimExpr] | None = None) -> PrimExpr:
        """Meaning of an expression: slots are replaced by their computations over variables for matched slots.

        `other` maps all other leaves; it may be omitted if there are none.
        """
        match expr:
            case IntImm():
                return expr
            case Add(a, b) | Sub(a, b) | Mul(a, b):
                return type(expr)(self.meaning(a, other), self.meaning(b, other))
            case _:
                slot = self.slot_of(expr)
                if slot is not None:
                    return self._meaning_of(slot)
                return expr if other is None else other(expr)

    def _meaning_of(self, slot: int) -> PrimExpr:
        if slot not in self._meanings:
            definition = self._definitions.get(slot)
            if definition is None or definition.dtype != "int64":
                meaning = (SizeVar if slot in self._sizes else Var)(f"slot{slot}", "int64")
            else:
                values = {var: self._meaning_of(self._origins[var]) for var in free_vars(definition)}
                meaning = substitute(definition, values)
            self._meanings[slot] = meaning
        return self._meanings[slot]

    def are_equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        """True if two meanings are provably equal."""
        return self._analyzer.can_prove_equal(a, b)

    def is_at_most(self, a: PrimExpr, b: PrimExpr) -> bool:
        """True if meaning `a` is provably at most `b`.

        Maxima are compared by their operands: each operand of `a` must be at most one of `b`.
        """
        if _operand_count(a) * _operand_count(b) > MOST_PAIRS:
            return self._analyzer.can_prove_less_equal(a, b)
        above = _operands(b)
        return all(any(self._analyzer.can_prove_less_equal(low, high) for high in above) for low in _operands(a))


def _operand_count(expr: PrimExpr) -> int:
    """Number of expressions that `_operands` returns, which grows with the product for sums of maxima."""
    match expr:
        case Max(a, b):
            return _operand_count(a) + _operand_count(b)
        case Add(a, b):
            return _operand_count(a) * _operand_count(b)
        case _:
            return 1


def _operands(expr: PrimExpr) -> list[PrimExpr]:
    """Return expressions whose maximum is `expr`: operands of nested maxima, plus what is added to the maxima."""
    match expr:
        case Max(a, b):
            return [*_operands(a), *_operands(b)]
        case Add(a, b):
            return [x + y for x in _operands(a) for y in _operands(b)]
        case _:
            return [expr]
