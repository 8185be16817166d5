"""from_exported_program: a program of torch.export as an IRModule.

    program = torch.export.export(module.eval(), (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    mod = from_exported_program(program)

The module has one function that is visible from outside, ``main``: the inputs of the program in order, then, if asked
for, its parameters. It returns a tuple of the outputs. Dynamic dimensions are shape variables.

Nothing is written in place: a buffer that the program changes is a parameter of ``main``, too, and the new values of
changed buffers and inputs are returned after the outputs.

The program is read in the form in which torch has made it free of effects, with operators such as linear, layer_norm
and scaled_dot_product_attention as they are. An operator without a converter is taken apart by torch's own
decomposition, if it has one.
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
from ...expr import Constant, ShapeExpr, Tuple, TupleGetItem, Var
from ...ir import DataType, Diagnostic, DiagnosticError, IRModule, RelaxExpr, StructInfo
from ...op.known import known_struct_info
from ...prim import FloatImm, IntImm, PrimExpr
from ...prim.expr import Var as PrimVar
from ...runtime.nd import NDArray
from ...runtime.nd import array as nd_array
from ...struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from ...transform import ConvertToDataflow
from ..unexpected import guarded
from . import registry
from .decompositions import IGNORED, is_scalar, nodes_of, supported, unsupported
from .dtypes import dtype_name
from .emitter import Emitter, node_text, node_title
from .operands import typed
from .symbols import Symbols, symbol_name

Names: TypeAlias = dict[str, Any]
"""The values of a graph by the names of its nodes."""

_MUTATIONS = ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION")
"""Kinds of outputs that are new values of what the program changes in place."""

_READS = ("aten.item.default", "aten._local_scalar_dense.default")
"""Operators that read a number of the program's shapes from a tensor."""


def from_exported_program(
    exported_program: Any,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
) -> IRModule:
    """An IRModule of a program that ``torch.export.export`` made.

    Parameters
    ----------
    exported_program
        A ``torch.export.ExportedProgram``, of a module in the mode `eval`. Buffers that it changes are parameters of
        ``main`` after the inputs, and their new values are returned after the outputs, as are those of changed inputs;
        the attribute ``mutated`` of the function names them, and ``params`` holds the values that buffers have now.
    keep_params_as_input
        True makes parameters and buffers parameters of ``main`` after the inputs; their values are the attribute
        ``params`` of the function (see `relax.frontend.detach_params`), and ``num_input`` counts the inputs.
    unwrap_unit_return_tuple
        True returns the one output of a program, and not a tuple of it.
    no_bind_return_tuple
        True returns the tuple of outputs without a variable for it.

    Returns
    -------
    IRModule
        A module whose entry point is ``main``.

    Raises
    ------
    DiagnosticError
        If the program uses what is not supported: all operators that are not are listed.
    TypeError
        If `exported_program` is something else.
    """
    if type(exported_program).__name__ != "ExportedProgram":
        raise TypeError(
            "from_exported_program: expected an ExportedProgram, as torch.export.export returns it, "
            f"found {type(exported_program).__name__}"
        )
    importer = _Importer(supported(exported_program), keep_params_as_input)
    return importer.run(unwrap_unit_return_tuple, not no_bind_return_tuple)


# ------------------------------------------------------------------------------------- the import


