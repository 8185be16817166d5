"""The base of intrinsics: operators that lowering passes and the interpreter carry out through methods of the class.

`builtin` and `builtin_arguments` say what VMBuiltinLower makes of a call, `execute` what its value is. The kinds of
calls are classes: in destination-passing style, of packed functions, with the arguments in a tuple.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from ..expr import Call
from ..ir import RelaxExpr, StructInfo, VDevice
from ..struct_info import FuncStructInfo, ObjectStructInfo, TupleStructInfo
from .errors import OPERANDS, OperatorError
from .operator import Operator

UNIT = TupleStructInfo(())


class IntrinsicServices(Protocol):
    """The services of the interpreter to an intrinsic; those that run functions return an evaluation in steps."""

    def builtin(self, name: str, values: Sequence[Any]) -> Any:
        """The result of a runtime builtin."""
        ...

    def apply(self, function: Any, args: Sequence[Any]) -> Any:
        """Steps: call a function value."""
        ...

    def invoke(self, call: Call, function: Any, args: Sequence[Any]) -> Any:
        """Steps: call a function value, and check the result against the sinfo_args of the call."""
        ...

    def call_kernel(
        self, call: Call, function: Any, inputs: Any, integers: Any, reused: Sequence[int] | None = None
    ) -> Any:
        """Steps: call a function with inputs, integers and outputs, and return the outputs.

        Output i is a fresh tensor, or input `reused[i]` where that is not negative.
        """
        ...

    def allocate(self, shape: Any, dtype: Any, device: int) -> Any:
        """A fresh tensor on a device of the module's list."""
        ...

    def allocate_storage(self, size: Any, dtype: Any, device: int) -> Any:
        """Memory for `size` elements on a device of the module's list."""
        ...

    def to_vdevice(self, tensor: Any, vdevice: VDevice) -> Any:
        """The tensor on a virtual device."""
        ...


class Lowering(Protocol):
    """The services of VMBuiltinLower to an intrinsic."""

    def fields(self, args: RelaxExpr) -> Sequence[RelaxExpr]:
        """The fields of a tuple, taken out of it one by one if it is a variable."""
        ...

    def device(self, vdevice: VDevice | None, expr: RelaxExpr) -> RelaxExpr:
        """The index of a virtual device, as an argument; `expr` is where an error is shown."""
        ...


class Intrinsic(Operator):
    """The base of operators without a formula: LegalizeOps leaves them to later passes."""

    __slots__ = ()

    builtin: ClassVar[str] = ""
    """The runtime builtin that a call becomes; "" if none does the work."""
    named_callee: ClassVar[bool] = False
    """True if the first operand may be written as the name of a packed function."""

    def builtin_arguments(self, call: Call, lowering: Lowering) -> Sequence[RelaxExpr]:
        """The arguments of `builtin`."""
        return call.args

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        """The value of a call whose arguments have these values, or an evaluation of it in steps."""
        return machine.builtin(self.builtin, values)


class DestinationPassing(Intrinsic):
    """The base of calls of functions that write to outputs: sinfo_args describe the outputs, which are returned."""

    __slots__ = ()

    takes_sinfo_args: ClassVar[bool] = True
    allocates: ClassVar[bool] = True
    """True if every output is a tensor that the call allocates, so that nothing else shares its storage."""

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        function, inputs, *integers = values
        return machine.call_kernel(call, function, inputs, tuple(*integers))


class PackedCall(Intrinsic):
    """The base of calls of packed functions with a promise about their effects."""

    __slots__ = ()

    takes_sinfo_args: ClassVar[bool] = True
    propagates_vdevice: ClassVar[bool] = False
    named_callee: ClassVar[bool] = True

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        return machine.invoke(call, values[0], values[1:])


class TupleCall(Intrinsic):
    """The base of calls whose arguments come as one tuple."""

    __slots__ = ()

    def builtin_arguments(self, call: Call, lowering: Lowering) -> Sequence[RelaxExpr]:
        return call.args[0], *lowering.fields(call.args[1])

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        return machine.invoke(call, *values)


def result_of(sinfo_args: tuple[StructInfo, ...]) -> StructInfo:
    """Object for no sinfo_args, the one given, a Tuple of several."""
    if not sinfo_args:
        return ObjectStructInfo()
    return sinfo_args[0] if len(sinfo_args) == 1 else TupleStructInfo(sinfo_args)


def require_tuple(args: StructInfo) -> None:
    """Complain unless the arguments are a tuple, or a value that may be one."""
    if not isinstance(args, (TupleStructInfo, ObjectStructInfo)):
        raise OperatorError(OPERANDS, f"args must be a tuple, found {args}", operand="args")


def require_function(func: StructInfo) -> None:
    """Complain unless the callee is a function, or a value that may be one."""
    if not isinstance(func, (FuncStructInfo, ObjectStructInfo)):
        raise OperatorError(OPERANDS, f"the callee must be a function, found {func}", operand="func")
