"""Errors of operator inference: raised as OperatorError, shown as a Diagnostic.

An operator names the invalid operand; `diagnose` adds the span of the call, every operand with its struct info, and a
hint.

    error[E3102]: matmul: the reduced dimensions differ
       = x: R.Tensor((n, 784), "float32")      last dimension 784
       = w: R.Tensor((783, 128), "float32")    second to last dimension 783
       = help: transpose x or w, or match_cast it if its shape is only known at run time
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from ..expr import Tuple, Var
from ..info.text import struct_info_text
from ..ir import Diagnostic, DiagnosticError, GlobalVar, RelaxExpr, StructInfo
from ..ir.span import Span
from ..runtime.records import dataclass

OPERANDS: Final = "E3101"
"""Too many or too few operands, or an operand of the wrong kind."""
SHAPES: Final = "E3102"
"""Incompatible shapes."""
DTYPES: Final = "E3103"
"""A dtype that the operator does not accept, or two that disagree."""
AXES: Final = "E3104"
"""An axis that is out of range or repeated."""
ATTRIBUTES: Final = "E3105"
"""An attribute value that the operator does not accept."""
DEVICES: Final = "E3106"
"""Values that must be on one virtual device are on different ones."""
UNLISTED_DEVICE: Final = "E3107"
"""A virtual device that the module does not list."""


HINTS: Final = {
    OPERANDS: "give what relax.op.{name} takes: help() of it tells",
    SHAPES: "reshape or broadcast one of them; R.match_cast states a shape that is only known at run time",
    DTYPES: "R.astype converts",
    AXES: "axes count from 0, or from the end as -1",
    ATTRIBUTES: "help() of relax.op.{name} tells its attributes",
    "E3110": "say the output as R.Tensor(shape, dtype), or several of them in a list",
    "E3111": "pass what the PrimFunc declares: inputs, integers (tir_vars), outputs",
    "E3112": "give for each result the argument it reuses, or -1 for a fresh one",
}
"""Default hints for errors of operators, by code."""


_PLACEHOLDER: Final = re.compile(r"\{(\w+(?:\[\d+\])?)\}")


class OperatorError(Exception):
    """An error in the operands or attributes of an operator.

    `remarks` maps operands to notes; `operand` names the invalid operand, if a single one is. ``{x2}`` in the hint is
    replaced by the variable passed for operand x2.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        operand: str | None = None,
        remarks: Mapping[str, str] | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.operand = operand
        self.remarks = dict(remarks or {})
        self.hint = hint


class UnknownSizeError(OperatorError):
    """A size that an operator's formula needs as a constant is dynamic."""


@dataclass(frozen=True)
class Shown:
    """An operand of the failing call, for the notes of an error."""

    operand: str
    expr: RelaxExpr
    struct_info: StructInfo | None
    label: str = field(init=False)

    def __post_init__(self) -> None:
        name = self.expr.name_hint if isinstance(self.expr, (Var, GlobalVar)) else self.operand
        object.__setattr__(self, "label", name)


def diagnose(error: OperatorError, op_name: str, operands: Sequence[Shown], span: Span | None) -> DiagnosticError:
    """Convert an OperatorError to the Diagnostic shown to users."""
    heads = [f"{shown.label}: {_info_text(shown.struct_info)}" for shown in operands]
    width = max(map(len, heads), default=0)
    notes: list[str] = []
    for shown, head in zip(operands, heads, strict=True):
        remark = error.remarks.get(shown.operand, "")
        if not remark and shown.operand == error.operand and shown.label != shown.operand:
            remark = f"given as {shown.operand}"
        notes.append(f"{head:<{width}}    {remark}" if remark else head)
    message = f"{op_name}: {error.message}"
    hint = _with_names(error.hint, operands) or HINTS.get(error.code, "").format(name=op_name)
    return DiagnosticError(Diagnostic(error.code, message, span, notes=tuple(notes), hint=hint))


def _with_names(hint: str, operands: Sequence[Shown]) -> str:
    """Replace ``{operand}`` and ``{operand[0]}`` in a hint by the user's variables, or by these names if there are
    none.
    """
    for shown in operands:
        hint = hint.replace(f"{{{shown.operand}}}", shown.label)
        for index, element in enumerate(shown.expr.fields if isinstance(shown.expr, Tuple) else ()):
            label = element.name_hint if isinstance(element, Var) else f"{shown.operand}[{index}]"
            hint = hint.replace(f"{{{shown.operand}[{index}]}}", label)
    return _PLACEHOLDER.sub(r"\1", hint)


def _info_text(info: StructInfo | None) -> str:
    return "of unknown struct info" if info is None else struct_info_text(info)
