"""Tensor and Object: values of the program that a module's methods build.

    x = Tensor.placeholder(("n", 4), "float32")     a tensor of n × 4 elements; its expression is a variable
    x.shape                                         [n, 4]: ints, and expressions of shape variables
    (x * 2 + 1).reshape(-1)                         emits R.multiply, R.add, R.reshape into the open function

A Tensor wraps a Relax expression. Operators on Tensors emit a binding into the open BlockBuilder (`Module.export_tvm`
opens one for each method) and return the bound variable.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np

from ... import op as relax_op
from ...block_builder import BlockBuilder
from ...expr import Call, Constant, PrimValue, Tuple, TupleGetItem, Var, const, is_leaf
from ...ir import DiagnosticError, RelaxExpr, StructInfo
from ...ir.python_source import user_span
from ...op.known import at_span, known_struct_info
from ...prim import IntImm, PrimExpr
from ...prim.expr import Var as PrimVar
from ...runtime.nd import NDArray
from ...struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo
from ..building import sized

Dim: TypeAlias = "int | PrimExpr"
"""Size along a dimension: an int, or an expression of shape variables."""
DimLike: TypeAlias = "int | str | PrimExpr"
"""Size along a dimension, or the name of a shape variable."""
Scalar: TypeAlias = "int | float | bool"

_FILES: Final = ("frontend/nn/",)
"""Files of the package between the user's line and `emit`."""


class Tensor:
    """Tensor of a program under construction: a Relax expression with a tensor's struct info.

    Raises TypeError if the expression is not known to be a tensor.
    """

    _expr: RelaxExpr

    def __init__(self, *, _expr: RelaxExpr) -> None:
        info = known_struct_info(_expr)
        if not isinstance(info, TensorStructInfo):
            found = "unknown" if info is None else type(info).__name__
            raise TypeError(f"a Tensor needs an expression with TensorStructInfo, found struct info {found}")
        self._expr = _expr

    # ------------------------------------------------------------------------------ construction

    @staticmethod
    def from_const(data: Any) -> Tensor:
        """Return a constant of a number, an array, or nested lists; dtypes as those of `relax.const`."""
        return Tensor(_expr=data if isinstance(data, Constant) else const(data))

    @staticmethod
    def from_scalar(data: Scalar, dtype: str) -> Tensor:
        """Return a constant without dimensions. Raises as `relax.const` does for a number outside the dtype."""
        return Tensor(_expr=const(data, dtype=dtype))

    @staticmethod
    def from_struct_info(struct_info: TensorStructInfo, name: str = "tensor") -> Tensor:
        """Return a new variable of this struct info."""
        return Tensor(_expr=Var(name, struct_info))

    @staticmethod
    def placeholder(shape: Sequence[DimLike], dtype: str, name: str = "tensor") -> Tensor:
        """Return a new variable of this shape; strings become shape variables, equal strings the same one.

        Raises TypeError for a size that is neither an int, a string nor an expression, ValueError for a negative one.
        """
        return Tensor(_expr=Var(name, TensorStructInfo(dims_of(shape, {}), dtype)))

    # ------------------------------------------------------------------------------ description

    @property
    def _info(self) -> TensorStructInfo:
        return cast(TensorStructInfo, known_struct_info(self._expr))

    @property
    def shape(self) -> list[Dim]:
        """Sizes: ints where they are constants, expressions elsewhere. Raises ValueError if they are unknown."""
        dims = self._info.dims
        if dims is None:
            raise ValueError(f"the shape of {self!r} is not known when the program is built")
        return [dim.value if isinstance(dim, IntImm) else dim for dim in dims]

    @property
    def ndim(self) -> int:
        """Number of dimensions, -1 if unknown."""
        return self._info.ndim

    @property
    def dtype(self) -> str:
        """Element type, such as "float32"."""
        return str(self._info.dtype)

    def __repr__(self) -> str:
        dims = self._info.dims
        sizes = "?" if dims is None else ", ".join(str(dim) for dim in self.shape)
        return f'Tensor([{sizes}], "{self.dtype}")'

    def __bool__(self) -> bool:
        """Return True, as objects do. Raises TypeError for booleans, which are not known when a program is built."""
        if self.dtype == "bool":
            raise TypeError(
                f"the elements of {self!r} are not known when the program is built, so no `if` can ask for them; "
                "choose elements with op.where, or ask whether there is a tensor by `is None`"
            )
        return True

    # ------------------------------------------------------------------------------ operators

    def __add__(self, other: Tensor | Scalar) -> Tensor:
        return emit(relax_op.add, "add", self, other)

    def __radd__(self, other: Scalar) -> Tensor:
        return emit(relax_op.add, "add", other, self)

    def __sub__(self, other: Tensor | Scalar) -> Tensor:
        return emit(relax_op.subtract, "subtract", self, other)

    def __rsub__(self, other: Scalar) -> Tensor:
        return emit(relax_op.subtract, "subtract", other, self)

    def __mul__(self, other: Tensor | Scalar) -> Tensor:
        return emit(relax_op.multiply, "mul", self, other)

    def __rmul__(self, other: Scalar) -> Tensor:
        return emit(relax_op.multiply, "mul", other, self)

    def __truediv__(self, other: Tensor | Scalar) -> Tensor:
        return emit(relax_op.divide, "divide", self, other)

    def __rtruediv__(self, other: Scalar) -> Tensor:
        return emit(relax_op.divide, "divide", other, self)

    def __floordiv__(self, other: Tensor | Scalar) -> Tensor:
        return emit(relax_op.floor_divide, "floor_divide", self, other)

    def __mod__(self, other: Tensor | Scalar) -> Tensor:
        return emit(relax_op.mod, "mod", self, other)

    def __pow__(self, other: Tensor | Scalar) -> Tensor:
        return emit(relax_op.power, "power", self, other)

    def __matmul__(self, other: Tensor) -> Tensor:
        return emit(relax_op.matmul, "matmul", self, other)

    def __neg__(self) -> Tensor:
        return emit(relax_op.negative, "neg", self)

    def __lt__(self, other: Tensor | Scalar) -> Tensor:
        return emit(relax_op.less, "less", self, other)

    def __le__(self, other: Tensor | Scalar) -> Tensor:
        return emit(relax_op.less_equal, "less_equal", self, other)

    def __gt__(self, other: Tensor | Scalar) -> Tensor:
        return emit(relax_op.greater, "greater", self, other)

    def __ge__(self, other: Tensor | Scalar) -> Tensor:
        return emit(relax_op.greater_equal, "greater_equal", self, other)

    def astype(self, dtype: str) -> Tensor:
        """Return the elements converted; the tensor itself if it has this dtype."""
        return self if dtype == self.dtype else emit(relax_op.astype, "astype", self, dtype)

    def maximum(self, other: Tensor | Scalar) -> Tensor:
        """Return the greater of each two elements."""
        return emit(relax_op.maximum, "maximum", self, other)

    def minimum(self, other: Tensor | Scalar) -> Tensor:
        """Return the smaller of each two elements."""
        return emit(relax_op.minimum, "minimum", self, other)

    def reshape(self, *shape: Any) -> Tensor:
        """Return the elements in another shape, given as sizes or as one sequence; -1 stands for what remains."""
        return emit(relax_op.reshape, "reshape", self, _sequence(shape))

    def permute_dims(self, *axes: Any) -> Tensor:
        """Return the tensor with its dimensions in the order `axes`; without axes, in reverse order."""
        return emit(relax_op.permute_dims, "permute_dims", self, _sequence(axes) if axes else None)

    def repeat(self, repeats: int, axis: int | None = None) -> Tensor:
        """Return each element `repeats` times, along an axis or in one dimension."""
        return emit(relax_op.repeat, "repeat", self, repeats, axis)

    def expand(self, *shape: Any) -> Tensor:
        """Return the tensor broadcast to a shape."""
        return emit(relax_op.broadcast_to, "broadcast_to", self, _sequence(shape))


