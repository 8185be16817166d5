"""Finding the call that makes the first NaN or infinity of a run.

    vm = relax.VirtualMachine(executable, relax.cpu(), check_numerics=True)
    vm["main"](x)       # FloatingPointError: main: z = log gives nan at [0, 2] of its result, …

After each call, what it wrote is looked at. NaN and infinities that were there before, in arguments of the run and in
constants (masks have them on purpose), are no reason to complain; what is computed from them is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import tvm_ffi

from .debug_info import CallNames
from .records import dataclass
from .tensor import numpy_view

Kinds: TypeAlias = Literal["nan", "all"]
"""Values looked for: NaN alone, or infinities too."""

Array: TypeAlias = Any


def kinds_of(value: bool | str) -> Kinds | None:
    """Return the kinds of values to detect: True is "all", False none. Raises ValueError for other values."""
    if isinstance(value, bool):
        return "all" if value else None
    if value not in ("nan", "all"):
        raise ValueError(f'check_numerics must be True, False, "nan" or "all", found {value!r}')
    return value


@dataclass(frozen=True)
class CheckedCall:
    """A call of a kernel or packed function: its place in the source, and the names around it."""

    name: str
    location: str = ""
    names: CallNames = field(default_factory=CallNames)


class NumericsError(FloatingPointError):
    """A call that gave NaN or an infinity.

    `call` is the kernel or packed function, `location` the place in the source that it comes from, `variable` what it
    computes there ("" if they are not known), `value` the first such value, `index` where it is in the result, `detail`
    the message without function and variable.
    """

    def __init__(self, detail: str, call: CheckedCall, value: float, index: tuple[int, ...]) -> None:
        head = f"{call.names.variable} = " if call.names.variable else ""
        super().__init__(f"{head}{detail}")
        self.detail = detail
        self.call = call.name
        self.location = call.location
        self.variable = call.names.variable
        self.value = value
        self.index = index


class NumericsCheck:
    """The check of one run."""

    def __init__(self, kinds: Kinds, present: Iterable[Any]) -> None:
        """`present` are the values there from the start: arguments and constants."""
        self.kinds: Kinds = kinds
        self._excused = {tensor.data_ptr() for tensor in _tensors(present) if self._first(tensor) is not None}

    def __call__(self, call: CheckedCall, args: Sequence[Any], result: Any) -> None:
        """Raise NumericsError if a call wrote a value that is looked for."""
        if call.name.startswith("vm.builtin."):
            return  # these allocate and make views, but compute nothing
        outputs = [("its result", tensor) for tensor in _tensors([result])]
        outputs += [(f"argument {i}", tensor) for i, arg in enumerate(args) for tensor in _tensors([arg])]
        for role, tensor in outputs:
            index = None if tensor.data_ptr() in self._excused else self._first(tensor)
            if index is None:
                continue
            value = float(numpy_view(tensor)[index])
            where = f" at [{', '.join(map(str, index))}]" if index else ""
            which = "its result" if tensor is args[-1] else role
            operands = "; ".join(_operands(call.names, args, tensor))
            behind = f"\n  operands: {operands}" if operands else ""
            detail = f"{call.name} gives {value}{where} of {which}, {_head(tensor)}{behind}"
            raise NumericsError(detail, call, value, index)

    def _first(self, tensor: tvm_ffi.Tensor) -> tuple[int, ...] | None:
        """The index of the first value that is looked for; None if there is none."""
        array = _floats(tensor)
        if array is None:
            return None
        bad = np.isnan(array) if self.kinds == "nan" else ~np.isfinite(array)
        if not bad.any():
            return None
        return tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))


def _operands(names: CallNames, args: Sequence[Any], result: tvm_ffi.Tensor) -> Iterator[str]:
    """The tensors that a call took, each with the name of its variable."""
    for i, arg in enumerate(args):
        name = names.operands[i] if i < len(names.operands) else ""
        for tensor in _tensors([arg]):
            if tensor is not result and i not in names.written:
                yield f"{name}: {described(tensor)}" if name else described(tensor)


def described(tensor: tvm_ffi.Tensor) -> str:
    """Dtype, shape and range of a tensor, and how many NaNs and infinities it has."""
    array = _floats(tensor)
    if array is None or not array.size:
        return _head(tensor)
    finite = array[np.isfinite(array)]
    figures = [f"from {finite.min():.6g} to {finite.max():.6g}"] if finite.size else []
    for count, word in ((int(np.isnan(array).sum()), "nan"), (int(np.isinf(array).sum()), "inf")):
        figures += [f"{count} {word}"] if count else []
    return f"{_head(tensor)} {', '.join(figures)}"


def _head(tensor: tvm_ffi.Tensor) -> str:
    return f"{tensor.dtype} ({', '.join(map(str, tensor.shape))})"


def _floats(tensor: tvm_ffi.Tensor) -> Array | None:
    """A tensor's values as float32 or float64; None for integers."""
    array = numpy_view(tensor)
    if array.dtype.kind == "f":
        return array
    return None if array.dtype.kind in "biu" else array.astype("float32")


def _tensors(values: Iterable[Any]) -> Iterator[tvm_ffi.Tensor]:
    for value in values:
        if isinstance(value, tvm_ffi.Tensor):
            yield value
        elif isinstance(value, tuple):
            yield from _tensors(cast("tuple[Any, ...]", value))
