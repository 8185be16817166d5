"""Models as files and protobuf messages: loading, tensors as arrays, dtypes, the text of a node.

What is wrong with a model is a diagnostic that names the file. External data is read only from the model's own folder.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from ...ir import DataType, Diagnostic, DiagnosticError, Source, Span, StoredArray, StoredFile
from .values import Array
from .wire import LARGE, without_elements

BROKEN = "E6002"

Stored: TypeAlias = dict[int, StoredArray]
"""Initializers of a model's graph whose elements are in a file, by their numbers."""

_LONGEST = 60

_MOST_DENSE = 1 << 26
"""Maximum number of elements of a sparse tensor made dense."""

_MOST_OVERLAP = 4
"""Limit on reads of an external data file, in multiples of its size: a small file cannot ask for unbounded memory."""


def broken(message: str, where: str = "", hint: str = "") -> DiagnosticError:
    """The error of a model that is no valid ONNX."""
    return DiagnosticError(Diagnostic(BROKEN, message, None, where, (), hint))


def load_model(path: str | os.PathLike[str]) -> tuple[ModelProto, Stored]:
    """The model in a file, with its external data, and the large initializers whose elements stay in their files.

    Those have no elements in the model. Raises DiagnosticError if the file is no model, OSError if it cannot be read.
    """
    name = Path(path)
    file = StoredFile(name)
    try:
        data, locations = without_elements(file)
        model = onnx.load_model_from_string(data)
    except (DecodeError, ValueError, TypeError) as error:
        hint = "is the file complete, and binary ONNX?"
        raise broken(f"the file is not an ONNX model: {error}", str(name), hint) from None
    stored: Stored = {}
    for index, (offset, size) in locations.items():
        tensor = model.graph.initializer[index]
        array = _stored(tensor, file, offset, size)
        if array is not None and not tensor.HasField("data_location"):
            stored[index] = array
        else:
            tensor.raw_data = file.contents(offset, size)
    return model, stored | _load_external(model, name)


def _stored(tensor: TensorProto, file: StoredFile, offset: int, size: int) -> StoredArray | None:
    """The elements of a tensor where they are in a file; None for those that are not there as memory has them."""
    try:
        dtype = dtype_name(tensor.data_type)
    except DiagnosticError:
        return None
    plain = dtype != "string" and not tensor.HasField("segment") and all(dim >= 0 for dim in tensor.dims)
    if not plain or DataType(dtype).bits % 8 or math.prod(tensor.dims) * DataType(dtype).bits != 8 * size:
        return None
    return StoredArray(file, offset, tensor.dims, dtype)


def _load_external(model: ModelProto, path: Path) -> Stored:
    """Read the external data of all tensors but large initializers, which are returned.

    Raises DiagnosticError for data outside of the model's folder.
    """
    folder = path.parent.resolve()
    files: dict[Path, StoredFile] = {}
    read: dict[Path, int] = {}
    stored: Stored = {}
    initializers = len(model.graph.initializer)  # which come first
    for index, tensor in enumerate(tensors_of(model)):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        where = f"{path}: tensor {tensor.name!r}"
        file_path, offset, size = _external_place(tensor, folder, where)
        try:
            file = files[file_path] if file_path in files else files.setdefault(file_path, StoredFile(file_path))
            if file.size < offset + size:
                raise broken(f"external data has {max(file.size - offset, 0)} bytes, {size} are declared", where)
            read[file_path] = read.get(file_path, 0) + size
            if read[file_path] > _MOST_OVERLAP * file.size:
                raise broken("the external data of many tensors is the same", where)
            large = index < initializers and size >= LARGE
            array = _stored(tensor, file, offset, size) if large else None
            if array is None:
                tensor.raw_data = file.contents(offset, size)
            else:
                stored[index] = array
        except OSError as error:
            raise broken(f"external data cannot be read: {error}", where) from None
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]
    return stored