class Object:
    """Value of a program that is no tensor, such as a cache: a variable with ObjectStructInfo.

    Subclasses add methods that emit calls on it (`relax.frontend.nn.llm.PagedKVCache`); `spec.Object(object_type=…)`
    makes one of a parameter. An expression that is no variable is emitted under the name `_name`.
    """

    _expr: Var

    def __init__(self, *, _expr: RelaxExpr, _name: str) -> None:
        self._expr = _expr if isinstance(_expr, Var) else current_builder().emit(_expr, _name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._expr.name_hint})"


# ------------------------------------------------------------------------------------ emitting


def current_builder() -> BlockBuilder:
    """Return the BlockBuilder of the open function. Raises RuntimeError outside of any."""
    builder = BlockBuilder.current()
    if builder is None:
        raise RuntimeError(
            "operators on nn.Tensor add to a program, and none is being built: call them in a method of a module "
            "that export_tvm or jit is given, or inside `with bb.function(name, params):`"
        )
    return builder


def emit(function: Callable[..., RelaxExpr], name: str, *args: Any, **kwargs: Any) -> Any:
    """Emit a call of an operator, and return its result as `wrap_nested` does.

    Tensors and Objects among the arguments, also inside sequences, become their expressions.
    Raises DiagnosticError at the user's line if the operands do not fit, RuntimeError without an open function.
    """
    current_builder()
    arguments = [unwrap(arg) for arg in args]
    named = {key: unwrap(arg) for key, arg in kwargs.items()}
    return at_user(lambda: wrap_nested(function(*arguments, **named), name))


def at_user(action: Callable[[], Any]) -> Any:
    """Return the result of `action`; its diagnostics without a span get that of the user's line."""
    try:
        return action()
    except DiagnosticError as error:
        raise error.placed(user_span(*_FILES)) from None


