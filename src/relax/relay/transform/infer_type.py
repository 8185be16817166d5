"""InferType: infer the types of a module."""

from __future__ import annotations

from ...ir import IRModule
from ...ir.transform import module_pass
from ..infer import infer_module


@module_pass
def InferType(mod: IRModule) -> IRModule:
    """Infer and set the type of every node, as ``mod["main"].body.checked_type``. Raises DiagnosticError with all
    errors.
    """
    return infer_module(mod)
