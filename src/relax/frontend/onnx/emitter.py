"""Emitter: the program under construction, as converters see it.

Bindings go into a BlockBuilder; calls on constant integers are computed at once, so that axes and sizes that a model
computes from constants are known. Every tensor has known dimensions as far as its rank is known: where only the data
tell a size, a match_cast binds a new shape variable.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar

import numpy as np

from ... import op
from ...block_builder import BlockBuilder
from ...expr import Call, Constant, If, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var, is_leaf
from ...info.text import struct_info_text
from ...ir import DataType, Diagnostic, DiagnosticError, RelaxExpr, Span, StoredArray, StructInfo
from ...op import operator_of
from ...op.blocks import DequantizeBlocks
from ...op.known import at_span, known_struct_info
from ...op.operands import is_absent
from ...op.qdq import Dequantize
from ...prim import FloatImm, IntImm, PrimExpr, free_vars, prove
from ...prim.expr import Var as PrimVar
from ...struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ...transform.fold_constant import as_leaf, by_reference, byte_size, constants_in, has_exact_reference, is_bounded
from ..building import Branch, branch_of, sized
from .model import dtype_name
from .values import Array, Dims, Elements, Ints, Object, Optional, SequenceType, Strings, Subgraph, TensorType, Value
from .values import Sequence as SequenceValue
from .wire import LARGE

Outputs: TypeAlias = "tuple[str, ...]"
"""Names of the results of a node."""

_NO_SIZES: Mapping[int, PrimExpr] = MappingProxyType({})

Chosen = TypeVar("Chosen")

MAX_ELEMENTS = 1024
"""Maximum number of integers of a constant that is represented element by element."""

FAR = 1 << 40
"""Scalars read from tensors are clamped to this magnitude, which exceeds any size.

