"""Operators that make tensors, or arrange, select and order their elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import op as relax_op
from ....expr import ShapeExpr
from ..tensor import DimLike, Tensor, emit
from .lift import Creation, lifted

Function = Callable[..., Tensor]
"""Function of tensors whose parameters are those of the operator of the same name."""

unsqueeze: Function = lifted("expand_dims", "unsqueeze", operands="x dim")
concat: Function = lifted("concat", operands="x dim")
broadcast_to: Function = lifted("broadcast_to")
permute_dims: Function = lifted("permute_dims")
permute: Function = lifted("permute_dims", "permute")
reshape: Function = lifted("reshape")
repeat: Function = lifted("repeat", operands="x")
squeeze: Function = lifted("squeeze", axis=-1)
take: Function = lifted("take", operands="x indices axis name")
pad: Function = lifted("nn.pad", "pad", operands="x pad mode value")
triu: Function = lifted("triu", operands="x diagonal", k=0)
tril: Function = lifted("tril", operands="x diagonal", k=0)
full: Function = lifted("full", dtype="float32")
zeros: Creation = lifted("zeros", dtype="float32")
ones: Creation = lifted("ones", dtype="float32")
arange: Function = lifted("arange", step=1, dtype="float32")
cumsum: Function = lifted("cumsum")
sort: Function = lifted("sort")
argsort: Function = lifted("argsort")
topk: Callable[..., Any] = lifted("topk", k=1)


def empty(shape: Sequence[DimLike], dtype: str = "float32", name: str = "empty") -> Tensor:
    """Return a tensor of a shape with elements of any values."""
    return emit(relax_op.builtin.alloc_tensor, name, ShapeExpr([*shape]), dtype, 0)


def astype(x: Tensor, dtype: str, name: str = "astype") -> Tensor:
    """Return the elements converted to a dtype; `x` itself if it has it."""
    return x if x.dtype == dtype else emit(relax_op.astype, name, x, dtype)


def split(
    ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0, name: str = "split"
) -> tuple[Tensor, ...]:
    """Return the parts of a tensor along an axis: a number of equal ones, or cut at indices.

    Parts of a size that is no multiple of the number of sections are as those of `relax.op.split`.
    """
    return emit(relax_op.split, name, ary, indices_or_sections, axis)


def chunk(x: Tensor, chunks: int, dim: int = 0, name: str = "chunk") -> tuple[Tensor, ...]:
    """Return `chunks` equal parts of a tensor along a dimension."""
    return emit(relax_op.split, name, x, chunks, dim)


def where(condition: Tensor, x1: Any, x2: Any, name: str = "where") -> Tensor:
    """Return the element of `x1` where the condition is true (not 0), of `x2` elsewhere; shapes are broadcast."""
    return emit(relax_op.where, name, astype(condition, "bool"), x1, x2)
