"""Train the weights of examples/digits.py once, with NumPy: Adam, cross entropy, gradients by hand.

    python tools/train_digits.py [OUTPUT]

Seeded; takes some ten seconds. The result is kept in examples/data/digits.npz; run this
again only when the network of examples/digits_model.py changes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from digits_model import (
    CHANNELS,
    FEATURES,
    SHAPES,
    WEIGHTS,
    Floats,
    Labels,
    Params,
    accuracy,
    convolve,
    forward,
    load_images,
    patches,
    relu,
    softmax,
    windows,
)

SEED, EPOCHS, BATCH, RATE, DECAY = 7, 150, 32, 2e-3, 1e-4


def initial(rng: np.random.Generator) -> Params:
    """Weights drawn for relu (variance 2 / inputs), biases zero."""
    params: Params = {}
    for name, shape in SHAPES.items():
        scale = np.sqrt(2 / np.prod(shape[1:])) if name.endswith("weight") else 0.0
        params[name] = (rng.standard_normal(shape) * scale).astype("float32")
    return params


def loss_and_gradients(images: Floats, labels: Labels, params: Params) -> tuple[float, Params]:
    """Mean cross entropy of the batch, and its derivative by every parameter."""
    n = len(images)
    conv = convolve(images, params)
    groups = windows(relu(conv))
    winner = groups.argmax(-1)
    features = groups.max(-1).reshape(n, FEATURES)
    before = features @ params["hidden_weight"].T + params["hidden_bias"]
    hidden = relu(before)
    probs = softmax(hidden @ params["output_weight"].T + params["output_bias"])
    rows = np.arange(n)
    loss = float(-np.log(np.maximum(probs[rows, labels], 1e-12)).mean())

    d_scores = probs.copy()
    d_scores[rows, labels] -= 1
    d_scores /= n
    d_before = (d_scores @ params["output_weight"]) * (before > 0)
    d_pooled = (d_before @ params["hidden_weight"]).reshape(n, CHANNELS, 4, 4)
    # The gradient of a maximum goes to the element that won; then the windows are laid out as an image again.
    d_groups = (np.arange(4) == winner[..., None]) * d_pooled[..., None]
    d_conv = d_groups.reshape(n, CHANNELS, 4, 4, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(conv.shape) * (conv > 0)
    d_kernel = np.einsum("nchw,nhwk->ck", d_conv, patches(images))
    gradients = {
        "conv_weight": d_kernel.reshape(SHAPES["conv_weight"]),
        "conv_bias": d_conv.sum((0, 2, 3)).reshape(SHAPES["conv_bias"]),
        "hidden_weight": d_before.T @ features,
        "hidden_bias": d_before.sum(0),
        "output_weight": d_scores.T @ hidden,
        "output_bias": d_scores.sum(0),
    }
    return loss, {name: g.astype(images.dtype) for name, g in gradients.items()}


def shifted(images: Floats, rng: np.random.Generator) -> Floats:
    """Each image moved by at most one pixel in each direction, zeros moving in."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    dy, dx = rng.integers(0, 3, (2, len(images)))
    span = np.arange(8)
    rows, columns = (dy[:, None] + span)[:, :, None], (dx[:, None] + span)[:, None, :]
    return padded[np.arange(len(images))[:, None, None], 0, rows, columns][:, None]


def train(images: Floats, labels: Labels, epochs: int = EPOCHS, seed: int = SEED) -> Params:
    """Adam with decoupled weight decay and a learning rate that falls as a cosine to zero."""
    rng = np.random.default_rng(seed)
    params = initial(rng)
    mean = {name: np.zeros_like(p) for name, p in params.items()}
    square = {name: np.zeros_like(p) for name, p in params.items()}
    steps = epochs * -(-len(images) // BATCH)
    step = 0
    for _ in range(epochs):
        order = rng.permutation(len(images))
        for start in range(0, len(order), BATCH):
            step += 1
            batch = order[start : start + BATCH]
            _, gradients = loss_and_gradients(shifted(images[batch], rng), labels[batch], params)
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            for name, g in gradients.items():
                mean[name] = 0.9 * mean[name] + 0.1 * g
                square[name] = 0.999 * square[name] + 0.001 * g * g
                update = mean[name] / (1 - 0.9**step) / (np.sqrt(square[name] / (1 - 0.999**step)) + 1e-8)
                params[name] = (params[name] * (1 - rate * DECAY) - rate * update).astype("float32")
    return params


def main(output: Path) -> None:
    """Train, report both accuracies, write the weights."""
    images, labels = load_images(held_out=False)
    params = train(images, labels)
    test_images, test_labels = load_images(held_out=True)
    print(f"training accuracy  {accuracy(forward(images, params), labels):.4f}  ({len(images)} images)")
    print(f"held-out accuracy  {accuracy(forward(test_images, params), test_labels):.4f}  ({len(test_images)} images)")
    np.savez_compressed(output, **params)
    print(f"{output}: {output.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else WEIGHTS)
