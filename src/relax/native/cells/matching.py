"""The native matcher: checks of values, with the message for a mismatch.

Each check is written once, by a function of `CHECKS`, and becomes two functions of machine code: one for compiled
functions, which test a value and call a builtin for the error; and one for shared libraries, which have no builtins and
raise the error themselves (`library_checks`).

    i1  relax.cells.v7.fits_<check>(value, numbers, slots, other)
    i32 relax.library.v1.refuse_<check>(value, numbers, slots, other, notes, context)

The value is a cell. The checks are the kinds of ``vm.builtin.match``, and `same_sizes`. The numbers are the builtin's
arguments after the kind: size, dtype, the count of dimensions, a code and a number for each. They are cells, of which
only the payloads are read. The shape heap is at `slots`; variables bound by the value are stored there. The other value
is the device of a tensor, or the shape to compare with.

LLVM IR; `support_code` and `library` define the placeholders in angle brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ...runtime.limits import DIMENSION_LIMIT
from ...runtime.match import ASSERT_IMM, ASSERT_SLOT, STORE, STORE_SIZE
from ...runtime.messages import DEVICE, DIMENSIONS, DTYPE, IS, KIND, LENGTH, NO_SIZE, NO_TUPLE, RANK, SCALAR, Message
from ..builder import ModuleBuilder, Operand
from ..checks import CheckWriter, fits_integer
from ..ffi_layouts import BOOL, FLOAT, INT, NONE, TENSOR
from ..formula import Val
from .library_writer import Part, dims, dtype, integer, kind, refuse, scalar, slot, string

_SHAPE: Final = 69
_VALUE, _OTHER = "%value", "%other"
_DTYPE, _DEVICE = 44, 32
"""Offsets of a tensor's fields in its object."""


class Check(CheckWriter):
    """Writer of one function: a check that returns whether the value fits, or one that raises the error."""

    def __init__(self, module: ModuleBuilder, name: str, raises: bool) -> None:
        parameters = "ptr %value, ptr %numbers, ptr %slots, ptr %other"
        head = f"define i1 @<P>fits_{name}({parameters}) nounwind"
        if raises:
            head = f"define internal i32 @<L>refuse_{name}({parameters}, ptr %notes, ptr %context) nounwind"
        self.raises = raises
        super().__init__(module, head)
        if raises:
            self.b.do("%text = alloca [1040 x i8], align 8")
            self.b.do("store i64 0, ptr %text")
        self.kind = self.load(_VALUE, 0, "i32")
        self.payload = self.load(_VALUE, 8)

    def text(self) -> str:
        """Finish the function and return its text."""
        self.b.end("ret i32 0" if self.raises else "ret i1 true")
        return self.b.text()

    # -------------------------------------------------------------------------------------- reading

    def field(self, offset: int, type_: str = "i64") -> Val:
        """Load a field of the value's object."""
        return self.load(self.b.op(f"inttoptr i64 {self.payload.ref} to ptr"), offset, type_)

    def number(self, index: Val | int) -> Val:
        """Load one of the check's numbers."""
        operand = index.ref if isinstance(index, Val) else str(index)
        return self.load(self.b.op(f"getelementptr <ANY>, ptr %numbers, i64 {operand}"), 8)

    def ask(self, question: str, *numbers: Val, of: Operand = _VALUE) -> Val:
        """Query a cell (`questions`)."""
        result = "i32" if question == "rank" else "i64"
        operands = ", ".join([f"ptr {of}", *(f"{n.type} {n.ref}" for n in numbers)])
        return Val(self.b, result, 1, self.b.op(f"call {result} @<P>{question}({operands})")).to("i64")

    def slot(self, number: Val) -> Val:
        """Load a slot."""
        return self.element("%slots", number)

    def store(self, number: Val, value: Val) -> None:
        """Store a number in a slot."""
        at = self.b.op(f"getelementptr i64, ptr %slots, i64 {number.ref}")
        self.b.do(f"store i64 {value.ref}, ptr {at}")

    # -------------------------------------------------------------------------------------- refusing

    def unless(self, condition: Val, message: Message, **fields: Part | list[Part]) -> None:
        """Reject the value unless the condition holds."""
        self.refuse_unless(condition, lambda: self._refuse(message, fields))

    def _refuse(self, message: Message, fields: Mapping[str, Part | list[Part]]) -> None:
        end = refuse(message, context=string("%context"), **fields) if self.raises else "ret i1 false"
        self.b.end(end.lstrip())


# -------------------------------------------------------------------------------------------- the checks


def _tensor(w: Check) -> None:
    """A dtype of 0 bits matches any; the tensor must be on the given device, or in host memory."""
    w.unless(w.kind.eq(TENSOR), KIND, expected="a tensor", found=kind(_VALUE))
    rank = _rank(w, RANK)
    wanted, found = w.number(1).to("i32"), w.field(_DTYPE, "i32")
    fits = wanted.lshr(8).eq(0) | wanted.eq(found)
    w.unless(fits, DTYPE, expected=dtype(wanted.ref), found=dtype(found.ref))
    host = Val(w.b, "i1", 1, w.b.op(f"icmp eq ptr {_OTHER}, null"))
    refusal = {"expected": "cpu", "found": "another device"}
    with w.when(host):
        w.unless(w.field(_DEVICE, "i32").eq(1), DEVICE, **refusal)
    with w.when(host ^ 1):
        w.unless(w.field(_DEVICE).eq(w.load(_OTHER, 8)), DEVICE, **refusal)
    _dimensions(w, rank)


