"""Struct info annotations of scripts: R.Tensor, R.Shape, R.Prim, R.Object, R.Tuple, R.Callable.

They are ordinary Python too: ``R.Tensor((n, 4), "float32")`` returns the StructInfo. Dimensions may be
integers, scalar expressions, or text (``"n"``, ``"n * 2"``). In a function being parsed, text is read in its
scope; elsewhere each call makes new variables for the names in its text.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Protocol, cast

from ....expr import ShapeExpr
from ....expr import Var as RelaxVar
from ....ir import DataType, DiagnosticContext, DiagnosticError, RelaxExpr, StructInfo, VDevice, parse_vdevice
from ....ir.python_source import caller_span
from ....op.known import known_struct_info
from ....prim import expr as prim
from ....struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ..core import MISSING, Evaluator, Scopes, ScriptSource, SpecialForm, capture
from ..core.diagnostics import FORBIDDEN, KIND, UNDEFINED, error
from ..core.safety import BUILTINS, attribute, is_namespace, is_script_function


class Dimensions(Protocol):
    """Interface of an active parser that reads dimensions."""

    def dimension_text(self, text: str) -> prim.PrimExpr: ...

    def scalar_text(self, text: str, dtype: str = "int64") -> prim.PrimExpr: ...

    def vdevice(self, text: str) -> VDevice: ...


class _Loose(Evaluator):
    """Evaluator of dimensions given as text outside of a function: every name is a new variable.

    The name of a callee or before a dot, such as ``T`` in ``"T.max(n, 4)"``, is resolved in the surrounding Python
    code. Only the script's own functions may be called.
    """

    def __init__(self) -> None:
        super().__init__(ScriptSource.parse(""), Scopes(), DiagnosticContext())
        self._dtype = "int64"
        self._around: Scopes | None = None

    def missing_name(self, node: ast.Name) -> prim.Var:
        variable = prim.Var(node.id, self._dtype)
        self.scopes.define(node.id, variable)
        return variable

    def eval_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name):
            value = self._meaning(node.value)
            if is_namespace(value):
                return attribute(value, node.attr, self.span(node), trusted=False)
        return super().eval_Attribute(node)

    def callee(self, node: ast.expr) -> Any:
        if not isinstance(node, ast.Name):
            return self.eval(node)
        value = self._meaning(node)
        if value is MISSING:
            self.fail(UNDEFINED, f"`{node.id}` is not defined", node)
        if not is_script_function(value):
            message = f"the text of a dimension may call functions of the script such as T.max, not `{node.id}`"
            self.fail(FORBIDDEN, message, node, hint="write the dimension without quotes")
        return value

    def _meaning(self, node: ast.Name) -> Any:
        """Value of a name in the Python code that contains the text, or of a builtin allowed in scripts."""
        if self._around is None:
            frame = cast(Any, sys)._getframe(1)
            self._around = Scopes((*capture.caller_variables(frame), BUILTINS))
        return self._around.lookup(node.id)

    def dimension_text(self, text: str) -> prim.PrimExpr:
        return prim.dimension(self.scalar_text(text))

    def scalar_text(self, text: str, dtype: str = "int64") -> prim.PrimExpr:
        self._dtype = dtype if text.strip().isidentifier() else "int64"
        try:
            self.source = ScriptSource.parse(text.strip())
        except DiagnosticError as problem:
            raise ValueError(f"in {text!r}: {problem.diagnostics[0].message}") from None
        statements = self.source.tree.body
        if len(statements) != 1 or not isinstance(statements[0], ast.Expr):
            raise ValueError(f"{text!r} is not an expression")
        return as_scalar(self.eval(statements[0].value))

    def vdevice(self, text: str) -> VDevice:
        return parse_vdevice(text)


def as_scalar(value: Any) -> prim.PrimExpr:
    """Scalar expression of a text, of any dtype; a number is an int64."""
    return value if isinstance(value, prim.PrimExpr) else prim.dimension(value)


def _reader() -> Dimensions:
    current: Any = Evaluator.current()
    return current if hasattr(current, "dimension_text") else _Loose()


def as_vdevice(value: Any) -> Any:
    """Convert to a virtual device; text is resolved in the module being parsed."""
    return _reader().vdevice(value) if isinstance(value, str) else value


def _dims(values: Any, reader: Dimensions) -> tuple[prim.PrimExpr, ...]:
    if isinstance(values, ShapeExpr):
        return values.values
    if isinstance(values, (int, prim.PrimExpr)):
        values = (values,)
    if not isinstance(values, (tuple, list)):
        raise TypeError(f"expected a tuple or list of dimensions, found {type(values).__name__}")
    return tuple(_dim(value, reader) for value in cast("Sequence[Any]", values))


def _dim(value: Any, reader: Dimensions) -> prim.PrimExpr:
    return reader.dimension_text(value) if isinstance(value, str) else prim.dimension(value)


def _rank(ndim: Any) -> int:
    if not isinstance(ndim, int) or isinstance(ndim, bool):
        raise TypeError(f"ndim is the number of dimensions, found {type(ndim).__name__}")
    return ndim


@lru_cache(maxsize=64)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


_DIMENSION_KEYWORDS = frozenset({"shape", "values", "value"})


class StructInfoForm(SpecialForm):
    """Base class of struct info annotations; in a script, their arguments are read as dimensions and struct info."""

    build: Callable[..., StructInfo]
    has_dimensions: bool = False
    """True if the first argument holds dimensions."""

    def __call__(self, *args: Any, **kwargs: Any) -> StructInfo:
        """Struct info of ``R.Tensor(...)`` in Python. Raises DiagnosticError, at the caller, for bad arguments."""
        try:
            return self._build(args, kwargs)
        except (TypeError, ValueError) as problem:
            if isinstance(problem, DiagnosticError) or Evaluator.current() is not None:
                raise
            span = caller_span(cast(Any, sys)._getframe(1))
            raise error(KIND, str(problem), span) from problem

    def _build(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> StructInfo:
        """`build`, with its signature shown under the name used in scripts."""
        try:
            _signature(self.build).bind(*args, **keywords)
        except TypeError as problem:
            names = ", ".join(_signature(self.build).parameters)
            raise TypeError(f"{self!r}({names}): {problem}") from None
        return self.build(*args, **keywords)

    def script_call(self, evaluator: Evaluator, node: ast.Call) -> StructInfo:
        parser: Any = evaluator
        if not hasattr(parser, "reading_dimensions"):
            args, keywords = evaluator.arguments(node)
            return self._build(args, keywords)
        with parser.reading_form(node):
            args: list[Any] = []
            for i, arg in enumerate(node.args):
                with parser.reading_dimensions(self.has_dimensions and i == 0):
                    args += evaluator.items([arg])
            keywords: dict[str, Any] = {}
            for keyword in node.keywords:
                with parser.reading_dimensions(self.has_dimensions and keyword.arg in _DIMENSION_KEYWORDS):
                    value = evaluator.eval(keyword.value)
                keywords.update(value if keyword.arg is None else {keyword.arg: value})
            return self._build(args, keywords)

    def __repr__(self) -> str:
        return f"R.{type(self).__name__[1:]}"

    def bare(self) -> StructInfo:
        """Struct info of the name without arguments."""
        return self.build()


class _Tensor(StructInfoForm):
    """R.Tensor(shape, dtype, vdevice, ndim): every argument is optional; a single string is the dtype."""

    has_dimensions = True

    def build(self, shape: Any = None, dtype: Any = None, vdevice: Any = None, ndim: int = -1) -> TensorStructInfo:
        if isinstance(shape, str) and dtype is None:
            shape, dtype = None, shape
        reader = _reader()
        where: RelaxExpr | None = None
        if isinstance(shape, RelaxVar):
            where = shape
            shape_info = known_struct_info(shape)
            if ndim == -1 and isinstance(shape_info, ShapeStructInfo):
                ndim = shape_info.ndim
        elif shape is not None:
            where = ShapeExpr(_dims(shape, reader))
        device = as_vdevice(vdevice)
        kind = DataType("" if dtype is None else dtype)
        return TensorStructInfo(where, kind, device, _rank(ndim))

    __iter__: ClassVar[None] = None  # Python would try the indices one after the other

    def __getitem__(self, index: Any) -> TensorStructInfo:
        shape, dtype = index if _is_shape_and_dtype(index) else (index, None)
        return self.build(shape, dtype)

    def script_subscript(self, evaluator: Evaluator, node: ast.Subscript) -> TensorStructInfo:
        """The 2022 spelling ``R.Tensor[(n, m), "float32"]``; ``_`` marks an unknown part."""
        arguments: list[ast.expr] = [node.slice]
        if isinstance(node.slice, ast.Tuple) and len(node.slice.elts) == 2 and _ends_in_dtype(node.slice):
            arguments = node.slice.elts
        parser: Any = evaluator
        with parser.reading_form(node):
            values: list[Any] = []
            for i, argument in enumerate(arguments):
                with parser.reading_dimensions(i == 0):
                    values.append(None if _is_wildcard(argument) else evaluator.eval(argument))
            return self.build(*values)


def _is_wildcard(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "_"


def _ends_in_dtype(node: ast.Tuple) -> bool:
    last = node.elts[1]
    return _is_wildcard(last) or (isinstance(last, ast.Constant) and isinstance(last.value, str))


def _is_shape_and_dtype(index: Any) -> bool:
    return isinstance(index, tuple) and len(cast("tuple[Any, ...]", index)) == 2 and isinstance(index[1], str)


class _Shape(StructInfoForm):
    """R.Shape(values, ndim): ``R.Shape(["n", 4])``, ``R.Shape(ndim=2)``, ``R.Shape``."""

    has_dimensions = True

    def build(self, values: Any = None, ndim: int = -1) -> ShapeStructInfo:
        if values is None:
            return ShapeStructInfo(None, _rank(ndim))
        return ShapeStructInfo(_dims(values, _reader()), _rank(ndim))


class _Prim(StructInfoForm):
    """R.Prim(dtype) or R.Prim(value=expression); both, where a quoted value is a new variable of that dtype."""

    def build(self, dtype: Any = None, value: Any = None) -> PrimStructInfo:
        if dtype is None and value is None:
            raise TypeError("R.Prim: give a dtype or a value")
        if isinstance(value, str):
            value = _reader().scalar_text(value, "int64" if dtype is None else str(dtype))
        if value is not None and not isinstance(value, prim.PrimExpr):
            default = "float64" if isinstance(value, float) else "bool" if isinstance(value, bool) else "int64"
            value = prim.const(value, DataType(default if dtype is None else dtype))
        return PrimStructInfo(cast(Any, None if dtype is None else DataType(dtype)), value)


class _Object(StructInfoForm):
    """R.Object: any value."""

    def build(self) -> ObjectStructInfo:
        return ObjectStructInfo()


class _Tuple(StructInfoForm):
    """R.Tuple(field, ...)."""

    def build(self, *fields: Any) -> TupleStructInfo:
        if len(fields) == 1 and isinstance(fields[0], (tuple, list)):
            fields = tuple(cast("Sequence[Any]", fields[0]))
        return TupleStructInfo(tuple(as_struct_info(field) for field in fields))


class _Callable(StructInfoForm):
    """R.Callable((params...), ret, purity); without params, a packed function's."""

    def build(
        self, params: Any = None, ret: Any = None, purity: bool | None = None, derive_func: str | None = None
    ) -> FuncStructInfo:
        result = ObjectStructInfo() if ret is None else as_struct_info(ret)
        if params is None:
            return FuncStructInfo.opaque_func(ret=result, derive_func=derive_func, purity=bool(purity))
        given = cast("Sequence[Any]", params if isinstance(params, (tuple, list)) else (params,))
        infos = tuple(as_struct_info(param) for param in given)
        return FuncStructInfo(infos, result, purity is not False, derive_func)


Tensor = _Tensor()
Shape = _Shape()
Prim = _Prim()
Object = _Object()
Tuple = _Tuple()
Callable_ = _Callable()

FORMS: dict[str, StructInfoForm] = {
    "Tensor": Tensor, "Shape": Shape, "Prim": Prim, "Object": Object, "Tuple": Tuple, "Callable": Callable_,
}  # fmt: skip


def as_struct_info(value: Any) -> StructInfo:
    """Convert an annotation to struct info. Raises TypeError for another value."""
    if isinstance(value, StructInfo):
        return value
    if isinstance(value, StructInfoForm):
        return value.bare()
    if value is None:
        return TupleStructInfo(())
    raise TypeError(f"expected struct info such as R.Tensor(...), found {type(value).__name__}")
