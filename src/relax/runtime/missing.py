"""Errors for missing attributes, with hints from the compiler's table of TVM names where it is installed."""

from __future__ import annotations

import importlib


def missing(module: str, name: str) -> Exception:
    """Return the AttributeError for a missing attribute of a module."""
    plain = AttributeError(f"module {module!r} has no attribute {name!r}")
    if name.startswith("_"):
        return plain
    try:
        table = importlib.import_module("relax.ir.tvm_names")
    except ImportError:
        return plain
    return table.missing(module, name)
