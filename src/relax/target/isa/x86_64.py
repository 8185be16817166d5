"""x86-64: SSE2 to AVX-512 and AMX.

Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volumes 1 (chapters 10 to 18: registers) and 2
(instructions); Intel Architecture Instruction Set Extensions, chapter 3 (AMX); LLVM's IntrinsicsX86.td (names of
intrinsics) and X86.td (names of features); Linux' arch/x86/entry/syscalls/syscall_64.tbl.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from ...runtime import machine_code
from .description import (
    ISA,
    BfloatRounding,
    DotInstruction,
    Effect,
    Level,
    MathInstructions,
    PoolCode,
    Snippet,
    TileProduct,
    Tiles,
    Vectors,
    intrinsics,
)
from .products import BF16, S8S8, S8U8, U7S8, U8S8, U8U8

# ------------------------------------------------------------------------------ levels

_V3: Final = frozenset({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2"})
_AVX512: Final = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
_LEVELS: Final = (Level("v4-vnni", "x86-64-v4", _V3 | _AVX512 | {"avx512vnni"}), Level("v3", "x86-64-v3", _V3))
"""The levels 3 and 4 of the System V ABI's x86-64 supplement, section 3.1.1; the latter with dot products of bytes,
which its CPUs have but for the first ones of 2017.
"""

# ------------------------------------------------------------------------------ instructions

_DOTS: Final = (
    DotInstruction(U8S8, "vpdpbusd", intrinsics("llvm.x86.avx512.vpdpbusd.{}", 128, 256, 512), extension="vnni"),
    DotInstruction(
        S8S8,
        "vpdpbssd",
        MappingProxyType(
            {**intrinsics("llvm.x86.avx2.vpdpbssd.{}", 128, 256), **intrinsics("llvm.x86.avx10.vpdpbssd.{}", 512)}
        ),
    ),
    DotInstruction(
        U8U8,
        "vpdpbuud",
        MappingProxyType(
            {**intrinsics("llvm.x86.avx2.vpdpbuud.{}", 128, 256), **intrinsics("llvm.x86.avx10.vpdpbuud.{}", 512)}
        ),
    ),
    DotInstruction(
        U7S8,
        "vpmaddubsw",
        MappingProxyType(
            {
                128: "llvm.x86.ssse3.pmadd.ub.sw.128",
                256: "llvm.x86.avx2.pmadd.ub.sw",
                512: "llvm.x86.avx512.pmaddubs.w.512",
            }
        ),
        pairs=MappingProxyType(
            {128: "llvm.x86.sse2.pmadd.wd", 256: "llvm.x86.avx2.pmadd.wd", 512: "llvm.x86.avx512.pmaddw.d.512"}
        ),
        # The bytes of a register have absolute values since the same extensions: SSSE3, AVX2, AVX-512BW.
        magnitudes=MappingProxyType({128: r"\bv?pabsb\b", 256: r"\bvpabsb\b.*%ymm", 512: r"\bvpabsb\b.*%zmm"}),
    ),
    # AVX-NE-CONVERT, which has no dot products, converts 256 bits: only conversions of 512 bits to 256 count.
    DotInstruction(
        BF16,
        "vdpbf16ps",
        intrinsics("llvm.x86.avx512bf16.dpbf16ps.{}", 128, 256, 512),
        pattern=r"\bvcvtneps2bf16.*, %ymm",
    ),
)
"""Products of int16 (vpmaddwd, vpdpwssd) need no intrinsic: LLVM matches their generic form."""

_TILES: Final = Tiles(
    prefix="amx-",
    feature="tile",
    rows=16,
    row_bytes=64,
    configure="llvm.x86.ldtilecfg",
    release="llvm.x86.tilerelease",
    load="llvm.x86.tileloadd64",
    store="llvm.x86.tilestored64",
    products=MappingProxyType(
        {
            "bf16": TileProduct(BF16, "bf16", "llvm.x86.tdpbf16ps"),
            "u8s8": TileProduct(U8S8, "int8", "llvm.x86.tdpbusd"),
            "s8s8": TileProduct(S8S8, "int8", "llvm.x86.tdpbssd"),
            "u8u8": TileProduct(U8U8, "int8", "llvm.x86.tdpbuud"),
            "s8u8": TileProduct(S8U8, "int8", "llvm.x86.tdpbsud"),
        }
    ),
)

_MATH: Final = MathInstructions(
    bits=512,
    scale="llvm.x86.avx512.mask.scalef.ps.512",
    permute="llvm.x86.avx512.permvar.sf.512",
    permute_two="llvm.x86.avx512.vpermi2var.ps.512",
)

_POOL: Final = PoolCode(
    futex=202,
    sched_yield=24,
    clock=Snippet("declare i64 @llvm.readcyclecounter()", "call i64 @llvm.readcyclecounter()"),
    pause=Snippet("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    float_mode="""declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal i64 @get_mode() alwaysinline {
  %slot = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  %word = load i32, ptr %slot
  %control = and i32 %word, -64
  %mode = zext i32 %control to i64
  ret i64 %mode
}
define internal void @set_mode(i64 %mode) alwaysinline {
  %slot = alloca i32
  %word = trunc i64 %mode to i32
  store i32 %word, ptr %slot
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  ret void
}""",
)

# ------------------------------------------------------------------------------ assembly (AT&T syntax)

_ELEMENT: Final = {"s": 32, "d": 64, "h": 16}
_ARITHMETIC: Final = (
    r"^v?(?P<kind>fn?m(?:add|sub|addsub|subadd)(?:132|213|231)|add|sub|mul|div|sqrt|min|max|addsub|hadd|hsub"
    r"|rcp(?:14|28)?|rsqrt(?:14|28)?)(?P<form>[ps])(?P<element>[sdh])$"
)
_INTEGER: Final = (
    r"^v?p(?:add|sub|mul|madd|min|max|avg|sll|srl|sra|rol|ror|cmp|abs|sign|dpbusd|dpwssd|tern|popcnt|lzcnt|movzx"
    r"|movsx|broadcast|sadbw)"
)
_CONVERSION: Final = r"^v?cvt\w*?(?:p[sdh]|dq|qq|bf16)"
_VECTOR_MOVE: Final = r"^v?(?:mov[au]p[sd]|movdq[au](?:8|16|32|64)?|lddqu|movnt\w+|broadcast\w+)$"
_SHUFFLE: Final = (
    r"^v?p?(?:perm|shuf|unpck|align|blend|insert|insr|extract|extr|compress|expand|pack)\w*$|^v?mov(?:d|sh|sl)dup$"
    r"|^v?pmov(?!sx|zx|msk)\w+$|^v?movl?h?l?hl?ps$"
)
_STORE_ONLY: Final = r"^(?:v?p?mov|set|v?p?extr|v?cvtps2ph|v?p?compress|v?p?scatter|st)"
_READ_ONLY: Final = r"^(?:cmp[bwlq]?$|test|i?(?:mul|div)[bwlq]?$|bt[wlq]?$|v?u?comis|v?ptest|vtestp)"
_ADDRESS_ONLY: Final = r"^(?:lea|nop|prefetch|clflush)"
_REGISTER_BITS: Final = {"z": 512, "y": 256, "x": 128}


def _effect(mnemonic: str, operands: Sequence[str]) -> Effect:
    if mnemonic.startswith("call"):
        return Effect(callee=operands[0].removesuffix("@PLT"), loads=int("(" in operands[0]))
    if mnemonic.startswith("j"):
        return Effect(target=operands[0] if operands else "", is_conditional=mnemonic != "jmp")
    effect = Effect()
    _add_memory(effect, mnemonic, operands)
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
    arithmetic = re.match(_ARITHMETIC, mnemonic)
    if arithmetic is not None:
        packed = arithmetic["form"] == "p"
        lanes = bits // _ELEMENT[arithmetic["element"]] if packed else 1
        effect.fmas = int(arithmetic["kind"].startswith("f"))
        effect.flops = lanes * (1 + effect.fmas)
        effect.divisions = int(arithmetic["kind"] in ("div", "sqrt"))
        effect.vector_bits = bits if packed else 0
        effect.is_scalar_float = not packed
    elif "gather" in mnemonic or "scatter" in mnemonic:
        _add_lanes_apart(effect, mnemonic, operands)
    elif re.match(r"^v?movs[sdh]$", mnemonic):
        effect.is_scalar_float = "(" in "".join(operands)
    elif mnemonic.startswith("vdpbf16ps"):
        effect.flops, effect.vector_bits = bits // 32 * 4, bits
    else:
        touches_memory = bool(effect.loads or effect.stores)
        effect.is_shuffle = re.match(_SHUFFLE, mnemonic) is not None
        if (re.match(_VECTOR_MOVE, mnemonic) and touches_memory) or (
            bits and (re.match(_INTEGER, mnemonic) or re.match(_CONVERSION, mnemonic))
        ):
            effect.vector_bits = bits
    return effect


def _add_memory(effect: Effect, mnemonic: str, operands: Sequence[str]) -> None:
    if mnemonic.startswith(("push", "pop")):
        effect.stores, effect.loads, effect.stack = int(mnemonic[1] == "u"), int(mnemonic[1] == "o"), True
        return
    if re.match(_ADDRESS_ONLY, mnemonic):
        return
    for position, text in enumerate(operands):
        if "(" not in text:
            continue
        is_last = position == len(operands) - 1
        effect.stack = effect.stack or "(%rsp" in text
        if not is_last or re.match(_READ_ONLY, mnemonic):
            effect.loads += 1
        elif re.match(_STORE_ONLY, mnemonic):
            effect.stores += 1
        else:
            effect.loads += 1
            effect.stores += 1


def _add_lanes_apart(effect: Effect, mnemonic: str, operands: Sequence[str]) -> None:
    """A gather or scatter such as ``vgatherqps (%r14,%zmm3), %ymm4 {%k1}``: 64-bit indices (q), 32-bit elements (s)."""
    effect.is_gather, effect.is_scatter = "gather" in mnemonic, "scatter" in mnemonic
    registers = [_REGISTER_BITS[match[1]] for match in re.finditer(r"%([xyz])mm", ", ".join(operands))]
    widths = re.search(r"([dq])(p?)([sdq])$", mnemonic)
    if widths is not None and registers:
        index = 64 if widths[1] == "q" else 32
        element = 32 if widths[3] == "s" or (not widths[2] and widths[3] == "d") else 64
        effect.lanes_apart = max(registers) // max(index, element)
        effect.vector_bits = effect.lanes_apart * element


X86_64: Final = ISA(
    name="x86_64",
    aliases=("amd64",),
    vectors=(
        Vectors(512, 32, "+avx512f", "%zmm", "avx512"),
        Vectors(256, 16, "+avx", "%ymm", "avx2"),
        Vectors(128, 16, "", "%xmm", "sse"),
    ),
    fma=r"\bvfn?madd",
    dots=_DOTS,
    levels=_LEVELS,
    tiles=_TILES,
    math=_MATH,
    bfloat_rounding=BfloatRounding(512, "llvm.x86.avx512bf16.cvtneps2bf16"),
    pool=_POOL,
    machine_code=machine_code.X86_64,
    comment="#",
    effect=_effect,
)
"""x86-64."""
