"""The grammar of types.

type     ::= "_" | dtype | "Tensor" "[" shape "," dtype "]" | "(" type,* ")" | "ref" "(" type ")"
           | "fn" params? "(" type,* ")" "->" type ("where" relation)*
           | name ("[" type,* "]")? | meta
shape    ::= "(" dim,* ")" | name
dim      ::= "?" | number | name | "(" dim ")" | dim ("+" | "-" | "*") dim
           | ("min" | "max" | "floordiv" | "floormod") "(" dim "," dim ")" | dtype "(" dim ")"
params   ::= ("[" | "<") (name (":" kind)?),* ("]" | ">")
relation ::= name ("(" type,* (";" type,*)? (name "=" value),* ")")?
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

from ...ir import DataType, Node
from ...prim import expr as prim
from ..types import (
    Any,
    Dim,
    FuncType,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeKind,
    TypeRelation,
    TypeVar,
)
from .cursor import Cursor, list_names
from .lexer import Token, unquote

KINDS: Final = {
    "Type": TypeKind.Type,
    "Shape": TypeKind.ShapeVar,
    "ShapeVar": TypeKind.ShapeVar,
    "BaseType": TypeKind.BaseType,
    "Constraint": TypeKind.Constraint,
    "AdtHandle": TypeKind.AdtHandle,
    "TypeData": TypeKind.TypeData,
}
MAX_TYPE_NESTING: Final = 500
_SUMS: Final[dict[str, Callable[..., AnyValue]]] = {"+": operator.add, "-": operator.sub}
_PRODUCTS: Final[dict[str, Callable[..., AnyValue]]] = {"*": operator.mul}
DIM_FUNCTIONS: Final[dict[str, Callable[..., prim.PrimExpr]]] = {
    "min": prim.Min,
    "max": prim.Max,
    "floordiv": prim.FloorDiv,
    "floormod": prim.FloorMod,
}
"""Functions of two dimensions."""


class TypeParser(Cursor):
    """Parses types."""

    type_depth = 0

    def type_(self) -> Type:
        """Parse a type."""
        if self.type_depth >= MAX_TYPE_NESTING:
            self.abort("E9006", f"a type has more than {MAX_TYPE_NESTING} types within each other")
        self.type_depth += 1
        try:
            return self._type()
        finally:
            self.type_depth -= 1

    def _type(self) -> Type:
        start, token = self.index, self.token
        if token.kind == "(":
            return self._parenthesised_type()
        if token.kind != "name":
            self.unexpected("expected a type")
        if token.text == "fn":
            return self._function_type()
        if token.text == "meta" and self.kind(1) == "[":
            node = self.meta_node()
            if node is None:
                return IncompleteType()
            if not isinstance(node, Type):
                self.abort("E9007", f"the metadata entry is a {type(node).__name__}, not a type", token)
            return node
        self.advance()
        if token.text == "_":
            return IncompleteType(span=self.span_from(start))
        if token.text == "Tensor" and self.kind() == "[":
            return self._tensor_type(start)
        if token.text == "ref" and self.kind() == "(":
            self.advance()
            value = self.type_()
            self.expect(")", "behind the type of a reference")
            return RefType(value, span=self.span_from(start))
        return self._named_type(token, start)

    def _parenthesised_type(self) -> Type:
        start = self.index
        self.advance()
        fields: list[Type] = []
        trailing = False
        while self.kind() != ")":
            fields.append(self.type_())
            trailing = self.accept(",")
            if not trailing:
                break
        self.expect(")", "behind the types of a tuple")
        if len(fields) == 1 and not trailing:
            return fields[0]
        return TupleType(fields, span=self.span_from(start))

    def _named_type(self, token: Token, start: int) -> Type:
        head: Type | None = self.type_vars.get(token.text)
        if head is None:
            head = self.global_type_vars.get(token.text)
            if head is None:
                return self._scalar_type(token, start)
            if self.kind() != "[":
                return TypeCall(head, (), span=self.span_from(start))
        if not self.accept("["):
            return head
        args: list[Type] = []
        while self.kind() != "]":
            args.append(self.type_())
            if not self.accept(","):
                break
        self.expect("]", "behind the type arguments")
        return TypeCall(head, args, span=self.span_from(start))

    def _scalar_type(self, token: Token, start: int) -> Type:
        dtype = as_dtype(token.text)
        if dtype is None:
            names = [*self.type_vars.names(), *self.global_type_vars]
            hint = f"types in scope: {list_names(names)}" if names else ""
            self.complain("E9003", f"there is no type {token.text!r} here", token, hint)
            return IncompleteType(span=self.span_from(start))
        return TensorType((), dtype, span=self.span_from(start))

    def _tensor_type(self, start: int) -> TensorType:
        self.expect("[", "behind `Tensor`")
        shape: AnyValue = self._shape()
        dtype: AnyValue = "float32"
        if self.accept(","):
            dtype = self._dtype()
        self.expect("]", "behind the shape and the dtype of a tensor")
        return TensorType(shape, dtype, span=self.span_from(start))

    def _dtype(self) -> DataType | TypeVar:
        token = self.expect("name", "as dtype of a tensor")
        variable = self.type_vars.get(token.text)
        if variable is not None:
            return variable
        dtype = as_dtype(token.text)
        if dtype is None:
            hint = "a dtype is float32, int8, bool, …, or a type parameter of kind BaseType"
            self.complain("E9005", f"{token.text!r} is not a dtype", token, hint)
            return DataType("float32")
        return dtype

    def _shape(self) -> tuple[Dim, ...] | TypeVar:
        if self.kind() == "name":
            variable = self.type_vars.get(self.token.text)
            if variable is not None:
                self.advance()
                return variable
        if self.kind() != "(":
            self.unexpected("expected a shape", "a shape is `(2, n, ?)`, or a type parameter of kind Shape")
        self.advance()
        dims: list[Dim] = []
        while self.kind() != ")":
            dims.append(self.dim())
            if not self.accept(","):
                break
        self.expect(")", "behind the dimensions of a tensor")
        return tuple(dims)

    # ------------------------------------------------------------------------------------ dimensions

    def dim(self) -> Dim:
        """Parse a dimension: ``?``, or an expression over integers and symbolic sizes."""
        if self.accept("?"):
            return Any()
        return self._dim_sum()

    def _dim_sum(self) -> prim.PrimExpr:
        return self._dim_chain(self._dim_product, _SUMS)

    def _dim_product(self) -> prim.PrimExpr:
        return self._dim_chain(self._dim_atom, _PRODUCTS)

    def _dim_chain(
        self, operand: Callable[[], prim.PrimExpr], table: dict[str, Callable[..., AnyValue]]
    ) -> prim.PrimExpr:
        result = operand()
        while True:
            start = self.index
            symbol = self.advance().kind
            if symbol not in table:
                self.index = start
                return result
            result = self._computed(table[symbol], result, operand(), self.items[start])

    def _dim_atom(self) -> prim.PrimExpr:
        token = self.advance()
        if token.kind == "number" and token.text.isdigit():
            return self._dim_number(token)
        if token.kind == "-" and self.kind() == "number" and self.token.text.isdigit():
            number = self._dim_number(self.advance())
            return prim.dimension(-number.value)  # type: ignore[attr-defined]
        if token.kind == "(":
            with self.nested():
                inner = self._dim_sum()
            self.expect(")", "behind a dimension")
            return inner
        if token.kind == "name" and token.text in DIM_FUNCTIONS and self.kind() == "(":
            return self._dim_function(token)
        if token.kind == "name" and self.kind() == "(":
            return self._dim_cast(token)
        if token.kind == "name":
            return self._dim_variable(token)
        self.index -= token.kind != "end"
        self.unexpected("expected a dimension", "a dimension is a number, a name, or `?`")

    def _dim_number(self, token: Token) -> prim.IntImm:
        if len(token.text) > 19 or int(token.text) >= 2**63:
            self.abort("E9005", "a dimension is less than 2**63", token)
        return prim.IntImm(prim.INT64, int(token.text))

    def _dim_function(self, token: Token) -> prim.PrimExpr:
        name = token.text
        self.expect("(", f"behind `{name}`")
        with self.nested():
            lhs = self._dim_sum()
            self.expect(",", f"between the operands of `{name}`")
            rhs = self._dim_sum()
        self.expect(")", f"behind the operands of `{name}`")
        return self._computed(DIM_FUNCTIONS[name], lhs, rhs, token)

    def _computed(
        self, function: Callable[..., prim.PrimExpr], lhs: prim.PrimExpr, rhs: prim.PrimExpr, token: Token
    ) -> prim.PrimExpr:
        is_division = function in (prim.FloorDiv, prim.FloorMod)
        if is_division and isinstance(rhs, prim.IntImm) and rhs.value == 0:
            self.abort("E9005", "a dimension cannot be computed: division by zero", token)
        try:
            if isinstance(rhs, prim.IntImm):  # a number is of the dtype of the other operand
                rhs = prim.IntImm(lhs.dtype, rhs.value)
            elif isinstance(lhs, prim.IntImm):
                lhs = prim.IntImm(rhs.dtype, lhs.value)
            return function(lhs, rhs)
        except (ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
            self.abort("E9005", f"a dimension cannot be computed: {error}", token)

    def _dim_cast(self, token: Token) -> prim.PrimExpr:
        dtype = as_dtype(token.text)
        if dtype is None or not dtype.is_integer:
            hint = f"functions of dimensions are {', '.join(DIM_FUNCTIONS)} and the integer dtypes"
            self.abort("E9005", f"{token.text} is not a function of dimensions", token, hint)
        self.expect("(", f"behind `{token.text}`")
        with self.nested():
            value = self._dim_sum()
        self.expect(")", f"behind the operand of `{token.text}`")
        return value.astype(dtype)

    def _dim_variable(self, token: Token) -> prim.Var:
        variable = self.dims.get(token.text)
        if variable is None:
            name, _, suffix = token.text.partition(".")
            dtype = as_dtype(suffix) if suffix else prim.INT64
            if dtype is None or not dtype.is_integer:
                self.abort("E9005", f"{suffix!r} is not an integer dtype", token)
            variable = self.dims[token.text] = prim.Var(name, dtype)
        return variable

    # ------------------------------------------------------------------------- functions and relations

    def _function_type(self) -> FuncType:
        start = self.index
        self.advance()
        params = self.type_params()
        self.expect("(", "before the parameters' types")
        arg_types: list[Type] = []
        while self.kind() != ")":
            arg_types.append(self.type_())
            if not self.accept(","):
                break
        self.expect(")", "behind the parameters' types")
        self.expect("->", "before the result's type")
        ret_type = self.type_()
        relations: list[TypeRelation] = []
        while self.accept_word("where"):
            relations.append(self.relation())
        self.close_type_params(params)
        return FuncType(arg_types, ret_type, params, relations, span=self.span_from(start))

    def type_params(self) -> tuple[TypeVar, ...]:
        """Parse optional type parameters in brackets, in scope until `close_type_params`."""
        closing = {"[": "]", "<": ">"}.get(self.kind())
        if closing is None:
            return ()
        self.advance()
        params: list[TypeVar] = []
        while self.kind() != closing:
            token = self.expect("name", "as type parameter")
            kind = self._kind() if self.accept(":") else TypeKind.Type
            if any(param.name_hint == token.text for param in params):
                self.complain("E9004", f"the type parameter {token.text!r} is declared twice", token)
            params.append(TypeVar(token.text, kind, span=self.tokens.span(token.start, token.end)))
            if not self.accept(","):
                break
        self.expect(closing, "behind the type parameters")
        for param in params:
            self.type_vars.push(param.name_hint, param)
        return tuple(params)

    def close_type_params(self, params: tuple[TypeVar, ...]) -> None:
        """Remove type parameters from the scope."""
        for param in params:
            self.type_vars.pop(param.name_hint)

    def _kind(self) -> TypeKind:
        token = self.expect("name", "as kind of a type parameter")
        kind = KINDS.get(token.text)
        if kind is None:
            self.complain("E9003", f"{token.text!r} is not a kind", token, f"kinds: {', '.join(KINDS)}")
            return TypeKind.Type
        return kind

    def relation(self) -> TypeRelation:
        """Parse a type relation after `where`."""
        start = self.index
        name = self.expect("name", "as type relation").text
        args: list[Type] = []
        num_inputs: int | None = None
        attrs: dict[str, AnyValue] = {}
        if self.accept("("):
            while self.kind() != ")":
                if self.accept(";"):
                    num_inputs = len(args)
                    continue
                if self.kind() == "name" and self.kind(1) == "=":
                    key = self.advance().text
                    self.advance()
                    attrs[key] = self.attr_value()
                else:
                    args.append(self.type_())
                if not self.accept(",") and self.kind() != ";":
                    break
            self.expect(")", "behind the types of a relation")
        return TypeRelation(name, args, num_inputs, attrs, span=self.span_from(start))  # type: ignore[arg-type]

    # --------------------------------------------------------------------- attribute values and metadata

    def attr_value(self) -> AnyValue:
        """Parse an attribute value: a number, a string, True, False, None, a list, a dict, a dtype, or metadata."""
        token = self.token
        if token.kind in ("[", "(", "{"):
            with self.nested():
                return self._attr_dict() if token.kind == "{" else self._attr_list()
        if token.kind == "name" and token.text == "meta" and self.kind(1) == "[":
            return self.meta_node()
        negative = self.accept("-")
        token = self.advance()
        if token.kind == "number":
            return self._attr_number(token, negative)
        if token.kind == "name" and token.text in ("inf", "nan"):
            return float(f"-{token.text}" if negative else token.text)
        if not negative and token.kind == "string":
            return unquote(token.text)
        if not negative and token.kind == "name":
            return _ATTR_WORDS.get(token.text, token.text)
        self.index -= token.kind != "end"
        self.unexpected("expected the value of an attribute")

    def _attr_number(self, token: Token, negative: bool) -> int | float:
        digits = token.text.rstrip("f").rstrip("F")
        for suffix in ("f32", "f64", "i64", "i32"):
            digits = digits.removesuffix(suffix)
        try:
            is_int = digits.isdigit() and digits == token.text.removesuffix("i64").removesuffix("i32")
            value = int(digits) if is_int else float(digits)
        except ValueError:
            self.abort("E9005", f"{token.text} is not the number of an attribute", token)
        return -value if negative else value

    def _attr_list(self) -> tuple[AnyValue, ...]:
        closing = "]" if self.advance().kind == "[" else ")"
        values: list[AnyValue] = []
        while self.kind() != closing:
            values.append(self.attr_value())
            if not self.accept(","):
                break
        self.expect(closing, "behind the values of an attribute")
        return tuple(values)

    def _attr_dict(self) -> dict[str, AnyValue]:
        self.advance()
        values: dict[str, AnyValue] = {}
        while self.kind() != "}":
            key = unquote(self.expect("string", "as key").text)
            self.expect(":", "behind a key")
            values[key] = self.attr_value()
            if not self.accept(","):
                break
        self.expect("}", "behind the values of an attribute")
        return values

    def meta_node(self) -> Node | None:
        """``meta[relay.Constant][0]``: a node of the metadata section; None after a diagnostic if it does not exist."""
        start = self.index
        self.advance()
        self.expect("[", "behind `meta`")
        key = self.expect("name", "as kind of metadata").text
        self.expect("]", "behind the kind of metadata")
        self.expect("[", "before the index of metadata")
        number = self.expect("number", "as index of metadata")
        self.expect("]", "behind the index of metadata")
        entries = self.metadata.get(key, ())
        position = int(number.text) if number.text.isdigit() and len(number.text) < 10 else -1
        if not 0 <= position < len(entries):
            available = ", ".join(f"meta[{k}] has {len(v)}" for k, v in self.metadata.items())
            hint = available or "the text has no section `#[metadata]`"
            message = f"there is no meta[{key}][{number.text}]"
            self.complain_at("E9007", message, self.span_from(start), hint)
            return None
        return entries[position]


_ATTR_WORDS: Final = {"True": True, "False": False, "None": None}


def as_dtype(text: str) -> DataType | None:
    """Dtype of a name, or None."""
    try:
        dtype = DataType(text)
    except (ValueError, TypeError):
        return None
    return None if dtype.is_void or dtype.is_handle else dtype
