"""Names of tvm.tir, tvm.te and tvm.topi."""

from __future__ import annotations

from typing import Final

from .table import Namespace

NAMESPACES: Final = (
    Namespace(
        "tvm.tir",
        "relax.tir",
        works="""
            Add And Any AssertStmt AttrStmt BijectiveLayout Block BlockRealize Broadcast Buffer BufferLoad
            BufferRegion BufferStore Call Cast CommReducer DeclBuffer Div EQ Evaluate FloatImm FloorDiv
            FloorMod For ForKind GE GT IfThenElse IntImm IterVar LE LT Layout Let LetStmt MatchBufferRegion
            Max Min Mod Mul NE Not Or PrimExpr PrimFunc Ramp Range Reduce Schedule Select SeqStmt Shuffle
            SizeVar Stmt StringImm Sub TensorIntrin Var While abs acos acosh address_of all analysis any
            asin asinh assume atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor buffer
            call_extern call_intrin call_packed call_pure_extern ceil ceildiv clz comm_reducer copysign cos
            cosh decl_buffer div erf exp exp10 exp2 floor floordiv floormod fmod hypot if_then_else indexdiv
            indexmod infinity isfinite isinf isnan layout likely log log10 log1p log2 max max_value min
            min_value nearbyint popcount pow power prod reinterpret ret round rsqrt schedule shift_left
            shift_right sigmoid sin sinh sqrt stmt_functor sum tan tanh transform trunc truncdiv truncmod
            tvm_access_ptr type_annotation undef
        """,
        differs={
            "bijective_layout": "layouts with other dimensions are a ValueError that names them, not None",
            "IndexMap": "`map_ndarray` with padding fills zeros",
        },
        elsewhere={
            "CallEffectKind": "relax.tir.analysis.CallEffectKind",
            "ScheduleState": "relax.tir.schedule.ScheduleState",
            "StmtSRef": "relax.tir.schedule.StmtSRef",
            "Trace": "relax.tir.schedule.Trace",
            "buffer_store": "relax.tir.BufferStore",
            "data_layout": "relax.tir.layout",
            "function": "relax.tir.PrimFunc",
            "op": "relax.tir",
        },
        missing={
            "Allocate AllocateConst ProducerLoad ProducerRealize BufferRealize DataProducer": (
                "buffers are allocated by `relax.tir.AllocBuffer` and blocks; tensor expressions "
                "become PrimFuncs by `relax.te.create_prim_func`"
            ),
            "BlockDependenceInfo BlockScope block_scope": (
                "ask the schedule: `sch.get_producers(block)`, `sch.get_consumers(block)`"
            ),
            (
                "TVMBackendAllocWorkspace TVMBackendFreeWorkspace tvm_stack_alloca "
                "tvm_stack_make_array tvm_stack_make_shape tvm_struct_get tvm_struct_set "
                "tvm_throw_last_error tvm_tuple tvm_check_return lookup_param anylist_getitem "
                "anylist_resetitem anylist_setitem_call_cpacked anylist_setitem_call_packed "
                "call_cpacked call_cpacked_lowered call_packed_lowered"
            ): ("calls follow tvm-ffi's ABI, which the code generator writes itself; use `relax.tir.call_packed`"),
            "add subtract multiply": "use the operators `+`, `-`, `*` of Python",
            "build": "use `relax.build`, or `relax.codegen.build_module` for PrimFuncs alone",
            "call_llvm_intrin call_llvm_pure_intrin": (
                "use `relax.tir.call_extern` with a C function, or the functions of `relax.tir`"
            ),
            "call_tir": "macros inline code: `T.macro`",
            (
                "dp4a simdgroup_load simdgroup_store simdgroup_multiply_accumulate "
                "make_filled_simdgroup_matrix mma_fill mma_store ptx_commit_group ptx_cp_async "
                "ptx_cp_async_bulk ptx_ldmatrix ptx_mma ptx_mma_sp ptx_wait_group tvm_bmma_sync "
                "tvm_fill_fragment tvm_load_matrix_sync tvm_mma_sync tvm_store_matrix_sync "
                "tvm_thread_allreduce"
            ): "an instruction of GPUs; code is generated for CPUs only",
            "get_active_lane_mask get_vscale_expr vscale vectorcombine vectorhigh vectorlow": (
                "vectors of any length: `T.vectorized`; branches become masks"
            ),
            "get_default_tir_pipeline get_tir_pipeline register_tir_pipeline pipeline": (
                "the steps are `relax.tir.transform.lowering_steps`"
            ),
            "handle_add_byte_offset isnullptr": "buffers are passed, not pointers; use `T.match_buffer`",
            "ir_builder": "write TVMScript, or text for `relax.script.from_source`",
            "ldexp": "use `x * relax.tir.exp2(y)`",
            "logaddexp": "use `relax.tir.max(a, b) + relax.tir.log1p(relax.tir.exp(-abs(a - b)))`",
            "nextafter": "not needed by any operator; reinterpret the bits with `relax.tir.reinterpret`",
            "q_multiply_shift q_multiply_shift_per_axis": "multiply in int64 and shift right",
            "start_profile_intrinsic end_profile_intrinsic trace": (
                "run the PrimFunc with `relax.tir.interpret`, or measure with `vm.profile`"
            ),
            "usmp": "memory is planned by `relax.transform.StaticPlanBlockMemory`",
            "noalias": 'write `T.func_attr({"tir.noalias": True})`',
            "ExprFunctor expr_functor": "use `relax.tir.PyStmtExprVisitor`, `relax.tir.PyStmtExprMutator`",
        },
    ),
    Namespace(
        "tvm.tir.transform",
        "relax.tir.transform",
        works="""
            Apply CommonSubexprElimTIR CompactBufferAllocation ConvertBlocksToOpaque ConvertForLoopsToSerial
            ConvertSSA Filter FlattenBuffer ForceNarrowIndexToInt32 HoistExpression HoistIfThenElse
            HoistedConditionals HoistedLetBindings InlinePrivateFunctions LoopPartition LowerInitBlock
            LowerMatchBuffer LowerOpaqueBlock NarrowDataType PlanAndUpdateBufferAllocationLocation
            PrimFuncPass RemoveAssume RemoveNoOp RenormalizeSplitPattern Simplify StorageRewrite UnrollLoop
            VectorizeLoop prim_func_pass
        """,
        missing={
            (
                "AnnotateDeviceRegions SplitHostDevice LowerDeviceKernelLaunch "
                "LowerDeviceStorageAccessInfo DecorateDeviceScope DefaultGPUSchedule InferFragment "
                "InjectPTXAsyncCopy InjectPTXLDG32 InjectPermutedLayout LiftThreadBinding "
                "LowerAsyncDMA LowerAutoCopy LowerCrossThreadReduction LowerThreadAllreduce "
                "LowerVtcmAlloc LowerWarpMemory ManifestSharedMemoryLocalStage "
                "MergeSharedMemoryAllocations TextureFlatten ThreadSync TransformMmaBufferLayout "
                "UnifyThreadBinding RemapThreadAxis InjectCopyIntrin"
            ): "there is no GPU back end",
            (
                "AnnotateEntryFunc BindTarget CombineContextCall MakePackedAPI MakeUnpackedAPI "
                "LowerTVMBuiltin LowerIntrin SkipAssert InstrumentBoundCheckers "
                "InstrumentProfileIntrinsics VerifyMemory"
            ): "the code generator does this itself; use `relax.codegen.build_module`",
            (
                "BF16ComputeLegalize BF16Legalize BF16StorageLegalize BF16TypeLowering "
                "FP8ComputeLegalize FP8StorageLegalize LowerCustomDatatypes"
            ): "narrow floats are computed by the code generator; nothing has to be run",
            "CreatePrimFuncFromTE": "use `relax.te.create_prim_func`",
            "ExtractPrimFuncConstants": (
                "constants are arguments of PrimFuncs; use `relax.const` and `relax.call_tir`"
            ),
            "InjectDoubleBuffer InjectSoftwarePipeline InjectVirtualThread InjectRollingBuffer": (
                "loops are not pipelined; processors do it themselves"
            ),
            "LiftAttrScope RewriteUnsafeSelect StorageFlatten PointerValueTypeRewrite": (
                "there is no form of the IR that needs it; `relax.tir.lower` has all steps"
            ),
            "ReduceBranchingThroughOvercompute UseAssumeToReduceBranches RemoveStoreUndef": (
                "use `relax.tir.transform.LoopPartition` and `relax.tir.transform.Simplify`"
            ),
            "RemoveWeightLayoutRewriteBlock": "use `relax.optimize.PackConstants` for packed weights",
        },
    ),
    Namespace(
        "tvm.tir.analysis",
        "relax.tir.analysis",
        works="""
            assert_pure_function calculate_allocated_bytes calculate_workspace_bytes
            detect_buffer_access_lca estimate_tir_flops expr_deep_equal find_anchor_block
            get_block_access_region get_block_read_write_region is_pure_function undefined_vars verify_ssa
            verify_well_formed
        """,
        missing={
            "OOBChecker": "indices are checked when a program runs, unless they are proved",
            "calculate_constant_bytes": "PrimFuncs hold no constants; use `relax.analysis.memory_plan`",
            "get_vtcm_compaction_passes verify_gpu_code verify_memory": "there is no GPU back end",
        },
    ),
    Namespace(
        "tvm.tir.schedule",
        "relax.tir.schedule",
        works="""
            BlockRV ExprRV Instruction InstructionKind LoopRV Schedule ScheduleError ScheduleState StmtSRef
            Trace
        """,
        missing={
            "BlockScope DepKind Dependency": (
                "ask the schedule: `sch.get_producers(block)`, `sch.get_consumers(block)`"
            ),
            "ScheduleDebugMask": "every primitive checks its result; there is nothing to switch on",
            "transform": "use `sch.tensorize` with a `relax.tir.TensorIntrin`",
            "analysis": "use `relax.tir.analysis`",
        },
    ),
    Namespace(
        "tvm.tir.Schedule",
        "relax.tir.Schedule",
        works="""
            add_unit_loop annotate annotate_buffer_access bind blockize cache_index cache_inplace cache_read
            cache_write compute_at compute_inline copy decompose_padding decompose_reduction enter_postproc
            fork_seed func_working_on fuse get get_block get_child_blocks get_consumers get_loops
            get_output_blocks get_producers get_sref loop_partition merge mod pad_einsum parallel reindex
            reindex_cache_read reindex_cache_write remove_rv reorder reorder_block_iter_var
            reverse_compute_at reverse_compute_inline rolling_buffer sample_categorical
            sample_compute_location sample_partitioned_tile sample_perfect_tile seed set_axis_separator
            set_scope show split storage_align trace transform_block_layout transform_layout unannotate
            unroll unsafe_set_dtype vectorize work_on
        """,
        differs={
            "rfactor": (
                "of a combination that keeps the first of equals, as argmax, only the outermost loop "
                "of the reduction may be factored"
            ),
            "tensorize": ("compares with the prover, operands in either order; strides and offsets are checked"),
        },
        missing={
            "can_decompose_padding": "try `sch.decompose_padding`, and catch `relax.tir.ScheduleError`",
            "fuse_reduction_epilogue": "use `sch.reverse_compute_inline`",
        },
    ),
    Namespace(
        "tvm.tir.stmt_functor",
        "relax.tir.stmt_functor",
        works="ir_transform post_order_visit pre_order_visit renew_defs substitute",
    ),
    Namespace(
        "tvm.tir.tensor_intrin",
        "relax.tir.tensor_intrin",
        missing={
            "arm_cpu cuda dot_product_common hexagon metal rocm x86": (
                "intrinsics are your own: `relax.tir.TensorIntrin.register`"
            )
        },
    ),
    Namespace(
        "tvm.te",
        "relax.te",
        works="""
            AXIS_SEPARATOR ComputeOp ExternOp PlaceholderOp Tensor TensorSlice abs acos acosh all any asin
            asinh atan atan2 atanh ceil comm_reducer compute const cos cosh create_prim_func erf exp floor
            fmod hypot if_then_else indexdiv indexmod isfinite isinf isnan log log10 log1p log2 max
            max_value min min_value nearbyint operation placeholder popcount power prod reduce_axis round
            rsqrt sigmoid sin sinh size_var sqrt sum tan tanh trunc truncdiv truncmod var
        """,
        missing={
            ("InferBound Schedule Stage SpecializedCondition create_schedule schedule thread_axis tag tag_scope"): (
                "loops are scheduled as TIR: `relax.tir.Schedule(relax.te.create_prim_func([A, B]))`"
            ),
            "ScanOp scan": "write the loop as TIR: `T.prim_func`",
            "TensorComputeOp tensor_intrin decl_tensor_intrin": ("use `sch.tensorize` with a `relax.tir.TensorIntrin`"),
            "CommReducer": "use `relax.te.comm_reducer`",
            "add subtract multiply": "use the operators `+`, `-`, `*` of Python",
            "autodiff gradient": "use `relax.te.adjoints`, which takes the gradients of the outputs",
            "hybrid": "write TVMScript: `T.prim_func`",
            "create_relax_prim_func create_prim_func_from_outputs": (
                "use `relax.te.create_prim_func`, or `relax.BlockBuilder.emit_te`"
            ),
            "decl_buffer": "use `relax.tir.decl_buffer`",
            "extern_primfunc": "use `relax.call_tir` with the PrimFunc",
            "bind opaque": "fold axes with `relax.tir.Schedule`",
            "clz": "use `relax.tir.clz`",
            "ldexp": "use `x * relax.te.exp2(y)`",
            "logaddexp": "use `relax.topi.log_add_exp`",
            "nextafter": "not needed by any operator",
            "trace": "run the PrimFunc with `relax.tir.interpret`",
        },
    ),
    Namespace(
        "tvm.topi",
        "relax.topi",
        works="""
            abs acos acosh add arange argmax argmin argsort asin asinh atan atanh bitwise_and bitwise_not
            bitwise_or bitwise_xor broadcast_to cast ceil clip concatenate cos cosh cumprod cumsum divide
            einsum equal erf exp expand_dims eye fast_tanh flip floor floor_divide floor_mod full full_like
            gather_elements gather_nd greater greater_equal identity image index_put index_tensor isfinite
            isinf isnan layout_transform left_shift less less_equal log log_add_exp logical_and logical_not
            logical_or logical_xor matmul max maximum mean meshgrid min minimum mod multiply negative nn
            not_equal one_hot power prod reinterpret repeat reshape reverse_sequence right_shift round rsqrt scatter
            scatter_elements scatter_nd sigmoid sign sin sinh slice_scatter sort split sqrt squeeze stack
            strided_slice subtract sum take tan tanh tile topk transform transpose trunc vision where
        """,
        missing={
            "adreno arm_cpu bifrost cuda hexagon intel_graphics mali rocm x86 generic hybrid tag": (
                "schedules are rules for TIR: `relax.schedules.ScheduleRule`"
            ),
            "adv_index": "use `relax.topi.index_tensor`",
            "all any": "use `relax.topi.min`, `relax.topi.max` of the tensor as int8",
            "ceil_log2 log10 log2": "use `relax.te.compute` with `relax.te.log2`, `relax.te.log10`",
            "collapse_sum": "use `relax.topi.collapse_sum_to`",
            "dft stft hamming_window signal scanop": (
                "there are `relax.op.hamming_window` and `relax.op.cumsum`; no Fourier transforms"
            ),
            "elemwise_sum": "use `relax.topi.add`",
            "fast_erf fast_exp": ("the exact ones are as fast: `relax.topi.erf`, `relax.topi.exp`"),
            "fixed_point_multiply": "multiply in int64 and shift right",
            "gather invert_permutation unravel_index matrix_set_diag sequence_mask searchsorted": (
                "use `relax.topi.gather_elements`, `relax.topi.scatter_elements`, "
                "`relax.topi.bucketize`, or `relax.te.compute`"
            ),
            "sparse sparse_fill_empty_rows sparse_reshape sparse_to_dense": "there are no sparse tensors",
            "tensordot": "use `relax.topi.einsum` or `relax.topi.matmul`",
            "testing": "compare with NumPy, or `relax.interpret`",
            "unique": "use `relax.op.unique`",
            "upsampling": "use `relax.op.image.resize2d`",
            "utils": "use `relax.arith.Analyzer`, `relax.tir`",
            "cumulative": "use `relax.topi.cumsum`, `relax.topi.cumprod`",
            "atan2": "use `relax.te.compute` with `relax.te.atan2`",
            (
                "const_vector sliding_window dyn_tile dynamic_strided_slice expand_like trilu "
                "ndarray_size shape strided_set scatter_add logsumexp"
            ): (
                "use the Relax operator next to it (`relax.op.dynamic_strided_slice`, "
                "`relax.op.tile`, `relax.op.triu`, `relax.op.shape_of`, `relax.op.scatter_elements`), "
                "or `relax.te.compute`"
            ),
        },
    ),
    Namespace(
        "tvm.topi.nn",
        "relax.topi.nn",
        works="""
            batch_norm bias_add conv2d dense flatten group_norm instance_norm layer_norm leaky_relu
            log_softmax lrn matmul nll_loss pad pixel_shuffle prelu relu rms_norm softmax
        """,
        missing={
            "adaptive_pool adaptive_pool1d adaptive_pool3d": "use `relax.topi.nn.adaptive_avg_pool`",
            "global_pool pool1d pool2d pool3d": (
                "use `relax.topi.nn.max_pool`, `relax.topi.nn.avg_pool`, which take any number of dimensions"
            ),
            "pool_grad": "use `relax.topi.nn.max_pool_backward`, `relax.topi.nn.avg_pool_backward`",
            "batch_flatten": "use `relax.op.nn.batch_flatten`",
            "batch_matmul": "use `relax.topi.matmul`",
            (
                "binarize_pack binary_dense bitpack bitserial_conv2d_nchw bitserial_conv2d_nhwc bitserial_dense"
            ): "there are no tensors of single bits",
            (
                "conv1d conv1d_transpose_ncw conv2d_hwcn conv2d_nchw conv2d_nhwc "
                "conv2d_transpose_nchw conv3d_ncdhw conv3d_ndhwc conv3d_transpose_ncdhw "
                "depthwise_conv2d_nchw depthwise_conv2d_nhwc group_conv1d_ncw group_conv2d_nchw "
                "group_conv2d_nhwc"
            ): (
                "use `relax.topi.nn.conv`, `relax.topi.nn.conv_transpose`, which take any number of "
                "dimensions, layouts and groups"
            ),
            (
                "conv2d_NCHWc depthwise_conv2d_NCHWc unpack_NCHWc_to_nchw conv2d_winograd_nchw conv2d_winograd_nhwc"
            ): "schedule rules pack and transform operands: `relax.schedules`",
            "deformable_conv2d_nchw deformable_conv2d_nhwc": "use `relax.op.vision.deform_conv2d`",
            "correlation_nchw fifo_buffer dilate softmax_common": "write it with `relax.te.compute`",
            "depth_to_space space_to_depth batch_to_space_nd space_to_batch_nd": (
                "use `relax.topi.nn.pixel_shuffle`, `relax.topi.nn.pixel_unshuffle`, or `reshape` and `transpose`"
            ),
            "fast_softmax": "use `relax.topi.nn.softmax`",
            "lstm": "use `relax.op.nn.lstm`",
            "mirror_pad": "use `relax.topi.nn.pad_by_mode`",
            "scale_shift_nchw scale_shift_nhwc": "use `relax.topi.multiply` and `relax.topi.add`",
            "simulated_dequantize simulated_quantize": "use `relax.topi.quantize`, `relax.topi.dequantize`",
            "upsampling upsampling3d": "use `relax.topi.image.resize`",
        },
    ),
    Namespace(
        "tvm.topi.image",
        "relax.topi.image",
        missing={
            "affine_grid grid_sample": "use `relax.op.image.affine_grid`, `relax.op.image.grid_sample`",
            "resize1d resize2d resize3d": ("use `relax.topi.image.resize`, which takes any number of dimensions"),
            "crop_and_resize": "use `relax.topi.image.resize` of a `relax.topi.strided_slice`",
            "dilation2d_nchw dilation2d_nhwc": "write it with `relax.te.compute`",
        },
    ),
    Namespace(
        "tvm.topi.vision",
        "relax.topi.vision",
        missing={
            "all_class_non_max_suppression non_max_suppression get_valid_counts": (
                "use `relax.op.vision.all_class_non_max_suppression`"
            ),
            "roi_align_nchw roi_align_nhwc rcnn": "use `relax.topi.vision.roi_align`",
            "roi_pool_nchw": "use `relax.topi.vision.roi_align`",
            "reorg proposal ssd multibox_prior multibox_transform_loc multibox_detection": (
                "write it with `relax.te.compute`"
            ),
        },
    ),
)
"""See `table`."""
