"""Give every binding a variable of its own.

    for i in range(4):                  for i in range(4):
        A[i] = x                            A[i] = x
    for i in range(4):       gives      for i_1 in range(4):
        B[i] = y                            B[i_1] = y

The two loops on the left bind the same variable object. A variable or buffer bound a second time, in the same or
another function of the module, is replaced by a new object of the same name there and at its uses. The first binding
keeps the object.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, TypeVar

from ...ir import BaseFunc, GlobalVar, IRModule, Node, fields_of
from ...ir.transform import module_pass
from ...prim import Let, PrimExpr, SizeVar, Var
from ..buffer import Buffer, CommReducer, IterVar, Reduce
from ..functor import StmtExprMutator
from ..stmt import AllocBuffer, AttrStmt, Block, BlockRealize, DeclBuffer, For, LetStmt, PrimFunc, Stmt
from ..usage import shape_vars_bound_by

N = TypeVar("N", bound=Node)


def convert_ssa(func: PrimFunc, bound: set[Any] | None = None) -> PrimFunc:
    """Return the function with every variable and buffer bound once, and none in `bound`, which is extended."""
    return _Conversion(set() if bound is None else bound).visit(func)


@module_pass(name="ConvertSSA")
def ConvertSSA(mod: IRModule) -> IRModule:
    """Give every binding in the module a variable of its own."""
    bound: set[Any] = set()
    functions: dict[GlobalVar, BaseFunc] = {}
    for global_var, func in mod.functions.items():
        functions[global_var] = convert_ssa(func, bound) if isinstance(func, PrimFunc) else func
    return mod.with_functions(functions)


class _Conversion(StmtExprMutator):
    def __init__(self, bound: set[Any]) -> None:
        super().__init__()
        self.bound = bound
        self.renamed: dict[Var, Var] = {}
        self.in_scope: set[Var] = set()

    # ------------------------------------------------------------------ scopes

    @contextmanager
    def scope(self, variables: Iterable[Var] = ()) -> Generator[None]:
        """Context manager: bind variables; previous bindings are restored at its end."""
        before = dict(self.renamed), dict(self._buffers), set(self.in_scope)
        for var in variables:
            self.bind(var)
        try:
            yield
        finally:
            self.renamed, self._buffers, self.in_scope = before

    def bind(self, var: Var) -> None:
        self.in_scope.add(var)
        if var not in self.bound:
            self.bound.add(var)
            self.renamed.pop(var, None)
            return
        new = (SizeVar if var.nonnegative else Var)(var.name, var.dtype, span=var.span)
        self.bound.add(new)
        self.renamed[var] = new

    def open(self, buffer: Buffer, with_pointer: bool = True) -> None:
        """Bind a buffer, and its data variable."""
        if with_pointer:
            self.bind(buffer.data)
        self._buffers[buffer] = buffer
        rebuilt = self.visit_children(buffer)
        if rebuilt is buffer and buffer in self.bound:
            rebuilt = Buffer(**dict(fields_of(buffer)), span=buffer.span)
        self.bound.add(rebuilt)
        self._buffers[buffer] = rebuilt

    def open_parameter(self, buffer: Buffer) -> None:
        """Bind a buffer, and the variables in its sizes, strides and offset."""
        for var in shape_vars_bound_by(buffer):
            if var not in self.in_scope:
                self.bind(var)
        if buffer not in self._buffers:
            self.open(buffer, with_pointer=buffer.data not in self.in_scope)

    def define_buffer(self, buffer: Buffer) -> None:
        """Do nothing: the methods below have bound the buffer already."""

    def visit_Var(self, node: Var) -> PrimExpr:
        return self.renamed.get(node, node)

    # ------------------------------------------------------------------ binders

    def visit_PrimFunc(self, node: PrimFunc) -> PrimFunc:
        with self.scope(node.params):
            for buffer in node.buffer_map.values():
                for var in shape_vars_bound_by(buffer):
                    if var not in self.in_scope:
                        self.bind(var)
            for buffer in node.buffer_map.values():
                self.open_parameter(buffer)
            return self.visit_children(node)

    def visit_For(self, node: For) -> Stmt:
        low, extent = self.visit(node.min), self.visit(node.extent)
        with self.scope((node.loop_var,)):
            var = self.visit(node.loop_var)
            return node.replace(loop_var=var, min=low, extent=extent, body=self.visit(node.body))

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.visit(node.value)
        with self.scope((node.var,)):
            return node.replace(var=self.visit(node.var), value=value, body=self.visit(node.body))

    def visit_Let(self, node: Let) -> PrimExpr:
        value = self.visit(node.value)
        with self.scope((node.var,)):
            return node.replace(var=self.visit(node.var), value=value, body=self.visit(node.body))

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if not isinstance(node.node, IterVar):
            return self.visit_children(node)
        with self.scope((node.node.var,)):
            return self.visit_children(node)

    def visit_Reduce(self, node: Reduce) -> PrimExpr:
        with self.scope(axis.var for axis in node.axis):
            return self.visit_children(node)

    def visit_CommReducer(self, node: CommReducer) -> CommReducer:
        with self.scope((*node.lhs, *node.rhs)):
            return self.visit_children(node)

    def visit_AllocBuffer(self, node: AllocBuffer) -> Stmt:
        with self.scope():
            self.open(node.buffer)
            return self.visit_children(node)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        with self.scope():
            self.open(node.buffer, with_pointer=False)
            return self.visit_children(node)

    def visit_BlockRealize(self, node: BlockRealize) -> Stmt:
        values = self.visit_all(node.iter_values)
        predicate = self.visit(node.predicate)
        return node.replace(iter_values=values, predicate=predicate, block=self.visit(node.block))

    def visit_Block(self, node: Block) -> Block:
        domains = [None if v.dom is None else self.visit(v.dom) for v in node.iter_vars]
        with self.scope(v.var for v in node.iter_vars):
            axes = tuple(
                v.replace(dom=dom, var=self.visit(v.var)) for v, dom in zip(node.iter_vars, domains, strict=True)
            )
            for buffer in node.alloc_buffers:
                self.open(buffer)
            sources = [self.visit(match.source) for match in node.match_buffers]
            for match in node.match_buffers:
                self.open_parameter(match.buffer)
            views = tuple(
                match.replace(buffer=self.visit(match.buffer), source=source)
                for match, source in zip(node.match_buffers, sources, strict=True)
            )
            return node.replace(
                iter_vars=_kept(node.iter_vars, axes),
                alloc_buffers=self.visit_all(node.alloc_buffers),
                match_buffers=_kept(node.match_buffers, views),
                reads=self.visit_all(node.reads),
                writes=self.visit_all(node.writes),
                init=None if node.init is None else self.visit(node.init),
                body=self.visit(node.body),
            )


def _kept(old: tuple[N, ...], new: tuple[N, ...]) -> tuple[N, ...]:
    """Return `old` if both tuples hold the same objects, else `new`."""
    return old if all(a is b for a, b in zip(old, new, strict=True)) else new
