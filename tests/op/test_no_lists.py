"""Facts about operators stand on their classes: no module outside of `relax.op` keeps a collection of their names."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

import pytest

import relax.op
from relax.ir import Op
from relax.prim import PrimExpr

ROOT = Path(relax.__file__).parent
FULL = {name for name in Op.list_op_names() if name.startswith("relax.") and "testing" not in name.split(".")}
OTHERS = {*dir(builtins), *dir(PrimExpr), *(name[4:] for name in Op.list_op_names() if name.startswith("tir."))}
"""Names of Python's builtins, of methods of scalars and of functions of TIR, which have collections of their own."""
WORDS = {name.removeprefix("relax.") for name in FULL}
SHORT = WORDS - OTHERS
RELAX_ROOMS = ("analysis", "derive", "info", "interpreter", "rewrite", "script", "transform", "vm")
"""Rooms about Relax: a short name there is an operator's; in the rooms of TIR it may be a formula's."""
ROOMS = sorted({path.relative_to(ROOT).parts[0] for path in ROOT.rglob("*.py")} - {"op"})
"""The folders and modules at the top of the package."""


def texts(items):
    return [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]


def values(node):
    """The texts that a collection of any kind holds: literal, dict, alternatives of a pattern, words of a text."""
    match node:
        case ast.Tuple() | ast.List() | ast.Set():
            return texts(node.elts)
        case ast.Dict():
            return [*texts(node.keys), *texts(node.values)]
        case ast.MatchOr():
            return texts(p.value for p in node.patterns if isinstance(p, ast.MatchValue))
        case ast.Constant() if isinstance(node.value, str):
            words = node.value.split()
            return words if len(words) > 1 and set(words) <= WORDS else []
        case _:
            return []


def collections(source, names):
    """The lines of collections that hold two or more of some names; `__all__` and docstrings do not count."""
    tree = ast.parse(source)
    exempt = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            exempt.add(node.value)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            exempt.add(node.value)
    return [node.lineno for node in ast.walk(tree) if node not in exempt and len(set(values(node)) & names) >= 2]


def test_there_are_names():
    assert {"relax.add", "relax.nn.softmax"} <= FULL
    assert {"add", "call_tir"} <= SHORT


@pytest.mark.parametrize("room", ROOMS)
def test_no_collection_of_operator_names(room):
    names = FULL | SHORT if room in RELAX_ROOMS else FULL
    paths = [ROOT / room] if room.endswith(".py") else sorted((ROOT / room).rglob("*.py"))
    assert paths
    found = {path.relative_to(ROOT).as_posix(): collections(path.read_text(), names) for path in paths}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        'x = ("relax.add", "relax.exp")',
        'x = {"relax.add": 1, "relax.exp": 2}',
        'x = frozenset({"add", "take"})',
        'x = names("add abs take")',
        'if name in ["call_tir", "call_dps_packed"]: pass',
        'match x:\n    case Op("relax.add" | "relax.exp"): pass',
    ],
)
def test_collections_are_seen(source):
    assert collections(source, FULL | SHORT)


def test_single_names_are_no_collection():
    assert not collections('x = ("relax.add", "other"); y = "relax.exp"; __all__ = ["add", "exp"]', FULL | SHORT)
