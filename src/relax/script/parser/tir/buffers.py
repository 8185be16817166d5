"""``T.Buffer``, ``T.match_buffer``, ``T.alloc_buffer`` and other declarations of buffers.

In the shapes of parameters, undefined and quoted names are new shape variables.
"""

from __future__ import annotations

import ast
from typing import Any

from ....ir import DataType, Span
from ....prim import IntImm, PrimExpr, Var
from ....tir.buffer import Buffer, BufferLoad, BufferRegion, decl_buffer
from ....tir.scalar import as_tuple
from ....tir.stmt import AllocBuffer, BufferStore, DeclBuffer, LetStmt, MatchBufferRegion, SeqStmt, Stmt
from ..core import Evaluator, SpecialForm
from ..core.diagnostics import DECLARATION, KIND
from .frames import EnclosingStmt, LocalVar
from .state import parser
from .structs import StructRef
from .values import stored_value


class BufferType:
    """The annotation ``T.Buffer(shape, dtype, ...)`` of a parameter, which describes its buffer."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments

    def buffer(self, name: str) -> Buffer:
        """Create a buffer of this type."""
        return make_buffer(name, **self.arguments)


def make_buffer(
    name: str,
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> Buffer:
    """Create a buffer from the arguments of TVM's constructors; zero or None means the default."""
    if isinstance(data, Buffer):
        data = data.data
    if offset_factor and elem_offset is None:
        elem_offset = Var(f"{name}_elem_offset", "int64")
    return decl_buffer(
        as_tuple(shape) if not isinstance(shape, (int, PrimExpr)) else (shape,),
        dtype_of(dtype),
        name or "buffer",
        data,
        None if strides is None else as_tuple(strides),
        elem_offset,
        scope or "global",
        align if align > 0 else 64,
        offset_factor or 1,
        axis_separators,
    )


def dtype_of(value: Any) -> DataType:
    """Convert a dtype from text, ``T.float32``, or a NumPy type."""
    return DataType(getattr(value, "dtype", value) if not isinstance(value, str) else value)


_ORDER = (
    "shape", "dtype", "data", "strides", "elem_offset", "scope", "align", "offset_factor", "buffer_type",
    "axis_separators",
)  # fmt: skip


class _ShapeForm(SpecialForm):
    """A form whose shapes may introduce variables: their expressions are evaluated in binding mode."""

    label = ""

    def collect(self, evaluator: Evaluator, node: ast.Call, order: tuple[str, ...]) -> dict[str, Any]:
        """Arguments of the call, by name."""
        arguments: dict[str, Any] = {}
        if len(node.args) > len(order):
            evaluator.fail(DECLARATION, f"{self.label} takes at most {len(order)} arguments", node)
        for key, value in (
            *zip(order, node.args, strict=False),
            *((keyword.arg or "", keyword.value) for keyword in node.keywords),
        ):
            if key not in order:
                evaluator.fail(DECLARATION, f"{self.label} has no argument `{key}`", value)
            if key in arguments:
                evaluator.fail(DECLARATION, f"{self.label}: argument `{key}` is given twice", value)
            arguments[key] = self.read(evaluator, key, value)
        return arguments

    def read(self, evaluator: Evaluator, key: str, node: ast.expr) -> Any:
        """Evaluate one argument; sizes in binding mode."""
        sizes = getattr(evaluator, "sizes", None)
        if key in ("shape", "strides", "elem_offset") and sizes is not None:
            return sizes(node)
        return evaluator.eval(node)


class BufferForm(_ShapeForm):
    """``T.Buffer((n, m), "float32")``, and the older ``T.Buffer[(n, m), "float32"]``."""

    label = "T.Buffer"

    def script_call(self, evaluator: Evaluator, node: ast.Call) -> BufferType:
        arguments = self.collect(evaluator, node, _ORDER)
        if "shape" not in arguments:
            evaluator.fail(DECLARATION, "T.Buffer needs a shape", node)
        return BufferType(arguments)

    def script_subscript(self, evaluator: Evaluator, node: ast.Subscript) -> BufferType:
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        arguments = {"shape": self.read(evaluator, "shape", items[0])}
        if len(items) == 2:
            arguments["dtype"] = evaluator.eval(items[1])
        elif len(items) != 1:
            evaluator.fail(DECLARATION, "T.Buffer[...] takes a shape and a dtype", node)
        return BufferType(arguments)

    def __call__(self, *args: Any, **keywords: Any) -> BufferType:
        """Create the annotation when Python itself evaluates it."""
        return BufferType({**dict(zip(_ORDER, args, strict=False)), **keywords})

    def __getitem__(self, items: Any) -> BufferType:
        return self(*as_tuple(items))


