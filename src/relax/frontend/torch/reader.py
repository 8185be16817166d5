"""GraphReader: reads the nodes of a graph of torch.fx as bindings of a function that is being built.

    reader = GraphReader(nonnegative)
    for node in placeholders: reader.declare(node.meta["val"]), reader.read_input(node)
    with reader.emitter.builder.function("main", reader.inputs):
        results = reader.read_nodes(graph_module, reader.names)

Programs of torch.export (`importer`) and graphs of torch.compile (`compile.piece`) are read by it. A graph holds ATen
operators without effects. Each node has torch's example of its result, ``meta["val"]``, from which shapes and dtypes
are taken.
"""

from __future__ import annotations

import inspect
import operator
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from ...block_builder import BlockBuilder
from ...expr import Constant, ShapeExpr, TupleGetItem, Var
from ...ir import DataType, DiagnosticError, RelaxExpr, StructInfo
from ...op.known import known_struct_info
from ...prim import FloatImm, IntImm, PrimExpr, simplify
from ...prim.expr import Var as PrimVar
from ...struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..unexpected import guarded
from . import pairs, registry
from .decompositions import IGNORED, is_scalar, unsupported
from .dtypes import dtype_name
from .effects import aliases, functional_name, written_root
from .emitter import Derived, Emitter, node_text, node_title
from .operands import typed
from .pairs import Pair
from .symbols import Symbols, linear_form, symbol_name

Names: TypeAlias = dict[str, Any]
"""The values of a graph by the names of its nodes."""

_READS = ("aten.item.default", "aten._local_scalar_dense.default")
"""Operators that read a number of the program's shapes from a tensor."""


