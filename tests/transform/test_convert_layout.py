"""ConvertLayout: other layouts inside, transposes at the edges."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.transform import ConvertLayout, DeadCodeElimination, FoldConstant, Sequential

NHWC = {"relax.nn.conv2d": ["NHWC", "OHWI"]}


def same_results(before, after, *shapes, rtol=1e-4):
    rng = np.random.default_rng(0)
    args = [rng.uniform(0.1, 1, shape).astype("float32") for shape in shapes]
    wanted, got = (relax.interpret(mod, "main", *args) for mod in (before, after))
    pairs = zip(wanted, got, strict=True) if isinstance(wanted, (tuple, list)) else [(wanted, got)]
    for one, other in pairs:
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=rtol, atol=1e-5)


def test_a_chain_is_transposed_once_at_its_edges(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 3, "h", 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                lv = R.nn.conv2d(x, w)
                lv1 = R.nn.relu(lv)
                gv = R.nn.max_pool2d(lv1, (2, 2))
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 3, "h", 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                a = R.permute_dims(x, axes=[0, 2, 3, 1])
                b = R.permute_dims(w, axes=[0, 2, 3, 1])
                lv = R.nn.conv2d(a, b, data_layout="NHWC", kernel_layout="OHWI")
                lv1 = R.nn.relu(lv)
                lv2 = R.nn.max_pool2d(lv1, (2, 2), layout="NHWC")
                gv = R.permute_dims(lv2, axes=[0, 3, 1, 2])
                R.output(gv)
            return gv

    after = check(ConvertLayout(NHWC), Before, Expected)
    for n in (0, 1, 2):
        same_results(Before, after, (n, 3, 6, 8), (4, 3, 3, 3))


def test_operators_that_follow(check):
    """Broadcast operands, tuples, normalisation, cuts, padding and reductions stay in the layout; one transpose is left."""

    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor(("n", 4, 6, 6), "float32"),
            w: R.Tensor((4, 4, 3, 3), "float32"),
            b: R.Tensor((4, 1, 1), "float32"),
            row: R.Tensor((4,), "float32"),
        ):
            with R.dataflow():
                lv = R.nn.conv2d(x, w)
                biased = R.add(lv, b)
                rows = R.multiply(row, biased)  # along W, which is not the last dimension inside
                norm = R.nn.batch_norm(rows, row, row, row, row, axis=1)
                joined = R.concat((norm[0], lv), axis=1)
                parts = R.split(joined, 2, axis=1)
                part = R.strided_slice(parts[1], axes=[-1], begin=[0], end=[2])
                padded = R.nn.pad(part, (0, 0, 0, 0, 1, 1, 2, 2))
                squeezed = R.squeeze(R.mean(padded, axis=[2], keepdims=True), axis=[2])
                gv = R.nn.softmax(R.expand_dims(squeezed, axis=[2]), axis=1)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor(("n", 4, 6, 6), "float32"),
            w: R.Tensor((4, 4, 3, 3), "float32"),
            b: R.Tensor((4, 1, 1), "float32"),
            row: R.Tensor((4,), "float32"),
        ):
            with R.dataflow():
                x1 = R.permute_dims(x, axes=[0, 2, 3, 1])
                w1 = R.permute_dims(w, axes=[0, 2, 3, 1])
                lv = R.nn.conv2d(x1, w1, data_layout="NHWC", kernel_layout="OHWI")
                b1 = R.permute_dims(b, axes=[1, 2, 0])
                biased = R.add(lv, b1)
                lifted = R.expand_dims(row, axis=[0, 1, 2])
                row1 = R.permute_dims(lifted, axes=[0, 2, 3, 1])
                rows = R.multiply(row1, biased)
                norm = R.nn.batch_norm(rows, row, row, row, row, axis=3)
                first = norm[0]
                joined = R.concat((first, lv), axis=3)
                parts = R.split(joined, 2, axis=3)
                second = parts[1]
                part = R.strided_slice(second, axes=[2], begin=[0], end=[2])
                padded = R.nn.pad(part, (0, 0, 1, 1, 2, 2, 0, 0))
                mean = R.mean(padded, axis=[1], keepdims=True)
                squeezed = R.squeeze(mean, axis=[1])
                expanded = R.expand_dims(squeezed, axis=[2])
                soft = R.nn.softmax(expanded, axis=3)
                gv = R.permute_dims(soft, axes=[0, 3, 2, 1])
                R.output(gv)
            return gv

    after = check(ConvertLayout(NHWC), Before, Expected)
    same_results(Before, after, (2, 4, 6, 6), (4, 4, 3, 3), (4, 1, 1), (4,))


def test_what_depends_on_the_order_gets_the_original(check):
    """Reshape and matmul read the program's order; what is seen outside, the value itself included, has it too."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 2, 4, 4), "float32"), w: R.Tensor((2, 2, 1, 1), "float32")):
            with R.dataflow():
                gv = R.nn.conv2d(x, w)
                lv = R.nn.relu(gv)
                flat = R.reshape(lv, (2, 16))
                same = gv
                gv1 = R.add(lv, gv)
                R.output(gv, same, flat, gv1)
            z = R.exp(gv)
            return (z, same, flat, gv1)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((1, 2, 4, 4), "float32"), w: R.Tensor((2, 2, 1, 1), "float32")):
            with R.dataflow():
                x1 = R.permute_dims(x, axes=[0, 2, 3, 1])
                w1 = R.permute_dims(w, axes=[0, 2, 3, 1])
                conv = R.nn.conv2d(x1, w1, data_layout="NHWC", kernel_layout="OHWI")
                gv = R.permute_dims(conv, axes=[0, 3, 1, 2])
                lv = R.nn.relu(conv)
                back = R.permute_dims(lv, axes=[0, 3, 1, 2])
                flat = R.reshape(back, (2, 16))
                same = gv
                lv1 = R.add(lv, conv)
                gv1 = R.permute_dims(lv1, axes=[0, 3, 1, 2])
                R.output(gv, same, flat, gv1)
            z = R.exp(gv)
            return (z, same, flat, gv1)

    after = check(ConvertLayout(NHWC), Before, Expected)
    same_results(Before, after, (1, 2, 4, 4), (2, 2, 1, 1))


