"""What may be the size of a parameter: at least 0, less than 2**48; compiled and interpreted, in the same words."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm_ffi

from relax import codegen, tir
from relax.script import ir as I
from relax.script import tir as T

EXPECTED = "expected a size, at least 0 and less than 2**48"


@I.ir_module
class Module:
    @T.prim_func
    def last(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 0), "int8")
        B = T.match_buffer(b, (1,), "int64")
        B[0] = n - 1

    @T.prim_func
    def product(a: T.handle, b: T.handle, c: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, 0), "int8")
        B = T.match_buffer(b, (m, 0), "int8")
        C = T.match_buffer(c, (n * m,), "int8")
        for i, j in T.grid(n, m):
            C[i * m + j] = T.int8(1)

    @T.prim_func
    def scalar(n: T.int64, b: T.handle):
        B = T.match_buffer(b, (n,), "int64")
        for i in range(n):
            B[i] = i

    @T.prim_func
    def quotient(k: T.int64, m: T.int64, b: T.handle):
        B = T.match_buffer(b, (k // m,), "int8")
        T.evaluate(0)

    @T.prim_func
    def calls(a: T.handle, b: T.handle, k: T.int64):
        n = T.int64()
        A = T.match_buffer(a, (n, 0), "int8")
        B = T.match_buffer(b, (1,), "int64")
        Module.scalar(k, B.data)

    @T.prim_func
    def narrow(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 0), "int8")
        B = T.match_buffer(b, (n,), "int32")
        T.evaluate(0)

    @T.prim_func
    def calls_narrow(a: T.handle, b: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, 0), "int8")
        B = T.match_buffer(b, (m,), "int32")
        Module.narrow(A.data, B.data)


@pytest.fixture(scope="module")
def module():
    return codegen.build_module(Module)


def nothing(*shape):
    return np.zeros(shape, "int8")


@pytest.mark.parametrize(
    "name, args, error, message",
    [
        ("last", (nothing(2**48, 0), np.zeros(1, "int64")), ValueError, f"argument A: dimension 0 is {2**48}, {EXPECTED}"),
        ("last", (nothing(2**62 - 1, 0), np.zeros(1, "int64")), ValueError, f"argument A: dimension 0 is {2**62 - 1}, {EXPECTED}"),
        ("product", (nothing(2**32, 0), nothing(2**32, 0), nothing(0)), OverflowError, "a size does not fit into 64 bits: n * m"),
        ("product", (nothing(2**40, 0), nothing(2**24 + 1, 0), nothing(2**40, 0)[0]), OverflowError, "a size does not fit into 64 bits: n * m"),
        ("product", (nothing(2**31, 0), nothing(2**31, 0), nothing(0)), ValueError, f"argument C: dimension 0 is 0, expected n * m = {2**62} (n was bound by A, dimension 0; m was bound by B, dimension 0)"),
        ("scalar", (-1, np.zeros(0, "int64")), ValueError, f"argument n: the value is -1, {EXPECTED}"),
        ("scalar", (2**48, np.zeros(0, "int64")), ValueError, f"argument n: the value is {2**48}, {EXPECTED}"),
        ("quotient", (-(2**63), -1, nothing(0)), OverflowError, "a size does not fit into 64 bits: k // m"),
    ],
)  # fmt: skip
def test_a_parameter_whose_size_is_none(module, name, args, error, message):
    def packed(*given):  # as other users of tvm-ffi call it
        function = module.library.get_function(codegen.symbol_name(name))
        return function(*(tvm_ffi.from_dlpack(g) if isinstance(g, np.ndarray) else g for g in given))

    for run in (packed, lambda *given: tir.interpret(Module[name], *given)):
        with pytest.raises(error) as caught:
            run(*args)
        assert str(caught.value).splitlines()[0] == f"{name}: {message}"


def test_the_greatest_size(module):
    out = np.zeros(1, "int64")
    module["last"](nothing(2**48 - 1, 0), out)
    assert out[0] == 2**48 - 2
    module["quotient"](-6, -3, nothing(2))
    module["quotient"](-(2**63), -(2**63), nothing(1))
    with pytest.raises(ValueError, match="a shape cannot have a dimension of 2\\*\\*48 or more"):
        module["last"](nothing(2**48, 0), out)


def test_a_size_that_another_function_passes(module):
    out = np.zeros(1, "int64")
    module["calls"](nothing(3, 0), out, 1)
    for k in (-1, 2**48):
        with pytest.raises(ValueError, match="^calls: call of scalar") as caught:
            module["calls"](nothing(3, 0), out, k)
        assert str(caught.value) == f"calls: call of scalar: argument n: the value is {k}, {EXPECTED}"


@pytest.mark.parametrize(
    "n, m, message",
    [
        (2**32 + 5, 5, "argument A: dimension 0 is 4294967301, which does not fit n's dtype int32"),
        (3, 2, "argument B: dimension 0 is 2, expected n = 3 (n was bound by A, dimension 0)"),
    ],
)
def test_sizes_of_buffers_that_another_function_passes(module, n, m, message):
    module["calls_narrow"](nothing(5, 0), np.zeros(5, "int32"))
    for name, who in (("narrow", ""), ("calls_narrow", "call of narrow: ")):
        with pytest.raises(ValueError, match=f"^{re.escape(f'{name}: {who}{message}')}$"):
            module[name](nothing(n, 0), np.zeros(m, "int32"))
