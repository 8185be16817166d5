"""Casts round once, in compiled kernels, the interpreters, constant folding and scalars of the virtual machine."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact_rounding import FLOATS, SMALL, differences, nearest, numbers_for, same, whole_numbers_for

import relax
from relax import codegen, tir
from relax.codegen import resolve
from relax.ir import DataType
from relax.prim import Cast, FloatImm, IntImm, Var, cast, const, evaluate, simplify
from relax.runtime.info import DTYPES
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.tir.interpret import interpret
from relax.transform import FoldConstant

SOURCES = ("float64", "int64", "uint64", "int32", "uint32", "int16", "uint8")
TARGETS = ("float32", *SMALL)


def conversion(source, target):
    """B[i] = A[i], converted."""
    n, i, a, b = Var("n", "int64"), Var("i", "int64"), Var("a", "handle"), Var("b", "handle")
    A, B = tir.decl_buffer((n,), source, "A"), tir.decl_buffer((n,), target, "B")
    body = tir.For(i, 0, n, "serial", tir.BufferStore(B, Cast(target, A[i]), [i]))
    return tir.PrimFunc((a, b), body, buffer_map={a: A, b: B}, attrs={"tir.noalias": True})


def values_for(source, target):
    if source == "float64":
        return numbers_for(target)
    limits = np.iinfo(source)
    return whole_numbers_for(target, int(limits.min), int(limits.max))


@pytest.fixture(scope="module", params=["llvm", "llvm -mcpu=x86-64"])
def module(request):
    """All conversions; on the plainest x86-64 there are no instructions for float16."""
    if "x86" in request.param and not resolve("llvm").triple.startswith("x86_64"):
        pytest.skip("another architecture")
    pairs = [(source, target) for source in SOURCES for target in TARGETS]
    return codegen.build_module({f"{s} {t}": conversion(s, t) for s, t in pairs}, request.param)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", SOURCES)
def test_compiled(module, source, target):
    values = values_for(source, target)
    found = np.empty(len(values), DataType(target).numpy())
    module[f"{source} {target}"](np.array(values, source), found)
    assert differences(values, found, target) == []
    # One element at a time: the loop's remainder, which is not vectorised.
    for value in values[:: len(values) // 20 + 1]:
        module[f"{source} {target}"](np.array([value], source), found[:1])
        assert differences([value], found[:1], target) == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["float64", "int64", "uint64"])
def test_interpreted(source, target):
    values = values_for(source, target)[::3]
    found = np.empty(len(values), DataType(target).numpy())
    interpret(conversion(source, target), np.array(values, source), found)
    assert differences(values, found, target) == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["float64", "int64", "uint64"])
def test_evaluated_and_folded(source, target):
    values = values_for(source, target)[::3]
    x = Var("x", source)
    assert differences(values, [evaluate(Cast(target, x), {x: value}) for value in values], target) == []
    literals = [const(value, source) for value in values]
    assert differences(values, [evaluate(simplify(Cast(target, v))) for v in literals], target) == []
    assert differences(values, [evaluate(cast(target, v)) for v in literals], target) == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["float64", "int64", "uint64"])
def test_the_operator_and_its_folding(source, target):
    values = values_for(source, target)
    bb = relax.BlockBuilder()
    with bb.function("main", []):
        bb.emit_func_output(bb.emit(relax.op.astype(relax.const(np.array(values, source)), target)))
    folded = FoldConstant()(bb.get())["main"].body
    (binding,) = folded.blocks[0].bindings
    assert isinstance(binding.value, relax.Constant)
    assert differences(values, binding.value.data, target) == []


@pytest.mark.parametrize("dtype", FLOATS)
def test_arithmetic_of_dimensions_at_run_time(dtype):
    values = [*numbers_for(dtype)[::3], *whole_numbers_for(dtype, -(2**63), 2**64)[::3]]
    assert differences(values, [DTYPES[dtype](value) for value in values], dtype) == []


WHOLE = 2**54 + 2**30 + 1


@pytest.mark.parametrize("dtype, whole", [("float32", WHOLE), ("bfloat16", 2**54 + 2**46 + 1)])
def test_an_integer_argument_of_a_float_parameter(dtype, whole):
    p, b = Var("p", dtype), Var("b", "handle")
    B = tir.decl_buffer((1,), dtype, "B")
    func = tir.PrimFunc((p, b), tir.BufferStore(B, p, [0]), buffer_map={b: B})
    compiled, interpreted = np.empty(1, DataType(dtype).numpy()), np.empty(1, DataType(dtype).numpy())
    codegen.build_module({"f": func})["f"](whole, compiled)
    interpret(func, whole, interpreted)
    assert float(compiled[0]) == float(interpreted[0]) == nearest(whole, dtype)


def test_an_immediate_of_an_integer_is_rounded_once():
    assert FloatImm("float32", WHOLE).value == const(WHOLE, "float32").value == 2**54 + 2**31
    assert cast("float32", IntImm("int64", WHOLE)).value == 2**54 + 2**31
    assert FloatImm("float64", WHOLE).value == WHOLE - 1
    # What is converted is the value of the narrower dtype, not the literal it was written as.
    assert cast("float64", const(0.1, "float32")).value == float(np.float32(0.1))
    with pytest.raises(ValueError, match="does not fit float32"):
        const(2**2000, "float32")


def test_scalars_of_a_program():
    @I.ir_module
    class Module:
        @R.function
        def main(s: R.Shape(["n", "m"])):
            n = T.int64()
            m = T.int64()
            a = R.prim_value(T.Cast("float32", n * 16384 + 1))
            b = R.prim_value(T.Cast("bfloat16", T.Cast("float64", m)))
            c = R.prim_value(T.Cast("float64", T.float32(0.1)))
            d = R.prim_value(T.float32(0.1))
            e = R.full(R.shape([1]), R.prim_value(T.Cast("float32", n * 16384 + 1)), dtype="float32")
            return (a, b, c, d, e)

    sizes = relax.ShapeTuple([WHOLE // 16384, 2**40 + 2**32 + 1])
    expected = [2**54 + 2**31, 2.0**40 + 2**33, float(np.float32(0.1)), float(np.float32(0.1))]
    compiled = relax.VirtualMachine(relax.build(Module), relax.cpu())["main"](sizes)
    interpreted = relax.interpreter.Interpreter(Module)["main"](sizes)
    for found in (compiled, interpreted):
        assert [float(value) for value in tuple(found)[:4]] == expected
        assert float(tuple(found)[4].numpy()[0]) == 2**54 + 2**31


def test_signed_zeros_and_nan_are_told_apart():
    assert not same(0.0, -0.0)
    assert not same(1.0, math.nan)
    assert differences([1.0], [1.0078125], "bfloat16") != []
