"""Parts of models beside libraries: where kernels of ours lose, and where they win.

    python benchmarks/regions.py [--small] [--libraries onnxruntime openvino] [--seconds 0.3] [--rows 15] [CASE ...]

A model of `bench` is cut into parts: an operator that is not elementwise, with the elementwise ones that alone use its
result. Each part that a library takes runs there and as kernels of ours, in turns, at the sizes of the case. Parts that
are alike are measured once. A row: the operators, how often the part occurs, microseconds of one run, and the time in
the fastest library divided by ours: above 1 we are faster. First come the parts in which a model loses most.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Sequence

import bench
import onnx
from rich.console import Console
from rich.table import Table

import relax
from relax.analysis.uses import uses_of
from relax.backend.measurement import Region, region_of, time_region
from relax.expr import Call, DataflowBlock, DataflowVar, Var, VarBinding
from relax.frontend.onnx import from_onnx
from relax.ir import structural_hash
from relax.op import operator_of


def parts_of(block: DataflowBlock) -> list[Region]:
    """Return the parts of a block."""
    bindings = [binding for binding in block.bindings if isinstance(binding, VarBinding)]
    users = Counter(var for binding in bindings for var in uses_of(binding.value).variables)
    part: dict[Var, list[VarBinding]] = {}
    """The part that ends with a variable, which its next elementwise user joins."""
    parts: list[list[VarBinding]] = []
    for binding in bindings:
        operator = operator_of(binding.value) if isinstance(binding.value, Call) else None
        if operator is None:
            continue
        alone = [var for var in uses_of(binding.value).variables if users[var] == 1 and isinstance(var, DataflowVar)]
        joined = next((part[var] for var in alone if var in part), None) if operator.elementwise else None
        if joined is None:
            joined = []
            parts.append(joined)
        joined.append(binding)
        part = {var: own for var, own in part.items() if own is not joined}
        part[binding.var] = joined
    return [region_of(inside, bindings) for inside in parts]


def measured(model: onnx.ModelProto, sizes: dict[str, int], options: argparse.Namespace) -> list[list[object]]:
    """Return the rows of one model: operators, occurrences, our time, times of libraries, ratio."""
    mod = relax.transform.FoldBatchnormToConv2D()(relax.transform.ConvertToDataflow()(from_onnx(model)))
    blocks = [block for block in mod["main"].body.blocks if isinstance(block, DataflowBlock)]
    found: dict[int, tuple[Region, int]] = {}
    for part in (part for block in blocks for part in parts_of(block)):
        key = structural_hash(part.function, map_free_vars=True)
        found[key] = (part, found.get(key, (part, 0))[1] + 1)
    rows: list[list[object]] = []
    for part, count in found.values():
        times = {name: time_region(part, name, sizes=sizes, seconds=options.seconds) for name in options.libraries}
        taken = {name: (ours, theirs) for name, (ours, theirs, problem) in times.items() if not problem}
        if taken:
            ours = min(ours for ours, _ in taken.values())
            theirs = [taken.get(name, (0.0, math.nan))[1] for name in options.libraries]
            best = min(value for value in theirs if not math.isnan(value))
            rows.append([", ".join(part.operators), count, ours, *theirs, best / ours])
    return sorted(rows, key=_lost, reverse=True)


def _lost(row: Sequence[object]) -> float:
    """Return the seconds of a run of the model that the fastest library would save in a part."""
    _, count, ours, *_, ratio = row
    return float(count) * float(ours) * (1 - float(ratio))  # type: ignore[arg-type]


def main() -> None:
    """Print a table for each case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"some of {', '.join(bench.ALL)}")
    parser.add_argument("--small", action="store_true", help="the models' sizes of the tests")
    parser.add_argument("--libraries", nargs="+", default=["onnxruntime", "openvino"])
    parser.add_argument("--seconds", type=float, default=0.3, help="time in which the runs of a part take turns")
    parser.add_argument("--rows", type=int, default=15, help="rows of each table")
    options = parser.parse_args()
    sys.path.insert(0, str(bench.FOLDER))
    console = Console(width=140)
    for case in options.cases or bench.CASES:
        name, sizes = bench.ALL[case]
        rows = measured(bench.load(name, options.small)[0], sizes, options)
        table = Table("operators", "times", "ours (us)", *(f"{n} (us)" for n in options.libraries), "library / ours")
        for operators, count, *times, ratio in rows[: options.rows]:
            shown = ("" if math.isnan(value) else f"{value * 1e6:.1f}" for value in times)
            table.add_row(str(operators), str(count), *shown, f"{ratio:.2f}")
        console.print(f"{case}: {sizes}, {len(rows)} kinds of parts")
        console.print(table)


if __name__ == "__main__":
    main()
