"""Compile-time values: variables of a function that depend on known parameters only."""

from __future__ import annotations

from ..expr import Function, MatchCast, Var
from ..info.mapping import bound_in, used_in
from ..ir import StructInfo
from ..prim.expr import Var as PrimVar
from ..struct_info import ObjectStructInfo
from .purity import contains_impure_call
from .variables import all_bindings, free_symbolic_vars, free_vars

NUM_INPUT = "num_input"


def computable_at_compile_time(func: Function) -> list[Var]:
    """The variables that depend only on parameters known at compile time, in order.

    The attribute `num_input` says how many parameters come first and are only known at run time; those after it are
    weights. Without it, all are inputs. A shape variable is known that a weight binds, or the match_cast of a value
    that is known.
    """
    count: int = func.attrs.get(NUM_INPUT, len(func.params))
    weights = func.params[count:]
    computable: dict[Var, None] = dict.fromkeys(weights)
    sizes: set[PrimVar] = set(bound_in(*map(_info, weights)))
    at_run_time = set(bound_in(*map(_info, func.params))) - sizes
    for binding in all_bindings(func):
        value = binding.value
        if (
            contains_impure_call(value)
            or any(var not in computable for var in free_vars(value))
            or any(size not in sizes for size in free_symbolic_vars(value))
        ):
            if isinstance(binding, MatchCast):
                at_run_time.update(size for size in bound_in(binding.struct_info) if size not in sizes)
            continue
        if isinstance(binding, MatchCast):
            if not at_run_time.isdisjoint(used_in(binding.struct_info)):
                continue  # it is checked against a size that only the run time tells
            sizes.update(bound_in(binding.struct_info))
        computable[binding.var] = None
    return list(computable)


def _info(param: Var) -> StructInfo:
    return param.struct_info_ or ObjectStructInfo()
