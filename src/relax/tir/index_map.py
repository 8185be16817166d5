"""Index maps: a function from the indices of one layout of a tensor to those of another.

IndexMap.from_func(lambda n, c, h, w: (n, c // 4, h, w, c % 4))        NCHW to NCHW4c
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from ..ir import Node, binder, child, node
from ..prim import (
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    Var,
    const,
    dimensions,
    intrin,
    prove,
    simplify,
    substitute,
)
from ..prim.expr import Add
from .buffer import to_indices


@final
@node
class IndexMap(Node):
    """The element at `initial_indices` moves to `final_indices`, expressions of them."""

    initial_indices: tuple[Var, ...] = binder(converter=tuple)
    final_indices: tuple[PrimExpr, ...] = child(converter=to_indices)

    @staticmethod
    def from_func(mapping_function: Callable[..., Any], ndim: int | None = None) -> IndexMap:
        """The map that a function of the indices describes; one with ``*indices`` needs `ndim`."""
        indices = tuple(Var(name, "int64") for name in _parameters(mapping_function, ndim))
        return IndexMap(indices, mapping_function(*indices))

    def map_indices(self, indices: Sequence[Any]) -> tuple[PrimExpr, ...]:
        """The place to which the element at these indices moves. Raises ValueError for a wrong number of them."""
        places = [index.astype("int64") for index in to_indices(indices)]
        if len(places) != len(self.initial_indices):
            raise ValueError(f"the index map takes {len(self.initial_indices)} indices, found {len(places)}")
        table = dict(zip(self.initial_indices, places, strict=True))
        return tuple(simplify(substitute(index, table)) for index in self.final_indices)

    def map_shape(self, shape: Sequence[Any]) -> tuple[PrimExpr, ...]:
        """The shape in which the elements of a shape find place. Raises ValueError as `mixed_radix` does."""
        return tuple(_extent(digits) for digits in mixed_radix(self, dimensions(shape)))


def _parameters(function: Callable[..., Any], ndim: int | None) -> list[str]:
    """The names of a function's parameters, numbered ones for ``*indices``."""
    written: Sequence[str] | None = getattr(function, "__script_parameters__", None)
    if written is not None:
        return list(written)
    names: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.VAR_POSITIONAL:
            names.append(parameter.name)
        elif ndim is None:
            raise ValueError(f"an index map of *{parameter.name} needs the number of dimensions, ndim=")
        else:
            names += [f"{parameter.name}{d}" for d in range(ndim - len(names))]
    return names


@dataclass(frozen=True)
class Digit:
    """A part of a final index: `factor` times the digit ``var // lower % extent`` of an initial one."""

    var: Var
    lower: int
    modulus: int | None
    """The modulus; None where the digit is all that is left of the index."""
    factor: int
    extent: PrimExpr


def mixed_radix(index_map: IndexMap, shape: Sequence[PrimExpr]) -> list[list[Digit]]:
    """Final indices as sums of digits, of which the factors fall and leave room for those after them.

    Raises ValueError for a map that is not so written, or that moves two elements to one place.
    """
    if len(shape) != len(index_map.initial_indices):
        raise ValueError(
            f"the index map takes {len(index_map.initial_indices)} indices, found {len(shape)} dimensions"
        )
    sizes = dict(zip(index_map.initial_indices, shape, strict=True))
    result = [_ordered(_digits(index, sizes), index) for index in index_map.final_indices]
    for var, size in sizes.items():
        digits = sorted((d for digits in result for d in digits if d.var is var), key=lambda d: d.lower)
        expected: int | None = 1
        for digit in digits:
            if digit.lower != expected:
                raise ValueError(
                    f"the index map moves two elements to one place, or splits {var.name} unevenly"
                )
            expected = None if digit.modulus is None else digit.lower * digit.modulus
        if expected is not None and not prove(size <= expected):
            raise ValueError(f"the index map does not tell elements apart by the whole of index {var.name}")
    return result


def _digits(index: PrimExpr, sizes: dict[Var, PrimExpr]) -> list[Digit]:
    match index:
        case IntImm(value=0):
            return []
        case Add():
            return [*_digits(index.a, sizes), *_digits(index.b, sizes)]
        case Mul():
            factor, inner = (index.a, index.b) if isinstance(index.a, IntImm) else (index.b, index.a)
            if not isinstance(factor, IntImm) or factor.value < 1:
                raise _unclear(index)
            digits = _digits(inner, sizes)
            return [replace(digit, factor=digit.factor * factor.value) for digit in digits]
        case _:
            var, lower, modulus = _piece(index)
    if var not in sizes:
        raise _unclear(index)
    extent: PrimExpr = (
        simplify(intrin.ceildiv(sizes[var], lower)) if modulus is None else const(modulus, "int64")
    )
    return [Digit(var, lower, modulus, 1, extent)]


def _piece(index: PrimExpr) -> tuple[Var, int, int | None]:
    """An index ``var // lower % modulus``, written in any way that says this."""
    if isinstance(index, Var):
        return index, 1, None
    if not isinstance(index, (FloorDiv, FloorMod)) or not isinstance(index.b, IntImm) or index.b.value < 1:
        raise _unclear(index)
    number = index.b.value
    var, lower, modulus = _piece(index.a)
    if modulus is not None and modulus % number:
        raise _unclear(index)
    if isinstance(index, FloorMod):
        return var, lower, number
    return var, lower * number, None if modulus is None else modulus // number


def _unclear(index: PrimExpr) -> ValueError:
    return ValueError(
        f"the index {index} is not a sum of indices, of their quotients i // c and remainders i % c by constants, "
        "and of multiples of these by constants"
    )


def _ordered(digits: list[Digit], index: PrimExpr) -> list[Digit]:
    """Digits by falling factors, each factor being at least the room that all smaller ones take."""
    rest, result = list(digits), list[Digit]()
    room: PrimExpr = const(1, "int64")
    while rest:
        digit = min(rest, key=lambda d: d.factor)
        if not (prove(room <= digit.factor) if result else digit.factor == 1):
            raise ValueError(f"the index {index} may be the same for two elements")
        rest.remove(digit)
        result.insert(0, digit)
        room = simplify(digit.extent * digit.factor)
    return result


def _extent(digits: Sequence[Digit]) -> PrimExpr:
    """The number of values of a final index."""
    if not digits:
        return const(1, "int64")
    first, *rest = digits
    total = first.extent * first.factor
    if rest:
        total = total - first.factor + _extent(rest)
    return simplify(total)


__all__ = ["Digit", "IndexMap", "mixed_radix"]
