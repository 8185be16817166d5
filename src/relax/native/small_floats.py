"""Small floats (float16, bfloat16, 8-bit and 4-bit): conversion between their bits and the float32 that holds them.

`decode` is exact. `encode` rounds to nearest, ties to even, and treats overflow and NaN as the type defines. Doubles
and integers are rounded once: see `relax.runtime.rounding`. The constants of each format are derived from ml_dtypes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from ..ir import DataType
from ..runtime.records import dataclass
from ..target.isa import BfloatRounding
from .builder import Operand, float_text, vector
from .formula import Val, look_up

_NATIVE_LANES: Final = (8, 16, 32, 64)
"""Vector lengths that are rounded to bfloat16 by an instruction, if the target has one."""
_LONGEST: Final = 16
"""Maximum number of lanes of a vector in a register."""
_NOT_NATIVE: Final = 0x93
"""Classes of floats (llvm.is.fpclass) that the instruction does not round correctly: NaN and subnormal numbers."""


@dataclass(frozen=True)
class Format:
    """A small floating-point format, described for rounding."""

    bits: int
    mantissa: int
    bias: int
    max_code: int
    """Bits of the greatest finite value."""
    overflow: int
    """Bits of an overflowing value: infinity, NaN, or the greatest value."""
    nan: int
    signed_nan: bool
    negative_zero: bool


@cache
def format_of(dtype: DataType) -> Format:
    """Format of a signed small float (all but float8_e8m0fnu)."""
    kind = dtype.numpy()
    info = cast(Any, ml_dtypes).finfo(kind)

    def code(value: float) -> int:
        with np.errstate(all="ignore"):
            return int(cast(Any, np.array(value, np.float32).astype(kind)).view(f"u{kind.itemsize}"))

    has_nan = code(float("inf")) != code(float(info.max))
    smallest = int(np.log2(float(info.smallest_normal)))
    return Format(
        bits=dtype.bits,
        mantissa=int(info.nmant),
        bias=1 - smallest,
        max_code=code(float(info.max)),
        overflow=code(float("inf")),
        nan=code(float("nan")) if has_nan else 0,
        signed_nan=has_nan and code(float("nan")) != code(-float("nan")),
        negative_zero=code(-0.0) != 0,
    )


@dataclass(frozen=True)
class SmallFloats:
    """Conversions for a target, which may have instructions for float16 and for vectors of bfloat16."""

    native_half: bool
    native_bfloat: BfloatRounding | None = None
    """Instruction that rounds to bfloat16; it flushes subnormal numbers to zero, and keeps the payload of NaN."""

    def decode(self, dtype: DataType, bits: Val) -> Val:
        """Value, as a float, of the bits (an i8 or i16; 4-bit types in the low bits of an i8)."""
        if dtype.bits <= 8:
            return _look_up(dtype, bits)
        if dtype.code == "bfloat":
            return _exact(dtype, (bits.to("i32", signed=False) << 16).bitcast("float"), bits)
        if self.native_half:
            return bits.bitcast("half").to("float")
        return _decode_half(bits)

    def encode(self, dtype: DataType, value: Val) -> Val:
        """Bits (an i8 or i16) of the nearest value of the type."""
        if dtype.code == "bfloat":
            known = value.b.exact.get(value.ref)
            if known is not None and known[0] == dtype.code:
                bits = Val(value.b, known[1], value.lanes, known[2])
            else:
                bits = self._round_bfloat(value)
            return bits if bits.type == "i16" else bits.lshr(16).to("i16")
        if dtype.code == "float" and self.native_half:
            return value.to("half").bitcast("i16")
        if dtype.code == "float8_e8m0fnu":
            return _encode_power(value)
        return _encode(format_of(dtype.element_of), value)

    def round(self, dtype: DataType, value: Val) -> Val:
        """Nearest value of the type, held in a float."""
        if dtype.code == "bfloat":
            bits = self._round_bfloat(value)
            wide = bits.to("i32", signed=False) << 16 if bits.type == "i16" else bits & -65536
            return _exact(dtype, wide.bitcast("float"), bits)
        if dtype.code == "float" and self.native_half:
            return value.to("half").to("float")
        return self.decode(dtype, self.encode(dtype, value))

    def known(self, dtype: DataType, value: Val) -> Val:
        """A float known to be a value of the type; bfloat16 then needs no rounding, only its upper half."""
        return _exact(dtype, value, value.bitcast("i32")) if dtype.code == "bfloat" else value

    def _round_bfloat(self, value: Val) -> Val:
        """Bits of the nearest bfloat16: an i16, or the upper half of an i32."""
        if self.native_bfloat is not None and value.lanes in _NATIVE_LANES:
            return _round_bfloat_natively(value, self.native_bfloat)
        return _round_bfloat(value)

    def from_double(self, dtype: DataType, value: Val) -> Val:
        """Round a double to the type, once."""
        return self.round(dtype, _round_to_odd(value))

    def from_integer(self, dtype: DataType, value: Val, signed: bool) -> Val:
        """Round an integer to the type, once."""
        if value.type == "i64":
            return self.from_double(dtype, whole_as_double(value, signed))
        if value.type == "i32":
            value = _cut(value, signed, digits=24, drop=8)
        return self.round(dtype, value.to("float", signed))


def whole_as_double(value: Val, signed: bool) -> Val:
    """An i64 as a double. Beyond 2^53 it is rounded to odd with at least 43 bits, so that rounding again is correct."""
    return _cut(value, signed, digits=53, drop=11).to("double", signed)


def _cut(value: Val, signed: bool, digits: int, drop: int) -> Val:
    """Limit an integer to `digits` bits: if it has more, clear the last `drop` and set the next one if any was set."""
    last = value & ((1 << drop) - 1)
    sticky = last.ne(0).choose(value.constant(1 << drop), 0)
    fits = (value + (1 << digits)).compare("", "ule", 2 << digits) if signed else value.compare("", "ule", 1 << digits)
    return fits.choose(value, (value ^ last) | sticky)


def _round_bfloat(value: Val) -> Val:
    """Bits of a float with the upper half rounded to even; the lower half is undefined."""
    bits = value.bitcast("i32")
    rounded = bits + ((bits.lshr(16) & 1) + 0x7FFF)
    quiet = (bits & -0x80000000) | 0x7FC00000
    return value.is_nan().choose(quiet, rounded)


def _round_bfloat_natively(value: Val, rounding: BfloatRounding) -> Val:
    """Round floats by the target's instruction; by integers if a lane is NaN or subnormal."""
    b, lanes = value.b, value.lanes
    bits = vector("i16", lanes)
    fast = _converted_natively(value, rounding)
    some = _any_of_class(value)
    rare, after, before = b.label("rare"), b.label("rounded"), b.block
    b.branch_if(some, rare, after, hint="otherwise")
    with b.cold(rare):
        exact = _round_bfloat(value).lshr(16).to("i16")
        b.branch(after)
    b.start(after)
    return Val(b, "i16", lanes, b.op(f"phi {bits} [ {fast}, %{before} ], [ {exact.ref}, %{rare} ]"))


