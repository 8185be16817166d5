"""Validity of a model, before it is read: names, nesting, functions, and nodes as their operators declare them.

`check_structure` comes first, since everything else relies on it: names are text, nesting and calls are bounded.
`Signatures` holds the form of the nodes of an operator, by the schemas of ONNX, or by the signature of a converter
where there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import Parameter
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto
from onnx.defs import onnx_opset_version

from ...ir import Diagnostic, DiagnosticError
from ...runtime.records import dataclass
from . import registry
from .functions import schema_of
from .model import broken, node_title, subgraphs_of

DEEPEST = 32
"""Maximum nesting depth of graphs and functions."""

MOST_NODES = 1_000_000
"""Maximum number of nodes read; those of a function count at each call."""

LOOPED = 4
"""Approximate number of times that a loop body is read, the first time for its shapes."""

FunctionKey = tuple[str, str]

# ------------------------------------------------------------------------------------- structure


def check_structure(model: ModelProto, where: str) -> None:
    """Raise DiagnosticError for names that are not text, and for graphs and calls without bound or too deep."""
    _check_graph(model.graph, where)
    _check_opsets(model.opset_import, where)
    for function in model.functions:
        texts = function.name, function.domain, *function.input, *function.output
        _check_text(where, "a name of a function", texts)
        _check_opsets(function.opset_import, where)
        _check_nodes(function.node, where, 1)
        for default in function.attribute_proto:
            for graph in subgraphs_of(default):
                _check_graph(graph, where)
    functions = {(f.domain, f.name): f for f in model.functions}
    if len(functions) < len(model.functions):
        message = "two functions of the model have one name, which is not supported"
        raise DiagnosticError(Diagnostic("E6001", message, None, where))
    _Work(functions, where).of_nodes(model.graph.node, ())


def _check_opsets(imports: Iterable[Any], where: str) -> None:
    _check_text(where, "the domain of an opset", (item.domain for item in imports))
    versions: dict[str, int] = {}
    for item in imports:
        if not 0 < item.version < 1 << 31:
            raise broken(f"version {item.version} of the domain {item.domain!r} is none", where)
        domain = str(item.domain)
        if versions.setdefault(registry.ALIASES.get(domain, domain), item.version) != item.version:
            raise broken(f"two versions of the domain {item.domain!r} are imported", where)
    newest = onnx_opset_version()
    if versions.get("", 1) > newest:
        message = f"version {versions['']} of ONNX's operators is newer than {newest}, the newest that is known"
        hint = "update the package onnx"
        raise DiagnosticError(Diagnostic("E6001", message, None, where, (), hint))


def _check_text(where: str, subject: str, names: Iterable[Any]) -> None:
    """Protobuf gives a string that is not UTF-8 as bytes."""
    for name in names:
        if not isinstance(name, str):
            raise broken(f"{subject} is not UTF-8: {name[:40]!r}", where)


def _check_graph(graph: GraphProto, where: str) -> None:
    _check_graph_texts(graph, where)
    _check_nodes(graph.node, where, 1)


def _check_graph_texts(graph: GraphProto, where: str) -> None:
    values = [*graph.input, *graph.output]
    _check_text(where, "the name of an input or output", (item.name for item in values))
    _check_text(where, "the name of an initializer", (tensor.name for tensor in graph.initializer))
    _check_text(where, "the name of an initializer", (item.values.name for item in graph.sparse_initializer))
    for item in values:
        _check_type(item.type, where)
        dims = item.type.tensor_type.shape.dim
        _check_text(where, f"a dimension of {item.name!r}", (dim.dim_param for dim in dims))


def _check_type(kind: TypeProto, where: str) -> None:
    """Sequences and optional values may be of such, to a depth."""
    for _ in range(DEEPEST):
        match kind.WhichOneof("value"):
            case "sequence_type":
                kind = kind.sequence_type.elem_type
            case "optional_type":
                kind = kind.optional_type.elem_type
            case _:
                return
    raise too_deep(where)


def _check_nodes(nodes: Sequence[NodeProto], where: str, depth: int) -> None:
    pending = [(nodes, depth)]
    while pending:
        nodes, depth = pending.pop()
        if depth > DEEPEST:
            raise too_deep(where)
        for node in nodes:
            texts = node.op_type, node.domain, node.name, *node.input, *node.output
            _check_text(where, "a name in a node", texts)
            for attribute in node.attribute:
                _check_text(where, f"an attribute of {node_title(node)}", (attribute.name, attribute.ref_attr_name))
                for graph in subgraphs_of(attribute):
                    _check_graph_texts(graph, where)
                    pending.append((graph.node, depth + 1))


def too_deep(where: str) -> DiagnosticError:
    """The error of a model whose graphs and functions are nested too deep."""
    message = f"graphs and functions are nested more than {DEEPEST} deep, which is not supported"
    return DiagnosticError(Diagnostic("E6001", message, None, where))


class _Work:
    """The number of nodes to be read, functions counted each time they are called."""

    def __init__(self, functions: Mapping[FunctionKey, FunctionProto], where: str) -> None:
        self.functions, self.where = functions, where
        self.sizes: dict[FunctionKey, tuple[int, int]] = {}

    def of_nodes(self, nodes: Sequence[NodeProto], calls: tuple[FunctionKey, ...]) -> tuple[int, int]:
        """The number of nodes, and how deep graphs and functions are nested in them."""
        total, deepest = len(nodes), 0
        for node in nodes:
            times = LOOPED if node.op_type in ("Loop", "Scan") else 1
            inner = [self.of_nodes(g.node, calls) for a in node.attribute for g in subgraphs_of(a)]
            inner += [self._of_function((registry.ALIASES.get(node.domain, node.domain), node.op_type), calls)]
            for size, depth in inner:
                total, deepest = total + times * size, max(deepest, depth)
        if total > MOST_NODES:
            message = f"functions and loops stand for more than {MOST_NODES:,} nodes, which is not supported"
            raise DiagnosticError(Diagnostic("E6001", message, None, self.where))
        return total, deepest + 1

    def _of_function(self, key: FunctionKey, calls: tuple[FunctionKey, ...]) -> tuple[int, int]:
        function = self.functions.get(key)
        if function is None:
            return 0, 0
        if key in calls:
            raise broken(f"the function {function.name} calls itself", self.where)
        if key not in self.sizes:
            if len(calls) >= DEEPEST:
                raise too_deep(self.where)
            self.sizes[key] = self.of_nodes(function.node, (*calls, key))
        size, depth = self.sizes[key]
        if depth + len(calls) > DEEPEST:
            raise too_deep(self.where)
        return size, depth


# ------------------------------------------------------------------------------------- nodes

_TYPES: dict[str, tuple[str, ...]] = {
    "int": ("INT",),
    "bool": ("INT",),
    "float": ("FLOAT",),
    "str": ("STRING",),
    "Ints": ("INTS",),
    "Floats": ("FLOATS",),
    "Sequence[str]": ("STRINGS",),
    "Array": ("TENSOR",),
    "Subgraph": ("GRAPH",),
}
"""Types of attributes, by the annotations of converters; others may have any type."""

_INPUT_TYPES: dict[registry.Kind, tuple[str, ...]] = {
    "Ints": ("INT", "INTS"),
    "Dims": ("INT", "INTS"),
    "Signed": ("INT", "INTS"),
    "Tensor": ("INT", "INTS", "FLOAT", "FLOATS", "TENSOR"),
    "Array": ("INT", "INTS", "FLOAT", "FLOATS", "TENSOR"),
    "Value": ("INT", "INTS", "FLOAT", "FLOATS", "TENSOR"),
}
"""Types of attributes in the place of inputs, by the form of the input."""


@dataclass(frozen=True)
class OperatorSignature:
    """Allowed inputs, outputs and attributes of an operator's nodes."""

    inputs: tuple[int, int]
    """The least and the greatest number."""
    outputs: tuple[int, int]
    attributes: Mapping[str, tuple[str, ...]]
    """The types that each may have, by names of AttributeProto.AttributeType; none: any."""
    required: frozenset[str]

    @staticmethod
    def of_function(function: FunctionProto) -> OperatorSignature:
        """The signature of the calls of a function of the model."""
        return OperatorSignature((0, len(function.input)), (0, len(function.output)), {}, frozenset())

    def problems(self, node: NodeProto) -> list[str]:
        """Return the problems of a node as sentences without its name."""
        problems: list[str] = []
        for count, (least, most), kind in (
            (len(node.input), self.inputs, "input"),
            (len(node.output), self.outputs, "output"),
        ):
            if not least <= count <= most:
                expected = f"{least}" if least == most else f"at least {least}" if count < least else f"at most {most}"
                problems.append(f"it has {counted(count, kind)}, expected {expected}")
        for attribute in node.attribute:
            types = self.attributes.get(attribute.name, ())
            written = _type_name(attribute)
            if types and written not in types:
                problems.append(f"the attribute {attribute.name} is {written}, expected {' or '.join(types)}")
        names = [attribute.name for attribute in node.attribute]
        problems += [f"the attribute {name} is missing" for name in sorted(self.required - set(names))]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            problems.append(f"the attribute {twice} is given twice")
        return problems


