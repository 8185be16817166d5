"""Sequences and optional values: known at import where lengths and positions are, else objects of the run time."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.reference
import pytest

import relax
from relax.frontend.onnx import from_onnx
from support import PLAIN_LOOPS


def rows(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


def seq(*lengths: int) -> list[np.ndarray]:
    return [rows(length) + length for length in lengths]


def test_a_sequence_of_known_length_leaves_no_trace(agrees):
    text = """
    agraph (float[N] x, float[M] y) => (float[K] z, int64 n) <int64 one = {1}, int64 last = {-1}> {
      s = SequenceConstruct(x, y)
      t = SequenceInsert(s, x, one)
      u = SequenceErase(t, last)
      a = SequenceAt(u, one)
      b = ConcatFromSequence<axis=0>(t)
      z = Concat<axis=0>(a, b)
      n = SequenceLength(u)
    }"""
    mod = agrees(text, *((rows(n), rows(m)) for n, m in ((0, 1), (2, 3))))
    assert "relax.run" not in mod.script()


def test_a_sequence_that_is_split_off_is_an_output(agrees):
    text = """
    agraph (float[5, N] x) => (seq(float[A, B]) s, seq(float[B]) t) <int64 two = {2}> {
      s = SplitToSequence<axis=0>(x, two)
      t = SplitToSequence<axis=0, keepdims=0>(x)
    }"""
    mod = agrees(text, rows(5, 1), rows(5, 3))
    assert len(mod["main"].ret_struct_info.fields[0].fields) == 3


RUN_TIME = """
    agraph (seq(float[N]) s, float[M] x, int64 p) => (seq(float[N]) t, float[K] item, int64 n, float[L] all, seq(float[N]) u) {
      t = SequenceInsert(s, x, p)
      item = SequenceAt(t, p)
      n = SequenceLength(t)
      all = ConcatFromSequence<axis=0>(t)
      u = SequenceErase(t)
    }"""


def test_sequences_of_the_run_time(agrees):
    calls = [(seq(3, 2), rows(1), 0), (seq(3, 2), rows(4), 2), (seq(3, 2), rows(4), -1), ([], rows(2), 0)]
    agrees(RUN_TIME, *((s, x, np.array(p)) for s, x, p in calls))


def test_a_position_that_there_is_not_is_an_error_of_the_run():
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]>\n{RUN_TIME}')
    vm = relax.VirtualMachine(relax.build(from_onnx(model), PLAIN_LOOPS), relax.cpu())
    with pytest.raises(IndexError, match="sequence_insert: position 3 is out of range for a sequence of 2"):
        vm["main"](seq(1, 2), rows(1), np.array(3))


def test_the_interpreter_runs_sequences():
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]>\n{RUN_TIME}')
    results = relax.interpret(from_onnx(model), "main", seq(3, 2), rows(1), np.array(1))
    assert [item.numpy().shape for item in results[0]] == [(3,), (1,), (2,)]
    assert results[3].numpy().shape == (6,)


def test_a_tensor_split_into_as_many_parts_as_the_data_tell(agrees):
    text = """
    agraph (float[N, 2] x, int64[P] sizes) => (seq(float[A, 2]) s, seq(float[2]) t) {
      s = SplitToSequence<axis=0>(x, sizes)
      t = SplitToSequence<axis=0, keepdims=0>(x)
    }"""
    agrees(text, *((rows(sum(p), 2), np.array(p)) for p in ([1, 2], [3], [2, 2, 0])))


def test_a_loop_that_collects_a_sequence(agrees):
    text = """
    agraph (float[N] x, int64 m) => (seq(float[K]) s) <bool k = {1}> {
      e = SequenceEmpty()
      s, y = Loop (m, k, e, x) <body = b (int64 i, bool ci, seq(float[P]) q, float[P] v)
          => (bool co, seq(float[P]) qo, float[Q] vo) {
        co = Identity(ci)
        vo = Concat<axis = 0>(v, x)
        qo = SequenceInsert(q, v) }>
    }"""
    agrees(text, *((rows(n), np.array(m)) for n in (1, 3) for m in (0, 1, 4)))


def test_a_map_over_a_sequence_of_the_run_time():
    text = """
    agraph (seq(float[N]) s, float x) => (seq(float[N]) t, seq(int64[1]) sizes) {
      t, sizes = SequenceMap (s, x) <body = b (float[N] a, float c) => (float[N] d, int64[1] e) {
        d = Add(a, c)
        e = Shape(a) }>
    }"""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]>\n{text}')
    vm = relax.VirtualMachine(relax.build(from_onnx(model), PLAIN_LOOPS), relax.cpu())
    reference = onnx.reference.ReferenceEvaluator(model)
    for items in (seq(2, 0, 3), seq(1)):
        found = vm["main"](items, np.array(1.5, "float32"))
        expected = reference.run(None, {"s": items, "x": np.array(1.5, "float32")})
        for part, right in zip(found, expected, strict=True):
            assert [item.numpy().tolist() for item in part] == [item.tolist() for item in right]


def test_branches_that_give_sequences(agrees):
    text = """
    agraph (float[N] x, bool c) => (seq(float[K]) y, int64 n) {
      y = If (c) <then_branch = g1 () => (seq(float[P]) a) { a = SequenceConstruct(x, x) },
                  else_branch = g2 () => (seq(float[P]) b) { b = SequenceConstruct(x) }>
      n = SequenceLength(y)
    }"""
    agrees(text, *((rows(n), np.array(c)) for n in (1, 3) for c in (True, False)))


def test_an_optional_input_may_be_none():
    text = """
    agraph (optional(float[N]) x) => (bool there, float[K] y) {
      there = OptionalHasElement(x)
      y = If (there) <then_branch = g1 () => (float[P] a) { v = OptionalGetElement(x)
                                                            a = Neg(v) },
                      else_branch = g2 () => (float[P] b) { b = Constant<value_floats = [7.0]>() }>
    }"""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]>\n{text}')
    vm = relax.VirtualMachine(relax.build(from_onnx(model), PLAIN_LOOPS), relax.cpu())
    there, y = vm["main"](rows(3))
    assert there.numpy().item() is True
    assert y.numpy().tolist() == [0, -1, -2]
    there, y = vm["main"](None)
    assert there.numpy().item() is False
    assert y.numpy().tolist() == [7]


def test_an_optional_value_that_is_known_leaves_no_trace(agrees):
    text = """
    agraph (float[N] x) => (float[N] y) {
      o = Optional(x)
      c = OptionalHasElement(o)
      y = If (c) <then_branch = g1 () => (float[N] a) { a = OptionalGetElement(o) },
                  else_branch = g2 () => (float[N] b) { b = Neg(x) }>
    }"""
    assert "relax.run" not in agrees(text, rows(2)).script()


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("y = SequenceAt(s, two)", "position 2 is out of range for a sequence of 1"),
        ("y = Neg(s)", "x must be a tensor, found a sequence"),
        ("e = SequenceEmpty()\n y = ConcatFromSequence<axis=0>(e)", "it joins a sequence without items"),
    ],
)
def test_what_is_wrong_with_a_sequence_is_said_at_import(imported, nodes, message):
    with pytest.raises(relax.DiagnosticError, match=message):
        imported(f"agraph (float[N] x) => (float[N] y) <int64 two = {{2}}> {{ s = SequenceConstruct(x)\n {nodes} }}")
