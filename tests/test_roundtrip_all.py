"""Every program of the repository that is written out: parse ∘ print is the identity.

The programs are found in the sources themselves: what @R.function, @T.prim_func and @I.ir_module decorate in tests, examples
and the Python blocks of the documentation, and strings that hold such text. What does not parse by itself, because
it uses Python variables around it or is wrong on purpose, is left to the test where it stands.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from relax.ir import DiagnosticError, assert_structural_equal
from relax.script import from_source

pytestmark = pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")  # of programs about warnings

ROOT = Path(__file__).parents[1]
DECORATORS = ("@R.function", "@R.func", "@T.prim_func", "@I.ir_module")
FILES = sorted(
    path
    for folder, pattern in (("tests", "*.py"), ("examples", "*.py"), ("docs", "*.md"), (".", "README.md"))
    for path in (ROOT / folder).rglob(pattern)
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    and any(mark in path.read_text(encoding="utf-8") for mark in DECORATORS)
)


def python_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return text
    kept, inside = [], False
    for line in text.splitlines():
        if line.strip().startswith("```"):
            inside = line.strip().startswith("```python")
        elif inside:
            kept.append(line)
    return "\n".join(kept)


def programs(text: str) -> Iterator[str]:
    """The texts of decorated classes and functions (the outermost ones), and the strings that hold such."""
    lines = text.splitlines()
    pending: list[ast.AST] = [ast.parse(text)]
    while pending:
        node = pending.pop()
        decorators = node.decorator_list if isinstance(node, (ast.ClassDef, ast.FunctionDef)) else []
        if decorators and ("@" + ast.unparse(decorators[0])).startswith(DECORATORS):
            yield textwrap.dedent("\n".join(lines[decorators[0].lineno - 1 : node.end_lineno]))
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value:
            if any(mark in node.value for mark in DECORATORS):
                yield node.value
            continue
        pending.extend(ast.iter_child_nodes(node))


def parsed(text: str):
    try:
        return from_source(text, allow_extern=True)
    except DiagnosticError:
        return None


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_program_prints_as_it_parses(path):
    for text in programs(python_of(path)):
        program = parsed(text)
        if program is None:
            continue
        printed = program.script(show_meta=True)
        again = from_source(printed, allow_extern=True)
        assert_structural_equal(again, program)
        assert again.script(show_meta=True) == printed


def test_most_programs_are_found():
    """The collector itself: it finds hundreds of programs, and most of them stand for themselves."""
    found = [text for path in FILES for text in programs(python_of(path))]
    alone = sum(parsed(text) is not None for text in found)
    assert alone > 300
    assert alone > len(found) / 2
