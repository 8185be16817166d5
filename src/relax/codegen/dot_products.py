"""Dot products of narrow numbers (`T.dot_u8s8` and the like): one instruction where the machine has one.

| kind | x86-64 | AArch64 | otherwise |
|---|---|---|---|
| u8s8 | vpdpbusd | usdot | products of 32 bits, added by pairs |
| s8s8 | vpdpbssd | sdot | the same |
| s16s16 | vpmaddwd, vpdpwssd: LLVM finds them in the general form | smull, addp | the same |
| bf16 | vdpbf16ps | bfdot | products of float32 |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..native.builder import vector
from ..native.formula import Val
from ..prim import Call
from ..prim.instructions import DOTS
from ..target import Machine
from .context import Context

_X86: Final = {"u8s8": "llvm.x86.avx512.vpdpbusd", "bf16": "llvm.x86.avx512bf16.dpbf16ps"}
_AARCH64: Final = {
    "u8s8": "llvm.aarch64.neon.usdot.v4i32.v16i8",
    "s8s8": "llvm.aarch64.neon.sdot.v4i32.v16i8",
    "bf16": "llvm.aarch64.neon.bfdot.v4f32.v8bf16",
}


def _dot(kind: str) -> Callable[[Context, Call], Val]:
    def write(cx: Context, call: Call) -> Val:
        total, a, b = (cx.value(arg) for arg in call.args)
        name = _instruction(kind, cx.unit.target.machine, total.lanes)
        if name is not None:
            return _native(kind, name, total, a, b)
        return _sum_of_floats(total, a, b) if kind == "bf16" else _sum(kind, total, a, b)

    return write


def _instruction(kind: str, machine: Machine, lanes: int) -> str | None:
    """LLVM's name of the instruction for so many lanes; None if the machine has none."""
    bits = 32 * lanes
    if kind not in machine.dot_products:
        return None
    if machine.triple.startswith("aarch64"):
        return _AARCH64.get(kind) if bits == 128 else None
    if not machine.triple.startswith("x86_64") or bits not in (128, 256, 512) or bits > machine.vector_bits:
        return None
    if kind == "s8s8":
        return f"llvm.x86.{'avx10' if bits == 512 else 'avx2'}.vpdpbssd.{bits}"
    return f"{_X86[kind]}.{bits}" if kind in _X86 else None


def _native(kind: str, name: str, total: Val, a: Val, b: Val) -> Val:
    group = DOTS[kind].group
    words = vector("bfloat" if kind == "bf16" else "i8", total.lanes * group)
    parts = [x.b.op(f"bitcast {x.full_type} {x.ref} to {words}") for x in (a, b)]
    t = total.full_type
    function = total.b.module.intrinsic(name, t, t, words, words)
    return total.make(f"call {t} {function}({t} {total.ref}, {words} {parts[0]}, {words} {parts[1]})")


def _sum(kind: str, total: Val, a: Val, b: Val) -> Val:
    """All products in 32 bits; those of a word are neighbours, which are added."""
    dot = DOTS[kind]
    product = _numbers(a, dot.left) * _numbers(b, dot.right)
    first, *rest = (_every(product, position, dot.group) for position in range(dot.group))
    for part in rest:
        first = first + part
    return total + first


def _numbers(words: Val, dtype: str) -> Val:
    """The numbers of words, one after the other, as i32."""
    bits = int(dtype.rpartition("int")[2])
    count = words.lanes * 32 // bits
    narrow = words.b.op(f"bitcast {words.full_type} {words.ref} to {vector(f'i{bits}', count)}")
    return Val(words.b, f"i{bits}", count, narrow).to("i32", signed=dtype.startswith("int"))


def _every(x: Val, first: int, step: int) -> Val:
    """Each lane that is a number of steps behind the first one."""
    count = x.lanes // step
    if count == 1:
        return Val(x.b, x.type, 1, x.b.op(f"extractelement {x.full_type} {x.ref}, i64 {first}"))
    lanes = ", ".join(f"i32 {first + step * i}" for i in range(count))
    text = f"shufflevector {x.full_type} {x.ref}, {x.full_type} poison, <{count} x i32> <{lanes}>"
    return Val(x.b, x.type, count, x.b.op(text))


def _sum_of_floats(total: Val, a: Val, b: Val) -> Val:
    """A number of bfloat16 is the upper half of a float."""

    def parts(words: Val) -> tuple[Val, Val]:
        return (words << 16).bitcast("float"), (words & -65536).bitcast("float")

    (a0, a1), (b0, b1) = parts(a), parts(b)
    return total + a0 * b0 + a1 * b1


TABLE: Final = {f"dot_{kind}": _dot(kind) for kind in DOTS}

__all__ = ["TABLE"]
