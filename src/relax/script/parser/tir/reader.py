"""State of the TIR parser: names, sizes, and the current function, blocks and loops.

`TirReader` evaluates expressions and serves the namespace's functions (protocol `TirState`); the parser proper adds the
statements.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from ....ir import BaseFunc, GlobalVar
from ....prim import Call, PrimExpr, Var, convert, mark_nonnegative
from ....prim.intrin import call_extern
from ....tir.buffer import Buffer, BufferLoad, BufferRegion, IterVar, Range, region_of
from ....tir.scalar import as_tuple
from ....tir.stmt import LINKAGE, ForKind, Precondition, PrimFunc
from ..core import MISSING, FunctionTask, StatementParser
from ..core.diagnostics import DECLARATION, KIND, PLACE, SYNTAX, error
from .buffers import pointers
from .frames import BlockFrame, Body, EnvThread, LocalVar, Loop, Loops
from .loops import make_loop
from .values import Meta, converted, stored_value


class TirReader(StatementParser):
    """Parsing state of one function."""

    def __init__(self, task: FunctionTask) -> None:
        super().__init__(task.source, task.scopes, task.diagnostics, trusted=task.trusted)
        self.module = task.module
        self.attrs: dict[str, Any] = {}
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.buffers: list[Buffer] = []
        self.ret_type: str | None = None
        self.preconditions: list[Precondition] = []
        self.root = BlockFrame("root")
        self.frames: list[BlockFrame] = []
        self.bodies: list[Body] = []
        self.loops: dict[Var, Loop] = {}
        self.names: list[str] = []
        self.threads: dict[Var, IterVar] = {}
        """Iteration variables created by T.env_thread, by their variables."""
        self.binding = False
        self.implicit: dict[str, Var] = {}
        """Sizes introduced by shapes, by name."""

    # ------------------------------------------------------------------ names and values

    def missing_name(self, node: ast.Name) -> Any:
        if self.binding:
            return self._new_size(node.id)
        return super().missing_name(node)

    def _new_size(self, name: str) -> Var:
        size = Var(name, "int64")
        self.scopes.frames[1][name] = self.implicit[name] = size
        return size

    def sizes(self, node: ast.expr) -> Any:
        """Evaluate a shape; undefined and quoted names become new variables."""
        outer, self.binding = self.binding, True
        try:
            return self._quoted(self.eval(node), node)
        finally:
            self.binding = outer

    def _quoted(self, value: Any, node: ast.expr) -> Any:
        if isinstance(value, (tuple, list)):
            return tuple(self._quoted(item, node) for item in as_tuple(value))
        if not isinstance(value, str):
            return value
        try:
            tree = ast.parse(value, mode="eval").body
        except SyntaxError:
            self.fail(SYNTAX, f"{value!r} is no expression", node)
        if not isinstance(tree, ast.Name):
            for child in ast.walk(tree):
                ast.copy_location(child, node)
            return self.eval(tree)
        local_value = self.scopes.local(value)
        return self._new_size(value) if local_value is MISSING else local_value

    def eval_Name(self, node: ast.Name) -> Any:
        value = super().eval_Name(node)
        if isinstance(value, LocalVar):
            return value.buffer[0]
        return value.value if isinstance(value, Meta) else value

    def eval_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and self.scopes.lookup(node.func.id) is builtins.range:
            args, keywords = self.arguments(node)
            if keywords or any(isinstance(arg, PrimExpr) for arg in args):
                return self._range(args, node, **keywords)
        return super().eval_Call(node)

    def _range(self, args: list[Any], node: ast.Call, annotations: Any = None, **unknown: Any) -> Loops:
        """``range`` over scalar expressions."""
        for name in unknown:
            self.fail(KIND, f"range has no argument `{name}`", node)
        if not 1 <= len(args) <= 3:
            self.fail(KIND, f"range takes one to three arguments, found {len(args)}", node)
        start, stop, step = (args[0], None, 1) if len(args) == 1 else (*args, 1)[:3]
        step = self.guard(node, "", int, step)
        if step <= 0:
            self.fail(KIND, "the step of a range is a positive constant", node)
        return Loops([self.guard(node, "", make_loop, ForKind.SERIAL, start, stop, annotations, "", step)])

    def invoke(self, function: Any, args: list[Any], keywords: dict[str, Any], node: ast.Call) -> Any:
        if isinstance(function, PrimFunc) and LINKAGE in function.attrs:
            return self._plain_call(function, args, node)
        if isinstance(function, BaseFunc):
            if self.module is None:
                self.fail(KIND, "a function can only be called inside a module", node)
            function = self.module.adopt(function)
        if isinstance(function, GlobalVar):
            if keywords:
                self.fail(KIND, "a call of a function takes no keyword arguments", node)
            values = [self.guard(node, "", convert, pointers(arg)) for arg in args]
            return Call("", function, tuple(values))
        return super().invoke(function, args, keywords, node)

    def _plain_call(self, function: PrimFunc, args: list[Any], node: ast.Call) -> Call:
        """Call of a plain function by its symbol; the arguments take the dtypes of its parameters."""
        symbol = str(function.attrs["global_symbol"])
        if len(args) != len(function.params):
            self.fail(KIND, f"{symbol} takes {len(function.params)} arguments, found {len(args)}", node)
        values = [
            self.guard(node, "", stored_value, pointers(arg), param.dtype, param.name)
            for arg, param in zip(args, function.params, strict=True)
        ]
        return call_extern(str(function.ret_type or ""), symbol, *values)

    def condition(self, node: ast.expr) -> PrimExpr | bool:
        """Evaluate a condition: a scalar expression, or a Python truth value."""
        value = converted(self.eval(node))
        if isinstance(value, PrimExpr):
            if not value.dtype.is_bool:
                if not value.dtype.is_integer:
                    self.fail(KIND, f"a condition has dtype {value.dtype!s}, expected bool", node)
                return cast(PrimExpr, value != 0)
            return value
        return bool(value)

    # ------------------------------------------------------------------ what the namespace's functions use

    def take_names(self, count: int) -> list[str]:
        """Take the next `count` target names of the current statement; empty strings if there are fewer."""
        taken, self.names = self.names[:count], self.names[count:]
        return taken + [""] * (count - len(taken))

    @contextmanager
    def naming(self, target: ast.expr) -> Generator[None]:
        """Context manager: values created while an assignment is evaluated take the targets' names."""
        outer = self.names
        self.names = [child.id for child in ast.walk(target) if isinstance(child, ast.Name)]
        try:
            yield
        finally:
            self.names = outer

    def thread_variable(self, name: str, thread: EnvThread) -> Var:
        """Create the variable of a device thread."""
        var = Var(name or thread.tag.replace(".", "_"), "int32")
        self.threads[var] = IterVar(None, var, "thread", thread.tag)
        return var

    def thread_of(self, var: Var) -> IterVar:
        """Thread of a variable created by T.env_thread."""
        if var not in self.threads:
            raise error(DECLARATION, f"`{var.name}` is no thread; make it by T.env_thread", None)
        return self.threads[var]

    def loop_of(self, value: Any) -> Loop | None:
        """Enclosing loop of a loop variable, or None."""
        return self.loops.get(value) if isinstance(value, Var) else None

    def block(self, construct: str) -> BlockFrame:
        """Current block."""
        if not self.frames:
            raise error(PLACE, f"{construct} belongs inside a block", None, hint="open one: with T.block(name):")
        return self.frames[-1]

    def storage_frame(self) -> BlockFrame:
        """Current block, or the root block."""
        return self.frames[-1] if self.frames else self.root

    def in_block_body(self) -> bool:
        """True if the current statement is directly in a block (or the function), not in a loop or branch of it."""
        return len(self.bodies) == self.storage_frame().depth

    def add_axis(self, kind: str, dom: Range, value: PrimExpr, name: str, dtype: str | None) -> Var:
        """Add an axis variable to the current block."""
        frame = self.block("T.axis")
        axis_dtype = dtype or (value.dtype if dom.extent.dtype.bits <= value.dtype.bits else dom.extent.dtype)
        var = Var(name or f"v{len(frame.iter_vars)}", axis_dtype)
        frame.iter_vars.append(IterVar(dom, var, kind))
        frame.iter_values.append(value)
        return var

    def match_parameter(self, param: Var, buffer: Buffer) -> None:
        """Match a handle parameter to a buffer."""
        if not any(param is declared for declared in self.params):
            raise error(DECLARATION, f"`{param.name}` is no parameter", None, hint="match_buffer takes a T.handle")
        if not param.dtype.is_handle:
            raise error(DECLARATION, f"parameter `{param.name}` is a {param.dtype!s}, expected T.handle", None)
        if param in self.buffer_map:
            raise error(DECLARATION, f"parameter `{param.name}` is matched twice", None)
        self.buffer_map[param] = buffer
        self.mark_sizes(buffer)

    def mark_sizes(self, buffer: Buffer) -> None:
        for size in buffer.shape:
            if isinstance(size, Var):
                mark_nonnegative(size)

    def declare(self, buffer: Buffer) -> Buffer:
        """Add a buffer to the scope."""
        self.buffers.append(buffer)
        return buffer

    def set_return(self, dtype: str) -> None:
        """Set the function's return type."""
        self.ret_type = dtype

    def as_region(self, value: Any) -> BufferRegion:
        """Convert a buffer access to a region; an element is a region of size one."""
        match value:
            case BufferRegion():
                return value
            case BufferLoad(buffer, indices):
                return region_of(buffer, indices)
            case Buffer():
                return region_of(value, [slice(None)] * value.ndim)
            case _:
                raise TypeError(f"expected a region of a buffer, found {type(value).__name__}")

    def regions(self, values: Sequence[Any]) -> tuple[BufferRegion, ...]:
        """Convert buffer accesses to regions."""
        if len(values) == 1 and isinstance(values[0], (tuple, list)):
            values = as_tuple(values[0])
        return tuple(self.as_region(value) for value in values)


__all__ = ["TirReader"]
