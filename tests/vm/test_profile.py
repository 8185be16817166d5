"""VirtualMachine.profile: what each row of the report says of a call."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.runtime.debug_info import KernelInfo
from relax.script import from_source

MODEL = from_source(
    """
from relax.script import ir as I, relax as R
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 8), "float32")):
        with R.dataflow():
            h = R.matmul(x, w)
            y = R.nn.relu(h)
            R.output(y)
        return y
""",
    name="model.py",
)


def report_of(executable, *args):
    machine = relax.VirtualMachine(executable, relax.cpu(), profile=True)
    return machine.profile("main", *args)


def rows_of(report):
    return {row.name: row for row in report.rows if not row.name.startswith(("vm.builtin.", "shape_func"))}


def inputs(n):
    return np.ones((n, 4), "float32"), np.ones((4, 8), "float32")


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_row_for_each_binding(n):
    executable = relax.build(MODEL, pipeline="unfused")
    for loaded in (executable, relax.Executable.from_bytes(executable.to_bytes())):
        rows = rows_of(report_of(loaded, *inputs(n)))
        product, rectifier = rows["matmul"], rows["relu"]
        assert (product.variable, product.location) == ("h", "model.py:8:17")
        assert product.shapes == f"({n}, 4) (4, 8) -> ({n}, 8)"
        assert (product.flops, product.nbytes) == (2 * n * 4 * 8, 4 * (n * 4 + 4 * 8 + n * 8))
        assert (rectifier.variable, rectifier.location) == ("y", "model.py:9:17")
        assert (rectifier.shapes, rectifier.calls) == (f"({n}, 8) -> ({n}, 8)", 1)
        assert rectifier.seconds > 0


def test_a_fused_kernel_is_a_row_of_its_last_variable():
    (row,) = rows_of(report_of(relax.build(MODEL), *inputs(2))).values()
    assert (row.variable, row.location) == ("y", "model.py:9:17")
    assert row.flops == 2 * (2 * 4 * 8) + 2 * 8


def test_the_table():
    report = report_of(relax.build(MODEL, pipeline="unfused"), *inputs(2))
    lines = str(report).splitlines()
    assert lines[0].split() == [
        "name",
        "variable",
        "calls",
        "total",
        "us",
        "share",
        "FLOPs",
        "GFLOP/s",
        "bytes",
        "GB/s",
        "shapes",
        "place",
    ]
    (line,) = [line for line in lines if line.startswith("matmul ")]
    assert line.split()[:3] == ["matmul", "h", "1"]
    assert line.endswith(" (2, 4) (4, 8) -> (2, 8) model.py:8:17")
    assert " 128 " in line
    assert 0.99 < sum(report.share(row) for row in report.rows) + _share_of(lines, "(the machine itself)") < 1.01


def _share_of(lines, name):
    (line,) = [line for line in lines if line.startswith(name)]
    return float(line.split()[-1].removesuffix("%")) / 100


def test_calls_at_one_place_are_one_row():
    mod = from_source(
        """
from relax.script import ir as I, relax as R
@I.ir_module
class Loop:
    @R.function
    def main(x: R.Tensor((2,), "float32"), k: R.Prim("int64")) -> R.Tensor((2,), "float32"):
        go = R.greater(k, R.prim_value(0))
        if go:
            y = R.exp(x)
            less = R.subtract(k, R.prim_value(1))
            z = Loop.main(y, less)
        else:
            z = x
        return z
""",
        name="model.py",
    )
    row = rows_of(report_of(relax.build(mod), np.zeros(2, "float32"), 3))["exp"]
    assert (row.variable, row.calls) == ("y", 3)


def test_a_packed_function_is_named_by_its_result():
    relax.register_func("tests.profile.copy", lambda x, out: out.copyfrom(x.numpy()), override=True)
    mod = from_source(
        """
from relax.script import ir as I, relax as R
@I.ir_module
class Packed:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = R.call_dps_packed("tests.profile.copy", (x,), R.Tensor((2,), "float32"))
        return y
"""
    )
    row = rows_of(report_of(relax.build(mod), np.zeros(2, "float32")))["tests.profile.copy"]
    assert (row.variable, row.shapes, row.flops) == ("y", "(2,) -> (2,)", None)


def test_counts_of_a_damaged_file_are_unknown():
    tensor = np.zeros((3, 2))
    assert KernelInfo((), "a0.0 4 * s1 +").flops([tensor, 5]) == 17
    assert KernelInfo((), "7 2 // 7 2 % + 9 min 2 max 1 -").flops([]) == 3
    for operations in ("", "a0.9", "a7.0", "+", "1 2", "1 0 //", "s0", "what", "a"):
        assert KernelInfo((), operations).flops([tensor]) is None
