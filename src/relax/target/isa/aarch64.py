"""AArch64: NEON and its dot products. SVE registers are described as NEON registers; LLVM chooses how to use them.

Sources: Arm Architecture Reference Manual for A-profile (DDI 0487), chapters A1.5 (registers), C7 (SIMD and floating
point), D17 (CNTVCT_EL0), C5.2 (FPCR); LLVM's IntrinsicsAArch64.td; Linux' include/uapi/asm-generic/unistd.h.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ...runtime import machine_code
from .description import ISA, DotInstruction, Effect, Level, PoolCode, Snippet, Vectors
from .products import BF16, S8S8, U8S8, U8U8

# ------------------------------------------------------------------------------ instructions

_DOTS: Final = (
    DotInstruction(U8S8, "usdot", {128: "llvm.aarch64.neon.usdot.v4i32.v16i8"}),
    DotInstruction(S8S8, "sdot", {128: "llvm.aarch64.neon.sdot.v4i32.v16i8"}, extension="dotprod"),
    DotInstruction(U8U8, "udot", {128: "llvm.aarch64.neon.udot.v4i32.v16i8"}),
    DotInstruction(BF16, "bfdot", {128: "llvm.aarch64.neon.bfdot.v4f32.v8bf16"}, pattern=r"\bbfcvtn"),
)

_POOL: Final = PoolCode(
    futex=98,
    sched_yield=124,
    clock=Snippet(
        'declare i64 @llvm.read_volatile_register.i64(metadata)\n!0 = !{!"cntvct_el0"}',
        "call i64 @llvm.read_volatile_register.i64(metadata !0)",
    ),
    pause=Snippet("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
    float_mode="""declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
define internal i64 @get_mode() alwaysinline {
  %mode = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %mode
}
define internal void @set_mode(i64 %mode) alwaysinline {
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}""",
)

# ------------------------------------------------------------------------------ assembly

_ARRANGEMENT: Final = r"^[vz]\d+\.(\d*)([bhsdq])$"
_BITS: Final = {"b": 8, "h": 16, "s": 32, "d": 64, "q": 128}
_FMA: Final = r"^(?:fml[as]l?2?|fn?madd|fn?msub|fmlal|fmlsl|fnml[as]|fmad|fmsb|fcmla)$"
_ARITHMETIC: Final = r"^f(?:add|sub|mul|mulx|nmul|div|sqrt|abd|min|max|minnm|maxnm|recpe|rsqrte)p?$"
_SHUFFLE: Final = r"^(?:ext|zip[12]|uzp[12]|trn[12]|tbl|tbx|ins|dup|rev\d+|xtn2?|uzp)$"
_BRANCH: Final = r"^(?:b|b\.\w+|bc\.\w+|cbn?z|tbn?z)$"


def _effect(mnemonic: str, operands: Sequence[str]) -> Effect:
    if mnemonic in ("bl", "blr"):
        return Effect(callee=operands[0])
    if re.match(_BRANCH, mnemonic):
        return Effect(target=operands[-1], is_conditional=mnemonic != "b")
    effect = Effect()
    memory = next((text for text in operands if text.startswith("[")), "")
    if memory and not mnemonic.startswith("prf"):
        effect.loads, effect.stores = int(mnemonic.startswith("ld")), int(mnemonic.startswith("st"))
        effect.stack = memory.startswith("[sp")
        effect.is_gather = bool(effect.loads) and re.search(r"z\d+\.", memory) is not None
        effect.is_scatter = bool(effect.stores) and re.search(r"z\d+\.", memory) is not None
    first = operands[0].strip("{} ").partition(",")[0] if operands else ""
    shape = re.match(_ARRANGEMENT, first)
    lanes, bits = _shape(shape, first, memory)
    fma = re.match(_FMA, mnemonic) is not None
    if fma or re.match(_ARITHMETIC, mnemonic):
        effect.fmas, effect.flops = int(fma), max(lanes, 1) * (1 + fma)
        effect.divisions = int(mnemonic in ("fdiv", "fsqrt"))
        effect.is_scalar_float = shape is None
    effect.is_shuffle = re.match(_SHUFFLE, mnemonic) is not None
    if not effect.is_shuffle and (shape is not None or (memory and bits == 128)):
        effect.vector_bits = bits
    effect.is_scalar_float = effect.is_scalar_float or bool(memory and re.match(r"^[sdh]\d+$", first))
    return effect


def _shape(shape: re.Match[str] | None, first: str, memory: str) -> tuple[int, int]:
    """Lanes and bits of a vector register; scalable vectors count as 128 bits."""
    if shape is not None:
        element = _BITS[shape[2]]
        lanes = int(shape[1]) if shape[1] else 128 // element
        return lanes, lanes * element
    return 1, 128 if memory and re.match(r"^q\d+$", first) else 0


AARCH64: Final = ISA(
    name="aarch64",
    aliases=("arm64",),
    vectors=(Vectors(128, 32, "", r"\bv\d+\.4s", "neon"),),
    dots=_DOTS,
    levels=(Level("neon", "generic", frozenset({"neon"})),),
    pool=_POOL,
    machine_code=machine_code.AARCH64,
    comment="//",
    effect=_effect,
)
"""AArch64."""
