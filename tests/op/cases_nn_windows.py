"""Cases of convolution and pooling in 1 to 3 dimensions (the most of two dimensions are in cases_nn)."""

from __future__ import annotations

import numpy as np
from op_harness import Case, Random

rng = Random(5)

CASES: list[Case] = []


def conv(op: str, data: tuple[int, ...], weight: tuple[int, ...], dtype: str = "float32", **attrs: object) -> Case:
    operands = [rng.array(data, dtype, -2, 2), rng.array(weight, dtype, -2, 2)]
    return Case(f"relax.nn.{op}", operands, dict(attrs), tolerance=1e-4 if dtype == "float32" else None)


CASES += [
    conv("conv1d", (2, 3, 7), (4, 3, 3)),
    conv("conv1d", (1, 4, 7), (6, 2, 3), padding=(2, 1), strides=2, dilation=2, groups=2),
    conv("conv1d", (2, 7, 3), (3, 3, 2), data_layout="NWC", kernel_layout="WIO", out_layout="NCW", padding=1),
    conv("conv1d", (1, 2, 5), (2, 2, 2), "float16"),
    conv("conv1d", (1, 2, 0), (2, 2, 2), padding=2),
    conv("conv3d", (1, 2, 3, 4, 3), (2, 2, 2, 3, 2)),
    conv("conv3d", (1, 2, 3, 4, 3), (2, 1, 2, 2, 2), padding=(0, 1, 0, 1, 0, 1), strides=(1, 2, 1), groups=2),
    conv("conv3d", (1, 3, 2, 4, 2), (2, 1, 2, 2, 3), data_layout="NDHWC", kernel_layout="DHWIO", padding=1, strides=2),
    # Small enough for gradients by differences.
    conv("conv2d", (1, 1, 3, 3), (2, 1, 1, 2), strides=(2, 1), padding=(0, 1, 0, 0), dilation=(1, 2)),
    conv("conv1d", (1, 4, 2), (2, 1, 2), data_layout="NWC", kernel_layout="WOI", strides=2, padding=(1, 0)),
    conv("conv3d", (1, 1, 1, 3, 2), (1, 1, 1, 2, 2)),
]

CASES += [
    conv("conv1d_transpose", (2, 3, 4), (3, 2, 3)),
    conv("conv1d_transpose", (1, 4, 4), (4, 3, 3), strides=2, padding=(1, 2), output_padding=1, groups=2),
    conv("conv1d_transpose", (1, 2, 3), (2, 2, 4), strides=3, dilation=2, output_padding=2),
    conv("conv1d_transpose", (1, 2, 3), (2, 2, 3), strides=4, dilation=6, padding=1),
    conv("conv1d_transpose", (1, 2, 3), (2, 2, 3), strides=2, dilation=2),
    conv("conv1d_transpose", (1, 2, 2), (2, 1, 1), strides=3),
    conv("conv1d_transpose", (0, 2, 3), (2, 2, 3), strides=2),
    conv("conv1d_transpose", (1, 2, 3), (2, 2, 2), "bfloat16", strides=2),
    conv("conv1d_transpose", (1, 3, 2), (2, 3, 2), data_layout="NWC", kernel_layout="OWI", out_layout="NCW"),
    conv("conv2d_transpose", (1, 2, 3, 2), (2, 2, 3, 2), strides=(2, 1), padding=(1, 0, 0, 1)),
    conv("conv2d_transpose", (1, 2, 2, 3), (2, 1, 2, 2), groups=2, output_padding=(1, 0), strides=2),
    conv(
        "conv2d_transpose",
        (1, 3, 2, 2),
        (2, 3, 3, 2),
        data_layout="NHWC",
        kernel_layout="HWOI",
        strides=2,
        out_dtype="float64",
    ),
    conv("conv2d_transpose", (1, 2, 2, 2), (2, 1, 2, 2), "int32", strides=2, padding=1),
    conv("conv3d_transpose", (1, 2, 2, 1, 2), (2, 1, 2, 2, 2), strides=(2, 1, 2), padding=(0, 1, 0)),
    conv("conv2d_transpose", (1, 1, 2, 3), (1, 2, 2, 2), strides=(2, 1), padding=(1, 0), output_padding=(1, 0)),
    conv("conv1d_transpose", (1, 3, 2), (2, 2, 2), data_layout="NWC", strides=2, dilation=3, padding=(0, 1)),
    conv("conv3d_transpose", (1, 1, 2, 1, 2), (1, 2, 2, 1, 2), strides=2),
    conv("conv2d_transpose", (2, 3, 2, 3), (3, 4, 2, 3), strides=(2, 3)),
    conv("conv2d_transpose", (1, 2, 3, 4), (4, 2, 2, 2), strides=2, groups=2, data_layout="NHWC"),
]

