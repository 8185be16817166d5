"""The native matcher: checks of values, with the message for a mismatch.

Each check is written once, by a macro of `CHECKS`, and becomes two functions of machine code: one for compiled
functions, which test a value and call a builtin for the error; and one for shared libraries, which have no builtins and
raise the error themselves (`relax.codegen.support.library`).

    bool relax.cells.v9.fits_<check>(value, numbers, slots, other)
    int  relax.library.v1.refuse_<check>(value, numbers, slots, other, notes, context)

The value is a cell. The checks are the kinds of ``vm.builtin.match``, and `same_sizes`. The numbers are the builtin's
arguments after the kind: size, dtype, the count of dimensions, a code and a number for each. They are cells, of which
only the payloads are read. The shape heap is at `slots`; variables bound by the value are stored there. The other value
is the device of a tensor, or the shape to compare with.

`out` is the writer of refusals: `Silent`, or one that raises the error (`relax.codegen.support.library.texts`).
"""

from __future__ import annotations

from ....native import ffi_layouts as ffi
from ....runtime.limits import DIMENSION_LIMIT
from ....runtime.match import ASSERT_IMM, ASSERT_SLOT, STORE, STORE_SIZE
from ....runtime.messages import DEVICE, DIMENSIONS, DTYPE, IS, KIND, LENGTH, NO_SIZE, NO_TUPLE, RANK, SCALAR
from ....script import tir as T
from ..c import is_size
from .objects import device_of
from .questions import TensorObject, count, dim, rank
from .values import Any, cells, internal


class Silent:
    """Refusals for compiled functions: the check returns false and no message is written."""

    failed = False

    def refuse(self, *_, **__):
        """Write nothing."""

    def part(self, *_):
        """Part of a message that is not written."""

    kind = dims = integer = scalar = dtype = slot = article = part


@internal
def same_number(is_float: T.bool, a: T.int64, b: T.int64) -> T.bool:
    """Compare two numbers, floats by value; NaN equals itself."""
    if not is_float:
        return a == b
    x, y = T.reinterpret("float64", a), T.reinterpret("float64", b)
    return x == y or (T.isnan(x) and T.isnan(y))


@T.macro
def match_number(out, value, numbers, slots, axis, found, place, size_code):
    """Match a dimension or a scalar by code and number. Slots hold the bits of floats."""
    code, number = numbers[axis * 2 + 3].value, numbers[axis * 2 + 4].value
    kind = value.type_index
    is_float = kind == ffi.FLOAT
    if code == size_code and not is_float and not is_size(found, DIMENSION_LIMIT):
        out.refuse(NO_SIZE, place=place, found=out.scalar(kind, found))
        return out.failed
    if code == STORE or code == STORE_SIZE:
        heap = T.decl_buffer((number,), "int64", data=slots)
        heap[number] = found
    if code == ASSERT_IMM and not same_number(is_float, found, number):
        shown = T.Select(is_float, kind, ffi.INT)
        out.refuse(IS, place=place, found=out.scalar(kind, found), expected=out.scalar(shown, number))
        return out.failed
    if code == ASSERT_SLOT:
        heap = T.decl_buffer((number,), "int64", data=slots)
        if not same_number(is_float, found, heap[number]):
            out.refuse(IS, place=place, found=out.scalar(kind, found), expected=out.slot(number))
            return out.failed


@T.macro
def match_rank(out, value, numbers, message):
    """Match the rank; an expected rank of -1 matches any."""
    ndim, found = numbers[0].value, T.int64(rank(value))
    if ndim >= 0 and ndim != found:
        out.refuse(message, expected=out.integer(ndim), found=out.integer(found), shape=out.dims(value))
        return out.failed


@T.macro
def match_dimensions(out, value, numbers, slots):
    """Match each dimension by its code and number, in the form of `relax.runtime.match`."""
    dimensions, found = numbers[2].value, T.int64(rank(value))
    if dimensions != 0 and dimensions != found:
        out.refuse(RANK, expected=out.integer(dimensions), found=out.integer(found), shape=out.dims(value))
        return out.failed
    for axis in range(dimensions):
        size = dim(value, axis)
        match_number(out, value, numbers, slots, axis, size, ["dimension ", out.integer(axis)], STORE)


