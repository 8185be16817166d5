"""Cases of the operators of object detection."""

from __future__ import annotations

import numpy as np
from op_harness import Case, Random, Sizes

rng = Random(8)

CASES: list[Case] = []


def suppression(
    scores: tuple[int, int, int],
    most: object = 3,
    overlap: object = 0.4,
    least: object = None,
    dtype: str = "float32",
    **attrs: object,
) -> list[Case]:
    """Both forms on random boxes, among which there are many of equal score."""
    images, _, count = scores
    boxes = rng.array((images, count, 4), dtype, 0.1, 1)
    values = np.round(rng.array(scores, dtype, 0, 1).astype("float32") * 8).astype(dtype) / 8
    operands = [boxes, values.astype(dtype), most, overlap, *([] if least is None else [least])]
    names = ("padded_non_max_suppression", "all_class_non_max_suppression")
    return [Case(f"relax.vision.{name}", operands, dict(attrs)) for name in names]


def scalar(value: float, dtype: str = "float32", shape: tuple[int, ...] = ()) -> np.ndarray:
    return np.full(shape, value, dtype)


CASES += suppression((2, 2, 9), scalar(4, "int64", (1,)), scalar(0.3, shape=(1,)), scalar(0.25, shape=(1,)))
CASES += suppression((1, 3, 12), 5, 0.2, 0.5)
CASES += suppression((1, 2, 8), scalar(20, "int32"), 0.5, center_point_box=True)
CASES += suppression((1, 1, 6), 6, 0.0, dtype="float16")
for shape, most in (((1, 1, 1), 1), ((0, 2, 3), 2), ((2, 0, 3), 2), ((1, 2, 0), 2), ((1, 1, 4), 0), ((1, 1, 4), -1)):
    CASES += suppression(shape, most)
#: Corners in another order, boxes without an area, and a score that is no number.
BOXES = np.array([[[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 5], [2, 2, 3, 3], [2.5, 2, 3.5, 3], [9, 9, 8, 8]]], "float32")
SCORES = np.array([[[0.5, 0.75, 0.5, np.nan, 0.25, -np.inf]]], "float32")
CASES += [
    Case(f"relax.vision.{name}", [BOXES, SCORES, 6, 0.5])
    for name in ("padded_non_max_suppression", "all_class_non_max_suppression")
]
CASES += [
    Case("relax.vision.leading_rows", [rng.array((4, 3), dtype), np.array([2])]) for dtype in ("float32", "bfloat16")
]
CASES += [Case("relax.vision.leading_rows", [rng.array((4,), "int8"), np.array([n], "int32")]) for n in (0, 4, 9, -2)]


def roi_align(data: tuple[int, ...], regions: int, dtype: str = "float32", **attrs: object) -> Case:
    layout = attrs.get("layout", "NCHW")
    images = data[layout.index("N")]
    starts = rng.array((regions, 2), dtype, -2, 6)
    rois = np.concatenate([starts, starts + rng.array((regions, 2), dtype, 0, 9)], 1).astype(dtype)
    indices = rng.array((regions,), "int64", 0, max(images - 1, 0))
    operands = [rng.array(data, dtype), rois, indices]
    if attrs.pop("five", False):
        operands = [operands[0], np.concatenate([indices[:, None].astype(dtype), rois], 1)]
    return Case(
        "relax.vision.roi_align",
        operands,
        {"pooled_size": (2, 3), "spatial_scale": 0.75, **attrs},
        tolerance=1e-4 if dtype == "float32" else None,
    )


for mode in ("avg", "max", "weighted_max"):
    CASES += [
        roi_align((2, 2, 5, 6), 4, mode=mode, aligned=aligned, sample_ratio=ratio)
        for aligned, ratio in ((True, 2), (False, 0))
    ]
CASES += [
    roi_align((2, 5, 6, 2), 3, layout="NHWC", five=True),
    roi_align((1, 2, 4, 4), 2, "float64", sample_ratio=1),
    roi_align((1, 2, 4, 4), 2, "float16", sample_ratio=1),
    roi_align((1, 2, 4, 4), 0),
    roi_align((1, 2, 1, 1), 2),
    Case(
        "relax.vision.roi_align",
        [rng.array((1, 1, 3, 3), "float32"), np.array([[0, 0, 2, 2]], "float32"), np.array([1])],
        raises=(AssertionError, "the image of a region is out of range"),
    ),
]


def deform_conv2d(
    data: tuple[int, ...],
    weight: tuple[int, ...],
    out: tuple[int, int],
    dtype: str = "float32",
    extra: bool = True,
    **attrs: object,
) -> Case:
    taps = weight[2] * weight[3] * attrs.get("offset_groups", 1)
    operands = [
        rng.array(data, dtype, -2, 2),
        rng.array((data[0], taps * 2, *out), dtype, -1.5, 1.5),
        rng.array(weight, dtype, -2, 2),
    ]
    if extra:
        operands += [rng.array((weight[0],), dtype), rng.array((data[0], taps, *out), dtype, 0, 1)]
    return Case("relax.vision.deform_conv2d", operands, dict(attrs), tolerance=1e-3 if dtype == "float32" else None)


CASES += [
    deform_conv2d((2, 2, 5, 4), (3, 2, 2, 3), (4, 2)),
    deform_conv2d((1, 4, 5, 6), (4, 2, 3, 2), (3, 4), groups=2, offset_groups=2, strides=2, padding=(1, 1)),
    deform_conv2d((1, 2, 5, 5), (2, 2, 2, 2), (3, 3), extra=False, dilation=(2, 2)),
    deform_conv2d((1, 2, 4, 4), (2, 2, 2, 2), (3, 3), "float64"),
    deform_conv2d((1, 2, 4, 4), (2, 2, 2, 2), (3, 3), "float16"),
    deform_conv2d((0, 2, 4, 4), (2, 2, 2, 2), (3, 3)),
]


def col2im(
    rows: tuple[int, int, int], image: tuple[int, ...], block: tuple[int, ...], dtype: str = "float32", **attrs: object
) -> Case:
    return Case("relax.vision.col2im", [rng.array(rows, dtype), Sizes(image), Sizes(block)], dict(attrs))


CASES += [
    col2im((2, 8, 12), (4, 5), (2, 2)),
    col2im((1, 8, 4), (5, 5), (2, 2), strides=(2, 2), dilation=(2, 1)),
    col2im((1, 6, 20), (5, 5), (2, 3), padding=(0, 1, 1, 0)),
    col2im((1, 16, 12), (3, 4, 5), (2, 2, 4), "int32", strides=(1, 1, 1)),
    col2im((2, 3, 4), (6,), (3,), "float16"),
    col2im((0, 4, 4), (3, 3), (2, 2)),
    col2im((1, 0, 4), (3, 3), (2, 2)),
    col2im((1, 1, 1), (1, 1), (1, 1)),
]
