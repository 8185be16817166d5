"""Exporter: a Relax function as an ONNX graph. Bindings are walked in order; an operator's writer writes its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from onnx import GraphProto, TensorProto, ValueInfoProto, helper

from ....expr import (
    Binding,
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from ....info.text import prim_text
from ....ir import GlobalVar, IRModule, Op, RelaxExpr, StoredArray, StructInfo
from ....op import operator_of
from ....op.known import known_struct_info
from ....op.operands import is_absent
from ....prim import IntImm, PrimExpr
from ....prim import Var as PrimVar
from ....struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .graph import Graph, Model
from .locals import Locals, Value
from .loops import Loop, loop_of
from .pruning import rename
from .registry import WRITERS, Sizes
from .tensor import Tensor


class Exporter:
    """Writes the functions of one module; see the module's docstring."""

    def __init__(self, mod: IRModule, model: Model) -> None:
        self.mod, self.model = mod, model

    # -- the model

    def graph_of(self, function: Function, name: str) -> GraphProto:
        """The graph of a function: inputs are its parameters, outputs its results."""
        graph = Graph(self.model)
        graph.title = name
        graph.span = function.span
        scope = Locals(graph, {}, (name,))
        inputs: list[ValueInfoProto] = []
        for param in function.params:
            scope.values[param] = self.parameter(graph, param.name_hint, param.struct_info, inputs)
        for param in function.params:
            self.bind_sizes(graph, scope.values[param], param.struct_info)
        result = self.sequence(function.body, scope)
        info = function.ret_struct_info or function.body.struct_info
        taken = {value.name for value in inputs}
        outputs = [self.output(graph, leaf, field, taken) for leaf, field in self.leaves(graph, result, info)]
        model = helper.make_graph(graph.nodes, name, inputs, outputs)
        wanted = _output_names(function, len(outputs))
        self.name_outputs(model, wanted)
        return model

    def name_outputs(self, graph: GraphProto, wanted: Sequence[str]) -> None:
        """Give outputs the names of the results."""
        names: dict[str, str] = {}
        for output, new in zip(graph.output, wanted, strict=False):
            if new and new != output.name:
                names[output.name] = self.model.fresh(new)
        rename(graph, names)

    def parameter(self, graph: Graph, name: str, info: StructInfo, inputs: list[ValueInfoProto]) -> Value:
        """Declare the inputs of a parameter; a tuple has one for each of its fields."""
        match info:
            case TensorStructInfo():
                new = self.model.fresh(name)
                inputs.append(self.value_info(graph, new, info))
                return Tensor(graph, new, str(info.dtype), info.ndim, info.dims)
            case ShapeStructInfo():
                new = self.model.fresh(name)
                dims: Any = None if info.ndim == -1 else [info.ndim]
                inputs.append(helper.make_tensor_value_info(new, TensorProto.INT64, dims or [None]))
                return Sizes(None, Tensor(graph, new, "int64", 1))
            case PrimStructInfo():
                new = self.model.fresh(name)
                inputs.append(helper.make_tensor_value_info(new, graph.element_type(str(info.dtype)), []))
                return Tensor(graph, new, str(info.dtype), 0, ())
            case TupleStructInfo(fields):
                return [self.parameter(graph, f"{name}_{i}", field, inputs) for i, field in enumerate(fields)]
            case _:
                graph.refuse(f"the parameter {name}, which is no tensor, shape, scalar or tuple of these")

    def value_info(self, graph: Graph, name: str, info: TensorStructInfo) -> ValueInfoProto:
        """Declare an input or output tensor; symbolic dimensions keep their names."""
        dims = None if info.dims is None else [self.dim(dim) for dim in info.dims]
        if dims is None:
            if info.ndim == -1:
                graph.refuse(f"the input or output {name} of unknown rank", "R.match_cast it to R.Tensor(ndim=2)")
            dims = [None] * info.ndim
        return helper.make_tensor_value_info(name, graph.element_type(str(info.dtype)), dims)

    def dim(self, dim: PrimExpr) -> int | str | None:
        """A dimension of an input or output: a number, a name, or the text of an expression."""
        if isinstance(dim, IntImm):
            return dim.value
        return self.model.dim_param(dim) if isinstance(dim, PrimVar) else prim_text(dim)

    def output(self, graph: Graph, leaf: Tensor, info: StructInfo, taken: set[str]) -> ValueInfoProto:
        """Declare an output. One that is an input, a constant or another output gets a name of its own."""
        if leaf.name in taken or leaf.name in self.model.constants or not _is_written(graph, leaf.name):
            leaf = leaf.named(graph, graph.node("Identity", leaf).name)
        taken.add(leaf.name)
        if leaf.sequence or isinstance(info, ObjectStructInfo):
            return graph.value_info(leaf)
        if isinstance(info, TensorStructInfo):
            known = info if info.dtype != "" else info.replace(dtype=leaf.dtype)
            return self.value_info(graph, leaf.name, known)
        dims = [None] if isinstance(info, ShapeStructInfo) else []
        return helper.make_tensor_value_info(leaf.name, graph.element_type(leaf.dtype), dims)

    def leaves(self, graph: Graph, value: Value, info: StructInfo) -> list[tuple[Tensor, StructInfo]]:
        """The tensors in a value, each with its struct info; a shape is a vector of int64."""
        items = items_of(value)
        if items is not None:
            fields = info.fields if isinstance(info, TupleStructInfo) else [info] * len(items)
            return [leaf for v, f in zip(items, fields, strict=True) for leaf in self.leaves(graph, v, f)]
        if isinstance(value, Sizes):
            return [(value.vector(graph), info)]
        if not isinstance(value, Tensor):
            graph.refuse("a result that is no tensor, shape, scalar or tuple of these")
        return [(value.at(graph), info)]

    def bind_sizes(self, graph: Graph, value: Value, info: StructInfo) -> None:
        """Bind the shape variables that stand alone in struct info to sizes of a value."""
        match info, value:
            case TensorStructInfo(), Tensor():
                for axis, dim in enumerate(info.dims or ()):
                    if isinstance(dim, PrimVar) and dim not in graph.bound:
                        source = Tensor(graph, value.name, value.dtype, info.ndim)
                        graph.bind(dim, LazySize(source, axis).read(graph))
            case ShapeStructInfo(), Sizes():
                for axis, dim in enumerate(info.values or ()):
                    if isinstance(dim, PrimVar) and dim not in graph.bound:
                        graph.bind(dim, graph.vector(value.values(graph, info.ndim)[axis]))
            case PrimStructInfo(value=PrimVar() as var), Tensor():
                if var not in graph.bound:
                    graph.bind(var, value.reshape([1]))
            case TupleStructInfo(fields), list():
                for item, field in zip(items_of(value) or (), fields, strict=True):
                    self.bind_sizes(graph, item, field)
            case _:
                pass

    # -- statements

    def sequence(self, expr: RelaxExpr, scope: Locals) -> Value:
        """Write the bindings of a sequence; return the value of its body."""
        if not isinstance(expr, SeqExpr):
            return self.value(expr, scope)
        for block in expr.blocks:
            for binding in block.bindings:
                self.binding(binding, scope)
        return self.value(expr.body, scope)

    def binding(self, binding: Binding, scope: Locals) -> None:
        """Write one binding."""
        g, value = scope.graph, binding.value
        span = binding.value.span or binding.span
        with g.at(scope.calls[-1], span, binding.var.name_hint, binding.var.struct_info_):
            if isinstance(value, Function):
                scope.values[binding.var] = value
                return
            result = self.value(value, scope)
            if isinstance(binding, MatchCast):
                self.bind_sizes(g, result, binding.struct_info)
                result = self.described(g, result, binding.struct_info)
            scope.values[binding.var] = result

    def described(self, g: Graph, value: Value, info: StructInfo) -> Value:
        """A value with what struct info says of it: the dtype, the dimensions."""
        match info, value:
            case TensorStructInfo(), Tensor():
                dtype = str(info.dtype) or value.dtype
                rank = value.rank if info.ndim == -1 else info.ndim
                dims = value.dims if info.dims is None else info.dims
                return Tensor(g, value.name, dtype, rank, dims, value.constant)
            case ShapeStructInfo(), Sizes() if info.values is not None:
                return Sizes(list(info.values), value.graph_vector)
            case TupleStructInfo(fields), list():
                pairs = zip(items_of(value) or (), fields, strict=True)
                return [self.described(g, item, field) for item, field in pairs]
            case _:
                return value

    # -- expressions

    def value(self, expr: RelaxExpr, scope: Locals) -> Value:
        """The value of an expression."""
        g = scope.graph
        match expr:
            case Constant():
                return self.constant(g, expr)
            case Var():
                found = scope.values.get(expr)
                return found.at(g) if isinstance(found, Tensor) else found
            case ShapeExpr(values):
                return Sizes(list(values))
            case PrimValue(number):
                dtype = str(number.dtype)
                literal = getattr(number, "value", None)
                return g.const(literal, dtype) if isinstance(literal, (int, float)) else g.scalar(number)
            case Tuple(fields):
                return [self.value(field, scope) for field in fields]
            case TupleGetItem(source, index):
                whole = self.value(source, scope)
                items = items_of(whole)
                if items is None:
                    g.refuse("a tuple of unknown length", "match_cast it to a tuple of tensors")
                return items[index]
            case If():
                return self.conditional(expr, scope)
            case Call():
                return self.call(expr, scope)
            case SeqExpr():
                return self.sequence(expr, scope)
            case GlobalVar() | ExternFunc() | StringImm() | DataTypeImm():
                return expr
            case _:
                g.refuse(f"{_described(expr)} as a value")

    def constant(self, g: Graph, expr: Constant) -> Tensor:
        """A constant: an initializer of the model."""
        content = expr.content
        info = TensorStructInfo(content.shape, expr.dtype)
        g.element_type(str(expr.dtype))
        if isinstance(content, StoredArray):
            return Tensor(g, self.model.constant(content.array(), g.hint or "c"), str(expr.dtype), info.ndim, info.dims)
        array = expr.data.numpy()
        return Tensor(g, self.model.constant(array, g.hint or "c"), str(expr.dtype), info.ndim, info.dims, array)

    def conditional(self, expr: If, scope: Locals) -> Value:
        """An If: each branch is a graph, whose outputs are the tensors of its result."""
        g = scope.graph
        info = known_struct_info(expr) or g.result
        condition = self.value(expr.cond, scope)
        if not isinstance(condition, Tensor):
            g.refuse("a condition that is no tensor")
        graphs: list[GraphProto] = []
        leaves: list[tuple[Tensor, StructInfo]] = []
        shape: Value = None
        for name, branch in (("then", expr.true_branch), ("else", expr.false_branch)):
            inner = scope.inner(Graph(self.model, g))
            shape = self.sequence(branch, inner)
            leaves = self.leaves(inner.graph, shape, info)  # type: ignore[arg-type]
            graphs.append(self.branch(inner.graph, name, leaves))
        if not leaves:
            return shape
        names = g.nodes_of("If", [condition.reshape([]) if condition.rank else condition], len(leaves), "", {
            "then_branch": graphs[0], "else_branch": graphs[1],
        })  # fmt: skip
        outputs = iter([leaf.named(g, name) for name, (leaf, _) in zip(names, leaves, strict=True)])
        return self.rebuilt(g, shape, info, outputs)  # type: ignore[arg-type]

    def branch(self, graph: Graph, name: str, leaves: Sequence[tuple[Tensor, StructInfo]]) -> GraphProto:
        """A graph without inputs; its outputs have element types, and no shapes."""
        outputs: list[ValueInfoProto] = []
        taken: set[str] = set()
        for leaf, _ in leaves:
            if leaf.name in taken or not _is_written(graph, leaf.name):
                leaf = leaf.named(graph, graph.node("Identity", leaf).name)
            taken.add(leaf.name)
            outputs.append(graph.value_info(leaf))
        return helper.make_graph(graph.nodes, name, [], outputs)

    def rebuilt(self, g: Graph, shape: Value, info: StructInfo, leaves: Any) -> Value:
        """A value like `shape`, of other tensors."""
        items = items_of(shape)
        if items is not None:
            fields = info.fields if isinstance(info, TupleStructInfo) else [info] * len(items)
            return [self.rebuilt(g, item, field, leaves) for item, field in zip(items, fields, strict=True)]
        leaf = next(leaves)
        if leaf.sequence:
            return leaf
        if isinstance(shape, Sizes):
            values = info.values if isinstance(info, ShapeStructInfo) else None
            return Sizes(None if values is None else list(values), leaf)
        known = isinstance(info, TensorStructInfo)
        return Tensor(g, leaf.name, leaf.dtype, info.ndim if known else 0, info.dims if known else ())

    # -- calls

    def call(self, call: Call, scope: Locals) -> Value:
        """A call of an operator, or of a Relax function, which is inlined."""
        match call.op:
            case Op():
                return self.operator(call, scope)
            case GlobalVar(name):
                function = self.mod.functions.get(call.op) or self.mod[name]
                return self.inlined(function, name, call, scope)
            case Var():
                function = scope.values.get(call.op)
                if isinstance(function, Loop):
                    return function
                return self.local(function, call, scope)
            case Function():
                return self.inlined(call.op, "a function", call, scope)
            case _:
                scope.graph.refuse(f"a call of {_described(call.op)}", "ONNX has no packed functions; use operators")

    def local(self, function: Any, call: Call, scope: Locals) -> Value:
        """A call of a function bound in the same function: a loop, or inlined."""
        name = call.op.name_hint if isinstance(call.op, Var) else ""
        if not isinstance(function, Function):
            scope.graph.refuse(f"a call of {name}, a function that is a value")
        loop = loop_of(call.op, function)
        if loop is not None:
            args = [self.value(arg, scope) for arg in call.args]
            return loop.write(self, scope, args)
        return self.inlined(function, name, call, scope, scope.values)

    def inlined(
        self, function: Any, name: str, call: Call, scope: Locals, outer: dict[Var, Value] | None = None
    ) -> Value:
        """The result of a function's body on the arguments."""
        g = scope.graph
        if not isinstance(function, Function):
            g.refuse(f"a call of {name}, which is a {type(function).__name__}", "call operators, which have meanings")
        if name in scope.calls:
            g.refuse(f"the recursive function {name}", "write it as a bounded number of steps")
        args = [self.value(arg, scope) for arg in call.args]
        inner = Locals(g, dict(outer or {}), (*scope.calls, name))
        bound, computed = dict(g.bound), dict(g.computed)
        for param, arg in zip(function.params, args, strict=True):
            inner.values[param] = self.described(g, arg, param.struct_info)
            self.rebind(g, arg, param.struct_info)
        result = self.sequence(function.body, inner)
        result = self.settled(g, result)
        g.bound, g.computed = bound, computed
        return self.described(g, result, known_struct_info(call) or function.body.struct_info)

    def rebind(self, g: Graph, value: Value, info: StructInfo) -> None:
        """Bind the shape variables of a parameter anew: each call has sizes of its own."""
        for dim in _sizes_in(info):
            g.bound.pop(dim, None)  # type: ignore[arg-type]
        g.computed = {}
        self.bind_sizes(g, value, info)

    def settled(self, g: Graph, value: Value) -> Value:
        """A result whose sizes are tensors: their variables are bound in the inlined function only."""
        items = items_of(value)
        if items is not None:
            return [self.settled(g, item) for item in items]
        if isinstance(value, Sizes):
            return Sizes(None, value.vector(g))
        if not isinstance(value, Tensor) or value.sequence:
            return value
        return Tensor(g, value.name, value.dtype, value.rank, None, value.constant)

    def operator(self, call: Call, scope: Locals) -> Value:
        """Write the nodes of an operator."""
        g, operator = scope.graph, operator_of(call)
        name = getattr(call.op, "name", "")
        write = WRITERS.get(name)
        if operator is None or write is None:
            effect = ", which has an effect" if operator is not None and not operator.pure else ""
            g.refuse(f"the operator {name.removeprefix('relax.')}{effect}", _hint(name, bool(effect)))
        info = known_struct_info(call) or g.result
        pairs = operator.arguments(call)
        args = [None if o.optional and is_absent(arg) else self.value(arg, scope) for o, arg in pairs]
        args += [None] * (sum(not operand.variadic for operand in operator.operands) - len(args))
        outer, g.result = g.result, info
        result = write(g, operator, *args)
        g.result = outer
        return self.typed(g, result, info)  # type: ignore[arg-type]

    def typed(self, g: Graph, value: Value, info: StructInfo) -> Value:
        """A writer's result, cast to the dtype that was derived, with the dimensions that are known."""
        match value, info:
            case Tensor(), TensorStructInfo():
                result = value.to(str(info.dtype)) if info.dtype != "" else value
                return self.described(g, result, info)
            case Tensor(), PrimStructInfo():
                return value.to(str(info.dtype))
            case list(), TupleStructInfo(fields):
                return [self.typed(g, item, field) for item, field in zip(items_of(value) or (), fields, strict=True)]
            case _:
                return value


