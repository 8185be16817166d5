"""Operators of Relax as functions of nn.Tensors.

`lifted("sigmoid")` is `relax.op.sigmoid`, or `relax.op.nn.sigmoid`, for Tensors: its arguments, then `name`, that of
the variable to which the result is bound. The tables of `relax.frontend.nn.op` are made of it, and so are operators
that are in none of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

from ....ir import RelaxExpr
from ....op.operator import public_function, public_names
from ..tensor import Scalar, Tensor, emit


class Unary(Protocol):
    """Function of one tensor, element by element."""

    def __call__(self, x: Tensor, name: str = ...) -> Tensor: ...


class Binary(Protocol):
    """Function of two tensors, which are broadcast; a number takes the dtype of the other operand."""

    def __call__(self, a: Tensor | Scalar, b: Tensor | Scalar, name: str = ...) -> Tensor: ...


class Reduction(Protocol):
    """Reduction of some or all axes, which stay with size 1 if `keepdims`."""

    def __call__(
        self, x: Tensor, axis: int | list[int] | None = None, keepdims: bool = False, name: str = ...
    ) -> Tensor: ...


class Creation(Protocol):
    """Tensor of a shape whose elements are equal."""

    def __call__(self, shape: Any, dtype: str = "float32", name: str = ...) -> Tensor: ...


def operator_names() -> list[str]:
    """Return the names of the operators of `relax.op` and `relax.op.nn`."""
    return [*public_names("relax."), *public_names("relax.nn.")]


def operator_named(name: str) -> Callable[..., RelaxExpr]:
    """Return an operator's function by its name, "relu" or "nn.relu". Raises AttributeError if there is none."""
    function = public_function(f"relax.{name}") or public_function(f"relax.nn.{name}")
    if function is None:
        raise AttributeError(f"relax.op and relax.op.nn have no operator {name!r}")
    return function


def lifted(operator: str, name: str = "", operands: str = "", **defaults: Any) -> Any:
    """Return an operator for Tensors.

    `name` is the default name of results, by default the operator's. `operands` renames the first parameters, to those
    that TVM's users write; parameters behind "name" in it are given by keyword. `defaults` are values of parameters
    that TVM has otherwise. Where an argument is None, the operator's default counts. Raises AttributeError for an
    unknown operator.
    """
    function = operator_named(operator)
    signature = _signature(function, operands.split(), defaults)
    original = inspect.signature(function).parameters
    variadic = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in original.values())
    renamed = [key for key in signature.parameters if key != "name"]
    named, count = dict(zip(renamed, original, strict=True)), [*signature.parameters].index("name")
    default_name = name or operator

    def apply(*args: Any, name: str | None = default_name, **kwargs: Any) -> Any:
        values, given = [*args], {named.get(key, key): value for key, value in kwargs.items()}
        if not variadic:
            if len(values) == count + 1:
                name = values.pop()
            if len(values) > count:
                raise TypeError(f"op.{operator}{signature}: too many arguments")
            for key, value in zip(original, values, strict=False):
                if key in given:
                    raise TypeError(f"op.{operator}{signature}: multiple values for argument {key!r}")
                given[key] = value
            values = []
        filled = {**defaults, **{key: value for key, value in given.items() if value is not None}}
        return emit(function, name or default_name, *values, **filled)

    apply.__name__ = apply.__qualname__ = operator
    apply.__doc__ = function.__doc__
    apply.__module__ = "relax.frontend.nn.op"
    setattr(apply, "__signature__", signature)  # noqa: B010 (what inspect and help() show)
    return apply


def _signature(function: Callable[..., Any], operands: list[str], defaults: dict[str, Any]) -> inspect.Signature:
    """Return the operator's signature with other names of operands and other defaults, and with `name`."""
    parameters: list[inspect.Parameter] = []
    count = operands.index("name") if "name" in operands else None
    for index, parameter in enumerate(inspect.signature(function).parameters.values()):
        called = operands[index] if index < len(operands if count is None else operands[:count]) else parameter.name
        default = defaults.get(parameter.name, parameter.default)
        kind = parameter.kind if count is None or index < count else inspect.Parameter.KEYWORD_ONLY
        parameters.append(parameter.replace(name=called, default=default, kind=kind))
    ordinary = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    place = next((index for index, each in enumerate(parameters) if each.kind not in ordinary), len(parameters))
    variadic = place < len(parameters) and parameters[place].kind is inspect.Parameter.VAR_POSITIONAL
    kind = inspect.Parameter.KEYWORD_ONLY if variadic else inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters.insert(len(parameters) if variadic else place, inspect.Parameter("name", kind, default=""))
    return inspect.Signature(parameters)
