"""Line tables for LLVM IR with marked loops, which relate machine instructions to loops.

    %v3 = fadd float %v1, %v2, !dbg !loop0     →     %v3 = fadd float %v1, %v2, !dbg !9
                                                     !9 = !DILocation(line: 2, scope: !8)

Loop i is line i + 2; line 1 is code outside of loops. Line tables do not change the generated code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

OUTSIDE: Final = 1
"""Line of instructions outside of loops."""
FILE: Final = "kernel"
"""File name in LLVM's remarks."""

_MARK: Final = re.compile(r"!loop(\d+)$")
_DEFINED: Final = re.compile(r"^define [^@]*(@[^\s(]+)\(")
_CALLED: Final = re.compile(r"\bcall [^@\n]*(@[^\s(]+)\(")
_NUMBER: Final = re.compile(r"^!(\d+) = ", re.MULTILINE)


def line_of(loop: int) -> int:
    """Line number of a loop."""
    return loop + OUTSIDE + 1


def loop_at(line: int) -> int | None:
    """Loop of a line; None for a line outside of loops, and for 0 (instructions of unknown origin)."""
    return line - OUTSIDE - 1 if line > OUTSIDE else None


def with_lines(text: str) -> str:
    """Replace the marks in a module's text by line tables."""
    table = _LineTable(1 + max(map(int, _NUMBER.findall(text)), default=-1))
    lines = text.splitlines()
    segments: list[list[str]] = []
    start = 0
    while start < len(lines):
        end = lines.index("}", start) if lines[start].startswith("define ") else start
        segments.append(lines[start : end + 1])
        start = end + 1
    traced = _traced({name: segment for segment in segments if (name := _defined(segment[0]))})
    out = [
        line
        for segment in segments
        for line in (table.function(segment) if _defined(segment[0]) in traced else segment)
    ]
    return "\n".join([*out, *table.nodes]) + "\n"


def _defined(line: str) -> str:
    """Function whose definition begins in a line; empty for other lines."""
    match = _DEFINED.match(line)
    return "" if match is None else match[1]


def _traced(functions: Mapping[str, Sequence[str]]) -> set[str]:
    """Functions with marks and their callers: inlined lines are kept only if the caller has line tables."""
    calls = {name: set(_CALLED.findall("\n".join(lines))) for name, lines in functions.items()}
    traced = {name for name, lines in functions.items() if any(map(_MARK.search, lines))}
    while callers := {name for name, callees in calls.items() if callees & traced} - traced:
        traced |= callers
    return traced


class _LineTable:
    """Metadata nodes of a module's line tables, numbered from `first`."""

    def __init__(self, first: int) -> None:
        self._next = first
        self.nodes: list[str] = []
        self._file = self._node(f'!DIFile(filename: "{FILE}", directory: "")')
        self._unit = self._node(
            f'distinct !DICompileUnit(language: DW_LANG_C, file: {self._file}, producer: "relax", '
            "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)"
        )
        self._type = self._node(f"!DISubroutineType(types: {self._node('!{null}')})")
        versions = [
            self._node(f'!{{i32 {behaviour}, !"{name} Version", i32 {number}}}')
            for behaviour, name, number in ((2, "Debug Info", 3), (7, "Dwarf", 4))
        ]
        self.nodes += [f"!llvm.dbg.cu = !{{{self._unit}}}", f"!llvm.module.flags = !{{{', '.join(versions)}}}"]

    def _node(self, body: str) -> str:
        name = f"!{self._next}"
        self._next += 1
        self.nodes.append(f"{name} = {body}")
        return name

    def function(self, lines: Sequence[str]) -> list[str]:
        """Lines of a function, with locations on marked instructions and, as LLVM requires, on calls."""
        head, *body = lines
        scope = self._node(
            f'distinct !DISubprogram(name: "kernel", scope: {self._file}, file: {self._file}, line: {OUTSIDE}, '
            f"type: {self._type}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {self._unit})"
        )
        locations: dict[int, str] = {}

        def location(line: int) -> str:
            if line not in locations:
                locations[line] = self._node(f"!DILocation(line: {line}, scope: {scope})")
            return locations[line]

        out = [f"{head.removesuffix('{')}!dbg {scope} {{"]
        for text in body:
            mark = _MARK.search(text)
            if mark is not None:
                out.append(f"{text[: mark.start()]}{location(line_of(int(mark[1])))}")
            elif re.search(r"\bcall ", text):
                out.append(f"{text}, !dbg {location(OUTSIDE)}")
            else:
                out.append(text)
        return out
