"""Products by OpenBLAS."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import relax
from relax.backend.openblas import partition_for_openblas
from relax.runtime import Executable, ExecutableError
from relax.runtime.libraries.openblas import multiply
from relax.runtime.modules import Module
from relax.script import from_source
from support import numbers


def parse(params, *body):
    """A program with one dataflow block."""
    lines = "\n".join(f"            {line}" for line in body)
    return from_source(
        "from relax.script import ir as I, relax as R, tir as T\n@I.ir_module\nclass M:\n    @R.function\n"
        f"    def main({params}):\n        with R.dataflow():\n{lines}\n            R.output(y)\n        return y\n"
    )


CASES = {
    "matrix": ('a: R.Tensor(("m", "k"), "D"), b: R.Tensor(("k", "n"), "D")', "R.matmul(a, b)", "mk", "kn"),
    "rows": ('a: R.Tensor(("p", "m", "k"), "D"), b: R.Tensor(("k", "n"), "D")', "R.matmul(a, b)", "pmk", "kn"),
    "batches": ('a: R.Tensor(("p", "m", "k"), "D"), b: R.Tensor(("p", "k", "n"), "D")', "R.matmul(a, b)", "pmk", "pkn"),
    "transposed": (
        'a: R.Tensor(("m", "k"), "D"), b: R.Tensor(("n", "k"), "D")', "R.matmul(a, R.permute_dims(b))", "mk", "nk",
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_products(name, dtype):
    params, call, left, right = CASES[name]
    mod = parse(params.replace("D", dtype), f"y = {call}")
    split = partition_for_openblas(mod)
    executable = Executable.from_bytes(relax.build(split).to_bytes())
    assert [module.kind for module in executable.modules] == ["openblas"]
    run = relax.VirtualMachine(executable)["main"]
    for sizes in [{"m": 3, "k": 4, "n": 5, "p": 2}, {"m": 1, "k": 1, "n": 1, "p": 1}, {"m": 3, "k": 0, "n": 2, "p": 2},
                  {"m": 0, "k": 2, "n": 2, "p": 0}]:  # fmt: skip
        a = numbers(*(sizes[axis] for axis in left), dtype=dtype)
        b = numbers(*(sizes[axis] for axis in right), dtype=dtype, seed=1)
        if a.size:
            a.flat[0] = np.nan
        expected = relax.interpret(mod, "main", a, b).numpy()
        np.testing.assert_allclose(run(a, b).numpy(), expected, 1e-5)
        np.testing.assert_allclose(relax.interpret(split, "main", a, b).numpy(), expected, 1e-5)


@pytest.mark.parametrize(
    ("params", "call"),
    [
        ('a: R.Tensor((2, 2), "float16"), b: R.Tensor((2, 2), "float16")', "R.matmul(a, b)"),
        ('a: R.Tensor((2, 2), "int8"), b: R.Tensor((2, 2), "int8")', 'R.matmul(a, b, out_dtype="int32")'),
        ('a: R.Tensor((2,), "float32"), b: R.Tensor((2, 2), "float32")', "R.matmul(a, b)"),
        ('a: R.Tensor((3, 2, 2), "float32"), b: R.Tensor((1, 2, 2), "float32")', "R.matmul(a, b)"),
        ('a: R.Tensor(("p", 2, 2), "float32"), b: R.Tensor(("q", 2, 2), "float32")', "R.matmul(a, b)"),
        ('a: R.Tensor(ndim=2, dtype="float32"), b: R.Tensor((2, 2), "float32")', "R.matmul(a, b)"),
    ],
)
def test_what_it_does_not_compute_stays(params, call):
    mod = parse(params, f"y = {call}")
    assert partition_for_openblas(mod) is mod


def test_a_transposition_that_swaps_nothing_stays_outside():
    mod = parse('a: R.Tensor((2, 2), "float32")', "y = R.matmul(a, R.permute_dims(a, [0, 1]))")
    a = numbers(2, 2)
    run = relax.VirtualMachine(relax.build(partition_for_openblas(mod)))["main"]
    np.testing.assert_allclose(run(a).numpy(), a @ a, 1e-5)


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy_openblas64", None)
    monkeypatch.setattr(
        "relax.runtime.libraries.openblas._library", relax.runtime.libraries.openblas._library.__wrapped__
    )
    with pytest.raises(ExecutableError, match="it needs the library scipy_openblas64: pip install scipy-openblas64"):
        Module("openblas", b"{}", ("f",)).functions()


@pytest.mark.parametrize(
    ("a", "b", "transposed"),
    [
        ((2, 3), (4, 5), False),
        ((2, 3), (3, 5), True),
        ((3,), (3, 5), False),
        ((2, 2, 3), (1, 3, 5), False),
        ((2, 3), (2, 3, 5), False),
    ],
)
def test_shapes_that_have_no_product(a, b, transposed):
    """A graph that somebody else wrote may say anything; the library would read beyond an array."""
    with pytest.raises(ValueError, match="the shapes .* have no product without broadcasting"):
        multiply(numbers(*a), numbers(*b), transposed)


def test_dtypes_and_strides():
    with pytest.raises(ValueError, match="a product of float32 and float64, expected two of float32 or of float64"):
        multiply(numbers(2, 3), numbers(3, 2, dtype="float64"))
    with pytest.raises(ValueError, match="a product of int32 and int32"):
        multiply(numbers(2, 3, dtype="int32"), numbers(3, 2, dtype="int32"))
    a, b = numbers(6, 4)[::2, ::2], numbers(5, 2).T
    np.testing.assert_allclose(multiply(a, b), a @ b, 1e-6)
