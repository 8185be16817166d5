"""Convolution: direct convolutions with channels before pixels, in register tiles of channels by pixels."""

from __future__ import annotations

import numpy as np
import pytest
from applied import Applied, anything, convolved, same_on_threads, whole

from relax import te, tir, topi
from relax.schedules import schedule
from relax.schedules.cpu import Convolution
from relax.tir import ForKind, StmtExprMutator

CASES = {
    "stride 1": {"ci": 3, "co": 7, "size": (9, 11), "kernel": (3, 3), "pad": 1},
    "stride 2": {"ci": 5, "co": 7, "size": (10, 13), "kernel": (3, 3), "n": 2, "stride": 2, "pad": 1},
    "stride 3, taps that meet few phases": {
        "ci": 8, "co": 16, "size": (13, 14), "kernel": (2, 2), "stride": 3, "dilation": 2,
    },
    "a window is an element": {"ci": 16, "co": 20, "size": (8, 9), "kernel": (1, 1)},
    "a window is an element, stride 2": {
        "ci": 16, "co": 20, "size": (9, 9), "kernel": (1, 1), "n": 2, "stride": 2,
    },
    "first layer": {"ci": 3, "co": 4, "size": (9, 15), "kernel": (7, 7), "stride": 2, "pad": 3},
    "dilation": {"ci": 4, "co": 6, "size": (17, 17), "kernel": (3, 3), "pad": 2, "dilation": 2},
    "columns": {"ci": 8, "co": 8, "size": (6, 70), "kernel": (3, 1)},
    "one pixel": {"ci": 16, "co": 57, "size": (3, 3), "kernel": (3, 3)},
    "groups": {"ci": 12, "co": 8, "size": (9, 9), "kernel": (3, 3), "pad": 1, "groups": 4},
    "one dimension": {"ci": 8, "co": 16, "size": (50,), "kernel": (5,), "n": 2, "pad": 2},
    "three dimensions": {"ci": 4, "co": 8, "size": (4, 5, 9), "kernel": (2, 2, 2)},
    "three dimensions, stride 2": {
        "ci": 4, "co": 8, "size": (5, 6, 9), "kernel": (3, 2, 3), "stride": 2, "pad": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_known_sizes(same, conv, case):
    known = conv(**CASES[case])
    same(known.func(), Convolution(), known.shapes())


@pytest.mark.parametrize("stride", [1, 2])
def test_unknown_sizes(same, conv, stride):
    n, h, w = (te.var(name, "int64") for name in "nhw")
    unknown = conv(2, 3, (h, w), (3, 3), n, stride, 1)
    sizes = [(1, (1, 1)), (2, (5, 7)), (0, (4, 4)), (1, (3, 62)), (1, (1, 65))]
    same(unknown.func(), Convolution(), *(unknown.shapes(*size) for size in sizes))


def test_unknown_batches_and_lines(same, conv):
    n, w = te.var("n", "int64"), te.var("w", "int64")
    batches = conv(3, 4, (5, 5), (3, 3), n, pad=1)
    same(batches.func(), Convolution(), *(batches.shapes(n) for n in (0, 1, 3)))
    lines = conv(4, 7, (w,), (1,))
    same(lines.func(), Convolution(), *(lines.shapes(size=(w,)) for w in (1, 63, 64, 65)))


@pytest.mark.parametrize("sizes", [(0, 4, 5), (4, 0, 5), (4, 4, 0)])
def test_nothing_to_compute(same, conv, sizes):
    ci, co, height = sizes
    empty = conv(ci, co, (height, 6), (3, 3), te.var("n", "int64"), pad=1)
    same(empty.func(), Convolution(), empty.shapes(2))


def test_doubles(same, conv):
    double = conv(8, 8, (9, 9), (3, 3), dtype="float64")
    same(double.func(), Convolution(), double.shapes(), dtype="float64")


@pytest.mark.parametrize("pad", [0, 1])
def test_what_stands_behind_is_computed_as_results_are_stored(same, conv, target, pad):
    def clipped(y):
        def formula(n, c, h, w):
            return tir.max(y[n, c, h, w] + c.astype("float32"), tir.const(0, "float32"))

        return te.compute(y.shape, formula, "clipped")

    known = conv(8, 8, (9, 20), (3, 3), pad=pad)
    func = known.func(clipped)
    same(func, Convolution(), known.shapes())
    text = schedule(func, target, [Convolution()]).script()
    assert "conv2d = T.alloc_buffer" not in text
    assert "clipped[T.int64(0), co, y0, " in text
    assert "padded" not in text


class _Backwards(StmtExprMutator):
    """Parallel loops run from their last iteration to the first, one after the other."""

    def visit_For(self, node):
        node = self.visit_children(node)
        if node.kind is not ForKind.PARALLEL:
            return node
        back = tir.substitute(node.body, {node.loop_var: node.extent - 1 - node.loop_var})
        return node.replace(kind=ForKind.SERIAL, body=back)


def test_iterations_in_any_order(target, conv):
    known = conv(4, 7, (6, 6), (3, 3), 2, pad=1)
    func = schedule(known.func(), target, [Convolution()])
    x, k, y = (whole(*shape) for shape in known.shapes())
    other = y.copy()
    tir.interpret(func, x, k, y)
    tir.interpret(func.replace(body=_Backwards().visit(func.body)), x, k, other)
    np.testing.assert_array_equal(other, y)


@pytest.mark.parametrize("size", [(9, 9), (16, 33)])
def test_whole_numbers_wrap_around(conv, size):
    """Products and sums of int32 are those of NumPy, which wrap around too."""
    known = conv(16, 16, size, (3, 3), dtype="int32")
    run = Applied(Convolution(), known.func())
    assert run.func.attrs["tir.is_scheduled"]
    x, k = (anything(*shape, dtype="int32", seed=i) for i, shape in enumerate(known.shapes()[:2]))
    run.computes(convolved(x, k), x, k)


def test_the_number_of_threads_changes_nothing(conv, monkeypatch):
    known = conv(32, 64, (20, 20), (3, 3), pad=1)
    same_on_threads(monkeypatch, Applied(Convolution(), known.func()), *known.shapes())


def test_others_are_left_alone(target, conv):
    x, k = te.placeholder((1, 16, 16, 8), "float32", "X"), te.placeholder((3, 3, 8, 8), "float32", "K")
    pixels_first = te.create_prim_func([x, k, topi.nn.conv(x, k, 1, 1, 1, 1, "NHWC", "HWIO")])
    a, b, k = (
        te.placeholder((n := te.var("n", "int64"),), name="a"),
        te.placeholder((n,), name="b"),
        te.reduce_axis((0, n)),
    )
    dot = te.create_prim_func([a, b, te.compute((), lambda: te.sum(a[k] * b[k], axis=k), "dot")])
    x, k = te.placeholder((1, 16, 9, 9), "float32", "X"), te.placeholder((16, 16, 3, 3), "float32", "K")
    c, i, j = te.reduce_axis((0, 16)), te.reduce_axis((0, 3)), te.reduce_axis((0, 3))
    outside = te.compute(
        (1, 16, 8, 7), lambda n, co, h, w: te.sum(x[n, c, h + i, w + j] * k[co, c, i, j], axis=[c, i, j]), "sum"
    )
    beyond_the_data = te.create_prim_func([x, k, outside])
    small = conv(2, 2, (5, 5), (3, 3)).func()
    may_overlap = conv(16, 16, (9, 9), (3, 3)).func().without_attr("tir.noalias")
    for func in (pixels_first, dot, beyond_the_data, small, may_overlap):
        assert schedule(func, target, [Convolution()]) is func
