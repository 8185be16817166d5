"""From nodes to text, ``#[version = "0.0.5"]``.

Every node with children gets a graph binding, ``%1 = …;``, in its evaluation scope (`scopes.place`). So the text
preserves sharing and nests like scopes, however deep the graph. A node used once is printed inline if it ends a scope
or is the value of a `let`. Names are made unique; names that are no identifiers are quoted: ``%"conv1/weight"``.

Printing does not recurse along a graph or a chain of `Let`s: text is built bottom-up, as trees of pieces joined in one
loop at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, cast

from ...ir import GlobalVar, IRModule, Node, Op
from ...ir import printing as ir_printing
from ...ir.deep import run_deep
from ...runtime.records import dataclass
from ..adt import Clause, Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from ..attrs import Attrs
from ..expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    TempExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from ..parts import bound_by, parts_of
from ..printing import RelayNode, register_text
from ..scopes import EvaluationScope, Placement, place
from ..type_walk import SHOWN_PARTS, WrittenSizes
from ..types import TypeData
from .literals import write_number
from .parser import VERSION
from .type_printer import Metadata, Names, TypePrinter, attr_name, sigil, tuple_text

Annotate: TypeAlias = "Callable[[Node], str] | None"
_INDENT: Final = "  "
_DEEPEST_INDENT: Final = 60
"""Greatest indentation, which keeps the text of deep scopes linear in their number."""


@dataclass(frozen=True, slots=True)
class _Lines:
    """Pieces of text on separate lines; `indented` ones are enclosed by brackets on other lines."""

    pieces: list[Piece]
    indented: bool = False


Piece: TypeAlias = "str | list[Piece] | _Lines"


def _join(piece: Piece) -> str:
    """Text of a piece."""
    out: list[str] = []
    stack: list[tuple[Any, int]] = [(piece, 0)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, str):
            out.append(item)
        elif isinstance(item, _Lines):
            inner = min(depth + item.indented, _DEEPEST_INDENT)
            newline = "\n" + _INDENT * inner
            if item.indented:
                stack.append(("\n" + _INDENT * depth, 0))
            for position in reversed(range(len(item.pieces))):
                stack.append((item.pieces[position], inner))
                if position or item.indented:
                    stack.append((newline, 0))
        else:
            stack.extend((child, depth) for child in reversed(item))
    return "".join(out)


class _Definition:
    """Prints one expression with its own names."""

    def __init__(self, expr: Expr, metadata: Metadata, annotate: Annotate) -> None:
        self.expr = expr
        self.annotate = annotate
        self.types = TypePrinter(metadata)
        self._sizes = WrittenSizes()
        self.names = Names()
        self.placement: Placement = place(expr)
        self.references: dict[Expr, Piece] = {}
        self.statements: dict[EvaluationScope, list[Piece]] = {}
        self.inlined = self._inlined()
        self.count = 0

    def _inlined(self) -> set[Expr]:
        """Nodes printed inline."""
        uses = Counter(part for node in self.placement.order for part, _ in self.placement.positions(node))
        ends: set[Expr] = {self.expr}
        for node in self.placement.order:
            match node:
                case Function():
                    ends.add(node.body)
                case Let():
                    ends.update((node.value, node.body))
                case If():
                    ends.update((node.true_branch, node.false_branch))
                case Match():
                    ends.update(clause.rhs for clause in node.clauses)
                case _:
                    pass
        return {node for node in ends if uses[node] == (node is not self.expr)}

    # ----------------------------------------------------------------------------------------- results

    def whole(self) -> Piece:
        """Print the expression after declarations of its free variables."""
        self._name_variables()
        for node in self.placement.order:
            self._write(node)
        free = [f"free_var {self.declaration(var)};" for var in self.free]
        return _Lines([*free, self._scope(self.placement.root, self.expr)])

    def function(self, head: str) -> Piece:
        """Print a function as a definition, with `head` instead of ``fn``."""
        function = cast(Function, self.expr)
        self._name_variables()
        for node in self.placement.order[:-1]:
            self._write(node)
        if self.statements.get(self.placement.root) or self.free:
            raise ValueError("a function of a module has a part that is evaluated outside of it, or a free variable")
        return self._function(function, head)

    def _name_variables(self) -> None:
        bound: set[Var] = set()
        used: dict[Var, None] = {}
        for node in reversed(self.placement.order):
            for var in bound_by(node):
                bound.add(var)
                self.variable(var)
            for part in parts_of(node):
                if isinstance(part, Var):
                    used[part] = None
        if isinstance(self.expr, Var):
            used[self.expr] = None
        self.free = [var for var in used if var not in bound]

    def _write(self, node: Expr) -> None:
        text = self._describe(node)
        comment = self._comment(node)
        if comment:
            text = [text, comment]
        if node in self.inlined or not parts_of(node):
            self.references[node] = text
        else:
            name = f"%{self.count}"
            self.count += 1
            if isinstance(node, Let):
                text = _braced(text)
            where = self.placement.of[node]
            self.statements.setdefault(where, []).append([name, " = ", text, ";"])
            self.references[node] = name

    def _comment(self, node: Expr) -> str:
        text = self._type_comment(node) if self.annotate is None else self.annotate(node)
        return f" /* {text.replace('*/', '* /').replace('/*', '/ *')} */" if text else ""

    def _type_comment(self, node: Expr) -> str:
        if not isinstance(node, RelayExpr) or isinstance(node, (Function, Let)) or node.checked_type_ is None:
            return ""
        return f"ty={self.types.type_(node.checked_type_)}" if self._sizes.of(node.checked_type_) <= SHOWN_PARTS else ""

    def _scope(self, scope: EvaluationScope, end: Expr) -> Piece:
        """Print the bindings of a scope and its result."""
        return _Lines([*self.statements.pop(scope, []), self.reference(end)])

    def _block(self, scope: EvaluationScope, end: Expr) -> Piece:
        return ["{", _Lines([self._scope(scope, end)], indented=True), "}"]

    # ----------------------------------------------------------------------------------------- leaves

    def variable(self, var: Var) -> str:
        """``%x``"""
        return sigil("%", self.names.of(var, var.name_hint))

    def declaration(self, var: Var) -> str:
        """``%x: type``"""
        if var.type_annotation is None:
            return self.variable(var)
        return f"{self.variable(var)}: {self.types.type_(var.type_annotation)}"

    def reference(self, expr: Expr) -> Piece:
        """Print an expression inline."""
        written = self.references.get(expr)
        if written is not None:
            return written
        match expr:
            case Var():
                return self.variable(expr)
            case GlobalVar():
                return sigil("@", expr.name_hint)
            case Op():
                return expr.name
            case Constructor():
                return expr.name_hint if expr.inputs else f"constructor({expr.name_hint})"
            case Constant():
                return self.constant(expr)
            case Tuple():
                return "()"
            case TempExpr():
                return f"<{type(expr).__name__}>"
            case _:
                raise ValueError(f"a {type(expr).__name__} has no text in Relay")

    def constant(self, constant: Constant) -> str:
        """Print a literal, or a reference to the metadata."""
        literal = write_number(constant.data) if constant.is_scalar else None
        if literal is not None:
            return literal
        return f"{self.types.meta(constant)} /* ty={self.types.type_(constant.type)} */"

    # ------------------------------------------------------------------------------------------- nodes

    def _describe(self, node: Expr) -> Piece:
        opened = self.placement.opened.get(node, ())
        match node:
            case Call():
                return self._call(node)
            case Tuple():
                fields = _separated([self.reference(field) for field in node.fields])
                return ["(", *fields, ",)" if len(node.fields) == 1 else ")"]
            case TupleGetItem():
                text = self.reference(node.tuple_value)
                is_number = isinstance(node.tuple_value, Constant)
                return ["(", text, ").", str(node.index)] if is_number else [text, ".", str(node.index)]
            case Function():
                return self._function(node, "fn ")
            case Let():
                value: Piece = self.reference(node.value)
                if isinstance(node.value, Let) and node.value in self.inlined:
                    value = _braced(value)
                head = [f"let {self.declaration(node.var)} = ", value, ";"]
                return _Lines([head, self._scope(opened[0], node.body)])
            case If():
                branches = (self._block(opened[0], node.true_branch), self._block(opened[1], node.false_branch))
                return ["if (", self.reference(node.cond), ") ", branches[0], " else ", branches[1]]
            case Match():
                return self._match(node, opened)
            case RefCreate():
                return ["ref(", self.reference(node.value), ")"]
            case RefRead():
                return ["ref_read(", self.reference(node.ref), ")"]
            case RefWrite():
                return ["ref_write(", self.reference(node.ref), ", ", self.reference(node.value), ")"]
            case _:
                return self.reference(node)

    def _call(self, call: Call) -> Piece:
        args = [self.reference(arg) for arg in call.args]
        if call.attrs is not None:
            args.extend(self.types.call_attrs(call.op, call.attrs))
        types = f"<{self.types.types(call.type_args)}>" if call.type_args else ""
        if isinstance(call.op, Constructor):
            if not call.op.inputs and not args and not types:
                return call.op.name_hint
            return [call.op.name_hint, types, "(", *_separated(args), ")"]
        return [self.reference(call.op), types, "(", *_separated(args), ")"]

    def _function(self, function: Function, head: str) -> Piece:
        type_params = self.types.type_params(function.type_params)
        params = [self.declaration(param) for param in function.params]
        params.extend(f"{attr_name(k)}={self.types.attr_value(v)}" for k, v in function.attrs.items())
        result = ""
        if function.ret_type is not None:
            result = self.types.type_(function.ret_type)
            result = f" -> ({result})" if " where " in result else f" -> {result}"
        relations = ", ".join(self.types.relation(relation) for relation in function.type_constraints)
        where = f" where {relations}" if relations else ""
        if function.type_constraints and result.startswith(" -> fn"):
            result = f" -> ({result[4:]})"
        head = head.rstrip() if type_params else head
        block = self._block(self.placement.opened[function][0], function.body)
        return [f"{head}{type_params}({', '.join(params)}){result}{where} ", block]

    def _match(self, match: Match, opened: tuple[EvaluationScope, ...]) -> Piece:
        clauses: list[Piece] = [
            [self._clause(clause, scope), ","] for clause, scope in zip(match.clauses, opened, strict=True)
        ]
        word = "match" if match.complete else "match?"
        return [f"{word} (", self.reference(match.data), ") {", _Lines(clauses, indented=True), "}"]

    def _clause(self, clause: Clause, scope: EvaluationScope) -> Piece:
        is_plain = scope not in self.statements and not isinstance(clause.rhs, Let)
        rhs = self.reference(clause.rhs) if is_plain else self._block(scope, clause.rhs)
        return [self.pattern(clause.lhs), " => ", rhs]

    def clause(self) -> Piece:
        """Print the only clause of a match."""
        match = cast(Match, self.expr)
        self._name_variables()
        for node in self.placement.order[:-1]:
            self._write(node)
        return self._clause(match.clauses[0], self.placement.opened[match][0])

    def pattern(self, pattern: Pattern) -> str:
        """Print a pattern."""
        match pattern:
            case PatternVar():
                return self.declaration(pattern.var)
            case PatternConstructor():
                fields = f"({', '.join(map(self.pattern, pattern.patterns))})" if pattern.patterns else ""
                return f"{pattern.constructor.name_hint}{fields}"
            case PatternTuple():
                return tuple_text([self.pattern(field) for field in pattern.patterns])
            case PatternWildcard():
                return "_"
            case _:
                raise ValueError(f"a {type(pattern).__name__} has no text in Relay")


def _braced(text: Piece) -> Piece:
    return ["{", _Lines([text], indented=True), "}"]


def _separated(pieces: Iterable[Piece]) -> list[Piece]:
    result: list[Piece] = []
    for piece in pieces:
        if result:
            result.append(", ")
        result.append(piece)
    return result


# ------------------------------------------------------------------------------------------- whole texts


def astext(node: Node, show_meta_data: bool = True, annotate: Annotate = None, *, version: bool = True) -> str:
    """Return a module, expression, type or pattern as Relay text.

    Raises ValueError for other nodes, and DiagnosticError for types nested too deeply.
    """

    def text() -> str:
        metadata = Metadata()
        body = _join(_text_of(node, metadata, annotate))
        head = f'#[version = "{VERSION}"]\n' if version else ""
        return head + body + (metadata.section() if show_meta_data else "")

    return run_deep("the program", "printed", text)


def _text_of(node: Node, metadata: Metadata, annotate: Annotate) -> Piece:
    if isinstance(node, IRModule):
        return _module(node, metadata, annotate)
    if isinstance(node, Clause):
        return _Definition(Match(Tuple(()), (node,)), metadata, annotate).clause()
    if isinstance(node, Pattern):
        return _Definition(Tuple(()), metadata, annotate).pattern(node)
    if isinstance(node, Attrs):
        types = TypePrinter(metadata)
        return ", ".join(f"{name}={types.attr_value(value)}" for name, value in node.items())
    if isinstance(node, Expr):
        return _Definition(node, metadata, annotate).whole()
    return TypePrinter(metadata).type_(node)


def _module(mod: IRModule, metadata: Metadata, annotate: Annotate) -> Piece:
    pieces: list[Piece] = []
    for definition in mod.type_definitions.values():
        pieces += [TypePrinter(metadata).type_data(cast(TypeData, definition)), ""]
    for global_var, function in mod.functions.items():
        if not isinstance(function, Function):
            kind = type(function).__name__
            raise ValueError(f"the function {global_var.name_hint!r} is a {kind}, which has no text in Relay")
        head = f"def {sigil('@', global_var.name_hint)}"
        pieces += [_Definition(function, metadata, annotate).function(head), ""]
    return _Lines(pieces[:-1])


class _ModulePrinter:
    """Prints Relay modules for `ir`: ``mod.script()``, ``mod.show()``, ``repr(mod)``."""

    def script(self, node: Any, **options: Any) -> str:
        return astext(node, show_meta_data=False, version=False, **options)

    def astext(self, node: Any, show_meta_data: bool, annotate: Annotate) -> str:
        return astext(node, show_meta_data, annotate)

    def show(self, node: Any, **options: Any) -> None:
        self.show_text(self.script(node, **options), None)

    def show_text(self, text: str, style: str | None) -> None:
        ir_printing.show_text(text, style)


def is_relay_module(node: Any) -> bool:
    """True for a nonempty module whose functions are all Relay functions."""
    if not isinstance(node, IRModule):
        return False
    functions = node.functions.values()
    return bool(functions or node.type_definitions) and all(isinstance(f, RelayNode) for f in functions)


register_text(astext)
ir_printing.register_dialect(is_relay_module, _ModulePrinter())
