"""Kernels of state-space layers over ragged batches, beside their formulas in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import te
from relax.block_builder import BlockBuilder
from relax.expr import Var
from relax.struct_info import TensorStructInfo
from relax.topi.state_space import causal_conv, state_space_scan
from support import PLAIN_LOOPS

RNG = np.random.default_rng(2)


def run(formula, arrays, symbolic, mode="compiled"):
    """Compile a formula for arrays whose first dimensions have names (None: static), and run it."""
    builder, sizes = BlockBuilder(), {name: te.size_var(name, "int64") for name in symbolic if name}
    params = [
        Var(f"x{i}", TensorStructInfo([sizes[name] if name else array.shape[0], *array.shape[1:]], str(array.dtype)))
        for i, (array, name) in enumerate(zip(arrays, symbolic, strict=True))
    ]
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(builder.call_te(formula, *params))
        builder.emit_func_output(result)
    vm = relax.VirtualMachine(relax.build(builder.finalize(), PLAIN_LOOPS, exec_mode=mode), relax.cpu())
    return [np.from_dlpack(part) for part in vm["main"](*arrays)]


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def parts_of(ends):
    return [slice(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


@pytest.mark.parametrize("channels", [32, 6, 5])
@pytest.mark.parametrize("ends", [[0], [1], [7], [2, 3, 9], [1, 2, 3], [0, 2, 2]])
def test_causal_convolution(channels, ends):
    taps = 4
    x, weight, bias = floats(ends[-1], channels), floats(taps, channels), floats(channels)
    state = floats(len(ends), taps - 1, channels)
    arrays = [x, state, weight, bias, np.array(ends, np.int32)]
    y, after = run(causal_conv, arrays, ["n", "b", None, None, "b"])
    for i, part in enumerate(parts_of(ends)):
        whole = np.concatenate([state[i], x[part]])
        wanted = [(whole[t : t + taps] * weight).sum(0) + bias for t in range(len(whole) - taps + 1)]
        np.testing.assert_allclose(y[part], np.reshape(wanted, (-1, channels)), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(after[i], whole[-(taps - 1) :])


@pytest.mark.parametrize("width", [16, 12, 5])
@pytest.mark.parametrize("ends", [[0], [1], [6], [2, 3, 8], [0, 2, 2]])
def test_recurrence(width, ends):
    heads, groups, size, n = 4, 2, 6, ends[-1]
    x, b, c, skips = floats(n, heads, width), floats(n, groups, size), floats(n, groups, size), floats(heads)
    steps, decays = RNG.random((n, heads), np.float32), RNG.random((n, heads), np.float32)
    state = floats(len(ends), heads, size, width)
    arrays = [x, steps, decays, b, c, skips, state, np.array(ends, np.int32)]
    y, after = run(state_space_scan, arrays, ["n", "n", "n", "n", "n", None, "b", "b"])
    for i, part in enumerate(parts_of(ends)):
        held = state[i].astype(np.float64)
        for t in range(part.start, part.stop):
            inward, outward = (np.repeat(each[t], heads // groups, axis=0) for each in (b, c))
            held = decays[t][:, None, None] * held
            held += np.einsum("hn,hp->hnp", inward, steps[t][:, None] * x[t])
            wanted = np.einsum("hnp,hn->hp", held, outward) + skips[:, None] * x[t]
            np.testing.assert_allclose(y[t], wanted, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(after[i], held, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_nan_stays_in_its_sequence(mode):
    x, ends, ones = np.ones((3, 1, 4), np.float32), np.array([1, 3], np.int32), np.ones((3, 1), np.float32)
    state = np.zeros((2, 1, 2, 4), np.float32)
    x[1] = np.nan
    inward = np.ones((3, 1, 2), np.float32)
    arrays = [x, ones, ones, inward, inward, ones[0], state, ends]
    y, after = run(state_space_scan, arrays, ["n", "n", "n", "n", "n", None, "b", "b"], mode)
    np.testing.assert_array_equal(np.isnan(y[:, 0, 0]), [False, True, True])
    np.testing.assert_array_equal(np.isnan(after[:, 0, 0, 0]), [False, True])
    weight, bias = np.ones((2, 4), np.float32), np.zeros(4, np.float32)
    y, after = run(causal_conv, [x[:, 0], state[:, 0, :1], weight, bias, ends], ["n", "b", None, None, "b"], mode)
    np.testing.assert_array_equal(np.isnan(y[:, 0]), [False, True, True])
    np.testing.assert_array_equal(np.isnan(after[:, 0, 0]), [False, False])


def test_shapes_that_are_refused():
    n, heads = te.size_var("n", "int64"), te.size_var("heads", "int64")
    placeholders = [
        te.placeholder(s, "float32") for s in ([n, 4, 8], [n, 4], [n, 4], [n, 3, 2], [n, 3, 2], [4], [1, 4, 2, 8])
    ]
    ends = te.placeholder([1], "int32")
    with pytest.raises(ValueError, match="4 heads cannot share 3 groups evenly"):
        state_space_scan(*placeholders, ends)
    with pytest.raises(ValueError, match="the dimension heads must be a constant"):
        state_space_scan(*placeholders[:-1], te.placeholder([1, heads, 2, 8], "float32"), ends)


def test_ends_outside_of_the_tokens_are_moved_inside():
    """Wrong ends, which a caller may give, do not lead the kernel outside of its arrays."""
    x, state = floats(3, 4), np.zeros((2, 1, 4), np.float32)
    arrays = [x, state, np.ones((2, 4), np.float32), np.zeros(4, np.float32), np.array([-5, 1000], np.int32)]
    y, after = run(causal_conv, arrays, ["n", "b", None, None, "b"])
    np.testing.assert_allclose(y, x + np.concatenate([np.zeros((1, 4), np.float32), x[:-1]]), rtol=1e-6)
    np.testing.assert_array_equal(after[:, 0], [np.zeros(4), x[2]])
