"""Names that the runtime has not: what the compiler's table of TVM's names says of them, where that is installed."""

from __future__ import annotations

import importlib


def missing(module: str, name: str) -> Exception:
    """The error to raise for an attribute that a module has not."""
    plain = AttributeError(f"module {module!r} has no attribute {name!r}")
    if name.startswith("_"):
        return plain
    try:
        table = importlib.import_module("relax.ir.tvm_names")
    except ImportError:
        return plain
    return table.missing(module, name)


__all__ = ["missing"]
