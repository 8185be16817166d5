"""Rules for elements: the operators with which models compute shapes, on tensors of scalar expressions.

A rule is asked before the converter when an input is `Elements`. It gets the node's attributes and the inputs as NumPy
arrays of PrimExprs, and gives such an array (or several), or None where it cannot tell; then the converter is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any, TypeAlias, cast

import numpy as np

from ...ir import DataType
from ...prim import (
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    IntImm,
    Mul,
    PrimExpr,
    Select,
    const,
    intrin,
    simplify,
    sub_expressions,
)
from ...prim import cast as cast_scalar
from .emitter import MAX_ELEMENTS, Emitter
from .model import dtype_name
from .values import Array, Elements

Attributes: TypeAlias = Mapping[str, Any]
Rule: TypeAlias = Callable[["Operands"], Any]

_RULES: dict[str, Rule] = {}

_LONGEST = 100
"""Node limit of an element's expression; larger ones are computed by tensor operators."""


class Operands:
    """The inputs of a node, all of them elements (None where left out), and its attributes."""

    def __init__(self, g: Emitter, inputs: Sequence[Elements | None], attributes: Attributes, outputs: int) -> None:
        self.g, self.inputs, self.attributes, self.outputs = g, inputs, attributes, outputs
        self.dtype = next((x.dtype for x in inputs if x is not None), "int64")

    def __getitem__(self, index: int) -> Array:
        value = self.optional(index)
        if value is None:
            raise NotKnownError
        return value

    def optional(self, index: int) -> Array | None:
        """The array of an input, None if it is left out."""
        value = self.inputs[index] if index < len(self.inputs) else None
        return None if value is None else value.array

    def ints(self, index: int, name: str) -> list[int] | None:
        """Integers of an input, or in old opsets of the attribute; None if there is neither."""
        if name in self.attributes:
            return [int(item) for item in np.ravel(self.attributes[name])]
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            return None
        numbers = value.ints()
        if numbers is None:
            raise NotKnownError
        return list(numbers)


class NotKnownError(Exception):
    """Raised by a rule that cannot decide; the converter is used instead."""


def _check_count(sizes: Sequence[int]) -> None:
    """Raise NotKnownError if a tensor has too many elements to be represented one by one."""
    if math.prod(sizes) > MAX_ELEMENTS:
        raise NotKnownError


def apply_rule(
    g: Emitter, op_type: str, inputs: Sequence[Any], attributes: Attributes, outputs: int
) -> list[Elements] | None:
    """The results of a node with inputs that are elements; None if there is no rule or it cannot tell."""
    rule = _RULES.get(op_type)
    if rule is None or not any(isinstance(value, Elements) for value in inputs):
        return None
    elements = [None if value is None else g.elements(value) for value in inputs]
    if any(e is None and value is not None for e, value in zip(elements, inputs, strict=True)):
        return None
    operands = Operands(g, elements, attributes, outputs)
    result: Any
    try:
        result = rule(operands)
    except (NotKnownError, ValueError, IndexError, ZeroDivisionError, OverflowError):
        return None
    if result is None:
        return None
    values = cast("list[Any]", result) if isinstance(result, list) else [result]
    results = [r if isinstance(r, Elements) else Elements.of(r, operands.dtype) for r in values]
    return results if all(_is_of_dtype(r) and _is_bounded(r) for r in results) else None


def _is_of_dtype(elements: Elements) -> bool:
    """True if all expressions have the dtype in which elements are computed: operands of several give others."""
    dtype = DataType(elements.dtype)
    expected = DataType("int64") if dtype.is_integer else dtype
    return all(e.dtype == expected for e in elements.flat)


def _is_bounded(elements: Elements) -> bool:
    """True for elements that are few and short: to reckon on with others would take time without bound."""
    if elements.array.size > MAX_ELEMENTS:
        return False
    distinct = {id(e): e for e in elements.flat}.values()
    return all(sum(1 for _ in islice(_nodes(e), _LONGEST + 1)) <= _LONGEST for e in distinct)


