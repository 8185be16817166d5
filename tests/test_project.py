"""The project as a whole: what a fresh clone promises."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import import_graph

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest brings there

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_only_the_agreed_dependencies():
    names = {canonicalize_name(Requirement(r).name) for r in PROJECT["project"]["dependencies"]}
    assert names == {"numpy", "ml-dtypes", "llvmlite", "apache-tvm-ffi", "rich"}


def test_every_room_has_a_layer():
    """import-linter reads `a : b` as one layer and (a) as one that may be missing."""
    contracts = {c["id"]: c for c in PROJECT["tool"]["importlinter"]["contracts"]}
    layered = {m.strip(" ()") for layer in contracts["rooms"]["layers"] for m in layer.split(":")}
    top = {p.stem for p in (ROOT / "src/relax").iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert top - {"__init__"} <= layered


def test_modules_import_in_no_circles():
    """Neither when they are loaded or their functions run, nor for type checkers alone."""
    imports = import_graph.imports_in(ROOT / "src/relax")
    assert len(imports) > 1000
    assert import_graph.circles(imports, for_types=False) == []
    assert import_graph.circles(imports, for_types=True) == []


@pytest.mark.parametrize(
    ("files", "loaded", "typed"),
    [
        ({"a": "from . import b", "b": "import relax.c", "c": "from .b import d"}, [["b", "c"]], [["b", "c"]]),
        ({"a": "if TYPE_CHECKING:\n    from .b import c", "b": "from .a import d"}, [], [["a", "b"]]),
        ({"a": "def f():\n    from .b import c", "b": "from .a import f"}, [["a", "b"]], [["a", "b"]]),
        (
            {"a": "try:\n    from .r.x import c\nfinally:\n    pass", "r/x": "from ..a import c"},
            [["a", "r.x"]],
            [["a", "r.x"]],
        ),
        ({"a": "from .r import c", "r/__init__": "from .x import c", "r/x": "from . import x"}, [], []),
        ({"r/__init__": "from .x import c", "r/x": "from . import c"}, [["r", "r.x"]], [["r", "r.x"]]),
    ],
)
def test_circles_are_found(files, loaded, typed, tmp_path):
    for name, text in files.items():
        path = tmp_path / "relax" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    imports = import_graph.imports_in(tmp_path / "relax")
    found = [
        [
            sorted(module.removeprefix("relax.") for module in circle)
            for circle in import_graph.circles(imports, for_types=for_types)
        ]
        for for_types in (False, True)
    ]
    assert found == [loaded, typed]


def test_one_word_for_one_thing():
    """Words so general that several rooms might take them name one class at most."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/relax").rglob("*.py"))
    for word in ("Facts", "Scope", "Place", "Verdict", "Relation", "Answer", "Machine"):
        assert len(re.findall(rf"^(?:class _?{word}\b|_?{word}\b[^\n]* = (?:Literal|enum))", source, re.M)) <= 1, word


def test_docstrings_name_their_subject_first():
    opening = re.compile(r'^\s*"""(?:What|Whether|Where|How|Which) .*', re.M)
    found = {
        str(path.relative_to(ROOT)): opening.findall(path.read_text(encoding="utf-8"))
        for path in (ROOT / "src/relax").rglob("*.py")
    }
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_the_readme_names_the_commands_that_exist():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test", "check", "format"):
        assert f"make {target}" in readme
        assert f"\n{target}: " in makefile


def test_ci_runs_what_the_readme_says():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = script.read_text(encoding="utf-8").splitlines()
    assert "set -eu" in lines
    assert lines[-2:] == ["make test", "make check"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(line in readme for line in lines[-2:])


def test_every_test_runs_once():
    """`make test` is three runs: of what is measured, of those that need torch, and of everything else."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\ntest: coverage others test-torch\n" in makefile
    measured, torch, others = map(run_by, ("coverage", "torch", "others"))
    assert "--cov-report=term" in measured
    named = [word for word in measured + torch if word.startswith("tests/")]
    assert all((ROOT / word).exists() for word in named)
    assert len(set(named)) == len(named) > 40
    assert [word for word in others if "tests" in word] == [*(f"--ignore={word}" for word in named), "tests"]
    assert not any(one != other and one.startswith(f"{other}/") for one in named for other in named)


def run_by(goal):
    """The words of the call of pytest by which make reaches a goal."""
    said = subprocess.run(
        ["make", "-n", goal], cwd=ROOT, env={**os.environ, "MAKEFLAGS": ""}, check=True, capture_output=True, text=True
    ).stdout
    [line] = [line for line in said.splitlines() if "-m pytest" in line]
    return line.split()


def test_importing_relax_imports_nothing_yet():
    """Not even NumPy, so that `relax --help` answers at once."""
    found = set(python("import relax, sys; print(*sys.modules)").split())
    assert not {"numpy", "tvm_ffi"} & found
    assert {name for name in found if name.startswith("relax.")} == set()


def test_the_virtual_machine_imports_the_runtime_only():
    """Which takes a fifth of a second; the compiler's rooms are imported when first used."""
    found = set(python("import relax, sys; relax.VirtualMachine; print(*sys.modules)").split())
    assert "relax.runtime" in found
    assert not {"torch", "onnx", "sklearn", "scipy", "llvmlite", "rich"} & found
    rooms = {name.split(".")[1] for name in found if name.startswith("relax.")}
    assert rooms <= {"_api", "runtime"}


def test_the_package_is_typed():
    assert (ROOT / "src/relax/py.typed").exists()


@pytest.mark.parametrize(
    "draw", [lambda: np.random.rand(2), np.random.default_rng, random.random], ids=["rand", "default_rng", "random"]
)
def test_tests_draw_seeded_numbers_only(draw):
    """`tests/conftest.py` guards the global generators: an unseeded number makes a test that fails once in a while."""
    with pytest.raises(AssertionError, match="draws unseeded numbers"):
        draw()
