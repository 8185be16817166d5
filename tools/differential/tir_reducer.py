"""Changes that make a PrimFunc smaller, for `reducer.reduce`: statements, loops, buffers and parts of expressions left out."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from .reducer import blocks, statements
from .rounding import FORMATS
from .tir_numbers import Undefined
from .tir_oracle import Oracle


def _main(tree: ast.Module) -> ast.FunctionDef:
    return next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def single_iterations(tree: ast.Module) -> Iterator[ast.Module]:
    """The body of a loop, once, its variable a let."""
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For)]
    for number in range(len(loops)):
        other = copy.deepcopy(tree)
        loop = [node for node in ast.walk(other) if isinstance(node, ast.For)][number]
        if not isinstance(loop.target, ast.Name) or not isinstance(loop.iter, ast.Call) or len(loop.iter.args) != 2:
            continue
        let = ast.AnnAssign(loop.target, ast.parse("T.int64", mode="eval").body, loop.iter.args[0], 1)
        for parent in ast.walk(other):
            for name in ("body", "orelse"):
                body = getattr(parent, name, None)
                if isinstance(body, list) and loop in body:
                    at = body.index(loop)
                    body[at : at + 1] = [let, *loop.body]
        yield other


def buffers(tree: ast.Module) -> Iterator[tuple[ast.Module, int]]:
    """Without a parameter, and the buffer or size that it stands for."""
    for index in range(len(_main(tree).args.args)):
        other = copy.deepcopy(tree)
        function = _main(other)
        name = function.args.args.pop(index).arg
        function.body = [
            stmt
            for stmt in function.body
            if not (isinstance(stmt, ast.Assign) and f"match_buffer({name}," in ast.unparse(stmt))
        ]
        yield other, index


def scalars(tree: ast.Module) -> Iterator[ast.Module]:
    """An expression replaced by a part of it that has its dtype, or by a constant."""
    text = ast.unparse(tree)
    lines = text.splitlines()
    try:
        oracle = Oracle(text)
    except Undefined:
        return
    for node, dtype in sorted(oracle.types.items(), key=lambda item: -_length(item[0])):
        line = lines[node.lineno - 1]
        found = line[node.col_offset : node.end_col_offset]
        for new in _smaller(oracle, node, dtype):
            if len(new) < len(found) or (found not in _constants(dtype) and new in _constants(dtype)):
                changed = line[: node.col_offset] + new + line[node.end_col_offset :]
                yield ast.parse("\n".join([*lines[: node.lineno - 1], changed, *lines[node.lineno :]]))


def _length(node: ast.expr) -> int:
    return (node.end_col_offset or 0) - node.col_offset


def _constants(dtype: str) -> list[str]:
    if dtype == "bool":
        return ["T.bool(True)", "T.bool(False)"]
    return [f"T.{dtype}({value})" for value in (("0.0", "1.0") if dtype in FORMATS else ("0", "1"))]


def _smaller(oracle: Oracle, node: ast.expr, dtype: str) -> Iterator[str]:
    yield from _constants(dtype)
    for part in ast.walk(node):
        if part is not node and isinstance(part, ast.expr) and oracle.types.get(part) == dtype:
            yield (
                f"({ast.unparse(part)})"
                if isinstance(part, (ast.BinOp, ast.Compare, ast.BoolOp))
                else ast.unparse(part)
            )


CANDIDATES = (statements, blocks, single_iterations, buffers, scalars)
"""In the order in which they are tried, the large changes first."""
