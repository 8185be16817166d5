"""Names of tvm itself and of its common modules."""

from __future__ import annotations

from typing import Final

from .table import Namespace

NAMESPACES: Final = (
    Namespace(
        "tvm",
        "relax",
        works="""
            Device IRModule TVMError arith build compile cpu device get_global_func instrument ir nd register_func
            relay runtime script target testing tir transform
        """,
        elsewhere={
            "convert": "relax.nd.array",
            "error": "relax.ir.DiagnosticError",
            "parser": "relax.script",
            "dlight": "relax.schedules",
            "meta_schedule": "relax.tune",
            "Object": "relax.ir.Node",
            "dtype": "relax.DataType",
        },
        missing={
            "cuda rocm metal opencl vulkan webgpu hexagon ext_dev": (
                "there is no device but the CPU; use `relax.cpu()`"
            ),
            "auto_scheduler autotvm": (
                "use `relax.tune`, which measures what the rules of `relax.build` may choose; write "
                "`relax.schedules.ScheduleRule` classes for your own"
            ),
            "contrib": "docs/coming-from-tvm.md says what to use instead of each of its modules",
            "driver exec": "use the command `relax` (`relax --help`)",
            "generic": "schedules are rules; use `relax.schedules`",
            "lower": "use `relax.tir.lower`, after `relax.te.create_prim_func` for tensor expressions",
            "micro": (
                "there is no back end for microcontrollers; `executable.export_library` writes a "
                "shared library for C and C++"
            ),
            "rpc": (
                "models run on this machine; copy the library of `executable.export_library` to "
                "another and load it there"
            ),
            "register_object": "objects of C++ are those of tvm-ffi; use `tvm_ffi.register_object`",
            "support ffi": "there is no C++ library behind; use `tvm_ffi` for its ABI",
            "DataTypeCode": 'use `relax.DataType("float32")` and its properties',
        },
    ),
    Namespace(
        "tvm.meta_schedule",
        "relax.tune",
        differs={
            "tune_tir": "tunes within `seconds`, dynamic sizes too; the database is a file in `work_dir`",
            "Database": "a SQLite file; `relax.build` uses it inside of `with database:`, or by RELAX_TUNE_DATABASE",
            "SpaceGenerator": "a subclass defines `apply`, which calls primitives of a `tir.Schedule`",
            "TuneContext": "a function, its target and the space of its schedules; `tune_tir` searches",
        },
        missing={
            "Builder Runner": "candidates are compiled and run in a process with limits, `relax.tune.Conditions`",
            "CostModel FeatureExtractor": "`relax.tune.draft.estimate` orders candidates by their loops",
            "ExtractedTask TaskScheduler tune_tasks": "`relax.tune.tune_relax` divides its time by a profile",
            "MeasureCallback Profiler": "give `relax.tune.tune_tir` a function `progress`",
            "Mutator Postproc SearchStrategy": "`relax.tune.search.search` changes the choices of any space",
            "ScheduleRule MultiLevelTilingTensorCore": "use `relax.schedules.ScheduleRule`, whose `space` is searched",
            "derived_object is_meta_schedule_enabled": "nothing is needed for subclasses; nothing is enabled",
        },
    ),
    Namespace(
        "tvm.ir",
        "relax.ir",
        works="""
            BaseExpr BaseFunc GlobalVar IRModule Span VDevice assert_structural_equal diagnostics instrument
            load_json module op save_json structural_hash transform
        """,
        differs={
            "structural_equal": (
                "Relay's expressions are compared as trees; `relax.relay.alpha_equal` minds sharing, as in TVM"
            )
        },
        elsewhere={
            "Constructor": "relax.relay.Constructor",
            "GlobalTypeVar": "relax.relay.GlobalTypeVar",
            "IncompleteType": "relax.relay.IncompleteType",
            "TypeCall": "relax.relay.TypeCall",
            "TypeConstraint": "relax.relay.TypeConstraint",
            "TypeData": "relax.relay.TypeData",
            "TypeRelation": "relax.relay.TypeRelation",
            "TypeVar": "relax.relay.TypeVar",
            "RelayExpr": "relax.relay.RelayExpr",
            "PrimExpr": "relax.tir.PrimExpr",
            "Range": "relax.tir.Range",
            "RelayRefType": "relax.relay.RefType",
        },
        missing={
            "Array Map container": "use tuples and dictionaries of Python",
            "Attrs DictAttrs attrs": (
                "attributes of functions are dictionaries (`func.attrs`), those of calls are fields (`call.attrs`)"
            ),
            "CallingConv": "functions follow tvm-ffi's ABI",
            "PoolInfo WorkspaceMemoryPools ConstantMemoryPools memory_pools": (
                "memory is planned by `relax.transform.StaticPlanBlockMemory`"
            ),
            "EnvFunc": "use `relax.get_global_func`",
            "GlobalInfo DummyGlobalInfo global_info": (
                "the global infos of a module are its virtual devices: `relax.VDevice`"
            ),
            "PointerType PrimType": "PrimExprs have a dtype: `expr.dtype`",
            "TensorType TupleType Type TypeKind FuncType": (
                "use `relax.TensorStructInfo` and its kin; Relay's types are in `relax.relay`"
            ),
            "make_node": "call the class of the node",
            "register_intrin_lowering": ("intrinsics are declared with their lowering in `relax.prim.intrin`"),
            "register_op_attr": "an operator's class holds its facts: docs/add-an-operator.md",
            "SourceName SequentialSpan": "use `relax.ir.Source`, `relax.ir.Span`",
            "json_compat type_functor type_relation": ("there are no older files to read; types are structural"),
            "base function": "use `relax.ir`",
        },
    ),
    Namespace(
        "tvm.transform",
        "relax.transform",
        works="ModulePass Pass PassContext PassInfo Sequential module_pass",
        elsewhere={"PrintIR": "relax.ir.instrument.PrintAfterAll"},
        missing={
            "ApplyPassToFunction": (
                "run the pass on a module of the functions chosen, and `mod.update` with the result"
            )
        },
    ),
    Namespace(
        "tvm.instrument",
        "relax.ir.instrument",
        works="PassInstrument PassTimingInstrument PrintAfterAll PrintBeforeAll pass_instrument",
        elsewhere={
            "DumpIR": "relax.ir.instrument.DumpInstrument",
            "PassPrintingInstrument": "relax.ir.instrument.PrintAfterAll",
        },
    ),
    Namespace(
        "tvm.runtime",
        "relax.runtime",
        works="Device NDArray PackedFunc ShapeTuple cpu device load_module vm",
        differs={"num_threads": "reads `RELAX_NUM_THREADS`; results do not depend on the number"},
        elsewhere={
            "DataType": "relax.DataType",
            "Module": "relax.runtime.Executable",
            "convert": "relax.nd.array",
            "ndarray": "relax.nd",
            "relax_vm": "relax.runtime.VirtualMachine",
        },
        missing={
            "cuda rocm metal opencl vulkan webgpu vpi ext_dev": ("there is no device but the CPU; use `relax.cpu()`"),
            "disco": "programs run on one worker",
            "executor": "use `relax.VirtualMachine`",
            ("load_param_dict save_param_dict load_param_dict_from_file save_param_dict_to_file name_transforms"): (
                "keep weights in the executable (`relax.build(mod, params=...)`), or with `numpy.savez`"
            ),
            "load_static_library system_lib": ("use `executable.export_library`, `relax.runtime.load_module`"),
            "DataTypeCode TVMByteArray String ObjectGeneric ObjectTypes Object convert_to_object": (
                "values of Python are converted when they are passed"
            ),
            "Scriptable script_printer": "every node has `.script()` and `.show()`",
            "profiling profiler_vm": "use `relax.VirtualMachine(executable, profile=True).profile`",
            "enabled support": "code is generated by LLVM for CPUs, always",
            "const": "use `relax.tir.const`",
            "dlpack container": "tensors have `__dlpack__`; use `relax.nd.from_dlpack`",
            "packed_func": "use `relax.register_func`, `relax.get_global_func`",
        },
    ),
    Namespace(
        "tvm.runtime.NDArray",
        "relax.runtime.NDArray",
        works="asnumpy copyfrom copyto device dtype numpy same_as shape to_dlpack",
    ),
    Namespace(
        "tvm.nd",
        "relax.nd",
        works="NDArray array cpu device empty from_dlpack",
        elsewhere={"numpyasarray": "relax.nd.array"},
        missing={"cuda gpu rocm metal opencl vulkan webgpu": "there is no device but the CPU; use `relax.cpu()`"},
    ),
    Namespace(
        "tvm.target",
        "relax.target",
        works="Target TargetKind",
        missing={
            "GenericFunc generic_func get_native_generic_func override_native_generic_func": (
                "schedule rules are chosen by the target: `relax.schedules.ScheduleRule`"
            ),
            "VirtualDevice compilation_config": "use `relax.VDevice`",
            "adreno bifrost cuda hexagon intel_graphics mali micro rocm stm32 vta": (
                'there is no GPU back end, nor one for accelerators; use `relax.target.Target("llvm")`'
            ),
            "arm_cpu riscv_cpu x86 create list_tags tag": (
                'name the processor: `relax.target.Target({"kind": "llvm", "mcpu": "skylake-avx512"})`'
            ),
            "codegen datatype intrin register_intrin_rule": (
                "the code generator is `relax.codegen`; intrinsics are declared with their lowering"
            ),
            "detect_target": '`relax.target.Target("llvm")` is this machine',
        },
    ),
    Namespace(
        "tvm.arith",
        "relax.arith",
        works="""
            Analyzer ConstIntBound IntConstraints IntConstraintsTransform IntSet IntervalSet IterMapExpr
            IterMapLevel IterMark IterSplitExpr IterSumExpr ModularSet deduce_bound detect_clip_bound
            detect_linear_equation estimate_region_lower_bound estimate_region_strict_bound
            estimate_region_upper_bound inverse_affine_iter_map iter_map_simplify neg_inf
            normalize_iter_map_to_expr normalize_to_iter_sum pos_inf solve_linear_equations
            solve_linear_inequalities
        """,
        differs={
            "detect_iter_map": (
                "claims hold for all sizes, 0 included; what may be empty is refused, unless `analyzer=` knows better"
            ),
            "subspace_divide": "a predicate over outer and inner loops becomes part of the inner condition",
        },
        missing={
            "CompareResult ProofStrength": ("`relax.arith.Analyzer.can_prove` answers True or False, at full strength"),
            "Extension": "rules of the prover are switched by no flag",
            "IntGroupBounds": "use `relax.arith.solve_linear_inequalities`",
            "PresburgerSet": "use `relax.arith.IntSet`",
        },
    ),
    Namespace(
        "tvm.script",
        "relax.script",
        works="from_source highlight ir ir_module parser printer relax tir",
        missing={
            "ir_builder": "write TVMScript, or text for `relax.script.from_source`",
            "register_dialect": "the dialects are `I`, `R` and `T`",
        },
    ),
    Namespace(
        "tvm.dlight",
        "relax.schedules",
        works="ApplyDefaultSchedule ScheduleRule cpu",
        elsewhere={"base": "relax.schedules"},
        missing={
            "gpu adreno roller": "there is no GPU back end; the rules are `relax.schedules.cpu`",
            (
                "analysis BlockInfo IterInfo collect_block_iter_vars_used_in_access_region "
                "collect_vars_used_in_prim_expr detect_dominant_read get_bytes get_root_block "
                "is_broadcast_epilogue normalize_prim_func"
            ): ("a rule asks its schedule: `sch.get_loops`, `sch.get_consumers`, `relax.tir.analysis`"),
            "try_inline try_inline_contiguous_spatial": ("use `sch.compute_inline`, `sch.reverse_compute_inline`"),
            "benchmark": "use the command `relax bench`",
        },
    ),
    Namespace(
        "tvm.contrib",
        "relax.contrib",
        missing={
            "cc clang emcc ndk nvcc msc xcode tar spirv": ("`executable.export_library` links without a compiler of C"),
            "graph_executor graph_runtime debugger pipeline_executor cuda_graph": ("use `relax.VirtualMachine`"),
            (
                "cblas cublas cublaslt cudnn cutlass dnnl hipblas hipblaslt mkl mps nnpack thrust "
                "vllm rocm random ethosu hexagon coreml_runtime tflite_runtime"
            ): "no outside libraries: `relax.build` compiles all operators itself",
            "dlpack": "use `relax.nd.from_dlpack`",
            "torch mxnet": "use `relax.nd.from_dlpack` for tensors, ONNX for models",
            "relay_viz tedd": "use the command `relax show`",
            "sparse": "there are no sparse tensors",
            "tvmjs": ("keep weights in the executable (`relax.build(mod, params=...)`), or with `numpy.savez`"),
            "popen_pool pickle_memoize download rpc utils": "use the standard library of Python",
        },
    ),
    Namespace(
        "tvm.testing",
        "relax.testing",
        missing={
            "assert_allclose": "use `numpy.testing.assert_allclose`",
            "CompareBeforeAfter": "use `relax.ir.assert_structural_equal`",
            "assert_prim_expr_equal check_bool_expr_is_true": "use `relax.arith.Analyzer.can_prove`",
            (
                "enabled_targets parametrize_targets parameter parameters fixture main requires_cuda "
                "requires_gpu requires_llvm requires_package skip_if_32bit slow uses_gpu"
            ): "use pytest; the only target is `llvm`",
            "local_run rpc_run": "use `relax.VirtualMachine`",
        },
    ),
)
"""See `table`."""
