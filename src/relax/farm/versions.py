"""Everything besides the kernel that determines its code, as text in cache keys.

`build` needs these keys before it knows whether to compile anything, so this module does not import the code generator.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from ..ir.transform import PassContext
from ..target import Target
from . import cache
from ._generator import FILES
from .llvm_queries import host_facts
from .store import digest

#: part of every cache key: raise it when the passes of `worker` change
PIPELINE_VERSION = 5

_ROOMS: Final = ("ir", "prim", "tir", "target", "runtime", "native", "farm", "codegen")
"""Packages that lower and write kernels and support code, as helpers do too."""

_DIGEST: Final = 16
"""Size in bytes of a digest of files."""

_ROOT: Final = Path(__file__).parent.parent

_LOADED: Final = time.time()
"""Time at which this process began to load the compiler; modules are loaded lazily."""


def compiler_version() -> str:
    """Versions that affect the machine code, besides the IR and the target, or its compatibility."""
    numbers = host_facts().llvm_version
    return f"pipeline {PIPELINE_VERSION}, llvmlite {_version_of('llvmlite')}, LLVM {numbers}"


_version_of = lru_cache(maxsize=1)(version)
"""Return the version of an installed package; its metadata is read once."""


def usual_passes() -> bool:
    """True if the context has the default passes and no instruments that observe passes."""
    context = PassContext.current()
    watched = any(instrument.needs_passes for instrument in context.instruments)
    return not (watched or context.disabled_pass or context.required_pass)


def target_words(target: Target) -> str:
    """Text of a resolved target and its machine, the same in every process."""
    return f"{target}\n{_words(target.machine)}"


def _words(value: Any) -> str:
    """Text of a machine description, the same in every process."""
    if hasattr(value, "__dataclass_fields__"):
        return "".join(f"{f.name}({_words(getattr(value, f.name))})" for f in fields(value))
    if isinstance(value, frozenset):
        return ",".join(sorted(cast("frozenset[str]", value)))
    return str(value)


@lru_cache(maxsize=16)
def compiler_files(rooms: tuple[str, ...] = _ROOMS) -> str | None:
    """Digest of files of the compiler, given as folders and files of the package.

    Returns None if they cannot be read, or are newer than the code loaded in this process. The cache has the digest of
    files with the same paths, sizes and modification times, by which Python finds their compiled code, too.
    """
    try:
        files = _files(rooms)
        if not _are_loaded(files):
            return None
        states = [f"{name} {files[name].size} {files[name].modified}" for name in sorted(files)]
        key = cache.key_of("\n".join(states), "digest of files", str(_ROOT), kind=cache.NOTE)
        noted = cache.noted(key)
        if noted is not None and len(noted) == 2 * _DIGEST:
            return noted.decode("ascii", "replace")
        contents = (name.encode() + b"\0" + Path(files[name].path).read_bytes() + b"\0" for name in sorted(files))
        result = digest(contents, _DIGEST).hex()
        cache.note_beside(key, result.encode())
        return result
    except OSError:
        return None


def generator_files() -> str | None:
    """Digest of the files that generate kernels, which other versions of relax may share; None as for `compiler_files`.

    The printer of TVMScript is not among them: it decides the wording of a few messages only, which show an expression.
    """
    return compiler_files(FILES)


def generator_unedited() -> bool:
    """`unedited` for the files that generate kernels."""
    return unedited(FILES)


def unedited(rooms: tuple[str, ...] = _ROOMS) -> bool:
    """True if files of the compiler are there, and none was edited since this process began to load them.

    Modules are loaded when they are used. So this is asked when something was made, too, before it is kept under a key
    that holds an earlier digest of the files.
    """
    try:
        return _are_loaded(_files(rooms))
    except OSError:
        return False


class _File(NamedTuple):
    """A file of the package."""

    path: str
    modified: int
    """Time of the last modification in nanoseconds."""
    size: int


def _are_loaded(files: Mapping[str, _File]) -> bool:
    """True if there are files, and all are older than this process."""
    return bool(files) and max(file.modified for file in files.values()) < _LOADED * 1e9


def _files(rooms: tuple[str, ...]) -> dict[str, _File]:
    """All Python files of some packages, by name inside the package."""
    files: dict[str, _File] = {}

    def add(name: str, path: str, status: os.stat_result) -> None:
        files[name] = _File(path, status.st_mtime_ns, status.st_size)

    waiting = [(room, os.path.join(_ROOT, room)) for room in rooms]
    while waiting:
        name, path = waiting.pop()
        if name.endswith(".py"):
            add(name, path, os.stat(path))
            continue
        with os.scandir(path) as entries:
            for entry in entries:
                inside = f"{name}/{entry.name}"
                if entry.name.endswith(".py"):
                    add(inside, entry.path, entry.stat())
                elif entry.name != "__pycache__" and entry.is_dir():
                    waiting.append((inside, entry.path))
    return files
