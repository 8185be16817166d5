"""Nodes that are not supported, run by ONNX Runtime: each as a model of its own, a function of a module.

The model has the node's inputs, with what is known of their sizes, and the functions of the whole model. ONNX Runtime
says of which dtypes and sizes the results are. Constants of up to a mebibyte are part of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NoReturn, Protocol

from onnx import FunctionProto, ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from ...expr import Call, Constant, ExternFunc, ShapeExpr
from ...ir import Diagnostic, DiagnosticError, RelaxExpr, StructInfo, emit_warning
from ...op import call_pure_packed
from ...prim import IntImm, PrimExpr
from ...runtime.libraries.onnxruntime import DTYPES, ELEMENTS, session_of
from ...runtime.modules import Module, required
from ...struct_info import TensorStructInfo, TupleStructInfo
from .continuation import reads
from .model import node_title
from .values import Value

LIBRARY: Final = "onnxruntime"
"""The library that runs nodes."""
CODES: Final = frozenset({"E6001", "E6005"})
"""Codes of diagnostics for nodes that are not supported, or that need a value which is not known."""
_SMALL: Final = 1 << 20
"""Greatest size in bytes of constants that are part of a model."""
_DOMAINS: Final = {"com.microsoft": 1, "ai.onnx.ml": 5}
"""Versions of domains that a model may use without importing them."""


class Tensors(Protocol):
    """Interface of the emitter by which arguments become tensors."""

    def tensor(self, value: Any, name: str) -> RelaxExpr:
        """Return a value as a tensor. Raises DiagnosticError for another value."""
        ...


class Fallback:
    """The nodes of one import that ONNX Runtime runs."""

    def __init__(self, functions: Iterable[FunctionProto]) -> None:
        required("onnxruntime", "relax[onnxruntime]")
        self.functions = list(functions)
        self.modules: list[Module] = []
        self.titles: list[str] = []
        """The nodes, with the reason of each."""

    def call(
        self,
        node: NodeProto,
        names: Mapping[str, Value | None],
        opsets: Mapping[str, int],
        emitter: Tensors,
        error: DiagnosticError,
    ) -> Call:
        """Return the call that stands for a node, which returns its results; a tuple if it has several.

        Raises `error`, which says why the node is not supported, if ONNX Runtime does not run it either.
        """
        given = {name: _tensor(emitter, names.get(name), name, error) for name in sorted(reads(node))}
        small = {name: value for name, value in given.items() if isinstance(value, Constant) and _is_small(value)}
        rest = {name: value for name, value in given.items() if name not in small}
        sizes: dict[str, PrimExpr] = {}
        inputs = [_declared(name, value.struct_info, sizes, error) for name, value in rest.items()]
        model = self._model(node, opsets, inputs, small)
        try:
            session = session_of(model.SerializeToString(), optimize=False)
        except Exception as problem:  # noqa: BLE001 (ONNX Runtime has a dozen kinds)
            _refuse(error, f"ONNX Runtime does not run it: {' '.join(str(problem).split())[:300]}")
        results = [_result(value, sizes, error) for value in session.get_outputs()]
        symbol = f"onnx_{node.op_type}_{len(self.modules)}"
        ports = {
            "inputs": [(name, str(_info_of(value).dtype)) for name, value in rest.items()],
            "outputs": [(v.name, str(info.dtype)) for v, info in zip(session.get_outputs(), results, strict=True)],
        }
        header = json.dumps({**ports, "options": {}, "returns": True}).encode()
        self.modules.append(Module(LIBRARY, header + b"\n" + model.SerializeToString(), (symbol,)))
        self.titles.append(f"{node_title(node)}: {error.diagnostics[0].message.removeprefix(f'{node_title(node)}: ')}")
        info: StructInfo = results[0] if len(results) == 1 else TupleStructInfo(results)
        return call_pure_packed(ExternFunc(symbol), *rest.values(), sinfo_args=info)

    def _model(
        self,
        node: NodeProto,
        opsets: Mapping[str, int],
        inputs: list[ValueInfoProto],
        constants: Mapping[str, Constant],
    ) -> ModelProto:
        outputs = [ValueInfoProto(name=name) for name in node.output if name]
        initializers = [numpy_helper.from_array(value.data.numpy(), name) for name, value in constants.items()]
        graph = helper.make_graph([node], "node", inputs, outputs, initializers)
        versions = {domain: version for domain, version in _DOMAINS.items() if domain == node.domain}
        versions |= {imported.domain: imported.version for f in self.functions for imported in f.opset_import}
        imports = [helper.make_opsetid(domain, version) for domain, version in (versions | dict(opsets)).items()]
        version = int(helper.find_min_ir_version_for([helper.make_opsetid("", opsets.get("", 1))]))
        return helper.make_model(graph, functions=self.functions, opset_imports=imports, ir_version=max(version, 10))

    def warn(self, where: str) -> None:
        """Deliver one warning that names the nodes, if there are any."""
        if self.titles:
            count = len(self.titles)
            message = f"{count} {'node of the model runs' if count == 1 else 'nodes of the model run'} in ONNX Runtime"
            fact = "nodes in ONNX Runtime are neither fused nor compiled"
            hint = f"{fact}; register a converter: relax.frontend.onnx.converter"
            emit_warning(Diagnostic("W6010", message, None, where, tuple(self.titles), hint, "warning", fact))


def _tensor(emitter: Tensors, value: Value | None, name: str, error: DiagnosticError) -> RelaxExpr:
    """Return an input as a tensor of a dtype that ONNX Runtime takes. Raises `error` for another value."""
    try:
        tensor = emitter.tensor(value, name)
    except DiagnosticError:
        _refuse(error, f"its input {name} is no tensor")
    info = tensor.struct_info
    if not isinstance(info, TensorStructInfo) or str(info.dtype) not in DTYPES:
        _refuse(error, f"its input {name} is {info}")
    return tensor


def _refuse(error: DiagnosticError, note: str) -> NoReturn:
    """Raise an error with a note that says why ONNX Runtime does not run the node."""
    raise DiagnosticError([replace(d, notes=(*d.notes, f"fallback: {note}")) for d in error.diagnostics]) from error


def _info_of(value: RelaxExpr) -> TensorStructInfo:
    info = value.struct_info
    assert isinstance(info, TensorStructInfo), "it was checked"
    return info


def _is_small(value: Constant) -> bool:
    info = _info_of(value)
    return math.prod(value.content.shape) * info.dtype.bits <= 8 * _SMALL and str(info.dtype) != "bfloat16"


def _declared(name: str, info: StructInfo, sizes: dict[str, PrimExpr], error: DiagnosticError) -> ValueInfoProto:
    """Return the declaration of an input; sizes that are equal have one name, under which `sizes` has them."""
    assert isinstance(info, TensorStructInfo), "it was checked"
    dims: list[int | str] | None = None
    if info.dims is not None:
        dims = []
        for size in info.dims:
            if isinstance(size, IntImm):
                dims.append(size.value)
                continue
            known = next((key for key, expr in sizes.items() if str(expr) == str(size)), f"size_{len(sizes)}")
            sizes[known] = size
            dims.append(known)
    elif info.ndim >= 0:
        dims = [f"open_{name}_{axis}" for axis in range(info.ndim)]
    return helper.make_tensor_value_info(name, ELEMENTS[str(info.dtype)], dims)


def _result(value: Any, sizes: Mapping[str, PrimExpr], error: DiagnosticError) -> TensorStructInfo:
    """Return the struct info of a result, as ONNX Runtime describes it."""
    kind = value.type.removeprefix("tensor(").removesuffix(")")
    dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
    if dtype not in DTYPES or dtype == "bfloat16":
        _refuse(error, f"its result {value.name} is a {value.type}")
    shape: list[Any] | None = value.shape
    if not shape:  # ONNX Runtime says [] also where it does not know the rank
        return TensorStructInfo(dtype=dtype)
    dims = [size if isinstance(size, int) else sizes.get(size) for size in shape]
    if any(size is None for size in dims):
        return TensorStructInfo(dtype=dtype, ndim=len(dims))
    return TensorStructInfo(ShapeExpr(dims), dtype)
