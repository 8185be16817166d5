"""bisect: each way a pass can be wrong, and what the report says of it."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.optimize import bisect
from relax.script import ir as I
from relax.script import relax as R
from relax.transform import Normalize, Sequential, module_pass
from support import PLAIN_LOOPS


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        with R.dataflow():
            a = R.add(x, y)
            b = R.nn.softmax(a)
            R.output(b)
        return b


def replacing(old, new):
    """A pass that is wrong on purpose."""

    @module_pass(name="Wrong")
    def wrong(mod, ctx):
        return relax.script.from_source(mod.script(show_meta=True).replace(old, new))

    return wrong


def run(mod, name, *args):
    return relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())[name](*args)


X = np.arange(3, dtype="float32")


@pytest.mark.parametrize("size", [0, 1, 4])
def test_a_right_pipeline_agrees(size):
    x = np.arange(size, dtype="float32")
    report = bisect(Model, [x, x], execute=run)
    assert report.agrees
    assert report.guilty is None
    assert [step.name for step in report.steps][-2:] == ["VMShapeLower", "execution"]
    assert all(step.difference is None for step in report.steps)
    assert "LegalizeOps: agrees" in str(report)
    assert str(report).endswith("every step keeps what the program does")


def test_a_pass_that_changes_a_value_is_named_with_the_operator():
    wrong = replacing("R.add(", "R.subtract(")
    report = bisect(Model, [X, X], pipeline=Sequential([Normalize(), wrong, relax.transform.LegalizeOps()]))
    assert not report.agrees
    assert report.guilty == "Wrong"
    assert [step.name for step in report.steps] == ["Normalize", "Wrong"]
    assert report.difference.startswith("result: expected 0.0158")
    (operator,) = report.operators
    assert operator.startswith('relax.add of R.Tensor((3,), dtype="float32"), R.Tensor((3,), dtype="float32"): result')
    text = str(report)
    assert '-            a: R.Tensor((n,), dtype="float32") = R.add(x, y)' in text
    assert '+            a: R.Tensor((n,), dtype="float32") = R.subtract(x, y)' in text
    assert report.before is Model
    assert "subtract" in report.after.script()


def test_a_pass_that_fails_is_named():
    @module_pass(name="Fails")
    def fails(mod, ctx):
        raise KeyError("no such thing")

    report = bisect(Model, [X, X], pipeline=fails)
    assert report.guilty == "Fails"
    assert report.difference == "it raises KeyError: 'no such thing'"
    assert report.after is None
    assert "before Fails:" in str(report)


def test_a_pass_whose_result_is_not_well_formed_is_named():
    @module_pass(name="Breaks")
    def breaks(mod, ctx):
        function = mod["main"]
        return mod.with_function(relax.GlobalVar("main"), function.replace(params=function.params[:1]))

    report = bisect(Model, [X, X], pipeline=breaks)
    assert report.guilty == "Breaks"
    assert report.difference.startswith("its result is not well-formed: ")


def test_effects_are_compared():
    @I.ir_module
    class Effects:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            _ = R.call_packed("test.bisect.seen", x, sinfo_args=R.Tuple())
            _1 = R.print(x, format="x is {}")
            return x

    seen = []
    relax.register_func("test.bisect.seen", lambda x: seen.append(x.numpy().copy()) or (), override=True)
    one = np.ones(1, "float32")
    assert bisect(Effects, [one], execute=run).agrees
    count = len(seen)
    assert count > 2  # the function itself was called, not something in its place

    silent = replacing('R.call_packed("test.bisect.seen", x, sinfo_args=(R.Tuple,))', "R.tuple()")
    report = bisect(Effects, [one], pipeline=silent)
    assert report.difference == "effects: expected 1, found 0"
    report = bisect(Effects, [one], pipeline=replacing("x is", "y is"))
    assert report.difference == r"what is printed: expected 'x is [1.]\n', found 'y is [1.]\n'"
    bisect(Effects, [one])
    assert len(seen) > count  # it is still registered


def test_errors_are_compared():
    @I.ir_module
    class Fails:
        @R.function
        def main(x: R.Tensor(("n",), "int64"), y: R.Tensor(("n",), "int64")) -> R.Tensor(("n",), "int64"):
            z = R.floor_divide(x, y)
            return z

    zero = np.zeros(2, "int64")
    assert bisect(Fails, [zero, zero], execute=run).agrees
    report = bisect(Fails, [zero, zero], pipeline=replacing("R.floor_divide", "R.add"))
    assert report.difference == (
        "expected ZeroDivisionError: main: floor_divide: integer division by zero, found no error"
    )


def test_an_error_in_a_dataflow_block_may_vanish():
    @I.ir_module
    class Fails:
        @R.function
        def main(x: R.Tensor(("n",), "int64"), y: R.Tensor(("n",), "int64")) -> R.Tensor(("n",), "int64"):
            with R.dataflow():
                z = R.floor_divide(x, y)
                w = R.add(x, y)
                R.output(w)
            return w

    zero = np.zeros(2, "int64")
    report = bisect(Fails, [zero, zero])
    assert report.agrees
    assert report.note.startswith("the program fails in a dataflow block, where errors may vanish: ZeroDivision")
    assert report.note in str(report)


def test_execution_is_compared_operator_by_operator():
    def wrong(mod, name, *args):
        return run(relax.script.from_source(mod.script(show_meta=True).replace("R.nn.softmax", "R.exp")), name, *args)

    report = bisect(Model, [X, X], execute=wrong)
    assert report.guilty == "execution"
    assert [operator.split(" of ")[0] for operator in report.operators] == ["relax.nn.softmax"]


def test_what_arguments_hold_afterwards_is_compared():
    @I.ir_module
    class Changes:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")) -> R.Tuple():
            _ = R.call_packed("test.bisect.clear", x, sinfo_args=R.Tuple())
            return ()

    def clear(x):
        x[:] = np.zeros(x.shape, "float32")

    def nothing(x):
        pass

    relax.register_func("test.bisect.clear", clear, override=True)
    relax.register_func("test.bisect.nothing", nothing, override=True)
    mine = np.ones(2, "float32")
    assert bisect(Changes, [mine]).agrees
    assert mine.tolist() == [1, 1]  # each run has copies
    report = bisect(Changes, [relax.nd.array(mine)], execute=lambda mod, name, x: ())
    assert report.difference == "effects: expected 1, found 0"
    clear_copy = lambda mod, name, x: relax.get_global_func("test.bisect.clear")(x.copy()) or ()  # noqa: E731
    report = bisect(Changes, [mine], execute=clear_copy)
    assert report.difference == ("arguments afterwards[0]: expected 0.0 at [0], found 1.0 (2 of 2 elements differ)")
