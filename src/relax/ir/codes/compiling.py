"""Codes of compilation: E4 passes and building, E5 loops."""

from __future__ import annotations

from .code import declare

# ------------------------------------------------------------------------------------ E4: passes, building

declare(
    "E4001",
    "operators that cannot be legalized",
    "LegalizeOps replaces operators by PrimFuncs made from their formulas. These operators have no "
    "formula, or too little is known of their operands and kernels must not be chosen at run time. All of them, of all "
    "functions, are listed.",
    'Match_cast the operands to what is known, or give a rule: `LegalizeOps({"my.op": rule})`.',
)
declare(
    "E4002",
    "a call that CallTIRRewrite cannot take",
    "CallTIRRewrite makes allocations explicit. It needs calls outside of dataflow blocks, whose "
    "arguments and integers are known one by one.",
    "Run ToNonDataflow first; match_cast tuples and shapes to their fields.",
)
declare(
    "E4003",
    "parameters that cannot be bound",
    "BindParams was given a name that no parameter has, a value that does not fit the parameter, a "
    "parameter twice, or a function that others call with all its parameters.",
    "Bind parameters of an entry point, by their names or their Vars.",
)
declare(
    "E4004",
    "shape variables that cannot be bound",
    "BindSymbolicVars was given a name that no signature has or that means several variables, or a value "
    "that is no size or makes a size in the function negative.",
    "Use the names of the signatures, and integers from zero on.",
)
declare(
    "E4005",
    "an entry function that does not exist",
    "A pass was told to keep functions of which the module does not have one.",
    "Give names of functions in the module.",
)
declare(
    "E4006",
    "a value used after it was reused in place",
    "An in-place call takes over the memory of an argument, which, under whatever name, must not be used "
    "afterwards. A constant, a value from outside a local function and a value given twice cannot be "
    "taken over either.",
    "Use the result of the call, put the other uses before it, or allocate: index -1, or `R.call_tir`.",
)
declare(
    "E4007",
    "an unknown pipeline",
    "There is no registered pipeline of this name.",
    "Take one of those listed, or register it: `relax.register_pipeline(name)`.",
)
declare(
    "E4008",
    "a schedule rule that returns something else",
    "A rule given to ApplyDefaultSchedule returned what is neither a PrimFunc, nor a Schedule, nor a list of "
    "schedules, nor None.",
    "Return the arranged function, or None where the rule is not for it.",
)
declare(
    "E4009",
    "layouts that cannot be had",
    "ConvertLayout was given a name that no operator has, or layouts that the operator does not compute in: "
    "each is a permutation of the letters of the operand's dimensions, of which a convolution or a pool splits off "
    "parts.",
    'Name operators with layouts, with those of data, kernel and result: `{"relax.nn.conv2d": ["NHWC", "OHWI"]}`.',
)
declare(
    "E4010",
    "mixed precision that cannot be had",
    "ToMixedPrecision was given a dtype that it does not convert to, or names in `fp16_input_names` that no float32 "
    "parameter has, or whose function is called by others, which pass float32.",
    'Convert to "float16" or "bfloat16", and name float32 parameters of entry points.',
)
declare(
    "E4011",
    "parameters that cannot be rearranged",
    "A pass over the weights of a model was given a function whose attribute `num_input` is not a number of its "
    "parameters, whose callers pass all its parameters, or that does not take the weights which others take.",
    "Say how many of the first parameters are inputs, in functions that no other function calls.",
)
declare(
    "E4012",
    "a function that cannot be differentiated",
    "Gradient was given a function that it cannot differentiate: the target is no scalar of floats, a required "
    "parameter has no gradient, or something between them has none: a branch, a call of another function, an operator "
    "without a rule, or operands of which the rule needs to know more. All reasons are listed.",
    "Reduce the target with `R.sum` or `R.mean`, name the parameters in `require_grads`, and take what has no gradient "
    "out of the way with `R.grad.no_grad`.",
)
declare(
    "E4013",
    "parts of a training setup that do not fit",
    "A model, a loss, an optimizer or a value of `relax.training` does not fit the others: the loss does not take what "
    "the model gives, the module does not say how many parameters are trained, or these are no tensors of floats of "
    "static shape.",
    "Make the loss with the struct info of the model's predictions, and say `param_num` and `state_num` in "
    "`I.module_attrs`.",
)
declare(
    "E4014",
    "a function that no outside code generator takes",
    "RunCodegen hands functions with the attribute `Codegen` to the code generator of that name. There is none, or the "
    "outputs of a function, which the caller allocates, are no tensors of known shapes and dtypes, or the generator "
    "cannot express the function or returned no module.",
    "Register the code generator with `relax.register_codegen`, annotate what the functions return, and decline in the "
    "`check` of a pattern what the library does not compute.",
)
declare(
    "E4015",
    "index maps that do not fit a kernel",
    "AlterOpImpl was given another number of index maps than a kernel has buffers, results included, or a map of "
    "another number of indices than its buffer has dimensions.",
    "Give a map for each buffer, and None for one that keeps its layout.",
)
declare(
    "E4016",
    "an answer that does not fit the matches in a kernel",
    "SplitCallTIRByPattern asks a function of the user what computes the nests of a kernel that match patterns. Its "
    "answer is not the name of a packed function, the number of matches it computes, and the buffers it takes, or "
    "these are not the ones that the nests read, and the one they write last.",
    "Return a list of the three, with `matched_buffers` of a match, or an empty list.",
)
declare(
    "E4017",
    "combinations of operands that kernels cannot be compiled for",
    "The entry relax.LegalizeOps.combinations of PassContext's configuration is a list of pairs of dtype and rank. "
    "Something in it is none, or the pairs have too many combinations for the operands of one call.",
    'Write the dtypes and ranks that the program meets: `[("float32", 1), ("float32", 2)]`.',
)
declare(
    "E4018",
    "an attribute `external_mods` that holds no modules",
    "The attribute of a program is the list of what outside code generators made: for each module its kind, its code "
    "as a constant of bytes, the names of its functions, and its constants by name.",
    "Let `relax.backend.partition` write the attribute, or `relax.extern_modules.with_extern_modules`.",
)
declare(
    "E4019",
    "a module that describes no rewriting",
    "The module of a rewriter has a function `pattern` and a function `replacement` of one signature. The pattern is "
    "pure, uses each parameter, and is made of calls, tuples and constants. Other functions are private.",
    "Correct the module, or write the pattern with `relax.dpl` and use `PatternMatchingRewriter.from_pattern`.",
)
declare(
    "E4020",
    "rewriting by patterns that does not end",
    "A PatternMatchingRewriter matches what its rules return again, until no rule matches. There were more "
    "replacements than a program of this size can need.",
    "Let each rule make the program smaller or simpler, or return None from its callback where it has been applied.",
)
declare(
    "E4021",
    "a request that a dataflow block does not allow",
    "DataflowBlockRewrite adds bindings under names that are free, replaces variables in the block by others of it, "
    "and removes bindings that nothing uses.",
    "Choose another name, or replace its uses before. `allow_undef=True` ignores variables of other blocks.",
)
declare(
    "E4022",
    "layouts that do not fit what a kernel writes",
    "`suggest_layout_transforms` takes an index map for each buffer that the kernel writes, with as many indices as "
    "the buffer has dimensions.",
    "Give a map for each output, in the order of parameters.",
)
declare(
    "E4101",
    "an operator that nothing lowers",
    "When bytecode is made, an operator is left that neither a PrimFunc nor a function of the machine "
    "computes. The pipeline that should have lowered it was left out, or stopped early.",
    "Use the default pipeline, or run LegalizeOps and CallTIRRewrite in your own.",
)
declare(
    "E4102",
    "an expression that bytecode cannot hold",
    "When bytecode is made, something is left that a pass should have removed: a local function, a nested block.",
    "Use the default pipeline, or run Normalize and LambdaLift in your own.",
)
declare(
    "E4103",
    "no Relax function to call",
    "`relax.build` makes a program for the virtual machine, which calls Relax functions; the module has no public one.",
    "Add a Relax function, or compile the PrimFuncs by themselves with `relax.codegen.build_module`.",
)
declare(
    "E4104",
    "a device without code",
    "Code is generated for host devices. A value is moved to a virtual device of another target.",
    'List the device with a host target: `I.vdevice("llvm", 1)`.',
)

