"""Innermost loops of assembly text, found by LLVM's comments.

.LBB0_1:                                # %vector.body
                                        # =>This Inner Loop Header: Depth=1
        .loc    1 2 0                   # kernel:2
        vmovups (%rdi,%rax,4), %zmm13   # 64-byte Reload
        jb      .LBB0_1
# %bb.6:                                # %ok33
                                        #   in Loop: Header=BB0_1 Depth=1
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Final

from ..runtime.records import dataclass
from ..target.isa import isa_of


@dataclass(frozen=True, slots=True)
class Instruction:
    """A line of assembly."""

    mnemonic: str
    operands: str
    comment: str
    line: int
    """Line of its loop (see `lines`); 0 if the origin is unknown."""

    @property
    def text(self) -> str:
        return f"{self.mnemonic} {self.operands}".rstrip()


@dataclass(slots=True)
class MachineLoop:
    """An innermost loop of a function: the instructions of its blocks, in memory order."""

    symbol: str
    header: str
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    labels: set[str] = field(default_factory=set[str])
    """Labels of the loop's blocks."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A parsed line of assembly."""

    label: str
    mnemonic: str
    operands: str
    comment: str


_LABEL: Final = re.compile(r"^([^\s:]+|\"[^\"]*\"):$")
_BLOCK: Final = re.compile(r"^%bb\.\d+:")
_HEADER: Final = re.compile(r"=>\s*This (Inner )?Loop Header")
_INSIDE: Final = re.compile(r"in Loop: Header=(\S+)")


def machine_loops(text: str, triple: str) -> list[MachineLoop]:
    """Innermost loops in the order of their headers. Raises ValueError if the architecture's assembly is not parsed."""
    isa = isa_of(triple)
    if isa.comment is None:
        raise ValueError(f"the assembly of {isa.name} is not read")
    reader = _Reader()
    for row in _rows(text, isa.comment):
        reader.read(row)
    return [loop for key, loop in reader.loops.items() if key in reader.innermost]


def _rows(text: str, sign: str) -> Iterator[_Row]:
    for line in text.splitlines():
        code, _, comment = line.partition(sign)
        code, comment = code.strip(), comment.strip()
        label = _LABEL.match(code)
        if label is not None:
            yield _Row(label[1].strip('"'), "", "", comment)
        else:
            mnemonic, *operands = code.split(None, 1) or [""]
            yield _Row("", mnemonic, "".join(operands), comment)


class _Reader:
    """Parser state: function, block, the block's loop, and the current source line."""

    def __init__(self) -> None:
        self.loops: dict[str, MachineLoop] = {}
        self.innermost: set[str] = set()
        self._symbol = ""
        self._label = ""
        self._loop: MachineLoop | None = None
        self._line = 0

    def read(self, row: _Row) -> None:
        """Process a line."""
        if row.label and not row.label.startswith((".L", "$")):
            self._symbol, self._label, self._loop, self._line = row.label, "", None, 0
        elif row.label.startswith(".LBB") or _BLOCK.match(row.comment):
            self._label, self._loop = row.label, None
        if row.mnemonic == ".loc":
            self._line = int(row.operands.split()[1])
        elif row.mnemonic and not row.mnemonic.startswith("."):
            if self._loop is not None:
                self._loop.instructions.append(Instruction(row.mnemonic, row.operands, row.comment, self._line))
        elif not row.mnemonic:
            self._read_loop_comment(row.comment)

    def _read_loop_comment(self, comment: str) -> None:
        """Process a comment that names the block's loop."""
        header, inside = _HEADER.search(comment), _INSIDE.search(comment)
        if header is not None:
            key = self._label.removeprefix(".L")
            self.innermost.update([key] if header[1] else [])
        elif inside is not None:
            key = inside[1]
        else:
            return
        self._loop = self.loops.setdefault(key, MachineLoop(self._symbol, f".L{key}"))
        self._loop.labels.add(self._label)
