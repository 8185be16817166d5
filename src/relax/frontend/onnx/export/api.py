"""`to_onnx` and `save_onnx`: Relax functions as ONNX models.

model = to_onnx(mod)                          # an onnx.ModelProto
save_onnx(mod, "model.onnx")                  # a file, and model.onnx.data with the weights if they are large
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from onnx import GraphProto, ModelProto, NodeProto, helper

from ....derive.normalize import normalize_module
from ....expr import Function
from ....ir import Diagnostic, DiagnosticError, IRModule
from ....ir.deep import run_deep
from .exporter import Exporter
from .graph import Model
from .opsets import ir_version_for, latest, newest, require_opset
from .pruning import prune
from .tensors import LARGEST_MESSAGE, save_model, size_of, tensor_message

_EXTERNAL = 1 << 28
"""Size in bytes of all weights from which `save_onnx` writes them to a file of their own by default."""


def to_onnx(
    mod: IRModule,
    *,
    entry: str = "main",
    opset: int | None = None,
    ir_version: int | None = None,
    name: str | None = None,
    external_data: str | os.PathLike[str] | None = None,
) -> ModelProto:
    """Convert a Relax function to an ONNX model.

    Parameters and results keep their order, names, dtypes and symbolic dimensions. A tuple is one input or output for
    each of its fields, a shape a vector of int64, and a scalar a tensor without dimensions. Other Relax functions are
    inlined where they are called; a function that calls itself at its end becomes a Loop.

    Parameters
    ----------
    mod
        A module of operators, before `LegalizeOps`.
    entry
        The name of the function.
    opset
        The version of ONNX's operators: by default the newest that the installed onnx knows and the installed ONNX
        Runtime has kernels for.
    ir_version
        The version of the file format, by default the one in which the opset was introduced.
    name
        The name of the graph, by default that of the function.
    external_data
        The path under which the model is written as well, with its weights in a file beside it: see `save_onnx`. The
        model that is returned holds its weights.

    Returns
    -------
    onnx.ModelProto
        A model that `onnx.checker.check_model` accepts.

    Raises
    ------
    DiagnosticError
        For what ONNX cannot say (E6008): kernels (`call_tir`), packed functions, closures, recursion, effects.
    """
    model = _model_of(mod, entry, opset, ir_version, name)
    if external_data is not None:
        copy = ModelProto()
        copy.CopyFrom(model)
        save_model(copy, external_data, True)
    return model


def save_onnx(
    mod: IRModule,
    path: str | os.PathLike[str],
    *,
    entry: str = "main",
    opset: int | None = None,
    ir_version: int | None = None,
    name: str | None = None,
    external_data: bool | str | None = None,
) -> ModelProto:
    """Convert a Relax function to an ONNX model and write it to a file; the parameters are those of `to_onnx`.

    Returns the model as it is written: its external data is in the file.

    `external_data` puts weights of 1 KiB and more into a file beside the model: True names it after the model
    (``model.onnx.data``), a string is its name. By default it is used where the weights have 256 MiB or more.
    """
    model = _model_of(mod, entry, opset, ir_version, name, in_file=True)
    if external_data is None:
        external_data = sum(len(tensor.raw_data) for tensor in model.graph.initializer) >= _EXTERNAL
    save_model(model, path, external_data)
    return model


def _model_of(
    mod: IRModule, entry: str, opset: int | None, ir_version: int | None, name: str | None, in_file: bool = False
) -> ModelProto:
    functions = {var.name_hint: function for var, function in mod.functions.items()}
    if not isinstance(functions.get(entry), Function):
        known = ", ".join(repr(key) for key, function in functions.items() if isinstance(function, Function))
        message = f"to_onnx: the module has no Relax function {entry!r}"
        raise DiagnosticError(Diagnostic("E6009", message, None, "", (), f"entry is one of: {known or 'none'}"))
    if opset is not None:
        require_opset(opset)
    normal = normalize_module(mod)
    return run_deep("the program", "exporting it", lambda: _chosen(normal, entry, opset, ir_version, name, in_file))


def _chosen(
    mod: IRModule, entry: str, opset: int | None, ir_version: int | None, name: str | None, in_file: bool
) -> ModelProto:
    """The model of an opset; by default of the newest one that runs, which is known when the operators are."""
    written = _written(mod, entry, latest() if opset is None else opset, ir_version, name, in_file)
    if opset is not None:
        return written
    best = newest({node.op_type for node in _nodes(written.graph) if not node.domain})
    if best == latest():
        return written
    try:
        return _written(mod, entry, best, ir_version, name, in_file)
    except DiagnosticError:  # an operator is newer
        return written


def _written(
    mod: IRModule, entry: str, opset: int, ir_version: int | None, name: str | None, in_file: bool
) -> ModelProto:
    model = Model(opset, {var.name_hint: function for var, function in mod.functions.items()})
    function = mod[entry]
    assert isinstance(function, Function), "the entry was checked"
    graph = Exporter(mod, model).graph_of(function, entry)
    graph.name = name or entry
    if not in_file and size_of(model.constants) > LARGEST_MESSAGE:
        message = f"to_onnx: weights of {size_of(model.constants)} bytes do not fit into one message of protobuf"
        raise DiagnosticError(Diagnostic("E6009", message, function.span, "", (), "write a file: save_onnx(mod, path)"))
    used = prune(graph)
    graph.initializer.extend(tensor_message(key, array) for key, array in model.constants.items() if key in used)
    domains = sorted({node.domain for node in _nodes(graph) if node.domain})
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=ir_version or ir_version_for(opset), producer_name="relax"
    )


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """All nodes of a graph and of the graphs in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)
