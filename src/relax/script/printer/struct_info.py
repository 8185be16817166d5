"""Printing of struct info: ``R.Tensor((n, 4), dtype="float32")``. In a signature, dimensions with new variables are
quoted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...expr import ShapeExpr
from ...ir import VDevice, vdevice_index, vdevice_text
from ...ir.vdevice import VDEVICES
from ...prim import expr as prim
from ...struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from .core import Printer, Text, prints
from .literals import number, string


def dimension(p: Printer, value: Any) -> str:
    """Text of one dimension, in which an int64 literal is plain."""
    if isinstance(value, prim.IntImm) and value.dtype == "int64":
        return p.marked(value, Text(str(value.value))).text
    outer, p.quoted = p.quoted, False
    text = p.text(value)
    if p.quoted:
        text = string(text)
    p.quoted = outer
    return text


def dimensions(p: Printer, values: Iterable[Any]) -> str:
    """Text of dimensions as a Python tuple."""
    texts = [dimension(p, value) for value in values]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


@prints(ObjectStructInfo)
def _object(p: Printer, node: ObjectStructInfo) -> Text:
    return Text(p.R("Object"))


@prints(PrimStructInfo)
def _prim(p: Printer, node: PrimStructInfo) -> Text:
    if node.value is None:
        return Text(f'{p.R("Prim")}("{node.dtype!s}")')
    value = node.value
    if isinstance(value, prim.IntImm) and value.dtype == node.dtype:
        text = str(bool(value.value)) if value.dtype.is_bool else str(value.value)
        implied = node.dtype == ("bool" if value.dtype.is_bool else "int64")
    elif isinstance(value, prim.FloatImm) and value.dtype == node.dtype:
        text, implied = number(value.value), node.dtype == "float64"
    elif isinstance(value, prim.IntImm) and value.dtype == "int64":  # another dtype than is said: broken, and shown
        text, implied = f"{p.T('int64')}({value.value})", False
    else:
        text = dimension(p, value)  # a quoted name is an int64, if nothing else is said
        implied = node.dtype == value.dtype and (node.dtype == "int64" or not isinstance(value, prim.Var))
    if implied:
        return Text(f"{p.R('Prim')}(value={text})")
    return Text(f'{p.R("Prim")}("{node.dtype!s}", value={text})')


@prints(ShapeStructInfo)
def _shape(p: Printer, node: ShapeStructInfo) -> Text:
    if node.values is None:
        return Text(p.R("Shape") if node.ndim == -1 else f"{p.R('Shape')}(ndim={node.ndim})")
    values = ", ".join(dimension(p, value) for value in node.values)
    ndim = "" if node.ndim == len(node.values) else f", ndim={node.ndim}"
    return Text(f"{p.R('Shape')}([{values}]{ndim})")


@prints(TensorStructInfo)
def _tensor(p: Printer, node: TensorStructInfo) -> Text:
    arguments: list[str] = []
    implied = -1
    if isinstance(node.shape, ShapeExpr):
        arguments.append(dimensions(p, node.shape.values))
        implied = len(node.shape.values)
    elif node.shape is not None:
        arguments.append(p.text(node.shape))
        shape_info = node.shape.struct_info_
        implied = shape_info.ndim if isinstance(shape_info, ShapeStructInfo) else -1
    if not node.dtype.is_void:
        arguments.append(f'dtype="{node.dtype!s}"')
    if node.vdevice is not None:
        arguments.append(f"vdevice={vdevice_reference(p, node.vdevice)}")
    if node.ndim not in (implied, -1):
        arguments.append(f"ndim={node.ndim}")
    return Text(f"{p.R('Tensor')}({', '.join(arguments)})" if arguments else p.R("Tensor"))


def vdevice_reference(p: Printer, device: VDevice) -> str:
    """Reference to a virtual device as text: its index in the module's list, or without a module its description."""
    if p.in_module:
        is_listed = vdevice_index(device, p.vdevices) is not None
        return string(vdevice_text(device, p.vdevices)) if is_listed else p.text(device)
    if not device.target.isidentifier() or device.target == VDEVICES or ":" in device.memory_scope:
        return p.text(device)
    scope = "" if device.memory_scope == "global" else f":{device.memory_scope}"
    return string(f"{device.target}:{device.vdevice_id}{scope}")


@prints(VDevice)
def _vdevice(p: Printer, node: VDevice) -> Text:
    target, scope = string(node.target), string(node.memory_scope)
    return Text(f"{p.I('vdevice')}({target}, {node.vdevice_id}, {scope})")


@prints(TupleStructInfo)
def _tuple(p: Printer, node: TupleStructInfo) -> Text:
    if not node.fields:
        return Text(p.R("Tuple"))
    return Text(f"{p.R('Tuple')}({', '.join(p.text(field) for field in node.fields)})")


@prints(FuncStructInfo)
def _func(p: Printer, node: FuncStructInfo) -> Text:
    arguments: list[str] = []
    if node.params is not None:
        params = [p.text(param) for param in node.params]
        arguments.append(f"({params[0]},)" if len(params) == 1 else f"({', '.join(params)})")
        arguments.append(p.text(node.ret))
        arguments.append(str(bool(node.purity)))
    else:
        if not isinstance(node.ret, ObjectStructInfo):
            arguments.append(f"ret={p.text(node.ret)}")
        if node.purity:
            arguments.append("purity=True")
    if node.derive_func is not None and (node.params is not None or node.derive_func != DEFAULT):
        arguments.append(f"derive_func={string(node.derive_func)}")
    return Text(f"{p.R('Callable')}({', '.join(arguments)})" if arguments else p.R("Callable"))


DEFAULT = FuncStructInfo.opaque_func().derive_func
