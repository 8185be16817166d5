"""Which values of a function can be computed before it runs: its inputs known, its constants folded."""

from __future__ import annotations

from ..expr import Function, Var, VarBinding
from .purity import contains_impure_call
from .variables import all_bindings, free_symbolic_vars, free_vars

NUM_INPUT = "num_input"


def computable_at_compile_time(func: Function) -> list[Var]:
    """The variables that depend only on parameters known at compile time, in order.

    The attribute `num_input` says how many parameters come first and are only known at run time; those after it are
    weights. Without it, all are inputs.
    """
    count: int = func.attrs.get(NUM_INPUT, len(func.params))
    known: dict[Var, None] = dict.fromkeys(func.params[count:])
    for binding in all_bindings(func):
        if (
            isinstance(binding, VarBinding)
            and not free_symbolic_vars(binding.value)
            and not contains_impure_call(binding.value)
            and all(var in known for var in free_vars(binding.value))
        ):
            known[binding.var] = None
    return list(known)


__all__ = ["computable_at_compile_time"]
