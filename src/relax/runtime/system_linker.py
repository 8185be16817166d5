"""Making a shared library of an object with a linker of the system, or with the one of the wheel ``ziglang``.

Looked for in this order: ``$RELAX_LINKER``, ``cc``, ``gcc``, ``clang``, ``ziglang``, ``ld.lld``, ``ld``. A compiler's
command knows where the C library is; a linker by itself is given the one that this process uses.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import tvm_ffi.libinfo

from .encoding import ExecutableError
from .files import in_place_of
from .machine_code import title
from .native import host_machine

VARIABLE: Final = "RELAX_LINKER"
_COMPILERS: Final = ("cc", "gcc", "clang")
_LINKERS: Final = ("ld.lld", "ld")
_SECONDS: Final = 300


def find_linker() -> list[str]:
    """The command that links. Raises ExecutableError if there is none."""
    stated = os.environ.get(VARIABLE, "").split()
    if stated:
        return stated
    for name in _COMPILERS:
        if shutil.which(name):
            return [name]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "ld.lld"]
    for name in _LINKERS:
        if shutil.which(name):
            return [name]
    raise ExecutableError(
        f"there is no linker here: none of {', '.join((*_COMPILERS, *_LINKERS))} is on the path; "
        "pip install 'relax[linker]' brings one, and the variable "
        f"{VARIABLE} names another"
    )


def link_library(data: bytes, path: Path, linker: Sequence[str] | None = None) -> None:
    """Write a shared library made of one object. A file that is there already is replaced at once or not at all.

    Raises ExecutableError for an object of another machine, and if there is no linker or it fails.
    """
    machine = int.from_bytes(data[18:20], "little")
    if machine != host_machine():
        raise ExecutableError(
            f"it is compiled for {title(machine)}, and linkers are called for this one ({platform.machine()}) only"
        )
    command = list(linker) if linker else find_linker()
    with tempfile.TemporaryDirectory(prefix="relax-") as folder:
        source = Path(folder, "program.o")
        source.write_bytes(data)
        with in_place_of(path) as library:
            _run([*command, *_options(command, path.name), str(source), *_libraries(command), "-o", str(library)])
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
