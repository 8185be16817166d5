"""Codes of importing and exporting programs: E6."""

from __future__ import annotations

from .code import declare

declare(
    "E6001",
    "an operator or form that is not imported",
    "The model uses an operator, or a form of one, that the importer does not know. All operators without a "
    "converter are listed, each with its nodes.",
    "Register a converter for the operator: `relax.frontend.onnx.converter(name, domain=...)`.",
)
declare(
    "E6002",
    "a model that is broken",
    "The file or message is no valid model: it is truncated, a tensor does not fit its shape, a node reads what no "
    "node before it computes, inputs are missing, or external data is not in the model's folder.",
    "Export the model again; `onnx.checker.check_model` says more of what is wrong.",
)
declare(
    "E6003",
    "an argument of the importer, or an attribute, that does not fit",
    "`shape_dict` or `values` names an input that the model does not have, a value does not have the declared dtype or "
    "shape, or an attribute of a node is out of range.",
    "Use the names of the model's inputs; the diagnostic lists them.",
)
declare(
    "E6004",
    "a node whose inputs do not fit its operator",
    "The operator is known, but not for inputs of these dtypes, ranks or kinds, or it needs the rank of an input that "
    "is not known.",
    "Look at the node that the diagnostic shows, and at the nodes that compute its inputs; give the shapes of the "
    "model's inputs with `shape_dict`. A condition on an input may exclude the node: see `values`.",
)
declare(
    "E6005",
    "a value that must be known when the model is imported",
    "Ranks and axes of a compiled program are fixed, so the inputs that say them (axes, numbers of parts, "
    "lengths of shape vectors) must be constants or computed from constants.",
    "Fold the constants of the model first, or make the value an initializer.",
)
declare(
    "E6006",
    "a file that changed after it was imported",
    "Weights of 1 MiB and more stay in the file of the model until the program is built. Here the file is written to "
    "in between.",
    "Build first, or write the new model to another file and put it in the place of the old one.",
)
declare(
    "E6007",
    "a node whose conversion failed",
    "The converter of the operator raised an exception that is no diagnostic. It is the `__cause__` of this error, and "
    "the traceback shows it. If the converter is one of relax, this is a mistake in relax, often met by an unusual "
    "attribute.",
    "Correct the node or the converter; `RELAX_RAISE_UNEXPECTED=1` in the environment raises the exception unchanged.",
)
declare(
    "E6008",
    "a program that ONNX cannot say",
    "`to_onnx` writes operators, conditions and loops. It does not write kernels (`call_tir`), packed functions, "
    "functions as values, recursion other than a loop, effects such as `print` and `assert_op`, dtypes that ONNX "
    "lacks, or operators without a writer.",
    "Export before `LegalizeOps`, while the program consists of operators. `relax.frontend.onnx.writer(name)` "
    "declares how an operator is written.",
)
declare(
    "E6009",
    "an argument of `to_onnx` that does not fit",
    "The module has no such function, the opset is not one that is written, the weights are too large for one message, "
    "or the file of external data is not beside the model.",
    "The diagnostic says which functions and opsets there are; `save_onnx` writes large weights to a file of their "
    "own.",
)
declare(
    "W6010",
    "nodes of a model that another library runs",
    "The model has nodes that are not supported, and `fallback` was given: each runs in ONNX Runtime, as a function of "
    "its own. It is not fused with what is around it, and a copy is made of its results.",
    "Register a converter for the operator, `relax.frontend.onnx.converter`, if it takes much of the time.",
)
declare(
    "E6011",
    "a file of weights that is corrupt",
    "A GGUF or safetensors file is truncated, or says what cannot be: counts and lengths beyond the end of the file, "
    "tensors that overlap or lie outside, names twice. The diagnostic has the byte offset, what is there, and what was "
    "expected. A tokenizer that contradicts itself has this code, too: a merge without its tokens, a role with an id "
    "outside of the vocabulary.",
    "Download or write the file again.",
)
declare(
    "E6012",
    "a file of weights in a form that is not read",
    "The file has a version, byte order or element type that is not read, or it is no regular file; or the package "
    "safetensors is not installed. A tokenizer whose algorithm, pre-tokenizer or decoder is not known has this code, "
    "too.",
    "Convert the model again with current tools; `pip install relax[llm]` installs the package.",
)
declare(
    "E6013",
    "parts of a model that do not fit together",
    "A model is stored in several files, and one is missing, a tensor is in two of them, or names, numbers and index "
    "do not agree; or a folder has no tokenizer.",
    "Put all parts of the same model into one folder, under their own names.",
)
declare(
    "E6014",
    "tensors of quantised weights that do not fit together",
    "Integers, scales and zero points of a layer (AWQ, GPTQ, compressed-tensors) have sizes that do not belong "
    "together, or bits, groups or zero points that no block format has.",
    "Give all tensors of one layer, as the tool wrote them.",
)
