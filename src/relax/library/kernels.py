"""Kernels of the library: a PrimFunc over variable sizes for the general form of a call (`general`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from ..block_builder import BlockBuilder
from ..expr import Call, Function, PrimValue, ShapeExpr, Tuple, VarBinding
from ..ir import DiagnosticError, GlobalVar, StructInfo
from ..ir.transform import PassContext
from ..op import is_call_of
from ..op.base import Operator
from ..op.dims import collect_checks
from ..op.intrinsics import CallTIR
from ..rewrite import bindings_in
from ..struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from ..tir.stmt import PrimFunc
from ..transform.legalize_ops import LegalizeOps
from ..transform.runtime_dispatch import DISPATCH
from .general import CallSizes, GeneralCall, Partition


@dataclass(frozen=True)
class Kernel:
    """A PrimFunc, and how a call passes its operands to it."""

    func: PrimFunc
    args: tuple[int, ...]
    """For each argument the tensor among the call's, by number, or -1 - the number of a variable."""
    sizes: tuple[int, ...]
    """The variables, by number, that are passed as sizes which no argument has."""


def kernel_of(call: Call, operator: Operator, operands: CallSizes) -> tuple[Partition, Kernel] | None:
    """Return the kernel of the most general form of a call that is as well-typed as the call; None if it has none."""
    if operator.rank_depends_on_sizes:
        return None
    partition = _most_general(call, operator, operands)
    kernel = None if partition is None else _kernel(operator, GeneralCall.of(call, operator, operands, partition))
    return None if partition is None or kernel is None else (partition, kernel)


def _most_general(call: Call, operator: Operator, operands: CallSizes) -> Partition | None:
    """Return the partition with the fewest equal sizes that leaves no more to be checked at run time than the call."""
    classes = operands.classes
    most = _checks(call, operator, operands, classes)
    if most is None:
        return None

    def serves(partition: Sequence[int]) -> bool:
        count = _checks(call, operator, operands, tuple(partition))
        return count is not None and count <= most

    chosen = [number if number < 0 else i for i, number in enumerate(classes)]
    if not serves(chosen):
        chosen = list(classes)
        for i, number in enumerate(classes):
            if number >= 0 and chosen.count(number) > 1:
                chosen[i] = len(classes) + i
                if not serves(chosen):
                    chosen[i] = number
    several = [2 * len(classes) + i if i in operands.ones else number for i, number in enumerate(chosen)]
    if serves(several):
        return _renumbered(several)
    for i in operands.ones:
        chosen[i] = several[i]
        if not serves(chosen):
            chosen[i] = -1
    return _renumbered(chosen)


def _renumbered(partition: Sequence[int]) -> Partition:
    numbers: dict[int, int] = {}
    return tuple(-1 if number < 0 else numbers.setdefault(number, len(numbers)) for number in partition)


def _checks(call: Call, operator: Operator, operands: CallSizes, partition: Partition) -> int | None:
    """Number of conditions on sizes that the general form's kernel checks when it runs.

    Returns None if the form is ill-typed, or its result has an unknown dimension.
    """
    general = GeneralCall.of(call, operator, operands, partition)
    builder = BlockBuilder()
    try:
        with builder.testing_scope(general.variables), collect_checks() as checks:
            info = builder.normalize(general.function.body).struct_info
    except DiagnosticError:
        return None
    return len(checks) if is_known(info) else None


def is_known(info: StructInfo) -> bool:
    """True if the rank, the dimensions and the dtype of each tensor are known."""
    match info:
        case TensorStructInfo():
            return info.dims is not None and not info.dtype.is_void
        case TupleStructInfo(fields):
            return all(map(is_known, fields))
        case _:
            return False


def _kernel(operator: Operator, general: GeneralCall) -> Kernel | None:
    """Return the kernel of a general form; None unless it becomes a single call_tir of operands and variables."""
    builder = BlockBuilder()
    try:
        with PassContext(config={DISPATCH: False}):
            with builder.function("main", general.function.params):
                builder.emit_func_output(builder.emit(general.function.body, operator.kernel_name()))
            module = LegalizeOps()(builder.get())
    except DiagnosticError:
        return None
    main = cast(Function, module["main"])
    bindings = list(bindings_in(main))
    call = bindings[0].value if len(bindings) == 1 and isinstance(bindings[0], VarBinding) else None
    if not isinstance(call, Call) or not is_call_of(call, CallTIR):
        return None
    callee, args, *rest = call.args
    count = len(general.variables)
    numbers: dict[object, int] = {param: i for i, param in enumerate(main.params[count:])}
    numbers |= {cast(PrimStructInfo, param.struct_info).value: -1 - i for i, param in enumerate(main.params[:count])}
    given = [arg.value if isinstance(arg, PrimValue) else arg for arg in cast(Tuple, args).fields]
    sizes = list(cast(ShapeExpr, rest[0]).values) if rest else []
    if not all(arg in numbers for arg in (*given, *sizes)):
        return None
    func = cast(PrimFunc, module[cast(GlobalVar, callee)])
    return Kernel(func, tuple(numbers[arg] for arg in given), tuple(-1 - numbers[size] for size in sizes))
