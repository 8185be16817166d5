"""If, Loop and Scan: imported as control flow with captures, and equal to ONNX Runtime at several sizes from one build."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import relax
from support import PLAIN_LOOPS


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, "float32")


def scalar(value: int | bool) -> np.ndarray:
    return np.array(value)


def test_if_takes_one_branch(agrees):
    text = """
    agraph (float[N, 4] x, bool c) => (float[N, 4] y, float[N, 4] z) {
      e = Exp(x)
      y, z = If (c) <
        then_branch = g1 () => (float[N, 4] a, float[N, 4] a2) { a = Add(x, e)
          a2 = Neg(a) },
        else_branch = g2 () => (float[N, 4] b, float[N, 4] b2) { b = Neg(x)
          b2 = Identity(e) }>
    }"""
    mod = agrees(text, *({"x": ones(n, 4), "c": scalar(c)} for n in (0, 1, 3) for c in (True, False)))
    assert "if c:" in mod.script()


def test_branches_of_different_sizes_give_a_size_that_the_run_tells(agrees):
    text = """
    agraph (float[N] x, bool c) => (float[M] y, float[M] z) {
      y = If (c) <then_branch = g1 () => (float[P] a) { a = Concat<axis=0>(x, x) },
                  else_branch = g2 () => (float[N] b) { b = Neg(x) }>
      z = Add(y, y)
    }"""
    agrees(text, *({"x": ones(n), "c": scalar(c)} for n in (0, 1, 3) for c in (True, False)))


def test_branches_of_different_ranks(agrees):
    """scikit-learn's KNNImputer is exported so: one of its branches has a dimension more."""
    text = """
    agraph (float[N, 4] x, bool c) => (int64[M] s) <int64[1] at = {0}> {
      y = If (c) <then_branch = g1 () => (float[] a) { a = Unsqueeze(x, at) },
                  else_branch = g2 () => (float[] b) { b = Neg(x) }>
      s = Shape(y)
    }"""
    agrees(text, *({"x": ones(n, 4), "c": scalar(c)} for n in (1, 3) for c in (True, False)))


def test_a_condition_that_is_known_leaves_one_branch(agrees):
    text = """
    agraph (float[N, 4] x) => (float[N, 4] y) {
      s = Shape(x)
      n = Gather<axis=0>(s, one)
      c = Equal(n, four)
      y = If (c) <then_branch = g1 () => (float[N, 4] a) { a = Exp(x) },
                  else_branch = g2 () => (float[N, 4] b) { b = Neg(x) }>
    }""".replace("=> (float[N, 4] y)", "=> (float[N, 4] y) <int64 one = {1}, int64 four = {4}>", 1)
    assert "if " not in agrees(text, {"x": ones(2, 4)}).script()


COUNTED = """
    agraph (float[N] x, int64 m) => (float[N] y, float[T, N] s) <bool k = {1}> {
      y, s = Loop (m, k, x) <body = b (int64 i, bool ci, float[N] v) => (bool co, float[N] vo, float[N] so) {
        co = Identity(ci)
        f = Cast<to = 1>(i)
        w = Add(v, x)
        vo = Mul(w, f)
        so = Neg(vo) }>
    }"""


def test_a_counted_loop_with_an_output_of_every_iteration(agrees):
    calls = [{"x": ones(n), "m": scalar(m)} for n in (0, 1, 3) for m in (1, 5)]
    mod = agrees(COUNTED, *calls)
    assert "if R.prim_value(i <" in mod.script()


def test_a_trip_count_that_is_a_size_is_the_length_of_the_output(agrees):
    text = COUNTED.replace("int64 m)", "float[T, 2] z)").replace(
        "y, s = Loop", "d = Shape(z)\n m = Gather(d, zero)\n y, s = Loop"
    )
    text = text.replace("<bool k = {1}>", "<bool k = {1}, int64 zero = {0}>")
    mod = agrees(text, *({"x": ones(3), "z": ones(t, 2)} for t in (1, 2, 7)))
    size = mod["main"].params[1].struct_info.dims[0]
    assert mod["main"].ret_struct_info.fields[1].dims[0] is size


def test_a_loop_until_a_condition_fails(agrees):
    text = """
    agraph (float x) => (float y, int64 n) <bool k = {1}, int64 zero = {0}, int64 one = {1}, float hundred = {100}> {
      y, n = Loop ( , k, x, zero) <body = b (int64 i, bool ci, float v, int64 c) => (bool co, float vo, int64 d) {
        vo = Add(v, v)
        d = Add(c, one)
        co = Less(vo, hundred) }>
    }"""
    agrees(text, *({"x": np.array(x, "float32")} for x in (1.0, 40.0, 99.0, 1000.0)))


