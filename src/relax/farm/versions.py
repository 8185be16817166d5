"""All that decides the code of a kernel beside the kernel, as text: part of the keys of the cache.

`build` asks for it before it knows whether anything is to be compiled, so that this file imports no part of the code
generator that writes kernels.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, cast

from ..ir.transform import PassContext
from ..native.support import support_text
from ..target import Target
from .llvm_queries import host_facts
from .store import digest

#: part of every cache key: raise it when the passes of `worker` change
PIPELINE_VERSION = 5

_ROOMS: Final = ("ir", "prim", "tir", "target", "runtime", "native", "farm", "codegen")
"""The rooms whose files decide how a kernel is lowered and written."""

_ROOT: Final = Path(__file__).parent.parent

_LOADED: Final = time.time()
"""When this process began to load the compiler, of which it loads parts later, when they are used."""


def compiler_version() -> str:
    """All that decides the machine code, beside the IR and the target, or that it must fit."""
    support = digest([support_text().encode()], 8).hex()
    numbers = host_facts().llvm_version
    return f"pipeline {PIPELINE_VERSION}, support {support}, llvmlite {version('llvmlite')}, LLVM {numbers}"


def usual_passes() -> bool:
    """True if the passes of the context are the usual ones, and nobody looks on."""
    context = PassContext.current()
    watched = any(instrument.needs_passes for instrument in context.instruments)
    return not (watched or context.disabled_pass or context.required_pass)


def target_words(target: Target) -> str:
    """All that is known of a resolved target, the same in every process."""
    return f"{target}\n{_words(target.machine)}"


def _words(value: Any) -> str:
    """A description of a machine, the same in every process."""
    if hasattr(value, "__dataclass_fields__"):
        return "".join(f"{f.name}({_words(getattr(value, f.name))})" for f in fields(value))
    if isinstance(value, frozenset):
        return ",".join(sorted(cast("frozenset[str]", value)))
    return str(value)


@lru_cache(maxsize=2)
def compiler_files(rooms: tuple[str, ...] = _ROOMS) -> str | None:
    """The digest of files of the compiler, given as folders and files of the package.

    None if they are not there, or newer than what this process runs.
    """
    try:
        files = _files(rooms)
        if not _are_loaded(files):
            return None
        contents = (
            name.encode() + b"\0" + Path(files[name][0]).read_bytes() + b"\0" for name in sorted(files)
        )
        return digest(contents, 16).hex()
    except OSError:
        return None


def unedited(rooms: tuple[str, ...] = _ROOMS) -> bool:
    """True if files of the compiler are there, and none was edited since this process began to load them.

    Modules are loaded when they are used. So this is asked when something was made, too, before it is kept under a key
    that holds an earlier digest of the files.
    """
    try:
        return _are_loaded(_files(rooms))
    except OSError:
        return False


def _are_loaded(files: Mapping[str, tuple[str, float]]) -> bool:
    """True if there are files, all of them older than this process."""
    return bool(files) and max(time for _, time in files.values()) < _LOADED


def _files(rooms: tuple[str, ...]) -> dict[str, tuple[str, float]]:
    """The paths of all Python files of some rooms, and when they were written, by their names inside the package."""
    found: dict[str, tuple[str, float]] = {}
    waiting = [(room, os.path.join(_ROOT, room)) for room in rooms]
    while waiting:
        name, path = waiting.pop()
        if name.endswith(".py"):
            found[name] = path, os.stat(path).st_mtime
            continue
        with os.scandir(path) as entries:
            for entry in entries:
                inside = f"{name}/{entry.name}"
                if entry.name.endswith(".py"):
                    found[inside] = entry.path, entry.stat().st_mtime
                elif entry.name != "__pycache__" and entry.is_dir():
                    waiting.append((inside, entry.path))
    return found


__all__ = ["compiler_files", "compiler_version", "target_words", "unedited", "usual_passes"]
