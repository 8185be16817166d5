"""Measurement of regions: each runs in each library and as our own kernels, in turns, at sizes that are given.

report = measure(mod, ["onnxruntime", "openvino"], sizes={"n": 128})
print(report)                            what is faster, and by how much
mod = partition(mod, ["onnxruntime", "openvino"], choose=report)

A region is what a library would be given as one function. Where regions of several libraries overlap, the one that
saves most goes first.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..analysis.uses import uses_of
from ..expr import Call, DataflowVar, Function, Var, VarBinding
from ..info.mapping import bound_in
from ..ir import DiagnosticError, IRModule, StructInfo
from ..op import operator_of
from ..prim import PrimExpr, evaluate
from ..prim import Var as ShapeVar
from ..runtime import ShapeTuple, VirtualMachine
from ..runtime.dtypes import NUMPY_DTYPES
from ..runtime.records import dataclass
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..transform.fusion.fuse_ops_by_pattern import FuseOpsByPattern, FusionPattern, PatternCheckContext
from ..transform.fusion.merge_composite_functions import dataflow_blocks_in, merged_groups
from ..transform.fusion.outline import outlined
from ..vm.driver import build
from .codegen import handed_over, patterns_of

Check: TypeAlias = "Callable[[PatternCheckContext], bool]"

DEFAULT_SIZE = 16
"""The size of open dimensions that is taken where none is given."""
_NOISE = 0.95
"""A library is faster if it takes less than this part of our time."""
_SECONDS = 0.2
"""Time in which the runs of one region take turns."""
_FEWEST = 5
"""Fewest turns."""


@dataclass(frozen=True)
class Choice:
    """One region, and what was measured of it."""

    library: str
    operators: tuple[str, ...]
    """Names of the operators in the region."""
    variables: frozenset[Var]
    """The variables that are bound in it."""
    ours: float
    """Seconds of one run as kernels of ours."""
    theirs: float
    """Seconds of one run in the library; infinity if it does not run there."""
    chosen: bool
    reason: str

    @property
    def saved(self) -> float:
        """Seconds that the library saves."""
        return self.ours - self.theirs


@dataclass(frozen=True)
class Report:
    """Regions of a program, those that save most first; its text is a table."""

    mod: IRModule
    choices: tuple[Choice, ...]

    def __str__(self) -> str:
        if not self.choices:
            return "no library takes a part of this program"
        rows = [("library", "operators", "ours (ms)", "theirs (ms)", "chosen", "why")]
        for choice in self.choices:
            names = ", ".join(choice.operators[:4]) + (
                f", … ({len(choice.operators)})" if len(choice.operators) > 4 else ""
            )
            ours, theirs = (f"{seconds * 1e3:.4f}" for seconds in (choice.ours, choice.theirs))
            rows.append((choice.library, names, ours, theirs, "yes" if choice.chosen else "no", choice.reason))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        return "\n".join("  ".join((*map(str.ljust, row, widths), row[5])).rstrip() for row in rows)


def measure(
    mod: IRModule,
    libraries: str | Sequence[str],
    *,
    sizes: Mapping[str, int] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    seconds: float = _SECONDS,
) -> Report:
    """Time the regions that libraries would be given, in the library and as our own kernels, and choose the faster.

    Parameters
    ----------
    mod
        The program.
    libraries
        Names of libraries, registered ones or those of `relax.backend`.
    sizes
        The sizes of open dimensions by name; 16 for others.
    options
        The options of each code generator, by name.
    seconds
        The time in which the runs of one region take turns.

    Raises
    ------
    ValueError
        For a library that is not registered.
    """
    found: list[Choice] = []
    for name in [libraries] if isinstance(libraries, str) else libraries:
        for region in _regions(mod, patterns_of(name)):
            ours, theirs, problem = time_region(region, name, sizes=sizes, options=options, seconds=seconds)
            reason = problem or _compared(ours, theirs)
            faster = not problem and theirs < _NOISE * ours
            found.append(Choice(name, region.operators, region.variables, ours, theirs, faster, reason))
    return Report(mod, _without_overlap(found))


def chosen(report: Report, library: str, patterns: Sequence[FusionPattern]) -> list[FusionPattern]:
    """Return patterns of a library that match in the regions only that a report chose for it."""
    variables = frozenset[Var]().union(*(c.variables for c in report.choices if c.chosen and c.library == library))

    def within(check: Check | None) -> Check:
        def checked(context: PatternCheckContext) -> bool:
            return variables.issuperset(context.matched_bindings) and (check is None or check(context))

        return checked

    return [replace(pattern, check=within(pattern.check)) for pattern in patterns]


def _compared(ours: float, theirs: float) -> str:
    if theirs < _NOISE * ours:
        return f"{ours / theirs:.2f} times as fast"
    return f"{theirs / ours:.2f} times our time"


def _without_overlap(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return choices, those that save most first, without what an earlier one has taken."""
    taken: set[Var] = set()
    result: list[Choice] = []
    for choice in sorted(choices, key=lambda choice: choice.saved, reverse=True):
        if choice.chosen and not taken.isdisjoint(choice.variables):
            choice = replace(choice, chosen=False, reason=f"{choice.reason}, but another library saves more in it")
        if choice.chosen:
            taken |= choice.variables
        result.append(choice)
    return tuple(result)


