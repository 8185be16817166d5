"""Rules for attention and for other nests name the condition that keeps them from a function."""

from __future__ import annotations

import pytest

from relax import te, topi
from relax.codegen import resolve
from relax.schedules import Refusal, ScheduleRule, cpu
from relax.schedules.rule import refused
from relax.script import tir as T
from relax.tir import PrimFunc

ALIASED = "parameters may share memory: the function lacks tir.noalias"


def attention(queries=64, keys=64, head=64) -> PrimFunc:
    operands = [te.placeholder((1, n, 1, head), name=name) for n, name in ((queries, "Q"), (keys, "K"), (keys, "V"))]
    return te.create_prim_func([*operands, topi.nn.attention(*operands)])


def of(formula, *shape, dtype="float32", **attributes) -> PrimFunc:
    x = te.placeholder(shape, dtype, "X")
    return te.create_prim_func([x, formula(x, **attributes)])


@T.prim_func
def tiled(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in T.parallel(64):
        for j in range(64):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def strided(A: T.Buffer((64, 64), "float32", strides=(128, 1)), B: T.Buffer((64, 64), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(64, 64):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def first_of_each_row(A: T.Buffer((64, 64), "int32"), B: T.Buffer((64,), "int32")):
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(64, 64):
        with T.block("B"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                B[vi] = 0
            B[vi] = T.Select(B[vi] != 0, B[vi], A[vi, vj])


@T.prim_func
def two_before(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in range(4096):
        B[i] = T.if_then_else(i == 0, A[i], B[i - 2] + A[i])


REFUSALS = [
    # rule, function, sentence
    (cpu.StreamedAttention, attention(4, 4, 8), "only 128 multiplications, fewer than 8,192"),
    (cpu.StreamedAttention, attention(head=600), "heads have a dynamic size, or more than 512 elements"),
    (cpu.StreamedAttention, attention().without_attr("tir.noalias"), ALIASED),
    (cpu.StreamedAttention, of(topi.nn.relu, 64, 64), "the function is not a softmax of products, times values"),
    (cpu.Nests, of(topi.nn.relu, 8, 8), "only 64 points, fewer than 1,024"),
    (cpu.Nests, of(topi.nn.softmax, 4, 16), "only 256 points, fewer than 1,024"),
    (cpu.Nests, of(topi.nn.relu, 64, 64).without_attr("tir.noalias"), ALIASED),
    (cpu.Nests, tiled, "a statement is not a nest of serial loops around one block that stores results"),
    (cpu.Nests, strided, "a buffer is not compact, or has vectors as elements"),
    (cpu.Nests, first_of_each_row, "a reduction depends on the order of its terms"),
    (cpu.Scans, of(topi.cumsum, 4, 20, axis=1), "the scan has fewer than 1,024 results"),
    (cpu.Scans, of(topi.cumsum, 64, 64, axis=1).without_attr("tir.noalias"), ALIASED),
    (cpu.Scans, two_before, "an element reads others than the preceding one, or the first one reads any"),
    (cpu.Scans, of(topi.nn.relu, 64, 64), "no nest computes each element from the preceding one"),
    (cpu.PlainSums, of(topi.sum, 64, 32, axis=1), "the sum has at most 32 terms, or is a running one of other values than floats"),
    (cpu.PlainSums, of(topi.cumsum, 64, 64, axis=1, dtype="int32"), "the sum has at most 32 terms, or is a running one of other values than floats"),
    (cpu.PlainSums, of(topi.max, 64, 64, axis=1), "no nest is a sum of floats"),
    (cpu.PlainSums, of(topi.sum, 64, 64, axis=1).without_attr("tir.noalias"), ALIASED),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "func", "sentence"), REFUSALS)
def test_refusals(rule, func, sentence):
    refusal = rule().accepts(func, resolve("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"))
    assert isinstance(refusal, Refusal)
    assert str(refusal) == sentence


def test_refusals_of_a_nest_of_the_kind_come_first():
    other, own = Refusal("another kind", unrelated=True), Refusal("too small")
    assert refused([None, other, own], "nothing") is own
    assert refused([other], "nothing") is other
    assert refused([None], "nothing") == Refusal("nothing", unrelated=True)
    assert not own


def test_rules_may_give_no_reason():
    class Silent(ScheduleRule):
        def apply(self, func, target, tunable):
            return None

    refusal = Silent().accepts(tiled, resolve("llvm"))
    assert refusal == Refusal("the rule does not match the function", unrelated=True)
    assert str(Silent().accepts(tiled, None)) == "Silent needs a target"
