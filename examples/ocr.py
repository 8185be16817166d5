"""Read text off an image: two networks from a wheel of the package index, each built once, run at any size.

A detector marks the pixels of text lines; connected pixels become boxes; a recogniser gives the probabilities of
characters along each box, which a greedy CTC decoding makes text. Images have different heights and widths, lines
different widths: the networks leave those dimensions open.

    make demo          (or: python examples/ocr.py)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

import ocr_drawing
import relax
from ocr_drawing import Line
from relax.frontend.onnx import from_onnx

sys.path.append(str(Path(__file__).parents[1] / "tools"))  # which has the script that downloads wheels
import real_models

IS_TEXT, IS_LINE = 0.3, 0.6
"""Probability of a pixel from which it counts as text; of a box, as the mean of its pixels, to be a line."""

GROWTH = 1.6
"""The detector marks the middle of a line: a box grows by its area, over its perimeter, times this."""

HEIGHT, MULTIPLE = 48, 32
"""The recogniser's lines are so high; the detector's images are a multiple of so many pixels high and wide."""

PICTURES = [
    (
        192,
        480,
        [
            Line("RELAX READS TEXT", 24, 24, 26),
            Line("ONE BUILD ANY SIZE", 60, 84, 20, (150, 40, 40)),
            Line("12 + 34 = 46", 100, 136, 30, (30, 70, 140)),
        ],
    ),
    (100, 600, [Line("ANOTHER HEIGHT", 24, 32, 26, (20, 90, 60)), Line("AND WIDTH", 410, 56, 16)]),
]
"""Images to draw: height, width, lines."""


@dataclass(frozen=True)
class Box:
    """A rectangle of pixels: rows and columns from the first to before the last."""

    top: int
    bottom: int
    left: int
    right: int


@dataclass(frozen=True)
class ReadLine:
    """A line of text in an image, and the mean probability of its characters."""

    box: Box
    text: str
    probability: float


class Network:
    """An ONNX model, compiled: one array in, one array out, of any size that it leaves open."""

    def __init__(self, path: Path) -> None:
        start = time.perf_counter()
        executable = relax.build(from_onnx(path), "llvm")
        self.compile_seconds = time.perf_counter() - start
        self._run: Any = relax.VirtualMachine(executable, relax.cpu())["main"]

    def __call__(self, array: np.ndarray) -> np.ndarray:
        return np.from_dlpack(self._run(array))


class Reader:
    """Finds lines of text in images, and reads them."""

    def __init__(self) -> None:
        self.detect = Network(real_models.model_path("ocr_detection"))
        path = real_models.model_path("ocr_recognition")
        self.recognise = Network(path)
        self.characters = characters_of(path)

    def __call__(self, image: np.ndarray) -> list[ReadLine]:
        """The lines of an image, from the top; uint8 (height, width, 3)."""
        height, width, _ = image.shape
        padding = ((0, -height % MULTIPLE), (0, -width % MULTIPLE), (0, 0))
        marked = self.detect(as_input(np.pad(image, padding, mode="edge")))[0, 0, :height, :width]
        return [self.read(image, box) for box in boxes_of(marked)]

    def read(self, image: np.ndarray, box: Box) -> ReadLine:
        """The text in a part of an image."""
        part = image[box.top : box.bottom, box.left : box.right]
        width = max(1, round(part.shape[1] * HEIGHT / part.shape[0]))
        text, probability = decode(self.recognise(as_input(resize(part, HEIGHT, width)))[0], self.characters)
        return ReadLine(box, text, probability)


def characters_of(path: Path) -> list[str]:
    """The character of each class of the recogniser, as its metadata lists them: first "nothing", last a space."""
    listed = {item.key: item.value for item in onnx.load(path).metadata_props}["character"]
    return ["", *listed.split("\n"), " "]


def as_input(image: np.ndarray) -> np.ndarray:
    """An image as a network's input: float32 (1, 3, height, width) from -1 to 1."""
    return np.ascontiguousarray(image.astype("float32").transpose(2, 0, 1)[None] / 127.5 - 1)


