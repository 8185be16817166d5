"""Every diagnostic code is declared once, used, and documented with a program that causes it.

That the documents' programs say what is shown is checked in test_docs.py; here: that what is shown is the one diagnostic
its section is about, that the repaired program has nothing to complain of, and that the texts are the registry's.
"""

from __future__ import annotations

import ast
import functools
import re
import warnings
from pathlib import Path

import pytest
from diagnostic_pages import INDEX, RUN_TIME, index, pages, read, render
from documents import Runner, blocks_of

import relax
from relax.analysis.rules import RULES
from relax.ir.codes import CODES

SOURCES = Path(relax.__file__).parent
PAGES = pages()
CODE = re.compile(r"[EW]\d{4}")


@functools.cache
def used_codes() -> dict[str, list[str]]:
    """Every code the package can report, with where it stands.

    A code is a string; a rule's is made of its number, and a misfit's is an error or a warning.
    """
    found: dict[str, list[str]] = {}
    for path in SOURCES.rglob("*.py"):
        if path.parent == SOURCES / "ir" / "codes":
            continue
        text = path.read_text(encoding="utf-8")
        if not re.search(rf"{CODE.pattern}|misfit", text):
            continue
        for node in ast.walk(ast.parse(text)):
            codes: list[str] = []
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                codes = [node.value]
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "misfit":
                number = ast.literal_eval(node.args[0])
                codes = [f"E{number}", f"W{number}"]
            for code in codes:
                found.setdefault(code, []).append(f"{path.relative_to(SOURCES)}:{node.lineno}")
    for rule in RULES:
        found.setdefault(f"E20{int(rule.__name__.removeprefix('rule_')):02d}", []).append("analysis/rules")
    return found


def test_every_code_in_use_is_declared():
    undeclared = {code: places for code, places in used_codes().items() if code not in CODES}
    assert not undeclared, "declare it in relax/ir/codes/, and give it a section in docs/diagnostics"


def test_every_declared_code_is_in_use():
    assert not CODES.keys() - used_codes().keys()


def test_a_code_belongs_to_one_room():
    # One code for two unlike errors cannot be documented. What several rooms share is a rule of the language.
    rooms = {code: {place.split("/")[0].split(".")[0] for place in places} for code, places in used_codes().items()}
    shared = {code for code, where in rooms.items() if len(where) > 1 and not code.startswith("E20")}
    # Machine code is written in `codegen`, compiled in `farm` and read in `explanation`: the same errors meet all three.
    assert shared <= {"E3001", "E5908", "E5909"}


def test_every_code_is_documented_once():
    documented = [section.code for page in PAGES if page.path != RUN_TIME for section in page.sections]
    assert sorted(documented) == sorted(CODES)


def test_titles_and_texts_are_short():
    for code in CODES.values():
        assert len(code.title) <= 70, code.code
        assert not code.title.endswith("."), code.code
        assert code.meaning.endswith("."), code.code
        assert code.way_out.endswith("."), code.code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.stem)
def test_a_page_is_as_it_would_be_written(page):
    again = "run python tests/docs/diagnostic_pages.py"
    assert page.path.read_text(encoding="utf-8") == render(page), again


def test_the_index_is_as_it_would_be_written():
    assert INDEX.read_text(encoding="utf-8") == index()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.stem)
def test_what_a_section_shows_is_its_diagnostic(page):
    for section in page.sections:
        if page.path == RUN_TIME:
            assert re.search(r"^\w+Error: ", section.said, re.MULTILINE), section.code
        else:
            level = "warning" if section.code.startswith("W") else "error"
            heads = re.findall(r"^(?:error|warning)\[\w+\]", section.said, re.MULTILINE)
            assert heads == [f"{level}[{section.code}]"], section.code


WARNINGS = next(page for page in PAGES if page.path.stem == "W3xxx")


def test_repaired_programs_do_not_warn(tmp_path):
    repaired = {section.right for section in WARNINGS.sections}
    blocks = blocks_of(WARNINGS.path.read_text(encoding="utf-8"))
    lines = {block.line for block in blocks if "".join(f"{line}\n" for line in block.lines) in repaired}
    assert len(lines) == len(repaired)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for block, _ in Runner(WARNINGS.path, tmp_path).run():
            if block.line in lines:
                assert not caught, str(caught[-1].message)
            caught.clear()


def test_strict_mode_makes_an_error_of_each_warning(tmp_path):
    for section in WARNINGS.sections:
        file = tmp_path / f"strict_{section.code}.py"
        head = "from relax.script import ir as I, relax as R, tir as T\n"
        file.write_text(head + section.wrong, encoding="utf-8")
        with relax.transform.PassContext(config={"relax.strict": True}), pytest.raises(relax.DiagnosticError) as caught:
            exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), {})
        assert [d.code for d in caught.value.diagnostics] == [f"E{section.code[1:]}"]


# ------------------------------------------------------------------------------------ explain


def test_explain_prints_the_entry(capsys):
    relax.explain("e3102")
    printed = capsys.readouterr().out
    title, meaning, way_out = printed.rstrip("\n").split("\n\n")
    assert title == "E3102: shapes that do not fit each other"
    assert " ".join(meaning.split()) == CODES["E3102"].meaning
    assert " ".join(way_out.split()) == CODES["E3102"].way_out


def test_explain_of_what_is_no_code():
    with pytest.raises(ValueError, match="'E3120' is no diagnostic code; there are E31"):
        relax.explain("E3120")
    with pytest.raises(ValueError, match="'shape' is no diagnostic code$"):
        relax.explain("shape")


def test_the_short_guide_leads_here():
    assert "(diagnostics.md)" in (INDEX.parent / "read-an-error.md").read_text(encoding="utf-8")


def test_a_section_without_a_repaired_program_is_an_error(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# T\n\n## E1001\n\n```python fails\nx\n```\n", encoding="utf-8")
    with pytest.raises(ValueError, match="E1001: expected a wrong and a repaired program, found 1"):
        read(page)
