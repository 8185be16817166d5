"""Replace kernels that only copy elements in order by a reshape view: no allocation, no loop.

Before   with R.dataflow():                                                 After   with R.dataflow():
             lv = R.call_tir(cls.reshape, (x,), R.Tensor((8, 3)))                       lv = R.reshape(x, (8, 3))
             gv = R.call_tir(cls.exp, (lv,), R.Tensor((8, 3)))                          gv = R.call_tir(cls.exp, …)
             R.output(gv)                                                               R.output(gv)

VMBuiltinLower makes ``R.reshape`` a view builtin, which shares the storage of its operand. That must not be
seen, so the call is left alone unless

* the PrimFunc is proved to write to each flat position the element at the same flat position of its one input;
* the result stays inside the dataflow block, and is only read there: by kernels and operators. As an output of the
  block, in a tuple that leaves it, captured, or given to a function that may return it, it could be changed by
  someone who does not know that it shares storage;
* nothing in the block works in place, or calls a function that may: the input could be changed while the view is in
  use.
"""

from __future__ import annotations

from ..analysis.alias import private_variables
from ..analysis.effects import effects_of, only_reads
from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ..expr import BindingBlock, Call, DataflowBlock, DataflowVar, Function, ShapeExpr, Tuple, Var, VarBinding
from ..ir import GlobalVar, IRModule
from ..op import is_call_of
from ..op.intrinsics import CallTIR
from ..op.shapes import Reshape
from ..rewrite import Rewriter, bindings_in
from ..struct_info import TensorStructInfo
from ..tir.flat_copy import is_flat_copy
from ..tir.stmt import PrimFunc
from .decorators import function_pass


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def RewriteDataflowReshape(func: Function, mod: IRModule) -> Function:
    """Turn copying kernels into views where this is unobservable; see the module's docstring."""
    return _Views(mod).rewrite_function(func)


class _Views(Rewriter):
    """Replaces kernels by views."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.views: dict[GlobalVar, bool] = {}
        self.private: frozenset[Var] = frozenset()

    def concerns(self, function: Function) -> bool:
        return any(isinstance(b.var, DataflowVar) and isinstance(b.value, Call) for b in bindings_in(function))

    def block(self, block: BindingBlock) -> BindingBlock:
        outer = self.private
        self.private = private_in_block(block)
        new = super().block(block)
        self.private = outer
        return new

    def var_binding(self, binding: VarBinding) -> None:
        value = binding.value
        view = self.view(value) if binding.var in self.private and isinstance(value, Call) else None
        super().var_binding(binding if view is None else binding.replace(value=view))

    def view(self, call: Call) -> Call | None:
        """The call as a reshape of its argument; None if it does more."""
        match call:
            case Call(_, (GlobalVar() as callee, Tuple((source,)), *_)) if is_call_of(call, CallTIR):
                info = call.sinfo_args[0]
                if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
                    return None
                if not isinstance(source.struct_info_, TensorStructInfo) or not self.copies(callee):
                    return None
                return Reshape().raw_call((source, info.shape), span=call.span)
            case _:
                return None

    def copies(self, callee: GlobalVar) -> bool:
        if callee not in self.views:
            func = self.mod.get(callee)
            self.views[callee] = isinstance(func, PrimFunc) and is_flat_copy(func)
        return self.views[callee]


def private_in_block(block: BindingBlock, mod: IRModule | None = None) -> frozenset[Var]:
    """The DataflowVars of a block whose values are only read, and only there; none if the block may change a tensor.

    With a module, its functions that are called are asked for what they do; without, they may do anything.
    """
    if not isinstance(block, DataflowBlock):
        return frozenset()
    calls = [b.value for b in block.bindings if isinstance(b, VarBinding) and isinstance(b.value, Call)]
    reading = {call for call in calls if mod is not None and only_reads(call, mod)}
    if any(effects_of(call).writes for call in calls if call not in reading):
        return frozenset()
    seen = [b.var for b in block.bindings if not isinstance(b.var, DataflowVar)]
    return private_variables(block.bindings, seen, reading=reading)
