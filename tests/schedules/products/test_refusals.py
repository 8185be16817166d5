"""Rules for products name the condition that keeps them from a function."""

from __future__ import annotations

import pytest

from relax import te
from relax.codegen import resolve
from relax.schedules import Refusal, cpu
from relax.tir import PrimFunc

AVX512 = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
NO_VECTORS = "llvm -mtriple=riscv64-linux-gnu -mcpu=generic-rv64"


def product(m=64, n=64, k=64, dtype="float32", total=None, left=None, transposed=False, value=None) -> PrimFunc:
    """``C[i, j] = Σ A[i, k] · B[k, j]``, summed in `total`; `value` makes an operand of an element of B."""
    total = total or dtype
    a, b = te.placeholder((m, k), left or dtype, "A"), te.placeholder((n, k) if transposed else (k, n), dtype, "B")
    axis = te.reduce_axis((0, k), "k")

    def term(i, j):
        element = (b[j, axis] if transposed else b[axis, j]).astype(total)
        return te.sum(a[i, axis].astype(total) * (element if value is None else value(element)), axis=axis)

    return te.create_prim_func([a, b, te.compute((m, n), term, "C")])


def elementwise() -> PrimFunc:
    a = te.placeholder((64, 64), name="A")
    return te.create_prim_func([a, te.compute((64, 64), lambda i, j: a[i, j] + a[j, i])])


REFUSALS = [
    # rule, function, positions of constants, sentence
    (cpu.Product, elementwise(), (), "a nest does not sum products"),
    (cpu.Product, product(4, 4, 8), (), "only 128 multiplications, fewer than 8,192"),
    (cpu.Product, product(dtype="int32"), (), "the sum is of int32, its factors of int32"),
    (cpu.Product, product().without_attr("tir.noalias"), (), "parameters may share memory: the function lacks tir.noalias"),
    (cpu.StreamedProduct, product(9), (), "the number of rows is dynamic, or more than 8"),
    (cpu.StreamedProduct, product(4, transposed=True), (), "the right operand is not contiguous along the columns"),
    (cpu.WidenedProduct, product(), (), "the left operand is of float32, as the sum is"),
    (cpu.DotProduct, product(), (), "operands of float32 and float32 are not narrow"),
    (cpu.DotProduct, product(dtype="bfloat16", total="float32"), (), "the target has no dot products of bfloat16 and bfloat16 summed in float32"),
    (cpu.ComputedProduct, product(), (), "no operand is computed"),
    (cpu.ComputedProduct, product(dtype="int8", total="int32", value=lambda b: b * 2), (), "the sum is of int32"),
    (cpu.ComputedProduct, product(4, dtype="int8", left="float32", total="float32", transposed=True), (), "the right operand is not contiguous along the columns, nor shared by 16 rows"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "func", "constants", "sentence"), REFUSALS)
def test_refusals(rule, func, constants, sentence):
    refusal = rule().accepts(func, resolve(AVX512), constants)
    assert isinstance(refusal, Refusal)
    assert str(refusal) == sentence


def test_packing_needs_a_constant_that_nothing_else_reads():
    func, target = product(), resolve(AVX512)
    assert str(cpu.Product().pack(func, target, [0])) == "the right operand is not constant"
    scaled = product(dtype="int8", left="float32", total="float32")
    assert str(cpu.ComputedProduct().pack(scaled, target, [0])) == "the operands that are computed read no constants"
