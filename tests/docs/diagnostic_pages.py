"""The pages of docs/diagnostics: what is read from them, and how they are written anew.

A page has an introduction and sections. A section is

    ## E3102: shapes that do not fit each other     the title, from `relax.ir.codes`
    what it means                                   from there, too
    ```python fails … ```                           a program that causes just this diagnostic; for a warning, it runs
    ```text … ```                                   the diagnostic as printed
    the way out                                     from `relax.ir.codes`
    ```python … ```                                 the program repaired
    more                                            anything; kept as it is

Sections of run-time.md have a heading of their own instead of a code. Only the programs, and what is more, are written
by hand: `python tests/docs/diagnostic_pages.py` fills in the rest. That the programs say what is shown is tested with
all documents (`documents.py`); test_diagnostics.py asserts that nothing would be filled in anew.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import documents

from relax.ir.codes import CODES

DOCS = Path(__file__).parents[2] / "docs"
INDEX = DOCS / "diagnostics.md"
PAGES = DOCS / "diagnostics"
RUN_TIME = PAGES / "run-time.md"
WIDTH = 110

_BLOCK = re.compile(r"^```(?P<words>[\w -]+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^## (?P<code>[^:\n]+)(?:: .*)?$", re.MULTILINE)
_OLD_INDEX = "\n## "


@dataclass(frozen=True)
class Section:
    """One diagnostic: the program that causes it, what it says, the program that does not, and what else is said."""

    code: str
    wrong: str
    said: str
    right: str
    more: str = ""

    @property
    def heading(self) -> str:
        known = CODES.get(self.code)
        return self.code if known is None else f"{self.code}: {known.title}"


@dataclass(frozen=True)
class Page:
    """A page: its introduction and its sections."""

    path: Path
    introduction: str
    sections: tuple[Section, ...]


def pages() -> list[Page]:
    """Every page, in the order of the codes; the run-time errors last."""
    return [read(path) for path in sorted(PAGES.glob("*.md"), key=lambda p: (p == RUN_TIME, p.name))]


def read(path: Path) -> Page:
    """A page as it is written. Raises ValueError for a section that is not of the form above."""
    text = path.read_text(encoding="utf-8")
    heads = list(_HEADING.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    sections = [_section(head["code"], text[head.end() : end]) for head, end in zip(heads, ends)]
    return Page(path, text[: heads[0].start()].strip(), tuple(sections))


def _section(code: str, text: str) -> Section:
    blocks = list(_BLOCK.finditer(text))
    programs = [block for block in blocks if block["words"].startswith("python")]
    if len(programs) < 2:
        raise ValueError(f"{code}: expected a wrong and a repaired program, found {len(programs)}")
    wrong, right = programs[:2]
    said = [b["text"] for b in blocks if b["words"] == "text" and wrong.end() < b.start() < right.start()]
    return Section(code, wrong["text"], "".join(said), right["text"], text[right.end() :].strip())


def render(page: Page) -> str:
    """The page with titles, meanings and ways out filled in."""
    parts = [page.introduction]
    for section in page.sections:
        known = CODES.get(section.code)
        fence = "python" if section.code.startswith("W") else "python fails"
        parts.append(f"## {section.heading}")
        if known is not None:
            parts.append(_fill(known.meaning))
        parts.append(f"```{fence}\n{section.wrong}```\n```text\n{section.said}```")
        parts.append("Repaired:" if known is None else _fill(known.way_out))
        parts.append(f"```python\n{section.right}```")
        parts += [section.more] if section.more else []
    return "\n\n".join(parts) + "\n"


def _fill(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def index() -> str:
    """docs/diagnostics.md: every code, with its title, and where it is explained."""
    parts = [INDEX.read_text(encoding="utf-8").split(_OLD_INDEX)[0].strip()]
    for page in pages():
        parts.append(f"## {page.introduction.splitlines()[0].removeprefix('# ')}")
        links = [f"diagnostics/{page.path.name}#{anchor(section.heading)}" for section in page.sections]
        if page.path == RUN_TIME:
            rows = [f"* [{s.code}]({link})" for s, link in zip(page.sections, links)]
        else:
            rows = [f"| [{s.code}]({link}) | {CODES[s.code].title} |" for s, link in zip(page.sections, links)]
            rows = ["| code | |", "|---|---|", *rows]
        parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


def anchor(heading: str) -> str:
    """The anchor that is made from a heading's text."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@contextmanager
def working_in(folder: str) -> Iterator[None]:
    """With another current directory."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def main() -> None:
    """Write the pages that are named (all, if none is), and the index, anew."""
    for page in pages():
        if sys.argv[1:] and page.path.stem not in sys.argv[1:]:
            continue
        page.path.write_text(render(page), encoding="utf-8")
        with tempfile.TemporaryDirectory() as scratch, working_in(scratch):  # examples write files
            documents.update(page.path, Path(scratch))
    INDEX.write_text(index(), encoding="utf-8")


if __name__ == "__main__":
    main()
