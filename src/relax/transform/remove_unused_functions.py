"""Remove functions that no entry point reaches.

Before   main (global_symbol) calls f;  f;  g (private, called by nobody)
After    main;  f
Keeps    entry points: the functions named in `entry_functions`, else those with a global_symbol;
         what they reach through GlobalVars, and PrimFuncs they name as packed functions;
         the order of the functions; a module without any entry point.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from ..derive.call_graph import reachable
from ..ir import Diagnostic, DiagnosticError, IRModule
from .decorators import module_pass


@module_pass(breaks=())
def RemoveUnusedFunctions(mod: IRModule, entry_functions: Sequence[str] | None = None) -> IRModule:
    """Remove functions unreachable from the entry points.

    Raises DiagnosticError (E4005) when a name in `entry_functions` is not a function of the module.
    """
    return without_unreachable(mod, entry_names(mod, entry_functions, "RemoveUnusedFunctions"))


def entry_names(mod: IRModule, names: Sequence[str] | None, who: str) -> set[str]:
    """The entry points: the functions named, else those with a global_symbol.

    Raises DiagnosticError (E4005), with all the names the module does not have.
    """
    if names is None:
        return {g.name_hint for g, f in mod.functions.items() if "global_symbol" in f.attrs}
    existing = dict.fromkeys(g.name_hint for g in mod.functions)
    missing = [name for name in names if name not in existing]
    if missing:
        raise DiagnosticError(_unknown_entry(name, list(existing), who) for name in missing)
    return set(names)


def _unknown_entry(name: str, names: list[str], who: str) -> Diagnostic:
    near = difflib.get_close_matches(name, names, 1)
    return Diagnostic(
        "E4005",
        f"{who}: entry function {name!r} is not in the module",
        notes=(f"the module has {', '.join(names) or 'no functions'}",),
        hint=f"did you mean {near[0]!r}?" if near else "",
    )


def without_unreachable(mod: IRModule, entries: set[str]) -> IRModule:
    """Return the module without functions that no entry point reaches; unchanged if it has no entry point."""
    if not entries:
        return mod
    keep = reachable(mod, entries)
    return mod.with_functions({g: f for g, f in mod.functions.items() if g.name_hint in keep})
