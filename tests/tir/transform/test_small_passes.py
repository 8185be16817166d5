"""Passes of a few lines: RenormalizeSplitPattern, RemoveAssume, ConvertForLoopsToSerial, Apply, Filter, prim_func_pass."""

from __future__ import annotations

import pytest

import relax
from relax import tir
from relax.ir import IRModule, assert_structural_equal
from relax.tir.transform import (
    Apply,
    ConvertForLoopsToSerial,
    Filter,
    PrimFuncPass,
    RemoveAssume,
    RenormalizeSplitPattern,
    prim_func_pass,
)

HEAD = """
@T.prim_func
def f(A: T.Buffer((64,), "int32"), m: T.int32):
"""
RUNS = [{"m": m} for m in (-5, 0, 7)]


def test_split_patterns(check):
    before = """
    for i in range(64):
        A[i] = i % 32 // 4 + (i + m) % 64 % 32 // 4 // 2 + i % 32 // 5 + i % 4 // 4
"""
    after = """
    for i in range(64):
        A[i] = i // 4 % 8 + (i + m) // 4 % 16 % 8 // 2 + i % 32 // 5 + i % 4 // 4
"""
    after = after.replace("(i + m) // 4 % 16 % 8 // 2", "(i + m) // 4 // 2 % 8 % 4")
    check(RenormalizeSplitPattern, HEAD + before, HEAD + after, *RUNS)


def test_assumptions(check):
    before = "    T.evaluate(T.assume(m < 8))\n    A[0] = m\n    if m > 0:\n        T.evaluate(T.assume(m < 9))"
    after = "    A[0] = m\n    if m > 0:\n        pass"
    check(RemoveAssume, HEAD + before, HEAD + after, *RUNS)


def test_serial_loops(check):
    before = "    for i in T.parallel(4):\n        for j in T.vectorized(4):\n            A[i * 4 + j] = m"
    after = "    for i in range(4):\n        for j in T.vectorized(4):\n            A[i * 4 + j] = m"
    check(ConvertForLoopsToSerial, HEAD + before, HEAD + after, *RUNS)


def module_of_two(parse):
    return IRModule({"f": parse(HEAD + "    A[0] = m"), "g": parse(HEAD.replace("f(", "g(") + "    A[1] = m")})


def test_apply_and_filter(parse):
    mod = module_of_two(parse)
    marked = Apply(lambda func: func.with_attr("seen", True))(mod)
    assert all(func.attrs["seen"] for func in marked.functions.values())
    assert Apply(lambda func: func)(mod) is mod
    kept = Filter(lambda func: func.attrs["global_symbol"] == "g")(mod)
    assert [var.name_hint for var in kept.functions] == ["g"]
    assert Filter(lambda func: True)(mod) is mod
    both = IRModule({"main": relax.Function([], relax.ShapeExpr([]), relax.ShapeStructInfo(ndim=0))})
    assert Filter(lambda func: False)(both) is both


def test_passes_of_users(parse):
    mod = module_of_two(parse)

    @prim_func_pass(opt_level=1, name="Marked")
    def mark(func, mod, ctx):
        return func.with_attr("level", ctx.opt_level)

    assert isinstance(mark, PrimFuncPass)
    assert mark.info.name == "Marked"
    assert mark(mod)["f"].attrs["level"] == 2
    with relax.transform.PassContext(opt_level=0):
        assert mark(mod) is mod

    @prim_func_pass
    def Named(func, mod, name="x"):
        """Give a function a name."""
        return func.with_attr("name", name)

    assert Named(name="y")(mod)["g"].attrs["name"] == "y"

    @prim_func_pass(opt_level=0)
    class Replaced:
        def __init__(self, other):
            self.other = other

        def transform_function(self, func, mod, ctx):
            return self.other

    other = parse(HEAD + "    A[3] = m")
    assert Replaced(other)(mod)["f"] is other


def test_options_are_checked(parse):
    with pytest.raises(TypeError, match="missing a required argument: 'target_bits'"):
        tir.transform.NarrowDataType()
    assert tir.transform.NarrowDataType(16).target_bits == 16
    assert_structural_equal(module_of_two(parse), module_of_two(parse))
