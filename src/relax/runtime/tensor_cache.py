"""Parameters by name, in a cache of the process, loaded from TVM's folders of raw shards.

    vm.builtin.tensor_cache.load(folder, device_type, device_id)
    vm.builtin.tensor_cache.get(name);  .update(name, tensor, override=False);  .remove(name);  .clear()
    vm.builtin.param_array_from_cache(prefix, count)            prefix_0, prefix_1, … as a tuple; count -1: all
    vm.builtin.param_array_from_cache_by_name(names)

A folder has `tensor-cache.json` (or `ndarray-cache.json`), which lists files and the parameters in them. A file is read
when the folder is loaded. Names, arguments and results are TVM's; `ndarray_cache` is another name of `tensor_cache`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import tvm_ffi

from .builtin_table import PACKED, UNKNOWN, builtin
from .devices import Device, cpu
from .dtypes import NUMPY_DTYPES, Array, canonical_dtype
from .kv_state import integer
from .tensor import check_shape, copy_of_numpy
from .values import describe_shape, is_tuple, kind_of

_INDEXES: Final = ("tensor-cache.json", "ndarray-cache.json")
_CPU: Final = 1
_FORMATS: Final = ("raw", "f32-to-bf16")

_tensors: Final[dict[str, tvm_ffi.Tensor]] = {}
"""The parameters of the process."""


def load(folder: Any, device_type: Any = _CPU, device_id: Any = 0) -> None:
    """Load all parameters of a folder; those of the same names are replaced.

    Raises FileNotFoundError if the folder has no index, TypeError for arguments of other kinds, and ValueError for
    another device than the host's, and for an index that does not describe its files; nothing is loaded then.
    """
    if integer(device_type, "device_type") != _CPU:
        raise ValueError(f"tensor_cache.load: a device of type {device_type} is asked for; here is the host alone (1)")
    device = cpu(integer(device_id, "device_id"))
    root = Path(_text(folder, "the folder"))
    index = next((root / name for name in _INDEXES if (root / name).is_file()), None)
    if index is None:
        raise FileNotFoundError(f"tensor_cache.load: {root} has no {' and no '.join(_INDEXES)}")
    _tensors.update(dict(_parameters(index, device)))


def _parameters(index: Path, device: Device) -> Iterator[tuple[str, tvm_ffi.Tensor]]:
    try:
        shards = json.loads(index.read_text("utf-8"))["records"]
        for shard in shards:
            path = index.parent / str(shard["dataPath"])
            if shard.get("format", "raw-shard") != "raw-shard":
                raise ValueError(f"the file {path.name} has the format {shard['format']!r}, expected raw-shard")
            if path.resolve().parent != index.parent.resolve():
                raise ValueError(f"the file {path.name} lies outside of the folder")
            data: Array = np.fromfile(path, np.uint8)
            for record in shard["records"]:
                yield str(record["name"]), copy_of_numpy(*_array(record, data, path.name), device)
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{index} is no index of parameters: {type(error).__name__}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{index}: {error}") from None


def _array(record: dict[str, Any], data: Array, file: str) -> tuple[Array, str]:
    """Return a parameter in the bytes of its file, and its dtype."""
    name, shape = str(record["name"]), tuple(integer(size, "a dimension") for size in record["shape"])
    dtype, form = canonical_dtype(str(record["dtype"])), str(record.get("format", "raw"))
    if form not in _FORMATS:
        raise ValueError(f"the parameter {name} has the format {form!r}, expected one of {', '.join(_FORMATS)}")
    stored = "bfloat16" if form == "f32-to-bf16" and dtype == "float32" else dtype
    nbytes, offset = check_shape(shape, stored), integer(record["byteOffset"], "byteOffset")
    if nbytes != integer(record["nbytes"], "nbytes") or not 0 <= offset <= len(data) - nbytes:
        where = f"{record['nbytes']} bytes at {offset} of {file}, which has {len(data)}"
        raise ValueError(f"the parameter {name}, {stored} {describe_shape(shape)}, does not lie in {where}")
    raw: Array = data[offset : offset + nbytes].copy()
    return raw.view(NUMPY_DTYPES[stored])[: math.prod(shape)].reshape(shape), dtype


def get(name: Any) -> tvm_ffi.Tensor:
    """Return the parameter of a name. Raises KeyError if there is none."""
    key = _text(name, "the name of a parameter")
    if key not in _tensors:
        raise KeyError(f"there is no parameter {key!r} in the cache")
    return _tensors[key]


def update(name: Any, tensor: Any, override: Any = False) -> None:
    """Put a parameter into the cache. Raises ValueError if there is one of this name, unless `override` is true."""
    key = _text(name, "the name of a parameter")
    if not isinstance(tensor, tvm_ffi.Tensor):
        raise TypeError(f"expected a tensor as the parameter {key}, found {kind_of(tensor)}")
    if key in _tensors and not override:
        raise ValueError(f"there is a parameter {key!r} in the cache already")
    _tensors[key] = tensor


def remove(name: Any) -> None:
    """Remove a parameter, if there is one of this name."""
    _tensors.pop(_text(name, "the name of a parameter"), None)


def clear() -> None:
    """Remove all parameters."""
    _tensors.clear()


for _family in ("tensor_cache", "ndarray_cache"):
    builtin(f"vm.builtin.{_family}.load", UNKNOWN, pure=False)(load)
    builtin(f"vm.builtin.{_family}.get", PACKED, pure=False, trusted=False)(get)
    builtin(f"vm.builtin.{_family}.update", UNKNOWN, pure=False)(update)
    builtin(f"vm.builtin.{_family}.remove", UNKNOWN, pure=False)(remove)
    builtin(f"vm.builtin.{_family}.clear", UNKNOWN, pure=False)(clear)


@builtin("vm.builtin.param_array_from_cache", PACKED, pure=False, trusted=False)
def param_array_from_cache(prefix: Any, count: Any) -> tuple[tvm_ffi.Tensor, ...]:
    """Return the parameters prefix_0, prefix_1, …: `count` of them, or (-1) all up to the first that is missing.

    Raises KeyError if one of `count` is missing.
    """
    start, number = _text(prefix, "the prefix"), integer(count, "the number of parameters")
    if number < -1:
        raise ValueError(f"{number} parameters are asked for")
    found: list[tvm_ffi.Tensor] = []
    while len(found) != number:
        name = f"{start}_{len(found)}"
        if number == -1 and name not in _tensors:
            break
        found.append(get(name))
    return tuple(found)


@builtin("vm.builtin.param_array_from_cache_by_name", PACKED, pure=False, trusted=False)
def param_array_from_cache_by_name(names: Any) -> tuple[tvm_ffi.Tensor, ...]:
    """Return the parameters of some names. Raises KeyError if one is missing."""
    if not is_tuple(names) and not isinstance(names, list):
        raise TypeError(f"expected a tuple of names, found {kind_of(names)}")
    return tuple(get(name) for name in cast("list[Any]", names))


@builtin("vm.builtin.param_array_from_cache_by_name_unpacked", PACKED, pure=False, trusted=False)
def param_array_from_cache_by_name_unpacked(*names: Any) -> tuple[tvm_ffi.Tensor, ...]:
    """Return the parameters of some names, each of which is an argument. Raises KeyError if one is missing."""
    return tuple(map(get, names))


def _text(value: Any, subject: str) -> str:
    if not isinstance(value, str | Path):
        raise TypeError(f"expected a string as {subject}, found {kind_of(value)}")
    return str(value)
