"""Merge the kernels of each function made by FuseOps into one PrimFunc.

Before   gv = cls.fused_add_relu(x, y)              After   gv = R.call_tir(cls.fused_add_relu, (x, y), …)

         @R.function(private=True)                          @T.prim_func(private=True)
         def fused_add_relu(x, y):                          def fused_add_relu(x, y, relu):
             R.func_attr({"Primitive": 1})                      for i, j …:
             … R.call_tir(cls.add, …)                               with T.block("relu"):
             … R.call_tir(cls.relu, …)                                  relu[v_i, v_j] = T.max(x[v_i, v_j] + y[v_j], 0)

The kernels' bodies follow each other (`relax.transform.fusion.merge_kernels`); then elementwise and injective nests
are inlined into those that read them (`relax.tir.inline_blocks`), so that intermediates of such chains vanish, and the
elementwise end of a reduction is one nest behind it. A value keeps the dtype it was stored in: it is rounded as before.

Sizes that no tensor tells arrive by `tir_vars`. Kernels that nobody calls any more are dropped.

Left alone, as Relax functions, are those with bindings other than calls of kernels and projections; those with a
parameter or a constant as a result; entry points; and functions used other than by calls with tensors of known shapes.
"""

from __future__ import annotations

from collections.abc import Callable

from ...analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ...expr import Call, Function, ShapeExpr, Tuple
from ...ir import BaseFunc, GlobalVar, IRModule, Node, RelaxExpr, walk
from ...op.intrinsics import CallTIR
from ...prim.per_node import per_node
from ...rewrite import Rewriter, bindings_in
from ...struct_info import ShapeStructInfo
from ...tir.inline_blocks import inline_blocks
from ...tir.stmt import PrimFunc
from ..decorators import module_pass
from .kernel_calls import KernelCalls, output_tensors
from .merge_kernels import merged_kernel, with_unique_block_names
from .outline_groups import PRIMITIVE


@module_pass(needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def FuseTIR(mod: IRModule) -> IRModule:
    """Merge the kernels of every Primitive function; see the module's docstring."""
    return with_merged_kernels(mod, inline_blocks)


def with_merged_kernels(mod: IRModule, change: Callable[[PrimFunc], PrimFunc]) -> IRModule:
    """The module with a kernel for each Primitive function: its kernels one after the other, and then changed."""
    calls = KernelCalls(mod)
    fused: dict[str, PrimFunc] = {}
    for name in _candidates(mod):
        function = mod[name]
        kernel = merged_kernel(function, calls) if isinstance(function, Function) else None
        if kernel is not None:
            fused[name] = with_unique_block_names(change(kernel))
    if not fused:
        return mod
    callees = {name: GlobalVar(name) for name in fused}
    merged = mod.with_functions(
        {callees.get(g.name_hint, g): fused.get(g.name_hint, f) for g, f in mod.functions.items()}
    )
    result = _Calls(merged, callees).module()
    return without_unused(result, {name for fused_name in fused for name in _mentioned(mod[fused_name])})


def _candidates(mod: IRModule) -> list[str]:
    """The names of private Primitive functions that are only called, with what call_tir takes."""
    primitive = [
        g.name_hint
        for g, f in mod.functions.items()
        if isinstance(f, Function) and f.attrs.get(PRIMITIVE) and "global_symbol" not in f.attrs
    ]
    declined: set[str] = set()

    def visit(node: Node) -> bool | None:
        match node:
            case Call(GlobalVar(name), args) if name in primitive:
                if not _is_plain(node):
                    declined.add(name)
                for arg in args:
                    walk(arg, visit)
                return False
            case GlobalVar(name):
                declined.add(name)
            case _:
                pass
        return None

    for function in mod.functions.values() if primitive else ():
        if not _mentioned(function).isdisjoint(primitive):
            walk(function, visit, (Call, GlobalVar))
    return [name for name in primitive if name not in declined]


def _is_plain(call: Call) -> bool:
    """True if a call's result can be that of call_tir, with the sizes of its shape operands written out."""
    shapes = [arg for arg in call.args if isinstance(arg.struct_info_, ShapeStructInfo)]
    written = all(isinstance(shape, ShapeExpr) for shape in shapes)
    return written and call.struct_info_ is not None and output_tensors(call.struct_info) is not None


class _Calls(Rewriter):
    """Calls of functions that have become kernels."""

    def __init__(self, mod: IRModule, callees: dict[str, GlobalVar]) -> None:
        super().__init__(mod)
        self.callees = callees

    def callee(self, value: RelaxExpr) -> GlobalVar | None:
        """The kernel that a call's function has become; None for what is no such call."""
        name = value.op.name_hint if isinstance(value, Call) and isinstance(value.op, GlobalVar) else ""
        return self.callees.get(name)

    def concerns(self, function: Function) -> bool:
        return any(self.callee(binding.value) is not None for binding in bindings_in(function))

    def call(self, call: Call) -> RelaxExpr:
        callee = self.callee(call)
        if callee is None:
            return super().call(call)
        args = [self.rewrite(arg) for arg in call.args]
        sizes = tuple(v for arg in args if isinstance(arg, ShapeExpr) for v in arg.values)
        tensors = Tuple(tuple(arg for arg in args if not isinstance(arg, ShapeExpr)))
        operands = (callee, tensors, ShapeExpr(sizes)) if sizes else (callee, tensors)
        return CallTIR().raw_call(operands, (self.info(call.struct_info),), call.span)


@per_node
def _mentioned(node: BaseFunc) -> frozenset[str]:
    """The names of the functions that a function refers to."""
    names: set[str] = set()

    def visit(item: Node) -> None:
        if isinstance(item, GlobalVar):
            names.add(item.name_hint)

    walk(node, visit, (GlobalVar,))
    return frozenset(names)


def without_unused(mod: IRModule, names: set[str]) -> IRModule:
    """The module without those private kernels among the named ones that no function refers to."""
    used: set[str] = set()
    for function in mod.functions.values():
        used |= _mentioned(function)

    def stays(global_var: GlobalVar, function: BaseFunc) -> bool:
        name = global_var.name_hint
        private = isinstance(function, PrimFunc) and "global_symbol" not in function.attrs
        return not private or name in used or name not in names

    return mod.with_functions({g: f for g, f in mod.functions.items() if stays(g, f)})
