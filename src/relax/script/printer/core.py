"""The printer's core: text with precedence, lines with indentation, and a table of functions by node class.

Every kind of node is printed by one function, registered for its class:

    @prints(Cast)
    def _cast(p: Printer, node: Cast) -> Text: ...          # expressions: text and how tightly it binds

    @prints_statement(Evaluate)
    def _evaluate(p: Printer, node: Evaluate) -> None: ...  # statements: p.line(...)

Exceptions of these functions on invalid IR are caught, and a placeholder is printed: printing never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, NamedTuple, TypeVar

from ...expr import Tuple
from ...info.text import prim_text, struct_info_text
from ...ir import Node, StructInfo, VDevice
from ...ir.printing import plain
from ...ir.sharing import is_excessive, shared_parts
from ...prim import sub_expressions
from ...prim.expr import PrimExpr, Var
from ...runtime.records import dataclass
from ...tir.buffer import Range
from .config import PrinterConfig
from .names import NameTable

# How tightly Python's operators bind.
TERNARY, OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, PRODUCT, UNARY, POWER, ATOM = range(14)


NAMED_PLACES = 2_000
"""Scalar expressions that print more nodes than this, because of shared objects, are printed with names for these."""
SHOWN_PLACES = 100_000
"""Other nodes that print more nodes than this are abbreviated to their outer levels."""
_MEASURED = (PrimExpr, StructInfo, Tuple)


def _sub_expressions(node: Node) -> tuple[Node, ...]:
    return sub_expressions(node) if isinstance(node, PrimExpr) else ()


class Text(NamedTuple):
    """An expression's text, and the precedence of its outermost operator."""

    text: str
    level: int = ATOM


ExprPrinter = Callable[["Printer", Any], Text]
StatementPrinter = Callable[["Printer", Any], None]
ExprPrinterT = TypeVar("ExprPrinterT", bound=Callable[..., Text])
StatementPrinterT = TypeVar("StatementPrinterT", bound=Callable[..., None])

_EXPRESSIONS: dict[type, ExprPrinter] = {}
_STATEMENTS: dict[type, StatementPrinter] = {}


def prints(*classes: type[Node]) -> Callable[[ExprPrinterT], ExprPrinterT]:
    """Register the function that prints expressions of these classes."""

    def register(function: ExprPrinterT) -> ExprPrinterT:
        _EXPRESSIONS.update(dict.fromkeys(classes, function))
        return function

    return register


def prints_statement(*classes: type[Node]) -> Callable[[StatementPrinterT], StatementPrinterT]:
    """Register the function that prints statements of these classes."""

    def register(function: StatementPrinterT) -> StatementPrinterT:
        _STATEMENTS.update(dict.fromkeys(classes, function))
        return function

    return register


def is_statement(node: Any) -> bool:
    """True if a node prints as statements."""
    return type(node) in _STATEMENTS


@dataclass(eq=False)
class NameScope:
    """A Python scope of the text: a function's, or a branch's."""

    declared: set[int] = field(default_factory=set[int])
    """Ids of variables that the text has defined."""
    signature: dict[int, Var] = field(default_factory=dict[int, Var])
    """Shape variables quoted in the signature and not yet used in the body, by id."""
    declarations: list[str] = field(default_factory=list[str])
    """Lines for the top of the function's body."""