def _external_place(tensor: TensorProto, folder: Path, where: str) -> tuple[Path, int, int]:
    """The file of a tensor's external data, where in it the data begins, and its size in bytes."""
    entries: dict[Any, Any] = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    try:
        file = (folder / location).resolve()
        offset = int(entries.get("offset", 0))
        length = int(entries["length"]) if "length" in entries else None
    except (OSError, ValueError, TypeError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise broken(f"external data is declared wrong: {error}", where) from None
    if not file.is_relative_to(folder) or file == folder:
        raise broken("external data lies outside of the model's folder", where, "put it beside the model")
    if not file.is_file():
        raise broken(f"external data is not there: there is no file {location!r} beside the model", where)
    size = _size_of(tensor, where)
    if offset < 0 or length not in (None, size):
        raise broken(f"external data of {length} bytes is declared, its shape has {size}", where)
    return file, offset, size


def _size_of(tensor: TensorProto, where: str) -> int:
    """The bytes of a tensor's elements, as they are stored."""
    dtype = dtype_name(tensor.data_type, where)
    if dtype == "string" or any(dim < 0 for dim in tensor.dims):
        raise broken("external data is no tensor of numbers", where)
    return -(-math.prod(tensor.dims) * DataType(dtype).bits // 8)


def tensors_of(model: ModelProto) -> list[TensorProto]:
    """All tensors of a model: initializers, and attributes of nodes, in functions and graphs of any depth."""
    tensors: list[TensorProto] = []
    pending: list[Any] = [model.graph, *model.functions]
    while pending:
        current = pending.pop()
        attributes = [a for node in current.node for a in node.attribute]
        sparse = [a.sparse_tensor for a in attributes if a.HasField("sparse_tensor")]
        sparse += [item for a in attributes for item in a.sparse_tensors]
        if isinstance(current, GraphProto):
            tensors += current.initializer
            sparse += current.sparse_initializer
        else:
            attributes += current.attribute_proto
        for item in sparse:
            tensors += [item.values, item.indices]
        for attribute in attributes:
            tensors += [attribute.t] if attribute.HasField("t") else []
            tensors += attribute.tensors
            pending += subgraphs_of(attribute)
    return tensors


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
    except KeyError:
        raise broken(f"{elem_type} is no element type", where) from None
    name = str(dtype.name)
    try:
        DataType(name)
    except ValueError:
        message = f"the element type {name} is not supported"
        raise DiagnosticError(Diagnostic("E6001", message, None, where)) from None
    return name


def to_array(tensor: TensorProto, where: str = "") -> Array:
    """A tensor's elements. Raises DiagnosticError if they do not fit its shape, or are external data."""
    if tensor.data_location == TensorProto.EXTERNAL:
        message = f"the data of the tensor {tensor.name!r} is in another file"
        raise broken(message, where, "give the path of the model, or call onnx.load_external_data_for_model")
    if any(dim < 0 for dim in tensor.dims):
        raise broken(f"the tensor {tensor.name!r} has a negative dimension", where)
    dtype = dtype_name(tensor.data_type, where)
    try:
        array: Any = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise broken(f"the tensor {tensor.name!r} cannot be read: {error}", where) from None
    if dtype == "string":
        strings: Array = np.empty(array.shape, dtype=object)
        strings.reshape(-1)[:] = array.reshape(-1).tolist()
        return strings
    return array


def sparse_to_array(tensor: Any, where: str = "") -> Array:
    """A sparse tensor as a dense array."""
    values, indices = to_array(tensor.values, where), to_array(tensor.indices, where)
    shape = tuple(tensor.dims)
    if any(dim < 0 for dim in shape):
        raise broken("a sparse tensor has a negative dimension", where)
    if math.prod(shape) > _MOST_DENSE:
        message = f"a sparse tensor of more than {_MOST_DENSE:,} elements is not supported"
        raise DiagnosticError(Diagnostic("E6001", message, None, where))
    dense: Array = np.zeros(shape, values.dtype)
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
