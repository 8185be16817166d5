"""The table in docs/pitfalls.md: every test it names exists, and every class of error has one."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pitfalls.md"


def rows():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0] != "pitfall"]


@functools.cache
def functions_of(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_table_is_there():
    assert len(rows()) > 30


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_named_tests_exist(row):
    assert len(row) == 3, row
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", row[2])
    assert named
    assert re.sub(r"`[\w/]+\.py::\w+`", "", row[2]).strip(" |") == "", "something else stands among the tests"
    for file, test in named:
        path = ROOT / file if "/" in file else Path(__file__).parent / file
        assert path.exists(), file
        assert test in functions_of(path), f"{file} has no {test}"
