"""Models as files and protobuf messages: loading, tensors as arrays, dtypes, the text of a node.

What is wrong with a model is a diagnostic that names the file. External data is read only from the model's own folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from ...ir import Diagnostic, DiagnosticError, Source, Span
from .values import Array

BROKEN = "E6002"
_LONGEST = 60


def broken(message: str, where: str = "", hint: str = "") -> DiagnosticError:
    """The error of a model that is no valid ONNX."""
    return DiagnosticError(Diagnostic(BROKEN, message, None, where, (), hint))


def load_model(path: str | os.PathLike[str]) -> ModelProto:
    """The model in a file, with its external data.

    Raises DiagnosticError if the file is no model, OSError if it cannot be read.
    """
    name = Path(path)
    data = name.read_bytes()
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, ValueError, TypeError) as error:
        hint = "is the file complete, and binary ONNX?"
        raise broken(f"the file is not an ONNX model: {error}", str(name), hint) from None
    if not model.HasField("graph") or (not model.graph.node and not model.graph.output):
        raise broken("the file is not an ONNX model: it has no graph", str(name))
    _load_external(model, name)
    return model


def _load_external(model: ModelProto, path: Path) -> None:
    """Read the external data of all tensors. Raises DiagnosticError for data outside of the model's folder."""
    folder = path.parent.resolve()
    for tensor in tensors_of(model.graph):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        where = f"{path}: tensor {tensor.name!r}"
        file = (folder / entries.get("location", "")).resolve()
        if not file.is_relative_to(folder) or file == folder:
            raise broken("external data lies outside of the model's folder", where, "put it beside the model")
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
            with file.open("rb") as stream:
                stream.seek(offset)
                data = stream.read(length)
        except (OSError, ValueError, OverflowError) as error:
            raise broken(f"external data cannot be read: {error}", where) from None
        if length >= 0 and len(data) < length:
            raise broken(f"external data has {len(data)} bytes, {length} are declared", where)
        tensor.raw_data = data
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]


def tensors_of(graph: GraphProto) -> list[TensorProto]:
    """All tensors of a graph and the graphs within it: initializers, and attributes of nodes."""
    found: list[TensorProto] = []
    pending = [graph]
    while pending:
        current = pending.pop()
        found += current.initializer
        for sparse in current.sparse_initializer:
            found += [sparse.values, sparse.indices]
        for node in current.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    found.append(attribute.t)
                found += attribute.tensors
                pending += subgraphs_of(attribute)
    return found


def subgraphs_of(attribute: AttributeProto) -> list[GraphProto]:
    """The graphs that an attribute holds."""
    return ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs)


# ------------------------------------------------------------------------------------- tensors


def dtype_name(elem_type: int, where: str = "") -> str:
    """The dtype of an ONNX element type, "string" for strings. Raises DiagnosticError for one there is not."""
    if elem_type == TensorProto.STRING:
        return "string"
    try:
        dtype: Any = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
        return str(dtype.name)
    except KeyError:
        raise broken(f"{elem_type} is no element type", where) from None


def to_array(tensor: TensorProto, where: str = "") -> Array:
    """A tensor's elements. Raises DiagnosticError if they do not fit its shape."""
    try:
        array: Any = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise broken(f"the tensor {tensor.name!r} cannot be read: {error}", where) from None
    if tensor.data_type == TensorProto.STRING:
        texts = [
            item.decode("utf-8", "replace") if isinstance(item, bytes) else item for item in array.reshape(-1)
        ]
        strings: Array = np.empty(array.shape, dtype=object)
        strings.reshape(-1)[:] = texts
        return strings
    if any(dim < 0 for dim in tensor.dims):
        raise broken(f"the tensor {tensor.name!r} has a negative dimension", where)
    return array


def sparse_to_array(tensor: Any, where: str = "") -> Array:
    """A sparse tensor as a dense array."""
    values, indices = to_array(tensor.values, where), to_array(tensor.indices, where)
    dense: Array = np.zeros(tuple(tensor.dims), values.dtype)
    try:
        if indices.ndim == 1:
            dense.reshape(-1)[indices] = values
        else:
            dense[tuple(indices.T)] = values
    except (IndexError, ValueError) as error:
        raise broken(f"a sparse tensor's indices do not fit its shape: {error}", where) from None
    return dense


def attribute_value(attribute: AttributeProto) -> Any:
    """An attribute as Python has it: numbers, strings, tuples of them, arrays; graphs and types as they are."""
    match attribute.type:
        case AttributeProto.TENSOR:
            return to_array(attribute.t, f"attribute {attribute.name!r}")
        case AttributeProto.TENSORS:
            return tuple(to_array(t, f"attribute {attribute.name!r}") for t in attribute.tensors)
        case AttributeProto.SPARSE_TENSOR:
            return sparse_to_array(attribute.sparse_tensor)
        case AttributeProto.UNDEFINED:
            raise broken(f"the attribute {attribute.name!r} has no type")
        case _:
            value: Any = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)) or hasattr(value, "append"):
        items = list(cast("Iterable[Any]", value))
        return tuple(item.decode("utf-8", "replace") if isinstance(item, bytes) else item for item in items)
    return value


# ------------------------------------------------------------------------------------- text


def node_title(node: NodeProto) -> str:
    """The operator of a node and its name: ``Conv "conv1"``; the first output where it has no name."""
    name = node.name or next((output for output in node.output if output), "")
    kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return f'{kind} "{name}"' if name else kind


def node_span(model: str, index: int, node: NodeProto) -> Span:
    """The place of a node in a model: its number and name, and a line of text that shows it."""
    text = node_text(node)
    source = Source(f"{model}: {node_title(node)}", text, index + 1)
    return Span(source, index + 1, 1, index + 1, len(text) + 1)


def node_text(node: NodeProto) -> str:
    """A node on one line: ``y = Conv<group=1>(x, w)``."""
    attributes = ", ".join(f"{a.name}={_shown(a)}" for a in node.attribute)
    left = ", ".join(output or "_" for output in node.output)
    right = ", ".join(name or "_" for name in node.input)
    return f"{left} = {node.op_type}{f'<{attributes}>' if attributes else ''}({right})"


def _shown(attribute: AttributeProto) -> str:
    match attribute.type:
        case AttributeProto.INT:
            text = str(attribute.i)
        case AttributeProto.FLOAT:
            text = f"{attribute.f:g}"
        case AttributeProto.STRING:
            text = repr(attribute.s[:_LONGEST].decode("utf-8", "replace"))
        case AttributeProto.INTS:
            text = str(list(attribute.ints[:16]))
        case AttributeProto.FLOATS:
            text = str([round(value, 6) for value in attribute.floats[:16]])
        case _:
            return "..."
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
