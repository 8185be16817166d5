"""Outline parallel loops: the body becomes a function of its free variables, called for ranges of iterations.

    for i in T.parallel(8):             T.parallel_for(cls.main_parallel(0, 8, B.data, A.data), 1)
        B[i] = A[i]             gives

        @T.prim_func(private=True)
        def main_parallel(begin: T.int32, end: T.int32, B: T.Buffer((8,)), A: T.Buffer((8,))):
            T.func_attr({"tir.parallel_body": "main"})
            for i in T.serial(begin, end, annotations={"tir.parallel_range": [0, 8]}):
                B[i] = A[i]

Buffers are passed by pointer, written ones first (the call holds their number); scalars and sizes by value. Parallel
loops inside an outlined loop become serial, except those annotated with ``tir.stays_parallel``, which are outlined from
the outer loop's function. The thread pool runs them on several threads if it runs the outer loop on one.

Declines, and makes the loop serial, if the target has one core, if the loop does not start at 0, or if it uses a value
that cannot be passed: a pointer that is neither a parameter nor an allocation, a buffer with an offset, or a buffer
whose size is read from memory. In the last two cases the annotation ``tir.not_parallel`` holds the reason.
"""

from __future__ import annotations

from typing import Any

from ...ir import GlobalVar, IRModule, Node, walk
from ...ir.transform import module_pass
from ...prim import Analyzer, Call, Max, PrimExpr, SizeVar, Var, const, is_const
from ...prim.intrin import parallel_for
from ...target import Target
from ..buffer import Buffer, BufferLoad
from ..functor import StmtMutator
from ..renew import renew_bound_vars
from ..sizes import buffer_limits
from ..stmt import STAYS_PARALLEL, AllocBuffer, DeclBuffer, Evaluate, For, ForKind, PrimFunc, Stmt
from ..usage import Usage, buffer_expressions, undefined_vars
from ..written import written_params

PARALLEL_BODY = "tir.parallel_body"
"""Attribute of an outlined function: the name of its only caller, whose loop it holds, for messages."""

PARALLEL_RANGE = "tir.parallel_range"
"""Annotation of the loop in an outlined function: (start, extent) of the whole loop, of which a call runs a part."""

NOT_PARALLEL = "tir.not_parallel"
"""Annotation of a parallel loop that became serial: the reason."""


def outline_parallel_loops(mod: IRModule, target: Target | None = None) -> IRModule:
    """Return the module with every parallel loop outlined into a function, or made serial."""
    for global_var, func in mod.functions.items():
        if isinstance(func, PrimFunc):
            outliner = _Outliner(mod, global_var.name_hint, func, _runs_in_parallel(target))
            mod = outliner.mod_with(global_var)
    return mod


def _runs_in_parallel(target: Target | None) -> bool:
    """False for a target that is known to have one core."""
    if target is None:
        return True
    return (target.num_cores if target.is_resolved else target.attrs.get("num-cores")) != 1


class _CannotPassError(Exception):
    """Raised if the loop uses a value that cannot be passed to a function; the argument says which."""


