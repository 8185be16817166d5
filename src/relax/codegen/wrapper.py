"""The packed wrapper: what a PrimFunc looks like from outside.

    int relax.function.<number>(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)

Every argument is checked before the body runs: count, kind, device, dtype, rank, compactness, alignment, and each
dimension against the sizes the parameters bind. Errors name the function, the argument, what was found and expected:

    ValueError: matmul: argument B: dimension 0 is 783, expected n = 784 (n was bound by A, dimension 1)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from ..ir import DataType
from ..prim import IntImm, PrimExpr, Var
from ..runtime.combine import FUNCTION
from ..runtime.messages import KIND, counted_arguments
from ..tir import Buffer, overlap_message
from ..tir.signature import ArgumentField, ArgumentMatching, Signature
from . import support
from .builder import FunctionBuilder, Operand
from .calls import inner_symbol
from .context import Context, Rule, Unit, escaped
from .floats import whole_as_double
from .formula import Val
from .matching import WrittenMatching
from .types import dlpack_code, element_type

SYMBOL_PREFIX: Final = "__tvm_ffi_"

_ACCEPTED: Final = {
    "a pointer": (support.POINTER, support.NONE),
    "a float": (support.INT, support.BOOL, support.FLOAT),
    "a bool": (support.INT, support.BOOL),
    "an int": (support.INT, support.BOOL),
}
"""The type indices of what is taken for a scalar of each kind."""


def symbol_name(name: str) -> str:
    """The exported symbol of a PrimFunc: tvm-ffi's prefix and the name, so that tvm-ffi's own loader finds it too."""
    return SYMBOL_PREFIX + name


class Wrapper(WrittenMatching, ArgumentMatching[Val]):
    """Writes the packed wrapper of one function."""

    def __init__(self, unit: Unit, name: str, known: Signature, rules: Mapping[type, Rule]) -> None:
        head = (
            f"define i32 @{FUNCTION}{unit.numbers[name]}(ptr %self, ptr %args, i32 %count, ptr %result) "
            f"#{unit.module.attribute_group('nounwind noinline optnone')}"
        )
        super().__init__(Context(unit, FunctionBuilder(unit.module, head), name, rules), known)
        self.tensors: dict[int, Operand] = {}

    def write(self) -> None:
        """Write the whole function into the module."""
        b, cx, expected = self.b, self.cx, len(self.known.params)
        count = Val(b, "i32", 1, "%count")
        message = f"expected {counted_arguments(expected)}, found %lld"
        cx.fail_unless(count.eq(expected), "TypeError", message, count)
        self.match()
        pointers = self.pointers()
        passed = [
            f"{cx.vars[param].type} {cx.vars[param].ref}" if buffer is None else f"ptr {pointers[i]}"
            for i, (param, buffer) in enumerate(self.known.params)
        ]
        passed += [f"i64 {cx.wide[var].ref}" for var in self.known.bound]
        status = b.op(f"call i32 {inner_symbol(cx.unit, cx.name)}({', '.join(passed)})")
        b.end(f"ret i32 {status}")
        with b.cold("error"):
            b.end("ret i32 -1")
        cx.unit.module.define(b)

    def argument(self, i: int) -> Operand:
        return "%args" if i == 0 else self.b.op(f"getelementptr {support.ANY_TYPE}, ptr %args, i64 {i}")

    # ------------------------------------------------------------------ tensors

    def tensor(self, i: int, buffer: Buffer) -> None:
        sizes = support.sizes_table(self.b.module, known_sizes(buffer))
        number = self.b.module.message(self.name_of(buffer), "")
        self.keep(i, self.checked(self.argument(i), number, buffer, sizes))

    def keep(self, i: int, tensor: Operand) -> None:
        """Keep the checked DLTensor of an argument."""
        self.tensors[i] = tensor

    def kept(self, i: int) -> Operand:
        """The checked DLTensor of an argument."""
        return self.tensors[i]

    def name_of(self, buffer: Buffer) -> str:
        """A tensor argument, as messages of the support code begin."""
        return f"{self.cx.name}: {self.who(buffer)}"

    def checked(self, any_: Operand, number: Operand, buffer: Buffer, sizes: Operand) -> Operand:
        """The checked DLTensor of an argument that messages call by the text of a number."""
        call = support.checked_tensor(self.b.module, any_, number, *tensor_kind(buffer), sizes)
        tensor = self.b.op(call)
        null = self.b.op(f"icmp eq ptr {tensor}, null")
        fine = self.b.label("ok")
        self.b.branch_if(null, "error", fine, hint="otherwise")
        self.b.start(fine)
        return tensor

    def compare(self, place: ArgumentField, size: PrimExpr) -> None:
        if place.what != "shape" or _constant(size) is None:  # those were compared when the tensor was taken
            super().compare(place, size)

    def field(self, tensor: Operand, number: int, type_: str) -> Operand:
        place = self.b.op(f"getelementptr {support.TENSOR_TYPE}, ptr {tensor}, i32 0, i32 {number}")
        return self.b.op(f"load {type_}, ptr {place}")

    def pointers(self) -> dict[int, Operand]:
        """The pointers to the elements of the tensors, by the numbers of the parameters."""
        tensors = ((i, buffer) for i, (_, buffer) in enumerate(self.known.params) if buffer is not None)
        return {i: self.data(self.kept(i), buffer) for i, buffer in tensors}

    def data(self, tensor: Operand, buffer: Buffer) -> Operand:
        """The pointer to the first element; to where the offset is counted from, if the buffer has a named one."""
        if buffer.elem_offset is not None:
            return self.field(tensor, 0, "ptr")
        return self.b.op(support.tensor_data(self.b.module, tensor))

    def number(self, place: ArgumentField) -> Val:
        """A dimension, stride or offset of an argument."""
        tensor = self.kept(place.param)
        itemsize = max(place.buffer.dtype.bits // 8, 1) * max(place.buffer.dtype.lanes, 1)
        if place.what == "offset":
            offset = Val(self.b, "i64", 1, self.field(tensor, 9, "i64"))
            rest = offset.make(f"urem i64 {offset.ref}, {itemsize}")
            message = (
                f"{escaped(self.who(place.buffer))}: offset is %lld bytes, expected a multiple of {itemsize}"
            )
            self.cx.fail_unless(rest.eq(0), "ValueError", message, offset)
            return offset.make(f"udiv i64 {offset.ref}, {itemsize}")
        if place.what == "shape":
            return self.entry(self.field(tensor, 7, "ptr"), place.axis)
        return self.stride(tensor, place)

    def entry(self, array: Operand, axis: int) -> Val:
        at = array if axis == 0 else self.b.op(f"getelementptr i64, ptr {array}, i64 {axis}")
        return Val(self.b, "i64", 1, self.b.op(f"load i64, ptr {at}"))

    def stride(self, tensor: Operand, place: ArgumentField) -> Val:
        """A stride in elements; that of a compact tensor if the argument states none."""
        shape, strides = self.field(tensor, 7, "ptr"), self.field(tensor, 8, "ptr")
        compact = self.cx.i64(1)
        for axis in range(place.axis + 1, place.buffer.ndim):
            compact = compact * self.entry(shape, axis)
        stated, absent, join = (self.b.label(hint) for hint in ("stated", "absent", "join"))
        missing = self.b.op(f"icmp eq ptr {strides}, null")
        self.b.branch_if(missing, absent, stated)
        self.b.start(stated)
        found = self.entry(strides, place.axis)
        if place.buffer.dtype.is_padded:
            found = self.unpadded(found, place)
            stated = self.b.block
        self.b.branch(join)
        self.b.start(absent)
        self.b.branch(join)
        self.b.start(join)
        return found.make(f"phi i64 [ {found.ref}, %{stated} ], [ {compact.ref}, %{absent} ]")

    def unpadded(self, stride: Val, place: ArgumentField) -> Val:
        """A stride in elements of 2 or 4 bits, of which DLPack counts several to a byte."""
        unit = 8 // place.buffer.dtype.bits
        message = (
            f"{escaped(self.who(place.buffer))}: the {place.words} is %lld, expected a multiple of {unit}: "
            "its elements are packed, expected one in a byte"
        )
        self.cx.fail_unless((stride & (unit - 1)).eq(0), "ValueError", message, stride)
        return stride >> (unit.bit_length() - 1)

    def apart(self, i: int, j: int) -> None:
        a, b = (self.known.buffer(k) for k in (i, j))
        call = support.tensors_apart(
            self.b.module, self.kept(i), bool(a.strides), self.kept(j), bool(b.strides)
        )
        message = overlap_message(escaped(a.name), escaped(b.name))
        self.cx.fail_unless(Val(self.b, "i1", 1, self.b.op(call)), "ValueError", message)

    # ------------------------------------------------------------------ scalars

    def scalar(self, i: int, param: Var, kind: str) -> Val:
        at = self.argument(i)
        found = Val(self.b, "i32", 1, self.b.op(f"load i32, ptr {at}"))
        payload = self.b.op(f"getelementptr i8, ptr {at}, i64 8")
        fits = reduce(lambda a, b: a | b, map(found.eq, _ACCEPTED[kind]))
        self.require_kind(fits, param, kind, found)
        if kind == "a float":
            number = value = self.float(param.dtype, found, payload)
        else:
            type_ = "ptr" if kind == "a pointer" else "i64"
            number = value = Val(self.b, type_, 1, self.b.op(f"load {type_}, ptr {payload}"))
        if kind == "a bool":
            value = number.ne(0)
        elif kind == "an int":
            value = number.to(element_type(param.dtype))
        self.cx.vars[param] = value
        return number

    def float(self, dtype: DataType, kind: Val, payload: Operand) -> Val:
        whole = kind.ne(support.FLOAT)
        as_float = Val(self.b, "double", 1, self.b.op(f"load double, ptr {payload}"))
        as_int = Val(self.b, "i64", 1, self.b.op(f"load i64, ptr {payload}"))
        narrow = dtype != "float64"
        number = whole_as_double(as_int, signed=True) if narrow else as_int.to("double")
        value = whole.choose(number, as_float)
        if dtype == "float64":
            return value
        return (
            value.to("float") if dtype == "float32" else self.cx.unit.small_floats.from_double(dtype, value)
        )

    def require_kind(self, fine: Val, param: Var, wanted: str, kind: Val) -> None:
        good, bad = self.b.label("ok"), self.b.label("bad")
        self.b.branch_if(fine.ref, good, bad, hint="then")
        with self.b.cold(bad):
            name = self.b.op(support.kind_name(self.b.module, kind.ref))
            text = Val(self.b, "i64", 1, self.b.op(f"ptrtoint ptr {name} to i64"))
            message = KIND.printf(context=escaped(self.who(param)), expected=wanted, found="%s")
            self.cx.fail(*message, text)
        self.b.start(good)


def tensor_kind(buffer: Buffer) -> tuple[int, int, bool]:
    """The dtype as DLPack writes it, the rank of an argument, and whether it may have strides."""
    code, bits = dlpack_code(buffer.dtype)
    return code | bits << 8 | max(buffer.dtype.lanes, 1) << 16, buffer.ndim, bool(buffer.strides)


def known_sizes(buffer: Buffer) -> list[int | None]:
    """The dimensions that are the same in every call; None for the others."""
    return list(map(_constant, buffer.shape))


def _constant(size: PrimExpr) -> int | None:
    """A dimension that is the same in every call."""
    return size.value if isinstance(size, IntImm) and size.value >= 0 else None
