"""Drop the functions that no entry point reaches.

Before   main (global_symbol) calls f;  f;  g (private, called by nobody)
After    main;  f
Keeps    entry points: the functions named in `entry_functions`, else those with a global_symbol;
         what they reach through GlobalVars, and PrimFuncs they name as packed functions;
         the order of the functions; a module without any entry point.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import IRModule
from .callgraph import entry_names, without_unreachable
from .decorators import module_pass


@module_pass(breaks=())
def RemoveUnusedFunctions(mod: IRModule, entry_functions: Sequence[str] | None = None) -> IRModule:
    """Remove functions unreachable from the entry points.

    Raises DiagnosticError (E4005) when a name in `entry_functions` is not a function of the module.
    """
    return without_unreachable(mod, entry_names(mod, entry_functions, "RemoveUnusedFunctions"))
