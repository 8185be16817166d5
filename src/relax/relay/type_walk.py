"""Walks over types. A type that stands in many places is visited once, and no walk recurses: types may be deep, and
share so much that they have more paths than anything could follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from ..ir import DataType, Diagnostic, DiagnosticError
from .types import (
    FuncType,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)

WRONG_KIND: Final = "E9046"
"""A type of another kind than its place asks for."""

SHOWN_PARTS: Final = 200
"""Types with more parts are described in messages, not written out."""


def parts_of_type(type_: Type) -> Sequence[Type]:
    """The types directly below one."""
    match type_:
        case TupleType(fields):
            return fields
        case RefType(value):
            return (value,)
        case TypeCall(_, args):
            return args
        case FuncType():
            relations = (arg for relation in type_.type_constraints for arg in relation.args)
            return (*type_.arg_types, type_.ret_type, *relations)
        case _:
            return ()


def with_type_parts(type_: Type, parts: Sequence[Type]) -> Type:
    """The type made of other parts, in the order of `parts_of_type`; itself if they are the same objects."""
    if all(a is b for a, b in zip(parts, parts_of_type(type_), strict=True)):
        return type_
    match type_:
        case TupleType():
            return TupleType(parts)
        case RefType():
            return RefType(parts[0])
        case TypeCall(func):
            return TypeCall(func, parts)
        case FuncType():
            rest = iter(parts)
            args = [next(rest) for _ in type_.arg_types]
            result = next(rest)
            relations = [r.replace(args=tuple(next(rest) for _ in r.args)) for r in type_.type_constraints]
            return FuncType(args, result, type_.type_params, relations)
        case _:
            return type_


class TypeRewriter:
    """Rewrites types by `change`, which gives for each part what stands in its place; the parts of that are next.

    `change` is called once for each object, the outer ones first, and must give the same for the same object.
    """

    def __init__(self, change: Callable[[Type], Type]) -> None:
        self._change = change
        self._changed: dict[int, Type] = {}
        self._results: dict[int, Type] = {}
        self._seen: list[Type] = []
        """The types whose ids are keys: they must not be freed."""

    def __call__(self, type_: Type) -> Type:
        """The type rewritten; itself if nothing changed."""
        stack = [type_]
        while stack:
            item = stack[-1]
            if id(item) in self._results:
                stack.pop()
                continue
            changed = self._changed.get(id(item))
            if changed is None:
                changed = self._changed[id(item)] = self._change(item)
                self._seen += [item, changed]
            parts = parts_of_type(changed)
            missing = [part for part in parts if id(part) not in self._results]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            self._results[id(item)] = with_type_parts(changed, [self._results[id(part)] for part in parts])
        return self._results[id(type_)]


def rewritten(type_: Type, change: Callable[[Type], Type]) -> Type:
    """A type with `change` applied to each part, from the outside in; the parts of what it gives are changed too."""
    return TypeRewriter(change)(type_)


class IncompleteParts:
    """The incomplete types in the types that it has been shown, in order; a part seen before is not visited again.

    `head` gives what is known of a part; by default nothing is.
    """

    def __init__(self, head: Callable[[Type], Type] = lambda part: part) -> None:
        self.found: dict[IncompleteType, None] = {}
        self._head = head
        self._walk = TypeRewriter(self._visit)

    def of(self, type_: Type) -> dict[IncompleteType, None]:
        """Add those of a type; all that were found so far."""
        self._walk(type_)
        return self.found

    def _visit(self, part: Type) -> Type:
        part = self._head(part)
        if isinstance(part, IncompleteType):
            self.found.setdefault(part)
        return part


def substituted(type_: Type, table: Mapping[TypeVar, Any]) -> Type:
    """A type with type variables replaced; those of shapes by tuples or variables, those of dtypes by dtypes.

    Raises DiagnosticError if a variable stands for a shape or a dtype, and something else replaces it.
    """
    if not table:
        return type_

    def change(part: Type) -> Type:
        if isinstance(part, TypeVar):
            return table.get(part, part)
        if isinstance(part, TensorType):
            shape = table.get(part.shape, part.shape) if isinstance(part.shape, TypeVar) else part.shape
            dtype = table.get(part.dtype, part.dtype) if isinstance(part.dtype, TypeVar) else part.dtype
            if isinstance(shape, Type) and not isinstance(shape, TypeVar):
                raise _wrong_kind(part, part.shape, "shape")
            if isinstance(dtype, Type) and not isinstance(dtype, TypeVar):
                raise _wrong_kind(part, part.dtype, "dtype")
            if shape is not part.shape or dtype is not part.dtype:
                return TensorType(cast(Any, shape), cast("DataType | TypeVar", dtype))
        return part

    return rewritten(type_, change)


def _wrong_kind(tensor: TensorType, variable: Any, place: str) -> DiagnosticError:
    hint = "a variable is of one kind: use another one for types"
    message = f"{variable.name_hint} is the {place} of a tensor here, and is given a type"
    return DiagnosticError(Diagnostic(WRONG_KIND, message, tensor.span or variable.span, hint=hint))


def is_complete(type_: Type) -> bool:
    """True if a type has neither incomplete types nor type variables."""
    complete = True

    def visit(part: Type) -> Type:
        nonlocal complete
        variable = isinstance(part, TensorType) and any(
            isinstance(p, TypeVar) for p in (part.shape, part.dtype)
        )
        if variable or isinstance(part, (IncompleteType, TypeVar)):
            complete = False
        return part

    rewritten(type_, visit)
    return complete


class WrittenSizes:
    """The number of parts of types when they are written out, a shared part counted wherever it stands."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._seen: list[Type] = []
        """The types whose ids are keys: they must not be freed."""

    def of(self, type_: Type) -> int:
        """The number for a type; what was counted before is not visited again."""
        stack = [type_]
        while stack:
            item = stack[-1]
            if id(item) in self._sizes:
                stack.pop()
                continue
            parts = parts_of_type(item)
            missing = [part for part in parts if id(part) not in self._sizes]
            if missing:
                stack += missing
                continue
            stack.pop()
            self._seen.append(item)
            self._sizes[id(item)] = 1 + sum(self._sizes[id(part)] for part in parts)
        return self._sizes[id(type_)]


def type_text(type_: Any) -> str:
    """A type in a message: incomplete ones as ``?``, one with too many parts by their number."""
    if isinstance(type_, IncompleteType):
        return "?"
    size = WrittenSizes().of(type_) if isinstance(type_, Type) else 1
    return str(type_) if size <= SHOWN_PARTS else f"a type of {size:,} parts"


__all__ = [
    "SHOWN_PARTS",
    "WRONG_KIND",
    "IncompleteParts",
    "TypeRewriter",
    "WrittenSizes",
    "is_complete",
    "parts_of_type",
    "rewritten",
    "substituted",
    "type_text",
    "with_type_parts",
]  # fmt: skip
