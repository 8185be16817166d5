"""Expression evaluator: an interpreter of Python's syntax tree.

Names come from the scopes, operators from `operators`, attributes pass through `safety`. Text is never executed as
Python. Every created node gets its span; every failure is a DiagnosticError at the responsible expression.
"""

from __future__ import annotations

import ast
import itertools
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar

from typing_extensions import Self

from ....ir import (
    BaseExpr,
    Diagnostic,
    DiagnosticContext,
    DiagnosticError,
    GlobalVar,
    Node,
    Op,
    RelaxExpr,
    Span,
    StructInfo,
    set_slot,
)
from ....op.known import deferred_errors
from ....prim import expr as prim
from . import operators
from .diagnostics import CALL, FORBIDDEN, KIND, POISON, PRINT, SYNTAX, UNDEFINED, Poisoned, close, error, fail
from .safety import LAMBDA_STEPS, MAX_ITERATIONS, attribute, check_arithmetic, check_size
from .scope import MISSING, Scopes
from .source import ScriptSource

T = TypeVar("T")

_PACKAGE = Path(__file__).parents[3]


class SpecialForm:
    """A callable that interprets its arguments' syntax itself, where their values are not enough."""

    def script_call(self, evaluator: Evaluator, node: ast.Call) -> Any:
        """Evaluate ``form(...)``; `node` is the call."""
        raise NotImplementedError(type(self).__name__)

    def script_subscript(self, evaluator: Evaluator, node: ast.Subscript) -> Any:
        """Evaluate ``form[...]``."""
        raise NotImplementedError(type(self).__name__)


