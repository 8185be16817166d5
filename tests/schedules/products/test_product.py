"""Products of two operands that are not constants: panels of the right one are copied first where sevens are worth it."""

from __future__ import annotations

import numpy as np
import pytest
from matrix_products import integers, is_by_sevens, product

import relax
from relax import te, tir
from relax.codegen import build_module, resolve
from relax.runtime import num_threads, set_num_threads
from relax.schedules.cpu import Product
from relax.schedules.cpu.products import product as product_rule
from relax.schedules.cpu.products import strassen
from relax.schedules.cpu.products.strassen import ERROR
from relax.script import ir as I
from relax.script import relax as R
from relax.transform import PassContext


def arranged(func, target, fast=True):
    with PassContext(config={"relax.fast_algorithms": fast}):
        result = Product().apply(func, target, False)
    assert result is not None
    return result


def compiled(m, n, k, fast=True, **options):
    kernel = build_module(arranged(product(m, n, k, **options), resolve("llvm"), fast))["main"]

    def run(a, b, *others):
        result = np.full((m, n), 77, "float32")
        kernel(a, b, *others, result)
        return result

    return run


@pytest.mark.parametrize(("m", "n", "k", "transposed"), [
    (256, 384, 256, False), (384, 300, 300, True), (385, 270, 500, False), (401, 320, 271, True)])  # fmt: skip
@pytest.mark.parametrize("threads", [1, 3])
def test_integers_are_multiplied_exactly(m, n, k, transposed, threads):
    before = num_threads()
    set_num_threads(threads)
    try:
        run = compiled(m, n, k, residual=True, transposed=transposed)
        a, b, bias, r = integers(m, k), integers(k, n), integers(n), integers(m, n)
        result = run(a, np.ascontiguousarray(b.T) if transposed else b, bias, r)
        np.testing.assert_array_equal(result, np.maximum(a @ b + bias, 0) + r)
    finally:
        set_num_threads(before)


@pytest.mark.parametrize(("m", "n", "k", "transposed"), [(24, 128, 32, False), (50, 180, 21, True)])
@pytest.mark.parametrize("even", [True, False])
def test_the_interpreter_computes_the_same(target, monkeypatch, m, n, k, transposed, even):
    """With smaller limits, so that the interpreter need not take long."""
    limits = {
        "LEAST_ROWS": 12, "LEAST_UNEVEN_ROWS": 12, "LEAST_DEPTH": 20, "LEAST_PAIRS": 1, "SLAB": 2,
        "LEAST_TILES": 1, "WASTE": 2,
    }  # fmt: skip
    for name, value in limits.items():
        monkeypatch.setattr(strassen, name, value)
    monkeypatch.setattr(product_rule, "LEAST_ROWS", 12)
    monkeypatch.setattr(product_rule, "LEAST_SHARED", 12)
    func = arranged(product(m, n, k, transposed=transposed), target)
    assert is_by_sevens(func)
    tir.verify_well_formed(func)
    a, b = integers(m, k), integers(k, n)
    if not even:
        b[:, 70] *= 64
    result = np.full((m, n), 77, "float32")
    right = np.ascontiguousarray(b.T) if transposed else b
    tir.interpret(func, a, right, result, reverse_parallel=True)
    np.testing.assert_array_equal(result, a @ b)


def test_the_error_is_within_its_bound():
    generator = np.random.default_rng(1)
    a, b = (generator.standard_normal(shape).astype("float32") for shape in ((384, 512), (512, 256)))
    exact = a.astype("float64") @ b.astype("float64")
    error = np.abs(compiled(384, 256, 512)(a, b) - exact).max()
    assert error <= ERROR * (512 + 18) * 512 * 2**-24 * float(np.abs(a).max()) * float(np.abs(b).max())
    assert error <= 6 * np.abs(compiled(384, 256, 512, fast=False)(a, b) - exact).max()


@pytest.mark.parametrize("scale", [0, 1e-6, 1e6])
@pytest.mark.parametrize("columns", [slice(70, 71), slice(0, 10), slice(0, 256, 2), slice(64, 128)])
def test_columns_that_are_very_different_keep_their_digits(different, columns, scale):
    """What is zero stays zero; a small column beside a large one has the error of a plain sum."""
    generator = np.random.default_rng(1)
    a, b = (generator.standard_normal(shape).astype("float32") for shape in ((384, 256), (256, 256)))
    b[:, columns] *= np.float32(scale)
    exact = a.astype("float64") @ b.astype("float64")
    size = np.abs(a).astype("float64") @ np.abs(b).astype("float64")
    assert (np.abs(different(a, b) - exact) <= 16 * 2**-24 * size).all()


@pytest.fixture(scope="module")
def different():
    return compiled(384, 256, 256)


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("which", [0, 1])
def test_what_is_not_finite_stays_in_its_row_or_column(different, value, which):
    a, b = integers(384, 256), integers(256, 256)
    (a, b)[which][30, 200] = value
    expected = compiled(384, 256, 256, fast=False)(a, b)
    assert np.isfinite(np.delete(expected, *((30, 0) if which == 0 else (200, 1)))).all()
    np.testing.assert_array_equal(different(a, b), expected)


@pytest.mark.parametrize(
    ("m", "n", "k", "dtype"),
    [
        (255, 512, 512, "float32"),  # so few rows that copies take longer than they save
        (te.var("m", "int64"), 512, 512, "float32"),  # it may have few rows
        (512, 128, 512, "float32"),  # two panels
        (512, 512, 128, "float32"),  # shallow
        (512, 512, 512, "float64"),
    ],
)
def test_products_for_which_it_does_not_pay(target, m, n, k, dtype):
    assert not is_by_sevens(arranged(product(m, n, k, dtype=dtype), target))


def test_the_option_turns_it_off(target):
    assert is_by_sevens(arranged(product(512, 512, 512), target))
    assert not is_by_sevens(arranged(product(512, 512, 512), target, fast=False))


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_a_matrix_is_multiplied_by_itself(mode):
    """One tensor is both operands."""

    @I.ir_module
    class Square:
        @R.function
        def main(x: R.Tensor((300, 300), "float32")):
            y = R.matmul(x, x)
            return y

    x = integers(300, 300)
    vm = relax.VirtualMachine(relax.build(Square, "llvm", exec_mode=mode), relax.cpu())
    np.testing.assert_array_equal(vm["main"](x).numpy(), x @ x)


@pytest.mark.parametrize(("m", "n"), [(256, 256), (383, 383), (384, 256), (256, 384)])
@pytest.mark.parametrize("cores", [1, 2])
def test_cores_share_copies_of_wide_or_tall_products_only(monkeypatch, m, n, cores):
    monkeypatch.setattr(product_rule, "LEAST_ROWS", 128)  # whatever the size of that machine's last cache
    func = arranged(product(m, n, 256), resolve(f"llvm -mcpu=skylake-avx512 -num-cores={cores}"))
    assert is_by_sevens(func) == (cores == 1 or max(m, n) >= 384)
