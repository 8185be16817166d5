"""Make destination-passing calls explicit: allocate the outputs, then call with inputs and outputs.

Before   gv = R.call_tir(cls.f, (x, y), R.Tensor((n, 4), "float32"), tir_vars=R.shape([n]))

After    alloc = R.builtin.alloc_tensor(R.shape([n, 4]), "float32", 0)
         _ = cls.f(x, y, n, alloc)
         gv = alloc

The fresh tensor has the variable's name too (printed `gv` and `gv_1`): profiles and errors of the machine show it.
Several outputs are allocated in order, and returned as a tuple. `call_dps_packed` is the same with a packed
function. `call_tir_inplace` passes the reused arguments once, allocates the rest, and returns both; if an
argument is not known to be what the output is declared to be, a match_cast checks it first. Arguments given
as a tuple variable are taken out of it one by one. A shape of `tir_vars` that may fail (a negative size) is made first.

A pure function with such a call keeps its promise, but no longer by its parts: it gets `relax.force_pure`.

Declines: a destination-passing call changes its outputs, so it must stand outside dataflow blocks; run
ToNonDataflow first, else every call in a dataflow block is reported (E4002). An argument that is reused in
place and used again afterwards is reported too (E4006).
"""

from __future__ import annotations

from typing import cast

from ..analysis.inplace import check_reuse
from ..analysis.properties import DEVICES_PLACED, NO_DATAFLOW, NORMAL_FORM, SHAPES_LOWERED, STORAGE_EXPLICIT
from ..expr import Call, ExternFunc, Function, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var, VarBinding
from ..info.relations import is_base_of
from ..ir import GlobalVar, IRModule, Op, RelaxExpr, StructInfo
from ..op import builtin, is_call_of
from ..op.intrinsic import DestinationPassing
from ..op.intrinsics import CallDPSPacked, CallTIRInplace
from ..op.tir_calls import arrange
from ..prim.totality import is_surely_size
from ..rewrite import Rewriter, bindings_in
from ..rewrite.rebuild import with_info
from ..runtime.names import with_outputs
from ..struct_info import FuncStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .decorators import module_pass
from .remove_purity_checking import force_pure
from .vdevice_operand import VDeviceOperands


@module_pass(needs={NORMAL_FORM, DEVICES_PLACED, NO_DATAFLOW}, gives={STORAGE_EXPLICIT}, breaks={SHAPES_LOWERED})
def CallTIRRewrite(mod: IRModule) -> IRModule:
    """Lower call_tir, call_tir_inplace and call_dps_packed; see the module's docstring."""
    check_reuse(mod)
    return _Lowering(mod).module()


