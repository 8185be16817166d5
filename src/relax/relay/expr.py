"""The expressions of Relay.

    Expr    ::= Constant(data) | Var(name_hint, type_annotation?) | GlobalVar(name_hint) | Op(name)
              | Constructor(name_hint, inputs, belong_to)
              | Tuple(fields) | TupleGetItem(tuple_value, index)
              | Function(params, body, ret_type?, type_params, type_constraints, attrs)
              | Call(op, args, attrs?, type_args)
              | Let(var, value, body) | If(cond, true_branch, false_branch)
              | Match(data, clauses, complete)
              | RefCreate(value) | RefRead(ref) | RefWrite(ref, value)
              | TempExpr
    Clause  ::= (Pattern, Expr)
    Pattern ::= PatternWildcard | PatternVar(var) | PatternConstructor(constructor, patterns) | PatternTuple(patterns)

`GlobalVar` and `Op` are those of `ir`. Constructor, Match and patterns are in `adt`.

An expression is a graph: a shared node is evaluated once (the document's *graph bindings*, in text ``%1 = …;``), in the
innermost scope that encloses all its uses. Scopes are the body of a function, a branch of an `If`, the right side of a
clause, and the body of a `Let`. A `Let` names a value explicitly: its variable is in scope in its body, and in its
value if that is a Function. Variables are identified by object: each binding has its own `Var`, and names are for
display only.

Nodes are immutable. `checked_type` is set once, by type inference (`update_checked_type`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast, final

from .. import expr as relax_expr
from ..expr import ConstantData
from ..ir import BaseFunc, DataType, GlobalVar, Node, Op, RelaxExpr, Span, binder, child, label, node, set_slot
from ..ir.expr import register_global_call
from .attrs import Attrs
from .printing import RelayNode
from .types import TensorType, Type, TypeRelation, TypeVar

Expr = RelaxExpr
"""Base class of all expressions, including GlobalVar and Op."""


class RelayExpr(RelaxExpr, RelayNode):
    """Base class of Relay's own expressions."""

    __slots__ = ("_checked_type",)

    _checked_type: Type

    @property
    def checked_type(self) -> Type:
        """Inferred type. Raises ValueError before type inference."""
        try:
            return self._checked_type
        except AttributeError:
            raise ValueError(
                f"the type of this {type(self).__name__} has not been inferred yet; run relay.transform.InferType()"
            ) from None

    @property
    def checked_type_(self) -> Type | None:
        """Inferred type, or None before type inference."""
        return getattr(self, "_checked_type", None)

    def __extra_state__(self) -> Any:
        return self.checked_type_

    def __setstate__(self, state: Any) -> None:
        if state is not None:
            set_slot(self, "_checked_type", state)


def update_checked_type(expr: RelayExpr, checked_type: Type) -> None:
    """Set the type of an expression. For type inference only."""
    set_slot(expr, "_checked_type", checked_type)


class ExprWithOp(RelayExpr):
    """Expression with Python operators, which build calls of Relay operators, and call syntax.

    The other operand must be an expression: a number has no dtype, ``relay.const(1, "int8")`` has. Raises TypeError.
    """

    __slots__ = ()

    def __call__(self, *args: Expr) -> Call:
        """Return a call of this value."""
        return Call(self, args)

    def astype(self, dtype: str) -> Call:
        """Return this tensor cast to a dtype: ``cast(%x, dtype="int8")``."""
        return Call(Op.get("cast"), (self,), Attrs({"dtype": DataType(dtype)}))

    def __neg__(self) -> Call:
        return Call(Op.get("negative"), (self,))

    def __add__(self, other: Any) -> Call:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Call:
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> Call:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Call:
        return _binary("subtract", other, self)

    def __mul__(self, other: Any) -> Call:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Call:
        return _binary("multiply", other, self)

    def __truediv__(self, other: Any) -> Call:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> Call:
        return _binary("divide", other, self)

    def __floordiv__(self, other: Any) -> Call:
        return _binary("floor_divide", self, other)

    def __mod__(self, other: Any) -> Call:
        return _binary("mod", self, other)

    def __pow__(self, other: Any) -> Call:
        return _binary("power", self, other)

    def __lt__(self, other: Any) -> Call:
        return _binary("less", self, other)

    def __le__(self, other: Any) -> Call:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Call:
        return _binary("greater", self, other)

    def __ge__(self, other: Any) -> Call:
        return _binary("greater_equal", self, other)


def _binary(name: str, lhs: Any, rhs: Any) -> Call:
    for operand in (lhs, rhs):
        if not isinstance(operand, RelaxExpr):
            raise TypeError(
                f"{name}: {operand!r} is a {type(operand).__name__}, not a Relay expression; "
                "make it a constant with `relay.const`"
            )
    return Call(Op.get(name), (lhs, rhs))


def _array(value: Any) -> ConstantData:
    if isinstance(value, ConstantData) and not value.flags.writeable:
        return value
    return relax_expr.Constant(value).data


@final
@node
class Constant(ExprWithOp):
    """Tensor constant; `data` is a read-only NumPy array (of an ml_dtypes type if NumPy has none)."""

    data: ConstantData = child(converter=_array)

    @property
    def type(self) -> TensorType:
        """Static tensor type of the data."""
        return TensorType(self.data.shape, self.data.dtype.name)

    @property
    def is_scalar(self) -> bool:
        return self.data.ndim == 0


