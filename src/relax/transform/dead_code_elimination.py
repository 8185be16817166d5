"""Remove unused bindings, and functions that no entry point reaches.

Before   with R.dataflow():                       After   with R.dataflow():
             lv0 = R.exp(x)                                   gv = R.add(x, x)
             gv = R.add(x, x)                                 R.output(gv)
             R.output(gv)                                 _ = R.print(gv)
         _ = R.print(gv)                                  return gv
         t = (gv, x)
         return gv

In a dataflow block an unused binding goes, whatever it computes: what stands there is pure, and removing a
call or a match_cast makes a program only more defined (language.md §7.2). Outside, errors and effects stay, so
only values that cannot fail go: leaves, projections of known tuples, closures, calls of operators that are `total`
on operands known to fit, and an If of nothing but those.

A binding is used when its variable is, or a shape variable it binds: in an expression, an annotation or any
struct info of what is kept. So the producer of a value that an impure call reads is kept, as is the
match_cast that gives a dimension of an allocation its meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.properties import NORMAL_FORM
from ..analysis.unused import remove_all_unused
from ..expr import Function
from ..ir import IRModule
from .decorators import module_pass
from .remove_unused_functions import entry_names, without_unreachable


@module_pass(opt_level=1, needs={NORMAL_FORM}, breaks=())
def DeadCodeElimination(mod: IRModule, entry_functions: Sequence[str] | None = None) -> IRModule:
    """Remove unused bindings, then the functions that neither those with a global_symbol nor `entry_functions` reach.

    Raises DiagnosticError (E4005) when a name in `entry_functions` is not a function of the module.
    """
    entries = entry_names(mod, None, "DeadCodeElimination")
    entries |= entry_names(mod, entry_functions, "DeadCodeElimination")
    swept = {g: remove_all_unused(f) if isinstance(f, Function) else f for g, f in mod.functions.items()}
    return without_unreachable(mod.with_functions(swept), entries)
