"""Reading graphs: nodes in order, each by its converter, a rule for elements, or its function body.

Functions of the model and of the ONNX standard are read in place, with names of their own.
"""

from __future__ import annotations

import inspect
import math
from collections import ChainMap
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import onnx
from onnx import FunctionProto, GraphProto, NodeProto, TensorProto

from ...expr import Tuple, TupleGetItem
from ...ir import Diagnostic, DiagnosticError, RelaxExpr, Span
from ...runtime.files import in_threads
from ...struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo
from ..unexpected import guarded
from . import registry
from .continuation import IndexedNode, Names, continued, reads
from .elements import apply_rule
from .emitter import Emitter, OpenRankError, Outputs
from .fallback import CODES, Fallback
from .functions import context_types, standard_function
from .model import attribute_value, broken, node_span, node_title, sparse_to_array, subgraphs_of, to_array
from .registry import Converter, Input
from .validity import OperatorSignature, Signatures
from .values import Object, Optional, Strings, Subgraph, Value
from .values import Sequence as SequenceValue

_IF = "", "If"
_LARGE = 1 << 18
"""Number of elements from which constants are copied by several threads."""


class GraphReader:
    """Reads graphs into the program that an `Emitter` builds.

    `opsets` gives the version of each domain, `functions` the model's own functions. `split` has the outputs of the
    nodes with results of several ranks, after which others are read once for each. `fallback` runs nodes that are not
    supported.
    """

    def __init__(
        self,
        emitter: Emitter,
        name: str,
        opsets: Mapping[str, int],
        functions: Mapping[tuple[str, str], FunctionProto],
        split: Set[Outputs] = frozenset(),
        fallback: Fallback | None = None,
    ) -> None:
        self.emitter, self.name, self.opsets, self.functions = emitter, name, dict(opsets), dict(functions)
        self.fallback = fallback
        self.signatures = Signatures()
        emitter.reader = self
        self.place: Span | None = None
        self._expanding: list[tuple[str, str]] = []
        self._unsupported: list[Diagnostic] = []
        emitter.split = split
        self.depth = 0
        """Number of continuations that are being read inside of each other."""

    # -- what cannot be read

    def check_supported(self, graph: GraphProto) -> None:
        """Raise DiagnosticError listing every unsupported operator of all nodes.

        If only branches of `If` nodes have some, the error is raised when such a branch is read, which may be never.
        """
        missing: dict[tuple[str, str], list[IndexedNode]] = {}
        in_branches: dict[tuple[str, str], list[IndexedNode]] = {}
        broken_nodes: list[Diagnostic] = []
        pending = [(graph.node, self.opsets, missing)]
        seen: set[tuple[Any, ...]] = set()
        while pending:
            nodes, opsets, found = pending.pop()
            for index, node in enumerate(nodes):
                key = domain_and_type(node)
                inside = in_branches if key == _IF else found
                pending += [(inner.node, opsets, inside) for a in node.attribute for inner in subgraphs_of(a)]
                function = self.functions.get(key)
                signature = (
                    self.signatures.get(*key, opsets.get(key[0], 1))
                    if function is None
                    else OperatorSignature.of_function(function)
                )
                for problem in () if signature is None else signature.problems(node):
                    broken_nodes.append(
                        Diagnostic("E6002", f"{node_title(node)}: {problem}", node_span(self.name, index, node))
                    )
                if key in self.functions:
                    if (key, found is missing) not in seen:
                        seen.add((key, found is missing))
                        function = self.functions[key]
                        pending.append((function.node, opsets_of(function.opset_import), found))
                elif not self._importable(key, opsets):
                    found.setdefault(key, []).append((index, node))
        refuses = bool((missing and self.fallback is None) or broken_nodes)
        for key, nodes in in_branches.items():
            missing.setdefault(key, []).extend(nodes)
        self._unsupported = [self._missing(key, nodes) for key, nodes in missing.items()]
        if refuses:
            raise DiagnosticError([*self._unsupported, *broken_nodes])

    def _importable(self, key: tuple[str, str], opsets: Mapping[str, int]) -> bool:
        opset = opsets.get(key[0], 1)
        return registry.find(*key, opset) is not None or standard_function(*key, opset) is not None

    def _missing(self, key: tuple[str, str], nodes: list[IndexedNode]) -> Diagnostic:
        domain, op_type = key
        is_known_domain = domain in ("", "ai.onnx.ml", "com.microsoft") or domain in self.opsets
        shown = f"{domain}.{op_type}" if domain else op_type
        titles = [node_title(node) for _, node in nodes[:5]]
        more = f" and {len(nodes) - 5} more" if len(nodes) > 5 else ""
        index, node = nodes[0]
        return Diagnostic(
            "E6001",
            f"the operator {shown} is not supported"
            if is_known_domain
            else f"the operator {shown} is of an unknown domain",
            node_span(self.name, index, node),
            "",
            (f"nodes: {', '.join(titles)}{more}",),
            f"register a converter: relax.frontend.onnx.converter({op_type!r}, domain={domain!r})",
            shell_hint="let ONNX Runtime run it: --fallback onnxruntime"
            if is_known_domain and self.fallback is None
            else "",
        )

    def is_pure(self, graph: GraphProto) -> bool:
        """True if no node of a graph, of those in it and of the model's functions has an effect or is random."""
        pending = [graph.node, *(function.node for function in self.functions.values())]
        while pending:
            for node in pending.pop():
                entry = registry.find(domain_of(node), node.op_type, self.opsets.get(domain_of(node), 1))
                if entry is not None and not entry.pure:
                    return False
                pending += [inner.node for a in node.attribute for inner in subgraphs_of(a)]
        return True

    # -- graphs

    def read(self, graph: GraphProto, names: Names) -> list[Value | None]:
        """Read the nodes of a graph; the values of its outputs. `names` holds its inputs, and grows."""
        own = names.maps[0] if isinstance(names, ChainMap) else names
        initialized = [tensor.name for tensor in graph.initializer]
        initialized += [sparse.values.name for sparse in graph.sparse_initializer]
        if len(set(initialized)) < len(initialized):
            raise broken("two initializers of a graph have one name", self.name)
        given = [tensor for tensor in graph.initializer if tensor.name not in own]
        names.update(zip((tensor.name for tensor in given), self._constants(given), strict=True))
        for sparse in graph.sparse_initializer:
            if sparse.values.name not in own:
                names[sparse.values.name] = self.emitter.const(sparse_to_array(sparse, self.name))
        ordered = in_order(graph.node, {*initialized, *(item.name for item in graph.input)}, self.name)
        outputs = [output.name for output in graph.output]
        self.nodes(ordered, names, outputs, self.opsets)
        return [self._output(output, names) for output in outputs]

    def nodes(
        self, ordered: Sequence[IndexedNode], names: Names, outputs: Collection[str], opsets: Mapping[str, int]
    ) -> None:
        """Read nodes in order; `outputs` are the names that are used after them.

        After a node in `split`, others are read once for each rank of its results; see `continuation`.
        """
        for position, (index, node) in enumerate(ordered):
            self.place = node_span(self.name, index, node) if not self._expanding else self.place
            is_split = tuple(node.output) in self.emitter.split
            if is_split and continued(self, (index, node), ordered[position + 1 :], names, outputs, opsets):
                return
            self.node(node, names, opsets)

    def _constants(self, tensors: Sequence[TensorProto]) -> list[Value]:
        """The values of constant tensors; several threads copy the elements of large ones."""

        def read(tensor: TensorProto) -> Value:
            return constant_of(to_array(tensor, self.name), self.emitter)

        large = [tensor for tensor in tensors if math.prod(tensor.dims) >= _LARGE]
        copied = iter(in_threads(read, large))
        return [next(copied) if math.prod(tensor.dims) >= _LARGE else read(tensor) for tensor in tensors]

    def read_subgraph(self, subgraph: Subgraph, inputs: Sequence[Value | None]) -> list[Value | None]:
        """Read a graph that is an attribute, with these inputs, into the open block; the values of its outputs."""
        graph = subgraph.graph
        inner: dict[str, Value | None] = {}
        names: Names = ChainMap(inner, cast("dict[str, Value | None]", subgraph.names))
        if len(graph.input) != len(inputs):
            raise self.emitter.error(f"its graph has {len(graph.input)} inputs, {len(inputs)} are passed", code="E6002")
        inner.update({item.name: value for item, value in zip(graph.input, inputs, strict=True)})
        outer = self.place
        try:
            return self.read(graph, names)
        finally:
            self.place = outer

    def _output(self, name: str, names: Names) -> Value | None:
        if name not in names:
            raise broken(f"the output {name!r} of a graph is computed by no node", self.name)
        return names[name]

    # -- nodes

    def node(self, node: NodeProto, names: Names, opsets: Mapping[str, int]) -> None:
        """Read one node, and bind its outputs."""
        with self.converting(node, opsets):
            try:
                self._bind(tuple(node.output), self._results(node, names, opsets), names)
            except OpenRankError:
                raise
            except DiagnosticError as error:
                if self.fallback is None or any(d.code not in CODES for d in error.diagnostics):
                    raise
                call = self.fallback.call(node, names, opsets, self.emitter, error)
                wanted = tuple(name for name in node.output if name)
                self._bind(wanted, unpacked(self.emitter, call), names)

    @contextmanager
    def converting(self, node: NodeProto, opsets: Mapping[str, int]) -> Generator[None]:
        """Convert a node: errors are placed at it, and unexpected exceptions become diagnostics."""
        place = self.place
        at_node = self.emitter.at(node_title(node), place, tuple(node.output), opsets.get(domain_of(node), 1))
        with at_node, guarded(self.emitter, place):
            yield

    def _bind(self, outputs: tuple[str, ...], results: Sequence[Any], names: Names) -> None:
        if any(outputs[len(results) :]):
            raise self.emitter.error(f"it has {len(outputs)} outputs, at most {len(results)} are supported")
        for name, value in zip(outputs, results, strict=False):
            if name:
                names[name] = self.emitter.emit(value, name) if isinstance(value, RelaxExpr) else value

    def _results(self, node: NodeProto, names: Names, opsets: Mapping[str, int]) -> Sequence[Any]:
        emitter, key = self.emitter, domain_and_type(node)
        inputs = [self.input(name, names) for name in node.input]
        function = self.functions.get(key)
        if function is not None:
            return self._expand(function, node, inputs, names, opsets_of(function.opset_import))
        attributes = self.attributes(node, names)
        special = registry.find(*key, emitter.opset, objects=True) if any(map(is_object, inputs)) else None
        if special is not None:
            results = self._convert(special, inputs, dict(attributes))
            if results is not None:
                return results
        if key[0] == "":
            elements = apply_rule(emitter, node.op_type, inputs, attributes, len(node.output))
            if elements is not None:
                return elements
        converter = registry.find(*key, emitter.opset)
        if converter is not None:
            results = self._convert(converter, inputs, attributes)
            if results is not None:
                return results
        body = standard_function(*key, emitter.opset, node, lambda: context_types(inputs))
        if body is None:
            every = [] if self.fallback is not None else self._unsupported
            raise DiagnosticError(every or self._missing(key, [(0, node)]))
        return self._expand(body, node, inputs, names, {**opsets, **opsets_of(body.opset_import)})

    def input(self, name: str, names: Names) -> Value | None:
        """The value of a node's input; None for one that is left out."""
        if not name:
            return None
        if name not in names:
            raise self.emitter.error(f"the input {name!r} is computed by no node before it", code="E6002")
        return names[name]

    def attributes(self, node: NodeProto, names: Names) -> dict[str, Any]:
        """The attributes of a node; graphs see `names`."""
        attributes: dict[str, Any] = {}
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                continue
            value = attribute_value(attribute)
            attributes[attribute.name] = Subgraph(value, names) if isinstance(value, GraphProto) else value
        return attributes

    def _convert(
        self, entry: Converter, inputs: list[Value | None], attributes: dict[str, Any]
    ) -> Sequence[Any] | None:
        """Call a converter with inputs in the forms it asks for; its results, or None if it leaves the node."""
        emitter = self.emitter
        arguments: list[Any] = []
        rest = list(inputs)
        for item in entry.inputs:
            if item.variadic:
                arguments += [self._argument(item, value) for value in rest]
                rest = []
                continue
            value: Any = rest.pop(0) if rest else None
            if value is None and item.name in attributes:
                value = attributes.pop(item.name)
            if value is None and not item.optional:
                raise emitter.error(f"the input {item.name} is missing", code="E6002")
            arguments.append(None if value is None else self._argument(item, value))
        if any(value is not None for value in rest):
            raise emitter.error(f"it has {len(inputs)} inputs, at most {len(entry.inputs)} are expected", code="E6002")
        options = {
            name: value
            for name, value in attributes.items()
            if name in entry.attributes or (entry.takes_all and name not in entry.positional)
        }
        for name, default in entry.attributes.items():
            if default is inspect.Parameter.empty and name not in options:
                raise emitter.error(f"the attribute {name} is missing", code="E6002")
        result: Any = entry.function(emitter, *arguments, **options)
        if result is NotImplemented:
            return None
        if isinstance(result, (tuple, list)):
            return result  # type: ignore[reportUnknownVariableType]
        return unpacked(emitter, result) if isinstance(result, RelaxExpr) else [result]

    def _argument(self, item: Input, value: Any) -> Any:
        emitter = self.emitter
        if _is_attribute(value):
            value = constant_of(_as_tensor(value), emitter)
        match item.kind:
            case "Value":
                return value
            case "Tensor":
                tensor = emitter.tensor(value, item.name)
                if isinstance(tensor.struct_info_, ObjectStructInfo):
                    emitter.unsupported(f"{item.name}, which is no tensor of numbers,")
                return tensor
            case "Array":
                return emitter.array(value, item.name)
            case "Ints":
                return emitter.ints(value, item.name)
            case "Dims" | "Signed":
                return emitter.scalars(value, item.name, signed=item.kind == "Signed")

    # -- functions

    def _expand(
        self,
        function: FunctionProto,
        node: NodeProto,
        inputs: list[Value | None],
        names: Names,
        opsets: Mapping[str, int],
    ) -> list[Value | None]:
        """Read the body of a function in the place of a node that calls it; the values of its outputs."""
        key = function.domain, function.name
        if key in self._expanding:
            raise self.emitter.error(f"the function {function.name} calls itself", code="E6002")
        inner: Names = dict.fromkeys(function.input)
        inner.update(zip(function.input, inputs, strict=False))
        given = {a.name: a for a in node.attribute}
        given |= {a.name: a for a in function.attribute_proto if a.name not in given}
        self._expanding.append(key)
        try:
            ordered = in_order(function.node, set(function.input), self.name)
            bound = [(index, with_attributes(inner_node, given)) for index, inner_node in ordered]
            self.nodes(bound, inner, function.output, opsets)
        finally:
            self._expanding.pop()
        used = dict(zip(function.output, node.output, strict=False))
        return [  # bodies of the standard leave out what the node does not use
            self._output(name, inner) if used.get(name) else inner.get(name) for name in function.output
        ]


