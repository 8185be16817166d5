"""How compile-time work grows with the size of a program: parse, print and build, per number of bindings.

    python benchmarks/compile_time.py [N ...]

For each N, a function of N bindings over a symbolic dimension is parsed (which normalises it and derives its struct
info), printed, and built. Prints seconds (the median of three), and microseconds per binding: a flat
column means linear growth. The last lines give the time to import the package.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

import relax

SIZES = (125, 250, 500, 1000, 2000)
OPERATORS = ("R.add(a{i}, x)", "R.multiply(a{i}, a{i})", "R.exp(a{i})", "R.nn.relu(a{i})")


def program(n: int) -> str:
    """TVMScript of a chain of n bindings."""
    lines = [
        "from relax.script import relax as R",
        "",
        "@R.function",
        'def main(x: R.Tensor(("n", 16), "float32")) -> R.Tensor(("n", 16), "float32"):',
        "    with R.dataflow():",
        "        a0 = R.nn.relu(x)",
    ]
    for i in range(n - 1):
        lines.append(f"        a{i + 1} = " + OPERATORS[i % len(OPERATORS)].format(i=i))
    return "\n".join([*lines, f"        R.output(a{n - 1})", f"    return a{n - 1}", ""])


def seconds(action: Callable[[], object], runs: int = 3) -> float:
    """The median time of an action."""
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def import_seconds(statement: str) -> float:
    """The median time of an import in a fresh interpreter, its start not counted."""
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    runs = [float(subprocess.check_output([sys.executable, "-c", code], text=True)) for _ in range(5)]
    return statistics.median(runs)


def main() -> None:
    """Print the curve."""
    sizes = [int(arg) for arg in sys.argv[1:]] or SIZES
    table = Table("bindings", "parse", "µs each", "print", "µs each", "build", "µs each")
    for n in sizes:
        text = program(n)
        func = relax.script.from_source(text)
        mod = relax.IRModule.from_expr(func)
        row = [str(n)]
        for action in (
            lambda text=text: relax.script.from_source(text),
            lambda func=func: func.script(),
            lambda mod=mod: relax.build(mod, "llvm"),
        ):
            took = seconds(action)
            row += [f"{took:.3f} s", f"{took / n * 1e6:.0f}"]
        table.add_row(*row)
    console = Console()
    console.print(table)
    for statement in ("import relax", "import relax; relax.build", "import relax.runtime"):
        console.print(f"{statement}: {import_seconds(statement):.3f} s")


if __name__ == "__main__":
    main()
