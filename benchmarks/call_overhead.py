"""The time around the kernels of a call, in both execution modes.

    python benchmarks/call_overhead.py [--number N] [--repeat N]

Programs: a function that returns its argument, a chain of 16 calls, three small products, which take memory of their
own, and an MLP 784-128-10 at batch 1, the last with the time of its kernels alone. Ways to call: NumPy arrays, relax.nd
arrays, and tvm-ffi's C ABI. Numbers are microseconds of processor time, the least of several runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm_ffi
from rich.console import Console
from rich.table import Table

import relax

HEAD = "from relax.script import ir as I, relax as R\n\n@I.ir_module\nclass Program:\n"
EMPTY = """    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        return x
"""
MLP = """    @R.function
    def main(
        x: R.Tensor(("n", 784), "float32"),
        w: R.Tensor((784, 128), "float32"), b: R.Tensor((128,), "float32"),
        v: R.Tensor((128, 10), "float32"), c: R.Tensor((10,), "float32"),
    ) -> R.Tensor(("n", 10), "float32"):
        with R.dataflow():
            h = R.nn.relu(R.add(R.matmul(x, w), b))
            y = R.add(R.matmul(h, v), c)
            R.output(y)
        return y
"""
PRODUCTS = """    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32")) -> R.Tensor(("n", 8), "float32"):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.matmul(a, w)
            y = R.matmul(b, w)
            R.output(y)
        return y
"""
MLP_SHAPES = ((1, 784), (784, 128), (128,), (128, 10), (10,))


def chain(length: int) -> str:
    """Functions that call one another."""
    lines: list[str] = []
    for i in range(length + 1):
        name, value = ("main" if i == 0 else f"f{i}"), ("x" if i == length else f"cls.f{i + 1}(x)")
        lines += [
            "    @R.function",
            f'    def {name}(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):',
            f"        return {value}",
        ]
    return "\n".join(lines) + "\n"


def microseconds(call: Callable[[], Any], number: int, repeat: int) -> float:
    """The processor time of a call."""
    times: list[float] = []
    for _ in range(repeat):
        start = time.process_time_ns()
        for _ in range(number):
            call()
        times.append((time.process_time_ns() - start) / number / 1000)
    return min(times)


def kernels(executable: relax.Executable, arguments: list[tvm_ffi.Tensor]) -> Callable[[], None]:
    """The two fused kernels of the MLP, one after the other."""
    library = executable.library()
    assert library is not None
    first, second = (library.get_function(name) for name in ("fused_matmul_add_relu", "fused_matmul1_add1"))
    h, y = (relax.nd.empty((1, size), "float32").tensor for size in (128, 10))

    def run() -> None:
        first(*arguments[:3], h)
        second(h, *arguments[3:], y)

    return run


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="The time around the kernels of a call.")
    parser.add_argument("--number", type=int, default=500, help="calls in a run (500)")
    parser.add_argument("--repeat", type=int, default=9, help="runs (9)")
    options = parser.parse_args()
    table = Table("program", "mode", "NumPy", "relax.nd", "C ABI", title="microseconds a call")
    programs = {
        "empty": (EMPTY, ((4,),)), "16 calls": (chain(16), ((4,),)),
        "3 products": (PRODUCTS, ((1, 8), (8, 8))), "MLP": (MLP, MLP_SHAPES),
    }  # fmt: skip
    alone = 0.0
    for name, (text, shapes) in programs.items():
        mod = relax.script.from_source(HEAD + text)
        arrays = [np.ones(shape, "float32") for shape in shapes]
        held, raw = [relax.nd.array(a) for a in arrays], [tvm_ffi.from_dlpack(a) for a in arrays]
        for mode in ("bytecode", "compiled"):
            executable = relax.build(mod, "llvm -num-cores=1", exec_mode=mode)
            vm = relax.VirtualMachine(executable, relax.cpu())
            ways: list[tuple[Callable[..., Any], list[Any]]] = [
                (vm["main"], arrays), (vm["main"], held), (vm.get_function("main"), raw),
            ]  # fmt: skip
            times = [microseconds(lambda: f(*args), options.number, options.repeat) for f, args in ways]  # noqa: B023
            table.add_row(name, mode, *(f"{t:.2f}" for t in times))
            if name == "MLP":
                alone = microseconds(kernels(executable, raw), options.number, options.repeat)
    console = Console()
    console.print(table)
    console.print(f"the two kernels of the MLP, called from Python: {alone:.2f}")


if __name__ == "__main__":
    main()
