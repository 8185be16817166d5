"""Programs run in three ways: as they are, with their kernels grouped, and with the groups made kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import relax
from relax.analysis import assert_well_formed
from relax.ir import IRModule
from relax.transform import (
    AnnotateTIROpPattern,
    FuseOps,
    FuseTIR,
    LegalizeOps,
    Normalize,
    PassContext,
    Sequential,
    VerifyInstrument,
)
from support import PLAIN_LOOPS, values

Arrays = Any


def same_bits(a: Arrays, b: Arrays) -> None:
    """Results are equal, bit for bit."""
    if isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same_bits(x, y)
    else:
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes(), f"expected\n{a}\nfound\n{b}"


def close(a: Arrays, b: Arrays) -> None:
    """Results are equal but for the order of sums."""
    if isinstance(a, list):
        for x, y in zip(a, b, strict=True):
            close(x, y)
    else:
        tolerance = 2e-2 if a.dtype.itemsize == 2 else 2e-5
        x, y = (v.astype("float64") for v in (a, b))
        np.testing.assert_allclose(x, y, tolerance, tolerance)


def legalized(mod: IRModule) -> IRModule:
    """Operators as kernels, with their kinds."""
    return Sequential([Normalize(), LegalizeOps(), AnnotateTIROpPattern()])(mod)


def fused(mod: IRModule) -> IRModule:
    """The kernels of a module fused; each pass is verified, and changes nothing the second time."""
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        for step in (AnnotateTIROpPattern(), FuseOps(), FuseTIR()):
            mod = step(mod)
            assert step(mod) is mod, f"the second run of {step.info.name} changed something"
    return mod


def kernels(mod: IRModule) -> list[str]:
    """The names of the kernels that are called, in order."""
    names: list[str] = []

    def visit(node: Any) -> None:
        if isinstance(node, relax.Call) and relax.op.is_call_of(node, relax.op.intrinsics.CallTIR):
            names.append(node.args[0].name_hint)

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.ir.walk(function, visit)
    return names


@pytest.fixture
def keeps() -> Callable[..., IRModule]:
    """``keeps(mod, *cases)``: fused, the program gives the same results; the module with fused kernels."""

    def run(mod: IRModule, *cases: Any, exact: bool = True, target: str = PLAIN_LOOPS) -> IRModule:
        before = legalized(mod)
        after = fused(before)
        grouped = FuseOps()(before)
        plain = relax.VirtualMachine(relax.build(mod, target, pipeline="unfused"), relax.cpu())["main"]
        quick = relax.VirtualMachine(relax.build(mod, target), relax.cpu())["main"]
        for case in cases:
            wanted = values(plain(*case))
            (same_bits if exact else close)(wanted, values(quick(*case)))
            for program in (grouped, after):
                close(wanted, values(relax.interpret(program, "main", *case)))
        return after

    return run