# Packed layouts: parts of channels, of batch and of a spatial dimension; incomplete parts of a result.
CASES += [
    conv("conv2d", (1, 2, 4, 3, 2), (2, 4, 2, 2, 2), data_layout="NCHW2c", kernel_layout="OIHW2o", padding=1),
    conv(
        "conv2d",
        (2, 1, 4, 3, 4),
        (1, 1, 2, 3, 4, 6),
        data_layout="NCHW4c",
        kernel_layout="OIHW4i6o",
        out_layout="NHWC3c",
    ),
    conv("conv2d", (1, 2, 3, 3, 2), (3, 4, 2, 2), data_layout="NCHW2c", strides=2, padding=(1, 0)),
    conv("conv2d", (1, 4, 3, 3), (6, 2, 2, 2), groups=2, out_layout="NCHW4c"),
    conv("conv2d", (1, 1, 3, 3, 4), (1, 1, 2, 2, 1, 4), data_layout="NCHW4c", kernel_layout="OIHW1i4o", groups=4),
    conv("conv2d", (1, 2, 2, 3, 2, 2), (2, 2, 2, 2), data_layout="NCHW2h2n", kernel_layout="OIHW", dilation=(1, 2)),
    conv("conv2d", (0, 1, 3, 3, 2), (1, 2, 2, 2, 2), data_layout="NCHW2c", kernel_layout="OIHW2o"),
    conv("conv2d", (1, 0, 3, 3, 2), (1, 0, 2, 2, 2), data_layout="NCHW2c", kernel_layout="OIHW2i"),
    conv("conv1d", (1, 2, 5, 2), (2, 2, 2, 2, 2), "int32", data_layout="NCW2c", kernel_layout="OIW2o2i", groups=1),
    conv("conv1d", (1, 5, 1, 2), (2, 2, 2), "float16", data_layout="NWC2c", out_layout="NCW"),
    conv("conv3d", (1, 1, 2, 3, 2, 2), (1, 1, 2, 2, 1, 2, 2), data_layout="NCDHW2c", kernel_layout="OIDHW2i2o"),
    conv("conv1d_transpose", (1, 1, 3, 2), (1, 2, 2, 2, 2), data_layout="NCW2c", kernel_layout="IOW2i2o", strides=2),
    conv("conv2d_transpose", (1, 1, 2, 3, 2), (2, 3, 2, 2), data_layout="NCHW2c", strides=(2, 1), padding=(1, 0)),
    conv("conv2d_transpose", (1, 2, 2, 2, 2), (2, 1, 2, 2, 2), data_layout="NCHW2c", kernel_layout="IOHW2i", groups=2),
    conv("conv3d_transpose", (1, 1, 1, 2, 2, 2), (2, 2, 1, 2, 2), data_layout="NCDHW2c"),
]

WINDOWS: dict[int, list[dict[str, object]]] = {
    1: [
        {"pool_size": 3, "strides": 2, "padding": (1, 0)},
        {"pool_size": 2, "strides": 3, "padding": (0, 2), "dilation": 2, "ceil_mode": True},
        {"pool_size": 2, "strides": 2, "ceil_mode": True},
    ],
    3: [{"pool_size": (2, 1, 2), "strides": (1, 2, 2), "padding": (0, 0, 1, 1, 0, 0), "ceil_mode": True}],
}
SIZES = {1: (7,), 2: (5, 4), 3: (3, 3, 4)}
# Rounding up counts no window that starts in the padding after the data.
STARTS_IN_PADDING = {"pool_size": 2, "strides": 3, "padding": 1, "ceil_mode": True}

for n, all_windows in WINDOWS.items():
    data = rng.array((1, 2, *SIZES[n]), "float32")
    for windows in all_windows:
        CASES += [Case(f"relax.nn.max_pool{n}d", [data], windows)]
        CASES += [
            Case(f"relax.nn.avg_pool{n}d", [data], {**windows, "count_include_pad": include})
            for include in (False, True)
        ]
    CASES += [Case(f"relax.nn.lp_pool{n}d", [data], {**all_windows[0], "p": p}) for p in (1, 2, 3)[: 5 - n]]
    last = rng.array((2, *SIZES[n], 3), "float16")
    channels_last = {**all_windows[0], "layout": "N" + "DHW"[-n:] + "C"}
    CASES += [Case(f"relax.nn.{kind}_pool{n}d", [last], channels_last) for kind in ("max", "avg")]