def _output_names(function: Function, count: int) -> list[str]:
    """Names of results: those that an importer noted, or those of the variables that are returned."""
    noted: Any = function.attrs.get("output_names")
    if noted is not None and len(noted) == count:
        return [str(name) for name in noted]
    body = function.body.body if isinstance(function.body, SeqExpr) else function.body
    results = body.fields if isinstance(body, Tuple) else (body,)
    return [getattr(result, "name_hint", "") for result in results] if len(results) == count else []


def items_of(value: Value) -> list[Any] | None:
    """The fields of a tuple; None for another value."""
    return cast("list[Any]", value) if isinstance(value, list) else None


class LazySize:
    """The size of one dimension of a tensor."""

    def __init__(self, source: Tensor, axis: int) -> None:
        self.source, self.axis = source, axis

    def read(self, graph: Graph) -> Tensor:
        """Write the node that reads it: a vector of one element."""
        return graph.run("Shape", self.source, dtype="int64", rank=1, start=self.axis, end=self.axis + 1)


def _sizes_in(info: StructInfo) -> Sequence[PrimExpr]:
    """The sizes and scalars that struct info names."""
    match info:
        case TensorStructInfo():
            return info.dims or ()
        case ShapeStructInfo():
            return info.values or ()
        case PrimStructInfo(value=value) if value is not None:
            return (value,)
        case TupleStructInfo(fields):
            return [size for field in fields for size in _sizes_in(field)]
        case _:
            return ()


def _is_written(graph: Graph, name: str) -> bool:
    """True if a node of this graph writes a value."""
    return any(name in node.output for node in graph.nodes)


def _described(expr: RelaxExpr) -> str:
    """An expression in messages."""
    name = getattr(expr, "global_symbol", "") or getattr(expr, "name_hint", "")
    return f"the {type(expr).__name__} {name}".strip() if name else f"a {type(expr).__name__}"


def _hint(name: str, effect: bool) -> str:
    if effect:
        return "a graph has no effects: remove it, or return what it shows"
    if name.startswith("relax.call_"):
        return "export before LegalizeOps, while the program still consists of operators"
    return "declare how it is written: relax.frontend.onnx.writer(name)"
