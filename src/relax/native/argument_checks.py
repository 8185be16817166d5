"""Support code of kernels: individual checks of all arguments of a call, and of overlaps between tensors.

    i32 relax.arguments(i64 count, ptr args, ptr messages, ptr table, ptr words)
    i32 relax.apart(i64 count, ptr messages, ptr pairs, ptr words)

A kernel has a table of its parameters (`argument_table`): a row for each, followed by the static dimensions. The
properties of the arguments are written to an array of 64-bit words, in the order of the parameters: `TensorWords` for a
tensor, the value for a scalar, with floats as double. A pair of tensors that must not overlap is given by the positions
of their first memory words, and a message. The status is 0, or -1 with the error set.

Both functions are part of the support code (`support`), which is one object for all kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ..prim import IntImm, PrimExpr, Var
from ..runtime.limits import DIMENSION_LIMIT
from ..runtime.messages import (
    ARGUMENT_DTYPE,
    ARGUMENT_RANK,
    DEVICE,
    IS,
    KIND,
    NO_NUMBER,
    NO_ROOM,
    NO_SIZE,
    NOT_ALIGNED,
    NOT_COMPACT,
    PACKED,
    Message,
)
from ..tir import Buffer
from ..tir.sizes import LARGEST_PRODUCT
from .builder import ModuleBuilder, Operand
from .checks import CheckWriter, fits_integer
from .ffi_layouts import BOOL, FLOAT, INT, NONE, OBJECT_HEADER, POINTER, TENSOR, TENSOR_POINTER, tensor_offsets
from .formula import Val
from .small_floats import whole_as_double
from .types import dlpack_code

_DATA, _DEVICE, _NDIM, _DTYPE, _SHAPE, _STRIDES, _OFFSET = tensor_offsets()
"""Offsets of the fields of a DLTensor."""
_NAME, _KIND, _TYPE, _OPEN, _RANK, _SIZES, _WORDS, _ROW = range(8)
"""Words in a row of the table: message number of the argument's name; kind; dtype as in DLPack; a flag (tensors:
strides allowed; integers: must be a size); rank; positions of its dimensions and of its words.
"""
_MEMORY = 3
"""Number of words of a tensor before its dimensions."""


@dataclass(frozen=True)
class TensorWords:
    """Positions of a tensor argument's words, beginning at `first`."""

    first: int
    ndim: int

    @property
    def data(self) -> int:
        """Position of the pointer from which the offset is counted."""
        return self.first

    @property
    def start(self) -> int:
        """Position of the address of the first element."""
        return self.first + 1

    @property
    def end(self) -> int:
        """Position of the end address: behind the last element, or the first one if the parameter has strides."""
        return self.first + 2

    def dimension(self, axis: int) -> int:
        """Position of a dimension."""
        return self.first + _MEMORY + axis

    def stride(self, axis: int) -> int:
        """Position of a stride in elements, if the parameter has strides."""
        return self.first + _MEMORY + self.ndim + axis


def argument_table(
    params: Sequence[tuple[Var, Buffer | None]], names: Sequence[Operand]
) -> tuple[list[str], list[TensorWords], int]:
    """Return (table of a function's parameters, positions of their words, total number of words).

    The word of a scalar is at position `first`.
    """
    rows: list[str] = []
    sizes: list[str] = []
    places: list[TensorWords] = []
    behind = 0
    for (param, buffer), name in zip(params, names, strict=True):
        code, bits = dlpack_code(param.dtype if buffer is None else buffer.dtype)
        ndim = 0 if buffer is None else buffer.ndim
        at = _ROW * len(params) + len(sizes)
        if buffer is None:
            kind = {0: INT, 1: INT, 3: POINTER, 6: BOOL}.get(code, FLOAT)
            row = (kind, code | bits << 8, param.nonnegative, ndim, at, behind)
        else:
            dtype = code | bits << 8 | max(buffer.dtype.lanes, 1) << 16
            row = (TENSOR, dtype, bool(buffer.strides), ndim, at, behind)
            sizes += ("-1" if (size := constant_size(dim)) is None else str(size) for dim in buffer.shape)
        rows += (name, *(str(int(word)) for word in row))
        places.append(TensorWords(behind, ndim))
        behind += 1 if buffer is None else _MEMORY + ndim * (2 if buffer.strides else 1)
    return rows + sizes, places, behind


