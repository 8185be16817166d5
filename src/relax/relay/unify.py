"""Unification of types, and relations that wait for the types they depend on.

`Unifier.unify(a, b)` makes two types equal by solving `IncompleteType`s. `resolve(t)` substitutes the solutions in a
type. A relation maps known input types to output types; `settle` applies it as soon as its inputs are complete, and
unifies the outputs.

Each incomplete type has a level: the number of functions around its origin. Types of a function bound by `let` have a
higher level than the enclosing scope, unless unified with a type of it, and can be generalised (Didier Rémy, "Extension
of ML type system with a sorted equation theory on types", 1992).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from ..ir import Diagnostic, DiagnosticError, Span
from ..prim import PrimExpr, Verdict, prove_equal
from ..runtime.records import dataclass
from .type_walk import IncompleteParts, is_complete, rewritten, type_text
from .types import Any as AnyDim
from .types import FuncType, IncompleteType, RefType, TensorType, TupleType, Type, TypeCall, TypeKind, TypeVar

MISMATCH = "E9040"
"""Two types that must be equal are not."""

Rule = Callable[[tuple[Type, ...], Any, "Span | None"], Type]
Suggest = Callable[[Type, Any], Sequence[Type]]


class MismatchError(Exception):
    """Two types cannot be unified; holds the parts that differ."""

    def __init__(self, a: Any, b: Any) -> None:
        super().__init__(a, b)
        self.a = a
        self.b = b


@dataclass(eq=False)
class Pending:
    """Pending relation whose output is `rule(inputs)` once the inputs are complete."""

    name: str
    inputs: tuple[Type, ...]
    output: Type
    attrs: Any
    rule: Rule
    span: Span | None
    suggest: Suggest | None = None
    """Derives the types of the other inputs from the first one."""


@dataclass(eq=False)
class Unifier:
    """Incomplete types and their solutions."""

    found: dict[IncompleteType, Type] = field(default_factory=dict[IncompleteType, Type])
    levels: dict[IncompleteType, int] = field(default_factory=dict[IncompleteType, int])
    pending: list[Pending] = field(default_factory=list[Pending])
    flexible: dict[TypeVar, Any] = field(default_factory=dict[TypeVar, Any])
    """Type variables for unknown shapes and dtypes, with their solutions (None while unknown)."""

    def fresh(self, level: int, kind: TypeKind = TypeKind.Type) -> IncompleteType:
        """Create an incomplete type at a level."""
        unknown = IncompleteType(kind)
        self.levels[unknown] = level
        return unknown

    def fresh_part(self, kind: TypeKind) -> TypeVar:
        """Create a variable for an unknown shape or dtype."""
        variable = TypeVar("s" if kind is TypeKind.ShapeVar else "t", kind)
        self.flexible[variable] = None
        return variable

    def head(self, type_: Type) -> Type:
        """Resolve the head of a type: an incomplete type, shape or dtype is replaced by its solution."""
        seen: list[IncompleteType] = []
        while isinstance(type_, IncompleteType) and type_ in self.found:
            seen.append(type_)
            type_ = self.found[type_]
        for item in seen[:-1]:
            self.found[item] = type_
        if isinstance(type_, TensorType) and self.flexible:
            shape, dtype = self._solved_part(type_.shape), self._solved_part(type_.dtype)
            if shape is not type_.shape or dtype is not type_.dtype:
                return TensorType(shape, dtype)
        return type_

    def _solved_part(self, part: Any) -> Any:
        while isinstance(part, TypeVar) and self.flexible.get(part) is not None:
            part = self.flexible[part]
        return part

    def resolve(self, type_: Type) -> Type:
        """Substitute all solutions in a type; return it unchanged if there are none."""
        return rewritten(type_, self.head)

    def argument(self, part: Any, resolved: Callable[[Type], Type]) -> Any:
        """Resolve a type argument, which may be a shape or dtype."""
        part = self._solved_part(part)
        return resolved(part) if isinstance(part, Type) else part

    def incomplete(self, *types: Type) -> dict[IncompleteType, None]:
        """Unsolved incomplete types in types, in order."""
        collector = IncompleteParts(self.head)
        for type_ in types:
            collector.of(type_)
        return collector.found

    def mentions(self, relation: Pending, items: Sequence[IncompleteType]) -> bool:
        """True if a relation depends on one of some unsolved incomplete types."""
        inside = self.incomplete(*relation.inputs, relation.output)
        return any(item in inside for item in items)

    # -- equations

    def equal(self, expected: Type, actual: Type, span: Span | None, subject: str) -> None:
        """Unify two types. Raises DiagnosticError (E9040) if they cannot be."""
        try:
            self.unify(expected, actual)
        except MismatchError as error:
            whole = type_text(self.resolve(expected)), type_text(self.resolve(actual))
            notes = [f"expected {whole[0]}", f"found {whole[1]}"]
            mismatch = type_text(error.a), type_text(error.b)
            if mismatch != whole:
                notes.append(f"{mismatch[0]} is not {mismatch[1]}")
            raise DiagnosticError(
                Diagnostic(MISMATCH, f"{subject} has another type than expected", span, notes=tuple(notes))
            ) from None

    def unify(self, a: Type, b: Type) -> None:
        """Unify two types. Raises MismatchError."""
        stack: list[tuple[Any, Any]] = [(a, b)]
        # Shared parts are compared once; the pairs keep the objects of the ids alive.
        met: dict[tuple[int, int], tuple[Any, Any]] = {}
        while stack:
            x, y = stack.pop()
            x, y = self.head(x), self.head(y)
            if x is y or (id(x), id(y)) in met:
                continue
            met[id(x), id(y)] = x, y
            if isinstance(x, IncompleteType):
                self._bind(x, y)
            elif isinstance(y, IncompleteType):
                self._bind(y, x)
            else:
                stack += self._part_equations(x, y)

    def _bind(self, var: IncompleteType, type_: Type) -> None:
        inner = self.incomplete(type_)
        if var in inner:
            raise MismatchError(var, self.resolve(type_))
        level = self.levels.get(var, 0)
        for item in inner:
            self.levels[item] = min(self.levels.get(item, 0), level)
        self.found[var] = type_

    def _part_equations(self, x: Type, y: Type) -> list[tuple[Type, Type]]:
        """Equations between the parts of two types of one kind."""
        match x, y:
            case TensorType(), TensorType():
                self._tensors(x, y)
                return []
            case TupleType(xs), TupleType(ys) if len(xs) == len(ys):
                return list(zip(xs, ys, strict=True))
            case RefType(v), RefType(w):
                return [(v, w)]
            case TypeCall(f, xs), TypeCall(g, ys) if f == g and len(xs) == len(ys):
                return list(zip(xs, ys, strict=True))
            case FuncType(), FuncType() if len(x.arg_types) == len(y.arg_types):
                if x.type_params or y.type_params:
                    if x == y:
                        return []
                    raise MismatchError(x, y)
                return [*zip(x.arg_types, y.arg_types, strict=True), (x.ret_type, y.ret_type)]
            case _:
                if x == y:
                    return []
                raise MismatchError(x, y)

    def _tensors(self, x: TensorType, y: TensorType) -> None:
        if not self._parts_meet(x.dtype, y.dtype) and x.dtype != y.dtype:
            raise MismatchError(x, y)
        if self._parts_meet(x.shape, y.shape):
            return
        if isinstance(x.shape, TypeVar) or isinstance(y.shape, TypeVar):
            raise MismatchError(x, y)
        if len(x.shape) != len(y.shape):
            raise MismatchError(x, y)
        for a, b in zip(x.shape, y.shape, strict=True):
            if not isinstance(a, AnyDim) and not isinstance(b, AnyDim) and not _may_be_equal(a, b):
                raise MismatchError(x, y)

    def _parts_meet(self, x: Any, y: Any) -> bool:
        """Unify two shapes or dtypes if one of them is unknown; True if that solves the equation."""
        if x is y:
            return True
        for part, other in ((x, y), (y, x)):
            if isinstance(part, TypeVar) and part in self.flexible:
                self.flexible[part] = other
                return True
        return False

    # -- relations

    def relate(self, relation: Pending) -> None:
        """Add a relation; it is solved immediately if its inputs are complete."""
        if not self._ask(relation):
            self.pending.append(relation)

    def settle(self) -> None:
        """Solve relations whose inputs have become complete, to a fixed point."""
        progress = True
        while progress and self.pending:
            waiting, self.pending = self.pending, []
            unsolved = [relation for relation in waiting if not self._ask(relation)]
            progress = len(unsolved) < len(waiting)
            self.pending = unsolved + self.pending

    def _ask(self, relation: Pending) -> bool:
        inputs = self._inputs(relation)
        if not all(map(is_complete, inputs)):
            return False
        output = relation.rule(inputs, relation.attrs, relation.span)
        self.equal(relation.output, output, relation.span, f"the result of {relation.name}")
        return True

    def _inputs(self, relation: Pending) -> tuple[Type, ...]:
        """Resolved inputs of a relation, including those derived from the first one."""
        inputs = tuple(self.resolve(item) for item in relation.inputs)
        missing = [i for i, item in enumerate(inputs) if not is_complete(item)]
        if not missing or missing[0] == 0 or relation.suggest is None:
            return inputs
        for i, told in enumerate(relation.suggest(inputs[0], relation.attrs), 1):
            if i in missing:
                self.equal(inputs[i], told, relation.span, f"operand {i} of {relation.name}")
        return tuple(self.resolve(item) for item in relation.inputs)


def _may_be_equal(a: PrimExpr, b: PrimExpr) -> bool:
    return prove_equal(a, b) != Verdict.NO
