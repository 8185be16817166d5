"""ConvertLayout: other layouts inside, transposes at the edges."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import ConvertLayout, DeadCodeElimination, FoldConstant, Sequential
from support import machine, main

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
        ConvertLayout({"relax.nn.conv2d": ["NCHWc", "OIHW4o4i"]})(Two)
    assert "E4009" in str(error.value)
    assert "test_convert_layout.py" in str(error.value)
    assert "data_layout must be a permutation of 'NCHW', found 'NCHWc'" in str(error.value)
    with pytest.raises(DiagnosticError, match="takes one layout, a permutation of 'NCHW', found NCHW4c"):
        ConvertLayout({"relax.image.resize2d": ["NCHW4c"]})(main(RESIZE, 'x: R.Tensor((1, 4, 6, 6), "float32")'))


RESIZE = """
with R.dataflow():
    gv = R.image.resize2d(x, (3, 3))
    R.output(gv)
return gv
"""


# --------------------------------------------------------------------------------------- packed layouts

PACKED = {"relax.nn.conv2d": ["NCHW4c", "OIHW4i4o"]}


def test_packed_layouts_between_convolutions(check):
    """Element-wise operators, pools, concatenations and splits stay packed; one transformation is left at each edge."""

    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor(("n", 8, "h", 8), "float32"),
            w: R.Tensor((8, 8, 3, 3), "float32"),
            b: R.Tensor((8, 1, 1), "float32"),
        ):
            with R.dataflow():
                lv = R.nn.conv2d(x, w, padding=1)
                lv1 = R.nn.relu(R.add(lv, b))
                lv2 = R.multiply(lv1, R.const(2, "float32"))
                lv3 = R.nn.max_pool2d(lv2, (2, 2))
                joined = R.concat((lv3, lv3), axis=1)
                parts = R.split(joined, 2, axis=1)
                lv4 = R.nn.conv2d(parts[1], w)
                gv = R.nn.adaptive_avg_pool2d(lv4, (2, 2))
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor(("n", 8, "h", 8), "float32"),
            w: R.Tensor((8, 8, 3, 3), "float32"),
            b: R.Tensor((8, 1, 1), "float32"),
        ):
            with R.dataflow():
                x1 = R.layout_transform(x, lambda n, c, h, w: (n, c // 4, h, w, c % 4))
                w1 = R.layout_transform(w, lambda o, i, h, w: (o // 4, i // 4, h, w, i % 4, o % 4))
                lv = R.nn.conv2d(x1, w1, padding=1, data_layout="NCHW4c", kernel_layout="OIHW4i4o")
                b1 = R.expand_dims(b, axis=[0])
                b2 = R.layout_transform(b1, lambda n, c, h, w: (n, c // 4, h, w, c % 4))
                added = R.add(lv, b2)
                lv1 = R.nn.relu(added)
                lv2 = R.multiply(lv1, R.const(2, "float32"))
                lv3 = R.nn.max_pool2d(lv2, (2, 2), layout="NCHW4c")
                joined = R.concat((lv3, lv3), axis=1)
                parts = R.split(joined, 2, axis=1)
                second = parts[1]
                lv4 = R.nn.conv2d(second, w1, data_layout="NCHW4c", kernel_layout="OIHW4i4o")
                pooled = R.nn.adaptive_avg_pool2d(lv4, (2, 2), layout="NCHW4c")
                gv = R.layout_transform(pooled, lambda n, c, h, w, p: (n, c * 4 + p, h, w))
                R.output(gv)
            return gv

    after = check(ConvertLayout(PACKED), Before, Expected)
    for n in (0, 1, 2):
        same_results(Before, after, (n, 8, 5, 8), (8, 8, 3, 3), (8, 1, 1))


def test_what_needs_whole_channels_gets_the_original():
    """Reductions, batch norm, softmax, cuts, and operands whose channels are no multiple of a part."""

    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((2, 4, 6, 6), "float32"), w: R.Tensor((4, 4, 1, 1), "float32"), v: R.Tensor((4,), "float32")
        ):
            with R.dataflow():
                lv = R.nn.conv2d(x, w)
                total = R.sum(lv, axis=[1])
                soft = R.nn.softmax(lv, axis=1)
                norm = R.nn.batch_norm(lv, v, v, v, v, axis=1)[0]
                cut = R.strided_slice(lv, axes=[1], begin=[1], end=[3])
                rows = R.add(lv, R.strided_slice(x, axes=[0, 1], begin=[0, 0], end=[1, 1]))
                turned = R.permute_dims(lv, axes=[0, 2, 3, 1])
                halves = R.split(lv, [2], axis=1)
                R.output(total, soft, norm, cut, rows, turned, halves)
            return (total, soft, norm, cut, rows, turned, halves[0])

    after = ConvertLayout(PACKED)(Before)
    assert str(after).count("R.layout_transform(") == 3  # of data, of kernel, of the result
    assert str(after).count("NCHW4c") == 1
    same_results(Before, after, (2, 4, 6, 6), (4, 4, 1, 1), (4,))


@pytest.mark.parametrize(
    "layouts, data, kernel",
    [
        (["NCHW4c", "OIHW4i4o"], (1, 6, 4, 4), (8, 6, 1, 1)),  # data channels
        (["NCHW4c", "OIHW4o"], (1, 8, 4, 4), (6, 8, 1, 1)),  # kernel channels
        (["NCHW4c", "OIHW"], (1, 8, 4, 4), (6, 8, 1, 1)),  # the result's alone
        (["NCHW4c", "OIHW4o"], (1, "c", 4, 4), (8, "c", 1, 1)),  # not proved
        (["NCHW4h", "OIHW"], (1, 8, 4, 4), (8, 8, 2, 1)),  # a spatial dimension, of 3 in the result
    ],
)
def test_channels_that_the_parts_do_not_divide(layouts, data, kernel, check):
    """The convolution stays as it was."""
    params = f'x: R.Tensor({data}, "float32"), w: R.Tensor({kernel}, "float32")'
    before = main(
        """
        with R.dataflow():
            gv = R.nn.conv2d(x, w)
            R.output(gv)
        return gv
        """,
        params,
    )
    check(ConvertLayout({"relax.nn.conv2d": layouts}), before)


def test_symbolic_channels_that_the_parts_divide(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", "c * 4", 6, 6), "float32"), w: R.Tensor(("o * 4", "c * 4", 3, 3), "float32"),
                 s: R.Shape(["c", "o"])):  # fmt: skip
            with R.dataflow():
                lv = R.nn.conv2d(x, w)
                gv = R.exp(lv)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", "c * 4", 6, 6), "float32"), w: R.Tensor(("o * 4", "c * 4", 3, 3), "float32"),
                 s: R.Shape(["c", "o"])):  # fmt: skip
            with R.dataflow():
                x1 = R.layout_transform(x, lambda n, c, h, w: (n, c // 4, h, w, c % 4))
                w1 = R.layout_transform(w, lambda o, i, h, w: (o // 4, i // 4, h, w, i % 4, o % 4))
                lv = R.nn.conv2d(x1, w1, data_layout="NCHW4c", kernel_layout="OIHW4i4o")
                lv1 = R.exp(lv)
                gv = R.layout_transform(lv1, lambda n, c, h, w, p: (n, c * 4 + p, h, w))
                R.output(gv)
            return gv

    after = check(ConvertLayout(PACKED), Before, Expected)
    for c, o in ((1, 2), (0, 1), (1, 0)):
        args = np.ones((2, 4 * c, 6, 6), "float32"), np.ones((4 * o, 4 * c, 3, 3), "float32"), relax.ShapeTuple((c, o))
        wanted, got = (relax.interpret(mod, "main", *args).numpy() for mod in (Before, after))
        np.testing.assert_allclose(got, wanted)


def test_match_casts_of_packed_tensors(check):
    """A cast is passed if the parts divide what it states; one that binds the channels gets the original."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 4, 6, 6), "float32"), w: R.Tensor((8, 4, 3, 3), "float32")):
            n, c = T.int64(), T.int64()
            with R.dataflow():
                lv = R.nn.conv2d(x, w)
                lv1 = R.match_cast(lv, R.Tensor((n, 8, 4, 4), "float32"))
                gv = R.nn.relu(lv1)
                lv2 = R.match_cast(lv, R.Tensor((2, c, 4, 4), "float32"))
                gv1 = R.nn.relu(lv2)
                R.output(gv, gv1)
            return (gv, gv1)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 4, 6, 6), "float32"), w: R.Tensor((8, 4, 3, 3), "float32")):
            n, c = T.int64(), T.int64()
            with R.dataflow():
                x1 = R.layout_transform(x, lambda n, c, h, w: (n, c // 4, h, w, c % 4))
                w1 = R.layout_transform(w, lambda o, i, h, w: (o // 4, i // 4, h, w, i % 4, o % 4))
                lv = R.nn.conv2d(x1, w1, data_layout="NCHW4c", kernel_layout="OIHW4i4o")
                lv1 = R.match_cast(lv, R.Tensor((n, 2, 4, 4, 4), "float32"))
                gv2 = R.nn.relu(lv1)
                gv = R.layout_transform(gv2, lambda n, c, h, w, p: (n, c * 4 + p, h, w))
                back = R.layout_transform(lv, lambda n, c, h, w, p: (n, c * 4 + p, h, w))
                lv2 = R.match_cast(back, R.Tensor((2, c, 4, 4), "float32"))
                gv1 = R.nn.relu(lv2)
                R.output(gv, gv1)
            return (gv, gv1)

    after = check(ConvertLayout(PACKED), Before, Expected)
    same_results(Before, after, (2, 4, 6, 6), (8, 4, 3, 3))


@pytest.mark.parametrize(
    "name, layouts, attrs, shapes",
    [
        ("conv1d", ["NCW4c", "OIW4i4o"], {}, [(2, 4, 6), (4, 4, 3)]),
        ("conv3d", ["NCDHW2c", "OIDHW2i2o", "NDHWC2c"], {}, [(1, 2, 3, 3, 3), (2, 2, 2, 2, 2)]),
        ("conv2d", ["NHWC4c", "OIHW1i4o"], {"groups": 4}, [(2, 4, 5, 5), (4, 1, 2, 2)]),
        ("conv2d_transpose", ["NCHW2c", "IOHW2i2o"], {"strides": 2}, [(1, 4, 3, 3), (4, 2, 2, 2)]),
        ("conv2d", ["NCHW4c", "OIHW4o", "NHWC"], {}, [(2, 4, 5, 5), (4, 4, 2, 2)]),
        ("max_pool2d", ["NCHW4c"], {"pool_size": 2}, [(2, 8, 4, 4)]),
        ("avg_pool2d", ["NCHW4c", "NHWC8c"], {"pool_size": 2}, [(2, 8, 4, 4)]),
        ("adaptive_avg_pool2d", ["NHWC2c"], {"output_size": 2}, [(2, 4, 5, 4)]),
    ],
)
def test_packed_layouts_of_other_operators(name, layouts, attrs, shapes):
    bb = relax.BlockBuilder()
    params = [relax.Var(f"x{i}", relax.TensorStructInfo(shape, "float32")) for i, shape in enumerate(shapes)]
    with bb.function("main", params):
        with bb.dataflow():
            gv = bb.emit_output(getattr(relax.op.nn, name)(*params, **attrs))
        bb.emit_func_output(gv)
    before = bb.get()
    after = ConvertLayout({f"relax.nn.{name}": layouts})(before)
    assert f'layout="{layouts[0]}"' in str(after)
    same_results(before, after, *shapes)
    args = [np.ones(shape, "float32") for shape in shapes]
    wanted = relax.interpret(before, "main", *args).numpy()
    np.testing.assert_allclose(machine(after)["main"](*args).numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_from_one_packed_layout_to_another():
    """A pool asks for parts of another size than those of the convolution; a packed program is only permuted."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 8, 6, 6), "float32"), w: R.Tensor((8, 8, 1, 1), "float32")):
            with R.dataflow():
                lv = R.nn.conv2d(x, w)
                gv = R.nn.max_pool2d(lv, (2, 2))
                R.output(gv)
            return gv

    after = ConvertLayout({**PACKED, "relax.nn.max_pool2d": ["NHWC2c"]})(Before)
    assert after.script().count("R.layout_transform(") == 4  # of data and kernel, between the two, of the result
    same_results(Before, after, (2, 8, 6, 6), (8, 8, 1, 1))
    packed = ConvertLayout(PACKED)(Before)
    again = ConvertLayout({"relax.nn.conv2d": ["NHWC4c", "OIHW4i4o"]})(packed)
    assert "R.permute_dims(lv, axes=[0, 2, 3, 1, 4])" in again.script()
    same_results(Before, again, (2, 8, 6, 6), (8, 8, 1, 1))
    assert ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(packed)["main"] is packed["main"]