class _Lowering(Rewriter):
    """Replaces each destination-passing call."""

    _bound_name = ""
    """The variable whose value is being rewritten."""

    def var_binding(self, binding: VarBinding) -> None:
        around, self._bound_name = self._bound_name, binding.var.name_hint
        super().var_binding(binding)
        self._bound_name = around

    def function(self, function: Function) -> RelaxExpr:
        return super().function(force_pure(function) if _has_dps_call(function) else function)

    def call(self, call: Call) -> RelaxExpr:
        normal = self.parts(call)
        if not is_call_of(normal, DestinationPassing):
            return normal
        if self.builder.in_dataflow:
            raise self.builder.error(
                "E4002",
                f"CallTIRRewrite: {cast(Op, normal.op).name.removeprefix('relax.')} stands in a dataflow block",
                normal.span,
                hint="run relax.transform.ToNonDataflow() before CallTIRRewrite()",
            )
        outputs = self.outputs(normal)
        callee, inputs = normal.args[0], self.inputs(normal.args[1])
        for tir_vars in normal.args[2:]:
            self.check_sizes(tir_vars)
        reused = self.reused(normal, inputs, outputs)
        results = [
            self.allocate(info, normal, self.output_name(i, len(outputs))) if held is None else held
            for i, (held, info) in enumerate(zip(reused, outputs, strict=True))
        ]
        fresh = [result for held, result in zip(reused, results, strict=True) if held is None]
        if isinstance(normal.attrs, CallDPSPacked):
            callee = self.writing(callee, len(fresh))
        lowered = Call(callee, self.arguments(normal, inputs, fresh), span=normal.span)
        if isinstance(callee, GlobalVar):  # the kernel fits, as was derived for the destination-passing call
            with_info(lowered, TupleStructInfo(()))
        self.builder.emit(lowered, "_")
        return results[0] if isinstance(normal.sinfo_args[0], TensorStructInfo) else Tuple(results)

    def writing(self, callee: RelaxExpr, outputs: int) -> RelaxExpr:
        """Return a packed function as one that writes outputs: those of libraries have another name then."""
        function = self.mod[callee.name_hint] if isinstance(callee, GlobalVar) else callee
        name = function.global_symbol if isinstance(function, ExternFunc) else ""
        return callee if with_outputs(name, outputs) == name else ExternFunc(with_outputs(name, outputs))

    def outputs(self, call: Call) -> list[TensorStructInfo]:
        info = call.struct_info  # that of sinfo_args, and where the tensors are
        infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
        return [cast(TensorStructInfo, field) for field in infos]

    def inputs(self, args: RelaxExpr) -> list[RelaxExpr]:
        """The arguments one by one, also those of a tuple held by a variable."""
        if isinstance(args, Tuple):
            return list(args.fields)
        info = args.struct_info
        if not isinstance(info, TupleStructInfo):
            raise self.builder.error(
                "E4002",
                "CallTIRRewrite: the number of arguments is not known",
                args.span,
                hint="give the arguments as a tuple, or match_cast the value to R.Tuple(...)",
            )
        items = [TupleGetItem(args, i, span=args.span) for i in range(len(info.fields))]
        return [self.builder.emit(item, "arg") for item in items]

    def reused(self, call: Call, inputs: list[RelaxExpr], outputs: list[TensorStructInfo]) -> list[RelaxExpr | None]:
        """For each output the argument whose storage it takes, None where a fresh tensor is needed."""
        if not isinstance(call.attrs, CallTIRInplace):
            return [None] * len(outputs)
        reused: list[RelaxExpr | None] = []
        for index, info in zip(call.attrs.inplace_indices, outputs, strict=True):
            if index >= 0:
                inputs[index] = self.checked(inputs[index], info)
            reused.append(inputs[index] if index >= 0 else None)
        return reused

    def checked(self, value: RelaxExpr, info: StructInfo) -> RelaxExpr:
        """Return a value of the required struct info, inserting a match_cast if that is not proved."""
        if is_base_of(info, value.struct_info):
            return value
        return self.builder.match_cast(value, info, "checked")

    def output_name(self, index: int, count: int) -> str:
        """Name a fresh tensor after the variable of the result, which profiles and errors show."""
        name = "alloc" if self._bound_name in ("", "_") else self._bound_name
        return name if count == 1 else f"{name}_{index}"

    def allocate(self, info: TensorStructInfo, call: Call, name: str) -> Var:
        device = VDeviceOperands(self.builder.vdevices).index(info.vdevice, call.span, self.builder.where)
        scope = "global" if info.vdevice is None else info.vdevice.memory_scope
        allocation = builtin.alloc_tensor(cast(RelaxExpr, info.shape), info.dtype, device, scope)
        allocation = allocation.replace(span=call.span)
        if isinstance(info.shape, ShapeExpr) and not self.builder.vdevices:
            with_info(allocation, info)
        return self.builder.emit(allocation, name)

    def check_sizes(self, tir_vars: RelaxExpr) -> None:
        """Check the integers passed to the kernel by making a shape of them, where one might not be a size."""
        if isinstance(tir_vars, ShapeExpr) and not all(map(is_surely_size, tir_vars.values)):
            self.builder.emit(tir_vars, "sizes")

    def arguments(self, call: Call, inputs: list[RelaxExpr], fresh: list[RelaxExpr]) -> list[RelaxExpr]:
        """Inputs, integers and outputs in the order the callee takes them."""
        signature = call.args[0].struct_info_
        ints = [i for tir_vars in call.args[2:] for i in self.integers(tir_vars)]
        params = signature.params if isinstance(signature, FuncStructInfo) else None
        return arrange(inputs, ints, fresh, params or ())

    def integers(self, tir_vars: RelaxExpr) -> list[RelaxExpr]:
        info = tir_vars.struct_info
        values = tir_vars.values if isinstance(tir_vars, ShapeExpr) else None
        if values is None and isinstance(info, ShapeStructInfo):
            values = info.values
        if values is None:
            raise self.builder.error(
                "E4002",
                "CallTIRRewrite: the values of tir_vars are not known",
                tir_vars.span,
                hint="give them as R.shape([...]), or match_cast the shape to R.Shape([...]) first",
            )
        return [PrimValue(value) for value in values]


def _has_dps_call(func: Function) -> bool:
    return any(is_call_of(binding.value, DestinationPassing) for binding in bindings_in(func))
