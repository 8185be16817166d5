"""Recurrent layers, which are those of ONNX but for the layout of batches."""

from __future__ import annotations

from typing import Any

from .....prim import IntImm
from ..graph import Graph
from ..registry import writer
from ..tensor import Tensor

_NAMES = {
    name.lower(): name
    for name in (
        "Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Sigmoid", "Softplus", "Softsign", "Tanh",
        "ThresholdedRelu",
    )
}  # fmt: skip

_OF_ALPHA = frozenset({"affine", "elu", "hardsigmoid", "leakyrelu", "scaledtanh", "thresholdedrelu"})
_OF_BETA = frozenset({"affine", "hardsigmoid", "scaledtanh"})
"""Functions that take the next number of the lists: ONNX Runtime has 0 for one that is left out."""


def _layer(op_type: str, states: int) -> Any:
    """The writer of a layer with a number of states: Y_h, or Y_h and Y_c."""

    def write(
        g: Graph, operator: Any, data: Tensor, weight: Tensor, recurrence: Tensor, *optional: Tensor | None
    ) -> Any:
        hidden = recurrence.dims[2] if recurrence.dims is not None else None
        if not isinstance(hidden, IntImm):
            g.refuse("a recurrent layer whose hidden size is not known", "give the shape of the recurrence weights")
        bias, lengths, *rest = optional
        initial = [x if x is None or not operator.layout else x.wide().transpose([1, 0, 2]) for x in rest[:states]]
        inputs = [
            data.transpose([1, 0, 2]) if operator.layout else data, weight, recurrence, bias,
            None if lengths is None else lengths.to("int32"), *initial, *rest[states:],
        ]  # fmt: skip
        wide = "float64" if data.dtype == "float64" else "float32"
        cast = [x if x is None or x.dtype == "int32" else x.to(wide) for x in inputs]
        attributes: dict[str, Any] = {
            "direction": operator.direction,
            "hidden_size": hidden.value,
            "clip": operator.clip,
        }
        if operator.activations is not None:
            functions = operator.functions()
            attributes["activations"] = [_NAMES[function.name] for function in functions]
            attributes["activation_alpha"] = [f.alpha for f in functions if f.name in _OF_ALPHA] or None
            attributes["activation_beta"] = [f.beta for f in functions if f.name in _OF_BETA] or None
        for name, of in (("linear_before_reset", "GRU"), ("input_forget", "LSTM")):
            if op_type == of:
                attributes[name] = int(getattr(operator, name))
        every, *last = g.parts(op_type, *cast, dtypes=[wide] * (1 + states), **attributes)
        every, last = every.ranked(4), [state.ranked(3) for state in last]
        if operator.layout:
            return [every.transpose([2, 0, 1, 3]), *[state.transpose([1, 0, 2]) for state in last]]
        return [every, *last]

    return write


writer("relax.nn.rnn")(_layer("RNN", 1))
writer("relax.nn.gru")(_layer("GRU", 1))
writer("relax.nn.lstm")(_layer("LSTM", 2))
