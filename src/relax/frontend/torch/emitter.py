"""Emitter: the program under construction, as converters see it.

Bindings go into a BlockBuilder. Each tensor has known dimensions: where Relax can only say the rank of a result, a
match_cast gives it the dimensions that torch derived for the node, with new shape variables for those that only the
data tell.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias

import numpy as np

from ... import op
from ...block_builder import BlockBuilder
from ...expr import Call, Constant, If, PrimValue, ShapeExpr, Tuple, TupleGetItem, is_leaf
from ...ir import DataType, Diagnostic, DiagnosticError, RelaxExpr, Source, Span, structural_equal
from ...op.known import known_struct_info
from ...prim import FloatImm, IntImm, PrimExpr, const, prove, simplify
from ...prim.expr import Var as PrimVar
from ...runtime.records import dataclass
from ...struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..building import Branch, branch_of, sized
from .dtypes import Operand, dtype_name, promoted_dtype
from .symbols import Symbols, UnknownFunction, UnknownSymbol, symbol_name, translate

Dim: TypeAlias = "int | PrimExpr"
"""A number of a shape, as converters get it."""

FAR = 1 << 40
"""Integers read from tensors are clamped to this magnitude, which exceeds any size."""


@dataclass(frozen=True)
class Derived:
    """A dimension of an input, ``factor * symbol + offset``: `var` is its size, of which `symbol` is computed."""

    var: PrimVar
    name: str
    axis: int
    factor: int
    offset: int
    symbol: str


class Emitter:
    """Emits bindings for the nodes of a program; see the module's docstring. Converters are given one.

    `node` is the node being converted.
    """

    def __init__(
        self, builder: BlockBuilder, name: str, symbols: Symbols, nonnegative: frozenset[str] = frozenset()
    ) -> None:
        self.builder, self.name, self.symbols, self._nonnegative = builder, name, symbols, nonnegative
        self.derived: list[Derived] = []
        """Dimensions of inputs that are expressions of a symbol which is no dimension itself."""
        self.node: Any = None
        self.title = name
        self.span: Span | None = None
        self._notes: tuple[str, ...] = ()
        self.read_graph: Callable[[Any, Sequence[Any]], list[Any]]
        """The outputs of a graph that a node holds, for these inputs, emitted into the open block."""

    # -- the node being converted

    @contextmanager
    def at(self, node: Any, index: int) -> Generator[None]:
        """Convert one node: errors and bindings are placed at it."""
        outer = self.node, self.title, self.span, self._notes, self.builder.span
        self.node, self.title, self._notes = node, node_title(node), origin(node)
        self.span = self.builder.span = node_span(self.name, index, node)
        try:
            yield
        finally:
            self.node, self.title, self.span, self._notes, self.builder.span = outer

    def error(self, message: str, *, code: str = "E6004", hint: str = "") -> DiagnosticError:
        """An error at the node being converted, to be raised."""
        return DiagnosticError(Diagnostic(code, f"{self.title}: {message}", self.span, "", self._notes, hint))

    def unsupported(self, construct: str, hint: str = "") -> NoReturn:
        """Raise the diagnostic for a valid node that is not supported."""
        raise self.error(f"{construct} is not supported", code="E6001", hint=hint)

    # -- what torch says of the result

    @property
    def value(self) -> Any:
        """Torch's example of the node's result: a tensor without data, a number of shapes, or several of them."""
        return self.node.meta.get("val")

    @property
    def out_dtype(self) -> str:
        """The dtype of the node's result."""
        return dtype_name(self.value.dtype)

    def reads(self, index: int) -> bool:
        """True if a node of the program reads this field of the node's result."""
        return any(len(user.args) > 1 and user.args[1] == index for user in self.node.users)

    def scalar(self, number: Any) -> PrimExpr:
        """A number of torch's shapes as a scalar expression. Raises DiagnosticError if it is not known."""
        if isinstance(number, (bool, int, float)):
            return const(number, "float64" if isinstance(number, float) else "int64")
        try:
            return translate(number.node.expr, self.symbols)
        except UnknownSymbol as error:
            raise self.error(
                f"the size {error.name} depends on the data, and no operator that was imported gives it", code="E6005"
            ) from None
        except UnknownFunction as error:
            self.unsupported(str(error))

    def shape(self, like: Any = None) -> list[PrimExpr]:
        """The shape that torch gives the result, or another tensor."""
        return [self.scalar(dim) for dim in (self.value if like is None else like).shape]

    # -- emitting

    def emit(self, expr: RelaxExpr) -> RelaxExpr:
        """The expression as a leaf. Calls nested in it are emitted first, so that their dimensions are known."""
        if isinstance(expr, Tuple):
            return Tuple([self.emit(field) for field in expr.fields])
        if is_leaf(expr):
            return expr
        if isinstance(expr, Call):
            args = tuple(self.emit(arg) for arg in expr.args)
            changed = any(new is not old for new, old in zip(args, expr.args, strict=True))
            expr = expr.replace(args=args, span=self.span) if changed else expr
        return self._sized(self.builder.emit(self._placed(expr)), None)

    def finish(self, expr: RelaxExpr, value: Any) -> RelaxExpr:
        """The result of the node as a leaf, with the dimensions that torch derived where Relax knows none."""
        if isinstance(expr, Call) and not is_leaf(expr):
            args = tuple(self.emit(arg) for arg in expr.args)
            expr = expr.replace(args=args)
        leaf = expr if is_leaf(expr) else self.builder.emit(self._placed(expr), self.node.name)
        return self._named(self._sized(leaf, value), value)

    def _named(self, leaf: RelaxExpr, value: Any) -> RelaxExpr:
        """The result, whose dimensions are from now on those of the symbols that torch has made for them."""
        info = known_struct_info(leaf)
        sizes: Any = getattr(value, "shape", ())
        if isinstance(info, TensorStructInfo) and info.dims is not None and len(sizes) == info.ndim:
            for dim, size in zip(info.dims, sizes, strict=True):
                name = None if isinstance(size, int) else symbol_name(size.node.expr)
                if name is not None:
                    self.symbols.setdefault(name, dim)
        return leaf

    def _placed(self, expr: RelaxExpr) -> RelaxExpr:
        if expr.span is None and isinstance(expr, (Call, TupleGetItem, If)):
            return expr.replace(span=self.span)
        return expr

    def _sized(self, leaf: RelaxExpr, value: Any) -> RelaxExpr:
        def dims(info: TensorStructInfo) -> list[PrimExpr]:
            sizes = getattr(value, "shape", None)
            if sizes is None or len(sizes) != info.ndim:
                return [self.fresh_dim("d") for _ in range(info.ndim)]
            return [self._dim(size) for size in sizes]

        return sized(self.builder, leaf, dims, self.emit)

    def _dim(self, size: Any) -> PrimExpr:
        """A dimension as torch derived it; a symbol that nothing has bound yet becomes a new shape variable."""
        name = None if isinstance(size, int) else symbol_name(size.node.expr)
        if name is not None and name not in self.symbols:
            self.symbols[name] = self.fresh_dim(name)
        return self.scalar(size)

    def fresh_dim(self, name: str) -> PrimVar:
        """A new shape variable."""
        return PrimVar(self.builder.get_unique_name(name), "int64")

    def parts(self, expr: RelaxExpr) -> list[RelaxExpr]:
        """The fields of a call that returns a tuple, which is emitted."""
        value = self.emit(expr)
        if isinstance(value, Tuple):
            return list(value.fields)
        info = known_struct_info(value)
        count = len(info.fields) if isinstance(info, TupleStructInfo) else 0
        return [self.emit(TupleGetItem(value, index)) for index in range(count)]

    # -- what is known of tensors

    def info(self, x: RelaxExpr) -> TensorStructInfo:
        """The struct info of a tensor. Raises DiagnosticError for another value."""
        info = known_struct_info(x) if isinstance(x, RelaxExpr) else None  # type: ignore[reportUnnecessaryIsInstance]
        if isinstance(info, TensorStructInfo):
            return info
        found = f"found {x}" if info is None else "found a value of another kind"
        raise self.error(f"expected a tensor, {found}", hint="pass a tensor: torch.tensor(number)")

    def dtype(self, x: RelaxExpr) -> DataType:
        """The dtype of a tensor."""
        return self.info(x).dtype

    def dims(self, x: RelaxExpr) -> list[PrimExpr]:
        """The dimensions of a tensor that was emitted."""
        dims = self.info(x).dims
        if dims is None:
            raise self.error("the shape of an operand is not known")
        return list(dims)

    def ndim(self, x: RelaxExpr) -> int:
        """The rank of a tensor."""
        return self.info(x).ndim

    def axis(self, axis: int, ndim: int) -> int:
        """Return an axis counted from the front; a tensor without dimensions has the axis 0.

        Raises DiagnosticError for an axis that is out of range.
        """
        count = max(ndim, 1)
        if not -count <= axis < count:
            raise self.error(
                f"the axis {axis} is out of range for a tensor of {ndim} dimensions",
                hint=f"axes are integers from {-count} to {count - 1}",
            )
        return axis % count

    def axes(self, axes: int | Sequence[int] | None, ndim: int) -> list[int]:
        """Return axes counted from the front, all of them for None or an empty list.

        Raises DiagnosticError for an axis that is out of range, and for two equal ones.
        """
        if axes is None or axes == []:
            return list(range(ndim))
        positions = [self.axis(a, ndim) for a in ([axes] if isinstance(axes, int) else axes)]
        if len(set(positions)) < len(positions):
            raise self.error(f"the axes {axes} name one axis twice", hint="name each axis once")
        return positions

    def choice(self, name: str, options: Sequence[str], index: int) -> str:
        """Return the option that an integer stands for. Raises DiagnosticError for an index without option."""
        if 0 <= index < len(options):
            return options[index]
        listed = ", ".join(f"{place} ({option})" for place, option in enumerate(options))
        raise self.error(f"there is no {name} {index}", hint=f"pass one of {listed}")

    def is_true(self, condition: PrimExpr) -> bool | None:
        """True or False for a condition that is proved or disproved, None else."""
        with self.builder.knowing():
            return prove(condition)

    def same_size(self, a: Dim, b: Dim) -> bool:
        """True if two sizes are proved equal."""
        return self.is_true(as_dim(a).equal(as_dim(b))) is True

    # -- values in the form an operator asks for

    def const(self, value: Any, dtype: str) -> Constant:
        """A constant of a dtype."""
        return Constant(np.asarray(value).astype(DataType(dtype).numpy()))

    def tensor(self, value: Any, dtype: str | DataType | None = None) -> RelaxExpr:
        """A tensor; a number becomes one without dimensions. With a dtype, it is converted to that."""
        if isinstance(value, RelaxExpr):
            return value if dtype is None or self.dtype(value) == dtype else self.cast(value, str(dtype))
        name = str(dtype) if dtype is not None else number_dtype(value)
        if isinstance(value, PrimExpr) and not isinstance(value, (IntImm, FloatImm)):
            return self.emit(op.full(ShapeExpr([]), PrimValue(value), name))
        return self.const(value.value if isinstance(value, (IntImm, FloatImm)) else value, name)

    def cast(self, x: RelaxExpr, dtype: str) -> RelaxExpr:
        """A tensor converted to a dtype; itself if it has that."""
        return x if self.dtype(x) == dtype else self.emit(op.astype(x, dtype))

    def common_dtype(self, *values: Any) -> str:
        """The dtype to which torch promotes tensors and numbers that are operands of one operator."""
        operands = [
            Operand(str(self.dtype(v)), self.ndim(v) > 0)
            if isinstance(v, RelaxExpr)
            else Operand(number_dtype(v), False, True)
            for v in values
        ]
        return promoted_dtype(operands)

    def promoted(self, *values: Any) -> list[RelaxExpr]:
        """Tensors and numbers as tensors of the dtype to which torch promotes them."""
        dtype = self.common_dtype(*values)
        return [self.tensor(value, dtype) for value in values]

    def reshape(self, x: RelaxExpr, dims: Iterable[Dim]) -> RelaxExpr:
        """A tensor with another shape, of which no size is -1; itself if that is its shape."""
        sizes = [as_dim(dim) for dim in dims]
        own = self.dims(x)
        if len(own) == len(sizes) and all(map(self.same_size, own, sizes)):
            return x
        return self.emit(op.reshape(x, ShapeExpr(sizes)))

    def cast_shape(self, x: RelaxExpr, dims: Sequence[PrimExpr]) -> RelaxExpr:
        """A tensor whose sizes are these, which is checked when it runs if it is not proved."""
        leaf = self.emit(x)
        if all(map(structural_equal, self.dims(leaf), dims)):
            return leaf
        info = self.info(leaf)
        return self.builder.match_cast(leaf, TensorStructInfo(ShapeExpr(dims), info.dtype, info.vdevice))

    def is_nonnegative(self, symbol: str) -> bool:
        """True for a symbol of which torch has found, or was told, that it is at least 0."""
        return symbol in self._nonnegative

    def read_integer(self, x: RelaxExpr, nonnegative: bool) -> PrimExpr:
        """The one element of an integer tensor as a scalar expression; FAR at most in magnitude.

        If it is taken to be nonnegative, a negative one is an error when the program runs.
        """
        vector: RelaxExpr = op.astype(op.reshape(x, ShapeExpr([1])), "int64")
        if not nonnegative:
            far = self.const(FAR, "int64")
            vector = op.add(op.minimum(op.maximum(vector, op.negative(far)), far), far)
        size = self.fresh_dim("item")
        shape = self.builder.emit(op.tensor_to_shape(self.emit(vector)))
        self.builder.match_cast(shape, ShapeStructInfo([size]))
        return size if nonnegative else size - FAR

    # -- branches

    @contextmanager
    def branch(self) -> Generator[Branch]:
        """Emit into a branch of an If; `finish(result)` gives it as a SeqExpr. Symbols bound in it end with it."""
        symbols = dict(self.symbols)
        try:
            with branch_of(self.builder, self.span) as branch:
                yield branch
        finally:
            self.symbols = symbols


