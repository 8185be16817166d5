"""The child-sum tree LSTM (K. Tai et al., "Improved semantic representations from tree-structured LSTMs", 2015).

A program over a data type: the tree is a `Tree` of the prelude whose nodes hold inputs, and the recursion over it is a
recursive function. Its result is the pair of output and memory at the root.
"""

from __future__ import annotations

from typing import Final, cast

import numpy as np

from ... import runtime
from ...ir import IRModule
from ...runtime import NDArray
from ..expr import Function
from ..infer import infer_module
from ..text import parse
from .init import Xavier, static_type

_TEXT: Final = """#[version = "0.0.5"]
import "prelude.rly"

def @dense(%x: {input}, %w: {from_input}, %h: {state}, %u: {from_state}, %b: {bias}) -> {state} {{
  nn.bias_add(nn.dense(%x, %w) + nn.dense(%h, %u), %b, axis=-1)
}}

def @main(
  %data: Tree[{input}],
  %i_weight: {from_input}, %i_hidden_weight: {from_state}, %i_bias: {bias},
  %f_weight: {from_input}, %f_hidden_weight: {from_state}, %f_bias: {bias},
  %u_weight: {from_input}, %u_hidden_weight: {from_state}, %u_bias: {bias},
  %o_weight: {from_input}, %o_hidden_weight: {from_state}, %o_bias: {bias},
) -> ({state}, {state}) {{
  let %node = fn(%tree: Tree[{input}]) -> ({state}, {state}) {{
    match (%tree) {{
      Rose(%x, %children) => {{
        let %states = @map(%node, %children);
        let %zeros = zeros(shape=[1, {size}], dtype="{dtype}");
        let %hidden = @foldl(fn(%sum: {state}, %s: ({state}, {state})) -> {state} {{ %sum + %s.0 }}, %zeros, %states);
        let %enter = sigmoid(@dense(%x, %i_weight, %hidden, %i_hidden_weight, %i_bias));
        let %leave = sigmoid(@dense(%x, %o_weight, %hidden, %o_hidden_weight, %o_bias));
        let %change = tanh(@dense(%x, %u_weight, %hidden, %u_hidden_weight, %u_bias));
        let %kept = @foldl(
          fn(%sum: {state}, %s: ({state}, {state})) -> {state} {{
            %sum + sigmoid(@dense(%x, %f_weight, %s.0, %f_hidden_weight, %f_bias)) * %s.1
          }},
          %zeros,
          %states
        );
        let %memory = %enter * %change + %kept;
        (%leave * tanh(%memory), %memory)
      }}
    }}
  }};
  %node(%data)
}}
"""


def get_net(input_size: int = 300, memory_size: int = 150, dtype: str = "float32") -> IRModule:
    """The module: main is a function of a tree of inputs (1, input_size) and of the weights."""
    text = _TEXT.format(
        input=f"Tensor[(1, {input_size}), {dtype}]",
        state=f"Tensor[(1, {memory_size}), {dtype}]",
        from_input=f"Tensor[({memory_size}, {input_size}), {dtype}]",
        from_state=f"Tensor[({memory_size}, {memory_size}), {dtype}]",
        bias=f"Tensor[({memory_size}), {dtype}]",
        size=memory_size,
        dtype=dtype,
    )
    return infer_module(parse(text, "tree_lstm.rly"))


def get_workload(
    input_size: int = 300, memory_size: int = 150, dtype: str = "float32"
) -> tuple[IRModule, dict[str, NDArray]]:
    """The module of the network, and random parameters for all of main's but %data."""
    mod = get_net(input_size, memory_size, dtype)
    fill = Xavier()
    params: dict[str, NDArray] = {}
    for var in cast(Function, mod["main"]).params[1:]:
        arr = np.zeros(*static_type(var.name_hint, var.checked_type))
        fill(var.name_hint, arr)
        params[var.name_hint] = runtime.nd.array(arr)
    return mod, params
