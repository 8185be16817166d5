"""How the time to parse, print, build and load a program grows with its size, up to ten thousand of a thing.

    python benchmarks/growth.py [--quick] [--sizes N,N,...] [KIND ...]

Kinds: functions (each calls the one before it), kernels (PrimFuncs, and a function that calls all), operands (of one
concat), computed (operands of one concat, each of which is computed), loops (in one PrimFunc), match_casts and bindings
(in one function). The output is seconds for each kind and size, and the exponent of the last doubling: 1 is linear, 2
quadratic. `--quick` takes small sizes. Seconds are of processor time, of this process and of those that compile for it.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Callable
from typing import TypeVar

from rich.console import Console
from rich.table import Table

import relax

T = TypeVar("T")

SIZES = (625, 1250, 2500, 5000, 10_000)
QUICK = (25, 50, 100)
TENSOR = 'R.Tensor(("n", 4), "float32")'
VECTOR = 'R.Tensor((8,), "float32")'
BUFFERS = 'A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")'
OPERATORS = ("R.add(a{i}, x)", "R.multiply(a{i}, a{i})", "R.exp(a{i})", "R.nn.relu(a{i})")


def _module(lines: list[str]) -> str:
    head = ["from relax.script import ir as I, relax as R, tir as T", "", "@I.ir_module", "class Module:"]
    return "\n".join([*head, *(f"    {line}" for line in lines), ""])


def functions(n: int) -> str:
    """A module of n functions, each of which calls the one before it."""
    lines: list[str] = []
    for i in range(n):
        result = f"Module.f{i - 1}(R.exp(x))" if i else "R.exp(x)"
        lines += ["@R.function", f"def f{i}(x: {TENSOR}) -> {TENSOR}:", f"    return {result}", ""]
    return _module(lines)


def kernels(n: int) -> str:
    """A module of n different PrimFuncs, called one after the other."""
    lines: list[str] = []
    for i in range(n):
        lines += ["@T.prim_func", f"def k{i}({BUFFERS}):", "    for i in range(8):"]
        lines += [f"        B[i] = A[i] + T.float32({i})", ""]
    lines += ["@R.function", f"def main(a0: {VECTOR}) -> {VECTOR}:", "    cls = Module"]
    lines += [f"    a{i + 1} = R.call_tir(cls.k{i}, (a{i},), out_sinfo={VECTOR})" for i in range(n)]
    return _module([*lines, f"    return a{n}"])


def operands(n: int) -> str:
    """A concat of n tensors."""
    params = ", ".join(f'x{i}: R.Tensor((2,), "float32")' for i in range(n))
    names = ", ".join(f"x{i}" for i in range(n))
    return _module(["@R.function", f"def main({params}):", f"    return R.concat([{names}], axis=0)"])


def computed(n: int) -> str:
    """A concat of n tensors, each of which is computed."""
    params = ", ".join(f'x{i}: R.Tensor((2,), "float32")' for i in range(n))
    lines = ["@R.function", f"def main({params}):", "    with R.dataflow():"]
    lines += [f"        y{i} = R.exp(x{i})" for i in range(n)]
    lines.append(f"        z = R.concat([{', '.join(f'y{i}' for i in range(n))}], axis=0)")
    return _module([*lines, "        R.output(z)", "    return z"])


def loops(n: int) -> str:
    """A PrimFunc of n loops in a row."""
    lines = ["@T.prim_func", f"def k({BUFFERS}):"]
    for i in range(n):
        lines += [f"    for i{i} in range(8):", f"        B[i{i}] = A[i{i}] + T.float32({i})"]
    lines += ["", "@R.function", f"def main(x: {VECTOR}) -> {VECTOR}:"]
    return _module([*lines, f"    return R.call_tir(Module.k, (x,), out_sinfo={VECTOR})"])


def match_casts(n: int) -> str:
    """A function of n match_casts, each of which binds a size of its own."""
    lines = ["@R.function", 'def main(a0: R.Tensor(ndim=1, dtype="float32")):']
    lines += [f"    n{i} = T.int64()" for i in range(n)]
    lines += [f'    a{i + 1} = R.match_cast(a{i}, R.Tensor((n{i},), "float32"))' for i in range(n)]
    return _module([*lines, f"    return a{n}"])


def bindings(n: int) -> str:
    """A function of n bindings in one dataflow block."""
    lines = ["@R.function", f"def main(x: {TENSOR}) -> {TENSOR}:", "    with R.dataflow():"]
    lines.append("        a0 = R.nn.relu(x)")
    lines += [f"        a{i + 1} = {OPERATORS[i % len(OPERATORS)].format(i=i)}" for i in range(n - 1)]
    return _module([*lines, f"        R.output(a{n - 1})", f"    return a{n - 1}"])


KINDS: dict[str, Callable[[int], str]] = {
    make.__name__: make for make in (functions, kernels, operands, computed, loops, match_casts, bindings)
}


def timed(action: Callable[[], T]) -> tuple[T, float]:
    """A result, and the seconds of processor time it took, in this process and in those that it started and ended."""
    start = _processor_time()
    result = action()
    return result, _processor_time() - start


def _processor_time() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def curve(text: str) -> list[float]:
    """Seconds to parse a program, to print it, to build it with an empty cache, and to load it."""
    mod, parsed = timed(lambda: relax.script.from_source(text))
    _, printed = timed(mod.script)
    executable, built = timed(lambda: relax.build(mod, "llvm"))
    _, loaded = timed(lambda: relax.VirtualMachine(executable, relax.cpu()))
    return [parsed, printed, built, loaded]


def main() -> None:
    """Print the curves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], default=[], metavar="KIND")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--sizes", type=lambda text: tuple(map(int, text.split(","))), default=SIZES)
    options = parser.parse_args()
    sizes: tuple[int, ...] = QUICK if options.quick else options.sizes
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RELAX_CACHE_DIR"] = folder
        os.environ["RELAX_CACHE_PROGRAMS"] = "0"
        curve(bindings(4))  # what is imported and compiled once is not part of any curve
        for kind in options.kinds or KINDS:
            table = Table(kind, "parse", "print", "build", "load")
            rows = [curve(KINDS[kind](n)) for n in sizes]
            for n, row in zip(sizes, rows, strict=True):
                table.add_row(str(n), *(f"{seconds:.2f} s" for seconds in row))
            if len(rows) > 1:
                steps = math.log2(sizes[-1] / sizes[-2])
                pairs = zip(rows[-2], rows[-1], strict=True)
                powers = [math.log2(max(b, 1e-9) / max(a, 1e-9)) / steps for a, b in pairs]
                table.add_row("exponent", *(f"{power:.2f}" for power in powers))
            console.print(table)


if __name__ == "__main__":
    main()
