"""States of recurrent layers by sequence, as a value of the programs that `nn.Module.export_tvm` writes.

    state = RNNState.create(max_sequences, layers, 1, [np.zeros((4, 8), np.float32)])     in a method that creates them
    before = state.get(layer, 0, (b, 4, 8), "float32")
    state = state.set(layer, 0, after)                     a method that sets states returns the last of them

The names and arguments are those of programs for TVM. The object itself lives in the runtime
(`vm.builtin.rnn_state_create`); callers of the functions add and prepare sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from .... import op as relax_op
from ....expr import PrimValue, Tuple, const
from ....struct_info import ObjectStructInfo, TensorStructInfo
from ..tensor import Object, Tensor, current_builder, unwrap


@final
class RNNState(Object):
    """States of all layers of recurrent models; see `relax.runtime.rnn_state`."""

    @staticmethod
    def create(
        max_batch_size: Any, num_hidden_layers: int, max_history: int, init_values: Sequence[Any],
        name: str = "rnn_state",
    ) -> RNNState:  # fmt: skip
        """Return new states.

        Parameters
        ----------
        max_batch_size
            Sequences at the same time.
        max_history
            States of each sequence that are kept: the newest one, and those to which steps can be taken back.
        init_values
            Arrays, the states of each layer with which a sequence begins.
        """
        sizes = (PrimValue(num_hidden_layers), PrimValue(max_batch_size), PrimValue(max_history))
        values = Tuple([const(np.asarray(value)) for value in init_values])
        null = relax_op.null_value()
        call = relax_op.call_pure_packed(
            "vm.builtin.rnn_state_create", *sizes, null, null, values, sinfo_args=ObjectStructInfo()
        )
        return RNNState(_expr=call, _name=name)

    def get(self, layer_id: int, state_id: int, shape: Sequence[Any], dtype: str) -> Tensor:
        """Return a state (b, …) of a layer: that of each sequence of the batch before this step."""
        arguments = Tuple([self._expr, PrimValue(layer_id), PrimValue(state_id)])
        info = TensorStructInfo([*shape], dtype)
        call = relax_op.call_dps_packed("vm.builtin.rnn_state_get", arguments, out_sinfo=info)
        return Tensor(_expr=current_builder().emit(call, "state"))

    def set(self, layer_id: int, state_id: int, value: Tensor) -> RNNState:
        """Return the states after one of a layer was set, to that of each sequence of the batch after this step."""
        call = relax_op.call_pure_packed(
            "vm.builtin.rnn_state_set", self._expr, PrimValue(layer_id), PrimValue(state_id), unwrap(value),
            sinfo_args=ObjectStructInfo(),
        )  # fmt: skip
        return RNNState(_expr=current_builder().emit(call, "states"), _name="states")


__all__ = ["RNNState"]