def resize(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """An image of another size, interpolated linearly."""
    for axis, size in ((0, height), (1, width)):
        old = image.shape[axis]
        place = np.clip((np.arange(size) + 0.5) * old / size - 0.5, 0, old - 1)
        first = np.minimum(place.astype(int), old - 1)
        second = np.minimum(first + 1, old - 1)
        share = (place - first).reshape([-1 if d == axis else 1 for d in range(3)])
        image = image.take(first, axis) * (1 - share) + image.take(second, axis) * share
    return image


def boxes_of(marked: np.ndarray) -> list[Box]:
    """Boxes around the connected pixels that are probably text, from the top."""
    boxes: list[Box] = []
    for top, bottom, left, right in components(marked > IS_TEXT):
        if marked[top:bottom, left:right].mean() < IS_LINE or bottom - top < 3:
            continue
        height, width = bottom - top, right - left
        margin = round(GROWTH * height * width / (2 * (height + width)))
        boxes.append(
            Box(
                max(0, top - margin),
                min(marked.shape[0], bottom + margin),
                max(0, left - margin),
                min(marked.shape[1], right + margin),
            )
        )
    return sorted(boxes, key=lambda box: (box.top, box.left))


def components(mask: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Rectangles (top, bottom, left, right) around the connected parts of a mask; pixels touch at sides and corners."""
    edges = np.diff(np.pad(mask.astype(np.int8), ((0, 0), (1, 1))))
    rows, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]
    part = np.arange(len(rows))  # runs of pixels in a row; those of one part get one number
    while True:
        touching = (np.abs(rows[:, None] - rows) <= 1) & (starts[:, None] <= ends) & (starts <= ends[:, None])
        least = np.where(touching, part, len(part)).min(1, initial=len(part))
        if (least == part).all():
            break
        part = least[least]
    return [
        (rows[part == p].min(), rows[part == p].max() + 1, starts[part == p].min(), ends[part == p].max())
        for p in np.unique(part)
    ]


def decode(probabilities: np.ndarray, characters: Sequence[str]) -> tuple[str, float]:
    """The text of (steps, classes), and the mean probability of its characters.

    The most probable class of each step counts where it differs from that of the step before; class 0 is "nothing".
    """
    best = probabilities.argmax(-1)
    kept = (best != 0) & (best != np.concatenate([[0], best[:-1]]))
    text = "".join(characters[int(index)] for index in best[kept])
    return text, float(probabilities.max(-1)[kept].mean()) if kept.any() else 0.0


def main() -> int:
    """Draw, find, read, print; 0 when every line was read as it was drawn, or the networks cannot be had."""
    console = Console()
    try:
        reader = Reader()
    except real_models.Unavailable as error:
        console.print(f"examples/ocr.py is left out: {error}")
        return 0
    seconds = reader.detect.compile_seconds, reader.recognise.compile_seconds
    console.print("compiled the detector in {:.1f} s, the recogniser in {:.1f} s".format(*seconds))
    right = True
    for height, width, lines in PICTURES:
        image = ocr_drawing.draw(height, width, lines)
        console.print(ocr_drawing.braille(image), no_wrap=True, overflow="crop", highlight=False)
        start = time.perf_counter()
        results = reader(image)
        elapsed = time.perf_counter() - start
        table = Table("read", "probability", "rows", "columns", title=f"{height} × {width} pixels, {elapsed:.2f} s")
        for line in results:
            box = line.box
            table.add_row(line.text, f"{line.probability:.1%}", f"{box.top}–{box.bottom}", f"{box.left}–{box.right}")
        console.print(table)
        drawn = [line.text for line in lines]
        if [line.text for line in results] != drawn:
            console.print(f"[red]drawn: {', '.join(drawn)}[/red]")
            right = False
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
