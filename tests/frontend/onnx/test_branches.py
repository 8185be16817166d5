"""Branches whose nodes do not fit their inputs raise when they run; they do not refuse the model."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import relax
from relax.frontend.onnx import from_onnx
from support import MODES, numbers, plain_machine

from .conftest import parse

BY_RATE = """
    agraph (float[N, 6] x, int64 rate) => (float[N, K] y)
    <int64 high = {16000}, float[6, 2] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2}, float[4, 2] v = {1, 2, 3, 4, 5, 6, 7, 8}> {
      c = Equal(rate, high)
      y = If (c) <then_branch = g1 () => (float[N, K] a) { a = MatMul(x, w) },
                  else_branch = g2 () => (float[N, K] b) { h = Neg(x)
                    b = MatMul(h, v) }>
    }"""
"""The second branch has weights for windows of 4."""

MESSAGE = "matmul: the reduced dimensions differ (E3102)"


@pytest.mark.parametrize("mode", MODES)
def test_a_branch_that_does_not_fit_raises_when_it_runs(imported, mode: str):
    mod = imported(BY_RATE)
    vm = plain_machine(mod, mode)
    x = np.arange(12, dtype="float32").reshape(2, 6)
    reference = ReferenceEvaluator(parse(BY_RATE))  # ONNX Runtime refuses the model
    high, low = np.array(16000), np.array(8000)
    (right,) = reference.run(None, {"x": x, "rate": high})
    np.testing.assert_allclose(vm["main"](x, high).numpy(), right, 1e-5)
    np.testing.assert_allclose(relax.interpret(mod, "main", x, high).numpy(), right, 1e-5)
    for call in (vm["main"], lambda *args: relax.interpret(mod, "main", *args)):
        with pytest.raises(ValueError, match=f"^{re.escape(MESSAGE)}\n") as error:
            call(x, low)
        assert "last dimension 6" in str(error.value)
        if sys.version_info >= (3, 11):
            assert 'model: MatMul "b":2:1' in error.value.__notes__[0]


def test_the_result_has_the_struct_info_of_the_other_branch(imported):
    assert str(imported(BY_RATE)["main"].ret_struct_info) == 'R.Tensor((N, 2), dtype="float32")'


def test_a_model_is_refused_if_both_branches_do_not_fit(imported):
    with pytest.raises(relax.DiagnosticError) as error:
        imported(BY_RATE.replace("MatMul(x, w)", "MatMul(x, v)"))
    codes = [(d.code, d.span.source.name) for d in error.value.diagnostics]
    assert codes == [("E3102", 'model: MatMul "a"'), ("E3102", 'model: MatMul "b"')]


def test_a_model_is_refused_if_its_condition_selects_the_branch_that_does_not_fit(imported):
    with pytest.raises(relax.DiagnosticError, match="the reduced dimensions differ"):
        imported(BY_RATE, values={"rate": 8000})
    assert "fail" not in imported(BY_RATE, values={"rate": 16000}).script()


def test_an_outer_branch_does_not_fit_if_both_inner_ones_do_not(imported):
    text = BY_RATE.replace(
        "b = MatMul(h, v) }>",
        """d = ReduceMax<keepdims = 0>(h)
           e = Cast<to = 9>(d)
           b = If (e) <then_branch = g3 () => (float[N, K] p) { p = MatMul(h, v) },
                       else_branch = g4 () => (float[N, K] q) { q = MatMul(x, v) }> }>""",
    )
    script = imported(text).script()
    assert script.count("relax.run.fail") == 1
    assert script.count("if ") == 1


def test_two_outputs_of_a_branch_that_does_not_fit(imported):
    text = """
    agraph (float[N, 6] x, bool c) => (float[N, 6] y, int64[2] s) <float[4, 6] v = {1.0}> {
      y, s = If (c) <then_branch = g1 () => (float[N, 6] a, int64[2] a2) { a = Exp(x)
                       a2 = Shape(x) },
                     else_branch = g2 () => (float[N, 6] b, int64[2] b2) { b = Add(x, v)
                       b2 = Shape(b)}>
    }""".replace("{1.0}", "{" + ", ".join("1" * 24) + "}").replace("[N, 6] x", "[3, 6] x")
    mod = imported(text)
    x = np.zeros((3, 6), "float32")
    y, s = plain_machine(mod)["main"](x, np.array(True))
    assert (y.numpy().tolist(), s.numpy().tolist()) == (np.ones((3, 6)).tolist(), [3, 6])
    with pytest.raises(ValueError, match="add: "):
        plain_machine(mod)["main"](x, np.array(False))


UNSUPPORTED = BY_RATE.replace("b = MatMul(h, v)", "b = Mystery(h)")


def test_an_operator_that_is_not_supported_refuses_the_model_unless_its_branch_is_never_read(imported):
    with pytest.raises(relax.DiagnosticError, match="the operator Mystery is not supported"):
        imported(UNSUPPORTED)
    with pytest.raises(relax.DiagnosticError, match="the operator Mystery is not supported"):
        imported(UNSUPPORTED, values={"rate": 8000})
    assert "matmul" in imported(UNSUPPORTED, values={"rate": 16000}).script()


def test_all_operators_that_are_not_supported_are_listed(imported):
    text = UNSUPPORTED.replace("c = Equal", "o = Riddle(x)\n c = Equal")
    with pytest.raises(relax.DiagnosticError) as error:
        imported(text)
    assert [d.message.split()[2] for d in error.value.diagnostics] == ["Riddle", "Mystery"]


def test_a_branch_with_a_size_condition(agrees):
    """Reshape to 2 columns fits where the condition holds; the other branch needs no check."""
    text = """
    agraph (float[N] x) => (float[A, B] y) <int64 four = {4}, int64[2] square = {2, 2}, int64 zero = {0}, int64[2] row = {1, -1}> {
      s = Shape(x)
      n = Gather(s, zero)
      c = Equal(n, four)
      y = If (c) <then_branch = g1 () => (float[2, 2] a) { a = Reshape(x, square) },
                  else_branch = g2 () => (float[1, N] b) { b = Reshape(x, row) }>
    }"""
    mod = agrees(text, *({"x": np.arange(n, dtype="float32")} for n in (3, 4, 5)))
    assert "if R.prim_value(N == 4):" in mod.script()


def test_values_leave_no_error_of_the_other_rate():
    model = parse(BY_RATE)
    assert "fail" not in from_onnx(model, values={"rate": np.int64(16000)}).script()


def literal(name: str, *shape: int) -> str:
    """An initializer with seeded random numbers."""
    values = ", ".join(f"{v:.3f}" for v in numbers(*shape, seed=sum(map(ord, name))).flat)
    return f"float{list(shape)} {name} = {{{values}}}"


def detector(rate: str, window: int) -> str:
    """A branch like those of silero-vad: features of a window, squeezed where there is one, and a recurrent layer."""
    return f"""b{rate} () => (float[A, B, C, D] y{rate}) {{
        u{rate} = Unsqueeze(x, at1)
        f{rate} = Conv<strides = [{window}]>(u{rate}, k{window})
        s{rate} = Shape(f{rate})
        n{rate} = Gather(s{rate}, two)
        c{rate} = Equal(n{rate}, one)
        q{rate} = If (c{rate}) <then_branch = p{rate} () => (float[N, 4] a{rate}) {{ a{rate} = Squeeze(f{rate}, last) }},
                               else_branch = o{rate} () => (float[N, 4, F] d{rate}) {{ d{rate} = Identity(f{rate}) }}>
        r{rate} = Shape(q{rate})
        z{rate} = Size(r{rate})
        e{rate} = Equal(z{rate}, two)
        t{rate} = If (e{rate}) <then_branch = v{rate} () => (float[1, N, 4] g{rate}) {{ g{rate} = Unsqueeze(q{rate}, at0) }},
                               else_branch = w{rate} () => (float[N, 4, F] h{rate}) {{ h{rate} = Identity(q{rate}) }}>
        y{rate} = LSTM<hidden_size = 3>(t{rate}, weights, recurrence) }}"""


DETECTOR = f"""
    agraph (float[N, L] x, int64 rate) => (float[A, B, C, D] y)
    <int64 high = {{16000}}, int64 one = {{1}}, int64 two = {{2}}, int64[1] at0 = {{0}}, int64[1] at1 = {{1}}, int64[1] last = {{-1}},
     {literal("k8", 4, 1, 8)}, {literal("k4", 4, 1, 4)}, {literal("weights", 1, 12, 4)}, {literal("recurrence", 1, 12, 3)}> {{
      c = Equal(rate, high)
      y = If (c) <then_branch = {detector("high", 8)}, else_branch = {detector("low", 4)}>
    }}"""


def test_a_voice_detector_is_imported_with_static_and_dynamic_sizes(imported):
    reference = ReferenceEvaluator(parse(DETECTOR))
    high, low = np.array(16000), np.array(8000)
    fixed = plain_machine(imported(DETECTOR, shape_dict={"x": [1, 8]}))["main"]
    dynamic = plain_machine(imported(DETECTOR))["main"]
    chosen = plain_machine(imported(DETECTOR, values={"rate": 8000}))["main"]
    for batch, rate, window in ((1, high, 8), (2, high, 8), (1, low, 4), (3, low, 4)):
        x = numbers(batch, window)
        (right,) = reference.run(None, {"x": x, "rate": rate})
        np.testing.assert_allclose(dynamic(x, rate).numpy(), right, 1e-5)
        if x.shape == (1, 8):
            np.testing.assert_allclose(fixed(x, rate).numpy(), right, 1e-5)
        if rate is low:
            np.testing.assert_allclose(chosen(x).numpy(), right, 1e-5)
    with pytest.raises(ValueError, match=r"^nn.lstm: .*E3102"):
        fixed(numbers(1, 8), low)
    with pytest.raises(relax.DiagnosticError, match="lstm"):
        imported(DETECTOR, shape_dict={"x": [1, 8]}, values={"rate": 8000})