def _nodes(expr: PrimExpr) -> Iterator[PrimExpr]:
    pending = [expr]
    while pending:
        current = pending.pop()
        yield current
        pending += sub_expressions(current)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare a rule for the operators of these names."""

    def declare(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, function))
        return function

    return declare


# ------------------------------------------------------------------------------------- elementwise


def _ratio(x: PrimExpr) -> tuple[PrimExpr, Fraction] | None:
    """A float expression as an integer expression times a number; None if it is no such product.

    Products that floats round are none: n / 3 · 3 may be less than n.
    """
    match x:
        case Cast(_, value) if value.dtype.is_integer:
            return value, Fraction(1)
        case FloatImm(_, value) if np.isfinite(value):
            return IntImm("int64", 1), Fraction(value)
        case Mul(a, FloatImm(_, value)) | Mul(FloatImm(_, value), a):
            inner = _exact(a)
            return None if inner is None else (inner[0], inner[1] * Fraction(value))
        case Div(a, FloatImm(_, value)) if value:
            inner = _exact(a)
            return None if inner is None else (inner[0], inner[1] / Fraction(value))
        case _:
            return None


def _exact(x: PrimExpr) -> tuple[PrimExpr, Fraction] | None:
    """A product as in `_ratio` whose number is a fraction of a power of two, so that floats hold it exactly."""
    ratio = _ratio(x)
    return None if ratio is None or ratio[1].denominator.bit_count() > 1 else ratio


def _rounded(x: PrimExpr, up: bool) -> PrimExpr:
    """Floor or ceiling of a float expression, said in integers where that is exact."""
    ratio = _ratio(x)
    if ratio is not None and ratio[1].denominator < 1 << 20 and abs(ratio[1].numerator) < 1 << 20:
        scaled = ratio[0] * const(ratio[1].numerator, "int64")
        below = const(ratio[1].denominator, "int64")
        return cast_scalar(x.dtype, simplify((scaled + (below - 1)) // below if up else scaled // below))
    return intrin.ceil(x) if up else intrin.floor(x)


def _cast(x: PrimExpr, dtype: DataType) -> PrimExpr:
    source = x.dtype
    if dtype.is_integer and source.is_float:
        ratio = _ratio(x)
        if ratio is not None and ratio[1].denominator == 1:
            return simplify(ratio[0] * const(ratio[1].numerator, "int64"))
        if isinstance(x, FloatImm):
            return const(int(x.value), "int64")
        return cast_scalar("int64", x)
    return cast_scalar("int64" if dtype.is_integer else dtype, x)


@rule("Cast")
def _cast_rule(x: Operands) -> Elements | None:
    kind = dtype_name(x.attributes["to"])
    if kind == "string":
        return None
    dtype = DataType(kind)
    if str(dtype) not in ("int32", "int64", "float32", "float64", "bool"):
        return None
    return Elements.of(_map(lambda e: _cast(e, dtype), x[0]), kind)


def _each(function: Callable[..., Any], *arrays: Array) -> Array:
    """A function applied to each element of arrays that broadcast, once for the same objects."""
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    broadcast: list[Any] = [np.broadcast_to(a, shape) for a in arrays]
    columns: list[list[Any]] = [list(array.flat) for array in broadcast]
    done: dict[tuple[int, ...], Any] = {}
    results: list[Any] = []
    for items in zip(*columns, strict=True):
        key = tuple(map(id, items))
        if key not in done:
            done[key] = function(*items)
        results.append(done[key])
    row: Array = np.fromiter(results, object, len(results))
    return row.reshape(shape)


def _map(function: Callable[[Any], Any], a: Array) -> Array:
    return _each(function, a)


def _map2(function: Callable[[Any, Any], Any], a: Array, b: Array) -> Array:
    return _each(function, a, b)


def _quotient(g: Emitter, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if a.dtype.is_float:
        return Div(a, b)
    if isinstance(b, IntImm) and b.value == 0:
        raise ZeroDivisionError
    if g.is_true(a >= 0) and g.is_true(b > 0):
        return FloorDiv(a, b)
    return Div(a, b)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "Equal": lambda a, b: a.equal(b),
    "Less": lambda a, b: a < b,
    "Greater": lambda a, b: a > b,
    "LessOrEqual": lambda a, b: a <= b,
    "GreaterOrEqual": lambda a, b: a >= b,
}
_VARIADIC: dict[str, Callable[[Any, Any], Any]] = {"Min": intrin.min, "Max": intrin.max, "Sum": lambda a, b: a + b}


def _binary(function: Callable[[Any, Any], Any]) -> Rule:
    return lambda x: _each(function, x[0], x[1])


def _compared(g: Emitter, condition: PrimExpr) -> PrimExpr:
    """Return a comparison, simplified to a constant if it can be decided."""
    verdict = g.is_true(condition)
    return condition if verdict is None else const(verdict, "bool")


def _comparison(function: Callable[[Any, Any], Any]) -> Rule:
    return lambda x: Elements.of(_map2(lambda a, b: _compared(x.g, function(a, b)), x[0], x[1]), "bool")


def _variadic(function: Callable[[Any, Any], Any]) -> Rule:
    def apply(x: Operands) -> Array:
        total = x[0]
        for index in range(1, len(x.inputs)):
            total = _each(function, total, x[index])
        return total

    return apply


_RULES.update({name: _binary(function) for name, function in _BINARY.items()})
_RULES.update({name: _comparison(function) for name, function in _COMPARE.items()})
_RULES.update({name: _variadic(function) for name, function in _VARIADIC.items()})


@rule("Div")
def _div(x: Operands) -> Array:
    return _map2(lambda a, b: _quotient(x.g, a, b), x[0], x[1])


@rule("Mod")
def _mod(x: Operands) -> Array | None:
    return None if x.attributes.get("fmod") else _map2(lambda a, b: a % b, x[0], x[1])


@rule("Neg")
def _neg(x: Operands) -> Array:
    return _map(lambda a: -a, x[0])


@rule("Abs")
def _abs(x: Operands) -> Array:
    return _map(lambda a: a if x.g.is_true(a >= 0) else intrin.max(a, -a), x[0])


@rule("Floor")
def _floor(x: Operands) -> Array:
    return _map(lambda a: _rounded(a, up=False), x[0])


@rule("Ceil")
def _ceil(x: Operands) -> Array:
    return _map(lambda a: _rounded(a, up=True), x[0])


@rule("Not")
def _not(x: Operands) -> Elements:
    return Elements.of(_map(lambda a: _compared(x.g, a.equal(const(False, "bool"))), x[0]), "bool")


@rule("And")
def _and(x: Operands) -> Array:
    return _map2(intrin.all, x[0], x[1])


@rule("Or")
def _or(x: Operands) -> Array:
    return _map2(intrin.any, x[0], x[1])


@rule("Clip")
def _clip(x: Operands) -> Array | None:
    if "min" in x.attributes or "max" in x.attributes:
        return None
    clipped = x[0]
    for index, function in ((1, intrin.max), (2, intrin.min)):
        bound = x.optional(index)
        clipped = clipped if bound is None else _each(function, clipped, bound)
    return clipped


@rule("Where")
def _where(x: Operands) -> Elements:
    def choose(condition: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if isinstance(condition, IntImm):
            return a if condition.value else b
        return Select(condition, a, b)

    return Elements.of(_each(choose, x[0], x[1], x[2]), x.inputs[1].dtype)  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------- moving


@rule("Identity")
def _identity(x: Operands) -> Array:
    return x[0]


@rule("Shape")
def _shape(x: Operands) -> Elements:
    return Elements.of(list(x[0].shape)[x.attributes.get("start", 0) : x.attributes.get("end")], "int64")


@rule("Size")
def _size(x: Operands) -> Elements:
    return Elements.of(x[0].size, "int64")


@rule("Gather")
def _gather(x: Operands) -> Elements:
    indices = x.inputs[1].ints()  # type: ignore[union-attr]
    if indices is None:
        raise NotKnownError
    positions: Array = np.array(indices, np.int64)
    positions = positions.reshape(x[1].shape)
    return Elements.of(np.take(x[0], positions, x.attributes.get("axis", 0)), x.dtype)


@rule("Slice")
def _slice(x: Operands) -> Array:
    data = x[0]
    starts, ends = x.ints(1, "starts"), x.ints(2, "ends")
    if starts is None or ends is None:
        raise NotKnownError
    axes = x.ints(3, "axes") or list(range(len(starts)))
    steps = x.ints(4, "steps") or [1] * len(starts)
    index: list[Any] = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = data.shape[axis]
        stop = end if end >= -size or step > 0 else None
        index[axis] = slice(start, stop, step)
    return data[tuple(index)]


@rule("Concat")
def _concat(x: Operands) -> Array:
    return np.concatenate([x[i] for i in range(len(x.inputs))], x.attributes.get("axis", 1))


@rule("Squeeze")
def _squeeze(x: Operands) -> Array:
    axes = x.ints(1, "axes")
    return np.squeeze(x[0], None if axes is None else tuple(axes))


@rule("Unsqueeze")
def _unsqueeze(x: Operands) -> Array:
    axes = x.ints(1, "axes")
    if axes is None:
        raise NotKnownError
    return np.expand_dims(x[0], tuple(axes))


@rule("Reshape")
def _reshape(x: Operands) -> Array:
    sizes = x.ints(1, "shape")
    if sizes is None:
        raise NotKnownError
    data = x[0]
    return data.reshape([data.shape[i] if size == 0 and i < data.ndim else size for i, size in enumerate(sizes)])


@rule("Flatten")
def _flatten(x: Operands) -> Array:
    axis = x.attributes.get("axis", 1)
    data = x[0]
    if not -data.ndim <= axis <= data.ndim:
        raise NotKnownError
    return data.reshape(int(np.prod(data.shape[:axis], dtype=np.int64)), -1)


@rule("Transpose")
def _transpose(x: Operands) -> Array:
    return np.transpose(x[0], x.attributes.get("perm"))


@rule("Expand")
def _expand(x: Operands) -> Array:
    sizes = x.ints(1, "shape")
    if sizes is None:
        raise NotKnownError
    shape = np.broadcast_shapes(x[0].shape, tuple(sizes))
    _check_count(shape)
    return np.broadcast_to(x[0], shape)


@rule("Tile")
def _tile(x: Operands) -> Array:
    repeats = x.ints(1, "repeats")
    if repeats is None:
        raise NotKnownError
    _check_count((x[0].size, *repeats))
    return np.tile(x[0], repeats)


@rule("Split")
def _split(x: Operands) -> list[Array]:
    data, axis = x[0], x.attributes.get("axis", 0)
    sizes = x.ints(1, "split")
    if sizes is None:
        size = -(-data.shape[axis] // x.outputs)
        sizes = [size] * (x.outputs - 1)
        sizes.append(data.shape[axis] - sum(sizes))
    return [Elements.of(section, x.dtype) for section in np.split(data, np.cumsum(sizes)[:-1], axis)]


@rule("ConstantOfShape")
def _constant_of_shape(x: Operands) -> Elements:
    sizes = x.ints(0, "input") or []
    value = x.attributes.get("value", np.zeros(1, np.float32))
    dtype = str(value.dtype.name)
    if dtype not in ("int64", "int32", "bool") or math.prod(sizes) > 64:
        raise NotKnownError
    return Elements.of(np.full(sizes, value.reshape(-1)[0]), dtype)


@rule("Range")
def _range(x: Operands) -> Array:
    bounds = [x.inputs[i].ints() for i in range(3)]  # type: ignore[union-attr]
    if any(b is None for b in bounds) or not DataType(x.dtype).is_integer:
        raise NotKnownError
    numbers = range(*(b[0] for b in bounds if b is not None))
    _check_count((len(numbers),))
    return np.array(numbers, np.int64)


def _reduced(function: Callable[[Any, Any], Any]) -> Rule:
    def apply(x: Operands) -> Array:
        data, axes = x[0], x.ints(1, "axes")
        if not axes and x.attributes.get("noop_with_empty_axes"):
            return data
        over = range(data.ndim) if not axes else [axis % data.ndim for axis in axes]
        for axis in over:
            slices = [np.take(data, [i], axis) for i in range(data.shape[axis])]
            if not slices:
                raise NotKnownError
            total = slices[0]
            for slice_ in slices[1:]:
                total = _each(function, total, slice_)
            data = total
        return data if x.attributes.get("keepdims", 1) else np.squeeze(data, tuple(over))

    return apply


_RULES.update(
    ReduceProd=_reduced(lambda a, b: a * b),
    ReduceSum=_reduced(lambda a, b: a + b),
    ReduceMax=_reduced(intrin.max),
    ReduceMin=_reduced(intrin.min),
)
