"""Steps that call operators on the sample operands of their tests (tests/op/cases_*.py), which fit each of them.

So every operator with a case occurs in programs, without a step of its own here.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import relax.script  # noqa: F401 (registers the printer)
from relax.analysis import post_order_visit
from relax.derive.normalize import normalize_function
from relax.expr import Function, Var
from relax.ir import DiagnosticError
from relax.op import infer_call
from relax.struct_info import TensorStructInfo, TupleStructInfo

from .kinds import DTYPES, Tensor
from .writer import MOST_ELEMENTS, Core, is_float, step

MOST = 40
"""The most elements that operands have together, if an operator has such a case."""


@cache
def samples() -> dict[str, list[Any]]:
    """The cases of each operator whose operands are small, and can be written as text."""
    tests = Path(__file__).parents[2] / "tests"  # outside of pytest, the path lacks both the cases and what they import
    sys.path[:0] = [str(tests / "op"), str(tests)]
    from op_harness import all_cases

    chosen: dict[str, list[tuple[int, Any]]] = {}
    for case in all_cases():
        arrays = arrays_of(case.operands)
        written = all(array.dtype.name in DTYPES and np.isfinite(array).all() for array in arrays)
        if written and not case.raises and not case.tails:
            chosen.setdefault(case.op, []).append((sum(array.size for array in arrays), case))
    least = {name: max(MOST, min(size for size, _ in cases)) for name, cases in chosen.items()}
    return {name: [case for size, case in cases if size <= least[name]] for name, cases in chosen.items()}


def arrays_of(values: list[Any]) -> list[Any]:
    """The arrays among operands."""
    parts = (arrays_of(value) if isinstance(value, list) else [value] for value in values)
    return [array for part in parts for array in part if isinstance(array, np.ndarray)]


def call_text(call: Any) -> str | None:
    """The call as TVMScript, its operands by their names; None if it cannot stand in a program alone."""
    variables: dict[Any, None] = {}
    post_order_visit(call, lambda e: variables.update({e: None}) if isinstance(e, Var) else None)
    try:
        func = normalize_function(Function([*variables], call, None, True, {"global_symbol": "main"}))
    except DiagnosticError:
        return None
    start = f"R.{call.op.name.removeprefix('relax.')}("
    lines = [line for line in func.script().splitlines() if start in line]
    return lines[0][lines[0].index(start) :] if len(lines) == 1 else None


class SampleSteps(Core):
    """Sample calls of operators."""

    @step(weight=3)
    def sample_calls(self) -> bool | None:
        """A few of them: there are hundreds of operators."""
        for _ in range(4):
            name = self.choices.pick(sorted(samples()))
            self.sample(self.choices.pick(samples()[name]))

    def sample(self, case: Any) -> None:
        """A call of one operator on constants."""
        from op_harness import variant

        made = variant(case, False)
        text = call_text(made.call)
        if text is None:
            return
        for number, array in enumerate(made.arrays, 1):
            name = self.fresh("c")
            shape = "".join(f"{size}, " for size in array.shape)
            self.line(
                f'{name} = R.const({array.tolist()}, "{array.dtype.name}")'
                if array.size
                else f'{name} = R.zeros(({shape}), "{array.dtype.name}")'
            )
            text = text.replace(f"x{number},", f"{name},").replace(f"x{number})", f"{name})")
        info = infer_call(made.call)
        if isinstance(info, TensorStructInfo):
            self.result(text, info)
            return
        whole = self.fresh("t")
        self.line(f"{whole} = {text}")
        for i, field in enumerate(info.fields if isinstance(info, TupleStructInfo) else ()):
            if isinstance(field, TensorStructInfo):
                self.result(f"{whole}[{i}]", field)

    def result(self, text: str, info: Any) -> None:
        """Bind a tensor; other steps use it if its shape and dtype are of those they know."""
        dims = None if info.dims is None else tuple(map(str, info.dims))
        known = dims is not None and all(dim.isdigit() for dim in dims) and info.dtype in DTYPES
        if not known or len(dims) > 4 or int(np.prod([int(dim) for dim in dims])) > MOST_ELEMENTS:
            self.line(f"{self.fresh('u')} = {text}")
        elif is_float(info.dtype):
            self.bind(f"R.clip({text}, -9, 9)", Tensor(dims, str(info.dtype)), 9, False, True)
        else:
            self.bind(text, Tensor(dims, str(info.dtype)), 1 if info.dtype == "bool" else 1e9, True, True)