def _type_name(attribute: AttributeProto) -> str:
    return AttributeProto.AttributeType.Name(attribute.type)


def counted(count: int, noun: str) -> str:
    """A number of things: ``1 input``, ``2 inputs``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class Signatures:
    """Signatures by operator and opset."""

    def __init__(self) -> None:
        self._cache: dict[tuple[str, str, int], OperatorSignature | None] = {}

    def get(self, domain: str, name: str, opset: int) -> OperatorSignature | None:
        """The signature of an operator, None if nothing declares one."""
        key = domain, name, opset
        if key not in self._cache:
            schema = schema_of(*key)
            entry = registry.find(*key)
            self._cache[key] = (
                _of_schema(schema, entry) if schema is not None else None if entry is None else _of_converter(entry)
            )
        return self._cache[key]


def _of_schema(schema: Any, entry: registry.Converter | None) -> OperatorSignature:
    accepted = {} if entry is None else _accepted(entry)  # attributes of other versions are read, too
    return OperatorSignature(
        (schema.min_input, schema.max_input),
        (0, schema.max_output),  # the last ones may be left out, unused ones too
        accepted | {name: (attribute.type.name,) for name, attribute in schema.attributes.items()},
        frozenset(name for name, attribute in schema.attributes.items() if attribute.required),
    )


def _of_converter(entry: registry.Converter) -> OperatorSignature:
    variadic = any(item.variadic for item in entry.inputs)
    return OperatorSignature(
        (0, 1 << 31 if variadic else len(entry.inputs)),
        (0, 1 << 31),
        _accepted(entry),
        frozenset(name for name, default in entry.attributes.items() if default is Parameter.empty),
    )


def _accepted(entry: registry.Converter) -> dict[str, tuple[str, ...]]:
    """The types of the attributes that a converter reads, those in the place of inputs included."""
    in_place_of_inputs = {item.name: _INPUT_TYPES[item.kind] for item in entry.inputs if not item.variadic}
    return in_place_of_inputs | {name: _TYPES.get(text, ()) for name, text in entry.annotations.items()}
