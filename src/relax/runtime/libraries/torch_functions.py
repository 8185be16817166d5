"""Functions of torch as packed functions, by their names: importing this module makes them known.

    import relax.runtime.libraries.torch_functions

    y = R.call_packed("torch.unique", x, sinfo_args=R.Tensor("float32"))

Known are functions of tensors: those of ``torch`` itself, of ``torch.nn.functional``, ``torch.linalg``, ``torch.fft``,
``torch.special`` and ``torch.ops.aten``. Others, such as ``torch.load``, are not: a program may come from somebody
else. They are called with the arguments in their order: tensors on the same memory, tuples, shapes as lists of ints,
numbers, text, dtypes. A result that shares memory with an argument is copied, and so are results that
``R.call_dps_packed`` writes to its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

import tvm_ffi

from ..modules import required
from ..nd import NDArray
from ..registry import register_resolver
from ..rooms import ModuleWhenUsed
from ..values import ShapeTuple

_torch: Final[Any] = ModuleWhenUsed("torch")

PREFIX: Final = "torch."
_SPACES: Final = ("nn.functional", "linalg", "fft", "special", "ops.aten")
"""Namespaces in torch whose public functions are known."""


def resolve(name: str) -> Callable[..., Any] | None:
    """Return the function of torch that has a name, to be called with values of a program; None if there is none."""
    space, _, function_name = name.removeprefix(PREFIX).rpartition(".")
    if function_name.startswith("_") or (space and space not in _SPACES):
        return None
    required("torch", "torch")
    holder: Any = _torch
    for part in space.split(".") if space else ():
        holder = getattr(holder, part)
    if not space and not _computes(function_name):
        return None
    function = getattr(holder, function_name, None)
    return _called(name, function) if callable(function) and not isinstance(function, type) else None


def _computes(name: str) -> bool:
    """Return True for the name of a function of tensors in ``torch`` itself."""
    return name in _torch.functional.__all__ or hasattr(_torch._C._VariableFunctions, name)


def _called(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        given = [_given(arg) for arg in args]
        memory = {tensor.untyped_storage().data_ptr() for tensor in _tensors(given)}
        with _torch.no_grad():
            return _returned(name, function(*given), memory)

    return call


def _given(value: Any) -> Any:
    """Return a value of a program as torch takes it."""
    if isinstance(value, NDArray):
        return _torch.from_dlpack(value)
    if isinstance(value, ShapeTuple):
        return list(cast("Sequence[int]", value))
    if isinstance(value, tvm_ffi.dtype):
        return _dtype_of(str(value))
    return tuple(map(_given, cast("Sequence[Any]", value))) if isinstance(value, tuple | list) else value


def _dtype_of(name: str) -> Any:
    """Return torch's dtype of a name. Raises TypeError if it has none."""
    dtype = getattr(_torch, name, None)
    if not isinstance(dtype, _torch.dtype):
        raise TypeError(f"torch has no dtype {name}")
    return dtype


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, _torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in cast("Sequence[Any]", value):
            yield from _tensors(item)


def _returned(name: str, value: Any, memory: set[int]) -> Any:
    """Return a result of torch as a value of a program. Raises TypeError for a tensor that no program has."""
    if isinstance(value, _torch.Tensor):
        if value.layout != _torch.strided or value.is_complex():
            kind = value.dtype if value.layout == _torch.strided else f"layout {value.layout}"
            raise TypeError(f"{name} returned a tensor of {kind}, which no value of a program is")
        shared = value.numel() and value.untyped_storage().data_ptr() in memory
        return value.clone() if shared else value.contiguous()
    if isinstance(value, tuple | list):
        return tuple(_returned(name, item, memory) for item in cast("Sequence[Any]", value))
    return value


register_resolver(PREFIX, resolve)