class _Outliner(StmtMutator):
    """The rewrite of one function; collects the functions it makes."""

    def __init__(self, mod: IRModule, name: str, func: PrimFunc, in_parallel: bool) -> None:
        super().__init__()
        self.mod, self.name, self.func, self.in_parallel = mod, name, func, in_parallel
        self.analyzer = Analyzer(wraps=True)
        self.owners: dict[Var, Buffer] = {}
        """Parameters and allocations by data variable."""
        for buffer in func.buffer_map.values():
            self.own(buffer)

    def mod_with(self, global_var: GlobalVar) -> IRModule:
        """Return the module with the rewritten function and the functions outlined from it."""
        limits = [limit for buffer in self.func.buffer_map.values() for limit in buffer_limits(buffer)]
        with self.analyzer.limits_scope(limits):
            func = self.func.replace(body=self.visit(self.func.body))
        return self.mod if func is self.func else self.mod.with_function(global_var, func)

    def own(self, buffer: Buffer) -> None:
        self.owners[buffer.data] = buffer

    def visit_AllocBuffer(self, node: AllocBuffer) -> AllocBuffer:
        self.own(node.buffer)
        return self.visit_children(node)

    def visit_For(self, node: For) -> Stmt:
        if node.kind is not ForKind.PARALLEL:
            return self.visit_children(node)
        inside = _Serial(self.in_parallel).visit(node.body)
        serial = node.replace(kind=ForKind.SERIAL, body=inside, annotations=_without_wish(node))
        if not self.in_parallel or serial.annotations:
            return serial.replace(body=self.visit(inside))
        try:
            if not is_const(node.min, 0):
                raise _CannotPassError("it does not start at 0")
            return self.outlined(serial)
        except _CannotPassError as reason:
            return serial.replace(body=self.visit(inside), annotations={NOT_PARALLEL: str(reason)})

    def outlined(self, loop: For) -> Stmt:
        """Return the call that runs the loop; adds the outlined function to the module."""
        dtype = loop.loop_var.dtype
        begin, end = SizeVar("begin", dtype), SizeVar("end", dtype)
        whole = {PARALLEL_RANGE: (loop.min, loop.extent)}
        body: Stmt = loop.replace(min=begin, extent=end - begin, annotations=whole)
        buffers, views = self.captured_buffers(body)
        for view in reversed(views):
            body = DeclBuffer(view, body)
        attrs: dict[str, Any] = {PARALLEL_BODY: self.name}
        if self.func.attrs.get("tir.noalias"):
            attrs["tir.noalias"] = True
        handles = {Var(buffer.name, "handle"): buffer for buffer in buffers}
        func = PrimFunc((begin, end, *handles), body, buffer_map=handles, attrs=attrs, span=loop.span)
        written = {func.params[i] for i in written_params(func)}
        handles = dict(sorted(handles.items(), key=lambda item: item[0] not in written))
        func = func.replace(params=(begin, end, *handles), buffer_map=handles)
        scalars = undefined_vars(func)
        for var in scalars:
            if var.dtype.is_handle and not self.is_bare_pointer(var):
                raise _CannotPassError(f"the pointer {var.name} is neither a parameter nor an allocation")
        func = renew_bound_vars(func.replace(params=(*func.params, *scalars)))
        callee = GlobalVar(self.unused_name())
        self.mod = self.mod.with_function(callee, func)
        self.mod = _Outliner(self.mod, self.name, func, self.in_parallel).mod_with(callee)
        arguments = (const(0, dtype), self.at_least_0(loop.extent), *(b.data for b in handles.values()), *scalars)
        return Evaluate(parallel_for(Call("", callee, arguments), len(written)), span=loop.span)

    def captured_buffers(self, body: Stmt) -> tuple[list[Buffer], list[Buffer]]:
        """Return the buffers to pass as arguments, and the views of passed memory to declare again."""
        passed: dict[Buffer, None] = {}
        views: list[Buffer] = []
        usage = Usage(body)
        for buffer in usage.undefined_buffers():
            owner = self.owners.get(buffer.data)
            if owner is not buffer:
                views.append(buffer)
            if any(_reads_memory(expr) for expr in buffer_expressions(buffer)):
                raise _CannotPassError(f"a size of buffer {buffer.name} is read from memory")
        for var in usage.undefined_vars():
            if var in self.owners:
                passed[self.owners[var]] = None
        for buffer in passed:
            if buffer.elem_offset is not None:
                raise _CannotPassError(f"buffer {buffer.name} has an offset")
            if any(map(_reads_memory, buffer_expressions(buffer))):
                raise _CannotPassError(f"a size of buffer {buffer.name} is read from memory")
        return list(passed), views

    def is_bare_pointer(self, var: Var) -> bool:
        return any(var is param for param in self.func.params) and var not in self.func.buffer_map

    def at_least_0(self, extent: PrimExpr) -> PrimExpr:
        """Return the end of the range: a loop with a negative extent has no iteration."""
        return self.analyzer.simplify(Max(extent, const(0, extent.dtype)))

    def unused_name(self) -> str:
        """Return a function name that the module does not contain."""
        candidate, number = f"{self.name}_parallel", 0
        while candidate in self.mod:
            number += 1
            candidate = f"{self.name}_parallel_{number}"
        return candidate


class _Serial(StmtMutator):
    """Makes parallel loops serial, unless they are to stay parallel."""

    def __init__(self, some_stay: bool) -> None:
        super().__init__()
        self.some_stay = some_stay

    def visit_For(self, node: For) -> For:
        rewritten = self.visit_children(node)
        if rewritten.kind is not ForKind.PARALLEL or (self.some_stay and STAYS_PARALLEL in rewritten.annotations):
            return rewritten
        return rewritten.replace(kind=ForKind.SERIAL, annotations=_without_wish(rewritten))


def _without_wish(loop: For) -> dict[str, Any]:
    """Return a loop's annotations without `STAYS_PARALLEL`."""
    return {key: value for key, value in loop.annotations.items() if key != STAYS_PARALLEL}


def _reads_memory(expr: PrimExpr) -> bool:
    reads: list[Node] = []
    walk(expr, lambda node: reads.append(node) if isinstance(node, (BufferLoad, Call)) else None)
    return bool(reads)


OutlineParallelLoops = module_pass(outline_parallel_loops, name="OutlineParallelLoops")
"""Pass: outline parallel loops into functions, called by `T.parallel_for`."""