def test_a_state_that_grows(agrees):
    text = """
    agraph (float[N] x, int64 m) => (float[M] y) <bool k = {1}> {
      y = Loop (m, k, x) <body = b (int64 i, bool ci, float[K] v) => (bool co, float[L] vo) {
        co = Identity(ci)
        vo = Concat<axis = 0>(v, x) }>
    }"""
    agrees(text, *({"x": ones(n), "m": scalar(m)} for n in (1, 3) for m in (0, 1, 4)))


def test_a_loop_in_a_loop(agrees):
    text = """
    agraph (float[N] x, int64 m) => (float[N] y) <bool k = {1}> {
      y = Loop (m, k, x) <body = b (int64 i, bool ci, float[N] v) => (bool co, float[N] vo) {
        co = Identity(ci)
        vo = Loop (m, ci, v) <body = c (int64 j, bool cj, float[N] w) => (bool cjo, float[N] wo) {
          cjo = Identity(cj)
          wo = Add(w, x) }> }>
    }"""
    agrees(text, *({"x": ones(2), "m": scalar(m)} for m in (0, 1, 3)))


SCAN = """
    agraph (float[T, N] x, float[N] s) => (float[N] y, float[A, B] z) {
      y, z = Scan (s, x) <num_scan_inputs = 1 OPTIONS, body = b (float[N] a, float[N] e) => (float[N] ao, float[N] so) {
        ao = Add(a, e)
        so = Identity(ao) }>
    }"""


@pytest.mark.parametrize(
    "options", ["", ", scan_input_directions = [1]", ", scan_output_directions = [1]", ", scan_output_axes = [1]"]
)
def test_scan(agrees, options: str):
    values = [np.arange(3 * t, dtype="float32").reshape(t, 3) for t in (1, 2, 5)]
    agrees(SCAN.replace("OPTIONS", options), *({"x": x, "s": np.zeros(3, "float32")} for x in values))


def test_scan_along_another_axis(agrees):
    text = SCAN.replace("OPTIONS", ", scan_input_axes = [1]").replace("float[T, N] x", "float[N, T] x")
    agrees(text, *({"x": np.arange(3 * t, dtype="float32").reshape(3, t), "s": ones(3)} for t in (1, 4)))


def test_scan_of_each_row_of_a_batch(agrees):
    text = """
    agraph (float[B, N] s, float[B, T, N] x) => (float[B, N] y, float[B, T, N] z) {
      y, z = Scan ( , s, x) <num_scan_inputs = 1, directions = [1], body = b (float[N] a, float[N] e)
          => (float[N] ao, float[N] so) {
        ao = Add(a, e)
        so = Identity(ao) }>
    }"""
    data = [np.arange(b * t * 2, dtype="float32").reshape(b, t, 2) for b, t in ((1, 3), (2, 1), (3, 2))]
    agrees(text, *((x[:, 0] * 0, x) for x in data), opset=8)


OUTPUT_OF_ANY_SIZE = """
    agraph (float[N] x, int64 m, bool[N] mask) => (float[M] y, float[T, L] s) <bool k = {1}> {
      y, s = Loop (m, k, x) <body = b (int64 i, bool ci, float[K] v) => (bool co, float[L] vo, float[L] so) {
        co = Identity(ci)
        vo = Compress<axis = 0>(v, mask)
        so = Neg(vo) }>
    }"""


def test_an_output_whose_size_each_iteration_tells(agrees):
    calls = [{"x": ones(n), "m": scalar(m), "mask": np.ones(n, bool)} for n, m in ((3, 1), (2, 4))]
    agrees(OUTPUT_OF_ANY_SIZE, *calls)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take notes from Python 3.11 on")
def test_outputs_of_several_sizes_are_an_error_of_the_run(imported):
    text = OUTPUT_OF_ANY_SIZE.replace("Compress<axis = 0>(v, mask)", "Concat<axis = 0>(v, x)")
    vm = relax.VirtualMachine(relax.build(imported(text), PLAIN_LOOPS), relax.cpu())
    assert vm["main"](ones(2), scalar(1), ones(2) > 0)[1].numpy().shape == (1, 4)
    message = r'(?s)iterations must have one shape, found \(4,\) and \(6,\).*Loop "y"'
    with pytest.raises(ValueError, match=message):
        vm["main"](ones(2), scalar(2), ones(2) > 0)


def test_a_state_that_changes_its_rank_is_refused(imported):
    text = """
    agraph (float[N] x, int64 m) => (float[M] y) <bool k = {1}> {
      y = Loop (m, k, x) <body = b (int64 i, bool ci, float[K] v) => (bool co, float[L] vo) {
        co = Identity(ci)
        vo = Concat<axis = 0>(v, x)
        w = Reshape(vo, s) }>
    }""".replace("float[L] vo)", "float[L, 1] w)").replace("{1}>", "{1}, int64[2] s = {-1, 1}>")
    with pytest.raises(relax.DiagnosticError, match="the dtype and rank of a loop's state 0 must not change"):
        imported(text)
