"""Cases of padding, normalisation by channels, further activations, losses, and kinds of attention."""

from __future__ import annotations

import numpy as np
from op_harness import FLOATS, INTS, Case, Random, special

rng = Random(6)

CASES: list[Case] = []


# ------------------------------------------------------------------------------------------------- padding


def pad(shape: tuple[int, ...], widths: list[int], dtype: str = "float32", **attrs: object) -> Case:
    return Case("relax.nn.pad", [rng.array(shape, dtype), widths], dict(attrs))


CASES += [
    *(pad((2, 3), [1, 2, 0, 1], dtype, pad_value=2) for dtype in (*FLOATS, "int8", "int64", "uint8", "bool")
      if dtype != "bool"),
    pad((2, 3), [1, 2, 0, 1], "bool", pad_value=1),
    pad((2, 2), [1, 0, 0, 0], "int64", pad_value=2**62 + 1),
    pad((4, 4), [0, 0, 2, 1], pad_value=-np.inf),
    pad((0, 3), [1, 2, 0, 0]),
    pad((), []),
    pad((4, 5), [-1, 2, 1, -3]),
    pad((3,), [-2, -1]),
]  # fmt: skip
for mode in ("reflect", "replicate", "circular", "edge", "wrap"):
    CASES += [
        pad((2, 4), [0, 0, 2, 3], pad_mode=mode),
        pad((3, 2), [1, 0, 5, 7], pad_mode=mode),
        pad((1, 3), [2, 1, -1, 2], pad_mode=mode),
    ]
CASES += [pad((3,), [1, 2], dtype, pad_mode="reflect") for dtype in ("float16", "int32", "bool")]
CASES += [pad((0, 2), [0, 0, 1, 1], pad_mode="reflect")]
for dtype in ("float32", "bfloat16", "int32"):
    CASES += [
        Case("relax.nn.pixel_shuffle", [rng.array((1, 8, 2, 3), dtype)], {"upscale_factor": 2}),
        Case("relax.nn.pixel_unshuffle", [rng.array((1, 2, 4, 6), dtype)], {"downscale_factor": 2}),
    ]
CASES += [
    Case("relax.nn.pixel_shuffle", [rng.array((4, 1, 2), "float32")], {"upscale_factor": 2}),
    Case("relax.nn.pixel_shuffle", [rng.array((2, 1, 9, 0, 2), "float32")], {"upscale_factor": 3}),
    Case("relax.nn.pixel_unshuffle", [rng.array((1, 2, 4), "float32")], {"downscale_factor": 2}),
]

CASES += [
    Case("relax.nn.batch_flatten", [rng.array(shape, "float32")])
    for shape in ((2, 3, 2), (3,), (2, 4), (0, 2, 3), (2, 0, 3))
]

# ------------------------------------------------------------------------------------------- normalisation


def by_channels(name: str, shape: tuple[int, ...], dtype: str = "float32", **attrs: object) -> Case:
    channels = shape[attrs["channel_axis"]]
    operands = [rng.array(shape, dtype), *(rng.array((channels,), dtype) for _ in range(2))]
    return Case(f"relax.nn.{name}", operands, dict(attrs), tolerance=1e-4 if dtype == "float32" else None)


IMAGES = {"channel_axis": 1, "axes": [2, 3]}
CASES += [
    by_channels("group_norm", (2, 6, 2, 3), num_groups=3, **IMAGES),
    by_channels("group_norm", (2, 6, 2, 3), num_groups=1, center=False, epsilon=0.5, **IMAGES),
    by_channels("group_norm", (2, 4, 0, 3), num_groups=2, **IMAGES),
    by_channels("group_norm", (2, 3, 4), num_groups=2, channel_axis=-1, axes=[1], scale=False),
    by_channels("group_norm", (2, 4), num_groups=2, channel_axis=1, axes=[]),
    *(by_channels("group_norm", (1, 4, 3), dtype, num_groups=2, channel_axis=1, axes=[-1]) for dtype in FLOATS),
    by_channels("instance_norm", (2, 3, 2, 3), **IMAGES),
    by_channels("instance_norm", (2, 3, 4), channel_axis=-1, axes=[1], center=False),
    by_channels("instance_norm", (2, 3, 1), channel_axis=1, axes=[-1], epsilon=0.5, scale=False),
    *(by_channels("instance_norm", (1, 2, 4), dtype, channel_axis=1, axes=[2]) for dtype in FLOATS),
]


def rms_norm(shape: tuple[int, ...], axes: list[int], dtype: str = "float32", **attrs: object) -> Case:
    operands = [rng.array(shape, dtype), rng.array(tuple(shape[a] for a in axes), dtype)]
    return Case("relax.nn.rms_norm", operands, {"axes": axes, **attrs})


CASES += [rms_norm((2, 3, 4), axes) for axes in ([-1], [1], [1, 2], [-1, 1])]
CASES += [rms_norm(shape, [-1]) for shape in ((1, 1), (0, 3), (3, 0), (5,))]
CASES += [rms_norm((2, 6), [-1], dtype, epsilon=0.1) for dtype in FLOATS]

