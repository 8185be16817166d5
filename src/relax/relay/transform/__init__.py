"""Passes over modules of Relay functions, one module each: `relay.transform`."""

from __future__ import annotations

from ...ir.tvm_names import answer_missing
from ..gradient import gradient
from .alter_op_layout import AlterOpLayout, register_alter_op_layout
from .canonicalize_cast import CanonicalizeCast, canonicalize_cast
from .canonicalize_ops import CanonicalizeOps, canonicalize_ops
from .combine_parallel_batch_matmul import CombineParallelBatchMatmul
from .combine_parallel_conv2d import CombineParallelConv2D
from .combine_parallel_dense import CombineParallelDense
from .convert_layout import ConvertLayout, convert_layout
from .dead_code_elimination import DeadCodeElimination
from .defunctionalization import Defunctionalization
from .defuse_ops import DefuseOps, defuse_ops
from .dynamic_to_static import DynamicToStatic, dynamic_to_static
from .effects import Effect, Effects
from .eliminate_common_subexpr import EliminateCommonSubexpr
from .eta_expand import EtaExpand, eta_expand
from .fast_math import FastMath, fast_math
from .fold_constant import FoldConstant, fold_constant
from .fold_scale_axis import BackwardFoldScaleAxis, ForwardFoldScaleAxis, fold_scale_axis
from .fuse_ops import FuseOps, fuse_ops
from .infer_type import InferType
from .inline import Inline
from .lambda_lift import LambdaLift
from .partial_evaluate import PartialEvaluate, partial_evaluate
from .remove_unused_functions import RemoveUnusedFunctions
from .simplify_expr import SimplifyExpr, simplify_expr
from .simplify_inference import SimplifyInference, simplify_inference
from .to_a_normal_form import ToANormalForm, to_a_normal_form
from .to_basic_block_normal_form import ToBasicBlockNormalForm, to_basic_block_normal_form
from .to_cps import ToCPS, to_cps, un_cps
from .to_graph_normal_form import ToGraphNormalForm, to_graph_normal_form
from .to_mixed_precision import (
    MixedTypeConversionCategory,
    ToMixedPrecision,
    register_mixed_precision_conversion,
    to_mixed_precision,
)

__all__ = [
    "AlterOpLayout", "BackwardFoldScaleAxis", "CanonicalizeCast", "CanonicalizeOps", "CombineParallelBatchMatmul",
    "CombineParallelConv2D", "CombineParallelDense", "ConvertLayout", "DeadCodeElimination", "Defunctionalization",
    "DefuseOps", "DynamicToStatic", "Effect", "Effects", "EliminateCommonSubexpr", "EtaExpand", "FastMath",
    "FoldConstant", "ForwardFoldScaleAxis", "FuseOps", "InferType", "Inline", "LambdaLift",
    "MixedTypeConversionCategory", "PartialEvaluate", "RemoveUnusedFunctions", "SimplifyExpr", "SimplifyInference",
    "ToANormalForm", "ToBasicBlockNormalForm", "ToCPS", "ToGraphNormalForm", "ToMixedPrecision",
    "canonicalize_cast", "canonicalize_ops", "convert_layout", "defuse_ops", "dynamic_to_static", "eta_expand",
    "fast_math", "fold_constant", "fold_scale_axis", "fuse_ops", "gradient", "partial_evaluate",
    "register_alter_op_layout", "register_mixed_precision_conversion", "simplify_expr", "simplify_inference",
    "to_a_normal_form", "to_basic_block_normal_form", "to_cps", "to_graph_normal_form", "to_mixed_precision",
    "un_cps",
]  # fmt: skip

answer_missing(__name__)