def constant_size(dim: PrimExpr) -> int | None:
    """Value of a static dimension; None for a dynamic one."""
    return dim.value if isinstance(dim, IntImm) and dim.value >= 0 else None


# ----------------------------------------------------------------------------------------- the code


class _Argument(CheckWriter):
    """Writer of the check of one argument."""

    def __init__(self, module: ModuleBuilder) -> None:
        parameters = "ptr %any, ptr %messages, ptr %table, ptr %row, ptr %words"
        super().__init__(module, f"define internal i1 @relax.argument({parameters}) nounwind")
        self.kind = self.load("%any", 0, "i32")
        self.payload = self.load("%any", 8)
        self.sizes, self.words = (
            self.b.op(f"getelementptr i64, ptr %{base}, i64 {self.row(word).ref}")
            for base, word in (("table", _SIZES), ("words", _WORDS))
        )
        self.wanted, self.dtype, self.is_open = self.row(_KIND), self.row(_TYPE), self.row(_OPEN).ne(0)
        self.code, self.bits = self.dtype & 255, self.dtype.lshr(8) & 255

    def row(self, word: int) -> Val:
        """Load a word of the argument's row."""
        return self.load("%row", 8 * word)

    def put(self, place: Val | int, value: Val) -> None:
        """Store one of the argument's words."""
        number = place.ref if isinstance(place, Val) else str(place)
        at = self.b.op(f"getelementptr i64, ptr {self.words}, i64 {number}")
        self.b.do(f"store i64 {value.ref}, ptr {at}")

    def require(self, condition: Val, message: Message, *operands: Val, **fields: str) -> None:
        """Reject the argument unless the condition holds; the message has its name and up to three numbers.

        Fields are printf conversions; the default is ``%lld``.
        """
        number = "%lld"
        shown = {"place": f"dimension {number}", "found": number, "expected": number, **fields}
        text = message.fill(context="%s", **shown)

        def refuse() -> None:
            who = self.b.op(f"call i64 @relax.who(ptr %messages, i32 {self.row(_NAME).to('i32').ref})")
            numbers = [who, *(operand.to("i64").ref for operand in operands), "0", "0", "0"][:4]
            texts = ", ".join(f"ptr {self.b.module.string(part)}" for part in (message.kind.__name__, text))
            self.b.do(f"call void @relax.set_error({texts}, {', '.join(f'i64 {n}' for n in numbers)})")
            self.b.end("ret i1 false")

        self.refuse_unless(condition, refuse)

    def kind_name(self, kind: Val) -> Val:
        """Address of the name of a kind of value."""
        return self._address(self.b.op(f"call ptr @relax.kind_name(i32 {kind.to('i32').ref})"))

    def dtype_name(self, dtype: Val) -> Val:
        """Address of the name of a dtype."""
        text = self.b.alloca("[64 x i8]", 16)
        self.b.do(f"call void @relax.dtype_name(ptr {text}, i32 {dtype.to('i32').ref})")
        return self._address(text)

    def _address(self, at: Operand) -> Val:
        return Val(self.b, "i64", 1, self.b.op(f"ptrtoint ptr {at} to i64"))


def argument_checks(module: ModuleBuilder) -> str:
    """LLVM text of the checks."""
    return "\n".join((_argument(module), _arguments(module), _apart(module)))


