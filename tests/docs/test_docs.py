"""The examples in README.md and docs/ run, and say what the documents show (see `documents.py`)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from both_modes import DisagreementError, Outcome, compare
from documents import agrees, blocks_of, check, program, update

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

COMPARED = pytest.mark.skipif(sys.version_info < (3, 11), reason="what is said is compared from Python 3.11 on")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(path, tmp_path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_within_the_repository_lead_somewhere(path):
    prose = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, heading in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", prose):
        if "://" in target:
            continue
        file = path.parent / target if target else path
        assert file.exists(), target
        if heading:
            assert heading in headings(file), f"{target}#{heading}"


def headings(path):
    """The anchors of a document's headings, as they are made from their text."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ +(.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


README = ROOT / "README.md"


@pytest.mark.parametrize(
    "block", [b for b in blocks_of(README.read_text("utf-8")) if b.runs], ids=lambda b: f"line {b.line}"
)
def test_each_example_of_the_readme_stands_alone(block, tmp_path):
    lines = "\n".join(block.lines)
    check(*document(tmp_path, f"```python\n{lines}\n```\n"))


# ------------------------------------------------------------------------------- the harness itself


def document(folder, text):
    path = folder / "document.md"
    path.write_text(text, encoding="utf-8")
    (folder / "run").mkdir(exist_ok=True)
    return path, folder / "run"


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


def test_only_a_text_block_right_after_belongs_to_a_block():
    python, _, other, _ = blocks_of("```python\n```\n\n```text\n1\n```\n```python\n```\nso:\n```text\n```\n")
    assert python.output is not None
    assert other.output is None


@COMPARED
def test_what_a_block_prints_is_compared(tmp_path):
    check(*document(tmp_path, "```python\nprint(1)\nprint(2)\n```\n```text\n1\n2\n```\n"))
    (tmp_path / "run" / "1" / "program.py").unlink()
    (tmp_path / "run" / "1").rmdir()
    with pytest.raises(AssertionError, match="document.md:2: the text block differs"):
        check(*document(tmp_path, "```python\nprint(1)\n```\n```text\n2\n```\n"))


def test_a_block_that_fails_is_expected_to(tmp_path):
    text = "```python fails\n1 // 0\n```\n```text\nZeroDivisionError: integer division or modulo by zero\n```\n"
    check(*document(tmp_path, text))


@pytest.mark.parametrize("fence", ["python fails\nx = 1", "python\nraise ValueError('x')"])
def test_a_block_that_ends_otherwise_is_an_error(tmp_path, fence):
    with pytest.raises((AssertionError, ValueError), match="should fail|x"):
        check(*document(tmp_path, f"```{fence}\n```\n"))


@COMPARED
def test_an_error_names_the_lines_of_its_block(tmp_path):
    text = """
Prose.

```python
from relax.script import relax as R
```

```python fails
@R.function
def main(x: R.Tensor((2,), "float32")):
    return y
```
```text
old
```
"""
    path, folder = document(tmp_path, text)
    update(path, folder)
    shown = path.read_text(encoding="utf-8")
    assert "--> program.py:3:12" in shown
    assert "old" not in shown


def test_dots_stand_for_any_lines():
    assert agrees("a\n...\nd", "a\nb\nc\nd")
    assert not agrees("a\n...\nd", "a\nb\nc")
    assert not agrees("a.c", "abc")


def test_a_chapter_begins_with_the_prelude_of_its_book(tmp_path):
    document(tmp_path, "```python prelude\nx = 1\n```\n```python\nx = 2\n```\n")
    chapter = tmp_path / "document" / "chapter.md"
    chapter.parent.mkdir()
    chapter.write_text("```python\nassert x == 1\n```\n", encoding="utf-8")
    check(chapter, tmp_path / "run")


# ------------------------------------------------------------------------------------- both modes


def outcome(value=None, error=None, printed="", args=()):
    return Outcome(value, error, printed, args)


@pytest.mark.parametrize(
    "a, b, what",
    [
        (outcome(1), outcome(1.0), "the result"),
        (outcome(np.zeros(2)), outcome(np.zeros(3)), "the result"),
        (outcome((1, np.zeros(2))), outcome((1, np.ones(2))), "the result"),
        (outcome(printed="a"), outcome(printed=""), "printed"),
        (outcome(args=(np.zeros(1),)), outcome(args=(np.ones(1),)), "the arguments"),
        (outcome(error=ValueError("a")), outcome(), "ValueError: a"),
        (outcome(error=ValueError("a")), outcome(error=TypeError("a")), "TypeError: a"),
    ],
)
def test_a_disagreement_of_the_modes_is_an_error(a, b, what):
    with pytest.raises(DisagreementError, match=what):
        compare(a, b)


def test_modes_that_agree():
    nan = np.array([np.nan, 1], "float32")
    compare(outcome((nan, "text", 1, None)), outcome((nan.copy(), "text", 1, None)))
    compare(outcome(error=ValueError("a")), outcome(error=ValueError("a")))
