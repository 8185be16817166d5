"""DotProduct: products of bytes and of bfloat16 by dot products of words, or in the tiles of a machine."""

from __future__ import annotations

import numpy as np
import pytest
from applied import DOTS, TILES, X86, Applied, anything, whole_or_anything

from relax import te, tir
from relax.codegen import build_module, resolve
from relax.schedules import schedule
from relax.schedules.cpu import DotProduct
from relax.schedules.cpu.tile.words import Words

TARGETS = {
    "vpdpbusd": DOTS,
    "pairs of int16": f"{X86} -mcpu=x86-64-v3",
    "sdot": "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76",
    "tiles": TILES,
}


def product(m, k, n, left, right, batch=(), turned_left=False, turned_right=False, behind=None):
    """``C = A @ B`` of narrow numbers, each operand transposed or not, and what is made of each sum."""
    sums = "float32" if left == "bfloat16" else "int32"
    a = te.placeholder((*batch, k, m) if turned_left else (*batch, m, k), left, "A")
    b = te.placeholder((*batch, n, k) if turned_right else (*batch, k, n), right, "B")
    axis = te.reduce_axis((0, k), "k")

    def element(*at):
        *outer, i, j = at
        x = a[(*outer, axis, i) if turned_left else (*outer, i, axis)]
        y = b[(*outer, j, axis) if turned_right else (*outer, axis, j)]
        return te.sum(x.astype(sums) * y.astype(sums), axis=axis)

    c = te.compute((*batch, m, n), element, "C")
    result = c if behind is None else te.compute(c.shape, lambda *at: behind(c[at]), "D")
    return te.create_prim_func([a, b, result])


def check(
    func, target, m, k, n, left, right, batch=(), turned_left=False, turned_right=False, known=False
):  # fmt: skip
    """The rule's function computes the product: in the interpreter, or compiled for this machine."""
    a, b = whole_or_anything((*batch, m, k), left), whole_or_anything((*batch, k, n), right, 1)
    sums = np.float32 if left == "bfloat16" else np.int64
    expected = (a.astype(sums) @ b.astype(sums)).astype("float32" if left == "bfloat16" else "int32")
    a = np.ascontiguousarray(np.swapaxes(a, -1, -2) if turned_left else a)
    b = np.ascontiguousarray(np.swapaxes(b, -1, -2) if turned_right else b)
    Applied(DotProduct(), func, target, known=[1] * known).computes(expected, a, b)


@pytest.mark.parametrize(
    ("name", "left", "right", "known"),
    [
        ("vpdpbusd", "int8", "int8", False),
        ("vpdpbusd", "int8", "int8", True),
        ("sdot", "uint8", "int8", True),
        ("pairs of int16", "int8", "uint8", True),
        ("tiles", "uint8", "uint8", True),
    ],
)
def test_bytes(name, left, right, known):
    """13 rows are three register tiles, 22 columns two vectors, 30 numbers no whole words."""
    check(product(13, 30, 22, left, right), TARGETS[name], 13, 30, 22, left, right, known=known)


@pytest.mark.parametrize(("left", "right"), [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
def test_bytes_on_this_machine(left, right):
    func = product(35, 100, 70, left, right)
    check(func, "llvm", 35, 100, 70, left, right)
    check(func, "llvm", 35, 100, 70, left, right, known=True)


@pytest.mark.parametrize(("name", "known"), [("vpdpbusd", True), ("tiles", False)])
def test_bfloat16(name, known):
    func = product(13, 29, 24, "bfloat16", "bfloat16")
    check(func, TARGETS[name], 13, 29, 24, "bfloat16", "bfloat16", known=known)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_sizes_that_are_not_known(dtype):
    m, k, n = (te.var(name, "int64") for name in "mkn")
    func, target = product(m, k, n, dtype, dtype), resolve("llvm")
    arranged = schedule(func, target, [DotProduct()])
    if arranged is func:
        assert dtype == "bfloat16"  # a machine without its dot products
        return
    compiled = build_module(arranged)["main"]
    for sizes in ((0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (7, 63, 65), (33, 64, 64)):
        a, b = whole_or_anything(sizes[:2], dtype), whole_or_anything(sizes[1:], dtype, 1)
        expected = a.astype("float64") @ b.astype("float64")
        result = np.full((sizes[0], sizes[2]), 77, "float32" if dtype == "bfloat16" else "int32")
        compiled(a, b, result)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("turned_left", "turned_right"), [(True, False), (False, True)])
def test_transposed_operands_and_batches(turned_left, turned_right):
    for batch, dtype in (((), "int8"), ((2,), "uint8")):
        options = {"batch": batch, "turned_left": turned_left, "turned_right": turned_right}
        func = product(9, 70, 40, dtype, "int8", **options)
        check(func, "llvm", 9, 70, 40, dtype, "int8", **options)


def test_what_is_made_of_sums_is_part_of_the_store(target):
    def requantised(total):
        return te.max(te.min(total // 64, 127), -128).astype("int8")

    func = product(5, 64, 40, "uint8", "int8", behind=requantised)
    packed = DotProduct().pack(func, target, [1])
    assert packed is not None
    assert "C = T.alloc_buffer" not in packed.func.script()
    a, b = anything(5, 64, dtype="uint8"), anything(64, 40, dtype="int8", seed=1)
    result = np.zeros((5, 40), "int8")
    tir.interpret(packed.func, a, packed.packings[1](b), result)
    expected = np.clip(a.astype("int64") @ b.astype("int64") // 64, -128, 127)
    np.testing.assert_array_equal(result, expected)


def test_words_and_corrections():
    weights = np.array([[1, -2], [3, 4], [-5, 6], [7, 8], [9, -10]], "int8")
    words = Words("u8s8", -128).packed(weights)
    assert words.dtype == "int32"
    assert words.shape == (3, 2)
    np.testing.assert_array_equal(words[0].view("int8").reshape(2, 4).T, weights[:4])
    np.testing.assert_array_equal(words[1].view("int8").reshape(2, 4), [[9, 0, 0, 0], [-10, 0, 0, 0]])
    np.testing.assert_array_equal(words[2], -128 * weights.sum(0, dtype="int32"))


def test_kinds_of_dot_products():
    def script(left, right, target, k=64):
        return schedule(product(16, k, 64, left, right), resolve(target), [DotProduct()]).script()

    assert "T.dot_u8s8" in script("int8", "int8", TARGETS["vpdpbusd"])
    assert "T.dot_s8s8" in script("int8", "int8", TARGETS["sdot"])
    assert "T.dot_s16s16" in script("int8", "int8", TARGETS["pairs of int16"])
    assert "T.dot_bf16" in script("bfloat16", "bfloat16", TARGETS["vpdpbusd"])
    assert "tile_dot_s8u8" in script("int8", "uint8", TARGETS["tiles"])
    assert "tile_dot" not in script("int8", "int8", TARGETS["tiles"], k=12)  # tiles would be nearly empty


@pytest.mark.parametrize(
    ("left", "right", "name"), [("bfloat16", "bfloat16", "pairs of int16"), ("float16", "float16", "vpdpbusd")]
)
def test_refused(left, right, name):
    func = product(16, 64, 64, left, right) if left == "bfloat16" else _halves()
    assert schedule(func, resolve(TARGETS[name]), [DotProduct()]) is func


def _halves():
    a, b = te.placeholder((16, 64), "float16", "A"), te.placeholder((64, 64), "float16", "B")
    k = te.reduce_axis((0, 64), "k")
    c = te.compute((16, 64), lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k), "C")
    return te.create_prim_func([a, b, c])
