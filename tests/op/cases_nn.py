"""Cases of the operators of neural networks."""

from __future__ import annotations

import numpy as np
from op_harness import FLOATS, NUMBERS, Case, Random, special

rng = Random(4)

CASES: list[Case] = []
for name in ("gelu", "gelu_tanh", "silu", "dropout"):
    CASES += [Case(f"relax.nn.{name}", [rng.array((2, 5), dtype, -3, 3)]) for dtype in FLOATS]
    CASES += [Case(f"relax.nn.{name}", [rng.array(shape, "float32", -3, 3)]) for shape in ((), (0,), (1, 1))]
#: Where x · Φ(x) and its kin are tiny, and where their factors underflow before the product does.
TAILS = {
    "gelu": (-13.05, -10, -6, -5, -4, -1e-30, 5, 30),
    "gelu_tanh": (-9, -6, -5, -4, -1e-30, 5, 30),
    "silu": (-103, -91, -88, -20, -1e-30, 20, 90),
}
for name, tails in TAILS.items():
    values = (*tails, -np.inf, np.inf, np.nan)
    CASES += [Case(f"relax.nn.{name}", [np.array(values, dtype)], tails=True) for dtype in ("float32", "float64")]
    CASES += [Case(f"relax.nn.{name}", [special(dtype)]) for dtype in FLOATS]
CASES += [Case("relax.nn.relu", [special(dtype)]) for dtype in NUMBERS]
CASES += [Case("relax.nn.relu", [rng.array(shape, "float32")]) for shape in ((), (0, 2), (1,))]

WILD = np.array([[1000, 1001, -1000], [-np.inf, 0, 1], [np.nan, 0, 1], [1, 1, 1]], "float32")
ALONE = np.array([[0, 30, 0, 0], [-80, 0, 1, 2], [5, 5, 5, -60]])
for name in ("softmax", "log_softmax"):
    op = f"relax.nn.{name}"
    CASES += [
        Case(op, [rng.array(shape, "float32")], {"axis": axis})
        for shape in ((2, 3, 4), (1, 1, 1), (0, 3, 2), (2, 0, 3))
        for axis in (0, 1, -1)
    ]
    CASES += [Case(op, [rng.array((3, 5), dtype)]) for dtype in FLOATS]
    CASES += [Case(op, [WILD])]
    CASES += [Case(op, [ALONE.astype(dtype)], tails=True) for dtype in ("float32", "float64")]


def layer_norm(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str = "float32", **attrs: object) -> Case:
    sizes = tuple(shape[a] for a in axes)
    operands = [rng.array(shape, dtype), rng.array(sizes, dtype), rng.array(sizes, dtype)]
    tolerance = 1e-4 if dtype == "float32" else None
    return Case("relax.nn.layer_norm", operands, {"axes": axes, **attrs}, tolerance=tolerance)


CASES += [layer_norm((2, 3, 4), axes) for axes in ((-1,), (1,), (1, 2), (-1, 1), (0, 1, 2))]
CASES += [layer_norm(shape, (-1,)) for shape in ((1, 1), (0, 3), (3, 0), (1, 5))]
CASES += [layer_norm((2, 6), (-1,), dtype) for dtype in FLOATS]
CASES += [
    layer_norm((2, 6), (-1,), center=False),
    layer_norm((2, 6), (-1,), scale=False),
    layer_norm((2, 6), (-1,), epsilon=0.5),
]


def batch_norm(shape: tuple[int, ...], dtype: str = "float32", **attrs: object) -> Case:
    channels = shape[attrs.get("axis", 1)]
    params = [rng.array((channels,), dtype, -2, 2) for _ in range(3)]
    operands = [rng.array(shape, dtype), *params, rng.array((channels,), dtype, 0.5, 2)]
    return Case("relax.nn.batch_norm", operands, dict(attrs), tolerance=1e-4 if dtype == "float32" else None)


for training in (False, True):
    CASES += [
        batch_norm(shape, training=training) for shape in ((2, 3, 4, 5), (1, 1, 1, 1), (0, 3, 2, 2), (2, 3), (4, 0))
    ]
    CASES += [batch_norm((2, 3, 4), axis=axis, training=training) for axis in (0, -1)]
    CASES += [batch_norm((2, 3, 4), dtype, training=training) for dtype in FLOATS]
CASES += [
    batch_norm((2, 3, 4), center=False),
    batch_norm((2, 3, 4), scale=False),
    batch_norm((2, 3, 4), momentum=0.9, epsilon=0.1, training=True),
]


def conv2d(data: tuple[int, ...], weight: tuple[int, ...], dtype: str = "float32", **attrs: object) -> Case:
    operands = [rng.array(data, dtype, -2, 2), rng.array(weight, dtype, -2, 2)]
    return Case("relax.nn.conv2d", operands, dict(attrs), tolerance=1e-4 if dtype == "float32" else None)


