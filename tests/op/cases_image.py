"""Cases of the operators of images."""

from __future__ import annotations

import numpy as np
from op_harness import FLOATS, Case, Random, Sizes

rng = Random(7)

MODES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
ROUNDINGS = ("round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def resize2d(shape: tuple[int, ...], size: tuple[int, int], dtype: str = "float32", **attrs: object) -> Case:
    return Case("relax.image.resize2d", [rng.array(shape, dtype), Sizes(size)], dict(attrs))


def resize(
    shape: tuple[int, ...],
    size: tuple[int, ...],
    scales: tuple[float, ...] | None = None,
    roi: tuple[float, ...] | None = None,
    dtype: str = "float32",
    **attrs: object,
) -> Case:
    vectors = [None if v is None else np.array(v, "float32") for v in (scales, roi)]
    tolerance = 1e-4 if dtype == "float32" else None
    operands = [rng.array(shape, dtype), Sizes(size), *vectors]
    return Case("relax.image.resize", operands, dict(attrs), tolerance=tolerance)


CASES: list[Case] = []
for mode in MODES:
    roi = {"roi": (0.1, 0.2, 0.8, 1.3)} if mode == "tf_crop_and_resize" else {}
    for method in ("linear", "cubic"):
        CASES += [resize2d((1, 2, 4, 5), (7, 3), method=method, coordinate_transformation_mode=mode, **roi)]
    CASES += [
        resize2d(
            (1, 1, 4, 5),
            (7, 3),
            "int8",
            method="nearest_neighbor",
            coordinate_transformation_mode=mode,
            extrapolation_value=9.0,
            **roi,
        )
    ]
    region = (0.1, 0.0, 0.9, 1.2) if mode == "tf_crop_and_resize" else None
    CASES += [
        resize((5, 7), (2, 10), (0.5, 1.45), region, coordinate_transformation_mode=mode),
        resize((5, 1), (1, 1), None, region, coordinate_transformation_mode=mode, method="cubic"),
    ]
CASES += [
    resize((8,), (5,), method="nearest_neighbor", rounding_method=rounding, dtype="float64") for rounding in ROUNDINGS
]
CASES += [
    resize((4,), (8,), method="nearest_neighbor", rounding_method=rounding, dtype="bool") for rounding in ROUNDINGS
]
CASES += [resize2d((1, 1, 3, 4), (5, 6), dtype) for dtype in (*FLOATS, "uint8", "int16", "int32")]
CASES += [resize2d((1, 1, 3, 4), (5, 6), dtype, method="cubic") for dtype in ("float16", "uint8", "int8")]
# Between 0 and 255 the cubic weights reach beyond the integers, whose nearest limit the result is then.
beyond = np.array([0, 0, 255, 255, 0], "uint8").reshape(1, 1, 1, 5)
CASES += [Case("relax.image.resize2d", [beyond, Sizes((1, 17))], {"method": "cubic"})]
CASES += [
    resize2d((2, 4, 5, 3), (3, 8), layout="NHWC"),
    resize2d((2, 4, 5, 3), (3, 8), layout="NHWC", method="nearest_neighbor"),
    resize2d((1, 1, 3, 4), (5, 6), "uint8", out_dtype="float32"),
    resize2d((1, 2, 3, 4), (3, 4), method="cubic", cubic_exclude=True),
    resize2d((1, 2, 3, 4), (7, 9), method="cubic", cubic_exclude=True, cubic_alpha=-0.75),
    resize2d((0, 2, 3, 4), (5, 6)),
    resize2d((1, 2, 0, 4), (0, 6)),
    resize2d((1, 2, 3, 4), (0, 6), method="nearest_neighbor"),
    resize2d((1, 1, 1, 1), (2, 2)),
]
BAD_SCALES = "scales must be positive, and size the scaled lengths, rounded"
for size, scale in ((4, 0.5), (2, 0.9), (3, -1), (3, np.nan)):
    case = resize((6,), (size,), (scale,))
    CASES += [Case(case.op, case.operands, raises=(AssertionError, BAD_SCALES))]
# any axes, of any number of dimensions
CASES += [
    resize((3, 4, 5), (6, 2), axes=(0, -1)),
    resize((2, 3, 3, 4), (4, 5, 3), axes=(1, 2, 3)),
    resize((2, 3, 4), (2, 3, 4)),
    resize((2, 3), (), axes=()),
    resize((), ()),
    resize((2, 3, 4), (5, 2, 8), method="nearest_neighbor", dtype="float16"),
]
for method in ("linear", "cubic"):
    CASES += [
        resize((9, 12), (4, 5), method=method, antialias=True),
        resize((9, 12), (4, 7), (0.5, 0.6), method=method, antialias=True),
        resize((5, 4), (10, 3), method=method, antialias=True, cubic_exclude=True),
        resize(
            (9,),
            (4,),
            (0.5,),
            (-0.5, 1.25),
            method=method,
            antialias=True,
            coordinate_transformation_mode="tf_crop_and_resize",
        ),
        resize((7,), (0,), method=method, antialias=True),
        resize((7,), (1,), method=method, antialias=True),
    ]


def grid_sample(
    data: tuple[int, ...], places: tuple[int, ...], dtype: str = "float32", last: bool = True, **attrs: object
) -> Case:
    rank = len(data) - 2
    batch = data[attrs.get("layout", "NCHW").index("N")]
    grid = (batch, *places, rank) if last else (batch, rank, *places)
    # halves give places that lie half way between elements
    values = np.concatenate([rng.array((int(np.prod(grid)),), dtype, -2, 2)])
    values[::5] = 0.5
    operands = [rng.array(data, dtype), values.reshape(grid)]
    layout = {1: {"layout": "NCW"}, 3: {"layout": "NCDHW"}}.get(rank, {})
    attrs = {**layout, "grid_layout": "channels_last" if last else "channels_first", **attrs}
    return Case("relax.image.grid_sample", operands, attrs, tolerance=1e-3 if dtype == "float32" else None)


for method in ("bilinear", "nearest", "bicubic"):
    for padding in ("zeros", "border", "reflection"):
        CASES += [
            grid_sample((2, 2, 4, 5), (3, 2), method=method, padding_mode=padding, align_corners=aligned)
            for aligned in (False, True)
        ]
    CASES += [grid_sample((1, 2, 3, 4, 2), (2, 2, 3), method=method, padding_mode="reflection")]
CASES += [
    grid_sample((2, 2, 4, 5), (3, 2), last=False),
    grid_sample((2, 4, 5, 3), (3, 2), layout="NHWC"),
    grid_sample((2, 3, 5), (4,), method="bicubic"),
    grid_sample((1, 2, 3, 3), (2, 2), "float64"),
    grid_sample((1, 2, 3, 3), (2, 2), "float16", padding_mode="border", align_corners=False),
    grid_sample((1, 1, 1, 1), (2, 2), padding_mode="reflection"),
    grid_sample((0, 2, 3, 3), (2, 2)),
    grid_sample((1, 2, 3, 3), (0, 2)),
    grid_sample((1, 2, 0, 3), (2, 2)),
]
WILD = np.array([[[[np.nan, 0], [np.inf, 0]], [[-np.inf, 0.3], [1e30, 0]]]], "float32")
CASES += [
    Case(
        "relax.image.grid_sample",
        [rng.array((1, 1, 3, 4), "float32"), WILD],
        {"method": "nearest", "padding_mode": padding, "grid_layout": "channels_last"},
    )
    for padding in ("zeros", "border")
]


def affine_grid(theta: tuple[int, ...], size: tuple[int, ...], dtype: str = "float32", **attrs: object) -> Case:
    return Case("relax.image.affine_grid", [rng.array(theta, dtype, -1, 1), Sizes(size)], dict(attrs))


for aligned in (False, True):
    CASES += [
        affine_grid((2, 2, 3), (4, 5), align_corners=aligned),
        affine_grid((1, 3, 4), (3, 4, 2), align_corners=aligned, grid_layout="channels_last"),
        affine_grid((1, 2, 3), (1, 3), align_corners=aligned),
    ]
CASES += [affine_grid((1, 2, 3), (2, 3), dtype) for dtype in FLOATS]
CASES += [affine_grid((0, 2, 3), (2, 3)), affine_grid((1, 2, 3), (0, 3))]
