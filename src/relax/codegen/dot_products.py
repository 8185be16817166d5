"""Dot products of narrow integers and bfloat16 (`T.dot_u8s8` and similar): one instruction if the target has it.

The architecture defines the instructions (`ISA.dots`). Without them, integers are multiplied in 32 bits and added in
pairs (LLVM matches vpmaddwd and vpdpwssd), and bfloat16 is multiplied as float32. Bytes of 7 bits are signed as well as
unsigned, so that each dot product of bytes computes theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..native.builder import vector
from ..native.formula import Val
from ..prim import Call
from ..target import Machine
from ..target.isa.products import DOTS
from .context import Context


def _dot(kind: str) -> Callable[[Context, Call], Val]:
    def write(cx: Context, call: Call) -> Val:
        total, a, b = (cx.value(arg) for arg in call.args)
        machine = cx.unit.target.machine
        for same in ("u8s8", "s8s8") if kind == "u7s8" else (kind,):
            name = _instruction(same, machine, total.lanes)
            if name is not None:
                return _native(same, name, total, a, b)
        name = _instruction(kind, machine, total.lanes)
        if name is not None:
            return _in_pairs(kind, machine, name, total, a, b)
        return _sum_of_floats(total, a, b) if kind == "bf16" else _sum(kind, total, a, b)

    return write


def _instruction(kind: str, machine: Machine, lanes: int) -> str | None:
    """LLVM intrinsic for the dot product of `lanes` packed groups; None if the target has no instruction for it."""
    bits = 32 * lanes
    instruction = machine.isa.dot(kind)
    if instruction is None or kind not in machine.dot_products or bits > machine.vector_bits:
        return None
    return instruction.intrinsics.get(bits)


def _native(kind: str, name: str, total: Val, a: Val, b: Val) -> Val:
    group = DOTS[kind].group
    words = vector("bfloat" if kind == "bf16" else "i8", total.lanes * group)
    parts = [x.b.op(f"bitcast {x.full_type} {x.ref} to {words}") for x in (a, b)]
    t = total.full_type
    function = total.b.module.intrinsic(name, t, t, words, words)
    return total.make(f"call {t} {function}({t} {total.ref}, {words} {parts[0]}, {words} {parts[1]})")


def _in_pairs(kind: str, machine: Machine, name: str, total: Val, a: Val, b: Val) -> Val:
    """Add sums of two products, which are int16, by the instruction that adds their products with 1."""
    instruction = machine.isa.dot(kind)
    assert instruction is not None
    words, halves, b_ = vector("i8", total.lanes * 4), vector("i16", total.lanes * 2), total.b
    parts = [b_.op(f"bitcast {x.full_type} {x.ref} to {words}") for x in (a, b)]
    first = b_.module.intrinsic(name, halves, words, words)
    products = b_.op(f"call {halves} {first}({words} {parts[0]}, {words} {parts[1]})")
    ones = "<" + ", ".join(["i16 1"] * (total.lanes * 2)) + ">"
    second = b_.module.intrinsic(instruction.pairs[32 * total.lanes], total.full_type, halves, halves)
    return total + total.make(f"call {total.full_type} {second}({halves} {products}, {halves} {ones})")


def _sum(kind: str, total: Val, a: Val, b: Val) -> Val:
    """Sum of products in 32 bits; the neighbouring products of each packed group are added."""
    dot = DOTS[kind]
    product = _numbers(a, dot.left) * _numbers(b, dot.right)
    first, *rest = (_every(product, position, dot.group) for position in range(dot.group))
    for part in rest:
        first = first + part
    return total + first


def _numbers(words: Val, dtype: str) -> Val:
    """Unpack groups into consecutive i32 lanes."""
    bits = int(dtype.rpartition("int")[2])
    count = words.lanes * 32 // bits
    narrow = words.b.op(f"bitcast {words.full_type} {words.ref} to {vector(f'i{bits}', count)}")
    return Val(words.b, f"i{bits}", count, narrow).to("i32", signed=dtype.startswith("int"))


def _every(x: Val, first: int, step: int) -> Val:
    """Every `step`-th lane, beginning with lane `first`."""
    count = x.lanes // step
    if count == 1:
        return Val(x.b, x.type, 1, x.b.op(f"extractelement {x.full_type} {x.ref}, i64 {first}"))
    lanes = ", ".join(f"i32 {first + step * i}" for i in range(count))
    text = f"shufflevector {x.full_type} {x.ref}, {x.full_type} poison, <{count} x i32> <{lanes}>"
    return Val(x.b, x.type, count, x.b.op(text))


def _sum_of_floats(total: Val, a: Val, b: Val) -> Val:
    """Sum of bfloat16 products in float32: a bfloat16 is the upper half of a float."""

    def parts(words: Val) -> tuple[Val, Val]:
        return (words << 16).bitcast("float"), (words & -65536).bitcast("float")

    (a0, a1), (b0, b1) = parts(a), parts(b)
    return total + a0 * b0 + a1 * b1


TABLE: Final = {f"dot_{kind}": _dot(kind) for kind in DOTS}