class GraphReader:
    """The values of one graph, as they become known."""

    def __init__(self, nonnegative: frozenset[str]) -> None:
        self.symbols: Symbols = {}
        self.emitter = Emitter(BlockBuilder(warn=False), "program", self.symbols, nonnegative)
        self.emitter.read_graph = self.read_subgraph
        self.names: Names = {}
        self.inputs: list[Var] = []
        self.complex_inputs: list[str] = []
        """Names of nodes whose parameter holds real and imaginary parts along its last axis; see `split_inputs`."""
        self.node: Any = None
        """The node of the outer graph that is being read, or was when an error was raised."""
        self.renamed: dict[str, str] = {}
        """Names of shape variables by the names of torch's symbols, where they differ."""
        self._derived: dict[Any, PrimVar] = {}
        """Shape variables by the expressions that are dimensions of inputs; see `derive`."""
        self._stored: dict[Any, Constant] = {}
        """Constants by the memory that they were copied from: tied parameters are one constant."""
        self._index = 0

    def declare(self, value: Any) -> None:
        """Make shape variables of the dimensions of an input that are symbols, and of those in expressions."""
        numbers = value.shape if hasattr(value, "shape") else [value]
        for number in numbers:
            if hasattr(number, "node"):
                for symbol in number.node.expr.free_symbols:
                    name = str(symbol)
                    if name not in self.symbols:
                        self.symbols[name] = PrimVar(self.renamed.get(name, name), "int64")

    def derive(self, values: Mapping[str, Any]) -> None:
        """Compute symbols that are no dimension of an input by themselves of one that is an expression of them.

        Of an input with the dimension 8*s, the size is the variable, and s is that size divided by 8.
        """
        shapes: dict[str, Sequence[Any]] = {
            name: value.shape for name, value in values.items() if hasattr(value, "shape")
        }
        numbers = [
            *(value for value in values.values() if name_of(value)),
            *(dim for dims in shapes.values() for dim in dims),
        ]
        alone = {name_of(number) for number in numbers}
        for of, dims in shapes.items():
            for axis, dim in enumerate(dims):
                expr: Any = dim.node.expr if hasattr(dim, "node") else None
                linear = None if expr is None else linear_form(expr)
                if linear is None or linear[1] in alone:
                    continue
                factor, symbol, offset = linear
                shown = str(expr)
                var = PrimVar(self.renamed.get(shown, f"{of}_{axis}"), "int64")
                self.emitter.derived.append(Derived(var, of, axis, factor, offset, symbol))
                self.symbols[symbol] = simplify((var - offset) // factor)
                self._derived[expr] = var
                alone.add(symbol)

    def read_input(self, node: Any, order: Sequence[int] | None = None, *, is_size: bool = False) -> bool:
        """Make a parameter of a placeholder that is a tensor or an integer; False for a number, which is a constant.

        With an order, the parameter is the tensor with its dimensions in that order. An integer that `is_size` becomes
        a shape of one dimension: expressions of it cannot overflow.
        """
        value = node.meta.get("val")
        if hasattr(value, "shape"):
            sizes = pairs.boundary_shape(self.emitter, value)
            for axis, dim in enumerate(cast("Sequence[Any]", value.shape) if self._derived else ()):
                if hasattr(dim, "node"):
                    sizes[axis] = self._derived.get(dim.node.expr, sizes[axis])
            dims = ShapeExpr([sizes[axis] for axis in order] if order else sizes)
            info: StructInfo = TensorStructInfo(dims, dtype_name(value.dtype))
        elif hasattr(value, "node") and symbol_name(value.node.expr) is not None:
            scalar = self.emitter.scalar(value)
            info = ShapeStructInfo([scalar]) if is_size else PrimStructInfo(value=scalar)
            self.inputs.append(Var(node.name, info))
            self.names[node.name] = scalar
            return True
        else:
            return False
        self.inputs.append(Var(node.name, info))
        self.names[node.name] = self.inputs[-1]
        if pairs.has_complex_dtype(value):
            self.complex_inputs.append(node.name)
        return True

    def split_inputs(self) -> None:
        """Emit the real and the imaginary part of each complex input; to be called once a function is open."""
        for name in self.complex_inputs:
            self.names[name] = pairs.split_parts(self.emitter, self.names[name])

    def constant(self, tensor: Any) -> Constant | Pair:
        """Return the constant of a tensor, a pair of them for complex numbers."""
        key = tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype
        if pairs.has_complex_dtype(tensor):
            return pairs.constant_pair(as_array(tensor.resolve_conj()))
        if key not in self._stored or not tensor.numel():
            self._stored[key] = Constant(as_array(tensor))
        return self._stored[key]

    # -- graphs

    def read_nodes(self, graph_module: Any, names: Names) -> list[Any]:
        """Read the nodes of a graph; its outputs. `names` holds its inputs, and grows."""
        results: list[Any] = []
        for node in graph_module.graph.nodes:
            self._index += 1
            self.node = node if names is self.names else self.node
            if node.op == "get_attr":
                held: Any = getattr(graph_module, node.target)
                names[node.name] = held if hasattr(held, "graph") else self.constant(held)
            elif node.op == "output":
                returned: Any = self._argument(node.args[0], names)
                results = cast("list[Any]", returned) if isinstance(returned, list) else [returned]
            elif node.op == "call_function":
                with self.emitter.at(node, self._index), guarded(self.emitter, self.emitter.span):
                    names[node.name] = self._node(node, names)
        return results

    def read_subgraph(self, graph_module: Any, operands: Sequence[Any]) -> list[Any]:
        """Read a graph that is an operand, with these inputs, into the open block; its outputs."""
        inputs = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
        return self.read_nodes(graph_module, dict(zip(inputs, operands, strict=True)))

    def _node(self, node: Any, names: Names) -> Any:
        target = str(node.target)
        if target.rpartition(".")[0] in IGNORED:
            return None
        if node.target is operator.getitem:
            whole: Any = self._argument(node.args[0], names)
            index: int = node.args[1]
            if isinstance(whole, RelaxExpr):
                return self.emitter.emit(TupleGetItem(whole, index))
            result = whole[index] if index < len(whole) else None
            if result is None and node.users and node.meta.get("val") is not None:
                source = node.args[0]
                self.emitter.unsupported(
                    f"the result {index} of {node_title(source)}", "use the other results of the operator only"
                )
            return result
        value = node.meta.get("val")
        functional = functional_name(node.target)
        convert = registry.find(functional) if functional else pairs.find(node)
        if is_scalar(value) and target not in _READS:
            return number(self.emitter.scalar(value))
        if convert is None:
            raise DiagnosticError(unsupported(target, [node]))
        args, kwargs = typed(
            node.target,
            [self._argument(arg, names) for arg in node.args],
            {key: self._argument(arg, names) for key, arg in node.kwargs.items()},
        )
        try:
            inspect.signature(convert).bind(self.emitter, *args, **kwargs)
        except TypeError as error:
            self.emitter.unsupported(f"{node_text(node)} ({error})")
        result = convert(self.emitter, *args, **kwargs)
        if functional:
            return self._written(node, result, names)
        return self._finished(result, value)

    def _written(self, node: Any, result: Any, names: Names) -> Any:
        """The result of a node that writes its operand, which each node that stands for that tensor has from now on."""
        value = node.meta.get("val")
        leaf = self.emitter.cast(self.emitter.emit(self.emitter.tensor(result)), dtype_name(value.dtype))
        new = self._finished(leaf, value)
        for alias in aliases(written_root(node)):
            if alias.name in names:
                names[alias.name] = new
        return new

    def _finished(self, result: Any, value: Any) -> Any:
        """The results of a node as leaves: one, or a list of several."""
        if isinstance(result, list):
            items = cast("list[Any]", result)
            examples = cast("list[Any]", list(value) if isinstance(value, (list, tuple)) else [])  # type: ignore[reportUnknownArgumentType]
            values = [*examples, *[None] * (len(items) - len(examples))]
            return [
                None if item is None else self._finished(item, example)
                for item, example in zip(items, values, strict=False)
            ]
        if isinstance(result, PrimExpr):
            return number(result)
        if isinstance(result, Pair):
            return result.map(lambda part: self._finished(part, value))
        leaf = self.emitter.finish(result, value)
        info = known_struct_info(leaf)
        if isinstance(info, TupleStructInfo):
            fields = self.emitter.parts(leaf)
            return [self._finished(field, None) for field in fields]
        return self._checked(leaf, value)

    def _checked(self, leaf: RelaxExpr, value: Any) -> RelaxExpr:
        """The result, of which a converter must have made the dtype and the rank that torch says."""
        info = known_struct_info(leaf)
        if isinstance(info, TensorStructInfo) and hasattr(value, "shape"):
            expected = dtype_name(value.dtype)
            if str(info.dtype) != expected or info.ndim != len(value.shape):
                raise self.emitter.error(
                    f"the import gives {info.dtype} of {info.ndim} dimensions, torch {expected} of {len(value.shape)}"
                )
        return leaf

    def _argument(self, value: Any, names: Names) -> Any:
        """An operand of a node in the form that converters get."""
        if isinstance(value, (list, tuple)):
            return [self._argument(item, names) for item in cast("list[Any]", value)]
        if isinstance(value, Mapping):
            return {key: self._argument(item, names) for key, item in cast("dict[Any, Any]", value).items()}
        kind: str = type(value).__name__
        if kind == "Node":
            if value.name not in names and is_scalar(value.meta.get("val")):
                return number(self.emitter.scalar(value.meta["val"]))
            return names[value.name]
        if kind == "dtype":
            return dtype_name(value)
        if kind in ("device", "layout", "memory_format"):
            return None
        return value


def name_of(number: Any) -> str | None:
    """The name of a number of shapes that is one symbol, else None."""
    return symbol_name(number.node.expr) if hasattr(number, "node") and not hasattr(number, "shape") else None


def number(expr: PrimExpr) -> Any:
    """A scalar expression; a number of Python if it is one."""
    return expr.value if isinstance(expr, (IntImm, FloatImm)) else expr


def as_array(tensor: Any) -> np.ndarray[Any, Any]:
    """The elements of a tensor of torch as a NumPy array, which may share their memory."""
    plain = tensor.detach().cpu().contiguous()
    dtype = dtype_name(plain.dtype)
    if re.fullmatch(r"bfloat16|float8_\w+", dtype):  # which NumPy has not: their bits are read
        torch = sys.modules["torch"]
        bits = plain.view(torch.int16 if dtype == "bfloat16" else torch.uint8)
        return bits.numpy().view(DataType(dtype).numpy())
    return plain.numpy()
