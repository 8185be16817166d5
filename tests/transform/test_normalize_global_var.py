"""NormalizeGlobalVar: public functions have the names of their global symbols."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import NormalizeGlobalVar


@I.ir_module
class Module:
    @T.prim_func(private=True)
    def kernel(x: T.Buffer((3,), "float32"), y: T.Buffer((3,), "float32")):
        for i in range(3):
            y[i] = x[i] + T.float32(1)

    @R.function(private=True)
    def f(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = R.call_tir(Module.kernel, (x,), R.Tensor((3,), "float32"))
        return y

    @R.function(private=True)
    def f1(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return x

    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = Module.f1(Module.f(x))
        return y


X = np.array([1, 2, 3], "float32")


def named(mod, **symbols):
    for name, symbol in symbols.items():
        mod = mod.with_function(name, mod[name].with_attr("global_symbol", symbol))
    return mod


def test_functions_are_named_after_their_symbols(check):
    @I.ir_module
    class Expected:
        @T.prim_func
        def add_one(x: T.Buffer((3,), "float32"), y: T.Buffer((3,), "float32")):
            for i in range(3):
                y[i] = x[i] + T.float32(1)

        @R.function(private=True)
        def f2(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = R.call_tir(Expected.add_one, (x,), R.Tensor((3,), "float32"))
            return y

        @R.function(private=True)
        def f1(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            return x

        @R.function
        def f(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = Expected.f1(Expected.f2(x))
            return y

    after = check(NormalizeGlobalVar(), named(Module, main="f", kernel="add_one"), Expected)
    assert relax.interpret(after, "f", X).numpy().tolist() == [2, 3, 4]


def test_names_that_are_symbols_stay(check):
    check(NormalizeGlobalVar(), Module)


def test_functions_may_exchange_names(check):
    mod = named(Module, f1="f", f="f1")
    after = NormalizeGlobalVar()(mod)
    assert [var.name_hint for var in after.functions] == ["kernel", "f1", "f", "main"]
    assert relax.interpret(after, "main", X).numpy().tolist() == [2, 3, 4]
    assert "cls.f1(x)" in after.script()


def test_one_symbol_for_two_functions():
    with pytest.raises(DiagnosticError, match="f and main both have the global symbol 'main'") as error:
        NormalizeGlobalVar()(named(Module, f="main"))
    assert "E2013" in str(error.value)
