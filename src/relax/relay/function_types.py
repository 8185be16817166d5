"""Types of annotated functions, of constructors, and of tuple fields."""

from __future__ import annotations

from typing import TypeGuard, cast

from ..ir import Diagnostic, DiagnosticError, IRModule, Span
from .adt import Constructor
from .expr import Function
from .type_walk import type_text
from .types import FuncType, TupleType, Type, TypeCall, TypeData
from .unify import Unifier

NO_FIELD = "E9042"
"""Projection of a value that is not a tuple or lacks the field."""


def annotated_type(function: Function) -> FuncType | None:
    """Return the type of a fully annotated function, or None."""
    types = [param.type_annotation for param in function.params]
    if function.ret_type is None or any(type_ is None for type_ in types):
        return None
    unifier = Unifier()
    whole = FuncType(cast("list[Type]", types), function.ret_type, function.type_params, function.type_constraints)
    return None if unifier.incomplete(whole) else whole


def without_params(type_: Type) -> Type:
    """Remove the type parameters and relations of a function type; other types are unchanged."""
    return FuncType(type_.arg_types, type_.ret_type) if isinstance(type_, FuncType) else type_


def field_of(type_: Type, index: int, span: Span | None) -> Type:
    """Return the type of a field. Raises DiagnosticError (E9042) if it does not exist."""
    if not isinstance(type_, TupleType):
        message = f"a field of a value of type {type_text(type_)} is taken, which is no tuple"
        raise DiagnosticError(Diagnostic(NO_FIELD, message, span))
    if index >= len(type_.fields):
        message = f"field {index} is taken of a tuple of {len(type_.fields)}"
        raise DiagnosticError(Diagnostic(NO_FIELD, message, span))
    return type_.fields[index]


def is_polymorphic(type_: Type | None) -> TypeGuard[FuncType]:
    """True for a function type with type parameters."""
    return isinstance(type_, FuncType) and bool(type_.type_params)


def constructor_type(constructor: Constructor, mod: IRModule) -> FuncType:
    """Return the function type of a constructor, polymorphic in the parameters of its data type.

    Raises DiagnosticError (E9003) if the module does not define the data type.
    """
    definition = mod.type_definitions.get(constructor.belong_to)
    if definition is None:
        for key, other in mod.type_definitions.items():
            if key == constructor.belong_to:
                definition = other
    if not isinstance(definition, TypeData):
        message = f"the module has no type {constructor.belong_to.name_hint}"
        raise DiagnosticError(Diagnostic("E9003", message, constructor.span))
    result = TypeCall(constructor.belong_to, definition.type_vars)
    return FuncType(constructor.inputs, result, definition.type_vars)
