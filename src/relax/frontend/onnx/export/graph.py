"""Graphs under construction: nodes, constants and sizes, as writers of operators see them."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from onnx import NodeProto, TensorProto, ValueInfoProto, helper

from ....ir import DataType, Diagnostic, DiagnosticError, Span, StructInfo
from ....prim import IntImm, PrimExpr
from ....prim import Var as PrimVar
from . import sizes
from .kernels import BROADCASTING, INDICES, kernel_dtype
from .tensor import Array, Size, Tensor, as_numpy

UNSAYABLE = "E6008"
"""Code of programs that ONNX cannot say."""

_SMALL = 256
"""Greatest size in bytes of constants that are compared, so that equal ones are written once."""

ELEMENT_TYPES: dict[str, int] = {
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8_e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ,
    "float8_e5m2": TensorProto.FLOAT8E5M2,
    "float8_e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ,
    "float4_e2m1fn": TensorProto.FLOAT4E2M1,
    "float8_e8m0fnu": TensorProto.FLOAT8E8M0,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "bool": TensorProto.BOOL,
    **{f"int{n}": getattr(TensorProto, f"INT{n}") for n in (4, 8, 16, 32, 64)},
    **{f"uint{n}": getattr(TensorProto, f"UINT{n}") for n in (4, 8, 16, 32, 64)},
}
"""ONNX's element types by dtype."""
ELEMENT_TYPES.update(
    (dtype, getattr(TensorProto, dtype.upper())) for dtype in ("int2", "uint2") if hasattr(TensorProto, dtype.upper())
)


class Model:
    """State of one export: names that are taken, and the constants of the model."""

    def __init__(self, opset: int, functions: Mapping[str, Any]) -> None:
        self.opset, self.functions = opset, functions
        self.names: dict[str, int] = {}
        self.constants: dict[str, Array] = {}
        """Initializers of the model's graph by name."""
        self.rounded: dict[str, tuple[Tensor, int]] = {}
        """Activations, and the size of their blocks, by the name of the bytes that they are rounded to."""
        self._small: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._dims: dict[PrimVar, str] = {}

    def fresh(self, hint: str) -> str:
        """A name that no value has yet."""
        base = re.sub(r"[^A-Za-z0-9_./]", "_", hint) or "v"
        count = self.names.get(base)
        self.names[base] = 1 if count is None else count + 1
        if count is None:
            return base
        return self.fresh(f"{base}_{count}")

    def constant(self, array: Array, hint: str) -> str:
        """The name of an initializer with these elements; small equal ones are one."""
        key = (array.dtype.name, array.shape, array.tobytes()) if array.nbytes <= _SMALL else None
        if key is not None and key in self._small:
            return self._small[key]
        name = self.fresh(hint)
        self.constants[name] = array
        if key is not None:
            self._small[key] = name
        return name

    def dim_param(self, var: PrimVar) -> str:
        """The name of a symbolic dimension; variables with one name get several."""
        if var not in self._dims:
            taken = set(self._dims.values())
            name, count = var.name, 1
            while name in taken:
                name, count = f"{var.name}_{count}", count + 1
            self._dims[var] = name
        return self._dims[var]


