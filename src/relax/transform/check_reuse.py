"""Refuse a module in which an argument is used after an in-place call has reused it (language.md §7.3).

What the pass finds depends on the program as it was written: it runs before others remove or merge bindings.
"""

from __future__ import annotations

from ..analysis.inplace import check_reuse
from ..analysis.properties import NORMAL_FORM
from ..ir import IRModule
from .decorators import module_pass


@module_pass(needs={NORMAL_FORM}, breaks=())
def CheckReuse(mod: IRModule) -> IRModule:
    """Return the normalised module. Raises DiagnosticError (E4006) for every argument used after its reuse."""
    check_reuse(mod)
    return mod
