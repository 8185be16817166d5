"""Decoding of image files, by Pillow where that is installed."""

from __future__ import annotations

import importlib
import io
from typing import Any, Final

import numpy as np
import tvm_ffi

from .builtin_table import builtin
from .dtypes import Array
from .ops import array_of
from .tensor import tensor_of_numpy

CHANNELS: Final = {"RGB": 3, "BGR": 3, "Grayscale": 1}
"""The number of channels of each pixel format."""


@builtin("relax.run.decode_image")
def decode_image(data: Any, pixel_format: str) -> tvm_ffi.Tensor:
    """The pixels of an image file, its bytes as a uint8 tensor: uint8 of shape (height, width, channels).

    Sizes of 0 if the bytes are no image. RuntimeError without Pillow.
    """
    encoded = array_of(data, "decode_image").tobytes()
    try:
        library: Any = importlib.import_module("PIL.Image")
    except ImportError:
        raise RuntimeError("decode_image: Pillow is not installed: pip install pillow") from None
    channels = CHANNELS[pixel_format]
    try:
        image: Any = library.open(io.BytesIO(encoded))
        pixels: Array = np.asarray(image.convert("L" if channels == 1 else "RGB"), np.uint8)
    except (OSError, ValueError, SyntaxError):  # how Pillow says that it cannot read a file
        return tensor_of_numpy(np.zeros((0, 0, channels), np.uint8))
    pixels = pixels.reshape(*pixels.shape[:2], channels)
    ordered: Array = pixels[..., ::-1] if pixel_format == "BGR" else pixels
    return tensor_of_numpy(np.array(ordered, order="C"))
