"""Hook from Relay nodes to their text.

The printer (`text/printer.py`) depends on the nodes and registers itself here. A malformed node that cannot be printed
shows as its class and fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import Node
from ..ir.printing import plain, show_text


def _plain(node: Node, **options: Any) -> str:
    return plain(node)


_astext: Callable[..., str] = _plain


def register_text(function: Callable[..., str]) -> None:
    """Register `function(node, **options)` as the implementation of `.astext()`, `.show()` and `repr`."""
    global _astext
    _astext = function


def represent(node: Node) -> str:
    """`repr` of a node: its text, or its class and fields if printing fails."""
    try:
        return _astext(node, version=False)
    except Exception:  # noqa: BLE001  repr must never fail: it is what a debugger calls on broken IR
        return plain(node)


class RelayNode(Node):
    """Base class of Relay nodes, which print as Relay text."""

    __slots__ = ()

    def astext(self, show_meta_data: bool = True, annotate: Callable[[Node], str] | None = None) -> str:
        """Return this node as Relay text, which `relay.fromtext` parses.

        Non-scalar constants are stored in the section ``#[metadata]``; without `show_meta_data` it is omitted, and the
        text cannot be parsed again. `annotate` returns the text of a comment for each expression.
        """
        return _astext(self, show_meta_data=show_meta_data, annotate=annotate)

    def script(self, **options: Any) -> str:
        """Return this node as Relay text, without version and metadata."""
        return _astext(self, version=False, show_meta_data=False, **options)

    def show(self, **options: Any) -> None:
        """Print this node as Relay text."""
        show_text(self.script(**options))

    def __repr__(self) -> str:
        return represent(self)

    def __str__(self) -> str:
        return represent(self)