def _shape(w: Check) -> None:
    w.unless(w.kind.eq(_SHAPE), KIND, expected="a shape", found=kind(_VALUE))
    _dimensions(w, _rank(w, DIMENSIONS))


def _rank(w: Check, message: Message) -> Val:
    """Check and return the rank; an expected rank of -1 matches any."""
    ndim, rank = w.number(0), w.ask("rank")
    fits = ndim.lt(0) | ndim.eq(rank)
    w.unless(fits, message, expected=integer(ndim.ref), found=integer(rank.ref), shape=dims(_VALUE))
    return rank


def _scalar(w: Check) -> None:
    """The code of a dtype is 0 for int, 1 for uint, 6 for bool."""
    wanted = w.number(1).to("i32")
    code, bits = wanted & 255, wanted.lshr(8) & 255
    is_int, signed = code.le(1), code.eq(0)
    fits = w.kind.eq(is_int.choose(code.constant(INT), code.eq(6).choose(code.constant(BOOL), FLOAT)))
    fits = fits & ((is_int ^ 1) | fits_integer(w.payload, bits, signed))
    article: Part = "a"
    if w.raises:
        article = ("put", f'ptr {w.b.op(f"""select i1 {signed.ref}, ptr <"an">, ptr <"a">""")}')
    w.unless(fits | bits.eq(0), SCALAR, article=article, expected=dtype(wanted.ref), found=kind(_VALUE))
    with w.loop(w.number(2)) as axis:
        _match_number(w, axis, w.payload, "the value")


def _tuple(w: Check) -> None:
    """The null object is the empty tuple."""
    length, count = w.number(0), w.ask("count")
    unit = length.eq(0) & w.kind.eq(NONE)
    refusal = {"expected": integer(length.ref), "found": kind(_VALUE)}
    w.unless(unit | count.ge(0), NO_TUPLE, **refusal)
    w.unless(unit | count.eq(length), LENGTH, **refusal)


def _dimensions(w: Check, rank: Val) -> None:
    """Match each dimension by its code and number, in the form of `relax.runtime.match`."""
    count = w.number(2)
    fits = count.eq(0) | count.eq(rank)
    w.unless(fits, RANK, expected=integer(count.ref), found=integer(rank.ref), shape=dims(_VALUE))
    with w.loop(count) as axis:
        _match_number(w, axis, w.ask("dim", axis), ["dimension ", integer(axis.ref)])


def _match_number(w: Check, axis: Val, found: Val, place: Part | list[Part]) -> None:
    """Match a dimension or a scalar by code and number. Slots hold the bits of floats; NaN equals itself."""
    code, number = w.number(axis * 2 + 3), w.number(axis * 2 + 4)
    is_scalar, is_float = place == "the value", w.kind.eq(FLOAT)
    refusal = {"place": place, "found": scalar(w.kind.ref, found.ref)}

    def fits(bits: Val) -> Val:
        if not is_scalar:
            return found.eq(bits)
        a, b = found.bitcast("double"), bits.bitcast("double")
        same_float = a.eq(b) | (a.is_nan() & b.is_nan())
        return (is_float & same_float) | ((is_float ^ 1) & found.eq(bits))

    is_free = code.ne(STORE_SIZE if is_scalar else STORE) | is_float
    w.unless(is_free | found.compare("", "ult", DIMENSION_LIMIT), NO_SIZE, **refusal)
    with w.when(code.eq(STORE) | code.eq(STORE_SIZE)):
        w.store(number, found)
    with w.when(code.eq(ASSERT_IMM)):
        kind_shown = is_float.choose(w.kind, INT)
        w.unless(fits(number), IS, **refusal, expected=scalar(kind_shown.ref, number.ref))
    with w.when(code.eq(ASSERT_SLOT)):
        w.unless(fits(w.slot(number)), IS, **refusal, expected=slot(number.ref))


def _same_sizes(w: Check) -> None:
    """Compare with the sizes of another tensor or shape."""
    refusal = {"place": "the shape", "found": dims(_VALUE), "expected": dims(_OTHER)}
    rank = w.ask("rank")
    w.unless(rank.ge(0) & rank.eq(w.ask("rank", of=_OTHER)), IS, **refusal)
    with w.loop(rank) as axis:
        w.unless(w.ask("dim", axis).eq(w.ask("dim", axis, of=_OTHER)), IS, **refusal)


KINDS: Final = {"tensor": _tensor, "shape": _shape, "scalar": _scalar, "tuple": _tuple}
"""Writers of the checks of ``vm.builtin.match``, by kind of value."""
CHECKS: Final[dict[str, Callable[[Check], None]]] = {**KINDS, "same_sizes": _same_sizes}
"""Writers of the checks, by name."""


def checks_text(module: ModuleBuilder, raises: bool) -> str:
    """LLVM text of all checks: those that return a condition, or those that raise errors."""
    texts: list[str] = []
    for name, write in CHECKS.items():
        check = Check(module, name, raises)
        write(check)
        texts.append(check.text())
    return "\n".join(texts)