CASES += [Case("relax.nn.lp_pool2d", [rng.array((1, 2, 3, 4), "float32")], {"pool_size": 2, "ceil_mode": True})]
for op in ("max_pool1d", "avg_pool1d", "lp_pool1d", "max_pool1d_with_indices"):
    CASES += [
        Case(f"relax.nn.{op}", [rng.array((1, 2, 4), "float32")], STARTS_IN_PADDING),
        Case(f"relax.nn.{op}", [rng.array((1, 2, 0), "float32")], {"pool_size": 2, "padding": 1}),
        Case(f"relax.nn.{op}", [rng.array((0, 2, 3), "float32")], {"pool_size": 2}),
    ]

# Packed layouts.
for n in (1, 2, 3):
    name = "DHW"[-n:]
    windows = {"pool_size": 2, "strides": 2, "padding": 1, "ceil_mode": True}
    packed = rng.array((1, 2, *SIZES[n], 2), "float32")
    ops = [f"{kind}_pool{n}d" for kind in ("max", "avg", "lp")]
    CASES += [Case(f"relax.nn.{op}", [packed], {**windows, "layout": f"NC{name}2c"}) for op in ops]
    CASES += [
        Case(f"relax.nn.{op}", [packed], {**windows, "layout": f"NC{name}2c", "out_layout": f"N{name}C4c"})
        for op in ops[:2]
    ]
    CASES += [
        Case(f"relax.nn.adaptive_avg_pool{n}d", [packed], {"output_size": 2, "layout": f"NC{name}2c"}),
        Case(f"relax.nn.adaptive_avg_pool{n}d", [packed], {"layout": f"NC{name}2c", "out_layout": f"N{name}C"}),
    ]
CASES += [
    Case("relax.nn.max_pool2d", [rng.array((1, 3, 2, 3, 2), "float32")], {"pool_size": 2, "layout": "NCHW2h"}),
    Case("relax.nn.avg_pool2d", [rng.array((1, 2, 4, 4, 1), "float32")], {"pool_size": 2, "layout": "NCHW1c"}),
    Case("relax.nn.max_pool2d", [rng.array((0, 2, 4, 4, 2), "int8")], {"pool_size": 2, "layout": "NCHW2c"}),
    Case(
        "relax.nn.adaptive_avg_pool2d",
        [rng.array((1, 3, 4, 3), "float32")],
        {"output_size": (2, 3), "out_layout": "NCHW2c"},
    ),
]

EQUALS = np.array([[[1, 1, 0, np.nan, 2, 3, 3, -np.inf, -np.inf]]], "float32")
CASES += [
    Case("relax.nn.max_pool1d_with_indices", [EQUALS], {"pool_size": 2, "strides": 2, "padding": (0, 1)}),
    Case("relax.nn.max_pool1d_with_indices", [EQUALS], {"pool_size": 3, "padding": 1}),
    Case(
        "relax.nn.max_pool2d_with_indices",
        [rng.array((2, 3, 5, 4), "float32")],
        {"pool_size": (2, 3), "strides": 2, "padding": (1, 0, 0, 1), "dilation": (2, 1), "ceil_mode": True},
    ),
    Case(
        "relax.nn.max_pool2d_with_indices",
        [rng.array((1, 4, 3, 2), "int8")],
        {"pool_size": 2, "layout": "NHWC", "out_layout": "NCHW"},
    ),
    Case("relax.nn.max_pool3d_with_indices", [rng.array((1, 2, 3, 2, 3), "float32")], {"pool_size": 2}),
]

CASES += [
    *(
        Case("relax.nn.adaptive_avg_pool1d", [rng.array((2, 2, 7), dtype)], {"output_size": 3})
        for dtype in ("float16", "float32", "float64")
    ),
    *(
        Case("relax.nn.adaptive_avg_pool1d", [rng.array((1, 2, size), "float32")], {"output_size": count})
        for size, count in ((3, 7), (6, 3), (5, 1), (0, 2), (4, None))
    ),
    Case("relax.nn.adaptive_avg_pool2d", [rng.array((1, 2, 5, 4), "float32")], {"output_size": (2, 4)}),
    Case("relax.nn.adaptive_avg_pool2d", [rng.array((1, 2, 5, 4), "float32")], {"output_size": 1}),
    Case(
        "relax.nn.adaptive_avg_pool2d",
        [rng.array((1, 5, 4, 2), "float32")],
        {"output_size": (3, 2), "layout": "NHWC", "out_layout": "NCHW"},
    ),
    Case("relax.nn.adaptive_avg_pool3d", [rng.array((1, 2, 3, 2, 4), "float32")], {"output_size": (2, 2, 3)}),
    Case("relax.nn.adaptive_avg_pool2d", [rng.array((1, 1, 3, 4), "float32")], {"output_size": (2, 1)}),
    Case("relax.nn.adaptive_avg_pool3d", [rng.array((1, 1, 2, 2, 3), "float32")], {"output_size": (2, 1, 2)}),
]
