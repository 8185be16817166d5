"""The types of Relay.

    Type ::= TensorType(shape, dtype) | TupleType(fields) | RefType(value)
           | FuncType(arg_types, ret_type, type_params, type_constraints)
           | TypeVar(name, kind) | GlobalTypeVar(name, kind) | TypeCall(func, args)
           | TypeData(header, type_vars, constructors)
           | TypeRelation(func, args, num_inputs, attrs)
           | IncompleteType(kind)
    Dim  ::= Any | PrimExpr

Every type has a kind (`TypeKind`): a type parameter of kind `ShapeVar` stands for a shape (``Tensor[s, float32]``), one
of kind `BaseType` for a dtype (``Tensor[(2, 3), t]``), one of kind `Type` for a type.

``==`` compares types structurally: the parameters of two function types correspond by position; any other type
variable, like a symbolic dimension, equals only itself. `Any` equals `Any` here; whether two of them can be the same
size is decided by type inference.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Iterable, Mapping
from typing import ClassVar, TypeAlias, cast, final

from ..ir import DataType, Span, binder, child, label, node, set_slot, structural_equal, structural_hash
from ..prim.expr import IntImm, PrimExpr, dimension
from .printing import RelayNode


class TypeKind(enum.IntEnum):
    """Kinds of types, which determine where a type variable may occur."""

    Type = 0
    ShapeVar = 1
    BaseType = 2
    Constraint = 4
    AdtHandle = 5
    TypeData = 6


class Type(RelayNode):
    """Base class of types. ``==`` and ``hash`` are structural."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and structural_equal(self, other))

    def __hash__(self) -> int:
        return structural_hash(self)


@final
@node
class Any(RelayNode):
    """Unknown dimension: ``Tensor[(?, 4), float32]``."""


Dim: TypeAlias = "PrimExpr | Any"


def _dim(value: typing.Any) -> Dim:
    return value if isinstance(value, Any) else dimension(value)


def _shape(value: typing.Any) -> tuple[Dim, ...] | TypeVar:
    if isinstance(value, TypeVar):
        return value
    if isinstance(value, (int, PrimExpr, Any)):
        return (_dim(value),)
    return tuple(_dim(item) for item in value)


def _dtype(value: typing.Any) -> DataType | TypeVar:
    return value if isinstance(value, TypeVar) else DataType(value)


@final
@node
class TypeVar(Type):
    """Type variable, identified by the object: a parameter of a function, of a function type or of a TypeData."""

    __is_variable__: ClassVar[bool] = True

    name_hint: str = label()
    kind: TypeKind = child(default=TypeKind.Type, converter=TypeKind)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)


def ShapeVar(name: str) -> TypeVar:
    """Create a type variable for a shape."""
    return TypeVar(name, TypeKind.ShapeVar)


@final
@node
class TensorType(Type):
    """Tensor: ``Tensor[(2, n, ?), float32]``.

    `shape` is a tuple of dimensions (integers, expressions over symbolic sizes, or `Any`), or a TypeVar of kind
    ShapeVar; `dtype` is a DataType, or a TypeVar of kind BaseType.
    """

    shape: tuple[Dim, ...] | TypeVar = child(converter=_shape)
    dtype: DataType | TypeVar = child(default="float32", converter=_dtype)

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """Static dimensions. Raises TypeError if one is not static."""
        if isinstance(self.shape, TypeVar) or not all(isinstance(dim, IntImm) for dim in self.shape):
            raise TypeError(f"{self} has a dimension that is not a number")
        return tuple(cast(IntImm, dim).value for dim in self.shape)


def scalar_type(dtype: str) -> TensorType:
    """Type of a scalar: ``Tensor[(), dtype]``."""
    return TensorType((), dtype)


def _types(values: Iterable[Type] | None) -> tuple[Type, ...]:
    return tuple(values or ())


def _type_vars(values: Iterable[TypeVar] | None) -> tuple[TypeVar, ...]:
    return tuple(values or ())


@final
@node
class TupleType(Type):
    """Tuple: ``(Tensor[(), float32], Tensor[(2), int32])``; ``()`` is the unit type."""

    fields: tuple[Type, ...] = child(default=(), converter=_types)


def _attrs(values: Mapping[str, typing.Any] | None) -> dict[str, typing.Any]:
    return dict(values or {})


class TypeConstraint(Type):
    """Base class of type constraints."""

    __slots__ = ()


@final
@node
class TypeRelation(TypeConstraint):
    """Relation that types must satisfy: ``Broadcast(a, b, c)``.

    `func` is the registered name of the relation. The first `num_inputs` of `args` determine the others. A relation
    without `args`, written ``where Broadcast``, applies to the function's parameter types, in order, and its result
    type. `attrs` are the relation's own parameters.
    """

    func: str
    args: tuple[Type, ...] = child(default=(), converter=_types)
    num_inputs: int = child(default=None)
    attrs: dict[str, typing.Any] = child(default=None, converter=_attrs)

    def __post_init__(self) -> None:
        if cast(typing.Any, self.num_inputs) is None:
            set_slot(self, "num_inputs", max(0, len(self.args) - 1))


@final
@node
class FuncType(Type):
    """Function: ``fn<a>(a, Tensor[(), int32]) -> a where Broadcast(a, a, a)``."""

    type_params: tuple[TypeVar, ...] = binder(converter=_type_vars)
    arg_types: tuple[Type, ...] = child(converter=_types)
    ret_type: Type
    type_constraints: tuple[TypeRelation, ...] = child(converter=_types)

    def __init__(
        self,
        arg_types: Iterable[Type],
        ret_type: Type,
        type_params: Iterable[TypeVar] | None = None,
        type_constraints: Iterable[TypeRelation] | None = None,
        span: Span | None = None,
    ) -> None:
        self.__fields_init__(type_params, arg_types, ret_type, type_constraints, span=span)


@final
@node
class RefType(Type):
    """Mutable reference: ``ref(Tensor[(), float32])``."""

    value: Type


@final
@node
class GlobalTypeVar(Type):
    """Name of a type definition of a module. Equal names are structurally equal."""

    name_hint: str
    kind: TypeKind = label(default=TypeKind.AdtHandle)

    def __call__(self, *args: Type) -> TypeCall:
        """Apply the type constructor to types: ``List[Tensor[(), int32]]``."""
        return TypeCall(self, args)


@final
@node
class TypeCall(Type):
    """Application of a type constructor: ``List[Tensor[(), int32]]``."""

    func: Type
    args: tuple[Type, ...] = child(default=(), converter=_types)


@final
@node
class TypeData(Type):
    """Type definition: ``type List[a] { Cons(a, List[a]), Nil }``.

    `header` is the definition's name, `constructors` are `relay.Constructor` nodes, whose inputs mention `type_vars`.
    """

    header: GlobalTypeVar
    type_vars: tuple[TypeVar, ...] = binder(default=(), converter=_type_vars)
    constructors: tuple[typing.Any, ...] = child(default=(), converter=tuple)


@final
@node
class IncompleteType(Type):
    """Type to be inferred; identified by the object."""

    __is_variable__: ClassVar[bool] = True

    kind: TypeKind = child(default=TypeKind.Type, converter=TypeKind)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)
