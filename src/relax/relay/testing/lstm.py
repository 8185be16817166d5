"""LSTM cells (S. Hochreiter and J. Schmidhuber, "Long short-term memory", 1997), unrolled."""

from __future__ import annotations

from typing import Any

from ...ir import IRModule
from ...runtime import NDArray
from .. import calls
from ..analysis import free_vars
from ..calls import operator_function
from ..expr import Call, Expr, Function, Let, Tuple, TupleGetItem, Var
from ..types import TensorType, TupleType
from .init import create_workload

nn = calls.Namespace("nn")


def lstm_cell(num_hidden: int, batch_size: Any = 1, dtype: str = "float32", name: str = "") -> Function:
    """A cell: ``fn(inputs, (hidden, memory), weights and biases) -> (output, (hidden, memory))``."""
    types = _Types(num_hidden, batch_size, dtype)
    inputs, states = Var("inputs", types.batch), Var("states", types.state)
    i2h_weight, i2h_bias = Var("i2h_weight", types.weight), Var("i2h_bias", types.bias)
    h2h_weight, h2h_bias = Var("h2h_weight", types.weight), Var("h2h_bias", types.bias)
    hidden, memory = TupleGetItem(states, 0), TupleGetItem(states, 1)
    i2h: Any = nn.bias_add(nn.dense(inputs, i2h_weight, units=4 * num_hidden), i2h_bias, axis=-1)
    h2h: Any = nn.bias_add(nn.dense(hidden, h2h_weight, units=4 * num_hidden), h2h_bias, axis=-1)
    gates = operator_function("split")(i2h + h2h, indices_or_sections=4, axis=1)
    sigmoid, tanh = operator_function("sigmoid"), operator_function("tanh")
    enter, forget, change, leave = sigmoid(gates[0]), sigmoid(gates[1]), tanh(gates[2]), sigmoid(gates[3])
    next_memory = forget * memory + enter * change
    next_hidden = leave * tanh(next_memory)
    body = Tuple([next_hidden, Tuple([next_hidden, next_memory])])
    params = [inputs, states, i2h_weight, i2h_bias, h2h_weight, h2h_bias]
    attrs = {"name": name} if name else None
    return Function(params, body, TupleType([types.batch, types.state]), attrs=attrs)


class _Types:
    def __init__(self, num_hidden: int, batch_size: Any, dtype: str) -> None:
        self.batch = TensorType((batch_size, num_hidden), dtype)
        self.weight = TensorType((4 * num_hidden, num_hidden), dtype)
        self.bias = TensorType((4 * num_hidden,), dtype)
        self.state = TupleType([self.batch, self.batch])


def get_net(iterations: int, num_hidden: int, batch_size: Any = 1, dtype: str = "float32") -> Function:
    """Network of `iterations` cells with separate weights, from zero states; %data is the input of every cell."""
    types = _Types(num_hidden, batch_size, dtype)
    data = Var("data", types.batch)
    zeros = Var("zeros", types.batch)
    states: Expr = Tuple([zeros, zeros])
    out: Expr = zeros
    bindings: list[tuple[Var, Expr]] = [(zeros, operator_function("zeros_like")(data))]
    for i in range(iterations):
        weights = [
            Var(f"{connection}_{i}_{role}", type_)
            for connection in ("i2h", "h2h")
            for role, type_ in (("weight", types.weight), ("bias", types.bias))
        ]
        call = Var(f"call_{i}", TupleType([types.batch, types.state]))
        bindings.append((call, Call(lstm_cell(num_hidden, batch_size, dtype, f"lstm_{i}"), [data, states, *weights])))
        out, states = TupleGetItem(call, 0), TupleGetItem(call, 1)
    body = out
    for var, value in reversed(bindings):
        body = Let(var, value, body)
    return Function(free_vars(body), body, types.batch)


def get_workload(
    iterations: int, num_hidden: int, batch_size: Any = 1, dtype: str = "float32"
) -> tuple[IRModule, dict[str, NDArray]]:
    """The module of the network, and random parameters."""
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))
