"""Kernels of the tests of tuning, and records of them."""

from __future__ import annotations

from relax import te
from relax.codegen import resolve
from relax.farm.tuning_records import KernelKey, Record, key_of
from relax.schedules import PackedFunction
from relax.script import tir as T
from relax.tune.measuring import Conditions

TARGET = resolve("llvm")

PATIENT = Conditions(seconds=120.0, memory=1 << 30)
"""Limits that candidates keep beside any other load of the machine."""

LONG = 3600.0
"""Seconds of a search that ends for another reason: its space or its trials."""


def product(rows=48, columns=64, depth=40, dtype="float32"):
    """``C[i, j] = Σ A[i, k] · B[k, j]``"""
    a, b = te.placeholder((rows, depth), dtype, "A"), te.placeholder((depth, columns), dtype, "B")
    k = te.reduce_axis((0, depth), "k")
    return te.create_prim_func([a, b, te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")])


@T.prim_func
def doubled(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in range(1000):
        B[i] = A[i] * T.float32(2)


@T.prim_func
def backwards(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in range(1000):
        B[999 - i] = A[999 - i] + A[999 - i]


def variant(func):
    """A candidate without packed constants."""
    return PackedFunction(func, {})


def record(key=None, rule="Product", parameters=None, gain=2.0, taken=True, name="product", sizes=({},)):
    """A record that says that a rule is `gain` times as fast as the default."""
    key = key or key_of(product(), TARGET)
    assert isinstance(key, KernelKey)
    seconds, before = (1e-3,) * len(sizes), (gain * 1e-3,) * len(sizes)
    parameters = {"tile": [4, 2], "strassen": False} if parameters is None else parameters
    return Record(key, rule, parameters, tuple(sizes), seconds, before, 0.01, taken, name, str(TARGET), 1.0)
