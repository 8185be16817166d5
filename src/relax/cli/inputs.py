"""Inputs of a run: from .npy, .npz and image files, or random arrays of the declared shapes."""

from __future__ import annotations

import argparse
import difflib
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from ..ir import DiagnosticContext
from ..runtime import NDArray, ShapeTuple, nd
from ..runtime.dtypes import NUMPY_DTYPES, is_float
from ..runtime.info import Dim, Info, PrimInfo, ShapeInfo, TensorInfo, TupleInfo, bind, dim_text, substitute, variables
from ..runtime.records import dataclass
from .failures import MISFIT_INPUT, failure
from .images import IMAGES, read_image
from .models import ModelSignature

RANDOM_INTEGERS: Final = 10
"""Upper limit of random integers, so that they are valid indices of most tables."""

LARGEST: Final = 1 << 34
"""Maximum elements of a random input; more is probably a mistyped size."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Input:
    """Value of a parameter, and its source."""

    name: str
    value: Any
    source: str


def gather_inputs(signature: ModelSignature, options: argparse.Namespace, sizes: Mapping[str, int]) -> list[Input]:
    """Collect the inputs of a function, in order. Raises DiagnosticError with all that are missing or do not fit."""
    params = dict(signature.params)
    files = _files(options.input, signature)
    env: dict[str, Dim] = {}
    for name, entry in files.items():
        bind(params[name], _info_of(entry.value), env)
    for name, value in signature.values.items():
        if name not in files:
            bind(params[name], _info_of(value), env)
    _check_sizes(signature, sizes, env)
    env.update({name: size for name, size in sizes.items() if name not in env})
    random = np.random.default_rng(options.seed)
    problems = DiagnosticContext()
    gathered: list[Input] = []
    for name, info in signature.params:
        if name in files:
            gathered.append(files[name])
            continue
        if name in signature.values:
            gathered.append(Input(name, signature.values[name], "in the model"))
            continue
        with problems.collect():
            value = random_value(name, substitute(info, env), random)
            gathered.append(Input(name, value, f"random, seed {options.seed}"))
    problems.finish()
    return gathered


def sizes_of(signature: ModelSignature, inputs: Sequence[Input]) -> dict[str, int]:
    """Sizes of a function's open dimensions for some inputs."""
    env: dict[str, Dim] = {}
    for (_, info), entry in zip(signature.params, inputs, strict=True):
        bind(info, _info_of(entry.value), env)
    return {name: size for name, size in env.items() if isinstance(size, int)}


def _info_of(value: Any) -> Info:
    if isinstance(value, np.ndarray | NDArray):
        return TensorInfo(tuple(cast("Array", value).shape))
    if isinstance(value, ShapeTuple):
        return ShapeInfo(tuple(cast("tuple[int, ...]", value)))
    if isinstance(value, tuple):
        return TupleInfo(tuple(map(_info_of, cast("tuple[Any, ...]", value))))
    return PrimInfo("", value)


def _check_sizes(signature: ModelSignature, sizes: Mapping[str, int], env: Mapping[str, Dim]) -> None:
    """Raise DiagnosticError for sizes of dimensions that do not exist or that files contradict."""
    names = variables(info for _, info in signature.params)
    for name, size in sizes.items():
        if name not in names:
            close = difflib.get_close_matches(name, sorted(names), 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(sorted(names)) or 'none'}"
            message = f"--size {name}={size}: {signature.name} has no open dimension {name!r}"
            raise failure(MISFIT_INPUT, message, hint=hint)
        if env.get(name, size) != size:
            raise failure(MISFIT_INPUT, f"--size {name}={size}: {name} is {env[name]} in the inputs from files")


# --------------------------------------------------------------------------------------------- files


def _files(words: Sequence[str], signature: ModelSignature) -> dict[str, Input]:
    """Inputs given by files, by name."""
    params = dict(signature.params)
    files: dict[str, Input] = {}
    for word in words:
        name, equals, text = word.partition("=")
        path = Path(text if equals else word)
        if equals:
            values = {name: _single(path, name, params.get(name))}
        elif path.suffix == ".npz":
            values = _archive(path)
        elif len(params) == 1:
            name, info = signature.params[0]
            values = {name: _single(path, name, info)}
        else:
            hint = f"write NAME={path}; the inputs are: {', '.join(params) or 'none'}"
            raise failure(MISFIT_INPUT, f"--input {path}: it is not said which input this is", hint=hint)
        for key, value in values.items():
            if key not in params:
                raise _no_input(key, path, params)
            if key in files:
                raise failure(MISFIT_INPUT, f"--input {word}: {key} is given twice")
            files[key] = Input(key, _typed(value, params[key]), str(path))
    return files