def _arguments(module: ModuleBuilder) -> str:
    parameters = "i64 %count, ptr %args, ptr %messages, ptr %table, ptr %words"
    w = CheckWriter(module, f"define hidden i32 @relax.arguments({parameters}) nounwind")
    with w.loop(w.parameter("count")) as i:
        any_ = w.b.op(f"getelementptr [16 x i8], ptr %args, i64 {i.ref}")
        row = w.b.op(f"getelementptr [{_ROW} x i64], ptr %table, i64 {i.ref}")
        call = f"call i1 @relax.argument(ptr {any_}, ptr %messages, ptr %table, ptr {row}, ptr %words)"
        w.refuse_unless(Val(w.b, "i1", 1, w.b.op(call)), lambda: w.b.end("ret i32 -1"))
    w.b.end("ret i32 0")
    return w.b.text()


def _apart(module: ModuleBuilder) -> str:
    parameters = "i64 %count, ptr %messages, ptr %pairs, ptr %words"
    w = CheckWriter(module, f"define hidden i32 @relax.apart({parameters}) nounwind")
    with w.loop(w.parameter("count")) as i:
        a, b, message = (w.element("%pairs", i * 3 + k) for k in range(3))
        start = w.element("%words", a).intrinsic("umax", w.element("%words", b))
        end = w.element("%words", a + 1).intrinsic("umin", w.element("%words", b + 1))

        def refuse(number: Operand) -> None:
            w.b.do(f"call void @relax.raise(ptr %messages, i32 {number}, i64 0, i64 0, i64 0, i64 0)")
            w.b.end("ret i32 -1")

        w.refuse_unless(start.compare("", "uge", end), partial(refuse, message.to("i32").ref))
    w.b.end("ret i32 0")
    return w.b.text()


def _argument(module: ModuleBuilder) -> str:
    """LLVM text of the check of one argument."""
    w = _Argument(module)
    kind, wanted = w.kind, w.wanted.to("i32")
    is_whole = kind.eq(INT) | kind.eq(BOOL)
    fits = kind.eq(wanted) | (wanted.eq(POINTER) & kind.eq(NONE)) | (wanted.eq(TENSOR) & kind.eq(TENSOR_POINTER))
    fits = fits | (is_whole & wanted.le(FLOAT))
    with w.when(fits ^ 1):
        w.require(fits, KIND, w.kind_name(wanted), w.kind_name(kind), expected="%s", found="%s")
    with w.when(wanted.eq(TENSOR)):
        _check_tensor(w)
    with w.when(wanted.ne(TENSOR)):
        _check_scalar(w, is_whole)
    w.b.end("ret i1 true")
    return w.b.text()


def _check_scalar(w: _Argument, is_whole: Val) -> None:
    """Check that a scalar fits its dtype. An integer for a float parameter is rounded once, to that dtype."""
    value, is_integer = w.payload, w.wanted.eq(INT)
    fits = (is_integer ^ 1) | fits_integer(value, w.bits.to("i32"), w.code.eq(0))
    with w.when(fits ^ 1):
        w.require(fits, NO_NUMBER, value, w.dtype_name(w.dtype), dtype="%s")
    fits = (w.is_open ^ 1) | value.compare("", "ult", DIMENSION_LIMIT)
    w.require(fits, NO_SIZE, value, place="the value")
    as_float = w.bits.eq(64).choose(value.to("double"), whole_as_double(value, signed=True))
    converts = w.wanted.eq(FLOAT) & is_whole
    w.put(0, converts.choose(as_float.bitcast("i64"), value))


