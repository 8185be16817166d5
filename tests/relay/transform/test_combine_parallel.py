"""CombineParallelConv2D, -Dense and -BatchMatmul: one call for several on the same data."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same_values, check, module, run

from relax.relay.transform import CombineParallelBatchMatmul, CombineParallelConv2D, CombineParallelDense

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.random(shape, "float32")


DENSE = "%x: Tensor[(2, 3), float32], %a: Tensor[(4, 3), float32], %b: Tensor[(5, 3), float32]"


def test_dense():
    check(
        CombineParallelDense(2, to_batch=False),
        f"fn({DENSE}) {{ (nn.dense(%x, %a), nn.relu(nn.dense(%x, %b))) }}",
        f"""fn({DENSE}) {{
  %1 = nn.dense(%x, concatenate((%a, %b), axis=0));
  (strided_slice(%1, begin=[0], end=[4], strides=[1], axes=[1]),
   nn.relu(strided_slice(%1, begin=[4], end=[9], strides=[1], axes=[1])))
}}""",
        floats(2, 3), floats(4, 3), floats(5, 3),
        rtol=1e-6,
    )  # fmt: skip


def test_dense_as_a_batch():
    params = DENSE.replace("(5, 3)", "(4, 3)")
    check(
        CombineParallelDense(2),
        f"fn({params}) {{ nn.dense(%x, %a, units=4) + nn.dense(%x, %b, units=4) }}",
        f"""fn({params}) {{
  %1 = nn.batch_matmul(stack((%x, %x)), stack((%a, %b)));
  take(%1, 0, axis=0) + take(%1, 1, axis=0)
}}""",
        floats(2, 3), floats(4, 3), floats(4, 3),
        rtol=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        f"fn({DENSE}) {{ (nn.dense(%x, %a), nn.dense(%x, %b)) }}",  # two, not three
        "fn(%x: Tensor[(3, 3), float32]) { %1 = nn.dense(%x, %x); %2 = nn.dense(%x, %1); (%1, %2, nn.dense(%x, %2)) }",
    ],
)
def test_too_few_and_dependent_calls_stay(text):
    mod = module(text)
    assert run(CombineParallelDense(), mod) is mod


def test_calls_of_two_branches_stay_apart():
    text = f"fn(%c: bool, {DENSE}) {{ if (%c) {{ nn.dense(%x, %a) }} else {{ nn.dense(%x, %a) }} }}"
    mod = module(text)
    assert run(CombineParallelDense(2), mod) is mod


@pytest.mark.parametrize("transposed", [True, False])
def test_batch_matmul(transposed):
    shapes = ["(2, 3, 4)", "(2, 5, 4)", "(2, 6, 4)"] if transposed else ["(2, 3, 4)", "(2, 4, 5)", "(2, 4, 6)"]
    params = ", ".join(f"%x{i}: Tensor[{shape}, float32]" for i, shape in enumerate(shapes))
    calls = ", ".join(f"nn.batch_matmul(%x0, %x{i}, transpose_b={transposed})" for i in (1, 2))
    mod = module(f"fn({params}) {{ ({calls}) }}")
    result = run(CombineParallelBatchMatmul(2), mod)
    assert str(result["main"]).count("nn.batch_matmul") == 1
    arrays = [floats(*map(int, shape.strip("()").split(", "))) for shape in shapes]
    assert_same_values(mod, result, arrays, rtol=1e-6)


@pytest.mark.parametrize(("data", "kernel"), [("NCHW", "OIHW"), ("NHWC", "HWIO")])
def test_conv2d(data, kernel):
    sizes = {"N": 1, "C": 3, "H": 5, "W": 5}
    x = tuple(sizes[letter] for letter in data)
    weights = [tuple({"O": outputs, "I": 3, "H": 3, "W": 3}[letter] for letter in kernel) for outputs in (2, 4, 1)]
    params = ", ".join(f"%x{i}: Tensor[{shape}, float32]" for i, shape in enumerate((x, *weights)))
    calls = [
        f'nn.conv2d(%x0, %x{i + 1}, channels={shape[kernel.index("O")]}, data_layout="{data}", kernel_layout="{kernel}")'
        for i, shape in enumerate(weights)
    ]
    mod = module(f"fn({params}) {{ ({', '.join(calls)}, nn.conv2d(%x0, %x1, strides=[2, 2], data_layout=\"{data}\", "
                 f"kernel_layout=\"{kernel}\")) }}")  # fmt: skip
    result = run(CombineParallelConv2D(), mod)
    assert str(result["main"]).count("nn.conv2d") == 2
    assert_same_values(mod, result, [floats(*x), *(floats(*shape) for shape in weights)], rtol=1e-5)
    assert run(CombineParallelConv2D(), result) is result


def test_convolutions_with_packed_kernels_stay_apart():
    """Output channels of OIHW2o are two dimensions."""
    params = "%x: Tensor[(1, 3, 5, 5), float32], %a: Tensor[(2, 3, 3, 3, 2), float32]"
    call = 'nn.conv2d(%x, %a, kernel_layout="OIHW2o")'
    mod = module(f"fn({params}) {{ ({call}, {call}, {call} * 2f) }}")
    assert run(CombineParallelConv2D(2), mod) is mod
