"""Descriptions of CPUs, from LLVM and the operating system.

`resolve` adds the description to a target. There is no table of CPUs: tiny functions are compiled for the CPU, and the
instructions LLVM selects, which the architecture names (`ISA`), describe it.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from ..native.ffi_layouts import POINTER_BITS
from ..runtime.cpu_features import missing_features
from ..runtime.native import host_machine
from ..target import Caches, Machine, Target
from ..target.isa import DotInstruction, Tiles, Vectors, isa_of
from ..target.isa.products import kind_of
from . import worker
from .llvm_queries import answer, answered, host_facts, question
from .worker import llvm


def resolve(target: Target | str | None = None) -> Target:
    """Return a target with the description of its machine; default: the current target, or the host.

    Raises ValueError if LLVM does not know the triple, the CPU or a feature.
    """
    if target is None:
        target = Target.current() or "llvm"
    chosen = target if isinstance(target, Target) else Target(target)
    if chosen.is_resolved:
        return chosen
    options = chosen.attrs
    if any(name.lstrip("+-") == "help" for name in (options.get("mcpu", ""), *chosen.mattr)):
        raise ValueError("'help' is no processor or feature: LLVM's llc lists them")
    is_host = "mcpu" not in options and "mtriple" not in options
    native = is_host or options.get("mcpu") == "native"
    triple = elf_triple(options.get("mtriple") or host_facts().triple)
    cpu = host_cpu() if native else options.get("mcpu", "")
    features = ",".join([*([host_facts().features] if native else []), *chosen.mattr])
    machine = described(triple, cpu, features)
    system = host_caches() if native else Caches()
    return chosen.with_machine(
        dataclasses.replace(
            machine,
            vector_bits=options.get("vector-width", 0) or machine.vector_bits,
            caches=Caches(*(options.get(f"{name}-cache", 0) or getattr(system, name) for name in ("l1", "l2", "l3"))),
            cores=options.get("num-cores", 0) or host_cores(),
        )
    )


def host_cpu() -> str:
    """Name of this CPU in LLVM."""
    return host_facts().cpu


def host_cores() -> int:
    """Number of logical CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache(maxsize=1)
def host_caches() -> Caches:
    """Data caches of the first core according to Linux; typical sizes on other systems."""
    sizes: dict[str, int] = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        digits = re.fullmatch(r"(\d+)([KM])", size)
        if kind != "Instruction" and digits is not None:
            sizes[f"l{level}"] = int(digits[1]) << (10 if digits[2] == "K" else 20)
    return Caches(**{name: size for name, size in sizes.items() if name in ("l1", "l2", "l3")})


def elf_triple(triple: str) -> str:
    """The triple with ELF as object format, which the loader reads on every system."""
    system_is_elf = not any(word in triple for word in ("darwin", "macos", "ios", "windows"))
    return triple if system_is_elf or triple.endswith("-elf") else f"{triple}-elf"


@lru_cache(maxsize=64)
def described(triple: str, cpu: str, features: str) -> Machine:
    """Description of a machine without its caches and cores, from the cache or from LLVM.

    Raises ValueError as `check` does.
    """
    key = question("machine", triple, cpu, features)
    kept = answered(key)
    if isinstance(kept, dict):
        fields = cast("dict[str, Any]", kept)
        values = {n: frozenset(map(str, v)) if n in _SETS else v for n, v in fields.items()}
        return dataclasses.replace(Machine(triple, cpu, features), **values)
    check(triple, cpu, features)
    machine = probe(triple, cpu, features)
    answer(key, {n: sorted(v) if n in _SETS else v for n in _PROBED for v in [getattr(machine, n)]})
    return machine


_SETS = ("dot_products", "tiles")
_PROBED = ("vector_bits", "vector_registers", "fma", "half_conversion", *_SETS)
"""Fields of a machine determined by `probe`."""


_ONLY = "target triple {}: only 64-bit little-endian machines are supported"


@lru_cache(maxsize=64)
def check(triple: str, cpu: str, features: str) -> None:
    """Raise ValueError if LLVM does not know the triple, the CPU or a feature, or has no 64-bit ELF for it."""
    if isa_of(triple).pointer_bits != POINTER_BITS:
        raise ValueError(_ONLY.format(repr(triple)))
    worker.initialize(triple)
    try:
        llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise ValueError(f"target triple {triple!r}: {str(error).strip()}") from None
    for feature in filter(None, features.split(",")):
        if not re.fullmatch(r"[+-][\w.-]+", feature):
            raise ValueError(f"target feature {feature!r}: write +name or -name")
    if not re.fullmatch(r"[\w.+-]*", cpu):
        raise ValueError(f"{cpu!r} is not the name of a processor")
    layout = str(worker.target_machine(worker.LLVMTarget(triple, "", "", 3)).target_data)
    if not layout.startswith("e-") or "p:32:32" in layout or "m:e" not in layout:
        raise ValueError(_ONLY.format(repr(triple)))
    host = elf_triple(host_facts().triple), host_cpu(), host_facts().features
    if (triple, cpu, features) != host:
        _check_with_llvm(triple, cpu, features)


