"""Formulas over LLVM values: Python operators that write instructions.

A `Val` is a value of one or more lanes; ``a * b + 1`` on Vals writes a multiplication and an addition. Python numbers
become constants of the other operand's type. Comparisons of floats are ordered (false for NaN). All code is
straight-line, so the loop vectoriser handles it like a single operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ..runtime.records import dataclass
from .builder import FunctionBuilder, Operand, float_text, splat, vector

Number: TypeAlias = "Val | float | int"


@dataclass(slots=True, eq=False)
class Val:
    """An immutable value of `lanes` elements of an LLVM type: i1, i8 … i64, float, double.

    Not a frozen dataclass: one is created per instruction, which would take three times as long.
    """

    b: FunctionBuilder
    type: str
    lanes: int
    ref: Operand

    @property
    def full_type(self) -> str:
        return vector(self.type, self.lanes)

    @property
    def is_float(self) -> bool:
        return self.type in ("float", "double")

    def constant(self, value: float) -> Val:
        """Constant of this value's type."""
        return constant(self.b, self.type, self.lanes, value)

    def _operand(self, other: Number) -> Operand:
        return other.ref if isinstance(other, Val) else self.constant(other).ref

    def make(self, text: str, type_: str | None = None) -> Val:
        """Result of an instruction, by default of this value's type."""
        return Val(self.b, type_ or self.type, self.lanes, self.b.op(text))

    def _binary(self, of_float: str, of_int: str, other: Number, swap: bool = False) -> Val:
        a, b = self.ref, self._operand(other)
        if swap:
            a, b = b, a
        if self.is_float:
            return self.make(f"{of_float} {self.full_type} {a}, {b}")
        return self.integer(of_int, a, b)

    def integer(self, op: str, a: Operand, b: Operand, flags: str = "") -> Val:
        """Result of an instruction on two integers of this value's type; constants are folded."""
        ref = folded(op, self.type, a, b) if self.lanes == 1 else None
        if ref is None:
            return self.make(f"{op} {flags}{self.full_type} {a}, {b}")
        return Val(self.b, self.type, 1, ref)

    def __add__(self, other: Number) -> Val:
        return self._binary("fadd", "add", other)

    __radd__ = __add__

    def __sub__(self, other: Number) -> Val:
        return self._binary("fsub", "sub", other)

    def __rsub__(self, other: Number) -> Val:
        return self._binary("fsub", "sub", other, swap=True)

    def __mul__(self, other: Number) -> Val:
        return self._binary("fmul", "mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> Val:
        return self._binary("fdiv", "sdiv", other)

    def __rtruediv__(self, other: Number) -> Val:
        return self._binary("fdiv", "sdiv", other, swap=True)

    def __neg__(self) -> Val:
        return self.make(f"fneg {self.full_type} {self.ref}") if self.is_float else 0 - self

    def __and__(self, other: Number) -> Val:
        return self._binary("", "and", other)

    def __or__(self, other: Number) -> Val:
        return self._binary("", "or", other)

    def __xor__(self, other: Number) -> Val:
        return self._binary("", "xor", other)

    def __lshift__(self, other: Number) -> Val:
        return self._binary("", "shl", other)

    def __rshift__(self, other: Number) -> Val:
        """Arithmetic right shift."""
        return self._binary("", "ashr", other)

    def lshr(self, other: Number) -> Val:
        return self._binary("", "lshr", other)

    def compare(self, of_float: str, of_int: str, other: Number) -> Val:
        kind, name = ("fcmp", of_float) if self.is_float else ("icmp", of_int)
        operand = self._operand(other)
        holds = compared(name, self.type, self.ref, operand) if self.lanes == 1 and not self.is_float else None
        if holds is not None:
            return Val(self.b, "i1", 1, "true" if holds else "false")
        return self.make(f"{kind} {name} {self.full_type} {self.ref}, {operand}", "i1")

    def lt(self, other: Number) -> Val:
        return self.compare("olt", "slt", other)

    def le(self, other: Number) -> Val:
        return self.compare("ole", "sle", other)

    def gt(self, other: Number) -> Val:
        return self.compare("ogt", "sgt", other)

    def ge(self, other: Number) -> Val:
        return self.compare("oge", "sge", other)

    def eq(self, other: Number) -> Val:
        return self.compare("oeq", "eq", other)

    def ne(self, other: Number) -> Val:
        """Unequal; true for floats if one is NaN."""
        return self.compare("une", "ne", other)

    def is_nan(self) -> Val:
        return self.compare("uno", "", self)

    def choose(self, if_true: Number, if_false: Number) -> Val:
        """Select by this i1. At least one of the two operands must be a Val."""
        like = if_true if isinstance(if_true, Val) else if_false
        assert isinstance(like, Val)
        a = if_true if isinstance(if_true, Val) else like.constant(if_true)
        b = if_false if isinstance(if_false, Val) else like.constant(if_false)
        if self.ref in ("true", "false"):
            return a if self.ref == "true" else b
        text = f"select {self.full_type} {self.ref}, {a.full_type} {a.ref}, {b.full_type} {b.ref}"
        return a.make(text)

    def to(self, type_: str, signed: bool = True) -> Val:
        """Convert to another LLVM type. Floats converted to integers must be in range."""
        if type_ == self.type:
            return self
        integers = self.lanes == 1 and type_[0] == self.type[0] == "i"
        number = number_of(self.ref, self.type) if integers else None
        if number is not None and 0 <= number < 1 << min(_width(type_), _width(self.type)) - 1:
            return Val(self.b, type_, 1, self.ref)
        return self.make(
            f"{_conversion(self.type, type_, signed)} {self.full_type} {self.ref} to {vector(type_, self.lanes)}", type_
        )

    def bitcast(self, type_: str) -> Val:
        return self.make(f"bitcast {self.full_type} {self.ref} to {vector(type_, self.lanes)}", type_)

    def intrinsic(self, name: str, *others: Number) -> Val:
        """Call ``llvm.<name>`` on this value and others, with this value's type."""
        if self.lanes == 1 and name in ("smin", "smax"):
            least = compared("sle", self.type, self.ref, self._operand(others[0]))
            if least is not None:
                chosen = self.ref if least == (name == "smin") else self._operand(others[0])
                return Val(self.b, self.type, 1, chosen)
        symbol = f"llvm.{name}.{suffix(self.type, self.lanes)}"
        operands = [self.ref, *(self._operand(other) for other in others)]
        types = [self.full_type] * len(operands)
        function = self.b.module.intrinsic(symbol, self.full_type, *types)
        arguments = ", ".join(f"{t} {o}" for t, o in zip(types, operands, strict=True))
        return Val(self.b, self.type, self.lanes, self.b.call(self.full_type, function, arguments, pure=True))

    def fma(self, factor: Number, addend: Number) -> Val:
        """self * factor + addend, fused if the target has the instruction."""
        return self.intrinsic("fmuladd", factor, addend)

    def abs(self) -> Val:
        return self.intrinsic("fabs")

    def copysign(self, sign: Val) -> Val:
        return self.intrinsic("copysign", sign)

    def rint(self) -> Val:
        """Nearest integer, ties to even."""
        return self.intrinsic("rint")


def number_of(ref: Operand, type_: str) -> int | None:
    """The number that an operand of an integer type is, as a signed one; None for another operand."""
    if ref[0] == "%" or not (ref.isdigit() or ref.lstrip("-").isdigit()):
        return None
    return signed(int(ref), _width(type_))


def signed(value: int, bits: int) -> int:
    """Wrap an integer to `bits` bits, read as signed."""
    half = 1 << bits - 1
    return (value + half) % (2 * half) - half


def folded(op: str, type_: str, a: Operand, b: Operand) -> Operand | None:
    """Fold an instruction on integers to an operand; None if it must be computed."""
    if type_ == "i1":
        return _folded_conditions(op, a, b)
    x, y = number_of(a, type_), number_of(b, type_)
    if x is not None and y is not None:
        return _of_numbers(op, _width(type_), x, y)
    if y == 0 and op in ("add", "sub", "or", "xor", "shl", "ashr", "lshr"):
        return a
    if x == 0 and op in ("add", "or", "xor"):
        return b
    if op == "mul" and (x == 1 or y == 1):
        return a if y == 1 else b
    if op == "udiv" and y == 1:
        return a
    zero = (op in ("mul", "and") and 0 in (x, y)) or (op == "urem" and y == 1)
    return "0" if zero else None


def _of_numbers(op: str, bits: int, x: int, y: int) -> Operand | None:
    match op:
        case "add" | "sub" | "mul":
            value = x + y if op == "add" else x - y if op == "sub" else x * y
        case "and" | "or" | "xor":
            value = x & y if op == "and" else x | y if op == "or" else x ^ y
        case "udiv" | "urem" if x >= 0 and y > 0:
            value = x // y if op == "udiv" else x % y
        case "ashr" if 0 <= y < bits:
            value = x >> y
        case _:
            return None
    return str(signed(value, bits))


def _folded_conditions(op: str, a: Operand, b: Operand) -> Operand | None:
    """`folded` for conditions."""
    fixed, other = (a, b) if a in ("true", "false") else (b, a)
    if fixed not in ("true", "false") or op not in ("and", "or", "xor"):
        return None
    if op == "xor":
        opposite = {"true": "false", "false": "true"}.get(other)
        return other if fixed == "false" else opposite
    return other if fixed == ("true" if op == "and" else "false") else fixed


def compared(order: str, type_: str, a: Operand, b: Operand) -> bool | None:
    """Outcome of comparing two integer operands; None unless both are constants."""
    x, y = number_of(a, type_), number_of(b, type_)
    if x is None or y is None:
        return None
    if order[0] == "u":
        x, y = x % (1 << _width(type_)), y % (1 << _width(type_))
    return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[order[-2:]]


def constant(b: FunctionBuilder, type_: str, lanes: int, value: float) -> Val:
    """Constant with equal lanes."""
    text = float_text(float(value), type_) if type_ in ("float", "double") else str(int(value))
    if type_ == "i1":
        text = "true" if value else "false"
    return Val(b, type_, lanes, splat(type_, lanes, text))


def polynomial(x: Val, coefficients: Sequence[float]) -> Val:
    """Σ coefficients[k] · x^k, by Horner's rule."""
    result = x.constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result.fma(x, coefficient)
    return result


def broadcast(scalar: Val, lanes: int) -> Val:
    """Broadcast a scalar to a vector; a value that has `lanes` lanes is unchanged."""
    if scalar.lanes == lanes:
        return scalar
    if not scalar.ref.startswith("%"):
        return Val(scalar.b, scalar.type, lanes, splat(scalar.type, lanes, scalar.ref))
    vector_type = vector(scalar.type, lanes)
    first = scalar.b.op(f"insertelement {vector_type} poison, {scalar.type} {scalar.ref}, i64 0")
    zeros = f"<{lanes} x i32> zeroinitializer"
    ref = scalar.b.op(f"shufflevector {vector_type} {first}, {vector_type} poison, {zeros}")
    return Val(scalar.b, scalar.type, lanes, ref)


def in_parts(x: Val, lanes: int, formula: Callable[[Val], Val]) -> Val:
    """Apply `formula` to a vector in parts of `lanes` lanes; the last part is padded by repeating its last lane."""
    starts = range(0, x.lanes, lanes)
    parts = [formula(_lanes_of(x, None, [min(start + i, x.lanes - 1) for i in range(lanes)])) for start in starts]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        joined = [_lanes_of(a, b, range(a.lanes + b.lanes)) for a, b in pairs]
        parts = [*joined, *parts[2 * len(joined) :]]
    (whole,) = parts
    return _lanes_of(whole, None, range(x.lanes))


def _lanes_of(a: Val, b: Val | None, lanes: Sequence[int]) -> Val:
    """Selected lanes of a vector, or of the concatenation of two."""
    if b is not None and b.lanes != a.lanes:
        b = _lanes_of(b, None, [min(i, b.lanes - 1) for i in range(a.lanes)])
    second = "poison" if b is None else b.ref
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    ref = a.b.op(f"shufflevector {a.full_type} {a.ref}, {a.full_type} {second}, <{len(lanes)} x i32> <{mask}>")
    return Val(a.b, a.type, len(lanes), ref)


def look_up(table: Operand, type_: str, index: Val) -> Val:
    """Elements of a constant table of floats or doubles at an index (scalar or vector) within it."""
    b, lanes = index.b, index.lanes
    wide = index.to("i64", signed=False)
    place = b.op(f"getelementptr inbounds {type_}, ptr {table}, {wide.full_type} {wide.ref}")
    align = 8 if type_ == "double" else 4
    if lanes == 1:
        return index.make(f"load {type_}, ptr {place}, align {align}", type_)
    values, pointers, mask = vector(type_, lanes), vector("ptr", lanes), vector("i1", lanes)
    name = f"llvm.masked.gather.{suffix(type_, lanes)}.v{lanes}p0"
    function = b.module.intrinsic(name, values, pointers, mask, values)
    everywhere = splat("i1", lanes, "true")
    arguments = f"{pointers} align {align} {place}, {mask} {everywhere}, {values} poison"
    return index.make(f"call {values} {function}({arguments})", type_)


def suffix(type_: str, lanes: int) -> str:
    """Type suffix of LLVM intrinsics."""
    name = {"float": "f32", "double": "f64"}.get(type_, type_)
    return name if lanes == 1 else f"v{lanes}{name}"


def _width(type_: str) -> int:
    return {"float": 32, "double": 64, "half": 16}.get(type_) or int(type_[1:])


def _conversion(source: str, target: str, signed: bool) -> str:
    from_float, to_float = source[0] != "i", target[0] != "i"
    if from_float and to_float:
        return "fpext" if _width(target) > _width(source) else "fptrunc"
    if from_float:
        return "fptosi" if signed else "fptoui"
    if to_float:
        return "sitofp" if signed else "uitofp"
    if _width(target) < _width(source):
        return "trunc"
    return "sext" if signed else "zext"