def as_dim(dim: Dim) -> PrimExpr:
    """A number of a shape as an expression."""
    return const(dim, "int64") if isinstance(dim, int) else dim


def product(dims: Iterable[Dim]) -> PrimExpr:
    """The product of numbers of a shape."""
    result = const(1, "int64")
    for dim in dims:
        result = result * dim
    return simplify(result)


def number_dtype(value: Any) -> str:
    """The dtype of a tensor that is made of a number."""
    if isinstance(value, PrimExpr):
        return "bool" if value.dtype.is_bool else "float32" if value.dtype.is_float else "int64"
    return "bool" if isinstance(value, bool) else "float32" if isinstance(value, float) else "int64"


def node_span(program: str, index: int, node: Any) -> Span:
    """The place of a node in a program: its number, and a line of text that shows it."""
    text = node_text(node)
    return Span(Source(f"{program}: {node.name}", text, index + 1), index + 1, 1, index + 1, len(text) + 1)


def node_title(node: Any) -> str:
    """The operator and name of a node: ``aten.add.Tensor 'add'``."""
    return f"{node.target} {node.name!r}"


def node_text(node: Any) -> str:
    """A node on one line: ``add = aten.add.Tensor(x, 1)``."""
    args = [*map(str, node.args), *(f"{key}={value}" for key, value in node.kwargs.items())]
    return f"{node.name} = {node.target}({', '.join(args)})"


def origin(node: Any) -> tuple[str, ...]:
    """The line of the user's module that made a node, as notes of a diagnostic."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    frames = [index for index, line in enumerate(lines) if line.startswith("File ")]
    return (" ".join(lines[frames[-1] : frames[-1] + 2]),) if frames else ()
