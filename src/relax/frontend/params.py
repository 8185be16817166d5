"""Detach the values of parameters that an importer kept as inputs."""

from __future__ import annotations

from ..expr import Function
from ..ir import IRModule
from ..runtime.nd import NDArray


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[NDArray]]]:
    """The module without the attribute ``params`` of its functions, and the values of it by function name."""
    params: dict[str, list[NDArray]] = {}
    functions = dict(mod.functions)
    for global_var, function in mod.functions.items():
        if isinstance(function, Function) and "params" in function.attrs:
            params[global_var.name_hint] = list(function.attrs["params"])
            functions[global_var] = function.without_attr("params")
    return mod.replace(functions=functions), params