class MatchBufferForm(_ShapeForm):
    """``A = T.match_buffer(a, (n, m), "float32")`` of a parameter, or of a region inside a block."""

    label = "T.match_buffer"

    def script_call(self, evaluator: Evaluator, node: ast.Call) -> Buffer:
        arguments = self.collect(evaluator, node, ("param", *_ORDER))
        source = arguments.pop("param", None)
        state = parser()
        (name,) = state.take_names(1)
        if isinstance(source, Var):
            if "shape" not in arguments:
                evaluator.fail(DECLARATION, "T.match_buffer needs a shape", node)
            buffer = make_buffer(name or source.name, **arguments)
            state.match_parameter(source, buffer)
            return state.declare(buffer)
        if not isinstance(source, (Buffer, BufferRegion, BufferLoad)):
            evaluator.fail(KIND, "T.match_buffer takes a parameter or a region of a buffer", node)
        region = state.as_region(source)
        if "shape" not in arguments:
            arguments["shape"] = tuple(r.extent for r in region.region)
        arguments.setdefault("dtype", region.buffer.dtype)
        arguments.setdefault("scope", region.buffer.scope)
        buffer = make_buffer(name or region.buffer.name, **arguments)
        state.block("T.match_buffer of a region").match_buffers.append(MatchBufferRegion(buffer, region))
        return state.declare(buffer)


def alloc_buffer(shape: Any, dtype: Any = "float32", *args: Any, **keywords: Any) -> Buffer | EnclosingStmt:
    """A buffer of the block or the whole function; inside a loop or branch, of the following statements."""
    state = parser()
    (name,) = state.take_names(1)
    buffer = state.declare(make_buffer(name, shape, dtype, *args, **keywords))
    if not state.in_block_body():
        return EnclosingStmt(lambda body, span: AllocBuffer(buffer, body, span=span), buffer)
    state.storage_frame().alloc_buffers.append(buffer)
    return buffer


def allocate(
    extents: Any,
    dtype: Any = "float32",
    scope: str = "global",
    condition: Any = None,
    annotations: dict[str, Any] | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    align: int = 0,
    offset_factor: int = 0,
    axis_separators: Any = None,
) -> EnclosingStmt:
    """Storage for the statements that follow, or for the body of a ``with``. Raises ValueError for a condition."""
    if condition is not None and not (isinstance(condition, (bool, IntImm)) and bool(condition)):
        raise ValueError("an allocation under a condition is not supported; put it inside an `if`")
    state = parser()
    (name,) = state.take_names(1)
    buffer = make_buffer(
        name, extents, dtype, None, strides, elem_offset, scope, align, offset_factor, "", axis_separators
    )
    state.declare(buffer)
    notes = dict(annotations or {})
    return EnclosingStmt(lambda body, span: AllocBuffer(buffer, body, notes, span=span), buffer)


def decl_buffer_(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> EnclosingStmt:
    """Another view of existing storage; without `data`, new storage.

    A computed pointer as `data` is bound to a variable first.
    """
    state = parser()
    (name,) = state.take_names(1)
    data = pointers(data)
    pointer = data
    if isinstance(data, PrimExpr) and not isinstance(data, Var):
        pointer = Var(name, data.dtype)
    buffer = make_buffer(
        name, shape, dtype, pointer, strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators
    )
    state.declare(buffer)
    if data is None:
        return EnclosingStmt(lambda body, span: AllocBuffer(buffer, body, span=span), buffer)
    if pointer is not data:
        return EnclosingStmt(lambda body, span: LetStmt(pointer, data, DeclBuffer(buffer, body, span=span)), buffer)
    return EnclosingStmt(lambda body, span: DeclBuffer(buffer, body, span=span), buffer)


def buffer_statement(value: BufferType, name: str) -> EnclosingStmt:
    """``B = T.Buffer((4,), "float32", data=A.data)`` as a statement: a view of storage; without data, storage."""
    arguments = dict(value.arguments)
    buffer = make_buffer(name, **arguments)
    parser().declare(buffer)
    if arguments.get("data") is None:
        return EnclosingStmt(lambda body, span: AllocBuffer(buffer, body, span=span), buffer)
    return EnclosingStmt(lambda body, span: DeclBuffer(buffer, body, span=span), buffer)


def pointers(value: Any) -> Any:
    """Convert a buffer passed as a whole to its data pointer, and a struct to its address."""
    if isinstance(value, StructRef):
        return value.asobject()
    return value.data if isinstance(value, Buffer) else value


def alloc_var(dtype: Any, init: Any = None) -> EnclosingStmt:
    """A variable of the following statements, which assignments to its name change."""
    state = parser()
    (name,) = state.take_names(1)
    buffer = state.declare(make_buffer(name, (1,), dtype, scope="local"))
    first = [] if init is None else [BufferStore(buffer, stored_value(pointers(init), buffer.dtype, name), (0,))]

    def wrap(body: Stmt, span: Span | None) -> Stmt:
        return AllocBuffer(buffer, SeqStmt([*first, body]), span=span)

    return EnclosingStmt(wrap, LocalVar(buffer))


Buffer_ = BufferForm()
match_buffer = MatchBufferForm()

__all__ = [
    "BufferType", "Buffer_", "alloc_buffer", "alloc_var", "allocate", "buffer_statement", "decl_buffer_", "dtype_of",
    "make_buffer", "match_buffer", "pointers",
]  # fmt: skip
