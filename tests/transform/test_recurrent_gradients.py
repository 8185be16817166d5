"""Gradients of recurrent layers, in every form that torch has: differences of the interpreter, and the compiled adjoint."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import check_gradients

import relax
from relax.ir import DiagnosticError

SOURCE = """
from relax.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("t", "n", 3), "float64"),
        w: R.Tensor(({d}, {rows}, 3), "float64"),
        r: R.Tensor(({d}, {rows}, 3), "float64"),
        b: R.Tensor(({d}, {biases}), "float64"),
        {params}
    ):
        with R.dataflow():
            results = R.nn.{name}(x, w, r, b, None, {states}{attributes})
            states = results[0]
            last = results[1]
            gv = R.add(R.sum(R.multiply(states, R.sin(states))), R.sum(R.exp(last)))
            R.output(gv)
        return gv
"""
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
LAYERS = {
    "rnn": ("rnn", 1, ""),
    "rnn of relus, bidirectional": ("rnn", 2, ", direction='bidirectional', activations=['Relu', 'Relu']"),
    "gru": ("gru", 2, ", direction='bidirectional'"),
    "gru of torch, reverse": ("gru", 1, ", direction='reverse', linear_before_reset=True"),
    "lstm": ("lstm", 1, ""),
    "lstm, bidirectional": ("lstm", 2, ", direction='bidirectional'"),
}


def layer(name, directions, attributes):
    states = ["h", "c"] if name == "lstm" else ["h"]
    rows = 3 * GATES[name]
    params = ", ".join(f"{state}: R.Tensor(({directions}, 'n', 3), 'float64')" for state in states)
    text = SOURCE.format(
        name=name,
        d=directions,
        rows=rows,
        biases=2 * rows,
        params=params,
        states=", ".join(states),
        attributes=attributes,
    )
    return relax.script.from_source(text)


def values(name, directions, steps=4, batch=2):
    rng = np.random.default_rng(1)
    rows, state = 3 * GATES[name], (directions, batch, 3)
    shapes = [(steps, batch, 3), (directions, rows, 3), (directions, rows, 3), (directions, 2 * rows), state]
    return [rng.uniform(-1, 1, shape) for shape in (*shapes, *([state] if name == "lstm" else []))]


@pytest.mark.parametrize("case", LAYERS)
def test_gradients_are_differences(case):
    name, directions, attributes = LAYERS[case]
    compiled = case in ("lstm, bidirectional", "gru of torch, reverse")
    check_gradients(layer(name, directions, attributes), *values(name, directions), compiled=compiled)


def test_a_sequence_of_one_step_and_a_batch_of_nothing():
    mod = layer(*LAYERS["lstm"])
    check_gradients(mod, *values("lstm", 1, steps=1))
    check_gradients(mod, *values("lstm", 1, batch=0))


def test_the_batch_may_come_first():
    mod = relax.script.from_source(
        """
from relax.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "t", 2), "float64"), w: R.Tensor((1, 9, 2), "float64"), r: R.Tensor((1, 9, 3), "float64")):
        with R.dataflow():
            results = R.nn.gru(x, w, r, layout=1)
            gv = R.sum(R.exp(results[0]))
            R.output(gv)
        return gv
"""
    )
    rng = np.random.default_rng(2)
    check_gradients(mod, *[rng.uniform(-1, 1, shape) for shape in ((2, 4, 2), (1, 9, 2), (1, 9, 3))])


@pytest.mark.parametrize("attribute", ["clip=1.0", "activations=['Softsign']"])
def test_layers_that_torch_does_not_have_are_refused(attribute):
    with pytest.raises(DiagnosticError, match="nn.rnn has no gradient for these operands and attributes"):
        relax.transform.Gradient("main")(layer("rnn", 1, f", {attribute}"))
