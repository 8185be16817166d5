"""The operators of Relax: ``relax.op.add``, ``relax.op.nn.softmax``, ….

The functions come from the operator classes (see `relax.op.operator`), so that an operator is declared once.
Importing a family registers its operators; no family may have the name of an operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.tvm_names import answer_missing as _answer_missing
from . import (
    binary,
    builtin,
    ccl,
    collapse,
    contraction,
    creation,
    distributed,
    gather,
    grad,
    hooks,
    image,
    inspect,
    intrinsics,
    layout,
    linear_algebra,
    matrices,
    memory,
    nn,
    pieces,
    pool_grad,
    qdq,
    random,
    recurrent,
    sampling,
    saturating,
    scatter,
    selection,
    sets,
    shapes,
    sorting,
    statistical,
    storage,
    ternary,
    unary,
    vision,
    vm,
)
from .errors import OperatorError
from .operator import (
    Array,
    Operator,
    composite,
    infer_call,
    is_call_of,
    operator,
    operator_class,
    operator_of,
    public_function,
    public_names,
)

FAMILIES = (
    binary,
    ccl,
    collapse,
    contraction,
    creation,
    distributed,
    gather,
    grad,
    hooks,
    image,
    inspect,
    intrinsics,
    layout,
    linear_algebra,
    matrices,
    nn,
    pieces,
    pool_grad,
    qdq,
    random,
    recurrent,
    sampling,
    saturating,
    scatter,
    selection,
    sets,
    shapes,
    sorting,
    statistical,
    storage,
    ternary,
    unary,
    vision,
)
"""The modules that declare operators."""

__all__ = [
    "FAMILIES",
    "Array",
    "Operator",
    "OperatorError",
    "builtin",
    "ccl",
    "composite",
    "distributed",
    "grad",
    "image",
    "infer_call",
    "inspect",
    "is_call_of",
    "memory",
    "nn",
    "operator",
    "operator_class",
    "operator_of",
    "random",
    "vision",
    "vm",
]


def __getattr__(name: str) -> Callable[..., Any]:
    function = public_function(f"relax.{name}")
    if function is None:
        raise AttributeError(f"relax.op has no operator {name!r}")
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *public_names("relax.")})


_answer_missing(__name__)
