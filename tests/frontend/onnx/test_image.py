"""Resizing, sampling and detection."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import relax

rng = np.random.default_rng(9)
IMAGES = [rng.standard_normal((n, 2, h, w)).astype("float32") for n, h, w in ((1, 3, 4), (2, 5, 2))]


@pytest.mark.parametrize(
    "options",
    [
        'mode = "nearest"',
        'mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"',
        'mode = "linear"',
        'mode = "linear", coordinate_transformation_mode = "align_corners"',
        'mode = "cubic", coordinate_transformation_mode = "pytorch_half_pixel"',
    ],
)
def test_resize_by_scales(agrees, options: str):
    text = f"""
    agraph (float[N, 2, H, W] x) => (float[N, 2, I, J] y) <float[4] s = {{1, 1, 2, 3}}> {{
      y = Resize <{options}> (x, , s) }}"""
    agrees(text, *IMAGES, rtol=1e-4, atol=1e-4)


def test_sizes_of_scales_that_the_data_tell_are_those_of_known_scales(imported):
    """ONNX Runtime multiplies in float32, and has 23 columns."""
    text = "agraph (float[1, 10] x{0}) => (float[A, B] y) <{1}> {{ y = Resize(x, , scales) }}"
    x, scales = np.ones((1, 10), "float32"), np.array([1, 2.3], "float32")
    known = imported(text.format("", "float[2] scales = {1, 2.3}"))
    told = imported(text.format(", float[2] scales", "int64 unused = {0}"))
    for mod, arrays in ((known, (x,)), (told, (x, scales))):
        vm = relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1"), relax.cpu())
        assert vm["main"](*arrays).shape == (1, 22)


def test_resize_to_the_size_of_another_image(agrees):
    text = """
    agraph (float[N, 2, H, W] x, float[N, 2, K, L] z) => (float[N, 2, K, L] y) <int64[1] a = {2}, int64[1] e = {4},
      int64[1] o = {0}> {
      d = Shape (x)
      f = Slice (d, o, a)
      t = Shape (z)
      g = Slice (t, a, e)
      s = Concat <axis = 0> (f, g)
      y = Resize <mode = "linear"> (x, , , s) }"""
    mod = agrees(text, (IMAGES[0], np.ones((1, 2, 7, 5), "float32")), (IMAGES[1], np.ones((2, 2, 4, 9), "float32")))
    assert "R.shape([K, L])" in mod.script()


def test_upsample_of_old_models(agrees):
    text = """
    agraph (float[N, 2, H, W] x) => (float[N, 2, I, J] y) <float[4] s = {1, 1, 2, 2}> {
      y = Upsample <mode = "nearest"> (x, s) }"""
    agrees(text, *IMAGES, opset=9)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(agrees, mode, padding):
    text = f"""
    agraph (float[N, 2, H, W] x, float[N, I, J, 2] g) => (float[N, 2, I, J] y) {{
      y = GridSample <mode = "{mode}", padding_mode = "{padding}"> (x, g) }}"""
    grids = [rng.uniform(-1.5, 1.5, (len(x), 3, 2, 2)).astype("float32") for x in IMAGES]
    agrees(text, *zip(IMAGES, grids, strict=True), rtol=1e-4, atol=1e-5)


def test_suppression_gives_as_many_boxes_as_the_data_tell(agrees):
    text = """
    agraph (float[1, B, 4] b, float[1, 2, B] s) => (int64[K, 3] y, int64[K] z)
    <int64 most = {3}, float overlap = {0.5}, float least = {0.1}, int64 two = {2}> {
      y = NonMaxSuppression (b, s, most, overlap, least)
      z = Gather <axis = 1> (y, two) }"""

    def boxes(count: int) -> tuple[np.ndarray, np.ndarray]:
        corners = rng.uniform(0, 1, (1, count, 2))
        sides = rng.uniform(0.2, 0.6, (1, count, 2))
        return np.concatenate([corners, corners + sides], 2).astype("float32"), rng.uniform(0, 1, (1, 2, count)).astype(
            "float32"
        )

    agrees(text, boxes(1), boxes(6), boxes(20))


def test_chosen_boxes_are_gathered_by_their_rows(agrees):
    """A row of three indices: the scores are a vector, of which the best that there are, five at most, are taken."""
    text = """
    agraph (float[N, B, 4] b, float[N, 2, B] s) => (float[K] top, float[K, 4] box)
    <int64 most = {3}, float overlap = {0.5}, float least = {0.1}, int64[2] places = {0, 2}, int64[1] five = {5}> {
      y = NonMaxSuppression <center_point_box = 1> (b, s, most, overlap, least)
      scores = GatherND (s, y)
      rows = Gather <axis = 1> (y, places)
      boxes = GatherND (b, rows)
      count = Shape (scores)
      both = Concat <axis = 0> (count, five)
      k = ReduceMin <keepdims = 1> (both)
      top, at = TopK (scores, k)
      box = Gather <axis = 0> (boxes, at) }"""

    def boxes(images: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        corners = rng.uniform(0, 1, (images, count, 2))
        sides = rng.uniform(0.2, 0.6, (images, count, 2))
        scores = rng.uniform(0, 1, (images, 2, count))
        return np.concatenate([corners, sides], 2).astype("float32"), scores.astype("float32")

    agrees(text, boxes(1, 1), boxes(1, 6), boxes(3, 20))


def test_image_files_need_pillow(imported, monkeypatch):
    text = "agraph (uint8[N] x) => (uint8[H, W, C] y) { y = ImageDecoder(x) }"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(relax.DiagnosticError, match=r"(?s)E6001.*without Pillow.*pip install pillow"):
        imported(text, opset=20)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert 'R.call_pure_packed("relax.run.decode_image", x, R.str("RGB")' in imported(text, opset=20).script()


def _regions(count: int, images: int) -> np.ndarray:
    """Regions of images, (image, x1, y1, x2, y2), some of which lie outside, or end before they begin."""
    regions = rng.uniform(-4, 20, (count, 5)).astype("float32")
    regions[:, 0] = rng.integers(0, images, count)
    regions[:, 3:] = regions[:, 1:3] + rng.uniform(-2, 16, (count, 2))
    return regions


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_maxima_of_regions(agrees, scale: float):
    text = f"""
    agraph (float[N, 2, H, W] x, float[K, 5] r) => (float[K, 2, 2, 3] y) {{
      y = MaxRoiPool <pooled_shape = [2, 3], spatial_scale = {scale}> (x, r)
    }}"""
    sizes = ((2, 12, 9, 30), (1, 1, 1, 3), (1, 4, 4, 0))
    images = [rng.standard_normal((n, 2, h, w)).astype("float32") for n, h, w, _ in sizes]
    agrees(text, *((x, _regions(k, n)) for x, (n, _, _, k) in zip(images, sizes, strict=True)))


def test_regions_are_rows_of_five(imported):
    text = "agraph (float[N, 2, 4, 4] x, float[5] r) => (float y) { y = MaxRoiPool <pooled_shape = [2, 2]> (x, r) }"
    with pytest.raises(relax.DiagnosticError, match="E6003.*rois 2, found 4 and 1"):
        imported(text)
