"""Constants that a program reshapes and transposes before it reads them, for passes that compute with their elements.

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
    """Return the operators that move elements of a value, the last one first, and the value they start from."""
    moves: list[Call] = []
    value = known.value(expr)
    while isinstance(value, Call) and _is_move(value):
        moves.append(value)
        value = known.value(value.args[0])
    return moves, value


def moved_array(array: Array, moves: Sequence[Call]) -> Array | None:
    """An array as operators move it, of which the last one stands first; None where a shape is not known."""
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
    """Return the elements of a constant, moved as the program moves them, or None for any other value."""
    moves, value = moves_of(known, expr)
    return moved_array(value.data.numpy(), moves) if isinstance(value, Constant) else None


def _is_move(call: Call) -> bool:
    """True if the result has all elements of the first operand, in another shape or order of dimensions."""
    operator = operator_of(call)
    return operator is not None and (operator.view or isinstance(operator, PermuteDims))


__all__ = ["moved_array", "moved_constant", "moves_of"]
