"""Values of a model while it is imported: tensors of the program, elements known as expressions, sequences.

An ONNX model computes shapes with the same operators as data. Here an integer tensor whose elements are known as scalar
expressions is kept as `Elements`, so that ``Shape -> Gather -> Concat -> Reshape`` becomes a shape expression, and not
a chain of tensors. It becomes a tensor where an operator without a rule for elements reads it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...ir import DataType, RelaxExpr
from ...prim import FloatImm, IntImm, PrimExpr, const, simplify
from ...runtime.records import dataclass

if TYPE_CHECKING:
    import onnx

Array: TypeAlias = Any
"""A NumPy array; as an operand: a tensor whose elements must be known when the model is imported."""

Tensor: TypeAlias = RelaxExpr
"""A tensor of the program; as an operand: any value, made a tensor."""

Dims: TypeAlias = tuple[PrimExpr, ...]
"""Scalar expressions; as an operand: the elements of a vector of sizes, known or read when the program runs."""

Signed: TypeAlias = tuple[PrimExpr, ...]
"""Scalar expressions that may be negative; as an operand: the elements of a vector of integers, known or read when the
program runs."""

Ints: TypeAlias = tuple[int, ...]
"""Integers; as an operand: a vector whose elements must be known when the model is imported."""


Floats: TypeAlias = tuple[float, ...]
"""Numbers of an attribute."""


@dataclass(frozen=True, eq=False)
class Elements:
    """An integer, bool or float tensor whose elements are known as expressions; int32 is reckoned in int64."""

    array: Array
    """A NumPy array of PrimExprs (dtype object), of the tensor's shape."""
    dtype: str
    """The tensor's dtype."""

    @staticmethod
    def of(values: Any, dtype: str = "int64") -> Elements:
        """Elements from nested lists or an array of expressions and numbers; equal numbers become one object."""
        source: Array = np.array(values, dtype=object)
        reckoned = "int64" if DataType(dtype).is_integer else dtype
        done: dict[Any, PrimExpr] = {}

        def element(item: Any) -> PrimExpr:
            """The expression of an item; an object or a number that comes again has the same. 0.0 is not -0.0."""
            key: Any = id(item) if isinstance(item, PrimExpr) else (type(item), item, math.copysign(1, item))
            expr = done.get(key)
            if expr is None:
                expr = simplify(item) if isinstance(item, PrimExpr) else const(item, reckoned)
                done[key] = expr
            return expr

        items: list[Any] = list(source.flat)
        row: Array = np.fromiter(map(element, items), object, len(items))
        return Elements(row.reshape(source.shape), dtype)

    @property
    def flat(self) -> Dims:
        """The elements in row-major order."""
        return tuple(self.array.reshape(-1))

    def numbers(self) -> Array | None:
        """Elements as a NumPy array of the dtype, None if some element is not a number."""
        values = [item.value for item in self.flat if isinstance(item, (IntImm, FloatImm))]
        if len(values) < self.array.size:
            return None
        numbers: Array = np.array(values, dtype=DataType(self.dtype).numpy())
        return numbers.reshape(self.array.shape)

    def ints(self) -> Ints | None:
        """The elements as integers, None if some element is not a number."""
        values = tuple(item.value for item in self.flat if isinstance(item, IntImm))
        return values if len(values) == self.array.size else None


@dataclass(frozen=True, eq=False)
class Sequence:
    """A sequence whose length is known at import time."""

    items: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Optional:
    """An optional value whose presence is known at import time."""

    value: Value | None


@dataclass(frozen=True, eq=False)
class Strings:
    """A constant tensor of strings."""

    array: Array
    """A NumPy array of str (dtype object)."""


@dataclass(frozen=True)
class TensorType:
    """The type of a tensor, of numbers or strings."""

    dtype: str
    """The dtype; "string" for strings."""
    ndim: int = -1
    """The rank, -1 if it is not known."""


@dataclass(frozen=True)
class SequenceType:
    """The type of a sequence; None for items of which nothing is known."""

    item: ValueType | None


@dataclass(frozen=True)
class OptionalType:
    """The type of an optional value; None for a content of which nothing is known."""

    content: ValueType | None


@dataclass(frozen=True)
class MapType:
    """The type of a map, which no operator takes apart."""


ValueType: TypeAlias = "TensorType | SequenceType | OptionalType | MapType"
"""The type of a value of ONNX."""


@dataclass(frozen=True, eq=False)
class Object:
    """A run-time tensor of strings, sequence or optional value."""

    expr: RelaxExpr
    """A leaf: a tuple of the machine, the null object or its content, a tensor of strings."""
    type: ValueType


Value: TypeAlias = "RelaxExpr | Elements | Sequence | Optional | Strings | Object"
"""A value of the model."""


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A graph that is an attribute of If, Loop or Scan, with the values of the graphs around it."""

    graph: onnx.GraphProto
    names: Mapping[str, Value | None]