def test_transposes_of_the_program_cancel(check):
    """A model that was exported from NHWC, with its transposes."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 8, 8, 3), "float32")):
            with R.dataflow():
                a = R.permute_dims(x, axes=[0, 3, 1, 2])
                b = R.nn.conv2d(a, R.const(np.ones((4, 3, 1, 1), "float32")))
                c = R.permute_dims(b, axes=[0, 2, 3, 1])
                gv = R.nn.relu(c)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 8, 8, 3), "float32")):
            with R.dataflow():
                b = R.nn.conv2d(x, R.const(np.ones((4, 1, 1, 3), "float32")), data_layout="NHWC", kernel_layout="OHWI")
                gv = R.nn.relu(b)
                R.output(gv)
            return gv

    passes = [ConvertLayout(NHWC), FoldConstant(), DeadCodeElimination()]
    after = check(Sequential(passes), Before, Expected)
    same_results(Before, after, (2, 8, 8, 3))


def test_match_casts_are_passed(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 8, 8), "float32"), w: R.Tensor(("o", 3, 3, 3), "float32")):
            m = relax.tir.Var("m", "int64")
            with R.dataflow():
                lv = R.nn.conv2d(x, w)
                lv1 = R.match_cast(lv, R.Tensor((2, m, 6, 6), "float32"))
                gv = R.nn.relu(lv1)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3, 8, 8), "float32"), w: R.Tensor(("o", 3, 3, 3), "float32")):
            m = relax.tir.Var("m", "int64")
            with R.dataflow():
                x1 = R.permute_dims(x, axes=[0, 2, 3, 1])
                w1 = R.permute_dims(w, axes=[0, 2, 3, 1])
                lv = R.nn.conv2d(x1, w1, data_layout="NHWC", kernel_layout="OHWI")
                lv1 = R.match_cast(lv, R.Tensor((2, 6, 6, m), "float32"))
                lv2 = R.nn.relu(lv1)
                gv = R.permute_dims(lv2, axes=[0, 3, 1, 2])
                R.output(gv)
            return gv

    after = check(ConvertLayout(NHWC), Before, Expected)
    same_results(Before, after, (2, 3, 8, 8), (0, 3, 3, 3))


@I.ir_module
class Two:
    @R.function
    def main(x: R.Tensor((1, 4, 6, 6), "float32"), w: R.Tensor((4, 4, 3, 3), "float32")):
        with R.dataflow():
            lv = R.nn.conv2d(x, w)
            gv = R.nn.conv2d_transpose(lv, w, groups=1)
            R.output(gv)
        return gv


def test_the_callback_goes_first():
    """A callback that chooses by the call, and leaves the others to the mapping."""
    seen = []

    def layouts(call):
        seen.append(call.op.name)
        return {"relax.nn.conv2d_transpose": ["NHWC", "HWIO", "NCHW"]} if "transpose" in call.op.name else {}

    after = ConvertLayout({"relax.nn.conv2d": ["CHWN"]}, layouts)(Two)
    conv, transposed = (b.value.attrs for b in calls_in(after) if "conv" in b.value.op.name)
    assert (conv.data_layout, conv.kernel_layout, conv.out_layout) == ("CHWN", "OIHW", None)
    assert (transposed.data_layout, transposed.kernel_layout, transposed.out_layout) == ("NHWC", "HWIO", "NCHW")
    assert set(seen) == {"relax.nn.conv2d", "relax.nn.conv2d_transpose"}
    same_results(Two, after, (1, 4, 6, 6), (4, 4, 3, 3))


def calls_in(mod):
    return [b for block in mod["main"].body.blocks for b in block.bindings if isinstance(b.value, relax.Call)]


@pytest.mark.parametrize(
    "name, layouts, shapes",
    [
        ("conv1d", ["NWC", "OWI"], [(2, 3, 8), (4, 3, 3)]),
        ("conv3d", ["NDHWC", "ODHWI"], [(1, 2, 4, 4, 4), (3, 2, 2, 2, 2)]),
        ("conv1d_transpose", ["NWC", "WIO"], [(2, 3, 8), (3, 4, 3)]),
        ("conv3d_transpose", ["NDHWC"], [(1, 2, 3, 3, 3), (2, 2, 2, 2, 2)]),
        ("adaptive_avg_pool2d", ["NHWC"], [(2, 3, 4, 4)]),
        ("avg_pool2d", ["NHWC", "NCHW"], [(2, 3, 4, 4)]),
    ],
)
def test_other_operators_with_layouts(name, layouts, shapes):
    bb = relax.BlockBuilder()
    params = [relax.Var(f"x{i}", relax.TensorStructInfo(shape, "float32")) for i, shape in enumerate(shapes)]
    with bb.function("main", params):
        with bb.dataflow():
            gv = bb.emit_output(getattr(relax.op.nn, name)(*params))
        bb.emit_func_output(gv)
    before = bb.get()
    after = ConvertLayout({f"relax.nn.{name}": layouts})(before)
    assert layouts[0] in str(after)
    same_results(before, after, *shapes)


def test_calls_that_stay(check):
    """In the layout already; outside of a dataflow block; of tensors whose rank is not known; none of those named."""

    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((1, 8, 8, 3), "float32"), w: R.Tensor((4, 1, 1, 3), "float32"), u: R.Tensor("float32")):
            with R.dataflow():
                lv = R.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="OHWI")
                gv = R.nn.relu(lv)
                gv1 = R.nn.conv2d(u, w, data_layout="NCHW", kernel_layout="OHWI")
                R.output(gv, gv1)
            z = R.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="OHWI")
            return (gv, gv1, z)

    check(ConvertLayout(NHWC), Mod)
    check(ConvertLayout({"relax.nn.conv3d": ["NDHWC", "ODHWI"]}), Mod)


def test_wrong_layouts():
    with pytest.raises(DiagnosticError) as error:
        ConvertLayout({"relax.nn.conv2": ["NHWC"]})(Two)
    assert "ConvertLayout: there is no operator 'relax.nn.conv2'" in str(error.value)
    assert "did you mean 'relax.nn.conv2d'" in str(error.value)
    with pytest.raises(DiagnosticError) as error:
        ConvertLayout({"relax.nn.conv2d": ["NCHW4c", "OIHW4o4i"]})(Two)
    assert "E4009" in str(error.value)
    assert "test_convert_layout.py" in str(error.value)
    assert "packed layouts are not computed in" in str(error.value)
