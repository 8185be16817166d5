"""Kinds of types: `relay.analysis.check_kind`.

    Tensor[(2, ?), float32], (a, b), fn(a) -> b, ref(a), List[a]       Type; so are their parts a and b
    a type variable, an incomplete type                                 the kind that it was made with
    List, the name of a type definition                                 AdtHandle
    Broadcast(a, b, c)                                                  Constraint
    type List[a] { … }                                                  TypeData

The shape of a tensor may be a variable of kind ShapeVar, its dtype one of kind BaseType.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..ir import Diagnostic, DiagnosticError, IRModule
from .type_walk import WRONG_KIND, type_text
from .types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeData,
    TypeKind,
    TypeRelation,
    TypeVar,
)

Part = tuple[Type, TypeKind, str]
"""(Type, expected kind, name of its position)."""


def check_kind(t: Type, mod: IRModule | None = None) -> TypeKind:
    """Return the kind of a type. Raises DiagnosticError for every part of an unexpected kind.

    With a module, type definitions must be its own, with the right number of arguments.
    """
    problems: list[Diagnostic] = []
    seen: set[int] = set()
    stack: list[Type] = [t]
    while stack:
        type_ = stack.pop()
        if id(type_) in seen:
            continue
        seen.add(id(type_))
        problems += _definition_problems(type_, mod)
        parts = list(_parts(type_))
        for part, kind, role in parts:
            if kind_of(part) is not kind:
                message = f"{role} must be of kind {kind.name}, found {_shown(part)} of kind {kind_of(part).name}"
                problems.append(Diagnostic(WRONG_KIND, message, part.span or type_.span or t.span))
        stack.extend(part for part, _, _ in reversed(parts))
    if problems:
        raise DiagnosticError(problems)
    return kind_of(t)


def kind_of(type_: Type) -> TypeKind:
    """Kind of a type, without checking its parts."""
    match type_:
        case TypeVar() | GlobalTypeVar() | IncompleteType():
            return type_.kind
        case TypeRelation():
            return TypeKind.Constraint
        case TypeData():
            return TypeKind.TypeData
        case _:
            return TypeKind.Type


def _parts(type_: Type) -> Iterator[Part]:
    kind = TypeKind.Type
    match type_:
        case TensorType(shape, dtype):
            if isinstance(shape, TypeVar):
                yield shape, TypeKind.ShapeVar, "the shape of a tensor"
            if isinstance(dtype, TypeVar):
                yield dtype, TypeKind.BaseType, "the dtype of a tensor"
        case TupleType(fields):
            yield from _required(fields, kind, "a field of a tuple")
        case RefType(value):
            yield value, kind, "the value of a reference"
        case FuncType():
            yield from _required(type_.arg_types, kind, "a parameter of a function")
            yield type_.ret_type, kind, "the result of a function"
            yield from _required(type_.type_constraints, TypeKind.Constraint, "a constraint of a function")
        case TypeRelation():
            yield from _required(type_.args, kind, "an argument of a relation")
        case TypeCall(func, args):
            yield func, TypeKind.AdtHandle, "what is applied to types"
            yield from _required(args, kind, "an argument of a type")
        case TypeData():
            yield type_.header, TypeKind.AdtHandle, "the name of a type definition"
            for constructor in type_.constructors:
                yield from _required(constructor.inputs, kind, f"a field of {constructor.name_hint}")
        case _:
            return


def _required(types: Iterable[Type], kind: TypeKind, role: str) -> Iterator[Part]:
    return ((type_, kind, role) for type_ in types)


def _definition_problems(type_: Type, mod: IRModule | None) -> list[Diagnostic]:
    if mod is None or not isinstance(type_, TypeCall) or not isinstance(type_.func, GlobalTypeVar):
        return []
    name = type_.func.name_hint
    definition = mod.type_definitions.get(type_.func)
    if not isinstance(definition, TypeData):
        return [Diagnostic(WRONG_KIND, f"the module has no type {name}", type_.span)]
    wanted, actual = len(definition.type_vars), len(type_.args)
    if wanted == actual:
        return []
    return [Diagnostic(WRONG_KIND, f"{name} takes {wanted} types, found {actual}", type_.span)]


def _shown(type_: Type) -> str:
    return type_.name_hint if isinstance(type_, GlobalTypeVar) else type_text(type_)


__all__ = ["WRONG_KIND", "check_kind", "kind_of"]
