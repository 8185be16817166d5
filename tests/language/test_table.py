"""docs/language-tests.md says which test holds each statement; here it is held to that."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from table import DOCUMENT, ROOT, RULES, SECTIONS, STARRED, document, functions, rows, statement_of


def test_the_document_is_what_the_tests_say():
    """The document is written by tests/language/table.py from the tests as they are."""
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run tests/language/table.py"


@pytest.mark.parametrize("section", SECTIONS)
def test_every_test_of_a_section_says_its_statement(section):
    """Every test of a section says in its docstring what statement it holds."""
    path = ROOT / "tests" / "language" / SECTIONS[section][1]
    assert [test.name for test in functions(path) if not statement_of(test)] == []


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_runs_in_both_modes(section):
    """Every section has statements that are run in both modes, except normal form's pieces and the machine's."""
    assert any("both" in row.modes for row in rows(section))


@pytest.mark.parametrize("point", STARRED)
def test_every_starred_point_has_its_row(point):
    """Every ★ point has a row of its own, marked so."""
    statements = [row.statement for section in SECTIONS for row in rows(section)]
    assert any(re.match(rf"★ {re.escape(point)}(?!\d)", statement) for statement in statements)


def test_every_rule_has_its_row():
    """Every rule has a broken program, a repaired one, and tests in depth."""
    numbers = [int(m[1]) for row in rows("5") if (m := re.match(r"(?:★ )?Rule (\d+): \S", row.statement))]
    assert set(numbers) == set(RULES)
    text = (ROOT / "tests" / "analysis" / "test_well_formed.py").read_text(encoding="utf-8")
    for keyword in {test.rpartition(" ")[2] for row in rows("5") for test in row.tests if " -k " in test}:
        assert f"def {keyword}" in text, keyword


def test_pytest_finds_every_test_named(request):
    """Every test named in the document is one that pytest collects: in this run, or in one of the other files."""
    text = DOCUMENT.read_text(encoding="utf-8")
    named = {test.partition(" -k ")[0] for test in re.findall(r"`((?:language|analysis|seeds)/test_[^`]*)`", text)}
    missing = named - names_of(item.nodeid for item in request.session.items)
    files = sorted({f"tests/{test.partition('::')[0]}" for test in missing})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", "-p", "no:cacheprovider", *files]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True) if files else None
    assert sorted(missing - names_of(listed.stdout.splitlines() if listed else ())) == []


def names_of(collected):
    """The names by which the document may call the tests that pytest collected."""
    tests = {line.removeprefix("tests/") for line in collected if "::" in line}
    whole = {line.partition("[")[0] for line in tests} | {line.partition("::")[0] for line in tests}
    # Both modes are parameters too: [interpreter-7] is the rule 7 of a test in both modes.
    return tests | whole | {re.sub(r"\[(?:interpreter|bytecode)-", "[", line) for line in tests}
