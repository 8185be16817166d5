"""Printing of types, attributes and names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any as AnyValue
from typing import Final, cast

from ...ir import Node, Op, save_json
from ...ir.node import node_key
from ...prim import expr as prim
from ..attrs import Attrs
from ..operators import ATTR_TYPES, OperatorSpec, operator_spec
from ..type_walk import WrittenSizes
from ..types import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeData,
    TypeKind,
    TypeRelation,
    TypeVar,
)
from .lexer import quote
from .type_parser import DIM_FUNCTIONS, KINDS, as_dtype

MOST_PARTS: Final = 10_000
"""Types with more parts are stored in the metadata."""
IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_RESERVED_TYPES: Final = frozenset(("_", "fn", "Tensor", "ref", "meta", "where"))
_DIM_FUNCTION_NAMES: Final = {function: name for name, function in DIM_FUNCTIONS.items()}
_KIND_NAMES: Final = {kind: name for name, kind in reversed(KINDS.items())}
_SYMBOLS: Final[dict[type, tuple[str, int]]] = {prim.Add: ("+", 1), prim.Sub: ("-", 1), prim.Mul: ("*", 2)}


class Names:
    """Unique names of objects."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._names: dict[Node, str] = {}
        self._taken: set[str] = set(reserved)
        self._next: dict[str, int] = {}

    def __contains__(self, item: Node) -> bool:
        return item in self._names

    def of(self, item: Node, hint: str) -> str:
        """Name of an object: the hint, numbered if another object has it."""
        name = self._names.get(item)
        if name is None:
            name = hint
            while name in self._taken:
                number = self._next[hint] = self._next.get(hint, 0) + 1
                name = f"{hint}_{number}"
            self._taken.add(name)
            self._names[item] = name
        return name


class Metadata:
    """Nodes of the section ``#[metadata]``, by class name."""

    def __init__(self) -> None:
        self.entries: dict[str, list[Node]] = {}
        self._positions: dict[int, int] = {}

    def reference(self, node: Node) -> str:
        """``meta[relay.Constant][0]``: reference to a node."""
        key = node_key(type(node))
        entries = self.entries.setdefault(key, [])
        position = self._positions.setdefault(id(node), len(entries))
        if position == len(entries):
            entries.append(node)
        return f"meta[{key}][{position}]"

    def section(self) -> str:
        """Text of the section; empty without entries."""
        if not self.entries:
            return ""
        return f"\n\n#[metadata]\n{save_json({key: tuple(nodes) for key, nodes in self.entries.items()})}"


