"""Base class of intrinsics: operators that lowering passes and the interpreter carry out through methods of the class.

`builtin` and `builtin_arguments` define how VMBuiltinLower lowers a call, `execute` how the interpreter evaluates it.
The kinds of calls are classes: in destination-passing style, of packed functions, with the arguments in a tuple.
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
    """Services that the interpreter offers to intrinsics; methods that run functions return an evaluation in steps."""

    def builtin(self, name: str, values: Sequence[Any]) -> Any:
        """Return the result of a runtime builtin."""
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
        """Allocate a tensor on a device of the module's list."""
        ...

    def allocate_storage(self, size: Any, dtype: Any, device: int) -> Any:
        """Allocate a storage of `size` elements on a device of the module's list."""
        ...

    def to_vdevice(self, tensor: Any, vdevice: VDevice) -> Any:
        """Move a tensor to a virtual device."""
        ...


class Lowering(Protocol):
    """Services that VMBuiltinLower offers to intrinsics."""

    def fields(self, args: RelaxExpr) -> Sequence[RelaxExpr]:
        """Fields of a tuple; those of a variable are extracted one by one."""
        ...

    def device(self, vdevice: VDevice | None, expr: RelaxExpr) -> RelaxExpr:
        """Index of a virtual device, as an argument; errors are reported at `expr`."""
        ...


class Intrinsic(Operator):
    """Base class of operators without a formula: LegalizeOps leaves them to later passes."""

    __slots__ = ()

    builtin: ClassVar[str] = ""
    """Runtime builtin to which a call is lowered; "" if there is none."""
    named_callee: ClassVar[bool] = False
    """True if the first operand may be written as the name of a packed function."""

    def builtin_arguments(self, call: Call, lowering: Lowering) -> Sequence[RelaxExpr]:
        """Arguments of `builtin`."""
        return call.args

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        """Evaluate a call with these argument values; returns the value, or an evaluation of it in steps."""
        return machine.builtin(self.builtin, values)


class DestinationPassing(Intrinsic):
    """Base class of calls of functions that write to outputs. `sinfo_args` describe the outputs, which are returned."""

    __slots__ = ()

    takes_sinfo_args: ClassVar[bool] = True
    allocates: ClassVar[bool] = True
    """True if the call allocates every output as a tensor, so no output aliases another value."""

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        function, inputs, *integers = values
        return machine.call_kernel(call, function, inputs, tuple(*integers))


class PackedCall(Intrinsic):
    """Base class of calls of packed functions with annotated effects."""

    __slots__ = ()

    takes_sinfo_args: ClassVar[bool] = True
    propagates_vdevice: ClassVar[bool] = False
    named_callee: ClassVar[bool] = True

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        return machine.invoke(call, values[0], values[1:])


class TupleCall(Intrinsic):
    """Base class of calls whose arguments come as one tuple."""

    __slots__ = ()

    def builtin_arguments(self, call: Call, lowering: Lowering) -> Sequence[RelaxExpr]:
        return call.args[0], *lowering.fields(call.args[1])

    def execute(self, machine: IntrinsicServices, call: Call, *values: Any) -> Any:
        return machine.invoke(call, *values)


def result_of(sinfo_args: tuple[StructInfo, ...]) -> StructInfo:
    """Struct info of a result from `sinfo_args`: Object for none, the only one, or a Tuple of several."""
    if not sinfo_args:
        return ObjectStructInfo()
    return sinfo_args[0] if len(sinfo_args) == 1 else TupleStructInfo(sinfo_args)


def require_tuple(args: StructInfo) -> None:
    """Raise OperatorError unless the arguments are a tuple or a value that may be a tuple."""
    if not isinstance(args, (TupleStructInfo, ObjectStructInfo)):
        raise OperatorError(OPERANDS, f"args must be a tuple, found {args}", operand="args")


def require_function(func: StructInfo) -> None:
    """Raise OperatorError unless the callee is a function or a value that may be a function."""
    if not isinstance(func, (FuncStructInfo, ObjectStructInfo)):
        raise OperatorError(
            OPERANDS,
            f"the callee must be a function, found {func}",
            operand="func",
            hint="give a function of the module, or the name of a packed function",
        )