@final
@node
class Var(ExprWithOp):
    """Local variable, ``%x``, identified by the object: bound as a parameter, by a `Let` or by a pattern."""

    __is_variable__: ClassVar[bool] = True

    name_hint: str = label()
    type_annotation: Type | None = child(default=None)


def _exprs(values: Iterable[Any] | None) -> tuple[Expr, ...]:
    return tuple(cast("Iterable[Expr]", values or ()))


@final
@node
class Tuple(ExprWithOp):
    """A tuple: ``(%a, %b)``; ``()`` is the unit value, and ``(%a,)`` a tuple of one field."""

    fields: tuple[Expr, ...] = child(default=(), converter=_exprs)

    def __getitem__(self, index: int) -> Expr:
        """Return the field expression."""
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)


@final
@node
class TupleGetItem(ExprWithOp):
    """Field of a tuple, by its index from 0: ``%t.0``."""

    tuple_value: Expr
    index: int

    def __post_init__(self) -> None:
        if isinstance(self.index, bool) or not isinstance(self.index, int) or self.index < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"TupleGetItem: the index is a number from 0, found {self.index!r}")


def _dict(value: Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(value or {})


@final
@node
class Function(BaseFunc, ExprWithOp):
    """Function: ``fn<a>(%x: a) -> a where R { %x }``; it evaluates to a closure.

    `type_params` are in scope in the parameter types and the body. `type_constraints` must hold at every call. `attrs`
    are annotations for the compiler, such as ``Primitive=1``.
    """

    type_params: tuple[TypeVar, ...] = binder(converter=lambda v: tuple(v or ()))
    params: tuple[Var, ...] = binder(converter=tuple)
    ret_type: Type | None
    type_constraints: tuple[TypeRelation, ...] = child(converter=lambda v: tuple(v or ()))
    body: Expr
    attrs: dict[str, Any] = child(default=None, converter=_dict)  # pyright: ignore[reportIncompatibleMethodOverride]

    def __init__(
        self,
        params: Iterable[Var],
        body: Expr,
        ret_type: Type | None = None,
        type_params: Iterable[TypeVar] | None = None,
        attrs: Mapping[str, Any] | None = None,
        span: Span | None = None,
        *,
        type_constraints: Iterable[TypeRelation] | None = None,
    ) -> None:
        self.__fields_init__(type_params, params, ret_type, type_constraints, body, attrs, span=span)


def _callee(value: Any) -> Expr:
    return Op.get(value) if isinstance(value, str) else value


@final
@node
class Call(ExprWithOp):
    """Call of a closure, a global function, an operator or a constructor: ``%f<Tensor[(), int32]>(%x)``.

    `attrs` are the attributes of an operator call, or None; `type_args` instantiate the callee's type parameters, and
    are empty if type inference is to determine them.
    """

    op: Expr = child(converter=_callee)
    args: tuple[Expr, ...] = child(default=(), converter=_exprs)
    attrs: Attrs | None = child(default=None)
    type_args: tuple[Type, ...] = child(default=(), converter=lambda v: tuple(v or ()))


@final
@node
class Let(ExprWithOp):
    """``let %x = value; body``. Long chains nest in `body`; no traversal recurses along them."""

    var: Var = binder()
    value: Expr
    body: Expr


@final
@node
class If(ExprWithOp):
    """``if (cond) { … } else { … }``: one of two branches, as the scalar bool `cond` says."""

    cond: Expr
    true_branch: Expr
    false_branch: Expr


@final
@node
class RefCreate(ExprWithOp):
    """``ref(value)``: creates a reference that holds the value."""

    value: Expr


@final
@node
class RefRead(ExprWithOp):
    """``ref_read(r)``: the current value of the reference."""

    ref: Expr


@final
@node
class RefWrite(ExprWithOp):
    """``ref_write(r, value)``: replaces the value of the reference; evaluates to ``()``."""

    ref: Expr
    value: Expr


class TempExpr(ExprWithOp):
    """Base class of temporary expressions, which a pass creates and eliminates before it ends.

    A subclass is a node with its own fields and `realize`. It has no parseable text, no type and no value.
    """

    __slots__ = ()

    def realize(self) -> Expr:
        """Return the ordinary expression that this one represents."""
        raise NotImplementedError


def var(
    name_hint: str,
    type_annotation: Type | str | None = None,
    shape: Iterable[Any] | None = None,
    dtype: str = "float32",
    span: Span | None = None,
) -> Var:
    """Create a variable: ``var("x", shape=(2, 3), dtype="int8")``, ``var("x", relay.TupleType([]))``, ``var("x",
    "float32")``.

    A dtype given as the type means a scalar. Raises ValueError for a type together with a shape.
    """
    if type_annotation is not None and shape is not None:
        raise ValueError("var: give a type or a shape, not both")
    if shape is not None:
        return Var(name_hint, TensorType(tuple(shape), dtype), span=span)
    if isinstance(type_annotation, str):
        return Var(name_hint, TensorType((), type_annotation), span=span)
    return Var(name_hint, type_annotation, span=span)


def const(value: Any, dtype: str | None = None, span: Span | None = None) -> Constant:
    """Create a constant from a scalar, a (nested) list, an array or a tensor.

    Python floats are float32 and ints int32 unless `dtype` says otherwise; an array keeps its dtype.
    """
    return Constant(relax_expr.const(value, dtype).data, span=span)


def _global_call(global_var: GlobalVar, args: tuple[Any, ...]) -> Node:
    if any(isinstance(arg, RelayExpr) for arg in args):
        return Call(global_var, args)
    return relax_expr.Call(global_var, args)


register_global_call(_global_call)
