"""Names in the Relax parser: shape variables, dimensions, annotations.

A shape variable is declared (``n = T.int64()``), quoted in a signature (``R.Tensor(("n", 4))``), or, in the
older spelling, just used in one (``R.Tensor[(n, 4), "float32"]``).
"""

from __future__ import annotations

import ast
import types
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from ....expr import Function, bind_dimensions
from ....info.mapping import bound_in
from ....ir import DataType, DiagnosticError, RelaxExpr, StructInfo, VDevice, find_vdevice, parse_vdevice
from ....ir.vdevice import VDEVICES
from ....prim import expr as prim
from ....tir.stmt import PrimFunc
from ..core import FunctionTask, ScriptSource, StatementParser
from ..core.diagnostics import ANNOTATION, POISON, SYNTAX, UNDEFINED, Poisoned, close
from ..core.safety import attribute
from .annotations import FORMS, StructInfoForm, as_scalar, as_struct_info
from .facts import TENSOR_FACTS, tensor_fact


class NameReader(StatementParser):
    """Part of the Relax parser that resolves names."""

    print_hint = "R.print(x) prints when the program runs"

    def __init__(self, task: FunctionTask) -> None:
        super().__init__(task.source, task.scopes, task.diagnostics, trusted=task.trusted)
        self.module = task.module
        self.hidden: set[str] = set()
        """Names local to a dataflow block that has ended."""
        self.sizes: dict[str, prim.Var] = {}
        """Shape variables of the enclosing functions, by name, even if a parameter has the same name."""
        self.bound: dict[prim.Var, None] = {}
        """Shape variables in scope that are bound."""
        self._binding_dims = False
        self._reading_dims = False
        self._form: ast.AST = task.node
        self._function = task.node
        self._callee: ast.expr | None = None

    def bind_sizes(self, info: StructInfo) -> None:
        """Record the shape variables bound by a parameter or a match_cast: in scope from here on, and ≥ 0."""
        bind_dimensions(info)
        self.bound.update(bound_in(info))

    def annotation(self, node: ast.expr) -> StructInfo:
        """Evaluate an annotation to struct info."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = self._quoted(node, node.value)
        value = self.eval(node)
        if not isinstance(value, (StructInfo, StructInfoForm)) and value is not None:
            self.fail(
                ANNOTATION, f"an annotation is struct info such as R.Tensor(...), found {type(value).__name__}", node
            )
        return self.locate(as_struct_info(value), node)

    def _quoted(self, node: ast.AST, text: str) -> ast.expr:
        """Parse the expression in a string; its nodes get the string's position."""
        try:
            tree = ScriptSource.parse(text.strip()).tree
        except DiagnosticError as problem:
            self.fail(SYNTAX, f"in {text!r}: {problem.diagnostics[0].message}", node)
        if len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
            self.fail(SYNTAX, f"{text!r} is not an expression", node)
        for child in ast.walk(tree):
            ast.copy_location(child, node)
        return tree.body[0].value

    # ------------------------------------------------------------------ names

    @contextmanager
    def reading_dimensions(self, reading: bool = True) -> Generator[None]:
        """Context manager: evaluate expressions as dimensions, or (`reading=False`) as values."""
        saved, self._reading_dims = self._reading_dims, reading
        try:
            yield
        finally:
            self._reading_dims = saved

    @contextmanager
    def binding_dimensions(self) -> Generator[None]:
        """Context manager: undeclared names in dimensions become shape variables."""
        saved, self._binding_dims = self._binding_dims, True
        try:
            yield
        finally:
            self._binding_dims = saved

    @contextmanager
    def reading_form(self, node: ast.AST) -> Generator[None]:
        """Context manager: evaluate the arguments of ``R.Tensor(...)`` or a similar form `node`."""
        saved, self._form = self._form, node
        try:
            yield
        finally:
            self._form = saved

    def eval_Name(self, node: ast.Name) -> Any:
        value = super().eval_Name(node)
        if self._reading_dims:
            if self._binding_dims and not _can_be_dimension(value):
                return self.new_size(node.id)  # `n` may be some function of the surrounding program
            if isinstance(value, RelaxExpr) and node.id in self.sizes:
                return self.sizes[node.id]
        elif isinstance(value, (Function, PrimFunc)) and self.module is not None:
            self.module.suggest_name(value, node.id)
        return value

    def eval_Attribute(self, node: ast.Attribute) -> Any:
        saved, self._reading_dims = self._reading_dims, False
        try:
            value = self.eval(node.value)
            if isinstance(value, RelaxExpr) and node.attr in TENSOR_FACTS:
                return self.guard(node, "", tensor_fact, value, node.attr)
            return attribute(value, node.attr, self.span(node), self.trusted)
        finally:
            self._reading_dims = saved

    def callee(self, node: ast.expr) -> Any:
        self._callee = node
        with self.reading_dimensions(False):
            return super().callee(node)

    def missing_name(self, node: ast.Name) -> Any:
        if node.id in FORMS and node.id not in self.hidden:
            return FORMS[node.id]
        if self._reading_dims and self._binding_dims:
            return self.new_size(node.id)
        self.require_metadata(node)
        hint = close(node.id, self.scopes.names())
        if any(occurrence.lineno < node.lineno for occurrence in self._bindings_of(node.id)):
            hint = "what a branch or a local function binds is seen only there; make it the result"
        if node.id in self.hidden:
            hint = f"it is local to its dataflow block; list it in R.output(..., {node.id})"
        if self._reading_dims:
            hint = f"declare the shape variable: {node.id} = T.int64()"
        self.fail(UNDEFINED, f"`{node.id}` is not defined", node, hint=hint, notes=self._broken_rule(node))

    def _broken_rule(self, node: ast.Name) -> list[str]:
        """Language rule violated by the use of an undefined name, as a note."""
        if node is self._callee:
            return []  # a function of Python, not a variable
        if node.id in self.hidden:
            return ["rule 1: a variable of a dataflow block is not used outside of it"]
        if self._reading_dims and self._in_return_annotation(node):
            return ["rule 4: a return annotation uses only shape variables of the parameters or of an outer scope"]
        if self._reading_dims:
            return ["rule 5: a shape variable is bound, by a parameter or a match_cast, before it is used"]
        if self._bindings_of(node.id):
            return ["rule 3: a variable is used only after its binding, and where that is in scope"]
        return ["rule 2: a variable is a parameter, or is bound once"]

    def _bindings_of(self, name: str) -> list[ast.Name]:
        """Occurrences where the function's text binds a name."""
        return [
            occurrence
            for occurrence in ast.walk(self._function)
            if isinstance(occurrence, ast.Name) and isinstance(occurrence.ctx, ast.Store) and occurrence.id == name
        ]

    def _in_return_annotation(self, node: ast.Name) -> bool:
        return any(
            node is child
            for function in ast.walk(self._function)
            if isinstance(function, ast.FunctionDef) and function.returns is not None
            for child in ast.walk(function.returns)
        )

    def new_size(self, name: str, dtype: str = "int64") -> prim.Var:
        """Create a shape variable."""
        size = self.sizes[name] = prim.Var(name, dtype)
        if not isinstance(self.scopes.local(name), RelaxExpr):
            self.scopes.define(name, size)
        return size

    def dimension_text(self, text: str) -> prim.PrimExpr:
        """A dimension given as text: a name, or an expression over names in scope."""
        return prim.dimension(self.scalar_text(text))

    def scalar_text(self, text: str, dtype: str = "int64") -> prim.PrimExpr:
        """A scalar given as text, like `dimension_text`, of any dtype. A new variable gets `dtype`."""
        stripped = text.strip()
        if stripped.isidentifier():
            value = self.scopes.local(stripped)
            if value is POISON:
                raise Poisoned(stripped)
            if isinstance(value, prim.PrimExpr):
                return value
            if isinstance(value, int):
                return prim.dimension(value)
            size = self.sizes.get(stripped)
            return self.new_size(stripped, dtype) if size is None else size
        with self.binding_dimensions(), self.reading_dimensions():
            return as_scalar(self.eval(self._quoted(self._form, stripped)))

    def vdevice(self, text: str) -> VDevice:
        """Virtual device given as text: one that the module lists; outside of a module, a new one."""
        if self.module is None:
            return parse_vdevice(text)
        infos: Sequence[VDevice] = self.module.global_infos.get(VDEVICES, ())
        return find_vdevice(text, infos)


