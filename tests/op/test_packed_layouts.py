"""Packed layouts (NCHW16c): a call is the plain operator between an unpacking and a packing.

    R.nn.conv2d(x, w, data_layout="NCHW2c") == pack(R.nn.conv2d(unpack(x), w))

Arrays are packed here element by element by the index map of the layouts, and NumPy's own arithmetic of the plain
operator is that of the other cases.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import relax
from relax import tir
from relax.op import infer_call, operator_of
from relax.op.facts import Part
from relax.prim import evaluate
from relax.script import relax as R
from relax.struct_info import TensorStructInfo
from support import agree, main, numbers, same


def var(*shape, name="x", dtype="float32"):
    return relax.Var(name, TensorStructInfo(shape, dtype))


def moved(array, source, target):
    """Convert an array between layouts, one element after another; elements without a source are 0."""
    way = tir.bijective_layout(source, target)
    shape = [int(evaluate(size, {})) for size in way.forward_shape(array.shape)]
    result = np.zeros(shape, array.dtype)
    for index in itertools.product(*map(range, array.shape)):
        there = tuple(int(evaluate(i, {})) for i in way.forward_index(index))
        if all(i < size for i, size in zip(there, shape, strict=True)):
            result[there] = array[index]
    return result


# ------------------------------------------------------------------------------------------- inference

n, h = tir.SizeVar("n", "int64"), tir.SizeVar("h", "int64")


@pytest.mark.parametrize(
    "data, kernel, attrs, expected",
    [
        ((2, 4, 28, 28, 16), (48, 4, 3, 3, 16), ("NCHW16c", "OIHW16i", None), (2, 3, 26, 26, 16)),
        ((2, 4, 28, 28, 16), (3, 4, 3, 3, 16, 16), ("NCHW16c", "OIHW16i16o", None), (2, 3, 26, 26, 16)),
        ((2, 4, 28, 28, 16), (3, 64, 3, 3, 16), ("NCHW16c", "OIHW16o", "NHWC"), (2, 26, 26, 48)),
        ((2, 64, 28, 28), (48, 64, 3, 3), ("NCHW", "OIHW", "NCHW4c"), (2, 12, 26, 26, 4)),
        ((2, 64, 28, 28), (10, 64, 3, 3), ("NCHW", "OIHW", "NCHW4c"), (2, 3, 26, 26, 4)),
        ((2, 28, 28, 4, 16), (16, 64, 3, 3), ("NHWC16c", "OIHW", "NC8cHW"), (2, 2, 8, 26, 26)),
        ((n, 4, h, 28, 16), (3, 4, 3, 3, 16, 16), ("NCHW16c", "OIHW16i16o", None), (n, 3, h - 2, 26, 16)),
    ],
)
def test_shapes_of_convolutions(data, kernel, attrs, expected):
    data_layout, kernel_layout, out_layout = attrs
    call = relax.op.nn.conv2d(
        var(*data), var(*kernel), data_layout=data_layout, kernel_layout=kernel_layout, out_layout=out_layout
    )
    relax.ir.assert_structural_equal(infer_call(call), TensorStructInfo(expected, "float32"))


def test_channels_that_are_symbolic():
    """Parts of a symbolic number of channels: exactly as many as there are groups in the kernel."""
    c, o = tir.SizeVar("c", "int64"), tir.SizeVar("o", "int64")
    attrs = {"data_layout": "NCHW16c", "kernel_layout": "OIHW16i16o"}
    info = infer_call(relax.op.nn.conv2d(var(n, c, 8, 8, 16), var(o, c, 3, 3, 16, 16), **attrs))
    relax.ir.assert_structural_equal(info, TensorStructInfo((n, o, 6, 6, 16), "float32"))
    info = infer_call(relax.op.nn.conv2d(var(n, c * 16, 8, 8), var(o, c * 16, 3, 3), out_layout="NCHW16c"))
    relax.ir.assert_structural_equal(info, TensorStructInfo((n, (o + 15) // 16, 6, 6, 16), "float32"))


def test_shapes_of_pools():
    x = var(2, 3, 32, 32, 16)
    pooled = infer_call(relax.op.nn.max_pool2d(x, (2, 2), layout="NCHW16c", out_layout="NHWC16c"))
    assert pooled == R.Tensor((2, 31, 31, 3, 16), "float32")
    pooled = infer_call(relax.op.nn.avg_pool2d(x, (2, 2), layout="NCHW16c", out_layout="NCHW"))
    assert pooled == R.Tensor((2, 48, 31, 31), "float32")
    pooled = infer_call(relax.op.nn.adaptive_avg_pool2d(x, (2, 1), layout="NCHW16c"))
    assert pooled == R.Tensor((2, 3, 2, 1, 16), "float32")


def test_ranks_of_tensors_without_shapes():
    unknown = relax.Var("x", TensorStructInfo(None, "float32", None, -1))
    five = relax.Var("x", TensorStructInfo(None, "float32", None, 5))
    for x in (unknown, five):
        call = relax.op.nn.conv2d(x, unknown, data_layout="NCHW16c", kernel_layout="OIHW16i16o")
        assert infer_call(call) == R.Tensor("float32", ndim=5)
        assert infer_call(relax.op.nn.max_pool2d(x, layout="NCHW16c", out_layout="NHWC")) == R.Tensor("float32", ndim=4)
        assert infer_call(relax.op.nn.adaptive_avg_pool2d(x, 2, layout="NCHW16c")) == R.Tensor("float32", ndim=5)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: relax.op.nn.conv2d(var(2, 4, 8, 8), var(16, 64, 3, 3), data_layout="NCHW16c"),
            "data must have 5 dimensions (NCHW16c), found 4",
        ),
        (
            lambda: relax.op.nn.conv2d(var(2, 4, 8, 8, 8), var(16, 64, 3, 3), data_layout="NCHW16c"),
            "dimension 4 of data must be 16, as in the layout NCHW16c",
        ),
        (
            lambda: relax.op.nn.conv2d(var(2, 4, 8, 8, 16), var(16, 4, 3, 3), data_layout="NCHW16c"),
            "the channels of data and weight differ",
        ),
        (
            lambda: relax.op.nn.conv2d(var(2, 16, 8, 8), var(1, 1, 3, 3, 16), kernel_layout="OIHW8o"),
            "dimension 4 of weight must be 8, as in the layout OIHW8o",
        ),
        (
            lambda: relax.op.nn.conv2d(var(2, 16, 8, 8), var(1, 1, 3, 3), data_layout="NCHWc"),
            "'NCHWc' is no layout: expected capital letters, and parts such as 16c of the dimension C, found 'c'",
        ),
        (
            lambda: relax.op.nn.conv2d(var(2, 16, 8, 8), var(1, 1, 3, 3), data_layout="NHW16c"),
            "layout NHW16c: c is a part of C, which is missing",
        ),
        (
            lambda: relax.op.nn.conv2d(var(2, 16, 8, 8), var(1, 1, 3, 3), kernel_layout="OIDHW16o"),
            "kernel_layout must be a permutation of 'OIHW', found 'OIDHW16o'",
        ),
        (
            lambda: relax.op.nn.max_pool2d(var(2, 1, 8, 8), (2, 2), layout="OIHW"),
            "help: dimensions may be split, as in NCHW16c",
        ),
        (
            lambda: relax.op.nn.max_pool2d(var(2, 1, 8, 8, 4), (2, 2), layout="NCHW8c"),
            "dimension 4 of data must be 8, as in the layout NCHW8c",
        ),
        (
            lambda: relax.op.nn.max_pool2d_with_indices(var(2, 1, 8, 8, 4), (2, 2), layout="NCHW4c"),
            "packed layouts are not computed in: permute_dims and reshape the operand to NCHW",
        ),
        (
            lambda: relax.op.grad.max_pool2d_backward(var(2, 1, 8, 8, 4), var(2, 1, 8, 8, 4), layout="NCHW4c"),
            "packed layouts are not computed in: permute_dims and reshape the operand to NCHW",
        ),
    ],
)
def test_layouts_that_do_not_fit(call, message):
    with pytest.raises(relax.DiagnosticError) as error:
        infer_call(call())
    assert message in str(error.value)


# ------------------------------------------------------------------------------------------- values

CONVOLUTIONS = [
    ("conv1d", (2, 4, 5), (4, 4, 2), ("NCW2c", "OIW4i2o", None), {}),
    ("conv2d", (1, 8, 5, 4), (6, 8, 3, 2), ("NCHW4c", "OIHW2o4i", "NCHW3c"), {"padding": (1, 0, 0, 2)}),
    ("conv2d", (2, 4, 5, 4), (8, 1, 2, 2), ("NCHW4c", "OIHW1i4o", None), {"groups": 4, "strides": (2, 1)}),
    ("conv2d", (1, 4, 5, 4), (5, 4, 2, 2), ("NHWC2c", "HWIO", "NCHW4c"), {"dilation": 2}),
    ("conv2d", (0, 4, 5, 4), (4, 4, 2, 2), ("NCHW4c", "OIHW4o", None), {}),
    ("conv2d", (1, 4, 1, 1), (4, 4, 1, 1), ("NCHW1c", "OIHW1i1o", None), {}),
    ("conv2d", (2, 4, 4, 4), (4, 4, 2, 2), ("NCHW2h2w", "OIHW2h", "NCHW"), {}),
    ("conv3d", (1, 4, 3, 3, 2), (2, 4, 2, 1, 2), ("NCDHW4c", "OIDHW2i2o", None), {"padding": 1}),
    ("conv1d_transpose", (1, 4, 3), (4, 2, 3), ("NCW2c", "IOW2o", None), {"strides": 2}),
    ("conv2d_transpose", (1, 4, 3, 2), (4, 3, 2, 2), ("NCHW4c", "IOHW4i3o", "NCHW6c"), {"groups": 2, "strides": 2}),
    ("conv3d_transpose", (1, 2, 2, 1, 2), (2, 2, 2, 1, 2), ("NCDHW2c", "IODHW", None), {"padding": (0, 0, 1)}),
]


@pytest.mark.parametrize("op, data, kernel, layouts, attrs", CONVOLUTIONS)
def test_convolutions(op, data, kernel, layouts, attrs):
    """Interpreted and compiled results are those of the plain operator, packed."""
    data_layout, kernel_layout, out_layout = layouts
    letters = "DHW"[-(len(data) - 2) :]
    by = "IO" if "transpose" in op else "OI"
    x, w = numbers(*data, seed=1), numbers(*kernel, seed=2)
    plain = operator_of(getattr(relax.op.nn, op)(var(*x.shape), var(*w.shape), **attrs)).evaluate(x, w)
    expected = moved(plain, f"NC{letters}", out_layout or data_layout)
    packed = [moved(x, f"NC{letters}", data_layout), moved(w, f"{by}{letters}", kernel_layout)]
    named = {"data_layout": data_layout, "kernel_layout": kernel_layout, "out_layout": out_layout, **attrs}
    shown = ", ".join(f"{name}={value!r}" for name, value in named.items())
    params = ", ".join(f'x{i}: R.Tensor({array.shape}, "float32")' for i, array in enumerate(packed))
    program = main(f"return R.nn.{op}(x0, x1, {shown})", params)
    agree(program, *packed, expected=expected, levels=(1,), rtol=1e-4, atol=1e-4)


POOLS = [
    ("max_pool1d", (2, 4, 5), ("NCW2c", None), {"pool_size": 2}),
    ("max_pool2d", (1, 8, 5, 4), ("NCHW4c", "NHWC4c"), {"pool_size": (2, 3), "padding": 1, "strides": 2}),
    ("avg_pool2d", (2, 6, 4, 4), ("NHWC3c", "NCHW4c"), {"pool_size": 2, "ceil_mode": True, "strides": 3}),
    ("avg_pool2d", (4, 2, 4, 4), ("NCHW2n", "NCHW"), {"pool_size": 2, "padding": 1, "count_include_pad": True}),
    ("max_pool2d", (1, 2, 4, 6), ("NCHW2h3w", None), {"pool_size": 2}),
    ("avg_pool3d", (1, 4, 3, 2, 2), ("NCDHW4c", None), {"pool_size": 2}),
    ("adaptive_avg_pool2d", (1, 4, 5, 3), ("NCHW4c", None), {"output_size": (2, 2)}),
    ("adaptive_avg_pool1d", (0, 4, 5), ("NCW4c", "NWC"), {"output_size": 3}),
]


@pytest.mark.parametrize("op, data, layouts, attrs", POOLS)
def test_pools(op, data, layouts, attrs):
    layout, out_layout = layouts
    plain_layout = "NC" + "DHW"[-(len(data) - 2) :]
    x = numbers(*data, seed=3)
    plain = operator_of(getattr(relax.op.nn, op)(var(*x.shape), **attrs)).evaluate(x)
    packed = moved(x, plain_layout, layout)
    named = {"layout": layout, "out_layout": out_layout, **attrs}
    shown = ", ".join(f"{name}={value!r}" for name, value in named.items())
    program = main(f"return R.nn.{op}(x, {shown})", f'x: R.Tensor({packed.shape}, "float32")')
    agree(program, packed, expected=moved(plain, plain_layout, out_layout or layout), levels=(1,), rtol=1e-4, atol=1e-5)


def random_layout(rng, letters, sizes):
    """Split some dimensions whose size has a divisor, and shuffle."""
    names = list(letters)
    for letter, size in zip(letters, sizes, strict=True):
        factors = [f for f in range(1, size + 1) if size % f == 0]
        if rng.random() < 0.5 and factors:
            names.append(f"{rng.choice(factors)}{letter.lower()}")
    return "".join(rng.permutation(names))


@pytest.mark.parametrize("seed", range(12))
def test_random_layouts(seed):
    """Any dimensions split, in any order: the reference is the plain one's, and the kernel agrees."""
    rng = np.random.default_rng(seed)
    data, kernel = (2, 6, 4, 4), (4, 6, 2, 3)
    x, w = numbers(*data, seed=seed), numbers(*kernel, seed=seed + 100)
    layouts = random_layout(rng, "NCHW", data), random_layout(rng, "OIHW", kernel)
    out = random_layout(rng, "NCHW", (2, 4, 3, 2))
    packed = [moved(x, "NCHW", layouts[0]), moved(w, "OIHW", layouts[1])]
    attrs = {"data_layout": layouts[0], "kernel_layout": layouts[1], "out_layout": out}
    operator = operator_of(relax.op.nn.conv2d(*(var(*array.shape) for array in packed), **attrs))
    plain = operator_of(relax.op.nn.conv2d(var(*data), var(*kernel))).evaluate(x, w)
    same(operator.evaluate(*packed), moved(plain, "NCHW", out), 1e-5, 1e-5)
    params = ", ".join(f'x{i}: R.Tensor({array.shape}, "float32")' for i, array in enumerate(packed))
    shown = ", ".join(f"{name}={value!r}" for name, value in attrs.items())
    program = main(f"return R.nn.conv2d(x0, x1, {shown})", params)
    same(relax.VirtualMachine(relax.build(program, "llvm -opt-level=1"), relax.cpu())["main"](*packed),
         moved(plain, "NCHW", out), 1e-4, 1e-4)  # fmt: skip