class Evaluator:
    """Interpreter of expressions. A dialect's parser derives from it and may override the `eval_*` methods."""

    def __init__(
        self, source: ScriptSource, scopes: Scopes, diagnostics: DiagnosticContext, *, trusted: bool = False
    ) -> None:
        self.source = source
        self.scopes = scopes
        self.diagnostics = diagnostics
        self.trusted = trusted
        self._iterations = 0
        self._expanding: list[Any] = []
        """Stack of macros being expanded."""
        self._table: dict[type[ast.AST], Callable[[Any], Any]] = {}

    # ------------------------------------------------------------------ entry, errors

    print_hint: ClassVar[str] = "T.call_packed calls a packed function, which may print"
    """Hint for a call of ``print``: how to print at run time."""

    _active: ClassVar[threading.local] = threading.local()

    @classmethod
    def current(cls) -> Self | None:
        """Innermost active parser of this thread, if it is of this class; used by the functions of namespaces."""
        stack: list[Evaluator] = getattr(cls._active, "stack", [])
        return stack[-1] if stack and isinstance(stack[-1], cls) else None

    @contextmanager
    def active(self) -> Generator[Self]:
        """Context manager: make this the innermost active parser."""
        stack: list[Evaluator] | None = getattr(self._active, "stack", None)
        if stack is None:
            stack = self._active.stack = []
        stack.append(self)
        try:
            with deferred_errors():
                yield self
        finally:
            stack.pop()

    def eval(self, node: ast.expr) -> Any:
        """Evaluate an expression to an IR node or a plain Python value."""
        kind = type(node)
        method = self._table.get(kind)
        if method is None:
            method = self._table[kind] = getattr(self, f"eval_{kind.__name__}", self._unsupported)
        return method(node)

    def span(self, node: ast.AST) -> Span:
        return self.source.span(node)

    def fail(self, code: str, message: str, node: ast.AST, *, hint: str = "", notes: Iterable[str] = ()) -> NoReturn:
        """Raise a DiagnosticError at a node of the text."""
        fail(code, message, self.span(node), hint=hint, notes=notes)

    def _unsupported(self, node: ast.expr) -> NoReturn:
        self.fail(SYNTAX, f"{_SYNTAX_NAMES.get(type(node), type(node).__name__)} cannot be used in a script", node)

    def locate(self, value: Any, node: ast.AST) -> Any:
        """Set the span of a new node (shared nodes and variables keep theirs)."""
        if (
            isinstance(value, (BaseExpr, StructInfo))
            and value.span is None
            and not value.__is_variable__
            and not isinstance(value, (GlobalVar, Op))
        ):
            set_slot(value, "span", self.source.span(node))
        return value

    def guard(self, node: ast.AST, label: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function; any exception becomes a diagnostic at `node`."""
        try:
            return function(*args, **kwargs)
        except DiagnosticError as problem:
            raise self.placed(problem, node) from problem.__cause__
        except Poisoned:
            raise
        except RecursionError:
            self.fail(SYNTAX, "the expression is nested too deeply", node)
        except Exception as problem:
            text = str(problem.args[0]) if isinstance(problem, KeyError) and problem.args else str(problem)
            text = text or type(problem).__name__
            code = CALL if label else KIND
            message = _message(label, text)
            notes = _raised_at(problem) if self.trusted else ()
            raise error(code, message, self.span(node), notes=notes) from problem

    def placed(self, problem: DiagnosticError, node: ast.AST) -> DiagnosticError:
        """Return the same errors, with those lacking a span located at `node`."""
        if all(d.span is not None for d in problem.diagnostics):
            return problem
        return problem.placed(self.span(node))

    # ------------------------------------------------------------------ leaves

    def eval_Constant(self, node: ast.Constant) -> Any:
        value: Any = node.value
        if isinstance(value, (complex, bytes)):
            self.fail(SYNTAX, f"a {type(value).__name__} literal has no meaning here", node)
        return value

    def eval_Name(self, node: ast.Name) -> Any:
        value = self.scopes.lookup(node.id)
        if value is MISSING:
            return self.missing_name(node)
        if value is POISON:
            raise Poisoned(node.id)
        return value

    def missing_name(self, node: ast.Name) -> Any:
        """Resolve an undefined name. Dialects may define it; by default it is an error."""
        self.require_metadata(node)
        self.fail(UNDEFINED, f"`{node.id}` is not defined", node, hint=close(node.id, self.scopes.names()))

    def require_metadata(self, node: ast.Name) -> None:
        """Raise DiagnosticError if the text refers to a metadata section that it does not have."""
        if node.id == "metadata":
            message = "`metadata` is not defined: the text was printed without the data of its large constants"
            self.fail(UNDEFINED, message, node, hint="print it with the data: script(show_meta=True)")

    def eval_Attribute(self, node: ast.Attribute) -> Any:
        return attribute(self.eval(node.value), node.attr, self.span(node), self.trusted)

    def eval_JoinedStr(self, node: ast.JoinedStr) -> str:
        return "".join(str(self.eval(value)) for value in node.values)

    def eval_FormattedValue(self, node: ast.FormattedValue) -> str:
        value = self.eval(node.value)
        if node.conversion == ord("r"):
            value = repr(value)
        if node.format_spec is None:
            return str(value)
        if not self.trusted:
            self.fail(FORBIDDEN, "text given to from_source may not use format specifications", node)
        return self.guard(node, "", format, value, str(self.eval(node.format_spec)))

    # ------------------------------------------------------------------ collections

    def eval_Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return self.sized(tuple(self.items(node.elts)), node)

    def eval_List(self, node: ast.List) -> list[Any]:
        return self.sized(list(self.items(node.elts)), node)

    def sized(self, value: T, node: ast.AST) -> T:
        """Return a collection, after checking its size in a program given as text."""
        if not self.trusted:
            check_size(value, self.span(node))
        return value

    def items(self, nodes: Iterable[ast.expr]) -> Iterator[Any]:
        """Evaluate a list of expressions, with ``*x`` unpacked."""
        for item in nodes:
            if isinstance(item, ast.Starred):
                yield from self.iterate(item.value)
            else:
                yield self.eval(item)

    def eval_Dict(self, node: ast.Dict) -> dict[Any, Any]:
        table: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                table.update(self.guard(value, "", dict, self.eval(value)))
            else:
                evaluated_key = self.eval(key)
                self.guard(key, "", hash, evaluated_key)
                table[evaluated_key] = self.eval(value)
        return self.sized(table, node)

    def iterate(self, node: ast.expr) -> Iterator[Any]:
        """Iterate over the items of an iterable Python value."""
        value = self.eval(node)
        # Iteration over values with indexing only may not end.
        if isinstance(value, prim.PrimExpr) or not hasattr(value, "__iter__"):
            self.fail(KIND, f"a {type(value).__name__} cannot be iterated over", node)
        for item in self.guard(node, "", iter, value):
            self.count_step(node)
            yield item

    def count_step(self, node: ast.AST, steps: int = 1) -> None:
        """Count `steps` iterations, which are limited for a program given as text. A lambda call counts as several."""
        self._iterations += steps
        if self._iterations > MAX_ITERATIONS and not self.trusted:
            self.fail(FORBIDDEN, f"more than {MAX_ITERATIONS} iterations in a program given as text", node)

    def eval_ListComp(self, node: ast.ListComp) -> list[Any]:
        return self.sized(list(self._comprehend(node.generators, lambda: self.eval(node.elt))), node)

    def eval_GeneratorExp(self, node: ast.GeneratorExp) -> list[Any]:
        return self.sized(list(self._comprehend(node.generators, lambda: self.eval(node.elt))), node)

    def eval_DictComp(self, node: ast.DictComp) -> dict[Any, Any]:
        pairs = self._comprehend(node.generators, lambda: (self.eval(node.key), self.eval(node.value)))
        return self.sized(dict(pairs), node)

    def _comprehend(self, generators: list[ast.comprehension], element: Callable[[], Any]) -> Iterator[Any]:
        head, *rest = generators
        for item in self.iterate(head.iter):
            with self.scopes.frame():
                self.bind_pattern(head.target, item, lambda name, value: self.scopes.define(name.id, value))
                if all(self.truth(test) for test in head.ifs):
                    if rest:
                        yield from self._comprehend(rest, element)
                    else:
                        yield element()

    def bind_pattern(self, target: ast.expr, value: Any, define: Callable[[ast.Name, Any], None]) -> None:
        """Match a target (a name, or nested tuples of names) against a Python value."""
        if isinstance(target, ast.Name):
            define(target, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            values: Iterator[Any] = self.guard(target, "", iter, value)
            items = list(itertools.islice(values, len(target.elts) + 1))
            if len(items) != len(target.elts):
                more = "more" if len(items) > len(target.elts) else str(len(items))
                self.fail(KIND, f"expected {len(target.elts)} values, found {more}", target)
            for element, item in zip(target.elts, items, strict=True):
                self.bind_pattern(element, item, define)
        else:
            self.fail(SYNTAX, "only names and tuples of names can be assigned here", target)

    # ------------------------------------------------------------------ operators

    def eval_BinOp(self, node: ast.BinOp) -> Any:
        a, b = self.eval(node.left), self.eval(node.right)
        return self.locate(self.binary(type(node.op).__name__, a, b, node), node)

    def binary(self, name: str, a: Any, b: Any, node: ast.AST) -> Any:
        """``a <op> b``; `name` is the class of Python's operator node."""
        if not self.trusted and not isinstance(a, Node) and not isinstance(b, Node):
            check_arithmetic(name, a, b, self.span(node))
        return self.sized(self.guard(node, "", operators.binary, name, a, b), node)

    def eval_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.eval(node.operand)
        return self.locate(self.guard(node, "", operators.unary, type(node.op).__name__, value), node)

    def eval_Compare(self, node: ast.Compare) -> Any:
        values = [self.eval(node.left), *(self.eval(c) for c in node.comparators)]
        result: Any = None
        for i, op in enumerate(node.ops):
            comparison = self.locate(self.binary(type(op).__name__, values[i], values[i + 1], node), node)
            result = comparison if i == 0 else self._connect("And", result, comparison, node)
        return result

    def eval_BoolOp(self, node: ast.BoolOp) -> Any:
        name = type(node.op).__name__
        result = self.eval(node.values[0])
        for operand in node.values[1:]:
            if not isinstance(result, Node) and bool(result) is (name == "Or"):
                return result  # decided by Python values alone
            result = self._connect(name, result, self.eval(operand), node)
        return result

    def _connect(self, name: str, a: Any, b: Any, node: ast.AST) -> Any:
        if isinstance(a, Node) and (isinstance(b, (Node, bool)) or prim.is_expr_like(b)):
            return self.locate(self.guard(node, "", operators.connective, name, a, b), node)
        if isinstance(b, Node) and not isinstance(a, bool):
            return self.locate(self.guard(node, "", operators.connective, name, a, b), node)
        return b  # a is a Python value that does not decide

    def eval_IfExp(self, node: ast.IfExp) -> Any:
        condition = self.eval(node.test)
        if isinstance(condition, RelaxExpr):
            self.fail(SYNTAX, "a Relax condition needs an if statement", node, hint="write if/else, or use R.where")
        if isinstance(condition, prim.PrimExpr):
            then, other = self.eval(node.body), self.eval(node.orelse)
            return self.locate(self.guard(node, "", _if_then_else, condition, then, other), node)
        return self.eval(node.body if condition else node.orelse)

    def truth(self, node: ast.expr) -> bool:
        """Truth value of a condition known at parse time."""
        value = self.eval(node)
        if isinstance(value, Node):
            self.fail(KIND, "this condition is not known while the program is parsed", node)
        return bool(value)

    # ------------------------------------------------------------------ calls, subscripts

    def callee(self, node: ast.expr) -> Any:
        """Evaluate the callee of a call."""
        return self.eval(node)

    def eval_Call(self, node: ast.Call) -> Any:
        function = self.callee(node.func)
        if isinstance(function, SpecialForm):
            return self.locate(self.guard(node, "", function.script_call, self, node), node)
        args, keywords = self.arguments(node)
        if function is print and any(isinstance(arg, Node) for arg in args):
            message = "print runs while the program is read, not when it runs"
            note = Diagnostic(PRINT, message, self.span(node), hint=self.print_hint, level="warning")
            self.diagnostics.emit(note)
        return self.locate(self.invoke(function, args, keywords, node), node)

    def arguments(self, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        """Evaluate the arguments of a call."""
        args = list(self.items(node.args))
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is None:
                keywords.update(self.guard(keyword.value, "", dict, value))
            else:
                keywords[keyword.arg] = value
        return args, keywords

    def invoke(self, function: Any, args: list[Any], keywords: dict[str, Any], node: ast.Call) -> Any:
        """Call a value. Dialects override this for values that they call in their own way."""
        if not callable(function):
            self.fail(KIND, f"{ast.unparse(node.func)} is a {type(function).__name__}, which cannot be called", node)
        return self.guard(node, _call_name(node.func), function, *args, **keywords)

    def eval_Subscript(self, node: ast.Subscript) -> Any:
        value = self.eval(node.value)
        if isinstance(value, SpecialForm):
            return self.locate(self.guard(node, "", value.script_subscript, self, node), node)
        index = self.index(node.slice)
        if not hasattr(value, "__getitem__"):
            self.fail(KIND, f"a {type(value).__name__} has no elements to index", node)
        return self.locate(self.guard(node, "", lambda: value[index]), node)

    def index(self, node: ast.expr) -> Any:
        """Evaluate a subscript: an index, a slice, or a tuple of these."""
        if isinstance(node, ast.Tuple):
            return tuple(self.index(item) for item in node.elts)
        if isinstance(node, ast.Slice):
            bounds = (node.lower, node.upper, node.step)
            return slice(*(None if bound is None else self.eval(bound) for bound in bounds))
        return self.eval(node)

    def eval_Lambda(self, node: ast.Lambda) -> Callable[..., Any]:
        """A Python function that interprets the lambda's body in its defining scopes."""
        names = [arg.arg for arg in node.args.args]
        if node.args.vararg or node.args.kwarg or node.args.kwonlyargs or node.args.defaults:
            self.fail(SYNTAX, "a lambda in a script has plain parameters only", node)

        def call(*values: Any) -> Any:
            if len(values) != len(names):
                raise TypeError(f"lambda: expected {len(names)} arguments, found {len(values)}")
            self.count_step(node, LAMBDA_STEPS)
            with self.scopes.frame() as frame:
                frame.update(zip(names, values, strict=True))
                return self.eval(node.body)

        call.__script_parameters__ = names  # type: ignore[attr-defined]
        return call


def _if_then_else(condition: Any, then: Any, other: Any) -> prim.PrimExpr:
    if not condition.dtype.is_bool:
        raise TypeError(f"the condition has dtype {condition.dtype}, expected bool")
    a, b = prim.match_dtypes(operators.as_operand(then), operators.as_operand(other))
    return prim.Call(a.dtype, "tir.if_then_else", (condition, a, b))


def _message(called: str, text: str) -> str:
    """Error message prefixed with the callee's name, unless the text already contains it."""
    own = "relax.op." + called.partition(".")[2] + "("
    if called.startswith("R.") and text.startswith(own):
        return f"{called}({text.removeprefix(own)}"
    return text if not called or text.startswith(called) else f"{called}: {text}"


def _raised_at(problem: Exception) -> tuple[str, ...]:
    """Source location in a user's Python function that raised an error, if any."""
    frames = traceback.extract_tb(problem.__traceback__)
    if not frames or Path(frames[-1].filename).is_relative_to(_PACKAGE):
        return ()
    return (f"raised at {frames[-1].filename}:{frames[-1].lineno}",)


def _call_name(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else "call"


_SYNTAX_NAMES: dict[type[ast.AST], str] = {
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.NamedExpr: "an assignment inside an expression",
    ast.Set: "a set",
    ast.SetComp: "a set",
    ast.Starred: "`*`",
    ast.Slice: "a slice",
}