def _no_input(name: str, path: Path, params: Mapping[str, Info]) -> Exception:
    close = difflib.get_close_matches(name, params, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"the inputs are: {', '.join(params) or 'none'}"
    return failure(MISFIT_INPUT, f"--input {path}: the model has no input {name!r}", hint=hint)


def _single(path: Path, name: str, info: Info | None) -> Any:
    """Array of a file with a single array."""
    if path.suffix.lower() in IMAGES:
        return read_image(path, info)
    arrays = _archive(path) if path.suffix == ".npz" else {name: _load(path)}
    if name in arrays:
        return arrays[name]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    raise failure(MISFIT_INPUT, f"--input {name}={path}: it holds {', '.join(arrays) or 'nothing'}, and no {name!r}")


def _archive(path: Path) -> dict[str, Any]:
    loaded: Any = _load(path)
    if not isinstance(loaded, Mapping):
        raise failure(MISFIT_INPUT, f"--input {path}: it holds one array without a name, expected a .npz archive")
    try:
        return {str(name): loaded[name] for name in cast("Mapping[str, Any]", loaded)}
    except (ValueError, OSError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise _broken(path, error) from None


def _load(path: Path) -> Any:
    """Contents of a NumPy file; pickles are rejected."""
    if path.suffix not in (".npy", ".npz"):
        kinds = ", ".join([".npy", ".npz", *IMAGES])
        raise failure(MISFIT_INPUT, f"--input {path}: inputs are read from {kinds} files")
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, OSError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise _broken(path, error) from None


def _broken(path: Path, error: Exception) -> Exception:
    reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
    return failure(MISFIT_INPUT, f"--input {path}: cannot read it: {reason}")


def _typed(value: Any, info: Info) -> Any:
    """Convert an array read from a file to its parameter's dtype and kind.

    NumPy's files forget the names of bfloat16 and the 8-bit floats, whose bits they keep; a scalar or a shape is
    stored as an array.
    """
    array: Any = np.asarray(value)
    if isinstance(info, PrimInfo) and array.ndim == 0:
        return array.item()
    if isinstance(info, ShapeInfo) and array.ndim == 1 and array.dtype.kind in "iu":
        return ShapeTuple(tuple(int(size) for size in array))
    dtype = NUMPY_DTYPES.get(info.dtype) if isinstance(info, TensorInfo) else None
    if dtype is not None and array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)
    return array


# -------------------------------------------------------------------------------------------- random


def random_value(name: str, info: Info, random: np.random.Generator) -> Any:
    """Random value of a parameter. Raises DiagnosticError if a dimension is dynamic without a given size."""
    match info:
        case TensorInfo(dims=dims, dtype=dtype) if dims is not None and dtype in NUMPY_DTYPES:
            return nd.array(random_array(_sizes(name, info, dims), dtype, random))
        case ShapeInfo(dims=dims) if dims is not None:
            return ShapeTuple(_sizes(name, info, dims))
        case PrimInfo(value=value) if isinstance(value, int | float):
            return value
        case PrimInfo(value=str(size)):
            raise _open_sizes(name, info, [size])
        case PrimInfo(dtype=dtype) if dtype in NUMPY_DTYPES:
            return random_array((), dtype, random).item()
        case TupleInfo(fields):
            return tuple(random_value(f"{name}[{index}]", field, random) for index, field in enumerate(fields))
        case _:
            hint = f"give it: --input {name}=FILE"
            raise failure(MISFIT_INPUT, f"{name}: no random value is made for {info}", hint=hint)


def _sizes(name: str, info: Info, dims: Sequence[Dim]) -> tuple[int, ...]:
    sizes = [dim for dim in dims if isinstance(dim, int)]
    if len(sizes) < len(dims):
        raise _open_sizes(name, info, sorted(variables([info])))
    too_large = np.prod(np.array(sizes, dtype=object)) > LARGEST
    if too_large or any(size < 0 for size in sizes):
        problem = "has too many elements" if too_large else "has a negative dimension"
        raise failure(MISFIT_INPUT, f"{name}: {info} {problem}")
    return tuple(sizes)


def _open_sizes(name: str, info: Info, names: Sequence[str]) -> Exception:
    if not names:  # computed from values unknown at run time
        return failure(MISFIT_INPUT, f"{name}: the sizes of {info} are not known", hint=f"give it: --input {name}=FILE")
    shown = " ".join(f"--size {size}=N" for size in names)
    subject = f"the size {names[0]} is" if len(names) == 1 else f"the sizes {', '.join(names)} are"
    hint = f"choose N: {shown}; or give --input {name}=FILE"
    return failure(MISFIT_INPUT, f"{name}: {subject} open in {info}", hint=hint)


def random_array(shape: Sequence[int], dtype: str, random: np.random.Generator) -> Array:
    """Random numbers: floats of the standard normal distribution, integers from 0 to 9 (or less, where the dtype
    ends before), booleans."""
    kind = NUMPY_DTYPES[dtype]
    if is_float(dtype):
        return np.asarray(random.standard_normal(tuple(shape))).astype(kind)
    top = 2 if dtype == "bool" else min(RANDOM_INTEGERS, int(ml_dtypes.iinfo(kind).max) + 1)
    return np.asarray(random.integers(0, top, tuple(shape))).astype(kind)


def described_dims(dims: Sequence[Dim]) -> str:
    """Dimensions as text for tables: ``n x 4``."""
    return " x ".join(map(dim_text, dims)) or "scalar"
