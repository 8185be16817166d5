"""The TIR parser: one ``def`` under ``@T.prim_func`` becomes a PrimFunc.

Statements are collected per body; a statement with a scope (a let, an assertion, an allocation) wraps the rest of its
body when that ends. Missing read and write regions of blocks are derived, and a function whose body uses blocks gets a
root block.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, cast

from ....ir import DataType, set_slot
from ....prim import Call, PrimExpr, StringImm, Var, convert, mark_nonnegative
from ....prim import pointers as pointer_intrinsics
from ....prim.intrin import ret
from ....tir.buffer import Buffer, vector_indices
from ....tir.functor import pre_order_visit, substitute
from ....tir.regions import complete_block
from ....tir.scalar import as_tuple
from ....tir.statements import seq_of
from ....tir.stmt import (
    C_ATTRIBUTES,
    LINKAGE,
    AssertStmt,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Precondition,
    PrimFunc,
    Stmt,
    While,
)
from ..core import is_docstring
from ..core.diagnostics import ANNOTATION, DECLARATION, KIND, PLACE, POISON, SYNTAX
from .buffers import BufferType, buffer_statement, pointers
from .dtypes import DtypeName, HandleName
from .frames import TRUE, BlockFrame, Body, EnclosingStmt, EnvThread, InitFrame, LocalVar, Loops
from .reader import TirReader
from .structs import StructRef, StructType
from .values import Meta, converted, stored_value


class TirParser(TirReader):
    """Parser of one function."""

    macros = "T"

    # ------------------------------------------------------------------ the function

    def function(self, node: ast.FunctionDef, options: dict[str, Any]) -> PrimFunc:
        """Parse a ``def`` to a PrimFunc."""
        for option, key in (("linkage", LINKAGE), ("attributes", C_ATTRIBUTES)):
            if option in options:
                self.attrs[key] = options[option]
        with self.scopes.frame():
            self._parameters(node)
            self._returns(node)
            body = self.body(node.body, function=True)
        attrs = dict(self.attrs)
        if not options.get("private", False):
            attrs = {"global_symbol": options.get("prefix", "") + options.get("name", node.name), **attrs}
        buffer_map = {param: self.buffer_map[param] for param in self.params if param in self.buffer_map}
        return PrimFunc(
            tuple(self.params),
            self._with_root(body),
            self.ret_type,
            buffer_map=buffer_map,
            preconditions=tuple(self.preconditions),
            attrs=attrs,
            span=self.span(node),
        )

    def _parameters(self, node: ast.FunctionDef) -> None:
        args = node.args
        for extra in (args.vararg, args.kwarg, *args.kwonlyargs, *args.defaults):
            if extra is not None:
                self.fail(DECLARATION, "a PrimFunc has plain parameters without defaults", extra)
        for arg in (*args.posonlyargs, *args.args):
            parameter: Any = POISON
            with self.diagnostics.collect():
                parameter = self._parameter(arg)
            self.scopes.define(arg.arg, parameter)

    def _parameter(self, arg: ast.arg) -> Var | Buffer | StructRef:
        if arg.annotation is None:
            self.fail(
                ANNOTATION,
                f"parameter `{arg.arg}` has no annotation",
                arg,
                hint="write T.handle, T.Buffer(shape, dtype), or a dtype such as T.int64",
            )
        kind = self.eval(arg.annotation)
        if isinstance(kind, BufferType):
            param = Var(f"{arg.arg}_handle", "handle", span=self.span(arg))
            buffer = self.guard(arg.annotation, "T.Buffer", kind.buffer, arg.arg)
            self.params.append(param)
            self.buffer_map[param] = buffer
            self.mark_sizes(buffer)
            return self.declare(buffer)
        if isinstance(kind, StructType):
            param = Var(arg.arg, "handle", span=self.span(arg))
            self.params.append(param)
            return kind(param)
        if isinstance(kind, (DtypeName, HandleName)) or (isinstance(kind, Var) and not kind.name):
            param = Var(arg.arg, kind.dtype, span=self.span(arg))
        elif isinstance(kind, str):
            param = self.guard(arg.annotation, "", Var, arg.arg, kind)
        else:
            self.fail(
                ANNOTATION, "this is no type of a PrimFunc's parameter", arg.annotation,
                hint="write T.handle, T.Buffer(shape, dtype), or a dtype such as T.int64",
            )  # fmt: skip
        self.params.append(param)
        return param

    def _returns(self, node: ast.FunctionDef) -> None:
        if node.returns is None:
            return
        kind = self.eval(node.returns)
        if isinstance(kind, (DtypeName, HandleName)):
            self.ret_type = kind.dtype
        elif kind is not None:
            self.fail(ANNOTATION, "a PrimFunc returns None or a scalar type such as T.int32", node.returns)

    def _with_root(self, body: Stmt) -> Stmt:
        """Wrap the body in a root block if it has blocks or buffer allocations."""
        if not self.root.alloc_buffers and not self.root.annotations:
            if isinstance(body, BlockRealize) and not body.block.iter_vars:
                return body
            if not _has_block(body):
                return body
        block = Block(
            (), (), (), "root", body,
            alloc_buffers=tuple(self.root.alloc_buffers), annotations=self.root.annotations,
        )  # fmt: skip
        return BlockRealize((), TRUE, block)

    # ------------------------------------------------------------------ bodies

    def body(self, statements: Sequence[ast.stmt], *, function: bool = False) -> Stmt:
        """Parse statements to one statement, in a new scope."""
        body = Body()
        self.bodies.append(body)
        try:
            with self.scopes.frame():
                for i, statement in enumerate(statements):
                    if not (function and i == 0 and is_docstring(statement)):
                        self.visit(statement)
        finally:
            self.bodies.pop()
        done: list[Stmt] = []
        for item in reversed(body.items):
            if isinstance(item, tuple):
                scope, span = item
                done = [scope.wrap(seq_of(reversed(done)), span)]
            else:
                done.append(item)
        return seq_of(reversed(done))

    def emit(self, stmt: Stmt, node: ast.AST) -> None:
        """Append a statement to the current body."""
        if stmt.span is None:
            set_slot(stmt, "span", self.span(node))
        self.bodies[-1].items.append(stmt)

    def emit_scope(self, scope: EnclosingStmt, node: ast.AST) -> None:
        """Wrap the remaining statements of the current body in the scope."""
        self.bodies[-1].items.append((scope, self.span(node)))

    # ------------------------------------------------------------------ assignments

    def visit_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            self.fail(SYNTAX, "assign to one target at a time", node)
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            self._store(target, self.eval(node.value), node)
            return
        if isinstance(target, ast.Attribute):
            self._store_field(target, self.eval(node.value), node)
            return
        with self.naming(target):
            value = self.eval(node.value)
        if isinstance(value, BufferType):
            name = target.id if isinstance(target, ast.Name) else ""
            value = self.guard(node.value, "T.Buffer", buffer_statement, value, name)
        if isinstance(value, EnclosingStmt):
            self.emit_scope(value, node)
            value = value.value
        self.bind_pattern(target, value, lambda name, item: self._bind(name, item, node))

    def _bind(self, name: ast.Name, value: Any, node: ast.stmt) -> None:
        """Bind a name: to a LetStmt variable for an expression, otherwise to the value itself."""
        value = converted(value)
        known = self.scopes.lookup(name.id)
        if isinstance(known, LocalVar) and not isinstance(value, LocalVar):
            self._emit_store(known.buffer, (0,), pointers(value), node)
        elif isinstance(value, StructRef) and not isinstance(value.asobject(), Var):
            var = Var(name.id, "handle", span=self.span(name))
            self._let(name, var, value.asobject(), node)
            self.scopes.define(name.id, value.at(var))
        elif isinstance(value, Meta):
            self.scopes.define(name.id, value)
        elif isinstance(value, EnvThread):
            self.scopes.define(name.id, self.thread_variable(name.id, value))
        elif isinstance(value, Var):
            self.scopes.define(name.id, value if value.name else self._named(value, name))
        elif isinstance(value, PrimExpr):
            self._refuse_accumulation(name, node)
            self._let(name, Var(name.id, value.dtype, span=self.span(name)), value, node)
        else:
            self.scopes.define(name.id, value)

    def _named(self, var: Var, name: ast.Name) -> Var:
        """Variable declared by ``name = T.int64()``; the size of that name if the signature has one."""
        size = self.implicit.get(name.id)
        if size is not None and self.scopes.local(name.id) is size:
            if size.dtype != var.dtype:
                self.fail(DECLARATION, f"`{name.id}` is a size of the signature already, of dtype {size.dtype!s}", name)
            return size
        variable = Var(name.id, var.dtype, span=self.span(name))
        if var.nonnegative:
            mark_nonnegative(variable)
        return variable

    def _let(self, name: ast.Name, var: Var, value: PrimExpr, node: ast.AST) -> None:
        if value.dtype.is_void:
            self.fail(KIND, f"`{name.id}` would be the result of a call that has none", node)
        self.bodies[-1].lets[name.id] = var
        self.emit_scope(EnclosingStmt(lambda body, span: LetStmt(var, value, body, span=span)), node)
        self.scopes.define(name.id, var)

    def _refuse_accumulation(self, name: ast.Name, node: ast.stmt) -> None:
        """Reject ``x = x + 1`` inside a loop, which would shadow x instead of updating it."""
        if name.id in self.bodies[-1].lets or not any(name.id in body.lets for body in self.bodies[:-1]):
            return
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) else None
        used = value is not None and any(
            isinstance(child, ast.Name) and child.id == name.id for child in ast.walk(value)
        )
        if used or isinstance(node, ast.AugAssign):
            self.fail(
                PLACE,
                f"`{name.id}` is bound outside of this loop or branch, and would not change there",
                node,
                hint=f'use storage: {name.id} = T.alloc_buffer((1,), dtype, scope="local"); {name.id}[0] = ...',
            )

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self.fail(SYNTAX, "only a name can be declared with a type", node.target)
        kind = self.eval(node.annotation)
        if isinstance(kind, str):
            kind = self.guard(node.annotation, "", DtypeName, kind)
        if not isinstance(kind, (DtypeName, HandleName)) and not (isinstance(kind, Var) and not kind.name):
            self.fail(ANNOTATION, "the type of a local variable is a dtype such as T.int32", node.annotation)
        var = Var(node.target.id, kind.dtype, span=self.span(node.target))
        if node.value is None:
            self.scopes.define(node.target.id, var)
            return
        given = self.eval(node.value)
        if kind.dtype.is_handle:
            given = pointers(given)
        value = self.guard(node.value, "", stored_value, given, kind.dtype, node.target.id)
        self._refuse_accumulation(node.target, node)
        if isinstance(value, Var) and value.dtype.is_handle:  # another name for the pointer
            self.scopes.define(node.target.id, value)
            return
        self._let(node.target, var, value, node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """``C[i] += x`` updates the element; ``x += 1`` is ``x = x + 1``."""
        operation = type(node.op).__name__
        if isinstance(node.target, ast.Subscript):
            buffer, indices = self._target(node.target)
            old = self.guard(node, "", lambda: converted(buffer[indices]))
            new = self.locate(self.binary(operation, old, self.eval(node.value), node), node)
            self._emit_store(buffer, indices, new, node)
        elif isinstance(node.target, ast.Name):
            old = self.eval(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
            value = self.binary(operation, old, self.eval(node.value), node)
            self._bind(node.target, value, node)
        else:
            old = self.eval(node.target)
            self._store_field(node.target, self.binary(operation, old, self.eval(node.value), node), node)

    def _store_field(self, target: ast.Attribute, value: Any, node: ast.stmt) -> None:
        """``tensor.ndim = 2`` of a struct."""
        struct = self.eval(target.value)
        if not isinstance(struct, StructRef):
            self.fail(KIND, f"a {type(struct).__name__} has no fields to assign", target)
        self.emit(Evaluate(self.guard(node, "", struct.store, target.attr, pointers(value))), node)

    def _target(self, target: ast.Subscript) -> tuple[Buffer, Any]:
        buffer = self.eval(target.value)
        if not isinstance(buffer, Buffer):
            self.fail(KIND, f"only elements of buffers can be assigned, found {type(buffer).__name__}", target)
        return buffer, self.index(target.slice)

    def _store(self, target: ast.Subscript, value: Any, node: ast.stmt) -> None:
        buffer, indices = self._target(target)
        self._emit_store(buffer, indices, value, node)

    def _emit_store(self, buffer: Buffer, indices: Any, value: Any, node: ast.stmt) -> None:
        where = self.guard(node, "", _subscripts, buffer, indices)
        lanes = where[-1].dtype.lanes * buffer.dtype.lanes if where else buffer.dtype.lanes
        stored = self.guard(node, "", stored_value, value, buffer.dtype.with_lanes(lanes), buffer.name)
        self.emit(self.guard(node, "", BufferStore, buffer, stored, where), node)

    # ------------------------------------------------------------------ loops and branches

    def visit_For(self, node: ast.For) -> None:
        if node.orelse:
            self.fail(SYNTAX, "a loop has no else", node.orelse[0])
        value = self.eval(node.iter)
        if isinstance(value, range):
            value = self._range([value.start, value.stop, value.step], cast(ast.Call, node.iter))
        if not isinstance(value, Loops):
            self.fail(
                KIND,
                f"a {type(value).__name__} is no loop",
                node.iter,
                hint="loops are range, T.grid, T.serial, T.parallel, T.vectorized, T.unroll, T.thread_binding",
            )
        self._loops(value, node.target, node.body, node)

    def _loops(self, loops: Loops, target: ast.expr | None, statements: Sequence[ast.stmt], node: ast.AST) -> None:
        """Nest loops around a body."""
        targets = list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]
        count = len(loops.loops)
        if len(targets) not in (count, 1):
            self.fail(KIND, f"found {len(targets)} loop variables for {count} loops", target or node)
        names = [element.id if isinstance(element, ast.Name) else "" for element in targets]
        if len(names) != count:
            names = [f"{names[0] or 'i'}_{i}" for i in range(count)]
        variables = [Var(name, loop.extent.dtype) for name, loop in zip(names, loops.loops, strict=True)]
        values: list[PrimExpr] = [
            var if loop.step == 1 else loop.start + var * loop.step
            for var, loop in zip(variables, loops.loops, strict=True)
        ]
        with self.scopes.frame():
            if len(targets) == count and target is not None:
                for element, value in zip(targets, values, strict=True):
                    assert element is not None
                    self.bind_pattern(element, value, lambda name, item: self.scopes.define(name.id, item))
            elif target is not None:
                self.bind_pattern(target, tuple(values), lambda name, item: self.scopes.define(name.id, item))
            self.loops.update(zip(variables, loops.loops, strict=True))
            stmt = self.body(statements)
            for var in variables:
                del self.loops[var]
        for var, loop in zip(reversed(variables), reversed(loops.loops), strict=True):
            low = loop.start if loop.step == 1 else convert(0)
            stmt = self.guard(
                node, "", For, var, low, loop.extent, loop.kind, stmt, loop.annotations, loop.thread,
                span=self.span(node),
            )  # fmt: skip
        self.emit(stmt, node)

    def visit_While(self, node: ast.While) -> None:
        if node.orelse:
            self.fail(SYNTAX, "a loop has no else", node.orelse[0])
        condition = self.condition(node.test)
        self.emit(While(convert(condition), self.body(node.body)), node)

    def visit_If(self, node: ast.If) -> None:
        condition = self.condition(node.test)
        if not isinstance(condition, PrimExpr):  # known at parse time: only the branch taken is parsed
            for statement in node.body if condition else node.orelse:
                self.visit(statement)
            return
        then_case = self.body(node.body)
        else_case = self.body(node.orelse) if node.orelse else None
        self.emit(IfThenElse(condition, then_case, else_case), node)

    def visit_Assert(self, node: ast.Assert) -> None:
        message = "" if node.msg is None else self.eval(node.msg)
        text = message.value if isinstance(message, StringImm) else str(message)
        condition = convert(self.condition(node.test))
        self.emit_scope(EnclosingStmt(lambda body, span: AssertStmt(condition, text, body, span=span)), node)

    # ------------------------------------------------------------------ with

    def visit_With(self, node: ast.With) -> None:
        self._with(list(node.items), node.body, node)

    def _with(self, items: list[ast.withitem], statements: Sequence[ast.stmt], node: ast.With) -> None:
        head, *rest = items
        target = head.optional_vars
        if target is None:
            value = self.eval(head.context_expr)
        else:
            with self.naming(target):
                value = self.eval(head.context_expr)
        inside: Sequence[ast.stmt] = statements
        if rest:
            inside = [ast.copy_location(ast.With(rest, list(statements)), rest[0].context_expr)]
        match value:
            case Loops():
                self._loops(value, target, inside, node)
            case BlockFrame():
                self._block(value, target, inside, node)
            case InitFrame():
                frame = self.block("T.init()")
                if frame.init is not None:
                    self.fail(DECLARATION, f"block `{frame.name}` has two inits", node)
                frame.init = self.body(inside)
            case EnclosingStmt():
                with self.scopes.frame():
                    if target is not None:
                        self.bind_pattern(target, value.value, lambda name, item: self.scopes.define(name.id, item))
                    self.emit(value.wrap(self.body(inside), self.span(node)), node)
            case _:
                self.fail(KIND, f"a {type(value).__name__} cannot stand in a with", head.context_expr)

    def _block(self, frame: BlockFrame, target: ast.expr | None, statements: Sequence[ast.stmt], node: ast.AST) -> None:
        if target is not None:  # ``with T.block("B") as [vi, vj]`` of before 0.9
            self.fail(SYNTAX, "a block binds no name; declare its axes inside with T.axis", target)
        frame.depth = len(self.bodies) + 1
        self.frames.append(frame)
        buffer_count = len(self.buffers)
        try:
            body = self.body(statements)
        finally:
            self.frames.pop()
        missing = (frame.reads is None) + 2 * (frame.writes is None)
        block = Block(
            tuple(frame.iter_vars),
            frame.reads or (),
            frame.writes or (),
            frame.name,
            body,
            frame.init,
            alloc_buffers=tuple(frame.alloc_buffers),
            match_buffers=tuple(frame.match_buffers),
            annotations=frame.annotations,
            span=self.span(node),
        )
        is_root = not frame.iter_vars and frame.name == "root" and not self.frames
        if missing and not is_root:
            block = complete_block(block, self.buffers[:buffer_count], missing)
        values = {v.var: value for v, value in zip(frame.iter_vars, frame.iter_values, strict=True)}
        # A predicate written over the block's variables is one over the loops'.
        self.emit(BlockRealize(tuple(frame.iter_values), substitute(frame.predicate, values), block), node)

    # ------------------------------------------------------------------ the rest

    def visit_Expr(self, node: ast.Expr) -> None:
        if is_docstring(node):
            return
        value = self.eval(node.value)
        match value:
            case None | BlockFrame():
                pass
            case Stmt():
                self.emit(value, node)
            case Precondition():
                self._precondition(value, node)
            case EnclosingStmt():
                self.emit_scope(value, node)
            case PrimExpr():
                self.emit(Evaluate(value), node)
            case Loops() | InitFrame():
                self.fail(SYNTAX, "this opens a body: write `for` or `with`", node)
            case _:
                self.fail(KIND, f"a {type(value).__name__} is no statement", node)

    def _precondition(self, precondition: Precondition, node: ast.AST) -> None:
        if len(self.bodies) != 1 or self.bodies[0].items:
            hint = "write it at the top of the function, below T.match_buffer and T.func_attr"
            self.fail(PLACE, "a precondition stands before all statements of the function", node, hint=hint)
        self.preconditions.append(precondition.replace(span=self.span(node)))

    def visit_Return(self, node: ast.Return) -> None:
        if LINKAGE in self.attrs:
            self.emit(Evaluate(self._returned(node)), node)
            return
        if node.value is not None:
            self.fail(PLACE, "a PrimFunc returns nothing: results are written to the buffers of its parameters", node)
        if len(self.bodies) != 1:
            self.fail(PLACE, "a PrimFunc cannot return from inside a loop, branch or block", node)

    def _returned(self, node: ast.Return) -> Call:
        """Return statement of a plain function, whose value takes the function's return type."""
        if (node.value is None) != (self.ret_type is None):
            wanted = "nothing" if self.ret_type is None else f"a {self.ret_type}"
            self.fail(KIND, f"the function returns {wanted}", node)
        if node.value is None or self.ret_type is None:
            return ret()
        value = pointers(self.eval(node.value))
        return ret(self.guard(node, "", stored_value, value, DataType(self.ret_type), "the result"))

    def visit_Break(self, node: ast.Break) -> None:
        self._jump(node, pointer_intrinsics.break_loop, "break")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._jump(node, pointer_intrinsics.continue_loop, "continue")

    def _jump(self, node: ast.stmt, build: Callable[[], Call], word: str) -> None:
        if LINKAGE not in self.attrs:
            self.fail(SYNTAX, f"{word} cannot be used here", node)
        self.emit(Evaluate(build()), node)


def _subscripts(buffer: Buffer, indices: Any) -> tuple[PrimExpr, ...]:
    items = as_tuple(indices)
    if any(isinstance(item, slice) for item in items):
        return vector_indices(buffer, items)
    return tuple(convert(item) for item in items)


def _has_block(stmt: Stmt) -> bool:
    blocks: list[Stmt] = []

    def visit(node: object) -> bool:
        if isinstance(node, BlockRealize):
            blocks.append(node)
        return not blocks and not isinstance(node, PrimExpr)

    pre_order_visit(stmt, cast(Callable[[Any], bool], visit))
    return bool(blocks)


__all__ = ["TirParser"]
