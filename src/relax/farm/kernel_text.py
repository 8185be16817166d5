"""LLVM IR of kernels, as written by code generation and compiled by the farm."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..native.builder import c_string, quoted
from ..runtime.native import PACKED_PREFIX
from ..tir import For, While

MARK: Final = "\N{CYRILLIC LETTER MULTIOCULAR O}"
"""Letter around a number that stands for a name; with it, the number is an identifier that no program uses."""


def function_mark(number: int) -> str:
    """Word that stands in messages for the name of a text's function."""
    return f"{MARK}f{number}{MARK}"


def label_mark(number: int) -> str:
    """Word that stands in messages for the name of a variable or buffer of a kernel lowered without names."""
    return f"{MARK}{number}{MARK}"


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
    """LLVM IR of PrimFuncs that call each other, with numbers in place of names until objects are linked.

    Messages have marks (`function_mark`, `label_mark`) in place of names.
    """

    text: str
    names: tuple[str, ...]
    """Names of the functions; ``relax.function.0`` is the first."""
    bodies: tuple[str, ...]
    """Names of functions called only by `names`; numbered after them."""
    messages: tuple[str, ...]
    """Kinds and texts of the errors, alternating, in the order of their numbers. A text is a printf format; an empty
    one belongs to a place in a signature, in place of a kind."""
    loops: tuple[MarkedLoop, ...] = ()
    """Marked loops by number."""
    support: tuple[str, ...] = ()
    """Symbols used from support code that not every archive contains."""

    def named_messages(self, labels: Sequence[str] = ()) -> tuple[str, ...]:
        """Messages with names: those of the functions, and `labels`, the names of the kernel's variables."""
        return named(self.messages, self.names, labels)

    def shown(self, code: str) -> str:
        """Readable form of `code` derived from this text: with names, and with the messages as comments at the top."""
        messages = self.named_messages()
        pairs = zip(messages[::2], messages[1::2], strict=True)
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


def named(messages: Sequence[str], functions: Sequence[str], labels: Sequence[str]) -> tuple[str, ...]:
    """Messages with names in place of marks; a mark without a name, which is a program's own text, stays."""

    def name_of(match: re.Match[str]) -> str:
        names, number = functions if match[1] else labels, int(match[2])
        return c_string(names[number]) if number < len(names) else match[0]

    def formatted(match: re.Match[str]) -> str:
        return name_of(match).replace("%", "%%")

    return tuple(
        _MARKED.sub(formatted if place % 2 else name_of, text) if MARK in text else text
        for place, text in enumerate(messages)
    )


_MARKED: Final = re.compile(f"{MARK}(f?)([0-9]+){MARK}")
_NUMBERED: Final = re.compile(r"(@?)\brelax\.(function|body|part\d+|region\d+)\.(\d+)\b")
