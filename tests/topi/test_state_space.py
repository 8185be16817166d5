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

RNG = np.random.default_rng(2)


def run(formula, arrays, symbolic):
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
    vm = relax.VirtualMachine(relax.build(builder.finalize(), "llvm"), relax.cpu())
    return [np.from_dlpack(part) for part in vm["main"](*arrays)]


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def parts_of(ends):
    return [slice(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


@pytest.mark.parametrize("channels", [32, 6, 5])
@pytest.mark.parametrize("ends", [[1], [7], [2, 3, 9], [1, 2, 3]])
def test_causal_convolution(channels, ends):
    taps = 4
    x, weight, bias = floats(ends[-1], channels), floats(taps, channels), floats(channels)
    state = floats(len(ends), taps - 1, channels)
    arrays = [x, state, weight, bias, np.array(ends, np.int32)]
    y, after = run(causal_conv, arrays, ["n", "b", None, None, "b"])
    for i, part in enumerate(parts_of(ends)):
        whole = np.concatenate([state[i], x[part]])
        wanted = [(whole[t : t + taps] * weight).sum(0) + bias for t in range(len(whole) - taps + 1)]
        np.testing.assert_allclose(y[part], wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(after[i], whole[-(taps - 1) :])


@pytest.mark.parametrize("width", [16, 12, 5])
@pytest.mark.parametrize("ends", [[1], [6], [2, 3, 8]])
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


def test_ends_outside_of_the_tokens_are_moved_inside():
    """Wrong ends, which a caller may give, do not lead the kernel outside of its arrays."""
    x, state = floats(3, 4), np.zeros((2, 1, 4), np.float32)
    arrays = [x, state, np.ones((2, 4), np.float32), np.zeros(4, np.float32), np.array([-5, 1000], np.int32)]
    y, after = run(causal_conv, arrays, ["n", "b", None, None, "b"])
    np.testing.assert_allclose(y, x + np.concatenate([np.zeros((1, 4), np.float32), x[:-1]]), rtol=1e-6)
    np.testing.assert_array_equal(after[:, 0], [np.zeros(4), x[2]])