class Graph:
    """A graph under construction: that of the model, or a branch of an If, which sees the values around it."""

    def __init__(self, model: Model, parent: Graph | None = None) -> None:
        self.model, self.parent = model, parent
        self.nodes: list[NodeProto] = []
        self.bound: dict[PrimVar, Tensor] = {} if parent is None else dict(parent.bound)
        """Tensors of one element with the values of shape variables."""
        self.computed: dict[PrimExpr, Tensor] = {} if parent is None else dict(parent.computed)
        """Tensors of one element with the values of sizes that were computed."""
        self.title = "" if parent is None else parent.title
        self.span: Span | None = None if parent is None else parent.span
        self.hint = ""
        self.result: StructInfo | None = None
        """Struct info of the result of the call that is being written."""

    @property
    def opset(self) -> int:
        """The version of ONNX's operators."""
        return self.model.opset

    @contextmanager
    def at(self, title: str, span: Span | None, hint: str, result: StructInfo | None) -> Generator[None]:
        """Write one binding: diagnostics are placed at it, and values are named after its variable."""
        outer = self.title, self.span, self.hint, self.result
        self.title, self.span, self.hint, self.result = title, span or self.span, hint, result
        try:
            yield
        finally:
            self.title, self.span, self.hint, self.result = outer

    def refuse(self, construct: str, hint: str = "") -> NoReturn:
        """Raise the diagnostic for something that ONNX cannot say."""
        where = f"{self.title}: " if self.title else ""
        raise DiagnosticError(Diagnostic(UNSAYABLE, f"{where}ONNX cannot say {construct}", self.span, "", (), hint))

    # -- nodes

    def nodes_of(
        self, op_type: str, inputs: Sequence[Tensor | None], count: int, domain: str, attributes: Mapping[str, Any]
    ) -> list[str]:
        """Write a node and return the names of its outputs."""
        names = [
            self.model.fresh(f"{self.hint}_{op_type.lower()}" if self.hint else op_type.lower()) for _ in range(count)
        ]
        given = ["" if x is None else x.name for x in inputs]
        while given and not given[-1]:
            given.pop()
        attributes = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(op_type, given, names, domain=domain, **attributes))
        return names

    def node(
        self, op_type: str, *inputs: Tensor | None, dtype: str = "", rank: int = -1, domain: str = "", **attributes: Any
    ) -> Tensor:
        """Write a node with one output, by default of the first input's dtype."""
        first = next((x for x in inputs if x is not None), None)
        (name,) = self.nodes_of(op_type, inputs, 1, domain, attributes)
        if rank == -1 and op_type in BROADCASTING:
            rank = -1 if any(x is not None and x.rank == -1 for x in inputs) else max(x.rank for x in inputs if x)
        return Tensor(self, name, dtype or (first.dtype if first else ""), rank)

    def run(self, op_type: str, *inputs: Tensor | None, dtype: str = "", rank: int = -1, **attributes: Any) -> Tensor:
        """Write a node in an element type that has a kernel; inputs of the first data type are cast, and the result."""
        data = inputs[1] if op_type == "Where" else inputs[0]
        assert data is not None, "a node has a first input"
        own, wide = data.dtype, kernel_dtype(op_type, data.dtype)
        if own == wide:
            return self.node(op_type, *inputs, dtype=dtype or own, rank=rank, **attributes)
        cast = [
            x.to(wide) if x is not None and x.dtype == own and _is_data(op_type, i) else x for i, x in enumerate(inputs)
        ]
        result = self.node(op_type, *cast, dtype=dtype or wide, rank=rank, **attributes)
        return result if dtype else result.to(own)

    def run_all(self, op_type: str, inputs: Sequence[Tensor], rank: int = -1, **attributes: Any) -> Tensor:
        """Write a node of any number of inputs of one dtype."""
        return self.run(op_type, *inputs, rank=rank, **attributes)

    def parts(
        self, op_type: str, *inputs: Tensor | None, dtypes: Sequence[str], rank: int = -1, **attributes: Any
    ) -> list[Tensor]:
        """Write a node with several outputs of these dtypes."""
        names = self.nodes_of(op_type, inputs, len(dtypes), "", attributes)
        return [Tensor(self, name, dtype, rank) for name, dtype in zip(names, dtypes, strict=True)]

    # -- element types

    def element_type(self, dtype: str) -> int:
        """ONNX's number of an element type. Raises DiagnosticError for one that ONNX lacks."""
        number = ELEMENT_TYPES.get(dtype)
        if number is None:
            self.refuse(
                f"the dtype {dtype or 'of a tensor whose dtype is not known'}", "cast it, or state it: R.astype"
            )
        return number

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        """Write a Cast."""
        if (
            x.constant is not None
            and x.constant.size <= _SMALL
            and not (x.kind.is_float and DataType(dtype).is_integer)
        ):
            return self.const(x.constant, dtype)
        attributes: dict[str, Any] = {"saturate": 0} if dtype.startswith("float8") else {}
        name = self.node("Cast", x, dtype=dtype, to=self.element_type(dtype), **attributes).name
        return Tensor(self, name, dtype, x.rank, x.dims)

    # -- constants

    def value_info(self, tensor: Tensor, dims: Sequence[int | str | None] | None = None) -> ValueInfoProto:
        """Declare a value: its type, and its dimensions if they are given."""
        kind = self.element_type(tensor.dtype)
        if tensor.sequence:
            return helper.make_tensor_sequence_value_info(tensor.name, kind, None)
        return helper.make_tensor_value_info(tensor.name, kind, dims)

    def const(self, value: Any, dtype: str, hint: str = "c") -> Tensor:
        """A constant of numbers, by default without dimensions."""
        self.element_type(dtype)
        array = as_numpy(value, dtype)
        dims = [IntImm("int64", size) for size in array.shape]
        return Tensor(self, self.model.constant(array, hint), dtype, len(dims), dims, array)

    def ints(self, values: Iterable[int]) -> Tensor:
        """A constant vector of int64."""
        return self.const(np.array(list(values), np.int64), "int64", "ints")

    # -- sizes

    def vector(self, size: Size) -> Tensor:
        """A size as a vector of one element."""
        if isinstance(size, Tensor):
            return size.to("int64").reshape([1])
        if isinstance(size, int):
            return self.ints([size])
        return sizes.tensor_of(self, size)

    def scalar(self, size: Size) -> Tensor:
        """A size as a tensor without dimensions."""
        if isinstance(size, Tensor):
            return size
        value = size if isinstance(size, int) else getattr(size, "value", None)
        if isinstance(value, int):
            return self.const(value, "int64")
        return self.vector(size).reshape([])

    def shape(self, values: Sequence[Size]) -> Tensor:
        """Sizes as a vector of int64."""
        numbers = [value if isinstance(value, int) else getattr(value, "value", None) for value in values]
        if all(isinstance(number, int) for number in numbers):
            return self.ints(numbers)  # type: ignore[arg-type]
        vectors = [self.vector(value) for value in values]
        return vectors[0] if len(vectors) == 1 else self.node("Concat", *vectors, rank=1, axis=0)

    def bind(self, var: PrimVar, value: Tensor) -> None:
        """Let a shape variable have the value of a tensor of one element."""
        self.bound[var] = value


def _is_data(op_type: str, index: int) -> bool:
    """True for an input with elements, false for one with indices, axes or sizes."""
    return index not in INDICES.get(op_type, ())
