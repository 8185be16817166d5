"""Codes of source programs: E1 parsing, E2 well-formedness, E3 struct info and operators (W: warnings)."""

from __future__ import annotations

from .code import declare

# ------------------------------------------------------------------------------------ E1: parsing

declare(
    "E1001",
    "not a program of the script language",
    "The text is not Python, or uses a statement or an expression that has no meaning in a script: "
    "`while`, `try`, `del`, `yield`, a set, an assignment to anything but a name.",
    "Write what is meant with what the script has. A loop known at parse time is a `for` over a Python "
    "range; one that is not is a recursive function, or a loop in a `T.prim_func`. Values are immutable: "
    "assign a new name.",
)
declare(
    "E1002",
    "a name that is not defined",
    "No parameter, binding, function or Python variable of this name is visible here. What a branch or a "
    "dataflow block binds is not visible after it, unless it is given out. The note names the rule of "
    "the language that is broken.",
    "Correct the spelling, move the binding before the use, list the variable in `R.output(...)`, or "
    "declare a shape variable: `n = T.int64()`.",
)
declare(
    "E1003",
    "a member that does not exist",
    "A namespace (`R`, `T`, `I`, `R.nn`), a module or a value has no attribute of this name.",
    "Take one of the names the hint suggests; `dir(R)` lists all.",
)
declare(
    "E1004",
    "a call that its function rejects",
    "The arguments of a call do not fit the signature of the function, or the function refuses their values.",
    "Give the arguments that the message shows in the signature.",
)
declare(
    "E1005",
    "a value of the wrong kind",
    "An operand, an index, a dimension or a dtype is not of a kind that makes sense at this place.",
    "The message says what was found and, where there is a choice, what was expected.",
)
declare(
    "E1006",
    "not allowed in text",
    "A program given as text to `from_source` may come from anywhere. It is interpreted, never executed, "
    "and may not reach Python objects beyond the script's own, nor compute without bound.",
    "Compute the value in Python and pass it in `extra_vars`, or write the program as a decorated function.",
)
declare(
    "E1007",
    "no source text",
    "The decorators read the text of what they decorate: from a file, a notebook cell, `python -c`, `python < file`, a "
    "short here-document, or what was typed at the prompt. Functions made by `exec` have none, nor have programs of "
    "more than 4096 bytes that are piped into Python.",
    "Put the program in a file or a notebook cell, or give its text to `relax.script.from_source`.",
)
declare(
    "E1008",
    "a wrong declaration",
    "A decorator, a signature or a member of a module is not as it must be: an option that does not "
    "exist, a default value, `*args`, two functions of one name, a class with a base.",
    "Declare it as the message says.",
)
declare(
    "E1009",
    "an annotation that is missing or no struct info",
    "Every parameter says what it is. An annotation is struct info: `R.Tensor`, `R.Shape`, `R.Prim`, "
    "`R.Tuple`, `R.Callable` or `R.Object`; in a PrimFunc, `T.Buffer`, `T.handle` or a scalar type.",
    "Annotate it. What is not known may be left out: `R.Tensor(ndim=2)`, `R.Tensor`, `R.Object`.",
)
declare(
    "E1010",
    "a statement in the wrong place",
    "A statement stands where the language has no place for it: control flow or a return in a dataflow "
    "block, `R.output` outside of one, a PrimFunc inside a Relax function, code after a return.",
    "Move it, as the hint says. Control flow goes after the dataflow block that computes its condition.",
)
declare(
    "W1011",
    "print runs while the program is read",
    "Python's print was called with a value of the program. It printed the value's name once, when the "
    "function was parsed; the program itself does not print.",
    "Write `R.print(x)`, which prints the tensor whenever the program gets there. In a PrimFunc, call a "
    "packed function that prints.",
)
declare(
    "W1012",
    "effects that the decorator does not state",
    "The function passes struct info among the arguments of `R.call_packed`, as programs did before functions stated "
    "their purity. It is read as they were: as an impure function.",
    "Write `@R.function(pure=False)`, or `R.call_pure_packed` for a function without effects.",
)
# ------------------------------------------------------------------------------------ E2: well-formedness

