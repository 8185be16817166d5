"""Kernels to be tuned, and random arguments for them.

A kernel is a PrimFunc before it is scheduled, with the positions of constant arguments and the sizes at which it is
measured. Sizes are values of its symbolic dimensions by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import ml_dtypes
import numpy as np

from ..ir import Diagnostic, DiagnosticError
from ..prim import IntImm, PrimExpr, Var
from ..prim.evaluate import evaluate
from ..runtime.records import dataclass
from ..tir import PrimFunc, usage
from ..tir.buffer import Buffer

Array: TypeAlias = "np.ndarray[Any, Any]"
Sizes: TypeAlias = "Mapping[str, int]"

CANNOT: Final = "E4112"
"""Error code: a program or target that cannot be tuned here."""

SEVERAL: Final = (16, 67)
"""Sizes of a symbolic dimension for which the caller gives none: a multiple of all vectors, and a prime."""

_BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)

_INTEGERS: Final = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"})
_FLOATS: Final = frozenset({"float16", "bfloat16", "float32", "float64"})


FAULTS: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, OSError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip
"""Exceptions of rules and kernels that drop a candidate: a rule at parameters that it was never tried with, for one."""


class NotTunable(Exception):
    """Raised for a kernel that cannot be measured with random arguments; the message is the reason."""


@dataclass(frozen=True)
class Kernel:
    """A kernel to be tuned. Raises ValueError for a constant at a position without a parameter."""

    name: str
    func: PrimFunc
    constants: tuple[int, ...] = ()
    """Positions of constant arguments."""
    sizes: tuple[Sizes, ...] = ({},)
    """Sizes at which it is measured."""
    share: float = 1.0
    """Part of the time of its program."""

    def __post_init__(self) -> None:
        wrong = [position for position in self.constants if position not in range(len(self.func.params))]
        if wrong:
            raise ValueError(f"{self.name} has no parameter {wrong[0]}: constants={[*self.constants]}")

    @property
    def size_names(self) -> tuple[str, ...]:
        """Names of the symbolic sizes."""
        return tuple(var.name for var in size_vars(self.func))

    def edges(self) -> tuple[Sizes, ...]:
        """Return sizes beside those that are measured, at which results are compared: one more, one less, and 1."""
        names = self.size_names
        beside: list[Sizes] = []
        for sizes in self.sizes[:2] if names else ():
            beside += [{name: max(sizes[name] + step, 1) for name in names} for step in (1, -1)]
        if names:
            beside.append(dict.fromkeys(names, 1))
        return tuple(sizes for i, sizes in enumerate(beside) if sizes not in beside[:i] and sizes not in self.sizes)


def size_vars(func: PrimFunc) -> tuple[Var, ...]:
    """Return the variables of a function's symbolic sizes: those its buffers' shapes bind, and its integer parameters.

    Raises NotTunable if two have one name.
    """
    found = usage.size_vars(func)
    names = [var.name for var in found]
    if len(set(names)) < len(names):
        raise NotTunable("two of its sizes have one name")
    return found


def with_sizes(kernel: Kernel, sizes: Sequence[Sizes] = ()) -> Kernel:
    """Return a kernel that is measured at `sizes`, each completed by `SEVERAL` for names that it lacks.

    Raises NotTunable as `size_vars` does.
    """
    names = tuple(var.name for var in size_vars(kernel.func))
    chosen: list[Sizes] = []
    for given in sizes or ({},):
        missing = [name for name in names if name not in given]
        own = {name: given[name] for name in names if name in given}
        chosen += [{**own, **dict.fromkeys(missing, size)} for size in (SEVERAL if missing else SEVERAL[:1])]
    several = tuple(one for i, one in enumerate(chosen) if one not in chosen[:i])
    return Kernel(kernel.name, kernel.func, kernel.constants, several, kernel.share)


def check_sizes(sizes: Sequence[Sizes], names: Collection[str], whose: str) -> None:
    """Raise DiagnosticError (E4112) unless all of `sizes` are numbers from 0 for symbolic sizes that have `names`."""
    hint = f"the sizes are: {', '.join(sorted(names)) or 'none'}"
    for name, size in (pair for one in sizes for pair in one.items()):
        if name not in names:
            raise DiagnosticError(Diagnostic(CANNOT, f"{whose} has no size {name!r}", hint=hint))
        if type(size) is not int or size < 0:
            raise DiagnosticError(Diagnostic(CANNOT, f"the size {name} is a number from 0, not {size!r}"))


def random_arguments(func: PrimFunc, sizes: Sizes, seed: int) -> list[Any]:
    """Return arguments of a function at these sizes: arrays, and numbers for scalars; the same for the same seed.

    Floats are normally distributed for an even seed, else between 0 and 1. Integers of 32 and 64 bits are valid indices
    of every dimension. Raises NotTunable for a dtype without random values, or a shape that the sizes do not determine.
    """
    values: dict[Var, Any] = {var: sizes[var.name] for var in size_vars(func)}
    shapes = {param: _shape(buffer, values) for param, buffer in func.buffer_map.items()}
    least = min((size for shape in shapes.values() for size in shape), default=1)
    arguments: list[Any] = []
    for position, param in enumerate(func.params):
        generator = np.random.default_rng([seed, position])
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            arguments.append(_array(shapes[param], str(buffer.dtype), generator, seed, max(least, 1)))
        elif param in values:
            arguments.append(values[param])
        elif param.dtype.is_float:
            arguments.append(float(generator.uniform(0.5, 1)))
        else:
            raise NotTunable(f"its parameter {param.name} is a {param.dtype}")
    return arguments


def _shape(buffer: Buffer, values: Mapping[Var, Any]) -> tuple[int, ...]:
    """Return a buffer's sizes. Raises NotTunable if they are not determined, or its elements are not in order."""
    if buffer.strides:
        raise NotTunable(f"its buffer {buffer.name} has strides")
    return tuple(_size(size, buffer, values) for size in buffer.shape)