def _check_tensor(w: _Argument) -> None:
    """Check a tensor against its row of the table.

    It must be in host memory, aligned, of the right dtype and rank, compact unless the parameter has strides, with the
    right static dimensions, and small enough to compute offsets.
    """
    b, is_pointer = w.b, w.kind.eq(TENSOR_POINTER)
    at = w.payload + is_pointer.choose(w.payload.constant(0), OBJECT_HEADER)
    tensor = b.op(f"inttoptr i64 {at.ref} to ptr")
    device = w.load(tensor, _DEVICE, "i32")
    w.require(device.eq(1), DEVICE, device, expected="cpu", found="device type %lld")
    found = w.load(tensor, _DTYPE, "i32").to("i64")
    with w.when(found.ne(w.dtype)):
        names = (w.dtype_name(found), w.dtype_name(w.dtype))
        w.require(found.eq(w.dtype), ARGUMENT_DTYPE, *names, expected="%s", found="%s")
    rank, ndim = w.load(tensor, _NDIM, "i32").to("i64"), w.row(_RANK)
    w.require(rank.eq(ndim), ARGUMENT_RANK, rank, ndim)
    shape = w.load(tensor, _SHAPE, "ptr").ref
    width = (w.bits + 7).lshr(3)
    item = width * w.dtype.lshr(16)
    size, is_empty = _checked_size(w, shape, ndim, item)
    _check_strides(w, tensor, shape, ndim, is_empty)
    data = w.load(tensor, _DATA)
    start = data + w.load(tensor, _OFFSET)
    w.require((start & (width - 1)).eq(0), NOT_ALIGNED, width)
    end = start + is_empty.choose(0, w.is_open.choose(item, size))
    for place, word in enumerate((data, start, end)):
        w.put(place, word)
    with w.loop(ndim) as axis:
        found, expected = w.element(shape, axis), w.element(w.sizes, axis)
        w.require(found.eq(expected) | expected.lt(0), IS, axis, found, expected)
        w.put(axis + _MEMORY, found)


def _check_strides(w: _Argument, tensor: Operand, shape: Operand, ndim: Val, is_empty: Val) -> None:
    """Check that a tensor is compact, or read its strides. A tensor without elements counts as compact.

    Elements of 2 and 4 bits are padded to a byte, which their strides reflect (`relax.runtime.dtypes`).
    """
    b, strides = w.b, w.load(tensor, _STRIDES, "ptr").ref
    stated = Val(b, "i1", 1, b.op(f"icmp ne ptr {strides}, null"))
    unit = w.bits.make(f"udiv i64 8, {w.bits.le(8).choose(w.bits, 8).ref}")
    w.require(stated | unit.eq(1), PACKED)
    stated = stated & (is_empty ^ 1)
    compact, stride = w.variable(unit), w.variable(unit)
    with w.when(stated | w.is_open), w.loop(ndim) as i:
        axis, expected = ndim - 1 - i, compact.get()
        size = w.element(shape, axis)
        stride.set(expected)
        with w.when(stated):
            stride.set(w.element(strides, axis))
        found = stride.get()
        fits = w.is_open | found.eq(expected) | size.eq(1)
        w.require(fits, NOT_COMPACT, axis, found, expected)
        with w.when(w.is_open):
            multiple = "a multiple of %lld: its elements are packed, expected one in a byte"
            place = "the stride of dimension %lld"
            w.require((found & (unit - 1)).eq(0), IS, axis, found, unit, place=place, expected=multiple)
            w.put(axis + ndim + _MEMORY, found / unit)
        compact.set(expected * size)


def _checked_size(w: _Argument, shape: Operand, ndim: Val, item: Val) -> tuple[Val, Val]:
    """Return (size in bytes, counting dimensions of 0 as 1; whether a dimension is 0); reject sizes that overflow."""
    b, product, elements = w.b, w.variable(item), w.variable(item)
    multiply = b.module.intrinsic("llvm.umul.with.overflow.i64", "{ i64, i1 }", "i64", "i64")
    with w.loop(ndim) as axis:
        size = w.element(shape, axis)
        elements.set(size.eq(0).choose(0, elements.get()))
        factor = size.intrinsic("umax", 1)
        pair = b.op(f"call {{ i64, i1 }} {multiply}(i64 {product.get().ref}, i64 {factor.ref})")
        product.set(Val(b, "i64", 1, b.op(f"extractvalue {{ i64, i1 }} {pair}, 0")))
        overflows = Val(b, "i1", 1, b.op(f"extractvalue {{ i64, i1 }} {pair}, 1"))
        fits = (overflows ^ 1) & product.get().compare("", "ule", LARGEST_PRODUCT)
        w.require(fits, NO_ROOM)
    return product.get(), elements.get().eq(0)
