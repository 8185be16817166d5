"""The packed wrapper: the external interface of a PrimFunc.

    int relax.function.<number>(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)

Every argument is checked before the body runs: count, then kind, device, dtype, rank, compactness, alignment of each
by the support code (`argument_checks`), and each dimension against the sizes the parameters bind. Errors name the
function, the argument, the actual and the expected value:

    ValueError: matmul: argument B: dimension 0 is 783, expected n = 784 (n was bound by A, dimension 1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..native import support
from ..native.argument_checks import argument_table, constant_size
from ..native.builder import FunctionBuilder, Operand
from ..native.formula import Val
from ..native.types import element_type, is_small_float
from ..prim import PrimExpr, Var
from ..runtime.combine import FUNCTION
from ..runtime.messages import IS, counted_arguments
from ..tir import Buffer, overlap_message
from ..tir.signature import ArgumentField, Signature
from .calls import inner_symbol
from .context import Context, Rule, Unit, escaped
from .matching import WrittenMatching


class Wrapper(WrittenMatching):
    """Writer of one function's packed wrapper."""

    def __init__(self, unit: Unit, name: str, known: Signature, rules: Mapping[type, Rule]) -> None:
        head = (
            f"define i32 @{FUNCTION}{unit.numbers[name]}(ptr %self, ptr %args, i32 %count, ptr %result) "
            f"#{unit.module.attribute_group('nounwind noinline optnone')}"
        )
        super().__init__(Context(unit, FunctionBuilder(unit.module, head), name, rules), known)
        self.cx.title = unit.title(name)
        names = (f"{self.cx.title}: {self.who(param if buffer is None else buffer)}" for param, buffer in known.params)
        numbers = [unit.module.message(text, "") for text in names]
        self.rows, self.places, count = argument_table(known.params, numbers)
        self.words = self.b.alloca(f"[{count} x i64]", 16)

    def write(self) -> None:
        """Write the whole function into the module."""
        b, cx, params = self.b, self.cx, self.known.params
        count = Val(b, "i32", 1, "%count")
        message = f"expected {counted_arguments(len(params))}, found %lld"
        cx.fail_unless(count.eq(len(params)), "TypeError", message, count)
        if params:
            table = self.table("table", self.rows)
            cx.leave_unless_zero(b.op(support.checked_arguments(b.module, len(params), table, self.words)))
        passed = [
            self.scalar(i, param) if buffer is None else self.tensor(i, buffer)
            for i, (param, buffer) in enumerate(params)
        ]
        self.match_sizes()
        if self.known.apart:
            self.require_apart()
        passed += (cx.wide[var] for var in self.known.bound)
        arguments = ", ".join(f"{value.type} {value.ref}" for value in passed)
        status = b.op(f"call i32 {inner_symbol(cx.unit, cx.name)}({arguments})")
        b.end(f"ret i32 {status}")
        with b.cold("error"):
            b.end("ret i32 -1")
        cx.unit.module.define(b)

    def table(self, name: str, values: Sequence[str]) -> Operand:
        """Add a constant table that belongs to the function."""
        return self.b.module.table(f"relax.{name}.{self.cx.unit.numbers[self.cx.name]}", "i64", values)

    def word(self, place: int, type_: str = "i64") -> Val:
        """Load a word about the arguments."""
        at = self.b.op(f"getelementptr i64, ptr {self.words}, i64 {place}")
        return Val(self.b, type_, 1, self.b.op(f"load {type_}, ptr {at}"))

    def scalar(self, i: int, param: Var) -> Val:
        """Check a scalar argument and bind it to its parameter."""
        dtype = param.dtype
        type_ = "double" if dtype.is_float else "ptr" if dtype.is_handle else "i64"
        value = self.word(self.places[i].first, type_)
        if is_small_float(dtype):
            value = self.cx.unit.small_floats.from_double(dtype, value)
        elif not dtype.is_handle:
            value = value.ne(0) if dtype.is_bool else value.to(element_type(dtype))
        self.cx.vars[param] = value
        return value

    def tensor(self, i: int, buffer: Buffer) -> Val:
        """Pointer to the first element; if the buffer has a named offset, the pointer it is counted from."""
        words = self.places[i]
        return self.word(words.start if buffer.elem_offset is None else words.data, "ptr")

    def number(self, place: ArgumentField) -> Val:
        words = self.places[place.param]
        if place.what != "offset":
            return self.word((words.dimension if place.what == "shape" else words.stride)(place.axis))
        offset = self.word(words.start) - self.word(words.data)
        itemsize = max(place.buffer.dtype.bits // 8, 1) * max(place.buffer.dtype.lanes, 1)
        context, expected = self.who(place.buffer), f"a multiple of {itemsize}"
        is_whole = offset.make(f"urem i64 {offset.ref}, {itemsize}").eq(0)
        self.cx.require(is_whole, IS, context=context, place="offset", found=[offset, " bytes"], expected=expected)
        return offset.make(f"udiv i64 {offset.ref}, {itemsize}")

    def compare(self, place: ArgumentField, size: PrimExpr) -> None:
        if place.what != "shape" or constant_size(size) is None:  # the support code compares those
            super().compare(place, size)

    def require_apart(self) -> None:
        """Reject overlapping tensors if the function's promise excludes them."""
        pairs: list[str] = []
        for i, j in self.known.apart:
            names = (escaped(self.known.buffer(k).name) for k in (i, j))
            text = f"{escaped(self.cx.title)}: {overlap_message(*names)}"
            pairs += (str(self.places[k].start) for k in (i, j))
            pairs.append(self.b.module.message("ValueError", text))
        table, module = self.table("pairs", pairs), self.b.module
        call = support.tensors_apart(module, len(self.known.apart), table, self.words)
        self.cx.leave_unless_zero(self.b.op(call))
