"""Complex tensors: pairs of real tensors of one shape, and the converters for nodes that have them.

    @pair_converter("aten.mul")
    def mul(g: Emitter, a: Any, b: Any) -> Pair: ...

The language has no complex dtype. In the importer a value of complex64 is a `Pair` of float32 tensors, one of
complex128 a `Pair` of float64 tensors, and `Emitter.out_dtype` is the dtype of the parts. A node is converted by this
module's table, and never by that of `registry`, if its result or an operand is complex. Across the boundary of a
program a complex tensor is one real tensor with a trailing axis of 2, as ``torch.view_as_real`` returns it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from ... import op
from ...expr import Constant
from ...ir import RelaxExpr
from ...prim import const
from ...runtime.records import dataclass
from . import registry
from .emitter import Emitter

Function = TypeVar("Function", bound=Callable[..., Any])

_CONVERTERS: dict[str, Callable[..., Any]] = {}


@dataclass(frozen=True)
class Pair:
    """A complex tensor: its real and its imaginary part, of equal shape and dtype."""

    real: RelaxExpr
    imag: RelaxExpr

    def map(self, function: Callable[[RelaxExpr], RelaxExpr]) -> Pair:
        """Return the pair of the results of a function of a real tensor."""
        return Pair(function(self.real), function(self.imag))


def pair_converter(*names: str) -> Callable[[Function], Function]:
    """Declare a converter for operators with complex operands or results. Complex operands are instances of `Pair`."""

    def declare(function: Function) -> Function:
        for name in names:
            _CONVERTERS[name] = function
        return function

    return declare


def map_parts(*names: str, promoted: Sequence[int] = ()) -> None:
    """Convert operators of these names part by part, with their converters for real tensors; see `of_parts`."""
    for name in names:
        _CONVERTERS[name] = of_parts(name, promoted)


def of_parts(name: str, promoted: Sequence[int] = ()) -> Callable[..., Any]:
    """Return a converter that calls the one for real tensors with the real parts, then with the imaginary parts.

    The operands at the positions `promoted`, tensors, numbers or lists of them, become pairs of the dtype of the result
    first. Other operands that are not complex, such as indices, are the same in both calls.
    """

    def convert(g: Emitter, *args: Any, **kwargs: Any) -> Any:
        function = registry.find(name)
        assert function is not None, name
        operands = [_promoted(g, arg) if place in promoted else arg for place, arg in enumerate(args)]
        real, imag = (
            function(g, *_part_of(operands, part), **{key: _part_of(value, part) for key, value in kwargs.items()})
            for part in ("real", "imag")
        )
        if isinstance(real, list):
            parts = zip(cast("list[Any]", real), cast("list[Any]", imag), strict=True)
            return [_matched(g, a, b) for a, b in parts]
        return _matched(g, real, imag)

    return convert


def _promoted(g: Emitter, value: Any) -> Any:
    if isinstance(value, list):
        return [as_pair(g, item, g.out_dtype) for item in cast("list[Any]", value)]
    return as_pair(g, value, g.out_dtype)


def _matched(g: Emitter, real: RelaxExpr, imag: RelaxExpr) -> Pair:
    """Return a pair whose imaginary part has the sizes of the real part, of which a mask made new ones for each."""
    real, imag = g.emit(real), g.emit(imag)
    return Pair(real, g.cast_shape(imag, g.dims(real)))


def _part_of(value: Any, part: str) -> Any:
    if isinstance(value, list):
        return [_part_of(item, part) for item in cast("list[Any]", value)]
    return getattr(value, part) if isinstance(value, Pair) else value


def find(node: Any) -> Callable[..., Any] | None:
    """Return the converter of a node, for complex tensors if it has such; None if there is none."""
    name = str(node.target)
    if is_complex(node):
        return _CONVERTERS.get(name) or _CONVERTERS.get(name.rpartition(".")[0])
    return registry.find(name)


def is_complex(node: Any) -> bool:
    """Return True for a node with complex operands or results."""
    return any(map(has_complex_dtype, _leaves(node.meta.get("val")))) or any(
        isinstance(arg, complex) or any(map(has_complex_dtype, _leaves(getattr(arg, "meta", {}).get("val"))))
        for arg in _leaves([*node.args, *node.kwargs.values()])
    )


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in cast("Sequence[Any]", value):
            yield from _leaves(item)
    else:
        yield value


def has_complex_dtype(tensor: Any) -> bool:
    """Return True for a torch tensor of complex numbers; False for other tensors and values."""
    return bool(getattr(getattr(tensor, "dtype", None), "is_complex", False))


# ------------------------------------------------------------------------------------- forms


def boundary_shape(g: Emitter, tensor: Any) -> list[Any]:
    """Return the shape of a parameter of a program: a complex torch tensor has a trailing axis of 2."""
    return [*g.shape(tensor), *([const(2, "int64")] if has_complex_dtype(tensor) else [])]


def split_parts(g: Emitter, x: RelaxExpr) -> Pair:
    """Return the pair of a real tensor whose last axis has the size 2."""
    axis = g.ndim(x) - 1

    def part(index: int) -> RelaxExpr:
        begin, end = const(index, "int64"), const(index + 1, "int64")
        return g.emit(op.squeeze(op.strided_slice(x, [axis], [begin], [end], [1], assume_inbound=True), [axis]))

    return Pair(part(0), part(1))


def joined_parts(g: Emitter, value: Any) -> Any:
    """Return a pair as one real tensor with a trailing axis of 2; another value unchanged.

    A choice by place is fused with what computes the parts, in one pass over the result; a stack would take two.
    """
    if not isinstance(value, Pair):
        return value
    real, imag = (g.emit(op.expand_dims(part, [g.ndim(part)])) for part in (value.real, value.imag))
    return g.emit(op.where(g.const([True, False], "bool"), real, imag))


def as_real_tensor(tensor: Any) -> Any:
    """Return a complex torch tensor as a real one with a trailing axis of 2."""
    return sys.modules["torch"].view_as_real(tensor.detach().resolve_conj())


def constant_pair(array: np.ndarray[Any, Any]) -> Pair:
    """Return the pair of constants of an array of complex64 or complex128."""
    return Pair(Constant(np.array(array.real, order="C")), Constant(np.array(array.imag, order="C")))


def as_pair(g: Emitter, value: Any, dtype: str) -> Pair:
    """Return a pair, a real tensor or a number as a pair whose parts have the dtype `dtype`."""
    if isinstance(value, Pair):
        return value.map(lambda part: g.cast(part, dtype))
    if isinstance(value, complex):
        return Pair(g.const(value.real, dtype), g.const(value.imag, dtype))
    real = g.tensor(value, dtype)
    zero = g.const(0, dtype)
    return Pair(real, g.emit(op.full(g.dims(real), zero, dtype)) if g.ndim(real) else zero)


def real_tensor(value: Any) -> Any:
    """Return the real part of a pair or a complex number; another value unchanged. Its dtype is that of the parts."""
    return value.real if isinstance(value, (Pair, complex)) else value


def promoted_pairs(g: Emitter, *values: Any) -> list[Pair]:
    """Return values as pairs of the dtype to which torch promotes them."""
    dtype = g.common_dtype(*map(real_tensor, values))
    return [as_pair(g, value, dtype) for value in values]