def unpacked(emitter: Emitter, result: RelaxExpr) -> list[RelaxExpr]:
    """The results of a node whose converter gives one expression: a tensor, or a call that returns a tuple."""
    if isinstance(result, Tuple):
        return list(result.fields)
    value = emitter.emit(result, next((name for name in emitter.outputs if name), ""))
    if isinstance(value, Tuple):
        return list(value.fields)
    info = value.struct_info
    if isinstance(info, TupleStructInfo):
        return [TupleGetItem(value, index) for index in range(len(info.fields))]
    return [value]


def constant_of(array: Any, emitter: Emitter) -> Value:
    """The value of a constant tensor."""
    return Strings(array) if array.dtype == object else emitter.const(array)


def domain_of(node: NodeProto) -> str:
    """The domain of a node's operator, "" for ONNX's own."""
    return registry.ALIASES.get(node.domain, node.domain)


def domain_and_type(node: NodeProto) -> tuple[str, str]:
    """The domain and the name of a node's operator."""
    return domain_of(node), node.op_type


def opsets_of(imports: Iterable[Any]) -> dict[str, int]:
    """The versions of domains that a model or a function imports."""
    versions: dict[str, int] = {}
    for item in imports:
        domain = str(item.domain)
        versions[registry.ALIASES.get(domain, domain)] = item.version
    return versions


