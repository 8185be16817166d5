"""JSON graphs in TVM's format, and a base class for what runs them: one function for each kind of kernel node.

    class Npu(JSONRuntime):
        operators = {"npu.add": lambda node, a, b: a + b}

    register_loader("npu", Npu.load)

A graph is an object with these entries:

    nodes          {"op": "input", "name": …}, {"op": "const", "name": …}, or
                   {"op": "kernel", "name": "npu.add", "inputs": [[node, output, 0], …], "attrs": {name: [[text, …]]}}
    arg_nodes      the nodes of the inputs and constants
    heads          the outputs: [[node, output, 0], …]
    node_row_ptr   the number of outputs of all nodes before each, and of all

A node only reads nodes before it. Attributes are lists of text, as TVM writes them; "shape" has a list for each output,
in which a size that is not known before a run is the text of an expression.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Final, TypeAlias, cast

import numpy as np

from .encoding import ExecutableError
from .modules import Module
from .nd import NDArray
from .records import dataclass
from .tensor import numpy_view

Reference: TypeAlias = "tuple[int, int]"
"""A node and the number of one of its outputs."""

KINDS: Final = ("input", "const", "kernel")


@dataclass(frozen=True)
class Node:
    """A node of a graph."""

    op: str
    name: str
    inputs: tuple[Reference, ...] = ()
    attrs: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    """Attributes except shape and dtype, as lists of text."""
    dtypes: tuple[str, ...] = ("",)
    """Dtypes of the node's outputs."""

    def texts(self, name: str) -> tuple[str, ...]:
        """Return an attribute as text. Raises ValueError if the node has none of that name."""
        if name not in self.attrs:
            raise ValueError(f"the node {self.name} has no attribute {name!r}")
        return self.attrs[name]

    def integers(self, name: str) -> tuple[int, ...]:
        """Return an attribute as integers. Raises ValueError if it is missing, or other than integers."""
        return tuple(map(int, self.texts(name)))

    def floats(self, name: str) -> tuple[float, ...]:
        """Return an attribute as floats. Raises ValueError if it is missing, or other than numbers."""
        return tuple(map(float, self.texts(name)))

    def integer(self, name: str) -> int:
        """Return an attribute that is one integer. Raises ValueError for another."""
        return int(self._single(name))

    def number(self, name: str) -> float:
        """Return an attribute that is one number. Raises ValueError for another."""
        return float(self._single(name))

    def _single(self, name: str) -> str:
        texts = self.texts(name)
        if len(texts) != 1:
            raise ValueError(f"the attribute {name!r} of the node {self.name} has {len(texts)} values, expected 1")
        return texts[0]


@dataclass(frozen=True)
class Graph:
    """A graph: its nodes, the numbers of its input nodes, and its outputs."""

    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    heads: tuple[Reference, ...]


