"""Find the pass that changes what a program computes.

    report = relax.optimize.bisect(mod, inputs)
    print(report)

The pipeline is run one pass at a time; after each, the interpreter evaluates the program on the inputs, and what is
seen of it is compared with what the program did as it was written. The first pass after which they differ, whose
result is not well-formed, or which fails, is reported with the program before and after it, and, where a single
operator shows the same, with that operator. Each operator the program evaluates is then tried alone.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from ..analysis import check_well_formed
from ..derive.normalize import normalize_module
from ..expr import Call, Function, SeqExpr, Var
from ..interpreter.operators import info_of
from ..interpreter.outcome import Outcome, impure_symbols, interpreted, observed
from ..interpreter.recorder import Evaluated, evaluated_operators
from ..ir import GlobalVar, IRModule
from ..ir.transform import Pass, Sequential
from ..runtime.records import dataclass
from ..runtime.values import export_value
from .pipeline import get_pipeline

Execute = Callable[..., Any]
"""``execute(mod, func_name, *args)``: the result of a function of a compiled module."""

EXECUTION = "execution"
"""The name reported when all passes agree and the compiled program does not."""


@dataclass
class BisectionStep:
    """One pass that was run."""

    name: str
    changed: bool
    difference: str | None
    """The difference from the outcome of the program as written; None if there is none."""


@dataclass
class Bisection:
    """The result of bisect; printed, a report."""

    steps: list[BisectionStep]
    guilty: str | None = None
    """The name of the first pass after which the program differs; None if there is none."""
    difference: str = ""
    before: IRModule | None = None
    after: IRModule | None = None
    operators: list[str] = field(default_factory=list[str])
    """Operators that reproduce the difference by themselves, with their operands."""
    note: str = ""

    @property
    def agrees(self) -> bool:
        """True if every step keeps what the program does."""
        return self.guilty is None

    def __str__(self) -> str:
        lines = [_step_line(step) for step in self.steps]
        if self.note:
            lines.append(f"note: {self.note}")
        if self.guilty is None:
            return "\n".join([*lines, "every step keeps what the program does"])
        lines += ["", f"{self.guilty} is the first to differ: {self.difference}"]
        lines += [f"it differs by itself: {operator}" for operator in self.operators]
        if self.before is not None and self.after is not None:
            before, after = (mod.script().splitlines() for mod in (self.before, self.after))
            whole = max(len(before), len(after))
            names = f"before {self.guilty}", f"after {self.guilty}"
            lines += ["", *difflib.unified_diff(before, after, *names, n=whole, lineterm="")]
        elif self.before is not None:
            lines += ["", f"before {self.guilty}:", self.before.script(show_meta=True)]
        return "\n".join(lines)


def bisect(
    mod: IRModule,
    inputs: Sequence[Any],
    *,
    func_name: str = "main",
    pipeline: str | Pass = "default",
    execute: Execute | None = None,
) -> Bisection:
    """Run a pipeline pass by pass and report the first after which the program does something else.

    Parameters
    ----------
    mod
        A well-formed module.
    inputs
        The arguments of the entry point `func_name`; they are copied for each run. Small ones are best: kernels are
        interpreted.
    pipeline
        A registered pipeline's name, or a pass; a Sequential is taken apart.
    execute
        How to run a compiled module, ``execute(mod, func_name, *args)``. With it, if all passes agree, the compiled
        program is compared as well, and each operator compiled by itself:
        ``lambda mod, name, *args: VirtualMachine(relax.build(mod), relax.cpu())[name](*args)``.

    Returns
    -------
    Bisection
        The steps, and the first that differs (`guilty`). Compared are result, error, what arguments hold afterwards,
        what is printed, and the calls of packed functions the program makes for their effects. An error that comes
        out of a dataflow block may vanish, so then nothing can be compared; the note of the report says so.

    Raises
    ------
    DiagnosticError
        If the module is not well-formed.
    """
    watched = impure_symbols(mod)
    expected = interpreted(mod, func_name, inputs, watched)
    report = Bisection([])
    if expected.optional:
        report.note = f"the program fails in a dataflow block, where errors may vanish: {expected.error!r}"
    chosen = get_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    current = mod
    for step in _steps(chosen):
        after, difference = _run_step(step, current, expected, func_name, inputs, watched)
        changed = after is not current
        report.steps.append(BisectionStep(step.info.name, changed, difference))
        if difference is not None:
            report.guilty, report.difference = step.info.name, difference
            report.before, report.after = current, after
            report.operators = _guilty_operators(mod, func_name, inputs, step)
            return report
        assert after is not None
        current = after
    if execute is not None:
        _compare_execution(report, mod, expected, func_name, inputs, watched, execute)
    return report


def _steps(transform: Pass) -> list[Pass]:
    """The passes a pipeline consists of."""
    if isinstance(transform, Sequential):
        return [step for inner in transform.passes for step in _steps(inner)]
    return [transform]


def _run_step(
    step: Pass, mod: IRModule, expected: Outcome, func_name: str, inputs: Sequence[Any], watched: Sequence[str]
) -> tuple[IRModule | None, str | None]:
    """Run a pass; return the module and the first difference in behaviour."""
    try:
        after = step(mod)
    except Exception as error:  # noqa: BLE001 (a pass that fails is what is looked for)
        return None, f"it raises {type(error).__name__}: {_first_line(error)}"
    if after is mod:
        return after, None
    wrong = check_well_formed(after)
    if wrong:
        return after, f"its result is not well-formed: {wrong[0].message}"
    return after, expected.difference(interpreted(after, func_name, inputs, watched))


def _compare_execution(
    report: Bisection,
    mod: IRModule,
    expected: Outcome,
    func_name: str,
    inputs: Sequence[Any],
    watched: Sequence[str],
    execute: Execute,
) -> None:
    actual = observed(functools.partial(execute, mod, func_name), inputs, watched)
    difference = expected.difference(actual)
    report.steps.append(BisectionStep(EXECUTION, True, difference))
    if difference is not None:
        report.guilty, report.difference, report.before = EXECUTION, difference, mod
        report.operators = _guilty_operators(mod, func_name, inputs, None, execute)


# ------------------------------------------------------------------------------------ operator by operator


def _guilty_operators(
    mod: IRModule, func_name: str, inputs: Sequence[Any], step: Pass | None, execute: Execute | None = None
) -> list[str]:
    """Return operators that, alone on their recorded operands, behave differently after a pass or when executed."""
    descriptions: dict[str, None] = {}
    for evaluated in evaluated_operators(mod, func_name, inputs):
        alone = _single_call(evaluated)
        args = [export_value(arg) for arg in evaluated.args]
        difference = _difference_alone(alone, args, step, execute)
        if difference is not None:
            operands = ", ".join(str(info_of(arg)) for arg in evaluated.args)
            descriptions[f"{evaluated.name} of {operands}: {difference}"] = None
    return list(descriptions)


def _difference_alone(mod: IRModule, args: Sequence[Any], step: Pass | None, execute: Execute | None) -> str | None:
    expected = interpreted(mod, "main", args)
    if step is not None:
        return _run_step(step, mod, expected, "main", args, ())[1]
    assert execute is not None
    return expected.difference(observed(functools.partial(execute, mod, "main"), args))


def _single_call(evaluated: Evaluated) -> IRModule:
    """A module whose main makes one call of an operator."""
    infos = [info_of(arg, expr) for arg, expr in zip(evaluated.args, evaluated.call.args, strict=True)]
    params = [Var(f"x{i}", info) for i, info in enumerate(infos)]
    call = Call(evaluated.call.op, params, evaluated.call.attrs, span=evaluated.call.span)
    function = Function(params, SeqExpr((), call), None, True, {"global_symbol": "main"})
    return normalize_module(IRModule({GlobalVar("main"): function}))


def _step_line(step: BisectionStep) -> str:
    verdict = "differs" if step.difference is not None else "agrees" if step.changed else "changes nothing"
    return f"{step.name}: {verdict}"


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "")