class Printer:
    """State of one printed text: options, names, and the lines so far."""

    def __init__(self, config: PrinterConfig) -> None:
        self.config = config
        self.reserved = {
            config.ir_prefix, config.tir_prefix, config.relax_prefix, config.module_alias or "cls", "metadata",
            "float",
        }  # fmt: skip
        self.names = NameTable(self.reserved)
        self.lines: list[str] = []
        self.depth = 0
        self.pending: list[str] = []
        """Lines to insert before the statement being printed."""
        self.frames: list[NameScope] = []
        self.in_signature = False
        self.quoted = False
        """Set when a signature introduces a shape variable: the dimension is then printed quoted."""
        self.data_owners: dict[int, str] = {}
        """Names of buffers by the id of their data variable, which is printed through the buffer's name."""
        self.loops: dict[int, Range] = {}
        """Ranges of loop variables, by id."""
        self.metadata: dict[str, list[Node]] = {}
        self.in_module = False
        self.module_name = config.module_alias
        """Name by which functions refer to their module."""
        self.mentions_module = False
        """Set when a function refers to its module by a name that the text must define."""
        self.vdevices: Sequence[VDevice] = ()
        """Virtual devices of the module."""
        self.function_names: dict[str, str] = {}
        """Names of the module's functions in the text, by their names in the module."""
        self._underlined = {id(node) for node in config.obj_to_underline}
        self._notes = {id(node): remark for node, remark in config.obj_to_annotate.items()}
        self.remarks: list[str] = []
        self.marking = bool(self._underlined or self._notes)
        self._shared: dict[int, str] | None = None
        """Names of shared parts of the expression being printed, by id; None outside of one."""

    # ------------------------------------------------------------------ expressions

    def expr(self, node: Any) -> Text:
        """Text of an expression. Never raises.

        Expressions that grow very large because of shared objects are abbreviated: shared parts of scalar expressions
        get names (``T.meta_var``); other nodes, and expressions in signatures, show only their outer levels.
        """
        if self._shared is None and isinstance(node, _MEASURED):
            self._shared = {}
            try:
                return self._whole(node)
            finally:
                self._shared = None
        if self._shared and id(node) in self._shared:
            return Text(self._shared[id(node)])
        return self._expr(node)

    def _whole(self, node: Any) -> Text:
        """Text of an outermost scalar expression or struct info."""
        if isinstance(node, PrimExpr):
            if is_excessive(node, NAMED_PLACES, _sub_expressions):
                if self.in_signature:
                    return Text(prim_text(node))
                self._name_shared(node)
        elif is_excessive(node, SHOWN_PLACES):
            return Text(struct_info_text(node) if isinstance(node, StructInfo) else plain(node, 2))
        return self._expr(node)

    def _name_shared(self, node: PrimExpr) -> None:
        """Emit lines before the statement that name the expression's shared parts."""
        names: dict[int, str] = {}
        for part in shared_parts(node, _sub_expressions):
            self._shared = names
            text = self._expr(part).text
            name = self.names.fresh("e")
            self.pending.append(f"{name} = {self.T('meta_var')}({text})")
            names[id(part)] = name
        self._shared = names

    def _expr(self, node: Any) -> Text:
        handler = _EXPRESSIONS.get(node.__class__)
        if handler is None:
            return self.marked(node, Text(placeholder(node)))
        try:
            text = handler(self, node)
        except RecursionError:
            raise
        except Exception as problem:  # noqa: BLE001 (whatever is wrong with the IR, the rest must print)
            text = Text(placeholder(node, problem))
        return self.marked(node, text) if self.marking else text

    def text(self, node: Any, level: int = TERNARY) -> str:
        """Text of an expression, parenthesised if it binds less tightly than `level`."""
        printed = self.expr(node)
        return f"({printed.text})" if printed.level < level else printed.text

    def marked(self, node: Any, text: Text) -> Text:
        if id(node) in self._underlined:
            text = Text(f"{UNDERLINE_START}{text.text}{UNDERLINE_END}", text.level)
        if id(node) in self._notes:
            self.remarks.append(self._notes[id(node)])
            text = Text(f"{text.text}{REMARK}", text.level)
        return text

    # ------------------------------------------------------------------ lines

    def line(self, text: str) -> None:
        """Add a line of the statement being printed, after the pending lines."""
        if self.pending:
            pending, self.pending = self.pending, []
            for before in pending:
                self.raw_line(before)
        self.raw_line(text)

    def raw_line(self, text: str) -> None:
        self.lines.append(" " * (self.config.indent_spaces * self.depth) + text if text else "")

    @contextmanager
    def indented(self) -> Generator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def statement(self, node: Any) -> None:
        """Print a statement. Never raises."""
        handler = _STATEMENTS.get(node.__class__)
        start = len(self.lines)
        if handler is None:
            self.line(f"# {placeholder(node)}")
        else:
            depth = self.depth
            try:
                handler(self, node)
            except RecursionError:
                raise
            except Exception as problem:  # noqa: BLE001 (as above)
                self.depth = depth
                self.line(f"# {placeholder(node, problem)}")
        if self.is_marked(node):
            self._mark_lines(node, start)

    def is_marked(self, node: Any) -> bool:
        """True if a node is to be underlined or annotated."""
        return id(node) in self._underlined or id(node) in self._notes

    def _mark_lines(self, node: Any, start: int) -> None:
        for i in range(start, len(self.lines)):
            body = self.lines[i].lstrip(" ")
            indent = self.lines[i][: len(self.lines[i]) - len(body)]
            if body and (i == start or (id(node) in self._underlined and not self.config.underline_heads)):
                self.lines[i] = indent + self.marked(node, Text(body)).text

    # ------------------------------------------------------------------ scopes

    @contextmanager
    def scope(self) -> Generator[NameScope]:
        """Context manager: a new Python scope."""
        frame = NameScope()
        self.frames.append(frame)
        mark = self.names.mark()
        try:
            yield frame
        finally:
            self.frames.pop()
            self.names.release(mark)

    def declare(self, node: Node) -> None:
        """Record in the innermost scope that the text has defined a variable."""
        if self.frames:
            self.frames[-1].declared.add(id(node))

    def is_declared(self, node: Node) -> bool:
        return any(id(node) in frame.declared for frame in self.frames)

    def owner(self, var: Var) -> NameScope | None:
        """Function scope whose signature quotes a shape variable."""
        for frame in reversed(self.frames):
            if id(var) in frame.signature:
                return frame
        return None

    # ------------------------------------------------------------------ prefixes

    def T(self, name: str) -> str:
        return f"{self.config.tir_prefix}.{name}"

    def R(self, name: str) -> str:
        return f"{self.config.relax_prefix}.{name}"

    def I(self, name: str) -> str:  # noqa: E743 (the namespace's own name)
        return f"{self.config.ir_prefix}.{name}"


UNDERLINE_START, UNDERLINE_END, REMARK = "\ue000", "\ue001", "\ue002"


def placeholder(node: Any, problem: Exception | None = None) -> str:
    """Placeholder text for a part that cannot be printed."""
    reason = "" if problem is None else f": {type(problem).__name__}: {_one_line(problem)}"
    if node is None:
        return "<None>"
    if isinstance(node, Node):
        return f"<broken {type(node).__name__}{reason}>" if reason else f"<{plain(node, 2)}>"
    return f"<{type(node).__name__}: {_one_line(node)}>"


def _one_line(value: Any) -> str:
    try:
        text = str(value)
    except Exception as problem:  # noqa: BLE001 (a foreign object's __str__ may do anything)
        text = type(problem).__name__
    return " ".join(text.split())[:80]
