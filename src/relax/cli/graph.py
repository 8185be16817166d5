"""Dataflow graphs of a program: a node for each input and each computed value, an edge for each use.

Constants are no nodes: each is text of the nodes that use it.

A function is one graph; so is each branch of an ``if`` and each local function in it, whose inputs are the values it
uses from outside. Aliases and tuples are not nodes: edges lead to the values they refer to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import field
from typing import Any, cast

from ..analysis.variables import free_vars
from ..derive.normalize import normalize_module
from ..expr import Binding, Call, Constant, Function, If, MatchCast, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ..info.text import prim_text
from ..ir import GlobalVar, IRModule, RelaxExpr, StructInfo, children_of
from ..runtime.records import dataclass
from ..struct_info import ShapeStructInfo, TensorStructInfo

LONGEST_TEXT = 2000
"""Maximum characters of a node's expression."""

MOST_DIGITS = 12
"""Maximum characters of the element of a constant that is shown as a number."""

_CALLS = ("call_tir", "call_tir_inplace", "call_tir_with_grad", "call_packed", "call_pure_packed", "call_dps_packed")


@dataclass(frozen=True)
class GraphNode:
    """A value: the expression that computes it, its name, and its shape."""

    kind: str
    """``input``, ``operator``, ``call``, ``control`` or ``output``."""
    title: str
    name: str
    shape: str
    text: str = ""
    """Tooltip: the expression, the whole struct info, and the source location."""
    constants: tuple[str, ...] = ()
    """Constant operands: ``1``, or ``w: 4 x 2, float32``."""


@dataclass
class Graph:
    """One function or branch. Nodes are in topological order."""

    name: str
    nodes: list[GraphNode] = field(default_factory=list[GraphNode])
    edges: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


def graphs_of(mod: IRModule) -> list[Graph]:
    """Graphs of all Relax functions of a program, entry points first, each followed by its inner ones."""
    mod = normalize_module(mod)
    functions = [(g.name_hint, f) for g, f in mod.functions.items() if isinstance(f, Function)]
    functions.sort(key=lambda item: "global_symbol" not in item[1].attrs)
    graphs: list[Graph] = []
    for name, function in functions:
        _add_function(name, function, (), graphs)
    return graphs


def _add_function(name: str, function: Function, captured: Sequence[Var], graphs: list[Graph]) -> None:
    _add(name, [*function.params, *captured], function.body, graphs)


def _add(name: str, inputs: Sequence[Var], body: RelaxExpr, graphs: list[Graph]) -> None:
    builder = _Builder(name)
    graphs.append(builder.graph)
    for var in inputs:
        info = var.struct_info_
        builder.values[var] = builder.add(GraphNode("input", "input", var.name_hint, shape_text(info), _info(info)), ())
    builder.sequence(body)
    for inner_name, inner_inputs, inner_body in builder.inside:
        _add(f"{name} > {inner_name}", inner_inputs, inner_body, graphs)


@dataclass(frozen=True)
class _Folded:
    """Constant as a value, with its text and the name that a binding gave it."""

    text: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.name else self.text


