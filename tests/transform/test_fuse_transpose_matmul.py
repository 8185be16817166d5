"""FuseTransposeMatmul: a matrix that a product reads transposed stays where it lies."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.script import from_source
from relax.script import ir as I
from relax.script import relax as R
from relax.transform import FuseTransposeMatmul
from support import agree, numbers


def test_the_product_reads_the_matrix_itself(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("b", "n", 4), "float32"), w: R.Tensor(("m", 4), "float32")):
            with R.dataflow():
                t = R.permute_dims(w)
                y = R.matmul(x, t)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("b", "n", 4), "float32"), w: R.Tensor(("m", 4), "float32")):
            with R.dataflow():
                y = R.einsum((x, w), subscripts="abc,dc->abd")
                R.output(y)
            return y

    check(FuseTransposeMatmul(), Before, Expected)


def program(x, w, product="R.matmul(x, t)", turned="R.permute_dims(w, (1, 0))"):
    return from_source(
        "from relax.script import ir as I, relax as R\n@I.ir_module\nclass M:\n"
        f"    @R.function\n    def main(x: R.Tensor({x}), w: R.Tensor({w})):\n        with R.dataflow():\n"
        f"            t = {turned}\n            y = {product}\n            R.output(y)\n        return y\n"
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(("x", "rank"), [("4,", 1), ('"n", 4', 2), ('2, "n", 4', 3)])
def test_results_are_those_of_the_product(dtype, x, rank):
    mod = program(f'({x}), "{dtype}"', f'("m", 4), "{dtype}"')
    new = FuseTransposeMatmul()(mod)
    assert "R.einsum" in new.script()
    for n, m in ((3, 5), (1, 1), (0, 2), (2, 0)):
        shape = {1: (4,), 2: (n, 4), 3: (2, n, 4)}[rank]
        inputs = [numbers(*shape, dtype=dtype), numbers(m, 4, dtype=dtype)]
        expected = relax.interpret(mod, "main", *inputs).numpy()
        found = relax.interpret(new, "main", *inputs).numpy()
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.astype("float64"), expected.astype("float64"), rtol=1e-6, atol=1e-6)
    inputs = numbers(*{1: (4,), 2: (3, 4), 3: (2, 3, 4)}[rank], dtype=dtype), numbers(5, 4, dtype=dtype)
    agree(new, *inputs, levels=(1, 3) if dtype == "float32" else (1,))


@pytest.mark.parametrize(
    "mod",
    [
        program('("n", 4), "float32"', '(4, "m"), "float32"', turned="R.permute_dims(w, (0, 1))"),
        program('("b", "n", 4), "float32"', '("b", "m", 4), "float32"', turned="R.permute_dims(w, (0, 2, 1))"),
        program('("n", 4), "int32"', '("m", 4), "int32"'),
        program('("n", 4), "float16"', '("m", 4), "float16"', 'R.matmul(x, t, out_dtype="float32")'),
        program('("n", "k"), "float32"', 'ndim=2, dtype="float32"'),
        program('("n", 4), "float32"', '("m", 4), "float32"', "R.add(R.sum(x), R.sum(t))"),
    ],
    ids=["same order", "keys of attention", "integers", "sum in another dtype", "unknown sizes", "no product"],
)
def test_what_is_left_alone(mod):
    assert "R.einsum" not in FuseTransposeMatmul()(mod).script()


def test_the_default_pipeline_computes_no_transposed_matrix():
    mod = program('("n", 64), "float32"', '(96, 64), "float32"')
    lowered = relax.get_pipeline("default")(mod).script()
    assert "transpose" not in lowered
    x, w = numbers(7, 64), numbers(96, 64)
    found = relax.VirtualMachine(relax.build(mod), relax.cpu())["main"](x, w).numpy()
    np.testing.assert_allclose(found, x @ w.T, rtol=1e-5, atol=1e-5)
