"""Passes about matrix products: combined, expanded, reordered."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import (
    AdjustMatmulOrder,
    CombineParallelMatmul,
    ExpandMatmulOfSum,
    ReorderTakeAfterMatmul,
    Sequential,
)


def product_shapes(mod):
    """The shapes of the products in main, in order."""
    found = []
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.Call) and binding.value.op.name == "relax.matmul":
                found.append(str(binding.var.struct_info.shape))
    return found


# ------------------------------------------------------------------------------- CombineParallelMatmul


def test_projections_with_bias_and_activation_are_combined(check, keeps):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((1, "n", 4), "float32"), w: R.Tensor((4, 8), "float32"), v: R.Tensor((4, 6), "float32"),
            b: R.Tensor((8,), "float32"), c: R.Tensor((6,), "float32"),
        ):  # fmt: skip
            with R.dataflow():
                p = R.matmul(x, w)
                q = R.nn.relu(R.add(p, b))
                r = R.matmul(x, v)
                s = R.nn.relu(R.add(c, r))
                gv = (q, s)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor((1, "n", 4), "float32"), w: R.Tensor((4, 8), "float32"), v: R.Tensor((4, 6), "float32"),
            b: R.Tensor((8,), "float32"), c: R.Tensor((6,), "float32"),
        ):  # fmt: skip
            with R.dataflow():
                weights = R.concat((w, v), axis=1)
                product = R.matmul(x, weights)
                biases = R.concat((b, c), axis=0)
                total = R.add(product, biases)
                relu = R.nn.relu(total)
                parts = R.split(relu, indices_or_sections=[8], axis=2)
                q = parts[0]
                s = parts[1]
                gv = (q, s)
                R.output(gv)
            return gv

    after = check(CombineParallelMatmul(), Before, Expected)
    for n in (0, 1, 3):
        keeps(Before, after, (1, n, 4), (4, 8), (4, 6), (8,), (6,))


@I.ir_module
class SymbolicWidths:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "m"), "float32"), v: R.Tensor((4, "k"), "float32")):
        with R.dataflow():
            p = R.matmul(x, w)
            q = R.matmul(x, v)
            gv = (p, q)
            R.output(gv)
        return gv


def test_symbolic_widths_are_taken_apart_by_slices(check, keeps):
    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "m"), "float32"), v: R.Tensor((4, "k"), "float32")):
            m, k = T.int64(), T.int64()
            with R.dataflow():
                weights = R.concat((w, v), axis=1)
                product = R.matmul(x, weights)
                p = R.strided_slice(product, [1], [0], [m])
                q = R.strided_slice(product, [1], [m], [m + k])
                gv = (p, q)
                R.output(gv)
            return gv

    after = check(CombineParallelMatmul(), SymbolicWidths, Expected)
    for n, m, k in ((0, 1, 2), (1, 0, 3), (2, 3, 0), (3, 2, 5)):
        keeps(SymbolicWidths, after, (n, 4), (4, m), (4, k))


def test_a_check_decides(check):
    asked = []

    def refuse(x, weights, biases, bindings):
        asked.append((x.name_hint, [w.name_hint for w in weights], biases, len(bindings)))
        return False

    check(CombineParallelMatmul(refuse), SymbolicWidths)
    assert asked == [("x", ["w", "v"], [], 3)] * 2
    check(CombineParallelMatmul(lambda *_: True), SymbolicWidths, CombineParallelMatmul()(SymbolicWidths))


def test_products_that_need_each_other_or_do_not_fit_stay(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32"), v: R.Tensor((2, 4, 3), "float32"),
                 vector: R.Tensor((4,), "float32")):  # fmt: skip
            with R.dataflow():
                p = R.matmul(x, w)
                q = R.matmul(x, p)
                r = R.matmul(x, v)
                s = R.matmul(x, vector)
                t = R.matmul(w, x)
                u = R.matmul(x, w, out_dtype="float64")
                gv = (q, r, s, t, u)
                R.output(gv)
            return gv

    check(CombineParallelMatmul(), Before)


def test_batches_of_weights_are_combined(keeps):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor(("n", 4), "float32"), w: R.Tensor((2, 4, 3), "float32"), v: R.Tensor((2, 4, 3), "float32")
        ):
            with R.dataflow():
                p = R.matmul(x, w)
                q = R.add(p, R.const(1, "float32"))
                r = R.matmul(x, v)
                gv = (p, q, r)
                R.output(gv)
            return gv

    after = CombineParallelMatmul()(Before)
    assert product_shapes(after) == ["R.shape([2, n, 6])"]
    keeps(Before, after, (3, 4), (2, 4, 3), (2, 4, 3))


# ---------------------------------------------------------------- ExpandMatmulOfSum, AdjustMatmulOrder


@I.ir_module
class Adapter:
    @R.function
    def main(x: R.Tensor(("n", 64), "float32"), w: R.Tensor((64, 64), "float32"), a: R.Tensor((64, 2), "float32"),
             b: R.Tensor((2, 64), "float32")):  # fmt: skip
        with R.dataflow():
            delta = R.matmul(a, b)
            total = R.add(w, delta)
            y = R.matmul(x, total)
            R.output(y)
        return y


def test_an_adapter_is_multiplied_by_its_thin_factors(check, keeps):
    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 64), "float32"), w: R.Tensor((64, 64), "float32"), a: R.Tensor((64, 2), "float32"),
                 b: R.Tensor((2, 64), "float32")):  # fmt: skip
            with R.dataflow():
                whole = R.matmul(x, w)
                thin = R.matmul(x, a)
                low = R.matmul(thin, b)
                y = R.add(whole, low)
                R.output(y)
            return y

    after = check(Sequential([ExpandMatmulOfSum(), AdjustMatmulOrder()]), Adapter, Expected)
    for n in (0, 1, 3):
        keeps(Adapter, after, (n, 64), (64, 64), (64, 2), (2, 64), rtol=1e-3)


def test_a_sum_known_before_running_stays(check):
    weights = relax.IRModule({"main": Adapter["main"].with_attr("num_input", 1)})
    check(ExpandMatmulOfSum(), weights)
    check(AdjustMatmulOrder(), weights)


def test_terms_that_broadcast_stay(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), a: R.Tensor((4, 4), "float32"), b: R.Tensor((4,), "float32")):
            with R.dataflow():
                y = R.matmul(x, R.add(a, b))
                R.output(y)
            return y

    check(ExpandMatmulOfSum(), Before)


def test_transposed_sums_and_products(keeps):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 64), "float32"), w: R.Tensor((64, 64), "float32"), a: R.Tensor((2, 64), "float32"),
                 b: R.Tensor((64, 2), "float32")):  # fmt: skip
            with R.dataflow():
                y = R.matmul(x, R.permute_dims(R.add(w, R.matmul(b, a))))
                R.output(y)
            return y

    after = Sequential([ExpandMatmulOfSum(), AdjustMatmulOrder()])(Before)
    assert product_shapes(after) == ["R.shape([n, 64])", "R.shape([n, 2])", "R.shape([n, 64])"]
    keeps(Before, after, (3, 64), (64, 64), (2, 64), (64, 2), rtol=1e-3)


def chain(dims, left, known=0):
    """A module of ``(a b) c``, or ``a (b c)``, of matrices whose sizes follow each other; the last `known` are weights."""
    sizes = {name: relax.tir.SizeVar(name, "int64") for name in dims if isinstance(name, str)}
    size = [sizes.get(d, d) for d in dims]
    a, b, c = (relax.Var(v, R.Tensor((m, k), "float32")) for v, m, k in zip("abc", size, size[1:]))
    bb = relax.BlockBuilder()
    with bb.function("main", [a, b, c], attrs={"num_input": 3 - known}):
        with bb.dataflow():
            inner = bb.emit(relax.op.matmul(a, b) if left else relax.op.matmul(b, c))
            out = bb.emit_output(relax.op.matmul(inner, c) if left else relax.op.matmul(a, inner))
        bb.emit_func_output(out)
    return bb.get()


@pytest.mark.parametrize(
    "dims, left_is_better",
    [
        ((2, 8, 8, 8), True),
        ((8, 8, 8, 2), False),
        (("n", 64, 2, 64), True),
        ((64, 2, 64, "n"), False),
        (("n", 4, 4, "n"), None),
        (("n", 2, "m", 2), None),
        (("n", "m", "k", 1), None),
    ],
)
def test_the_prover_chooses(dims, left_is_better):
    left, right = chain(dims, left=True), chain(dims, left=False)
    step = AdjustMatmulOrder()
    assert (step(left) is left) == (left_is_better in (True, None))
    assert (step(right) is right) == (left_is_better in (False, None))
    if left_is_better is not None:
        worse, better = (right, left) if left_is_better else (left, right)
        assert product_shapes(step(worse)) == product_shapes(better)


def product_of_three(first, middle, last, inner_is_left):
    """A module that multiplies tensors of these shapes, the first two or the last two first."""
    bb = relax.BlockBuilder()
    a, b, c = (relax.Var(n, R.Tensor(s, "float32")) for n, s in zip("abc", (first, middle, last), strict=True))
    with bb.function("main", [a, b, c]):
        with bb.dataflow():
            inner = bb.emit(relax.op.matmul(a, b) if inner_is_left else relax.op.matmul(b, c))
            product = relax.op.matmul(inner, c) if inner_is_left else relax.op.matmul(a, inner)
            result = bb.emit_output(product)
        bb.emit_func_output(result)
    return bb.get()


@pytest.mark.parametrize(
    ("shapes", "inner_is_left", "changes"),
    [
        (((16,), (16, 2), (2, 32)), False, True),
        (((32, 2), (2, 16), (16,)), True, True),
        (((3, 32, 2), (2, 16), (16,)), True, True),
        (((16,), (16, 2), (2,)), True, False),
        (((16,), (16, 2), (3, 2, 32)), False, True),
        (((1,), (1, 0), (0,)), False, True),
        (((2,), (3, 2, 8), (3, 8, 1)), False, False),  # a vector beside a batch of matrices is a matrix of rows
        (((2, 8), (3, 8, 8), (8,)), True, False),
        (((16, 2), (2,), (16,)), True, False),
    ],
)
def test_vectors_are_multiplied_in_the_cheaper_order(keeps, shapes, inner_is_left, changes):
    before = product_of_three(*shapes, inner_is_left)
    after = AdjustMatmulOrder()(before)
    assert (after is not before) == changes
    assert AdjustMatmulOrder()(after) is after
    keeps(before, after, *shapes, rtol=1e-4)


def test_weights_are_multiplied_with_each_other():
    dims = ("n", 64, 2, 64)
    kept = chain(dims, left=False, known=2)
    assert AdjustMatmulOrder()(kept) is kept
    assert product_shapes(AdjustMatmulOrder()(chain(dims, left=True, known=2))) == product_shapes(kept)


def test_an_inner_product_that_others_read_stays(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 64), "float32"), a: R.Tensor((64, 2), "float32"), b: R.Tensor((2, 64), "float32")):
            with R.dataflow():
                ab = R.matmul(a, b)
                y = R.matmul(x, ab)
                z = R.exp(ab)
                R.output(y, z)
            return (y, z)

    check(AdjustMatmulOrder(), Before)


# ------------------------------------------------------------------------------ ReorderTakeAfterMatmul


@I.ir_module
class Columns:
    @R.function
    def main(x: R.Tensor(("n", 6), "float32"), table: R.Tensor((6, 9), "float32"), i: R.Tensor(("k",), "int64")):
        with R.dataflow():
            w = R.take(table, i, axis=1)
            y = R.matmul(x, w)
            R.output(y)
        return y


def test_columns_are_taken_from_the_product(check, keeps):
    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 6), "float32"), table: R.Tensor((6, 9), "float32"), i: R.Tensor(("k",), "int64")):
            with R.dataflow():
                lv = R.matmul(x, table)
                y = R.take(lv, i, axis=1)
                R.output(y)
            return y

    after = check(ReorderTakeAfterMatmul(), Columns, Expected)
    keeps(Columns, after, (3, 6), (6, 9), np.array([0, -1, 8]))
    keeps(Columns, after, (0, 6), (6, 9), np.array([], "int64"))
    with pytest.raises(IndexError):
        relax.interpret(after, "main", np.ones((1, 6), "float32"), np.ones((6, 9), "float32"), np.array([9]))


def test_each_batch_has_a_matrix_of_its_own(keeps):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("b", "m", 6), "float32"), table: R.Tensor((5, 6, 2), "float32"),
                 i: R.Tensor(("b",), "int64")):  # fmt: skip
            with R.dataflow():
                w = R.take(table, i, axis=0)
                y = R.matmul(x, w)
                R.output(y)
            return y

    after = ReorderTakeAfterMatmul()(Before)
    assert product_shapes(after) == ["R.shape([b, m, 10])"]
    assert ReorderTakeAfterMatmul()(after) is after
    for b, m in ((3, 1), (3, 4), (1, 0), (0, 2)):
        keeps(Before, after, (b, m, 6), (5, 6, 2), np.array([4, -5, 0][:b], "int64"))
    args = np.ones((2, 1, 6), "float32"), np.ones((5, 6, 2), "float32"), np.array([5, 0])
    with pytest.raises(IndexError):  # and not an element of another batch
        relax.interpret(after, "main", *args)


def test_tables_that_may_have_no_rows_stay(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", "k"), "float32"), table: R.Tensor(("k", 9), "float32"), i: R.Tensor((2,), "int64")):
            with R.dataflow():
                y = R.matmul(x, R.take(table, i, axis=1))
                R.output(y)
            return y

    check(ReorderTakeAfterMatmul(), Before)
