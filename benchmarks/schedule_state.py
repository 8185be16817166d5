"""How long a schedule primitive takes in modules of growing size: milliseconds each, which must not grow.

    python benchmarks/schedule_state.py [--quick] [--sizes N,N,...] [--profile]

A module of N blocks, ten in a function, is scheduled by a hundred primitives; the same for one function of N blocks.
The output is milliseconds to make the schedule, and for each kind of primitive, for each size; and the exponent of the
last doubling: 0 is a time that does not grow. `--profile` prints where the time of the largest module goes.
"""

from __future__ import annotations

import argparse
import cProfile
import math
import pstats
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from relax.ir import IRModule
from relax.script import from_source
from relax.tir import Schedule

SIZES = (125, 250, 500, 1000, 2000)
QUICK = (20, 40)
ROUNDS = 10
"""How often each kind of primitive is applied."""


def function(name: str, blocks: int) -> str:
    """A PrimFunc of some blocks, each of which reads what the one before it wrote."""
    lines = ["@T.prim_func", f'def {name}(A0: T.Buffer((32, 32), "float32"), Z: T.Buffer((32, 32), "float32")):']
    lines += [f'    A{i + 1} = T.alloc_buffer((32, 32), "float32")' for i in range(blocks - 1)]
    for i in range(blocks):
        target = "Z" if i == blocks - 1 else f"A{i + 1}"
        lines += [
            "    for i, j in T.grid(32, 32):",
            f'        with T.block("B{i}"):',
            '            vi, vj = T.axis.remap("SS", [i, j])',
            f"            {target}[vi, vj] = A{i}[vi, vj] + T.float32(1)",
        ]
    return "\n".join(lines) + "\n"


def functions_of_ten(blocks: int) -> IRModule:
    """A module of functions of ten blocks each."""
    text = "from relax.script import tir as T\n" + function("main", 10)
    func = from_source(text)
    return IRModule({f"f{i}": func for i in range(max(1, blocks // 10))})


def one_function(blocks: int) -> IRModule:
    """A module of one function."""
    return IRModule({"f0": from_source("from relax.script import tir as T\n" + function("main", blocks))})


KINDS: dict[str, Callable[[int], IRModule]] = {
    "functions of ten blocks": functions_of_ten,
    "one function": one_function,
}


class Clock:
    """Milliseconds by kind of primitive."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}

    def __call__(self, name: str, action: Callable[..., Any], *args: Any, **options: Any) -> Any:
        start = time.process_time()
        result = action(*args, **options)
        self.spent.setdefault(name, []).append((time.process_time() - start) * 1000)
        return result

    def rows(self) -> dict[str, float]:
        """The middle value of each kind."""
        return {name: sorted(values)[len(values) // 2] for name, values in self.spent.items()}


def schedule(mod: IRModule) -> dict[str, float]:
    """Schedule a module by a hundred primitives: milliseconds for each kind."""
    clock = Clock()
    sch: Schedule = clock("Schedule", Schedule, mod, seed=0)
    count = len(sch.state.blocks("f0")) - 1
    for number in range(ROUNDS):
        block = clock("get_block", sch.get_block, f"B{number * max(1, count // ROUNDS) % count}", "f0")
        i, j = clock("get_loops", sch.get_loops, block)[-2:]
        outer, inner = clock("split", sch.split, j, [None, 4 if number < count else 1])
        clock("reorder", sch.reorder, outer, i, inner)
        clock("annotate", sch.annotate, block, f"note{number}", number)
        clock("vectorize", sch.vectorize, inner)
        fused = clock("fuse", sch.fuse, outer, i)
        clock("get_consumers", sch.get_consumers, block)
        clock("parallel", sch.parallel, fused)
        other = clock("copy", sch.copy)
        clock("cache_read", other.cache_read, block, 0, "global")
        if number == ROUNDS - 1:
            continue  # the last block writes a parameter
        clock("set_scope", other.set_scope, block, 0, "local")
        clock("transform_layout", other.transform_layout, block, ("write", 0), lambda i, j: (j, i))
        clock("compute_inline", other.compute_inline, block)
    clock("trace", lambda: str(sch.trace))
    return clock.rows()


def show(kind: str, sizes: tuple[int, ...], console: Console) -> None:
    """Print the curve of a kind of module."""
    columns = [schedule(KINDS[kind](size)) for size in sizes]
    table = Table(kind, *(f"{size} blocks" for size in sizes), "exponent")
    for name in columns[0]:
        values = [column[name] for column in columns]
        steps = math.log2(sizes[-1] / sizes[-2]) if len(sizes) > 1 else 1
        power = math.log2(max(values[-1], 1e-6) / max(values[-2 if len(values) > 1 else -1], 1e-6)) / steps
        table.add_row(name, *(f"{value:.3f} ms" for value in values), f"{power:.2f}")
    console.print(table)


def main() -> None:
    """Print the curves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    parser.add_argument("--sizes", type=lambda text: tuple(map(int, text.split(","))), default=SIZES)
    options = parser.parse_args()
    sizes: tuple[int, ...] = QUICK if options.quick else options.sizes
    console = Console(width=130)
    schedule(one_function(20))  # what is imported and compiled once is not part of any curve
    for kind in KINDS:
        if options.profile:
            mod = KINDS[kind](sizes[-1])
            profile = cProfile.Profile()
            profile.runcall(schedule, mod)
            pstats.Stats(profile).sort_stats("cumulative").print_stats(30)
        else:
            show(kind, sizes, console)


if __name__ == "__main__":
    main()
