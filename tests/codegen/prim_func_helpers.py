"""Helpers of the tests of code generation, of the farm and of native code: small PrimFuncs from formulas."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from relax import codegen, tir
from relax.ir import DataType


def elementwise(formula, inputs, output, extent=None):
    """B[i] = formula(A0[i], A1[i], …) over a symbolic length (or a given one)."""
    n, i = tir.Var("n", "int64"), tir.Var("i", "int64")
    size = n if extent is None else extent
    sources = [tir.decl_buffer((size,), dtype, f"A{k}") for k, dtype in enumerate(inputs)]
    result = tir.decl_buffer((size,), output, "B")
    params = [tir.Var(f"p{k}", "handle") for k in range(len(inputs) + 1)]
    body = tir.For(i, 0, size, "serial", tir.BufferStore(result, formula(*(s[i] for s in sources)), [i]))
    return tir.PrimFunc(
        tuple(params), body, buffer_map=dict(zip(params, [*sources, result])), attrs={"tir.noalias": True}
    )


def over(body, *buffers, scalars=(), noalias=True):
    """A PrimFunc of these buffers (then scalars) with this body."""
    params = [tir.Var(buffer.name.lower(), "handle") for buffer in buffers]
    attrs = {"tir.noalias": True} if noalias else {}
    return tir.PrimFunc((*params, *scalars), body, buffer_map=dict(zip(params, buffers)), attrs=attrs)


def compute(formula, *arrays, output):
    """The value of a formula of arrays' elements, by compiled code."""
    inputs = [DataType(a.dtype.name) for a in arrays]
    result = np.empty(len(arrays[0]), DataType(output).numpy())
    codegen.build_module({"f": elementwise(formula, inputs, output)})["f"](*arrays, result)
    return result


def same_bits(a, b):
    """Equal bit for bit, any NaN like any other."""
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    bits = f"u{a.dtype.itemsize}"
    nan = [np.isnan(x.astype("float64")) for x in (a, b)]
    differ = (a.view(bits) != b.view(bits)) & ~(nan[0] & nan[1])
    where = np.flatnonzero(differ)[:5]
    assert not differ.any(), f"{differ.sum()} differ, such as {a[where]} and {b[where]} at {where}"


@pytest.fixture(scope="session")
def kernels():
    """The helpers above."""
    return SimpleNamespace(elementwise=elementwise, over=over, compute=compute, same_bits=same_bits)