SYMBOLIC = main(
    """
    y = R.nn.conv2d(x, w, data_layout="NCHW4c", kernel_layout="OIHW4i4o", padding=1)
    return R.nn.max_pool2d(y, (2, 2), layout="NCHW4c")
    """,
    'x: R.Tensor(("n", "c", "h", 4, "p"), "float32"), w: R.Tensor(("o", "c", 3, 3, 4, 4), "float32")',
)


@pytest.mark.parametrize("batch, channels, height, outputs", [(2, 2, 3, 1), (0, 1, 3, 1), (1, 1, 2, 0), (1, 0, 2, 2)])
def test_symbolic_sizes(batch, channels, height, outputs):
    x, w = numbers(batch, channels, height, 4, 4), numbers(outputs, channels, 3, 3, 4, 4, seed=1)
    result = agree(SYMBOLIC, x, w, levels=(1,), rtol=1e-4, atol=1e-4)
    assert result.numpy().shape == (batch, outputs, height - 1, 3, 4)


def test_a_part_of_another_size_is_found_when_it_runs():
    x, w = numbers(1, 2, 3, 4, 3), numbers(1, 2, 3, 3, 4, 4)
    message = "dimension 4 of data must be 4, as in the layout NCHW4c"
    with pytest.raises(AssertionError, match=message):
        relax.interpret(SYMBOLIC, "main", x, w)
    with pytest.raises(AssertionError, match=f"{message}: p and 4"):
        relax.VirtualMachine(relax.build(SYMBOLIC, "llvm"), relax.cpu())["main"](x, w)


