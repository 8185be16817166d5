"""Making a shared library of an object with a linker of the system, or with the one of the wheel ``ziglang``.

Looked for in this order: ``$RELAX_LINKER``, ``cc``, ``gcc``, ``clang``, ``ziglang``, ``ld.lld``, ``ld``; for another
machine ``$RELAX_LINKER``, the cross compiler of GCC, ``ziglang``. A compiler's command knows where the C library is; a
linker by itself is given the one that this process uses.

A library names the functions of tvm-ffi that it needs, and the file that has them. For another machine that file is not
here: an interface with the same name and these functions, without code, stands for it while the library is linked.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import tvm_ffi.libinfo

from .elf import SHF_ALLOC, SHF_EXECINSTR, SHN_UNDEF, STB_GLOBAL, STT_FUNC, ObjectFile, Section, Symbol, parse_object
from .elf_writer import write_object
from .encoding import ExecutableError
from .files import in_place_of
from .machine_code import OBJECTS
from .native import host_machine

VARIABLE: Final = "RELAX_LINKER"
_COMPILERS: Final = ("cc", "gcc", "clang")
_LINKERS: Final = ("ld.lld", "ld")
_ZIG: Final = "ziglang"
_SECONDS: Final = 300
_FFI: Final = "libtvm_ffi.so"
"""Name of tvm-ffi's library on Linux."""
_FFI_PREFIX: Final = "TVMFFI"


def find_linker(machine: int | None = None) -> list[str]:
    """The command that links for a machine, by its number in ELF headers; default: this one.

    Raises ExecutableError if there is none.
    """
    stated = os.environ.get(VARIABLE, "").split()
    if stated:
        return stated
    if machine is not None and machine != host_machine():
        return _find_cross_linker(machine)
    for name in _COMPILERS:
        if shutil.which(name):
            return [name]
    if importlib.util.find_spec(_ZIG) is not None:
        return [sys.executable, "-m", _ZIG, "ld.lld"]
    for name in _LINKERS:
        if shutil.which(name):
            return [name]
    raise ExecutableError(
        f"there is no linker here: none of {', '.join((*_COMPILERS, *_LINKERS))} is on the path; "
        "pip install 'relax[linker]' brings one, and the variable "
        f"{VARIABLE} names another"
    )


def _find_cross_linker(machine: int) -> list[str]:
    objects = OBJECTS[machine]
    compiler = f"{objects.triple}-gcc"
    if shutil.which(compiler):
        return [compiler]
    if importlib.util.find_spec(_ZIG) is not None:
        return [sys.executable, "-m", _ZIG, "cc", "-target", objects.triple]
    raise ExecutableError(
        f"there is no linker for {objects.title} here: {compiler} is not on the path; "
        f"pip install 'relax[linker]' brings one, and the variable {VARIABLE} names another"
    )


def link_library(data: bytes, path: Path, linker: Sequence[str] | None = None) -> None:
    """Write a shared library made of one object. A file that is there already is replaced at once or not at all.

    Raises ExecutableError if there is no linker for the object's machine, or if the linker fails.
    """
    machine = int.from_bytes(data[18:20], "little")
    command = list(linker) if linker else find_linker(machine)
    with tempfile.TemporaryDirectory(prefix="relax-") as folder:
        source = Path(folder, "program.o")
        source.write_bytes(data)
        libraries = _libraries(command) if machine == host_machine() else _foreign_libraries(command, data, folder)
        with in_place_of(path) as library:
            _run([*command, *_options(command, path.name), str(source), *libraries, "-o", str(library)])
            if not library.exists():
                raise ExecutableError(f"the linker {command[0]} ends well and writes no library")


def _options(command: Sequence[str], name: str) -> list[str]:
    """Linker options; the library is marked as never unloaded, since its code frees tensors that outlive it."""
    words = ["-shared", f"-soname={name}", "-z", "nodelete", "-z", "noexecstack"]
    if _is_linker(command):
        return words
    passed = ["-Xlinker", f"-soname={name}"]  # -Wl would divide a name with a comma
    return ["-shared", *passed, "-Wl,-z,nodelete", "-Wl,-z,noexecstack"]


def _libraries(command: Sequence[str]) -> list[str]:
    libraries = [tvm_ffi.libinfo.find_libtvm_ffi()]
    return [*libraries, *(_c_library() if _is_linker(command) else ("-lm",))]


def _foreign_libraries(command: Sequence[str], data: bytes, folder: str) -> list[str]:
    """Libraries for another machine: an interface of tvm-ffi's, and the cross compiler's own."""
    interface = Path(folder, _FFI)
    source = Path(folder, "interface.o")
    source.write_bytes(_interface(parse_object(data)))
    _run([*command, *_options(command, _FFI), "-nostdlib", str(source), "-o", str(interface)])
    return [str(interface), *(() if _is_linker(command) else ("-lm",))]


def _interface(program: ObjectFile) -> bytes:
    """Object that defines the functions of tvm-ffi which a program calls, as addresses without code."""
    names = sorted({s.name for s in program.symbols if s.section == SHN_UNDEF and s.name.startswith(_FFI_PREFIX)})
    nothing = Section("", 0, 0, 1, 0, memoryview(b""))
    code = Section(".text", 1, SHF_ALLOC | SHF_EXECINSTR, 16, 16, memoryview(bytes(16)))
    symbols = [Symbol("", SHN_UNDEF, 0, 0, 0, 0), *(Symbol(name, 1, 0, 16, STB_GLOBAL, STT_FUNC) for name in names)]
    return write_object(ObjectFile(program.machine, (nothing, code), tuple(symbols), {}, program.flags))


def _c_library() -> list[str]:
    """The files of the C library and libm in this process."""
    try:
        maps = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    files = {line.split(maxsplit=5)[5] for line in maps if len(line.split(maxsplit=5)) == 6}
    return sorted(file for file in files if re.fullmatch(r"lib[cm][.-].*so.*|ld-musl-.*", Path(file).name))


def _is_linker(command: Sequence[str]) -> bool:
    name = Path(command[-1]).name
    return name in _LINKERS or name.startswith(("ld.", "ld-", "mold", "lld"))


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ExecutableError(f"the linker {command[0]} does not run: {error}") from None
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip() or f"it ends with status {done.returncode}"
        raise ExecutableError(f"the linker {command[0]} fails: {said[-2000:]}")