def _converted_natively(value: Val, rounding: BfloatRounding) -> Operand:
    """Bits of floats as rounded by the target's instruction.

    Calls the instruction's intrinsic and not fptrunc: if LLVM 22 finds constant lanes after splitting long vectors, it
    folds an fptrunc to bfloat16 constants, cannot select instructions for them, and aborts.
    """
    b, size = value.b, min(value.lanes, _LONGEST)
    part, narrow, bits = vector("float", size), vector("bfloat", size), vector("i16", size)
    function = b.module.intrinsic(rounding.of(size), narrow, part)
    found: list[Operand] = []
    for piece in _pieces(value, size):
        rounded = b.op(f"call {narrow} {function}({part} {piece})", pure=True)
        found.append(b.op(f"bitcast {narrow} {rounded} to {bits}"))
    while len(found) > 1:
        size *= 2
        half, order = vector("i16", size // 2), ", ".join(f"i32 {lane}" for lane in range(size))
        found = [
            b.op(f"shufflevector {half} {one}, {half} {other}, <{size} x i32> <{order}>")
            for one, other in zip(found[::2], found[1::2], strict=True)
        ]
    return found[0]


def _pieces(value: Val, size: int) -> Iterator[Operand]:
    """Split a value into parts of `size` lanes."""
    for start in range(0, value.lanes, size):
        lanes = ", ".join(f"i32 {lane}" for lane in range(start, start + size))
        whole = f"{value.full_type} {value.ref}, {value.full_type} poison, <{size} x i32> <{lanes}>"
        yield value.ref if size == value.lanes else value.b.op(f"shufflevector {whole}")


def _any_of_class(value: Val) -> Operand:
    """An i1: True if any lane is NaN or subnormal."""
    b, size = value.b, min(value.lanes, _LONGEST)
    part, mask = vector("float", size), vector("i1", size)
    # In general terms: `worker` puts in the processor's own instruction, which not every text may have.
    function = b.module.intrinsic(f"llvm.is.fpclass.v{size}f32", mask, part, "i32 immarg")
    found: list[Operand] = []
    for piece in _pieces(value, size):
        found.append(b.op(f"call {mask} {function}({part} {piece}, i32 {_NOT_NATIVE})", pure=True))
    some = found[0]
    for other in found[1:]:
        some = b.op(f"or {mask} {some}, {other}")
    number = b.op(f"bitcast {mask} {some} to i{size}")
    return b.op(f"icmp ne i{size} {number}, 0")


def _exact(dtype: DataType, value: Val, bits: Val) -> Val:
    """Register the bits of a value that is exact in the type, so that `encode` does not round it again."""
    value.b.exact[value.ref] = str(dtype.code), bits.type, bits.ref
    return value


def _look_up(dtype: DataType, bits: Val) -> Val:
    """Value of at most eight bits, from a table of all values."""
    kind, count = dtype.element_of.numpy(), 1 << dtype.bits
    with np.errstate(all="ignore"):
        values = cast(Any, np.arange(count, dtype=np.uint8)).view(kind).astype(np.float32)
    constants = (float_text(float(v), "float") for v in values)
    table = bits.b.module.table(f"relax.{dtype.element_of}", "float", constants)
    return look_up(table, "float", bits & (count - 1) if count < 256 else bits)


def _decode_half(bits: Val) -> Val:
    """float16 to float without an instruction: a multiplication corrects the exponent, denormals included."""
    wide = bits.to("i32", signed=False)
    magnitude = wide & 0x7FFF
    value = ((magnitude << 13).bitcast("float") * 2.0**112).bitcast("i32")
    value = magnitude.ge(0x7C00).choose(value | 0x7F800000, value)
    return (value | ((wide & 0x8000) << 16)).bitcast("float")


def _encode(form: Format, value: Val) -> Val:
    """Round the magnitude as an integer; below the normal range, by adding the power of two whose ulp is the step."""
    bits = value.bitcast("i32")
    magnitude = bits & 0x7FFFFFFF
    drop = 23 - form.mantissa
    even = magnitude.lshr(drop) & 1
    normal = (magnitude + even + ((1 << (drop - 1)) - 1)).lshr(drop) - ((127 - form.bias) << form.mantissa)
    step = 2.0 ** (24 - form.bias - form.mantissa)
    shifted = magnitude.bitcast("float") + step
    subnormal = shifted.bitcast("i32") - shifted.constant(step).bitcast("i32")
    code = magnitude.lt((128 - form.bias) << 23).choose(subnormal, normal)
    code = code.gt(form.max_code).choose(form.overflow, code)
    sign = bits.lshr(32 - form.bits) & (1 << (form.bits - 1))
    nan = sign | form.nan if form.signed_nan else sign.constant(form.nan)
    signed = code | sign
    if not form.negative_zero:
        # In these types the bits of -0 are the one NaN.
        signed = code.eq(0).choose(0, code.eq(form.overflow).choose(form.overflow, signed))
    return value.is_nan().choose(nan, signed).to(f"i{max(form.bits, 8)}")


def _encode_power(value: Val) -> Val:
    """Encode float8_e8m0fnu, the powers of two: ties round up; zero, negative and too large values become NaN.

    A positive number below the smallest power becomes that power.
    """
    bits = value.bitcast("i32")
    half = bits.lt(0x00800000).choose(bits.constant(0x200000), 0x400000)
    code = (bits + half).lshr(23)
    code = code.gt(254).choose(255, code)
    return value.gt(0.0).choose(code, 255).to("i8")


def _round_to_odd(value: Val) -> Val:
    """Convert a double to a float whose last bit is 1 if inexact (round to odd): rounding it again is then correct."""
    single = value.to("float")
    back = single.to("double")
    inexact = back.ne(value)
    away = back.abs().gt(value.abs())
    bits = single.bitcast("i32")
    toward_zero = away.choose(bits - 1, bits)
    return value.is_nan().choose(single, inexact.choose(toward_zero | 1, bits).bitcast("float"))
