"""SplitCallTIRByPattern: packed functions for the beginnings of kernels."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.analysis import assert_well_formed
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import (
    AnnotateTIROpPattern,
    FuseOps,
    FuseTIR,
    LegalizeOps,
    PassContext,
    Sequential,
    SplitCallTIRByPattern,
    VerifyInstrument,
)
from support import PLAIN_LOOPS


@T.prim_func(private=True)
def matmul(a: T.handle, b: T.handle, c: T.handle):
    m, n, l = T.int64(), T.int64(), T.int64()
    x = T.match_buffer(a, (m, l), "float32")
    y = T.match_buffer(b, (l, n), "float32")
    z = T.match_buffer(c, (m, n), "float32")
    for i, j, k in T.grid(m, n, l):
        with T.block("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                z[vi, vj] = T.float32(0)
            z[vi, vj] = z[vi, vj] + x[vi, vk] * y[vk, vj]


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 2), "float32"), b: R.Tensor((2,), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.add(y, b)
            o = R.nn.relu(z)
            R.output(o)
        return o


@I.ir_module
class Product:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 2), "float32")):
        return R.matmul(x, w)


FUSED = Sequential([LegalizeOps(), AnnotateTIROpPattern(), FuseOps(), FuseTIR()])
seen = []


def multiply(x, w, out):
    seen.append(x.shape)
    with np.errstate(invalid="ignore"):
        out.copyfrom(np.einsum("ij,jk->ik", x.numpy(), w.numpy()))


relax.register_func("tests.split.matmul", multiply, override=True)


def fcodegen(matches):
    return ["tests.split.matmul", 1, matches[0].matched_buffers]


def applied(mod, *options):
    """The module after the pass, which keeps its promises, and changes nothing the second time."""
    step = SplitCallTIRByPattern(*options)
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        after = step(mod)
        assert step(after) is after
    return after


def operands(n, *more):
    rng = np.random.default_rng(n)
    x = rng.random((n, 4), "float32")
    x[:1, :2] = np.nan, np.inf
    return x, *(rng.random(shape, "float32") for shape in ((4, 2), *more))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_product_and_the_rest(n):
    after = applied(FUSED(Model), [matmul], fcodegen)
    assert [g.name_hint for g in after.functions] == ["main", "fused_matmul_add_relu_rest"]
    values = operands(n, (2,))
    expected = relax.interpret(Model, "main", *values).numpy()
    main = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS))["main"]
    seen.clear()
    for found in (relax.interpret(after, "main", *values), main(*values)):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    assert [tuple(shape) for shape in seen] == [(n, 4)] * 2


def test_a_kernel_that_is_all_pattern():
    after = applied(FUSED(Product), [matmul], fcodegen)
    assert [g.name_hint for g in after.functions] == ["main"]
    assert 'R.call_dps_packed("tests.split.matmul", (x, w)' in after.script()
    values = operands(3)
    expected = relax.interpret(Product, "main", *values).numpy()
    main = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS))["main"]
    for found in (relax.interpret(after, "main", *values), main(*values)):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_what_a_code_generator_is_told():
    told = []

    def ask(matches):
        told.extend(matches)
        return []

    before = FUSED(Model)
    assert applied(before, [matmul], ask) is before
    (match, *_) = told
    assert match.pattern is matmul
    assert [str(value) for value in match.symbol_values] == ["n", "T.int64(4)", "T.int64(2)"]
    assert [buffer.name for buffer in match.matched_buffers] == ["x", "w", "matmul"]


def test_what_stays():
    @T.prim_func(private=True)
    def square(a: T.handle, b: T.handle, c: T.handle):
        n = T.int64()
        x = T.match_buffer(a, (n, n), "float32")
        y = T.match_buffer(b, (n, n), "float32")
        z = T.match_buffer(c, (n, n), "float32")
        for i, j, k in T.grid(n, n, n):
            with T.block("product"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    z[vi, vj] = T.float32(0)
                z[vi, vj] = z[vi, vj] + x[vi, vk] * y[vk, vj]

    before = FUSED(Model)
    assert applied(before, [square], fcodegen) is before
    assert applied(before, [], fcodegen) is before
    assert applied(Model, [matmul], fcodegen) is Model


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda matches: ["f", 2, ()], "the answer for .* is no name, number of matches and buffers"),
        (lambda matches: ["f", 1, "xy"], "the answer for .* is no name, number of matches and buffers"),
        (lambda matches: [None, 1, ()], "the answer for .* is no name, number of matches and buffers"),
        (lambda matches: ["f", 1, matches[0].matched_buffers[1:]], "is given the buffers w, matmul, not"),
        (lambda matches: ["f", 1, matches[0].matched_buffers[::-1]], "the buffers matmul, w, x, not"),
    ],
)
def test_answers_that_do_not_fit_are_errors(answer, message):
    with pytest.raises(DiagnosticError, match=f"E4016.*{message}"):
        SplitCallTIRByPattern([matmul], answer)(FUSED(Model))