# ------------------------------------------------------------------------------------------- facts


def test_packed_pools_follow_permutations():
    """The parts of a layout stay whole where its dimensions are permuted."""
    pool = operator_of(relax.op.nn.max_pool2d(var(2, 1, 4, 4, 8), layout="NCHW8c"))
    rule = pool.permuted((0, 4, 2, 3, 1), [TensorStructInfo((2, 1, 4, 4, 8), "float32")])
    assert rule.operator.layout == "N8cHWC"


def test_operators_that_follow_a_packed_operand():
    order, info = (0, 1, 2, 3, Part(1, 4)), TensorStructInfo((2, 8, 6, 6), "float32")
    scalar = TensorStructInfo((), "float32")
    x = var(2, 8, 6, 6)
    add = operator_of(relax.op.add(x, x))
    assert add.blocked(order, [info, info]).operands == (order, order)
    assert add.blocked(order, [info, scalar]).operands == (order, None)
    assert add.blocked(order, [info, TensorStructInfo((6, 6), "float32")]) is None
    assert add.blocked(order, [info, TensorStructInfo((8, 1, 1), "float32")]).operands == (order, order)
    pool = operator_of(relax.op.nn.max_pool2d(x)).blocked(order, [info])
    assert (pool.operator.layout, pool.results) == ("NCHW4c", (order,))
    assert operator_of(relax.op.nn.max_pool2d(x)).blocked((0, 1, 2, 3, Part(2, 4)), [info]) is None
    split = operator_of(relax.op.split(x, [4], axis=1))
    assert split.blocked(order, [info]).operator.indices_or_sections == (1,)
    assert operator_of(relax.op.split(x, [2], axis=1)).blocked(order, [info]) is None
    assert operator_of(relax.op.sum(x, axis=[1])).blocked(order, [info]) is None
