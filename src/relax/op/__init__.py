"""The operators of Relax: ``relax.op.add``, ``relax.op.nn.softmax``, ….

The functions come from the operator classes (see `relax.op.operator`), so that an operator is declared once.
Importing a family registers its operators; no family may have the name of an operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import binary, creation, hooks, linear_algebra, nn, selection, sets, shapes, statistical, unary
from .errors import OperatorError
from .operator import (
    Array,
    Operator,
    composite,
    infer_call,
    operator,
    operator_of,
    public_function,
    public_names,
)

FAMILIES = (binary, creation, hooks, linear_algebra, nn, selection, sets, shapes, statistical, unary)
"""The modules that declare operators."""

__all__ = [
    "FAMILIES",
    "Array",
    "Operator",
    "OperatorError",
    "composite",
    "infer_call",
    "nn",
    "operator",
    "operator_of",
]


def __getattr__(name: str) -> Callable[..., Any]:
    function = public_function(f"relax.{name}")
    if function is None:
        raise AttributeError(f"relax.op has no operator {name!r}")
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *public_names("relax.")})
