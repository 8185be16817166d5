"""Names of tvm.relax."""

from __future__ import annotations

from typing import Final

from .table import Namespace

NAMESPACES: Final = (
    Namespace(
        "tvm.relax",
        "relax",
        works="""
            Binding BindingBlock BlockBuilder Call Constant DataTypeImm DataflowBlock DataflowBlockRewrite DataflowVar
            ExecBuilder Executable Expr ExprFunctor ExternFunc FuncStructInfo Function GlobalVar If
            MatchCast ObjectStructInfo PrimStructInfo PrimValue PyExprMutator PyExprVisitor SeqExpr
            ShapeExpr ShapeStructInfo StringImm StructInfo TensorStructInfo Tuple TupleGetItem
            TupleStructInfo VMInstrumentReturnKind Var VarBinding VirtualMachine analysis binding_rewrite block_builder
            build call_dps_packed call_pure_packed call_tir call_tir_inplace call_tir_with_grad const dpl
            expr expr_functor extern frontend backend get_pipeline get_shape_of ir op pipeline register_pipeline
            script struct_info testing training transform utils vm
        """,
        elsewhere={
            "Span": "relax.ir.Span",
            "exec_builder": "relax.runtime.exec_builder",
            "get_default_pipeline": "relax.get_pipeline",
            "vm_build": "relax.vm",
            "convert_to_expr": "relax.const",
            "VMExecutable": "relax.Executable",
        },
        missing={
            "DynTensorType FuncType ObjectType PackedFuncType ShapeType TupleType TensorType Type ty": (
                "expressions have struct infos and no second type; use `relax.TensorStructInfo` and its kin"
            ),
            "Id": "variables are identified as objects; compare with `is` or `same_as`",
            "SourceSpan global_info": "use `relax.ir.Span`, `relax.ir.VDevice`",
            "base_py_module BasePyModule": (
                "register Python functions with `relax.register_func`, and call them with `relax.op.call_pure_packed`"
            ),
            "distributed": "programs run on one worker; the collectives of `relax.op.ccl` are copies",
        },
    ),
    Namespace(
        "tvm.relax.op",
        "relax.op",
        works="""
            abs acos acosh add arange argmax argmin argsort asin asinh assert_op astype atan atanh
            bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_to bucketize builtin
            call_builtin_with_ctx call_dps_packed call_inplace_packed call_pure_packed call_tir
            call_tir_inplace call_tir_with_grad ccl ceil clip collapse_sum_like collapse_sum_to concat cos
            cosh cumprod cumsum dequantize distributed divide dynamic_strided_slice einsum equal erf
            ewise_fma exp expand_dims eye eye_like flatten flip floor floor_divide floor_mod full full_like
            gather_elements gather_nd grad greater greater_equal hamming_window hint_on_device image
            index_put index_tensor invoke_closure invoke_pure_closure isfinite isinf isnan layout_transform
            left_shift less less_equal linear log log_add_exp logical_and logical_not logical_or logical_xor
            make_closure masked_fill matmul max maximum mean median memory meshgrid min minimum mod
            multinomial_from_uniform multiply negative nn nonzero not_equal null_value one_hot ones
            ones_like outer permute_dims print prod quantize repeat reshape reverse_sequence right_shift
            round rsqrt scatter_elements scatter_nd shape_of shape_to_tensor sigmoid sign sin sinh
            slice_scatter sort split sqrt square squeeze stack std strided_slice subtract sum take tan tanh
            tensor_to_shape tile to_vdevice topk tril triu trunc variance vm where wrap_param zeros
            zeros_like
        """,
        differs={
            "unique": "`sorted=False` gives the order of first occurrence; TVM sorts all the same",
            "power": "operands are tensors; two scalars are refused",
        },
        missing={
            "all any": "on a bool tensor: `relax.op.min` and `relax.op.max`",
            "register_gradient": (
                "the gradient of an operator is a method of its class; for a kernel of your own, "
                "`relax.op.call_tir_with_grad`"
            ),
            "size": "use `relax.op.shape_of` and `relax.op.prod`, or `tensor.struct_info.shape`",
            "call_py_func": (
                "register a function with `relax.register_func` and call it with `relax.op.call_pure_packed`"
            ),
            "atan2": "use `relax.BlockBuilder.emit_te` with `relax.te.atan2`",
            (
                "get_valid_counts multibox_transform_loc non_max_suppression roi_align roi_pool "
                "all_class_non_max_suppression"
            ): ("use `relax.op.vision.all_class_non_max_suppression`, `relax.op.vision.roi_align`"),
        },
    ),
    Namespace(
        "tvm.relax.op.nn",
        "relax.op.nn",
        works="""
            adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d attention attention_bias
            attention_var_len avg_pool1d avg_pool2d avg_pool3d batch_flatten batch_norm conv1d
            conv1d_transpose conv2d conv2d_transpose conv3d conv3d_transpose cross_entropy_with_logits
            dropout gelu gelu_tanh group_norm instance_norm layer_norm leakyrelu log_softmax max_pool1d
            max_pool2d max_pool3d nll_loss pad pixel_shuffle prelu relu relu6 rms_norm selu silu softmax
            softplus
        """,
    ),
    Namespace(
        "tvm.relax.op.image",
        "relax.op.image",
        works="affine_grid grid_sample resize2d",
        missing={"resize3d": "use `relax.BlockBuilder.emit_te` with your own tensor expression"},
    ),
    Namespace(
        "tvm.relax.op.vision",
        "relax.op.vision",
        works="all_class_non_max_suppression roi_align",
        missing={
            "get_valid_counts non_max_suppression multibox_transform_loc": (
                "use `relax.op.vision.all_class_non_max_suppression`"
            ),
            "roi_pool": "use `relax.op.vision.roi_align`",
        },
    ),
    Namespace(
        "tvm.relax.op.grad",
        "relax.op.grad",
        works="""
            avg_pool2d_backward end_checkpoint max_pool2d_backward nll_loss_backward no_grad
            start_checkpoint take_backward
        """,
    ),
    Namespace(
        "tvm.relax.op.memory",
        "relax.op.memory",
        works="alloc_storage alloc_tensor kill_storage kill_tensor",
        differs={"view": "the result does not alias the operand; the compiler may still let them share memory"},
        missing={"ensure_zero_offset": "tensors begin at their first byte; leave it out"},
    ),
    Namespace("tvm.relax.op.vm", "relax.op.vm", works="alloc_storage alloc_tensor call_tir_dyn kill_object"),
    Namespace("tvm.relax.op.builtin", "relax.op.builtin", works="alloc_tensor stop_lift_params"),
    Namespace(
        "tvm.relax.op.ccl",
        "relax.op.ccl",
        differs={"allreduce allgather broadcast_from_worker0 scatter_from_worker0": ("one worker: results are copies")},
    ),
    Namespace(
        "tvm.relax.op.distributed",
        "relax.op.distributed",
        works="redistribute_replica_to_shard",
        missing={
            "annotate_sharding call_tir_local_view redistribute": ("programs run on one worker; there are no meshes")
        },
    ),
    Namespace(
        "tvm.relax.transform",
        "relax.transform",
        works="""
            AdjustMatmulOrder AnnotateTIROpPattern AttachAttrLayoutFreeBuffers AttachGlobalSymbol BindParams
            BindSymbolicVars BundleModelParams CallTIRRewrite CanonicalizeBindings CombineParallelMatmul
            ConvertToDataflow DataflowBlockPass DataflowUseInplaceCalls DeadCodeElimination
            DecomposeOpsForInference DecomposeOpsForTraining ExpandMatmulOfSum ExpandTupleArguments
            FoldBatchnormToConv2D
            FunctionPass FuseOps FuseTIR FusionPattern Gradient InlinePrivateFunctions KillAfterLastUse LambdaLift
            LazyTransformParams LegalizeOps LiftTransformParams LowerAllocTensor LowerRuntimeBuiltin
            MergeCompositeFunctions Normalize NormalizeGlobalVar
            OptimizeLayoutTransform PatternCheckContext RealizeVDevice
            RemovePurityChecking RemoveRedundantReshape RemoveUnusedOutputs RemoveUnusedParameters
            ReorderPermuteDimsAfterConcat ReorderTakeAfterMatmul RewriteDataflowReshape ToNonDataflow
            TopologicalSort UpdateParamStructInfo UpdateVDevice VMBuiltinLower VMShapeLower
            dataflowblock_pass function_pass legalize_ops
        """,
        elsewhere={"AttachExternModules": "relax.frontend.nn.attach_extern_modules"},
        differs={
            "ConvertLayout": "pools and resizes may be named too; values are converted once for all users",
            "ToMixedPrecision": (
                "float16 or bfloat16; a constant that float16 does not hold keeps its operator in float32"
            ),
            "MetaScheduleApplyDatabase": ("gives PrimFuncs an attribute by which they are scheduled later"),
            "MetaScheduleTuneIRMod MetaScheduleTuneTIR": (
                "tune within `seconds`; the records are a SQLite file in `work_dir`"
            ),
            "FoldConstant": (
                "interprets constants if that is exact and short; "
                "`FoldConstant(evaluate=relax.codegen.CompiledKernels())` compiles kernels"
            ),
            "FastMathTransform": "`R.tanh` only: other kernels are as fast as TVM's formulas",
            "AlterOpImpl": "no axis separators; a result whose map leaves places empty keeps its kernel",
            "EliminateCommonSubexpr": "calls of functions are not merged, where nobody can tell",
            "FuseOpsByPattern": (
                "a match whose inner results are read outside is left alone; patterns are tried from "
                "the last binding on"
            ),
            "LazyGetInput LazySetOutput": ("the functions passed are packed functions, such as those of Python"),
            "RunCodegen": "a code generator returns `relax.runtime.modules.Module`s instead of runtime modules of C++",
            "SpecializePrimFuncBasedOnCallSite": (
                "sizes too, where all calls say the same; a PrimFunc that is visible from outside stays"
            ),
            "SplitCallTIRByPattern": "the code generator names a packed function instead of giving source code",
            "StaticPlanBlockMemory": "one storage for a function, with offsets over its shape variables",
        },
        missing={
            "AllocateWorkspace": "outside code generators allocate what they need themselves",
            "SplitLayoutRewritePreproc": (
                "use `relax.transform.ConvertLayout`, and `relax.optimize.PackConstants` for packed weights"
            ),
            "ComputePrimValue": ("values of shape variables are computed by `relax.build`; nothing has to be run"),
            "FewShotTuning": (
                "use `relax.tune.tune_relax`, which takes seconds, or `relax.schedules.ApplyDefaultSchedule`"
            ),
            "IPCAllReduceRewrite LowerGPUIPCAllocStorage RewriteCUDAGraph": "there is no GPU back end",
        },
    ),
    Namespace(
        "tvm.relax.analysis",
        "relax.analysis",
        works="""
            BaseCheckResult all_global_vars all_vars bound_vars check_well_formed computable_at_compile_time
            contains_impure_call definable_tir_vars_in_struct_info defined_symbolic_vars
            derive_call_ret_struct_info detect_recursion erase_to_well_defined estimate_memory_usage
            free_symbolic_vars free_vars get_var2val has_reshape_pattern name_to_binding post_order_visit
            remove_all_unused struct_info_base_check struct_info_lca
            tir_vars_in_struct_info udchain well_formed
        """,
        elsewhere={"can_prove_equal": "relax.arith.Analyzer.can_prove_equal"},
        differs={
            "suggest_layout_transforms": (
                "iterators that an output has not, those of reductions, follow the iterator before them; only "
                "accesses at iterators, or 0, are described"
            )
        },
        missing={
            "collect_non_negative_expressions": (
                "shape variables are not negative by rule; ask `relax.arith.Analyzer`"
            ),
            "get_static_type": "expressions have struct infos and no second type; use `expr.struct_info`",
            "used_vars": "use `relax.analysis.all_vars` or `relax.analysis.free_vars`",
            "rec_global_vars": "use `relax.analysis.all_global_vars`",
        },
    ),
    Namespace(
        "tvm.relax.frontend",
        "relax.frontend",
        works="detach_params nn onnx torch",
        elsewhere={"common": "relax.frontend.detach_params"},
        missing={"stablehlo tflite": "convert to ONNX and use `relax.frontend.onnx.from_onnx`"},
    ),
    Namespace(
        "tvm.relax.frontend.nn",
        "relax.frontend.nn",
        works="""
            Attention Conv1D Conv2D Conv3D ConvTranspose1D Effect Embedding GELU GroupNorm IOEffect Identity KVCache
            LayerNorm Linear ModuleDict ModuleList Mutator Object ParameterDict ParameterList RMSNorm ReLU
            SiLU Tensor TimestepEmbedding Timesteps add_extern op spec
        """,
        differs={
            "Module": (
                "a parameter that several modules share is one parameter of a function; `jit` makes parameters "
                "constants (`constants=False` does not), and takes further forms of tensors and the arguments of "
                "`relax.build`; `load_state_dict` takes arrays and functions too"
            ),
            "Parameter": "`data` may be a function, called when the data is first read",
            "SubroutineMixin": "modules share a function if they compute the same, not if their classes are one",
            "ExternModule": "`load` returns a `relax.runtime.modules.Module`; `symbols` is public",
            "ObjectModule": "the file is a shared library, or an object file that a C++ compiler links",
            "SourceModule": "sources are C or C++, with functions of tvm-ffi",
        },
    ),
    Namespace(
        "tvm.relax.frontend.nn.spec", "relax.frontend.nn.spec", works="Int MethodSpec ModuleSpec Object Tensor Tuple"
    ),
    Namespace(
        "tvm.relax.frontend.nn.op",
        "relax.frontend.nn.op",
        works="""
            add arange argsort astype broadcast_to ccl_allgather ccl_allreduce ccl_broadcast_from_worker0 chunk concat
            conv1d conv1d_transpose conv2d conv3d cumsum debug_func divide empty equal exp extern floor full gelu
            greater greater_equal group_norm interpolate layer_norm less less_equal log matmul max maximum min minimum
            multinomial_from_uniform multiply negative not_equal ones pad permute permute_dims prelu print_ relu relu6
            renormalize_top_p_top_k_prob repeat reshape rms_norm sample_top_p_top_k_from_sorted_prob
            scaled_dot_product_attention sigmoid silu softmax softplus sort split sqrt square squeeze subtract sum take
            tanh tensor_expr_op tensor_ir_inplace_op tensor_ir_op topk triu unsqueeze where wrap_nested zeros
        """,
        differs={"get_timestep_embedding": "an odd `embedding_dim` adds a column of zeros"},
    ),
    Namespace(
        "tvm.relax.frontend.onnx",
        "relax.frontend.onnx",
        differs={
            "from_onnx": (
                "lists every operator that is not supported, not the first; external data of a "
                "`ModelProto` must be loaded before"
            )
        },
    ),
    Namespace(
        "tvm.relax.frontend.torch",
        "relax.frontend.torch",
        differs={
            "from_exported_program": (
                "lists every operator that is not supported; changed buffers are parameters, and their new "
                "values are returned after the outputs"
            ),
            "from_fx": "exports the module with `torch.export`; inputs have the module's own names",
            "relax_dynamo": (
                "takes a `target`; sizes that torch keeps open are shape variables; weights that change later count"
            ),
        },
        missing={
            "dynamo_capture_subgraphs": (
                "use `relax.frontend.torch.relax_dynamo` with a pipeline that keeps the modules it gets"
            )
        },
    ),
    Namespace(
        "tvm.relax.dpl",
        "relax.dpl",
        works="""
            AndPattern AttrPattern CallPattern ConstantPattern DFPattern DataTypePattern DataflowVarPattern
            ExprPattern ExprPatternRewriter ExternFuncPattern FunctionPattern GlobalVarPattern NotPattern OrPattern
            OrRewriter PatternContext PatternMatchingRewriter PatternSeq PrimArrPattern SameShapeConstraint
            ShapePattern StructInfoPattern TupleGetItemPattern TuplePattern TupleRewriter UnorderedTuplePattern
            VarPattern WildcardPattern has_attr has_dtype is_call_dps_packed is_call_packed is_call_tir is_const
            is_dfv is_expr is_gv is_op is_shape is_tuple is_tuple_get_item is_var make_fused_bias_activation_pattern
            rewrite_bindings wildcard
        """,
        differs={
            "rewrite_call": (
                "bindings are looked through where their values still mean the same; operands of "
                "commutative operators match in either order"
            )
        },
        missing={"TypePattern DFConstraint": "match struct infos: `pattern.has_struct_info`"},
    ),
    Namespace(
        "tvm.relax.utils",
        "relax.utils",
        works="copy_with_new_vars",
        elsewhere={"convert_to_expr": "relax.const"},
        missing={
            "args_converter": "operators convert Python values themselves",
            "gen_call_tir_inputs": "use `relax.BlockBuilder.call_te`",
            "metadata_partitioner": "`mod.script()` prints the constants' metadata with the program",
        },
    ),
    Namespace("tvm.relax.training", "relax.training", works="AppendLoss SetupTrainer Trainer loss optimizer utils"),
    Namespace(
        "tvm.relax.training.loss",
        "relax.training.loss",
        works="CrossEntropyLoss L1Loss Loss MSELoss",
        differs={"CategoricalCrossEntropyLoss": "the mean is over samples, as in `CrossEntropyLoss` of their classes"},
    ),
    Namespace("tvm.relax.training.optimizer", "relax.training.optimizer", works="Adam MomentumSGD Optimizer SGD"),
    Namespace("tvm.relax.training.utils", "relax.training.utils", works="AppendLoss register_te_gradient"),
    Namespace("tvm.relax.vm", "relax.vm", works="Executable VMInstrumentReturnKind VirtualMachine build"),
)
"""See `table`."""