@T.macro
def match_tensor(out, value, numbers, slots, other):
    """Match the dtype (0 bits match any), the device and the dimensions of a tensor."""
    if value.type_index != ffi.TENSOR:
        out.refuse(KIND, expected="a tensor", found=out.kind(value))
        return out.failed
    match_rank(out, value, numbers, RANK)
    tensor = TensorObject(value.object).tensor
    dtype, wanted = tensor.dtype, T.int32(numbers[1].value)
    if T.Cast("uint32", wanted) >> 8 != 0 and wanted != dtype:
        out.refuse(DTYPE, expected=out.dtype(wanted), found=out.dtype(dtype))
        return out.failed
    if T.isnullptr(other):
        if tensor.device_type != 1:
            out.refuse(DEVICE, expected="cpu", found="another device")
            return out.failed
    else:
        if device_of(tensor) != other.value:
            out.refuse(DEVICE, expected="cpu", found="another device")
            return out.failed
    match_dimensions(out, value, numbers, slots)


@T.macro
def match_shape(out, value, numbers, slots, other):
    """Match a shape value."""
    if value.type_index != ffi.SHAPE:
        out.refuse(KIND, expected="a shape", found=out.kind(value))
        return out.failed
    match_rank(out, value, numbers, DIMENSIONS)
    match_dimensions(out, value, numbers, slots)


@T.macro
def match_scalar(out, value, numbers, slots, other):
    """Match a scalar. The code of its dtype is 0 for int, 1 for uint, 6 for bool."""
    wanted = T.int32(numbers[1].value)
    code, bits = wanted & 255, (wanted >> 8) & 255
    is_int, signed = code <= 1, code == 0
    kind = T.Select(is_int, ffi.INT, T.Select(code == 6, ffi.BOOL, ffi.FLOAT))
    payload = value.value
    # All bits above those of an integer dtype are the same; of an unsigned one they are 0.
    above = payload >> T.int64(T.min(bits - T.Cast("int32", signed), 63))
    fits = value.type_index == kind and (not is_int or above == 0 or (signed and above == -1))
    if not fits and bits != 0:
        out.refuse(SCALAR, article=out.article(signed), expected=out.dtype(wanted), found=out.kind(value))
        return out.failed
    for axis in range(numbers[2].value):
        match_number(out, value, numbers, slots, axis, payload, "the value", STORE_SIZE)


@T.macro
def match_tuple(out, value, numbers, slots, other):
    """Match a tuple by its number of fields. The null object is the empty tuple."""
    length, fields = numbers[0].value, count(value)
    if length != 0 or value.type_index != ffi.NONE:
        if fields < 0:
            out.refuse(NO_TUPLE, expected=out.integer(length), found=out.kind(value))
            return out.failed
        if fields != length:
            out.refuse(LENGTH, expected=out.integer(length), found=out.kind(value))
            return out.failed


@T.macro
def match_same_sizes(out, value, numbers, slots, other):
    """Match the sizes of a tensor or shape with those of another one."""
    ndim = rank(value)
    if ndim < 0 or ndim != rank(other):
        out.refuse(IS, place="the shape", found=out.dims(value), expected=out.dims(other))
        return out.failed
    for axis in range(T.int64(ndim)):
        if dim(value, axis) != dim(other, axis):
            out.refuse(IS, place="the shape", found=out.dims(value), expected=out.dims(other))
            return out.failed


KINDS = {"tensor": match_tensor, "shape": match_shape, "scalar": match_scalar, "tuple": match_tuple}
"""Macros of the checks of ``vm.builtin.match``, by kind of value."""
CHECKS = {**KINDS, "same_sizes": match_same_sizes}
"""Macros of the checks, by name."""


def _fits(check):
    """Return a plain function that returns true if a value passes a check."""
    macro, silent = CHECKS[check], Silent()

    @cells(name=f"fits_{check}")
    def fits(value: Any, numbers: Any, slots: T.handle, other: Any) -> T.bool:
        macro(silent, value, numbers, slots, other)
        return True

    return fits


FUNCTIONS = (same_number, *map(_fits, CHECKS))