def _check_with_llvm(triple: str, cpu: str, features: str) -> None:
    """Run the check in another process: LLVM only warns about unknown names on stderr, or aborts (`-sse`).

    The process looks for modules where this one does: relax may be on `sys.path` only, and not installed.
    """
    code = f"import sys; sys.path[:] = {list(map(str, sys.path))}; import relax.farm.host as m; m.probe(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, triple, cpu, features], capture_output=True, text=True, check=False
    )
    complaint = next((line for line in done.stderr.splitlines() if "not a recognized" in line), None)
    if complaint is not None:
        raise ValueError(f"LLVM: {complaint.partition(' (')[0]} ({triple})")
    if done.returncode != 0:
        given = f"{cpu or triple} {features}"
        raise ValueError(f"LLVM cannot compile for {_shortened(given)}: {done.stderr.strip()[-200:]}")


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:100]} … {text[-100:]}"


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
define double @double(double %x) {
  %r = fadd double %x, %x
  ret double %r
}
define float @half(half %x) {
  %r = fpext half %x to float
  ret float %r
}
define void @bf16(ptr %a, ptr %b) {
  %x = load <16 x float>, ptr %a
  %r = fptrunc <16 x float> %x to <16 x bfloat>
  store <16 x bfloat> %r, ptr %b
  ret void
}
define void @magnitudes(ptr %a) {
  %x = load <64 x i8>, ptr %a
  %r = call <64 x i8> @llvm.abs.v64i8(<64 x i8> %x, i1 false)
  store <64 x i8> %r, ptr %a
  ret void
}
declare <64 x i8> @llvm.abs.v64i8(<64 x i8>, i1)
declare float @llvm.fmuladd.f32(float, float, float)
declare i32 @llvm.vector.reduce.add.v16i32(<16 x i32>)
"""

_DOT = """
define i32 @dot_{name}(<16 x i8> %a, <16 x i8> %b) {{
  %x = {a}ext <16 x i8> %a to <16 x i32>
  %y = {b}ext <16 x i8> %b to <16 x i32>
  %p = mul <16 x i32> %x, %y
  %r = call i32 @llvm.vector.reduce.add.v16i32(<16 x i32> %p)
  ret i32 %r
}}
"""
_BYTES = {"uint8": "z", "int8": "s"}
"""Extension of a byte to 32 bits: zext or sext."""
_BASELINE = Vectors(128, 32, "", "")
"""Vectors for a CPU with unknown vector registers: LLVM splits them."""


@lru_cache(maxsize=64)
def probe(triple: str, cpu: str, features: str) -> Machine:
    """Description of a machine without its caches and cores, read from LLVM's code for small functions."""
    isa = isa_of(triple)
    body = _PROBE + "".join(map(_dot_text, isa.dots))
    if isa.widest > _BASELINE.bits:
        # LLVM itself prefers 256 bits on some machines that have 512: ask for what there is.
        wide = f' "prefer-vector-width"="{isa.widest}" {{'
        body = body.replace("(ptr %a) {", f"(ptr %a){wide}").replace("ptr %b) {", f"ptr %b){wide}")
    text = assembly(body, triple, cpu, features)
    add = _body(text, "add")
    vectors = next((entry for entry in isa.vectors if re.search(entry.pattern, add)), _BASELINE)
    return Machine(
        triple=triple,
        cpu=cpu,
        features=features,
        vector_bits=vectors.bits,
        vector_registers=vectors.registers,
        fma=isa.fma is not None and re.search(isa.fma, _body(text, "fma")) is not None,
        half_conversion=re.search(r"__(extendhfsf2|gnu_h2f_ieee)", _body(text, "half")) is None,
        dot_products=frozenset(kind_of(entry.dot) for entry in isa.dots if _has_dot(text, entry, vectors.bits)),
        tiles=frozenset(() if isa.tiles is None else _tiles(features, isa.tiles)),
    )


def _dot_text(instruction: DotInstruction) -> str:
    """Function by which an instruction is recognised, such as ``dot_u8s8``; empty unless its operands are bytes."""
    dot = instruction.dot
    if dot.left not in _BYTES or instruction.magnitudes:
        return ""
    return _DOT.format(name=kind_of(dot), a=_BYTES[dot.left], b=_BYTES[dot.right])


def _has_dot(text: str, instruction: DotInstruction, bits: int) -> bool:
    """True if the assembly of the probe functions contains an instruction; registers have `bits` bits."""
    if instruction.magnitudes:
        pattern = instruction.magnitudes.get(bits)
        return pattern is not None and re.search(pattern, _body(text, "magnitudes")) is not None
    dot = instruction.dot
    function = f"dot_{kind_of(dot)}" if dot.left in _BYTES else "bf16"
    return re.search(instruction.pattern or rf"\b{instruction.mnemonic}\b", _body(text, function)) is not None


def _tiles(features: str, tiles: Tiles) -> set[str]:
    """Enabled features for tile multiplication, without their prefix."""
    enabled = {name[1:]: name.startswith("+") for name in features.split(",") if name}
    if not enabled.get(f"{tiles.prefix}{tiles.feature}"):
        return set()
    kinds = {product.feature for product in tiles.products.values()}
    return {kind for kind in kinds if enabled.get(f"{tiles.prefix}{kind}")}


def assembly(ir: str, triple: str, cpu: str, features: str) -> str:
    """Assembly text for unoptimised IR."""
    machine = worker.target_machine(worker.LLVMTarget(triple, cpu, features, 3))
    module = llvm.parse_assembly(f'target triple = "{triple}"\n{ir}')
    return str(machine.emit_assembly(module))


def _body(text: str, function: str) -> str:
    start = text.find(f"\n{function}:")
    end = text.find(".size", start)
    return text[start:end]


def executes(target: Target) -> bool:
    """True if this CPU can execute code for a resolved target."""
    features = [word[1:] for word in target.features.split(",") if word.startswith("+")]
    return loads(target) and target.mcpu in ("", host_cpu()) and not missing_features(features)


def loads(target: Target) -> bool:
    """True if this process can load the machine code for a resolved target, regardless of CPU features."""
    architecture = target.isa.machine_code
    return architecture is not None and architecture.elf_machine == host_machine()