class _Importer:
    """The import of one program."""

    def __init__(self, program: Any, keep_params: bool) -> None:
        self.program, self.keep_params = program, keep_params
        self.signature = program.graph_signature
        self.symbols: Symbols = {}
        ranges = program.range_constraints.items()
        nonnegative = frozenset(str(symbol) for symbol, limits in ranges if limits.lower >= 0)
        self.emitter = Emitter(BlockBuilder(warn=False), "program", self.symbols, nonnegative)
        self.emitter.read_graph = self.read_subgraph
        self.names: Names = {}
        self.inputs: list[Var] = []
        self.params: dict[Var, NDArray] = {}
        self._stored: dict[Any, Constant] = {}
        """Constants by the memory that they were copied from: tied parameters are one constant."""
        self._index = 0

    def run(self, unwrap: bool, bind: bool) -> IRModule:
        outputs, mutations = self._outputs()
        self._read_inputs({spec.target for _, spec in mutations if spec.kind.name != "USER_INPUT_MUTATION"})
        attrs: dict[str, Any] = {"num_input": len(self.inputs)}
        if self.keep_params or self.params:
            attrs["params"] = list(self.params.values())
        if mutations:
            attrs["mutated"] = [self._mutated(spec) for _, spec in mutations]
        builder = self.emitter.builder
        pure = all(registry.is_pure(str(node.target)) for node in nodes_of(self.program.graph_module))
        with builder.function("main", [*self.inputs, *self.params], attrs, pure=pure):
            results = self._read_graph(self.program.graph_module, self.names)
            positions = [*outputs, *(position for position, _ in mutations)]
            values = [self.emitter.tensor(results[i]) for i in positions if results[i] is not None]
            result: RelaxExpr = values[0] if unwrap and len(values) == 1 else Tuple(values)
            builder.emit_func_output(builder.emit(result) if bind else result)
        return ConvertToDataflow()(builder.get())

    # -- inputs and outputs

    def _outputs(self) -> tuple[list[int], list[tuple[int, Any]]]:
        """Positions of the results, then positions and specifications of new values of buffers and inputs."""
        outputs: list[int] = []
        mutations: list[tuple[int, Any]] = []
        for position, spec in enumerate(self.signature.output_specs):
            kind: str = spec.kind.name
            if kind in ("USER_OUTPUT", "LOSS_OUTPUT"):
                outputs.append(position)
            elif kind in _MUTATIONS:
                mutations.append((position, spec))
            else:
                message = f"an output of the kind {kind} is not supported: {spec.target}"
                raise DiagnosticError(Diagnostic("E6001", message))
        return outputs, mutations

    def _mutated(self, mutation: Any) -> str:
        """The name of the parameter of main of which an output is the new value."""
        if mutation.kind.name == "USER_INPUT_MUTATION":
            return mutation.target
        return next(spec.arg.name for spec in self.signature.input_specs if spec.target == mutation.target)

    def _read_inputs(self, mutated: set[str]) -> None:
        nodes = {node.name: node for node in self.program.graph.nodes if node.op == "placeholder"}
        users = [spec for spec in self.signature.input_specs if spec.kind.name == "USER_INPUT"]
        for spec in users:
            self._declare(nodes[spec.arg.name].meta.get("val") if spec.arg.name in nodes else None)
        for spec in self.signature.input_specs:
            node = nodes[spec.arg.name]
            if spec.kind.name == "USER_INPUT":
                self._read_input(node, spec)
            elif spec.kind.name in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                is_param = self.keep_params and spec.kind.name != "CONSTANT_TENSOR"
                is_mutated = spec.target in mutated
                if node.users or is_mutated:
                    self._read_param(node, self._tensor_of(spec), is_param or is_mutated)
            else:
                raise DiagnosticError(
                    Diagnostic("E6001", f"an input of the kind {spec.kind.name} is not supported: {node.name}")
                )

    def _declare(self, value: Any) -> None:
        """Make shape variables of the dimensions of an input that are symbols, and of those in expressions."""
        numbers = value.shape if hasattr(value, "shape") else [value]
        for number in numbers:
            if hasattr(number, "node"):
                for symbol in number.node.expr.free_symbols:
                    name = str(symbol)
                    if name not in self.symbols:
                        self.symbols[name] = PrimVar(name, "int64")

    def _read_input(self, node: Any, spec: Any) -> None:
        value = node.meta.get("val")
        if hasattr(value, "shape"):
            dims = ShapeExpr(self.emitter.shape(value))
            info: StructInfo = TensorStructInfo(dims, dtype_name(value.dtype))
        elif hasattr(value, "node") and symbol_name(value.node.expr) is not None:
            info = PrimStructInfo(value=self.emitter.scalar(value))
            self.inputs.append(Var(node.name, info))
            self.names[node.name] = self.emitter.scalar(value)
            return
        else:  # a number or None, which the program has taken for a constant
            self.names[node.name] = getattr(spec.arg, "value", None)
            return
        self.inputs.append(Var(node.name, info))
        self.names[node.name] = self.inputs[-1]

    def _tensor_of(self, spec: Any) -> Any:
        """The tensor of a parameter, a buffer or a constant."""
        program: Any = self.program
        if spec.target in program.state_dict:
            return program.state_dict[spec.target]
        return program.constants[spec.target]

    def _read_param(self, node: Any, tensor: Any, is_param: bool) -> None:
        if is_param:
            array = as_array(tensor)
            var = Var(node.name, TensorStructInfo(ShapeExpr(array.shape), array.dtype.name))
            self.params[var], self.names[node.name] = nd_array(array), var
            return
        self.names[node.name] = self._constant(tensor)

    def _constant(self, tensor: Any) -> Constant:
        key = tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype
        if key not in self._stored or not tensor.numel():
            self._stored[key] = Constant(as_array(tensor))
        return self._stored[key]

    # -- graphs

    def _read_graph(self, graph_module: Any, names: Names) -> list[Any]:
        """Read the nodes of a graph; its outputs. `names` holds its inputs, and grows."""
        results: list[Any] = []
        for node in graph_module.graph.nodes:
            self._index += 1
            if node.op == "get_attr":
                held: Any = getattr(graph_module, node.target)
                names[node.name] = held if hasattr(held, "graph") else self._constant(held)
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
        return self._read_graph(graph_module, dict(zip(inputs, operands, strict=True)))

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
        convert = registry.find(target)
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
        return self._finished(convert(self.emitter, *args, **kwargs), value)

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
            return names[value.name]
        if kind == "dtype":
            return dtype_name(value)
        if kind in ("device", "layout", "memory_format"):
            return None
        return value


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
