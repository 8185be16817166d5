"""CommonParts: what many elements share gets a name."""

from __future__ import annotations

import numpy as np

import relax
from relax import tir
from relax.prim import Let, Var
from relax.schedules.common_parts import CommonParts
from relax.script import relax as R
from relax.tir import decl_buffer

MEAN, SCALE = decl_buffer((8,), "float32", "mean"), decl_buffer((), "float32", "scale")
c, total = Var("c", "int64"), Var("total", "float32")


def named(value):
    """The value with names in it, and the parts that they stand for, as text."""
    parts = CommonParts((total,))
    result = parts.visit(value)
    return str(result), [str(part) for _, part in parts.values]


def test_the_largest_parts_that_do_not_vary_have_names():
    value = (total - MEAN[c]) * (tir.exp(MEAN[c] + SCALE[()]) + tir.const(1, "float32"))
    assert named(value) == ("(total - common) * common_1", ["mean[c]", "T.exp(mean[c] + scale[()]) + T.float32(1.0)"])


def test_what_a_value_of_its_own_decides_is_not_common():
    y = Var("y", "float32")
    result, parts = named(Let(y, total + MEAN[c], y * (y / SCALE[()])))
    assert "y / common" in result
    assert parts == ["mean[c]", "scale[()]"]


def test_an_activation_that_reads_its_operand_twice_and_a_scalar():
    """gelu as exporters write it: its constants are tensors of no dimension."""
    rng = np.random.default_rng(0)
    weights, bias = rng.integers(-2, 3, (48, 24, 1, 1)), rng.integers(-2, 3, (1, 48, 1, 1))

    @R.function
    def main(
        x: R.Tensor(("n", 24, "h", "w"), "float32"),
        k: R.Tensor((48, 24, 1, 1), "float32"),
        b: R.Tensor((1, 48, 1, 1), "float32"),
        root: R.Tensor((), "float32"),
    ):
        with R.dataflow():
            y = R.add(R.nn.conv2d(x, k), b)
            z = R.multiply(y, R.add(R.erf(R.divide(y, root)), R.const(1.0, "float32")))
            R.output(z)
        return z

    params = {"k": weights.astype("float32"), "b": bias.astype("float32")}
    vm = relax.VirtualMachine(relax.build(main, params=params), relax.cpu())
    x, root = rng.standard_normal((2, 24, 5, 14)).astype("float32"), np.float32(1.5)
    expected = relax.interpret(relax.IRModule.from_expr(main), "main", x, *params.values(), np.array(root)).numpy()
    np.testing.assert_allclose(vm["main"](x, np.array(root)).numpy(), expected, 1e-4, 1e-4)
