"""Kernels and functions of one's own, and output, in methods of modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from .... import op as relax_op
from ....expr import ShapeExpr, convert
from ....ir import RelaxExpr, StructInfo
from ....ir.python_source import user_span
from ....prim import PrimExpr
from ....struct_info import TupleStructInfo
from ....tir import PrimFunc
from ..exporter import Exporter
from ..tensor import Tensor, at_user, current_builder, emit, struct_info_of, unwrap, wrap_nested

OutT = TypeVar("OutT")


def tensor_expr_op(
    tensor_expr_func: Callable[..., Any], name_hint: str, args: Sequence[Any], *, attrs: Mapping[str, Any] | None = None
) -> Any:
    """Return the result of a kernel that a function of tensor expressions (`relax.te`) defines.

    Parameters
    ----------
    tensor_expr_func
        Function of te.Tensors, sizes and other values, which returns a te.Tensor or several.
    name_hint
        Name of the kernel.
    args
        Its arguments: Tensors, sizes, and values that are passed unchanged.
    attrs
        Attributes of the kernel.
    """
    builder = current_builder()
    values = [unwrap(arg) for arg in args]
    return at_user(
        lambda: wrap_nested(
            builder.call_te(
                tensor_expr_func, *values, primfunc_name_hint=Exporter.private_name(name_hint), primfunc_attrs=attrs
            ),
            name_hint,
        )
    )


def tensor_ir_op(func: PrimFunc, name_hint: str, args: Any, out: OutT) -> OutT:
    """Return the results of a kernel, a PrimFunc, in new tensors.

    Parameters
    ----------
    func
        The kernel: tensors, then integers, then the results.
    name_hint
        Name of the kernel in the module.
    args
        Its arguments, Tensors before integers: sizes or shapes.
    out
        A Tensor of the result's shape and dtype (`Tensor.placeholder`), or several of them.

    Raises
    ------
    DiagnosticError
        If the kernel does not take these arguments.
    """
    tensors, integers = _separated(args)
    function = current_builder().add_func(func, Exporter.private_name(name_hint))
    return _called(relax_op.call_tir, name_hint, function, tensors, out_sinfo=_infos(out), tir_vars=integers)


def tensor_ir_inplace_op(
    func: PrimFunc, name_hint: str, args: Any, inplace_indices: int | Sequence[int], out: OutT
) -> OutT:
    """Return the results of a kernel that overwrites arguments: result i is the argument `inplace_indices[i]`.

    An index of -1 stands for a new tensor. Overwritten arguments must not be used again. Parameters and errors are as
    those of `tensor_ir_op`.
    """
    tensors, integers = _separated(args)
    function = current_builder().add_func(func, Exporter.private_name(name_hint))
    indices = [inplace_indices] if isinstance(inplace_indices, int) else [*inplace_indices]
    return _called(relax_op.call_tir_inplace, name_hint, function, tensors, indices, _infos(out), integers)


def extern(name: str, args: Sequence[Any], out: OutT) -> OutT:
    """Return the results of a packed function that writes them to tensors behind its arguments.

    Parameters
    ----------
    name
        Name of the function in the registry (`relax.register_func`), or in a module of other code.
    args
        Its arguments: Tensors, sizes, numbers and strings.
    out
        A Tensor of the result's shape and dtype (`Tensor.placeholder`), or several of them.
    """
    values = [convert(unwrap(arg)) for arg in args]
    return _called(relax_op.call_dps_packed, name, name, values, out_sinfo=_infos(out))


def debug_func(name: str, *args: Any, _line_info: str | None = None) -> None:
    """Call a packed function for its effect: ``function(place, *args)`` with the place of this line, "file:line".

    Arguments are Tensors, sizes, numbers and strings. Raises RuntimeError unless the module is exported with
    `debug=True` and the method has effects.
    """
    span = user_span("frontend/nn/")
    line = _line_info or ("" if span is None else f"{span.source.name}:{span.line}")
    effect = Exporter.current().io_effect
    if effect is None:
        raise RuntimeError("debug_func and print_ need a module that is exported with debug=True")
    effect.emit_call("vm.builtin.invoke_debug_func", *map(convert, (name, line, *map(unwrap, args))))


def print_(tensor: Tensor) -> None:
    """Print a tensor at run time, with the place of this line. Raises as `debug_func` does."""
    span = user_span("frontend/nn/")
    line = "" if span is None else f"{span.source.name}:{span.line}"
    debug_func("vm.builtin.debug_print", tensor, _line_info=line)


def _separated(args: Any) -> tuple[list[RelaxExpr], ShapeExpr | None]:
    """Return the tensors among the arguments of a kernel, and the integers behind them."""
    tensors: list[RelaxExpr] = []
    integers: list[PrimExpr | int] = []
    for arg in cast("Sequence[Any]", args if isinstance(args, (list, tuple)) else [args]):
        match arg:
            case Tensor():
                if integers:
                    raise TypeError("a kernel takes tensors before integers; a Tensor follows a size")
                tensors.append(unwrap(arg))
            case ShapeExpr(values):
                integers += values
            case PrimExpr() | int():
                integers.append(arg)
            case _:
                raise TypeError(f"a kernel takes Tensors, sizes and shapes, found {type(arg).__name__}")
    return tensors, ShapeExpr(integers) if integers else None


def _infos(out: Any) -> StructInfo | list[StructInfo]:
    """Return the struct infos of results. Raises TypeError unless they are Tensors."""
    info = struct_info_of(out)
    if isinstance(info, TupleStructInfo):
        return [*info.fields]
    if not isinstance(info, StructInfo):
        raise TypeError(f"out must be a Tensor, such as Tensor.placeholder(shape, dtype), found {out!r}")
    return info


def _called(function: Callable[..., RelaxExpr], name: str, *args: Any, **kwargs: Any) -> Any:
    return emit(function, name, *args, **kwargs)
