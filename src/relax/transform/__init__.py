"""Passes over IRModules: ``relax.transform.LegalizeOps()(mod)``. One pass a file; `pipeline` says which run when."""

from __future__ import annotations

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
from .bind_params import BindParams
from .bind_symbolic_vars import BindSymbolicVars
from .bisect import Bisection, bisect
from .call_tir_rewrite import CallTIRRewrite
from .canonicalize_bindings import CanonicalizeBindings
from .check_reuse import CheckReuse
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
from .eliminate_common_subexpr import EliminateCommonSubexpr
from .fold_constant import FoldConstant
from .fusion import AnnotateTIROpPattern, FuseAttention, FuseOps, FuseTIR
from .inline_private_functions import InlinePrivateFunctions
from .lambda_lift import LambdaLift
from .legalize_ops import LegalizeOps
from .memory import DataflowUseInplaceCalls, KillAfterLastUse, LowerAllocTensor, StaticPlanBlockMemory
from .normalize import Normalize
from .realize_vdevice import RealizeVDevice
from .remove_purity_checking import RemovePurityChecking
from .remove_unused_functions import RemoveUnusedFunctions
from .rewrite_dataflow_reshape import RewriteDataflowReshape
from .to_non_dataflow import ToNonDataflow
from .update_vdevice import UpdateVDevice
from .vm_builtin_lower import LowerRuntimeBuiltin, VMBuiltinLower
from .vm_shape_lower import VMShapeLower

__all__ = [
    "AnnotateTIROpPattern",
    "BindParams",
    "BindSymbolicVars",
    "Bisection",
    "CallTIRRewrite",
    "CanonicalizeBindings",
    "CheckReuse",
    "ConvertToDataflow",
    "DataflowBlockPass",
    "DataflowUseInplaceCalls",
    "DeadCodeElimination",
    "DumpInstrument",
    "EliminateCommonSubexpr",
    "FoldConstant",
    "FuncPass",
    "FunctionPass",
    "FuseAttention",
    "FuseOps",
    "FuseTIR",
    "InlinePrivateFunctions",
    "KillAfterLastUse",
    "LambdaLift",
    "LegalizeOps",
    "LowerAllocTensor",
    "LowerRuntimeBuiltin",
    "ModulePass",
    "Normalize",
    "Pass",
    "PassContext",
    "PassError",
    "PassInfo",
    "PassInstrument",
    "PrintIRAfterAll",
    "PrintIRBeforeAll",
    "RealizeVDevice",
    "RemovePurityChecking",
    "RemoveUnusedFunctions",
    "RewriteDataflowReshape",
    "Sequential",
    "StaticPlanBlockMemory",
    "TimingInstrument",
    "ToNonDataflow",
    "UpdateVDevice",
    "VMBuiltinLower",
    "VMShapeLower",
    "VerifyInstrument",
    "bisect",
    "dataflowblock_pass",
    "function_pass",
    "module_pass",
]
