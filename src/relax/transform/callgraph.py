"""Reachability of functions in a module: entry points, references, reachability.

A reference is a GlobalVar anywhere below a function (Relax or TIR), or the name of a module's PrimFunc
where a packed function is named: an ExternFunc, or a string in a TIR call.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from ..expr import ExternFunc
from ..ir import BaseFunc, Diagnostic, DiagnosticError, GlobalVar, IRModule, Node, walk
from ..prim import StringImm


def entry_names(mod: IRModule, names: Sequence[str] | None, who: str) -> set[str]:
    """The entry points: the functions named, else those with a global_symbol.

    Raises DiagnosticError (E4005), with all the names the module does not have.
    """
    if names is None:
        return {g.name_hint for g, f in mod.functions.items() if "global_symbol" in f.attrs}
    known = [g.name_hint for g in mod.functions]
    missing = [name for name in names if name not in known]
    if missing:
        raise DiagnosticError(_unknown_entry(name, known, who) for name in missing)
    return set(names)


def _unknown_entry(name: str, known: list[str], who: str) -> Diagnostic:
    near = difflib.get_close_matches(name, known, 1)
    return Diagnostic(
        "E4005",
        f"{who}: entry function {name!r} is not in the module",
        notes=(f"the module has {', '.join(known) or 'no functions'}",),
        hint=f"did you mean {near[0]!r}?" if near else "",
    )


def references(func: BaseFunc, known: set[str]) -> set[str]:
    """The known functions that a function mentions."""
    found: set[str] = set()

    def visit(item: Node) -> None:
        if isinstance(item, GlobalVar):
            found.add(item.name_hint)
        elif isinstance(item, ExternFunc):
            found.add(item.global_symbol)
        elif isinstance(item, StringImm):
            found.add(item.value)

    walk(func, visit)
    return found & known


def without_unreachable(mod: IRModule, entries: set[str]) -> IRModule:
    """The module with what its entry points reach; all of it if it has none."""
    if not entries:
        return mod
    keep = reachable(mod, entries)
    return mod.with_functions({g: f for g, f in mod.functions.items() if g.name_hint in keep})


def reachable(mod: IRModule, entries: set[str]) -> set[str]:
    """The names of the functions that `entries` reach, themselves included."""
    known = {g.name_hint for g in mod.functions}
    found: set[str] = set()
    pending = list(entries)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(references(mod[name], known))
    return found