So are trip counts: exporters write the greatest int64 for "until the condition fails".
"""

LARGEST = (1 << 31) - 1
"""The greatest number in attributes of windows and blocks: products of two with a size stay integers of 64 bits."""

GREATEST = (1 << 63) - 1
"""The greatest number that a scalar expression of int64 holds."""


class OpenRankError(DiagnosticError):
    """A rank must be known at import time and depends on the branch that runs.

    `sources` are the outputs of the nodes, each with results of several ranks; see `Emitter.note_ranks`.
    """

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic], sources: frozenset[Outputs]) -> None:
        super().__init__(diagnostics)
        self.sources = sources

    def placed(self, span: Span | None) -> OpenRankError:
        """The same errors, with `span` for those without one."""
        return OpenRankError(super().placed(span).diagnostics, self.sources)


class SubgraphReader(Protocol):
    """Interface by which converters read the subgraphs of a node."""

    def read_subgraph(self, subgraph: Subgraph, inputs: Sequence[Value | None]) -> list[Value | None]:
        """The results of a graph for values of its inputs."""
        ...


class Emitter:
    """Emits bindings for the nodes of a model; see the module's docstring. Converters are given one.

    `opset` is the version of the operators of the domain of the node being converted, `outputs` the names of its
    results ("" for one that is not used).
    """

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder
        self.opset = 0
        self.outputs: tuple[str, ...] = ()
        self.title = ""
        self.span: Span | None = None
        self.inputs: dict[str, StructInfo] = {}
        """The inputs of the model."""
        self._signed: set[PrimVar] = set()
        self._open_ranks: dict[Var, frozenset[Outputs]] = {}
        self._rank_notes: dict[Outputs, list[str]] = {}
        self.split: Set[Outputs] = frozenset()
        """Outputs of the nodes after which others are read once for each rank."""
        self._shared: dict[tuple[str, tuple[int, ...], bytes], Constant] = {}
        self.reader: SubgraphReader
        """The reader of graphs, for converters of nodes that hold some."""

    # -- the node being converted

    @contextmanager
    def at(self, title: str, span: Span | None, outputs: tuple[str, ...], opset: int) -> Generator[None]:
        """Convert one node: errors and bindings are placed at it."""
        outer = self.title, self.span, self.outputs, self.opset, self.builder.span
        self.title, self.span, self.outputs, self.opset = title, span, outputs, opset
        self.builder.span = span
        try:
            yield
        finally:
            self.title, self.span, self.outputs, self.opset, self.builder.span = outer

    def error(self, message: str, *, code: str = "E6004", hint: str = "", notes: Sequence[str] = ()) -> DiagnosticError:
        """An error at the node being converted, to be raised."""
        return DiagnosticError(Diagnostic(code, f"{self.title}: {message}", self.span, "", tuple(notes), hint))

    def shape_error(
        self, message: str, hint: str, *, code: str = "E6004", notes: Sequence[str] = ()
    ) -> DiagnosticError:
        """An error at the node being converted that shapes of the model's inputs resolve; `hint` ends before them."""
        error = self.error(message, code=code, notes=notes)
        python, shell = shape_arguments(self.inputs)
        (diagnostic,) = error.diagnostics
        call = f"from_onnx(model, shape_dict={python})"
        return DiagnosticError(replace(diagnostic, hint=f"{hint}: {call}", shell_hint=f"{hint}: {shell}"))

    def unsupported(self, construct: str, hint: str = "") -> NoReturn:
        """Raise the diagnostic for a valid node that is not supported."""
        raise self.error(f"{construct} is not supported", code="E6001", hint=hint)

    # -- emitting

    def emit(self, expr: RelaxExpr, name: str = "", sizes: Mapping[int, PrimExpr] = _NO_SIZES) -> RelaxExpr:
        """The expression as a leaf: a constant if it can be computed now, else bound to a new variable.

        Calls nested in it are emitted first. `sizes` are those of a call's result that its struct info cannot say,
        as it knows all dimensions or none; of every such field, if it is a tuple.
        """
        if isinstance(expr, Tuple):
            return Tuple([self.emit(field) for field in expr.fields])
        if is_leaf(expr):
            return expr
        if isinstance(expr, TupleGetItem):
            whole = self.emit(expr.tuple_value)
            if isinstance(whole, Tuple):
                return self.emit(whole.fields[expr.index])
            return self._bind(TupleGetItem(whole, expr.index), name, sizes)
        if isinstance(expr, Call):
            args = tuple(self.emit(arg) for arg in expr.args)
            changed = any(new is not old for new, old in zip(args, expr.args, strict=True))
            call = expr.replace(args=args, span=self.span) if changed else expr
            folded = self._computed(call)
            return self._bind(call, name, sizes) if folded is None else folded
        return self._bind(expr, name, sizes)

    def _bind(self, expr: RelaxExpr, name: str, sizes: Mapping[int, PrimExpr] = _NO_SIZES) -> RelaxExpr:
        if expr.span is None and isinstance(expr, (Call, TupleGetItem, If)):
            expr = at_span(expr, self.span)
        value = self.builder.emit(expr, identifier(name))
        if self._open_ranks:
            sources = self._sources(expr)
            if sources:
                self._open_ranks[value] = sources
        return self.sized(value, name, sizes)

    def _computed(self, call: Call) -> RelaxExpr | None:
        """The result of a call on constants, where computing it now gives the bits it would have when run."""
        operator = operator_of(call)
        operands = list(call.args)
        if operator is None or not operator.pure or not all(map(_is_constant, operands)):
            return None
        if isinstance(operator, (Dequantize, DequantizeBlocks)) and self.ndim(operands[0]) > 1:
            return None  # quantised weights stay narrow: see FakeQuantizationToInteger and DequantizeInProducts
        info = known_struct_info(call)
        if info is None or not has_exact_reference(operator, operands) or not is_bounded(info, operands):
            return None
        stored = any(isinstance(c.content, StoredArray) for operand in operands for c in constants_in(operand))
        if stored and (byte_size(info) or 0) >= LARGE:  # not while importing: `build` does it, once
            return None
        result = by_reference(operator, call, operands)
        return None if result is None else as_leaf(result, info)

    def sized(self, value: RelaxExpr, name: str = "", sizes: Mapping[int, PrimExpr] = _NO_SIZES) -> RelaxExpr:
        """The value with all dimensions known: match_cast to `sizes` and new variables where the rank alone is."""
        new = identifier(name)

        def dims(info: TensorStructInfo) -> list[PrimExpr]:
            return [sizes[axis] if axis in sizes else self.fresh_dim(new or "d", axis) for axis in range(info.ndim)]

        return sized(self.builder, value, dims, lambda field: self.emit(field, sizes=sizes), new)

    def parts(self, expr: RelaxExpr) -> list[RelaxExpr]:
        """The fields of a call that returns a tuple, which is emitted."""
        value = self.emit(expr)
        if isinstance(value, Tuple):
            return list(value.fields)
        info = value.struct_info
        count = len(info.fields) if isinstance(info, TupleStructInfo) else 0
        return [self.emit(TupleGetItem(value, index)) for index in range(count)]

    def fresh_dim(self, name: str, axis: int = 0) -> PrimVar:
        """Return a new shape variable for a data-dependent size."""
        return PrimVar(self.builder.get_unique_name(f"{name}_{axis}"), "int64")

    # -- what is known of tensors

    def info(self, x: RelaxExpr) -> TensorStructInfo:
        """The struct info of a tensor. Raises DiagnosticError for another value."""
        info = known_struct_info(x)
        if isinstance(info, TensorStructInfo):
            return info
        shown = "nothing is known of it" if info is None else struct_info_text(info)
        raise self.error(f"expected a tensor, found a value of another kind: {shown}")

    def dtype(self, x: RelaxExpr) -> DataType:
        """The dtype of a tensor."""
        return self.info(x).dtype

    def numbers(self, elem_type: int) -> str:
        """The dtype of an ONNX element type that is one of numbers. Raises DiagnosticError for another."""
        name = dtype_name(elem_type, self.title)
        if name == "string":
            self.unsupported("a result of strings")
        return name

    def ndim(self, x: RelaxExpr) -> int:
        """The rank of a tensor. Raises DiagnosticError if it is not known."""
        ndim = self.info(x).ndim
        if ndim == -1:
            raise self.open_rank(x, "the rank of an input is not known")
        return ndim

    def rank(self, x: RelaxExpr) -> int | None:
        """The rank of a tensor, None if it is told by the run only.

        Raises DiagnosticError if the nodes of the model can be read once for each rank, which makes better programs.
        """
        ndim = self.info(x).ndim
        if ndim == -1 and not self._sources(x) <= self.split:
            raise self.open_rank(x, "the rank of an input is not known")
        return None if ndim == -1 else ndim

    def run_time_shape(self, x: RelaxExpr) -> RelaxExpr:
        """The shape of a tensor of unknown rank, as a vector of int64."""
        return self.emit(op.shape_to_tensor(self.emit(op.shape_of(x))), "shape")

    def open_rank(self, x: RelaxExpr, message: str) -> OpenRankError:
        """An error at the node being converted, which needs the rank of a tensor; to be raised."""
        sources = self._sources(x)
        notes = [note for source in sorted(sources) for note in self._rank_notes.get(source, ())]
        error = self.shape_error(message, "give the shape of the model's inputs", notes=notes)
        return OpenRankError(error.diagnostics, sources)

    def note_ranks(self, result: RelaxExpr, index: int, outputs: Sequence[RelaxExpr]) -> None:
        """Note on which nodes the rank of an output of the node depends: the node itself if its branches differ.

        `outputs` are the values of the branches, `result` is the variable of all outputs.
        """
        infos = [known_struct_info(value) for value in outputs]
        ranks = [info.ndim for info in infos if isinstance(info, TensorStructInfo) and info.ndim >= 0]
        sources = frozenset[Outputs]().union(*map(self._sources, outputs))
        if len(set(ranks)) > 1:
            alternatives = " or ".join(map(str, ranks))
            note = f"output {index} of {self.title} has {alternatives} dimensions"
            notes = self._rank_notes.setdefault(self.outputs, [])
            notes.extend([note] if note not in notes else [])
            sources |= {self.outputs}
        if sources and isinstance(result, Var):
            self._open_ranks[result] = self._sources(result) | sources

    def _sources(self, x: RelaxExpr) -> frozenset[Outputs]:
        """Outputs of the nodes on which the rank of a value may depend."""
        match x:
            case Var():
                return self._open_ranks.get(x, frozenset())
            case Tuple(fields) | Call(_, fields):
                return frozenset[Outputs]().union(*map(self._sources, fields))
            case TupleGetItem(value):
                return self._sources(value)
            case _:
                return frozenset()

    def dims(self, x: RelaxExpr) -> Dims:
        """The dimensions of a tensor. Raises DiagnosticError if its rank is not known."""
        self.ndim(x)
        dims = self.info(x).dims
        if dims is None:
            raise self.error("the shape of an input is not known; its node must be emitted first")
        return tuple(dims)

    def shape(self, x: RelaxExpr, ndim: int, name: str) -> Dims:
        """The dimensions of a tensor of rank `ndim`. Raises DiagnosticError for another rank."""
        if self.ndim(x) != ndim:
            raise self.error(f"{name} must have {ndim} dimensions, found {self.ndim(x)}")
        return self.dims(x)

    def axis(self, axis: int, ndim: int) -> int:
        """An axis counted from the front. Raises DiagnosticError if there is no such."""
        if not -ndim <= axis < ndim:
            raise self.error(f"axis {axis} is out of range for a tensor of {ndim} dimensions", code="E6003")
        return axis % ndim

    def single(self, values: Dims, name: str) -> PrimExpr:
        """The one scalar of an operand. Raises DiagnosticError for another number of them."""
        if len(values) != 1:
            raise self.error(f"{name} must have one element, found {len(values)}", code="E6003")
        return values[0]

    def number(self, values: Ints, name: str) -> int:
        """The one integer of an operand. Raises DiagnosticError for another number of them."""
        return self.fitting(values, 1, name)[0]

    def choice(self, value: str, name: str, allowed: Sequence[str]) -> str:
        """An attribute that is one of several words. Raises DiagnosticError for another one."""
        if value not in allowed:
            raise self.error(f"{name} must be {' or '.join(allowed)}, found {value!r}", code="E6003")
        return value

    def axes(self, axes: Ints | None, ndim: int) -> Ints:
        """Axes counted from the front, all of them for None. Raises DiagnosticError for one twice or out of range."""
        if axes is None:
            return tuple(range(ndim))
        normal = tuple(self.axis(axis, ndim) for axis in axes)
        if len(set(normal)) < len(normal):
            raise self.error(f"axes {list(axes)} name an axis twice", code="E6003")
        return normal

    def is_true(self, condition: PrimExpr) -> bool | None:
        """True or False for a condition that is proved or disproved, None else."""
        with self.builder.knowing():
            return prove(condition)

    def fitting(self, values: Sequence[Any], count: int, name: str) -> Sequence[Any]:
        """The values of an attribute or input. Raises DiagnosticError if there are not `count` of them."""
        if len(values) != count:
            raise self.error(f"{name} has {len(values)} elements, expected {count}", code="E6003")
        return values

    def within(self, values: Sequence[int], name: str, least: int = 1, most: int = LARGEST) -> Ints:
        """Numbers of an attribute. Raises DiagnosticError for one that is not from `least` to `most`."""
        for value in values:
            if not least <= value <= most:
                raise self.error(f"{name} must be from {least} to {most}, found {value}", code="E6003")
        return tuple(values)

    # -- values in the form a converter asks for

    def const(self, value: Any, dtype: str | None = None) -> Constant:
        """A constant; numbers need a dtype. Raises DiagnosticError for strings."""
        array: Any = np.asarray(value)
        if array.dtype.kind in "OUS":
            raise self.error("expected numbers, found strings")
        return Constant(array if dtype is None else array.astype(DataType(dtype).numpy()))

    def shared(self, array: Array) -> Constant:
        """A constant; equal arrays that this method was called with are one constant."""
        elements: Any = np.ascontiguousarray(array)
        digest = hashlib.blake2b(elements.view(np.uint8), digest_size=32).digest()
        return self._shared.setdefault((array.dtype.name, array.shape, digest), self.const(array))

    def tensor(self, value: Value | None, name: str = "input") -> RelaxExpr:
        """A value as a tensor of the program."""
        match value:
            case RelaxExpr():
                return value
            case Elements():
                return self._tensor_of(value)
            case Strings():
                self.unsupported(f"a tensor of strings as {name}")
            case SequenceValue() | Object(_, SequenceType()):
                raise self.error(f"{name} must be a tensor, found a sequence")
            case Object(_, TensorType()):
                self.unsupported(f"a tensor of strings as {name}")
            case Object():
                raise self.error(f"{name} must be a tensor, found an optional value", hint="OptionalGetElement")
            case Optional(inner) if inner is not None:
                return self.tensor(inner, name)
            case _:
                raise self.error(f"{name} must be a tensor, found nothing")

    def _tensor_of(self, elements: Elements) -> RelaxExpr:
        numbers = elements.numbers()
        if numbers is not None:
            return Constant(numbers)
        dtype, shape = elements.dtype, elements.array.shape
        if dtype in ("int64", "int32") and len(shape) == 1 and all(self.is_true(e >= 0) for e in elements.flat):
            vector: RelaxExpr = op.shape_to_tensor(ShapeExpr(elements.flat))
            return self.emit(vector if dtype == "int64" else op.astype(vector, dtype))
        scalars = [op.full(ShapeExpr([] if not shape else [1]), PrimValue(e), dtype) for e in elements.flat]
        if not shape:
            return self.emit(scalars[0])
        row = scalars[0] if len(scalars) == 1 else op.concat(scalars, axis=0)
        return self.emit(row if len(shape) == 1 else op.reshape(row, ShapeExpr(shape)))

    def elements(self, value: Value | None) -> Elements | None:
        """A value's elements as expressions, None if they are known only when the program runs (or are many)."""
        if isinstance(value, Elements):
            return value
        if isinstance(value, Constant) and value.content.size <= MAX_ELEMENTS:
            dtype = value.dtype
            if dtype == "uint64" and value.data.max(initial=0) > GREATEST:
                return None
            if dtype.is_integer or dtype.is_bool or str(dtype) in ("float32", "float64"):
                return Elements.of(value.data, str(dtype))
        return None

    def array(self, value: Value | None, name: str) -> Any:
        """A value known at import as a NumPy array. Raises DiagnosticError if it is not."""
        if isinstance(value, Constant):
            return value.data
        if isinstance(value, Strings):
            return value.array
        numbers = value.numbers() if isinstance(value, Elements) else None
        if numbers is None:
            raise self.error(
                f"{name} must be known when the model is imported, but is computed when it runs",
                code="E6005",
                hint="fold the constants of the model first, or make it an initializer",
            )
        return numbers

    def ints(self, value: Value | None, name: str) -> Ints:
        """A vector of integers known at import. Raises DiagnosticError if it is not."""
        array = self.array(value, name)
        self._check_integers(DataType(array.dtype.name), name)
        numbers: list[Any] = np.ravel(array).tolist()
        return tuple(map(int, numbers))

    def _check_integers(self, dtype: DataType, name: str) -> None:
        if not dtype.is_integer:
            raise self.error(f"{name} must be integers, found {dtype}")

    def sizes(self, value: Value | None, name: str) -> Dims:
        """The elements of a vector of sizes as scalar expressions; see `scalars`."""
        return self.scalars(value, name, signed=False)

    def scalars(self, value: Value | None, name: str, *, signed: bool) -> Dims:
        """The elements of a vector as scalar expressions; those that only the data tell are read when it runs.

        With `signed` they may be negative; else reading a negative one is an error. Raises DiagnosticError if the
        number of elements is not known.
        """
        elements = self.elements(value)
        if elements is not None:
            self._check_integers(DataType(elements.dtype), name)
            return elements.flat
        if isinstance(value, Constant) and value.dtype == "uint64" and value.data.max(initial=0) > GREATEST:
            raise self.error(f"{name} is {value.data.max()}, which int64 cannot hold", code="E6003")
        vector = self.tensor(value, name)
        self._check_integers(self.dtype(vector), name)
        if self.ndim(vector) != 1:
            vector = op.reshape(vector, [1] if self.ndim(vector) == 0 else [-1])
        if self.dtype(vector) != "int64":
            vector = op.astype(vector, "int64")
        if signed:  # dimensions are never negative: what is read is moved up
            vector = op.add(op.clip(vector, -FAR, FAR), FAR)
        vector = self.emit(vector)
        (length,) = self.dims(vector)
        if not isinstance(length, IntImm):
            raise self.error(f"the number of elements of {name} must be known", code="E6005")
        if length.value > MAX_ELEMENTS:
            self.unsupported(f"{name} of {length.value} sizes")
        dims = [self.fresh_dim(identifier(name), axis) for axis in range(length.value)]
        shape = self.builder.emit(op.tensor_to_shape(vector))
        self.builder.match_cast(shape, ShapeStructInfo(ShapeExpr(dims).values))
        if not signed:
            return tuple(dims)
        self._signed.update(dims)
        return tuple(dim - FAR for dim in dims)

    def may_be_negative(self, scalar: PrimExpr) -> bool:
        """True for an expression of scalars that were read from a tensor and may be negative."""
        return any(var in self._signed for var in free_vars(scalar))

    def cast(self, x: RelaxExpr, dtype: str) -> RelaxExpr:
        """A tensor converted to a dtype; itself if it has that."""
        return x if self.dtype(x) == dtype else op.astype(x, dtype)

    def scalar(self, value: PrimExpr, dtype: str = "int64") -> RelaxExpr:
        """A scalar expression as a tensor without dimensions."""
        if isinstance(value, (IntImm, FloatImm)):
            return self.const(value.value, dtype)
        return self.emit(op.full(ShapeExpr([]), PrimValue(value), dtype))

    # -- branches

    @contextmanager
    def branch(self) -> Generator[Branch]:
        """Emit into a branch of an If; `finish(result)` gives it as a SeqExpr."""
        with branch_of(self.builder, self.span) as branch:
            yield branch


