"""Layers whose weights have few bits: `QuantizedLinear`, `QuantizedEmbedding`, and what makes them of other layers.

    layer = nn.QuantizedLinear(512, 256, format="q4_k")
    layer.weight.data = file["blk.0.ffn_up.weight"]         bytes of a GGUF file, or float weights, which are rounded
    model = nn.QuantizeModules("q4_k").visit("", model)     replaces the Linear and Embedding layers of a model
    nn.pack_weights(model, "llvm")                          weights in the order in which kernels of this machine read

The formats are those of `relax.topi.block_formats`. A parameter holds rows as files have them, (rows, bytes) of uint8;
packed, it holds panels of rows, int32 (`relax.topi.packed_blocks`), which fast kernels read. Data are packed when they
are first read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from ... import op as relax_op
from ...expr import Var
from ...farm.host import resolve
from ...ir import DataType
from ...runtime import nd
from ...runtime.nd import NDArray
from ...runtime.rooms import ModuleWhenUsed
from ...runtime.tensor import numpy_view
from ...struct_info import TensorStructInfo
from ...target import Target
from ...topi.block_formats import BlockFormat
from ...topi.packed_blocks import PackedBlocks
from ...transform.quantize_rows import quantize_rows
from ...transform.quantize_weights import checked_format
from . import op
from .core import Module
from .modules import Embedding, Linear
from .parameter import Data, Parameter, dtype_of
from .tensor import DimLike, Tensor, emit
from .visitor import Mutator

if TYPE_CHECKING:
    from ...schedules.cpu.products import block_product
else:  # the rules of schedules are many, and only `pack` asks one
    block_product = ModuleWhenUsed("relax.schedules.cpu.products.block_product")

Activations: TypeAlias = Literal["int8", "float32"]
"""Form in which products take activations: rounded to bytes in blocks, or as they are."""


class QuantizedParameter(Parameter):
    """Matrix of weights in a block format: rows (rows, bytes) of uint8, or after `pack` panels of int32.

    Raises ValueError for an unknown format, and unless `depth` is a whole number of blocks.
    """

    def __init__(self, rows: int, depth: int, format: str) -> None:
        self.format: BlockFormat = checked_format(format)
        self.rows, self.depth = rows, depth
        self.packing: PackedBlocks | None = None
        """Order of the weights for a target; None for rows as files have them."""
        super().__init__((rows, bytes_of_row(depth, self.format)), "uint8")

    def pack(self, target: Target | str | None = None) -> None:
        """Order the weights for a target, by default that of this machine. Raises ValueError if they are packed."""
        if self.packing is not None:
            raise ValueError(f"{self!r} is packed already")
        if self._data is not None:
            rows, self._data = self._data, None
            self._source = lambda: rows
        self.packing = packing = block_product.packed_for(self.format.name, resolve(target))
        shape = (packing.panels(self.rows), packing.words(self.depth))
        self._expr = Var("param", TensorStructInfo(shape, "int32"))

    @property
    def layout(self) -> dict[str, Any]:
        """Attributes of the weights, for `R.nn.quantized_matmul` and `R.nn.quantized_take`."""
        return {"format": self.format.name} if self.packing is None else self.packing.attributes(self.rows)

    def to(self, dtype: str | None = None) -> None:
        """Keep the bytes, whatever the dtype of the module."""

    def _check(self, data: Data) -> None:
        """Raise TypeError or ValueError unless data is weights, rows of bytes, or what the parameter holds."""
        dtype, shape = dtype_of(data), tuple(getattr(data, "shape", ()))
        if hasattr(data, "dtype") and DataType(dtype).is_float:
            if shape != (self.rows, self.depth):
                raise ValueError(f"weights of shape {[*shape]} are not of {self.rows} rows of {self.depth}")
        elif self.packing is not None and dtype == "uint8":
            expected = (self.rows, bytes_of_row(self.depth, self.format))
            if shape != expected:
                raise ValueError(f"rows of shape {[*shape]} are not of shape {[*expected]}")
        else:
            super()._check(data)

    def _converted(self, data: Data) -> NDArray:
        """Return data as the parameter holds it: float weights are rounded, rows are packed."""
        dtype = dtype_of(data)
        if dtype == self.dtype:
            return super()._converted(data)
        array = _as_array(data)
        if dtype != "uint8":
            array = quantize_rows(array.astype(np.float32), self.format.name)
        return super()._converted(array if self.packing is None else self.packing.pack(array))


def bytes_of_row(depth: int, held: BlockFormat) -> int:
    """Return the bytes of a row of `depth` weights. Raises ValueError unless these are whole blocks."""
    if depth % held.elements:
        raise ValueError(f"rows of {depth} weights are no whole blocks of {held.elements}, as {held.name} has")
    return depth // held.elements * held.bytes


def _as_array(data: Data) -> Any:
    if isinstance(data, NDArray):
        return numpy_view(data.tensor)
    return cast(Any, data) if isinstance(data, np.ndarray) else numpy_view(nd.from_dlpack(data).tensor)


class QuantizedLinear(Module):
    """x · weightᵀ + bias with a weight in a block format.

    With `activations` "int8", x is rounded to bytes, with a scale for each block, and integers are multiplied; with
    "float32", the product is that of the decoded weights. The result has `out_dtype`, by default the dtype of x.
    Raises ValueError for an unknown format, and unless `in_features` is a whole number of blocks.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        format: str = "q4_0",
        bias: bool = True,
        activations: Activations = "int8",
        dtype: str | None = None,
        out_dtype: str | None = None,
    ) -> None:
        _check_activations(activations)
        self.in_features, self.out_features = in_features, out_features
        self.activations: Activations = activations
        self.out_dtype = out_dtype
        self.weight = QuantizedParameter(out_features, in_features, format)
        self.bias = Parameter((out_features,), out_dtype or dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the product with x, (…, in_features): (…, out_features)."""
        y = product(x, self.weight, self.activations, self.out_dtype or x.dtype)
        return y if self.bias is None else op.add(y, self.bias)


class QuantizedEmbedding(Module):
    """Rows of a table in a block format, decoded to `dtype`; `lm_head_forward` is the product with the same table.

    Raises ValueError for an unknown format, and unless `dim` is a whole number of blocks.
    """

    def __init__(
        self, num: int, dim: int, format: str = "q4_0", dtype: str = "float32", activations: Activations = "int8"
    ) -> None:
        _check_activations(activations)
        self.num, self.dim, self.dtype = num, dim, dtype
        self.activations: Activations = activations
        self.weight = QuantizedParameter(num, dim, format)

    def forward(self, x: Tensor) -> Tensor:
        """Return the rows at integers x, of any shape: (…, dim)."""
        weight = self.weight
        return emit(relax_op.nn.quantized_take, "take", weight, x, out_dtype=self.dtype, **weight.layout)

    def lm_head_forward(self, x: Tensor) -> Tensor:
        """Return the product of x, (…, dim), with the rows of the table: (…, num), float32."""
        return product(x, self.weight, self.activations, "float32")


def product(x: Tensor, weight: QuantizedParameter, activations: Activations, out_dtype: str) -> Tensor:
    """Return x · weightᵀ, (…, rows), for x (…, depth). Raises ValueError for packed weights and float activations."""
    if activations == "float32":
        if weight.packing is not None:
            raise ValueError('packed weights are multiplied by integers: activations must be "int8"')
        rows = emit(relax_op.dequantize_blocks, "dequantize", weight, weight.format.name, x.dtype)
        return op.matmul(x, op.permute_dims(rows), None if out_dtype == x.dtype else out_dtype)
    numbers, scales = emit(relax_op.nn.dynamic_quantize, "quantize", x, weight.format.elements)
    y: Tensor = emit(relax_op.nn.quantized_matmul, "matmul", numbers, scales, weight, **weight.layout)
    return y.astype(out_dtype)


def _check_activations(activations: str) -> None:
    if activations not in ("int8", "float32"):
        raise ValueError(f'activations must be "int8" or "float32", found {activations!r}')


class QuantizeModules(Mutator):
    """Mutator: replaces Linear and Embedding layers by those with weights in a block format.

    Layers whose name `keep` returns True for (or, a list, whose names it has), and those whose rows are no whole
    blocks, stay. Data of weights are rounded when they are first read. Raises ValueError for an unknown format.
    """

    def __init__(
        self, format: str = "q4_0", activations: Activations = "int8", keep: Callable[[str], bool] | Iterable[str] = ()
    ) -> None:
        _check_activations(activations)
        self.format = checked_format(format)
        self.activations: Activations = activations
        names = () if callable(keep) else frozenset(keep)
        self.keeps: Callable[[str], bool] = keep if callable(keep) else names.__contains__

    def visit_module(self, name: str, node: Module) -> Any:
        """Return a layer with rounded weights for a Linear or Embedding layer."""
        if type(node) is Linear and (sizes := self._sizes(name, node.out_features, node.in_features)):
            linear = QuantizedLinear(
                sizes[1], sizes[0], self.format.name, False, self.activations, out_dtype=node.out_dtype
            )  # fmt: skip
            linear.bias = node.bias
            _move(node.weight, linear.weight)
            return linear
        if type(node) is Embedding and (sizes := self._sizes(name, node.num, node.dim)):
            embedding = QuantizedEmbedding(*sizes, self.format.name, node.weight.dtype, self.activations)
            _move(node.weight, embedding.weight)
            return embedding
        return super().visit_module(name, node)

    def _sizes(self, name: str, rows: DimLike, depth: DimLike) -> tuple[int, int] | None:
        """Return the sizes of a weight that is to be rounded, None for others."""
        if not isinstance(rows, int) or not isinstance(depth, int) or depth % self.format.elements or self.keeps(name):
            return None
        return rows, depth


def _move(source: Parameter, target: Parameter) -> None:
    """Give a parameter the data of another one, if it has any."""
    target.attrs = dict(source.attrs)
    if source.has_data:
        target.data = lambda: source.data


def pack_weights(model: Module, target: Target | str | None = None) -> None:
    """Order the weights of quantised layers for a target, by default that of this machine.

    Programs exported afterwards take packed parameters. Layers with activations in float32 stay unpacked.
    """
    for _, module in model.named_modules():
        is_quantized = isinstance(module, (QuantizedLinear, QuantizedEmbedding))
        if is_quantized and module.activations == "int8" and module.weight.packing is None:
            module.weight.pack(target)
