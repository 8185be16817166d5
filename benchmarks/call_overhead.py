"""The time around the kernels of a call, in both execution modes.

    python benchmarks/call_overhead.py [--number N] [--repeat N]

Programs: a function that returns its argument, a chain of 16 calls, three small products, which take memory of their
own, an MLP 784-128-10 at batch 1, and a sum of tensors whose rank is known or not. Ways to call: NumPy arrays, relax.nd
arrays, tvm-ffi's C ABI, and that with memory for the result. The kernels take as long as a program that calls them more
often takes longer; the last column is what a call takes beyond them. Numbers are microseconds of processor time, the
least of several runs, taken in turns.
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
from relax.tir import PrimFunc

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
ADD = """    @R.function
    def main(a: {info}, b: {info}):
        with R.dataflow():
            y = R.add(a, b)
            R.output(y)
        return y
"""
MLP_SHAPES = ((1, 784), (784, 128), (128,), (128, 10), (10,))
AGAIN = 8
"""The times that kernels are called once more, to measure them."""


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


def microseconds(calls: list[Callable[[], Any]], number: int, repeat: int) -> list[float]:
    """The processor time of a call of each function."""
    times = [float("inf")] * len(calls)
    for _ in range(repeat):
        for i, call in enumerate(calls):
            start = time.thread_time_ns()
            for _ in range(number):
                call()
            times[i] = min(times[i], (time.thread_time_ns() - start) / number / 1000)
    return times


def with_kernels_again(mod: relax.IRModule, times: int) -> relax.IRModule:
    """A lowered module whose `main` calls all its kernels `times` more times, one after the other."""
    main = mod["main"]
    assert isinstance(main, relax.Function)
    assert isinstance(main.body, relax.SeqExpr)
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    kernels = {global_var for global_var, function in mod.functions.items() if isinstance(function, PrimFunc)}
    calls = [
        i for i, binding in enumerate(bindings)
        if isinstance(binding.value, relax.Call) and binding.value.op in kernels
    ]  # fmt: skip
    if not calls:
        return mod
    again = [
        relax.VarBinding(relax.Var("_", value.struct_info), value)
        for _ in range(times) for value in (bindings[i].value for i in calls)
    ]  # fmt: skip
    bindings[calls[-1] + 1 : calls[-1] + 1] = again
    body = relax.SeqExpr([relax.BindingBlock(bindings)], main.body.body)
    return mod.with_functions({**mod.functions, mod.get_global_var("main"): main.replace(body=body)})


def measured(mod: relax.IRModule, shapes: Any, mode: str, number: int, repeat: int) -> list[float]:
    """The times of a program by all ways to call it, then of its kernels."""
    target = "llvm -num-cores=1"
    executable = relax.build(mod, target, exec_mode=mode)
    vm = relax.VirtualMachine(executable, relax.cpu())
    lowered = with_kernels_again(relax.get_pipeline("default")(mod), AGAIN)
    more = relax.VirtualMachine(relax.build(lowered, target, pipeline=None, exec_mode=mode), relax.cpu())
    arrays = [np.ones(shape, "float32") for shape in shapes]
    held, raw = [relax.nd.array(a) for a in arrays], [tvm_ffi.from_dlpack(a) for a in arrays]
    main, by_address, longer = vm["main"], vm.get_function("main"), more.get_function("main")
    memory = tvm_ffi.from_dlpack(np.zeros(tuple(by_address(*raw).shape), "float32"))
    is_known = isinstance(mod["main"].ret_struct_info, relax.TensorStructInfo) and mod["main"].ret_struct_info.ndim >= 0
    given = [memory] if mode == "compiled" and is_known else []
    calls = [
        lambda: main(*arrays), lambda: main(*held), lambda: by_address(*raw), lambda: by_address(*raw, *given),
        lambda: longer(*raw),
    ]  # fmt: skip
    *times, long = microseconds(calls, number, repeat)
    return [*times, (long - times[2]) / AGAIN]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="The time around the kernels of a call.")
    parser.add_argument("--number", type=int, default=500, help="calls in a run (500)")
    parser.add_argument("--repeat", type=int, default=9, help="runs (9)")
    options = parser.parse_args()
    columns = ("program", "mode", "NumPy", "relax.nd", "C ABI", "memory", "kernels", "beyond")
    table = Table(*columns, title="microseconds a call")
    programs = {
        "empty": (EMPTY, ((4,),)), "16 calls": (chain(16), ((4,),)),
        "3 products": (PRODUCTS, ((1, 8), (8, 8))), "MLP": (MLP, MLP_SHAPES),
        "sum": (ADD.format(info='R.Tensor(("n",), "float32")'), ((4,), (4,))),
        "sum, unknown rank": (ADD.format(info="R.Tensor"), ((4,), (4,))),
    }  # fmt: skip
    for name, (text, shapes) in programs.items():
        mod = relax.script.from_source(HEAD + text)
        for mode in ("bytecode", "compiled"):
            times = measured(mod, shapes, mode, options.number, options.repeat)
            table.add_row(name, mode, *(f"{t:.2f}" for t in (*times, times[2] - times[-1])))
    Console().print(table)


if __name__ == "__main__":
    main()