class TypePrinter:
    """Prints types and attributes; one printer per set of unique names."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.type_vars = Names(_RESERVED_TYPES)
        self.dims = Names(DIM_FUNCTIONS)
        self._sizes = WrittenSizes()

    # ------------------------------------------------------------------------------------------- types

    def type_(self, type_: Node) -> str:
        """Print a type; with more than `MOST_PARTS` parts it is stored in the metadata, which preserves sharing."""
        if isinstance(type_, Type) and self._sizes.of(type_) > MOST_PARTS:
            return self.meta(type_)
        match type_:
            case TensorType():
                return self._tensor(type_)
            case TupleType():
                return tuple_text([self.type_(field) for field in type_.fields])
            case FuncType():
                return self._function(type_)
            case TypeVar():
                return self._type_var(type_)
            case GlobalTypeVar():
                return type_.name_hint
            case TypeCall():
                args = f"[{self.types(type_.args)}]" if type_.args else ""
                return f"{self.type_(type_.func)}{args}"
            case RefType():
                return f"ref({self.type_(type_.value)})"
            case IncompleteType():
                return "_"
            case TypeRelation():
                return self.relation(type_)
            case TypeData():
                return self.type_data(type_)
            case Any():
                return "?"
            case _:
                return self.meta(type_)

    def types(self, types: Iterable[Node]) -> str:
        """Print types, separated by commas."""
        return ", ".join(self.type_(item) for item in types)

    def _tensor(self, type_: TensorType) -> str:
        dtype = self._type_var(type_.dtype) if isinstance(type_.dtype, TypeVar) else str(type_.dtype)
        if isinstance(type_.shape, TypeVar):
            return f"Tensor[{self._type_var(type_.shape)}, {dtype}]"
        if not type_.shape and not isinstance(type_.dtype, TypeVar):
            return dtype
        return f"Tensor[({', '.join(self.dim(dim) for dim in type_.shape)}), {dtype}]"

    def _function(self, type_: FuncType) -> str:
        params = self.type_params(type_.type_params)
        result = self.type_(type_.ret_type)
        if type_.type_constraints and isinstance(type_.ret_type, FuncType):
            result = f"({result})"
        relations = "".join(f" where {self.relation(relation)}" for relation in type_.type_constraints)
        return f"fn{params}({self.types(type_.arg_types)}) -> {result}{relations}"

    def _type_var(self, type_var: TypeVar) -> str:
        hint = type_var.name_hint
        if not IDENTIFIER.fullmatch(hint) or as_dtype(hint) is not None:
            hint = "T_" + re.sub(r"\W", "_", hint, flags=re.ASCII)
        return self.type_vars.of(type_var, hint)

    def type_params(self, params: tuple[TypeVar, ...]) -> str:
        """``[A, s: Shape]``, or nothing."""
        if not params:
            return ""
        texts = (
            self._type_var(param) + ("" if param.kind is TypeKind.Type else f": {_KIND_NAMES[param.kind]}")
            for param in params
        )
        return f"[{', '.join(texts)}]"

    def relation(self, relation: TypeRelation) -> str:
        """Print a type relation, as after `where`."""
        if not relation.args and not relation.attrs:
            return relation.func
        args = [self.type_(arg) for arg in relation.args]
        attrs = [f"{name}={self.attr_value(value)}" for name, value in relation.attrs.items()]
        if relation.num_inputs == max(0, len(args) - 1):
            return f"{relation.func}({', '.join(args + attrs)})"
        inputs, rest = args[: relation.num_inputs], args[relation.num_inputs :] + attrs
        return f"{relation.func}({', '.join(inputs)}; {', '.join(rest)})"

    def type_data(self, definition: TypeData) -> str:
        """Print a type definition."""
        head = f"type {definition.header.name_hint}{self.type_params(definition.type_vars)}"
        if not definition.constructors:
            return f"extern {head};"
        lines = (
            f"  {c.name_hint}{f'({self.types(c.inputs)})' if c.inputs else ''},\n" for c in definition.constructors
        )
        return f"{head} {{\n{''.join(lines)}}}"

    # -------------------------------------------------------------------------------------- dimensions

    def dim(self, dim: Node) -> str:
        """Print a dimension. Raises ValueError for an expression without text form."""
        return "?" if isinstance(dim, Any) else self._dim(dim, 0)

    def _dim(self, dim: Node, outer: int) -> str:
        match dim:
            case prim.IntImm():
                return str(dim.value)
            case prim.Var():
                return self._dim_name(dim)
            case prim.Cast(dtype, value) if dtype.is_integer:
                return f"{dtype}({self._dim(value, 0)})"
            case prim.Min() | prim.Max() | prim.FloorDiv() | prim.FloorMod():
                name = _DIM_FUNCTION_NAMES[type(dim)]
                return f"{name}({self._dim(dim.a, 0)}, {self._dim(dim.b, 0)})"
            case prim.Add() | prim.Sub() | prim.Mul():
                symbol, precedence = _SYMBOLS[type(dim)]
                text = f"{self._dim(dim.a, precedence - 1)} {symbol} {self._dim(dim.b, precedence)}"
                return f"({text})" if precedence <= outer else text
            case _:
                raise ValueError(f"a dimension that is a {type(dim).__name__} has no text in Relay")

    def _dim_name(self, var: prim.Var) -> str:
        suffix = "" if var.dtype == prim.INT64 else f".{var.dtype}"
        hint = var.name if IDENTIFIER.fullmatch(var.name) else "n_" + re.sub(r"\W", "_", var.name, flags=re.ASCII)
        return self.dims.of(var, hint) + suffix

    # -------------------------------------------------------------------------- attributes and metadata

    def call_attrs(self, op: Node, attrs: Attrs) -> list[str]:
        """Print the attributes of a call that differ from their declared defaults."""
        spec = operator_spec(op) if isinstance(op, Op) else None
        return [
            f"{name}={self.attr_value(value)}"
            for name, value in attrs.items()
            if not (spec is not None and _is_default(spec, name, value))
        ]

    def attr_value(self, value: AnyValue) -> str:
        """Print the value of an attribute. Raises ValueError for a value without text form."""
        if value is None or isinstance(value, (bool, int)):
            return repr(value)
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else str(value)
        if isinstance(value, str):
            return quote(value)
        if isinstance(value, (tuple, list)):
            items = cast("tuple[AnyValue, ...]", value)
            return f"[{', '.join(self.attr_value(item) for item in items)}]"
        if isinstance(value, dict):
            table = cast("dict[AnyValue, AnyValue]", value)
            return f"{{{', '.join(f'{quote(str(k))}: {self.attr_value(v)}' for k, v in table.items())}}}"
        if isinstance(value, Node):
            return self.meta(value)
        raise ValueError(f"an attribute that is a {type(value).__name__} has no text in Relay")

    def meta(self, node: Node) -> str:
        """``meta[relay.Constant][0]``: store the node in the section ``#[metadata]``."""
        return self.metadata.reference(node)


def attr_name(name: str) -> str:
    """Name of an attribute, quoted unless it is a (dotted) identifier."""
    return name if _DOTTED.fullmatch(name) else quote(name)


def _is_default(spec: OperatorSpec, name: str, value: AnyValue) -> bool:
    field = spec.field(name)
    if field is None or field.required:
        return False
    default = ATTR_TYPES[field.type](field.default)
    return type(default) is type(value) and default == value


def tuple_text(fields: list[str]) -> str:
    """``(a, b)``, ``(a,)``, ``()``."""
    return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"


def sigil(mark: str, name: str) -> str:
    """Name with its sigil, quoted unless it is an identifier."""
    pattern = IDENTIFIER if mark == "%" else _DOTTED
    return mark + (name if pattern.fullmatch(name) else quote(name))