def with_attributes(node: NodeProto, given: Mapping[str, Any]) -> NodeProto:
    """A node of a function's body with the attributes of the call in the places that refer to them."""
    if not _refers(node):
        return node
    bound = NodeProto()
    bound.CopyFrom(node)
    _bind_attributes(bound, given)
    return bound


def _refers(node: NodeProto) -> bool:
    return any(
        a.ref_attr_name or any(_refers(inner) for graph in subgraphs_of(a) for inner in graph.node)
        for a in node.attribute
    )


def _bind_attributes(node: NodeProto, given: Mapping[str, Any]) -> None:
    bound: list[Any] = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            for graph in subgraphs_of(attribute):
                for inner in graph.node:
                    _bind_attributes(inner, given)
            bound.append(attribute)
        elif attribute.ref_attr_name in given:
            value = onnx.AttributeProto()
            value.CopyFrom(given[attribute.ref_attr_name])
            if attribute.type not in (value.type, onnx.AttributeProto.UNDEFINED):
                raise broken(f"the attribute {attribute.ref_attr_name} of the function's call has another type")
            value.name = attribute.name
            bound.append(value)
    del node.attribute[:]
    node.attribute.extend(bound)


def in_order(nodes: Sequence[NodeProto], inputs: Set[str], model: str) -> list[IndexedNode]:
    """Nodes with their numbers, each after those whose outputs it reads: their own order, if that is one.

    `inputs` are the names of the graph's inputs and initializers. Raises DiagnosticError if nodes depend on each other
    in a circle, or two compute a value of one name.
    """
    makers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for output in node.output:
            if output in inputs and output:
                raise broken(f"{node_title(node)} computes {output!r}, which is an input of its graph", model)
            if output and makers.setdefault(output, index) != index:
                raise broken(
                    f"two nodes compute {output!r}: {node_title(nodes[makers[output]])} and {node_title(node)}", model
                )
    earlier = [{makers[name] for name in reads(node) if name in makers} for node in nodes]
    if all(max(indices, default=-1) < index for index, indices in enumerate(earlier)):
        return list(enumerate(nodes))
    return [(index, nodes[index]) for index in _sorted(nodes, earlier, model)]


