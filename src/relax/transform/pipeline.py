"""The order of passes, with reasons: the default pipeline as a list that reads from top to bottom."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Final

from ..ir import Diagnostic, DiagnosticError
from ..ir.transform import Pass, Sequential, Step
from .call_tir_rewrite import CallTIRRewrite
from .canonicalize_bindings import CanonicalizeBindings
from .check_reuse import CheckReuse
from .conv_transpose_to_conv import ConvTransposeToConv
from .dead_code_elimination import DeadCodeElimination
from .dequantize_in_products import DequantizeInProducts
from .division_to_multiplication import DivisionToMultiplication
from .eliminate_common_subexpr import EliminateCommonSubexpr
from .fake_quantization_to_integer import FakeQuantizationToInteger
from .fold_batchnorm_to_conv2d import FoldBatchnormToConv2D
from .fold_constant import FoldConstant
from .fusion import AnnotateTIROpPattern, ChannelsLast, FuseAttention, FuseConvolutions, FuseOps, FuseTIR
from .lambda_lift import LambdaLift
from .legalize_ops import LegalizeOps
from .memory import DataflowUseInplaceCalls, StaticPlanBlockMemory
from .normalize import Normalize
from .one_hot_matmul_to_take import OneHotMatmulToTake
from .realize_vdevice import RealizeVDevice
from .remove_purity_checking import RemovePurityChecking
from .remove_unused_functions import RemoveUnusedFunctions
from .rewrite_dataflow_reshape import RewriteDataflowReshape
from .sums_of_bytes import SumsOfBytes
from .to_non_dataflow import ToNonDataflow
from .vm_builtin_lower import VMBuiltinLower
from .vm_shape_lower import VMShapeLower

GRAPH: tuple[Step, ...] = (
    Step(Normalize, "everything after it reads normal form and struct info"),
    Step(
        RealizeVDevice,
        "hints become copies, which are values like others, before anybody looks for equal ones",
    ),
    Step(CheckReuse, "a program that breaks its promises is told so before anything of it is removed"),
    Step(CanonicalizeBindings, "one name per value, so that the next passes see through aliases"),
    Step(
        FakeQuantizationToInteger,
        "quantised weights stay bytes, which are multiplied as such, before they are constants of floats",
    ),
    Step(
        DequantizeInProducts,
        "other quantised weights stay as narrow, and become floats in registers, before all of them do in memory",
    ),
    Step(FoldConstant, "what depends on constants only is computed now, before it becomes kernels"),
    Step(
        FoldBatchnormToConv2D,
        "convolutions by weights that are scaled need no batch norm; its statistics are known now",
    ),
    Step(
        ConvTransposeToConv,
        "some transposed convolutions are faster as convolutions, whose weights are known now",
    ),
    Step(OneHotMatmulToTake, "a product that chooses rows of known weights only reads them"),
    Step(DivisionToMultiplication, "products are faster than quotients, once divisors are known"),
    Step(EliminateCommonSubexpr, "what is computed twice is computed once"),
    Step(DeadCodeElimination, "nothing is compiled that nobody uses"),
    Step(SumsOfBytes, "sums of quantised tensors take fewer roundings, once it is known who else uses what"),
)
"""While the program still consists of operators."""

LOWER: tuple[Step, ...] = (
    Step(LegalizeOps, "operators become kernels"),
    Step(
        RewriteDataflowReshape, "copying kernels become views, while dataflow blocks still say who sees what"
    ),
    Step(DataflowUseInplaceCalls, "results take the place of inputs that are used no more, likewise"),
    Step(ToNonDataflow, "from here on the order of effects is the order of bindings"),
    Step(RemovePurityChecking, "allocations are written to, which pure functions would not be allowed"),
    Step(CallTIRRewrite, "outputs are allocated, kernels called with them"),
    Step(CanonicalizeBindings, "a result and the allocation it was written to are one value again"),
    Step(LambdaLift, "the machine knows global functions and closures of them"),
    Step(RemoveUnusedFunctions, "only what an entry point reaches is compiled"),
    Step(
        StaticPlanBlockMemory, "tensors that nobody keeps share one storage, while aliases still have names"
    ),
)
"""From operators to calls of kernels and functions."""

FUSE: tuple[Step, ...] = (
    Step(AnnotateTIROpPattern, "kernels say what they can be fused with, while all of them are at hand"),
    Step(
        FuseAttention, "attention needs its products and its softmax in one kernel, before others take a part"
    ),
    Step(
        FuseOps,
        "kernels that read each other's results are grouped, while dataflow blocks still say who sees what",
    ),
    Step(FuseTIR, "a group becomes one kernel, whose intermediate results need no tensors"),
    Step(FuseConvolutions, "convolutions have what is behind them: some of them become one kernel, by rows"),
    Step(
        ChannelsLast,
        "such kernels follow each other: they need not put channels first for what only they read",
    ),
)
"""After LegalizeOps: several kernels become one."""

MACHINE: tuple[Step, ...] = (
    Step(VMBuiltinLower, "what operators are left become builtins of the machine"),
    Step(VMShapeLower, "shapes become values: matched at entry, computed in the shape heap"),
)
"""To what the machine runs."""

UNFUSED: tuple[Step, ...] = tuple(
    step for step in (*GRAPH, *LOWER, *MACHINE) if step.make is not DataflowUseInplaceCalls
)
"""Each operator stays a kernel of its own, with a result of its own: for looking at values between them."""

DEFAULT: tuple[Step, ...] = (*GRAPH, LOWER[0], *FUSE, *LOWER[1:], *MACHINE)


def default_build_pipeline() -> Pass:
    """The default pipeline as one pass: from a program as written to what the bytecode generator takes."""
    return as_pass(DEFAULT, "default_build_pipeline")


def as_pass(steps: Iterable[Step], name: str) -> Pass:
    """Steps as one pass."""
    return Sequential([step.make() for step in steps], name=name)


_PIPELINES: dict[str, Callable[..., Pass]] = {
    "default": default_build_pipeline,
    "default_build": default_build_pipeline,
    "graph": lambda: as_pass(GRAPH, "graph"),
    # TVM's name for the optimisations a program goes through before it is handed to build.
    "zero": lambda: as_pass((*GRAPH, LOWER[0]), "zero"),
    "unfused": lambda: as_pass(UNFUSED, "unfused"),
    "lower": lambda: as_pass(LOWER, "lower"),
}


BUILT_IN: Final = frozenset(_PIPELINES)
"""The names of the pipelines above; no other pipeline can be registered under one of them."""


def register_pipeline(name: str) -> Callable[[Callable[..., Pass]], Callable[..., Pass]]:
    """Give a pipeline a name: ``@register_pipeline("mine") def make(): return Sequential([...])``.

    Parameters
    ----------
    name
        The name, for ``relax.build(pipeline=name)`` and `get_pipeline`.

    Returns
    -------
    Callable
        A decorator of the function that makes the pipeline; its parameters are the options of `get_pipeline`.

    Raises
    ------
    ValueError
        If a pipeline of this name is registered already.
    """

    def register(make: Callable[..., Pass]) -> Callable[..., Pass]:
        if name in _PIPELINES:
            raise ValueError(f"a pipeline named {name!r} is registered already")
        _PIPELINES[name] = make
        return make

    return register


def get_pipeline(name: str = "default", **options: object) -> Pass:
    """The pipeline of this name, as one pass.

    Parameters
    ----------
    name
        A name of `register_pipeline`, or "default", "unfused", "zero", "graph", "lower".
    options
        Options of the function that was registered.

    Returns
    -------
    Pass
        The pipeline: a function from module to module.

    Raises
    ------
    DiagnosticError
        If there is no such pipeline; it names those there are.
    """
    make = _PIPELINES.get(name)
    if make is None:
        known = ", ".join(_PIPELINES)
        near = difflib.get_close_matches(name, _PIPELINES, 1)
        hint = f"did you mean {near[0]!r}?" if near else "register it: @relax.register_pipeline(name)"
        raise DiagnosticError(
            Diagnostic("E4007", f"there is no pipeline {name!r}", notes=(f"known: {known}",), hint=hint)
        )
    return make(**options)