def read_graph(text: str) -> Graph:
    """Read the text of a graph. Raises ExecutableError that says what is wrong with it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"it is no JSON: {error}") from None
    nodes: list[Node] = []
    for entry in _list(_entry(value, "nodes"), "nodes"):
        nodes.append(_node(entry, nodes))
    positions = [_integer(item, "arg_nodes", len(nodes)) for item in _list(_entry(value, "arg_nodes"), "arg_nodes")]
    heads = tuple(_reference(item, nodes) for item in _list(_entry(value, "heads"), "heads"))
    for index, node in enumerate(nodes):
        if positions.count(index) != (node.op != "kernel"):
            raise _malformed(f"'arg_nodes' has the node {index} {positions.count(index)} times")
    return Graph(tuple(nodes), tuple(i for i in positions if nodes[i].op == "input"), heads)


def _malformed(problem: str) -> ExecutableError:
    return ExecutableError(f"the JSON graph is malformed: {problem}")


def _entry(value: Any, name: str) -> Any:
    if not isinstance(value, dict) or name not in value:
        raise _malformed(f"it has no entry {name!r}")
    return cast("dict[str, Any]", value)[name]


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise _malformed(f"{name!r} is no list")
    return cast("list[Any]", value)


def _integer(value: Any, name: str, end: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < end:
        raise _malformed(f"{value!r} in {name!r} is no number below {end}")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise _malformed(f"{name!r} is no text")
    return value


def _reference(value: Any, nodes: Sequence[Node]) -> Reference:
    items = _list(value, "inputs")
    if len(items) not in (2, 3):
        raise _malformed(f"{value!r} is no reference to the output of a node")
    node = _integer(items[0], "inputs", len(nodes))
    return node, _integer(items[1], "inputs", len(nodes[node].dtypes))


def _node(value: Any, nodes: Sequence[Node]) -> Node:
    op, name = _text(_entry(value, "op"), "op"), _text(_entry(value, "name"), "name")
    if op not in KINDS:
        raise _malformed(f"{op!r} is no kind of node")
    given = value.get("attrs", {})
    if not isinstance(given, dict):
        raise _malformed("'attrs' is no object")
    attrs = {
        name: tuple(_text(text, name) for item in _list(items, name) for text in _list(item, name))
        for name, items in cast("dict[str, Any]", given).items()
        if name not in ("shape", "num_inputs", "num_outputs")
    }
    inputs = tuple(_reference(item, nodes) for item in _list(value.get("inputs", []), "inputs"))
    dtypes = attrs.pop("dtype", ("",))
    return Node(op, name, inputs, attrs, dtypes)


class JSONRuntime:
    """Runs a graph with NumPy arrays, or with values of a library: a subclass says what each kernel node computes.

    Raises ExecutableError for a malformed graph, a constant that is missing, and kernels of unknown names.
    """

    operators: ClassVar[Mapping[str, Callable[..., Any]]] = {}
    """Functions by name of a kernel node: (node, one value for each input) to a value, or a tuple of values."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.graph = read_graph(module.data.decode("utf-8", "replace"))
        unknown = sorted({n.name for n in self.graph.nodes if n.op == "kernel" and n.name not in self.operators})
        if unknown:
            raise ExecutableError(f"modules of kind {module.kind!r} have no operator {', '.join(unknown)}")
        self.constants: dict[int, Any] = {}
        """Values of the constants, by node."""
        for index, node in enumerate(self.graph.nodes):
            if node.op == "const":
                if node.name not in module.constants:
                    raise ExecutableError(f"the JSON graph has a constant {node.name!r}, which the module lacks")
                self.constants[index] = self.value_of(NDArray(module.constants[node.name]))

    @classmethod
    def load(cls, module: Module) -> dict[str, Callable[..., None]]:
        """Load a module with one function, whose code is a graph: a loader for `register_loader`."""
        if len(module.symbols) != 1:
            raise ExecutableError(f"a JSON graph is one function, and the module has {len(module.symbols)}")
        return {module.symbols[0]: cls(module).run}

    def get_symbol(self) -> str:
        """Name of the graph's function, as in TVM."""
        return self.module.symbols[0]

    def get_const_vars(self) -> list[str]:
        """Names of the constants, as in TVM."""
        return list(self.module.constants)

    def value_of(self, tensor: NDArray) -> Any:
        """Convert an argument or constant to the library's tensor type: by default, a NumPy array on its memory."""
        return numpy_view(tensor.tensor)

    def write(self, value: Any, output: NDArray) -> None:
        """Write a value to an output. Raises ValueError for one of another shape."""
        array = np.asarray(value)
        if array.shape != tuple(output.shape):
            raise ValueError(f"an output has the shape {array.shape}, expected {tuple(output.shape)}")
        numpy_view(output.tensor)[...] = array

    def run(self, *args: Any) -> None:
        """Run the graph on its inputs, tensors, shapes and scalars, followed by the outputs to be written."""
        graph = self.graph
        if len(args) != len(graph.inputs) + len(graph.heads):
            wanted = f"{len(graph.inputs)} inputs and {len(graph.heads)} outputs"
            raise TypeError(f"{self.get_symbol()} takes {wanted}, found {len(args)} arguments")
        values: dict[Reference, Any] = {(index, 0): value for index, value in self.constants.items()}
        for index, arg in zip(graph.inputs, args, strict=False):
            values[index, 0] = self.value_of(arg) if isinstance(arg, NDArray) else arg
        for index, node in enumerate(graph.nodes):
            if node.op == "kernel":
                result = self.operators[node.name](node, *(values[reference] for reference in node.inputs))
                outputs = cast("tuple[Any, ...]", result) if isinstance(result, tuple) else (result,)
                if len(outputs) != len(node.dtypes):
                    raise ValueError(f"{node.name} returned {len(outputs)} outputs, expected {len(node.dtypes)}")
                values.update({(index, number): output for number, output in enumerate(outputs)})
        for reference, output in zip(graph.heads, args[len(graph.inputs) :], strict=True):
            self.write(values[reference], output)
