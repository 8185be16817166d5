"""Operators of Relax: ``relax.op.add``, ``relax.op.nn.softmax``, ….

The functions are derived from operator classes (see `relax.op.operator`), so an operator is declared once. A family, a
module that declares operators, is loaded when one of its operators is first used; `_operators.py` maps operators to
families. A family must not have the name of an operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing as _answer_missing
from .errors import OperatorError
from .operator import (
    Array,
    Operator,
    composite,
    infer_call,
    is_call_of,
    namespace,
    operator,
    operator_class,
    operator_of,
)

__all__ = [
    "Array", "Operator", "OperatorError", "builtin", "ccl", "composite", "distributed", "grad", "image",
    "infer_call", "inspect", "is_call_of", "memory", "nn", "operator", "operator_class", "operator_of", "random",
    "vision", "vm",
]  # fmt: skip

if TYPE_CHECKING:
    from . import builtin, ccl, distributed, grad, image, inspect, memory, nn, random, vision, vm
    from ._signatures import *  # noqa: F403
else:
    __getattr__, _operators = namespace("relax.", __name__)

    def __dir__() -> list[str]:
        return sorted({*__all__, *_operators()})


_answer_missing(__name__)
