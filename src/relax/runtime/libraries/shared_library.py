"""Modules that are shared libraries with functions of tvm-ffi, compiled from other code (C, C++, Rust)."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import tvm_ffi

from ..modules import Module


def load(module: Module) -> Mapping[str, Callable[..., Any]]:
    """Return the functions of a library, by symbol. Raises RuntimeError if the system cannot load it."""
    handle, path = tempfile.mkstemp(suffix=".so")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(module.data)
        library: tvm_ffi.Module = tvm_ffi.load_module(path)  # pyright: ignore[reportUnknownMemberType]
    finally:
        with contextlib.suppress(OSError):  # a system that keeps files in use
            os.unlink(path)
    functions = {symbol: library.get_function(symbol) for symbol in module.symbols if _has(library, symbol)}
    _kept.append(library)
    return functions


_kept: list[tvm_ffi.Module] = []
"""Loaded libraries: their functions may be in use until the process ends."""


def _has(library: tvm_ffi.Module, symbol: str) -> bool:
    return bool(library.implements_function(symbol))
