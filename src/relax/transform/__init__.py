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
from .call_tir_rewrite import CallTIRRewrite
from .canonicalize_bindings import CanonicalizeBindings
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
from .lambda_lift import LambdaLift
from .legalize_ops import LegalizeOps
from .normalize import Normalize
from .remove_purity_checking import RemovePurityChecking
from .remove_unused_functions import RemoveUnusedFunctions
from .to_non_dataflow import ToNonDataflow

__all__ = [
    "CallTIRRewrite",
    "CanonicalizeBindings",
    "DataflowBlockPass",
    "DeadCodeElimination",
    "DumpInstrument",
    "FuncPass",
    "FunctionPass",
    "LambdaLift",
    "LegalizeOps",
    "ModulePass",
    "Normalize",
    "Pass",
    "PassContext",
    "PassError",
    "PassInfo",
    "PassInstrument",
    "PrintIRAfterAll",
    "PrintIRBeforeAll",
    "RemovePurityChecking",
    "RemoveUnusedFunctions",
    "Sequential",
    "TimingInstrument",
    "ToNonDataflow",
    "VerifyInstrument",
    "dataflowblock_pass",
    "function_pass",
    "module_pass",
]
