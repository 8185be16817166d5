"""Questions to LLVM about machines: which one this is, and what another one can do.

What a processor has is not kept in a table here: a tiny function is compiled for it, and the instructions
LLVM chose are the answer.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache

import llvmlite.binding as llvm


@dataclass(frozen=True)
class Capabilities:
    """What matters of a machine for generating code."""

    vector_bits: int
    fma: bool
    half_conversion: bool


@lru_cache(maxsize=1)
def initialize() -> None:
    """Make LLVM ready to compile for any machine it knows."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@lru_cache(maxsize=1)
def default_triple() -> str:
    """The triple of this process."""
    return str(llvm.get_process_triple())


@lru_cache(maxsize=1)
def host_cpu() -> str:
    """This machine's processor, as LLVM names it."""
    return str(llvm.get_host_cpu_name())


@lru_cache(maxsize=1)
def host_features() -> str:
    """This machine's features, those switched off by the system or a hypervisor included, as LLVM text."""
    try:
        return str(llvm.get_host_cpu_features().flatten())
    except RuntimeError:  # LLVM does not know how to ask on this system: the processor's name has to do
        return ""


def host_cores() -> int:
    """The processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def elf_triple(triple: str) -> str:
    """The triple with ELF as its object format, which the loader reads on every system."""
    system_is_elf = not any(word in triple for word in ("darwin", "macos", "ios", "windows", "wasm"))
    return triple if system_is_elf or triple.endswith("-elf") else f"{triple}-elf"


@lru_cache(maxsize=64)
def check(triple: str, cpu: str, features: str) -> None:
    """Raise ValueError when LLVM does not know the triple, the processor or a feature, or has no 64-bit ELF for it."""
    initialize()
    try:
        llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise ValueError(f"target triple {triple!r}: {str(error).strip()}") from None
    for feature in filter(None, features.split(",")):
        if not re.fullmatch(r"[+-][\w.-]+", feature):
            raise ValueError(f"target feature {feature!r}: write +name or -name")
    if not re.fullmatch(r"[\w.+-]*", cpu):
        raise ValueError(f"{cpu!r} is not the name of a processor")
    if (cpu or features) and not (cpu == host_cpu() and features == host_features()):
        _check_with_llvm(triple, cpu, features)
    layout = str(target_machine(triple, cpu, features).target_data)
    if not layout.startswith("e-") or "p:32:32" in layout or "m:e" not in layout:
        raise ValueError(f"target triple {triple!r}: only 64-bit little-endian machines are supported")


def _check_with_llvm(triple: str, cpu: str, features: str) -> None:
    """LLVM only warns about unknown names, on stderr, or ends the process: so another process asks it."""
    code = (
        "import sys, relax.target.machine as m; "
        "m.initialize(); m.assembly('define void @f() { ret void }', *sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, triple, cpu, features], capture_output=True, text=True, check=False
    )
    complaint = next((line for line in done.stderr.splitlines() if "not a recognized" in line), None)
    if complaint is not None:
        raise ValueError(f"LLVM: {complaint.partition(' (')[0]} ({triple})")
    if done.returncode != 0:
        raise ValueError(f"LLVM cannot compile for {cpu or triple} {features}: {done.stderr.strip()[-200:]}")


def target_machine(triple: str, cpu: str, features: str, opt_level: int = 3) -> llvm.TargetMachine:
    """A fresh target machine for position-independent code."""
    initialize()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=opt_level, reloc="pic", codemodel="small"
    )


_PROBE = """
define void @add(ptr %a) {
  %x = load <16 x float>, ptr %a
  %y = fadd <16 x float> %x, %x
  store <16 x float> %y, ptr %a
  ret void
}
define float @fma(float %x, float %y, float %z) {
  %r = call float @llvm.fmuladd.f32(float %x, float %y, float %z)
  ret float %r
}
define float @half(half %x) {
  %r = fpext half %x to float
  ret float %r
}
declare float @llvm.fmuladd.f32(float, float, float)
"""


@lru_cache(maxsize=64)
def capabilities(triple: str, cpu: str, features: str) -> Capabilities:
    """What a machine can do, read from what LLVM makes of a probe."""
    body = _PROBE
    if triple.startswith(("x86_64", "i386", "i686")):
        # LLVM itself prefers 256 bits on some machines that have 512: ask for what there is.
        body = body.replace("@add(ptr %a) {", '@add(ptr %a) "prefer-vector-width"="512" {')
    parts = assembly(body, triple, cpu, features)
    add = _body(parts, "add")
    bits = next((b for b, name in ((512, "zmm"), (256, "ymm")) if f"%{name}" in add), 128)
    calls = re.compile(r"__(extendhfsf2|gnu_h2f_ieee)")
    return Capabilities(
        vector_bits=bits,
        fma=bool(re.search(r"\bv?fn?madd", _body(parts, "fma"))),
        half_conversion=calls.search(_body(parts, "half")) is None,
    )


def assembly(ir: str, triple: str, cpu: str, features: str) -> str:
    """The assembly text LLVM makes of IR, without optimising it first."""
    machine = target_machine(triple, cpu, features)
    module = llvm.parse_assembly(f'target triple = "{triple}"\n{ir}')
    return str(machine.emit_assembly(module))


def _body(text: str, function: str) -> str:
    start = text.find(f"\n{function}:")
    end = text.find(".size", start)
    return text[start:end]