CASES += [
    conv2d((2, 3, 5, 4), (4, 3, 3, 2)),
    conv2d((1, 1, 1, 1), (1, 1, 1, 1)),
    conv2d((0, 3, 5, 5), (4, 3, 3, 3)),
    conv2d((2, 0, 5, 5), (4, 0, 3, 3)),
    conv2d((2, 3, 5, 5), (0, 3, 3, 3)),
    conv2d((2, 3, 5, 4), (4, 3, 3, 2), padding=1),
    conv2d((2, 3, 5, 4), (4, 3, 3, 2), padding=(1, 2), strides=2),
    conv2d((2, 3, 5, 4), (4, 3, 3, 2), padding=(1, 0, 2, 1), strides=(1, 2), dilation=(2, 1)),
    conv2d((2, 4, 5, 5), (6, 2, 3, 3), groups=2, padding=1),
    conv2d((2, 4, 5, 5), (4, 1, 3, 3), groups=4),
    conv2d((2, 5, 4, 3), (4, 3, 3, 2), data_layout="NHWC", padding=1),
    conv2d((2, 5, 4, 3), (3, 2, 3, 4), data_layout="NHWC", kernel_layout="HWIO", padding=1),
    conv2d((2, 5, 4, 3), (4, 3, 3, 2), data_layout="NHWC", out_layout="NCHW"),
    conv2d((1, 2, 5, 5), (3, 2, 3, 3), "float16"),
    conv2d((1, 2, 5, 5), (3, 2, 3, 3), "float16", out_dtype="float32"),
    conv2d((1, 2, 5, 5), (3, 2, 3, 3), "bfloat16"),
    conv2d((1, 2, 5, 5), (3, 2, 3, 3), "float64", padding=1),
    conv2d((1, 2, 5, 5), (3, 2, 3, 3), "int32", padding=1),
    conv2d((1, 2, 5, 5), (3, 2, 3, 3), "int8", out_dtype="int32"),
    conv2d((1, 2, 3, 3), (3, 2, 2, 2), "int4"),
    conv2d((1, 2, 3, 3), (3, 2, 2, 2), "uint2", padding=1),
]

WINDOWS = [
    {"pool_size": (2, 2), "strides": (2, 2)},
    {"pool_size": (3, 2), "strides": (2, 3), "padding": (1, 1)},
    {"pool_size": 3, "strides": 1, "padding": (1, 0, 1, 1)},
    {"pool_size": (2, 2), "strides": (3, 2), "padding": (1, 0, 0, 1), "dilation": (2, 1)},
]
# Rounding up counts no window that starts in the padding after the data.
STARTS_IN_PADDING = {"pool_size": (2, 2), "strides": (3, 3), "padding": (1, 1), "ceil_mode": True}
for name in ("max_pool2d", "avg_pool2d"):
    op = f"relax.nn.{name}"
    extra = [{}] if name == "max_pool2d" else [{"count_include_pad": False}, {"count_include_pad": True}]
    for more in extra:
        CASES += [
            Case(op, [rng.array((2, 3, 7, 6), "float32")], {**window, "ceil_mode": ceil_mode, **more})
            for window in WINDOWS
            for ceil_mode in (False, True)
        ]
        CASES += [Case(op, [rng.array((1, 1, 4, 4), "float32")], {**STARTS_IN_PADDING, **more})]
        CASES += [Case(op, [rng.array((1, 2, 5, 5), dtype)], {**WINDOWS[1], **more}) for dtype in FLOATS]
    CASES += [
        Case(op, [rng.array((0, 2, 4, 4), "float32")], WINDOWS[0]),
        Case(op, [rng.array((1, 1, 1, 1), "float32")]),
        Case(op, [rng.array((1, 1, 0, 2), "float32")], {"pool_size": (2, 2), "padding": (1, 1, 0, 0)}),
        Case(op, [rng.array((2, 6, 5, 3), "float32")], {**WINDOWS[0], "layout": "NHWC"}),
        Case(op, [rng.array((2, 6, 5, 3), "float32")], {**WINDOWS[0], "layout": "NHWC", "out_layout": "NCHW"}),
        Case(op, [np.where(rng.array((1, 1, 4, 4), "float32") > 2, np.nan, 1).astype("float32")], WINDOWS[0]),
    ]
CASES += [Case("relax.nn.max_pool2d", [rng.array((1, 1, 5, 5), dtype)], WINDOWS[1]) for dtype in ("int8", "uint8")]


def attention(m: int, n: int, dtype: str = "float32", bias: tuple[int, ...] | None = None, **attrs: object) -> Case:
    operands = [rng.array(s, dtype, -2, 2) for s in ((2, m, 3, 5), (2, n, 3, 5), (2, n, 3, 4))]
    if bias is not None:
        operands.append(rng.array(bias, dtype))
    return Case("relax.nn.attention", operands, dict(attrs), tolerance=1e-4 if dtype == "float32" else None)


for m, n in ((3, 4), (4, 3), (1, 1), (2, 0), (0, 2)):
    CASES += [attention(m, n)]
    CASES += [attention(m, n, causal_mask=mask) for mask in ("TopLeft", "BottomRight")]
    CASES += [attention(m, n, causal_mask=mask, window_size=2) for mask in ("TopLeft", "BottomRight")]
CASES += [attention(3, 4, bias=shape) for shape in ((2, 3, 3, 4), (1, 1, 3, 4), (2, 1, 1, 4), (3, 4))]
CASES += [attention(3, 4, scale=0.25), attention(3, 4, "float16"), attention(3, 4, "bfloat16")]
