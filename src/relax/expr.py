"""Expressions of Relax (language.md §1).

Expr    ::= Constant | Var | DataflowVar | GlobalVar | Tuple | ShapeExpr | PrimValue | StringImm | DataTypeImm
          | SeqExpr(blocks, body) | Function(params, body, ret_struct_info?, is_pure, attrs)
          | If(cond, true_branch, false_branch) | Call(op, args, attrs?, sinfo_args) | ExternFunc(global_symbol)
          | TupleGetItem(tuple_value, index) | Op(name)
Block   ::= BindingBlock(bindings) | DataflowBlock(bindings)
Binding ::= VarBinding(var, value) | MatchCast(var, value, struct_info)
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, cast, final

import numpy as np
import tvm_ffi

from .ir import (
    BaseFunc,
    DataType,
    GlobalVar,
    Node,
    Op,
    RelaxExpr,
    Span,
    StoredArray,
    StructInfo,
    binder,
    child,
    label,
    node,
    set_slot,
    walk,
)
from .ir.expr import register_global_call
from .prim import expr as prim
from .runtime import nd
from .runtime.dtypes import dtype_of_numpy
from .runtime.rounding import convert_array, exact_array
from .runtime.tensor import copy_of_numpy, numpy_view, tensor_under

Expr = RelaxExpr
"""Base class of all expressions; GlobalVar, Op, PrimFunc and Function are expressions too."""


class ExprWithOp(RelaxExpr):
    """An expression with Python operators, which build Relax operators."""

    __slots__ = ()

    def __call__(self, *args: Any, attrs: Node | None = None) -> Call:
        """Build a call of this value."""
        return Call(self, args, attrs)

    def __getitem__(self, index: Any) -> TupleGetItem:
        """Field of a tuple. Raises IndexError past the end of a tuple of known length."""
        position = operator.index(index)
        fields = getattr(self.struct_info_, "fields", None)
        if fields is not None and not -len(fields) <= position < len(fields):
            raise IndexError(f"tuple index {position} is out of range for a tuple of {len(fields)} fields")
        if fields is not None and position < 0:
            position += len(fields)
        return TupleGetItem(self, position)

    def __iter__(self) -> Iterator[TupleGetItem]:
        """Iterate over the fields of a tuple of known length, for unpacking. Raises TypeError for other values."""
        fields = getattr(self.struct_info_, "fields", None)
        if fields is None:
            raise TypeError(
                "a Relax expression can only be unpacked if it is known to be a tuple, and of how many fields"
            )
        return iter([TupleGetItem(self, i) for i in range(len(fields))])

    def astype(self, dtype: str) -> ExprWithOp:
        return operator_hook("astype")(self, dtype)

    def __neg__(self) -> ExprWithOp:
        return operator_hook("negative")(self)

    def __add__(self, other: Any) -> ExprWithOp:
        return operator_hook("add")(self, other)

    def __radd__(self, other: Any) -> ExprWithOp:
        return operator_hook("add")(other, self)

    def __sub__(self, other: Any) -> ExprWithOp:
        return operator_hook("subtract")(self, other)

    def __rsub__(self, other: Any) -> ExprWithOp:
        return operator_hook("subtract")(other, self)

    def __mul__(self, other: Any) -> ExprWithOp:
        return operator_hook("multiply")(self, other)

    def __rmul__(self, other: Any) -> ExprWithOp:
        return operator_hook("multiply")(other, self)

    def __truediv__(self, other: Any) -> ExprWithOp:
        return operator_hook("divide")(self, other)

    def __rtruediv__(self, other: Any) -> ExprWithOp:
        return operator_hook("divide")(other, self)

    def __floordiv__(self, other: Any) -> ExprWithOp:
        return operator_hook("floor_divide")(self, other)

    def __rfloordiv__(self, other: Any) -> ExprWithOp:
        return operator_hook("floor_divide")(other, self)

    def __mod__(self, other: Any) -> ExprWithOp:
        return operator_hook("mod")(self, other)

    def __pow__(self, other: Any) -> ExprWithOp:
        return operator_hook("power")(self, other)

    def __rpow__(self, other: Any) -> ExprWithOp:
        return operator_hook("power")(other, self)

    def __lt__(self, other: Any) -> ExprWithOp:
        return operator_hook("less")(self, other)

    def __le__(self, other: Any) -> ExprWithOp:
        return operator_hook("less_equal")(self, other)

    def __gt__(self, other: Any) -> ExprWithOp:
        return operator_hook("greater")(self, other)

    def __ge__(self, other: Any) -> ExprWithOp:
        return operator_hook("greater_equal")(self, other)

    def __matmul__(self, other: Any) -> ExprWithOp:
        return operator_hook("matmul")(self, other)


_OPERATORS: dict[str, Callable[..., ExprWithOp]] = {}
_HOMES: Final = {
    "bind_params": "relax.transform.bind_params",
    "bind_symbolic_vars": "relax.transform.bind_symbolic_vars",
}
"""Modules that register operator hooks here when they are imported; `relax.op.hooks` registers all others."""


def register_operator_hooks(functions: Mapping[str, Callable[..., ExprWithOp]]) -> None:
    """Register the functions that build ``+``, ``-``, …; called by the operator package, which imports this module."""
    _OPERATORS.update(functions)


def operator_hook(name: str) -> Callable[..., ExprWithOp]:
    """Function registered for a Python operator or for a method that is a pass; loads its package."""
    if name not in _OPERATORS:
        importlib.import_module(_HOMES.get(name, "relax.op.hooks"))
    return _OPERATORS[name]


class Leaf(ExprWithOp):
    """An expression that determines its own struct info, which is computed at the first access."""

    __slots__ = ()

    @property
    def struct_info(self) -> StructInfo:
        """Struct info. Raises ValueError while that of a part is unknown."""
        info = self.struct_info_
        return info if info is not None else super().struct_info

    @property
    def struct_info_(self) -> StructInfo | None:
        """Struct info, None while that of a part is unknown."""
        info: StructInfo | None = getattr(self, "_struct_info", None)
        if info is None:
            info = _leaf_struct_info(self)
            if info is not None:
                set_slot(self, "_struct_info", info)
        return info

    def __extra_state__(self) -> Any:
        return None


def _load_leaf_struct_info(leaf: Leaf) -> StructInfo | None:
    """Initial hook, which loads the module that registers the function."""
    importlib.import_module("relax.struct_info")
    return _leaf_struct_info(leaf)


_leaf_struct_info: Callable[[Leaf], StructInfo | None] = _load_leaf_struct_info


def register_leaf_struct_info(function: Callable[[Leaf], StructInfo | None]) -> None:
    """Register the function that computes a leaf's struct info; the struct info classes import this module."""
    global _leaf_struct_info
    _leaf_struct_info = function


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """Convert a scalar, list, array, or tensor with `numpy()` to a NumPy array."""
    source: Any = value
    if not isinstance(value, np.ndarray) and hasattr(value, "numpy"):
        source = value.numpy()
    array: np.ndarray[Any, Any] = np.asarray(source)
    return array


