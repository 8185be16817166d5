"""Tensors of tensor expressions: their operations, and element reads.

    Operation ::= PlaceholderOp | ComputeOp(axis, reduce_axis, body) | ExternOp(inputs, statement)
    Tensor(op, value_index)          one output of an operation
    ProducerLoad(tensor, indices)    its element: a PrimExpr, until create_prim_func makes it a BufferLoad

Tensors refer to their inputs, so an output holds its whole graph.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, final

from ..ir import DataType, child, node, set_slot
from ..prim import PrimExpr, const, convert
from ..tir.buffer import Buffer, IterVar
from ..tir.scalar import ScalarOperators, as_tuple
from ..tir.stmt import Stmt


class Operation:
    """The computation of one or more tensors. Operations are compared by identity."""

    name: str
    tag: str
    attrs: dict[str, Any]
    shapes: tuple[tuple[PrimExpr, ...], ...]
    dtypes: tuple[DataType, ...]
    input_tensors: tuple[Tensor, ...]

    def __init__(
        self,
        name: str,
        shapes: tuple[tuple[PrimExpr, ...], ...],
        dtypes: tuple[DataType, ...],
        inputs: tuple[Tensor, ...] = (),
        tag: str = "",
        attrs: dict[str, Any] | None = None,
    ) -> None:
        self.name, self.shapes, self.dtypes, self.input_tensors = name, shapes, dtypes, inputs
        self.tag, self.attrs = tag, dict(attrs or {})

    @property
    def num_outputs(self) -> int:
        return len(self.shapes)

    def output(self, index: int) -> Tensor:
        """Tensor of output `index`."""
        return Tensor(self, index)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


@final
class PlaceholderOp(Operation):
    """An input."""


@final
class ComputeOp(Operation):
    """One expression per output, over the iteration variables `axis`; reductions bring `reduce_axis`."""

    axis: tuple[IterVar, ...]
    reduce_axis: tuple[IterVar, ...]
    body: tuple[PrimExpr, ...]


@final
class ExternOp(Operation):
    """A statement that writes the output buffers; its free buffers are the input and output placeholders."""

    input_buffers: tuple[Buffer, ...]
    output_buffers: tuple[Buffer, ...]
    body: Stmt


@final
class Tensor:
    """A value of a tensor expression. ``t[i, j]`` and ``t(i, j)`` read an element; ``t[i][j]`` is the same.

    Two Tensor objects are equal when they are the same output of the same operation.
    """

    __slots__ = ("op", "value_index")

    op: Operation
    value_index: int

    def __init__(self, op: Operation, value_index: int = 0) -> None:
        self.op, self.value_index = op, value_index

    @property
    def shape(self) -> tuple[PrimExpr, ...]:
        return self.op.shapes[self.value_index]

    @property
    def dtype(self) -> DataType:
        return self.op.dtypes[self.value_index]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def name(self) -> str:
        """Name of the operation, with the output's index if there are several."""
        return self.op.name if self.op.num_outputs == 1 else f"{self.op.name}.v{self.value_index}"

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """Iteration variables of the computation; none for an input."""
        return self.op.axis if isinstance(self.op, ComputeOp) else ()

    def __call__(self, *indices: Any) -> ProducerLoad:
        """Element at the indices, one per dimension."""
        return ProducerLoad(self, indices)

    def __getitem__(self, indices: Any) -> Any:
        """Element at the indices; with fewer indices than dimensions, a TensorSlice to be indexed further."""
        items = as_tuple(indices)
        if len(items) < self.ndim:
            return TensorSlice(self, items)
        return ProducerLoad(self, items)

    def asobject(self) -> PrimExpr:
        """Element of a tensor of rank 0, for use as a scalar. Raises TypeError for a tensor with dimensions."""
        if self.ndim != 0:
            raise TypeError(
                f"tensor {self.name} has {self.ndim} dimensions and is no scalar; index it to read an element"
            )
        return ProducerLoad(self, ())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and self.op is other.op and self.value_index == other.value_index

    def __hash__(self) -> int:
        return hash((id(self.op), self.value_index))

    def __repr__(self) -> str:
        shape = ", ".join(str(size) for size in self.shape)
        return f"Tensor(shape=[{shape}], dtype={self.dtype}, op.name={self.op.name})"

    @property
    def __takes_scalars__(self) -> bool:
        """True if ``scalar + tensor`` is a tensor; False for rank 0, where the tensor is used as a scalar."""
        return self.ndim != 0

    def __neg__(self) -> Any:
        return _arithmetic("multiply", self, const(-1, self.dtype))

    def astype(self, dtype: str) -> Any:
        """Convert the tensor to another dtype."""
        return _arithmetic("cast", self, dtype)

    def __add__(self, other: Any) -> Any:
        return _arithmetic("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _arithmetic("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _arithmetic("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _arithmetic("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return _arithmetic("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _arithmetic("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _arithmetic("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _arithmetic("divide", other, self)


_tensor_arithmetic: dict[str, Callable[[Any, Any], Any]] = {}


def register_tensor_arithmetic(**functions: Callable[[Any, Any], Any]) -> None:
    """Register the operators of whole tensors: add, subtract, multiply, divide, cast.

    `relax.topi` calls this when it is imported, which `_arithmetic` does at the first use.
    """
    _tensor_arithmetic.update(functions)


def _arithmetic(name: str, a: Any, b: Any) -> Any:
    if name not in _tensor_arithmetic:
        importlib.import_module("relax.topi.math" if name == "cast" else "relax.topi.broadcast")
    return _tensor_arithmetic[name](a, b)


@final
class TensorSlice(ScalarOperators):
    """A tensor indexed in its first dimensions; index the rest to read an element."""

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        self.tensor, self.indices = tensor, indices

    def __getitem__(self, indices: Any) -> Any:
        items = as_tuple(indices)
        return self.tensor[self.indices + items]

    @property
    def dtype(self) -> DataType:
        return self.tensor.dtype

    def asobject(self) -> PrimExpr:
        """Return the element if all indices are present. Raises ValueError if some are missing."""
        return ProducerLoad(self.tensor, self.indices)


def _indices(values: Any) -> tuple[PrimExpr, ...]:
    return tuple(convert(value) for value in values)


@final
@node
class ProducerLoad(PrimExpr):
    """A read of a tensor's element.

    Raises ValueError for a wrong number of indices, TypeError for one that is not an integer.
    """

    producer: Tensor
    indices: tuple[PrimExpr, ...] = child(converter=_indices)

    def __post_init__(self) -> None:
        tensor, count = self.producer, len(self.indices)
        if count != tensor.ndim:
            raise ValueError(f"tensor {tensor.name} has {tensor.ndim} dimensions, found {count} indices")
        for index in self.indices:
            if not index.dtype.is_integer:
                raise TypeError(f"an index of tensor {tensor.name} has dtype {index.dtype!s}, expected an integer")
        set_slot(self, "dtype", tensor.dtype)


__all__: list[str] = [
    "ComputeOp", "ExternOp", "Operation", "PlaceholderOp", "ProducerLoad", "Tensor", "TensorSlice",
    "register_tensor_arithmetic",
]  # fmt: skip
