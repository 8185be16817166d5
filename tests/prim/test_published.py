"""Every row of the tables in docs/prover.md: what is said to be proved is, what is said not to be is not.

Claims are also tried on numbers, so that the document cannot call true what is not.
"""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest

from relax.prim import Analyzer, SizeVar, Var, evaluate, free_vars, intrin
from support import python_calls

DOCUMENT = Path(__file__).parents[2] / "docs" / "prover.md"
ROW = re.compile(r"^\| `(?P<claim>[^|]+)` \| (?P<known>[^|]*)\| (?P<answer>always|never|not known) \|$")
NAMES = {name: SizeVar(name, "int64") for name in "nmkdhsw"} | {"i": Var("i", "int64")}
ANSWERS = {"always": True, "never": False, "not known": None}


def rows():
    section = ""
    for line in DOCUMENT.read_text().splitlines():
        section = line.removeprefix("## ") if line.startswith("## ") else section
        found = ROW.match(line)
        if found:
            yield section, found["claim"], re.findall("`([^`]+)`", found["known"]), found["answer"]
        else:
            assert not line.startswith("| `"), f"this row is not read: {line}"


ROWS = list(rows())


def read(text: str):
    """A claim as an expression; Python's // and % floor, as those of the language do."""
    return eval(text, {**NAMES, "min": intrin.min, "max": intrin.max})


def ask(claim: str, known: list[str]):
    analyzer = Analyzer()
    for condition in known:
        analyzer.assume(read(condition))
    return analyzer.prove(read(claim))


@pytest.mark.parametrize(
    "claim, known, answer", [pytest.param(*row[1:], id=" | ".join([row[1], *row[2]])) for row in ROWS]
)
def test_row(claim, known, answer):
    assert ask(claim, known) is ANSWERS[answer]


@pytest.mark.parametrize("claim, known, answer", [row[1:] for row in ROWS if row[3] != "not known"])
def test_row_is_so(claim, known, answer):
    expr, conditions = read(claim), [read(condition) for condition in known]
    variables = list(dict.fromkeys(v for part in (expr, *conditions) for v in free_vars(part)))
    values = range(13) if len(variables) < 3 else range(7)
    tried = 0
    for point in itertools.product(values, repeat=len(variables)):
        env = dict(zip(variables, point))
        try:
            if all(evaluate(condition, env) for condition in conditions):
                assert evaluate(expr, env) is ANSWERS[answer], env
                tried += 1
        except ZeroDivisionError:
            continue
    assert tried


def test_the_document_says_much():
    sections = {row[0] for row in ROWS}
    assert len(ROWS) > 100
    assert {"What is not proved", "Bounds", "Paddings to a multiple"} <= sections
    assert sum(row[3] == "not known" for row in ROWS) > 10
    assert all(isinstance(ast.parse(row[1], mode="eval").body, ast.Compare) for row in ROWS)


def test_rows_take_few_calls():
    """Bounds ten times what it takes: milliseconds."""
    taken = [(python_calls(lambda row=row: ask(row[1], row[2])), row[1]) for row in ROWS]
    most, claim = max(taken)
    assert most < 400_000, claim
    assert sum(count for count, _ in taken) / len(taken) < 20_000
