"""Traversals of types. A shared type is visited once, and no traversal recurses: types may be deep, and have
exponentially many paths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from ..ir import DataType, Diagnostic, DiagnosticError
from .types import FuncType, IncompleteType, RefType, TensorType, TupleType, Type, TypeCall, TypeVar

WRONG_KIND: Final = "E9046"
"""Type of an unexpected kind."""

SHOWN_PARTS: Final = 200
"""Types with more parts are abbreviated in messages."""


def parts_of_type(type_: Type) -> Sequence[Type]:
    """Types directly below a type."""
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
    """Rebuild a type with other parts, in the order of `parts_of_type`; itself if they are the same objects."""
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
    """Rewrites types top-down by `change`, which returns the replacement of each part; its parts are rewritten next.

    `change` is called once per object, outer ones first, and must be deterministic.
    """

    def __init__(self, change: Callable[[Type], Type]) -> None:
        self._change = change
        self._changed: dict[int, Type] = {}
        self._results: dict[int, Type] = {}
        self._seen: list[Type] = []
        """Types whose ids are keys, kept alive."""

    def __call__(self, type_: Type) -> Type:
        """Return the rewritten type; itself if nothing changed."""
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
    """Apply `change` to each part of a type, top-down, including the parts of replacements."""
    return TypeRewriter(change)(type_)


class IncompleteParts:
    """Collects incomplete types in order of occurrence; parts seen before are not visited again.

    `head` resolves a part; by default it is the identity.
    """

    def __init__(self, head: Callable[[Type], Type] = lambda type_: type_) -> None:
        self.found: dict[IncompleteType, None] = {}
        self._head = head
        self._walk = TypeRewriter(self._visit)

    def of(self, type_: Type) -> dict[IncompleteType, None]:
        """Add the incomplete types of `type_` and return all found so far."""
        self._walk(type_)
        return self.found

    def _visit(self, type_: Type) -> Type:
        type_ = self._head(type_)
        if isinstance(type_, IncompleteType):
            self.found.setdefault(type_)
        return type_


def substituted(type_: Type, table: Mapping[TypeVar, Any]) -> Type:
    """Substitute type variables: by types, shapes (tuples or variables), or dtypes according to kind.

    Raises DiagnosticError if a shape or dtype variable is replaced by anything else.
    """
    if not table:
        return type_

    def change(inner: Type) -> Type:
        if isinstance(inner, TypeVar):
            return table.get(inner, inner)
        if isinstance(inner, TensorType):
            shape = table.get(inner.shape, inner.shape) if isinstance(inner.shape, TypeVar) else inner.shape
            dtype = table.get(inner.dtype, inner.dtype) if isinstance(inner.dtype, TypeVar) else inner.dtype
            if isinstance(shape, Type) and not isinstance(shape, TypeVar):
                raise _wrong_kind(inner, inner.shape, "shape")
            if isinstance(dtype, Type) and not isinstance(dtype, TypeVar):
                raise _wrong_kind(inner, inner.dtype, "dtype")
            if shape is not inner.shape or dtype is not inner.dtype:
                return TensorType(cast(Any, shape), cast("DataType | TypeVar", dtype))
        return inner

    return rewritten(type_, change)


def _wrong_kind(tensor: TensorType, variable: Any, role: str) -> DiagnosticError:
    hint = "a variable is of one kind: use another one for types"
    message = f"{variable.name_hint} is the {role} of a tensor here, and is given a type"
    return DiagnosticError(Diagnostic(WRONG_KIND, message, tensor.span or variable.span, hint=hint))


def is_complete(type_: Type) -> bool:
    """True if a type contains neither incomplete types nor type variables."""
    complete = True

    def visit(inner: Type) -> Type:
        nonlocal complete
        variable = isinstance(inner, TensorType) and any(isinstance(p, TypeVar) for p in (inner.shape, inner.dtype))
        if variable or isinstance(inner, (IncompleteType, TypeVar)):
            complete = False
        return inner

    rewritten(type_, visit)
    return complete


class WrittenSizes:
    """Number of parts of types written out in full, counting shared parts at each occurrence."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._seen: list[Type] = []
        """Types whose ids are keys, kept alive."""

    def of(self, type_: Type) -> int:
        """Return the number for a type; results are cached."""
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
    """Format a type for a message: incomplete types as ``?``, large ones by their number of parts."""
    if isinstance(type_, IncompleteType):
        return "?"
    size = WrittenSizes().of(type_) if isinstance(type_, Type) else 1
    return str(type_) if size <= SHOWN_PARTS else f"a type of {size:,} parts"