@dataclass(frozen=True)
class Region:
    """Part of a program that a library would be given as one function."""

    function: Function
    variables: frozenset[Var]
    operators: tuple[str, ...]


def _regions(mod: IRModule, patterns: Sequence[FusionPattern]) -> list[Region]:
    """Return the regions of a library, in the order of the program."""
    members: dict[Var, tuple[Var, ...]] = {}
    """The variables of each match, by that of its result."""

    def noted(check: Check | None) -> Check:
        def checked(context: PatternCheckContext) -> bool:
            if check is not None and not check(context):
                return False
            variables = tuple(context.matched_bindings)
            members[variables[-1]] = variables
            return True

        return checked

    fused = FuseOpsByPattern([replace(pattern, check=noted(pattern.check)) for pattern in patterns])(mod)
    groups = [{v for var in group for v in members.get(var, (var,))} for group in merged_groups(fused)]
    regions: list[Region] = []
    for function in mod.functions.values():
        for block in dataflow_blocks_in(function):
            bindings = [binding for binding in block.bindings if isinstance(binding, VarBinding)]
            insides = [inside for group in groups if (inside := [b for b in bindings if b.var in group])]
            regions += [region_of(inside, bindings) for inside in sorted(insides, key=lambda i: bindings.index(i[0]))]
    return regions


def region_of(inside: Sequence[VarBinding], block: Sequence[VarBinding]) -> Region:
    """Return the region of some bindings of a block."""
    variables = frozenset(binding.var for binding in inside)
    used = {var for b in block if b.var not in variables for var in uses_of(b.value).variables}
    outputs = [b.var for b in inside if b.var in used or not isinstance(b.var, DataflowVar)] or [inside[-1].var]
    operators = tuple(
        operator.short_name for b in inside if isinstance(b.value, Call) and (operator := operator_of(b.value))
    )
    return Region(
        outlined(inside, {"global_symbol": "main"}, lift_constants=False, outputs=outputs).function,
        variables,
        operators,
    )


def time_region(
    region: Region,
    library: str,
    *,
    sizes: Mapping[str, int] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    seconds: float = _SECONDS,
) -> tuple[float, float, str]:
    """Return the seconds of a run as kernels of ours and in a library, and "" or the reason why it is not timed."""
    mod = IRModule({"main": region.function})
    try:
        split = handed_over(mod, {library: patterns_of(library)}, options)
        if split is mod:
            return math.inf, math.inf, "the library takes no part of it"
        args = arguments(region.function, sizes or {})
        runs = [VirtualMachine(build(program))["main"] for program in (mod, split)]
        ours, theirs = alternate([partial(run, *args) for run in runs], seconds)
    except (DiagnosticError, RuntimeError, ValueError, TypeError) as error:
        return math.inf, math.inf, f"cannot be timed: {str(error).strip().splitlines()[0]}"
    return ours, theirs, ""


def arguments(function: Function, sizes: Mapping[str, int]) -> list[Any]:
    """Return arguments of a function: floats of the standard normal distribution, zeros for integers, which may be
    indices, and bools by chance. Open dimensions have the sizes given by name, others 16."""
    infos = [param.struct_info for param in function.params]
    values = {var: sizes.get(var.name, DEFAULT_SIZE) for var in bound_in(*infos)}
    random = np.random.default_rng(0)
    return [_argument(info, values, random) for info in infos]


def _argument(info: StructInfo, values: Mapping[ShapeVar, int], random: np.random.Generator) -> Any:
    match info:
        case TensorStructInfo(dims=dims, dtype=dtype) if dims is not None and str(dtype) in NUMPY_DTYPES:
            shape = _numbers(dims, values)
            if dtype.is_float:
                return random.standard_normal(shape).astype(NUMPY_DTYPES[str(dtype)])
            return (random.integers(0, 2, shape) if dtype.is_bool else np.zeros(shape)).astype(NUMPY_DTYPES[str(dtype)])
        case ShapeStructInfo(values=dims) if dims is not None:
            return ShapeTuple(_numbers(dims, values))
        case TupleStructInfo(fields):
            return tuple(_argument(field, values, random) for field in fields)
        case PrimStructInfo(value=value) if value is not None:
            return evaluate(value, values)
        case _:
            raise ValueError(f"no value is made for {info}")


def _numbers(dims: Sequence[PrimExpr], values: Mapping[ShapeVar, int]) -> tuple[int, ...]:
    return tuple(int(evaluate(dim, values)) for dim in dims)


def alternate(runs: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """Return the median seconds of each run; they take turns for about `seconds`, at least five times."""
    for run in runs:
        run()
    times: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < _FEWEST:
        for run, noted in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            noted.append(time.perf_counter() - start)
    return [statistics.median(noted) for noted in times]