class _Builder:
    """Builder of the graph of one function or branch."""

    def __init__(self, name: str) -> None:
        self.graph = Graph(name)
        self.values: dict[Var, Any] = {}
        self.inside: list[tuple[str, Sequence[Var], RelaxExpr]] = []

    def add(self, node: GraphNode, sources: Sequence[int]) -> int:
        """Add a node with its operands; returns its index."""
        number = len(self.graph.nodes)
        self.graph.nodes.append(node)
        self.graph.edges += [(source, number) for source in dict.fromkeys(sources)]
        return number

    def sequence(self, body: RelaxExpr) -> None:
        """Add all bindings, then the result."""
        result = body
        if isinstance(body, SeqExpr):
            for block in body.blocks:
                for binding in block.bindings:
                    self.binding(binding)
            result = body.body
        info = result.struct_info_
        value = self.value(result)
        text = f"{_text(result)}\n{_info(info)}"
        self.add(GraphNode("output", "output", "", shape_text(info), text, _constants(value)), self.nodes(value))

    def binding(self, binding: Binding) -> None:
        """Add one binding: a node, or an alias of existing values."""
        var = binding.var
        if isinstance(binding, MatchCast):
            value = self.value(binding.value)
            self.values[var] = self.node("control", "match_cast", var, _text(binding.value), value, binding.span)
            return
        assert isinstance(binding, VarBinding)
        value = binding.value
        match value:
            case Call():
                callee = [value.op] if isinstance(value.op, Var) else []
                operands = tuple(self.value(operand) for operand in [*value.args, *callee])
                kind, title = call_title(value)
                self.values[var] = self.node(kind, title, var, _text(value), operands, value.span)
            case If(cond, true_branch, false_branch):
                inputs = free_vars(true_branch), free_vars(false_branch)
                operands = tuple(self.value(operand) for operand in dict.fromkeys([cond, *inputs[0], *inputs[1]]))
                self.values[var] = self.node("control", "if", var, f"if {_text(cond)}", operands, value.span)
                self.inside.append((f"{var.name_hint}, if true", inputs[0], true_branch))
                self.inside.append((f"{var.name_hint}, if false", inputs[1], false_branch))
            case Function():
                captured = free_vars(value)
                operands = tuple(self.value(operand) for operand in captured)
                self.values[var] = self.node("control", "function", var, "", operands, value.span)
                self.inside.append((var.name_hint, [*value.params, *captured], value.body))
            case Constant():
                self.values[var] = dataclasses.replace(self.value(value), name=var.name_hint)
            case _:
                self.values[var] = self.value(value)

    def node(self, kind: str, title: str, var: Var, text: str, operands: Any, span: object) -> int:
        """Add the node of a variable, with the values of its operands."""
        info = var.struct_info_
        lines = [text, _info(info), "" if span is None else f"at {span}"]
        details = "\n".join(line for line in lines if line)
        node = GraphNode(kind, title, var.name_hint, shape_text(info), details, _constants(operands))
        return self.add(node, self.nodes(operands))

    def value(self, expr: RelaxExpr) -> Any:
        """Value of an expression that computes nothing."""
        match expr:
            case Var():
                return self.values.get(expr)
            case Tuple(fields):
                return tuple(self.value(element) for element in fields)
            case TupleGetItem(source, index):
                whole = self.value(source)
                return cast("tuple[Any, ...]", whole)[index] if isinstance(whole, tuple) else whole
            case Constant():
                return _Folded(_constant_text(expr))
            case _:
                return None

    def nodes(self, value: Any) -> list[int]:
        """Nodes of which a value consists."""
        if isinstance(value, tuple):
            return [node for element in cast("tuple[Any, ...]", value) for node in self.nodes(element)]
        return [value] if isinstance(value, int) else []


def _constants(value: Any) -> tuple[str, ...]:
    """Texts of the constants of which a value consists, each once."""
    if isinstance(value, tuple):
        elements = cast("tuple[Any, ...]", value)
        return tuple(dict.fromkeys(text for element in elements for text in _constants(element)))
    return (str(value),) if isinstance(value, _Folded) else ()


def _constant_text(constant: Constant) -> str:
    """Element of a constant without dimensions; the shape and dtype of another one."""
    if constant.content.shape == ():
        element = str(constant.data.item())
        if len(element) <= MOST_DIGITS:
            return element
    return shape_text(constant.struct_info_)


def call_title(call: Call) -> tuple[str, str]:
    """Return (kind of a call's node, name of the operator or called function)."""
    op = call.op
    name = getattr(op, "name", None) or getattr(op, "name_hint", None) or getattr(op, "global_symbol", "")
    title = str(name).removeprefix("relax.")
    if title in _CALLS and call.args:
        callee = call.args[0]
        inner = getattr(callee, "name_hint", None) or getattr(callee, "global_symbol", None)
        return "call", str(inner or title)
    if isinstance(call.op, GlobalVar | Var) or not str(name).startswith("relax."):
        return "call", title or "call"
    return "operator", title


def shape_text(info: StructInfo | None) -> str:
    """Struct info of a value in one line: ``n x 4, float32``."""
    match info:
        case TensorStructInfo():
            dims = info.dims
            if dims is None:
                shown = "any shape" if info.ndim < 0 else " x ".join("?" * info.ndim)
            else:
                shown = " x ".join(map(prim_text, dims)) or "scalar"
            return f"{shown}, {info.dtype}"
        case ShapeStructInfo(values) if values is not None:
            return f"shape ({', '.join(map(prim_text, values))})"
        case None:
            return ""
        case _:
            fields = sum(isinstance(child, StructInfo) for child in children_of(info))
            kind = type(info).__name__.removesuffix("StructInfo").lower()
            return f"{kind} of {fields}" if kind == "tuple" else kind


def _info(info: StructInfo | None) -> str:
    return "" if info is None else _bounded(str(info))


def _text(expr: RelaxExpr) -> str:
    """Text of an expression, without the contents of branches."""
    return _bounded(expr.script())


def _bounded(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} …"


def as_table(graph: Graph) -> dict[str, Any]:
    """Convert a graph to JSON values."""
    return dataclasses.asdict(graph)
