"""Names of Relay's passes, some of which Relax has too, and functions that passes leave alone."""

from __future__ import annotations

from pass_checks import module, run

from relax import relay
from relax.ir.transform import module_pass, pass_by_name
from relax.relay.transform import FastMath
from relax.transform import FoldConstant


def test_passes_of_one_name():
    assert pass_by_name("FoldConstant").info == FoldConstant().info
    assert pass_by_name("relay.FoldConstant").info == relay.transform.FoldConstant().info
    assert pass_by_name("ToANormalForm").info.name == "relay.ToANormalForm"


def test_a_pass_may_require_one_of_relay():
    @module_pass(name="Own", required=["relay.DeadCodeElimination"])
    def Own(mod):
        return mod

    result = run(Own(), module("fn(%x: int32) { let %a = %x + 1; %x }"))
    assert isinstance(result["main"].body, relay.Var)


def test_functions_for_other_compilers_stay():
    for attribute in ('Compiler="dnnl"', "SkipOptimization=1"):
        mod = module(f"def @main(%x: float32, {attribute}) {{ exp(%x) }}")
        assert run(FastMath(), mod) is mod
