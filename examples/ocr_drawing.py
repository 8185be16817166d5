"""Draw lines of text into an image, with letters made of straight strokes; and show an image in the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

# A letter is some strokes; a stroke is some points, joined by straight lines; a point is two digits: x from the left
# (0 to 4) and y from the top (0 to 6).
LETTERS = {
    "A": "062046 1434",
    "B": "0006 003041423303 3344453606",
    "C": "4130100105163645",
    "D": "0006 002042442606",
    "E": "40000646 0333",
    "F": "400006 0333",
    "G": "41301001051636454323",
    "H": "0006 4046 0343",
    "I": "1030 2026 1636",
    "J": "4045361605",
    "K": "0006 4003 0346",
    "L": "000646",
    "M": "0600234046",
    "N": "06004640",
    "O": "100105163645413010",
    "P": "06003041423303",
    "Q": "100105163645413010 2446",
    "R": "06003041423303 2346",
    "S": "413010010213334445361605",
    "T": "0040 2026",
    "U": "000516364540",
    "V": "002640",
    "W": "0016233640",
    "X": "0046 4006",
    "Y": "002340 2326",
    "Z": "00400646",
    "0": "100105163645413010",
    "1": "112026 1636",
    "2": "01103041420646",
    "3": "01103041423313 334445361605",
    "4": "36300444",
    "5": "400003334445361605",
    "6": "4130100105163645443303",
    "7": "004016",
    "8": "13020110304142331304051636454433",
    "9": "0516364541301001021343",
    ".": "2526",
    "+": "2125 0343",
    "-": "1333",
    "=": "0242 0444",
    " ": "",
}

PAPER = (244, 240, 228)
ADVANCE = 6
"""Units from the left edge of a letter to that of the next."""


@dataclass(frozen=True)
class Line:
    """A line of text: where its upper left corner is, how high its letters are, in pixels, and its colour."""

    text: str
    x: int
    y: int
    size: int
    ink: tuple[int, int, int] = (32, 32, 48)

    @property
    def width(self) -> int:
        """The width in pixels."""
        return round((ADVANCE * len(self.text) - 2) * self.size / 6)


def draw(height: int, width: int, lines: Iterable[Line]) -> np.ndarray:
    """An image of uint8 (height, width, 3) with these lines."""
    image = np.empty((height, width, 3))
    image[:] = PAPER
    for line in lines:
        cover = _cover(line, height, width)[..., None]
        image = image * (1 - cover) + np.array(line.ink) * cover
    return np.rint(image).astype("uint8")


def _cover(line: Line, height: int, width: int) -> np.ndarray:
    """The share of each pixel that a line of text covers: what is nearer to a stroke than half of its thickness."""
    unit, distance = line.size / 6, np.full((height, width), np.inf)
    for index, letter in enumerate(line.text):
        left = line.x + index * ADVANCE * unit
        rows = slice(max(0, int(line.y - unit)), min(height, int(line.y + line.size + unit) + 1))
        columns = slice(max(0, int(left - unit)), min(width, int(left + 5 * unit) + 1))
        y, x = np.mgrid[rows, columns]
        for stroke in LETTERS[letter].split():
            points = np.array([int(digit) for digit in stroke], float).reshape(-1, 2) * unit + (left, line.y)
            for start, end in pairwise(points):
                near = distance[rows, columns]
                np.minimum(near, _distance(x, y, start, end), out=near)
    return np.clip(0.09 * line.size - distance + 0.5, 0, 1)


def _distance(x: np.ndarray, y: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Distances of points from the straight line between two."""
    (dx, dy), length = end - start, ((end - start) ** 2).sum()
    t = np.clip(((x - start[0]) * dx + (y - start[1]) * dy) / length, 0, 1) if length else 0.0
    return np.hypot(x - start[0] - t * dx, y - start[1] - t * dy)


DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""The dots of a braille character, which is 2 wide and 4 high, as bits."""


def braille(image: np.ndarray, step: int = 3) -> str:
    """An image as lines of text: a dot for each dark square of `step` pixels."""
    grey = image.mean(-1)
    height, width = grey.shape[0] // (4 * step), grey.shape[1] // (2 * step)
    squares = grey[: height * 4 * step, : width * 2 * step].reshape(height, 4, step, width, 2, step)
    dark = squares.mean((2, 5)) < 176
    codes = 0x2800 + (dark * DOTS[None, :, None, :]).sum((1, 3))
    return "\n".join("".join(map(chr, row)) for row in codes)
