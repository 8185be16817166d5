"""Sequences and optional values, resolved at import time where lengths and positions are static."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import op
from ....expr import PrimValue, ShapeExpr
from ....prim import IntImm
from ....struct_info import TensorStructInfo
from ..emitter import Emitter
from ..objects import lowered, raised, run, scalar_position, type_of, united
from ..registry import converter
from ..values import (
    Elements,
    Object,
    Optional,
    OptionalType,
    Sequence,
    SequenceType,
    Subgraph,
    Tensor,
    TensorType,
    Value,
    ValueType,
)

# ------------------------------------------------------------------------------------- sequences


@converter("SequenceConstruct")
def sequence_construct(g: Emitter, *inputs: Value) -> Sequence:
    return Sequence(inputs)


@converter("SequenceEmpty")
def sequence_empty(g: Emitter, *, dtype: int = 1) -> Sequence:
    return Sequence(())


@converter("SequenceAt")
def sequence_at(g: Emitter, input_sequence: Value, position: Value) -> Value:
    index = scalar_position(g, position)
    if isinstance(input_sequence, Sequence) and index is not None:
        return input_sequence.items[_index_from_front(g, index, len(input_sequence.items), 0)]
    item = run(g, "sequence_at", lowered(g, input_sequence), g.tensor(position))
    return raised(g, item, _items_of(g, input_sequence))


def _index_from_front(g: Emitter, index: int, length: int, more: int) -> int:
    """A position counted from the front; `more` positions after the last item are allowed."""
    if not -length <= index < length + more:
        raise g.error(f"position {index} is out of range for a sequence of {length}", code="E6003")
    return index + length if index < 0 else index


def _items_of(g: Emitter, sequence: Value) -> ValueType | None:
    kind = type_of(g, sequence)
    if isinstance(kind, OptionalType):
        kind = kind.content
    if not isinstance(kind, SequenceType):
        raise g.error("its input must be a sequence")
    return kind.item


@converter("SequenceInsert")
def sequence_insert(g: Emitter, input_sequence: Value, tensor: Value, position: Value | None = None) -> Value:
    requested = scalar_position(g, position)
    if isinstance(input_sequence, Sequence) and (position is None or requested is not None):
        items = input_sequence.items
        index = len(items) if requested is None else _index_from_front(g, requested, len(items), 1)
        return Sequence((*items[:index], tensor, *items[index:]))
    where = None if position is None else g.tensor(position)
    grown = run(g, "sequence_insert", lowered(g, input_sequence), lowered(g, tensor), where)
    return Object(grown, SequenceType(united(_items_of(g, input_sequence), type_of(g, tensor))))


@converter("SequenceErase")
def sequence_erase(g: Emitter, input_sequence: Value, position: Value | None = None) -> Value:
    requested = scalar_position(g, position)
    if isinstance(input_sequence, Sequence) and (position is None or requested is not None):
        items = input_sequence.items
        index = _index_from_front(g, -1 if requested is None else requested, len(items), 0)
        return Sequence((*items[:index], *items[index + 1 :]))
    where = None if position is None else g.tensor(position)
    rest = run(g, "sequence_erase", lowered(g, input_sequence), where)
    return Object(rest, SequenceType(_items_of(g, input_sequence)))


@converter("SequenceLength")
def sequence_length(g: Emitter, input_sequence: Value) -> Value:
    if isinstance(input_sequence, Sequence):
        return Elements.of(len(input_sequence.items))
    _items_of(g, input_sequence)
    return run(g, "sequence_length", lowered(g, input_sequence), info=TensorStructInfo(ShapeExpr([]), "int64"))


@converter("SplitToSequence")
def split_to_sequence(
    g: Emitter, input: Tensor, split: Value | None = None, *, axis: int = 0, keepdims: int = 1
) -> Value:
    """Parts whose sizes and number are known when the model is imported, or tensors that there are when it runs."""
    dimension = g.axis(axis, g.ndim(input))
    length = g.dims(input)[dimension]
    elements = None if split is None else g.elements(split)
    sizes = None if elements is None else elements.ints()
    if isinstance(length, IntImm) and (split is None or sizes is not None):
        if sizes is None:
            sections = _slices(input, dimension, length.value, keepdims)
        else:
            whole = elements is None or not elements.array.ndim
            sections = _sections(
                g, input, dimension, length.value, _all_sizes(g, sizes[0], length.value) if whole else sizes
            )
        return Sequence(tuple(g.emit(section) for section in sections))
    given = None if split is None else g.tensor(split)
    items = run(g, "sequence_of_parts", input, given, dimension, keepdims)
    drops = split is None and not keepdims
    return Object(items, SequenceType(TensorType(str(g.dtype(input)), g.ndim(input) - int(drops))))


def _slices(x: Tensor, axis: int, length: int, keepdims: int) -> list[Tensor]:
    if keepdims:
        return [op.strided_slice(x, [axis], [i], [i + 1]) for i in range(length)]
    return [op.take(x, PrimValue(i), axis) for i in range(length)]


def _all_sizes(g: Emitter, size: int, length: int) -> tuple[int, ...]:
    if size <= 0:
        raise g.error(f"the size of a part must be positive, found {size}", code="E6003")
    whole, rest = divmod(length, size)
    return (size,) * whole + ((rest,) if rest else ())


def _sections(g: Emitter, x: Tensor, axis: int, length: int, sizes: tuple[int, ...]) -> list[Tensor]:
    if sum(sizes) != length or min(sizes, default=0) < 0:
        raise g.error(f"sizes {list(sizes)} do not make up a dimension of {length}", code="E6003")
    ends = [int(end) for end in np.cumsum(sizes)]
    return [op.strided_slice(x, [axis], [end - size], [end]) for size, end in zip(sizes, ends, strict=True)]


@converter("ConcatFromSequence")
def concat_from_sequence(g: Emitter, input_sequence: Value, *, axis: int, new_axis: int = 0) -> Tensor:
    if isinstance(input_sequence, Sequence):
        items = [g.tensor(item, "an item of the sequence") for item in input_sequence.items]
        if not items:
            raise g.error("it joins a sequence without items", code="E6003")
        return op.stack(items, axis) if new_axis else op.concat(items, axis)
    item = _items_of(g, input_sequence)
    if not isinstance(item, TensorType) or item.dtype == "string":
        g.unsupported("joining items that are no tensors of numbers")
    ndim = -1 if item.ndim < 0 else item.ndim + (1 if new_axis else 0)
    info = TensorStructInfo(None, item.dtype, None, ndim)
    return run(g, "sequence_concat", lowered(g, input_sequence), axis, new_axis, info=info)


@converter("SequenceMap", objects=True)
def sequence_map(g: Emitter, *inputs: Value, body: Subgraph) -> Any:
    """A sequence of known length: the body for each item. Any other is read by the function of the standard."""
    sequences = [x for x in inputs if isinstance(type_of(g, x), SequenceType)]
    fixed = [x for x in sequences if isinstance(x, Sequence)]
    if len(fixed) < len(sequences) or not isinstance(inputs[0], Sequence):
        return NotImplemented
    count = len(inputs[0].items)
    if any(len(x.items) != count for x in fixed):
        raise g.error(f"sequences of lengths {[len(x.items) for x in fixed]} do not go together", code="E6003")
    results = [
        g.reader.read_subgraph(body, [x.items[i] if isinstance(x, Sequence) else x for x in inputs])
        for i in range(count)
    ]
    return [Sequence(tuple(_some(row[i]) for row in results)) for i in range(len(body.graph.output))]


def _some(value: Value | None) -> Value:
    return Optional(None) if value is None else value


# ------------------------------------------------------------------------------------- optional values


@converter("Optional", since=15)
def optional(g: Emitter, input: Value | None = None, *, type: Any = None) -> Value:
    return Optional(input)


@converter("OptionalHasElement", since=15)
def optional_has_element(g: Emitter, input: Value | None = None) -> Value:
    match input:
        case Object(expr, OptionalType()):
            return run(g, "optional_has", expr, info=TensorStructInfo(ShapeExpr([]), "bool"))
        case Optional(content):
            return g.const(content is not None, "bool")
        case _:
            return g.const(input is not None, "bool")


@converter("OptionalGetElement", since=15)
def optional_get_element(g: Emitter, input: Value) -> Value:
    match input:
        case Object(expr, OptionalType(content)):
            return raised(g, run(g, "optional_get", expr), content)
        case Optional(None):
            raise g.error("the optional value is empty", code="E6003")
        case Optional(content) if content is not None:
            return content
        case _:
            return input


@converter("Identity", objects=True)
def identity(g: Emitter, input: Value) -> Value:
    return input
