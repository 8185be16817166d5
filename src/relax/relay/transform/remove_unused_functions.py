"""RemoveUnusedFunctions: keep only functions reachable from the entry functions.

def @helper(%x: int32) { %x }            def @main(%x: int32) { %x }
def @main(%x: int32) { %x }    becomes
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import GlobalVar, IRModule
from ..expr import Function
from ..parts import parts_of
from ..scopes import nodes_with_parts
from .rewriting import relay_module_pass


@relay_module_pass("RemoveUnusedFunctions", opt_level=1)
def RemoveUnusedFunctions(mod: IRModule, entry_functions: Sequence[str] = ("main",)) -> IRModule:
    """Remove Relay functions not reachable from an entry function. A module without entry functions is unchanged."""
    entries = [name for name in entry_functions if name in mod]
    if not entries:
        return mod
    needed = set(entries)
    stack = [mod[name] for name in entries]
    while stack:
        function = stack.pop()
        if not isinstance(function, Function):
            continue
        parts = [part for node in nodes_with_parts(function) for part in parts_of(node)]
        for part in parts:
            if isinstance(part, GlobalVar) and part.name_hint not in needed and part.name_hint in mod:
                needed.add(part.name_hint)
                stack.append(mod[part.name_hint])
    unused = [g.name_hint for g, f in mod.functions.items() if isinstance(f, Function) and g.name_hint not in needed]
    return mod.without(unused)
