"""One program on three levels: loops (TIR), packed functions in both calling conventions, and a dataflow graph.

The program of the Relax RFC. `matmul` is a loop nest over symbolic sizes; `custom_print` and `custom_add` are
Python functions called for their value; `custom_tile` is one that writes into an output allocated by its caller
(destination-passing style). Everything is compiled once and run for several sizes.

    make demo          (or: python examples/cross_level.py)
"""

from __future__ import annotations

import sys

import numpy as np
from rich.console import Console
from rich.table import Table

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T

SIZES = ((2, 3, 4), (1, 1, 1), (5, 0, 2), (0, 4, 3), (64, 32, 48))


@relax.register_func("cross_level.print", override=True)
def custom_print(tensor: relax.nd.NDArray) -> None:
    """A packed function called for its effect."""
    print(f"    packed function saw a {'x'.join(map(str, tensor.shape))} {tensor.dtype} tensor")


@relax.register_func("cross_level.add", override=True)
def custom_add(a: relax.nd.NDArray, b: relax.nd.NDArray) -> relax.nd.NDArray:
    """A packed function that returns a new tensor."""
    return relax.nd.array(a.numpy() + b.numpy())


@relax.register_func("cross_level.tile", override=True)
def custom_tile(a: relax.nd.NDArray, out: relax.nd.NDArray) -> None:
    """A packed function in destination-passing style."""
    out.copyfrom(np.tile(a.numpy(), (1, 2)))


@I.ir_module
class CrossLevel:
    @T.prim_func
    def matmul(x: T.handle, y: T.handle, z: T.handle):
        m = T.int64()
        n = T.int64()
        k = T.int64()
        A = T.match_buffer(x, (m, n), "float32")
        B = T.match_buffer(y, (n, k), "float32")
        C = T.match_buffer(z, (m, k), "float32")
        for i0, j0, k0 in T.grid(m, k, n):
            with T.block("matmul"):
                i, j, r = T.axis.remap("SSR", [i0, j0, k0])
                with T.init():
                    C[i, j] = T.float32(0)
                C[i, j] += A[i, r] * B[r, j]

    @R.function(pure=False)
    def main(x: R.Tensor(("m", "n"), "float32"), y: R.Tensor(("n", "k"), "float32")) -> R.Tensor(
        ("m", "k * 2"), "float32"
    ):
        m, n, k = T.int64(), T.int64(), T.int64()
        cls = CrossLevel
        with R.dataflow():
            lv0 = R.call_tir(cls.matmul, (x, y), R.Tensor((m, k), "float32"))
            gv0 = R.nn.relu(lv0)
            R.output(gv0)
        R.call_packed("cross_level.print", gv0, sinfo_args=R.Tuple())
        gv1 = R.call_packed("cross_level.add", gv0, gv0, sinfo_args=R.Tensor((m, k), "float32"))
        gv2 = R.call_dps_packed("cross_level.tile", (gv1,), R.Tensor((m, k * 2), "float32"))
        return gv2


def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The same in NumPy."""
    return np.tile(2 * np.maximum(x @ y, 0), (1, 2))


def main() -> int:
    """Print the program and its bytecode, run every size, compare with NumPy; 0 when everything agreed."""
    console = Console()
    CrossLevel.show()
    executable = relax.build(CrossLevel, target="llvm")
    console.rule("bytecode")
    print(executable.as_text())
    console.rule("runs")
    run = relax.VirtualMachine(executable, relax.cpu())["main"]
    rng = np.random.default_rng(0)
    table = Table("m, n, k", "result", "largest difference from NumPy", title="one build, every size")
    agreed = True
    for m, n, k in SIZES:
        x = rng.standard_normal((m, n), dtype=np.float32)
        y = rng.standard_normal((n, k), dtype=np.float32)
        result = run(x, y).numpy()
        difference = np.abs(result - reference(x, y)).max(initial=0.0)
        agreed &= result.shape == (m, 2 * k) and bool(difference < 1e-3)
        table.add_row(f"{m}, {n}, {k}", "x".join(map(str, result.shape)), f"{difference:.1e}")
    console.print(table)
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
