"""Well-formedness of PrimFuncs. Every violation is reported with its place and a remedy.

E5101  a variable is used where nothing binds it
E5102  a buffer is used outside of the scope of its storage
E5103  a variable is bound twice, one binding inside the other
E5104  loop bounds, block values or conditions of a wrong dtype
E5105  a block realised with a wrong number of values
E5106  the init of a block uses a reduction variable
E5107  a parameter's buffer does not fit its parameter
"""

from __future__ import annotations

from ..ir import Diagnostic, DiagnosticError, IRModule, Node, Span
from ..prim import Call, Let, PrimExpr, Var
from .buffer import Buffer, BufferRegion, IterVar, Range
from .functor import StmtExprVisitor
from .stmt import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
    While,
)
from .usage import buffer_expressions, shape_vars_bound_by, undefined_vars


def well_formed_problems(func: PrimFunc) -> list[Diagnostic]:
    """Return all violations in a function; [] if it is well-formed."""
    checker = _Checker(func)
    checker.function()
    return checker.problems


def verify_well_formed(obj: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """True if a PrimFunc, or every PrimFunc of a module, is well-formed.

    With `assert_mode` (the default), raises DiagnosticError with all violations instead of returning False.
    """
    functions = obj.functions.values() if isinstance(obj, IRModule) else (obj,)
    problems = [p for f in functions if isinstance(f, PrimFunc) for p in well_formed_problems(f)]
    if problems and assert_mode:
        raise DiagnosticError(problems)
    return not problems


class _Checker(StmtExprVisitor):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self.func = func
        self.name = str(func.attrs.get("global_symbol", "a PrimFunc"))
        self.problems: list[Diagnostic] = []
        self.vars: set[Var] = set()
        self.ever: set[Var] = set()
        self.buffers: set[Buffer] = set()
        self.place: Span | None = func.span
        self.reported: set[tuple[str, Node]] = set()

    def report(self, code: str, message: str, about: Node, hint: str = "", once: bool = True) -> None:
        if once and (code, about) in self.reported:
            return
        self.reported.add((code, about))
        span = about.span if about.span is not None and not about.__is_variable__ else self.place
        label = "" if span is not None else f"in {self.name}"
        self.problems.append(Diagnostic(code, f"{self.name}: {message}", span, label, hint=hint))

    # ------------------------------------------------------------------ scopes

    def bind(self, var: Var) -> None:
        if var in self.vars:
            self.report(
                "E5103",
                f"the variable {var.name} is bound again inside its own scope",
                var,
                "make a new variable; two may have one name",
            )
        self.vars.add(var)
        self.ever.add(var)

    def unbind(self, *variables: Var) -> None:
        self.vars.difference_update(variables)

    def open(self, buffer: Buffer, pointer: bool) -> list[Var]:
        """Open a buffer's scope; returns the variables it binds."""
        bound: list[Var] = []
        if pointer and buffer.data not in self.vars:
            self.bind(buffer.data)
            bound.append(buffer.data)
        self.buffers.add(buffer)
        for expr in buffer_expressions(buffer):
            self.visit(expr)
        return bound

    # ------------------------------------------------------------------ the function

    def function(self) -> None:
        func = self.func
        for param in func.params:
            self.bind(param)
        for param, buffer in func.buffer_map.items():
            if param not in set(func.params):
                self.report("E5107", f"{param.name} has a buffer, but is no parameter", param)
            elif not param.dtype.is_handle:
                self.report(
                    "E5107", f"parameter {param.name} has a buffer, but is a {param.dtype!s}", param,
                    "make it a T.handle",
                )  # fmt: skip
            for var in shape_vars_bound_by(buffer):
                if var not in self.vars:
                    self.bind(var)
        for buffer in func.buffer_map.values():
            self.open(buffer, pointer=True)
        for precondition in func.preconditions:
            self.condition("a precondition", precondition.condition)
        self.visit(func.body)

    def visit(self, node: Node) -> None:
        if isinstance(node, Stmt) and node.span is not None:
            outer, self.place = self.place, node.span
            super().visit(node)
            self.place = outer
        else:
            super().visit(node)

    # ------------------------------------------------------------------ uses

    def visit_Var(self, node: Var) -> None:
        if node in self.vars:
            return
        hint = "its scope has ended" if node in self.ever else "make it a parameter, or a size of one's buffer"
        self.report("E5101", f"the variable {node.name} is not bound here", node, hint)

    def visit_Buffer(self, node: Buffer) -> None:
        if node in self.buffers:
            return
        self.report(
            "E5102", f"the buffer {node.name} is not in scope here", node,
            "allocate it in a block around every use, or match it to a parameter",
        )  # fmt: skip

    def visit_Let(self, node: Let) -> None:
        self.visit(node.value)
        self.bind(node.var)
        self.visit(node.body)
        self.unbind(node.var)

    def visit_Call(self, node: Call) -> None:
        for arg in node.args:
            self.visit(arg)

    # ------------------------------------------------------------------ statements

    def integer(self, subject: str, *exprs: PrimExpr) -> None:
        for expr in exprs:
            if not expr.dtype.is_integer or expr.dtype.lanes != 1:
                self.report("E5104", f"{subject} has dtype {expr.dtype!s}, expected an integer", expr)
            self.visit(expr)

    def condition(self, subject: str, expr: PrimExpr) -> None:
        if not expr.dtype.is_bool or expr.dtype.lanes != 1:
            self.report("E5104", f"{subject} has dtype {expr.dtype!s}, expected bool", expr)
        self.visit(expr)

    def visit_For(self, node: For) -> None:
        self.integer(f"a bound of loop {node.loop_var.name}", node.min, node.extent)
        for bound in (node.min, node.extent):
            if bound.dtype.is_integer and bound.dtype != node.loop_var.dtype:
                self.report(
                    "E5104",
                    f"loop {node.loop_var.name} is {node.loop_var.dtype!s}, its bound is {bound.dtype!s}",
                    bound,
                    f'cast the bound: T.Cast("{node.loop_var.dtype!s}", ...)',
                )
        self.bind(node.loop_var)
        self.visit(node.body)
        self.unbind(node.loop_var)

    def visit_While(self, node: While) -> None:
        self.condition("the condition of a loop", node.condition)
        self.visit(node.body)

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        self.condition("a condition", node.condition)
        self.visit(node.then_case)
        if node.else_case is not None:
            self.visit(node.else_case)

    def visit_AssertStmt(self, node: AssertStmt) -> None:
        self.condition("an assertion", node.condition)
        self.visit(node.body)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.visit(node.value)
        if node.var.dtype != node.value.dtype:
            self.report("E5104", f"{node.var.name} is {node.var.dtype!s}, its value is {node.value.dtype!s}", node)
        self.bind(node.var)
        self.visit(node.body)
        self.unbind(node.var)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        self.visit(node.value)
        thread = node.node.var if isinstance(node.node, IterVar) else None
        if thread is not None:
            self.bind(thread)
        self.visit(node.body)
        if thread is not None:
            self.unbind(thread)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.visit_children(node)

    def visit_AllocBuffer(self, node: AllocBuffer) -> None:
        bound = self.open(node.buffer, pointer=True)
        self.visit(node.body)
        self.buffers.discard(node.buffer)
        self.unbind(*bound)

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        self.visit(node.buffer.data)
        self.open(node.buffer, pointer=False)
        self.visit(node.body)
        self.buffers.discard(node.buffer)

    # ------------------------------------------------------------------ blocks

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        block = node.block
        if len(node.iter_values) != len(block.iter_vars):
            self.report(
                "E5105",
                f"block {block.name_hint} has {len(block.iter_vars)} variables, "
                f"but is given {len(node.iter_values)} values",
                block,
                "give one value for each variable",
            )
        for value in node.iter_values:
            self.visit(value)
        for iter_var in block.iter_vars:
            if iter_var.dom is not None:
                self.visit(iter_var.dom)
        self.condition(f"the predicate of block {block.name_hint}", node.predicate)
        for iter_var in block.iter_vars:
            self.bind(iter_var.var)
        self.block(block)
        self.unbind(*(iter_var.var for iter_var in block.iter_vars))

    def block(self, block: Block) -> None:
        bound: list[Var] = []
        for buffer in block.alloc_buffers:
            bound += self.open(buffer, pointer=True)
        for match in block.match_buffers:
            self.visit(match.source)
            for var in shape_vars_bound_by(match.buffer):
                if var not in self.vars:
                    self.bind(var)
                    bound.append(var)
            bound += self.open(match.buffer, pointer=True)
        for region in (*block.reads, *block.writes):
            self.visit(region)
        if block.init is not None:
            reducing = {v.var for v in block.iter_vars if v.iter_type == "reduce"}
            for var in undefined_vars(block.init):
                if var in reducing:
                    self.report(
                        "E5106",
                        f"the init of block {block.name_hint} uses the reduction variable {var.name}",
                        block.init,
                        "the init runs once, before the reduction: index it by the spatial variables only",
                    )
            self.visit(block.init)
        self.visit(block.body)
        self.buffers.difference_update(block.alloc_buffers, (m.buffer for m in block.match_buffers))
        self.unbind(*bound)

    def visit_BufferRegion(self, node: BufferRegion) -> None:
        self.visit(node.buffer)
        if len(node.region) != node.buffer.ndim:
            self.report(
                "E5104",
                f"a region of {node.buffer.name} has {len(node.region)} dimensions, expected {node.buffer.ndim}",
                node,
            )
        for item in node.region:
            self.visit(item)

    def visit_Range(self, node: Range) -> None:
        self.integer("a bound of a range", node.min, node.extent)
