"""Converters: a function for each operator of torch, found by the name of its overload.

    @converter("aten.leaky_relu.default")
    def leaky_relu(g: Emitter, x: RelaxExpr, negative_slope: float = 0.01) -> RelaxExpr:
        return op.nn.leakyrelu(x, negative_slope)

The first parameter is the `Emitter`; the others are those of the operator's schema, by place or by name. A tensor is an
expression, a number of the program's shapes an int or a PrimExpr, a dtype its name; devices, layouts and memory formats
are None. A converter gives an expression (a call that returns a tuple stands for several results), or a list of them.

A name without an overload, ``aten.leaky_relu``, stands for all overloads without a converter of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

Converter: TypeAlias = Callable[..., Any]

Function = TypeVar("Function", bound=Converter)

_CONVERTERS: dict[str, Converter] = {}

_IMPURE: set[str] = set()
"""Names of operators whose results differ from call to call."""


def converter(*names: str, pure: bool = True) -> Callable[[Function], Function]:
    """Declare a converter for the operators of these names; see the module's docstring.

    An operator that is not pure, such as one of random numbers, makes the function impure.
    """

    def declare(function: Function) -> Function:
        for name in names:
            register(name, function, pure=pure)
        return function

    return declare


def register(name: str, function: Converter, *, pure: bool = True) -> None:
    """Make a converter known, in the place of one of that name."""
    _CONVERTERS[name] = function
    (_IMPURE.discard if pure else _IMPURE.add)(name)


def find(name: str) -> Converter | None:
    """The converter of an overload, None if there is none."""
    return _CONVERTERS.get(name) or _CONVERTERS.get(name.rpartition(".")[0])


def is_pure(name: str) -> bool:
    """False for an overload whose results differ from call to call."""
    return name not in _IMPURE
