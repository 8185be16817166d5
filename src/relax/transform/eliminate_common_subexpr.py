"""Compute once what a dataflow block computes twice.

Before   with R.dataflow():                    After   with R.dataflow():
             lv0 = R.exp(x)                                lv0 = R.exp(x)
             lv1 = R.exp(x)                                gv = R.add(lv0, lv0)
             gv = R.add(lv0, lv1)                          R.output(gv)
             R.output(gv)

Equal are calls of the same operator or kernel with equal arguments, attributes and results, and projections. Every call
gives a fresh tensor, so two results become one only where nobody can tell: at most one of them may be seen
outside the block, or by what may keep it (see `private_variables`), and the block must not work in place.

Left alone: allocations and other intrinsics, packed functions, calls of functions, whatever stands outside of
dataflow blocks.
"""

from __future__ import annotations

from typing import Any, cast

from ..expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..ir import IRModule, Op, RelaxExpr, structural_equal, structural_hash
from ..op import operator_of
from ..op.intrinsics import Intrinsic
from ..substitute import Substitution
from .canonicalize_bindings import same_info
from .decorators import function_pass
from .rebuild import same_or
from .rewrite_dataflow_reshape import private_variables, works_in_place


@function_pass(opt_level=1)
def EliminateCommonSubexpr(func: Function, mod: IRModule, call_only: bool = False) -> Function:
    """Merge equal computations; with `call_only`, calls alone. See the module's docstring."""
    return cast(Function, _Eliminator(call_only).node(func))


_SMALL = 4096
"""Bytes of a constant that is compared by its contents."""


class _Eliminator(Substitution):
    """One forward walk; `variables` replaces what was computed before."""

    def __init__(self, call_only: bool) -> None:
        super().__init__({}, {})
        self.call_only = call_only
        self.private: set[Var] = set()
        self.seen: dict[int, list[tuple[Any, Var]]] = {}

    def block(self, block: BindingBlock) -> BindingBlock:
        if not isinstance(block, DataflowBlock) or works_in_place(block):
            return super().block(block)
        outer = self.private, self.seen
        self.private, self.seen = set(private_variables(block.bindings)), {}
        kept = [new for new in map(self.merged, block.bindings) if new is not None]
        self.private, self.seen = outer
        return block.replace(bindings=same_or(block.bindings, kept))

    def merged(self, binding: Binding) -> Binding | None:
        """The binding, of an earlier variable if it computes the same; None if that one takes its place."""
        new = self.binding(binding)
        if not isinstance(new, VarBinding):
            return new
        key = self.key(new.value)
        if key is None:
            return new
        candidates = self.seen.setdefault(structural_hash(key), [])
        for known, earlier in candidates:
            fits = structural_equal(known, key) and same_info(earlier.struct_info_, new.var.struct_info_)
            if fits and (earlier in self.private or new.var in self.private):
                return self.replaced(binding, new, earlier)
        candidates.append((key, new.var))
        return new

    def replaced(self, binding: Binding, new: VarBinding, earlier: Var) -> Binding | None:
        """What is left of a binding whose value an earlier variable has."""
        if new.var not in self.private:
            self.private.discard(earlier)
        if isinstance(new.var, DataflowVar):
            self.variables[binding.var] = earlier
            return None
        return new.replace(value=earlier)

    def key(self, value: RelaxExpr) -> Any:
        """What a computation is; None if it is not to be merged."""
        match value:
            case TupleGetItem(source, index) if not self.call_only:
                return (source, index)
            case Call(Op(name) as op, args, attrs, sinfo_args):
                operator = operator_of(value)
                plain = operator is not None and operator.pure and operator.packed is None
                if name == "relax.call_tir" or (plain and not isinstance(operator, Intrinsic)):
                    return (op, tuple(map(comparable, args)), attrs, sinfo_args)
            case _:
                pass
        return None


def comparable(arg: RelaxExpr) -> Any:
    """An argument as part of a key: a large constant is equal to itself only, so that it need not be read."""
    match arg:
        case Constant(data) if data.nbytes > _SMALL:
            return id(data)
        case Tuple(fields):
            return tuple(map(comparable, fields))
        case _:
            return arg
