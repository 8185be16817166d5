"""The grammar of modules, and the functions that read text: `parse`, `parse_expr`, `parse_type`, `fromtext`.

    text       ::= version? (definition* | body) metadata?
    version    ::= '#[version = "0.0.5"]'
    metadata   ::= "#[metadata]" JSON
    definition ::= "def" global function
                 | "type" name params? "{" (name ("(" type,* ")")?),* "}"
                 | "extern" "type" name params? ";"
                 | "import" string ";"?

A text is always parsed to the end: every error is reported with its position, and an unparseable statement or
definition is skipped. Definitions may refer to each other in any order. For unmatched brackets, only these are
reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from ...ir import DiagnosticContext, GlobalVar, IRModule, Node, Source, load_json
from ...ir.deep import run_deep
from ..adt import Constructor
from ..expr import Expr, Function
from ..types import GlobalTypeVar, Type, TypeData
from .cursor import DEFINITION_WORDS, Abort
from .expr_parser import ExprParser
from .leaf_parser import name_of_token
from .lexer import Tokens, unquote

VERSION: Final = "0.0.5"
T = TypeVar("T")

MetaTable = Mapping[str, "list[Node] | tuple[Node, ...]"]


def parse(
    source: str,
    source_name: str = "<string>",
    init_module: IRModule | None = None,
    init_meta_table: MetaTable | None = None,
) -> IRModule:
    """Parse a module, on top of the definitions of `init_module`.

    `init_meta_table` holds the nodes of ``meta[key][i]`` for a text without metadata section. Raises DiagnosticError
    with every error of the text.
    """
    return _read(source, source_name, init_module, init_meta_table, _Parser.module)


def parse_expr(
    source: str,
    source_name: str = "<string>",
    init_module: IRModule | None = None,
    init_meta_table: MetaTable | None = None,
) -> Expr:
    """Parse an expression; `init_module` holds the types and constructors it mentions.

    Raises DiagnosticError with every error of the text.
    """
    return _read(source, source_name, init_module, init_meta_table, _Parser.expression)


def parse_type(source: str, source_name: str = "<string>", init_module: IRModule | None = None) -> Type:
    """Parse a type. Raises DiagnosticError."""
    return _read(source, source_name, init_module, None, _Parser.type_alone)


def fromtext(source: str, source_name: str = "<string>") -> IRModule | Expr:
    """Parse a module if the text begins with a definition, else an expression. Raises DiagnosticError."""
    return _read(source, source_name, None, None, _Parser.anything)


def _read(
    source: str,
    source_name: str,
    init_module: IRModule | None,
    meta_table: MetaTable | None,
    rule: Callable[[_Parser], T],
) -> T:
    def read() -> T:
        diagnostics = DiagnosticContext()
        tokens = Tokens(Source(source_name, source), diagnostics)
        parser = _Parser(tokens, diagnostics)
        result: T | None = None
        if not tokens.has_unmatched:
            try:
                parser.begin(init_module, meta_table)
                result = rule(parser)
            except Abort:
                pass
        diagnostics.finish()
        return cast(T, result)

    return run_deep("the text", "read", read)


_importer: Callable[[str], IRModule] | None = None


def register_importer(function: Callable[[str], IRModule]) -> None:
    """Register `function(name)`, which resolves ``import "name"``. It raises KeyError for an unknown name."""
    global _importer
    _importer = function


class _Parser(ExprParser):
    """Parses modules and other complete texts."""

    def begin(self, module: IRModule | None, meta_table: MetaTable | None) -> None:
        """Check the version, read the metadata, and add the definitions of a module to the scope."""
        self.functions: dict[GlobalVar, Any] = {}
        self.type_definitions: dict[GlobalTypeVar, TypeData] = {}
        version = self.tokens.version
        if version is not None and unquote(version.text[version.text.index('"') : -1].rstrip()) != VERSION:
            self.complain("E9008", "the version of the text is not supported", version, f'supported: "{VERSION}"')
        self.metadata = {key: tuple(nodes) for key, nodes in (meta_table or {}).items()}
        if self.tokens.metadata is not None:
            self.metadata = self._read_metadata(self.tokens.metadata)
        if module is not None:
            self.include(module)

    def _read_metadata(self, text: str) -> dict[str, tuple[Node, ...]]:
        try:
            table: Any = load_json(text)
            if not all(isinstance(item, Node) for items in table.values() for item in items):
                raise ValueError("the entries are not nodes")
            return {str(key): tuple(items) for key, items in table.items()}
        except (ValueError, TypeError, AttributeError, RecursionError, KeyError, OverflowError) as error:
            end = len(self.tokens.source.text)
            message = str(error).split("\n", 1)[0]
            span = self.tokens.span(max(0, end - len(text)), end)
            self.complain_at("E9007", f"the metadata section cannot be read: {message}", span)
            return {}

    def include(self, module: IRModule) -> None:
        """Add the definitions of a module to the scope and the result."""
        for key, definition in cast("dict[Any, Any]", module.type_definitions).items():
            self._declare_type(key, definition)
        for key, function in module.functions.items():
            self.global_vars[key.name_hint] = key
            self.functions[key] = function

    def _declare_type(self, key: GlobalTypeVar, definition: TypeData) -> None:
        self.global_type_vars[key.name_hint] = key
        self.type_definitions[key] = definition
        for constructor in definition.constructors:
            self.constructors[constructor.name_hint] = constructor

    # ------------------------------------------------------------------------------------------- rules

    def anything(self) -> IRModule | Expr:
        """Parse a module if the text begins with a definition, else an expression."""
        token = self.token
        if token.kind == "end" or (token.kind == "name" and token.text in DEFINITION_WORDS):
            return self.module()
        return self.expression()

    def expression(self) -> Expr:
        """Parse the text as an expression."""
        result = self.body(len(self.items) - 1)
        self.expect("end", "behind the expression")
        return result

    def type_alone(self) -> Type:
        """Parse the text as a type."""
        result = self.type_()
        self.expect("end", "behind the type")
        return result

    def module(self) -> IRModule:
        """Parse the text as definitions: names first, then types, then functions."""
        self.is_module = True
        starts = self._definitions()
        for start in starts:
            if self.items[start].text == "import":
                self._at(start, self._import)
        types = [start for start in starts if self.items[start].text in ("type", "extern")]
        declared = {start: self._at(start, self._declared_type) for start in types}
        functions = [start for start in starts if self.items[start].text == "def"]
        names = {start: self._at(start, self._declared_function) for start in functions}
        for start in types:
            header = declared[start]
            if header is not None:
                self._at(start, lambda header=header: self._type_definition(header))
        for start in functions:
            global_var = names[start]
            if global_var is not None:
                self._at(start, lambda name=global_var: self._definition(name))
        return IRModule(self.functions, type_definitions=cast("dict[Node, Node]", self.type_definitions))

    def _definitions(self) -> list[int]:
        """Indices of the tokens that begin a definition; text between definitions is reported."""
        starts: list[int] = []
        index, last = 0, len(self.items) - 1
        is_reported = False
        while index < last:
            token = self.items[index]
            if token.kind == "name" and token.text in DEFINITION_WORDS:
                starts.append(index)
                index += 2 if token.text == "extern" else 1
                is_reported = False
            elif not starts and not is_reported:
                hint = "a module is made of `def`, `type`, `extern type` and `import`"
                self.complain("E9002", f"expected a definition, found `{token.text[:40]}`", token, hint)
                is_reported = True
            index = max(index, self.tokens.partner.get(index, index)) + (token.text not in DEFINITION_WORDS)
        return starts

    def _at(self, start: int, rule: Callable[[], T]) -> T | None:
        """Apply a grammar rule from a token on; None if parsing fails."""
        self.index = start
        self.graph, self.dims = {}, {}
        try:
            return rule()
        except Abort:
            return None

    def _end_of_definition(self) -> None:
        token = self.token
        if token.kind != "end" and not (token.kind == "name" and token.text in DEFINITION_WORDS):
            self.unexpected("expected a definition")

    def _import(self) -> None:
        self.advance()
        token = self.expect("string", "behind `import`")
        self.accept(";")
        name = unquote(token.text)
        try:
            if _importer is None:
                raise KeyError(name)
            module = _importer(name)
        except KeyError:
            self.complain("E9003", f"there is no module {name!r} to import", token, 'there is "prelude.rly"')
            return
        self.include(module)
        self._end_of_definition()

    # ------------------------------------------------------------------------------------------- types

    def _declared_type(self) -> GlobalTypeVar | None:
        if self.advance().text == "extern":
            self.expect_word("type", "behind `extern`")
        token = self.expect("name", "of the type")
        if token.text in self.global_type_vars:
            self.complain("E9004", f"the type {token.text} is defined twice", token)
            return None
        header = GlobalTypeVar(token.text, span=self.tokens.span(token.start, token.end))
        self.global_type_vars[token.text] = header
        return header

    def _type_definition(self, header: GlobalTypeVar) -> None:
        start = self.index
        is_extern = self.advance().text == "extern"
        self.index += 2 if is_extern else 1
        params = self.type_params()
        constructors: list[Constructor] = []
        if not is_extern:
            self.expect("{", "before the constructors")
            while self.kind() != "}":
                constructors.append(self._constructor(header, len(constructors)))
                if not self.accept(","):
                    break
            self.expect("}", "behind the constructors")
        self.accept(";")
        self.close_type_params(params)
        self.type_definitions[header] = TypeData(header, params, constructors, span=self.span_from(start))
        self._end_of_definition()

    def _constructor(self, header: GlobalTypeVar, tag: int) -> Constructor:
        start = self.index
        token = self.expect("name", "of a constructor")
        inputs: list[Type] = []
        if self.accept("("):
            while self.kind() != ")":
                inputs.append(self.type_())
                if not self.accept(","):
                    break
            self.expect(")", "behind the types of a constructor")
        constructor = Constructor(token.text, inputs, header, tag, span=self.span_from(start))
        if token.text in self.constructors:
            self.complain("E9004", f"the constructor {token.text} is defined twice", token)
        self.constructors[token.text] = constructor
        return constructor

    # --------------------------------------------------------------------------------------- functions

    def _declared_function(self) -> GlobalVar | None:
        self.advance()
        token = self.expect("global", "behind `def`")
        name = name_of_token(token)
        if name in self.global_vars:
            self.complain("E9004", f"the function {token.text} is defined twice", token)
            return None
        global_var = GlobalVar(name, span=self.tokens.span(token.start, token.end))
        self.global_vars[name] = global_var
        return global_var

    def _definition(self, global_var: GlobalVar) -> None:
        self.index += 2
        function: Function = self.function()
        self.functions[global_var] = function
        self._end_of_definition()