declare(
    "E4110",
    "a schedule that no rule has",
    "The attribute `relax.schedule` of a PrimFunc names a rule and its parameters, which come before the choice of "
    "the rules; or it lists several, each but the last one with a bound on one size. There is no such rule for the "
    "target, its space has no such parameters, or the list has another form.",
    "Name a rule of `relax.schedules.cpu.RULES`, and parameters of its `space`; those left out have their default.",
)
declare(
    "E4111",
    "tuning records that cannot be read",
    "A file of tuning records is not one that `relax tune` wrote: another kind of database, a damaged record, a line "
    "of JSON with other fields. Nothing of it is used.",
    "Move the file away, or name another file in the environment variable `RELAX_TUNE_DATABASE`; empty: none.",
)
declare(
    "E4112",
    "a program that cannot be tuned",
    "Tuning measures kernels on this machine, with random arguments or given ones. The target is another machine, "
    "nothing in the program is left to be scheduled, there are no arguments for its entry point, or no node of the Ray "
    "cluster (`cluster`) offers the target's processor and has the same version of relax.",
    "Tune a program with kernels for `llvm`; give arguments with `inputs`, sizes with `sizes`.",
)

declare(
    "E4301",
    "a name of TVM that is not here",
    "The program uses a module, class or function that TVM has. It is not built yet, or is called otherwise here. "
    "The error is an AttributeError too, or an ImportError where the name is imported: `hasattr` and `try` find out.",
    "Use what the error names; docs/coming-from-tvm.md lists every public name of TVM, and what is here for it.",
)

