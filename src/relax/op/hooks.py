"""Python's operators on Relax expressions: ``x + 1`` is ``relax.op.add(x, 1)``."""

from __future__ import annotations

from ..expr import register_operator_hooks
from . import binary, linear_algebra, unary
from .operator import Operator, public_function

CLASSES: dict[str, type[Operator]] = {
    "add": binary.Add,
    "astype": unary.Astype,
    "bitwise_not": unary.BitwiseNot,
    "divide": binary.Divide,
    "floor_divide": binary.FloorDivide,
    "greater": binary.Greater,
    "greater_equal": binary.GreaterEqual,
    "less": binary.Less,
    "less_equal": binary.LessEqual,
    "logical_not": unary.LogicalNot,
    "matmul": linear_algebra.Matmul,
    "mod": binary.Mod,
    "multiply": binary.Multiply,
    "negative": unary.Negative,
    "power": binary.Power,
    "subtract": binary.Subtract,
}
"""The class that each Python operator builds. As in TVM, ``%`` is `mod`, with the dividend's sign, not `floor_mod`."""

PYTHON_OPERATORS: dict[str, type[Operator]] = {
    "Add": binary.Add,
    "Sub": binary.Subtract,
    "Mult": binary.Multiply,
    "Div": binary.Divide,
    "FloorDiv": binary.FloorDivide,
    "Mod": binary.Mod,
    "Pow": binary.Power,
    "MatMult": linear_algebra.Matmul,
    "Lt": binary.Less,
    "LtE": binary.LessEqual,
    "Gt": binary.Greater,
    "GtE": binary.GreaterEqual,
    "USub": unary.Negative,
    "Not": unary.LogicalNot,
    "Invert": unary.BitwiseNot,
}
"""The operator that a script's Python operator builds, by the class of Python's syntax node."""

register_operator_hooks(
    {
        name: function
        for name, cls in CLASSES.items()
        if (function := public_function(cls.op_name)) is not None
    }
)
