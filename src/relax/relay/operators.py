"""Registry of Relay operators: name, number of operands, and typed attributes.

    register_operator("nn.softmax", 1, (AttrField("axis", "int", -1),))

The operator itself is an `ir.Op` of that name. Other properties (type relation, meaning, corresponding Relax operator)
are registered on the Op by their owners: ``op.set_attr(key, value)``. The parser and the printer read the declaration
here, as does `call_operator`, which builds a checked call:

    call_operator("nn.softmax", x, axis=1)
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

import numpy as np

from ..ir import DataType, Diagnostic, DiagnosticError, Node, Op, Span, register_op
from ..ir.op import close_names
from ..runtime.records import dataclass
from .attrs import Attrs
from .expr import Call, Expr

_SPEC: Final = "relay.OperatorSpec"
DERIVATIVE_OF: Final = "relay.derivative_of"
"""Op attribute key: the operator whose gradients this operator computes."""
_BOOLS: tuple[type[Any], ...] = (bool, np.bool_)


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
"""Default of a required attribute."""


@dataclass(frozen=True, slots=True)
class AttrField:
    """Attribute of an operator: name, type name (a key of `ATTR_TYPES`), and default."""

    name: str
    type: str
    default: Any = REQUIRED

    @property
    def required(self) -> bool:
        return self.default is REQUIRED


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """Declaration of an operator. `num_inputs` is None for a variable number of operands."""

    name: str
    num_inputs: int | None
    attrs: tuple[AttrField, ...] = ()

    def field(self, name: str) -> AttrField | None:
        """Return the attribute of this name, or None."""
        return next((field for field in self.attrs if field.name == name), None)


def register_operator(name: str, num_inputs: int | None, attrs: Iterable[AttrField] = (), **facts: Any) -> Op:
    """Register a Relay operator, with `facts` for `Op.get_attr`. Raises ValueError if it exists."""
    if Op.exists(name) and Op.get(name).has_attr(_SPEC):
        raise ValueError(f"the Relay operator {name!r} is registered already")
    spec = OperatorSpec(name, num_inputs, tuple(attrs))
    for field in spec.attrs:
        if field.type not in ATTR_TYPES:
            types = ", ".join(sorted(ATTR_TYPES))
            message = f"{name}: attribute {field.name!r}: {field.type!r} is not a type (these are: {types})"
            raise ValueError(message)
    return register_op(name, **{_SPEC: spec}, **facts)


def operator_spec(op: Op | str) -> OperatorSpec | None:
    """Return the declaration of a Relay operator, or None."""
    if isinstance(op, str):
        if not Op.exists(op):
            return None
        op = Op.get(op)
    return op.get_attr(_SPEC)


def list_operators() -> list[str]:
    """Sorted names of all Relay operators, without their derivatives."""
    names = (name for name in Op.list_loaded_names() if Op.get(name).has_attr(_SPEC))
    return [name for name in names if not Op.get(name).has_attr(DERIVATIVE_OF)]


def _int(value: Any) -> int:
    if isinstance(value, _BOOLS) or not isinstance(value, numbers.Integral):
        raise TypeError("an integer")
    return int(value)


def _float(value: Any) -> float:
    if isinstance(value, _BOOLS) or not isinstance(value, numbers.Real):
        raise TypeError("a number")
    return float(value)


def _bool(value: Any) -> bool:
    if isinstance(value, _BOOLS):
        return bool(value)
    if isinstance(value, numbers.Integral) and value in (0, 1):
        return bool(value)
    raise TypeError("True or False")


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a string")
    return str(value)


def _dtype(value: Any) -> DataType:
    try:
        return DataType(value)
    except (ValueError, TypeError):
        raise TypeError("a dtype") from None


def _tuple(item: Callable[[Any], Any], noun: str) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if not isinstance(value, (tuple, list)):
            raise TypeError(noun)
        try:
            return tuple(item(element) for element in cast("tuple[Any, ...]", value))
        except TypeError:
            raise TypeError(noun) from None

    return convert


def _any(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_any(item) for item in cast("tuple[Any, ...]", value))
    if value is None or isinstance(value, (str, bool, Node)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise TypeError("a number, a string, a node, or a tuple of them")


def _ints_or_int(value: Any) -> Any:
    return _INTS(value) if isinstance(value, (tuple, list)) else _int(value)


def _optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def optional(value: Any) -> Any:
        if value is None:
            return None
        try:
            return convert(value)
        except TypeError as error:
            raise TypeError(f"{error} or None") from None

    return optional


_INTS: Final = _tuple(_int, "a tuple of integers")


def _ints_per_axis(count: int) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, numbers.Integral) and not isinstance(value, _BOOLS):
            return (int(value),) * count
        if not isinstance(value, (tuple, list)):
            raise TypeError("a tuple of integers, or one for all axes")
        return _INTS(value)

    return convert


_PLAIN_TYPES: Final[dict[str, Callable[[Any], Any]]] = {
    "int": _int,
    "float": _float,
    "bool": _bool,
    "str": _str,
    "dtype": _dtype,
    "ints": _INTS,
    **{f"ints[{count}]": _ints_per_axis(count) for count in (1, 2, 3)},
    "int|ints": _ints_or_int,
    "floats": _tuple(_float, "a tuple of numbers"),
    "strs": _tuple(_str, "a tuple of strings"),
    "intss": _tuple(_INTS, "a tuple of tuples of integers"),
    "any": _any,
}

ATTR_TYPES: Final[dict[str, Callable[[Any], Any]]] = {
    **_PLAIN_TYPES,
    **{f"{name}?": _optional(convert) for name, convert in _PLAIN_TYPES.items()},
}
"""Attribute types by name: functions from user input to the value in `Attrs`.

