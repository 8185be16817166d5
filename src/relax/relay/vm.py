"""relay.vm: modules compiled for the virtual machine, which is that of Relax.

executable = relay.vm.compile(mod, "llvm", params=weights)
y = relax.VirtualMachine(executable)["main"](x)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir import IRModule
from ..runtime import Executable, VirtualMachine
from ..target import Target
from .executor import build
from .expr import Function


def compile(
    mod: IRModule | Function,
    target: str | Target | None = None,
    target_host: str | Target | None = None,
    params: Mapping[str, Any] | None = None,
) -> Executable:
    """Compile a Relay module; `relay.build` under its other name. `target_host` is the same machine here.

    Raises DiagnosticError.
    """
    del target_host
    return build(mod, target, params)


__all__ = ["Executable", "VirtualMachine", "compile"]