def _can_be_dimension(value: Any) -> bool:
    return not isinstance(
        value, (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
    )


def holders_first(args: Sequence[ast.arg]) -> list[ast.arg]:
    """Order parameters by dependency: ``t: R.Tensor(s, "float32"), s: R.Shape`` reads s first."""
    by_name = {arg.arg: arg for arg in args}
    ordered: dict[str, ast.arg] = {}

    def add(arg: ast.arg, under: tuple[str, ...]) -> None:
        if arg.arg not in ordered and arg.arg not in under:
            for name in _held_shapes(arg.annotation):
                if name in by_name:
                    add(by_name[name], (*under, arg.arg))
            ordered[arg.arg] = arg

    for arg in args:
        add(arg, ())
    return list(ordered.values())


def _held_shapes(annotation: ast.expr | None) -> Iterator[str]:
    """Names used as the whole shape of a tensor."""
    for node in ast.walk(annotation) if annotation is not None else ():
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "Tensor":
            shapes = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "shape")]
            yield from (shape.id for shape in shapes if isinstance(shape, ast.Name))


def quoted_names(annotations: Iterable[ast.expr | None]) -> dict[str, str]:
    """Quoted names that are whole dimensions in parameters' annotations, with their dtypes.

    ``R.Prim("float32", value="q")`` states a dtype; a name used as a dimension anywhere is an int64.
    """
    dtypes: dict[str, str] = {}
    for node in (node for annotation in annotations if annotation is not None for node in ast.walk(annotation)):
        if isinstance(node, (ast.Tuple, ast.List)):
            dtypes.update((name, "int64") for name in filter(None, map(_quoted_name, node.elts)))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "Prim":
            values = [k.value for k in node.keywords if k.arg == "value"] or node.args[1:2]
            stated = [k.value for k in node.keywords if k.arg == "dtype"] or node.args[:1]
            dtype = next((d for d in map(_quoted_name, stated) if d and _is_scalar(d)), "int64")
            for name in filter(None, map(_quoted_name, values)):
                dtypes.setdefault(name, dtype)
    return dtypes


def _is_scalar(dtype: str) -> bool:
    """True if a text names a scalar dtype. (Invalid dtypes are reported where they are parsed.)"""
    try:
        parsed = DataType(dtype)
    except ValueError:
        return False
    return parsed.is_scalar and (parsed.is_integer or parsed.is_float or parsed.is_bool)


def _quoted_name(node: ast.expr) -> str | None:
    quoted = isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()
    return str(cast(ast.Constant, node).value) if quoted else None
