"""The grammar of expressions.

    body     ::= (binding ";")* expr
    binding  ::= "let" declared "=" expr | graph "=" expr | expr | "free_var" declared
    expr     ::= operand (binary operand)*            by precedence: || && (== !=) (< <= > >=) (+ -) (* /)
    operand  ::= ("-" | "!")* primary postfix*
    postfix  ::= "." number | type_args? "(" expr,* (name "=" value),* ")" | "^"
    primary  ::= local | global | graph | literal | name | function | if | match | meta | filled
               | "(" body ")" | "(" expr,* ")" | "(" expr ":=" expr ")" | "{" body "}"
               | "ref" "(" expr ")" | "ref_read" "(" expr ")" | "ref_write" "(" expr "," expr ")"
    function ::= "fn" params? "(" declared,* (name "=" value),* ")" ("->" type)? ("where" relation,*)?
                 "{" body "}"
    if       ::= "if" "(" body ")" "{" body "}" "else" (if | "{" body "}")
    match    ::= ("match" | "match" "?") "(" body ")" "{" (pattern "=>" expr),* "}"

The semicolon behind a graph binding may be left out. ``a; b`` is ``let %_ = a; b``. What holds no expressions is in
`leaf_parser`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ...ir import DiagnosticError, GlobalVar, Op, Span
from ..adt import Clause, Match
from ..attrs import Attrs
from ..expr import Call, Expr, Function, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var, const
from ..operators import make_attrs, operator_spec, unknown_operator
from ..types import Type, TypeRelation
from . import literals
from .cursor import Abort, list_names
from .leaf_parser import LeafParser, name_of_token
from .lexer import Token, unquote

BINARY: Final[dict[str, tuple[int, str]]] = {
    "||": (1, "logical_or"),
    "&&": (2, "logical_and"),
    "==": (3, "equal"),
    "!=": (3, "not_equal"),
    "<": (4, "less"),
    "<=": (4, "less_equal"),
    ">": (4, "greater"),
    ">=": (4, "greater_equal"),
    "+": (5, "add"),
    "-": (5, "subtract"),
    "*": (6, "multiply"),
    "/": (6, "divide"),
}
"""(Precedence, operator) of each binary symbol."""
_TYPE_TOKENS: Final = frozenset(("name", "number", "(", ")", "[", "]", ",", "->", ":", "?", "+", "-", "*", "/"))
_PREFIXES: Final = {"-": "negative", "!": "logical_not"}


class _Binding(NamedTuple):
    """Let binding whose body is not parsed yet."""

    var: Var
    value: Expr
    span: Span


class ExprParser(LeafParser):
    """Parses expressions."""

    # ------------------------------------------------------------------------------------------ bodies

    def body(self, end: int) -> Expr:
        """Parse bindings and their result, up to the closing bracket at index `end`, which is not consumed."""
        bindings: list[_Binding] = []
        bound: list[str] = []
        result: Expr | None = None
        while result is None:
            start = self.index
            try:
                result = self._statement(bindings, bound)
                if result is not None and self.index < end:
                    self._sequence(result, bindings, start)
                    result = None
            except Abort:
                if not self.skip_statement(start, end):
                    result = Tuple(())
        for name in bound:
            self.variables.pop(name)
        for binding in reversed(bindings):
            result = Let(binding.var, binding.value, result, span=binding.span)
        return result

    def _statement(self, bindings: list[_Binding], bound: list[str]) -> Expr | None:
        """Parse a binding, or return the result expression."""
        token = self.token
        if token.kind == "graph" and self.kind(1) == "=":
            self.advance()
            self.advance()
            self.graph[token.text] = self.expr()
            self.accept(";")
            return None
        if token.kind == "name" and token.text == "let":
            self._let(bindings, bound)
            return None
        if token.kind == "name" and token.text == "free_var":
            self.advance()
            self.bind(self.declared(), bound)
            self.expect(";", "behind a free variable")
            return None
        return self.expr()

    def _sequence(self, value: Expr, bindings: list[_Binding], start: int) -> None:
        """``value; rest``: a value evaluated for its effect."""
        if not self.accept(";"):
            self.unexpected("expected `;` or the end of the block behind an expression")
        span = self.span_from(start)
        bindings.append(_Binding(Var("_", span=span), value, span))

    def _let(self, bindings: list[_Binding], bound: list[str]) -> None:
        start = self.index
        self.advance()
        var = self.declared()
        self.expect("=", "behind the variable of `let`")
        # The variable is in scope in its value if that is a function.
        recursive = self._is_function_literal()
        if recursive:
            self.bind(var, bound)
        value = self.expr()
        if not recursive:
            self.bind(var, bound)
        span = self.span_from(start)
        bindings.append(_Binding(var, value, span))
        self.expect(";", "behind the value of `let`")

    def _is_function_literal(self) -> bool:
        """True if the tokens up to the next `;` are a function literal, possibly parenthesised."""
        index, expected = self.index, -1
        partner = self.tokens.partner
        while self.items[index].kind in ("(", "{") and index in partner:
            close = partner[index]
            if not self._ends_at(close + 1, expected):
                return False
            index, expected = index + 1, close
        token = self.items[index]
        if token.kind != "name" or token.text != "fn":
            return False
        while self.items[index].kind not in ("{", ";", "end"):
            index = partner.get(index, index) + 1
        return self.items[index].kind == "{" and self._ends_at(partner.get(index, index) + 1, expected)

    def _ends_at(self, index: int, expected: int) -> bool:
        """True if a value ends before token `index`: at the bracket `expected`, or at a semicolon (-1)."""
        if expected >= 0:
            return index == expected
        return index < len(self.items) and self.items[index].kind == ";"

    def block(self, where: str) -> Expr:
        """``{ body }``"""
        opening = self.index
        self.expect("{", where)
        result = self._body_in(opening)
        self.expect("}", "at the end of the block")
        return result

    def _body_in(self, opening: int) -> Expr:
        with self.nested():
            return self.body(self.block_end(opening))

    # ------------------------------------------------------------------------------------- expressions

    def expr(self, least: int = 0) -> Expr:
        """Parse an expression whose binary operators have at least precedence `least`."""
        start = self.index
        result = self._operand()
        while True:
            precedence, name = BINARY.get(self.items[self.index].kind, (0, ""))
            if precedence <= least:
                return result
            self.index += 1
            rhs = self.expr(precedence)
            result = Call(Op.get(name), (result, rhs), span=self.span_from(start))

    def _operand(self) -> Expr:
        start = self.index
        prefixes: list[tuple[int, str]] = []
        while self.items[self.index].kind in _PREFIXES:
            prefixes.append((self.index, self.advance().kind))
        if prefixes and prefixes[-1][1] == "-" and self.at_number():
            prefixes.pop()
            result = self.number(negative=True)
        else:
            result = self._primary()
        result = self._postfix(result, start + len(prefixes))
        for index, symbol in reversed(prefixes):
            result = Call(Op.get(_PREFIXES[symbol]), (result,), span=self.span_from(index))
        return result

    def _postfix(self, result: Expr, start: int) -> Expr:
        while True:
            kind = self.items[self.index].kind
            if kind == "(":
                result = self._call(result, (), start)
            elif kind == "." and self.kind(1) == "number":
                self.index += 1
                number = self.advance()
                if not number.text.isdigit() or len(number.text) > 9:
                    self.abort("E9005", f"{number.text} is not an index of a tuple", number)
                result = TupleGetItem(result, int(number.text), span=self.span_from(start))
            elif kind == "<" and self._at_type_args():
                result = self._call(result, self._type_args(), start)
            elif kind == "^":
                self.index += 1
                result = RefRead(result, span=self.span_from(start))
            else:
                return result

    def _at_type_args(self) -> bool:
        """True if `<` begins type arguments rather than a comparison: types, `>` and `(` follow."""
        index, depth = self.index + 1, 0
        if self.items[index].kind not in ("name", "("):
            return False
        while True:
            kind = self.items[index].kind
            if kind == ">" and depth == 0:
                return self.items[index + 1].kind == "("
            if kind in ("<", ">"):
                depth += 1 if kind == "<" else -1
            elif kind not in _TYPE_TOKENS:
                return False
            index += 1

    def _type_args(self) -> tuple[Type, ...]:
        self.expect("<", "before the type arguments")
        types: list[Type] = []
        while self.kind() != ">":
            types.append(self.type_())
            if not self.accept(","):
                break
        self.expect(">", "behind the type arguments")
        return tuple(types)

    def _call(self, callee: Expr, type_args: tuple[Type, ...], start: int) -> Expr:
        self.expect("(", "before the arguments")
        args: list[Expr] = []
        values: dict[str, Any] = {}
        with self.nested():
            while self.kind() != ")":
                if self.kind() in ("name", "string") and self.kind(1) == "=":
                    self._attribute(values)
                else:
                    args.append(self.expr())
                if not self.accept(","):
                    break
        self.expect(")", "behind the arguments")
        span = self.span_from(start)
        attrs = self._attrs(callee, args, values, span)
        return Call(callee, args, attrs, type_args, span=span)

    def _attribute(self, values: dict[str, Any]) -> None:
        token = self.advance()
        name = unquote(token.text) if token.kind == "string" else token.text
        self.expect("=", "behind the name of an attribute")
        if name in values:
            self.complain("E9004", f"the attribute {name!r} is given twice", token)
        values[name] = self.attr_value()

    def _attrs(self, callee: Expr, args: list[Expr], values: dict[str, Any], span: Span) -> Attrs | None:
        if not isinstance(callee, Op):
            if values:
                hint = "only calls of operators have attributes"
                self.complain_at("E9011", f"the callee has no attribute {next(iter(values))!r}", span, hint)
            return None
        spec = operator_spec(callee)
        if spec is not None and spec.num_inputs is not None and len(args) != spec.num_inputs:
            message = f"{spec.name} takes {spec.num_inputs} operands, found {len(args)}"
            self.complain_at("E9012", message, span)
        try:
            return make_attrs(callee, values, span)
        except DiagnosticError as error:
            for diagnostic in error.diagnostics:
                self.emit(diagnostic)
            return None

    # --------------------------------------------------------------------------------------- primaries

    def _primary(self) -> Expr:
        token = self.token
        match token.kind:
            case "local":
                self.index += 1
                return self._variable(token)
            case "graph":
                self.index += 1
                node = self.graph.get(token.text)
                if node is None:
                    hint = f"bind it first: `{token.text} = …;`"
                    self.complain("E9003", f"the graph binding {token.text} is not defined before", token, hint)
                    return Tuple(())
                return node
            case "number":
                return self.number(negative=False)
            case "global":
                self.index += 1
                return self._global(token)
            case "(":
                return self._parenthesised()
            case "{":
                return self.block("before a block")
            case "name":
                return self._word(token)
            case _:
                self.unexpected("expected an expression")

    def _variable(self, token: Token) -> Expr:
        name = name_of_token(token)
        var = self.variables.get(name)
        if var is None:
            names = self.variables.names()
            hint = f"variables in scope: {list_names('%' + n for n in names)}" if names else ""
            self.complain("E9003", f"the variable {token.text} is not defined here", token, hint)
            return Var(name)
        return var

    def _global(self, token: Token) -> Expr:
        name = name_of_token(token)
        global_var = self.global_vars.get(name)
        if global_var is None:
            global_var = self.global_vars[name] = GlobalVar(name)
            if self.is_module:
                self.complain("E9003", f"the module has no function {token.text}", token)
        return global_var

    def _parenthesised(self) -> Expr:
        start = self.index
        self.advance()
        with self.nested():
            if self.at_word("let") or (self.kind() == "graph" and self.kind(1) == "="):
                result = self.body(self.block_end(start))
                self.expect(")", "at the end of the block")
                return result
            fields: list[Expr] = []
            trailing = False
            while self.kind() != ")":
                fields.append(self.expr())
                trailing = self.accept(",")
                if not trailing:
                    break
            if len(fields) == 1 and not trailing and self.accept(":="):
                value = self.expr()
                self.expect(")", "behind the new value of a reference")
                return RefWrite(fields[0], value, span=self.span_from(start))
        self.expect(")", "behind the fields of a tuple")
        if len(fields) == 1 and not trailing:
            return fields[0]
        return Tuple(fields, span=self.span_from(start))

    def _word(self, token: Token) -> Expr:
        name = token.text
        reader = _WORDS.get(name)
        if reader is not None and (reader[1] is None or self.kind(1) == reader[1]):
            result: Expr = getattr(self, reader[0])()
            return result
        if literals.is_special(name):
            return self.number(negative=False)
        self.advance()
        constructor = self.constructors.get(name)
        if constructor is not None:
            # A constructor without arguments is a value by itself: `Nil` is `Nil()`.
            if constructor.inputs or self.kind() == "(" or (self.kind() == "<" and self._at_type_args()):
                return constructor
            return Call(constructor, (), span=self.span_from(self.index - 1))
        if operator_spec(name) is not None:
            return Op.get(name)
        span = self.tokens.span(token.start, token.end)
        self.emit(unknown_operator(name, span))
        if self.kind() == "(":  # its attributes are unknown, too
            self.index = self.tokens.partner.get(self.index, self.index) + 1
        return Tuple(())

    def _true(self) -> Expr:
        self.advance()
        return const(True)

    def _false(self) -> Expr:
        self.advance()
        return const(False)

    def _metadata(self) -> Expr:
        token = self.token
        node = self.meta_node()
        if isinstance(node, Expr):
            return node
        if node is not None:
            self.complain("E9007", f"the metadata entry is a {type(node).__name__}, not an expression", token)
        return Tuple(())

    def _constructor_itself(self) -> Expr:
        """``constructor(Nil)``: the constructor as a function, where the bare name would be a value."""
        self.advance()
        self.advance()
        token = self.expect("name", "of a constructor")
        self.expect(")", "behind the name of a constructor")
        constructor = self.constructors.get(token.text)
        if constructor is None:
            self.abort("E9003", f"there is no constructor {token.text}", token)
        return constructor

    def _reference(self) -> Expr:
        start = self.index
        word = self.advance().text
        self.advance()
        with self.nested():
            first = self.expr()
            if word == "ref_write":
                self.expect(",", "between the reference and its new value")
                result: Expr = RefWrite(first, self.expr())
            else:
                result = RefCreate(first) if word == "ref" else RefRead(first)
        self.accept(",")
        self.expect(")", f"behind the operands of `{word}`")
        return result.replace(span=self.span_from(start))

    # ----------------------------------------------------------------------- functions, if, and match

    def function(self) -> Function:
        """Parse a function from `fn` on or, in a definition, from the token after its name."""
        start = self.index
        self.accept_word("fn")
        type_params = self.type_params()
        params, attrs = self._params()
        ret_type = self.type_() if self.accept("->") else None
        constraints: list[TypeRelation] = []
        while self.accept_word("where"):
            constraints.append(self.relation())
            while self.accept(","):
                constraints.append(self.relation())
        bound: list[str] = []
        for param in params:
            self.bind(param, bound)
        body = self.block("before the body of a function")
        for name in bound:
            self.variables.pop(name)
        self.close_type_params(type_params)
        span = self.span_from(start)
        return Function(params, body, ret_type, type_params, attrs, span, type_constraints=constraints)

    def _params(self) -> tuple[list[Var], dict[str, Any]]:
        self.expect("(", "before the parameters of a function")
        params: list[Var] = []
        attrs: dict[str, Any] = {}
        names: set[str] = set()
        while self.kind() != ")":
            if self.kind() in ("name", "string") and self.kind(1) == "=":
                self._attribute(attrs)
            else:
                token = self.token
                params.append(self.declared())
                if params[-1].name_hint in names:
                    self.complain("E9004", f"the parameter {token.text} is declared twice", token)
                names.add(params[-1].name_hint)
            if not self.accept(","):
                break
        self.expect(")", "behind the parameters of a function")
        return params, attrs

    def _if(self) -> Expr:
        arms: list[tuple[int, Expr, Expr]] = []
        while True:
            start = self.index
            self.advance()
            opening = self.index
            self.expect("(", "before the condition")
            cond = self._body_in(opening)
            self.expect(")", "behind the condition")
            arms.append((start, cond, self.block("before the branch of `if`")))
            self.expect_word("else", "behind the branch of `if`: an `if` is an expression, and has two branches")
            if not self.at_word("if"):
                break
        result = self.block("before the branch of `else`")
        for start, cond, branch in reversed(arms):
            result = If(cond, branch, result, span=self.span_from(start))
        return result

    def _match(self) -> Expr:
        start = self.index
        self.advance()
        complete = not self.accept("?")
        opening = self.index
        self.expect("(", "before the value to match")
        data = self._body_in(opening)
        self.expect(")", "behind the value to match")
        self.expect("{", "before the clauses")
        clauses: list[Clause] = []
        while self.kind() != "}":
            clauses.append(self._clause())
            if not self.accept(",") and self.items[self.index - 1].kind != "}":
                break
        self.expect("}", "behind the clauses")
        return Match(data, clauses, complete, span=self.span_from(start))

    def _clause(self) -> Clause:
        start = self.index
        variables: list[Var] = []
        pattern = self.pattern(variables)
        self.expect("=>", "behind a pattern")
        bound: list[str] = []
        for var in variables:
            if var.name_hint in bound:
                message = f"the variable %{var.name_hint} occurs twice in a pattern"
                self.complain_at("E9004", message, var.span)
            self.bind(var, bound)
        with self.nested():
            rhs = self.expr()
        for name in bound:
            self.variables.pop(name)
        return Clause(pattern, rhs, span=self.span_from(start))


_WORDS: Final[dict[str, tuple[str, str | None]]] = {
    "fn": ("function", None),
    "if": ("_if", None),
    "match": ("_match", None),
    "True": ("_true", None),
    "False": ("_false", None),
    "meta": ("_metadata", "["),
    "Constant": ("filled", "("),
    "constructor": ("_constructor_itself", "("),
    "ref": ("_reference", "("),
    "ref_read": ("_reference", "("),
    "ref_write": ("_reference", "("),
}
