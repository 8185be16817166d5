"""Syntax-highlighted printing to terminals and notebooks."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.syntax import Syntax

_STYLES = {"light": "default", "dark": "monokai", "ansi": "ansi_dark", None: "ansi_dark"}


def print_highlighted(text: str, style: str | None = None) -> None:
    """Print a script: highlighted in a terminal or a notebook, plain anywhere else.

    `style` is "light", "dark", "ansi", or the name of a Pygments style; by default the terminal's own
    colours are used.
    """
    console = Console()
    if console.is_terminal or console.is_jupyter:
        theme = _STYLES.get(style, style) or "ansi_dark"
        console.print(Syntax(text, "python", theme=theme, background_color="default", word_wrap=True))
    else:
        sys.stdout.write(text + "\n")
