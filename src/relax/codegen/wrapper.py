"""The packed wrapper: what a PrimFunc looks like from outside.

    int relax.function.<number>(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)

Every argument is checked before the body runs: count, kind, device, dtype, rank, compactness, alignment, and each
dimension against the sizes the parameters bind. Errors name the function, the argument, what was found and expected:

    ValueError: matmul: argument B: dimension 0 is 783, expected n = 784 (n was bound by A, dimension 1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeAlias, cast

from ..ir import DataType
from ..prim import IntImm, PrimExpr, Var, free_vars
from ..prim.intervals import dtype_range
from ..runtime.combine import FUNCTION
from ..runtime.limits import DIMENSION_LIMIT
from ..runtime.messages import IS, KIND, NO_NUMBER, NO_SIZE, TOO_NARROW, counted_arguments
from ..tir import Buffer, overlap_message
from ..tir.arguments import size_text
from . import support
from .builder import FunctionBuilder, Operand
from .calls import inner_symbol
from .context import Context, Rule, Unit, escaped
from .floats import whole_as_double
from .formula import Val
from .index import index
from .signature import ArgumentField, Signature
from .types import dlpack_code, element_type

SYMBOL_PREFIX: Final = "__tvm_ffi_"


def symbol_name(name: str) -> str:
    """The exported symbol of a PrimFunc: tvm-ffi's prefix and the name, so that tvm-ffi's own loader finds it too."""
    return SYMBOL_PREFIX + name


class Wrapper:
    """Writes the packed wrapper of one function."""

    def __init__(self, unit: Unit, name: str, known: Signature, rules: Mapping[type, Rule]) -> None:
        head = (
            f"define i32 @{FUNCTION}{unit.numbers[name]}(ptr %self, ptr %args, i32 %count, ptr %result) "
            f"#{unit.module.attribute_group('nounwind noinline optnone')}"
        )
        self.known = known
        self.b = FunctionBuilder(unit.module, head)
        self.cx = Context(unit, self.b, name, rules)
        self.tensors: dict[int, Operand] = {}

    def write(self) -> None:
        """Write the whole function into the module."""
        b, known = self.b, self.known
        self.check_count()
        self.check_arguments()
        for var, place in known.bound.items():
            self.bind(var, place)
        self.compare_all([*_runs(known.compared)])
        self.require_apart()
        pointers = self.pointers()
        passed: list[str] = []
        for i, (param, buffer) in enumerate(known.params):
            if buffer is None:
                passed.append(f"{self.cx.vars[param].type} {self.cx.vars[param].ref}")
            else:
                passed.append(f"ptr {pointers[i]}")
        passed += [f"i64 {self.cx.wide[var].ref}" for var in known.bound]
        status = b.op(f"call i32 {inner_symbol(self.cx.unit, self.cx.name)}({', '.join(passed)})")
        b.end(f"ret i32 {status}")
        with b.cold("error"):
            b.end("ret i32 -1")
        self.cx.unit.module.define(b)

    # ------------------------------------------------------------------ steps

    def check_arguments(self) -> None:
        """Check each argument by itself."""
        for i, (param, buffer) in enumerate(self.known.params):
            self.check_argument(i, param, buffer)

    def check_argument(self, i: int, param: Var, buffer: Buffer | None) -> None:
        if buffer is None:
            self.cx.vars[param] = self.scalar(i, param)
        else:
            self.keep(i, self.tensor(i, buffer))

    def compare_all(self, runs: list[list[Compared]]) -> None:
        """Compare dimensions, strides and offsets with what they must be."""
        for run in runs:
            if are_sizes(run):
                self.compare_sizes(run)
            else:
                self.compare(*run[0])

    def pointers(self) -> dict[int, Operand]:
        """The pointers to the elements of the tensors, by the numbers of the parameters."""
        tensors = ((i, buffer) for i, (_, buffer) in enumerate(self.known.params) if buffer is not None)
        return {i: self.data(self.kept(i), buffer) for i, buffer in tensors}

    def check_count(self) -> None:
        expected = len(self.known.params)
        count = Val(self.b, "i32", 1, "%count")
        message = f"expected {counted_arguments(expected)}, found %lld"
        self.cx.fail_unless(count.eq(expected), "TypeError", message, count)

    def argument(self, i: int) -> Operand:
        return "%args" if i == 0 else self.b.op(f"getelementptr {support.ANY_TYPE}, ptr %args, i64 {i}")

    # ------------------------------------------------------------------ tensors

    def keep(self, i: int, tensor: Operand) -> None:
        """Keep the checked DLTensor of an argument."""
        self.tensors[i] = tensor

    def kept(self, i: int) -> Operand:
        """The checked DLTensor of an argument."""
        return self.tensors[i]

    def tensor(self, i: int, buffer: Buffer) -> Operand:
        """The checked DLTensor of an argument."""
        number = self.b.module.message(self.who(buffer), "")
        return self.checked(self.argument(i), number, buffer)

    def who(self, buffer: Buffer) -> str:
        """A tensor argument, as messages of the support code begin."""
        return f"{self.cx.name}: argument {buffer.name}"

    def checked(self, any_: Operand, number: Operand, buffer: Buffer) -> Operand:
        """The checked DLTensor of an argument that messages call by a text of this number."""
        module, kind = self.b.module, tensor_kind(buffer)
        tensor = self.b.op(support.checked_tensor(module, any_, number, *kind))
        null = self.b.op(f"icmp eq ptr {tensor}, null")
        fine = self.b.label("ok")
        self.b.branch_if(null, "error", fine, hint="otherwise")
        self.b.start(fine)
        return tensor

    def field(self, tensor: Operand, number: int, type_: str) -> Operand:
        place = self.b.op(f"getelementptr {support.TENSOR_TYPE}, ptr {tensor}, i32 0, i32 {number}")
        return self.b.op(f"load {type_}, ptr {place}")

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
            message = f"argument {escaped(place.buffer.name)}: offset is %lld bytes, expected a multiple of {itemsize}"
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
        name = escaped(place.buffer.name)
        message = (
            f"argument {name}: the stride of dimension {place.axis} is %lld, expected a multiple of {unit}: "
            "its elements are packed, expected one in a byte"
        )
        self.cx.fail_unless((stride & (unit - 1)).eq(0), "ValueError", message, stride)
        return stride >> (unit.bit_length() - 1)

    # ------------------------------------------------------------------ overlaps

    def require_apart(self) -> None:
        """Check that what is written overlaps nothing else, where the function promises so."""
        for i, j in self.known.apart:
            (a, a_strided), (b, b_strided) = ((self.buffer(k), bool(self.buffer(k).strides)) for k in (i, j))
            call = support.tensors_apart(self.b.module, self.kept(i), a_strided, self.kept(j), b_strided)
            message = overlap_message(escaped(a.name), escaped(b.name))
            self.cx.fail_unless(Val(self.b, "i1", 1, self.b.op(call)), "ValueError", message)

    def buffer(self, i: int) -> Buffer:
        buffer = self.known.params[i][1]
        assert buffer is not None
        return buffer

    # ------------------------------------------------------------------ sizes

    def bind(self, var: Var, place: ArgumentField) -> None:
        value = self.number(place)
        low, high = dtype_range(var.dtype)
        if high < 2**63 - 1:
            fits = value.le(int(high)) & value.ge(int(low))
            message = TOO_NARROW.printf(
                context=_who(place),
                place=place.words,
                found="%lld",
                variable=escaped(var.name),
                dtype=str(var.dtype),
            )
            self.cx.fail_unless(fits, *message, value)
        self.cx.wide[var] = value
        if place.what == "shape":
            message = NO_SIZE.printf(context=_who(place), place=place.words, found="%lld")
            self.cx.fail_unless(value.compare("", "ult", DIMENSION_LIMIT), *message, value)
            self.cx.facts.size(var)

    def compare_sizes(self, run: Sequence[Compared]) -> None:
        """Compare dimensions of one argument, one after the other, with numbers."""
        first = run[0][0]
        sizes = sizes_of(run)
        table = self.b.module.table("relax.sizes." + ".".join(map(str, sizes)), "i64", map(str, sizes))
        number = str(self.b.module.message_run("ValueError", self.size_texts(run)))
        self.require_shape(self.kept(first.param), first.axis, len(sizes), table, number)

    def size_texts(self, run: Sequence[Compared]) -> list[str]:
        """The messages about dimensions of one argument that are not what they must be."""
        who = f"{escaped(self.cx.name)}: {_who(run[0][0])}"
        return [
            IS.fill(context=who, place=place.words, found="%lld", expected=size)
            for (place, _), size in zip(run, sizes_of(run), strict=True)
        ]

    def require_shape(self, tensor: Operand, axis: int, count: int, sizes: Operand, number: Operand) -> None:
        """Compare dimensions of a tensor from an axis on with sizes; the messages begin at a number."""
        call = support.has_shape(self.b.module, tensor, axis, count, sizes, number)
        fine = self.b.label("ok")
        self.b.branch_if(self.b.op(call), fine, "error", hint="then")
        self.b.start(fine)

    def compare(self, place: ArgumentField, expr: PrimExpr) -> None:
        with self.cx.exactly():
            found, expected = self.number(place), index(self.cx, expr)
        shown, numbers = (
            f"{escaped(size_text(expr))} = %lld ({escaped(self.origin(expr))})",
            [found, expected],
        )
        if isinstance(expr, IntImm):
            shown, numbers = str(expr.value), [found]
        message = IS.printf(context=_who(place), place=place.words, found="%lld", expected=shown)
        self.cx.fail_unless(found.eq(expected), *message, *numbers)

    def origin(self, expr: PrimExpr) -> str:
        """The origins of the variables of an expression, for messages."""
        parts: list[str] = []
        for var in free_vars(expr):
            place = self.known.bound.get(var)
            parts.append(
                f"{var.name} is an argument"
                if place is None
                else f"{var.name} was bound by {place.buffer.name}, {place.words}"
            )
        return "; ".join(parts)

    # ------------------------------------------------------------------ scalars

    def scalar(self, i: int, param: Var) -> Val:
        """The checked value of a scalar argument."""
        at = self.argument(i)
        kind = Val(self.b, "i32", 1, self.b.op(f"load i32, ptr {at}"))
        payload = self.b.op(f"getelementptr i8, ptr {at}, i64 8")
        dtype = param.dtype
        if dtype.is_handle:
            return self.pointer(param, kind, payload)
        if dtype.is_float:
            return self.float(param, kind, payload)
        wanted = "a bool" if dtype.is_bool else "an int"
        fine = kind.eq(support.INT) | kind.eq(support.BOOL)
        self.require_kind(fine, param, wanted, kind)
        value = Val(self.b, "i64", 1, self.b.op(f"load i64, ptr {payload}"))
        if dtype.is_bool:
            return value.ne(0)
        self.require_range(param, value)
        return value.to(element_type(dtype))

    def pointer(self, param: Var, kind: Val, payload: Operand) -> Val:
        fine = kind.eq(support.POINTER) | kind.eq(support.NONE)
        self.require_kind(fine, param, "a pointer", kind)
        return Val(self.b, "ptr", 1, self.b.op(f"load ptr, ptr {payload}"))

    def float(self, param: Var, kind: Val, payload: Operand) -> Val:
        whole = kind.eq(support.INT) | kind.eq(support.BOOL)
        self.require_kind(whole | kind.eq(support.FLOAT), param, "a float", kind)
        as_float = Val(self.b, "double", 1, self.b.op(f"load double, ptr {payload}"))
        as_int = Val(self.b, "i64", 1, self.b.op(f"load i64, ptr {payload}"))
        narrow = param.dtype != "float64"
        number = whole_as_double(as_int, signed=True) if narrow else as_int.to("double")
        value = whole.choose(number, as_float)
        return self.narrowed(param.dtype, value)

    def narrowed(self, dtype: DataType, value: Val) -> Val:
        if dtype == "float64":
            return value
        if dtype == "float32":
            return value.to("float")
        return self.cx.unit.small_floats.from_double(dtype, value)

    def require_kind(self, fine: Val, param: Var, wanted: str, kind: Val) -> None:
        good, bad = self.b.label("ok"), self.b.label("bad")
        self.b.branch_if(fine.ref, good, bad, hint="then")
        with self.b.cold(bad):
            name = self.b.op(support.kind_name(self.b.module, kind.ref))
            text = Val(self.b, "i64", 1, self.b.op(f"ptrtoint ptr {name} to i64"))
            context = f"argument {escaped(param.name)}"
            self.cx.fail(*KIND.printf(context=context, expected=wanted, found="%s"), text)
        self.b.start(good)

    def require_range(self, param: Var, value: Val) -> None:
        dtype = param.dtype
        low, high = dtype_range(dtype)
        context = f"argument {escaped(param.name)}"
        message = NO_NUMBER.printf(context=context, found="%lld", dtype=str(dtype))
        if dtype == "uint64":
            self.cx.fail_unless(value.ge(0), *message, value)
        elif dtype != "int64":
            self.cx.fail_unless(value.ge(int(low)) & value.le(int(high)), *message, value)
        if param.nonnegative:
            message = NO_SIZE.printf(context=context, place="the value", found="%lld")
            self.cx.fail_unless(value.compare("", "ult", DIMENSION_LIMIT), *message, value)


def _who(place: ArgumentField) -> str:
    """An argument, as messages begin after the name of the function."""
    return f"argument {escaped(place.buffer.name)}"


Compared: TypeAlias = "tuple[ArgumentField, PrimExpr]"
"""A number of an argument, and what it must be."""


def are_sizes(run: Sequence[Compared]) -> bool:
    """True for dimensions that are compared with numbers."""
    place, expr = run[0]
    return isinstance(expr, IntImm) and place.what == "shape"


def sizes_of(run: Sequence[Compared]) -> list[int]:
    """The numbers that dimensions are compared with."""
    return [cast(IntImm, expr).value for _, expr in run]


def tensor_kind(buffer: Buffer) -> tuple[int, int, bool]:
    """The dtype as DLPack writes it, the rank of an argument, and whether it may have strides."""
    code, bits = dlpack_code(buffer.dtype)
    return code | bits << 8 | max(buffer.dtype.lanes, 1) << 16, buffer.ndim, bool(buffer.strides)


def _runs(compared: Sequence[Compared]) -> Iterator[list[Compared]]:
    """The comparisons in their order; those of consecutive dimensions of an argument with numbers together."""

    def key(item: tuple[int, Compared]) -> tuple[int, ...]:
        i, (place, expr) = item
        together = isinstance(expr, IntImm) and place.what == "shape"
        return (place.param, place.axis - i) if together else (-1, 0, i)

    for _, group in groupby(enumerate(compared), key):
        yield [item for _, item in group]