def identifier(name: str) -> str:
    """Convert an ONNX name to an identifier: other characters become underscores."""
    plain = re.sub(r"\W", "_", name)
    return f"v{plain}" if plain[:1].isdigit() else plain


def shape_arguments(inputs: Mapping[str, StructInfo]) -> tuple[str, str]:
    """Return text that fixes the open dimensions of inputs: the value of `shape_dict`, and options of a command.

    Open dimensions are N, to be chosen, and an unknown rank is an ellipsis.
    """
    shapes: dict[str, list[str]] = {}
    for name, info in inputs.items():
        if isinstance(info, TensorStructInfo):
            dims = None if info.dims is None else [str(d.value) if isinstance(d, IntImm) else "N" for d in info.dims]
            if dims is None or "N" in dims:
                shapes[name] = ["N", "..."] if dims is None else dims
    python = ", ".join(f'"{name}": [{", ".join(dims)}]' for name, dims in shapes.items())
    return f"{{{python}}}", " ".join(f"--shape {name}={','.join(dims)}" for name, dims in shapes.items())


def _is_constant(expr: RelaxExpr) -> bool:
    match expr:
        case Constant() | PrimValue(IntImm()):
            return True
        case ShapeExpr(values):
            return all(isinstance(value, IntImm) for value in values)
        case Tuple(fields):
            return all(_is_constant(field) for field in fields)
        case Call(_, ()):
            return is_absent(expr)
        case _:
            return False