@final
class ConstantData(np.ndarray[Any, Any]):
    """Elements of a constant: a NumPy array with the method ``.numpy()`` of tensors."""

    def numpy(self) -> np.ndarray[Any, Any]:
        """Elements as a plain NumPy array, without a copy."""
        return np.asarray(cast(Any, self))


def _array(value: Any) -> ConstantData:
    """Read-only array with a dtype of the language; elements in a file stay there."""
    if isinstance(value, StoredArray):
        return cast(Any, value)
    if isinstance(value, ConstantData) and not value.flags.writeable:
        return value
    array: np.ndarray[Any, Any] = as_array(value)
    DataType(array.dtype.name)
    # The owner of a read-only view's memory may still write to it.
    if array.flags.writeable or array.base is not None:
        if array.nbytes < _LARGE or array.dtype.hasobject or not array.dtype.isnative:
            array = np.array(array)
        else:  # in memory that the program which is built can go on using
            array = numpy_view(copy_of_numpy(array, dtype_of_numpy(array.dtype)))
        array.flags.writeable = False
    return cast(Any, array).view(ConstantData)


_LARGE: Final = 1 << 12
"""Size in bytes from which a constant's elements are kept in tensor memory."""


@final
@node
class Constant(Leaf):
    """A tensor constant; `data` is a read-only NumPy array (of an ml_dtypes type where NumPy has none).

    Built from an array, or from a `StoredArray`, whose elements are read at each access of `data`; use `content` for
    the shape or the number of bytes.
    """

    data: ConstantData = child(converter=_array)

    @property
    def content(self) -> ConstantData | StoredArray:
        """Array, or location in a file, of the elements."""
        return _CONTENT.__get__(self)

    @property
    def dtype(self) -> DataType:
        return DataType(self.content.dtype.name)

    def replace(self, **changes: Any) -> Constant:
        """Copy with some fields changed; elements in a file stay there."""
        content, span = changes.pop("data", self.content), changes.pop("span", self.span)
        if content is self.content and span is self.span and not changes:
            return self
        return Constant(content, span=span, **changes)

    @property
    def tensor(self) -> tvm_ffi.Tensor:
        """Elements as a read-only tensor: their own memory if that is a tensor's, otherwise a copy."""
        content = self.content
        if isinstance(content, StoredArray):
            return content.tensor()
        own = tensor_under(content)
        return nd.array(content).tensor if own is None else own


