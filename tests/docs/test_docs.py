"""The examples in README.md and docs/*.md run.

The ```python blocks of one file are one program: they run in order, in one namespace. A block that opens with
```python no-run is left out; say beside it why. The program is written to a file, at the same line numbers as
in the document, because the script decorators read their source, and so that an error points at the line of
the document.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`]*)$")


def program(text: str) -> str:
    """The Python blocks of a document, each on the lines where it stands, all else blank."""
    lines: list[str] = []
    inside, runs, indent = False, False, 0
    for line in text.splitlines():
        fence = FENCE.match(line)
        if fence and not inside:
            words = fence["info"].split()
            inside, runs, indent = (
                True,
                words[:1] == ["python"] and "no-run" not in words,
                len(fence["indent"]),
            )
            lines.append("")
        elif inside and line.strip() == "```":
            inside = False
            lines.append("")
        else:
            lines.append(line[indent:] if inside and runs else "")
    if inside:
        raise ValueError("a code block is not closed")
    return "\n".join(lines).rstrip() + "\n"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_run(path, tmp_path, monkeypatch):
    source = program(path.read_text(encoding="utf-8"))
    file = tmp_path / f"{path.stem}.py"
    file.write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(file), run_name=f"example_{path.stem}")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_within_the_repository_lead_somewhere(path):
    prose = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose)
    missing = [t for t in targets if "://" not in t and not (path.parent / t).exists()]
    assert not missing


def test_blocks_keep_their_lines():
    text = "# T\n\n```python\na = 1\n```\n\nprose\n\n```sh\nmake\n```\n```python\nb = a\n```\n"
    assert program(text).splitlines() == ["", "", "", "a = 1", "", "", "", "", "", "", "", "", "b = a"]


def test_no_run_blocks_are_left_out():
    assert program("```python no-run\nraise SystemExit\n```\n").strip() == ""


def test_blocks_in_lists_lose_their_indentation():
    assert program("* so:\n  ```python\n  if 1:\n      x = 2\n  ```\n").strip() == "if 1:\n    x = 2"


def test_an_open_block_is_an_error():
    with pytest.raises(ValueError, match="not closed"):
        program("```python\na = 1\n")
