"""Run-time values other than numeric tensors: sequences, optional values, tensors of strings.

The program holds them in variables of ``R.Object`` and works on them by builtins of the runtime, ``relax.run.*``. A
tensor taken out of one is cast to its dtype and rank, with a new shape variable for each dimension.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import onnx

from ... import op
from ...expr import PrimValue, ShapeExpr, StringImm
from ...ir import RelaxExpr, StructInfo
from ...op.known import known_struct_info
from ...prim import IntImm, PrimExpr
from ...struct_info import ObjectStructInfo, ShapeStructInfo, TensorStructInfo
from .emitter import Emitter, identifier
from .model import dtype_name
from .values import (
    Array,
    Dims,
    Elements,
    Object,
    Optional,
    OptionalType,
    SequenceType,
    Strings,
    TensorType,
    Value,
    ValueType,
)
from .values import Sequence as SequenceValue

# ------------------------------------------------------------------------------------- types


def type_of_proto(proto: onnx.TypeProto, where: str = "") -> ValueType | None:
    """The type that ONNX writes so, None if it says nothing."""
    match proto.WhichOneof("value"):
        case "tensor_type":
            tensor = proto.tensor_type
            if not tensor.elem_type:
                return None
            ndim = len(tensor.shape.dim) if tensor.HasField("shape") else -1
            return TensorType(dtype_name(tensor.elem_type, where), ndim)
        case "sequence_type":
            return SequenceType(type_of_proto(proto.sequence_type.elem_type, where))
        case "optional_type":
            return OptionalType(type_of_proto(proto.optional_type.elem_type, where))
        case _:
            return None


def type_of(g: Emitter, value: Value) -> ValueType:
    """The type of a value."""
    match value:
        case Object():
            return value.type
        case Strings(array):
            return TensorType("string", array.ndim)
        case Elements(array, dtype):
            return TensorType(dtype, array.ndim)
        case SequenceValue(items):
            return SequenceType(_common([type_of(g, item) for item in items]))
        case Optional(content):
            return OptionalType(None if content is None else type_of(g, content))
        case _:
            info = g.info(value)
            return TensorType(str(info.dtype), info.ndim)


def _common(types: Sequence[ValueType | None]) -> ValueType | None:
    """The type that covers all of these."""
    result: ValueType | None = None
    for kind in types:
        result = united(result, kind)
    return result


def united(a: ValueType | None, b: ValueType | None) -> ValueType | None:
    """The type that covers two, as far as ONNX has one; None stands for nothing known."""
    match a, b:
        case (None, _):
            return b
        case (_, None):
            return a
        case (TensorType(dtype, ndim), TensorType()) if dtype == b.dtype:
            return TensorType(dtype, ndim if ndim == b.ndim else -1)
        case (SequenceType(x), SequenceType(y)):
            return SequenceType(united(x, y))
        case (OptionalType(x), OptionalType(y)):
            return OptionalType(united(x, y))
        case (OptionalType(x), _):
            return OptionalType(united(x, b))
        case (_, OptionalType(y)):
            return OptionalType(united(a, y))
        case _:
            return a


def is_numeric(kind: ValueType | None) -> bool:
    """True for the type of a tensor of numbers."""
    return isinstance(kind, TensorType) and kind.dtype != "string"


def is_strings(value: Value | None) -> bool:
    """True for a tensor of strings."""
    return isinstance(value, Strings) or (
        isinstance(value, Object) and isinstance(value.type, TensorType) and value.type.dtype == "string"
    )


# ------------------------------------------------------------------------------------- into and out of objects


def run(g: Emitter, name: str, *args: Any, info: StructInfo | None = None) -> RelaxExpr:
    """Emit a call of the builtin ``relax.run.<name>``; numbers, texts and None are values of the program."""
    operands = [_operand(arg) for arg in args]
    result = info or ObjectStructInfo()
    return g.emit(op.call_pure_packed(f"relax.run.{name}", *operands, sinfo_args=[result]), _name_of(g))


def _operand(arg: Any) -> RelaxExpr:
    if arg is None:
        return op.null_value()
    if isinstance(arg, str):
        return StringImm(arg)
    if isinstance(arg, (int, PrimExpr)):
        return PrimValue(arg)
    return arg


def _name_of(g: Emitter) -> str:
    return next((name for name in g.outputs if name), "")


def lowered(g: Emitter, value: Value | None) -> RelaxExpr:
    """Return a value as an expression of its run-time representation."""
    match value:
        case None | Optional(None):
            return g.emit(op.null_value())
        case Object(expr):
            return expr
        case Optional(content):
            return lowered(g, content)
        case Strings(array):
            return strings_constant(g, array)
        case SequenceValue(items):
            return run(g, "sequence", *(lowered(g, item) for item in items))
        case _:
            return g.tensor(value)


def strings_constant(g: Emitter, array: Array) -> RelaxExpr:
    """A constant tensor of strings."""
    text = json.dumps(array.reshape(-1).tolist(), ensure_ascii=False)
    return run(g, "strings", ShapeExpr(array.shape), text)


def raised(g: Emitter, expr: RelaxExpr, kind: ValueType | None) -> Value:
    """The value that an expression of this type stands for: a tensor of numbers is cast to its dtype and rank."""
    if not isinstance(kind, TensorType):
        if kind is None:
            g.unsupported("an item of a sequence of which no type is known")
        return Object(expr, kind)
    if kind.dtype == "string":
        return Object(expr, kind)
    if isinstance(known_struct_info(expr), TensorStructInfo):
        return expr
    name = identifier(_name_of(g)) or "item"
    dims = None if kind.ndim < 0 else ShapeExpr([g.fresh_dim(name, axis) for axis in range(kind.ndim)])
    return g.builder.match_cast(expr, TensorStructInfo(dims, kind.dtype), name)


def strings_dims(g: Emitter, value: Value) -> Dims:
    """The dimensions of a tensor of strings."""
    if isinstance(value, Strings):
        return tuple(Elements.of(list(value.array.shape)).flat)
    kind = type_of(g, value)
    if not isinstance(kind, TensorType) or kind.ndim < 0:
        g.unsupported("a tensor of strings whose rank is not known")
    shape = run(g, "strings_shape", lowered(g, value), info=ShapeStructInfo(ndim=kind.ndim))
    dims = [g.fresh_dim("strings", axis) for axis in range(kind.ndim)]
    g.builder.match_cast(shape, ShapeStructInfo(ShapeExpr(dims).values))
    return tuple(dims)


def ndim_of(g: Emitter, value: Value) -> int:
    """The rank of a tensor of numbers or strings, -1 if it is not known."""
    kind = type_of(g, value)
    return kind.ndim if isinstance(kind, TensorType) else -1


def scalar_position(g: Emitter, value: Value | None) -> int | None:
    """A position in a sequence that is known when the model is imported."""
    elements = g.elements(value)
    if elements is None or elements.array.size != 1 or not isinstance(elements.flat[0], IntImm):
        return None
    return elements.flat[0].value
