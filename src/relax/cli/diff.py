"""``relax diff``: the first tensor in which two programs or engines differ."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..interpreter.outcome import Outcome, difference_of, observed
from ..ir import IRModule, RelaxExpr
from ..runtime import Executable
from ..runtime.records import dataclass
from .arguments import MODEL_KINDS, add_building, add_inputs, add_reading, once
from .engines import COMPILED, ENGINES, INTERPRETER, Side, side_of
from .failures import FAILURE, SUCCESS, UNSUITABLE, failure
from .inputs import Input, gather_inputs
from .models import read_executable, signature_of
from .onnx_runtime import NAME, OnnxRuntime, inner_values, rounded_otherwise
from .outputs import parts_of
from .probe import probed
from .progress import progress
from .tables import figure

DESCRIPTION = """\
Run two programs, or one program by two engines, on the same inputs. If they differ, find the first tensor that does:
its variable, where it is computed, and its values. The first side is what is expected."""
EXAMPLES = """
  relax diff model.py --size n=4                       the interpreter and machine code
  relax diff model.onnx onnxruntime compiled --size n=4
  relax diff model.py interpreter interpreter:graph    before and after the passes of a pipeline
  relax diff old.py new.py --input x=x.npy             two programs; variables are matched by name

sides: interpreter[:PIPELINE], compiled[:PIPELINE], onnxruntime, or another model
exit status: 0 if they agree, 1 if they differ
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("model", type=Path, help=MODEL_KINDS)
    parser.add_argument("side", nargs="*", help="two engines; or another model (default: interpreter compiled)")
    add_reading(parser)
    add_inputs(parser)
    parser.add_argument(
        "--tolerance", metavar="T", type=float, help="relative and absolute (default: 1e-4 for float32)"
    )
    add_building(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    first, second = _sides(options)
    one, other = (_Comparand(side, side.program(options)) for side in (first, second))
    program = one.mod or other.mod or _executable(first, second)
    signature = signature_of(program, options.entry)
    inputs = gather_inputs(signature, options, once(options.size, "--size"))
    with progress(f"running {first.name}") as meter:
        expected = one.outcome(signature.name, inputs, options)
        meter.describe(f"running {second.name}")
        actual = other.outcome(signature.name, inputs, options)
    difference = expected.difference(actual, options.tolerance)
    if difference is None:
        sys.stdout.write(f"{first.name} and {second.name} agree{_agreement(expected, actual)}\n")
        return SUCCESS
    sys.stdout.write(f"{first.name} and {second.name} differ\n  {difference}\n")
    with progress("looking for the first tensor that differs"):
        told = _first_difference(one, other, signature.name, inputs, options)
    sys.stdout.write(told + "\n")
    for path in {side.path for side in (first, second) if side.engine == NAME}:
        sys.stdout.writelines(
            f"{sentence}\n" for sentence in rounded_otherwise(path, dict(options.value), [x.value for x in inputs])
        )
    return FAILURE


def _sides(options: argparse.Namespace) -> tuple[Side, Side]:
    model: Path = options.model
    words: list[str] = options.side
    if len(words) == 2:
        return side_of(words[0], model), side_of(words[1], model)
    if not words:
        return Side(INTERPRETER, model, INTERPRETER), Side(COMPILED, model, COMPILED)
    other = side_of(words[0], model)
    if len(words) > 2 or words[0].partition(":")[0] in ENGINES:
        hint = "relax diff model.py interpreter compiled, or relax diff old.py new.py"
        raise failure(UNSUITABLE, f"two sides are compared, found {len(words)}", hint=hint)
    return Side(str(model), model, COMPILED), other


def _executable(first: Side, second: Side) -> Executable:
    """Executables of sides that are not programs."""
    paths = [side.path for side in (first, second) if side.path.suffix == ".relax"]
    if not paths:
        raise failure(UNSUITABLE, "both sides are ONNX Runtime", hint="compare it with: compiled")
    return read_executable(paths[0])


# -------------------------------------------------------------------------------------------- running


@dataclass(frozen=True)
class _Comparand:
    """A side, and its program if that can be instrumented."""

    side: Side
    mod: IRModule | None

    def outcome(self, entry: str, inputs: Sequence[Input], options: argparse.Namespace) -> Outcome:
        """Outcome of running the side."""
        return observed(self.side.function(self.mod, entry, options), [entry.value for entry in inputs])

    def values(
        self, entry: str, inputs: Sequence[Input], options: argparse.Namespace
    ) -> dict[str, tuple[Any, RelaxExpr | None]] | None:
        """Intermediate values by variable, in order; None if they are not accessible."""
        args = [value.value for value in inputs]
        if self.side.engine == NAME:
            names = inner_values(self.side.path)
            session = OnnxRuntime(self.side.path, dict(options.value), list(names.values()))
            outputs = observed(lambda *values: tuple(session.run(session.feeds(values))), args).result
            return None if outputs is None else _named(list(names), outputs[-len(names) :])
        telling = None if self.mod is None else probed(self.mod, entry)
        if telling is None:
            return None
        outcome = observed(self.side.function(telling.mod, entry, options), args)
        if outcome.error is not None:
            return None
        values = outcome.result[1]
        return {name: (value, expr) for (name, expr), value in zip(telling.values, values, strict=True)}


def _named(names: Sequence[str], values: Sequence[Any]) -> dict[str, tuple[Any, RelaxExpr | None]]:
    return {name: (value, None) for name, value in zip(names, values, strict=True)}


def _first_difference(
    one: _Comparand, other: _Comparand, entry: str, inputs: Sequence[Input], options: argparse.Namespace
) -> str:
    """Description of the first variable whose values differ."""
    expected = one.values(entry, inputs, options)
    actual = None if expected is None else other.values(entry, inputs, options)
    if expected is None or actual is None:
        side = one if expected is None else other
        return f"the values that {side.side.name} computes on the way cannot be told"
    common = [name for name in expected if name in actual]
    # The side with a program provides the source locations and the order.
    ordered = common if one.mod is not None else [name for name in actual if name in expected]
    for name in ordered:
        (mine, location), (theirs, right) = expected[name], actual[name]
        difference = difference_of(mine, theirs, name, options.tolerance)
        if difference is not None:
            return _described(name, difference, location if location is not None else right)
    if not common:
        return "the two have no variables of one name, so the first tensor that differs is not known"
    return (
        f"none of {len(common)} values on the way differs when all of them are kept: the difference comes from what "
        "happens between them (fusion, memory that is used again), or inside of branches and functions"
    )


def _described(name: str, difference: str, expr: RelaxExpr | None) -> str:
    lines = [f"the first tensor that differs is {name}"]
    if expr is not None:
        text = expr.script()
        lines.append(f"  {name} = {text if len(text) <= 500 else text[:500] + ' …'}")
        lines += [f"  at {expr.span}"] if expr.span is not None else []
    return "\n".join([*lines, f"  {difference}"])


def _agreement(expected: Outcome, actual: Outcome) -> str:
    """Description of the distance between two outcomes that agree."""
    if expected.error is not None:
        first = (str(expected.error).splitlines() or [""])[0]
        return f": both fail with {type(expected.error).__name__}: {first}"
    pairs = zip(parts_of(expected.result, "output"), parts_of(actual.result, "output"), strict=True)
    arrays: list[tuple[Any, Any]] = [(a, b) for (_, a), (_, b) in pairs if isinstance(a, np.ndarray)]
    largest = max(map(_distance, arrays), default=0.0)
    noun = "output" if len(arrays) == 1 else "outputs"
    return f" in {len(arrays)} {noun} (largest difference {figure(largest)})"


def _distance(pair: tuple[Any, Any]) -> float:
    one, other = (np.asarray(array).astype("float64") for array in pair)
    distances = np.abs(one - other)[np.isfinite(one) & np.isfinite(other)]
    return float(distances.max()) if distances.size else 0.0