CASES += [
    Case("relax.nn.lrn", [rng.array((2, 6, 2), "float32")], {"size": size, "alpha": 0.5, "bias": 1.0})
    for size in (1, 2, 3, 9)
]
CASES += [Case("relax.nn.lrn", [rng.array((2, 5), dtype)], {"size": 3, "axis": -1, "beta": 0.5}) for dtype in FLOATS]

# --------------------------------------------------------------------------------------------- activations

for name in ("relu6", "leakyrelu", "softplus", "selu"):
    CASES += [Case(f"relax.nn.{name}", [special(dtype)]) for dtype in FLOATS]
    CASES += [Case(f"relax.nn.{name}", [rng.array(shape, "float32", -9, 9)]) for shape in ((), (0, 2), (2, 5))]
CASES += [Case("relax.nn.relu6", [special(dtype)]) for dtype in INTS]
CASES += [
    Case("relax.nn.leakyrelu", [rng.array((2, 3), "float32")], {"alpha": 0.3}),
    Case("relax.nn.softplus", [rng.array((9,), "float32")], {"beta": 2.5, "threshold": 3.0}),
]
SMALL = np.array([-1e-30, -1e-8, -1e-3, 1e-30, -60, -200])
CASES += [
    Case(f"relax.nn.{name}", [SMALL.astype(dtype)], tails=True)
    for name in ("selu", "softplus")
    for dtype in ("float32", "float64")
]
CASES += [
    Case("relax.nn.prelu", [rng.array((2, 3, 4), "float32"), rng.array(slopes, "float32")], attrs)
    for slopes, attrs in [
        ((3,), {}),
        ((1,), {"axis": 2}),
        ((4,), {"axis": -1}),
        ((3, 1), {}),
        ((2, 1, 4), {}),
        ((), {}),
    ]
]
CASES += [Case("relax.nn.prelu", [special(dtype)[None], rng.array((1,), dtype)]) for dtype in FLOATS]

# -------------------------------------------------------------------------------------------------- losses

CASES += [
    Case("relax.nn.cross_entropy_with_logits", [rng.array(shape, dtype) for _ in range(2)])
    for shape, dtype in [
        ((3, 4), "float32"),
        ((4,), "float32"),
        ((2, 2, 2), "float64"),
        ((), "float32"),
        ((2, 4), "float16"),
        ((0, 4), "float32"),
    ]
]


def nll_loss(
    shape: tuple[int, ...], targets: tuple[int, ...], weights: bool = True, dtype: str = "float32", **attrs: object
) -> Case:
    classes = shape[1] if len(shape) > 1 else shape[0]
    operands = [rng.array(shape, dtype), rng.array(targets, "int64", 0, classes - 1)]
    operands += [rng.array((classes,), dtype, 0.1, 2)] if weights else []
    return Case("relax.nn.nll_loss", operands, dict(attrs), tolerance=1e-4 if dtype == "float32" else None)


for reduction in ("none", "sum", "mean"):
    CASES += [
        nll_loss((3, 5), (3,), reduction=reduction),
        nll_loss((2, 3, 2, 2), (2, 2, 2), False, reduction=reduction, ignore_index=1),
        nll_loss((4,), (), reduction=reduction),
        nll_loss((0, 3), (0,), reduction=reduction),
        nll_loss((3, 4), (3,), dtype="float16", reduction=reduction),
    ]
CASES += [
    Case("relax.nn.nll_loss", [rng.array((3, 2), "float32"), np.array([-1, 1, -1], "int32")], {"ignore_index": -1}),
    Case("relax.nn.nll_loss", [rng.array((2, 2), "float32"), np.array([-1, -1], "int8")], {"ignore_index": -1}),
]

# ----------------------------------------------------------------------------------------------- attention

HEADS = [(1, 5, 2, 3), (1, 5, 2, 3), (1, 5, 2, 2)]
CASES += [
    Case("relax.nn.attention_bias", [*(rng.array(s, "float32") for s in HEADS), rng.array(bias, "float32")], attrs)
    for bias, attrs in [((1, 2, 5, 5), {}), ((5, 5), {"causal_mask": "TopLeft", "scale": 0.5})]
]


def var_len(starts: list[list[int]], rows: tuple[int, int] = (6, 6), **attrs: object) -> Case:
    m, n = rows
    arrays = [rng.array(s, "float32") for s in ((1, m, 2, 3), (1, n, 2, 3), (1, n, 2, 2))]
    first, *rest = ([np.array(s, "int32"), np.array(max(np.diff(s)), "int32")] for s in starts)
    operands = [*arrays, *first, *(value for pair in rest for value in pair)]
    return Case("relax.nn.attention_var_len", operands, dict(attrs), tolerance=1e-4)


CASES += [
    var_len([[0, 2, 6]]),
    var_len([[0, 1, 1, 5]], causal_mask="TopLeft", scale=0.3),
    var_len([[1, 4, 6]], causal_mask="BottomRight", window_size=2),
    var_len([[0, 2, 4], [0, 3, 5]], (4, 5)),
    var_len([[0, 3, 4], [0, 1, 5]], (4, 5), causal_mask="BottomRight"),
]
