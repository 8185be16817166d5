"""Operators on elements, and reductions, in a row each.

A number among the operands takes the dtype of the tensor beside it.
"""

from __future__ import annotations

from .lift import Binary, Reduction, Unary, lifted

relu: Unary = lifted("relu", operands="x")
relu6: Unary = lifted("relu6", operands="x")
silu: Unary = lifted("silu", operands="x")
sigmoid: Unary = lifted("sigmoid")
tanh: Unary = lifted("tanh")
exp: Unary = lifted("exp")
log: Unary = lifted("log")
floor: Unary = lifted("floor")
square: Unary = lifted("square")
sqrt: Unary = lifted("sqrt")
negative: Unary = lifted("negative", "neg")

add: Binary = lifted("add", operands="a b")
subtract: Binary = lifted("subtract", operands="a b")
multiply: Binary = lifted("multiply", "mul", operands="a b")
divide: Binary = lifted("divide", operands="a b")
maximum: Binary = lifted("maximum")
minimum: Binary = lifted("minimum")
less: Binary = lifted("less", operands="a b")
less_equal: Binary = lifted("less_equal", operands="a b")
greater: Binary = lifted("greater", operands="a b")
greater_equal: Binary = lifted("greater_equal", operands="a b")
equal: Binary = lifted("equal", operands="a b")
not_equal: Binary = lifted("not_equal", operands="a b")

sum: Reduction = lifted("sum")
max: Reduction = lifted("max")
min: Reduction = lifted("min")
