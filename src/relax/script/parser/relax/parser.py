"""The Relax parser: one ``def`` under ``@R.function`` becomes a Function.

It builds the plain tree, with spans; struct info is derived later, for the whole module. Struct info known at parse
time is used only for literals and older spellings that depend on it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, ClassVar, NoReturn, cast

from ....expr import (
    Binding,
    Call,
    Constant,
    DataflowVar,
    Function,
    If,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    convert,
    is_leaf,
)
from ....ir import Diagnostic, DiagnosticError, GlobalVar, Node, RelaxExpr, StructInfo, structural_equal
from ....op.intrinsics import AssertOp
from ....op.known import known_struct_info, remember
from ....prim import expr as prim
from ....struct_info import ShapeStructInfo
from ....tir.stmt import PrimFunc
from ..core import FunctionDecorator, FunctionTask, is_docstring
from ..core.diagnostics import ANNOTATION, DECLARATION, IMPURE, KIND, PLACE, POISON, SYNTAX, Poisoned
from ..module import function_decorator
from .blocks import DataflowScope, SeqBuilder, always_returns, output_definitions, result_names
from .calls import adopt, remember_local, remember_result
from .names import NameReader, holders_first, quoted_names
from .older import has_effects, is_older_spelling, leaves_purity_unsaid
from .statements import DataflowFrame, MatchCastValue, is_meta


class RelaxParser(NameReader):
    """Parser of one function and its local functions."""

    macros = "R"
    instead: ClassVar[Mapping[type[ast.AST], str]] = {
        ast.While: "a loop whose length is not known is a recursive function, or stands in a T.prim_func",
        ast.Raise: "R.assert_op fails at run time",
        ast.Try: "a program cannot catch errors; catch them where it is called",
        ast.Delete: "nothing need be deleted: values go when nobody uses them",
        ast.Import: "import it outside, before the program",
        ast.ImportFrom: "import it outside, before the program",
        ast.Match: "use if and else",
        ast.ClassDef: "a module is a class of its own, under @I.ir_module",
    }

    def __init__(self, task: FunctionTask) -> None:
        super().__init__(task)
        self.seq = SeqBuilder()
        self.dataflow: DataflowScope | None = None
        self.attrs: dict[str, Any] = {}
        self.ret_struct_info: StructInfo | None = None
        self._whole = task.node
        self._statement: ast.stmt = task.node
        self._returned: ast.Return | None = None
        """Last return of the current function, for the span of its result."""
        self._unpacked = False
        """True while a tuple is evaluated whose items are bound one by one."""

    # ------------------------------------------------------------------ functions

    @cached_property
    def older(self) -> bool:
        """True if the function uses the spelling of the 2022 documents."""
        return is_older_spelling(self._whole)

    def function(self, node: ast.FunctionDef, options: dict[str, Any], local: bool = False) -> Function:
        """Parse a ``def`` to a Function."""
        saved = self.seq, self.dataflow, self.attrs, self.ret_struct_info, self.sizes, self.bound
        self.seq, self.dataflow, self.attrs, self.ret_struct_info = SeqBuilder(), None, {}, None
        self.sizes, self.bound = dict(self.sizes), dict(self.bound)
        try:
            with self.scopes.frame():
                params = self.parameters(node)
                returns = None if node.returns is None else self.annotation(node.returns)
                body = self._body(node)
            attrs = dict(self.attrs)
            if not local and not options.get("private", False):
                attrs = {"global_symbol": options.get("name", node.name), **attrs}
            pure = options.get("pure")
            if pure is None:
                pure = not has_effects(body) or not (self.older or self._is_impure_unsaid(node))
            ret = returns if returns is not None else self.ret_struct_info
            return Function(params, body, ret, bool(pure), attrs, span=self.span(node))
        finally:
            self.seq, self.dataflow, self.attrs, self.ret_struct_info, self.sizes, self.bound = saved

    def _is_impure_unsaid(self, node: ast.FunctionDef) -> bool:
        """True for a function with effects in a spelling that predates purity annotations; warns of it."""
        if not leaves_purity_unsaid(node):
            return False
        message = f"`{node.name}` calls packed functions and is impure, which its decorator does not say"
        note = Diagnostic(IMPURE, message, self.span(node), hint="write @R.function(pure=False)", level="warning")
        self.diagnostics.emit(note)
        return True

    def parameters(self, node: ast.FunctionDef) -> list[Var]:
        """Parse the parameters of a ``def`` and define them in the innermost scope."""
        args = node.args
        for extra in (args.vararg, args.kwarg, *args.kwonlyargs, *args.posonlyargs):
            if extra is not None:
                self.fail(DECLARATION, "a Relax function has plain parameters only", extra)
        for default in args.defaults:
            self.fail(DECLARATION, "a parameter of a Relax function has no default value", default)
        for name, dtype in quoted_names(arg.annotation for arg in args.args).items():
            self.new_size(name, dtype)
        params: dict[str, Var] = {}
        for arg in holders_first(args.args):
            info: StructInfo | None = None
            if arg.annotation is None:
                self.fail(
                    ANNOTATION,
                    f"parameter `{arg.arg}` has no annotation",
                    arg,
                    hint=f"write {arg.arg}: R.Tensor(...), or {arg.arg}: R.Object for any value",
                )
            with self.diagnostics.collect(), self.binding_dimensions():
                info = self.annotation(arg.annotation)
                self.bind_sizes(info)
            param = Var(arg.arg, info, span=self.span(arg))
            params[arg.arg] = param
            failed = param.annotation is None
            self.scopes.define(arg.arg, POISON if failed else param)  # shapes further on may be held by it
        return [params[arg.arg] for arg in args.args]

    def _body(self, node: ast.FunctionDef) -> SeqExpr:
        statements = [s for i, s in enumerate(node.body) if not (i == 0 and is_docstring(s))]
        self._returned = None
        result = self.statements(statements)
        span = self.span(self._returned or node)
        if result is None:
            if not self.diagnostics.errors:
                self.fail(PLACE, f"function `{node.name}` does not return a value", node, hint="end it with `return`")
            result = Tuple(())
        return self.seq.finish(result, span)

    def known_info(self, expr: RelaxExpr) -> StructInfo | None:
        """Struct info of a value, as far as known at parse time."""
        return known_struct_info(expr)

    @property
    def assumes_purity(self) -> bool:
        """True in dataflow blocks of functions in the 2022 spelling, where packed functions are assumed to be pure."""
        return self.older and self.dataflow is not None

    # ------------------------------------------------------------------ calls

    def invoke(self, function: Any, args: list[Any], keywords: dict[str, Any], node: ast.Call) -> Any:
        if isinstance(function, (Function, PrimFunc)) and self.module is not None:
            function = adopt(self.module, function)
        if isinstance(function, RelaxExpr) and keywords:
            self.fail(KIND, "a call of a function takes no keyword arguments", node)
        value = super().invoke(function, args, keywords, node)
        if isinstance(value, Call) and isinstance(value.op, (Var, GlobalVar)):
            remember_result(value, self.bound)
        return value

    def arguments(self, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        args, keywords = super().arguments(node)
        for keyword in node.keywords:
            if keyword.arg is not None:
                self._no_match_cast(keywords[keyword.arg], keyword.value)
        return args, keywords

    def items(self, nodes: Iterable[ast.expr]) -> Iterator[Any]:
        for node in nodes:
            for value in super().items([node]):
                if not self._unpacked:
                    self._no_match_cast(value, node)
                yield value

    def binary(self, name: str, a: Any, b: Any, node: ast.AST) -> Any:
        for value in (a, b):
            self._no_match_cast(value, node)
        return super().binary(name, a, b, node)

    def _no_match_cast(self, value: Any, node: ast.AST) -> None:
        if isinstance(value, MatchCastValue):
            self.fail(
                PLACE,
                "a match_cast is a binding: it cannot stand inside an expression",
                node,
                hint="give it a name in a line of its own: y = R.match_cast(...)",
            )

    # ------------------------------------------------------------------ statements

    def statements(self, body: Sequence[ast.stmt], after: Sequence[ast.stmt] = ()) -> RelaxExpr | None:
        """Visit statements up to a return and return its value; None without a return.

        `after` holds the statements that follow if they do not return.
        """
        for i, statement in enumerate(body):
            if isinstance(statement, ast.Return):
                if i + 1 < len(body):
                    with self.diagnostics.collect():
                        self.fail(PLACE, "this is never reached: it comes after a return", body[i + 1])
                return self._guarded(statement, partial(self._return, statement))
            if isinstance(statement, ast.If):
                taken, rest = self._taken_branch(statement), body[i + 1 :]
                if taken is not None:
                    return self.statements(taken, [*rest, *after])
                if always_returns(statement.body) or always_returns(statement.orelse):
                    return self._guarded(statement, partial(self._returning_if, statement, [*rest, *after]))
            self.visit(statement)
        return self.statements(after) if after else None

    def _guarded(self, statement: ast.stmt, make: Callable[[], RelaxExpr]) -> RelaxExpr:
        """Evaluate a returning statement; after an error, return a dummy value to avoid follow-up errors."""
        try:
            return make()
        except DiagnosticError as problem:
            self.diagnostics.diagnostics.extend(self.placed(problem, statement).diagnostics)
        except Poisoned:
            pass
        return Tuple(())

    def _return(self, node: ast.Return) -> RelaxExpr:
        self._returned = node
        return Tuple(()) if node.value is None else self.expression(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        """Report a return that does not end a function or branch (`statements` handles those that do)."""
        if self.dataflow is not None:
            self.fail(PLACE, "a dataflow block cannot return", node, hint="R.output(...) what comes after needs")
        self.fail(PLACE, "a return cannot stand here", node)

    def _returning_if(self, node: ast.If, after: Sequence[ast.stmt]) -> RelaxExpr:
        """Parse an ``if`` with a returning branch; the statements after it belong to the other branch."""
        cond = self._condition(node)
        branches: list[RelaxExpr] = []
        for body in (node.body, node.orelse):
            with self._branch():
                value = self.statements(body, () if always_returns(body) else after)
                if value is None:
                    self.fail(PLACE, "one branch of this `if` returns, the other does not", node)
                branches.append(self.seq.finish(value, self._span_of(body, node)))
        return If(cond, *branches, span=self.span(node))

    def expression(self, node: ast.expr) -> RelaxExpr:
        """Evaluate a Python expression to a Relax expression."""
        value = self.eval(node)
        if isinstance(value, MatchCastValue):
            var = self._emit("_match", value, None, node)
            return var
        return self._convert(value, node)

    def _convert(self, value: Any, node: ast.AST) -> RelaxExpr:
        if value is None:
            self.fail(KIND, "this has no value", node)
        if isinstance(value, PrimFunc) and self.module is not None:
            return self.module.adopt(value)
        return self.locate(self.guard(node, "", convert, value), node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if is_docstring(node):
            return
        value = self.eval(node.value)
        if value is None:
            return
        if not isinstance(value, (RelaxExpr, MatchCastValue)):
            self.fail(KIND, "this statement has no effect", node)
        self._emit("_", value, None, node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """``assert n % 4 == 0, "message"`` is an R.assert_op."""
        message = "" if node.msg is None else self.eval(node.msg)
        if not isinstance(message, str):
            self.fail(KIND, "the message of an assertion is a string", node.msg or node)
        cond = self._convert_condition(self.eval(node.test), node.test)
        format = message.replace("{", "{{").replace("}", "}}")
        value = AssertOp.make(cond, format=format)
        self._emit("_", self.locate(value, node), None, node)

    def visit_Assign(self, node: ast.Assign) -> None:
        # ``a, b = R.match_cast(...), R.match_cast(...)`` is two bindings.
        self._unpacked = isinstance(node.value, ast.Tuple) and isinstance(node.targets[0], (ast.Tuple, ast.List))
        try:
            value = self.eval(node.value)
        finally:
            self._unpacked = False
        for target in node.targets:
            value = self._assign(target, value, None, node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            self.fail(SYNTAX, "a variable is given a value where it is declared", node)
        value = self.eval(node.value)  # first: it may bind shape variables that the annotation mentions
        info: StructInfo | None = self.annotation(node.annotation)
        if isinstance(info, ShapeStructInfo) and isinstance(value, (tuple, list)):
            value = self.guard(node.value, "", ShapeExpr, value)
            if self.older and info.ndim == -1:  # then R.Shape only said that the value is a shape
                info = ShapeStructInfo(value.values)
        self._assign(node.target, value, info, node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """``x += y`` is ``x = x + y``: a new variable of the same name."""
        if not isinstance(node.target, ast.Name):
            self.fail(SYNTAX, "only a name can be assigned", node.target)
        load = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        value = self.binary(type(node.op).__name__, self.eval(load), self.eval(node.value), node)
        self._assign(node.target, self.locate(value, node), None, node)

    def _assign(self, target: ast.expr, value: Any, info: StructInfo | None, node: ast.stmt) -> Any:
        """Assign a value to a target; returns the value for further targets of the same statement."""
        if isinstance(target, (ast.Tuple, ast.List)):
            return self._unpack(target, value, node)
        if not isinstance(target, ast.Name):
            self.fail(SYNTAX, "only names can be assigned: values are immutable", target)
        if value is None:
            self.fail(KIND, "this has no value to assign", node)
        if isinstance(value, prim.Var) and info is None:
            return self._declare(target, value)
        outputs = self.dataflow.definitions if self.dataflow is not None else {}
        if info is None and is_meta(value) and target.id not in outputs:
            self.scopes.define(target.id, value)
            return value
        return self._emit(target.id, value, info, node, target)

    def _unpack(self, target: ast.Tuple | ast.List, value: Any, node: ast.stmt) -> Any:
        items: Sequence[Any]
        if isinstance(value, (tuple, list)):
            items = cast("Sequence[Any]", value)
        elif isinstance(value, Tuple):
            items = value.fields
        else:
            whole = self._emit("", value, None, node)
            items = [TupleGetItem(whole, i, span=self.span(element)) for i, element in enumerate(target.elts)]
        if len(items) != len(target.elts):
            self.fail(KIND, f"{len(target.elts)} names for a tuple of {len(items)} values", target)
        for element, item in zip(target.elts, items, strict=True):
            self._assign(element, item, None, node)
        return cast(Any, value)

    def _declare(self, target: ast.Name, value: prim.Var) -> prim.Var:
        """``n = T.int64()``: a new shape variable, or the existing one of this name from the signature."""
        existing = self.scopes.local(target.id)
        if isinstance(existing, RelaxExpr):
            existing = self.sizes.get(target.id)
        if isinstance(existing, prim.Var):
            if existing.dtype != value.dtype:
                hint = f'where it is bound, write R.Prim("{value.dtype!s}", value="{target.id}")'
                message = f"`{target.id}` is a shape variable of dtype {existing.dtype!s} already"
                self.fail(KIND, message, target, hint=hint)
            return existing
        variable = value if value.name else prim.Var(target.id, value.dtype, span=self.span(target))
        if value.nonnegative:
            prim.mark_nonnegative(variable)
        self.scopes.define(target.id, variable)
        return variable

    def _emit(
        self, name: str, value: Any, info: StructInfo | None, node: ast.AST, target: ast.AST | None = None
    ) -> Var:
        """Bind a value to a new variable in the open block."""
        var_span = self.span(target if target is not None else node)
        kind = DataflowVar if self._is_local(name, self._statement) else Var
        binding: Binding
        if isinstance(value, MatchCastValue):
            var = kind(name or "gv", info, span=var_span)
            binding = MatchCast(var, value.value, value.struct_info, span=self.span(node))
            value_info = value.struct_info
            self.bind_sizes(value_info)
        else:
            expr = self._convert(value, getattr(node, "value", None) or node)
            var = kind(name or ("lv" if self.dataflow else "gv"), info, span=var_span)
            binding = VarBinding(var, expr, span=self.span(node))
            value_info = known_struct_info(expr)
        if info is None and value_info is not None:
            remember(var, value_info)
        self._append(binding)
        if self.dataflow is not None:
            self.dataflow.variables.add(var)
        if name:
            self.scopes.define(name, var)
        return var

    def _is_local(self, name: str, statement: ast.stmt) -> bool:
        """True if a definition is local to the current dataflow block."""
        if self.dataflow is None:
            return False
        return not any(statement is definition for definition in self.dataflow.definitions.get(name, ()))

    def dispatch(self, node: ast.stmt) -> None:
        saved, self._statement = self._statement, node
        try:
            super().dispatch(node)
        finally:
            self._statement = saved

    # ------------------------------------------------------------------ dataflow blocks

    def visit_With(self, node: ast.With) -> None:
        item = node.items[0]
        frame = self.eval(item.context_expr)
        if len(node.items) != 1 or not isinstance(frame, DataflowFrame):
            self.fail(SYNTAX, "the only `with` in a Relax function is `with R.dataflow():`", node)
        if item.optional_vars is not None:
            self.fail(SYNTAX, "a dataflow block has no name", item.optional_vars)
        if self.dataflow is not None:
            self.fail(PLACE, "a dataflow block cannot stand inside another", node)
        self.seq.close()
        self.dataflow = DataflowScope(output_definitions(node.body))
        outer = self.scopes.frames[-1]
        try:
            with self.scopes.frame() as inner:
                self.visit_body(node.body)
        finally:
            self.dataflow = None
        self.seq.close(dataflow=True, span=self.span(node))
        for name, value in inner.items():
            if isinstance(value, DataflowVar):
                self.hidden.add(name)
            else:
                outer[name] = value

    def dataflow_output(self, values: Sequence[Any]) -> None:
        """``R.output(...)``."""
        node = self._statement
        if self.dataflow is None:
            self.fail(PLACE, "R.output belongs inside a dataflow block", node)
        if self.dataflow.outputs_seen:
            self.fail(PLACE, "a dataflow block lists its outputs once", node)
        self.dataflow.outputs_seen = True
        for value in values:
            if isinstance(value, Var) and value in self.dataflow.variables and type(value) is Var:
                continue
            shown = value.name_hint if isinstance(value, Var) else type(value).__name__
            self.fail(PLACE, f"R.output: `{shown}` is not a variable bound in this dataflow block", node)

    def _append(self, binding: Binding) -> None:
        """Append a binding to the current block; R.output ends a dataflow block."""
        if self.dataflow is not None and self.dataflow.outputs_seen:
            hint = "move the binding above R.output(...), or out of the block"
            self.fail(PLACE, "R.output is the last statement of a dataflow block", self._statement, hint=hint)
        self.seq.emit(binding)

    def visit_For(self, node: ast.For) -> None:
        """Unroll a loop over Python values, as Relax has no loops."""
        if node.orelse:
            self.fail(SYNTAX, "for/else cannot be used here", node)
        for item in self.iterate(node.iter):
            self.bind_pattern(node.target, item, lambda name, value: self.scopes.define(name.id, value))
            self.visit_body(node.body)

    # ------------------------------------------------------------------ if

    @contextmanager
    def _branch(self) -> Generator[None]:
        saved = self.seq, self.bound
        self.seq, self.bound = SeqBuilder(), dict(self.bound)
        try:
            with self.scopes.frame():
                yield
        finally:
            self.seq, self.bound = saved

    def _taken_branch(self, node: ast.If) -> Sequence[ast.stmt] | None:
        """Branch taken by an ``if`` over a Python value, the only one parsed; None for other conditions.

        (A literal True or False is a condition of the program, as in the documents' example.)
        """
        if isinstance(node.test, ast.Constant):
            return None
        try:
            value = self.eval(node.test)
        except (DiagnosticError, Poisoned):
            return None  # visit_If will say so
        if isinstance(value, (Node, MatchCastValue)):
            return None
        return node.body if value else node.orelse

    def _condition(self, node: ast.If) -> RelaxExpr:
        if self.dataflow is not None:
            self.fail(
                PLACE,
                "a dataflow block has no control flow",
                node,
                hint="end the block before the `if`",
                notes=["rule 7: there is no If inside a dataflow block"],
            )
        return self._convert_condition(self.eval(node.test), node.test)

    def _convert_condition(self, value: Any, node: ast.AST) -> RelaxExpr:
        return Constant(value, span=self.span(node)) if isinstance(value, bool) else self._convert(value, node)

    def visit_If(self, node: ast.If) -> None:
        """Parse an ``if``; the names that both branches assign last are its results."""
        taken = self._taken_branch(node)
        if taken is not None:
            self.visit_body(taken)
            return
        cond = self._condition(node)
        then, other = result_names(node.body), result_names(node.orelse)
        names = then if then is not None and other is not None else []
        if names != (other if names else []):
            self._mismatch(node, then or [], other or [])
        annotations = [self._result_annotation(body) for body in (node.body, node.orelse)]
        agree = structural_equal(annotations[0], annotations[1])
        branches: list[RelaxExpr] = []
        for body in (node.body, node.orelse):
            with self._branch():
                self.visit_body(body)
                branches.append(self._branch_value(names, body, node, agree))
        value = If(cond, *branches, span=self.span(node))
        if not names:
            self._emit("_", value, None, node)
        elif len(names) == 1:
            self._emit(names[0], value, annotations[0] if agree else None, node)
        else:
            whole = self._emit("", value, None, node)
            for i, name in enumerate(names):
                self._emit(name, TupleGetItem(whole, i, span=self.span(node)), None, node)

    def _result_annotation(self, body: Sequence[ast.stmt]) -> StructInfo | None:
        """Annotation of a branch's last assignment, if it is valid outside of the branch."""
        last = body[-1] if body else None
        if not isinstance(last, ast.AnnAssign):
            return None
        saved, self.sizes = self.sizes, dict(self.sizes)
        try:
            with self.scopes.frame():
                return self.annotation(last.annotation)
        except (DiagnosticError, Poisoned):
            return None
        finally:
            self.sizes = saved

    def _mismatch(self, node: ast.If, then: Sequence[str], other: Sequence[str]) -> NoReturn:
        self.fail(
            SYNTAX,
            f"the branches end by assigning different names: {', '.join(then)} and {', '.join(other)}",
            node,
            hint="an `if` gives the variable that both branches assign last to the code after it",
        )

    def _branch_value(self, names: Sequence[str], body: Sequence[ast.stmt], node: ast.If, droppable: bool) -> SeqExpr:
        """Build the SeqExpr of a branch. A last binding of a leaf is omitted: the leaf is the value."""
        span = self._span_of(body, node)
        if not names:
            return self.seq.finish(Tuple(()), span)
        values: list[RelaxExpr] = []
        for name in names:
            value = self.scopes.lookup(name)
            if value is POISON:
                raise Poisoned(name)
            values.append(self._convert(value, node))
        if len(values) > 1:
            return self.seq.finish(Tuple(values), span)
        last = self.seq.bindings[-1] if self.seq.bindings else None
        if isinstance(last, VarBinding) and last.var is values[0] and is_leaf(last.value) and droppable:
            self.seq.bindings.pop()
            return self.seq.finish(last.value, span)
        return self.seq.finish(values[0], span)

    def _span_of(self, body: Sequence[ast.stmt], node: ast.stmt) -> Any:
        return self.span(body[0]).to(self.span(body[-1])) if body else self.span(node)

    # ------------------------------------------------------------------ local functions

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Parse a local function: a closure, which may call itself by its name."""
        decorator: FunctionDecorator = function_decorator(self, node)
        if decorator.dialect.name != "relax":
            self.fail(PLACE, "only R.function may stand inside a Relax function", node, hint="move it to the module")
        inner = self._is_local(node.name, node)
        var = (DataflowVar if inner else Var)(node.name, span=self.span(node))
        with self.scopes.frame() as frame:
            frame[node.name] = var
            function = self.function(node, decorator.preset, local=True)
        remember_local(var, function, self.bound)
        self._append(VarBinding(var, function, span=self.span(node)))
        if self.dataflow is not None:
            self.dataflow.variables.add(var)
        self.scopes.define(node.name, var)
