"""Functions for a library as JSON graphs in TVM's format (`relax.runtime.json_graph`).

A composite function is one kernel node under the name of its pattern, any other call of an operator one under the
operator's name. The inputs of a kernel node are the tensors that its operators read from outside, in the order in which
they read them, with repetitions: those of ``R.nn.relu(R.matmul(x, w))`` are x and w, whether w is a constant or not.

Its attributes are those of the operator that makes the result, and that operator's shapes and scalars; those of the
other operators of a composite have the operator's name before a dot: ``nn.conv2d.strides``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from ..analysis.variables import free_symbolic_vars
from ..expr import (
    Binding,
    Call,
    Constant,
    DataTypeImm,
    Function,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..ir import Diagnostic, DiagnosticError, RelaxExpr, StructInfo
from ..op.base import Operator, operator_of
from ..prim import IntImm
from ..runtime.modules import Module
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..transform.fusion.fuse_ops_by_pattern import COMPOSITE
from ..transform.run_codegen import NO_CODEGEN, ConstantNames, Generator

_ATTRIBUTES: Final = {"shape": "newshape"}
"""Names of attributes for operands of another name: a node's "shape" is that of its outputs. TVM has the same name."""

Entry: TypeAlias = "tuple[int, int, int]"
"""A node, the number of its output, and 0, for TVM's version of it."""


def json_graph(function: Function, constant_names: Mapping[Constant, str] | None = None) -> tuple[str, dict[str, Any]]:
    """Return a function as the text of a JSON graph, and its constants by name.

    Raises DiagnosticError (E4014) for what a graph cannot say: control flow, values that are no tensors, and calls of
    anything but operators and composite functions.
    """
    names = ConstantNames([function]) if constant_names is None else constant_names
    writer = _Writer(function, names)
    return json.dumps(writer.graph()), {name: constant.tensor for name, constant in writer.constants.items()}


def json_codegen(kind: str) -> Generator:
    """Return a code generator that makes a module of `kind`, with a JSON graph, of each function."""

    def generate(functions: Sequence[Function], options: dict[str, Any], constant_names: ConstantNames) -> list[Module]:
        modules: list[Module] = []
        for function in functions:
            text, constants = json_graph(function, constant_names)
            modules.append(Module(kind, text.encode(), (str(function.attrs["global_symbol"]),), constants))
        return modules

    return generate


