"""Garbage collection during a build: less often, and afterwards as the program had it."""

import gc

import pytest

import relax
from relax.ir import DiagnosticError, IRModule
from relax.optimize.pipeline import get_pipeline
from relax.script import ir as I
from relax.script import relax as R


@I.ir_module
class Double:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        y = R.add(x, x)
        return y


@pytest.fixture
def thresholds():
    """The collector's thresholds, which the test may change."""
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


def build_and_look(module: IRModule = Double) -> tuple[int, ...]:
    """The thresholds while a module is built."""
    seen: list[tuple[int, ...]] = []

    def pipeline(mod: IRModule) -> IRModule:
        seen.append(gc.get_threshold())
        return get_pipeline("default")(mod)

    relax.build(module, "llvm", pipeline=pipeline)
    return seen[0]


@pytest.mark.parametrize(("chosen", "inside"), [
    ((700, 10, 10), (300_000, 10, 10)),
    ((100, 3, 4), (300_000, 3, 4)),
    ((0, 10, 10), (0, 10, 10)),  # switched off
    ((400_000, 10, 10), (400_000, 10, 10)),
])  # fmt: skip
def test_a_build_collects_less_often(thresholds, chosen, inside):
    gc.set_threshold(*chosen)
    chosen = gc.get_threshold()  # some versions of Python keep two of the three
    assert build_and_look()[:2] == inside[:2]
    assert gc.get_threshold() == chosen


def test_builds_inside_builds_and_failed_ones_restore_it(thresholds):
    gc.set_threshold(700, 10, 10)
    chosen = gc.get_threshold()

    def pipeline(mod: IRModule) -> IRModule:
        relax.build(Double, "llvm")
        assert gc.get_threshold()[0] == 300_000
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        relax.build(Double, "llvm", pipeline=pipeline)
    assert gc.get_threshold() == chosen
    with pytest.raises(DiagnosticError):
        relax.build(IRModule(), "llvm")
    assert gc.get_threshold() == chosen


def test_what_the_program_sets_meanwhile_stays(thresholds):
    gc.set_threshold(700, 10, 10)

    def pipeline(mod: IRModule) -> IRModule:
        gc.set_threshold(1234, 10, 10)
        return get_pipeline("default")(mod)

    relax.build(Double, "llvm", pipeline=pipeline)
    assert gc.get_threshold()[0] == 1234
