"""tools/quick.py: which tests run for which changed files."""

from __future__ import annotations

from pathlib import Path

import pytest

import quick

ROOT = Path(__file__).resolve().parent.parent


def chosen(*paths: str) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in quick.selected([ROOT / path for path in paths])]


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("src/relax/prim/bounds.py", "tests/prim"),
        ("src/relax/expr.py", "tests/core"),
        ("tests/farm/test_store.py", "tests/farm/test_store.py"),
        ("tests/support.py", "tests/test_support.py"),
        ("docs/limits.md", "tests/docs"),
        ("README.md", "tests/docs"),
        ("examples/digits.py", "tests/examples"),
        ("tools/differential/cases.py", "tests/differential"),
        ("tools/quick.py", "tests/test_quick.py"),
        ("tools/make_stubs.py", "tests/test_project.py"),
        ("pyproject.toml", "tests/test_project.py"),
    ],
)
def test_the_tests_of_a_changed_file_run_first_and_the_language_last(path: str, first: str):
    paths = chosen(path)
    assert (paths[0], paths[-1]) == (first, "tests/language")


def test_nothing_changed():
    assert chosen() == []


def test_rooms_above_follow_from_the_nearest_and_only_the_files_that_import_the_room():
    paths = chosen("src/relax/tir/lower.py")
    assert paths[0] == "tests/tir"
    assert not any(path.startswith("tests/prim") for path in paths)
    above = [path for path in paths[1:] if path.startswith(("tests/transform/", "tests/codegen/"))]
    assert above
    assert all("tir" in quick.imported_rooms(ROOT / path) for path in above)
    order = quick.layers()
    rooms = [order.index(path.split("/")[1]) for path in paths if path.split("/")[1] in order]
    assert rooms == sorted(rooms, reverse=True)


def test_each_path_once():
    paths = chosen("tests/tir/test_interpret.py", "src/relax/tir/interpret.py", "src/relax/tir/lower.py")
    assert len(paths) == len(set(paths))


def test_unknown_commit():
    with pytest.raises(SystemExit, match="quick: git shows no changes since 'no-such-commit'"):
        quick.changed_files("no-such-commit")