They raise TypeError naming the expected type. A ``?`` at the end of a name admits None. One number given for
``ints[3]`` becomes a tuple of three.
"""


def make_attrs(op: Op, values: Mapping[str, Any], span: Span | None = None) -> Attrs | None:
    """Check and convert the attributes of a call and add defaults; None for an operator without attributes.

    Raises DiagnosticError (E9011) with a diagnostic for each attribute that is unknown, missing or of a wrong type.
    """
    spec = operator_spec(op)
    if spec is None:
        raise DiagnosticError(unknown_operator(op.name, span))
    problems = [unknown_attribute(spec, name, span) for name in values if spec.field(name) is None]
    complete: dict[str, Any] = {}
    for field in spec.attrs:
        value = values.get(field.name, field.default)
        if value is REQUIRED:
            problems.append(Diagnostic("E9011", f"{spec.name}: the attribute {field.name!r} is missing", span))
            continue
        try:
            complete[field.name] = ATTR_TYPES[field.type](value)
        except TypeError as error:
            message = f"{spec.name}: the attribute {field.name!r} is {error}, found {value!r}"
            problems.append(Diagnostic("E9011", message, span))
    if problems:
        raise DiagnosticError(problems)
    return Attrs(complete, span=span) if spec.attrs else None


def unknown_attribute(spec: OperatorSpec, name: str, span: Span | None) -> Diagnostic:
    """Return the diagnostic for an unknown attribute."""
    names = ", ".join(field.name for field in spec.attrs)
    hint = f"its attributes are: {names}" if names else "it has no attributes"
    return Diagnostic("E9011", f"{spec.name} has no attribute {name!r}", span, hint=hint)


def unknown_operator(name: str, span: Span | None) -> Diagnostic:
    """Return the diagnostic for an unknown operator."""
    close = [registered for registered in close_names(name) if operator_spec(registered) is not None]
    similar = [registered for registered in close if not Op.get(registered).has_attr(DERIVATIVE_OF)]
    hint = f"similar: {', '.join(similar)}" if similar else ""
    return Diagnostic("E9010", f"{name} is not an operator of Relay", span, hint=hint)


def call_operator(name: str, *args: Expr, **attrs: Any) -> Call:
    """Return a call of an operator after checking its operand count and attributes.

    Raises DiagnosticError.
    """
    spec = operator_spec(name)
    if spec is None:
        raise DiagnosticError(unknown_operator(name, None))
    if spec.num_inputs is not None and len(args) != spec.num_inputs:
        message = f"{name} takes {spec.num_inputs} operands, found {len(args)}"
        raise DiagnosticError(Diagnostic("E9012", message))
    op = Op.get(name)
    return Call(op, args, make_attrs(op, attrs))
