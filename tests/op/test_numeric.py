"""Operators of numbers in programs: sizes that only the run time knows, seeds, facts about tensors, one worker."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import op
from relax.interpreter import interpret
from relax.ir import DiagnosticError
from relax.script import from_source
from support import PLAIN_LOOPS

HEADER = "@I.ir_module\nclass M:\n    @R.function\n    def main("


def both(parameters, body, *args):
    """The results of a function by the interpreter and compiled, as lists."""
    mod = from_source(f"{HEADER}{parameters}):\n        {body}\n")
    compiled = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"]
    return [[getattr(v, "numpy", lambda v=v: v)() for v in run] for run in (interpret(mod, "main", *args), compiled(*args))]  # fmt: skip


def tensor(*shape, dtype="float32"):
    return relax.Var("x", relax.TensorStructInfo(shape, dtype))


def test_sizes_of_the_run_time():
    body = "return R.eye(n, k=k), R.hann_window(n, True), R.arange(0, n, 2), R.eye(n, 2)"
    for found in both('n: R.Prim("int64"), k: R.Prim("int64")', body, 4, -1):
        np.testing.assert_array_equal(found[0], np.eye(4, k=-1))
        np.testing.assert_allclose(found[1], [0, 0.5, 1, 0.5], atol=1e-7)
        np.testing.assert_array_equal(found[2], [0, 2])
        assert found[3].shape == (4, 2)


def test_negative_sizes():
    for call in (lambda: op.eye(-3), lambda: op.blackman_window(-3, 0)):
        with pytest.raises(DiagnosticError, match="must be ≥ 0, found -3"):
            relax.BlockBuilder().normalize(call())
    mod = from_source(f'{HEADER}n: R.Prim("int64")):\n        return R.eye(n)\n')
    compiled = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"]
    for run in (compiled, lambda n: interpret(mod, "main", n)):
        with pytest.raises(ValueError, match="negative dimension"):
            run(-1)


def test_the_diagonal_may_be_an_expression():
    x = np.arange(12, dtype="float32").reshape(3, 4)
    body = "n = T.int64()\n        m = T.int64()\n        return R.tril(x, m - n), R.triu(x, R.prim_value(1))"
    for lower, upper in both('x: R.Tensor(("n", "m"), "float32")', body, x):
        np.testing.assert_array_equal(lower, np.tril(x, 1))
        np.testing.assert_array_equal(upper, np.triu(x, 1))


def test_masked_fill():
    x = np.arange(3, dtype="int32")
    for (filled,) in both('x: R.Tensor((3,), "int32")', "return (R.masked_fill(x, R.less(x, R.const(1)), 7),)", x):
        assert (filled.dtype, filled.tolist()) == ("int32", [7, 1, 2])


# ---------------------------------------------------------------------------------------------- random numbers


def test_a_seed_says_the_numbers():
    body = "return R.random.uniform(R.shape([50]), s), R.random.uniform(R.shape([50]), s), R.random.normal(R.shape([50]), s)"
    (first, again, _), other = both('s: R.Prim("int64")', body, 3)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, other[0])
    changed, _ = both('s: R.Prim("int64")', body, 4)
    assert not np.intersect1d(first, changed[0]).size


def test_distributions():
    uniform = op.random.uniform((20000,), 1).attrs.reference((20000,), 1)
    assert 0 <= uniform.min() < 0.001 < 0.999 < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.01
    assert abs(uniform.var() - 1 / 12) < 0.002
    assert abs(np.corrcoef(uniform[1:], uniform[:-1])[0, 1]) < 0.03
    normal = op.random.normal((20000,), 1).attrs.reference((20000,), 1)
    assert abs(normal.mean()) < 0.03
    assert abs(normal.var() - 1) < 0.03
    assert abs((np.abs(normal) < 1).mean() - 0.6827) < 0.01


def test_a_fresh_seed_is_an_effect():
    source = "return R.random.seed(), R.random.seed()"
    with pytest.raises(DiagnosticError, match="impure"):
        both("", source)
    mod = from_source(f"{HEADER.replace('R.function', 'R.function(pure=False)')}):\n        {source}\n")
    compiled = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"]
    for run in (compiled, lambda: interpret(mod, "main")):
        first, second = run()
        assert first != second
        assert 0 <= min(first, second)


# ------------------------------------------------------------------------------------------- facts about tensors

FACTS = (
    "return R.inspect.tensor_ndim(x), R.inspect.tensor_dtype_bits(x), R.inspect.tensor_dtype_code(x), "
    "R.inspect.tensor_shape_i(x, axis), R.inspect.tensor_stride_i(x, axis), R.inspect.tensor_byte_offset(x)"
)


@pytest.mark.parametrize("known", ["R.Tensor", 'R.Tensor(("n", 3, "m"), "int16")', 'R.Tensor("int16", ndim=3)'])
def test_facts_about_a_tensor(known):
    x = np.zeros((2, 3, 5), "int16")
    for found in both(f'x: {known}, axis: R.Prim("int64")', FACTS, x, 1):
        assert found == [3, 16, 0, 3, 5, 0]


def test_known_facts_are_expressions():
    x = relax.Var("x", relax.TensorStructInfo((relax.tir.Var("n", "int64"), 3), "float32"))
    n = x.struct_info.shape.values[0]
    builder = relax.BlockBuilder()
    assert builder.normalize(op.inspect.tensor_shape_i(x, 0)).struct_info == relax.PrimStructInfo(value=n)
    assert builder.normalize(op.inspect.tensor_stride_i(x, 0)).struct_info.value.value == 3
    with pytest.raises(DiagnosticError, match="axis 2 is out of range: expected from 0 to 1"):
        op.inspect.tensor_shape_i(x, 2)


def test_an_axis_that_is_not_there():
    mod = from_source(
        f'{HEADER}x: R.Tensor, axis: R.Prim("int64")):\n        return R.inspect.tensor_shape_i(x, axis)\n'
    )
    compiled = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"]
    for run in (compiled, lambda *args: interpret(mod, "main", *args)):
        with pytest.raises(AssertionError, match="axis 1 is out of range"):
            run(np.zeros(3), 1)


# -------------------------------------------------------------------------------------------------- one worker


def test_several_workers():
    """Inference knows them; a kernel for them is refused."""
    builder = relax.BlockBuilder()
    infos = [
        builder.normalize(call).struct_info.shape.values[0].value
        for call in (
            op.ccl.allgather(tensor(4, 2), 2),
            op.ccl.scatter_from_worker0(tensor(4, 2), 2),
            op.distributed.redistribute_replica_to_shard(tensor(4, 2), 2, 0),
        )
    ]
    assert infos == [8, 2, 2]
    with pytest.raises(DiagnosticError, match="dimension 0 is 3, which 2 workers cannot share"):
        op.ccl.scatter_from_worker0(tensor(3, 2), 2)
    with pytest.raises(DiagnosticError, match="num_workers is 2, but a program is run by one worker"):
        both('x: R.Tensor((4,), "float32")', "return (R.ccl.allgather(x, num_workers=2),)", np.zeros(4, "float32"))


@pytest.mark.parametrize(
    ("infos", "expected"),
    [
        (['(2, 3), "float32"', '"float32"', '"float32", ndim=2'], 'R.Tensor(dtype="float32", ndim=2)'),
        (['"float32"', '"float32"', '"float32", ndim=3'], 'R.Tensor(dtype="float32", ndim=3)'),
        (['(), "float32"', '"float32"', '"float32"'], 'R.Tensor(dtype="float32")'),
        (['(), "float32"', '(2, 3), "float32"', '(1, 3), "float32"'], 'R.Tensor((2, 3), dtype="float32")'),
    ],
)
def test_the_rank_of_a_fused_product_is_that_of_any_operand(infos, expected):
    function = from_source(f"""
        @R.function
        def main(a: R.Tensor({infos[0]}), b: R.Tensor({infos[1]}), c: R.Tensor({infos[2]})):
            return R.ewise_fma(a, b, c)
    """)
    assert function.ret_struct_info.script() == expected


# -------------------------------------------------------------------------------------------------- wrong calls


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: op.tril(tensor(3)), "tril: x must be a tensor of at least two dimensions, found 1"),
        (lambda: op.triu(tensor(3, 3), 0.5), "triu: k must be an integer, found float"),
        (lambda: op.eye_like(tensor(3)), "eye_like: x must be a matrix, found 1 dimensions"),
        (lambda: op.quantize(tensor(2, 3), np.ones(2, "float32"), np.zeros((), "int8")), "dimension 1 of data"),
        (lambda: op.quantize(tensor(2), np.ones((), "float32"), np.zeros((), "int8"), out_dtype="int64"), "at most 32"),
        (lambda: op.dequantize(tensor(2), np.ones((), "float32"), np.zeros((), "int8")), "floats of at most 8, found float32"),
        (lambda: op.bucketize(tensor(2), np.zeros((2, 2), "float32")), "boundaries must be of one dimension, found 2"),
        (lambda: op.bucketize(tensor(2), np.zeros(2)), "input_tensor and boundaries must have one dtype"),
        (lambda: op.ewise_fma(tensor(2), tensor(3), tensor(2)), "the shapes cannot be broadcast"),
        (
            lambda: op.ewise_fma(tensor(2, 3), tensor(3), relax.Var("x3", relax.TensorStructInfo(dtype="float32"))),
            "the operands must have one number of dimensions, found: x1 has 2, x2 has 1",
        ),
        (lambda: op.median(tensor(2, 0), 1), "dimension 1 is empty"),
        (lambda: op.cumprod(tensor(2), dtype="bool"), "cumprod: dtype must be a dtype that numbers have, found"),
        (lambda: op.multinomial_from_uniform(tensor(2, 3), tensor(3, 1)), "the same number of rows"),
        (lambda: op.multinomial_from_uniform(tensor(2, 0), tensor(2, 1)), "no classes to draw from"),
        (lambda: op.grad.nll_loss_backward(tensor(2), tensor(4, 3), tensor(4, dtype="int64")), "output_grad must have the shape of the loss"),
        (lambda: op.grad.take_backward(tensor(2), tensor(4, 3), tensor(2, dtype="int64"), 0), "of 2 dimensions, as take"),
    ],
)  # fmt: skip
def test_wrong_calls(call, message):
    with pytest.raises(DiagnosticError, match=message):
        call()


def test_sizes_that_turn_out_wrong():
    """What inference cannot decide, the kernel asserts, and the interpreter too."""
    x = np.zeros((2, 0), "float32")
    mod = from_source(f'{HEADER}x: R.Tensor(("n", "m"), "float32")):\n        return R.median(x, 1)\n')
    compiled = relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS), relax.cpu())["main"]
    for run in (compiled, lambda *args: interpret(mod, "main", *args)):
        with pytest.raises(AssertionError, match="dimension 1 is empty"):
            run(x)
