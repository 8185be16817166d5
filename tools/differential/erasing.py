"""Random programs that know less: struct info of variables is erased, from the sizes to all of it.

    y = R.add(x, z)          y: R.Tensor("float32", ndim=2) = R.add(x, z)
                             y: R.Tensor("float32") = …, R.Tensor(ndim=2), R.Tensor, R.Object

What follows from it is derived anew, so that operators meet operands of unknown rank and dtype.
"""

from __future__ import annotations

import ast
import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Any

import relax
from relax.analysis import all_vars
from relax.expr import Function
from relax.ir import DiagnosticError, IRModule, StructInfo
from relax.runtime import Executable
from relax.struct_info import TensorStructInfo

from . import harness, properties
from .properties import Case, Failure, attempt, compare, interpreted, machine, narrowed, parse

LEVELS = (
    lambda info: f'R.Tensor("{info.dtype}", ndim={info.ndim})',
    lambda info: f'R.Tensor("{info.dtype}")',
    lambda info: f"R.Tensor(ndim={info.ndim})",
    lambda info: "R.Tensor",
    lambda info: "R.Object",
)
"""Forms of less and less."""
MODES = ("compiled", "bytecode")
TRIES = 4
"""Attempts to erase less where a program needs what was erased."""


def erased(text: str, seed: int) -> str | None:
    """Return a program's text with annotations that erase struct info; None if the program needs all of it.

    What becomes of a variable depends on the seed and its name, so that it stays when the program is reduced.
    """
    share = random.Random(seed).choice([0.2, 0.5, 1.0])
    chosen: dict[str, str] = {}
    for name, info in _tensors(parse(text)).items():
        choices = random.Random(f"{seed}:{name}")
        if choices.random() < share:
            chosen[name] = choices.choice(LEVELS)(info)
    for turn in range(TRIES):
        if not chosen:
            return None
        result = _annotated(text, chosen)
        try:
            parse(result)
        except DiagnosticError:
            chosen = {name: info for name, info in chosen.items() if random.Random(f"{turn}:{name}").random() < 0.5}
        else:
            return result
    return None


def _tensors(mod: IRModule) -> dict[str, TensorStructInfo]:
    """The struct info of variables that are bound to tensors, by name; without names that several variables have."""
    found: dict[str, StructInfo | None] = {}
    for function in mod.functions.values():
        for var in all_vars(function) if isinstance(function, Function) else ():
            found[var.name_hint] = None if var.name_hint in found else var.struct_info_
    return {
        name: info
        for name, info in found.items()
        if isinstance(info, TensorStructInfo) and info.dtype and info.ndim >= 0
    }


def _annotated(text: str, chosen: dict[str, str]) -> str:
    """A text in which bindings of these variables are annotated; functions that have some return any object."""
    tree = ast.parse(text)
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        if not any(_is_relax(decorator) for decorator in function.decorator_list):
            continue
        if _annotate(function.body, chosen) and function.returns is not None:
            function.returns = ast.parse("R.Object", mode="eval").body
    return ast.unparse(tree)


def _is_relax(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).startswith("R.function")


def _annotate(body: list[ast.stmt], chosen: dict[str, str]) -> int:
    """Annotate the bindings in statements, but for those of match_cast, whose struct info is checked; their number."""
    count = 0
    for index, statement in enumerate(body):
        for inner in _bodies(statement):
            count += _annotate(inner, chosen)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target: Any = statement.targets[0]
        elif isinstance(statement, ast.AnnAssign):
            target = statement.target
        else:
            continue
        value = statement.value
        if not isinstance(target, ast.Name) or target.id not in chosen or not isinstance(value, ast.Call):
            continue
        if "match_cast" in ast.unparse(value.func):
            continue
        annotation = ast.parse(chosen[target.id], mode="eval").body
        body[index] = ast.copy_location(ast.AnnAssign(target, annotation, value, 1), statement)
        count += 1
    return count


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    if isinstance(statement, ast.If):
        yield statement.body
        yield statement.orelse
    elif isinstance(statement, ast.With | ast.FunctionDef):
        yield statement.body


def erased_agree(
    text: str, cases: Sequence[Case], exact: bool = True, seed: int | None = None, modes: Sequence[str] | None = None
) -> None:
    """A program that knows less gives the same values, interpreted and compiled, saved and loaded; what fails, fails.

    The messages of operators whose kernels are chosen at run time are their own, and are not compared.
    """
    number = random.Random(text).randrange(1 << 30) if seed is None else seed
    less = erased(text, number)
    if less is None:
        return
    mod = parse(less)
    how = harness.precision(text, exact)
    try:
        before, expected = interpreted(parse(text), cases), interpreted(mod, cases)
        knows = [was if was.error is None else got for was, got in zip(before, expected, strict=True)]
        compare("erased", knows, expected, how, cases)
        expected = list(map(_without_message, expected))
        for mode in MODES if modes is None else modes:
            with narrowed(modes=[mode]):
                executable = attempt(f"building for {mode}", lambda: _built(mod, mode))  # noqa: B023
                for program in (executable, Executable.from_bytes(executable.to_bytes())):
                    main = machine(program)
                    results = [_without_message(harness.run(main, case)) for case in cases]
                    compare(mode, expected, results, how, cases)
    except Failure as failure:
        failure.options = {**failure.options, "seed": number}
        failure.args = (f"{failure}\n{less}",)
        raise


def _built(mod: IRModule, mode: str) -> Executable:
    with harness.quiet():
        return relax.build(mod, properties.TARGET, exec_mode=mode)


def _without_message(outcome: harness.Outcome) -> harness.Outcome:
    error = None if outcome.error is None else (outcome.error[0], "")
    return dataclasses.replace(outcome, error=error, called=list(map(_without_message, outcome.called)))