declare(
    "E2001",
    "rule 1: a dataflow variable stays in its block",
    "A dataflow variable is bound only inside a dataflow block, and is not there after it.",
    "Make it an output of the block: list it in `R.output(...)`, or bind it with `BlockBuilder.emit_output`.",
)
declare(
    "E2002",
    "rule 2: a variable is bound exactly once",
    "Every variable is a parameter or is bound by one binding, and is not used in its own value, unless "
    "that is a function, which may call itself. Two variables may have one name: that is shadowing.",
    "Bind the variable, add it to the parameters, or make a new `Var` for the second binding.",
)
declare(
    "E2003",
    "rule 3: no use before the binding",
    "A variable is used in a binding that stands before its own.",
    "Put the bindings in the order of their uses.",
)
declare(
    "E2004",
    "rule 4: what a return annotation may mention",
    "A return annotation uses only shape variables that the parameters bind, or an outer function. What "
    "the body binds is not known to the caller.",
    "Name the dimension in a parameter, or leave it open in the result: `R.Tensor(ndim=1)`.",
)
declare(
    "E2005",
    "rule 5: a shape variable is bound before it is used",
    "A shape variable gets its value from a parameter, or from a `R.match_cast`, in a dimension where it "
    "stands alone. Here it is used before that, or nothing binds it at all.",
    "Move the match_cast up, or let the signature bind the variable.",
)
declare(
    "E2006",
    "rule 6: each shape variable of a signature stands alone once",
    "From `m * n` alone neither `m` nor `n` can be found. Each variable of a signature needs a "
    "dimension, of any parameter, that is just this variable. One variable object is bound in one function.",
    'Give the variable a dimension of its own, or pass it: `n: R.Prim(value="n")`, `s: R.Shape(["n"])`.',
)
declare(
    "E2007",
    "rule 7: a dataflow block is a graph",
    "A dataflow block holds no `if` and no recursive call, direct or through other functions.",
    "End the block before the `if` or the call. Calls of functions that do not come back here are fine.",
)
declare(
    "E2008",
    "rule 8: a recursive function says what it returns",
    "What a function returns is derived from its body. A function that is called in its own body, "
    "directly or through others, must say it, since the call would have to be derived first.",
    'Write the return annotation: `-> R.Tensor((n,), "float32")`, or `-> R.Object` if nothing is known.',
)
declare(
    "E2009",
    "rule 9: operators are only called",
    "An operator is not a value: it cannot be passed, returned, or put in a tuple.",
    "Wrap it into a function, which is a value.",
)
declare(
    "E2010",
    "rule 10: ndim agrees with the shape",
    "Both the dimensions and their number are given, and they disagree; or the number is none (-1 stands for unknown).",
    "Leave `ndim` out where dimensions are given.",
)
declare(
    "E2011",
    "rule 11: a function captures no dataflow variable",
    "A function may live longer than the dataflow block it is made in, whose variables end with the block.",
    "Pass the value as an argument, or compute it in a block before.",
)
declare(
    "E2012",
    "rule 12: a module has an entry point",
    "No function of the module can be called from outside: none has a `global_symbol`.",
    "Take `private=True` off the function that is to be called.",
)
declare(
    "E2013",
    "rule 13: the global_symbol is the function's name",
    "A function's `global_symbol` attribute, the name by which it is called from outside, differs from "
    "its name in the module.",
    "Rename one. `@R.function` sets the attribute by itself.",
)
declare(
    "E2014",
    "rule 14: the shape of a tensor annotation is known",
    "The dimensions of a tensor annotation use only shape variables in scope; a shape held by a variable "
    "needs that variable to be in scope and to hold a shape of the same rank. No size is negative.",
    "An annotation only describes. Bind new shape variables with `R.match_cast`, which checks.",
)
declare(
    "E2015",
    "rule 15: the values of a shape annotation are known",
    "The values of a shape annotation use only shape variables in scope.",
    "An annotation only describes. Bind new shape variables with `R.match_cast`, which checks.",
)
declare(
    "E2016",
    "rule 16: the value of a prim annotation is known",
    "The value of a scalar's annotation uses only shape variables in scope.",
    "An annotation only describes. Bind new shape variables with `R.match_cast`, which checks.",
)
declare(
    "E2017",
    "rule 17: a function has parameters or a derivation",
    "The struct info of a function gives either the parameters, for a closure, or the name of the "
    "derivation that finds the result, for a packed function; not both, not neither.",
    "Leave one of them out.",
)
declare(
    "E2018",
    "rule 18: a prim value is a scalar",
    "A prim value holds an integer, a float or a bool, of one lane; not a pointer, not a vector.",
    "Use a scalar. Strings and opaque objects are values of their own kinds: `R.str`, `R.null_value()`.",
)
declare(
    "E2019",
    "rule 19: a prim annotation has a number's dtype",
    "The dtype of a scalar's annotation is an integer, a float or bool.",
    "Annotate what is no number with `R.Object`.",
)
declare(
    "E2020",
    "rule 20: supported dtypes",
    "The dtype has a width that is not supported, or more than one lane. Vectors exist inside PrimFuncs only.",
    "Use int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64, an 8-bit float or bool.",
)
declare(
    "E2021",
    "rule 21: forced purity is purity",
    "The attribute `relax.force_pure` says that a function is pure whatever it calls; `pure=False` says "
    "that it is not.",
    "Drop one of the two.",
)
declare(
    "E2022",
    "rule 22: a prim annotation's value has its dtype",
    "The annotation gives a dtype and a value of another dtype. Shape variables are int64.",
    'Give the value only, or cast it: `R.Prim(value=T.Cast("int32", n))`.',
)
declare(
    "E2100",
    "a node with a wrong field",
    "A node built by hand holds, in a field, a value that is not of the kind the field is declared with: "
    "a Python number where an expression belongs, a string where a variable belongs.",
    "Build nodes from nodes, or through a `BlockBuilder`, which converts.",
)
declare(
    "E2101",
    "not in normal form",
    "In normal form the parts of a binding's value are leaves, a SeqExpr stands only as the body of a "
    "function or of a branch, and neighbouring blocks of one kind are one. Passes keep it; a program "
    "built by hand may not have it.",
    "Build the program with a `BlockBuilder`, or run `relax.transform.Normalize()`.",
)
declare(
    "E2102",
    "an ordinary block inside a dataflow block",
    "A SeqExpr used as a value is flattened into its surroundings. One with an ordinary block cannot "
    "become part of a dataflow block: its bindings may be impure.",
    "Make the inner block a dataflow block, or bind the value outside.",
)
declare(
    "E2103",
    "no open block",
    "A binding was made while no block was open to hold it.",
    "Emit inside `with bb.function(...)`, or between `begin_binding_block` and `end_block`.",
)
declare(
    "E2104",
    "several blocks where one is expected",
    "An expression with blocks of the other kind was flattened into the open block, which splits it. "
    "`end_block` gives one block only.",
    "Use `end_blocks`, which gives them all.",
)
declare(
    "E2105",
    "no struct info",
    "After normalisation every expression has struct info. This one was put in without.",
    "Emit it through a `BlockBuilder`, or run `relax.transform.Normalize()`.",
)
declare(
    "E2106",
    "nested too deeply",
    "Expressions are walked by recursion, and this one has more levels than the Python interpreter's stack takes.",
    "Bind parts of the expression to variables: what is in normal form is flat.",
)

