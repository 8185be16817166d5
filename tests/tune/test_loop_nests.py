"""The space of loop nests: every point computes what the function does, at static and dynamic sizes."""

from __future__ import annotations

import numpy as np
import pytest
from tuned_kernels import TARGET, product

from relax import te, tir, topi
from relax.codegen import build_module
from relax.ir import DiagnosticError
from relax.tune.loop_nests import loop_nests


def two_sums(rows=13):
    """``D[i, j] = Σ A[i, k] · B[k, l] · C[l, j]``"""
    a, b, c = (te.placeholder(s, "float32", n) for s, n in (((rows, 5), "A"), ((5, 6), "B"), ((6, 20), "C")))
    k, l = te.reduce_axis((0, 5), "k"), te.reduce_axis((0, 6), "l")
    value = te.compute((rows, 20), lambda i, j: te.sum(a[i, k] * b[k, l] * c[l, j], axis=[k, l]), "D")
    return te.create_prim_func([a, b, c, value])


def padded_windows():
    """A convolution of padded pixels, and what is added to it."""
    x, w = te.placeholder((1, 3, 9, 9), "float32", "X"), te.placeholder((4, 3, 3, 3), "float32", "W")
    value = topi.nn.relu(topi.nn.conv2d(x, w, 1, 1, 1, "NCHW"))
    return te.create_prim_func([x, w, value])


def stencil():
    x = te.placeholder((20, 35), "float32", "X")
    value = te.compute((18, 33), lambda i, j: x[i, j + 1] + x[i + 2, j + 1] * 2.0 + x[i + 1, j], "Y")
    return te.create_prim_func([x, value])


def bytes_product():
    a, b = te.placeholder((9, 7), "int8", "A"), te.placeholder((7, 19), "int8", "B")
    k = te.reduce_axis((0, 7), "k")
    value = te.compute((9, 19), lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k), "C")
    return te.create_prim_func([a, b, value])


CASES = {
    "two sums": two_sums(),
    "dynamic rows": two_sums(te.var("n", "int64")),
    "padding and relu": padded_windows(),
    "stencil": stencil(),
    "bytes": bytes_product(),
}


def arguments(func, rows=13):
    random = np.random.default_rng(0)
    arrays = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = [rows if not isinstance(size, tir.IntImm) else size.value for size in buffer.shape]
        if buffer.dtype.is_float:
            arrays.append(random.standard_normal(shape).astype(str(buffer.dtype)))
        else:
            arrays.append(random.integers(-9, 9, shape).astype(str(buffer.dtype)))
    return arrays


@pytest.mark.parametrize("func", CASES.values(), ids=CASES)
def test_points_compute_what_the_function_does(func):
    plain = arguments(func)
    build_module({"main": func}, TARGET)["main"](*plain)
    candidates = {}
    for seed in range(1, 40):
        sch = tir.Schedule(func, seed=seed, debug_mask="all")
        try:
            assert loop_nests(sch)
        except DiagnosticError:
            continue
        candidates[f"seed{seed}"] = sch.mod["main"]
        if len(candidates) == 4:
            break
    assert len(candidates) == 4
    module = build_module(candidates, TARGET)
    for name in candidates:
        args = arguments(func)
        args[-1][...] = 99
        module[name](*args)
        np.testing.assert_allclose(args[-1], plain[-1], rtol=1e-4, atol=1e-4)


def plain_sum():
    a, k = te.placeholder((8, 1000), "float32", "A"), te.reduce_axis((0, 1000), "k")
    return te.create_prim_func([a, te.compute((8,), lambda i: te.sum(a[i, k], axis=k), "B")])


def softmax():
    a = te.placeholder((8, 100), "float32", "A")
    return te.create_prim_func([a, topi.nn.softmax(a)])


@pytest.mark.parametrize("func", [plain_sum(), softmax()], ids=["long sum of floats", "several sums"])
def test_the_space_is_not_for(func):
    assert not loop_nests(tir.Schedule(func, seed=1))


def test_the_loops_of_a_point():
    for seed in range(1, 20):
        sch = tir.Schedule(product(), seed=seed)
        loop_nests(sch)
        text = str(sch.mod["main"])
        if "T.vectorized(T.int64(32))" in text:
            break
    assert "in T.parallel(" in text
    assert 'with T.block("C_init"):' in text
    assert "C_global[v_i, v_j] = C_global[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]" in text
