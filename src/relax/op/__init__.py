"""The operators of Relax: ``relax.op.add``, ``relax.op.nn.softmax``, ….

The functions come from the operator classes (see `relax.op.operator`), so that an operator is declared once.
Importing a family registers its operators; no family may have the name of an operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    memory_view,
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
    te_gradients,
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
    namespace,
    operator,
    operator_class,
    operator_of,
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
    memory_view,
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
    te_gradients,
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

if TYPE_CHECKING:
    from ._signatures import *  # noqa: F403
else:
    __getattr__, _operators = namespace("relax.")

    def __dir__() -> list[str]:
        return sorted({*__all__, *_operators()})


_answer_missing(__name__)
