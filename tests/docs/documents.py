"""Running a document: its ```python blocks are one program, and what a ```text block shows is what they say.

    ```python             runs; the blocks of a document share one namespace, from top to bottom
    ```python no-run      is left out; the document says beside it why
    ```python prelude     runs, and runs first in every chapter below a folder of the document's name
    ```python fails       must raise an exception
    ```text               right after a block (only blank lines between): what that block printed, warned of and
                          raised; a line "..." stands for any lines

A block runs at its own line numbers in the document, so that an error points there. A block with a ```text after it is a
file of its own instead, `program.py`, so that the lines it names are those of the block.

`python tests/docs/documents.py docs/language/*.md` writes into the ```text blocks what is said today.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import re
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import both_modes
import numpy as np

import relax
from relax.ir import RelaxWarning

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`]*)$")
SHOWN_AS = "program.py"


@dataclass
class Block:
    """A fenced block: where its first line stands (from 1), the words after the fence, its lines."""

    line: int
    words: list[str]
    lines: list[str] = field(default_factory=list)
    output: Block | None = None

    @property
    def runs(self) -> bool:
        return self.words[:1] == ["python"] and "no-run" not in self.words


@dataclass
class Said:
    """What a block did: the text it gave, and the exception it ended in."""

    text: str
    error: Exception | None


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a document, each python block with the text block that follows it."""
    found: list[Block] = []
    block: Block | None = None
    indent, adjacent = 0, False
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if block is None and fence:
            block = Block(number + 1, fence["info"].split())
            indent = len(fence["indent"])
        elif block is not None and line.strip() == "```":
            if block.words == ["text"] and adjacent and found[-1].runs:
                found[-1].output = block
            found.append(block)
            block, adjacent = None, True
        elif block is not None:
            block.lines.append(line[indent:])
        elif line.strip():
            adjacent = False
    if block is not None:
        raise ValueError("a code block is not closed")
    return found


def program(text: str) -> str:
    """The running blocks of a document, each on the lines where it stands, all else blank."""
    lines = [""] * len(text.splitlines())
    for block in blocks_of(text):
        if block.runs:
            lines[block.line - 1 : block.line - 1 + len(block.lines)] = block.lines
    return "\n".join(lines).rstrip() + "\n"


def prelude_of(path: Path) -> Path | None:
    """The document whose prelude a document begins with: docs/language.md for docs/language/rules.md."""
    parent = path.parent.with_suffix(".md")
    return parent if parent.exists() else None


class Runner:
    """Runs the blocks of one document in a folder of its own."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder
        self.module = types.ModuleType(f"example_{path.stem.replace('-', '_')}")
        self.namespace: dict[str, Any] = self.module.__dict__
        self.text = path.read_text(encoding="utf-8")
        self.count = 0

    def run(self) -> Iterator[tuple[Block, Said]]:
        """Run the blocks, one by one; NumPy's global generator, which documents may draw from, is seeded meanwhile."""
        generator = np.random.get_state()
        np.random.seed(0)
        sys.modules[self.module.__name__] = self.module  # where dataclasses look for what annotations mean
        try:
            parent = prelude_of(self.path)
            if parent is not None:
                self._prelude(parent)
            whole = self.folder / f"{self.path.stem}.py"
            whole.write_text(program(self.text), encoding="utf-8")
            for block in blocks_of(self.text):
                if block.runs:
                    yield block, self._block(block, whole)
        finally:
            np.random.set_state(generator)
            del sys.modules[self.module.__name__]

    def _prelude(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        file = self.folder / f"prelude_{path.stem}.py"
        file.write_text(program(text), encoding="utf-8")
        for block in blocks_of(text):
            if block.runs and "prelude" in block.words:
                self._block(block, file)

    def _block(self, block: Block, whole: Path) -> Said:
        if block.output is None and "fails" not in block.words:
            source = "\n" * (block.line - 1) + "\n".join(block.lines)
            exec(compile(source, str(whole), "exec"), self.namespace)
            self._wrap()
            return Said("", None)
        self.count += 1
        file = self.folder / str(self.count) / SHOWN_AS
        file.parent.mkdir()
        file.write_text("\n".join(block.lines) + "\n", encoding="utf-8")
        return self._record(file)

    def _record(self, file: Path) -> Said:
        printed = io.StringIO()
        error: Exception | None = None
        with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(printed):
            warnings.simplefilter("always")
            try:
                exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), self.namespace)
            except both_modes.DisagreementError:
                raise
            except Exception as caught:  # noqa: BLE001  (whatever a program raises is what it says)
                error = caught
        # A pass that goes over the program again may say the same again.
        told = dict.fromkeys(str(w.message).strip() for w in warned if issubclass(w.category, RelaxWarning))
        parts = [printed.getvalue().rstrip(), *told, _error_text(error)]
        text = "\n\n".join(part for part in parts if part)
        return Said(re.sub(rf"{re.escape(str(self.folder))}/(\d+/)?", "", text), error)

    def _wrap(self) -> None:
        """The documents' `run` builds and calls; here it also interprets, and compares."""
        run = self.namespace.get("run")
        if run is not None and not isinstance(run, both_modes.Both):
            self.namespace["run"] = both_modes.Both(run)


def _error_text(error: Exception | None) -> str:
    if error is None:
        return ""
    if isinstance(error, relax.DiagnosticError):
        return str(error).strip()
    return f"{type(error).__name__}: {error}"


def agrees(shown: str, said: str) -> bool:
    """Whether what a document shows is what was said; a line "..." stands for any lines."""
    patterns = [".*" if line.strip() == "..." else re.escape(line.rstrip()) for line in shown.splitlines()]
    text = "\n".join(line.rstrip() for line in said.splitlines())
    return re.fullmatch("\n".join(patterns), text, re.DOTALL) is not None


def check(path: Path, folder: Path) -> None:
    """Run a document. Raises AssertionError where it does not say what it shows."""
    for block, said in _expected(path, folder):
        # Python 3.10 knows of places in the source less, and says in messages what later ones say in notes.
        shown = block.output is not None and sys.version_info >= (3, 11)
        if shown and block.output is not None and not agrees("\n".join(block.output.lines), said.text):
            difference = "\n".join(difflib.ndiff(block.output.lines, said.text.splitlines()))
            raise AssertionError(f"{path.name}:{block.line}: the text block differs:\n{difference}")


def _expected(path: Path, folder: Path) -> Iterator[tuple[Block, Said]]:
    """Run a document; its blocks must fail if, and only if, they are marked so."""
    for block, said in Runner(path, folder).run():
        if "fails" in block.words and said.error is None:
            raise AssertionError(f"{path.name}:{block.line}: this block should fail, and does not")
        if "fails" not in block.words and said.error is not None:
            raise AssertionError(f"{path.name}:{block.line}: this block fails") from said.error
        yield block, said


def update(path: Path, folder: Path) -> None:
    """Write into the text blocks of a document what its blocks say today."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for block, said in reversed(list(_expected(path, folder))):
        # Python 3.10 knows of places in the source less, and says in messages what later ones say in notes.
        shown = block.output is not None and sys.version_info >= (3, 11)
        if shown and block.output is not None and not agrees("\n".join(block.output.lines), said.text):
            start = block.output.line - 1
            lines[start : start + len(block.output.lines)] = said.text.splitlines()
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as scratch:
            update(Path(name).resolve(), Path(scratch))
