"""Gradients of kernels: ``call_tir_with_grad``, and the functions of tensor expressions that it names.

@relax.training.utils.register_te_gradient("scale_grad")
def scale_grad(output_grad, x, factor=1.0):
    return [topi.multiply(output_grad, factor)]

R.call_tir_with_grad(cls.scale, (x,), R.Tensor((n,), "float32"), te_grad_name="scale_grad",
                     te_grad_kwargs={"factor": 2.0})
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from .. import te, topi
from ..expr import Call, Tuple, TupleGetItem
from ..ir import RelaxExpr, StructInfo, child
from ..struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .arguments import InfoLike, ShapeLike, TupleLike
from .base import Gradients, Term
from .errors import ATTRIBUTES, OperatorError
from .intrinsics import CallTIR
from .known import known_struct_info
from .operator import operator
from .te_call import call_te
from .tir_calls import as_arguments, as_callee, as_output, as_shape

TEGradient = Callable[..., Any]
"""A function from the gradient of the result (a list for several results) and a kernel's arguments, as te.Tensors, to
the list of the arguments' gradients."""

_FUNCTIONS: dict[str, TEGradient] = {}


def register_te_gradient(te_grad_name: str, te_grad_func: TEGradient | None = None) -> Any:
    """Register a gradient under the name by which ``R.call_tir_with_grad(..., te_grad_name=...)`` refers to it.

    Without `te_grad_func`, a decorator. The gradient is called as
    ``te_grad_func(output_grad, *args, **te_grad_kwargs)``, and returns a list of te.Tensors, one per argument. A later
    registration replaces an earlier one of the same name.
    """

    def register(function: TEGradient) -> TEGradient:
        _FUNCTIONS[te_grad_name] = function
        return function

    return register if te_grad_func is None else register(te_grad_func)


def _kwargs(value: Any) -> dict[str, Any]:
    return {} if value is None else dict(cast("Mapping[str, Any]", value))


@operator("relax.call_tir_with_grad")
class CallTIRWithGrad(CallTIR):
    """Like call_tir, of a kernel whose gradient is the registered function `te_grad_name` of tensor expressions.

    `te_grad_kwargs` are further arguments of that function.
    """

    te_grad_name: str = ""
    te_grad_kwargs: Any = child(default=None, converter=_kwargs)

    def infer(self, gvar: StructInfo, args: StructInfo, tir_vars: ShapeStructInfo | None = None) -> StructInfo: ...

    def gradient_of_call(self, builder: Any, call: Call, result: Term, grad: Term) -> Gradients | None:
        """Build the call_tir of the kernel of all gradients. Raises OperatorError if a gradient cannot be built."""
        function = _FUNCTIONS.get(self.te_grad_name)
        if function is None:
            raise self._refused(
                "no gradient of this name is registered",
                "register it: @relax.training.utils.register_te_gradient(name)",
            )
        fields = _fields(call.args[1])
        if not all(map(_has_shape, (*fields, result))):
            return None

        def distinct(*operands: Any, **kwargs: Any) -> list[te.Tensor]:
            return _distinct(function(*operands, **kwargs), operands)

        name = re.sub(r"\W", "_", self.te_grad_name)
        gradients = call_te(builder, distinct, (grad, *fields), self.te_grad_kwargs, name, None)
        (info,) = gradients.sinfo_args
        count = len(info.fields) if isinstance(info, TupleStructInfo) else 1
        if count != len(fields):
            message = f"it gives {count} gradients for {len(fields)} arguments"
            raise self._refused(message, "let it return a list with one tensor for each argument")
        whole = gradients if isinstance(info, TupleStructInfo) else Tuple((gradients,))
        return (None, whole, *[None] * (len(call.args) - 2))

    def _refused(self, message: str, hint: str) -> OperatorError:
        text = f"call_tir_with_grad names the gradient {self.te_grad_name!r}: {message}"
        return OperatorError(ATTRIBUTES, text, hint=hint)

    @staticmethod
    def make(  # pyright: ignore[reportIncompatibleMethodOverride] (nobody calls it through the base)
        gvar: RelaxExpr,
        args: TupleLike,
        out_sinfo: InfoLike | None = None,
        te_grad_name: str = "",
        te_grad_kwargs: Mapping[str, Any] | None = None,
        tir_vars: ShapeLike | None = None,
    ) -> Call:
        name = "call_tir_with_grad"
        out = as_output(name, out_sinfo, None)
        instance = CallTIRWithGrad(te_grad_name, te_grad_kwargs)
        callee, operands = as_callee(name, gvar), as_arguments(name, args)
        return instance.call(callee, operands, as_shape(name, tir_vars)).replace(sinfo_args=(out,))


def _distinct(results: Any, operands: Sequence[Any]) -> list[te.Tensor]:
    """Copy gradients that are an operand or occur twice, so that all results are distinct tensors."""
    distinct: list[te.Tensor] = []
    for result in cast("Sequence[te.Tensor]", results if isinstance(results, (list, tuple)) else [results]):
        taken = any(result is tensor for tensor in (*_tensors(operands), *distinct))
        distinct.append(topi.identity(result) if taken else result)
    return distinct


def _tensors(operands: Sequence[Any]) -> list[Any]:
    return [
        tensor
        for operand in operands
        for tensor in (cast("list[Any]", operand) if isinstance(operand, list) else [operand])
    ]


def _fields(args: RelaxExpr) -> Sequence[RelaxExpr]:
    """Arguments of a kernel, also those of a tuple in a variable."""
    if isinstance(args, Tuple):
        return args.fields
    info = known_struct_info(args)
    count = len(info.fields) if isinstance(info, TupleStructInfo) else 0
    return [TupleGetItem(args, i) for i in range(count)]


def _has_shape(expr: RelaxExpr) -> bool:
    info = known_struct_info(expr)
    fields = info.fields if isinstance(info, TupleStructInfo) else [info]
    return all(isinstance(field, TensorStructInfo) and field.dims is not None for field in fields)
