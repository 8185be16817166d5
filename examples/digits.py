"""Recognise handwritten digits: a small network, compiled once, run for several batch sizes.

The network is TVMScript with a symbolic batch size `n`. `BindParams` makes the trained weights constants
of the program, `relax.build` compiles it, and the one executable serves every `n`. Each result is compared
with the same network in NumPy.

    make demo          (or: python examples/digits.py)
"""

from __future__ import annotations

import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import digits_model
import digits_view
import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T

TOLERANCE = 1e-4


@I.ir_module
class Digits:
    @R.function
    def main(
        x: R.Tensor(("n", 1, 8, 8), "float32"),
        conv_weight: R.Tensor((16, 1, 3, 3), "float32"),
        conv_bias: R.Tensor((1, 16, 1, 1), "float32"),
        hidden_weight: R.Tensor((64, 256), "float32"),
        hidden_bias: R.Tensor((64,), "float32"),
        output_weight: R.Tensor((10, 64), "float32"),
        output_bias: R.Tensor((10,), "float32"),
    ) -> R.Tuple(R.Tensor(("n", 10), "float32"), R.Tensor(("n",), "int64")):
        n = T.int64()
        with R.dataflow():
            conv = R.nn.conv2d(x, conv_weight, padding=(1, 1))
            active = R.nn.relu(R.add(conv, conv_bias))
            pooled = R.nn.max_pool2d(active, pool_size=(2, 2), strides=(2, 2))
            features = R.reshape(pooled, (n, 256))
            hidden = R.nn.relu(R.add(R.matmul(features, R.permute_dims(hidden_weight)), hidden_bias))
            scores = R.add(R.matmul(hidden, R.permute_dims(output_weight)), output_bias)
            probabilities = R.nn.softmax(scores, axis=-1)
            digit = R.argmax(probabilities, axis=1)
            R.output(probabilities, digit)
        return (probabilities, digit)


class Classifier:
    """The compiled network: float32 images (n, 1, 8, 8) in, probabilities (n, 10) and digits (n,) out."""

    def __init__(self, params: digits_model.Params) -> None:
        module = relax.transform.BindParams("main", params)(Digits)
        start = time.perf_counter()
        executable = relax.build(module, target="llvm")
        self.compile_seconds = time.perf_counter() - start
        self._run = relax.VirtualMachine(executable, relax.cpu())["main"]

    def __call__(self, images: digits_model.Floats) -> tuple[digits_model.Floats, digits_model.Labels]:
        probabilities, digit = self._run(images)
        return probabilities.numpy(), digit.numpy()


def main() -> int:
    """Compile, run every batch size, compare with NumPy, print; 0 when everything agreed."""
    console = Console()
    params = digits_model.load_weights()
    images, labels = digits_model.load_images(held_out=True)
    classify = Classifier(params)

    table = Table("batch n", "time", "accuracy", "largest difference from NumPy", title="one build, every batch size")
    agreed = True
    for n in (0, 1, 7, 64, len(images)):
        start = time.perf_counter()
        probabilities, digit = classify(images[:n])
        seconds = time.perf_counter() - start
        difference = np.abs(probabilities - digits_model.forward(images[:n], params)).max(initial=0.0)
        agreed &= bool(difference <= TOLERANCE) and np.array_equal(digit, probabilities.argmax(-1))
        hits = f"{(digit == labels[:n]).mean():.1%}" if n else "no images"
        table.add_row(str(n), f"{seconds * 1e3:.2f} ms", hits, f"{difference:.1e}")

    shown = digits_view.choose(probabilities, labels)
    console.print(digits_view.gallery(images, probabilities, labels, shown))
    console.print(table)
    console.print(f"compiled in {classify.compile_seconds * 1e3:.0f} ms")
    console.print(f"accuracy {digits_model.accuracy(probabilities, labels):.1%} on {len(images)} held-out images")
    if not agreed:
        console.print("[red]the compiled network and the NumPy reference disagree[/red]")
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
