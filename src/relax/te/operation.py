"""Constructors of tensors: inputs, computations by formula, and external statements.

A = te.placeholder((n, 4), "float32", "A")
B = te.compute((n, 4), lambda i, j: A[i, j] + 1.0, "B")
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..ir import DataType
from ..prim import Call, IntImm, PrimExpr, SizeVar, Var, dimensions
from ..tir.buffer import Buffer, IterVar, Range, Reduce, decl_buffer, to_indices
from ..tir.functor import post_order_visit
from ..tir.scalar import as_tuple
from ..tir.statements import seq_of
from ..tir.stmt import Evaluate, Stmt
from .tensor import ComputeOp, ExternOp, PlaceholderOp, ProducerLoad, Tensor


def var(name: str = "tindex", dtype: str = "int32", span: Any = None) -> Var:
    """A scalar variable."""
    return Var(name, dtype)


def size_var(name: str = "size", dtype: str = "int32", span: Any = None) -> Var:
    """A scalar variable known to be ≥ 0."""
    return SizeVar(name, dtype)


def _shape(shape: Any) -> tuple[PrimExpr, ...]:
    if isinstance(shape, (PrimExpr, int)):
        shape = (shape,)
    sizes = dimensions(shape)
    for size in sizes:
        if isinstance(size, IntImm) and size.value < 0:
            raise ValueError(f"a dimension must be ≥ 0, found {size.value}")
    return sizes


def placeholder(shape: Any, dtype: str | None = None, name: str = "placeholder") -> Tensor:
    """An input tensor."""
    kind = DataType("float32" if dtype is None else dtype)
    return PlaceholderOp(name, (_shape(shape),), (kind,)).output(0)


def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "", span: Any = None) -> IterVar:
    """An axis to reduce over: ``dom`` is ``(low, high)``, high excluded, or a Range."""
    return _iter_var(dom, name, "reduce")


def _iter_var(dom: Any, name: str, kind: str) -> IterVar:
    if isinstance(dom, Range):
        low, extent = dom.min, dom.extent
    else:
        if len(as_tuple(dom)) != 2:
            raise TypeError(f"the domain of axis {name} must be (low, high), found {dom!s}")
        low, high = dimensions(as_tuple(dom))
        extent = high if isinstance(low, IntImm) and low.value == 0 else high - low
    dtype = extent.dtype if isinstance(low, IntImm) else (low + extent).dtype
    return IterVar(Range.from_min_extent(low.astype(dtype), extent.astype(dtype)), Var(name, dtype), kind)


def _argument_names(fcompute: Callable[..., Any], ndim: int, varargs_names: Sequence[str] | None) -> list[str]:
    """One name per dimension: the parameters' own, numbered ones for ``*args``.

    Raises TypeError on a mismatch.
    """
    parameters = inspect.signature(fcompute).parameters.values()
    fixed = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    rest = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    if len(fixed) > ndim or (len(fixed) < ndim and not rest):
        raise TypeError(f"fcompute takes {len(fixed)} indices, but the shape has {ndim} dimensions")
    if varargs_names is not None:
        return (fixed + list(varargs_names))[:ndim]
    return fixed + [f"{rest[0]}{i}" for i in range(ndim - len(fixed))]


def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: dict[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """Define the tensor whose element at ``(i, j, …)`` is ``fcompute(i, j, …)``.

    If `fcompute` returns a tuple, a tuple of tensors is returned. A reduction must be the whole expression. Raises
    TypeError or ValueError for other formulas.
    """
    sizes = _shape(shape)
    names = _argument_names(fcompute, len(sizes), varargs_names)
    axes = tuple(
        IterVar(Range.from_min_extent(IntImm(size.dtype, 0), size), Var(axis_name, size.dtype), "spatial")
        for axis_name, size in zip(names, sizes, strict=True)
    )
    result = fcompute(*(axis.var for axis in axes))
    several = isinstance(result, (tuple, list))
    body = to_indices(result)
    op = ComputeOp(name, (sizes,) * len(body), tuple(e.dtype for e in body), _inputs(body), tag, attrs)
    op.axis, op.body, op.reduce_axis = axes, body, _reduce_axes(name, body)
    return tuple(op.output(i) for i in range(len(body))) if several else op.output(0)


def _inputs(body: tuple[PrimExpr, ...]) -> tuple[Tensor, ...]:
    """Tensors read by expressions, in order of first occurrence."""
    tensors: dict[Tensor, None] = {}

    def visit(node: object) -> None:
        if isinstance(node, ProducerLoad):
            tensors[node.producer] = None

    for expr in body:
        post_order_visit(expr, visit)
    return tuple(tensors)


def _reduce_axes(name: str, body: tuple[PrimExpr, ...]) -> tuple[IterVar, ...]:
    """Axes of the reduction that is the body, () if it is not one. Raises an error for a nested reduction."""
    first = body[0]
    for expr in body:
        if isinstance(expr, Reduce) != isinstance(first, Reduce):
            raise ValueError(f"compute {name}: either all results are reductions or none is")
        if isinstance(expr, Reduce) and isinstance(first, Reduce) and expr.combiner is not first.combiner:
            raise ValueError(f"compute {name}: several reductions in one compute must be results of one reducer")
        _refuse_nested(name, expr)
    return first.axis if isinstance(first, Reduce) else ()


def _refuse_nested(name: str, expr: PrimExpr) -> None:
    def visit(node: object) -> None:
        if isinstance(node, Reduce) and node is not expr:
            raise ValueError(
                f"compute {name}: a reduction stands inside a larger expression; give it a te.compute of its own"
            )

    post_order_visit(expr, visit)


def extern(
    shape: Any,
    inputs: Iterable[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], Any],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Sequence[Buffer] | None = None,
    out_buffers: Sequence[Buffer] | None = None,
    tag: str = "",
    attrs: dict[str, Any] | None = None,
) -> Any:
    """Define tensors written by a statement or call, which ``fcompute(input_buffers, output_buffers)`` returns.

    `shape` is one shape or a list of shapes, `dtype` likewise (default: the inputs' common dtype).
    """
    tensors = tuple(inputs)
    several = any(isinstance(item, (tuple, list)) for item in as_tuple(shape))
    shapes = tuple(_shape(item) for item in (as_tuple(shape) if several else (shape,)))
    dtypes = _extern_dtypes(name, dtype, tensors, len(shapes))
    ins = list(in_buffers or [decl_buffer(t.shape, t.dtype, t.op.name) for t in tensors])
    outs = list(out_buffers or [decl_buffer(s, d, name) for s, d in zip(shapes, dtypes, strict=True)])
    op = ExternOp(name, shapes, dtypes, tensors, tag, attrs)
    op.body = _statement(name, fcompute(ins, outs))
    op.input_buffers, op.output_buffers = tuple(ins), tuple(outs)
    results = tuple(op.output(i) for i in range(len(shapes)))
    return results if several else results[0]


def _extern_dtypes(name: str, dtype: Any, inputs: tuple[Tensor, ...], count: int) -> tuple[DataType, ...]:
    if dtype is None:
        kinds = {tensor.dtype for tensor in inputs}
        if len(kinds) != 1:
            raise ValueError(f"extern {name}: the inputs have no common dtype; give dtype=")
        return tuple(kinds) * count
    given = as_tuple(dtype) if isinstance(dtype, (tuple, list)) else (dtype,) * count
    if len(given) != count:
        raise ValueError(f"extern {name}: found {len(given)} dtypes for {count} outputs")
    return tuple(DataType(item) for item in given)


def _statement(name: str, body: Any) -> Stmt:
    if isinstance(body, Stmt):
        return body
    if isinstance(body, Call):
        return Evaluate(body)
    if isinstance(body, (tuple, list)):
        return seq_of(_statement(name, item) for item in as_tuple(body))
    raise TypeError(f"extern {name}: fcompute must return a statement or a call, found {type(body).__name__}")