class _Writer:
    """Writes one function."""

    def __init__(self, function: Function, names: Mapping[Constant, str]) -> None:
        self.names = names
        self.symbol = str(function.attrs.get("global_symbol", "main"))
        self.nodes: list[dict[str, Any]] = []
        self.outputs: list[int] = []
        """Number of outputs of each element of `nodes`."""
        self.constants: dict[str, Constant] = {}
        self.values: dict[RelaxExpr, list[Entry]] = {}
        """Outputs of nodes that hold the value of a variable or constant: one for a tensor, several for a tuple."""
        self.composites: dict[Var, Function] = {}
        for i, param in enumerate(function.params):
            self.values[param] = self.node({"op": "input", "name": f"{self.symbol}_{i}"}, param.struct_info_, param)
        self.heads = self.sequence(function)

    def graph(self) -> dict[str, Any]:
        """Return the graph as plain values."""
        pointers = [0]
        for count in self.outputs:
            pointers.append(pointers[-1] + count)
        arguments = [i for i, node in enumerate(self.nodes) if node["op"] != "kernel"]
        return {"nodes": self.nodes, "arg_nodes": arguments, "heads": self.heads, "node_row_ptr": pointers}

    def node(self, node: dict[str, Any], info: StructInfo | None, at: RelaxExpr) -> list[Entry]:
        """Add a node and return its outputs."""
        infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
        dtypes: list[str] = []
        shapes: list[list[int | str]] = []
        for output in infos:
            if isinstance(output, ShapeStructInfo | PrimStructInfo) and node["op"] == "input":
                dtypes.append(str(output.dtype) if isinstance(output, PrimStructInfo) else "int64")
                shapes.append([] if isinstance(output, PrimStructInfo) else [output.ndim])
                continue
            if not isinstance(output, TensorStructInfo) or output.dims is None or output.dtype.is_void:
                raise self.error(at, f"{output} is no tensor of known rank and dtype")
            dtypes.append(str(output.dtype))
            shapes.append([size.value if isinstance(size, IntImm) else str(size) for size in output.dims])
        attrs = {**node.pop("attrs", {}), "dtype": [dtypes], "shape": [shapes]}
        self.nodes.append({**node, "attrs": attrs})
        self.outputs.append(len(infos))
        return [(len(self.nodes) - 1, i, 0) for i in range(len(infos))]

    def sequence(self, function: Function) -> list[Entry]:
        """Write the bindings of a function, and return the outputs that its result stands for."""
        for binding in _bindings(function):
            if not isinstance(binding, VarBinding):
                raise self.error(binding.value, "a match_cast")
            value = binding.value
            if isinstance(value, Function):
                self.composites[binding.var] = value
            elif isinstance(value, Call):
                self.values[binding.var] = self.call(value, binding.var.struct_info_)
            else:
                self.values[binding.var] = self.entries(value)
        return self.entries(cast(SeqExpr, function.body).body)

    def entries(self, expr: RelaxExpr) -> list[Entry]:
        """Return the outputs that an expression stands for."""
        match expr:
            case Var() if expr in self.values:
                return self.values[expr]
            case Constant():
                if expr not in self.values:
                    name = self.names[expr]
                    self.constants[name] = expr
                    self.values[expr] = self.node({"op": "const", "name": name}, expr.struct_info_, expr)
                return self.values[expr]
            case Tuple(fields):
                return [entry for field in fields for entry in self.single(field)]
            case TupleGetItem(value, index):
                return [self.entries(value)[index]]
            case _:
                raise self.error(expr, f"{type(expr).__name__} is no tensor of the graph")

    def single(self, expr: RelaxExpr) -> list[Entry]:
        entries = self.entries(expr)
        if len(entries) != 1:
            raise self.error(expr, "a tuple in a tuple")
        return entries

    def call(self, call: Call, info: StructInfo | None) -> list[Entry]:
        """Add the kernel node of a call."""
        composite = self.composites.get(call.op) if isinstance(call.op, Var) else None
        if composite is not None and COMPOSITE in composite.attrs:
            return self.composite(call, composite, info)
        operator = operator_of(call)
        if operator is None:
            raise self.error(call, "the call of something else than an operator or a composite function")
        inputs, attrs = self.operands(call, operator, {})
        return self.kernel(f"relax.{operator.short_name}", inputs, attrs, info, call)

    def kernel(
        self, name: str, inputs: list[Entry], attrs: dict[str, Any], info: StructInfo | None, call: Call
    ) -> list[Entry]:
        count = len(info.fields) if isinstance(info, TupleStructInfo) else 1
        attrs = {"num_inputs": [[str(len(inputs))]], "num_outputs": [[str(count)]], **attrs}
        return self.node({"op": "kernel", "name": name, "inputs": inputs, "attrs": attrs}, info, call)

    def composite(self, call: Call, function: Function, info: StructInfo | None) -> list[Entry]:
        """Add the kernel node of a composite function's call."""
        outside: dict[RelaxExpr, list[Entry]] = {
            param: self.entries(arg)
            for param, arg in zip(function.params, call.args, strict=True)
            if not isinstance(arg, ShapeExpr)  # sizes in annotations, which a graph does without
        }
        inner: set[RelaxExpr] = set()
        inputs: list[Entry] = []
        attrs: dict[str, Any] = {}
        bindings = _bindings(function)
        for number, binding in enumerate(bindings):
            inner.add(binding.var)
            operator = operator_of(binding.value) if isinstance(binding.value, Call) else None
            if operator is None:
                continue
            given, own = self.operands(cast(Call, binding.value), operator, outside, inner)
            inputs += given
            last = number == len(bindings) - 1
            attrs |= own if last else {f"{operator.short_name}.{name}": value for name, value in own.items()}
        return self.kernel(str(function.attrs[COMPOSITE]), inputs, attrs, info, call)

    def operands(
        self,
        call: Call,
        operator: Operator,
        outside: Mapping[RelaxExpr, list[Entry]],
        inner: set[RelaxExpr] | None = None,
    ) -> tuple[list[Entry], dict[str, Any]]:
        """Return the tensors that a call reads from outside, and what else determines its result, as attributes."""
        inputs: list[Entry] = []
        attrs = {name: [_texts(getattr(operator, name))] for name in operator.attribute_names}
        for operand, arg in operator.arguments(call):
            if isinstance(arg, ShapeExpr | PrimValue | StringImm | DataTypeImm):
                if free_symbolic_vars(arg):
                    raise self.error(call, f"a value that is known at run time only: {operand.name}")
                attrs[_ATTRIBUTES.get(operand.name, operand.name)] = [_texts(arg)]
                continue
            for item in arg.fields if isinstance(arg, Tuple) else (arg,):
                if inner is not None and (item in inner or _is_field_of(item, inner)):
                    continue
                inputs += outside[item] if item in outside else self.entries(item)
        return inputs, attrs

    def error(self, at: RelaxExpr, problem: str) -> DiagnosticError:
        message = f"{self.symbol}: a JSON graph cannot say this: {problem}"
        hint = "decline it in the `check` of the pattern, or give the library a code generator of its own"
        return DiagnosticError(Diagnostic(NO_CODEGEN, message, at.span, hint=hint))


def _bindings(function: Function) -> list[Binding]:
    """Return the bindings of a function, without those of functions in it."""
    return [binding for block in cast(SeqExpr, function.body).blocks for binding in block.bindings]


def _is_field_of(expr: RelaxExpr, inner: set[RelaxExpr]) -> bool:
    return isinstance(expr, TupleGetItem) and expr.tuple_value in inner


def _texts(value: Any) -> list[str]:
    """Return the value of an attribute as a list of text, as in TVM."""
    match value:
        case ShapeExpr(values):
            return [str(size) for size in values]
        case PrimValue(inner) | StringImm(inner) | DataTypeImm(inner):
            return [str(inner)]
        case None:
            return [""]
        case tuple() | list():
            return [text for item in cast("Sequence[Any]", value) for text in _texts(item)]
        case _:
            return [str(value)]
