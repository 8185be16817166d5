"""docs/language-tests.md: which test fails without which statement of the language, and in which modes.

A test says its statement in the first paragraph of its docstring; tests with one docstring hold one statement together.
`python tests/language/table.py` writes the document from them; `test_table.py` checks that it is what is written, that no
section, rule or ★ point lacks a test, and that pytest finds every test named.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DOCUMENT = ROOT / "docs" / "language-tests.md"
RULES = range(1, 23)

SECTIONS = {
    "1": ("Programs", "test_1_programs.py", "1-programs.md"),
    "2": ("Values", "test_2_values.py", "2-values.md"),
    "3": ("Scope", "test_3_scope.py", "3-scope.md"),
    "4": ("Normal form", "test_4_normal_form.py", "4-normal-form.md"),
    "5": ("Rules", "test_5_rules.py", "5-rules.md"),
    "6": ("Struct info", "test_6_struct_info.py", "6-struct-info.md"),
    "7": ("Evaluation", "test_7_evaluation.py", "7-evaluation.md"),
    "7.1": ("Matching", "test_7_1_matching.py", "7-evaluation.md#matching"),
    "7.2": ("What an optimiser may do", "test_7_2_optimiser.py", "7-evaluation.md#what-the-optimiser-may-do"),
    "7.3": ("Intrinsics", "test_7_3_intrinsics.py", "7-3-intrinsics.md"),
    "7.4": ("Older spellings", "test_7_4_older_spellings.py", "7-4-older-spellings.md"),
    "8": ("The machine", "test_8_machine.py", "8-machine.md"),
}
"""Number → title, test file, chapter in docs/language."""

STARRED = (
    "Linkage",
    "Closures carry run-time struct info",
    "Closures carry their purity",
    "Rebinding a name is shadowing",
    "Closures capture shape variables",
    "Rule 4",
    "Rule 8",
    "Rule 12",
    "Rule 13",
    "Possibly compatible at a call, a binding annotation or a return: a warning",
    "Possibly compatible at a call, a binding annotation or a return: a run-time check",
    "Possibly compatible under the option relax.strict",
    "VarBinding: a warning",
    "Func: params given",
    "call_tir: a result that does not fit",
)
"""The points that the first descriptions of the language leave to the future: how their statements begin."""


RULE_TESTS = ("test_the_broken_program_is_refused", "test_the_repaired_program_runs")
"""What every rule has a case of."""

DEEPER = dict.fromkeys((14, 15, 16), "test_rules_14_15_16_") | dict.fromkeys((19, 20), "test_rules_19_and_20_")
"""Where the tests in depth of a rule are not called test_rule_<number>_…: what they are called."""

IN_TEXT = (4, 6, 8, 11, 13, 21)
"""Rules whose test in depth is a text, with the place, the hint, and all ways into the compiler."""

BROKEN_PROGRAMS = "analysis/test_broken_programs.py::test_a_broken_program_is_answered_with_its_rule"


@dataclass
class Row:
    """A statement, the tests that hold it (ids below tests/), and the modes they run in."""

    statement: str
    tests: list[str] = field(default_factory=list[str])
    modes: set[str] = field(default_factory=set[str])


ELSEWHERE = {
    "6": [
        Row(
            "VDevice: listed, written, propagated backwards and forwards, conflicts, and where tensors are at run time",
            ["language/test_virtual_devices.py"],
            {"both"},
        )
    ],
    "7.4": [
        Row(
            "Every program of the first descriptions of the language parses, prints, and runs",
            [f"seeds/{path.name}" for path in sorted((ROOT / "tests" / "seeds").glob("test_*.py"))],
            {"compiled"},
        )
    ],
}
"""Statements held by tests of other files."""


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    """The tests of a file."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


def statement_of(test: ast.FunctionDef) -> str:
    """The first paragraph of the docstring, on one line; empty without one."""
    return " ".join((ast.get_docstring(test) or "").split("\n\n")[0].split())


def mode_of(test: ast.FunctionDef) -> str:
    """A test with `run` runs in both modes; others build a machine, or never run the program."""
    if any(arg.arg == "run" for arg in test.args.args):
        return "both"
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute)}
    ran = names & {"machine", "compiled", "VirtualMachine", "as_text", "subprocess", "instructions"}
    return "compiled" if ran else "compile time"


@functools.cache
def rows(section: str) -> list[Row]:
    """The statements of a section, in the order of their tests."""
    if section == "5":
        return [*_rules(), *_stated(section)]
    return [*_stated(section), *ELSEWHERE.get(section, ())]


def _stated(section: str) -> list[Row]:
    file = SECTIONS[section][1]
    found: dict[str, Row] = {}
    for test in functions(HERE / file):
        if test.name in RULE_TESTS:
            continue
        statement = statement_of(test)
        row = found.setdefault(statement, Row(statement))
        row.tests.append(f"language/{file}::{test.name}")
        row.modes.add(mode_of(test))
    return list(found.values())


def _rules() -> Iterator[Row]:
    """One row a rule: the broken program, the repaired one, and what tests/analysis says of it."""
    chapter = (ROOT / "docs" / "language" / "5-rules.md").read_text(encoding="utf-8")
    words = {int(n): text for n, text in re.findall(r"^\| \[(\d+)\]\(#rule-\d+\) (.*?) \|", chapter, re.MULTILINE)}
    for number in RULES:
        star = "★ " if f"Rule {number}" in STARRED else ""
        tests = [f"language/test_5_rules.py::{name}[{number}]" for name in RULE_TESTS]
        if number in IN_TEXT:
            tests.append(f"{BROKEN_PROGRAMS}[rule {number}]")
        else:
            tests.append(f"analysis/test_well_formed.py -k {DEEPER.get(number, f'test_rule_{number}_')}")
        yield Row(f"{star}Rule {number}: {words[number]}", tests, {"compile time", "both"})


def document() -> str:
    """The text of docs/language-tests.md."""
    out = [
        "# Which test holds each statement of the language",
        "",
        "Each row is a statement of a section, the tests that fail without it, and how they run the program: *both* is by the",
        "interpreter and by the compiled program, *compile time* means that the program is refused, or described, before it",
        "runs. ★ marks what the first descriptions of the language leave to the future. `tests/language/table.py` writes this",
        "page from the tests.",
    ]
    for number, (title, _, chapter) in SECTIONS.items():
        out += ["", f"## {number}. {title}", "", f"[The chapter](language/{chapter})", ""]
        out += ["| statement | tests | modes |", "|---|---|---|"]
        for row in rows(number):
            tests = "<br>".join(f"`{test}`" for test in row.tests)
            out.append(f"| {escaped(row.statement)} | {tests} | {', '.join(sorted(row.modes))} |")
    return "\n".join(out) + "\n"


def escaped(text: str) -> str:
    """Text in a cell of a table: outside of code, underscores and asterisks stay as they are."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_|<])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
