"""Ordinary loops become vector code without checks; compiling is quick."""

from __future__ import annotations

import re

import numpy as np
import pytest

from relax import codegen, te, tir
from relax.codegen import resolve
from relax.runtime.archive import read_archive, write_archive
from relax.runtime.elf import ObjectFileError, parse_object
from relax.runtime.native import host_machine, load_object
from relax.script import tir as T


def body_of(func, kind="opt", target=None):
    """The code of a function's inner loop nest."""
    text = codegen.build_module({"f": func}, target).get_source(kind)
    head, end = (r"\nrelax\.body\.f:", "\t.size") if kind == "asm" else (r"\ndefine .*@relax\.body\.f\(", "\n}")
    start = re.search(head, text).start()
    return text[start : text.index(end, start)]


def vectorised(func, element="float"):
    """Whether whole vectors are loaded and stored, and nothing can fail."""
    body = body_of(func)
    assert "relax.raise" not in body, "a check is left"
    lanes = r"<(?:vscale x )?\d+ x " + element + ">"
    return bool(re.search(rf"load {lanes}", body)) and bool(re.search(lanes, body.split("load", 1)[1]))


FORMULAS = {
    "add": lambda a, b: a + b,
    "relu": lambda a, b: tir.max(a, 0.0),
    "gelu": lambda a, b: a * (tir.erf(a * 0.70710678) * 0.5 + 0.5),
    "silu": lambda a, b: a * tir.sigmoid(a),
    "tanh": lambda a, b: tir.tanh(a + b),
    "log": lambda a, b: tir.log(a) - tir.exp(b),
    "choose": lambda a, b: tir.Select(a < b, a, b * 2.0),
    "mask": lambda a, b: tir.if_then_else(a > b, a / b, tir.const(0.0, "float32")),
    "round": lambda a, b: tir.floor(a) + tir.round(b),
    "convert": lambda a, b: tir.Cast("float32", tir.Cast("int32", a)) + b,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_elementwise(kernels, name):
    assert vectorised(kernels.elementwise(FORMULAS[name], ["float32", "float32"], "float32"))


@pytest.mark.parametrize(
    "dtype, element", [("float16", "i16|half"), ("bfloat16", "i16"), ("int8", "i8"), ("float64", "double")]
)
def test_elementwise_of_other_types(kernels, dtype, element):
    assert vectorised(kernels.elementwise(lambda a, b: a + b, [dtype, dtype], dtype), f"(?:{element})")


@pytest.mark.parametrize("reducer", [te.sum, te.max])
def test_reductions(reducer):
    n, m = te.var("n", "int64"), te.var("m", "int64")
    a, k = te.placeholder((n, m), name="A"), te.reduce_axis((0, m), "k")
    assert vectorised(te.create_prim_func([a, te.compute((n,), lambda i: reducer(a[i, k], axis=k))]))


def test_matmul_in_the_order_rows_depth_columns():
    @T.prim_func
    def matmul(a: T.handle, b: T.handle, c: T.handle):
        T.func_attr({"tir.noalias": True})
        m, n, p = T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (m, n), "float32")
        B = T.match_buffer(b, (n, p), "float32")
        C = T.match_buffer(c, (m, p), "float32")
        for i, k, j in T.grid(m, n, p):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]

    assert vectorised(matmul)
    if resolve("llvm").has_fma and resolve("llvm").triple.startswith("x86_64"):
        assert "vfmadd" in body_of(matmul, "asm")


def test_two_dimensions_fused_into_one_loop():
    """Rows and columns from a quotient and a remainder are proven to be inside."""

    @T.prim_func
    def fused(a: T.handle, b: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int64()
        A = T.match_buffer(a, (n, 64), "float32")
        B = T.match_buffer(b, (n, 64), "float32")
        for f in range(n * 64):
            B[f // 64, f % 64] = A[f // 64, f % 64] * T.float32(2)

    assert "relax.raise" not in body_of(fused)


def test_split_loops_with_a_guard():
    @T.prim_func
    def split(a: T.handle, b: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for io, ii in T.grid((n + 15) // 16, 16):
            if io * 16 + ii < n:
                B[io * 16 + ii] = A[io * 16 + ii] + T.float32(1)

    assert "relax.raise" not in body_of(split)


def test_int32_loops_over_constant_sizes():
    @T.prim_func
    def small(a: T.handle, b: T.handle):
        T.func_attr({"tir.noalias": True})
        A = T.match_buffer(a, (128, 256), "float32")
        B = T.match_buffer(b, (128, 256), "float32")
        for i, jo, ji in T.grid(128, 16, 16):
            B[i, jo * 16 + ji] = A[i, jo * 16 + ji] + T.float32(1)

    assert vectorised(small)


def test_elementwise_results_are_those_of_ieee(kernels):
    """x * y + z outside of a reduction is two roundings, on every machine."""
    x, y, z = (np.random.default_rng(i).normal(size=1000).astype("float32") for i in range(3))
    found = kernels.compute(lambda a, b, c: a * b + c, x, y, z, output="float32")
    np.testing.assert_array_equal(found, x * y + z)
    found = kernels.compute(lambda a, b: a * b - a * b, x, y, output="float32")
    np.testing.assert_array_equal(found, np.zeros(1000))


def test_sums_keep_infinities_and_nan():
    n = te.var("n", "int64")
    a, k = te.placeholder((n,), name="A"), te.reduce_axis((0, n), "k")
    total = codegen.build_module(te.create_prim_func([a, te.compute((), lambda: te.sum(a[k], axis=k))]))["main"]
    out = np.zeros((), "float32")
    for special in (np.inf, -np.inf, np.nan):
        x = np.ones(100, "float32")
        x[57] = special
        total(x, out)
        np.testing.assert_array_equal(out, special)


def test_code_for_another_machine(kernels):
    """Objects can be made for machines this is not; on this one they are refused."""
    func = kernels.elementwise(lambda a: tir.tanh(a), ["float32"], "float32")
    arm = codegen.compile_module({"f": func}, "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1")
    for data in read_archive(arm).objects:
        assert data[:4] == b"\x7fELF"
        assert int.from_bytes(data[18:20], "little") == 183
    mac = codegen.compile_module({"f": func}, "llvm -mtriple=arm64-apple-macosx14")
    assert all(data[:4] == b"\x7fELF" for data in read_archive(mac).objects)
    this = codegen.compile_module({"f": func})
    for data, other in ((this, arm), (arm, this)):
        if parse_object(read_archive(data).objects[0]).machine != host_machine():
            with pytest.raises(ObjectFileError, match="it is for .*, this machine is"):
                load_object(data)
        mixed = write_archive([(read_archive(x).objects[0], (), ()) for x in (data, other)])
        with pytest.raises(ObjectFileError, match="one object is for .*, another for"):
            load_object(mixed)


def test_many_small_kernels_in_one_module(kernels):
    """Each is found by its own name."""
    funcs = {f"k{i}": kernels.elementwise(lambda a, i=i: a + float(i), ["float32"], "float32") for i in range(30)}
    module = codegen.build_module(funcs)
    assert module.functions == tuple(funcs)
    for i in (0, 7, 29):
        out = np.zeros(3, "float32")
        module[f"k{i}"](np.zeros(3, "float32"), out)
        np.testing.assert_array_equal(out, i)
