"""Check that a type checker understands programs of relax: README.md, docs/, examples/ and tests/docs/typed.

    python tools/check_types.py            make check runs it: one run of pyright, in its mode `basic`

The Python blocks of a document are one module, as they share one namespace. Nothing is reported of blocks that must
fail, which stand there for what follows them, and nothing of a name that a later block gives to something else.

tests/docs/typed/forms.py has the forms of the script language, of which nothing may be reported either.
tests/docs/typed/mistakes.py has mistakes, each with the rule under which it must be reported.

Users need one setting, reportInvalidTypeForm: ``x: R.Tensor(("n", 4), "float32")`` is a call, and Python's rules
of typing allow no call in an annotation. docs/editors.md tells users to do the same.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "docs"))

from documents import blocks_of, prelude_of, program  # noqa: E402

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TYPED = ROOT / "tests" / "docs" / "typed"
OLDER = ROOT / "docs" / "language" / "7-4-older-spellings.md"
"""Its programs use names that nothing declares, as the spellings of 2022 did."""

CONFIGURATION = {
    "typeCheckingMode": "basic",
    "reportInvalidTypeForm": False,
    "reportRedeclaration": False,
    "pythonVersion": f"{sys.version_info.major}.{sys.version_info.minor}",
}


class Program:
    """A module of the project: where its lines come from, and those of which nothing is reported."""

    def __init__(self, path: Path, text: str, added: int = 0, failing: Iterable[int] = ()) -> None:
        self.path, self.text, self.added, self.failing = path, text, added, frozenset(failing)

    def place(self, line: int) -> str:
        """The file and line of a line of the module."""
        return f"{self.path.relative_to(ROOT)}:{line - self.added}"


def program_of(document: Path) -> Program:
    """The blocks of a document on the lines where they stand, after the prelude of its book."""
    text = document.read_text("utf-8")
    parent = prelude_of(document)
    before = [] if parent is None else preludes(parent.read_text("utf-8"))
    failing = [
        len(before) + block.line + i
        for block in blocks_of(text)
        if "fails" in block.words
        for i in range(len(block.lines))
    ]
    return Program(document, "\n".join([*before, program(text)]), len(before), failing)


def preludes(text: str) -> list[str]:
    """The lines with which every chapter of a book begins."""
    blocks = [block for block in blocks_of(text) if block.runs and "prelude" in block.words]
    return [line for block in blocks for line in block.lines]


def programs() -> dict[str, Program]:
    """All modules of the project, by name."""
    made = {
        re.sub(r"\W", "_", str(path.relative_to(ROOT).with_suffix(""))): program_of(path)
        for path in DOCUMENTS
        if path != OLDER
    }
    for path in [*(ROOT / "examples").glob("*.py"), *TYPED.glob("*.py")]:
        made[path.stem] = Program(path, path.read_text("utf-8"))
    return made


def write_project(folder: Path, modules: Mapping[str, Program]) -> None:
    """Write the modules, and pyright's configuration."""
    for name, module in modules.items():
        (folder / f"{name}.py").write_text(module.text, "utf-8")
    paths = [str(ROOT / "src"), str(ROOT / "tools")]
    (folder / "pyrightconfig.json").write_text(json.dumps({**CONFIGURATION, "extraPaths": paths}), "utf-8")


def reported(folder: Path) -> list[tuple[str, int, str, str]]:
    """The errors that pyright reports: module, line, rule, message."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["generalDiagnostics"]
    except (ValueError, KeyError):
        raise SystemExit(f"pyright did not run:\n{done.stdout}{done.stderr}") from None
    return [
        (Path(d["file"]).stem, d["range"]["start"]["line"] + 1, d.get("rule", "syntax"), d["message"])
        for d in found
        if d["severity"] == "error"
    ]


def mistakes() -> set[tuple[int, str]]:
    """The lines of mistakes.py that must be reported, with the rule."""
    lines = (TYPED / "mistakes.py").read_text("utf-8").splitlines()
    marks = [(number, re.search(r"# (report\w+)$", line)) for number, line in enumerate(lines, 1)]
    return {(number, mark[1]) for number, mark in marks if mark}


def problems() -> list[str]:
    """False errors, and mistakes that are not reported."""
    modules = programs()
    with tempfile.TemporaryDirectory() as name:
        write_project(Path(name), modules)
        errors = reported(Path(name))
    missed = mistakes() - {(line, rule) for module, line, rule, _ in errors if module == "mistakes"}
    texts = [f"tests/docs/typed/mistakes.py:{line}: not reported: {rule}" for line, rule in sorted(missed)]
    for name, line, rule, message in errors:
        expected = name == "mistakes" and (line, rule) in mistakes()
        if not expected and line not in modules[name].failing:
            texts.append(f"{modules[name].place(line)}: {message} ({rule})")
    return texts


def main() -> int:
    found = problems()
    print("\n".join(found) or "0 errors in the examples of README.md, docs and examples")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
