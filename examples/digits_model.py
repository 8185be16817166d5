"""The digits network outside the compiler: its data, its weights, and what it computes, in NumPy.

    image (1, 8, 8) → conv2d 3×3 → relu → max_pool2d 2×2 → linear → relu → linear → softmax (10)

`forward` is the reference that `digits.py` compares the compiled program with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.datasets import load_digits

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]
Params = dict[str, Floats]

WEIGHTS = Path(__file__).parent / "data" / "digits.npz"

CHANNELS, HIDDEN, CLASSES = 16, 64, 10
FEATURES = CHANNELS * 4 * 4
SHAPES: dict[str, tuple[int, ...]] = {
    "conv_weight": (CHANNELS, 1, 3, 3),
    "conv_bias": (1, CHANNELS, 1, 1),
    "hidden_weight": (HIDDEN, FEATURES),
    "hidden_bias": (HIDDEN,),
    "output_weight": (CLASSES, HIDDEN),
    "output_bias": (CLASSES,),
}


def load_images(held_out: bool) -> tuple[Floats, Labels]:
    """The images (n, 1, 8, 8), scaled to [0, 1], and their digits. Every fifth image is held out of training."""
    bunch: Any = load_digits()
    images = (bunch.images / 16.0).astype("float32")[:, None]
    chosen = (np.arange(len(images)) % 5 == 0) == held_out
    return images[chosen], bunch.target[chosen].astype("int64")


def load_weights(path: Path = WEIGHTS) -> Params:
    """The trained weights, by parameter name."""
    with np.load(path) as stored:
        params = {name: stored[name] for name in SHAPES}
    for name, shape in SHAPES.items():
        if params[name].shape != shape or params[name].dtype != np.float32:
            raise ValueError(f"{path}: {name} is {params[name].dtype}{params[name].shape}, expected float32{shape}")
    return params


def patches(images: Floats) -> Floats:
    """The 3×3 neighbourhood of every pixel, zero outside: (n, 1, h, w) → (n, h, w, 9)."""
    n, _, h, w = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return sliding_window_view(padded, (3, 3), axis=(2, 3)).reshape(n, h, w, 9)


def convolve(images: Floats, params: Params) -> Floats:
    """3×3 convolution with padding 1, one input channel, and the bias."""
    kernel = params["conv_weight"].reshape(CHANNELS, 9)
    return (patches(images) @ kernel.T).transpose(0, 3, 1, 2) + params["conv_bias"]


def windows(x: Floats) -> Floats:
    """The four values of each 2×2 window, last: (n, c, h, w) → (n, c, h/2, w/2, 4)."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)


def relu(x: Floats) -> Floats:
    """max(x, 0), element by element."""
    return np.maximum(x, np.float32(0))


def softmax(x: Floats) -> Floats:
    """exp(x) / Σ exp(x) along the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def forward(images: Floats, params: Params) -> Floats:
    """The probability of each digit: (n, 1, 8, 8) → (n, 10)."""
    pooled = windows(relu(convolve(images, params))).max(-1)
    hidden = relu(pooled.reshape(len(images), FEATURES) @ params["hidden_weight"].T + params["hidden_bias"])
    return softmax(hidden @ params["output_weight"].T + params["output_bias"])


def accuracy(probabilities: Floats, labels: Labels) -> float:
    """The share of images whose most probable digit is the true one."""
    return float((probabilities.argmax(-1) == labels).mean())
