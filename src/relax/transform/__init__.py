"""Passes over IRModules: ``relax.transform.LegalizeOps()(mod)``. One pass per file; `pipeline` defines their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing
from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from ..ir.transform import (
        DumpInstrument,
        Pass,
        PassContext,
        PassError,
        PassInfo,
        PassInstrument,
        PrintIRAfterAll,
        PrintIRBeforeAll,
        Sequential,
        TimingInstrument,
        VerifyInstrument,
    )
    from .algebra import (
        AdjustMatmulOrder,
        CombineParallelMatmul,
        DecomposeOpsForInference,
        DecomposeOpsForTraining,
        ExpandMatmulOfSum,
        OptimizeLayoutTransform,
        RemoveRedundantReshape,
        ReorderPermuteDimsAfterConcat,
        ReorderTakeAfterMatmul,
        TopologicalSort,
    )
    from .alter_op_impl import AlterOpImpl
    from .arithmetic_to_dequantize import ArithmeticToDequantize
    from .attach_attr_layout_free_buffers import AttachAttrLayoutFreeBuffers
    from .attach_global_symbol import AttachGlobalSymbol
    from .bind_params import BindParams
    from .bind_symbolic_vars import BindSymbolicVars
    from .bundle_model_params import BundleModelParams
    from .call_tir_rewrite import CallTIRRewrite
    from .canonicalize_bindings import CanonicalizeBindings
    from .check_reuse import CheckReuse
    from .conv_transpose_to_conv import ConvTransposeToConv
    from .convert_layout import ConvertLayout
    from .convert_to_dataflow import ConvertToDataflow
    from .dead_code_elimination import DeadCodeElimination
    from .decorators import (
        DataflowBlockPass,
        FuncPass,
        FunctionPass,
        ModulePass,
        dataflowblock_pass,
        function_pass,
        module_pass,
    )
    from .dequantize_in_products import DequantizeInProducts
    from .division_to_multiplication import DivisionToMultiplication
    from .eliminate_common_subexpr import EliminateCommonSubexpr
    from .expand_tuple_arguments import ExpandTupleArguments
    from .fake_quantization_to_integer import FakeQuantizationToInteger
    from .fast_math_transform import FastMathTransform
    from .fold_batchnorm_to_conv2d import FoldBatchnormToConv2D
    from .fold_constant import FoldConstant
    from .fuse_transpose_matmul import FuseTransposeMatmul
    from .fusion import (
        AnnotateTIROpPattern,
        FuseOps,
        FuseOpsByPattern,
        FuseTIR,
        FusionPattern,
        MergeCompositeFunctions,
        PatternCheckContext,
    )
    from .gradient import Gradient
    from .inline_private_functions import InlinePrivateFunctions
    from .lambda_lift import LambdaLift
    from .lazy_get_input import LazyGetInput
    from .lazy_set_output import LazySetOutput
    from .lazy_transform_params import LazyTransformParams
    from .legalize_ops import LegalizeOps
    from .lift_transform_params import LiftTransformParams
    from .memory import DataflowUseInplaceCalls, KillAfterLastUse, LowerAllocTensor, StaticPlanBlockMemory
    from .normalize import Normalize
    from .normalize_global_var import NormalizeGlobalVar
    from .one_hot_matmul_to_take import OneHotMatmulToTake
    from .paged_attention import CompilePagedAttention
    from .quantize_weights import QuantizeWeights
    from .realize_vdevice import RealizeVDevice
    from .remove_purity_checking import RemovePurityChecking
    from .remove_unused_functions import RemoveUnusedFunctions
    from .remove_unused_outputs import RemoveUnusedOutputs
    from .remove_unused_parameters import RemoveUnusedParameters
    from .rewrite_dataflow_reshape import RewriteDataflowReshape
    from .run_codegen import RunCodegen
    from .specialize_prim_func_based_on_call_site import SpecializePrimFuncBasedOnCallSite
    from .split_call_tir_by_pattern import SplitCallTIRByPattern
    from .sums_of_bytes import SumsOfBytes
    from .to_mixed_precision import ToMixedPrecision
    from .to_non_dataflow import ToNonDataflow
    from .update_param_struct_info import UpdateParamStructInfo
    from .update_vdevice import UpdateVDevice
    from .vm_builtin_lower import LowerRuntimeBuiltin, VMBuiltinLower
    from .vm_shape_lower import VMShapeLower

__all__ = [
    "AdjustMatmulOrder", "AlterOpImpl", "AnnotateTIROpPattern", "ArithmeticToDequantize", "AttachAttrLayoutFreeBuffers",
    "AttachGlobalSymbol", "BindParams", "BindSymbolicVars", "BundleModelParams", "CallTIRRewrite",
    "CanonicalizeBindings", "CheckReuse", "CombineParallelMatmul", "CompilePagedAttention", "ConvTransposeToConv",
    "ConvertLayout", "ConvertToDataflow", "DataflowBlockPass", "DataflowUseInplaceCalls", "DeadCodeElimination",
    "DecomposeOpsForInference", "DecomposeOpsForTraining", "DequantizeInProducts", "DivisionToMultiplication",
    "DumpInstrument", "EliminateCommonSubexpr", "ExpandMatmulOfSum", "ExpandTupleArguments",
    "FakeQuantizationToInteger", "FastMathTransform", "FoldBatchnormToConv2D", "FoldConstant", "FuncPass",
    "FunctionPass", "FuseOps", "FuseOpsByPattern", "FuseTIR", "FuseTransposeMatmul", "FusionPattern", "Gradient",
    "InlinePrivateFunctions", "KillAfterLastUse", "LambdaLift", "LazyGetInput", "LazySetOutput", "LazyTransformParams",
    "LegalizeOps", "LiftTransformParams", "LowerAllocTensor", "LowerRuntimeBuiltin", "MergeCompositeFunctions",
    "ModulePass", "Normalize", "NormalizeGlobalVar", "OneHotMatmulToTake", "OptimizeLayoutTransform", "Pass",
    "PassContext", "PassError", "PassInfo", "PassInstrument", "PatternCheckContext", "PrintIRAfterAll",
    "PrintIRBeforeAll", "QuantizeWeights", "RealizeVDevice", "RemovePurityChecking", "RemoveRedundantReshape",
    "RemoveUnusedFunctions", "RemoveUnusedOutputs", "RemoveUnusedParameters", "ReorderPermuteDimsAfterConcat",
    "ReorderTakeAfterMatmul", "RewriteDataflowReshape", "RunCodegen", "Sequential", "SpecializePrimFuncBasedOnCallSite",
    "SplitCallTIRByPattern", "StaticPlanBlockMemory", "SumsOfBytes", "TimingInstrument", "ToMixedPrecision",
    "ToNonDataflow", "TopologicalSort", "UpdateParamStructInfo", "UpdateVDevice", "VMBuiltinLower", "VMShapeLower",
    "VerifyInstrument", "dataflowblock_pass", "function_pass", "module_pass",
]  # fmt: skip

_ABOVE = {"..tune.passes": "MetaScheduleApplyDatabase MetaScheduleTuneIRMod MetaScheduleTuneTIR"}
"""Passes that TVM has here. Tuning stands above this package, which imports nothing of it and knows only the names."""

load_when_used(__name__, {**HOMES, **_ABOVE})
answer_missing(__name__)
