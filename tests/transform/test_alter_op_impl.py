"""AlterOpImpl: kernels replaced by others, their buffers moved into other layouts and back."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.analysis import assert_well_formed
from relax.ir import DiagnosticError, assert_structural_equal
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import AlterOpImpl, PassContext, VerifyInstrument
from support import PLAIN_LOOPS


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((4, 6), "float32"), y: R.Tensor((4, 6), "float32")):
        cls = Model
        with R.dataflow():
            a = R.call_tir(cls.add, (x, y), R.Tensor((4, 6), "float32"))
            z = R.call_tir(cls.add, (a, y), R.Tensor((4, 6), "float32"))
            R.output(z)
        return z

    @T.prim_func(private=True)
    def add(a: T.Buffer((4, 6), "float32"), b: T.Buffer((4, 6), "float32"), c: T.Buffer((4, 6), "float32")):
        T.func_attr({"operator_name": "lib.add"})
        for i, j in T.grid(4, 6):
            with T.block("add"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = a[vi, vj] + b[vi, vj]


@T.prim_func(private=True)
def add_blocked(a: T.Buffer((2, 6, 2), "float32"), b: T.Buffer((4, 6), "float32"), c: T.Buffer((6, 4), "float32")):
    T.func_attr({"operator_name": "lib.add"})
    for i, j in T.grid(4, 6):
        with T.block("add"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vj, vi] = a[vi // 2, vj, vi % 2] + b[vi, vj]


MAPS = [lambda i, j: (i // 2, j, i % 2), None, lambda i, j: (j, i)]
VALUES = [np.random.default_rng(0).random((4, 6), "float32") for _ in range(2)]
VALUES[0][0, :3] = np.nan, np.inf, -np.inf


def applied(mod, *options):
    """The module after the pass, which keeps its promises and results, and changes nothing the second time."""
    step = AlterOpImpl(*options)
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        after = step(mod)
        assert step(after) is after
    return after


def test_buffers_are_moved_and_results_moved_back():
    after = applied(Model, {"lib.add": add_blocked}, {"lib.add": MAPS})
    text = after.script()
    assert text.count("R.layout_transform") == 4
    assert [g.name_hint for g in after.functions] == ["main", "add1"]
    expected = relax.interpret(Model, "main", *VALUES).numpy()
    np.testing.assert_array_equal(relax.interpret(after, "main", *VALUES).numpy(), expected)
    main = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS))["main"]
    np.testing.assert_array_equal(main(*VALUES).numpy(), expected)


def test_a_kernel_of_the_same_layouts():
    @T.prim_func(private=True)
    def reversed_sum(a: T.Buffer((4, 6), "float32"), b: T.Buffer((4, 6), "float32"), c: T.Buffer((4, 6), "float32")):
        for i, j in T.grid(4, 6):
            with T.block("add"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = b[vi, vj] + a[vi, vj]

    after = applied(Model, {"lib.add": reversed_sum})
    assert "layout_transform" not in after.script()
    expected = relax.interpret(Model, "main", *VALUES).numpy()
    np.testing.assert_array_equal(relax.interpret(after, "main", *VALUES).numpy(), expected)


@I.ir_module
class Sizes:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        cls = Sizes
        y = R.call_tir(cls.both, (x,), [R.Tensor((n,), "float32"), R.Tensor((n,), "float32")])
        return y

    @T.prim_func(private=True)
    def both(x: T.handle, y: T.handle, z: T.handle):
        T.func_attr({"operator_name": "lib.both"})
        n = T.int64()
        a = T.match_buffer(x, (n,), "float32")
        b = T.match_buffer(y, (n,), "float32")
        c = T.match_buffer(z, (n,), "float32")
        for i in range(n):
            with T.block("both"):
                vi = T.axis.spatial(n, i)
                b[vi] = a[vi]
                c[vi] = a[vi] * a[vi]


@T.prim_func(private=True)
def columns(x: T.handle, y: T.handle, z: T.handle):
    n = T.int64()
    a = T.match_buffer(x, (n, 1), "float32")
    b = T.match_buffer(y, (n,), "float32")
    c = T.match_buffer(z, (n, 1), "float32")
    for i in range(n):
        with T.block("both"):
            vi = T.axis.spatial(n, i)
            b[vi] = a[vi, 0]
            c[vi, 0] = a[vi, 0] * a[vi, 0]


def test_several_results_of_symbolic_sizes():
    column = lambda i: (i, 0)  # noqa: E731
    after = applied(Sizes, {"lib.both": columns}, {"lib.both": [column, None, column]})
    assert after.script().count("R.layout_transform") == 2
    main = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS))["main"]
    for n in (0, 1, 5):
        x = np.arange(n, dtype="float32")
        for found in (relax.interpret(after, "main", x), main(x)):
            np.testing.assert_array_equal(found[0].numpy(), x)
            np.testing.assert_array_equal(found[1].numpy(), x * x)


def test_what_stays():
    assert applied(Model, {"lib.other": add_blocked}, {}) is Model
    padded = lambda i, j: (i // 3, j, i % 3)  # noqa: E731
    assert applied(Model, {"lib.add": add_blocked}, {"lib.add": [None, None, padded]}) is Model


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        (MAPS[:2], "lib.add has 3 buffers, found 2 maps"),
        ([lambda i: i, None, None], "buffer 0 of lib.add has 2 dimensions, its map takes 1 indices"),
    ],
)
def test_maps_that_do_not_fit_are_errors(maps, message):
    with pytest.raises(DiagnosticError, match=f"E4015.*{message}") as error:
        AlterOpImpl({"lib.add": add_blocked}, {"lib.add": maps})(Model)
    assert error.value.diagnostics[0].span is not None


def test_axis_separators_are_errors():
    none = {"lib.add": [[], [], []], "lib.other": None}
    expected = AlterOpImpl({"lib.add": add_blocked}, {"lib.add": MAPS})(Model)
    after = AlterOpImpl({"lib.add": add_blocked}, {"lib.add": MAPS}, none, {})(Model)
    assert_structural_equal(after, expected)
    with pytest.raises(DiagnosticError, match="E4015.*lib.add: there are no axis separators"):
        AlterOpImpl({"lib.add": add_blocked}, {"lib.add": MAPS}, {"lib.add": [[1], [], []]})(Model)
