"""What is said to choose how a program is compiled does; and whatever is chosen, the program means the same."""

from __future__ import annotations

import numpy as np
import pytest
from pitfall_helpers import parse

import relax
from relax.analysis import assert_well_formed
from relax.expr import Call, Function
from relax.ir import assert_structural_equal, walk
from relax.ir.transform import PassContext, TimingInstrument, VerifyInstrument
from relax.optimize.pipeline import DEFAULT

PROGRAM = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def flat(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("n * m",), "float32")):
        n = T.int64()
        m = T.int64()
        for i in range(n):
            for j in range(m):
                B[i * m + j] = A[i, j]

    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(("n * m",), "float32"):
        cls = Module
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            unused = R.exp(x)
            a = R.add(x, R.add(R.const(1.0, "float32"), R.const(2.0, "float32")))
            b = R.add(x, R.const(3.0, "float32"))
            same = a
            f = R.call_tir(cls.flat, (same,), R.Tensor((n * m,), "float32"))
            g = R.call_tir(cls.flat, (b,), R.Tensor((n * m,), "float32"))
            h = R.multiply(f, g)
            R.output(h)

        @R.function
        def local(y: R.Tensor((n * m,), "float32")) -> R.Tensor((n * m,), "float32"):
            with R.dataflow():
                t = (y, h)
                z = R.add(t[0], t[1])
                R.output(z)
            return z

        if c:
            with R.dataflow():
                lost = R.negative(h)
                k = R.negative(h)
                R.output(k)
            r = local(k)
        else:
            r = h
        return r
"""


def calls(mod):
    """How many calls the Relax functions of a module make."""
    found = []
    for func in mod.functions.values():
        if isinstance(func, Function):
            walk(func, lambda item: found.append(item) if isinstance(item, Call) else None)
    return len(found)


def results(executable):
    vm = relax.VirtualMachine(executable)
    for n, m in ((0, 2), (1, 1), (2, 3)):
        x = np.linspace(-1, 1, n * m, dtype="float32").reshape(n, m)
        for c in (True, False):
            yield x, c, vm["main"](x, np.array(c)).numpy()


def check(executable):
    for x, c, found in results(executable):
        h = ((x + np.float32(3)) * (x + np.float32(3))).reshape(-1)
        np.testing.assert_array_equal(found, -h + h if c else h)


def test_an_optimisation_level_does_something():
    mod, sizes, ran = parse(PROGRAM), [], []
    for level in range(4):
        timing = TimingInstrument()
        with PassContext(opt_level=level, instruments=[VerifyInstrument(assert_well_formed), timing]):
            sizes.append(calls(relax.get_pipeline("default")(mod)))
            check(relax.build(mod, "llvm"))
        ran.append({name for name, _, _ in timing.times})
    assert sizes[0] > sizes[1] == sizes[2] == sizes[3]
    skipped = {
        "CanonicalizeBindings", "FoldConstant", "EliminateCommonSubexpr", "DeadCodeElimination",
        "RewriteDataflowReshape", "DataflowUseInplaceCalls", "FakeQuantizationToInteger", "ConvTransposeToConv",
        "OneHotMatmulToTake", "FuseTransposeMatmul", "DivisionToMultiplication", "DequantizeInProducts", "SumsOfBytes",
        "ArithmeticToDequantize",
    }  # fmt: skip
    assert ran[1] - ran[0] == skipped


def test_each_step_that_may_be_left_out_is_left_out():
    mod = parse(PROGRAM)
    for step in DEFAULT:
        info = step.make().info
        if info.opt_level:
            timing = TimingInstrument()
            with PassContext(disabled_pass=[info.name], instruments=[VerifyInstrument(assert_well_formed), timing]):
                check(relax.build(mod, "llvm"))
            assert info.name not in {name for name, _, _ in timing.times}


def test_a_pass_can_be_required_at_level_zero():
    mod = parse(PROGRAM)
    kept, dropped = ({"exp"}, set()), (set(), {"exp"})
    for required, (there, missing) in (((), kept), (["DeadCodeElimination"], dropped)):
        with PassContext(opt_level=0, required_pass=required):
            names = {g.name_hint for g in relax.get_pipeline("default")(mod).functions}
        assert there <= names
        assert not missing & names


def test_the_default_pipelines_are_one():
    """By whatever name it goes, and whoever runs it."""
    mod = parse(PROGRAM)
    lowered = relax.get_pipeline()(mod)
    for other in (
        relax.get_pipeline("default"),
        relax.get_pipeline("default_build"),
        relax.transform.Sequential([step.make() for step in DEFAULT]),
    ):
        assert_structural_equal(other(mod), lowered)
    ways = [
        relax.build(mod, "llvm"),
        relax.build(mod, "llvm", pipeline="default"),
        relax.build(mod, "llvm", pipeline=relax.get_pipeline("default_build")),
        relax.build(lowered, "llvm", pipeline=None),
        relax.vm.build(mod, "llvm"),
    ]
    assert len({executable.as_text() for executable in ways}) == 1
    for executable in (*ways, relax.build(relax.get_pipeline("zero")(mod), "llvm"), relax.build(lowered, "llvm")):
        check(executable)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_levels_of_the_target(level):
    check(relax.build(parse(PROGRAM), {"kind": "llvm", "opt-level": level}))
