"""docs/safety.md: every claim names tests, and they exist."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "safety.md"
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def rows():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0] != "claim"]


@functools.cache
def functions_of(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_kind_of_thing_from_outside_has_claims():
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    titles = [section.splitlines()[0] for section in sections]
    assert titles == ["Text given to from_source", "Saved executables", "Models", "Inputs", "The kernel cache"]
    assert all("| claim |" in section for section in sections)
    assert len(rows()) > 20


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_every_claim_has_tests(row):
    assert len(row) == 3, row
    named = NAMED.findall(row[2])
    assert named
    assert NAMED.sub("", row[2]).strip() == "", "something else stands among the tests"
    for file, test in named:
        path = ROOT / "tests" / file
        assert path.exists(), file
        assert test in functions_of(path), f"{file} has no {test}"
