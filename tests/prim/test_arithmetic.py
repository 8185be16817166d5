"""Scalar operations: each node class names its functions and its intervals once, and nothing else repeats them."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest

import relax
from relax import prim
from relax.prim.arithmetic import wrap
from relax.prim.intervals import EVERYTHING, INF, OPERATIONS, operation_range, plain_interval, within
from relax.prim.totality import scalar_never_fails

OPERATIONS_OF_NUMBERS = (*prim.ARITHMETIC, *prim.COMPARISONS, prim.And, prim.Or)
NODES = {cls.__name__ for cls in OPERATIONS_OF_NUMBERS}
NAME = re.compile(rf"\b(?:{'|'.join(NODES)})\b")


@pytest.mark.parametrize("cls", OPERATIONS_OF_NUMBERS)
def test_each_operation_has_its_functions(cls):
    integers, floats = cls.functions[:2]
    assert integers(1, 1) == floats(1.0, 1.0)


def functions_of_nodes(tree: ast.AST) -> list[int]:
    """Lines of dicts that give functions (of the operator module, NumPy, or lambdas) to three or more node classes."""
    found: list[int] = []
    for part in ast.walk(tree):
        if isinstance(part, ast.Dict):
            keys = [ast.unparse(key).split(".")[-1] for key in part.keys if key is not None]
            computing = [
                value
                for key, value in zip(keys, (v for k, v in zip(part.keys, part.values) if k is not None))
                if key in NODES
                and (isinstance(value, ast.Lambda) or ast.unparse(value).startswith(("np.", "operator.")))
            ]
            found += [part.lineno] if len(computing) > 2 else []
        elif isinstance(part, ast.Match):
            # case Add(): return a + b
            computing = [
                case
                for case in part.cases
                if {ast.unparse(p.cls).split(".")[-1] for p in ast.walk(case.pattern) if isinstance(p, ast.MatchClass)}
                & NODES
                and isinstance(case.body[-1], ast.Return)
                and isinstance(case.body[-1].value, ast.BinOp)
            ]
            found += [part.lineno] if len(computing) > 2 else []
    return found


def tables_in(text: str) -> list[int]:
    """`functions_of_nodes` of a text; one without three names as keys or in a match has none, and is not parsed."""
    keys = sum(text[found.end() : found.end() + 1] == ":" for found in NAME.finditer(text))
    matched = "match " in text and len(NAME.findall(text)) > 2
    return functions_of_nodes(ast.parse(text)) if keys > 2 or matched else []


def test_there_is_no_second_table_of_scalar_functions():
    """`relax.runtime` stands alone and reads texts; everything else asks `BinaryExpr.functions`."""
    source = Path(relax.__file__).parent
    tables = [
        f"{path.relative_to(source)}:{line}"
        for path in sorted(source.rglob("*.py"))
        if path.relative_to(source).parts[0] != "runtime"
        for line in tables_in(path.read_text(encoding="utf-8"))
    ]
    assert tables == []


def test_a_second_table_would_be_found():
    table = "T = {Add: operator.add, Sub: lambda a, b: a - b, prim.Min: np.minimum}"
    chain = """
match expr:
    case Add(): return a + b
    case prim.Sub(): return a - b
    case Mul() | FloorDiv(): return a * b
"""
    assert tables_in(table) == [1]
    assert tables_in(chain) == [2]


@pytest.mark.parametrize("cls", prim.ARITHMETIC)
def test_intervals_hold_all_values_and_touch_what_they_can(cls):
    """Exhaustively over small intervals: every value of the function lies in the interval of the operation."""
    ends = [(low, high) for low in range(-3, 4) for high in range(low, 4)]
    for x, y in itertools.product(ends, repeat=2):
        low, high = OPERATIONS[cls](x, y)
        for a, b in itertools.product(range(x[0], x[1] + 1), range(y[0], y[1] + 1)):
            value = prim.expr.fold_integers(cls, a, b)
            assert value is None or low <= value <= high, (cls, x, y, a, b)


def test_intervals_without_ends():
    assert OPERATIONS[prim.FloorDiv]((0, INF), (2, 2)) == (0, INF)
    assert OPERATIONS[prim.FloorDiv]((-INF, 6), (2, 3)) == (-INF, 3)
    assert OPERATIONS[prim.FloorDiv]((1, 2), (-1, 1)) == EVERYTHING


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64"])
def test_an_interval_is_of_unbounded_integers(dtype):
    x = prim.Var("x", dtype)
    found = operation_range(x + 1, lambda part: operation_range(part, lambda _: EVERYTHING))
    assert not within(found, x.dtype)
    assert wrap(int(found[1]), x.dtype) == x.dtype.min_value
    halved = operation_range(x.astype("float32"), lambda _: EVERYTHING)
    assert halved == EVERYTHING


def test_a_choice_narrows_the_variable_it_compares():
    n = prim.SizeVar("n", "int64")
    small = prim.Select(n < 12, n, n % 6)
    assert plain_interval(small) == (0, 11)
    assert plain_interval(prim.Select(n >= 12, prim.const(3, "int64"), n)) == (0, 11)
    assert plain_interval(prim.Select(n < 12, n + 1, n % 6))[1] > 11
    assert plain_interval(prim.Select(n < 0, n, n % 6)) == plain_interval(n)


def test_sizes_divided_by_negative_numbers_have_values():
    n = prim.SizeVar("n", "int64")
    assert scalar_never_fails(n // -2)
    assert not scalar_never_fails(prim.Var("k", "int64") // -1)
    assert scalar_never_fails(prim.intrin.truncdiv(n, -1))
    assert not scalar_never_fails(prim.intrin.truncdiv(prim.Var("k", "int64"), -1))
