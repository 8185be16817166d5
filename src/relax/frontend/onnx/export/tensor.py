"""Values of a graph that is written: tensors by name, with operators that write nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, Protocol, TypeAlias, cast

import numpy as np

from ....ir import DataType
from ....prim import PrimExpr
from ....prim import Var as PrimVar
from .kernels import wide_dtype

Array: TypeAlias = Any
"""A NumPy array."""

Size: TypeAlias = "int | PrimExpr | Tensor"
"""A number of elements: known, an expression over shape variables, or a tensor of int64 without dimensions."""


class Nodes(Protocol):
    """Interface of graphs by which tensors and sizes write nodes."""

    bound: dict[PrimVar, Tensor]
    computed: dict[PrimExpr, Tensor]

    def refuse(self, construct: str, hint: str = "") -> NoReturn:
        """Raise the diagnostic for something that ONNX cannot say."""
        ...

    def node(
        self, op_type: str, *inputs: Tensor | None, dtype: str = "", rank: int = -1, domain: str = "", **attributes: Any
    ) -> Tensor:
        """Write a node with one output."""
        ...

    def run(self, op_type: str, *inputs: Tensor | None, dtype: str = "", rank: int = -1, **attributes: Any) -> Tensor:
        """Write a node in an element type that has a kernel."""
        ...

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        """Write a Cast."""
        ...

    def const(self, value: Any, dtype: str, hint: str = "c") -> Tensor:
        """A constant of numbers."""
        ...

    def ints(self, values: Iterable[int]) -> Tensor:
        """A constant vector of int64."""
        ...

    def scalar(self, size: Size) -> Tensor:
        """A size as a tensor without dimensions."""
        ...

    def shape(self, values: Sequence[Size]) -> Tensor:
        """Sizes as a vector of int64."""
        ...

    def bind(self, var: PrimVar, value: Tensor) -> None:
        """Let a shape variable have the value of a tensor of one element."""
        ...


class Tensor:
    """A value of an ONNX graph. Python's operators write nodes; numbers beside it become constants of its dtype."""

    __slots__ = ("constant", "dims", "dtype", "graph", "name", "rank", "sequence")

    def __init__(
        self,
        graph: Nodes,
        name: str,
        dtype: str,
        rank: int = -1,
        dims: Sequence[PrimExpr] | None = None,
        constant: Array | None = None,
    ) -> None:
        self.graph, self.name, self.dtype, self.constant = graph, name, dtype, constant
        self.dims = None if dims is None else tuple(dims)
        self.rank = rank if dims is None else len(dims)
        """The number of dimensions, -1 where it is not known (of intermediate results)."""
        self.sequence = False
        """True for a sequence of tensors of the dtype."""

    @property
    def kind(self) -> DataType:
        """The element type, with its properties."""
        return DataType(self.dtype)

    @property
    def ndim(self) -> int:
        """The number of dimensions. Raises DiagnosticError where it is not known."""
        if self.rank == -1:
            self.graph.refuse("a tensor of unknown rank", "give the number of dimensions: R.Tensor(ndim=2)")
        return self.rank

    def axis(self, axis: int) -> int:
        """An axis counted from the front."""
        return axis % self.ndim if self.ndim else 0

    def at(self, graph: Nodes) -> Tensor:
        """The same value, whose operators write into another graph."""
        result = Tensor(graph, self.name, self.dtype, self.rank, self.dims, self.constant)
        result.sequence = self.sequence
        return result

    def named(self, graph: Nodes, name: str) -> Tensor:
        """Another value of the same kind, whose dimensions may differ."""
        result = Tensor(graph, name, self.dtype, self.rank)
        result.sequence = self.sequence
        return result

    def as_sequence(self) -> Tensor:
        """The same value, a sequence."""
        result = Tensor(self.graph, self.name, self.dtype)
        result.sequence = True
        return result

    def ranked(self, rank: int) -> Tensor:
        """The same value, of known rank."""
        return Tensor(self.graph, self.name, self.dtype, rank, None, self.constant)

    # -- element types

    def to(self, dtype: str) -> Tensor:
        """Cast to an element type; the tensor itself if it has it."""
        return self if dtype == self.dtype else self.graph.cast(self, dtype)

    def wide(self) -> Tensor:
        """Cast to the type in which formulas compute: float32 for narrow floats, int32 for narrow integers."""
        return self.to(wide_dtype(self.dtype))

    # -- nodes

    def _with(self, op_type: str, other: Any, dtype: str = "") -> Tensor:
        return self.graph.run(op_type, self, self._operand(other), dtype=dtype)

    def _operand(self, other: Any) -> Tensor:
        return other if isinstance(other, Tensor) else self.graph.const(other, self.dtype)

    def __add__(self, other: Any) -> Tensor:
        return self._with("Add", other)

    def __radd__(self, other: Any) -> Tensor:
        return self._operand(other)._with("Add", self)

    def __sub__(self, other: Any) -> Tensor:
        return self._with("Sub", other)

    def __rsub__(self, other: Any) -> Tensor:
        return self._operand(other)._with("Sub", self)

    def __mul__(self, other: Any) -> Tensor:
        return self._with("Mul", other)

    def __rmul__(self, other: Any) -> Tensor:
        return self._operand(other)._with("Mul", self)

    def __truediv__(self, other: Any) -> Tensor:
        return self._with("Div", other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._operand(other)._with("Div", self)

    def __neg__(self) -> Tensor:
        return self.graph.run("Neg", self)

    def __lt__(self, other: Any) -> Tensor:
        return self._with("Less", other, "bool")

    def __le__(self, other: Any) -> Tensor:
        return self._with("LessOrEqual", other, "bool")

    def __gt__(self, other: Any) -> Tensor:
        return self._with("Greater", other, "bool")

    def __ge__(self, other: Any) -> Tensor:
        return self._with("GreaterOrEqual", other, "bool")

    def equal(self, other: Any) -> Tensor:
        """Elements that are equal, as bools."""
        return self._with("Equal", other, "bool")

    def __and__(self, other: Any) -> Tensor:
        return self._with("And", other)

    def __or__(self, other: Any) -> Tensor:
        return self._with("Or", other)

    def __invert__(self) -> Tensor:
        return self.graph.run("Not", self)

    def where(self, yes: Any, no: Any) -> Tensor:
        """`yes` where this bool holds, `no` elsewhere; one of them is a tensor."""
        tensor = yes if isinstance(yes, Tensor) else no
        return self.graph.run("Where", self, tensor._operand(yes), tensor._operand(no))

    # -- shapes

    def reshape(self, sizes: Sequence[Size]) -> Tensor:
        """The elements in another shape; an entry of -1 is the remaining size."""
        shape = self.graph.shape(sizes)
        return self.graph.run(
            "Reshape", self, shape, rank=len(sizes), allowzero=int(-1 not in list(map(_known, sizes)))
        )

    def transpose(self, axes: Sequence[int]) -> Tensor:
        """Dimensions in another order."""
        if list(axes) == sorted(axes):
            return self
        return self.graph.run("Transpose", self, rank=len(axes), perm=list(axes))

    def expand(self, sizes: Sequence[Size]) -> Tensor:
        """Elements repeated to a shape."""
        return self.graph.run("Expand", self, self.graph.shape(sizes), rank=len(sizes))

    def unsqueeze(self, *axes: int) -> Tensor:
        """New dimensions of size 1 at indices of the result."""
        if not axes:
            return self
        rank = self.rank + len(axes) if self.rank >= 0 else -1
        return self.graph.run("Unsqueeze", self, self.graph.ints(axes), rank=rank)

    def squeeze(self, *axes: int) -> Tensor:
        """Without dimensions of size 1."""
        if not axes:
            return self
        rank = self.rank - len(axes) if self.rank >= 0 else -1
        return self.graph.run("Squeeze", self, self.graph.ints(axes), rank=rank)

    def size(self, axis: int) -> Tensor:
        """The size of a dimension, an int64 without dimensions."""
        if self.dims is not None:
            return self.graph.scalar(self.dims[axis])
        end = {} if axis == -1 else {"end": axis + 1}
        shape = self.graph.run("Shape", self, dtype="int64", rank=1, start=axis, **end)
        return shape.reshape([])

    def sizes(self) -> list[Size]:
        """The sizes of all dimensions: expressions where they are known, else read from the tensor."""
        if self.dims is not None:
            return list(self.dims)
        return [self.size(axis) for axis in range(self.ndim)]

    def slice(self, axis: int, start: Size, end: Size, step: int = 1) -> Tensor:
        """Elements start:end:step of one dimension, as ONNX's Slice clamps them."""
        g = self.graph
        bounds = [g.shape([start]), g.shape([end]), g.ints([axis]), g.ints([step])]
        return g.run("Slice", self, *bounds, rank=self.rank)

    def flat(self) -> Tensor:
        """All elements in one dimension."""
        return self.reshape([-1])


def _known(size: Size) -> Any:
    return size if isinstance(size, int) else None


def as_numpy(value: Any, dtype: str) -> Array:
    """A number or array as a NumPy array of an element type."""
    kind = DataType(dtype)
    if isinstance(value, np.ndarray):
        return cast("Array", value).astype(kind.numpy())
    if kind.is_integer and isinstance(value, int):
        return np.array(value, dtype=object).astype(kind.numpy())
    with np.errstate(over="ignore"):
        array: Array = np.array(value, dtype=np.float64 if kind.is_float else None)
        return array.astype(kind.numpy())
