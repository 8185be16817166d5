"""Constants as ONNX tensors, and models with external data in files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto, TensorProto, numpy_helper

from ....ir import Diagnostic, DiagnosticError
from .graph import ELEMENT_TYPES
from .tensor import Array

LARGE = 1024
"""Size in bytes from which a weight goes into the file of external data."""

LARGEST_MESSAGE = (1 << 31) - (1 << 20)
"""Greatest size in bytes of a message of protobuf."""

_PACKED = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}


def tensor_message(name: str, array: Array) -> TensorProto:
    """An array as an initializer."""
    dtype = array.dtype.name
    tensor = TensorProto(name=name, data_type=ELEMENT_TYPES[dtype], dims=array.shape)
    if dtype in _PACKED:
        return _renamed(numpy_helper.from_array(array), name)
    little = array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array
    tensor.raw_data = little.tobytes()
    return tensor


def _renamed(tensor: TensorProto, name: str) -> TensorProto:
    tensor.name = name
    return tensor


def size_of(constants: dict[str, Array]) -> int:
    """Size of constants in bytes."""
    return sum(array.nbytes for array in constants.values())


def save_model(model: ModelProto, path: str | os.PathLike[str], external_data: bool | str | None) -> None:
    """Write a model to a file; with external data, weights of 1 KiB and more to a file beside it."""
    file = Path(path)
    save: Any = vars(onnx)["save_model"]
    if external_data is False or external_data is None:
        save(model, file)
        return
    location = external_data if isinstance(external_data, str) else f"{file.name}.data"
    if Path(location).name != location:
        message = f"save_onnx: external_data must be the name of a file beside the model, found {location!r}"
        raise DiagnosticError(Diagnostic("E6009", message, None, "", (), "leave out the folder"))
    (file.parent / location).unlink(missing_ok=True)  # onnx appends to one that exists
    options: dict[str, Any] = {"save_as_external_data": True, "all_tensors_to_one_file": True, "size_threshold": LARGE}
    save(model, file, location=location, **options)
