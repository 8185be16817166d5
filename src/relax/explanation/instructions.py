"""The effects of machine instructions that matter to the speed of a loop: x86-64 (AT&T syntax) and AArch64."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from .assembly import Instruction, architecture


@dataclass(slots=True)
class Effect:
    """The effect of an instruction."""

    loads: int = 0
    stores: int = 0
    stack: bool = False
    """True if the memory it uses is on the stack."""
    flops: int = 0
    """Floating-point operations on elements; a fused multiply-add is two."""
    fmas: int = 0
    """1 for a fused multiply-add."""
    divisions: int = 0
    """1 for a division or a square root."""
    vector_bits: int = 0
    """The width of the vectors that it computes, loads or stores; 0 for a scalar."""
    is_scalar_float: bool = False
    lanes_apart: int = 0
    """The elements that a gather or scatter reads or writes one by one."""
    is_gather: bool = False
    is_scatter: bool = False
    is_shuffle: bool = False
    callee: str = ""
    """The function that it calls; a register if that depends."""
    target: str = ""
    """The label that it branches to."""
    is_conditional: bool = False
    """True if it may also go on without branching."""


def effect_of(instruction: Instruction, triple: str) -> Effect:
    """The effect of an instruction of an architecture in `ARCHITECTURES`."""
    return ARCHITECTURES[architecture(triple)](instruction.mnemonic, split(instruction.operands))


def split(operands: str) -> list[str]:
    """Operands, separated at the commas outside of brackets."""
    out = [""]
    depth = 0
    for char in operands:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            out.append("")
        else:
            out[-1] += char
    return [text.strip() for text in out if text.strip()]


# ------------------------------------------------------------------------------------------- x86-64

_ELEMENT: Final = {"s": 32, "d": 64, "h": 16}
_ARITHMETIC: Final = re.compile(
    r"^v?(?P<kind>fn?m(?:add|sub|addsub|subadd)(?:132|213|231)|add|sub|mul|div|sqrt|min|max|addsub|hadd|hsub"
    r"|rcp(?:14|28)?|rsqrt(?:14|28)?)(?P<form>[ps])(?P<element>[sdh])$"
)
_INTEGER: Final = re.compile(
    r"^v?p(?:add|sub|mul|madd|min|max|avg|sll|srl|sra|rol|ror|cmp|abs|sign|dpbusd|dpwssd|tern|popcnt|lzcnt|movzx"
    r"|movsx|broadcast|sadbw)"
)
_CONVERSION: Final = re.compile(r"^v?cvt\w*?(?:p[sdh]|dq|qq|bf16)")
_VECTOR_MOVE: Final = re.compile(r"^v?(?:mov[au]p[sd]|movdq[au](?:8|16|32|64)?|lddqu|movnt\w+|broadcast\w+)$")
_SHUFFLE: Final = re.compile(
    r"^v?p?(?:perm|shuf|unpck|align|blend|insert|insr|extract|extr|compress|expand|pack)\w*$|^v?mov(?:d|sh|sl)dup$"
    r"|^v?pmov(?!sx|zx|msk)\w+$|^v?movl?h?l?hl?ps$"
)
_STORE_ONLY: Final = re.compile(r"^(?:v?p?mov|set|v?p?extr|v?cvtps2ph|v?p?compress|v?p?scatter|st)")
_READ_ONLY: Final = re.compile(
    r"^(?:cmp[bwlq]?$|test|i?(?:mul|div)[bwlq]?$|bt[wlq]?$|v?u?comis|v?ptest|vtestp)"
)
_ADDRESS_ONLY: Final = re.compile(r"^(?:lea|nop|prefetch|clflush)")
_REGISTER_BITS: Final = {"z": 512, "y": 256, "x": 128}


def _x86(mnemonic: str, operands: Sequence[str]) -> Effect:
    if mnemonic.startswith("call"):
        return Effect(callee=operands[0].removesuffix("@PLT"), loads=int("(" in operands[0]))
    if mnemonic.startswith("j"):
        return Effect(target=operands[0] if operands else "", is_conditional=mnemonic != "jmp")
    effect = Effect()
    _x86_memory(effect, mnemonic, operands)
    bits = max(
        (
            _REGISTER_BITS[match[1]]
            for text in operands
            if "(" not in text
            for match in [re.search(r"%([xyz])mm", text)]
            if match
        ),
        default=0,
    )
    arithmetic = _ARITHMETIC.match(mnemonic)
    if arithmetic is not None:
        packed = arithmetic["form"] == "p"
        lanes = bits // _ELEMENT[arithmetic["element"]] if packed else 1
        effect.fmas = int(arithmetic["kind"].startswith("f"))
        effect.flops = lanes * (1 + effect.fmas)
        effect.divisions = int(arithmetic["kind"] in ("div", "sqrt"))
        effect.vector_bits = bits if packed else 0
        effect.is_scalar_float = not packed
    elif "gather" in mnemonic or "scatter" in mnemonic:
        _x86_apart(effect, mnemonic, operands)
    elif re.match(r"^v?movs[sdh]$", mnemonic):
        effect.is_scalar_float = "(" in "".join(operands)
    elif mnemonic.startswith("vdpbf16ps"):
        effect.flops, effect.vector_bits = bits // 32 * 4, bits
    else:
        touches_memory = bool(effect.loads or effect.stores)
        effect.is_shuffle = _SHUFFLE.match(mnemonic) is not None
        if (_VECTOR_MOVE.match(mnemonic) and touches_memory) or (
            bits and (_INTEGER.match(mnemonic) or _CONVERSION.match(mnemonic))
        ):
            effect.vector_bits = bits
    return effect


def _x86_memory(effect: Effect, mnemonic: str, operands: Sequence[str]) -> None:
    if mnemonic.startswith(("push", "pop")):
        effect.stores, effect.loads, effect.stack = int(mnemonic[1] == "u"), int(mnemonic[1] == "o"), True
        return
    if _ADDRESS_ONLY.match(mnemonic):
        return
    for position, text in enumerate(operands):
        if "(" not in text:
            continue
        is_last = position == len(operands) - 1
        effect.stack = effect.stack or "(%rsp" in text
        if not is_last or _READ_ONLY.match(mnemonic):
            effect.loads += 1
        elif _STORE_ONLY.match(mnemonic):
            effect.stores += 1
        else:
            effect.loads += 1
            effect.stores += 1


def _x86_apart(effect: Effect, mnemonic: str, operands: Sequence[str]) -> None:
    """A gather or scatter: ``vgatherqps (%r14,%zmm3), %ymm4 {%k1}``, indices of q 64 bits, elements of s 32."""
    effect.is_gather, effect.is_scatter = "gather" in mnemonic, "scatter" in mnemonic
    registers = [_REGISTER_BITS[match[1]] for match in re.finditer(r"%([xyz])mm", ", ".join(operands))]
    widths = re.search(r"([dq])(p?)([sdq])$", mnemonic)
    if widths is not None and registers:
        index = 64 if widths[1] == "q" else 32
        element = 32 if widths[3] == "s" or (not widths[2] and widths[3] == "d") else 64
        effect.lanes_apart = max(registers) // max(index, element)
        effect.vector_bits = effect.lanes_apart * element


# ------------------------------------------------------------------------------------------- AArch64

_ARRANGEMENT: Final = re.compile(r"^[vz]\d+\.(\d*)([bhsdq])$")
_ARM_BITS: Final = {"b": 8, "h": 16, "s": 32, "d": 64, "q": 128}
_ARM_FMA: Final = re.compile(r"^(?:fml[as]l?2?|fn?madd|fn?msub|fmlal|fmlsl|fnml[as]|fmad|fmsb|fcmla)$")
_ARM_ARITHMETIC: Final = re.compile(
    r"^f(?:add|sub|mul|mulx|nmul|div|sqrt|abd|min|max|minnm|maxnm|recpe|rsqrte)p?$"
)
_ARM_SHUFFLE: Final = re.compile(r"^(?:ext|zip[12]|uzp[12]|trn[12]|tbl|tbx|ins|dup|rev\d+|xtn2?|uzp)$")
_ARM_BRANCH: Final = re.compile(r"^(?:b|b\.\w+|bc\.\w+|cbn?z|tbn?z)$")


def _aarch64(mnemonic: str, operands: Sequence[str]) -> Effect:
    if mnemonic in ("bl", "blr"):
        return Effect(callee=operands[0])
    if _ARM_BRANCH.match(mnemonic):
        return Effect(target=operands[-1], is_conditional=mnemonic != "b")
    effect = Effect()
    memory = next((text for text in operands if text.startswith("[")), "")
    if memory and not mnemonic.startswith("prf"):
        effect.loads, effect.stores = int(mnemonic.startswith("ld")), int(mnemonic.startswith("st"))
        effect.stack = memory.startswith("[sp")
        effect.is_gather = bool(effect.loads) and re.search(r"z\d+\.", memory) is not None
        effect.is_scatter = bool(effect.stores) and re.search(r"z\d+\.", memory) is not None
    first = operands[0].strip("{} ").partition(",")[0] if operands else ""
    shape = _ARRANGEMENT.match(first)
    lanes, bits = _arm_shape(shape, first, memory)
    fma = _ARM_FMA.match(mnemonic) is not None
    if fma or _ARM_ARITHMETIC.match(mnemonic):
        effect.fmas, effect.flops = int(fma), max(lanes, 1) * (1 + fma)
        effect.divisions = int(mnemonic in ("fdiv", "fsqrt"))
        effect.is_scalar_float = shape is None
    effect.is_shuffle = _ARM_SHUFFLE.match(mnemonic) is not None
    if not effect.is_shuffle and (shape is not None or (memory and bits == 128)):
        effect.vector_bits = bits
    effect.is_scalar_float = effect.is_scalar_float or bool(memory and re.match(r"^[sdh]\d+$", first))
    return effect


def _arm_shape(shape: re.Match[str] | None, first: str, memory: str) -> tuple[int, int]:
    """The lanes and the bits of a vector register; those of scalable vectors are counted as 128 bits."""
    if shape is not None:
        element = _ARM_BITS[shape[2]]
        lanes = int(shape[1]) if shape[1] else 128 // element
        return lanes, lanes * element
    return 1, 128 if memory and re.match(r"^q\d+$", first) else 0


ARCHITECTURES: Final[dict[str, Callable[[str, Sequence[str]], Effect]]] = {
    "x86_64": _x86, "aarch64": _aarch64, "arm64": _aarch64,
}  # fmt: skip
"""The architectures of which instructions are told apart."""
