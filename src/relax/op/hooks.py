"""Python's operators on Relax expressions: ``x + 1`` is ``relax.op.add(x, 1)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..expr import register_operator_hooks
from .operator import public_function

METHODS: Final = (
    "add", "astype", "bitwise_not", "divide", "floor_divide", "greater", "greater_equal", "less", "less_equal",
    "logical_not", "matmul", "mod", "multiply", "negative", "power", "subtract",
)  # fmt: skip
"""Operators built by methods of expressions. As in TVM, ``%`` is `mod`, with the dividend's sign, not `floor_mod`."""

PYTHON_OPERATORS: Final[dict[str, str]] = {
    "Add": "relax.add",
    "Sub": "relax.subtract",
    "Mult": "relax.multiply",
    "Div": "relax.divide",
    "FloorDiv": "relax.floor_divide",
    "Mod": "relax.mod",
    "Pow": "relax.power",
    "MatMult": "relax.matmul",
    "Lt": "relax.less",
    "LtE": "relax.less_equal",
    "Gt": "relax.greater",
    "GtE": "relax.greater_equal",
    "USub": "relax.negative",
    "Not": "relax.logical_not",
    "Invert": "relax.bitwise_not",
}
"""Operator built by a Python operator in scripts, keyed by the class of its syntax node."""


def _builder(name: str) -> Callable[..., Any]:
    """Function of an operator, which is loaded at its first call."""

    def build(*operands: Any) -> Any:
        function = public_function(name)
        if function is None:
            raise TypeError(f"there is no operator {name}")
        return function(*operands)

    return build


register_operator_hooks({name: _builder(f"relax.{name}") for name in METHODS})
