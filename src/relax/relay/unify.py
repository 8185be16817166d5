"""Equations between types, and relations that wait until the types they depend on are known.

`Unifier.unify(a, b)` makes two types equal: an `IncompleteType` becomes the other type. `resolve(t)` is a type with
all that is known of it put in. A relation is a function from known types to other types; `settle` asks it as soon as
its inputs are complete, and unifies what it says with its outputs.

Each incomplete type has a level: the number of functions around the place that it was made for. Those of a function
that is bound by `let` have a higher level than what is around, unless they are equal to something there; they can be
generalised (Didier Rémy, "Extension of ML type system with a sorted equation theory on types", 1992).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ..ir import DataType, Diagnostic, DiagnosticError, Span
from ..prim import PrimExpr, Verdict, prove_equal
from .types import Any as AnyDim
from .types import (
    FuncType,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeKind,
    TypeRelation,
    TypeVar,
)

MISMATCH = "E9040"
"""Two types that must be equal and are not."""

Rule = Callable[[tuple[Type, ...], Any, "Span | None"], Type]


class MismatchError(Exception):
    """Two types that cannot be equal; the parts that differ."""

    def __init__(self, a: Any, b: Any) -> None:
        super().__init__(a, b)
        self.a = a
        self.b = b


@dataclass(eq=False)
class Pending:
    """A relation whose output is `rule(inputs)` once the inputs are complete."""

    name: str
    inputs: tuple[Type, ...]
    output: Type
    attrs: Any
    rule: Rule
    span: Span | None


@dataclass(eq=False)
class Unifier:
    """Incomplete types and what they turned out to be."""

    found: dict[IncompleteType, Type] = field(default_factory=dict[IncompleteType, Type])
    levels: dict[IncompleteType, int] = field(default_factory=dict[IncompleteType, int])
    pending: list[Pending] = field(default_factory=list[Pending])
    flexible: dict[TypeVar, Any] = field(default_factory=dict[TypeVar, Any])
    """Type variables that stand for a shape or a dtype still to be found, and what it is; None while it is not."""

    def fresh(self, level: int, kind: TypeKind = TypeKind.Type) -> IncompleteType:
        """A new incomplete type of a level."""
        made = IncompleteType(kind)
        self.levels[made] = level
        return made

    def fresh_part(self, kind: TypeKind) -> TypeVar:
        """A new variable for a shape or a dtype to be found."""
        made = TypeVar("s" if kind is TypeKind.ShapeVar else "t", kind)
        self.flexible[made] = None
        return made

    def head(self, type_: Type) -> Type:
        """The type itself, or what an incomplete type, shape or dtype is known to be."""
        seen: list[IncompleteType] = []
        while isinstance(type_, IncompleteType) and type_ in self.found:
            seen.append(type_)
            type_ = self.found[type_]
        for item in seen[:-1]:
            self.found[item] = type_
        if isinstance(type_, TensorType) and self.flexible:
            shape, dtype = self._part(type_.shape), self._part(type_.dtype)
            if shape is not type_.shape or dtype is not type_.dtype:
                return TensorType(shape, dtype)
        return type_

    def _part(self, part: Any) -> Any:
        while isinstance(part, TypeVar) and self.flexible.get(part) is not None:
            part = self.flexible[part]
        return part

    def resolve(self, type_: Type) -> Type:
        """The type with everything known put in; itself if nothing is."""
        return rewritten(type_, self.head)

    def incomplete(self, *types: Type) -> dict[IncompleteType, None]:
        """The incomplete types that are left in types, in order."""
        left: dict[IncompleteType, None] = {}

        def visit(part: Type) -> Type:
            part = self.head(part)
            if isinstance(part, IncompleteType):
                left.setdefault(part)
            return part

        for type_ in types:
            rewritten(type_, visit)
        return left

    # -- equations

    def equal(self, expected: Type, found: Type, span: Span | None, what: str) -> None:
        """Make two types equal. Raises DiagnosticError (E9040) if they cannot be."""
        try:
            self.unify(expected, found)
        except MismatchError as error:
            whole = type_text(self.resolve(expected)), type_text(self.resolve(found))
            notes = [f"expected {whole[0]}", f"found {whole[1]}"]
            parts = type_text(error.a), type_text(error.b)
            if parts != whole:
                notes.append(f"{parts[0]} is not {parts[1]}")
            raise DiagnosticError(
                Diagnostic(MISMATCH, f"{what} has another type than expected", span, notes=tuple(notes))
            ) from None

    def unify(self, a: Type, b: Type) -> None:
        """Make two types equal. Raises MismatchError."""
        stack: list[tuple[Any, Any]] = [(a, b)]
        while stack:
            x, y = stack.pop()
            x, y = self.head(x), self.head(y)
            if x is y:
                continue
            if isinstance(x, IncompleteType):
                self._bind(x, y)
            elif isinstance(y, IncompleteType):
                self._bind(y, x)
            else:
                stack += self._parts(x, y)

    def _bind(self, var: IncompleteType, type_: Type) -> None:
        inner = self.incomplete(type_)
        if var in inner:
            raise MismatchError(var, self.resolve(type_))
        level = self.levels.get(var, 0)
        for item in inner:
            self.levels[item] = min(self.levels.get(item, 0), level)
        self.found[var] = type_

    def _parts(self, x: Type, y: Type) -> list[tuple[Type, Type]]:
        """The equations between the parts of two types of one kind."""
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
        """Make two shapes or dtypes equal if one of them is still to be found; True if that settles it."""
        if x is y:
            return True
        for part, other in ((x, y), (y, x)):
            if isinstance(part, TypeVar) and part in self.flexible:
                self.flexible[part] = other
                return True
        return False

    # -- relations

    def relate(self, relation: Pending) -> None:
        """Add a relation; it is asked at once if its inputs are complete."""
        if not self._ask(relation):
            self.pending.append(relation)

    def settle(self) -> None:
        """Ask the relations whose inputs have become complete, until none is left of them."""
        progress = True
        while progress and self.pending:
            waiting, self.pending = self.pending, []
            left = [relation for relation in waiting if not self._ask(relation)]
            progress = len(left) < len(waiting)
            self.pending = left + self.pending

    def _ask(self, relation: Pending) -> bool:
        inputs = tuple(self.resolve(item) for item in relation.inputs)
        if not all(map(is_complete, inputs)):
            return False
        output = relation.rule(inputs, relation.attrs, relation.span)
        self.equal(relation.output, output, relation.span, f"the result of {relation.name}")
        return True


def _may_be_equal(a: PrimExpr, b: PrimExpr) -> bool:
    return prove_equal(a, b) != Verdict.NO


def is_complete(type_: Type) -> bool:
    """True if nothing of a type is left open that a relation would have to know: no incomplete types, no variables."""
    complete = True

    def visit(part: Type) -> Type:
        nonlocal complete
        open_shape = isinstance(part, TensorType) and isinstance(part.shape, TypeVar)
        open_dtype = isinstance(part, TensorType) and isinstance(part.dtype, TypeVar)
        if isinstance(part, (IncompleteType, TypeVar)) or open_shape or open_dtype:
            complete = False
        return part

    rewritten(type_, visit)
    return complete


def rewritten(type_: Type, change: Callable[[Type], Type]) -> Type:
    """A type with `change` applied to each part, from the outside in; the parts of what it gives are changed too."""
    type_ = change(type_)
    match type_:
        case TupleType(fields):
            new: Any = tuple(rewritten(item, change) for item in fields)
            return type_ if _same(new, fields) else TupleType(new)
        case RefType(value):
            new = rewritten(value, change)
            return type_ if new is value else RefType(new)
        case TypeCall(func, args):
            new = tuple(rewritten(item, change) for item in args)
            return type_ if _same(new, args) else TypeCall(func, new)
        case FuncType():
            args = tuple(rewritten(item, change) for item in type_.arg_types)
            ret = rewritten(type_.ret_type, change)
            relations = tuple(
                relation.replace(args=tuple(rewritten(item, change) for item in relation.args))
                for relation in type_.type_constraints
            )
            if _same(args, type_.arg_types) and ret is type_.ret_type and not relations:
                return type_
            return FuncType(args, ret, type_.type_params, relations)
        case _:
            return type_


def _same(new: Iterable[object], old: Iterable[object]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))


def substituted(type_: Type, table: Mapping[TypeVar, Any]) -> Type:
    """A type with type variables replaced; those of shapes by tuples or variables, those of dtypes by dtypes."""
    if not table:
        return type_

    def change(part: Type) -> Type:
        if isinstance(part, TypeVar):
            return table.get(part, part)
        if isinstance(part, TensorType):
            shape = table.get(part.shape, part.shape) if isinstance(part.shape, TypeVar) else part.shape
            dtype = table.get(part.dtype, part.dtype) if isinstance(part.dtype, TypeVar) else part.dtype
            if shape is not part.shape or dtype is not part.dtype:
                return TensorType(cast(Any, shape), cast("DataType | TypeVar", dtype))
        return part

    return rewritten(type_, change)


def type_text(type_: Any) -> str:
    """A type as text, incomplete ones as ``?``."""
    return "?" if isinstance(type_, IncompleteType) else str(type_)


__all__ = [
    "MISMATCH", "MismatchError", "Pending", "Rule", "TypeRelation", "Unifier", "is_complete", "rewritten",
    "substituted", "type_text",
]  # fmt: skip
