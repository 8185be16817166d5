"""A dimension's variable is known to be ≥ 0 only where it is a dimension: see `relax.tir.renew_doubtful_sizes`."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import tir
from relax.codegen import build_module
from relax.ir import IRModule, assert_structural_equal
from relax.script import from_source
from relax.tir.renew import with_names
from support import nodes

CLAMPED = """
@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), S: T.Buffer((1,), "int64"), O: T.Buffer((1,), "float32")):
        with T.LetStmt(S[0]) as n:
            O[0] = A[T.min(n, T.int64(7))]

    @R.function
    def main(a: R.Tensor((8,), "float32"), s: R.Tensor((1,), "int64")):
        cls = Module
        return R.call_tir(cls.f, (a, s), R.Tensor((1,), "float32"))
"""
PROVEN = CLAMPED.replace("S[0]", "T.max(S[0], T.int64(0))")


def bound_sizes(func: tir.PrimFunc) -> list[tir.Var]:
    return [let.var for let in nodes(func.body, tir.LetStmt)]


def program(text: str) -> IRModule:
    """The program, of which another function has the variable that `f` binds as a dimension of a parameter."""
    module = from_source(text)
    (n,) = bound_sizes(module["f"])
    pointer = tir.Var("p", "handle")
    tir.PrimFunc((pointer,), tir.Evaluate(0), buffer_map={pointer: tir.decl_buffer((n,), "float32")})
    assert n.nonnegative
    return module


def test_a_number_that_may_be_negative_gets_a_variable_of_its_own():
    func = program(CLAMPED)["f"]
    renewed = tir.renew_doubtful_sizes(func)
    assert_structural_equal(renewed, func)
    assert not bound_sizes(renewed)[0].nonnegative
    assert tir.renew_doubtful_sizes(renewed) is renewed


def test_a_number_that_is_proven_to_be_a_size_keeps_its_variable():
    func = program(PROVEN)["f"]
    assert tir.renew_doubtful_sizes(func) is func


@pytest.mark.parametrize("value", [-1, -(10**8)])
def test_a_compiled_function_reads_nothing_outside(value):
    made = build_module({"f": program(CLAMPED)["f"]})["f"]
    a, out = np.arange(8, dtype="float32"), np.zeros(1, "float32")
    with pytest.raises(IndexError, match=f"buffer A: index {value} is out of bounds for dimension 0 of size 8"):
        made(a, np.array([value], "int64"), out)
    made(a, np.array([5], "int64"), out)
    assert out[0] == 5


@pytest.mark.parametrize("mode", ["compiled", "bytecode"])
def test_a_program_reads_nothing_outside(mode):
    machine = relax.VirtualMachine(relax.build(program(CLAMPED), exec_mode=mode), relax.cpu())
    a = np.arange(8, dtype="float32")
    with pytest.raises(IndexError, match="index -2 is out of bounds for dimension 0 of size 8"):
        machine["main"](a, np.array([-2], "int64"))
    np.testing.assert_array_equal(machine["main"](a, np.array([5], "int64")).numpy(), [5])


def test_names_are_replaced_and_nothing_else():
    m, i, p = tir.Var("m", "int64"), tir.Var("i", "int64"), tir.Var("p", "handle")
    a = tir.decl_buffer((m,), "float32", "a")
    body = tir.For(i, 0, m, "serial", tir.BufferStore(a, a[i] * 2.0, [i]))
    func = tir.PrimFunc((p,), body, buffer_map={p: a})
    renamed = with_names(func, {name: f"{name}_of_another" for name in ("m", "i", "p", "a")})
    assert_structural_equal(renamed, func)
    (buffer,) = renamed.buffer_map.values()
    assert (buffer.name, buffer.data.name, buffer.shape[0].name) == ("a_of_another",) * 2 + ("m_of_another",)
    assert buffer.shape[0].nonnegative
    assert renamed.body.body.buffer is buffer
    assert renamed.body.loop_var.name == "i_of_another"
    assert {buffer.name for buffer in func.buffer_map.values()} == {"a"}
    with pytest.raises(KeyError):
        with_names(func, {"m": "n"})
