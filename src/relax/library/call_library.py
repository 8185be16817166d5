"""CallLibrary: LegalizeOps with kernels for all sizes, which programs share.

Before   lv = R.nn.relu(x)                          After   lv = R.call_tir(cls.relu, (x,), R.Tensor((1, 64, 56, 56)))
         # x: R.Tensor((1, 64, 56, 56), "float32")
                                                            @T.prim_func(private=True)
                                                            def relu(x0: T.Buffer((s0, s1, s2, s3)), compute: …): …

* A kernel of the library has the attribute `FORM`, by which its machine code is found.
* A call without a general form (`relax.library.general`) gets a kernel for its sizes, as by LegalizeOps.
* An operator may name other operators whose kernels for all sizes are faster (`Operator.for_all_sizes`).
* A view (`Operator.view`) of a tensor that is only read in its dataflow block stays, as by RewriteDataflowReshape;
  that of a constant is a constant in the calls that read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..analysis.properties import LEGALIZED, NORMAL_FORM, SHAPES_LOWERED, STORAGE_EXPLICIT
from ..expr import Binding, BindingBlock, Call, Constant, PrimValue, ShapeExpr, Tuple, Var, VarBinding
from ..ir import GlobalVar, IRModule, Op, RelaxExpr, StoredArray
from ..op import operator_of
from ..op.base import Operator
from ..op.intrinsic import Intrinsic
from ..op.intrinsics import CallTIR
from ..op.operator import legalize_call
from ..op.shapes import Reshape
from ..prim import IntImm
from ..struct_info import TensorStructInfo
from ..transform.decorators import module_pass
from ..transform.legalize_ops import Legalizer
from ..transform.rewrite_dataflow_reshape import private_in_block
from .general import CallSizes
from .kernels import is_known
from .store import Entry, Library

FORM: Final = "relax.library"
"""Attribute of PrimFuncs: digest of the kernel's general form."""


@module_pass(needs={NORMAL_FORM}, gives={LEGALIZED}, breaks={STORAGE_EXPLICIT, SHAPES_LOWERED})
def CallLibrary(mod: IRModule, library: Library) -> IRModule:
    """Replace each operator by a kernel of the library; see the module's docstring."""
    legalizer = _LibraryLegalizer(mod, library)
    result = legalizer.module()
    legalizer.finish()
    library.save_notes()
    return result


class _LibraryLegalizer(Legalizer):
    """Replaces each operator's call."""

    def __init__(self, mod: IRModule, library: Library) -> None:
        super().__init__(mod, {})
        self.library = library
        self.callees: dict[str, GlobalVar] = {}
        """Functions of the module, by the digest of the general form."""
        self.private: set[Var] = set()
        """Variables of the block whose values may share memory."""
        self.bound: Var | None = None
        """The variable that the call at hand is bound to."""

    def block(self, block: BindingBlock) -> BindingBlock:
        outer, self.private = self.private, set(private_in_block(block))
        new = super().block(block)
        self.private = outer
        return new

    def var_binding(self, binding: VarBinding) -> None:
        self.bound = binding.var
        super().var_binding(binding)

    def bind(self, binding: VarBinding, value: RelaxExpr, var: Var | None = None) -> Var:
        """Emit a binding; a view of a constant takes the place of its variable, where the machine would copy it."""
        if isinstance(value, Constant) and value is not binding.value and binding.var in self.private:
            self.variables[binding.var] = value
            return binding.var
        return super().bind(binding, value, var)

    def emitted(self, bindings: Sequence[Binding]) -> None:
        # What an operator was rewritten into is read there only.
        self.private.update(binding.var for binding in bindings)
        super().emitted(bindings)

    def call(self, call: Call) -> RelaxExpr:
        bound, self.bound = self.bound, None
        normal = self.parts(call)
        operator = operator_of(normal)
        if operator is None or not _is_lowered_as_declared(normal, operator):
            return super().call(normal)
        if operator.view:
            view = _reshaped_constant(normal) or (_view(normal) if bound in self.private else None)
            if view is not None:
                return view
        other = operator.for_all_sizes(normal)
        if other is not normal:
            result = self.apply(lambda builder, _: builder.normalize(other), normal)
            self.bound = bound  # the result is what the variable is bound to
            return self.rewrite(result)
        return self.library_call(normal, operator) or super().call(normal)

    def library_call(self, call: Call, operator: Operator) -> RelaxExpr | None:
        """Return a call of a kernel of the library; None if there is none for the call."""
        operands, info = CallSizes.of(call, operator), call.struct_info_
        if operands is None or info is None or not is_known(info):
            return None
        found = self.library.entry(call, operator, operands)
        if found is None:
            return None
        entry, partition = found
        kernel, values = entry.kernel, operands.arguments(partition)
        args = Tuple([operands.tensors[i] if i >= 0 else PrimValue(values[-1 - i]) for i in kernel.args])
        sizes = (ShapeExpr([values[i] for i in kernel.sizes]),) if kernel.sizes else ()
        return CallTIR().raw_call((self.callee(entry, operator), args, *sizes), (info,), call.span)

    def callee(self, entry: Entry, operator: Operator) -> GlobalVar:
        """Return the function of a kernel, added to the module when it is first called."""
        if entry.form not in self.callees:
            func = entry.kernel.func.with_attr({FORM: entry.form})
            self.callees[entry.form] = self.builder.add_func(func, operator.kernel_name())
        return self.callees[entry.form]


def _is_lowered_as_declared(call: Call, operator: Operator) -> bool:
    """True for an operator of this package that has a formula, or becomes other operators.

    What a program registers under a name may be something else in the next process.
    """
    if isinstance(operator, Intrinsic) or not operator.has_lowering() or not isinstance(call.op, Op):
        return False
    own = type(operator).__module__.partition(".")[0] == __name__.partition(".")[0]
    return own and call.op.get_attr("FLegalize") is legalize_call


def _view(call: Call) -> Call | None:
    """Return a view as a reshape to known sizes; None if they are not known."""
    data, info = call.args[0].struct_info_, call.struct_info_
    if not isinstance(data, TensorStructInfo) or not isinstance(info, TensorStructInfo) or info.dims is None:
        return None
    return Reshape().raw_call((call.args[0], ShapeExpr(info.dims)), span=call.span)


def _reshaped_constant(call: Call) -> Constant | None:
    """Return the constant that a view of a constant is, if its sizes are known."""
    data, info = call.args[0], call.struct_info_
    dims = info.dims if isinstance(info, TensorStructInfo) else None
    if not isinstance(data, Constant) or dims is None or not all(isinstance(size, IntImm) for size in dims):
        return None
    shape = [size.value for size in dims if isinstance(size, IntImm)]
    content: Any = data.content
    if isinstance(content, StoredArray):
        return Constant(StoredArray(content.file, content.offset, shape, content.dtype.name))
    return Constant(content.reshape(shape))
