"""Images as inputs: pixels converted to the layout, size and dtype that a parameter declares. Requires Pillow."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from ..runtime.dtypes import NUMPY_DTYPES, is_float
from ..runtime.info import Info, TensorInfo, dim_text
from .failures import MISFIT_INPUT, failure, optional_package

IMAGES: Final = (".png", ".jpg", ".jpeg", ".bmp", ".webp")

_MODES: Final = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's image modes, by number of channels."""

Array = np.ndarray[Any, Any]


def read_image(path: Path, info: Info | None) -> Array:
    """Read the pixels of an image file for a parameter, resized to its height and width where they are static.

    Floats are from 0 to 1, integers from 0 to 255. The layout is NCHW or NHWC (or without N), detected from the
    dimension that is 1, 3 or 4, the channels. Raises DiagnosticError.
    """
    pillow = optional_package("PIL.Image", "relax[images]", f"reading {path}")
    layout, channels, size = image_layout(path, info)
    try:
        with pillow.open(path) as opened:
            image = opened.convert(_MODES[channels])
    except (OSError, ValueError) as error:
        raise failure(MISFIT_INPUT, f"--input {path}: cannot read it: {error}") from None
    height, width = (given or own for given, own in zip(size, (image.height, image.width), strict=True))
    if (height, width) != (image.height, image.width):
        image = image.resize((width, height), pillow.Resampling.BILINEAR)
    assert isinstance(info, TensorInfo)
    return arranged(np.asarray(image), layout, info.dtype)


def image_layout(path: Path, info: Info | None) -> tuple[str, int, tuple[int, int]]:
    """Layout of a parameter that takes an image, its channels, and its height and width (0 if dynamic)."""
    if isinstance(info, TensorInfo) and info.dims is not None and len(info.dims) in (3, 4):
        batch = "N" * (len(info.dims) - 3)
        for layout in (f"{batch}CHW", f"{batch}HWC"):
            sizes = dict(zip(layout, info.dims, strict=True))
            one_image = not batch or sizes["N"] == 1 or not isinstance(sizes["N"], int)
            channels = sizes["C"]
            if one_image and isinstance(channels, int) and channels in _MODES:
                height, width = (size if isinstance(size, int) else 0 for size in (sizes["H"], sizes["W"]))
                return layout, channels, (height, width)
    shown = "nothing" if info is None else str(info)
    if isinstance(info, TensorInfo) and info.dims is not None:
        shown = f"({', '.join(map(dim_text, info.dims))})"
    hint = "images are for inputs of shape (1, C, H, W), (1, H, W, C) or without the 1, where C is 1, 3 or 4"
    raise failure(MISFIT_INPUT, f"--input {path}: an image does not fit {shown}", hint=hint)


def arranged(pixels: Array, layout: str, dtype: str) -> Array:
    """Convert pixels (height, width[, channels]) to a layout and a dtype."""
    image: Any = pixels[:, :, None] if pixels.ndim == 2 else pixels
    if is_float(dtype):
        image = image.astype("float32") / 255
    if "CHW" in layout:
        image = image.transpose(2, 0, 1)
    if layout.startswith("N"):
        image = image[None]
    return np.ascontiguousarray(image.astype(NUMPY_DTYPES.get(dtype, image.dtype)))
