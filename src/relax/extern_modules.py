"""Modules of other kinds than ours (`relax.runtime.modules`) as an attribute of IRModules, TVM's "external_mods".

The attribute is a list of dictionaries, so that a module is compared, printed, read and saved like any other:

    [{"kind": "npu", "data": R.const(…, "uint8"), "symbols": ["f"], "constants": {"f_const_0": R.const(…)}}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from .expr import Constant
from .ir import Diagnostic, DiagnosticError, IRModule
from .runtime.modules import Module
from .runtime.tensor import numpy_view

EXTERNAL_MODS: Final = "external_mods"
"""Key of the modules among a module's attributes."""


def with_extern_modules(mod: IRModule, modules: Sequence[Module]) -> IRModule:
    """Return a module with some more modules of other kinds. Raises DiagnosticError as `extern_modules` does."""
    described = [*map(_described, (*extern_modules(mod), *modules))]
    return mod.with_attr(EXTERNAL_MODS, described) if modules else mod


def extern_modules(mod: IRModule) -> tuple[Module, ...]:
    """Return the modules of other kinds that a module has.

    Raises DiagnosticError (E4018) for an attribute of another form.
    """
    try:
        return tuple(map(_module, cast("Sequence[Any]", mod.attrs.get(EXTERNAL_MODS, ()))))
    except (TypeError, KeyError, AttributeError) as error:
        message = f"the module's attribute {EXTERNAL_MODS!r} is no list of modules: {type(error).__name__}: {error}"
        hint = 'write {"kind": "npu", "data": R.const([], "uint8"), "symbols": ["f"], "constants": {}} for each'
        raise DiagnosticError(Diagnostic("E4018", message, mod.span, hint=hint)) from error


def _described(module: Module) -> dict[str, Any]:
    constants = {name: Constant(numpy_view(tensor)) for name, tensor in module.constants.items()}
    data = Constant(np.frombuffer(module.data, "uint8"))
    return {"kind": module.kind, "data": data, "symbols": list(module.symbols), "constants": constants}


def _module(value: Mapping[str, Any]) -> Module:
    constants = cast("Mapping[str, Constant]", value["constants"])
    return Module(
        str(value["kind"]),
        numpy_view(cast(Constant, value["data"]).tensor).tobytes(),
        tuple(map(str, value["symbols"])),
        {str(name): constant.tensor for name, constant in constants.items()},
    )