def _sorted(nodes: Sequence[NodeProto], reads: list[set[int]], model: str) -> list[int]:
    waiting = [len(earlier) for earlier in reads]
    readers: list[list[int]] = [[] for _ in nodes]
    for index, earlier in enumerate(reads):
        for maker in earlier:
            readers[maker].append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    for index in ready:  # which grows
        order.append(index)
        for reader in readers[index]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if len(order) < len(nodes):
        stuck = [node_title(nodes[index]) for index in range(len(nodes)) if waiting[index] > 0]
        raise broken(f"nodes depend on each other in a circle: {', '.join(stuck[:5])}", model)
    return order


def _is_attribute(value: Any) -> bool:
    """True for what attributes hold, rather than a value of the graph."""
    return isinstance(value, (int, float, str, tuple)) or type(value).__module__ == "numpy"


def _as_tensor(value: Any) -> Any:
    """Return the elements of an attribute that stands for an input: numbers as int64 or float32."""
    array: Any = np.asarray(value)
    if array.dtype.kind == "U":
        return array.astype(object)
    is_written = isinstance(value, (float, tuple)) and array.dtype == np.float64
    return array.astype(np.float32 if array.size else np.int64) if is_written else array


def is_object(value: Value | None) -> bool:
    """True for a tensor of strings, a sequence or an optional value."""
    return isinstance(value, (Object, Optional, SequenceValue, Strings))


def is_tensor(value: Value | None) -> bool:
    """True for a tensor of the program."""
    return isinstance(value, RelaxExpr) and isinstance(value.struct_info, TensorStructInfo)