def constant_of(array: np.ndarray[Any, Any]) -> Constant:
    """Constant of an array that is not modified any more: shares tensor memory, copies any other."""
    if tensor_under(array) is None:
        return Constant(array)
    array.flags.writeable = False
    return Constant(cast(Any, array).view(ConstantData))


_CONTENT: Final[Any] = Constant.__dict__["data"]
"""Slot of a constant's elements, read through `data`."""


def _data(constant: Constant) -> ConstantData:
    content = constant.content
    return cast(Any, content.array()).view(ConstantData) if isinstance(content, StoredArray) else content


def _field(constant: Constant, name: str) -> Any:
    return constant.content if name == "data" else getattr(constant, name)


type.__setattr__(Constant, "data", property(_data, _CONTENT.__set__, doc="The elements, as a read-only NumPy array."))
type.__setattr__(Constant, "__content__", staticmethod(_field))


@node
class Var(ExprWithOp):
    """A variable, compared by identity, not by name.

    `annotation` is the declared struct info; `struct_info` the declared or derived one.
    """

    __is_variable__: ClassVar[bool] = True

    name_hint: str = label()
    annotation: StructInfo | None = label(default=None, alias="struct_info")

    def __post_init__(self) -> None:
        if self.annotation is not None:
            set_slot(self, "_struct_info", self.annotation)

    def __variable_facts__(self) -> tuple[Any, ...]:
        return (self.struct_info_,)


@final
@node
class DataflowVar(Var):
    """A variable seen only inside the dataflow block that binds it."""


def _exprs(values: Iterable[Any]) -> tuple[RelaxExpr, ...]:
    return tuple([value if isinstance(value, RelaxExpr) else convert(value) for value in values])


@final
@node
class Tuple(Leaf):
    """An immutable, fixed-length grouping of values."""

    fields: tuple[RelaxExpr, ...] = child(converter=_exprs)

    def __getitem__(self, index: int) -> Any:  # type: ignore[override]
        """Return the field itself, without a TupleGetItem."""
        return self.fields[index]

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        """Iterate over the fields themselves."""
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)


@final
@node
class ShapeExpr(Leaf):
    """A shape value; its dimensions are expressions over shape variables in scope."""

    values: tuple[prim.PrimExpr, ...] = child(converter=prim.dimensions)

    def __getitem__(self, index: int) -> Any:  # type: ignore[override]
        """Return the dimension itself."""
        return self.values[index]

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        """Iterate over the dimensions themselves."""
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)


def _prim_value(value: Any) -> prim.PrimExpr:
    """Convert a scalar; Python ints become int64 and floats float64, as at run time."""
    if isinstance(value, (bool, np.bool_)):
        return prim.const(value, "bool")
    if isinstance(value, int):
        return prim.const(value, "int64")
    if isinstance(value, float):
        return prim.const(value, "float64")
    return prim.convert(value)


@final
@node
class PrimValue(Leaf):
    """An immutable scalar."""

    value: prim.PrimExpr = child(converter=_prim_value)


@final
@node
class StringImm(Leaf):
    """A string."""

    value: str


@final
@node
class DataTypeImm(Leaf):
    """A dtype as a value."""

    value: DataType = child(converter=DataType)


