"""Function bodies that the ONNX standard defines for composite operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import FunctionProto, NodeProto, TypeProto, defs, helper

from ...expr import Constant
from ...ir import DataType, RelaxExpr
from ...prim import IntImm
from ...struct_info import TensorStructInfo
from .model import broken, node_title
from .values import Elements, MapType, Object, Optional, OptionalType, SequenceType, Strings, TensorType, ValueType
from .values import Sequence as SequenceValue


def schema_of(domain: str, name: str, opset: int) -> Any:
    """The schema of an operator of the standard, None if there is none."""
    try:
        return defs.get_schema(name, opset, domain)
    except defs.SchemaError:
        return None


def standard_function(
    domain: str, name: str, opset: int, node: NodeProto | None = None, input_types: Callable[[], list[bytes]] = list
) -> FunctionProto | None:
    """The body of an operator of the standard; None if it has none.

    Some bodies depend on the node and on the types of its inputs; without a node, any function stands for them.
    """
    schema = schema_of(domain, name, opset)
    if schema is None:
        return None
    if schema.has_function:
        return _complete(schema.function_body, schema, opset)
    if not schema.has_context_dependent_function:
        return None
    if node is None:
        return FunctionProto()
    try:
        text = schema.get_context_dependent_function(node.SerializeToString(), input_types())
    except (ValueError, TypeError, RuntimeError) as error:
        raise broken(f"{node_title(node)}: the standard has no function for this form of it: {error}") from error
    if not text:
        return None
    body = FunctionProto()
    body.ParseFromString(text)
    return _complete(body, schema, opset)


def _complete(body: FunctionProto, schema: Any, opset: int) -> FunctionProto:
    """The body with the version of ONNX's own operators that it is written in, and the defaults of its attributes."""
    complete = FunctionProto()
    complete.CopyFrom(body)
    if not any(item.domain == "" for item in complete.opset_import):
        version = opset if schema.domain == "" else onnx.defs.onnx_opset_version()
        complete.opset_import.append(helper.make_opsetid("", version))
    stated = {attribute.name for attribute in complete.attribute_proto}
    for name, attribute in schema.attributes.items():
        if name not in stated and attribute.default_value.name:
            complete.attribute_proto.append(attribute.default_value)
    return complete


def context_types(inputs: Sequence[Any]) -> list[bytes]:
    """The types of values as ONNX writes them."""
    return [_type_of(value).SerializeToString() for value in inputs]


def _type_of(value: Any) -> TypeProto:
    match value:
        case Constant(data):
            return _tensor_type(data.dtype, data.shape)
        case Elements(array, dtype):
            return _tensor_type(dtype, array.shape)
        case Strings(array):
            return helper.make_tensor_type_proto(onnx.TensorProto.STRING, array.shape)
        case Object(_, kind):
            return _proto_of(kind)
        case SequenceValue(items):
            return helper.make_sequence_type_proto(_type_of(items[0]) if items else TypeProto())
        case Optional(inner):
            return helper.make_optional_type_proto(TypeProto() if inner is None else _type_of(inner))
        case RelaxExpr() if isinstance(value.struct_info, TensorStructInfo):
            info = value.struct_info
            if info.dims is None:
                return _tensor_type(info.dtype.numpy(), None)
            dims = [dim.value if isinstance(dim, IntImm) else None for dim in info.dims]
            return _tensor_type(info.dtype.numpy(), dims)
        case _:
            return TypeProto()


def _proto_of(kind: ValueType | None) -> TypeProto:
    match kind:
        case None | MapType():
            return TypeProto()
        case SequenceType(item):
            return helper.make_sequence_type_proto(_proto_of(item))
        case OptionalType(content):
            return helper.make_optional_type_proto(_proto_of(content))
        case TensorType("string", ndim):
            return helper.make_tensor_type_proto(onnx.TensorProto.STRING, None if ndim < 0 else [None] * ndim)
        case TensorType(dtype, ndim):
            return _tensor_type(DataType(dtype).numpy(), None if ndim < 0 else [None] * ndim)


def _tensor_type(dtype: Any, shape: Sequence[int | None] | None) -> TypeProto:
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
