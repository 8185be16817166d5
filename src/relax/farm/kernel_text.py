"""LLVM IR of kernels, as written by code generation and compiled by the farm."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ..native.builder import quoted
from ..runtime.native import PACKED_PREFIX
from ..tir import For, While


def symbol_name(name: str) -> str:
    """Exported symbol of a PrimFunc: tvm-ffi's prefix and the name, so that tvm-ffi's own loader finds it too."""
    return PACKED_PREFIX + name


@dataclass(frozen=True, slots=True)
class MarkedLoop:
    """A loop with marked instructions: its function, and the number of the enclosing loop."""

    function: str
    loop: For | While
    parent: int | None


@dataclass(frozen=True)
class KernelText:
    """LLVM IR of PrimFuncs that call each other, with numbers in place of names until objects are linked."""

    text: str
    names: tuple[str, ...]
    """Names of the functions; ``relax.function.0`` is the first."""
    bodies: tuple[str, ...]
    """Names of functions called only by `names`; numbered after them."""
    messages: tuple[str, ...]
    """Kinds and texts of the errors, alternating, in the order of their numbers."""
    loops: tuple[MarkedLoop, ...] = ()
    """Marked loops by number."""
    support: tuple[str, ...] = ()
    """Symbols used from support code that not every archive contains."""

    def shown(self, code: str) -> str:
        """Readable form of `code` derived from this text: with names, and with the messages as comments at the top."""
        pairs = zip(self.messages[::2], self.messages[1::2], strict=True)
        lines = [
            f"; message {i}: {kind}: {text}" if text else f"; message {i}: {kind}"
            for i, (kind, text) in enumerate(pairs)
        ]

        def named(match: re.Match[str]) -> str:
            sigil, kind, number = match.groups()
            name = (*self.names, *self.bodies)[int(number)]
            symbol = symbol_name(name) if kind == "function" else f"relax.{kind}.{name}"
            return quoted(symbol) if sigil else symbol

        return "\n".join([*lines, _NUMBERED.sub(named, code)])


_NUMBERED: Final = re.compile(r"(@?)\brelax\.(function|body|part\d+|region\d+)\.(\d+)\b")