# ------------------------------------------------------------------------------------ E3: struct info

declare(
    "E3001",
    "an argument that does not fit its parameter",
    "A call of a function gives an argument whose struct info is proved not to match the parameter's: "
    "another kind, rank, dtype or dimension, or a function that is impure where a pure one is expected.",
    "Change the argument, or generalise the parameter: a dimension may be a variable.",
)
declare(
    "E3002",
    "a wrong number of arguments",
    "A call gives more or fewer arguments than the function has parameters.",
    "Give one argument for each parameter.",
)
declare(
    "E3003",
    "a call of what is no function",
    "The struct info of what is called is that of a tensor, a tuple, a shape or a scalar.",
    "Call a function. If the value is one and it is not known, describe it with `R.Callable(...)`.",
)
declare(
    "E3004",
    "an impure call in a dataflow block",
    "What stands in a dataflow block may be reordered, duplicated or removed, so a call with visible "
    "effects cannot stand there.",
    "Move the call out of the block. A packed function without visible effects is called by `R.call_pure_packed`.",
)
declare(
    "E3005",
    "an impure call in a pure function",
    "Functions are pure unless they say otherwise, and a pure function makes no call with visible effects.",
    "Declare the function with `@R.function(pure=False)`. If the effects are invisible outside of it, "
    "set the attribute `relax.force_pure`; a packed function without effects is called by "
    "`R.call_pure_packed`.",
)
declare(
    "E3006",
    "a value that does not fit its annotation",
    "The struct info derived for a value is proved incompatible with the annotation of the variable it is bound to.",
    "Correct the annotation, or leave it out: it is derived.",
)
declare(
    "E3007",
    "a result that does not fit the return annotation",
    "The struct info of a function's result is proved incompatible with its return annotation.",
    "Correct the annotation, or what is returned.",
)
declare(
    "E3008",
    "a match_cast that never succeeds",
    "A match_cast checks at run time what is not known before. Here it is known before, and the check would fail.",
    "Correct the dimensions or the dtype. To change a shape use `R.reshape`; to change a dtype, `R.astype`.",
)
declare(
    "E3009",
    "a field that does not exist",
    "A tuple is indexed beyond its length, or something that is no tuple is indexed.",
    "Index from 0 to the length less one. Elements of tensors are taken by `R.take` or `R.strided_slice`.",
)
declare(
    "E3010",
    "a condition that is no bool scalar",
    "The condition of an `if` is a bool of rank 0. Under `relax.strict` it must be known to be.",
    "Compare, or reduce a tensor of several elements; choose element by element with `R.where`.",
)
declare(
    "E3011",
    "a global function that does not exist",
    "A call names a function that the module does not have.",
    "Add the function to the module, or correct the name.",
)
declare(
    "E3012",
    "a derivation that is not registered",
    "The struct info of a packed function names a derivation that finds the result's struct info, and "
    "there is none of that name.",
    "Register it with `relax.struct_info.register_derivation(name, function)` before the program is parsed.",
)
declare(
    "E3013",
    "an operator without a struct-info rule",
    "The operator does not say what it returns: it was registered without `FInferStructInfo`.",
    "Register the rule, or give the call one `sinfo_args`.",
)
declare(
    "E3014",
    "a variable without a binding",
    "The struct info of a variable is asked for where nothing has bound it: it comes later, in another "
    "scope, or never.",
    "Bind it first. A local function that calls itself needs a return annotation.",
)
declare(
    "E3015",
    "no tensor expression",
    "`call_te` and `emit_te` turn Relax values into arguments of a function over tensor expressions. "
    "This value has no such form, or the function does not return tensors.",
    "Match_cast the value to a tensor, a shape or a scalar; return a `te.Tensor` or a list of them.",
)
declare(
    "E3016",
    "sinfo_args of a call that takes none",
    "What a call of a Relax function or of an ordinary operator returns is derived. Only intrinsic calls, "
    "such as `R.call_tir` and calls of packed functions, are told it.",
    "Leave the sinfo_args out. To check a result at run time, match_cast it.",
)
declare(
    "E3100",
    "an operator's rule failed",
    "The struct-info rule that was registered for an operator raised an error of its own, which is shown.",
    "Correct the call, if the error speaks of it; else the rule.",
)
declare(
    "E3101",
    "operands of the wrong number or kind",
    "An operator was given too many or too few operands, or one that is not of the kind it takes: a "
    "tensor, a tuple of tensors, a shape, a scalar.",
    "Give what the message asks for. A shape becomes a tensor by `R.shape_to_tensor`, a tensor a shape "
    "by `R.tensor_to_shape`.",
)
declare(
    "E3102",
    "shapes that do not fit each other",
    "The shapes of an operator's operands are proved to disagree. The notes say which dimension of which operand.",
    "Reshape, transpose or broadcast an operand. A dimension that is only known at run time may be a "
    "variable, which is checked then.",
)
declare(
    "E3103",
    "dtypes that do not fit",
    "An operator does not take operands of this dtype, or takes operands of one dtype only and found two.",
    "Convert with `R.astype`. Nothing is converted silently.",
)
declare(
    "E3104",
    "an axis that does not exist",
    "An axis is beyond the rank of the operand, or is given twice. Negative axes count from the end.",
    "Give axes from -rank to rank - 1, each once.",
)
declare(
    "E3105",
    "an attribute with a wrong value",
    "An attribute of an operator (strides, a layout, a number of groups …) has a value that it cannot have.",
    "Give a value as the message describes.",
)
declare(
    "E3106",
    "operands on different devices",
    "The operands of an operator are annotated with different virtual devices.",
    "Move one with `R.to_vdevice`.",
)
declare(
    "E3107",
    "a device that the module does not list",
    "A value is moved to a virtual device that is not among those of `I.module_global_infos`, or its index is "
    "beyond them.",
    "List the device in the module.",
)
declare(
    "E3110",
    "an output that cannot be allocated",
    "A call in destination-passing style allocates its outputs, so their shapes and dtypes must be given in full.",
    "Give every dimension, as an integer or as an expression over shape variables in scope, and the dtype.",
)
declare(
    "E3111",
    "a call_tir that does not fit its PrimFunc",
    "Arguments, integers or outputs of the call are proved not to fit the parameters of the PrimFunc, or "
    "their number differs; or the callee is no PrimFunc. All that is wrong is listed.",
    "Change the call, or make the PrimFunc general: sizes may be variables.",
)
declare(
    "E3112",
    "an output that cannot reuse its argument",
    "An in-place call names, for an output, an argument that does not exist, is given twice, or differs "
    "from the output in shape or dtype.",
    "Name the argument by its index, counted from 0; -1 allocates a new output.",
)
declare(
    "W3001",
    "an argument that may not fit",
    "Whether an argument fits its parameter cannot be decided at compile time. The function checks it "
    "when it is entered.",
    "Say what is expected with a match_cast, at the place where it is to be checked.",
)
declare(
    "W3006",
    "an annotation that claims more than is known",
    "An annotation describes; this one says more than was derived of the value. A check at run time is added.",
    "Write the check: `R.match_cast`. Or leave the annotation out.",
)
declare(
    "W3007",
    "a result that may not fit the return annotation",
    "Whether the result fits the return annotation cannot be decided at compile time. It is checked before returning.",
    "Match_cast what is returned, or annotate less.",
)
declare(
    "W3010",
    "a condition that may be no bool scalar",
    "It is not known whether the condition of an `if` is a bool of rank 0. It is checked when the `if` is reached.",
    'Match_cast the condition to `R.Tensor((), "bool")`.',
)
