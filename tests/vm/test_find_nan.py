"""find_nan and VirtualMachine(check_numerics=...): the first call that gives NaN or an infinity."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import relax
from relax.runtime import NumericsError
from relax.script import from_source
from support import PLAIN_LOOPS

HEAD = "from relax.script import ir as I, relax as R\n"
LOG = """
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    with R.dataflow():
        y = R.subtract(x, R.const(1.0, "float32"))
        z = R.log(y)
        w = R.exp(z)
        R.output(w)
    return w
"""


def parse(text):
    return relax.IRModule.from_expr(from_source(HEAD + text, name="model.py"))


def test_the_binding_is_named():
    report = relax.find_nan(parse(LOG), np.array([[2, 2, 0.5, 0]], "float32"))
    assert (report.variable, report.call, report.location) == ("z", "log", "model.py:7:13")
    assert (
        str(report)
        == """\
model.py:7:13: z = log gives nan at [0, 2] of its result, float32 (1, 4)
  operands: y: float32 (1, 4) from -1 to 1"""
    )


@pytest.mark.parametrize("n", [0, 1, 3])
def test_nothing_is_wrong(n):
    assert relax.find_nan(parse(LOG), np.full((n, 4), 2, "float32"), infinities=True) is None


def test_infinities_count_if_asked_for():
    x = np.ones((1, 4), "float32")
    assert relax.find_nan(parse(LOG), x) is None
    report = relax.find_nan(parse(LOG), x, infinities=True)
    assert report.message.startswith("log gives -inf at [0, 0] of its result")


def test_what_comes_in_is_no_reason_but_what_is_made_of_it_is():
    report = relax.find_nan(parse(LOG), np.array([[np.nan, 1, 2, 3]], "float32"))
    assert (report.variable, report.call) == ("y", "subtract")
    assert "operands: x: float32 (1, 4) from 1 to 3, 1 nan; float32 () from 1 to 1" in report.message


def test_a_mask_of_infinities_is_no_reason():
    mod = parse("""
@R.function
def main(x: R.Tensor((2,), "float32"), keep: R.Tensor((2,), "bool")):
    masked = R.where(keep, x, R.const(float("-inf"), "float32"))
    y = R.nn.softmax(masked)
    return y
""")
    x, keep = np.zeros(2, "float32"), np.array([True, False])
    assert relax.find_nan(mod, x, keep) is None
    assert relax.find_nan(mod, x, np.array([False, False])).variable == "y"


def test_narrow_floats_and_functions_called():
    mod = from_source(
        HEAD
        + """
@I.ir_module
class M:
    @R.function(private=True)
    def root(x: R.Tensor((2,), "bfloat16")) -> R.Tensor((2,), "bfloat16"):
        r = R.sqrt(x)
        return r

    @R.function
    def main(x: R.Tensor((2,), "bfloat16"), b: R.Tensor((), "bool")) -> R.Tensor((2,), "bfloat16"):
        if b:
            y = M.root(x)
        else:
            y = x
        return y
""",
        name="model.py",
    )
    x = np.array([4, -4], ml_dtypes.bfloat16)
    assert relax.find_nan(mod, x, np.array(True)).variable == "r"
    assert relax.find_nan(mod, x, np.array(False)) is None


def test_a_tuple_and_variables_of_a_builder():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with bb.function("main", [x]):
        for step in ("first", "second"):
            y = bb.emit(relax.op.log(x), step)  # one line, two variables
            x = bb.emit(relax.op.subtract(y, relax.const(3.0, "float32")), f"{step}_moved")
        parts = bb.emit(relax.op.split(x, 2), "parts")
        bb.emit_func_output(parts)
    mod = bb.get()
    report = relax.find_nan(mod, np.full(4, 2, "float32"))
    assert (report.variable, report.call) == ("second", "log")
    assert "operands: first_moved: float32 (4)" in report.message
    many = relax.find_nan(mod, np.full(4, np.nan, "float32"))
    assert many.variable == "first"
    rows = relax.VirtualMachine(relax.build(mod, pipeline="unfused"), profile=True).profile(
        "main", np.ones(4, "float32")
    )
    assert [row.variable for row in rows.rows if row.name.startswith("split")] == ["parts"]


def test_other_errors_are_raised():
    with pytest.raises(TypeError, match="x"):
        relax.find_nan(parse(LOG), np.ones((1, 4), "int32"))
    with pytest.raises(AttributeError, match="the entry points are: main"):
        relax.find_nan(parse(LOG), func_name="other")


@pytest.mark.parametrize("kinds", [True, "all", "nan"])
def test_the_machine_checks_every_run(kinds):
    machine = relax.VirtualMachine(relax.build(parse(LOG), pipeline="unfused"), relax.cpu(), check_numerics=kinds)
    for _ in range(2):
        with pytest.raises(NumericsError, match="main: z = log gives nan at") as caught:
            machine["main"](np.zeros((1, 4), "float32"))
        assert caught.value.location == "model.py:7:13"
        assert (caught.value.index, caught.value.call, caught.value.variable) == ((0, 0), "log", "z")
        machine["main"](np.full((1, 4), 2, "float32"))


def test_the_machine_refuses_other_words():
    with pytest.raises(ValueError, match='check_numerics must be True, False, "nan" or "all", found \'inf\''):
        relax.VirtualMachine(relax.build(parse(LOG), PLAIN_LOOPS), check_numerics="inf")


CONVOLUTION = """
@R.function
def main(x: R.Tensor(("n", 16, 28, 28), "float32"), k: R.Tensor((16, 16, 3, 3), "float32")):
    with R.dataflow():
        y = R.nn.conv2d(x, k, padding=1)
        z = R.subtract(y, y)
        R.output(z)
    return z
"""


@pytest.mark.parametrize("constants", [False, True])
def test_a_convolution_spreads_an_infinity_no_further_than_its_window(constants):
    """Winograd's tiles are not blamed: infinities in the window are no NaN, those of the next operator are."""
    x, k = np.ones((1, 16, 28, 28), "float32"), np.ones((16, 16, 3, 3), "float32")
    x[0, 3, 10, 20] = np.inf
    mod = parse(CONVOLUTION)
    if constants:
        mod, args = relax.transform.BindParams("main", {"k": k})(mod), (x,)
    else:
        args = x, k
    report = relax.find_nan(mod, *args)
    assert (report.variable, report.call) == ("z", "subtract")
    assert "subtract gives nan at [0, 0, 9, 19] of its result" in report.message
    x[0, 3, 10, 20] = 1
    assert relax.find_nan(mod, *args, infinities=True) is None
