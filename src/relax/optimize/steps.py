"""Steps of the pipelines that do not depend on how kernels are written, each with the reason for its place."""

from __future__ import annotations

from ..ir.transform import Step
from ..transform.arithmetic_to_dequantize import ArithmeticToDequantize
from ..transform.call_tir_rewrite import CallTIRRewrite
from ..transform.canonicalize_bindings import CanonicalizeBindings
from ..transform.check_reuse import CheckReuse
from ..transform.conv_transpose_to_conv import ConvTransposeToConv
from ..transform.dead_code_elimination import DeadCodeElimination
from ..transform.dequantize_in_products import DequantizeInProducts
from ..transform.division_to_multiplication import DivisionToMultiplication
from ..transform.eliminate_common_subexpr import EliminateCommonSubexpr
from ..transform.fake_quantization_to_integer import FakeQuantizationToInteger
from ..transform.fold_batchnorm_to_conv2d import FoldBatchnormToConv2D
from ..transform.fold_constant import FoldConstant
from ..transform.fuse_transpose_matmul import FuseTransposeMatmul
from ..transform.lambda_lift import LambdaLift
from ..transform.legalize_ops import LegalizeOps
from ..transform.memory import DataflowUseInplaceCalls, StaticPlanBlockMemory
from ..transform.normalize import Normalize
from ..transform.one_hot_matmul_to_take import OneHotMatmulToTake
from ..transform.paged_attention import CompilePagedAttention
from ..transform.realize_vdevice import RealizeVDevice
from ..transform.remove_purity_checking import RemovePurityChecking
from ..transform.remove_unused_functions import RemoveUnusedFunctions
from ..transform.rewrite_dataflow_reshape import RewriteDataflowReshape
from ..transform.sums_of_bytes import SumsOfBytes
from ..transform.to_non_dataflow import ToNonDataflow
from ..transform.vm_builtin_lower import VMBuiltinLower
from ..transform.vm_shape_lower import VMShapeLower

GRAPH: tuple[Step, ...] = (
    Step(Normalize, "Bring the program into normal form and derive struct info, which all later passes read."),
    Step(
        RealizeVDevice, "Turn device hints into explicit copies; must run before common subexpressions are eliminated."
    ),
    Step(CheckReuse, "Report violated in-place and purity annotations before dead code is removed."),
    Step(CanonicalizeBindings, "Replace aliases by the variable they name, so that later passes match calls directly."),
    Step(
        ArithmeticToDequantize,
        "Rewrite arithmetic on constant integers as dequantisation, which the next two passes match.",
    ),
    Step(
        FakeQuantizationToInteger, "Multiply quantised weights as int8; must run before FoldConstant dequantises them."
    ),
    Step(
        DequantizeInProducts,
        "Dequantise the remaining weights inside products and recurrent layers; must run before FoldConstant.",
    ),
    Step(FoldConstant, "Evaluate calls whose operands are constants."),
    Step(FoldBatchnormToConv2D, "Fold batch norm into convolution weights, now that its statistics are constants."),
    Step(
        ConvTransposeToConv,
        "Rewrite transposed convolutions as convolutions where that is faster; needs constant weights.",
    ),
    Step(OneHotMatmulToTake, "Replace a product of a one-hot matrix and constant weights by a row lookup."),
    Step(
        FuseTransposeMatmul,
        "Multiply by transposed matrices where they lie; those that are constant FoldConstant has transposed.",
    ),
    Step(DivisionToMultiplication, "Replace division by a constant by multiplication where the result is the same."),
    Step(EliminateCommonSubexpr, "Eliminate common subexpressions."),
    Step(DeadCodeElimination, "Remove pure bindings that are never used."),
    Step(SumsOfBytes, "Fuse requantisation into sums of quantised tensors; needs final use counts."),
    Step(CompilePagedAttention, "Add kernels to the calls that create paged KV caches, now that sizes are constants."),
)
"""Graph optimisations on operators, before legalisation."""

LOWER: tuple[Step, ...] = (
    Step(LegalizeOps, "Replace each operator by a call_tir of a PrimFunc made from its formula."),
    Step(
        RewriteDataflowReshape,
        "Replace copies that only change the shape by views; needs dataflow blocks, in which aliases are known.",
    ),
    Step(DataflowUseInplaceCalls, "Write results into inputs that are dead afterwards; needs dataflow blocks too."),
    Step(ToNonDataflow, "Dissolve dataflow blocks: from here on the order of bindings is the order of effects."),
    Step(RemovePurityChecking, "Drop purity annotations: the next pass writes into allocations."),
    Step(CallTIRRewrite, "Allocate the output of each call_tir and pass it as an argument."),
    Step(CanonicalizeBindings, "Merge each call's result with its allocation, which CallTIRRewrite separated."),
    Step(LambdaLift, "Lift local functions to global ones; the VM has no others."),
    Step(RemoveUnusedFunctions, "Remove functions that no entry point reaches."),
    Step(StaticPlanBlockMemory, "Place intermediate tensors in one arena per activation, reusing space of dead ones."),
)
"""Lowering: operators to kernels, call_tir to calls with allocated outputs, closures to global functions."""

MACHINE: tuple[Step, ...] = (
    Step(VMBuiltinLower, "Replace the remaining operators by calls of VM builtins."),
    Step(VMShapeLower, "Compute shapes as run-time values: match arguments at entry, keep sizes in the shape heap."),
)
"""Lowering to VM builtins and run-time shapes."""