def wrap_nested(expr: RelaxExpr, name: str) -> Any:
    """Bind an expression to a variable called `name`, and return it as nn's values.

    A tensor becomes a Tensor, a tuple a tuple of its fields, any other object an Object. A shape of rank alone is
    matched to new shape variables, so that `Tensor.shape` is known. Raises TypeError for other kinds of values.
    """
    if isinstance(expr, Constant):
        return Tensor(_expr=expr)
    if not isinstance(expr, Var):
        builder = current_builder()
        placed = at_span(expr, user_span(*_FILES)) if isinstance(expr, Call) and expr.span is None else expr
        expr = sized(builder, builder.emit(placed, name), _new_dims, lambda field: builder.emit(field, name))
    info = known_struct_info(expr)
    match info:
        case TensorStructInfo():
            return Tensor(_expr=expr)
        case TupleStructInfo(fields):
            return tuple(wrap_nested(_field(expr, index), f"{name}_{index}") for index in range(len(fields)))
        case ObjectStructInfo():
            return Object(_expr=expr, _name=name)
        case _:
            kind = "unknown struct info" if info is None else type(info).__name__
            raise TypeError(f"{name}: a value with {kind} has no form among nn's values")


def _field(expr: RelaxExpr, index: int) -> RelaxExpr:
    return expr.fields[index] if isinstance(expr, Tuple) else TupleGetItem(expr, index)


def _new_dims(info: TensorStructInfo) -> list[PrimExpr]:
    return [PrimVar(f"d{index}", "int64") for index in range(info.ndim)]


def unwrap(value: Any) -> Any:
    """Return a value with the expressions of its Tensors and Objects, inside lists, tuples and dicts too."""
    match value:
        case Tensor() | Object():
            return value._expr  # pyright: ignore[reportPrivateUsage] (TVM's name)
        case NDArray() | np.ndarray():
            return const(value)
        case list() | tuple():
            items: list[Any] = [unwrap(item) for item in cast("Sequence[Any]", value)]
            return items if isinstance(value, list) else tuple(items)
        case dict():
            return {key: unwrap(item) for key, item in cast("dict[Any, Any]", value).items()}
        case _:
            return value


def returned(value: Any) -> RelaxExpr:
    """Return the expression of what a method returned: Tensors, Objects, sizes, and sequences of these.

    Raises TypeError for anything else.
    """
    match value:
        case Tensor() | Object():
            return value._expr  # pyright: ignore[reportPrivateUsage] (TVM's name)
        case RelaxExpr() if is_leaf(value):
            return value
        case list() | tuple():
            return Tuple([returned(item) for item in cast("Sequence[Any]", value)])
        case PrimExpr() | bool() | int():
            return PrimValue(value)
        case _:
            raise TypeError(
                f"a method returned {type(value).__name__}; it may return Tensors, Objects, and tuples of them"
            )


# ------------------------------------------------------------------------------------ shapes and dtypes


def dims_of(shape: Sequence[DimLike], names: dict[str, PrimVar]) -> list[PrimExpr | int]:
    """Return the sizes of a shape; a string is the shape variable of this name in `names`, added if it is missing.

    Raises TypeError for other values, ValueError for negative sizes.
    """
    return [_dim(size, names) for size in shape]


def _dim(size: Any, names: dict[str, PrimVar]) -> PrimExpr | int:
    match size:
        case str():
            return names.setdefault(size, PrimVar(size, "int64"))
        case bool():
            pass
        case int() | np.integer():
            number = operator.index(cast(int, size))
            if number < 0:
                raise ValueError(f"a size must not be negative, found {number}")
            return number
        case PrimExpr():
            return size
        case _:
            pass
    raise TypeError(f"a size must be an int, the name of a shape variable, or an expression, found {size!r}")


def _sequence(values: tuple[Any, ...]) -> Any:
    first: Any = values[0] if len(values) == 1 else None
    return cast(Any, first) if isinstance(first, (list, tuple)) else values


class _Default:
    dtype: str = "float32"


def get_default_dtype() -> str:
    """Return the dtype of parameters that are made without one: "float32" at first."""
    return _Default.dtype


def set_default_dtype(dtype: str) -> None:
    """Set the dtype of parameters that are made without one. Raises ValueError for a name of no dtype."""
    TensorStructInfo((), dtype)
    _Default.dtype = dtype


def struct_info_of(value: Any) -> StructInfo | Any:
    """Return the struct info of Tensors, Objects and expressions, in sequences of the form of `value`."""
    if isinstance(value, (list, tuple)):
        return TupleStructInfo([struct_info_of(item) for item in cast("Sequence[Any]", value)])
    expr = unwrap(value)
    return known_struct_info(expr) if isinstance(expr, RelaxExpr) else expr
