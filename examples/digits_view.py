"""Draw digits and their predictions in the terminal, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.columns import Columns
from rich.panel import Panel
from rich.text import Text

from digits_model import Floats, Labels

SHADES = " ░▒▓█"


def shade(image: Floats) -> list[str]:
    """An image of values in [0, 1] as lines of text; a pixel is two characters wide, which makes it square."""
    levels = np.clip((image * len(SHADES)).astype(int), 0, len(SHADES) - 1)
    return ["".join(SHADES[level] * 2 for level in row) for row in levels]


def panel(image: Floats, probabilities: Floats, label: int) -> Panel:
    """One image (1, 8, 8) with its prediction: green when it is right, red when it is not."""
    predicted = int(probabilities.argmax())
    title = f"{predicted} ({probabilities[predicted]:.0%})"
    color = "green" if predicted == label else "red"
    subtitle = "" if predicted == label else f"is {label}"
    return Panel(Text("\n".join(shade(image[0]))), title=title, subtitle=subtitle, border_style=color, expand=False)


def choose(probabilities: Floats, labels: Labels, right: int = 6, wrong: int = 2) -> list[int]:
    """The indices of a few images to look at: different digits predicted right, then the first ones wrong."""
    hit = np.flatnonzero(probabilities.argmax(-1) == labels)
    miss = np.flatnonzero(probabilities.argmax(-1) != labels)
    _, first_of_each = np.unique(labels[hit], return_index=True)
    return [*hit[first_of_each][:right].tolist(), *miss[:wrong].tolist()]


def gallery(images: Floats, probabilities: Floats, labels: Labels, indices: Sequence[int]) -> Columns:
    """The panels of the images at `indices`, as many beside each other as the terminal is wide."""
    return Columns([panel(images[i], probabilities[i], int(labels[i])) for i in indices])
