"""Names of tvm.relay."""

from __future__ import annotations

from typing import Final

from .table import Namespace

NAMESPACES: Final = (
    Namespace(
        "tvm.relay",
        "relax.relay",
        works="""
            Any Call Clause Constant Constructor ConstructorValue ExprFunctor ExprMutator ExprVisitor
            Function GlobalTypeVar GlobalVar If IncompleteType Let Match Pattern PatternConstructor
            PatternTuple PatternVar PatternWildcard Prelude RefCreate RefRead RefType RefValue RefWrite
            TempExpr Tuple TupleGetItem TupleType TupleWrapper Type TypeCall TypeConstraint TypeData TypeKind
            TypeMutator TypeRelation TypeVar TypeVisitor abs acos acosh add adt adv_index all analysis any
            arange argmax argmin argsort argwhere asin asinh astext atan atanh bitwise_and bitwise_not
            bitwise_or bitwise_xor broadcast_to broadcast_to_like build cast cast_like ceil clip
            collapse_sum_like collapse_sum_to concatenate const copy cos cosh create_executor cumprod cumsum
            dft divide einsum equal erf exp expand_dims fixed_point_multiply fixed_point_multiply_per_axis
            floor floor_divide floor_mod fromtext full full_like gather gather_nd greater greater_equal image
            invert_permutation isfinite isinf isnan layout_transform left_shift less less_equal log log10
            log2 logical_and logical_not logical_or logical_xor logsumexp matrix_set_diag max maximum mean
            mean_std mean_variance meshgrid min minimum mod multiply ndarray_size negative nn not_equal
            one_hot ones ones_like parse_expr power prelude prod quantize repeat reshape reshape_like reverse
            reverse_reshape reverse_sequence right_shift round rsqrt scatter_elements scatter_nd searchsorted
            sequence_mask shape_of sigmoid sign sin sinh slice_like sliding_window sort sparse_to_dense split
            sqrt squeeze stack std stft strided_slice subtract sum take tan tanh testing tile topk transform
            transpose trilu trunc trunc_divide trunc_mod unique unmatched_cases unravel_index var variance vm
            where zeros zeros_like
        """,
        differs={
            "parse": "the version may be left out; every problem with its place; any depth",
            "qnn": "has `quantize` and `dequantize`; `relax.relay.quantize` makes networks of int8",
            "segment_sum": "the number of segments must be given",
            "vision": "has `roi_align`; Relax has others in `relax.op.vision`",
        },
        elsewhere={"Span": "relax.ir.Span"},
        missing={
            "SequentialSpan": "use `relax.ir.Span`",
            "ScopeBuilder scope_builder": (
                "build `relax.relay.Let` and `relax.relay.If`, or text for `relax.relay.parse`"
            ),
            "TypeFunctor type_functor ty": "types are structural; use `relax.relay.analysis.all_type_vars`",
            "annotation collage data_dep_optimization": (
                "no outside code generators; `relax.relay.build` compiles all operators itself"
            ),
            "backend build_config build_module optimize param_dict": (
                "use `relax.relay.build`, `relax.relay.create_executor`"
            ),
            "load_param_dict save_param_dict": "keep weights in the executable, or with `numpy.savez`",
            "base function expr_functor parser op": "the names are in `relax.relay` itself",
            "bind": "use `relax.relay.Let`, or call the function with the values",
            "dataflow_pattern": "translate with `relax.relay.to_relax`, and use `relax.dpl`",
            "debug loops memory setrecursionlimit": ("programs of any depth are read; print with `relax.relay.astext`"),
            "device_copy": "programs run on one device",
            "frontend": ("use `relax.frontend.onnx.from_onnx`, which imports to Relax; no model is imported to Relay"),
            "random": "use `relax.op.random` in Relax",
            "reinterpret": "use `relax.op.reinterpret` in Relax",
            "strided_set": "use `where`, or `scatter_nd`",
            "sparse_fill_empty_rows sparse_reshape": "there are no sparse tensors; `sparse_to_dense` makes dense ones",
            "Id": "variables are identified as objects; compare with `is`",
        },
    ),
    Namespace(
        "tvm.relay.transform",
        "relax.relay.transform",
        works="""
            AlterOpLayout BackwardFoldScaleAxis CanonicalizeCast CanonicalizeOps CombineParallelBatchMatmul
            CombineParallelConv2D CombineParallelDense ConvertLayout DeadCodeElimination Defunctionalization
            DefuseOps DynamicToStatic EliminateCommonSubexpr EtaExpand FastMath FoldConstant
            ForwardFoldScaleAxis FuseOps InferType Inline LambdaLift PartialEvaluate RemoveUnusedFunctions
            SimplifyExpr SimplifyInference ToANormalForm ToBasicBlockNormalForm ToCPS ToGraphNormalForm
            ToMixedPrecision gradient to_cps un_cps
        """,
        missing={
            (
                "AnnotateTarget MergeCompilerRegions MergeComposite PartitionGraph "
                "InlineCompilerFunctionsBoundTo MarkCompilerFunctionsAsExtern "
                "OutlineCompilerFunctionsWithExistingGlobalSymbols"
            ): (
                "no outside code generators; translate with `relax.relay.to_relax`, and use "
                "`relax.transform.FuseOpsByPattern`"
            ),
            "AnnotateMemoryScope PlanDevices ManifestLifetimes": (
                "memory and devices are planned in Relax: `relax.transform.StaticPlanBlockMemory`, "
                "`relax.transform.RealizeVDevice`"
            ),
            "AnnotateSpans CapturePostDfsIndexInSpans": "the parser keeps every place in the text",
            "Conv2dToSparse Conv2dToSparse2 DenseToSparse": "there are no sparse tensors",
            "FakeQuantizationToInteger": "done in Relax: `relax.transform.FakeQuantizationToInteger`",
            "FirstOrderGradient LazyGradientInit": "use `relax.relay.transform.gradient`",
            "FoldScaleAxis": (
                "use `relax.relay.transform.ForwardFoldScaleAxis` and `BackwardFoldScaleAxis`, or `fold_scale_axis`"
            ),
            "FoldConstantExpr ToANormalFormExpr InferTypeLocal": (
                "run the pass on a module: `relax.relay.transform.fold_constant`, `to_a_normal_form`, "
                "`relax.relay.infer_type`"
            ),
            "FunctionPass function_pass": "use `relax.transform.module_pass`",
            (
                "DivToMul FlattenAtrousConv FoldExplicitPadding SimplifyExprPostAlterOp SimplifyFCTranspose SplitArgs"
            ): "use `relax.relay.transform.SimplifyExpr`; the rest is done in Relax",
            "Legalize": "operators are lowered in Relax: `relax.transform.LegalizeOps`",
            "build_config recast": "use `relax.relay.build`, `relax.relay.transform.ToMixedPrecision`",
        },
    ),
    Namespace(
        "tvm.relay.quantize",
        "relax.relay.quantize",
        works="QConfig current_qconfig prerequisite_optimize qconfig quantize",
    ),
    Namespace(
        "tvm.relay.analysis",
        "relax.relay.analysis",
        works="""
            all_type_vars all_vars bound_type_vars bound_vars check_kind free_type_vars free_vars
            post_order_visit unmatched_cases well_formed
        """,
        missing={
            "CallGraph": "use `relax.relay.transform.RemoveUnusedFunctions`, `Inline`",
            "annotated_regions extract_fused_functions get_calibration_data list_fake_quantized_op": (
                "no outside code generators; `relax.relay.quantize.quantize` calibrates itself"
            ),
            (
                "all_dtypes check_basic_block_normal_form check_constant count_layers "
                "detect_feature feature extract_intermdeiate_expr extract_operators "
                "get_total_mac_number list_op_freqs"
            ): "visit the program: `relax.relay.analysis.post_order_visit`",
            "search_fc_transpose sparse_conv2d sparse_dense": "there are no sparse tensors",
        },
    ),
    Namespace(
        "tvm.relay.nn",
        "relax.relay.nn",
        works="""
            adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
            adaptive_max_pool2d adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool2d_grad avg_pool3d
            batch_flatten batch_matmul batch_norm batch_to_space_nd bias_add conv1d conv1d_transpose conv2d
            conv2d_transpose conv3d conv3d_transpose cross_entropy cross_entropy_with_logits
            deformable_conv2d dense depth_to_space dilate dropout fast_softmax fifo_buffer global_avg_pool1d
            global_avg_pool2d global_avg_pool3d global_max_pool1d global_max_pool2d global_max_pool3d
            group_norm instance_norm l2_normalize layer_norm leaky_relu log_softmax lrn matmul max_pool1d
            max_pool2d max_pool2d_grad max_pool3d mirror_pad nll_loss pad prelu relu softmax
            space_to_batch_nd space_to_depth upsampling upsampling3d
        """,
        missing={
            ("conv2d_backward_weight correlation dropout_raw"): (
                "the operator is not in `relax.relay.list_operators()`; register it with "
                "`relax.relay.register_operator`, or write it in Relax"
            ),
            "bitpack bitserial_conv2d bitserial_dense": "there are no tensors of single bits",
            "sparse_add sparse_dense sparse_transpose": "there are no sparse tensors",
        },
    ),
    Namespace(
        "tvm.relay.image",
        "relax.relay.image",
        works="affine_grid grid_sample resize1d resize2d resize3d",
        missing={"crop_and_resize dilation2d": ("use `relax.op.image.resize2d` or `relax.te.compute` in Relax")},
    ),
)
"""See `table`."""