@final
@node
class ExternFunc(BaseFunc, Leaf):
    """A packed function, looked up by name at run time; a module may bind it to a name of its own."""

    global_symbol: str

    @property
    def attrs(self) -> dict[str, Any]:
        """No attributes: an extern function is not defined by the program."""
        return {}

    def _with_attrs(self, attrs: dict[str, Any]) -> Any:
        raise TypeError(f"the packed function {self.global_symbol!r} has no attributes")


def _op(value: Any) -> RelaxExpr:
    return Op.get(value) if isinstance(value, str) else value


@final
@node
class Call(ExprWithOp):
    """A call of an operator, a function value, or a packed function.

    `attrs` is the operator's instance; `sinfo_args` is used by intrinsics for the struct info of their results.
    """

    op: RelaxExpr = child(converter=_op)
    args: tuple[RelaxExpr, ...] = child(converter=_exprs)
    attrs: Node | None = child(default=None)
    sinfo_args: tuple[StructInfo, ...] = child(default=(), converter=lambda v: tuple(v or ()))


@final
@node
class If(ExprWithOp):
    """A conditional: one of two branches is evaluated, selected by the bool scalar `cond`."""

    cond: RelaxExpr
    true_branch: RelaxExpr
    false_branch: RelaxExpr


@final
@node
class TupleGetItem(ExprWithOp):
    """Field `index` of a tuple."""

    tuple_value: RelaxExpr
    index: int


class Binding(Node):
    """Base class of bindings."""

    __slots__ = ()

    var: Var
    value: RelaxExpr


@final
@node
class VarBinding(Binding):
    """``var = value``"""

    var: Var = binder()
    value: RelaxExpr


@final
@node
class MatchCast(Binding):
    """``var = match_cast(value, struct_info)``: check at run time, and bind the new shape variables.

    In the language `var` is optional; a cast used only as a check binds an unused variable.
    """

    var: Var = binder()
    value: RelaxExpr
    struct_info: StructInfo = binder()

    def __post_init__(self) -> None:
        bind_dimensions(self.struct_info)


@node
class BindingBlock(Node):
    """A block of bindings, evaluated in order."""

    bindings: tuple[Binding, ...] = child(converter=tuple)


@final
@node
class DataflowBlock(BindingBlock):
    """A pure, straight-line graph of bindings."""


@final
@node
class SeqExpr(ExprWithOp):
    """A sequence: blocks evaluated in order, then the value of the body."""

    blocks: tuple[BindingBlock, ...] = child(converter=tuple)
    body: RelaxExpr


