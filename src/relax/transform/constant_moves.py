"""Views and transpositions of constants, evaluated by passes that need the elements.

w = R.permute_dims(R.reshape(R.const(W), [64, 32]))     moves_of: ([permute_dims, reshape], R.const(W))
"""

# NumPy's stubs leave the results of transposing and reshape partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..dpl.rewrite import KnownValues
from ..expr import Call, Constant
from ..ir import RelaxExpr
from ..op import operator_of
from ..op.shapes import PermuteDims
from ..prim import IntImm
from ..struct_info import TensorStructInfo

Array: TypeAlias = "NDArray[Any]"


def moves_of(known: KnownValues, expr: RelaxExpr) -> tuple[list[Call], RelaxExpr]:
    """Return the chain of views and transpositions that ends in `expr`, last first, and their original operand."""
    moves: list[Call] = []
    value = known.value(expr)
    while isinstance(value, Call) and _is_move(value):
        moves.append(value)
        value = known.value(value.args[0])
    return moves, value


def moved_array(array: Array, moves: Sequence[Call]) -> Array | None:
    """Apply views and transpositions, last first, to an array; None if a shape is dynamic."""
    for call in reversed(moves):
        operator, info = operator_of(call), call.struct_info_
        if not isinstance(info, TensorStructInfo) or info.dims is None:
            return None
        sizes = [dim.value for dim in info.dims if isinstance(dim, IntImm)]
        if len(sizes) != len(info.dims):
            return None
        is_permuted = isinstance(operator, PermuteDims)
        array = np.transpose(array, operator.order(array.ndim)) if is_permuted else np.reshape(array, sizes)
    return array


def moved_constant(known: KnownValues, expr: RelaxExpr) -> Array | None:
    """Return the elements of a constant behind views and transpositions; None for any other value."""
    moves, value = moves_of(known, expr)
    return moved_array(value.data.numpy(), moves) if isinstance(value, Constant) else None


def _is_move(call: Call) -> bool:
    """True for a view or transposition of the first operand."""
    operator = operator_of(call)
    return operator is not None and (operator.view or isinstance(operator, PermuteDims))


__all__ = ["moved_array", "moved_constant", "moves_of"]
