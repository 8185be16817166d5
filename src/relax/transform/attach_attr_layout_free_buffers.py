"""Mark the kernel buffers whose layout may change: those of weights and constants.

Before   def main(x, w):                                          # num_input = 1
             gv = R.call_tir(cls.matmul, (x, w), R.Tensor((1, 4), "float32"))
         @T.prim_func(private=True)
         def matmul(x, w, out): ...
After    def main(x, w):
             gv = R.call_tir(cls.matmul1, (x, w), R.Tensor((1, 4), "float32"))
         @T.prim_func(private=True)
         def matmul1(x, w, out):                                  # T.func_attr({"layout_free_buffers": [1]})

A kernel used with weights in different places becomes several. Weights are the parameters after the first `num_input`
ones of functions with that attribute; the result of a call is none, nor are names of weights: run CanonicalizeBindings
and LiftTransformParams before. Kernels that have the attribute stay as they are; those not called any longer go.
"""

from __future__ import annotations

from ..analysis.properties import NORMAL_FORM
from ..derive.call_graph import call_graph
from ..expr import Call, Constant, Function, Tuple, Var
from ..ir import GlobalVar, IRModule, RelaxExpr
from ..op import is_call_of
from ..op.intrinsics import CallTIR
from ..rewrite import Rewriter
from ..tir import PrimFunc
from .decorators import module_pass
from .model_params import number_of_inputs

ATTRIBUTE = "layout_free_buffers"
WHO = "AttachAttrLayoutFreeBuffers"


@module_pass(needs={NORMAL_FORM}, breaks=())
def AttachAttrLayoutFreeBuffers(mod: IRModule) -> IRModule:
    """Attach `layout_free_buffers`, numbers of parameters, to PrimFuncs; see the module's docstring."""
    attacher = _Attacher(mod)
    result = attacher.module()
    replaced = {kernel.name_hint for kernel, _ in attacher.attached}
    called = {name for names in call_graph(result).values() for name in names}
    kept = {
        g: f
        for g, f in result.functions.items()
        if g.name_hint not in replaced or g.name_hint in called or "global_symbol" in f.attrs
    }
    return result.with_functions(kept)


class _Attacher(Rewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.weights: set[Var] = set()
        self.attached: dict[tuple[GlobalVar, tuple[int, ...]], GlobalVar] = {}
        """The kernels with the attribute, by the one without it and its value."""

    def rewrite_function(self, function: Function, name: str = "") -> Function:
        count = number_of_inputs(function, name, WHO)
        self.weights = set() if count is None else set(function.params[count:])
        return super().rewrite_function(function, name)

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        if not is_call_of(call, CallTIR) or len(call.args) < 2:
            return call
        kernel, args = call.args[0], call.args[1]
        if not isinstance(kernel, GlobalVar) or not isinstance(args, Tuple):
            return call
        function = self.mod.get(kernel)
        free = tuple(i for i, arg in enumerate(args.fields) if self.is_weight(arg))
        if not free or not isinstance(function, PrimFunc) or ATTRIBUTE in function.attrs:
            return call
        if (kernel, free) not in self.attached:
            attrs = {key: value for key, value in function.attrs.items() if key != "global_symbol"}
            new = function.replace(attrs={**attrs, ATTRIBUTE: list(free)})
            self.attached[kernel, free] = self.builder.add_func(new, kernel.name_hint)
        return call.replace(args=(self.attached[kernel, free], *call.args[1:]))

    def is_weight(self, arg: RelaxExpr) -> bool:
        """True for a constant, and for a parameter that is a weight."""
        return isinstance(arg, Constant) or (isinstance(arg, Var) and arg in self.weights)