def _size(size: PrimExpr, buffer: Buffer, values: Mapping[Var, Any]) -> int:
    if isinstance(size, IntImm):
        return size.value
    try:
        return int(evaluate(size, values))
    except (KeyError, ValueError, TypeError, ZeroDivisionError, ArithmeticError):
        raise NotTunable(f"the size {size} of its buffer {buffer.name} is not determined") from None


def _array(shape: tuple[int, ...], dtype: str, generator: np.random.Generator, seed: int, least: int) -> Array:
    """Return a random array whose elements begin at a cache line, with guards around it (`guarded`)."""
    array = guarded(shape, _dtype(dtype)) if dtype in _INTEGERS | _FLOATS | {"bool"} else None
    if array is None:
        raise NotTunable(f"there are no random values of {dtype}")
    if dtype == "bool":
        array[...] = generator.integers(0, 2, shape).astype("bool")
    elif dtype in _FLOATS:
        array[...] = generator.standard_normal(shape) if seed % 2 == 0 else generator.random(shape)
    elif array.dtype.itemsize == 1:
        info = np.iinfo(array.dtype)
        array[...] = generator.integers(info.min, info.max + 1, shape)
    else:
        array[...] = generator.integers(0, least, shape)
    return array


def _dtype(name: str) -> np.dtype[Any]:
    return _BFLOAT16 if name == "bfloat16" else np.dtype(name)


# -------------------------------------------------------------------------------------- guards

GUARD: Final = 4096
"""Bytes before and behind an array that no kernel may change."""
_PATTERN: Final = 0xA5


def guarded(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array between two guards; `guards_hold` says whether somebody wrote to them."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.full(size + 2 * GUARD + 64, _PATTERN, np.uint8)
    start = GUARD + -(memory.ctypes.data + GUARD) % 64
    inside: Any = memory[start : start + size]
    return inside.view(dtype).reshape(shape)


def guards_hold(array: Array) -> bool:
    """True unless somebody wrote to the memory beside an array of `guarded`."""
    memory = array
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    begin = array.ctypes.data - memory.ctypes.data
    before, behind = memory[:begin], memory[begin + array.nbytes :]
    return bool((before == _PATTERN).all() and (behind == _PATTERN).all())


def copied(arguments: Sequence[Any]) -> list[Any]:
    """Return arguments with copies of the arrays, each between guards."""
    copies: list[Any] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            array = cast(Array, argument)
            copy = guarded(array.shape, array.dtype)
            copy[...] = array
            copies.append(copy)
        else:
            copies.append(argument)
    return copies


# -------------------------------------------------------------------------------------- packed constants


@dataclass(frozen=True, eq=False)
class PackedElements:
    """Packing of a few known arrays, which were packed before: it can be pickled, whatever packed them."""

    packed: Mapping[bytes, Array]
    """Packed arrays by the digest of the original."""

    @staticmethod
    def of(packing: Callable[[Array], Array], arrays: Sequence[Array]) -> PackedElements:
        """Return the packing of `arrays` by another one."""
        return PackedElements({digest_of(array): packing(array) for array in arrays})

    def __call__(self, array: Array) -> Array:
        return self.packed[digest_of(array)]


def digest_of(array: Array) -> bytes:
    """Return a digest of an array's elements."""
    return hashlib.blake2b(array.tobytes(), digest_size=16).digest()