def _attrs(value: Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(value or {})


@final
@node
class Function(BaseFunc, ExprWithOp):
    """A function: bound to a GlobalVar, or a literal that evaluates to a closure."""

    params: tuple[Var, ...] = binder(converter=tuple)
    body: RelaxExpr
    ret_struct_info: StructInfo | None = child(default=None)
    is_pure: bool = child(default=True)
    attrs: dict[str, Any] = child(default=None, converter=_attrs)

    def __post_init__(self) -> None:
        for param in self.params:
            if param.struct_info_ is not None:
                bind_dimensions(param.struct_info_)

    @staticmethod
    def create_empty(
        params: Iterable[Var],
        ret_struct_info: StructInfo,
        is_pure: bool = True,
        attrs: Mapping[str, Any] | None = None,
        span: Span | None = None,
    ) -> Function:
        """A function whose body is the empty tuple, for use as a signature."""
        return Function(params, SeqExpr((), Tuple(())), ret_struct_info, is_pure, attrs, span=span)

    def bind_params(self, binding_map: Mapping[Any, Any]) -> Function:
        """Return the function with parameters, by name or Var, replaced by values (see transform.BindParams)."""
        bound: Any = operator_hook("bind_params")(self, binding_map)
        return bound

    def bind_symbolic_vars(self, binding_map: Mapping[Any, Any]) -> Function:
        """Return the function with shape variables replaced by sizes (see transform.BindSymbolicVars)."""
        bound: Any = operator_hook("bind_symbolic_vars")(self, binding_map)
        return bound


def bind_dimensions(struct_info: StructInfo) -> None:
    """Record that shape variables used alone as a dimension of an annotation are sizes, hence ≥ 0."""

    def visit(item: Node) -> bool:
        values: Any = getattr(item, "values", None)
        if not isinstance(values, tuple):
            return True
        for value in values:  # type: ignore[reportUnknownVariableType]
            if isinstance(value, prim.Var):
                prim.mark_nonnegative(value)
        return False

    walk(struct_info, visit)


def const(value: Any, dtype: str | None = None) -> Constant:
    """A tensor constant from a scalar, (nested) list, array or tensor.

    As in TVM, Python floats become float32 and ints int32 unless `dtype` is set. A number is rounded to nearest in
    `dtype` (65505 to 65504 in float16) and raises ValueError if out of range; an array is cast.
    """
    if dtype is not None:
        kind = DataType(dtype)
        source = exact_array(value) if isinstance(value, (list, tuple)) else as_array(value)  # type: ignore[reportUnknownArgumentType]
        try:
            array = convert_array(source, kind.numpy())
        except OverflowError:
            raise ValueError(f"const: {value!r} is out of the range of {dtype}") from None
        if isinstance(value, (int, float, list, tuple)) and not _in_range(source, array):
            raise ValueError(f"const: {value!r} is out of the range of {dtype}")
        return Constant(array)
    if isinstance(value, (bool, int, float, list, tuple)):
        array = as_array(value)  # type: ignore[reportUnknownArgumentType]
        narrow = {"float64": "float32", "int64": "int32"}.get(array.dtype.name)
        if narrow == "int32" and array.size and not (array.min() >= -(2**31) and array.max() < 2**31):
            narrow = None
        if narrow == "float32":
            array = exact_array(value)  # type: ignore[reportUnknownArgumentType]
        return Constant(array if narrow is None else convert_array(array, narrow))
    return Constant(value)


def _in_range(source: np.ndarray[Any, Any], array: np.ndarray[Any, Any]) -> bool:
    """True if `array` represents the numbers of `source`, exactly or rounded to nearest."""
    target = DataType(array.dtype.name)
    if target.is_integer and source.dtype.kind == "O":  # numbers of more than 64 bits, or of both signs
        return [int(number) for number in source.ravel().tolist()] == array.ravel().tolist()
    if target.is_integer and source.dtype.kind in "iu":
        return bool(np.all(source == array.astype(object)))
    if target.is_float and target.saturates:
        return bool(np.all(np.abs(source.astype(np.float64)) <= target.max_finite))
    if target.is_float and source.dtype.kind in "fO":
        return bool(np.all(np.isfinite(array.astype(np.float64)) | ~np.isfinite(source.astype(np.float64))))
    return True


def extern(name: str) -> ExternFunc:
    """Reference the packed function of this name."""
    return ExternFunc(name)


def convert(value: Any) -> RelaxExpr:
    """Convert a user's argument to a Relax expression.

    Expressions pass; tuples and lists become Tuple; str StringImm; bool, int, float and PrimExpr PrimValue; arrays
    Constant. Raises TypeError for anything else.
    """
    match value:
        case RelaxExpr():
            return value
        case tuple() | list():
            return Tuple(_exprs(value))  # type: ignore[reportUnknownArgumentType]
        case DataType():
            return DataTypeImm(value)
        case str():
            return StringImm(value)
        case bool() | int() | float() | prim.PrimExpr():
            return PrimValue(value)
        case np.ndarray() | np.generic():
            return Constant(value)
        case _:
            if hasattr(value, "__dlpack__") and hasattr(value, "numpy"):
                return Constant(value)
            if callable(value) and hasattr(value, "__name__"):
                raise TypeError(f"{value.__name__} is used as a value; rule 9: an operator is only called")
            raise TypeError(f"expected a Relax expression, found {type(value).__name__}")


def is_leaf(expr: RelaxExpr) -> bool:
    """True if an expression is a leaf of the normal form (language.md §4)."""
    match expr:
        case Tuple(fields):
            return all(is_leaf(field) for field in fields)
        case (
            Constant()
            | Var()
            | GlobalVar()
            | ShapeExpr()
            | PrimValue()
            | StringImm()
            | DataTypeImm()
            | ExternFunc()
            | Op()
        ):
            return True
        case _:
            return False


register_global_call(lambda global_var, args: Call(global_var, args))  # type: ignore[reportUnknownLambdaType]
