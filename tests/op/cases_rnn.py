"""Cases of recurrent networks."""

from __future__ import annotations

import numpy as np
from op_harness import Case, Random

rng = Random(9)

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
FUNCTIONS = {"rnn": 1, "gru": 2, "lstm": 3}
EVERY = ("bias", "sequence_lens", "initial_h", "initial_c", "peepholes")
OPEN = ("bias", "initial_h", "initial_c", "peepholes")


def layer(
    kind: str,
    *given: str,
    sizes: tuple[int, int, int, int] = (4, 2, 3, 5),
    dtype: str = "float32",
    raises: tuple[type[Exception], str] | None = None,
    **attrs: object,
) -> Case:
    """A layer with some of the optional operands; sizes are those of steps, batch, inputs and units."""
    steps, batch, inputs, hidden = sizes
    d = 2 if attrs.get("direction") == "bidirectional" else 1
    rows = GATES[kind] * hidden
    lens = np.array([steps, max(steps - 2, 0)][:batch], "int32")
    if raises:
        lens = lens + 1
    state = (batch, d, hidden) if attrs.get("layout") else (d, batch, hidden)
    optional = {
        "bias": rng.array((d, 2 * rows), dtype, -1, 1),
        "sequence_lens": lens,
        "initial_h": rng.array(state, dtype, -1, 1),
        "initial_c": rng.array(state, dtype, -1, 1),
        "peepholes": rng.array((d, 3 * hidden), dtype, -1, 1),
    }
    operands = [
        rng.array((batch, steps, inputs) if attrs.get("layout") else (steps, batch, inputs), dtype, -1, 1),
        rng.array((d, rows, inputs), dtype, -1, 1),
        rng.array((d, rows, hidden), dtype, -1, 1),
    ]
    names = EVERY if kind == "lstm" else EVERY[:3]
    operands += [optional[name] if name in given else None for name in names]
    tolerance = 1e-4 if dtype == "float32" else None
    return Case(f"relax.nn.{kind}", operands, dict(attrs), raises=raises, tolerance=tolerance)


CASES: list[Case] = []
for kind in GATES:
    CASES += [
        layer(kind),
        layer(kind, *EVERY, direction="bidirectional"),
        layer(kind, *EVERY, direction="bidirectional", layout=1),
        layer(kind, "bias", "sequence_lens", direction="reverse"),
        layer(kind, "bias", dtype="float64"),
        layer(kind, *EVERY, dtype="float16"),
        layer(kind, "initial_h", sizes=(0, 2, 3, 5)),
        layer(kind, "bias", sizes=(3, 0, 2, 4)),
        layer(kind, "bias", sizes=(1, 1, 1, 1)),
        layer(kind, "bias", sizes=(3, 2, 0, 4)),
        layer(kind, "bias", clip=0.3),
        # Groups of four sequences, units added four at a time, and what is left of both.
        layer(kind, "bias", sizes=(3, 4, 2, 8)),
        layer(kind, *OPEN, sizes=(3, 9, 2, 19), direction="bidirectional"),
        layer(kind, *OPEN, sizes=(2, 7, 3, 5), direction="reverse", layout=1),
        layer(kind, *OPEN, sizes=(2, 5, 3, 6), dtype="float16"),
        layer(kind, "sequence_lens", raises=(AssertionError, "sequence_lens must be from 0 to the number of steps")),
    ]
CASES += [
    layer("gru", "bias", linear_before_reset=True),
    layer("gru", *EVERY, linear_before_reset=True, direction="bidirectional"),
    layer("gru", *OPEN, linear_before_reset=True, sizes=(3, 6, 2, 9)),
    layer("lstm", *OPEN, input_forget=True, sizes=(3, 6, 2, 9)),
    layer("lstm", *EVERY, input_forget=True),
    layer(
        "lstm",
        "bias",
        direction="bidirectional",
        activations=("Softsign", "elu", "affine", "HardSigmoid", "ScaledTanh", "LeakyRelu"),
        activation_alpha=(1.5, 0.5, 0.3, 1.2, 0.1),
        activation_beta=(0.25, 0.4, 0.9),
    ),
]
CASES += [
    layer("rnn", "bias", activations=(name,), **numbers)
    for name, numbers in {
        "Affine": {"activation_alpha": (0.5,), "activation_beta": (0.1,)},
        "Elu": {},
        "HardSigmoid": {},
        "LeakyRelu": {},
        "Relu": {},
        "ScaledTanh": {"activation_alpha": (0.5,)},
        "Softplus": {},
        "Softsign": {},
        "ThresholdedRelu": {"activation_alpha": (0.3,)},
    }.items()
]
