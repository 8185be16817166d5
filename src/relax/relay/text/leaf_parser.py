"""Grammar of the parts of expressions that contain none: declared variables, patterns, numbers, filled constants.

declared ::= local (":" type)?
pattern  ::= "_" | declared | name ("(" pattern,* ")")? | "(" pattern,* ")"
filled   ::= "Constant" "(" literal "," "(" number,* ")" "," dtype ")"
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ..adt import Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from ..expr import Constant, Expr, Var, const
from . import literals
from .cursor import list_names
from .lexer import Token, unquote
from .type_parser import MAX_TYPE_NESTING, TypeParser, as_dtype

LARGEST_FILL: Final = 2**28
"""Largest size in bytes of ``Constant(value, shape, dtype)``."""


class LeafParser(TypeParser):
    """Parses parts of expressions that contain no expressions."""

    def bind(self, var: Var, bound: list[str]) -> None:
        self.variables.push(var.name_hint, var)
        bound.append(var.name_hint)

    def declared(self) -> Var:
        """``%x: type``, a new variable."""
        start = self.index
        token = self.expect("local", "to be bound")
        annotation = self.type_() if self.accept(":") else None
        return Var(name_of_token(token), annotation, span=self.span_from(start))

    def at_number(self) -> bool:
        token = self.token
        return token.kind == "number" or (token.kind == "name" and literals.is_special(token.text))

    def number(self, negative: bool) -> Expr:
        token = self.advance()
        try:
            data = literals.read_number(token.text, negative)
        except (ValueError, OverflowError) as error:
            hint = "suffixes: f, f16, f64, i8, i64, u8, …"
            self.complain("E9005", str(error), token, hint)
            return const(0)
        return Constant(data, span=self.span_from(self.index - 1))

    def filled(self) -> Expr:
        """``Constant(0, (10, 10), float32)``: a tensor whose elements are all equal."""
        start = self.index
        self.advance()
        self.advance()
        negative = self.accept("-")
        token = self.advance()
        self.expect(",", "behind the value of a constant")
        self.expect("(", "before the shape of a constant")
        shape: list[int] = []
        while self.kind() == "number":
            number = self.advance()
            if not number.text.isdigit() or len(number.text) > 9:
                self.abort("E9005", f"{number.text} is not a dimension of a constant", number)
            shape.append(int(number.text))
            if not self.accept(","):
                break
        self.expect(")", "behind the shape of a constant")
        self.expect(",", "behind the shape of a constant")
        name = self.expect("name", "as dtype of a constant")
        self.expect(")", "at the end of a constant")
        dtype = as_dtype(name.text)
        if dtype is None or not dtype.is_scalar:
            self.abort("E9005", f"{name.text!r} is not a dtype", name)
        if math.prod(shape) * dtype.itemsize > LARGEST_FILL or len(shape) > 32:
            self.abort("E9005", f"a constant takes at most {LARGEST_FILL} bytes", self.items[start])
        try:
            value = float("-" * negative + token.text) if dtype.is_float else _int_or_bool(token.text, negative)
            scalar = const(value, str(dtype))
        except (ValueError, OverflowError):
            self.abort("E9005", f"{token.text} is not a value of the dtype {dtype}", token)
        return Constant(np.full(tuple(shape), scalar.data), span=self.span_from(start))

    def pattern(self, variables: list[Var]) -> Pattern:
        """Parse a pattern; append the variables it binds to `variables`."""
        start, token = self.index, self.token
        if token.kind == "local":
            var = self.declared()
            variables.append(var)
            return PatternVar(var, span=self.span_from(start))
        if token.kind == "(":
            return PatternTuple(self._patterns(variables), span=self.span_from(start))
        if token.kind != "name":
            self.unexpected("expected a pattern", "a pattern is `_`, a variable, a constructor or a tuple")
        self.advance()
        if token.text == "_":
            return PatternWildcard(span=self.span_from(start))
        constructor = self.constructors.get(token.text)
        if constructor is None:
            names = list_names(self.constructors)
            hint = f"constructors: {names}" if names else ""
            self.complain("E9003", f"there is no constructor {token.text}", token, hint)
        patterns = self._patterns(variables) if self.kind() == "(" else []
        if constructor is None:
            return PatternWildcard()
        return PatternConstructor(constructor, patterns, span=self.span_from(start))

    def _patterns(self, variables: list[Var]) -> list[Pattern]:
        self.advance()
        patterns: list[Pattern] = []
        self.type_depth += 1
        try:
            if self.type_depth > MAX_TYPE_NESTING:
                self.abort("E9006", f"a pattern has more than {MAX_TYPE_NESTING} patterns within each other")
            while self.kind() != ")":
                patterns.append(self.pattern(variables))
                if not self.accept(","):
                    break
        finally:
            self.type_depth -= 1
        self.expect(")", "behind the patterns")
        return patterns


def name_of_token(token: Token) -> str:
    """Name denoted by a token with a sigil."""
    text = token.text[1:]
    return unquote(text) if text.startswith('"') else text


def _int_or_bool(text: str, negative: bool) -> int | bool:
    if text in ("True", "False"):
        return text == "True"
    return -int(text) if negative else int(text)
