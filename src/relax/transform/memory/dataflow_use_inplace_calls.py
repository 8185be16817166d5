"""Write the result of a kernel into an input that is dead afterwards.

Before   with R.dataflow():
             a = R.call_tir(cls.matmul, (x, w), out_sinfo=R.Tensor((n, 4), "float32"))
             b = R.call_tir(cls.relu, (a,), out_sinfo=R.Tensor((n, 4), "float32"))
             R.output(b)

After    with R.dataflow():
             a = R.call_tir(cls.matmul, (x, w), out_sinfo=R.Tensor((n, 4), "float32"))
             b = R.call_tir_inplace(cls.relu_inplace, (a,), inplace_indices=[0], out_sinfo=R.Tensor((n, 4), "float32"))
             R.output(b)

A call is changed if all of this is proved:

* the kernel may write its output over that input (`relax.tir.in_place`): it computes element by element, or it copies
  the input and then updates some elements, as a write into a cache does, which then is no longer copied;
* the input has the shape and the dtype of the result, and its memory was allocated by a kernel call of this function;
* nothing uses that memory afterwards, under whatever name, nobody else refers to it, and the call gets it once.

It reads calls of kernels: run it after LegalizeOps, and after RewriteDataflowReshape, which makes no views in a block
that works in place. Bindings outside of dataflow blocks are left alone; ConvertToDataflow makes such blocks.
"""

from __future__ import annotations

from ...analysis.alias import Aliases
from ...analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ...expr import Call, DataflowBlock, Function, If, SeqExpr, Tuple, Var, VarBinding
from ...info.relations import is_base_of
from ...ir import GlobalVar, IRModule, RelaxExpr
from ...op import intrinsics, is_call_of
from ...op.intrinsic import DestinationPassing
from ...op.intrinsics import CallTIR
from ...rewrite import Rewriter
from ...struct_info import TensorStructInfo
from ...tir import PrimFunc
from ...tir.in_place import in_place
from ..decorators import module_pass


@module_pass(opt_level=1, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def DataflowUseInplaceCalls(mod: IRModule) -> IRModule:
    """Replace call_tir by call_tir_inplace where this is unobservable; see the module's docstring."""
    choices = _Choices(mod)
    for func in mod.functions.values():
        if isinstance(func, Function):
            choices.function(func)
    return _InPlace(mod, choices).module() if choices.reused else mod


class _Choices:
    """Chooses the calls that work in place, and the input that each reuses."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.reused: dict[Var, int] = {}
        """For the variable of a call, the position of the input."""
        self.kernels: dict[tuple[GlobalVar, int], PrimFunc | None] = {}
        """Kernels in place, by the kernel and the position."""

    def function(self, func: Function) -> None:
        """Choose for a function."""
        calls = list(_calls(func.body))
        if any(inside and is_call_of(call, CallTIR) for _, call, inside in calls):
            aliases = Aliases(func, self.mod)
            own = {binding.var for binding, call, _ in calls if is_call_of(call, DestinationPassing)}
            for binding, call, inside in calls:
                if inside and is_call_of(call, CallTIR):
                    self.call(binding, call, aliases, own)

    def call(self, binding: VarBinding, call: Call, aliases: Aliases, own: set[Var]) -> None:
        """Choose for a call of a kernel; `own` are the variables whose memory the function's calls allocate."""
        match call.args:
            case (GlobalVar() as callee, Tuple(fields), *_) if isinstance(self.mod.get(callee), PrimFunc):
                pass
            case _:
                return
        for position, value in enumerate(fields):
            other_fields = [other for i, other in enumerate(fields) if i != position]
            if (
                self.is_alike(value, call)
                and self.is_last_use(value, binding, aliases, own)
                and not any(aliases.may_share(value, other) for other in other_fields)
                and self.kernel(callee, position) is not None
            ):
                self.reused[binding.var] = position
                return

    def is_alike(self, value: RelaxExpr, call: Call) -> bool:
        """True if a value has the shape, dtype and device of the call's one result."""
        info, result = value.struct_info_, call.struct_info_
        if not isinstance(info, TensorStructInfo) or not isinstance(result, TensorStructInfo):
            return False
        return is_base_of(result, info) and is_base_of(info, result)

    def is_last_use(self, value: RelaxExpr, binding: VarBinding, aliases: Aliases, own: set[Var]) -> bool:
        """True if the memory of a value is the function's own, and used no more after a binding."""
        storages = aliases.storages(value)
        if len(storages) != 1:
            return False
        (storage,) = storages
        life = aliases.live_ranges().get(storage)
        return storage in own and life is not None and life.last == aliases.position(binding)

    def kernel(self, callee: GlobalVar, position: int) -> PrimFunc | None:
        """The kernel that writes over the input at a position."""
        key = callee, position
        if key not in self.kernels:
            func = self.mod[callee]
            self.kernels[key] = in_place(func, position) if isinstance(func, PrimFunc) else None
        return self.kernels[key]


def _calls(expr: RelaxExpr) -> list[tuple[VarBinding, Call, bool]]:
    """The bindings of calls in a sequence and its branches, and whether each stands in a dataflow block."""
    calls: list[tuple[VarBinding, Call, bool]] = []
    for block in expr.blocks if isinstance(expr, SeqExpr) else ():
        for binding in block.bindings:
            match binding:
                case VarBinding(_, Call() as call):
                    calls.append((binding, call, isinstance(block, DataflowBlock)))
                case VarBinding(_, If() as value):
                    calls += _calls(value.true_branch) + _calls(value.false_branch)
                case _:
                    pass
    return calls


class _InPlace(Rewriter):
    """Replaces the calls chosen."""

    def __init__(self, mod: IRModule, choices: _Choices) -> None:
        super().__init__(mod)
        self.choices = choices
        self.added: dict[tuple[GlobalVar, int], GlobalVar] = {}

    def var_binding(self, binding: VarBinding) -> None:
        position, call = self.choices.reused.get(binding.var), binding.value
        if position is not None and isinstance(call, Call):
            binding = binding.replace(value=self.reusing(call, position))
        super().var_binding(binding)

    def reusing(self, call: Call, position: int) -> Call:
        """The call, with the result written over an argument."""
        callee = call.args[0]
        assert isinstance(callee, GlobalVar)
        key = callee, position
        if key not in self.added:
            kernel = self.choices.kernels[key]
            assert kernel is not None
            self.added[key] = self.builder.add_func(kernel, f"{callee.name_hint}_inplace")
        args = (self.added[key], *call.args[1:])
        attrs = intrinsics.CallTIRInplace(inplace_indices=(position,))
        return attrs.raw_call(args, call.sinfo_args, span=call.span)
