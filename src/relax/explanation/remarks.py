"""LLVM's remarks on loops, translated into terms of the program.

remark: kernel:5:0: loop not vectorized: cannot identify array bounds
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final

from ..runtime.records import dataclass
from .lines import FILE, loop_at


@dataclass(slots=True)
class Remarks:
    """The remarks on one loop of the program."""

    vectorised: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """For each copy of the loop that LLVM vectorised: (lanes of a vector, vectors per iteration)."""
    refusals: list[str] = field(default_factory=list[str])
    """Reasons why a copy was not vectorised, as LLVM words them."""
    events: list[str] = field(default_factory=list[str])
    """Transformations that removed the loop: unrolling, or replacement by a call."""


_REMARK: Final = re.compile(rf"^remark: {FILE}:(\d+):\d+: (.*)$")
_WIDTH: Final = re.compile(r"vectorized loop \(vectorization width: (\d+), interleaved count: (\d+)\)")
_REFUSED: Final = "loop not vectorized: "
_FRUITLESS: Final = "vectorization is not beneficial"
_UNROLLED: Final = re.compile(r"completely unrolled loop with (\d+) iterations")
_REPLACED: Final = re.compile(r"\bcall to llvm\.(memset|memcpy|memmove)\b")


def read_remarks(text: str) -> dict[int, Remarks]:
    """Remarks by loop of the program."""
    result: dict[int, Remarks] = {}
    for loop, remark in _by_loop(text):
        entry = result.setdefault(loop, Remarks())
        if (width := _WIDTH.search(remark)) is not None:
            entry.vectorised.append((int(width[1]), int(width[2])))
        elif remark.startswith(_REFUSED) or _FRUITLESS in remark:
            _add(entry.refusals, remark.removeprefix(_REFUSED))
        elif (count := _UNROLLED.search(remark)) is not None:
            _add(entry.events, f"unrolled completely: {count[1]} iterations")
        elif (call := _REPLACED.search(remark)) is not None:
            _add(entry.events, f"replaced by {call[1]}")
    return result


def _by_loop(text: str) -> Iterator[tuple[int, str]]:
    for line in text.splitlines():
        match = _REMARK.match(line)
        loop = None if match is None else loop_at(int(match[1]))
        if match is not None and loop is not None:
            yield loop, match[2]


def _add(texts: list[str], text: str) -> None:
    if text not in texts:
        texts.append(text)


_REASONS: Final[tuple[tuple[str, str], ...]] = (
    (
        "cannot identify array bounds",
        "a buffer that is written may overlap one that is read, and their bounds in the loop are not known; "
        'if they never overlap, say so: T.func_attr({"tir.noalias": True})',
    ),
    ("unsafe dependent memory operations", "an iteration may read what an earlier one wrote"),
    ("Early exit loop", "it may end early: an index that depends on data is checked against its bounds"),
    ("Cannot vectorize early exit", "it may end early: a check may fail in it"),
    ("could not determine number of loop iterations", "the number of iterations is not known when it starts"),
    (_FRUITLESS, "LLVM expects vectors to be no faster"),
    ("call instruction cannot be vectorized", "it calls a function that has no form for vectors"),
    ("library call cannot be vectorized", "it calls a function that has no form for vectors"),
    ("value that could not be identified as reduction", "an iteration uses a value of the one before"),
    ("cannot prove it is safe to reorder floating-point", "the order of its sum must stay as it is written"),
    ("cannot prove it is safe to reorder memory", "the order of its reads and writes must stay as it is written"),
    ("loop control flow is not understood", "its branches are not those of a counted loop"),
)


def reason_of(refusals: Sequence[str]) -> str:
    """Reason why a loop was not vectorised, in terms of the program, or in LLVM's words if no translation fits."""
    for words, reason in _REASONS:
        if any(words in refusal for refusal in refusals):
            return reason
    return f"LLVM: {refusals[0]}" if refusals else ""
