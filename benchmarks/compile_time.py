"""How compile-time work grows with the size of a program: parse, print and build, per number of bindings.

    python benchmarks/compile_time.py [N ...]
    python benchmarks/compile_time.py kernels

For each N, a function of N bindings over a symbolic dimension is parsed (which normalises it and derives its struct
info), printed, and built. Prints seconds (the median of three), and microseconds per binding: a flat
column means linear growth. The last lines give the time to import the package.

`kernels` builds a program of 90 different kernels: with an empty cache, by one process and by one per processor; after
an edit of one kernel; with all kernels in the cache; and with the whole program there.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise

from rich.console import Console
from rich.table import Table

import relax
from relax.codegen import statistics as codegen_statistics
from relax.farm import cache

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


PROGRAM_KEPT = "the program in the cache"
LAYERS = 15
WIDTH = 64


def kernels(layers: int, first: str = "tanh") -> str:
    """TVMScript of a network with six kernels in each layer, none like another: every layer has a width of its own."""
    lines = ["from relax.script import relax as R", "", "@R.function"]
    widths = [WIDTH + 8 * i for i in range(layers + 1)]
    params = [f'x: R.Tensor(("n", {WIDTH}), "float32")']
    params += [f'w{i}: R.Tensor(({a}, {b}), "float32")' for i, (a, b) in enumerate(pairwise(widths))]
    params += [f'b{i}: R.Tensor(({b},), "float32")' for i, b in enumerate(widths[1:])]
    lines += [f"def main({', '.join(params)}):", "    with R.dataflow():", "        h0 = x"]
    for i in range(layers):
        lines += [
            f"        m{i} = R.matmul(h{i}, w{i})",
            f"        a{i} = R.add(m{i}, b{i})",
            f"        s{i} = R.nn.softmax(a{i}, axis=-1)",
            f"        t{i} = R.{first if i == 0 else 'tanh'}(s{i})",
            f'        u{i} = R.multiply(t{i}, R.const(0.5, "float32"))',
            f"        h{i + 1} = R.nn.relu(u{i})",
        ]
    return "\n".join([*lines, f"        R.output(h{layers})", f"    return h{layers}", ""])


def kernel_times() -> None:
    """Print the times to build a program of 90 kernels."""
    mod = relax.IRModule.from_expr(relax.script.from_source(kernels(LAYERS)))
    edited = relax.IRModule.from_expr(relax.script.from_source(kernels(LAYERS, first="exp")))
    table = Table("build", "seconds", "kernels compiled")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RELAX_CACHE_DIR"] = folder
        for name, module, jobs, cold in (
            ("cold, one process", mod, "1", True),
            ("cold, all processors", mod, "", True),
            ("one kernel edited", edited, "", False),
            ("all kernels in the cache", edited, "", False),
            (PROGRAM_KEPT, edited, "", False),
        ):
            if name == PROGRAM_KEPT:
                del os.environ["RELAX_CACHE_PROGRAMS"]
                relax.build(module, "llvm")  # which keeps it
            os.environ["RELAX_JOBS"] = jobs
            if cold:
                cache.clear()
            before = codegen_statistics.llvm_runs
            took = seconds(lambda module=module: relax.build(module, "llvm"), runs=1)
            table.add_row(name, f"{took:.2f}", str(codegen_statistics.llvm_runs - before))
    Console().print(table)


def main() -> None:
    """Print the curve, or the times to build kernels."""
    os.environ["RELAX_CACHE_PROGRAMS"] = "0"  # builds are measured, not how a finished program is loaded
    if sys.argv[1:] == ["kernels"]:
        kernel_times()
        return
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