declare(
    "E4302",
    "a BlockBuilder used out of order",
    "A method of `BlockBuilder` is called where it cannot be: `emit` outside a function, `emit_output` outside a "
    "dataflow block, a function whose scope ends without a result. The error is a RuntimeError too.",
    "Emit inside `with bb.function(name, params):`, and end it with `bb.emit_func_output`.",
)

# ------------------------------------------------------------------------------------ E5: loops

declare(
    "E5001",
    "a tensor expression that is no function",
    "`te.create_prim_func` takes the inputs and outputs of a computation. Something among them is no "
    "tensor, is given twice, or the computation needs an input that is not given.",
    "List every placeholder, then every output, each once.",
)
declare(
    "E5010",
    "a view that cannot be lowered",
    "`T.match_buffer` inside a block gives a part of a buffer another name. Accesses of its elements are "
    "rewritten; a pointer to it, or a shape that does not follow the region, cannot be.",
    "Access the elements, or use the buffer behind the view.",
)
declare(
    "E5011",
    "a block with an init",
    "ConvertBlocksToOpaque was given a block whose init was not lowered.",
    "Run LowerInitBlock first; `tir.lower` runs all passes in order.",
)
declare(
    "E5012",
    "a block that is not opaque",
    "LowerOpaqueBlock was given a block with variables, an init or views.",
    "Run LowerInitBlock, LowerMatchBuffer and ConvertBlocksToOpaque first; `tir.lower` runs all passes in order.",
)
declare(
    "E5020",
    "values that do not fit a PrimFunc",
    "`specialize` was given a value for something that is no parameter and no size of the function, or a "
    "buffer that does not fit.",
    "Give sizes and scalars by their variables, tensors by a buffer of the same rank and dtype.",
)
declare(
    "E5021",
    "a PrimFunc that is not pure",
    "`assert_pure_function` was given a function that stores to a buffer it does not allocate, or that calls "
    "something of which nothing is known.",
    "Store to buffers that the function allocates, and call functions that are known to be pure.",
)
declare(
    "E5022",
    "an index that does not fit 32 bits",
    "`ForceNarrowIndexToInt32` was given a function with a constant index or bound that is no int32.",
    "Use `NarrowDataType(32)`, which narrows the indices that fit.",
)
declare(
    "E5101",
    "a variable that nothing binds",
    "Inside a PrimFunc a variable is a parameter, a size of a parameter's buffer, or bound by a loop, a "
    "block or a let around its use.",
    "Make it a parameter, or move the use into the scope.",
)
declare(
    "E5102",
    "a buffer without storage",
    "A buffer is used outside of the scope of its storage: no parameter holds it and no block around allocates it.",
    "Match it to a parameter, or allocate it in a block around every use.",
)
declare(
    "E5103",
    "a variable bound inside its own scope",
    "A loop, a block or a let binds a variable that is bound around it already. Variables are objects: "
    "two of one name are fine.",
    "Make a new variable.",
)
declare(
    "E5104",
    "wrong dtypes in loops",
    "The bounds of a loop are integers of the loop variable's dtype, conditions are bool, a region has "
    "as many dimensions as its buffer, and a let's value has the dtype of its variable.",
    "Cast, or compare with zero.",
)
declare(
    "E5105",
    "a block with a wrong number of values",
    "Each variable of a block is given one value.",
    "Give as many values as the block has variables.",
)
declare(
    "E5106",
    "an init that uses a reduction variable",
    "The init of a block runs once per result, before the reduction, when its reduction variables have no value.",
    "Index the init's store with the spatial variables only.",
)
declare(
    "E5107",
    "a buffer on what is no handle",
    "The buffer map gives a buffer to something that is no parameter of the function, or is no handle.",
    "Make the parameter a `T.handle`, or write `T.Buffer(...)` as its annotation.",
)
declare(
    "E5901",
    "a dtype without code",
    "The code generator has no representation of values of this dtype.",
    "Use a wider dtype.",
)
declare(
    "E5902",
    "a variable without a value",
    "The code being generated reads a variable that is neither a parameter, nor a size, nor bound around.",
    "Make it a parameter, or give some buffer a dimension that is just the variable.",
)
declare(
    "E5903",
    "a call without code",
    "An intrinsic is called for which there is no code, a function is called that is not in the module, "
    "or its arguments do not fit.",
    "Use an intrinsic the hint names, add the function to the module, or correct the arguments.",
)
declare(
    "E5904",
    "an expression or a statement without code",
    "Something is left that should have been lowered, such as a reduction or a block, or an operation is "
    "not defined for its dtype.",
    "Make PrimFuncs with `te.create_prim_func`; lower them with `tir.lower`.",
)
declare(
    "E5905",
    "a buffer used where it has no storage",
    "The code being generated uses a buffer that no parameter holds and nothing has allocated, or a view that is "
    "larger than the memory it views.",
    "Match it to a parameter, or allocate it around its uses.",
)
declare(
    "E5906",
    "a loop for a GPU",
    "A loop is bound to a GPU's threads, and the target is a CPU.",
    "Make it a serial or a parallel loop.",
)
declare(
    "E5907",
    "a size that cannot be found",
    "A dimension, a stride or an offset of a parameter's buffer uses a variable that no parameter gives: "
    "it must stand alone in some dimension, to be read from the argument.",
    "Pass the variable as a parameter of its own.",
)
declare(
    "E5908",
    "not a PrimFunc",
    "`relax.codegen.build_module` compiles PrimFuncs, and `relax.tir.explain` explains them; the module has other "
    "functions.",
    "Compile a whole program with `relax.build`.",
)
declare(
    "E5909",
    "code that LLVM rejects",
    "LLVM does not accept the code that was generated. Either a C function is called whose name the "
    "module itself defines, or this is an error of the compiler.",
    "Rename the function. If none is called: please report it, with the program.",
)
declare(
    "E5910",
    "an attribute that code generation does not know",
    "A function has an attribute, or a loop, an allocation or a statement has an annotation, that no step of lowering "
    "has read and code generation does not know. It would have no effect.",
    "Remove it, or run the pass that reads it.",
)
declare(
    "E5911",
    "a storage scope that a CPU does not have",
    "A buffer is allocated in a scope such as `shared`, which other machines have. On a CPU a buffer is in memory, "
    "`global`, or, if it is small, on the stack or in registers, `local`.",
    'Allocate the buffer in scope `global` or `local`: `sch.set_scope(block, 0, "local")`.',
)
