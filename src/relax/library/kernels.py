"""Kernels of the library: a PrimFunc over variable sizes for the general form of a call (`general`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

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
from .general import CallSizes, GeneralCall, Partition, renumbered

PAIRED: Final = 12
"""Largest class of equal sizes of which pairs are tried."""


@dataclass(frozen=True)
class Kernel:
    """A PrimFunc, and how a call passes its operands to it."""

    func: PrimFunc
    args: tuple[int, ...]
    """For each argument the tensor among the call's, by number, or -1 - the number of a variable."""
    sizes: tuple[int, ...]
    """The variables, by number, that are passed as sizes which no argument has."""


def kernel_of(call: Call, operator: Operator, operands: CallSizes, partition: Partition) -> Kernel | None:
    """Return the kernel of a call's general form; None if the call is not lowered to one call_tir."""
    return _kernel(operator, GeneralCall.of(call, operator, operands, partition))


def most_general(call: Call, operator: Operator, operands: CallSizes, most: int | None = None) -> Partition | None:
    """Return the partition with the fewest equal sizes that leaves no more to be checked at run time than the call.

    Returns None if the call is ill-typed, the dimensions of its result are unknown, or it leaves more than `most`
    checks.
    """
    classes = operands.classes
    checks = _checks(call, operator, operands, classes)
    if checks is None or (most is not None and checks > most):
        return None
    allowed = checks

    def serves(partition: Sequence[int]) -> bool:
        count = _checks(call, operator, operands, tuple(partition))
        return count is not None and count <= allowed

    chosen = [number if number < 0 else i for i, number in enumerate(classes)]
    if not serves(chosen):
        chosen = _split(operands, serves)
    several = [2 * len(classes) + i if i in operands.ones else number for i, number in enumerate(chosen)]
    if operands.ones and not serves(several):
        for i in operands.ones:
            chosen[i] = several[i]
            if not serves(chosen):
                chosen[i] = -1
    elif operands.ones:
        chosen = several
    return renumbered(None if number < 0 else number for number in chosen)


def _split(operands: CallSizes, serves: Callable[[Sequence[int]], bool]) -> list[int]:
    """Return a partition that serves with the classes of a call split as far as possible.

    Sizes leave their class one by one, then together with those of the same axis of other operands, counted from the
    last or the first one, as in broadcasting; then in pairs, as in products.
    """
    chosen = list(operands.classes)
    new = len(chosen)

    def leave(group: Sequence[int]) -> None:
        nonlocal new
        before = [chosen[at] for at in group]
        if len(set(before)) > 1 or before[0] < 0 or chosen.count(before[0]) == len(group):
            return
        for at in group:
            chosen[at] = new
        if serves(chosen):
            new += 1
        else:
            for at, number in zip(group, before, strict=True):
                chosen[at] = number

    places = range(len(chosen))
    for at in places:
        leave([at])
    for end in (1, 0):
        for at in places:
            axis = operands.axes[at][end]
            leave([i for i in places if chosen[i] == chosen[at] and operands.axes[i][end] == axis])
    for pair in itertools.combinations(places, 2):
        if chosen[pair[0]] == chosen[pair[1]] and 2 < chosen.count(chosen[pair[0]]) <= PAIRED:
            leave(pair)
    return chosen


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
