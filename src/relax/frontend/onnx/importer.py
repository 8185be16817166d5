"""from_onnx: an ONNX model as an IRModule.

    mod = from_onnx("model.onnx")                                 # open dimensions are symbolic
    mod = from_onnx(model, shape_dict={"x": ["n", 3, 224, 224]})
    mod = from_onnx(model, values={"sr": 16000})                  # the input sr is a constant

The module has one function that is visible from outside, ``main``: the inputs of the model in order, then, if asked
for, its parameters. It returns the output, or a tuple of the outputs. Variables have the names of ONNX's values, and
spans name nodes.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, TypeAlias

import onnx
from onnx import GraphProto, ModelProto, ValueInfoProto

from ...block_builder import BlockBuilder
from ...expr import Constant, ShapeExpr, Tuple, Var
from ...extern_modules import with_extern_modules
from ...farm import cache
from ...ir import DataType, Diagnostic, DiagnosticError, IRModule, RelaxExpr, StoredArray, StructInfo
from ...ir.stored import digest_beside
from ...prim import Add, FloorDiv, IntImm, Mul, PrimExpr, Sub, const, simplify
from ...prim.expr import BinaryExpr, binary
from ...prim.expr import Var as PrimVar
from ...runtime.collection import rarely_collected
from ...runtime.nd import NDArray
from ...runtime.nd import array as nd_array
from ...runtime.sizes import is_size
from ...struct_info import ObjectStructInfo, TensorStructInfo
from ...transform import ConvertToDataflow
from ..given import array_of, did_you_mean
from .emitter import Emitter, OpenRankError, Outputs, identifier
from .fallback import LIBRARY, Fallback
from .graph import GraphReader, Names, constant_of, opsets_of
from .model import Stored, broken, dtype_name, load_model, to_array
from .objects import lowered, type_of_proto
from .validity import check_structure
from .values import Object, Optional, Strings, Value
from .values import Sequence as SequenceValue

Shapes: TypeAlias = Mapping[str, Sequence[Any]]
_OPERATIONS: dict[type[ast.operator], type[BinaryExpr]] = {
    ast.Add: Add,
    ast.Sub: Sub,
    ast.Mult: Mul,
    ast.FloorDiv: FloorDiv,
}
"""The operations of dimensions such as ``past + 1``."""

_MOST_SPLIT = 64
"""Maximum number of `If` nodes after which nodes are read separately for each branch."""

_SMALL = 1
"""Parameters with at most so many elements stay constants when parameters become inputs."""


def from_onnx(
    model: ModelProto | GraphProto | str | os.PathLike[str],
    shape_dict: Shapes | None = None,
    dtype_dict: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
    values: Mapping[str, Any] | None = None,
    fallback: str | None = None,
) -> IRModule:
    """An IRModule of an ONNX model.

    Sequences, optional values and tensors of strings are inputs and outputs of ``R.Object``: the compiled program takes
    lists, None, and NumPy arrays of str or objects; what it returns of strings has ``.numpy()``.

    Parameters
    ----------
    model
        A path, a ModelProto or a GraphProto.
    shape_dict
        Shapes of inputs by name: sizes, names of shape variables, or expressions. An input that it does not name has
        the shape that the model declares, with a shape variable for each open dimension (the same one for the same
        name).
    dtype_dict
        Dtypes of inputs for which the model declares none, by name, or one for all.
    opset
        The version of ONNX's own operators, in place of the model's.
    keep_params_in_input
        True makes float initializers parameters of ``main`` after the inputs; their values are the attribute ``params``
        of the function (see `relax.frontend.detach_params`), and ``num_input`` counts the inputs.
    sanitize_input_names
        True makes identifiers of the names of inputs.
    values
        Values of inputs by name: numbers, lists or arrays. Such an input is a constant of the program and no parameter
        of ``main``; what depends on it alone is computed now, so that an `If` on it becomes one of its branches. A
        dimension that the model declares by name has the size that it has in the value.
    fallback
        "onnxruntime" lets ONNX Runtime run the nodes that are not supported (`relax[onnxruntime]`), each as a function
        of its own; one warning names them.

    Returns
    -------
    IRModule
        A module whose entry point is ``main``.

    Raises
    ------
    DiagnosticError
        If the model is broken, or uses what is not supported: all operators that are not are listed.
    TypeError
        If `model` or another argument is something else.
    ImportError
        If a library is not installed that `fallback` names.
    """
    with rarely_collected():
        name = "model"
        stored: Stored = {}
        if isinstance(model, (str, os.PathLike)):
            path = Path(model)
            name = path.name
            model, stored = load_model(path)
        if isinstance(model, GraphProto):
            model = onnx.helper.make_model(model)
        if not isinstance(model, ModelProto):  # type: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"from_onnx: expected a ModelProto, a GraphProto or a path, found {type(model).__name__}")
        _check_types(shape_dict, dtype_dict, opset, values)
        importer = _Importer(model, name, shape_dict or {}, dtype_dict, opset, values or {})
        importer.set_fallback(fallback)
        if not keep_params_in_input and cache.keeps_programs():
            digest_beside(stored.values())  # `build` looks for a program that it built before
        importer.stored = {model.graph.initializer[index].name: array for index, array in stored.items()}
        return importer.run(keep_params_in_input, sanitize_input_names)


def _check_types(shape_dict: object, dtype_dict: object, opset: object, values: object) -> None:
    """Raise TypeError for an argument of another kind."""
    for name, value, kinds, expected in (
        ("shape_dict", shape_dict, (Mapping, type(None)), "a dictionary of shapes by names of inputs"),
        ("dtype_dict", dtype_dict, (str, Mapping), "a dtype, or a dictionary of dtypes by names of inputs"),
        ("opset", opset, (int, type(None)), "a number"),
        ("values", values, (Mapping, type(None)), "a dictionary of values by names of inputs"),
    ):
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise TypeError(f"from_onnx: {name} is {expected}, found {type(value).__name__}")


class _Importer:
    """The import of one model."""

    def __init__(
        self,
        model: ModelProto,
        name: str,
        shapes: Shapes,
        dtypes: str | Mapping[str, str],
        opset: int | None,
        values: Mapping[str, Any],
    ) -> None:
        self.graph, self.name = model.graph, name
        if not model.graph.output:
            raise broken("the model has no graph with outputs", name, "is it complete, and binary ONNX?")
        check_structure(model, name)
        self.shapes, self.dtypes, self.values = shapes, dtypes, values
        self.opsets = opsets_of(model.opset_import)
        self.opsets[""] = self.opsets.get("", onnx.defs.onnx_opset_version()) if opset is None else opset
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.sizes: dict[str, PrimVar] = {}
        self.with_fallback = False
        """True if ONNX Runtime runs nodes that are not supported."""
        self.stored: dict[str, StoredArray] = {}
        """Initializers whose elements are in a file, by their names."""
        initialized = {tensor.name for tensor in self.graph.initializer}
        self.inputs = [item for item in self.graph.input if item.name not in initialized]
        self.fixed_sizes: dict[str, int] = {}
        """Sizes of dimensions that the given values have, by the names of the dimensions."""
        self._check_arguments()
        self._declare_sizes()
        self.fixed = {item.name: self._fixed(item) for item in self.graph.input if item.name in values}
        self.inputs = [item for item in self.inputs if item.name not in self.fixed]
        for item in self.graph.input:
            if item.name in self.fixed:
                self._check_shape(item)

    def _check_arguments(self) -> None:
        """Report an invalid opset, invalid shapes, and shapes and values for inputs that do not exist."""
        names = [item.name for item in self.inputs]
        if len(set(names)) < len(names):
            raise broken("two inputs have one name", self.name)
        newest = onnx.defs.onnx_opset_version()
        if not 1 <= self.opsets[""] <= newest:
            raise self._misfit(f"opset is {self.opsets['']}", f"the versions that are known are 1 to {newest}")
        shapes: Mapping[str, Any] = self.shapes
        for key, shape in shapes.items():
            if key not in names:
                message = f"a shape is given for {key!r}, which is no input of the model"
                raise self._misfit(message, did_you_mean(key, names, "inputs"))
            if isinstance(shape, str) or not isinstance(shape, Sequence):
                message = f"shape_dict gives {shape!r} for {key!r}, which is no shape"
                raise self._misfit(message, 'a shape is a list: ["n", 4]')
        inputs = [item.name for item in self.graph.input]
        for key in self.values:
            if key not in inputs:
                message = f"a value is given for {key!r}, which is no input of the model"
                raise self._misfit(message, did_you_mean(key, inputs, "inputs"))
            if key in shapes:
                raise self._misfit(f"a value and a shape are given for {key!r}", "leave out the shape")
        self._check_dtypes(names)

    def _check_dtypes(self, names: Sequence[str]) -> None:
        """Report dtypes for inputs that do not exist or are declared with another dtype."""
        if isinstance(self.dtypes, str):
            return
        for key in self.dtypes:
            if key not in names:
                message = f"dtype_dict names {key!r}, which is no input of the model"
                raise self._misfit(message, did_you_mean(key, names, "inputs"))
        for item in self.inputs:
            tensor = item.type.tensor_type
            if item.name in self.dtypes and tensor.elem_type:
                declared = dtype_name(tensor.elem_type, f"{self.name}: input {item.name!r}")
                if self._default_dtype(item.name) != declared:
                    message = f"dtype_dict gives {self.dtypes[item.name]!r} for {item.name!r}, which is {declared}"
                    raise self._misfit(message, "leave it out: the model declares the dtype of this input")

    def _misfit(self, message: str, hint: str) -> DiagnosticError:
        """The error of an argument of from_onnx, to be raised."""
        return DiagnosticError(Diagnostic("E6003", message, None, self.name, (), hint))

    def set_fallback(self, library: str | None) -> None:
        """Let a library run nodes that are not supported. Raises DiagnosticError for one that does not."""
        if library not in (None, LIBRARY):
            raise self._misfit(f"fallback is {library!r}", f"there is {LIBRARY!r}")
        self.with_fallback = library is not None

    def run(self, keep_params: bool, sanitize: bool) -> IRModule:
        """Import the model; again with `If` nodes split on which a rank depends that must be known."""
        split: frozenset[Outputs] = frozenset()
        while True:
            try:
                return self._read(keep_params, sanitize, split)
            except OpenRankError as error:
                if error.sources <= split or len(split) >= _MOST_SPLIT:
                    raise
                split |= error.sources

    def _read(self, keep_params: bool, sanitize: bool, split: frozenset[Outputs]) -> IRModule:
        builder = BlockBuilder(warn=False)
        emitter = Emitter(builder)
        fallback = Fallback(self.functions.values()) if self.with_fallback else None
        reader = GraphReader(emitter, self.name, self.opsets, self.functions, split, fallback)
        reader.check_supported(self.graph)
        inputs = [self._parameter(item, sanitize) for item in self.inputs]
        emitter.inputs = {item.name: var.struct_info for item, var in zip(self.inputs, inputs, strict=True)}
        names: Names = {item.name: self._value(item, var) for item, var in zip(self.inputs, inputs, strict=True)}
        names.update((key, Constant(array)) for key, array in self.stored.items())
        names.update((key, constant_of(array, emitter)) for key, array in self.fixed.items())
        params = self._kept(names) if keep_params else {}
        attrs: dict[str, Any] = {"num_input": len(inputs)}
        if keep_params:
            attrs["params"] = list(params.values())
        attrs["output_names"] = [item.name for item in self.graph.output]
        with builder.function("main", [*inputs, *params], attrs, pure=reader.is_pure(self.graph)):
            results = [self._result(emitter, value) for value in reader.read(self.graph, names)]
            builder.emit_func_output(results[0] if len(results) == 1 else Tuple(results))
        mod = builder.get()
        if fallback is not None:
            fallback.warn(self.name)
            mod = with_extern_modules(mod, fallback.modules)
        return ConvertToDataflow()(mod)

    def _kept(self, names: Names) -> dict[Var, NDArray]:
        """The initializers that become parameters of the function, with their values."""
        params: dict[Var, NDArray] = {}
        for tensor in self.graph.initializer:
            if tensor.name in self.fixed:
                continue
            stored = self.stored.get(tensor.name)
            array = to_array(tensor, self.name) if stored is None else stored.array()
            if array.dtype.kind in "OSUibu" or array.size <= _SMALL:
                continue
            info = TensorStructInfo(ShapeExpr(array.shape), array.dtype.name)
            var = Var(identifier(tensor.name), info)
            params[var], names[tensor.name] = nd_array(array), var
        return params

    def _result(self, emitter: Emitter, value: Value | None) -> RelaxExpr:
        match value:
            case SequenceValue(items):
                return Tuple([self._result(emitter, item) for item in items])
            case Optional(inner) if inner is not None:
                return self._result(emitter, inner)
            case Optional() | Object() | Strings():
                return lowered(emitter, value)
            case _:
                return emitter.emit(emitter.tensor(value, "an output"))

    # -- inputs

    def _fixed(self, item: ValueInfoProto) -> Any:
        """The given value of an input as an array. Raises DiagnosticError if it does not fit the declaration."""
        where = f"{self.name}: input {item.name!r}"
        tensor = item.type.tensor_type
        if item.type.WhichOneof("value") not in ("tensor_type", None):
            raise self._misfit(
                f"a value is given for {item.name!r}, which is no tensor", "only tensors are given as values"
            )
        dtype = dtype_name(tensor.elem_type, where) if tensor.elem_type else self._default_dtype(item.name)
        try:
            array = array_of(self.values[item.name], dtype)
        except ValueError as error:
            message = f"the value of {item.name!r} does not fit: {error}"
            raise self._misfit(message, f"the model declares {dtype}") from None
        if tensor.HasField("shape") and len(tensor.shape.dim) != array.ndim:
            message = (
                f"the value of {item.name!r} has the shape {array.shape}, expected {len(tensor.shape.dim)} dimensions"
            )
            raise self._misfit(message, f"the model declares the shape {_shape_text(item)}")
        for size, dim in zip(array.shape, map(_declared, tensor.shape.dim), strict=False):
            if isinstance(dim, str) and dim and self._expression(dim) is None:
                self.fixed_sizes.setdefault(dim, size)
        return array

    def _check_shape(self, item: ValueInfoProto) -> None:
        """Raise DiagnosticError if the shape of a given value contradicts its declaration, or the other values."""
        shape, hint = self.fixed[item.name].shape, f"the model declares the shape {_shape_text(item)}"
        for axis, (size, dim) in enumerate(zip(shape, self._declared(item), strict=False)):
            expected = const(size, "int64") if dim == "" else simplify(self._dim(dim, ""))
            if not isinstance(expected, IntImm):
                message = f"the value of {item.name!r} has the size {size} in dimension {axis}, which depends on others"
                raise self._misfit(message, f"{hint}; shape_dict gives sizes of other inputs")
            if size != expected.value:
                message = f"the value of {item.name!r} has the shape {shape}: dimension {axis} must be {expected.value}"
                raise self._misfit(message, hint)

    def _declare_sizes(self) -> None:
        """Make a shape variable for each name that is a dimension of an input, also of one with a given value."""
        for item in self.graph.input:
            for dim in self._declared(item):
                if isinstance(dim, str) and dim.isidentifier():
                    self._size(dim)

    def _size(self, name: str) -> PrimVar:
        return self.sizes.setdefault(name, PrimVar(identifier(name), "int64"))

    def _declared(self, item: ValueInfoProto) -> Sequence[Any]:
        """The dimensions of an input: numbers, names or expressions; "" for one of which nothing is known."""
        if item.name in self.shapes:
            return list(self.shapes[item.name])
        shape = item.type.tensor_type.shape
        return [_declared(dim) for dim in shape.dim]

    def _value(self, item: ValueInfoProto, var: Var) -> Value:
        """The value of an input: a tensor, or an object of the type that the model declares."""
        if not isinstance(var.struct_info, ObjectStructInfo):
            return var
        if item.name in self.shapes:
            message = f"a shape is given for {item.name!r}, which is no tensor of numbers"
            raise self._misfit(message, "leave it out: such an input has no shape")
        kind = type_of_proto(item.type, f"{self.name}: input {item.name!r}")
        if kind is None:
            raise broken(f"the input {item.name!r} has a type that is none of a tensor, a sequence and an optional")
        return Object(var, kind)

    def _parameter(self, item: ValueInfoProto, sanitize: bool) -> Var:
        return Var(identifier(item.name) if sanitize else item.name, self._info(item))

    def _info(self, item: ValueInfoProto) -> StructInfo:
        tensor = item.type.tensor_type
        if item.type.WhichOneof("value") not in ("tensor_type", None):
            return ObjectStructInfo()
        where = f"{self.name}: input {item.name!r}"
        dtype = dtype_name(tensor.elem_type, where) if tensor.elem_type else self._default_dtype(item.name)
        if dtype == "string":
            return ObjectStructInfo()
        if item.name not in self.shapes and not tensor.HasField("shape"):
            return TensorStructInfo(None, dtype)
        dims = [self._dim(dim, f"{identifier(item.name)}_{axis}") for axis, dim in enumerate(self._declared(item))]
        return TensorStructInfo(ShapeExpr(dims), dtype)

    def _default_dtype(self, name: str) -> str:
        dtype = self.dtypes if isinstance(self.dtypes, str) else self.dtypes.get(name, "float32")
        try:
            return str(DataType(dtype))
        except ValueError as error:
            message = f"dtype_dict gives {dtype!r} for {name!r}: {error}"
            raise self._misfit(message, 'a dtype is written as in "float32"') from None

    def _dim(self, dim: Any, name: str) -> PrimExpr:
        if isinstance(dim, PrimExpr):
            return dim
        if isinstance(dim, str):
            if dim in self.fixed_sizes:
                return const(self.fixed_sizes[dim], "int64")
            expression = self._expression(dim)
            return self._size(dim or name) if expression is None else expression
        if not isinstance(dim, bool) and isinstance(dim, Integral) and is_size(int(dim)):
            return const(int(dim), "int64")
        message = f"{dim!r} is no size of an input"
        raise self._misfit(message, 'a size is a number from 0 on, or a name for one that is open: ["n", 4]')

    def _expression(self, text: str) -> PrimExpr | None:
        """A dimension such as ``past + 1``, of sizes that other dimensions name; None for another text."""
        try:
            parsed = ast.parse(text, mode="eval").body
            return self._evaluate(parsed) if isinstance(parsed, ast.BinOp) else None
        except (SyntaxError, KeyError, ValueError, RecursionError):
            return None

    def _evaluate(self, term: ast.expr) -> PrimExpr:
        match term:
            case ast.Name(name):
                return const(self.fixed_sizes[name], "int64") if name in self.fixed_sizes else self.sizes[name]
            case ast.Constant(int() as value):
                return const(value, "int64")
            case ast.BinOp(left, operator, right) if type(operator) in _OPERATIONS:
                return binary(_OPERATIONS[type(operator)], self._evaluate(left), self._evaluate(right))
            case _:
                raise ValueError(type(term).__name__)


def _shape_text(item: ValueInfoProto) -> str:
    """Return the declared shape of an input: ``(N, 4, ?)``."""
    dims = map(_declared, item.type.tensor_type.shape.dim)
    return f"({', '.join('?' if dim == '' else str(dim) for dim in dims)})"


def _declared(dim: Any) -> int | str:
    """Return a declared dimension: a size, a name or an expression; "" if undeclared."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return str(dim.dim_param) if any(char.isalpha() for char in dim.dim_param) else ""
