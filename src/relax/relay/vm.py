"""relay.vm: compile modules for the virtual machine, which is Relax's.

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
    """Compile a Relay module; an alias of `relay.build`. `target_host` is ignored.

    Raises DiagnosticError.
    """
    del target_host
    return build(mod, target, params)


__all__ = ["Executable", "VirtualMachine", "compile"]
